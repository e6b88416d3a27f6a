// Paper: the published tables and figures beside simulated ones.

import { connection, jsonLines, Problem } from "../api.js";
import { docsLink } from "../docs-link.js";
import { h, replace } from "../dom.js";
import { nonBreaking, number, percent } from "../format.js";
import { card, fact, legendEntries, screenHead } from "../layout.js";
import { failed } from "../placeholders.js";
import { SERIES } from "../policy-colours.js";
import { segmentedControl } from "../segmented-control.js";
import { drawLockIn, drawOverTime, drawPublished } from "./charts.js";
import { formatFigure, METRICS } from "./labels.js";
import { progressCard } from "./progress.js";
import { coverageTable, publishedTable } from "./tables.js";

const CHARTED = ["regret", "compensation", "compensated_pulls"];
let cached = null; // the reproduction, until the page is reloaded

export async function show(root, { signal }) {
  const content = h("div.stack");
  replace(
    root,
    screenHead("The paper, reproduced", [
      "Liu, Wang, Shen, Liu and Chen (AAAI 2020) study payments for exploration when paid " +
        "visitors rate higher. This screen compares every published number with the range " +
        "of a single simulated run. More: ",
      docsLink("explanation/reproduction.md"),
    ]),
    content,
  );
  await fill(content, signal);
}

async function fill(content, signal) {
  const progress = progressCard();
  replace(content, cached === null && progress.node);
  const retry = () => fill(content, signal);
  try {
    cached ??= await reproduce(progress.update, signal);
    replace(content, sections(cached));
  } catch (problem) {
    if (signal.aborted) return;
    replace(content, h("div.card", failed(problem, retry)));
    if (problem.status === 0) connection.addEventListener("back", retry, { once: true, signal });
  }
}

async function reproduce(update, signal) {
  for await (const line of jsonLines("GET", "/v1/paper", undefined, { signal })) {
    update(line);
    if (line.kind === "failed") throw new Problem(500, line.title, line.detail);
    if (line.kind === "paper") return line;
  }
  throw new Problem(0, "The connection was lost", "The reproduction did not finish. Try again.");
}

function sections(paper) {
  const covered = (policy, setup) => {
    const row = paper.coverage.find((each) => each.policy === policy && each.setup === setup);
    return `${row.inside} of ${row.published}`;
  };
  const run = (policy, setup) =>
    paper.ran.find((each) => each.policy === policy && each.setup === setup);
  const rounds = (policy, setup) => `${number(run(policy, setup).horizon)} rounds`;
  return [
    h(
      "ul.paper-cards",
      finding(
        covered("ucb", "published"),
        "published values of UCB are in the range of one run of " +
          `${rounds("ucb", "published")}; ${covered("ucb", "written")} in that of ` +
          `${rounds("ucb", "written")}.`,
      ),
      finding(
        covered("thompson_sampling", "written"),
        "published values of Thompson sampling are in the range of one run of the paper's " +
          "Algorithm 4.",
      ),
      finding(
        covered("thompson_sampling", "published"),
        "published values of Thompson sampling are in range if 1/(n+1) is the standard deviation " +
          "instead of the variance.",
      ),
    ),
    section(
      "Settings of the published runs",
      "How many of a policy's 21 published values are between the 5 % and 95 % quantiles of " +
        "our runs. About 19 of 21 single runs would be; averages of many runs would all be " +
        "near the middle.",
      coverageTable(paper),
      h(
        "p.note",
        "“As written”: the paper's algorithms over 20,000 rounds, starting with each item " +
          "once. “Best fit”: the set-up, of those we tried, with most values in range. " +
          `${number(paper.replications)} runs per cell, seed ${paper.seed}.`,
      ),
    ),
    publishedCharts(paper),
    section("Table 1: regret and compensation", KEY, publishedTable(1, paper.table1, paper)),
    section(
      "Table 2: paid pulls, and the error of the best item's average",
      KEY,
      publishedTable(2, paper.table2, paper),
    ),
    overTime(paper),
    lockIn(paper),
    greedy(paper),
  ];
}

const KEY =
  "Bold: published value. Below: our median, and in small print the 5 to 95 % range of our " +
  "runs. ✓ The published value is in that range. ✗ It is not.";

function finding(value, text) {
  return h("li.card", h("strong", value), h("p", text));
}

function section(title, text, ...children) {
  return card(null, title, nonBreaking(text), children);
}

/** Charts side by side, one for each metric: their nodes by metric, and the whole. */
function metricCharts(metrics, kind) {
  const charts = metrics.map((metric) => ({ metric, node: h("div.chart") }));
  const figures = charts.map(({ metric, node }) =>
    h("figure", h("figcaption", METRICS[metric]), node),
  );
  return { charts, node: h("div", { class: kind }, figures) };
}

function publishedCharts(paper) {
  const { charts, node: figures } = metricCharts(CHARTED, "paper-three");
  const show = (policy) =>
    charts.forEach(({ metric, node }) => drawPublished(node, paper, policy, metric));
  const node = section(
    "Published values and single runs",
    "Dots: published. Bands: 5 to 95 % of our runs, grey as written, blue with the best fit.",
    segmentedControl("Policy", paper.policies.map(({ id, name }) => [id, name]), show),
    figures,
  );
  show(paper.policies[0].id);
  return node;
}

function overTime(paper) {
  const { charts, node: figures } = metricCharts(["regret", "compensation"], "paper-two");
  const show = (name) =>
    charts.forEach(({ metric, node }) => drawOverTime(node, paper, name, metric));
  const node = section(
    "Figures 2 and 3: over time",
    "The algorithms as written. Line: median at each round. Bands: 25 to 75 % and 5 to 95 % " +
      "of the runs.",
    segmentedControl(
      "Drift",
      [
        ["figure_2", "Figure 2: no drift"],
        ["figure_3", "Figure 3: drift 1.1"],
      ],
      show,
    ),
    h("ul.chart-legend", legendEntries(paper.policies.map(({ id, name }) => [SERIES[id], name]))),
    figures,
  );
  show("figure_2");
  return node;
}

function lockIn(paper) {
  const chart = h("div.chart");
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
  const node = section(
    "The published Thompson sampling is not Algorithm 4",
    "Distribution of the final regret without drift.",
    h(
      "div.paper-columns",
      h(
        "div",
        chart,
        h(
          "ul.chart-legend",
          h("li", { vars: { "--series": "var(--ink-faint)" } }, "variance 1/(n+1): Algorithm 4"),
          h(
            "li",
            { vars: { "--series": "var(--series-0)" } },
            "standard deviation 1/(n+1): the published row",
          ),
        ),
      ),
      h(
        "div.paper-text",
        h(
          "p",
          "Algorithm 4 draws each item's value with variance 1/(n+1). Over " +
            `${number(none.horizon)} rounds its mean regret is ${formatFigure(none.mean)} ` +
            `without drift and ${formatFigure(drift.mean)} at drift 1.1. Without drift, 19 runs ` +
            `in 20 exceed ${formatFigure(none.q05)}. The paper reports ` +
            `${formatFigure(none.published)}.`,
        ),
        h(
          "p",
          "With 1/(n+1) as the standard deviation, the policy explores too little. The median " +
            `regret is only ${formatFigure(std.q50)}, but some runs stay on a wrong item: the ` +
            `mean is ${formatFigure(std.mean)}, and 1 run in 20 exceeds ` +
            `${formatFigure(std.q95)}. The mean alone is misleading, and so is a single run.`,
        ),
        h(
          "p",
          "This changes a conclusion. In the paper's tables, the number of paid pulls " +
            "does not depend on the drift. With Algorithm 4 as written, it grows " +
            `${growth.toFixed(1)}-fold from drift 0 to 1.1.`,
        ),
      ),
    ),
  );
  drawLockIn(chart, paper);
  return node;
}

function greedy({ greedy: row }) {
  return section(
    "Without payments",
    "The baseline: visitors choose for themselves.",
    h(
      "div.paper-columns",
      h(
        "p.paper-text",
        nonBreaking(
          "Visitors choose the item with the best average and often stay on a wrong one. The " +
            "paper reports “nearly 6000” as the regret, which matches one run that stays on the " +
            `item with gap 0.3 (0.3 × 20,000), as ${percent(row["stuck_on_0.6"])} of ours do.`,
        ),
      ),
      h(
        "dl.facts",
        fact(`Mean regret of ${number(row.horizon)} rounds`, formatFigure(row.mean)),
        fact("1 run in 20 exceeds", formatFigure(row.q95)),
        fact("Runs that end on the best item", percent(row["stuck_on_0.9"])),
      ),
    ),
  );
}
