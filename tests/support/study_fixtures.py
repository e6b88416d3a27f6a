"""Studies and helpers for tests of interrupted, extended and distributed runs."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from polars.testing import assert_frame_equal

import entice

STUDY = entice.Study(
    arms=entice.Gaussian([0.9, 0.6, 0.3]),
    policies=[entice.UCB()],
    drifts=[entice.NoDrift(), entice.LinearDrift(1.1)],
    horizon=500,
    replications=40,
    seed=7,
    checkpoints=10,
)
LONG_STUDY = """
horizon = 20000
replications = 4000
seed = 11
checkpoints = 20
engine = "generic"
arms = { kind = "gaussian", means = [0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1] }
policies = [{ kind = "ucb" }]
drifts = [{ kind = "linear", l = 0.0 }, { kind = "linear", l = 1.1 }]
"""
ENDLESS_STUDY = LONG_STUDY.replace("4000", "40000")
"""The same with ten times as many blocks, for tests that never finish it."""
ENTICE = [sys.executable, "-c", "from entice.cli.app import main; main()"]
HANG = 600
"""Seconds after which a process counts as hanging; on an idle machine all need less than 10."""


def assert_same_results(one: entice.Result, other: entice.Result) -> None:
    assert one.study == other.study
    assert_frame_equal(one.final, other.final, check_exact=True)
    assert_frame_equal(one.curves, other.curves, check_exact=True)


def assert_same_files(one: Path, other: Path) -> None:
    for name in ("final.parquet", "curves.parquet"):
        assert (one / name).read_bytes() == (other / name).read_bytes(), name


def interrupt_at(replications: int) -> Callable[[int, int], None]:
    """Return a progress function that raises KeyboardInterrupt after some replications."""

    def report(done: int, total: int) -> None:
        if done >= replications:
            raise KeyboardInterrupt

    return report


def wait_for_blocks(process: subprocess.Popen[str], out: Path, blocks: int = 3) -> None:
    """Wait until a running study has finished some blocks."""
    deadline = time.monotonic() + HANG
    while len(list(out.glob("blocks-*/*.npz"))) < blocks:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.01)
