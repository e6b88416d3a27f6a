"""Warnings of a call appear once, not once for each cell, block or study."""

from __future__ import annotations

import re

import numpy as np
import pytest

import entice
from entice.study.running.runaways import warning_of_runaways

ARMS = entice.Gaussian([0.9, 0.7, 0.5, 0.3, 0.1])


def test_many_cells_and_studies_give_two_lines(capsys: pytest.CaptureFixture[str]) -> None:
    result = entice.simulate(
        arms=ARMS, policies=[entice.EpsilonGreedy(c=5)],
        drifts=[entice.LinearDrift(l) for l in (0.0, 8.0, 9.0, 10.0, 12.0)],
        horizon=[10_000, 20_000], replications=50, seed=7, progress=False,
    )  # fmt: skip
    stopped = result.final.filter(result.final["stopped"].is_not_null())
    early, summary = capsys.readouterr().err.splitlines()
    assert early.startswith("entice: payments grow without bound in runs of EpsilonGreedy(c=5)")
    counts = stopped["drift"].value_counts(sort=True).rows()
    assert len(counts) == 4
    named = re.findall(r"(\d+) of 100 runs of \S+ with (LinearDrift\(\d+\)), first in", summary)
    assert [int(count) for count, _ in named] == [count for _, count in counts[:3]]
    assert dict(counts) | {drift: int(count) for count, drift in named} == dict(counts)
    assert "; runs of 1 more. These runs were stopped there" in summary
    for _, drift in named:
        first = stopped.filter(drift=drift)["stopped"].to_numpy().min()
        assert f"{drift}, first in round {first:,}" in summary


def test_the_summary_is_printed_after_an_interruption(capsys: pytest.CaptureFixture[str]) -> None:
    def call() -> None:
        with warning_of_runaways() as runaways:
            runaways.add("UCB with LinearDrift(9)", np.array([0, 30, 7], dtype=np.int64))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        call()
    expected = "2 of 3 runs of UCB with LinearDrift(9), first in round 7. These"
    assert expected in capsys.readouterr().err
    with warning_of_runaways() as runaways:  # of the next call
        runaways.add("UCB", np.array([0], dtype=np.int64))
    assert capsys.readouterr().err == ""


def test_drawn_seeds_of_several_studies_are_printed_in_one_line(
    capsys: pytest.CaptureFixture[str],
) -> None:
    result = entice.simulate(
        arms=ARMS, policies=[entice.Greedy()], horizon=[10, 20], replications=2, progress=False
    )
    seeds = [part.study.seed for part in result.parts]
    line = f"entice: seeds {seeds[0]}, {seeds[1]} (drawn; `seed` in result.final)\n"
    assert capsys.readouterr().err == line
    assert set(result.final["seed"]) == set(seeds)
