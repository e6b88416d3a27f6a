"""The reproduction that the tests of the paper and of its figures share."""

from __future__ import annotations

from pathlib import Path
from unittest import mock

import pytest
from once import once
from sizes import sized
from tracing import untraced_here

from entice.paper.reproduce import Reproduction, reproduce
from entice.paper.setups import MOST_EQUAL_PAY_RUNS

RUNS = sized(200, 500)
EQUAL_PAY_RUNS = sized(50, MOST_EQUAL_PAY_RUNS)
"""200 of them take four fifths of the time of the reproduction."""


def full_reproduction(factory: pytest.TempPathFactory) -> tuple[Reproduction, Path]:
    """Return the complete reproduction, with fewer replications, and its folder."""

    def run(out: Path) -> Reproduction:
        with mock.patch("entice.paper.setups.MOST_EQUAL_PAY_RUNS", EQUAL_PAY_RUNS):
            return reproduce(replications=RUNS, seed=2020, out=out, progress=False)

    with untraced_here():  # other tests measure it
        return once(factory, "reproduction", run)
