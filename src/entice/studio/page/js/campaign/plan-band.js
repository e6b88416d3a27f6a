// The plan of a campaign: the range of its spending, and whether the live spending is within it.

import { withAlpha } from "../chart.js";

const DAY = 86_400_000; // milliseconds
const STATUSES = {
  not_started: ["Not started", null],
  too_early: ["Too early to tell", null],
  on_plan: ["On plan", "badge-good"],
  above_plan: ["Above plan", "badge-warn"],
  below_plan: ["Below plan", "badge-warn"],
  ended: ["Plan ended", null],
};

/** In place of the verdict of a campaign without a plan. */
export const NO_PLAN = ["No plan", null, "Create a campaign from a plan to compare them."];

/** Whether a campaign spends as planned: a word, a tone, and a sentence that says what to do. */
export function planVerdict({ plan_status: { status, message, todo } }) {
  return [...STATUSES[status], `${message} ${todo}`];
}

/**
 * Plotly traces of the range and its median.
 * @param {(visitors: number) => any} position on the x axis, of visitors since the start of the plan
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

/**
 * The start of a plan: the number of visitors before it, and its time. Shadow mode pays nothing, so
 * the plan starts when the campaign goes live.
 * @param {{offers: number[], at: string[]}} history points of the spending
 */
export function planStart({ created_at, plan_status: { shadow_visitors: before } }, { offers, at }) {
  const reached = before > 0 ? offers.findLastIndex((count) => count <= before) : -1;
  return { before, time: Date.parse(reached < 0 ? created_at : at[reached]) };
}

/** The time at which a plan that started at a time expects a number of visitors. */
export function plannedTime(plan, start, visitors) {
  return start + (DAY * visitors) / plan.visitors_a_day;
}

/** The plan up to the number of visitors to draw it for: not much more than there have been. */
export function plannedSoFar(plan, visitors) {
  const end = Math.max(2.5 * visitors, plan.visitors[0]);
  const shown = plan.visitors.filter((n) => n <= end).length;
  const count = Math.max(1, Math.min(plan.visitors.length, shown + 1));
  const cut = (column) => plan[column].slice(0, count);
  const columns = Object.fromEntries(
    ["visitors", "low", "typical", "high"].map((name) => [name, cut(name)]),
  );
  return { ...plan, ...columns };
}
