"""One browser and one studio for all tests of this package."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from browser import chromium as the_system_s
from browser.studio_pages import Studio, Visit, visiting
from browser.studio_pages import studio as run_studio
from playwright.sync_api import Browser

# The package's, not the session's: while Playwright runs, no other event loop can in its thread.


@pytest.fixture(scope="package")
def chromium() -> Iterator[Browser]:
    with the_system_s.browser() as running:
        yield running


@pytest.fixture(scope="package")
def studio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Studio]:
    """Tests may add to it, but must leave its campaign as it is."""
    with run_studio(tmp_path_factory.mktemp("studio"), visitors=120) as running:
        yield running


@pytest.fixture
def visit(chromium: Browser) -> Iterator[Visit]:
    with visiting(chromium) as opening:
        yield opening
