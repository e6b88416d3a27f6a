// What the tables and figures of the paper are called, and how one is chosen.

import { h } from "../dom.js";

export const METRICS = {
  regret: "Regret",
  compensation: "Compensation",
  compensated_pulls: "Paid pulls",
  best_arm_error_percent: "Error of the best item's average, %",
};

export const SETUPS = { written: "as written", published: "best fit" };

/** A number of a table: whole from 10 up, two digits below. */
export function figure(x) {
  const digits = Math.abs(x) >= 10 ? 0 : Math.abs(x) >= 1 ? 1 : 3;
  return x.toLocaleString("en", { maximumFractionDigits: digits }).replace("-", "−");
}

/** Buttons that exclude each other. Returns their node; `chosen` is told which. */
export function choice(label, options, chosen) {
  const buttons = options.map(([value, words], i) =>
    h(
      "button",
      { type: "button", "aria-pressed": String(i === 0), on: { click: () => choose(value) } },
      words,
    ),
  );
  function choose(value) {
    buttons.forEach((button, i) =>
      button.setAttribute("aria-pressed", String(options[i][0] === value)),
    );
    chosen(value);
  }
  return h("div", { class: "segments", role: "group", "aria-label": label }, buttons);
}
