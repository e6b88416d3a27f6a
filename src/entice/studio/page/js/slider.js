// A slider with its name and its value in words.

import { h, unique } from "./dom.js";
import { explain } from "./tip.js";

/**
 * @param {object} given
 * @param {string} given.label
 * @param {string} [given.tip] what it is, in symbols, on demand
 * @param {number[]} given.values all that can be chosen, in order
 * @param {number} given.value
 * @param {(value: number) => string} given.format the value in words, with its unit
 * @param {(value: number) => void} given.onInput while it moves
 * @param {string} [given.note] a sentence below
 * @param {string} [given.name] for tests and links
 * @returns {{node: HTMLElement, set: (value: number) => void}}
 */
export function slider({ label, tip, values, value, format, onInput, note, name }) {
  const id = unique("slider");
  const output = h("output", { for: id, class: "slider-value" });
  const input = h("input", { id, name, type: "range", min: 0, max: values.length - 1, step: 1 });
  const tell = () => {
    const text = format(values[input.valueAsNumber]);
    output.textContent = text;
    input.setAttribute("aria-valuetext", text);
    input.style.setProperty("--share", String(input.valueAsNumber / (values.length - 1)));
  };
  const set = (chosen) => {
    input.value = String(nearest(values, chosen));
    tell();
  };
  input.addEventListener("input", () => {
    tell();
    onInput(values[input.valueAsNumber]);
  });
  set(value);
  const words = h("label", { for: id, class: tip && "explained" }, label);
  const node = h(
    "div",
    { class: "slider" },
    h("div", { class: "slider-head" }, words, output),
    tip && explain(words, input, tip).node,
    input,
    note && h("p", { class: "note" }, note),
  );
  return { node, set };
}

/** The place of the value that is closest to a given one. */
function nearest(values, given) {
  let best = 0;
  for (let i = 1; i < values.length; i += 1)
    if (Math.abs(values[i] - given) < Math.abs(values[best] - given)) best = i;
  return best;
}

/** Evenly spaced values, free of rounding dust. */
export function steps(first, last, step) {
  const count = Math.round((last - first) / step);
  return Array.from({ length: count + 1 }, (_, i) => Number((first + i * step).toFixed(6)));
}
