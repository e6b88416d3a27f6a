"""Paper: both published tables, the figures, and the settings of the published runs."""

from __future__ import annotations

import polars as pl
from browser.studio_pages import READY, Studio, Visit
from playwright.sync_api import expect

from entice.paper.setups import published

TABLES = {
    "Table 1": ["regret", "compensation"],
    "Table 2": ["compensated_pulls", "best_arm_error_percent"],
}


def test_tables_figures_and_settings(studio: Studio, visit: Visit) -> None:
    page = visit(studio.address("paper"))
    page.wait_for_selector(READY["paper"])
    for name, metrics in TABLES.items():
        cells = page.get_by_label(f"{name}: table").locator("tr.published td")
        shown = [float(text.replace(",", "")) for text in cells.all_inner_texts()]
        values = published().filter(pl.col("metric").is_in(metrics))["value"]
        assert sorted(shown) == values.sort().to_list()
    settings = page.get_by_label("Settings of the published runs: table")
    expect(settings.locator("tbody tr")).to_have_count(6)
    expect(settings.locator("tr", has_text="Thompson").first).to_contain_text("0 of 21")
    expect(page.locator(".js-plotly-plot")).to_have_count(6)
    dots = page.locator(".paper-three .js-plotly-plot").first
    before = dots.get_attribute("aria-label")
    page.get_by_role("button", name="Thompson").click()
    expect(dots).not_to_have_attribute("aria-label", before or "")


PROGRESS = """async () => {
  const { progressCard } = await import("/studio/js/paper/progress.js");
  const { node, update } = progressCard();
  const text = (selector) => node.querySelector(selector).textContent;
  return [
    { kind: "queued", ahead: 0 },
    { kind: "compiling" },
    { kind: "compiling", done: 1, total: 4 },
    { kind: "progress", done: 0, total: 43000 },
    { kind: "progress", done: 43000, total: 43000 },
  ].map((line) => {
    update(line);
    return [text("[role=status]"), text(".paper-count"), node.querySelector("progress").position];
  });
}"""


def test_progress_of_a_reproduction_in_progress(studio: Studio, visit: Visit) -> None:
    page = visit(studio.address("trust"))
    starting, compiling = "Starting …", "Compiling, the first time only …"
    simulating = "Simulating every cell of the tables …"
    assert page.evaluate(PROGRESS) == [
        [starting, "", -1],  # indeterminate
        [compiling, "", -1],
        [compiling, "1 of 4 done", 0.25],
        [simulating, "0 of 43,000 runs", 0],
        [simulating, "43,000 of 43,000 runs", 1],
    ]
