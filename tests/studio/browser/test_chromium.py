"""The browser itself: without it nothing is skipped, and what to do is said."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from browser import chromium

HERE = Path(__file__).parents[1]


def test_the_system_s_is_found() -> None:
    assert Path(chromium.find()).is_file()


def test_where_there_is_none_it_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("ENTICE_CHROMIUM", raising=False)
    with pytest.raises(chromium.NoBrowser, match="`make browser` installs it"):
        chromium.find()
    with pytest.raises(SystemExit, match="There is no Chromium"):
        chromium.main()


def test_one_that_was_named_is_not_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ENTICE_CHROMIUM", "/nowhere/chromium")
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: pytest.fail("it installs"))
    with pytest.raises(SystemExit, match="looked for /nowhere/chromium"):
        chromium.main()


def test_debian_s_is_installed_by_root(monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[list[str]] = []
    there = {"apt-get": "/usr/bin/apt-get"}

    def run(command: list[str], **_: object) -> None:
        ran.append(command)
        there["chromium"] = "/usr/bin/chromium"

    monkeypatch.delenv("ENTICE_CHROMIUM", raising=False)
    monkeypatch.setattr(chromium.os, "geteuid", lambda: 0)
    monkeypatch.setattr(chromium.shutil, "which", there.get)
    monkeypatch.setattr(chromium.subprocess, "run", run)
    chromium.main()
    assert [command[0] for command in ran] == ["apt-get", "apt-get"]
    assert ran[1][-3:] == ["--yes", "--no-install-recommends", "chromium"]
    chromium.main()
    assert len(ran) == 2


def test_one_that_does_not_start_fails() -> None:
    script = "from browser.chromium import browser\nwith browser(): pass"
    ran = subprocess.run(
        [sys.executable, "-c", script],
        cwd=HERE,
        env={**os.environ, "ENTICE_CHROMIUM": "/bin/false"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 1
    assert "/bin/false does not start. `make browser`" in ran.stderr
