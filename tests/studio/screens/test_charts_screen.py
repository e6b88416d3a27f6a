"""Every chart of the page shows all of its data: no value is outside the axes."""

from __future__ import annotations

from browser.chart_limits import count_visible_charts, values_outside_axes
from browser.studio_pages import READY, SMALL, Studio, Visit, explore_table, show, small_plan
from playwright.sync_api import Page, expect

ZERO = "Curves that reach the lower edge go down to zero."
WITHOUT_BOUND = "A band that leaves the chart at the top contains runs that grow without bound."


def test_explore_with_linear_and_logarithmic_axes(studio: Studio, visit: Visit) -> None:
    page = visit(studio.at(SMALL))
    explore_table(page)
    assert count_visible_charts(page) == 3
    assert values_outside_axes(page) == []
    show(page, studio.at(f"{SMALL}&axes=log"))
    explore_table(page)
    assert page.locator("#chart-regret").evaluate("n => n._fullLayout.yaxis.type") == "log"
    assert values_outside_axes(page) == []


def test_explore_with_a_bound(studio: Studio, visit: Visit) -> None:
    settings = (
        "#/explore?policies=ucb&arms=2&horizon=2000&replications=40&seed=7&l=0.5&ratings=bernoulli"
    )
    page = visit(studio.at(f"{settings}&axes=linear"))
    explore_table(page)
    assert values_outside_axes(page) == []
    show(page, studio.at(f"{settings}&axes=log"))
    explore_table(page)
    assert values_outside_axes(page) == []


def test_explore_names_values_that_it_cannot_show(studio: Studio, visit: Visit) -> None:
    small = "arms=9&horizon=500&replications=40&seed=7"
    page = visit(studio.at(f"#/explore?policies=greedy,ucb&l=1&axes=log&{small}"))
    explore_table(page)
    paid = page.locator("section.curves", has=page.locator("#chart-compensation"))
    expect(paid.locator("p.note")).to_have_text(ZERO)
    assert values_outside_axes(page) == []
    show(page, studio.at(f"#/explore?policies=ucb,epsilon&drift=power&l=5&{small}"))
    explore_table(page)
    lost = page.locator("section.curves", has=page.locator("#chart-regret"))
    expect(lost.locator("p.note")).to_have_text(WITHOUT_BOUND)
    outside = values_outside_axes(page, timeout=0)
    assert outside
    assert all("chart-regret: y" in line or "chart-compensation: y" in line for line in outside)


def test_a_value_outside_the_axes_is_found(studio: Studio, visit: Visit) -> None:
    page = visit(studio.at(SMALL))
    explore_table(page)
    _shorten_axis(page, 0.5)
    found = values_outside_axes(page, timeout=0)
    assert found
    assert all(line.startswith("chart-regret: y = ") for line in found)


def _shorten_axis(page: Page, share: float) -> None:
    """Shorten the axis of a chart."""
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
    assert count_visible_charts(page) == 2
    assert values_outside_axes(page) == []


def test_a_campaign(studio: Studio, visit: Visit) -> None:
    page = visit(studio.address("campaign"))
    page.wait_for_selector(READY["campaign"])
    expect(page.locator("#spending-key")).to_contain_text("Line: committed.")
    page.wait_for_selector(".js-plotly-plot")
    assert count_visible_charts(page) == 1
    assert values_outside_axes(page) == []


def test_the_paper(studio: Studio, visit: Visit) -> None:
    page = visit(studio.address("paper"))
    page.wait_for_selector(READY["paper"])
    expect(page.locator(".js-plotly-plot")).to_have_count(6)
    for name in ("UCB", "greedy", "Thompson", "Figure 2", "Figure 3"):
        page.get_by_role("button", name=name).first.click()
        assert values_outside_axes(page) == []
    # Redrawn from the same numbers, the limits stay.
    page.get_by_role("button", name="Figure 3").click()
    page.locator("#theme").click()
    page.wait_for_timeout(500)
    assert values_outside_axes(page) == []
