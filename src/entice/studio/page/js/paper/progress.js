// The progress of the reproduction.

import { h, setText } from "../dom.js";
import { duration, number } from "../format.js";

const PHASES = {
  queued: "Starting …",
  compiling: "Compiling, the first time only …",
  progress: "Simulating every cell of the tables …",
};

/** A card with the progress; `update` takes the lines of the service. */
export function progressCard() {
  const bar = h("progress", { max: 1, "aria-label": "Progress of the reproduction" });
  const phase = h("p", { role: "status" }, PHASES.queued);
  const count = h("p.note.paper-count");
  const node = h(
    "div.card",
    h(
      "div.state",
      h("h2", "Reproducing the paper"),
      phase,
      bar,
      count,
      h("p.note", "Tables and figures appear here when all runs are done."),
    ),
  );
  let first = null; // the first line of the runs, and its time

  function update({ kind, done = null, total = null }) {
    if (PHASES[kind] === undefined) return;
    setText(phase, PHASES[kind]);
    if (total === null) return;
    bar.value = done / total;
    const unit = kind === "compiling" ? "done" : `runs${timeLeft(done, total)}`;
    setText(count, `${number(done)} of ${number(total)} ${unit}`);
  }

  function timeLeft(done, total) {
    const now = performance.now();
    first ??= { done, now };
    if (done === first.done || done === total) return "";
    const seconds = ((now - first.now) / 1000 / (done - first.done)) * (total - done);
    return `, ${duration(Math.ceil(seconds))} left`;
  }

  return { node, update };
}
