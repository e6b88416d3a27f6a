"""The built documentation in a browser: `make docs-check`.

Each page that somebody wrote, and one of each generated kind, on a phone and on a desktop, in light
and dark colours: no serious finding of axe, no sideways scrolling, no error of a script. All links
of all pages lead to a file and an anchor that exist.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from urllib.parse import unquote, urlsplit

from playwright.sync_api import Page

from browser.chromium import run_browser
from browser.page_checks import findings, overflowing

SITE = Path(__file__).parents[3] / "docs" / "_build"
WIDTHS = (390, 1440)
SCHEMES = ("light", "dark")
GENERATED = (
    "reference/python/entice.simulate.html",
    "reference/python/entice.Study.html",
    "reference/generated/cli-entice-serve.html",
    "reference/generated/http-make-offer.html",
    "reference/generated/type-offerview.html",
)
"""One page of each kind with more than 10 pages; the others are checked all."""


def checked_pages(site: Path) -> list[str]:
    """Return the pages to open in the browser."""
    pages = sorted(str(path.relative_to(site)) for path in site.rglob("*.html"))
    many = re.compile(r"reference/(python/|generated/(cli|http|type)-)")
    return [page for page in pages if not many.match(page) or page in GENERATED]


def broken_links(site: Path) -> Iterator[str]:
    """Yield the links whose file or anchor does not exist."""
    texts = {path: path.read_text() for path in site.rglob("*.html")}
    anchors = {path: set(re.findall(r'\bid="([^"]+)"', text)) for path, text in texts.items()}
    for path, text in texts.items():
        for link in set(re.findall(r'<a\b[^>]*?\bhref="([^"]+)"', text)):
            parts = urlsplit(link.replace("&amp;", "&"))
            if parts.scheme:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            anchor = unquote(parts.fragment)
            if not target.is_file() or (
                anchor and target in anchors and anchor not in anchors[target]
            ):
                yield f"{path.relative_to(site)}: {link} does not exist"


def problems(page: Page, address: str) -> list[str]:
    """Open a page, and return what is wrong with it."""
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(f"error of a script: {error}"))
    page.goto(address)
    wide = [f"wider than the window: {element}" for element in overflowing(page)]
    return [*findings(page), *wide, *errors]


def main() -> int:
    """Check the site, and print what is wrong."""
    found = list(broken_links(SITE))
    for text in found:
        print(text, flush=True)
    pages = sys.argv[1:] or checked_pages(SITE)
    with run_browser() as browser:
        for width, scheme in product(WIDTHS, SCHEMES):
            size = {"width": width, "height": 900}
            with browser.new_context(viewport=size, color_scheme=scheme) as context:
                for name in pages:
                    with context.new_page() as page:
                        wrong = problems(page, (SITE / name).as_uri())
                    found += wrong
                    for text in wrong:
                        print(f"{name}, {width} px, {scheme}: {text}", flush=True)
    print(f"{len(pages)} pages checked: {len(found)} problems.")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
