"""Rebuild the screenshots in docs/studio, which the documents show: `make screenshots`.

Names of screens as arguments rebuild those only: `python docs/screenshots.py explore`.

The campaigns have simulated visitors with a seed, so the screenshots differ only in dates and ids;
in that of the effect, the players who are held out differ too.
"""

from __future__ import annotations

import io
import sys
import tempfile
from pathlib import Path

from PIL import Image
from playwright.sync_api import Page

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))

from browser.chromium import run_browser
from browser.studio_pages import COMPILE_TIMEOUT, READY, WIDE, Studio, browser_pages, run_studio

from entice.studio.demo.visitors import VisitorSimulator

OUT = Path(__file__).parent / "studio"
SCREENS = ("explore", "plan", "campaign", "effect")
VISITORS = 400
EFFECT_SETTINGS = {"holdout": 0.5, "probe": {"share": 1, "amount": 1.0}, "budget": 5_000_00}
"""Half of the visitors who are not held out are paid a star, which raises their ratings."""
EFFECT_VISITORS = 2_500


def save(page: Page, name: str) -> None:
    """Save a screenshot of the whole page."""
    page.evaluate("() => { document.activeElement?.blur(); scrollTo(0, 0); }")
    height = page.evaluate("() => document.documentElement.scrollHeight")
    page.set_viewport_size({"width": WIDE["width"], "height": max(height, WIDE["height"])})
    page.wait_for_timeout(1000)  # until the charts are resized
    write(page.screenshot(full_page=True), name)


def write(png: bytes, name: str) -> None:
    """Write a screenshot to its file."""
    image = Image.open(io.BytesIO(png))
    path = OUT / f"{name}.webp"
    image.convert("RGB").save(path, lossless=True, method=6)
    print(path.relative_to(OUT.parent))


def effect_address(studio: Studio) -> str:
    """Simulate a campaign with a holdout, and return the address of its page."""
    campaign = studio.client.campaign(studio.new_campaign(**EFFECT_SETTINGS))
    simulator = VisitorSimulator(studio.client, seed=8)
    for _ in range(EFFECT_VISITORS):
        simulator.step([campaign])
    return studio.at(f"#/campaign/{campaign.id}")


def main() -> None:
    """Take the screenshots of the screens that are named in the command, or all."""
    OUT.mkdir(exist_ok=True)
    with (
        tempfile.TemporaryDirectory() as folder,
        run_studio(Path(folder), VISITORS, new=True) as studio,
        run_browser() as chromium,
        browser_pages(chromium) as visit,
    ):
        for screen in sys.argv[1:] or SCREENS:
            if screen == "effect":
                page = visit(effect_address(studio))
                page.wait_for_selector(".effect-plot", timeout=COMPILE_TIMEOUT)
                write(page.locator(".effect-card").screenshot(), screen)
                continue
            address = studio.at("#/explore") if screen == "explore" else studio.address(screen)
            page = visit(address)
            page.wait_for_selector(READY[screen], timeout=COMPILE_TIMEOUT)
            page.wait_for_selector(".js-plotly-plot .main-svg", timeout=COMPILE_TIMEOUT)
            save(page, screen)


if __name__ == "__main__":
    main()
