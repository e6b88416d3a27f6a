// One run, item by item, that can be scrubbed through time: who is shown how often, and how each looks.

import { ask } from "../api.js";
import { h, replace } from "../dom.js";
import { number, percent } from "../format.js";
import { term } from "../tip.js";
import { POLICIES } from "./setup.js";
import { swatch } from "./swatch.js";

const PLAY = 9000; // milliseconds from the first visitor to the last

const SYMBOLS =
  "Pulls n_i(t) of each item, its average m_i(t), drift included, and its true mean μ_i";
const WORDS =
  "Bars: how often each item was shown so far. Dots: its average rating, gratitude included, full " +
  "for what visitors would pick by themselves. Lines: what the item is truly worth.";

/** The race of the items under one policy. */
export class Race {
  constructor() {
    this.at = 1; // where in time, from 0 to 1
    this.policy = null;
    this.run = 0;
    this.trace = null;
    this.asked = null;
    this.picks = h("div", {
      class: "segments race-picks",
      role: "group",
      "aria-label": "Policy of the race",
    });
    this.rows = h("ol", { class: "race-rows" });
    this.caption = h("p", { class: "race-caption" });
    this.play = h(
      "button",
      { type: "button", class: "primary race-play", on: { click: () => this.toggle() } },
      "Play",
    );
    this.time = h("input", {
      type: "range",
      id: "race-time",
      min: 0,
      max: 1000,
      step: 1,
      value: 1000,
      vars: { "--share": 1 },
      "aria-label": "Time in the race",
      on: { input: () => this.scrub() },
    });
    this.other = h(
      "button",
      { type: "button", class: "small", on: { click: () => this.another() } },
      "Another run",
    );
    this.node = h(
      "section",
      { class: "card race", "aria-label": "One run, item by item" },
      h("header", null, h("h2", null, term("One run, item by item", SYMBOLS)), h("p", null, WORDS)),
      this.picks,
      h(
        "div",
        { class: "race-head", "aria-hidden": "true" },
        h("span", null, "Item"),
        h("span", null, "Shown"),
        h("span", null, "Average"),
      ),
      this.rows,
      h("div", { class: "race-time" }, this.play, this.time),
      h("div", { class: "race-foot" }, this.caption, this.other),
    );
  }

  /** Race again, in a new world; what is shown stays until the new run is there. */
  async show(study, setup, signal) {
    this.study = study;
    this.setup = setup;
    this.signal = signal;
    if (!setup.policies.includes(this.policy)) this.policy = setup.policies.at(-1);
    this.pick();
    await this.ask();
  }

  close() {
    cancelAnimationFrame(this.frame);
    this.asked?.abort();
  }

  pick() {
    replace(
      this.picks,
      this.setup.policies.map((name) =>
        h(
          "button",
          {
            type: "button",
            "aria-pressed": String(name === this.policy),
            on: { click: () => this.choose(name) },
          },
          swatch(POLICIES[name].series),
          POLICIES[name].name,
        ),
      ),
    );
  }

  choose(name) {
    this.policy = name;
    this.pick();
    this.picks.children[this.setup.policies.indexOf(name)].focus();
    this.ask();
  }

  another() {
    this.run = (this.run + 1) % this.setup.replications;
    this.ask();
  }

  async ask() {
    this.asked?.abort();
    this.asked = new AbortController();
    this.stop();
    this.node.classList.add("outdated");
    this.caption.textContent = "Running one run, visitor by visitor …";
    const signal = AbortSignal.any([this.asked.signal, this.signal]);
    const body = {
      study: this.study,
      policy_index: this.setup.policies.indexOf(this.policy),
      drift_index: 0,
      replication: this.run,
    };
    try {
      this.trace = await ask("/v1/traces", body, { signal });
    } catch (error) {
      if (!signal.aborted) this.caption.textContent = error.detail ?? error.message;
      return;
    }
    this.node.classList.remove("outdated");
    this.begin();
  }

  /** Lay out a row for each item; from then on only numbers and lengths change. */
  begin() {
    const { true_means: worth, averages, pulls } = this.trace;
    const seen = averages.flat().filter((y) => y !== null);
    const low = Math.min(...worth, ...quantiles(seen, 0.02, 0.98));
    const high = Math.max(...worth, ...quantiles(seen, 0.02, 0.98));
    const pad = 0.06 * (high - low || 1);
    this.place = (y) => Math.min(1, Math.max(0, (y - low + pad) / (high - low + 2 * pad)));
    this.most = Math.max(1, ...pulls.at(-1));
    this.items = worth.map((mean, i) => new Item(i, mean === Math.max(...worth), this.place(mean)));
    replace(
      this.rows,
      this.items.map((item) => item.node),
    );
    this.rows.style.setProperty("--colour", `var(--series-${POLICIES[this.policy].series})`);
    this.render();
  }

  toggle() {
    if (this.playing) return this.stop();
    this.playing = true;
    this.play.textContent = "Pause";
    if (this.at >= 1) this.at = 0;
    let last = performance.now();
    const step = (now) => {
      this.at = Math.min(1, this.at + (now - last) / PLAY);
      last = now;
      this.render();
      if (this.at < 1) this.frame = requestAnimationFrame(step);
      else this.stop();
    };
    this.frame = requestAnimationFrame(step);
  }

  stop() {
    cancelAnimationFrame(this.frame);
    this.playing = false;
    this.play.textContent = "Play";
  }

  scrub() {
    this.stop();
    this.at = this.time.valueAsNumber / 1000;
    this.render();
  }

  render() {
    if (!this.trace) return;
    const { t, pulls, averages, paid, regret } = this.trace;
    const i = Math.round(this.at * (t.length - 1));
    // The corrected policy shows visitors other averages than these: who leads there is not known.
    const lead = this.policy === "corrected" ? -1 : leader(averages[i]);
    this.items.forEach((item, k) =>
      item.tell(pulls[i][k], this.most, averages[i][k], this.place, k === lead),
    );
    this.time.value = String(Math.round(1000 * this.at));
    this.time.style.setProperty("--share", String(this.at));
    this.time.setAttribute("aria-valuetext", `after ${number(t[i])} visitors`);
    this.caption.textContent = [
      `After ${number(t[i])} visitors: ${percent(pulls[i][0] / t[i])} were shown the best item,`,
      `${number(paid[i])} was paid, ${number(regret[i])} was lost (rating points).`,
      `Run ${this.run + 1} of ${number(this.setup.replications)}.`,
      this.policy === "corrected"
        ? "Visitors see averages with most of the gratitude taken out."
        : "",
    ].join(" ");
  }
}

/** One item of the race. */
class Item {
  constructor(i, isBest, place) {
    this.count = h("span", { class: "race-count" });
    this.average = h("span", { class: "race-value" });
    this.node = h(
      "li",
      { class: "race-row", vars: { "--worth": place } },
      h(
        "span",
        { class: "race-name" },
        `Item ${i + 1}`,
        isBest && h("span", { class: "race-best" }, "best"),
      ),
      h("span", { class: "race-bar" }, h("span", { class: "race-fill" }), this.count),
      h(
        "span",
        { class: "race-average" },
        h("span", { class: "race-worth" }),
        h("span", { class: "race-dot" }),
      ),
      this.average,
    );
  }

  tell(pulls, most, average, place, leads) {
    this.count.textContent = number(pulls);
    this.average.textContent = average === null ? "none" : average.toFixed(2).replace("-", "−");
    this.node.style.setProperty("--pulls", String(pulls / most));
    this.node.classList.toggle("race-unrated", average === null);
    this.node.classList.toggle("race-leads", leads);
    if (average !== null) this.node.style.setProperty("--average", String(place(average)));
  }
}

function leader(averages) {
  const rated = averages.map((y) => y ?? -Infinity);
  return rated.indexOf(Math.max(...rated));
}

function quantiles(values, ...shares) {
  if (!values.length) return [0, 1];
  const ranked = values.toSorted((a, b) => a - b);
  return shares.map((share) => ranked[Math.floor(share * (ranked.length - 1))]);
}
