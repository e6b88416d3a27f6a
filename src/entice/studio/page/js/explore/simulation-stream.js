// Simulations that follow the sliders: the newest settings win.

import { jsonLines } from "../api.js";

const GRACE = 300; // milliseconds that an outdated request has to return its first snapshot

/**
 * Run simulations as the settings change. An outdated request may still return its first snapshot,
 * so that the charts change while a slider moves. Then the newest settings are run.
 */
export class SimulationStream {
  /**
   * @param {(line: object, job: object) => void} onLine called with each line
   * @param {(error: Error, job: object) => void} onError called when the newest request has failed
   */
  constructor(onLine, onError, signal) {
    this.onLine = onLine;
    this.onError = onError;
    this.running = null;
    this.next = null;
    signal.addEventListener("abort", () => {
      this.next = null;
      this.running?.abort();
    });
  }

  /** Run a job, `{study, …}`, and cancel the previous one. */
  run(job) {
    this.next = job;
    if (this.running === null) this.start();
    else if (this.hasSnapshot) this.running.abort();
    else this.timer ??= setTimeout(() => this.running?.abort(), GRACE);
  }

  async start() {
    while (this.next !== null) {
      const job = this.next;
      this.next = null;
      this.hasSnapshot = false;
      this.running = new AbortController();
      try {
        await this.read(job, this.running.signal);
      } catch (error) {
        if (!this.running.signal.aborted && this.next === null) this.onError(error, job);
      }
      clearTimeout(this.timer);
      this.timer = null;
    }
    this.running = null;
  }

  async read(job, signal) {
    for await (const line of jsonLines("POST", "/v1/simulations", job.study, { signal })) {
      if (signal.aborted) return;
      this.onLine(line, job);
      if (line.kind !== "picture") continue;
      this.hasSnapshot = true;
      if (this.next !== null) return; // outdated
    }
  }
}
