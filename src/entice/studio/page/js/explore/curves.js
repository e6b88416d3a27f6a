// A metric over time: the median of the runs of each policy at each round, and the band that holds nine runs in ten.

import { colour, draw, faded, forget, toPng, token } from "../chart.js";
import { h, replace } from "../dom.js";
import { number } from "../format.js";
import { term } from "../tip.js";
import { entries, listed } from "./bounds.js";
import { POLICIES } from "./setup.js";

const BOUND_FITS = 4; // a bound up to so many times the runs is given room on a linear axis
const TOPS = [1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10];

/** One chart with its title, its explanation and its bounds. */
export class Curves {
  constructor({ metric, title, words, symbols, unit }) {
    this.metric = metric;
    this.title = title;
    this.unit = unit;
    this.rows = [];
    this.top = 0;
    this.isLog = false;
    this.chart = h("div", { class: "chart curves-chart", id: `chart-${metric}` });
    this.list = h("ul", { class: "bounds", "aria-label": `What theory says of it: ${title}` });
    this.note = h("p", { class: "note" });
    this.node = h(
      "section",
      { class: "card curves", "aria-label": title },
      h("header", null, h("h2", null, term(title, symbols)), h("p", null, words)),
      this.chart,
      this.note,
      this.list,
    );
  }

  /** Show a picture, with the rows of what theory says; resolves when it is drawn. */
  async show(picture, setup, rows) {
    this.picture = picture;
    this.setup = setup;
    this.rows = rows;
    await this.draw();
  }

  /** Choose the axes: "linear" or "log". */
  scale(axes) {
    if (this.isLog === (axes === "log")) return;
    this.isLog = axes === "log";
    if (this.picture) this.draw();
  }

  png() {
    return toPng(this.chart, { title: `${this.title}: median of the runs at each round, and nine runs in ten` });
  }

  close() {
    forget(this.chart);
  }

  /** Draw what is known: runs and bounds. */
  async draw() {
    const policies = this.policies();
    const found = entries(this.rows, this.metric, policies);
    this.top = this.ceiling(found.filter((entry) => entry.speaks));
    this.tell(found);
    const text = this.unseen();
    if (this.note.textContent !== text) this.note.textContent = text;
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

  /** The list is written anew only when it reads differently: a tip under the pointer stays. */
  tell(found) {
    const told = JSON.stringify([
      found.map((entry) => ({ ...entry, t: 0, values: 0 })),
      this.top,
      this.isLog,
    ]);
    if (told === this.told) return;
    this.told = told;
    replace(this.list, listed(found, this));
  }

  /** The end of the axis: kept while the picture still fits it well, so that it does not flicker. */
  ceiling(speaking) {
    const runs = Math.max(
      1e-9,
      ...this.picture.cells.map((cell) => largest(cell.metrics[this.metric])),
    );
    const fitting = speaking.map((entry) => entry.last).filter((last) => last < BOUND_FITS * runs);
    const needed = Math.max(runs, ...fitting) * 1.03;
    if (needed <= this.top && needed >= 0.6 * this.top) return this.top;
    const power = 10 ** Math.floor(Math.log10(needed));
    return TOPS.find((top) => top * power >= needed) * power;
  }

  traces(policies, found) {
    const { cells } = this.picture;
    const bands = cells.map((cell) => this.band(cell, colour(policies[cell.policy_index].series)));
    const medians = cells.map((cell) => this.median(cell, policies[cell.policy_index]));
    const bounds = found
      .filter((entry) => entry.speaks && (this.isLog || entry.last <= this.top))
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
      fillcolor: faded(hex, 0.15),
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
    const { horizon } = this.setup;
    const first = this.picture.cells[0].t[0];
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

  /** Where a logarithmic axis begins: below everything that lies above zero. */
  floor() {
    return Math.min(this.top / 10, ...this.above()) / 1.3;
  }

  highest() {
    return Math.max(this.top, ...this.above()) * 1.2;
  }

  /** All values that a logarithmic axis shows. */
  above() {
    const runs = this.picture.cells.flatMap((cell) => {
      const { q05, q50, q95 } = cell.metrics[this.metric];
      return [...q05, ...q50, ...q95];
    });
    const bounds = entries(this.rows, this.metric, []).filter((entry) => entry.speaks);
    return [...runs, ...bounds.flatMap((entry) => entry.values)].filter((y) => y > 0);
  }

  /** What the picture leaves out, in words. */
  unseen() {
    const metrics = this.picture.cells.map((cell) => cell.metrics[this.metric]);
    const some = (test) => metrics.some(({ q05, q95 }) => [...q05, ...q95].some(test));
    const told = [];
    if (some((y) => y === null))
      told.push("A band that leaves the picture at the top holds runs that grow without bound.");
    if (this.isLog && some((y) => y === 0))
      told.push("What reaches the lower edge goes down to zero.");
    return told.join(" ");
  }

  policies() {
    return this.setup.policies.map((name) => POLICIES[name]);
  }

  /** The picture in a sentence. */
  sentence() {
    const policies = this.policies();
    const parts = this.picture.cells.map((cell) => {
      const { q05, q50, q95 } = cell.metrics[this.metric];
      const [low, median, high] = [q05, q50, q95].map((found) => number(found.at(-1) ?? Infinity));
      return `${policies[cell.policy_index].name}: ${median}, nine runs in ten between ${low} and ${high}`;
    });
    return `After ${number(this.setup.horizon)} visitors, median of the runs: ${parts.join("; ")}.`;
  }
}

/** A logarithmic axis with 1, 2, 5, 10 … where there is room for them, else with powers of ten. */
function logarithmic(low, high, room) {
  const powers = Array.from({ length: 16 }, (_, i) => 10 ** (i - 6));
  const within = (values) => values.filter((value) => value >= low && value <= high);
  const fine = within(powers.flatMap((power) => [power, 2 * power, 5 * power]));
  const tickvals = fine.length <= room ? fine : within(powers);
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
