// What theory says of a metric: which bounds can be drawn, and why others say nothing here.

import { h } from "../dom.js";
import { number } from "../format.js";
import { term } from "../tip.js";
import { swatch } from "./swatch.js";

const LOWER = "No policy that works in every such world does better in the long run.";

/**
 * One entry for each bound and policy: of two versions, as stated and as proved, the tighter one that
 * says something; else any.
 */
export function entries(rows, metric, policies) {
  const found = new Map();
  for (const row of rows) {
    if (row.metric !== metric) continue;
    const speaks = row.applies && row.vacuous === false;
    const entry = {
      ...row,
      policy: policies[row.policy_index],
      speaks,
      last: row.values.at(-1) ?? null,
    };
    const key = `${row.kind === "lower" ? "" : row.policy_index}/${row.bound}`;
    const other = found.get(key);
    if (other === undefined || better(entry, other)) found.set(key, entry);
  }
  return [...found.values()];
}

function better(one, other) {
  if (one.speaks !== other.speaks) return one.speaks;
  return one.speaks && one.last !== null && other.last !== null && one.last < other.last;
}

/** The bounds of a chart in words: a value where they speak, a badge with the reason where not. */
export function listed(found, { top, isLog }) {
  return found.filter(told).map((entry) =>
    h(
      "li",
      { class: "bound", dataset: { bound: entry.bound, speaks: entry.speaks } },
      entry.speaks ? line(entry) : swatch(entry.policy.series), // no line that is not in the picture
      h("span", null, name(entry)),
      entry.speaks ? value(entry, top, isLog) : badge(entry),
    ),
  );
}

/** Lower bounds that say nothing here are no news: they are meant for worlds without drift. */
function told(entry) {
  return entry.speaks || entry.kind === "upper";
}

function line({ kind, policy }) {
  const isLower = kind === "lower";
  return h("span", {
    class: ["bound-line", isLower && "bound-lower"],
    vars: { "--colour": isLower ? "var(--ink-faint)" : `var(--series-${policy.series})` },
    "aria-hidden": "true",
  });
}

function name(entry) {
  return entry.kind === "lower" ? entry.bound : `${entry.policy.name}, ${entry.bound}`;
}

function value(entry, top, isLog) {
  const words = entry.kind === "lower" ? "at least" : "at most";
  const beyond = !isLog && entry.last > top;
  const version = entry.version ? `, ${entry.version}` : "";
  const upper = `The average over all runs stays below${version}.`;
  const where = beyond ? " It lies above this picture; logarithmic axes show it." : "";
  const text = `${entry.kind === "lower" ? LOWER : upper}${where}`;
  return term(`${words} ${number(entry.last)}${beyond ? " ↑" : ""}`, text, {
    class: "bound-value",
  });
}

function badge(entry) {
  const words = entry.vacuous ? "vacuous here" : "not claimed here";
  const reasons = entry.why.length ? entry.why : ["its value can't be known"];
  return term(words, `It says nothing here:\n• ${reasons.join("\n• ")}`, { class: "badge" });
}
