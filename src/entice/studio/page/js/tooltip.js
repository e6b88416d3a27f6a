// Tooltips: shown on hover, on keyboard focus and on touch.

import { h, unique } from "./dom.js";

const LEAVE = 250; // milliseconds in which the pointer can move from the term to the link

/**
 * A term with a tooltip. Not for use inside a label: use `attachTooltip` there.
 * @param {string|Node} text the term
 * @param {string} explanation the tooltip: symbols, formulas, details
 * @param {object} [props] of the term, such as a class; `more` is the address of a longer text
 */
export function term(text, explanation, props = {}) {
  const { class: extra, more, ...rest } = props;
  const link = more && h("a", { href: more }, "More about this term");
  const button = h("button", { ...rest, type: "button", class: ["term", extra] }, text);
  const tip = attachTooltip(button, button, link ? [explanation, "\n", link] : explanation);
  button.addEventListener("click", () => tip.show());
  return h("span", button, tip.node);
}

/**
 * Attach a tooltip to a field or another element that can be focused.
 * @param {HTMLElement} label shows the tooltip on hover
 * @param {HTMLElement} field shows the tooltip on keyboard focus
 * @param {string|Array} explanation text, or text and a link, which keeps the tooltip open while
 *   it has the pointer or the focus
 * @returns {{node: HTMLElement, show: () => void}} the tooltip, to be added to the page
 */
export function attachTooltip(label, field, explanation) {
  const id = unique("tip");
  // A popover is not clipped by its ancestors.
  const hasLink = Array.isArray(explanation);
  const kind = ["tip", hasLink && "tip-link"];
  const node = h("span", { id, class: kind, role: "tooltip", popover: "manual" }, explanation);
  let closing = 0;
  const show = () => {
    clearTimeout(closing);
    if (node.matches(":popover-open")) return;
    node.showPopover();
    place(node, label.getBoundingClientRect());
  };
  const hide = () => node.matches(":popover-open") && node.hidePopover();
  const leave = () => {
    closing = setTimeout(hide, hasLink ? LEAVE : 0);
  };
  field.setAttribute("aria-describedby", id);
  label.addEventListener("pointerenter", show);
  label.addEventListener("pointerleave", leave);
  node.addEventListener("pointerenter", show);
  node.addEventListener("pointerleave", leave);
  node.addEventListener("focusout", hide);
  field.addEventListener("focus", () => field.matches(":focus-visible") && show());
  field.addEventListener("blur", (event) => node.contains(event.relatedTarget) || hide());
  field.addEventListener("input", hide); // it would cover the effect
  field.addEventListener("keydown", (event) => event.key === "Escape" && hide());
  return { node, show };
}

/** Place the tooltip below the label, or above if there is no room, within the window. */
function place(tip, label) {
  const { width, height } = tip.getBoundingClientRect();
  const left = Math.min(Math.max(8, label.left), innerWidth - width - 8);
  const below = label.bottom + 6;
  const hasRoom = below + height <= innerHeight - 8 || label.top < height + 14;
  tip.style.setProperty("left", `${left}px`);
  tip.style.setProperty("top", `${hasRoom ? below : label.top - height - 6}px`);
}
