// Words that explain themselves: on hover, on focus, and on a touch.

import { h, unique } from "./dom.js";

/**
 * A word with an explanation. Not inside a label: there, `explain` the field.
 * @param {string|Node} words what is read
 * @param {string} explanation what is told on demand: symbols, formulas, details
 * @param {object} [props] of the word, such as a class
 */
export function term(words, explanation, props = {}) {
  const { class: extra, ...rest } = props;
  const word = h("button", { ...rest, type: "button", class: ["term", extra] }, words);
  const tip = explain(word, word, explanation);
  word.addEventListener("click", () => tip.show());
  return h("span", { class: "with-tip" }, word, tip.node);
}

/**
 * Explain a field, or any other element that can be focused.
 * @param {HTMLElement} word shows the explanation when it is pointed at
 * @param {HTMLElement} field shows it when the keyboard leads there, and is described by it
 * @returns {{node: HTMLElement, show: () => void}} the explanation, to be put beside it
 */
export function explain(word, field, explanation) {
  const id = unique("tip");
  // A popover lies above everything, whatever clips its place in the page.
  const node = h("span", { id, class: "tip", role: "tooltip", popover: "manual" }, explanation);
  const show = () => {
    if (node.matches(":popover-open")) return;
    node.showPopover();
    place(node, word.getBoundingClientRect());
  };
  const hide = () => node.matches(":popover-open") && node.hidePopover();
  field.setAttribute("aria-describedby", id);
  word.addEventListener("pointerenter", show);
  word.addEventListener("pointerleave", hide);
  field.addEventListener("focus", () => field.matches(":focus-visible") && show());
  field.addEventListener("blur", hide);
  field.addEventListener("input", hide); // whoever uses it wants to see what happens
  field.addEventListener("keydown", (event) => event.key === "Escape" && hide());
  return { node, show };
}

/** Above the word, or below where there is no room; never beyond the window. */
function place(tip, word) {
  const { width, height } = tip.getBoundingClientRect();
  const left = Math.min(Math.max(8, word.left), innerWidth - width - 8);
  const above = word.top - height - 6;
  tip.style.setProperty("left", `${left}px`);
  tip.style.setProperty("top", `${above < 8 ? word.bottom + 6 : above}px`);
}
