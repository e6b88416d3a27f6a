// A row of buttons of which one is pressed.

import { h } from "./dom.js";

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
