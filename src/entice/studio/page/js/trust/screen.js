// Trust: checks of every campaign, replays of event logs, results of the fault tests.

import { connection, get, jsonLines, Problem } from "../api.js";
import { docsLink } from "../docs-link.js";
import { h, replace } from "../dom.js";
import { ago, counted, nonBreaking, number } from "../format.js";
import { fact, screenHead } from "../layout.js";
import { empty, failed, loading } from "../placeholders.js";

const REFRESH = 5000; // milliseconds

export async function show(root, { signal }) {
  const content = h("div.stack", h("div.card", loading("Checking every campaign …")));
  replace(
    root,
    screenHead("Trust", [
      "Live checks of every campaign, replays of its event log, and the results of the fault " +
        "tests. More: ",
      docsLink("explanation/promises.md"),
    ]),
    content,
  );
  const view = await get("/v1/trust", { signal });
  const verdict = h("div", { role: "status" });
  const list = h("ul.trust-campaigns");
  const cards = new Map();
  replace(content, verdict, list, faultTests(view));

  function update({ campaigns }) {
    const newVerdict = overallVerdict(campaigns);
    if (verdict.textContent !== newVerdict.textContent) replace(verdict, newVerdict);
    for (const campaign of campaigns) {
      if (!cards.has(campaign.id)) {
        const card = makeCard(campaign.id, signal);
        cards.set(campaign.id, card);
        list.append(card.node);
      }
      cards.get(campaign.id).update(campaign);
    }
  }

  update(view);
  // Errors are ignored: the banner reports a lost connection.
  const refresh = () => get("/v1/trust", { signal }).then(update, () => {});
  const timer = setInterval(refresh, REFRESH);
  signal.addEventListener("abort", () => clearInterval(timer));
  connection.addEventListener("back", refresh, { signal });
}

/** The result of all checks in one sentence. */
function overallVerdict(campaigns) {
  const all = campaigns.flatMap(({ invariants }) => invariants);
  const broken = all.filter(({ holds }) => !holds).length;
  if (all.length === 0)
    return h(
      "div.card",
      empty(
        "No campaigns yet",
        "Plan a campaign and create it. Its checks then appear here.",
        h("a.button.primary", { href: "#/plan" }, "Plan a campaign"),
      ),
    );
  const text = broken
    ? `${number(broken)} of ${counted(all.length, "check")} failed. Pause the campaign, run ` +
      "`entice verify`, and restore the last backup that passes."
    : `All ${counted(all.length, "check")} passed in ${counted(campaigns.length, "campaign")}.`;
  return h(
    "p",
    { class: ["trust-verdict", broken ? "trust-bad" : "trust-good"] },
    icon(!broken),
    withCode(text),
  );
}

function makeCard(id, signal) {
  const title = h("h2");
  const list = h("ul.invariants");
  const last = h("div.replay-last");
  const bar = h("progress", { max: 1, value: 0, hidden: true, "aria-label": "Events replayed" });
  const button = h("button.small", { type: "button", on: { click: run } }, "Replay now");
  let shown = "";

  async function run() {
    button.disabled = true;
    bar.hidden = false;
    bar.value = 0;
    replace(last, h("p", { role: "status" }, "Replaying every event …"));
    try {
      const path = `/v1/campaigns/${id}/replay`;
      for await (const line of jsonLines("POST", path, undefined, { signal })) {
        if (line.kind === "progress") bar.value = line.done / line.total;
        if (line.kind === "failed") throw new Problem(500, line.title, line.detail);
        if (line.kind === "replay") replace(last, replayResult(line));
      }
    } catch (problem) {
      if (!signal.aborted) replace(last, failed(problem));
    }
    bar.hidden = true;
    button.disabled = false;
  }

  function update({ name, invariants, replay }) {
    const next = JSON.stringify([name, invariants]);
    if (next !== shown) {
      shown = next;
      replace(title, h("a", { href: `#/campaign/${id}` }, name));
      replace(list, invariants.map(invariant));
    }
    if (!button.disabled && !last.querySelector("[role=alert]"))
      replace(last, replayResult(replay));
  }

  const node = h(
    "li.card.trust-card",
    h("header", title),
    list,
    h("div.replay", h("h3", "Last replay"), last, bar, button),
  );
  return { node, update };
}

function invariant({ name, holds, detail }) {
  return h(
    "li",
    { class: holds ? "invariant" : "invariant invariant-broken" },
    icon(holds),
    h(
      "div",
      h(
        "p",
        name,
        h("span.visually-hidden", holds ? ": passed." : ": failed."),
        !holds && h("strong", " Failed"),
      ),
      h("p.note", nonBreaking(detail)),
    ),
  );
}

function replayResult(replay) {
  if (replay === null) return h("p.note", "None since the service started.");
  return h(
    "div",
    { class: ["invariant", !replay.ok && "invariant-broken"] },
    icon(replay.ok),
    h(
      "div",
      h(
        "p",
        `${replay.ok ? "Passed" : "Failed"}: ${number(replay.events)} events, ${ago(replay.at)}`,
      ),
      h("p.note", replay.detail),
    ),
  );
}

/** Text with `code` between backticks. */
function withCode(text) {
  return text.split("`").map((part, i) => (i % 2 ? h("code", part) : part));
}

const MARKS = { good: "✓", warn: "!", bad: "✗" };

/** An icon that differs by its shape, not by its colour alone. */
function icon(good, outdated = false) {
  const tone = !good ? "bad" : outdated ? "warn" : "good";
  const props = { class: ["verdict-icon", `verdict-icon-${tone}`], "aria-hidden": "true" };
  return h("span", props, MARKS[tone]);
}

/** The last long run of each fault test. */
function faultTests({ faults: { trials }, source }) {
  const passed = trials.filter((trial) => trial.passed).length;
  const other = trials.filter((trial) => trial.source !== source).length;
  return h(
    "section.card",
    { "aria-label": "Fault tests" },
    h(
      "header",
      h("h2", "Fault tests"),
      h(
        "p",
        `${number(passed)} of ${counted(trials.length, "long test")} passed. Each has a control, ` +
          "a known fault that the test must detect.",
      ),
      h(
        "p",
        { class: other ? "trials-outdated" : "note" },
        other
          ? `${other === trials.length ? "All" : number(other)} of them ran on other or unknown ` +
              "code, not on the code that this service runs: their results may no longer hold. "
          : "All of them ran on the code that this service runs. ",
        withCode("`make test` runs short versions of all of them."),
      ),
    ),
    h("ul.trials", trials.map((each) => trial(each, source))),
  );
}

function trial({ name, tried, result, control, passed, ...run }, source) {
  const seconds = run.seconds === null ? "" : `, ${number(run.seconds)}\u00a0s`;
  const outdated = run.source !== source;
  const verdict = `${passed ? ": passed" : ": failed"}${outdated ? " on other code" : ""}`;
  return h(
    "li.trial",
    h(
      "h3",
      icon(passed, outdated),
      name.charAt(0).toUpperCase() + name.slice(1),
      h("span.visually-hidden", verdict),
    ),
    h(
      "dl",
      fact("Test", tried),
      fact("Result", result),
      fact("Control", control),
      fact("Run", `${run.date}${seconds}. ${run.machine}.`),
      fact("Code", codeOf(run, source)),
    ),
  );
}

/** The commit that a trial ran on, and whether the service runs the same code. */
function codeOf(run, source) {
  if (run.source === null) return `Commit ${run.commit ?? "unknown"}.`;
  const commit = run.commit === null ? "Commit unknown" : `Commit ${run.commit}`;
  return run.source === source
    ? `${commit}: the code that this service runs.`
    : [`${commit}. `, h("strong", "The code has changed since.")];
}
