// Simulations that follow the sliders: the newest set-up wins, and pictures come all the time.

import { lines } from "../api.js";

const PATIENCE = 300; // milliseconds that an outdated request may take to its first picture

/**
 * Run set-ups as they change. While a slider moves, a request that is about to give its first picture
 * is let finish that; otherwise none would ever come. Then the newest set-up is asked for.
 */
export class Stream {
  /**
   * @param {(line: object, job: object) => void} hear called with each line
   * @param {(error: Error, job: object) => void} fail called when a request that counts has failed
   */
  constructor(hear, fail, signal) {
    this.hear = hear;
    this.fail = fail;
    this.running = null;
    this.next = null;
    signal.addEventListener("abort", () => {
      this.next = null;
      this.running?.abort();
    });
  }

  /** Ask for a job, `{study, …}`; what ran before is cancelled. */
  run(job) {
    this.next = job;
    if (this.running === null) this.start();
    else if (this.seen) this.running.abort();
    else this.timer ??= setTimeout(() => this.running?.abort(), PATIENCE);
  }

  async start() {
    while (this.next !== null) {
      const job = this.next;
      this.next = null;
      this.seen = false;
      this.running = new AbortController();
      try {
        await this.listen(job, this.running.signal);
      } catch (error) {
        if (!this.running.signal.aborted && this.next === null) this.fail(error, job);
      }
      clearTimeout(this.timer);
      this.timer = null;
    }
    this.running = null;
  }

  async listen(job, signal) {
    for await (const line of lines("POST", "/v1/simulations", job.study, { signal })) {
      if (signal.aborted) return;
      this.hear(line, job);
      if (line.kind !== "picture") continue;
      this.seen = true;
      if (this.next !== null) return; // outdated: it has given what it could
    }
  }
}
