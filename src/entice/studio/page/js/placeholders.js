// Placeholders for content that is missing, loading or failed to load.

import { h } from "./dom.js";
import { button } from "./layout.js";

/** There is nothing to show. `action` is a node, such as a link or a button. */
export function empty(title, text, action = null) {
  return h("div", { class: "state" }, h("h2", null, title), h("p", null, text), action);
}

/** Something is loading. */
export function loading(text) {
  return h(
    "div",
    { class: "state state-loading", role: "status" },
    h("span", { class: "spinner", "aria-hidden": "true" }),
    h("p", null, text),
  );
}

/** Something failed. `problem` is an Error, preferably a Problem; `retry` adds a button. */
export function failed(problem, retry = null) {
  const title = problem.title ?? "This page has an error";
  const text = problem.detail ?? problem.message;
  return h(
    "div",
    { class: "state state-failed", role: "alert" },
    h("h2", null, title),
    h("p", null, text),
    retry && button("Try again", retry),
  );
}
