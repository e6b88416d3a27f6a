"""Rebuild the screenshots in docs/studio, which docs/studio.md shows: `make screenshots`.

Names of screens as arguments rebuild those only: `python docs/screenshots.py explore`.

The campaign has simulated visitors with a seed, so the screenshots differ only in dates and ids.
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
from browser.studio_pages import COMPILE_TIMEOUT, READY, WIDE, browser_pages, run_studio

OUT = Path(__file__).parent / "studio"
SCREENS = ("explore", "plan", "campaign")
VISITORS = 400


def save(page: Page, name: str) -> None:
    """Save a screenshot of the whole page."""
    page.evaluate("() => { document.activeElement?.blur(); scrollTo(0, 0); }")
    height = page.evaluate("() => document.documentElement.scrollHeight")
    page.set_viewport_size({"width": WIDE["width"], "height": max(height, WIDE["height"])})
    page.wait_for_timeout(300)  # until the charts are resized
    image = Image.open(io.BytesIO(page.screenshot(full_page=True)))
    path = OUT / f"{name}.webp"
    image.convert("RGB").save(path, lossless=True, method=6)
    print(path.relative_to(OUT.parent))


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
            address = studio.at("#/explore") if screen == "explore" else studio.address(screen)
            page = visit(address)
            page.wait_for_selector(READY[screen], timeout=COMPILE_TIMEOUT)
            save(page, screen)


if __name__ == "__main__":
    main()
