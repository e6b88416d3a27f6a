"""A plan predicts live campaigns: the short version of `plan_against_live.py`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from plan_against_live import Cell, certain_counting, disagreeing, run, uniformity
from sizes import sized

import entice

pytestmark = pytest.mark.usefixtures("unmeasured")

CELLS = [
    Cell(0.05, 30, entice.UCB()),
    Cell(
        0.4, 30, entice.ThompsonSampling(), holdout=0.3,
        price=entice.LearnedPrice(acceptance=0.6, explore=0.1),
    ),
]  # fmt: skip
SETTINGS = sized((400, 200, 12), (600, 200, 20))
"""Visitors, runs of the plan, and live campaigns per cell."""


def test_live_campaigns_match_their_plan(tmp_path: Path) -> None:
    compared = run(CELLS, *SETTINGS, tmp_path)
    assert disagreeing(compared) == []


def test_control_counting_pending_ratings_as_certain_is_detected(tmp_path: Path) -> None:
    cells = CELLS[: sized(1, None)]
    with certain_counting():
        compared = run(cells, *SETTINGS, tmp_path)
    assert len(disagreeing(compared)) == len(cells)


def test_ranks_of_equal_distributions_are_uniform_and_of_shifted_ones_are_not() -> None:
    rng = np.random.default_rng(1)
    planned, same = rng.normal(size=400).tolist(), rng.normal(size=20).tolist()
    assert uniformity(same, planned) > 1e-3  # fails for 1 in 1,000 seeds
    assert uniformity([x + 2 for x in same], planned) < 1e-6
