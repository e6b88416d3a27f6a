// Alerts: what about a campaign needs attention. The service has the rules.

import { h, replace } from "./dom.js";
import { defined } from "./glossary.js";

const NAMES = {
  invariants_broken: "Data damaged",
  budget_used_up: "Budget used up",
  budget_ahead_of_pace: "Ahead of pace",
  items_without_ratings: "Items without ratings",
  share_who_rate_falling: "Fewer ratings",
  drift_above_plan: "Drift above plan",
  spending_above_plan: "Above plan",
  spending_below_plan: "Below plan",
};
const MOST_BADGES = 2;

/** The name of an alert's rule, in two or three words. */
function alertName({ kind }) {
  return NAMES[kind] ?? kind.replaceAll("_", " ");
}

/** Badges with the names of a campaign's alerts: the most urgent ones, and how many more. */
export function alertBadges(alerts) {
  const more = alerts.length - MOST_BADGES;
  return h(
    "span.alert-badges",
    alerts.slice(0, MOST_BADGES).map((alert) => {
      const tone = alert.kind === "invariants_broken" ? "badge-bad" : "badge-warn";
      return h("span", { class: ["badge", tone], title: alert.message }, alertName(alert));
    }),
    more > 0 && h("span.note", `and ${more} more`),
  );
}

/**
 * A panel with all alerts of a campaign, hidden without alerts.
 * @returns {{node: HTMLElement, update: (alerts: object[]) => void}}
 */
export function alertPanel() {
  const list = h("ul");
  const title = h("h2", defined("alert", "Needs attention"));
  const node = h(
    "section.card.alerts",
    { "aria-label": "Needs attention", role: "status", hidden: true },
    title,
    list,
  );
  let shown = "";
  return {
    node,
    update(alerts = []) {
      const now = JSON.stringify(alerts);
      if (now === shown) return; // so that screen readers do not repeat them
      shown = now;
      node.hidden = alerts.length === 0;
      replace(list, alerts.map(item));
    },
  };
}

function item(alert) {
  const urgent = alert.kind === "invariants_broken" && "alert-urgent";
  return h(
    "li",
    { class: ["alert", urgent] },
    h("strong", alertName(alert)),
    h("span", `${alert.message} `, h("span.alert-todo", alert.todo)),
  );
}
