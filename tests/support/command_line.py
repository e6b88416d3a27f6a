"""Helpers for tests of the command line."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from typing import NamedTuple


class CommandResult(NamedTuple):
    code: int
    out: str
    err: str


RunEntice = Callable[..., CommandResult]


def without_coverage() -> dict[str, str]:
    """Return the environment without coverage, which would slow compilation down by half."""
    return {name: v for name, v in os.environ.items() if not name.startswith("COVERAGE_")}


def plain(text: str) -> str:
    """Remove colours, boxes and line breaks from terminal output."""
    text = re.sub(r"\x1b\[[0-9;]*m", "", text)
    return " ".join(re.sub("[│─╭╮╰╯]", " ", text).split())


def assert_error(result: CommandResult, *expected: str) -> None:
    """Assert that a command failed with one sentence on standard error and no other output."""
    assert result.code == 2
    assert result.out == ""
    assert "Traceback" not in result.err
    message = plain(result.err)
    assert message.startswith("Error: ")
    assert [part for part in expected if part not in message] == [], message
