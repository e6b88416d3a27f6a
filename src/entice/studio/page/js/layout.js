// Parts that several screens have: the head of a screen, a card, a table, facts, colours, buttons.

import { h } from "./dom.js";

/** The head of a screen: its title, a text or nodes about it, and a node on the right. */
export function screenHead(title, lead, aside = null) {
  const words = h("div", h("h1", title), h("p.lead", lead));
  return h("header.screen-head", words, aside);
}

/** A card: its class, its title, a text or nodes below the title, and its content. */
export function card(name, title, text, ...children) {
  return h(
    "section",
    { class: ["card", name], "aria-label": title },
    h("header", h("h2", title), h("p", text)),
    children,
  );
}

/** A table of figures: the titles of its columns, and rows that start with their names. */
export function figureTable(columns, rows) {
  const head = columns.map((column) => h("th", { scope: "col" }, column));
  const cell = (content) => (content instanceof HTMLElement ? content : h("td", content));
  const row = ([name, ...cells]) => h("tr", h("th", { scope: "row" }, name), cells.map(cell));
  return h("table.figure-table", h("thead", h("tr", h("td"), head)), h("tbody", rows.map(row)));
}

/** An entry of a `dl`: a name and its value. */
export function fact(name, ...value) {
  return h("div", h("dt", name), h("dd", value));
}

/** A button. */
export function button(text, click, props = {}) {
  return h("button", { type: "button", ...props, on: { click } }, text);
}

/** A dot in the colour of a series, or in the `--series` of its parent. */
export function swatch(series = null) {
  const vars = series === null ? {} : seriesColour(series);
  return h("span.swatch", { "aria-hidden": "true", vars });
}

/** The colour of a series as `--series`: for `vars`. */
export function seriesColour(series) {
  return { "--series": `var(--series-${series})` };
}

/** Entries of a chart's legend: each is the number of a series and its name. */
export function legendEntries(entries) {
  return entries.map(([series, name]) => h("li", { vars: seriesColour(series) }, name));
}
