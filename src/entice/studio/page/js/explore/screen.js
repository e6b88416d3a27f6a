// Explore: simulate policies, with results that follow the sliders.

import { connection } from "../api.js";
import { h, replace } from "../dom.js";
import { compilation, duration, number } from "../format.js";
import { swatch } from "../layout.js";
import { failed } from "../placeholders.js";
import { Controls } from "./controls.js";
import { Curves } from "./curves.js";
import { Distribution } from "./distribution.js";
import { downloads } from "./downloads.js";
import { AXES, DRIFTS, POLICIES, fromQuery, toQuery, toStudy } from "./settings.js";
import { SimulationStream } from "./simulation-stream.js";
import { SingleRun } from "./single-run.js";
import { Table } from "./table.js";

const LEAD =
  "Visitors choose the item with the best average rating. A platform learns more by paying some of " +
  "them to try another item, but paid visitors rate higher. Move a slider to see what that costs.";
const ADDRESS_DELAY = 250; // milliseconds; browsers limit how often the address may change
const OUTDATED_AFTER = 600; // milliseconds until results of previous settings are greyed out

/** Show the screen. */
export async function show(root, { query, signal }) {
  new Explore(root, fromQuery(query), signal).run();
}

class Explore {
  constructor(root, settings, signal) {
    this.settings = settings;
    this.signal = signal;
    this.stream = new SimulationStream(
      (line, job) => this.handleLine(line, job),
      (error) => this.fail(error),
      signal,
    );
    this.regret = new Curves({
      metric: "regret",
      title: "Losses",
      text: "Total loss from not always showing the best item.",
      symbols: "Regret R(t) = Σ (μ* − μ_I): the best true mean minus that of the shown item",
      unit: "Lost so far (rating points)",
    });
    this.compensation = new Curves({
      metric: "compensation",
      title: "Payments",
      text: "Total payments to visitors.",
      symbols:
        "Compensation C(t) = Σ (m_G − m_I): the average of the visitor's own choice minus that of " +
        "the shown item. Equal pay also pays some visitors for their own choice",
      unit: "Paid so far (rating points)",
    });
    this.table = new Table();
    this.distribution = new Distribution();
    this.singleRun = new SingleRun();
    this.charts = [this.regret, this.compensation, this.distribution];
    this.current = { settings, snapshot: null, toml: null };
    this.downloads = downloads(
      () => this.current,
      () => Promise.all(this.charts.map((chart) => chart.png())),
    );
    this.controls = new Controls(settings, () => this.run(), signal);
    this.build(root);
    connection.addEventListener("back", () => this.run(), { signal });
    signal.addEventListener("abort", () => this.close());
  }

  build(root) {
    this.status = h("span.runs-text", "Starting …");
    this.legend = h("ul.legend", { "aria-label": "Colours" });
    this.axesButtons = this.makeAxesButtons();
    this.bar = h("span.runs-bar", { "aria-hidden": "true" });
    this.announcement = h("p.visually-hidden", { "aria-live": "polite" });
    this.errors = h("div.errors");
    this.invariance = h("p.invariance", { hidden: true });
    this.results = h(
      "div.results",
      { "aria-label": "Results", role: "region" },
      this.errors,
      this.invariance,
      h("div.pair", this.regret.node, this.compensation.node),
      this.table.node,
      h("div.pair", this.distribution.node, this.singleRun.node),
    );
    replace(
      root,
      h(
        "header.explore-head",
        h("div", h("h1", "Explore"), h("p.lead", LEAD)),
        this.downloads.node,
      ),
      this.controls.presets,
      h("div.runs", this.status, this.legend, this.axesButtons, this.bar),
      this.announcement,
      h("div.explore", this.controls.node, this.results),
    );
  }

  makeAxesButtons() {
    const choose = (axes) => {
      this.settings.axes = axes;
      this.controls.update();
      this.updateAxes();
      this.updateAddress();
    };
    return h(
      "div.segments",
      { role: "group", "aria-label": "Axes of the curves" },
      Object.entries(AXES).map(([axes, name]) =>
        h("button", { type: "button", dataset: { axes }, on: { click: () => choose(axes) } }, name),
      ),
    );
  }

  /** Apply the chosen axes to the buttons and curves. */
  updateAxes() {
    const { axes } = this.settings;
    for (const button of this.axesButtons.children)
      button.setAttribute("aria-pressed", String(button.dataset.axes === axes));
    this.regret.setAxes(axes);
    this.compensation.setAxes(axes);
  }

  /** Run the current settings and write them to the address. */
  run() {
    performance.mark("explore:input");
    const settings = { ...this.settings };
    this.job = { settings, study: toStudy(settings), started: performance.now() };
    document.body.dataset.explore = "running";
    this.updateLegend(settings.policies);
    this.updateInvariance(settings);
    this.results.style.setProperty("--rows", String(settings.policies.length));
    this.results.style.setProperty("--items", String(settings.arms));
    this.outdated ??= setTimeout(() => this.results.classList.add("outdated"), OUTDATED_AFTER);
    this.stream.run(this.job);
    this.updateAxes();
    this.updateAddress();
  }

  updateAddress() {
    clearTimeout(this.addressTimer);
    this.addressTimer = setTimeout(
      () => history.replaceState(null, "", toQuery(this.settings)),
      ADDRESS_DELAY,
    );
  }

  handleLine(line, job) {
    if (line.kind === "queued" && line.ahead) this.setStatus(`Queued: ${line.ahead} ahead`);
    else if (line.kind === "compiling") this.setStatus(compilation(line));
    else if (line.kind === "picture") this.paint({ snapshot: line, job });
    else if (line.kind === "bounds") this.addBounds(line.rows, job);
    else if (line.kind === "done") this.finish(line, job);
    else if (line.kind === "failed" && job === this.job) this.fail(line);
  }

  setStatus(text) {
    this.status.textContent = text;
  }

  /** Draw a snapshot. If several arrive meanwhile, only the last one is drawn. */
  async paint(next) {
    this.waiting = next;
    if (this.painting) return;
    this.painting = true;
    while (this.waiting && !this.signal.aborted) {
      const shown = this.waiting;
      this.waiting = null;
      try {
        await this.draw(shown);
      } catch (error) {
        this.fail(error);
      }
      await nextFrame();
    }
    this.painting = false;
  }

  async draw({ snapshot, job }) {
    const { settings } = job;
    replace(this.errors);
    if (job.rows) this.bounds = { rows: job.rows, policies: String(settings.policies) };
    // The previous bounds stay until new ones arrive, unless the policies have changed.
    const rows = this.bounds?.policies === String(settings.policies) ? this.bounds.rows : [];
    this.table.show(snapshot, settings);
    await Promise.all(
      [this.regret, this.compensation].map((chart) => chart.show(snapshot, settings, rows)),
    );
    const isNewest = job === this.job;
    this.current = { settings, snapshot, toml: isNewest ? (job.toml ?? null) : null };
    this.downloads.update();
    if (isNewest && !job.snapshot) this.showUpToDate();
    job.snapshot = snapshot;
    await nextFrame();
    await this.distribution.show(snapshot, settings);
    const { replications, of } = snapshot;
    const seconds = (performance.now() - job.started) / 1000;
    this.setStatus(`${number(replications)} of ${number(of)} runs, ${duration(seconds)}`);
    this.bar.style.setProperty("--share", String(replications / of));
    document.body.dataset.runs = String(replications);
    if (replications !== of || !isNewest) return;
    performance.mark("explore:last");
    document.body.dataset.explore = "done";
    this.announcement.textContent = this.regret.sentence();
  }

  showUpToDate() {
    performance.mark("explore:first");
    clearTimeout(this.outdated);
    this.outdated = null;
    this.results.classList.remove("outdated");
  }

  updateLegend(policies) {
    if (String(policies) === this.legendPolicies) return;
    this.legendPolicies = String(policies);
    const entries = policies.map((name) => POLICIES[name]);
    replace(
      this.legend,
      entries.map(({ name, series }) => h("li", swatch(series), name)),
      h("li.legend-note", "line: median, band: 5 to 95 % of the runs"),
    );
  }

  /** Say which lines do not depend on the strength of the drift. */
  updateInvariance({ policies, drift }) {
    const equal = policies.map((name) => POLICIES[name]).filter(({ isEqualPay }) => isEqualPay);
    this.invariance.hidden = equal.length === 0;
    const isOne = equal.length === 1;
    const invariant =
      ` ${isOne ? "compares" : "compare"} only ratings given under equal payments, so the drift ` +
      `cancels. Change its strength: the other lines move, ${isOne ? "this one stays" : "these stay"}.`;
    const varying =
      ` ${isOne ? "moves" : "move"} a little with this drift, which is not the same for all visitors. ` +
      "All other forms of drift cancel: their strength makes no difference.";
    replace(
      this.invariance,
      equal.map(({ series, name }, i) => [i > 0 && " and ", swatch(series), h("strong", name)]),
      DRIFTS[drift].varies ? varying : invariant,
    );
  }

  /** Bounds arrive once, after the first snapshot: redraw it unless a newer one waits. */
  addBounds(rows, job) {
    job.rows = rows;
    if (job.snapshot && !this.waiting) this.paint({ snapshot: job.snapshot, job });
  }

  finish(line, job) {
    job.toml = line.toml;
    if (job !== this.job) return;
    this.current.toml = line.toml;
    this.downloads.update();
    this.singleRun.show(job.study, job.settings, this.signal);
  }

  fail(problem) {
    document.body.dataset.explore = "failed";
    this.setStatus("No result");
    // If the connection is lost, the banner reports it and the last results stay.
    if (problem.status === 0 && this.current.snapshot) return;
    const isRejected = problem.status >= 400 && problem.status < 500; // a retry would not help
    replace(this.errors, failed(problem, isRejected ? null : () => this.run()));
  }

  close() {
    clearTimeout(this.addressTimer);
    clearTimeout(this.outdated);
    for (const part of [...this.charts, this.singleRun]) part.close();
    delete document.body.dataset.explore;
  }
}

/** Resolves after the next frame was painted. */
function nextFrame() {
  return new Promise((resolve) => {
    requestAnimationFrame(() => setTimeout(resolve));
  });
}
