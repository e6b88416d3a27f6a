// Trust: what must be true and is, a log made again, and what the service has survived.

import { connection, get, lines, Problem } from "../api.js";
import { h, replace } from "../dom.js";
import { ago, number, tied } from "../format.js";
import { empty, failed, loading } from "../state.js";

const REFRESH = 5000; // milliseconds

export async function show(root, { signal }) {
  const place = h(
    "div",
    { class: "trust-parts" },
    h("div", { class: "card" }, loading("Looking at every campaign …")),
  );
  replace(
    root,
    h(
      "header",
      { class: "screen-head" },
      h(
        "div",
        null,
        h("h1", null, "Trust"),
        h(
          "p",
          { class: "lead" },
          "What must be true at every moment is looked at now. A log can be made again, " +
            "event by event. And what was done to the service stands below.",
        ),
      ),
    ),
    place,
  );
  const told = await get("/v1/trust", { signal });
  const verdict = h("div", { role: "status" });
  const list = h("ul", { class: "trust-campaigns" });
  const cards = new Map();
  replace(place, verdict, list, faults(told.faults));

  function update({ campaigns }) {
    const now = judged(campaigns);
    if (verdict.textContent !== now.textContent) replace(verdict, now);
    for (const campaign of campaigns) {
      if (!cards.has(campaign.id)) {
        const card = makeCard(campaign.id, signal);
        cards.set(campaign.id, card);
        list.append(card.node);
      }
      cards.get(campaign.id).update(campaign);
    }
  }

  update(told);
  const refresh = () => get("/v1/trust", { signal }).then(update, () => {}); // the banner tells of losses
  const timer = setInterval(refresh, REFRESH);
  signal.addEventListener("abort", () => clearInterval(timer));
  connection.addEventListener("back", refresh, { signal });
}

/** All invariants in one sentence. */
function judged(campaigns) {
  const all = campaigns.flatMap(({ invariants }) => invariants);
  const broken = all.filter(({ holds }) => !holds).length;
  if (all.length === 0)
    return h(
      "div",
      { class: "card" },
      empty(
        "No campaign yet",
        "There is nothing to look at until there is one.",
        h("a", { class: "button primary", href: "#/plan" }, "Make a plan"),
      ),
    );
  const said = broken
    ? `${number(broken)} of ${number(all.length)} invariants ` +
      `${broken === 1 ? "is" : "are"} broken. Pause the campaign, run entice verify, and ` +
      "restore the last backup that verifies."
    : `All ${number(all.length)} invariants hold, in ` +
      `${campaigns.length === 1 ? "1 campaign" : `${number(campaigns.length)} campaigns`}.`;
  return h(
    "p",
    { class: ["trust-verdict", broken ? "trust-bad" : "trust-good"] },
    mark(!broken),
    said,
  );
}

function makeCard(id, signal) {
  const title = h("h2");
  const list = h("ul", { class: "invariants" });
  const last = h("div", { class: "replay-last" });
  const bar = h("progress", { max: 1, value: 0, hidden: true, "aria-label": "Events made again" });
  const button = h("button", { type: "button", class: "small", on: { click: run } }, "Replay now");
  let before = "";

  async function run() {
    button.disabled = true;
    bar.hidden = false;
    bar.value = 0;
    replace(last, h("p", { role: "status" }, "Making every event again …"));
    try {
      for await (const line of lines("POST", `/v1/campaigns/${id}/replay`, undefined, { signal })) {
        if (line.kind === "progress") bar.value = line.done / line.total;
        if (line.kind === "failed") throw new Problem(500, line.title, line.detail);
        if (line.kind === "replay") replace(last, replayed(line));
      }
    } catch (problem) {
      if (!signal.aborted) replace(last, failed(problem));
    }
    bar.hidden = true;
    button.disabled = false;
  }

  function update({ name, invariants, replay }) {
    const now = JSON.stringify([name, invariants]);
    if (now !== before) {
      before = now;
      replace(title, h("a", { href: `#/campaign/${id}` }, name));
      replace(list, invariants.map(invariant));
    }
    if (!button.disabled && !last.querySelector("[role=alert]")) replace(last, replayed(replay));
  }

  const node = h(
    "li",
    { class: "card trust-card" },
    h("header", null, title),
    list,
    h("div", { class: "replay" }, h("h3", null, "Last replay"), last, bar, button),
  );
  return { node, update };
}

function invariant({ name, holds, detail }) {
  return h(
    "li",
    { class: holds ? "invariant" : "invariant invariant-broken" },
    mark(holds),
    h(
      "div",
      null,
      h(
        "p",
        null,
        name,
        h("span", { class: "visually-hidden" }, holds ? ": holds." : ": broken."),
        !holds && h("strong", null, " Broken"),
      ),
      h("p", { class: "note" }, tied(detail)),
    ),
  );
}

function replayed(replay) {
  if (replay === null) return h("p", { class: "note" }, "None since the service was started.");
  return h(
    "div",
    { class: ["invariant", !replay.ok && "invariant-broken"] },
    mark(replay.ok),
    h(
      "div",
      null,
      h(
        "p",
        null,
        `${replay.ok ? "Came out the same" : "Did not come out the same"}: ` +
          `${number(replay.events)} events, ${ago(replay.at)}`,
      ),
      h("p", { class: "note" }, replay.detail),
    ),
  );
}

/** A sign that is read by its shape, not by its colour alone. */
function mark(good) {
  return h(
    "span",
    { class: ["sign", good ? "sign-good" : "sign-bad"], "aria-hidden": "true" },
    good ? "✓" : "✗",
  );
}

/** What was done to the service, and what came of it. */
function faults(told) {
  if (told === null) return null;
  const { trials } = told;
  const passed = trials.filter((trial) => trial.passed).length;
  return h(
    "section",
    { class: "card", "aria-label": "Last fault run" },
    h(
      "header",
      null,
      h("h2", null, "Last fault run"),
      h(
        "p",
        null,
        `${number(passed)} of ${number(trials.length)} passed, on ${told.date}, with ` +
          `Entice ${told.entice} (${told.machine}). Each has a control that must fail; ` +
          "otherwise the test would prove nothing.",
      ),
    ),
    h("ul", { class: "trials" }, trials.map(trial)),
    h(
      "p",
      { class: "note" },
      told.note.split("`").map((part, i) => (i % 2 ? h("code", null, part) : part)),
    ),
  );
}

function trial({ name, tried, result, control, passed }) {
  const fact = (term, words) => h("div", null, h("dt", null, term), h("dd", null, words));
  return h(
    "li",
    { class: "trial" },
    h(
      "h3",
      null,
      mark(passed),
      name.charAt(0).toUpperCase() + name.slice(1),
      h("span", { class: "visually-hidden" }, passed ? ": passed" : ": failed"),
    ),
    h("dl", null, fact("Tried", tried), fact("Result", result), fact("The control", control)),
  );
}
