// A slider with a label and its value as text.

import { h, unique } from "./dom.js";
import { attachTooltip } from "./tooltip.js";

/**
 * @param {object} options
 * @param {string} options.label
 * @param {string} [options.tip] text of the tooltip
 * @param {number[]} options.values all values, in order
 * @param {number} options.value
 * @param {(value: number) => string} options.format the value as text, with its unit
 * @param {(value: number) => void} options.onInput called while it moves
 * @param {string} [options.note] text below the slider
 * @param {string} [options.name] name of the input
 * @returns {{node: HTMLElement, set: (value: number) => void}}
 */
export function slider({ label, tip, values, value, format, onInput, note, name }) {
  const id = unique("slider");
  const output = h("output.slider-value", { for: id });
  const input = h("input", { id, name, type: "range", min: 0, max: values.length - 1, step: 1 });
  const showValue = () => {
    const text = format(values[input.valueAsNumber]);
    output.textContent = text;
    input.setAttribute("aria-valuetext", text);
    input.style.setProperty("--share", String(input.valueAsNumber / (values.length - 1)));
  };
  const set = (newValue) => {
    input.value = String(nearestIndex(values, newValue));
    showValue();
  };
  input.addEventListener("input", () => {
    showValue();
    onInput(values[input.valueAsNumber]);
  });
  set(value);
  const labelNode = h("label", { for: id, class: tip && "explained" }, label);
  const node = h(
    "div.slider",
    h("div.slider-head", labelNode, output),
    tip && attachTooltip(labelNode, input, tip).node,
    input,
    note && h("p.note", note),
  );
  return { node, set };
}

function nearestIndex(values, target) {
  let best = 0;
  for (let i = 1; i < values.length; i += 1)
    if (Math.abs(values[i] - target) < Math.abs(values[best] - target)) best = i;
  return best;
}

/** Evenly spaced values without rounding errors. */
export function steps(first, last, step) {
  const count = Math.round((last - first) / step);
  return Array.from({ length: count + 1 }, (_, i) => Number((first + i * step).toFixed(6)));
}
