// The result in numbers: a row for each policy.

import { h, replace } from "../dom.js";
import { number, percent } from "../format.js";
import { scroller } from "../scroller.js";
import { term } from "../tip.js";
import { POLICIES } from "./setup.js";
import { swatch } from "./swatch.js";

const RUNAWAY =
  "payments and ratings drove each other up without end. They were stopped, and count as the worst.";

/** What came of it, after the last visitor. Stays the same size while numbers are refined. */
export class Table {
  constructor() {
    this.body = h("tbody");
    this.title = h("h2", null, "In the end");
    this.note = h("p", { class: "note", role: "status" });
    this.node = h(
      "section",
      { class: "card table", "aria-label": "Results in numbers" },
      h(
        "header",
        null,
        this.title,
        h("p", null, "The median of the runs, and below it the range of nine runs in ten."),
      ),
      scroller("Results, scrollable", h("table", null, h("thead", null, head()), this.body)),
      this.note,
    );
  }

  show(picture, setup) {
    this.title.textContent = `After ${number(setup.horizon)} visitors`;
    const policies = setup.policies.map((name) => POLICIES[name]);
    replace(
      this.body,
      picture.cells.map((cell) => row(cell, policies[cell.policy_index], setup)),
    );
    const stopped = picture.cells.filter((cell) => cell.stopped);
    const shares = stopped.map((cell) => {
      const share = percent(cell.stopped / picture.replications);
      return `${share} of the runs of ${policies[cell.policy_index].name}`;
    });
    const text = shares.length ? `${shares.join(", ")}: ${RUNAWAY}` : "";
    if (this.note.textContent !== text) this.note.textContent = text;
  }
}

const COLUMNS = {
  Lost: "Regret R(T): by how much the shown items were worse than the best, in rating points",
  Paid: "Compensation C(T): all payments, in rating points",
  "Visitors paid": "Rounds in which the policy wanted another item than the visitor",
  "Saw the best": "Share of visitors who were shown the truly best item, on average",
};

function head() {
  return h(
    "tr",
    null,
    h("th", { scope: "col" }, "Policy"),
    Object.entries(COLUMNS).map(([words, explanation]) =>
      h("th", { scope: "col", class: "number" }, term(words, explanation)),
    ),
  );
}

function row(cell, policy, { horizon }) {
  const { regret, compensation, compensated_pulls: paid } = cell.metrics;
  return h(
    "tr",
    { dataset: { policy: policy.name } },
    h("th", { scope: "row" }, swatch(policy.series), policy.name),
    range(regret, "lost"),
    range(compensation, "paid"),
    range(paid, "paid-pulls"),
    h(
      "td",
      { class: "number", dataset: { metric: "best" } },
      h("strong", null, cell.pulls ? percent(cell.pulls[0] / horizon) : "–"),
    ),
  );
}

function range({ q05, q50, q95 }, name) {
  const [low, high] = [q05.at(-1), q95.at(-1) ?? Infinity];
  return h(
    "td",
    { class: "number", dataset: { metric: name } },
    h("strong", null, number(q50.at(-1) ?? Infinity)),
    h(
      "span",
      { class: "range" },
      low === null ? "in all runs" : `${number(low)}\u00a0– ${number(high)}`,
    ),
  );
}
