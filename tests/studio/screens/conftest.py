"""One browser, one studio and one page for the tests of this folder."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest
from browser.chromium import run_browser
from browser.studio_pages import Studio, StudioTab, Visit, browser_pages, run_studio
from playwright.sync_api import Browser

# Not session-scoped: while Playwright runs, no other event loop can run in its thread.


@pytest.fixture(scope="package")
def chromium() -> Iterator[Browser]:
    with run_browser() as running:
        yield running


@pytest.fixture(scope="package")
def studio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Studio]:
    """A studio to which tests may add campaigns; its first one must not be changed."""
    with run_studio(tmp_path_factory.mktemp("studio"), visitors=120) as running:
        yield running


@pytest.fixture(scope="package")
def tab(chromium: Browser) -> Iterator[StudioTab]:
    """A page that tests which need no new one share."""
    with contextlib.closing(StudioTab(chromium)) as shared:
        yield shared


@pytest.fixture
def visit(chromium: Browser, tab: StudioTab) -> Iterator[Visit]:
    with browser_pages(chromium, tab) as open_page:
        yield open_page
