"""Find values that a chart of the page draws outside its axes, where they cannot be seen."""

from __future__ import annotations

import time

from playwright.sync_api import Page

_OUTSIDE = """() => {
  const found = [];
  for (const node of document.querySelectorAll(".js-plotly-plot")) {
    if (node.clientWidth === 0) continue; // hidden
    const layout = node._fullLayout;
    const name = node.id || (node.getAttribute("aria-label") ?? "").split(".")[0];
    for (const trace of node._fullData) {
      if (trace.visible !== true) continue;
      for (const letter of ["x", "y"]) {
        const axis = layout[`${letter}axis${(trace[`${letter}axis`] ?? letter).slice(1)}`];
        const [from, to] = [...axis.range].map((end) => axis.r2l(end)).sort((a, b) => a - b);
        const slack = 1e-6 * (to - from);
        for (const value of trace[letter] ?? []) {
          if (value === null || value === undefined) continue;
          const at = axis.d2l(value);
          if (axis.type === "log" && !(value > 0))
            found.push(`${name}: ${letter} = ${value} on a logarithmic axis`);
          else if (Number.isFinite(at) && (at < from - slack || at > to + slack))
            found.push(`${name}: ${letter} = ${value}, but the axis shows ${axis.range}`);
        }
      }
    }
    for (const shape of layout.shapes ?? []) {
      for (const [letter, ends] of [["x", [shape.x0, shape.x1]], ["y", [shape.y0, shape.y1]]]) {
        if (shape[`${letter}ref`] === "paper") continue;
        const axis = layout[`${letter}axis`];
        const [from, to] = [...axis.range].map((end) => axis.r2l(end)).sort((a, b) => a - b);
        for (const end of ends) {
          const at = axis.d2l(end);
          if (at < from - 1e-6 * (to - from) || at > to + 1e-6 * (to - from))
            found.push(`${name}: a line at ${letter} = ${end}, but the axis shows ${axis.range}`);
        }
      }
    }
  }
  return found;
}"""


SETTLE_TIMEOUT = 60.0
"""Seconds to wait for a chart that is still being drawn."""


def values_outside_axes(page: Page, timeout: float = SETTLE_TIMEOUT) -> list[str]:
    """Return the values of visible charts outside their axes, once the charts are drawn."""
    end = time.monotonic() + timeout
    while True:
        found: list[str] = page.evaluate(_OUTSIDE)
        if not found or time.monotonic() > end:
            return found
        page.wait_for_timeout(100)


def count_visible_charts(page: Page) -> int:
    """Return the number of visible charts."""
    count: int = page.evaluate(
        "() => [...document.querySelectorAll('.js-plotly-plot')]"
        ".filter((node) => node.clientWidth > 0).length"
    )
    return count
