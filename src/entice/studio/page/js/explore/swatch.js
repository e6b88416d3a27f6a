// The colour of a policy, as a small square.

import { h } from "../dom.js";

/** @param {number} series which of the theme's colours */
export function swatch(series) {
  return h("span", { class: "swatch", vars: { "--colour": `var(--series-${series})` } });
}
