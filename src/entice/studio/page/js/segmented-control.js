// A row of buttons, one of which is pressed.

import { h } from "./dom.js";
import { button } from "./layout.js";

/** Make the buttons; the first is pressed. `onChange` is called with the value of another. */
export function segmentedControl(label, options, onChange) {
  const buttons = options.map(([value, text], i) =>
    button(text, () => press(value), { "aria-pressed": String(i === 0) }),
  );
  function press(value) {
    buttons.forEach((button, i) =>
      button.setAttribute("aria-pressed", String(options[i][0] === value)),
    );
    onChange(value);
  }
  return h("div.segments", { role: "group", "aria-label": label }, buttons);
}
