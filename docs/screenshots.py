"""The pictures of the studio, anew: `make screenshots`.

Every screen, light and dark, wide and narrow, into studio/. A service of its own with the demo's
shop, whose simulated shoppers come by a seed: but for dates, ids and hashes each time the same.
"""

from __future__ import annotations

import io
import sys
import tempfile
from pathlib import Path
from typing import Any

from PIL import Image
from playwright.sync_api import Page, ViewportSize

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))

from browser.chromium import browser
from browser.studio_pages import NARROW, READY, WIDE, studio, visiting

OUT = Path(__file__).parent / "studio"
SHOPPERS = 400
VIEWPORTS = {"wide": WIDE, "narrow": NARROW}
SIZES: dict[str, dict[str, Any]] = {
    "wide": {"device_scale_factor": 1},
    "narrow": {"device_scale_factor": 2, "is_mobile": True, "has_touch": True},
}
MOST = 6_000_000
"""Bytes of all pictures."""


def save(page: Page, name: str) -> int:
    """Take a picture of the whole page, and return its size in bytes."""
    page.evaluate("() => { document.activeElement?.blur(); scrollTo(0, 0); }")
    page.wait_for_timeout(300)  # charts follow the size of their places
    picture = Image.open(io.BytesIO(page.screenshot(full_page=True)))
    path = OUT / f"{name}.webp"
    picture.convert("RGB").save(path, lossless=True, method=6)
    print(path.relative_to(OUT.parent))
    return path.stat().st_size


def fit(page: Page, size: ViewportSize) -> None:
    """Make the window as high as the page: what scrolls inside it is then seen, too."""
    page.set_viewport_size(size)
    height = page.evaluate("() => document.documentElement.scrollHeight")
    page.set_viewport_size({"width": size["width"], "height": max(height, size["height"])})


def main() -> None:
    """Take all pictures."""
    OUT.mkdir(exist_ok=True)
    total = 0
    with (
        tempfile.TemporaryDirectory() as folder,
        studio(Path(folder), SHOPPERS) as shop,
        browser() as chromium,
        visiting(chromium) as visit,
    ):
        shop.new_campaign(name="Cups", arms=["bowl", "glass", "mug"], status="shadow")
        shop.client.change_campaign(shop.new_campaign(name="Cakes"), status="closed")
        for size, options in SIZES.items():
            page = visit(shop.at("#/explore"), viewport=VIEWPORTS[size], **options)
            for screen, ready in READY.items():
                page.goto(shop.at("#/explore") if screen == "explore" else shop.address(screen))
                page.wait_for_selector(ready)
                if screen == "trust":
                    page.get_by_role("button", name="Replay now").first.click()
                    page.wait_for_selector(".replay .verdict-icon-good")
                for scheme in ("light", "dark"):
                    page.emulate_media(color_scheme=scheme)
                    page.wait_for_selector(f"html[data-theme={scheme}]")
                    fit(page, VIEWPORTS[size])
                    total += save(page, f"{screen}-{size}-{scheme}")
    print(f"{total / 1e6:.1f} MB")
    if total > MOST:
        sys.exit(f"That is more than {MOST / 1e6:.0f} MB: take smaller pictures.")


if __name__ == "__main__":
    main()
