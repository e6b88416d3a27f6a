"""Checks of any page: accessible, and not wider than the window."""

from __future__ import annotations

import time
from typing import Any

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page


def findings(page: Page) -> list[str]:
    """Return the serious and critical violations that axe finds."""
    # Other results would be described in full too.
    found = Axe().run(page, options={"resultTypes": ["violations"]}).response["violations"]
    return [_describe(each) for each in found if each["impact"] in ("serious", "critical")]


def _describe(violation: dict[str, Any]) -> str:
    nodes = [f"{node['html']}: {node['failureSummary']}" for node in violation["nodes"]]
    return f"{violation['help']}:\n" + "\n".join(nodes)


_OVERFLOWING = """() => {
  const { scrollWidth, clientWidth } = document.documentElement;
  if (scrollWidth <= clientWidth) return [];
  return [...document.querySelectorAll("body *")]
    .filter((node) => node.getBoundingClientRect().right > clientWidth + 1)
    .map((node) => `${node.tagName}.${node.className}`);
}"""


def overflowing(page: Page, timeout: float = 10.0) -> list[str]:
    """Return the elements that make the page scroll sideways, once it fits or `timeout` seconds on.

    Charts follow the width of the window a moment later.
    """
    end = time.monotonic() + timeout
    while True:
        found: list[str] = page.evaluate(_OVERFLOWING)
        if not found or time.monotonic() > end:
            return found
        page.wait_for_timeout(50)
