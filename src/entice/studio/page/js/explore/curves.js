// A metric over time: the median of the runs of each policy, their 5 to 95 % band, and bounds.

import { colour, draw, removeChart, toPng, token, withAlpha } from "../chart.js";
import { h, replace, setText } from "../dom.js";
import { number } from "../format.js";
import { term } from "../tooltip.js";
import { boundItems, entries } from "./bounds.js";
import { POLICIES } from "./settings.js";

const MAX_BOUND_RATIO = 4; // a linear axis includes bounds up to this many times the runs
const TOPS = [1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10];

/** A chart with its title, explanation and bounds. */
export class Curves {
  constructor({ metric, title, text, symbols, unit }) {
    this.metric = metric;
    this.title = title;
    this.unit = unit;
    this.rows = [];
    this.top = 0;
    this.isLog = false;
    this.chart = h("div.chart.curves-chart", { id: `chart-${metric}` });
    this.list = h("ul.bounds", { "aria-label": `Theoretical bounds: ${title}` });
    this.note = h("p.note");
    this.node = h(
      "section.card.curves",
      { "aria-label": title },
      h("header", h("h2", term(title, symbols)), h("p", text)),
      this.chart,
      this.note,
      this.list,
    );
  }

  /** Draw a snapshot and the rows of bounds; resolves when it is drawn. */
  async show(snapshot, settings, rows) {
    this.snapshot = snapshot;
    this.settings = settings;
    this.rows = rows;
    await this.draw();
  }

  /** Set the axes: "linear" or "log". */
  setAxes(axes) {
    if (this.isLog === (axes === "log")) return;
    this.isLog = axes === "log";
    if (this.snapshot) this.draw();
  }

  png() {
    return toPng(this.chart, { title: `${this.title}: median and 5 to 95 % range of the runs` });
  }

  close() {
    removeChart(this.chart);
  }

  async draw() {
    const policies = this.policies();
    const found = entries(this.rows, this.metric, policies);
    this.top = this.ceiling(found.filter((entry) => entry.usable));
    this.listBounds(found);
    setText(this.note, this.omitted());
    await draw(
      this.chart,
      () => this.traces(policies, found),
      () => this.layout(),
      {
        label: `${this.title} over time`,
        text: this.sentence(),
      },
    );
  }

  /** Update the list of bounds if it has changed, so that an open tooltip stays. */
  listBounds(found) {
    const next = JSON.stringify([
      found.map((entry) => ({ ...entry, t: 0, values: 0 })),
      this.top,
      this.isLog,
    ]);
    if (next === this.listed) return;
    this.listed = next;
    replace(this.list, boundItems(found, this));
  }

  /** The end of the axis, unchanged while the data fits, so that the chart does not flicker. */
  ceiling(usable) {
    const runs = Math.max(
      1e-9,
      ...this.snapshot.cells.map((cell) => largest(cell.metrics[this.metric])),
    );
    const fitting = usable
      .map((entry) => entry.last)
      .filter((last) => last < MAX_BOUND_RATIO * runs);
    const needed = Math.max(runs, ...fitting) * 1.03;
    if (needed <= this.top && needed >= 0.6 * this.top) return this.top;
    const power = 10 ** Math.floor(Math.log10(needed));
    return TOPS.find((top) => top * power >= needed) * power;
  }

  traces(policies, found) {
    const { cells } = this.snapshot;
    const bands = cells.map((cell) => this.band(cell, colour(policies[cell.policy_index].series)));
    const medians = cells.map((cell) => this.median(cell, policies[cell.policy_index]));
    const bounds = found
      .filter((entry) => entry.usable && (this.isLog || entry.last <= this.top))
      .map((entry) => dashed(entry));
    return [...bands, ...bounds, ...medians];
  }

  band(cell, hex) {
    const { q05, q95 } = cell.metrics[this.metric];
    const t = this.isLog ? cell.t : [0, ...cell.t];
    const start = this.isLog ? [] : [0];
    const least = this.isLog ? this.floor() : 0;
    const low = [...start, ...q05.map((y) => Math.max(least, y ?? 100 * this.top))];
    const high = [...start, ...q95.map((y) => Math.max(least, y ?? 100 * this.top))];
    return {
      x: [...t, ...t.toReversed()],
      y: [...low, ...high.toReversed()],
      fill: "toself",
      fillcolor: withAlpha(hex, 0.15),
      line: { width: 0 },
      mode: "lines",
      hoverinfo: "skip",
      showlegend: false,
    };
  }

  median(cell, policy) {
    const { q05, q50, q95 } = cell.metrics[this.metric];
    const start = this.isLog ? [] : [0];
    return {
      x: [...start, ...cell.t],
      y: [...start, ...q50.map((y) => (this.isLog && y <= 0 ? null : y))],
      customdata: [...start.map(() => [0, 0]), ...q05.map((low, i) => [low, q95[i]])],
      name: policy.name,
      mode: "lines",
      line: { color: colour(policy.series), width: 2.25 },
      hovertemplate: "%{y:,.3~r}  (%{customdata[0]:,.3~r} to %{customdata[1]:,.3~r})",
    };
  }

  layout() {
    const { horizon } = this.settings;
    const first = this.snapshot.cells[0].t[0];
    return {
      hovermode: "x unified",
      hoverdistance: 40,
      xaxis: {
        title: "Visitors so far",
        showgrid: false,
        hoverformat: ",d",
        tickformat: ",~d",
        nticks: 6,
        unifiedhovertitle: { text: "After %{x:,d} visitors" },
        spikecolor: token("--line-strong"),
        spikethickness: 1,
        ...(this.isLog
          ? logarithmic(first, horizon, this.chart.clientWidth / 70)
          : { range: [0, horizon] }),
      },
      yaxis: {
        title: this.unit,
        tickformat: ",~g",
        nticks: 6,
        ...(this.isLog ? logarithmic(this.floor(), this.highest(), 9) : { range: [0, this.top] }),
      },
      margin: { l: 62, r: 26, t: 10, b: 44 },
    };
  }

  /** The start of a logarithmic axis: below all positive values. */
  floor() {
    return Math.min(this.top / 10, ...this.positiveValues()) / 1.3;
  }

  highest() {
    return Math.max(this.top, ...this.positiveValues()) * 1.2;
  }

  positiveValues() {
    const runs = this.snapshot.cells.flatMap((cell) => {
      const { q05, q50, q95 } = cell.metrics[this.metric];
      return [...q05, ...q50, ...q95];
    });
    const bounds = entries(this.rows, this.metric, []).filter((entry) => entry.usable);
    return [...runs, ...bounds.flatMap((entry) => entry.values)].filter((y) => y > 0);
  }

  /** A note about values that the chart cannot show. */
  omitted() {
    const metrics = this.snapshot.cells.map((cell) => cell.metrics[this.metric]);
    const some = (test) => metrics.some(({ q05, q95 }) => [...q05, ...q95].some(test));
    const notes = [];
    if (some((y) => y === null))
      notes.push("A band that leaves the chart at the top contains runs that grow without bound.");
    if (this.isLog && some((y) => y === 0))
      notes.push("Curves that reach the lower edge go down to zero.");
    return notes.join(" ");
  }

  policies() {
    return this.settings.policies.map((name) => POLICIES[name]);
  }

  /** A summary of the chart. */
  sentence() {
    const policies = this.policies();
    const parts = this.snapshot.cells.map((cell) => {
      const { q05, q50, q95 } = cell.metrics[this.metric];
      const [low, median, high] = [q05, q50, q95].map((values) => number(values.at(-1) ?? Infinity));
      return `${policies[cell.policy_index].name} ${median}, 5 to 95 % range ${low} to ${high}`;
    });
    return `Median after ${number(this.settings.horizon)} visitors: ${parts.join("; ")}.`;
  }
}

/** A logarithmic axis with ticks at 1, 2, 5, 10 … if there is room, else at powers of ten. */
function logarithmic(low, high, maxTicks) {
  const powers = Array.from({ length: 16 }, (_, i) => 10 ** (i - 6));
  const within = (values) => values.filter((value) => value >= low && value <= high);
  const fine = within(powers.flatMap((power) => [power, 2 * power, 5 * power]));
  const tickvals = fine.length <= maxTicks ? fine : within(powers);
  return {
    type: "log",
    range: [Math.log10(low), Math.log10(high)],
    tickvals,
    ticktext: tickvals.map(number),
  };
}

function dashed(entry) {
  const isLower = entry.kind === "lower";
  return {
    x: entry.t,
    y: entry.values.map((y) => (y > 0 ? y : null)),
    name: isLower ? entry.bound : `${entry.policy.name}, ${entry.bound}`,
    mode: "lines",
    line: {
      color: isLower ? token("--ink-faint") : colour(entry.policy.series),
      width: 1.75,
      dash: isLower ? "dot" : "dash",
    },
    hovertemplate: "%{y:,.3~r}",
  };
}

function largest({ q50, q95 }) {
  return Math.max(0, ...q95.filter((y) => y !== null), ...q50.filter((y) => y !== null));
}
