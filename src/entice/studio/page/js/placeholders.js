// Placeholders for content that is missing, loading or failed to load.

import { h } from "./dom.js";
import { button } from "./layout.js";

/** There is nothing to show. `action` is a node, such as a link or a button. */
export function empty(title, text, action = null) {
  return h("div.state", h("h2", title), h("p", text), action);
}

/** Something is loading. */
export function loading(text) {
  return h(
    "div.state.state-loading",
    { role: "status" },
    h("span.spinner", { "aria-hidden": "true" }),
    h("p", text),
  );
}

/** Something failed. `problem` is an Error, preferably a Problem; `retry` adds a button. */
export function failed(problem, retry = null) {
  const title = problem.title ?? "This page has an error";
  const text = problem.detail ?? problem.message;
  return h(
    "div.state.state-failed",
    { role: "alert" },
    h("h2", title),
    h("p", text),
    retry && button("Try again", retry),
  );
}
