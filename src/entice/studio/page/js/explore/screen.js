// Explore: move a slider, and see what becomes of it.

import { connection } from "../api.js";
import { h, replace } from "../dom.js";
import { duration, number } from "../format.js";
import { failed } from "../state.js";
import { Controls } from "./controls.js";
import { Curves } from "./curves.js";
import { downloads } from "./downloads.js";
import { Race } from "./race.js";
import { AXES, POLICIES, fromQuery, toQuery, toStudy } from "./setup.js";
import { Spread } from "./spread.js";
import { Stream } from "./stream.js";
import { swatch } from "./swatch.js";
import { Table } from "./table.js";

const LEAD =
  "Visitors pick what has the best average. Paying some of them to try another item teaches the " +
  "platform, but the paid rate higher. Move a slider and see what that costs.";
const ADDRESS_AFTER = 250; // milliseconds of rest until the address is written, which may not be often
const OUTDATED_AFTER = 600; // milliseconds until pictures of another set-up are shown as such

/** Show the screen. */
export async function show(root, { query, signal }) {
  new Explore(root, fromQuery(query), signal).change();
}

class Explore {
  constructor(root, setup, signal) {
    this.setup = setup;
    this.signal = signal;
    this.stream = new Stream(
      (line, job) => this.hear(line, job),
      (error) => this.fail(error),
      signal,
    );
    this.regret = new Curves({
      metric: "regret",
      title: "What the platform loses",
      words: "By not always showing the best item, added up over all visitors.",
      symbols: "Regret R(t) = Σ (μ* − μ_I): true means, the best one's less the shown one's",
      unit: "Lost so far (rating points)",
    });
    this.compensation = new Curves({
      metric: "compensation",
      title: "What the platform pays",
      words: "To visitors who would rather have had another item, added up.",
      symbols:
        "Compensation C(t) = Σ (m_G − m_I): averages of the visitor's choice and of the shown item",
      unit: "Paid so far (rating points)",
    });
    this.table = new Table();
    this.spread = new Spread();
    this.race = new Race();
    this.charts = [this.regret, this.compensation, this.spread];
    this.current = { setup, picture: null, toml: null };
    this.files = downloads(
      () => this.current,
      () => Promise.all(this.charts.map((chart) => chart.png())),
    );
    this.controls = new Controls(setup, () => this.change(), signal);
    this.build(root);
    connection.addEventListener("back", () => this.change(), { signal });
    signal.addEventListener("abort", () => this.close());
  }

  build(root) {
    this.runs = h("span", { class: "runs-text" }, "Starting …");
    this.legend = h("ul", { class: "legend", "aria-label": "Colours" });
    this.axes = this.axesButtons();
    this.bar = h("span", { class: "runs-bar", "aria-hidden": "true" });
    this.news = h("p", { class: "visually-hidden", "aria-live": "polite" });
    this.trouble = h("div", { class: "trouble" });
    this.results = h(
      "div",
      { class: "results", "aria-label": "Results", role: "region" },
      this.trouble,
      h("div", { class: "pair" }, this.regret.node, this.compensation.node),
      this.table.node,
      h("div", { class: "pair" }, this.spread.node, this.race.node),
    );
    replace(
      root,
      h(
        "header",
        { class: "explore-head" },
        h("div", null, h("h1", null, "Explore"), h("p", { class: "lead" }, LEAD)),
        this.files.node,
      ),
      this.controls.stories,
      h("div", { class: "runs" }, this.runs, this.legend, this.axes, this.bar),
      this.news,
      h("div", { class: "explore" }, this.controls.node, this.results),
    );
  }

  axesButtons() {
    const choose = (axes) => {
      this.setup.axes = axes;
      this.controls.update();
      this.scale();
      this.write();
    };
    return h(
      "div",
      { class: "segments", role: "group", "aria-label": "Axes of the curves" },
      Object.entries(AXES).map(([axes, name]) =>
        h("button", { type: "button", dataset: { axes }, on: { click: () => choose(axes) } }, name),
      ),
    );
  }

  /** Let buttons and curves say which axes are chosen. */
  scale() {
    for (const button of this.axes.children)
      button.setAttribute("aria-pressed", String(button.dataset.axes === this.setup.axes));
    this.regret.scale(this.setup.axes);
    this.compensation.scale(this.setup.axes);
  }

  /** A setting has changed: run it, and let the address say so. */
  change() {
    performance.mark("explore:input");
    const setup = { ...this.setup };
    this.job = { setup, study: toStudy(setup), begun: performance.now() };
    document.body.dataset.explore = "running";
    this.name(setup.policies);
    this.results.style.setProperty("--rows", String(setup.policies.length));
    this.results.style.setProperty("--items", String(setup.arms));
    this.outdated ??= setTimeout(() => this.results.classList.add("outdated"), OUTDATED_AFTER);
    this.stream.run(this.job);
    this.scale();
    this.write();
  }

  write() {
    clearTimeout(this.writing);
    this.writing = setTimeout(
      () => history.replaceState(null, "", toQuery(this.setup)),
      ADDRESS_AFTER,
    );
  }

  hear(line, job) {
    if (line.kind === "queued" && line.ahead) this.say(`Waiting: ${line.ahead} before this one`);
    else if (line.kind === "compiling") this.say("Compiling this combination, once …");
    else if (line.kind === "picture") this.paint({ picture: line, job });
    else if (line.kind === "bounds") this.theory(line.rows, job);
    else if (line.kind === "done") this.done(line, job);
    else if (line.kind === "failed" && job === this.job) this.fail(line);
  }

  say(words) {
    this.runs.textContent = words;
  }

  /** Draw the newest picture; those that come meanwhile wait, and only the last of them is drawn. */
  async paint(next) {
    this.waiting = next;
    if (this.painting) return;
    this.painting = true;
    while (this.waiting && !this.signal.aborted) {
      const shown = this.waiting;
      this.waiting = null;
      try {
        await this.drawn(shown);
      } catch (error) {
        this.fail(error);
      }
      await frame();
    }
    this.painting = false;
  }

  async drawn({ picture, job }) {
    const { setup } = job;
    replace(this.trouble);
    if (job.rows) this.bounds = { rows: job.rows, policies: String(setup.policies) };
    // Until new ones come, bounds stay as they are, unless they speak of other policies.
    const rows = this.bounds?.policies === String(setup.policies) ? this.bounds.rows : [];
    this.table.show(picture, setup);
    await Promise.all(
      [this.regret, this.compensation].map((chart) => chart.show(picture, setup, rows)),
    );
    const isNewest = job === this.job;
    this.current = { setup, picture, toml: isNewest ? (job.toml ?? null) : null };
    this.files.ready();
    if (isNewest && !job.picture) this.first();
    job.picture = picture;
    await frame();
    await this.spread.show(picture, setup);
    const isLast = picture.replications === picture.of;
    const seconds = (performance.now() - job.begun) / 1000;
    this.say(`${number(picture.replications)} of ${number(picture.of)} runs, ${duration(seconds)}`);
    this.bar.style.setProperty("--share", String(picture.replications / picture.of));
    document.body.dataset.runs = String(picture.replications);
    if (!isLast || !isNewest) return;
    performance.mark("explore:last");
    document.body.dataset.explore = "done";
    this.news.textContent = this.regret.sentence();
  }

  first() {
    performance.mark("explore:first");
    clearTimeout(this.outdated);
    this.outdated = null;
    this.results.classList.remove("outdated");
  }

  name(policies) {
    if (String(policies) === this.named) return;
    this.named = String(policies);
    const entries = policies.map((name) => POLICIES[name]);
    replace(
      this.legend,
      entries.map(({ name, series }) => h("li", null, swatch(series), name)),
      h("li", { class: "legend-note" }, "line: median of the runs at each round, band: nine runs in ten"),
    );
  }

  /** Bounds come once, behind the first picture: draw them into it unless a better one waits. */
  theory(rows, job) {
    job.rows = rows;
    if (job.picture && !this.waiting) this.paint({ picture: job.picture, job });
  }

  done(line, job) {
    job.toml = line.toml;
    if (job !== this.job) return;
    this.current.toml = line.toml;
    this.files.ready();
    this.race.show(job.study, job.setup, this.signal);
  }

  fail(problem) {
    document.body.dataset.explore = "failed";
    this.say("No result");
    // Without an answer the banner says so, and the last pictures stay where they are.
    if (problem.status === 0 && this.current.picture) return;
    const isRefused = problem.status >= 400 && problem.status < 500; // it would be, again
    replace(this.trouble, failed(problem, isRefused ? null : () => this.change()));
  }

  close() {
    clearTimeout(this.writing);
    clearTimeout(this.outdated);
    for (const part of [...this.charts, this.race]) part.close();
    delete document.body.dataset.explore;
  }
}

/** Resolves when the next frame is on the screen: a task comes behind its painting. */
function frame() {
  return new Promise((resolve) => {
    requestAnimationFrame(() => setTimeout(resolve));
  });
}
