// The plan of a campaign: the range of its spending, and whether the live spending is within it.

import { withAlpha } from "../chart.js";
import { number } from "../format.js";
import { money } from "../money.js";

const DAY = 86_400_000; // milliseconds
// Share of the plan's visitors, and their number, before which chance decides where the line is.
const [MIN_SHARE, MIN_VISITORS] = [0.01, 50];

/** The planned amounts after a number of visitors, interpolated; null after the plan's end. */
export function plannedAt(plan, visitors) {
  const x = [0, ...plan.visitors];
  const after = x.findIndex((at) => at >= visitors);
  if (after < 0) return null;
  const share = after === 0 ? 0 : (visitors - x[after - 1]) / (x[after] - x[after - 1]);
  const at = (column) => {
    const y = [0, ...plan[column]];
    return after === 0 ? 0 : y[after - 1] + share * (y[after] - y[after - 1]);
  };
  return { low: at("low"), typical: at("typical"), high: at("high") };
}

/** Whether a campaign spends as planned: a word, a tone, and a sentence that says what to do. */
export function planVerdict(view, plan) {
  const { decisions, committed } = view;
  const planned = plannedAt(plan, decisions);
  if (decisions === 0) return ["Not started", null, "The plan starts with the first offer."];
  if (planned === null) {
    const last = plan.visitors.at(-1);
    const text = `The plan ended after ${number(last)} visitors. Plan again for more visitors.`;
    return ["Plan ended", null, text];
  }
  const least = Math.max(MIN_VISITORS, Math.ceil(MIN_SHARE * plan.visitors.at(-1)));
  if (decisions < least) {
    const text = `The spending is compared with the plan from ${number(least)} visitors on.`;
    return ["Too early to tell", null, text];
  }
  const range = `${money(Math.floor(planned.low), view)} to ${money(Math.ceil(planned.high), view)}`;
  const state =
    `${money(committed, view)} is committed after ${number(decisions)} visitors; ` +
    `the plan expects ${range}.`;
  if (committed > planned.high)
    return ["Above plan", "badge-warn", `${state} ${limitAdvice(view)}`];
  if (committed < planned.low)
    return ["Below plan", "badge-warn", `${state} Check whether visitors accept and rate.`];
  return ["On plan", "badge-good", `${state} Nothing needs to be done.`];
}

/** What to do about a campaign that spends too much: only limits that it has can be checked. */
function limitAdvice({ spec }) {
  const hasCap = spec.cap_per_offer || spec.cap_per_player;
  const limits = [hasCap && "the caps", spec.pace_over && "the pace"].filter(Boolean);
  if (limits.length === 0) return "Set a pace or a cap, or raise the budget.";
  return `Check ${limits.join(" and ")}, or raise the budget.`;
}

/**
 * Plotly traces of the range and its median.
 * @param {(visitors: number) => any} position on the x axis
 * @param {(amount: number) => number} height on the y axis
 */
export function bandTraces(plan, hex, position, height, label, format) {
  const x = [0, ...plan.visitors].map(position);
  const y = (column) => [0, ...plan[column]].map(height);
  const edge = { x, mode: "lines", line: { width: 0 }, hoverinfo: "skip", showlegend: false };
  return [
    { ...edge, y: y("low") },
    {
      ...edge,
      y: y("high"),
      fill: "tonexty",
      fillcolor: withAlpha(hex, 0.16),
      name: `${label}: 90 % of the plan's runs`,
      showlegend: true,
    },
    {
      x,
      y: y("typical"),
      customdata: [0, ...plan.typical].map(format),
      mode: "lines",
      line: { color: withAlpha(hex, 0.7), width: 1.5, dash: "dashdot" },
      name: `${label}: median of the plan`,
      hovertemplate: "%{customdata} in a typical run of the plan<extra></extra>",
    },
  ];
}

/** The time at which a plan expects a number of visitors, in milliseconds since 1970. */
export function plannedTime(plan, start, visitors) {
  return Date.parse(start) + (DAY * visitors) / plan.visitors_a_day;
}

/** The number of visitors to draw the plan for: not much more than there have been. */
export function plannedSoFar(plan, decisions) {
  const end = Math.max(2.5 * decisions, plan.visitors[0]);
  const shown = plan.visitors.filter((n) => n <= end).length;
  const count = Math.max(1, Math.min(plan.visitors.length, shown + 1));
  const cut = (column) => plan[column].slice(0, count);
  const columns = Object.fromEntries(
    ["visitors", "low", "typical", "high"].map((name) => [name, cut(name)]),
  );
  return { ...plan, ...columns };
}
