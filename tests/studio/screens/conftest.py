"""One browser, one studio and a few pages for the tests of this folder."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest
from browser.chromium import run_browser
from browser.studio_pages import Studio, StudioTabs, Visit, browser_pages, run_studio
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
def tabs(chromium: Browser) -> Iterator[StudioTabs]:
    """Pages that tests share."""
    with contextlib.closing(StudioTabs(chromium)) as shared:
        yield shared


@pytest.fixture
def visit(chromium: Browser, tabs: StudioTabs) -> Iterator[Visit]:
    with browser_pages(chromium, tabs) as open_page:
        yield open_page
