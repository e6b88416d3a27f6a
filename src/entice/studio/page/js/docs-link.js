// Links to the documentation.

import { h } from "./dom.js";
import { SITE } from "./site.js";

/**
 * A link to a page of the documentation in a new tab or, if the site is not built here, the path of
 * the page in the repository.
 * @param {string} page such as "how-to/plan.md#worth-knowing"
 */
export function docsLink(page) {
  if (!SITE) return h("code", `docs/${page}`);
  return h("a", { href: SITE + page.replace(".md", ".html"), target: "_blank" }, `docs/${page}`);
}
