// The figures of the reproduction.

import { colour, draw, faded, token } from "../chart.js";
import { SERIES } from "../series.js";
import { figure, METRICS } from "./words.js";

const LOG_FROM = 8; // ranges that span more than this factor get a logarithmic scale

/** Each published value of a policy and metric against the range of one run, under both set-ups. */
export function drawExplained(node, paper, policy, metric) {
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
    label: `${METRICS[metric]}, published and ours`,
    text:
      `${inside("written")} of ${of("written").length} published values lie within the ` +
      `range of one run as written, ${inside("published")} in the best-fitting set-up.`,
  });
}

/** A curve of Figures 2 and 3: medians of the three policies with bands, against the rounds. */
export function drawOverTime(node, paper, name, metric) {
  const curves = paper.figures[name].filter((curve) => curve.metric === metric);
  const names = Object.fromEntries(paper.policies.map(({ id, name: words }) => [id, words]));
  const traces = () =>
    curves.flatMap(({ policy, t, q05, q25, q50, q75, q95 }) => {
      const hex = colour(SERIES[policy]);
      return [
        ...shade(t, q05, q95, faded(hex, 0.13)),
        ...shade(t, q25, q75, faded(hex, 0.2)),
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
    label: `${METRICS[metric]} against the rounds`,
    text: curves
      .map(({ policy, q50 }) => `${names[policy]} ends at a median of ${figure(q50.at(-1))}`)
      .join(", "),
  });
}

/** How the final regret of Thompson sampling is spread without drift, under both readings. */
export function drawLockIn(node, paper) {
  const tint = { written: () => token("--ink-faint"), published: () => colour(0) };
  const words = {
    written: "variance 1/(n+1): Algorithm 4",
    published: "standard deviation 1/(n+1): the published row",
  };
  const mean = (values) => values.reduce((sum, x) => sum + x, 0) / values.length;
  const traces = () =>
    paper.lock_in.map(({ setup, regret }) => ({
      x: regret.map((x) => Math.max(1, x)),
      y: regret.map((_, i) => (i + 1) / regret.length),
      mode: "lines",
      line: { color: tint[setup](), width: 2.25, shape: "hv" },
      hovertemplate: `${words[setup]}<br>%{y:.0%} of the runs: at most %{x:,.0f}<extra></extra>`,
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
      line: { color: tint[setup](), width: 1.5, dash: "dot" },
    })),
  });
  return draw(node, traces, layout, {
    label: "Spread of the final regret of Thompson sampling",
    text: paper.lock_in
      .map(
        ({ setup, regret }) =>
          `${words[setup]}: mean ${figure(mean(regret))}, median ` +
          `${figure(regret[Math.floor(regret.length / 2)])}`,
      )
      .join("; "),
  });
}

function band(rows, tone, words) {
  const x = rows.map(({ l }) => l);
  return [
    ...shade(
      x,
      rows.map(({ q05 }) => q05),
      rows.map(({ q95 }) => q95),
      faded(tone, 0.22),
    ),
    {
      x,
      y: rows.map(({ q50 }) => q50),
      mode: "lines",
      line: { color: tone, width: 1.5 },
      hovertemplate: `ours, ${words}, drift %{x}<br>median %{y:,.4~g}<extra></extra>`,
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
