"""Explore: results follow the sliders."""

from __future__ import annotations

import re
from pathlib import Path

import polars as pl
from browser.studio_pages import (
    COMPILE_TIMEOUT,
    SMALL,
    Studio,
    Visit,
    drawn_lines,
    explore_table,
    show,
)
from playwright.sync_api import Page, Route, expect

import entice


def drag(page: Page, name: str, to: float) -> None:
    """Drag a slider to a share of its length."""
    slider = page.locator(f"input[name={name}]")
    slider.scroll_into_view_if_needed()
    box = slider.bounding_box()
    assert box is not None
    share = float(slider.evaluate("slider => slider.value / slider.max"))
    middle = box["y"] + box["height"] / 2
    page.mouse.move(box["x"] + 8 + share * (box["width"] - 16), middle)
    page.mouse.down()
    page.mouse.move(box["x"] + to * box["width"], middle, steps=6)
    page.mouse.up()


def test_moving_a_slider_changes_the_curves(studio: Studio, visit: Visit) -> None:
    page = visit(studio.at(SMALL))
    numbers, curve = explore_table(page), drawn_lines(page)
    assert len(numbers) == 2
    assert len(curve) >= 4  # a band and a median for each policy
    drag(page, "l", to=0.9)
    expect(page.locator("body")).to_have_attribute("data-explore", "done")
    assert explore_table(page) != numbers
    assert drawn_lines(page) != curve
    expect(page.locator("output.slider-value").first).to_have_text(re.compile(r"^4\.\d × "))
    expect(page).to_have_url(re.compile(r"[?&]l=4\.\d&"))


def test_the_drift_does_not_change_the_results_of_equal_pay(studio: Studio, visit: Visit) -> None:
    page = visit(studio.at(SMALL.replace("ucb,thompson", "ucb,equal")))
    page.wait_for_selector("body[data-explore=done]", timeout=COMPILE_TIMEOUT)
    ucb, equal = explore_table(page)
    _, line = median_curves(page)
    caption = page.locator(".invariance")
    expect(caption).to_contain_text("the other lines move, this one stays")
    drag(page, "l", to=0.9)
    expect(page).to_have_url(re.compile(r"[?&]l=4\.\d&"))
    other_ucb, same = explore_table(page)
    assert same == equal
    assert other_ucb != ucb
    assert median_curves(page)[1] == line
    page.get_by_label("UCB", exact=True).check()
    page.get_by_label("Equal pay", exact=True).uncheck()
    expect(caption).to_be_hidden()


def median_curves(page: Page) -> list[list[float]]:
    """Return the medians of the losses, unrounded, one list for each policy."""
    curves: list[list[float]] = page.locator("#chart-regret").evaluate(
        "chart => chart.data.filter((trace) => trace.name).map((trace) => Array.from(trace.y))"
    )
    return curves


def test_downloads_match_the_command_line(studio: Studio, visit: Visit, tmp_path: Path) -> None:
    page = visit(studio.at(SMALL))
    explore_table(page)
    for kind in ("TOML", "CSV", "PNG"):
        with page.expect_download() as download:
            page.get_by_role("button", name=kind).click()
        download.value.save_as(tmp_path / f"study.{kind.lower()}")
    result = entice.run(entice.Study.from_file(tmp_path / "study.toml"), progress=False)
    shown = pl.read_csv(tmp_path / "study.csv")
    found = result.curves.filter(metric="regret", t=500)
    assert shown.filter(metric="regret", t=500)["q50"].to_list() == found["q50"].to_list()
    cell = page.locator("tr[data-policy=UCB] td[data-metric=lost] strong")
    assert float(cell.inner_text()) == round(found["q50"][0], 1)
    assert (tmp_path / "study.png").read_bytes()[:4] == b"\x89PNG"


def test_a_permalink_gives_the_same_numbers_in_another_browser(
    studio: Studio, visit: Visit
) -> None:
    page = visit(studio.at(SMALL))
    explore_table(page)
    drag(page, "arms", to=0.5)
    page.get_by_label("Seed").fill("11")
    expect(page).to_have_url(re.compile("seed=11"))
    numbers = explore_table(page)
    link = page.url
    assert studio.key not in link
    other = visit(studio.at(link.partition("/#")[2]))
    assert explore_table(other) == numbers
    assert drawn_lines(other) == drawn_lines(page)
    assert other.url == link
    page.get_by_label("Seed").fill("12")
    expect(page).to_have_url(re.compile("seed=12"))
    assert explore_table(page) != numbers


def test_it_works_with_the_keyboard_alone(studio: Studio, visit: Visit) -> None:
    page = visit(studio.at(SMALL), new=True)
    numbers = explore_table(page)
    page.keyboard.press("Tab")
    expect(page.locator(":focus")).to_have_text("Skip to content")
    page.keyboard.press("Enter")
    expect(page.locator("#screen")).to_be_focused()
    slider = page.get_by_label("Strength")
    unfocused = slider.screenshot()
    for _ in range(30):
        page.keyboard.press("Tab")
        if slider.evaluate("slider => slider === document.activeElement"):
            break
    expect(slider).to_be_focused()
    expect(page.get_by_role("tooltip", name=re.compile("drift coefficient"))).to_be_visible()
    assert slider.screenshot() != unfocused
    for _ in range(5):
        page.keyboard.press("ArrowRight")
    expect(slider).to_have_attribute("aria-valuetext", "1.5 × the payment")
    assert explore_table(page) != numbers
    page.keyboard.press("Home")
    expect(slider).to_have_attribute("aria-valuetext", "none")


def test_a_single_run_has_a_time_slider(studio: Studio, visit: Visit) -> None:
    page = visit(studio.address("explore"))
    caption, time = page.locator(".single-run-caption"), page.get_by_label("Time in the run")
    expect(caption).to_contain_text("After 500 visitors")
    last = page.locator(".single-run-rows").inner_text()
    time.fill("500")
    expect(caption).to_contain_text(re.compile(r"After 2[45]\d visitors"))
    assert page.locator(".single-run-rows").inner_text() != last
    page.get_by_role("button", name="Next run").click()
    expect(caption).to_contain_text("Run 2 of 100")


def test_bounds_are_drawn_or_the_reason_is_given(studio: Studio, visit: Visit) -> None:
    small = "arms=3&spread=0.6&l=0.3&horizon=2000&replications=100&seed=7"
    page = visit(studio.at(f"#/explore?policies=ucb&ratings=bernoulli&axes=log&{small}"))
    explore_table(page)
    expect(page.locator(".bound[data-usable=true]").first).to_be_visible()
    assert page.locator("#chart-regret path.js-line[style*=dasharray]").count() > 0
    show(page, studio.at(f"#/explore?policies=thompson&{small}"))
    explore_table(page)
    badge = page.locator(".bound[data-usable=false] .badge").first
    expect(badge).to_have_text(re.compile("no useful bound|does not apply"))
    badge.hover()
    expect(page.get_by_role("tooltip").filter(visible=True)).to_contain_text("With these settings")


def test_a_rejected_simulation_shows_the_error(studio: Studio, visit: Visit) -> None:
    page = visit(studio.at(SMALL), expecting="422")
    numbers = explore_table(page)

    def enlarge(route: Route) -> None:
        route.continue_(post_data={**route.request.post_data_json, "replications": 10**6})

    page.route("**/v1/simulations", enlarge)
    page.get_by_label("Seed").fill("8")
    error = page.locator(".errors [role=alert]")
    expect(error).to_contain_text("10,000")
    page.unroute("**/v1/simulations")
    page.get_by_label("Seed").fill("9")
    assert explore_table(page) != numbers
    expect(error).to_have_count(0)
