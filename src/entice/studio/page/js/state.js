// What stands where there is nothing to show yet, or nothing could be had.

import { h } from "./dom.js";

/** Nothing there: why, and what to do. `action` is a node, such as a link or a button. */
export function empty(title, text, action = null) {
  return h("div", { class: "state" }, h("h2", null, title), h("p", null, text), action);
}

/** Something is under way. */
export function loading(text) {
  return h(
    "div",
    { class: "state state-loading", role: "status" },
    h("span", { class: "spinner", "aria-hidden": "true" }),
    h("p", null, text),
  );
}

/** Something failed: what, why, and the way to try again. `problem` is an Error, best a Problem. */
export function failed(problem, retry = null) {
  const button = retry && h("button", { type: "button", on: { click: retry } }, "Try again");
  const title = problem.title ?? "Something went wrong on this page";
  const text = problem.detail ?? problem.message;
  return h(
    "div",
    { class: "state state-failed", role: "alert" },
    h("h2", null, title),
    h("p", null, text),
    button,
  );
}
