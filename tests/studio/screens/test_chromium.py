"""The browser: tests are not skipped without it, and errors say what to do."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from browser import chromium

SUPPORT = Path(__file__).parents[2] / "support"


def test_the_browser_of_the_system_is_found() -> None:
    assert Path(chromium.find_browser()).is_file()


def test_a_missing_browser_is_reported_with_instructions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("ENTICE_CHROMIUM", raising=False)
    with pytest.raises(chromium.NoBrowser, match="`make browser` as root installs it"):
        chromium.find_browser()
    with pytest.raises(SystemExit, match="No Chromium found"):
        chromium.main()


def test_a_browser_named_by_the_variable_is_not_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ENTICE_CHROMIUM", "/nowhere/chromium")
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: pytest.fail("must not install"))
    with pytest.raises(SystemExit, match="looked for /nowhere/chromium"):
        chromium.main()


def test_the_debian_package_is_installed_as_root(monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[list[str]] = []
    found = {"apt-get": "/usr/bin/apt-get"}

    def run(command: list[str], **_: object) -> None:
        ran.append(command)
        found["chromium"] = "/usr/bin/chromium"

    monkeypatch.delenv("ENTICE_CHROMIUM", raising=False)
    monkeypatch.setattr(chromium.os, "geteuid", lambda: 0)
    monkeypatch.setattr(chromium.shutil, "which", found.get)
    monkeypatch.setattr(chromium.subprocess, "run", run)
    chromium.main()
    assert [command[0] for command in ran] == ["apt-get", "apt-get"]
    assert ran[1][-3:] == ["--yes", "--no-install-recommends", "chromium"]
    chromium.main()
    assert len(ran) == 2


def test_a_browser_that_does_not_start_is_an_error() -> None:
    script = "from browser.chromium import run_browser\nwith run_browser(): pass"
    ran = subprocess.run(
        [sys.executable, "-c", script],
        cwd=SUPPORT,
        env={**os.environ, "ENTICE_CHROMIUM": "/bin/false"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 1
    assert "/bin/false does not start. Run `make browser`" in ran.stderr
