// The figures of the reproduction.

import { colour, draw, token, withAlpha } from "../chart.js";
import { SERIES } from "../policy-colours.js";
import { formatFigure, METRICS } from "./labels.js";

const LOG_FROM = 8; // ranges that span more than this factor get a logarithmic scale

/** The published values of a policy and metric, and the range of one run in both set-ups. */
export function drawPublished(node, paper, policy, metric) {
  const rows = [...paper.table1, ...paper.table2].filter(
    (row) => row.policy === policy && row.metric === metric,
  );
  const of = (setup) => rows.filter((row) => row.setup === setup).sort((a, b) => a.l - b.l);
  const low = Math.min(...rows.map(({ q05 }) => q05));
  const high = Math.max(...rows.map(({ q95 }) => q95));
  const traces = () => [
    ...band(of("written"), token("--ink-faint"), "as written"),
    ...band(of("published"), colour(0), "best fit"),
    {
      x: of("written").map(({ l }) => l),
      y: of("written").map(({ published }) => published),
      mode: "markers",
      marker: { color: colour(1), size: 9, line: { color: token("--surface"), width: 1.5 } },
      hovertemplate: "published, drift %{x}<br>%{y:,.4~g}<extra></extra>",
    },
  ];
  const layout = () => ({
    xaxis: {
      title: "Drift",
      range: [-0.05, 1.15],
      showgrid: false,
      zeroline: false,
      tickvals: [0, 0.4, 0.7, 0.9, 1.1],
    },
    yaxis:
      low > 0 && high > LOG_FROM * low
        ? { type: "log", dtick: "D2", tickformat: ",~r", nticks: 6 }
        : { nticks: 5, tickformat: ",~r", rangemode: "tozero" },
    margin: { l: 52, r: 8, t: 6, b: 40 },
  });
  const inside = (setup) => of(setup).filter((row) => row.inside).length;
  return draw(node, traces, layout, {
    label: `${METRICS[metric]}, published and simulated`,
    text:
      `${inside("written")} of ${of("written").length} published values are within the ` +
      `range of one run as written, ${inside("published")} with the best fit.`,
  });
}

/** Figure 2 or 3: medians of the three policies over time, with bands. */
export function drawOverTime(node, paper, name, metric) {
  const curves = paper.figures[name].filter((curve) => curve.metric === metric);
  const names = Object.fromEntries(paper.policies.map((policy) => [policy.id, policy.name]));
  const traces = () =>
    curves.flatMap(({ policy, t, q05, q25, q50, q75, q95 }) => {
      const hex = colour(SERIES[policy]);
      return [
        ...shade(t, q05, q95, withAlpha(hex, 0.13)),
        ...shade(t, q25, q75, withAlpha(hex, 0.2)),
        {
          x: t,
          y: q50,
          mode: "lines",
          line: { color: hex, width: 2.25 },
          hovertemplate: `${names[policy]}<br>round %{x:,}: %{y:,.0f}<extra></extra>`,
        },
      ];
    });
  const layout = () => ({
    xaxis: {
      title: "Round",
      tickformat: ",d",
      nticks: 5,
      showgrid: false,
      range: [0, curves[0].t.at(-1)],
    },
    yaxis: { tickformat: ",~r", nticks: 5, rangemode: "tozero" },
  });
  return draw(node, traces, layout, {
    label: `${METRICS[metric]} over time`,
    text: curves
      .map(({ policy, q50 }) => `${names[policy]} ends at a median of ${formatFigure(q50.at(-1))}`)
      .join(", "),
  });
}

/** The distribution of Thompson sampling's final regret without drift, in both readings. */
export function drawLockIn(node, paper) {
  const colours = { written: () => token("--ink-faint"), published: () => colour(0) };
  const labels = {
    written: "variance 1/(n+1): Algorithm 4",
    published: "standard deviation 1/(n+1): the published row",
  };
  const mean = (values) => values.reduce((sum, x) => sum + x, 0) / values.length;
  const traces = () =>
    paper.lock_in.map(({ setup, regret }) => ({
      x: regret.map((x) => Math.max(1, x)),
      y: regret.map((_, i) => (i + 1) / regret.length),
      mode: "lines",
      line: { color: colours[setup](), width: 2.25, shape: "hv" },
      hovertemplate: `${labels[setup]}<br>%{y:.0%} of the runs: at most %{x:,.0f}<extra></extra>`,
    }));
  const layout = () => ({
    xaxis: {
      title: "Final regret (dotted: the mean)",
      type: "log",
      tickformat: ",~r",
      dtick: 1,
      showgrid: false,
    },
    yaxis: { tickformat: ".0%", range: [0, 1.02], nticks: 5 },
    shapes: paper.lock_in.map(({ setup, regret }) => ({
      type: "line",
      xref: "x",
      yref: "paper",
      x0: mean(regret),
      x1: mean(regret),
      y0: 0,
      y1: 1,
      line: { color: colours[setup](), width: 1.5, dash: "dot" },
    })),
  });
  return draw(node, traces, layout, {
    label: "Distribution of Thompson sampling's final regret",
    text: paper.lock_in
      .map(
        ({ setup, regret }) =>
          `${labels[setup]}: mean ${formatFigure(mean(regret))}, median ` +
          `${formatFigure(regret[Math.floor(regret.length / 2)])}`,
      )
      .join("; "),
  });
}

function band(rows, hex, label) {
  const x = rows.map(({ l }) => l);
  return [
    ...shade(x, rows.map(({ q05 }) => q05), rows.map(({ q95 }) => q95), withAlpha(hex, 0.22)),
    {
      x,
      y: rows.map(({ q50 }) => q50),
      mode: "lines",
      line: { color: hex, width: 1.5 },
      hovertemplate: `simulated, ${label}, drift %{x}<br>median %{y:,.4~g}<extra></extra>`,
    },
  ];
}

function shade(x, low, high, fillcolor) {
  const edge = { x, mode: "lines", line: { width: 0 }, hoverinfo: "skip" };
  return [
    { ...edge, y: low },
    { ...edge, y: high, fill: "tonexty", fillcolor },
  ];
}
