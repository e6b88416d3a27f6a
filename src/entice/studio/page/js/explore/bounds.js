// Theoretical bounds of a metric: those that apply, and why others do not.

import { h } from "../dom.js";
import { number } from "../format.js";
import { swatch } from "../layout.js";
import { term } from "../tooltip.js";

const LOWER = "No policy that works in all such worlds does better in the long run.";

/**
 * One entry for each bound and policy. A bound with two versions, as stated and as proved, is shown
 * once: the tighter version that applies and is not vacuous, else any.
 */
export function entries(rows, metric, policies) {
  const found = new Map();
  for (const row of rows) {
    if (row.metric !== metric) continue;
    const entry = {
      ...row,
      policy: policies[row.policy_index],
      usable: row.applies && row.vacuous === false,
      last: row.values.at(-1) ?? null,
    };
    const key = `${row.kind === "lower" ? "" : row.policy_index}/${row.bound}`;
    const other = found.get(key);
    if (other === undefined || better(entry, other)) found.set(key, entry);
  }
  return [...found.values()];
}

function better(one, other) {
  if (one.usable !== other.usable) return one.usable;
  return one.usable && one.last !== null && other.last !== null && one.last < other.last;
}

/** List the bounds of a chart: usable ones with their value, others with a badge and the reason. */
export function boundItems(found, { top, isLog }) {
  return found.filter(isListed).map((entry) =>
    h(
      "li.bound",
      { dataset: { bound: entry.bound, usable: entry.usable } },
      entry.usable ? line(entry) : swatch(entry.policy.series), // only usable bounds have a line
      h("span", name(entry)),
      entry.usable ? value(entry, top, isLog) : badge(entry),
    ),
  );
}

/** Lower bounds hold without drift only; those that do not apply are left out. */
function isListed(entry) {
  return entry.usable || entry.kind === "upper";
}

function line({ kind, policy }) {
  const isLower = kind === "lower";
  return h("span", {
    class: ["bound-line", isLower && "bound-lower"],
    vars: { "--series": isLower ? "var(--ink-faint)" : `var(--series-${policy.series})` },
    "aria-hidden": "true",
  });
}

function name(entry) {
  return entry.kind === "lower" ? entry.bound : `${entry.policy.name}, ${entry.bound}`;
}

function value(entry, top, isLog) {
  const label = entry.kind === "lower" ? "at least" : "at most";
  const beyond = !isLog && entry.last > top;
  const version = entry.version ? ` (${entry.version})` : "";
  const upper = `The mean of all runs stays below this value${version}.`;
  const where = beyond ? " It is above this chart; logarithmic axes show it." : "";
  const text = `${entry.kind === "lower" ? LOWER : upper}${where}`;
  return term(`${label} ${number(entry.last)}${beyond ? " ↑" : ""}`, text, {
    class: "bound-value",
  });
}

function badge(entry) {
  const label = entry.vacuous ? "no useful bound" : "does not apply";
  const reasons = entry.why.length ? entry.why : ["its value is not known"];
  return term(label, `With these settings:\n• ${reasons.join("\n• ")}`, { class: "badge" });
}
