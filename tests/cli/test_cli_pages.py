"""Help and errors name a page of the documentation, and the page exists."""

from __future__ import annotations

from pathlib import Path

import pytest
import typer.main

from entice.cli import app as cli
from entice.cli.pages import HOME, PAGES, page_of

ROOT = Path(__file__).parents[2]


def test_every_command_has_a_page_that_exists() -> None:
    commands = typer.main.get_command(cli.app).commands  # type: ignore[attr-defined]
    assert set(commands) == set(PAGES)
    for name, command in commands.items():
        assert command.epilog == f"Documentation: docs/{PAGES[name]}"
        assert (ROOT / "docs" / PAGES[name]).is_file()
    assert (ROOT / "docs" / "index.md").is_file()
    assert "docs/index.md" in HOME


def test_an_error_names_the_page(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr("sys.argv", ["entice", "run", str(tmp_path / "x.toml"), "--out", "o"])
    with pytest.raises(SystemExit):
        cli.main()
    first, last = capsys.readouterr().err.splitlines()
    assert first.startswith("Error: ")
    assert last == "See docs/how-to/studies.md"
    assert page_of(["--version"]) is None
