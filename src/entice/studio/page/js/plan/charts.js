// Charts of a forecast: payments per day and the budget, and when the best item leads.

import { colour, draw, token, withAlpha } from "../chart.js";
import { percent } from "../format.js";
import { legendEntries } from "../layout.js";
import { amount, moneyAxis, moneyTemplate } from "../money.js";
import { runsWithin, seriesOf } from "./plan-request.js";

/** The policies that pay. */
function paying({ policies }) {
  return policies.filter(({ needed }) => needed.q95 > 0);
}

/** Total payments at the end of each day without a limit, and the budget as a line. */
export function drawPayments(node, forecast, budget) {
  const { plan } = forecast;
  const paid = paying(forecast);
  const top = Math.max(budget ?? 0, ...paid.map(({ days }) => days.needed_at_confidence.at(-1)), 1);
  const traces = () =>
    paid.flatMap((policy) => {
      const { days, label } = policy;
      const x = [0, ...days.day];
      const hex = colour(seriesOf(plan, policy));
      return [
        {
          x,
          y: [0, ...days.needed_at_confidence],
          mode: "lines",
          line: { width: 0 },
          hoverinfo: "skip",
        },
        {
          x,
          y: [0, ...days.needed_q50],
          mode: "lines",
          line: { color: hex, width: 2.25 },
          fill: "tonexty",
          fillcolor: withAlpha(hex, 0.14),
          hovertemplate: `${label}<br>by day %{x}: ${moneyTemplate("y", plan)}<extra></extra>`,
        },
      ];
    });
  const layout = () => ({
    xaxis: { title: "Day", range: [0, plan.days], showgrid: false, nticks: 7 },
    yaxis: moneyAxis(top, plan),
    shapes: budget === null ? [] : [line(budget, plan.days)],
    annotations: budget === null ? [] : [budgetLabel(plan, budget, top)],
  });
  const text = paid.map(
    ({ label, needed }) => `${label}: ${amount(needed.q50, plan)} in a typical run`,
  );
  const limit = budget === null ? "" : ` The budget is ${amount(budget, plan)}.`;
  return draw(node, traces, layout, {
    label: "Total payments by the end of each day, without a limit",
    text: `${text.join("; ")}.${limit}`,
  });
}

/** The share of runs in which the best item leads, at the end of each day. */
export function drawLeads(node, forecast) {
  const { plan, policies } = forecast;
  const traces = () =>
    policies.map((policy) => ({
      x: policy.days.day,
      y: policy.days.leads,
      mode: "lines",
      line: { color: colour(seriesOf(plan, policy)), width: 2.25 },
      hovertemplate: `${policy.label}<br>day %{x}: %{y:.0%} of the runs<extra></extra>`,
    }));
  const layout = () => ({
    xaxis: { title: "Day", range: [0, plan.days], showgrid: false, nticks: 7 },
    yaxis: { range: [0, 1.02], tickformat: ".0%", nticks: 5 },
  });
  const text = policies.map(({ label, days }) => `${label} ${percent(days.leads.at(-1))}`);
  return draw(node, traces, layout, {
    label: "Share of runs in which the best item leads",
    text: `At the end: ${text.join(", ")}.`,
  });
}

/** The legends of both charts. */
export function legends(forecast) {
  return [paying(forecast), forecast.policies].map((policies) =>
    legendEntries(policies.map((policy) => [seriesOf(forecast.plan, policy), policy.label])),
  );
}

/** The key of the payments chart. */
export function paymentsKey(plan) {
  return `Line: median on each day. Shaded: ${runsWithin(plan.confidence)} need at most this.`;
}

function line(budget, days) {
  return {
    type: "line",
    x0: 0,
    x1: days,
    y0: budget,
    y1: budget,
    line: { color: token("--ink"), width: 1.75, dash: "dash" },
  };
}

function budgetLabel(plan, budget, top) {
  return {
    x: 1,
    xref: "paper",
    xanchor: "right",
    y: budget,
    yanchor: budget > 0.9 * top ? "top" : "bottom",
    text: `Budget ${amount(budget, plan)}`,
    showarrow: false,
    font: { size: 12, color: token("--ink") },
    bgcolor: withAlpha(token("--surface"), 0.8),
  };
}
