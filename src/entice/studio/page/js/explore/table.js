// The results of a simulation as a table.

import { h, replace, setText } from "../dom.js";
import { number, percent } from "../format.js";
import { swatch } from "../layout.js";
import { scrollableTable } from "../scrollable-table.js";
import { term } from "../tooltip.js";
import { POLICIES } from "./settings.js";

const RUNAWAY =
  "stopped, since payments and ratings raised each other without bound. They count as the worst.";

/** A row for each policy, with its results after the last visitor. */
export class Table {
  constructor() {
    this.body = h("tbody");
    this.title = h("h2", "Results");
    this.note = h("p.note", { role: "status" });
    this.node = h(
      "section.card.table",
      { "aria-label": "Results in numbers" },
      h("header", this.title, h("p", "Median, and below it the 5 to 95 % range of the runs.")),
      scrollableTable("Results, scrollable", h("table", h("thead", head()), this.body)),
      this.note,
    );
  }

  show(snapshot, settings) {
    this.title.textContent = `After ${number(settings.horizon)} visitors`;
    const policies = settings.policies.map((name) => POLICIES[name]);
    replace(
      this.body,
      snapshot.cells.map((cell) => row(cell, policies[cell.policy_index], settings)),
    );
    const stopped = snapshot.cells.filter((cell) => cell.stopped);
    const shares = stopped.map((cell) => {
      const share = percent(cell.stopped / snapshot.replications);
      return `${share} of the runs of ${policies[cell.policy_index].name}`;
    });
    setText(this.note, shares.length ? `${shares.join(", ")}: ${RUNAWAY}` : "");
  }
}

const COLUMNS = {
  Lost: "Regret R(T): how much worse the shown items were than the best, in rating points",
  Paid: "Compensation C(T): total payments, in rating points",
  "Visitors paid": "Rounds with a payment",
  "Saw the best": "Mean share of visitors who were shown the item with the best true mean",
};

function head() {
  return h(
    "tr",
    h("th", { scope: "col" }, "Policy"),
    Object.entries(COLUMNS).map(([name, explanation]) =>
      h("th.number", { scope: "col" }, term(name, explanation)),
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
      "td.number",
      { dataset: { metric: "best" } },
      h("strong", cell.pulls ? percent(cell.pulls[0] / horizon) : "–"),
    ),
  );
}

function range({ q05, q50, q95 }, name) {
  const [low, high] = [q05.at(-1), q95.at(-1) ?? Infinity];
  return h(
    "td.number",
    { dataset: { metric: name } },
    h("strong", number(q50.at(-1) ?? Infinity)),
    h(
      "span.range",
      low === null ? "in all runs" : `${number(low)}\u00a0– ${number(high)}`,
    ),
  );
}
