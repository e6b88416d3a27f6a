// A single run, item by item, with a time slider: how often each item is shown, and its average.

import { post } from "../api.js";
import { h, replace } from "../dom.js";
import { number, percent } from "../format.js";
import { button, swatch } from "../layout.js";
import { term } from "../tooltip.js";
import { POLICIES } from "./settings.js";

const DURATION = 9000; // milliseconds of the animation

const TITLE = "A single run, item by item";
const SYMBOLS =
  "Pulls n_i(t) of each item, its average m_i(t) including drift, and its true mean μ_i";
const TEXT =
  "Bars: how often each item was shown so far. Dots: its average rating including drift, filled " +
  "for the visitors' own choice. Lines: its true mean.";

/** One run of one policy. */
export class SingleRun {
  constructor() {
    this.position = 1; // in time, from 0 to 1
    this.policy = null;
    this.run = 0;
    this.trace = null;
    this.request = null;
    this.policyButtons = h("div.segments.single-run-policies", {
      role: "group",
      "aria-label": "Policy of the run",
    });
    this.rows = h("ol.single-run-rows");
    this.caption = h("p.single-run-caption");
    this.playButton = button("Play", () => this.togglePlay(), { class: "primary single-run-play" });
    this.time = h("input", {
      type: "range",
      id: "single-run-time",
      min: 0,
      max: 1000,
      step: 1,
      value: 1000,
      vars: { "--share": 1 },
      "aria-label": "Time in the run",
      on: { input: () => this.seek() },
    });
    const nextButton = button("Next run", () => this.nextRun(), { class: "small" });
    this.node = h(
      "section.card.single-run",
      { "aria-label": TITLE },
      h("header", h("h2", term(TITLE, SYMBOLS)), h("p", TEXT)),
      this.policyButtons,
      h(
        "div.single-run-head",
        { "aria-hidden": "true" },
        h("span", "Item"),
        h("span", "Shown"),
        h("span", "Average"),
      ),
      this.rows,
      h("div.single-run-time", this.playButton, this.time),
      h("div.single-run-foot", this.caption, nextButton),
    );
  }

  /** Show a run of another study; the previous one stays until the new run has arrived. */
  async show(study, settings, signal) {
    this.study = study;
    this.settings = settings;
    this.signal = signal;
    if (!settings.policies.includes(this.policy)) this.policy = settings.policies.at(-1);
    this.listPolicies();
    await this.load();
  }

  close() {
    cancelAnimationFrame(this.frame);
    this.request?.abort();
  }

  listPolicies() {
    replace(
      this.policyButtons,
      this.settings.policies.map((name) =>
        button(
          [swatch(POLICIES[name].series), POLICIES[name].name],
          () => this.choosePolicy(name),
          { "aria-pressed": String(name === this.policy) },
        ),
      ),
    );
  }

  choosePolicy(name) {
    this.policy = name;
    this.listPolicies();
    this.policyButtons.children[this.settings.policies.indexOf(name)].focus();
    this.load();
  }

  nextRun() {
    this.run = (this.run + 1) % this.settings.replications;
    this.load();
  }

  async load() {
    this.request?.abort();
    this.request = new AbortController();
    this.stop();
    this.node.classList.add("outdated");
    this.caption.textContent = "Simulating the run …";
    const signal = AbortSignal.any([this.request.signal, this.signal]);
    const body = {
      study: this.study,
      policy_index: this.settings.policies.indexOf(this.policy),
      drift_index: 0,
      replication: this.run,
    };
    try {
      this.trace = await post("/v1/traces", body, { signal });
    } catch (error) {
      if (!signal.aborted) this.caption.textContent = error.detail ?? error.message;
      return;
    }
    this.node.classList.remove("outdated");
    this.layOut();
  }

  /** Create a row for each item; `render` then changes only numbers and lengths. */
  layOut() {
    const { true_means: means, averages, pulls } = this.trace;
    const seen = averages.flat().filter((y) => y !== null);
    const low = Math.min(...means, ...quantiles(seen, 0.02, 0.98));
    const high = Math.max(...means, ...quantiles(seen, 0.02, 0.98));
    const pad = 0.06 * (high - low || 1);
    this.scale = (y) => Math.min(1, Math.max(0, (y - low + pad) / (high - low + 2 * pad)));
    this.maxPulls = Math.max(1, ...pulls.at(-1));
    this.items = means.map((mean, i) => new Item(i, mean === Math.max(...means), this.scale(mean)));
    replace(this.rows, this.items.map((item) => item.node));
    this.rows.style.setProperty("--series", `var(--series-${POLICIES[this.policy].series})`);
    this.render();
  }

  togglePlay() {
    if (this.playing) return this.stop();
    this.playing = true;
    this.playButton.textContent = "Pause";
    if (this.position >= 1) this.position = 0;
    let last = performance.now();
    const step = (now) => {
      this.position = Math.min(1, this.position + (now - last) / DURATION);
      last = now;
      this.render();
      if (this.position < 1) this.frame = requestAnimationFrame(step);
      else this.stop();
    };
    this.frame = requestAnimationFrame(step);
  }

  stop() {
    cancelAnimationFrame(this.frame);
    this.playing = false;
    this.playButton.textContent = "Play";
  }

  seek() {
    this.stop();
    this.position = this.time.valueAsNumber / 1000;
    this.render();
  }

  render() {
    if (!this.trace) return;
    const { t, pulls, averages, paid, regret } = this.trace;
    const i = Math.round(this.position * (t.length - 1));
    // If a policy displays other averages, the visitors' choice is not known.
    const { display = "" } = POLICIES[this.policy];
    const leading = display ? -1 : argmax(averages[i]);
    this.items.forEach((item, k) =>
      item.update(pulls[i][k], this.maxPulls, averages[i][k], this.scale, k === leading),
    );
    this.time.value = String(Math.round(1000 * this.position));
    this.time.style.setProperty("--share", String(this.position));
    this.time.setAttribute("aria-valuetext", `after ${number(t[i])} visitors`);
    this.caption.textContent = [
      `After ${number(t[i])} visitors: ${percent(pulls[i][0] / t[i])} saw the best item,`,
      `${number(paid[i])} rating points paid, ${number(regret[i])} lost.`,
      `Run ${this.run + 1} of ${number(this.settings.replications)}.`,
      display,
    ].join(" ");
  }
}

/** The row of an item. */
class Item {
  constructor(i, isBest, mean) {
    this.count = h("span");
    this.average = h("span.single-run-value");
    this.node = h(
      "li.single-run-row",
      { vars: { "--mean": mean } },
      h(
        "span.single-run-name",
        `Item ${i + 1}`,
        isBest && h("span.single-run-best", "best"),
      ),
      h("span.single-run-bar", h("span.single-run-fill"), this.count),
      h("span.single-run-average", h("span.single-run-mean"), h("span.single-run-dot")),
      this.average,
    );
  }

  update(pulls, maxPulls, average, scale, leads) {
    this.count.textContent = number(pulls);
    this.average.textContent = average === null ? "none" : average.toFixed(2).replace("-", "−");
    this.node.style.setProperty("--pulls", String(pulls / maxPulls));
    this.node.classList.toggle("single-run-unrated", average === null);
    this.node.classList.toggle("single-run-leads", leads);
    if (average !== null) this.node.style.setProperty("--average", String(scale(average)));
  }
}

function argmax(averages) {
  const rated = averages.map((y) => y ?? -Infinity);
  return rated.indexOf(Math.max(...rated));
}

function quantiles(values, ...shares) {
  if (!values.length) return [0, 1];
  const ranked = values.toSorted((a, b) => a - b);
  return shares.map((share) => ranked[Math.floor(share * (ranked.length - 1))]);
}
