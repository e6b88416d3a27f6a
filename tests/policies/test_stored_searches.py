"""What UCB and Thompson sampling keep between rounds changes no choice, whenever ratings arrive."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from entice.policies import thompson_sampling, ucb
from entice.rng import Stream, new_stream

STREAM = new_stream(seed=1, replication=0, purpose=0)
PARAMS = (1.0,)


def highest_bound(t: int, pulls: npt.NDArray[Any], means: npt.NDArray[np.float64]) -> int:
    """Return the arm that UCB selects, from all counts and averages."""
    if (pulls == 0).any():
        return int(np.argmax(pulls == 0))
    return int(np.argmax(means + math.sqrt(2.0 * math.log(t)) * (1.0 / np.sqrt(pulls))))


@pytest.mark.parametrize("late", [0.0, 0.1, 0.9], ids="late={}".format)
@pytest.mark.parametrize("arms", [2, 9, ucb.FEW + 8])
def test_ucb_selects_the_highest_bound_when_ratings_are_late(arms: int, late: float) -> None:
    """Late ratings arrive one per round, several at once, or never; others rate in between."""
    draws = np.random.default_rng([arms, round(10 * late)])
    pulls, sums = np.zeros(arms, np.int64), np.zeros(arms)
    memory, means, pending = np.zeros(4 + 2 * arms), np.zeros(arms), []
    kept = 0
    for t in range(1, 1_500):
        kept += bool(ucb.only_leader_was_rated(int(memory[0]), t, pulls, memory))
        arm = ucb.select(t, pulls, means, memory, PARAMS, STREAM)
        assert arm == highest_bound(t, pulls, means), t
        if draws.random() < 0.02:
            arm = int(draws.integers(arms))  # the player declines
        pending.append(arm)
        while pending and draws.random() >= late:
            rated = pending.pop(int(draws.integers(len(pending))))
            pulls[rated] += 1
            sums[rated] += draws.normal(0.1 * (rated == 1), 1.0)
            means[rated] = sums[rated] / pulls[rated]
        if draws.random() < 0.5 * late:
            pending.clear()  # lost
    if late == 0.0:
        assert kept > 500  # the shortcut was taken


def test_ucb_takes_no_count_for_a_mark() -> None:
    """More ratings than rounds: an empty memory, or a stored count, agrees with pulls − t."""
    means = np.array([0.5, 0.4])
    for pulls, memory in (
        (np.array([2, 1]), np.zeros(8)),
        (np.array([6, 1]), np.array([0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 4.0, 0.0])),
    ):
        assert not ucb.only_leader_was_rated(0, 2, pulls, memory)
        assert ucb.select(2, pulls, means, memory, PARAMS, STREAM) == 1


@pytest.mark.parametrize("many", [False, True], ids=["few", "many"])
@pytest.mark.parametrize("noise", [0.1, 1.0, 5.0], ids="noise={}".format)
def test_ucb_leads_at_every_average_above_the_predicted_line(noise: float, many: bool) -> None:
    """The average is put right above the line, where a line that is too low would be noticed.

    With many arms, only an arm that leads again has a line, and it is a higher one.
    """
    draws = np.random.default_rng(round(10 * noise))
    checked, missed = 0, 0
    for _ in range(300):
        arms = int(draws.integers(2, 12)) + many * ucb.FEW
        pulls = np.ceil(np.exp(draws.uniform(0.0, 9.0, arms))).astype(np.int64)
        t, memory = int(pulls.sum()) + 1, np.zeros(4 + 2 * arms)
        means = draws.normal(draws.choice([0.0, 100.0]), 0.3, arms)
        if draws.random() < 0.5:  # nearly equal bounds, so that their order soon changes
            widths = noise * math.sqrt(2.0 * math.log(t)) / np.sqrt(pulls)
            means = draws.normal(-widths, 1e-4 * noise)
        arm = ucb.select(t, pulls, means, memory, (noise,), STREAM)
        if many:
            means[arm] += 0.1 * noise
            t, pulls[arm] = t + 1, pulls[arm] + 1
            ucb.select(t, pulls, means, memory, (noise,), STREAM)
            if memory[0] != arm or memory[4 + arm] == 0.0:
                continue
        intercept, slope = memory[1:3].copy()
        last = int(memory[4 + arm])
        assert pulls[arm] + (not many) <= last <= pulls[arm] + (ucb.SPAN if many else 1 + t // 32)
        for _ in range(last - int(pulls[arm])):
            t, pulls[arm] = t + 1, pulls[arm] + 1
            line = intercept + slope * pulls[arm]
            means[arm] = line
            assert not ucb.leads_still(arm, t, pulls, means, memory)
            means[arm] = np.nextafter(line, np.inf)
            assert ucb.leads_still(arm, t, pulls, means, memory)
            bounds = means + noise * math.sqrt(2.0 * math.log(t)) * (1.0 / np.sqrt(pulls))
            assert int(np.argmax(bounds)) == arm
            missed += bounds[arm] - np.max(np.delete(bounds, arm)) > 0.01 * noise
            checked += 1
        t, pulls[arm], means[arm] = t + 1, pulls[arm] + 1, np.inf
        assert not ucb.leads_still(arm, t, pulls, means, memory)  # beyond the last count
    assert checked > 1_000
    assert missed < (0.6 if many else 0.2) * checked  # the line is not far too high


@pytest.mark.parametrize("offset", [0.0, 1e3, 1e9], ids="offset={:g}".format)
@pytest.mark.parametrize("noise", [1e-6, 1.0], ids="noise={:g}".format)
def test_rounding_does_not_put_the_predicted_line_too_low(offset: float, noise: float) -> None:
    """Rivals are all the same, so that the chord of their bounds leaves no margin at its ends."""
    draws, checked = np.random.default_rng(5), 0
    for _ in range(4_000):
        arms, rival = int(draws.integers(2, 6)), int(np.exp(draws.uniform(0.0, 5.0)))
        pulls = np.full(arms, rival)
        pulls[0] = int(np.exp(draws.uniform(0.0, 8.0)))
        t, memory = int(pulls.sum()) + 1, np.zeros(4 + 2 * arms)
        means = np.full(arms, offset + draws.normal(0.0, noise))
        means[0] += 3.0 * noise
        arm = ucb.select(t, pulls, means, memory, (noise,), STREAM)
        if arm != 0:
            continue
        intercept, slope = memory[1:3].copy()
        for _ in range(int(memory[4]) - int(pulls[0])):
            t, pulls[0] = t + 1, pulls[0] + 1
            means[0] = np.nextafter(intercept + slope * pulls[0], np.inf)
            assert ucb.leads_still(0, t, pulls, means, memory)
            bounds = means + noise * math.sqrt(2.0 * math.log(t)) * (1.0 / np.sqrt(pulls))
            assert int(np.argmax(bounds)) == 0
            checked += 1
    assert checked > 5_000


def stored(arms: int) -> npt.NDArray[np.float64]:
    return np.zeros(3 * arms + 1)


def draw(t: int, pulls: Any, means: Any, memory: Any) -> tuple[int, Stream]:
    stream = new_stream(seed=2, replication=t, purpose=0)
    return thompson_sampling.select_by_variance(t, pulls, means, memory, PARAMS, stream), stream


@pytest.mark.parametrize("late", [0.0, 0.5])
def test_thompson_sampling_draws_as_with_an_empty_memory(late: float) -> None:
    arms, draws = 4, np.random.default_rng(3)
    pulls, means, memory = np.zeros(arms, np.int64), np.zeros(arms), stored(arms)
    for t in range(1, 400):
        arm, stream = draw(t, pulls, means, memory)
        expected, same = draw(t, pulls, means, stored(arms))
        assert arm == expected
        assert stream.tolist() == same.tolist()
        rated = arm if draws.random() < 0.9 else int(draws.integers(arms))
        if draws.random() >= late:
            pulls[rated] += 1
            means[rated] += (draws.normal() - means[rated]) / pulls[rated]


def test_thompson_sampling_stores_what_campaigns_of_earlier_versions_stored() -> None:
    """Roots, the counts that they were computed from, samples, and the last selected arm."""
    pulls, means, memory = np.array([3.0, 0.0, 8.0]), np.array([0.2, 0.9, 0.4]), stored(3)
    arm, _ = draw(9, pulls, means, memory)
    assert memory[:3].tolist() == [1 / math.sqrt(n + 1) for n in pulls]
    assert memory[3:6].tolist() == pulls.tolist()
    assert int(np.argmax(memory[6:9])) == arm == memory[9]
