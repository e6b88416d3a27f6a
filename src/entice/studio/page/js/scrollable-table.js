// A table that scrolls horizontally on a narrow screen. Its edge fades while columns are hidden.

import { h } from "./dom.js";

/** @param {string} label name of the region, for keyboards and screen readers */
export function scrollableTable(label, table) {
  const wrap = h("div.table-wrap", { tabindex: "0", role: "region", "aria-label": label }, table);
  const node = h("div.table-frame", wrap);
  const update = () => {
    const hidden = wrap.scrollWidth - wrap.clientWidth - wrap.scrollLeft;
    node.classList.toggle("table-more", hidden > 1); // ignores fractions of a pixel
  };
  wrap.addEventListener("scroll", update, { passive: true });
  const sizes = new ResizeObserver(update);
  sizes.observe(wrap);
  sizes.observe(table);
  return node;
}
