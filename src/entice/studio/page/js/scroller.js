// A table that is too wide for a phone: it scrolls within itself, and its edge fades while there is more.

import { h } from "./dom.js";

/** @param {string} label what a keyboard is told that comes to scroll it */
export function scroller(label, table) {
  const wrap = h(
    "div",
    { class: "table-wrap", tabindex: "0", role: "region", "aria-label": label },
    table,
  );
  const node = h("div", { class: "table-frame" }, wrap);
  const tell = () => {
    const hidden = wrap.scrollWidth - wrap.clientWidth - wrap.scrollLeft;
    node.classList.toggle("table-more", hidden > 1); // fractions of a pixel are none
  };
  wrap.addEventListener("scroll", tell, { passive: true });
  const sizes = new ResizeObserver(tell);
  sizes.observe(wrap);
  sizes.observe(table);
  return node;
}
