"""The reproduction that the tests of the paper and of its figures share."""

from __future__ import annotations

from pathlib import Path

import pytest
from once import once
from sizes import sized
from tracing import untraced_here

from entice.paper.reproduce import Reproduction, reproduce

RUNS = sized(200, 500)


def full_reproduction(factory: pytest.TempPathFactory) -> tuple[Reproduction, Path]:
    """Return the complete reproduction, with fewer replications, and its folder."""

    def run(out: Path) -> Reproduction:
        return reproduce(replications=RUNS, seed=2020, out=out, progress=False)

    with untraced_here():  # other tests measure it
        return once(factory, "reproduction", run)
