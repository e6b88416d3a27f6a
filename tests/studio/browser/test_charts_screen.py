"""Every chart of the page shows all of its data: nothing lies outside the axes."""

from __future__ import annotations

from browser.chart_limits import charts_in_sight, charts_outside
from browser.studio_pages import READY, SMALL, Studio, Visit, small_plan, table_of
from playwright.sync_api import Page, expect

ZERO = "What reaches the lower edge goes down to zero."
WITHOUT_BOUND = "A band that leaves the picture at the top holds runs that grow without bound."


def test_explore_on_both_kinds_of_axes(studio: Studio, visit: Visit) -> None:
    page = visit(studio.at(SMALL))
    table_of(page)
    assert charts_in_sight(page) == 3
    assert charts_outside(page) == []
    page.goto(studio.at(f"{SMALL}&axes=log"))
    page.reload()
    table_of(page)
    assert page.locator("#chart-regret").evaluate("n => n._fullLayout.yaxis.type") == "log"
    assert charts_outside(page) == []


def test_explore_where_a_bound_speaks(studio: Studio, visit: Visit) -> None:
    world = (
        "#/explore?policies=ucb&arms=2&horizon=2000&replications=40&seed=7&l=0.5&ratings=bernoulli"
    )
    for axes in ("linear", "log"):
        page = visit(studio.at(f"{world}&axes={axes}"))
        table_of(page)
        assert charts_outside(page) == []


def test_what_explore_leaves_out_it_says(studio: Studio, visit: Visit) -> None:
    small = "arms=9&horizon=500&replications=40&seed=7"
    page = visit(studio.at(f"#/explore?policies=greedy,ucb&l=1&axes=log&{small}"))
    table_of(page)
    paid = page.locator("section.curves", has=page.locator("#chart-compensation"))
    expect(paid.locator("p.note")).to_have_text(ZERO)
    assert charts_outside(page) == []
    page = visit(studio.at(f"#/explore?policies=ucb,epsilon&drift=power&l=5&{small}"))
    table_of(page)
    lost = page.locator("section.curves", has=page.locator("#chart-regret"))
    expect(lost.locator("p.note")).to_have_text(WITHOUT_BOUND)
    outside = charts_outside(page, settling=0)
    assert outside
    assert all("chart-regret: y" in line or "chart-compensation: y" in line for line in outside)


def test_limits_that_cut_off_are_noticed(studio: Studio, visit: Visit) -> None:
    page = visit(studio.at(SMALL))
    table_of(page)
    _end_at(page, 0.5)
    found = charts_outside(page, settling=0)
    assert found
    assert all(line.startswith("chart-regret: y = ") for line in found)


def _end_at(page: Page, share: float) -> None:
    """Let the axis of a chart end at a share of where it did."""
    page.evaluate(
        """(share) => {
          const node = document.getElementById("chart-regret");
          const [low, high] = node._fullLayout.yaxis.range;
          return Plotly.relayout(node, { "yaxis.range": [low, share * high] });
        }""",
        share,
    )


def test_the_plan(studio: Studio, visit: Visit) -> None:
    page = visit(studio.address("plan"))
    small_plan(page, days=9)
    page.wait_for_selector(".js-plotly-plot")
    assert charts_in_sight(page) == 2
    assert charts_outside(page) == []


def test_a_campaign(studio: Studio, visit: Visit) -> None:
    page = visit(studio.address("campaign"))
    page.wait_for_selector(READY["campaign"])
    expect(page.locator("#spending-key")).to_contain_text("Line: committed.")
    page.wait_for_selector(".js-plotly-plot")
    assert charts_in_sight(page) == 1
    assert charts_outside(page) == []


def test_the_paper(studio: Studio, visit: Visit) -> None:
    page = visit(studio.address("paper"))
    page.wait_for_selector(READY["paper"])
    expect(page.locator(".js-plotly-plot")).to_have_count(6)
    for name in ("UCB", "greedy", "Thompson", "Figure 2", "Figure 3"):
        page.get_by_role("button", name=name).first.click()
        assert charts_outside(page) == []
    # Drawn again from the same numbers, limits stay.
    page.get_by_role("button", name="Figure 3").click()
    page.locator("#theme").click()
    page.wait_for_timeout(500)
    assert charts_outside(page) == []
