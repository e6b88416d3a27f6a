// The distribution of the final regret over the runs, including the worst.

import { colour, draw, removeChart, toPng, token, withAlpha } from "../chart.js";
import { h } from "../dom.js";
import { number } from "../format.js";
import { term } from "../tooltip.js";
import { POLICIES } from "./settings.js";

const BINS = 70;
const HEIGHT = 0.78; // of the fullest bin, as a share of a row

const TITLE = "Distribution of the losses";
const TEXT =
  "How much the runs of each policy had lost at the end. Dots are the worst 5 % of the runs. If a " +
  "few runs stay on a wrong item, the mean is far from the median.";

/** The distribution of the final regret, a row for each policy. */
export class Distribution {
  constructor() {
    this.chart = h("div.chart.distribution-chart", { id: "chart-distribution" });
    this.limit = 0;
    this.node = h(
      "section.card.distribution",
      { "aria-label": TITLE },
      h(
        "header",
        h("h2", term(TITLE, "The distribution of the regret R(T) over all runs")),
        h("p", TEXT),
      ),
      this.chart,
      h(
        "p.note.distribution-key",
        h("span.key-median", "median"),
        h("span.key-mean", "mean"),
        h("span.key-dot", "one of the worst runs"),
      ),
    );
  }

  async show(snapshot, settings) {
    const policies = settings.policies.map((name) => POLICIES[name]);
    const rows = snapshot.cells.map((cell) => summary(cell, policies[cell.policy_index]));
    this.limit = steady(this.limit, Math.max(1e-9, ...rows.map((row) => row.values.at(-1) ?? 0)));
    await draw(
      this.chart,
      () => this.traces(rows),
      () => this.layout(rows),
      {
        label: "Distribution of the final regret",
        text: rows.map((row) => sentence(row)).join(" "),
      },
    );
  }

  png() {
    return toPng(this.chart, {
      title: "Distribution of the final regret; line: median, diamond: mean",
    });
  }

  close() {
    removeChart(this.chart);
  }

  traces(rows) {
    return rows.flatMap((row, i) => {
      const base = rows.length - 1 - i;
      const hex = colour(row.policy.series);
      return [histogram(row, base, hex, this.limit), worst(row, base, hex), marks(row, base)];
    });
  }

  layout(rows) {
    return {
      hovermode: "closest",
      xaxis: {
        title: "Lost at the end (rating points)",
        range: [0, this.limit],
        tickformat: ",~g",
        nticks: 7,
      },
      yaxis: {
        range: [-0.25, rows.length - 0.1],
        tickvals: rows.map((_, i) => rows.length - 1 - i),
        ticktext: rows.map((row) => wrapped(row.policy.name)),
        tickfont: { color: token("--ink"), size: 13 },
        ticks: "outside",
        ticklen: 6,
        tickcolor: "rgba(0,0,0,0)",
        showgrid: false,
        zeroline: false,
        showline: false,
      },
      margin: { l: 90, r: 16, t: 4, b: 48 },
    };
  }
}

/** A long name on two lines, since the margin has room for some 15 letters. */
function wrapped(name) {
  return name.length > 15 ? name.replace(" ", "<br>") : name;
}

function summary(cell, policy) {
  const { mean, q50 } = cell.metrics.regret;
  const values = cell.final.regret.filter((value) => value !== null).sort((a, b) => a - b);
  return { policy, values, mean: mean.at(-1), median: q50.at(-1) };
}

function histogram(row, base, hex, limit) {
  const counts = new Array(BINS).fill(0);
  for (const value of row.values)
    counts[Math.min(BINS - 1, Math.floor((value / limit) * BINS))] += 1;
  const most = Math.max(1, ...counts);
  const x = [0];
  const y = [base];
  counts.forEach((count, i) => {
    const height = base + (HEIGHT * count) / most;
    x.push((i * limit) / BINS, ((i + 1) * limit) / BINS);
    y.push(height, height);
  });
  x.push(limit);
  y.push(base);
  return {
    x,
    y,
    mode: "lines",
    fill: "toself",
    fillcolor: withAlpha(hex, 0.3),
    line: { color: hex, width: 1 },
    hoverinfo: "skip",
    showlegend: false,
  };
}

function worst(row, base, hex) {
  const tail = row.values.slice(Math.ceil(row.values.length * 0.95));
  return {
    x: tail,
    y: tail.map(() => base),
    mode: "markers",
    showlegend: false,
    marker: { color: hex, size: 5, opacity: 0.8 },
    hovertemplate: `${row.policy.name}: a run that lost %{x:,.0f}<extra></extra>`,
  };
}

function marks(row, base) {
  return {
    x: [row.median, row.mean],
    y: [base + 0.02, base + 0.02],
    text: ["median", "mean"],
    mode: "markers",
    showlegend: false,
    marker: {
      symbol: ["line-ns", "diamond"],
      size: [22, 10],
      color: token("--ink"),
      line: { color: [token("--ink"), token("--surface")], width: [2.5, 1.5] },
    },
    hovertemplate: `${row.policy.name}: %{text} %{x:,.1f}<extra></extra>`,
  };
}

function sentence({ policy, median, mean, values }) {
  return `${policy.name}: median ${number(median)}, mean ${number(mean)}, worst run ${number(values.at(-1))}.`;
}

/** The end of the axis, unchanged while the largest value fits. */
function steady(last, largest) {
  const needed = largest * 1.02;
  return needed <= last && needed >= 0.75 * last ? last : needed * 1.1;
}
