"""A fixture for the tests of compiled code."""

from __future__ import annotations

from pathlib import Path

import pytest
from compiled_code import clear_memory


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give a test its own empty cache, and no machine code in memory."""
    folder = tmp_path / "cache"
    monkeypatch.setenv("ENTICE_CACHE_DIR", str(folder))
    clear_memory(monkeypatch)
    return folder
