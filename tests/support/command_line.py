"""What tests of the command line share."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from typing import NamedTuple


class Ran(NamedTuple):
    code: int
    out: str
    err: str


Entice = Callable[..., Ran]


def without_coverage() -> dict[str, str]:
    """An environment for processes that compile: coverage would make that slower by half."""
    return {name: v for name, v in os.environ.items() if not name.startswith("COVERAGE_")}


def plain(text: str) -> str:
    """Take colours, boxes and line breaks out of what a terminal shows."""
    text = re.sub(r"\x1b\[[0-9;]*m", "", text)
    return " ".join(re.sub("[│─╭╮╰╯]", " ", text).split())


def assert_told(ran: Ran, *expected: str) -> None:
    """A failure is one sentence on standard error, and nothing else."""
    assert ran.code == 2
    assert ran.out == ""
    assert "Traceback" not in ran.err
    told = plain(ran.err)
    assert told.startswith("Error: ")
    assert [part for part in expected if part not in told] == [], told
