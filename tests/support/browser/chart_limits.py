"""Find what a chart of the page draws outside its axes, where no visitor can see it."""

from __future__ import annotations

import time

from playwright.sync_api import Page

_OUTSIDE = """() => {
  const found = [];
  for (const node of document.querySelectorAll(".js-plotly-plot")) {
    if (node.clientWidth === 0) continue; // another tab's
    const layout = node._fullLayout;
    const name = node.id || (node.getAttribute("aria-label") ?? "").split(".")[0];
    for (const trace of node._fullData) {
      if (trace.visible !== true) continue;
      for (const letter of ["x", "y"]) {
        const axis = layout[`${letter}axis${(trace[`${letter}axis`] ?? letter).slice(1)}`];
        const [from, to] = [...axis.range].map((end) => axis.r2l(end)).sort((a, b) => a - b);
        const slack = 1e-6 * (to - from);
        for (const given of trace[letter] ?? []) {
          if (given === null || given === undefined) continue;
          const at = axis.d2l(given);
          if (axis.type === "log" && !(given > 0))
            found.push(`${name}: ${letter} = ${given} on a logarithmic axis`);
          else if (Number.isFinite(at) && (at < from - slack || at > to + slack))
            found.push(`${name}: ${letter} = ${given}, but the axis shows ${axis.range}`);
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


SETTLING = 20.0
"""Seconds within which a chart that is being drawn must have its axes."""


def charts_outside(page: Page, settling: float = SETTLING) -> list[str]:
    """List all values of the charts in sight that lie outside their axes, and stay there."""
    end = time.monotonic() + settling
    while True:
        found: list[str] = page.evaluate(_OUTSIDE)
        if not found or time.monotonic() > end:
            return found
        page.wait_for_timeout(100)


def charts_in_sight(page: Page) -> int:
    """Count the charts that are drawn."""
    count: int = page.evaluate(
        "() => [...document.querySelectorAll('.js-plotly-plot')]"
        ".filter((node) => node.clientWidth > 0).length"
    )
    return count
