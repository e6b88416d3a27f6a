// Paper: the published tables and figures, rerun, and what the published numbers ran.

import { connection, lines, Problem } from "../api.js";
import { h, replace } from "../dom.js";
import { number, tied } from "../format.js";
import { choice } from "../segments.js";
import { SERIES } from "../series.js";
import { failed, loading } from "../state.js";
import { drawExplained, drawLockIn, drawOverTime } from "./charts.js";
import { coverage, table } from "./tables.js";
import { figure, METRICS } from "./words.js";

const COUNTED = ["regret", "compensation", "compensated_pulls"];
let kept = null; // the service keeps it too; this spares the way

export async function show(root, { signal }) {
  const place = h("div", { class: "paper-parts" });
  replace(
    root,
    h(
      "header",
      { class: "screen-head" },
      h(
        "div",
        null,
        h("h1", null, "The paper, rerun and explained"),
        h(
          "p",
          { class: "lead" },
          "Liu, Wang, Shen, Liu and Chen (AAAI 2020) pay visitors to try what they would " +
            "not pick, and find that paid visitors rate higher. Here every published " +
            "number stands beside what a single run may give.",
        ),
      ),
    ),
    place,
  );
  await fill(place, signal);
}

async function fill(place, signal) {
  const bar = h("progress", { max: 1, value: 0, "aria-label": "Runs done" });
  const wait = loading("Running the paper's experiments, once for everybody …");
  wait.append(bar);
  replace(place, h("div", { class: "card" }, wait));
  try {
    kept ??= await measured(bar, signal);
    replace(place, parts(kept));
  } catch (problem) {
    if (signal.aborted) return;
    replace(
      place,
      h(
        "div",
        { class: "card" },
        failed(problem, () => fill(place, signal)),
      ),
    );
    if (problem.status === 0)
      connection.addEventListener("back", () => fill(place, signal), { once: true, signal });
  }
}

async function measured(bar, signal) {
  for await (const line of lines("GET", "/v1/paper", undefined, { signal })) {
    if (line.kind === "progress") bar.value = line.done / line.total;
    if (line.kind === "failed") throw new Problem(500, line.title, line.detail);
    if (line.kind === "paper") return line;
  }
  throw new Problem(0, "The answer broke off", "Nothing came after the last progress.");
}

function parts(paper) {
  const covered = (policy, setup) => {
    const row = paper.coverage.find((each) => each.policy === policy && each.setup === setup);
    return `${row.inside} of ${row.published}`;
  };
  const run = (policy, setup) =>
    paper.ran.find((each) => each.policy === policy && each.setup === setup);
  const rounds = (policy, setup) => `${number(run(policy, setup).horizon)} rounds`;
  return [
    h(
      "ul",
      { class: "paper-cards" },
      fact(
        covered("ucb", "published"),
        "published values of UCB lie in the range of one run of " +
          `${rounds("ucb", "published")}; ${covered("ucb", "written")} with ` +
          `${rounds("ucb", "written")}.`,
      ),
      fact(
        covered("thompson_sampling", "written"),
        "published values of Thompson sampling lie in the range of one run of the " +
          "algorithm that the paper writes down.",
      ),
      fact(
        covered("thompson_sampling", "published"),
        "do once 1/(n+1) is read as a standard deviation instead of a variance.",
      ),
    ),
    section(
      "What the published numbers ran",
      "Of 21 published values of each policy, those between the 5 % and the 95 % " +
        "quantile of our runs. Of single runs about 19 would be; averages of many runs " +
        "would all sit in the middle.",
      coverage(paper),
      h(
        "p",
        { class: "note" },
        "“As written”: the paper's algorithms for 20,000 rounds, each item tried once " +
          "first. “Best fit”: of the set-ups that we tried, the one that explains most. " +
          `${number(paper.replications)} runs of each cell, seed ${paper.seed}.`,
      ),
    ),
    explained(paper),
    section("Table 1: regret and compensation", KEY, table(1, paper.table1, paper)),
    section(
      "Table 2: paid pulls, and the error of the best item's average",
      KEY,
      table(2, paper.table2, paper),
    ),
    overTime(paper),
    lockIn(paper),
    greedy(paper),
  ];
}

const KEY =
  "Bold: published. Below it our median and, small, the range that holds nine runs in " +
  "ten. ✓ the published value lies in that range, ✗ it does not.";

function fact(value, words) {
  return h("li", { class: "card" }, h("strong", null, value), h("p", null, words));
}

function section(title, words, ...children) {
  return h(
    "section",
    { class: "card", "aria-label": title },
    h("header", null, h("h2", null, title), h("p", null, tied(words))),
    children,
  );
}

function explained(paper) {
  const charts = COUNTED.map((metric) => ({ metric, node: h("div", { class: "chart" }) }));
  const show = (policy) =>
    charts.forEach(({ metric, node }) => drawExplained(node, paper, policy, metric));
  const made = section(
    "Published values against single runs",
    "Dots: published. Bands: nine runs in ten of ours; grey as written, blue in the " +
      "best-fitting set-up.",
    choice(
      "Policy",
      paper.policies.map(({ id, name }) => [id, name]),
      show,
    ),
    h(
      "div",
      { class: "paper-three" },
      charts.map(({ metric, node }) =>
        h("figure", null, h("figcaption", null, METRICS[metric]), node),
      ),
    ),
  );
  show(paper.policies[0].id);
  return made;
}

function overTime(paper) {
  const charts = ["regret", "compensation"].map((metric) => ({
    metric,
    node: h("div", { class: "chart" }),
  }));
  const show = (name) =>
    charts.forEach(({ metric, node }) => drawOverTime(node, paper, name, metric));
  const made = section(
    "Figures 2 and 3: over time",
    "Line: median of the runs at each round. Bands: half and nine tenths of the runs. " +
      "As the paper writes it.",
    choice(
      "Drift",
      [
        ["figure_2", "Figure 2: no drift"],
        ["figure_3", "Figure 3: drift 1.1"],
      ],
      show,
    ),
    h(
      "ul",
      { class: "legend" },
      paper.policies.map(({ id, name }) =>
        h("li", { vars: { "--series": `var(--series-${SERIES[id]})` } }, name),
      ),
    ),
    h(
      "div",
      { class: "paper-two" },
      charts.map(({ metric, node }) =>
        h("figure", null, h("figcaption", null, METRICS[metric]), node),
      ),
    ),
  );
  show("figure_2");
  return made;
}

function lockIn(paper) {
  const chart = h("div", { class: "chart" });
  const find = (setup, l, metric = "regret") =>
    [...paper.table1, ...paper.table2].find(
      (row) =>
        row.policy === "thompson_sampling" &&
        row.setup === setup &&
        row.l === l &&
        row.metric === metric,
    );
  const [none, drift, std] = [find("written", 0), find("written", 1.1), find("published", 0)];
  const growth =
    find("written", 1.1, "compensated_pulls").mean / find("written", 0, "compensated_pulls").mean;
  const made = section(
    "The Thompson row is not Algorithm 4",
    "The final regret without drift, run by run.",
    h(
      "div",
      { class: "paper-story" },
      h(
        "div",
        null,
        chart,
        h(
          "ul",
          { class: "legend" },
          h("li", { vars: { "--series": "var(--ink-faint)" } }, "variance 1/(n+1): Algorithm 4"),
          h(
            "li",
            { vars: { "--series": "var(--series-0)" } },
            "standard deviation 1/(n+1): the published row",
          ),
        ),
      ),
      h(
        "div",
        { class: "paper-text" },
        h(
          "p",
          null,
          "Algorithm 4 draws each item's value with variance 1/(n+1). Over " +
            `${number(none.horizon)} rounds that costs a regret of ${figure(none.mean)} ` +
            `without drift and ${figure(drift.mean)} at 1.1; nineteen runs in twenty cost ` +
            `more than ${figure(none.q05)}. The paper prints ${figure(none.published)}.`,
        ),
        h(
          "p",
          null,
          "Read as a standard deviation, 1/(n+1) explores too little. The median regret " +
            `is only ${figure(std.q50)}, but some runs lock onto a wrong item for good: the ` +
            `mean is ${figure(std.mean)}, and one run in twenty exceeds ` +
            `${figure(std.q95)}. Means alone mislead here, and so does a single lucky run.`,
        ),
        h(
          "p",
          null,
          "It changes a conclusion, too. By the paper's tables the number of paid pulls " +
            "does not depend on the drift. With Algorithm 4 as written it grows " +
            `${growth.toFixed(1)}-fold from no drift to 1.1.`,
        ),
      ),
    ),
  );
  drawLockIn(chart, paper);
  return made;
}

function greedy({ greedy: row }) {
  return section(
    "Leaving visitors to themselves",
    "The baseline: nobody is paid.",
    h(
      "p",
      { class: "paper-text" },
      tied(
        "Visitors then follow the best average, and often settle on a wrong item. Over " +
          `${number(row.horizon)} rounds that costs a regret of ${figure(row.mean)} on ` +
          `average; one run in twenty exceeds ${figure(row.q95)}, and ` +
          `${Math.round(100 * row["stuck_on_0.9"])} % of the runs end on the best item. The ` +
          "paper observes “nearly 6000”: that fits one run stuck on the item with gap 0.3 " +
          `(0.3 × 20,000), as ${Math.round(100 * row["stuck_on_0.6"])} % of ours are.`,
      ),
    ),
  );
}
