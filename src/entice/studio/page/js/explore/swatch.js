// A small square in the colour of a policy.

import { h } from "../dom.js";

/** @param {number} series number of the colour in the theme */
export function swatch(series) {
  return h("span", { class: "swatch", vars: { "--colour": `var(--series-${series})` } });
}
