"""The check of the split holds its error probability at every look; the usual test does not.

All probabilities are exact, by recursion over the number of players: nothing is drawn.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from scipy import stats

from entice.estimate import GroupTotals, measure_effect
from entice.estimate.split import THRESHOLD, check_split, log_evidence

pytestmark = pytest.mark.usefixtures("unmeasured")

PLAYERS = 400


def alarm_probability(alarm: Callable[[int, int], bool], share: float, players: int) -> float:
    """Return the probability of an alarm at any of the looks after each player."""
    silent = np.array([1.0])  # the probability of each number of held-out players, no alarm so far
    for n in range(1, players + 1):
        silent = np.append(silent * (1 - share), 0) + np.append(0, silent * share)
        silent[[alarm(n, held_out) for held_out in range(n + 1)]] = 0
    return 1 - float(silent.sum())


def our_alarm(share: float, threshold: float) -> Callable[[int, int], bool]:
    return lambda n, held_out: check_split(n - held_out, held_out, share).p_value < threshold


@pytest.mark.parametrize("share", [0.05, 0.5])
def test_false_alarms_at_any_look_are_as_rare_as_stated(share: float) -> None:
    found = alarm_probability(our_alarm(share, 0.05), share, PLAYERS)
    assert 0.001 < found <= 0.05


def test_a_z_test_at_every_look_alarms_too_often() -> None:
    """The control: its false alarms exceed the stated probability several times."""

    def usual_alarm(n: int, held_out: int) -> bool:
        return abs(held_out - n * 0.5) > 1.959964 * (n * 0.25) ** 0.5

    assert alarm_probability(usual_alarm, 0.5, PLAYERS) > 0.3


def test_the_evidence_is_a_martingale() -> None:
    """Under the intended split its mean is 1 after any number of players."""
    for n in (1, 7, 40):
        chances = stats.binom.pmf(np.arange(n + 1), n, 0.1)
        evidence = np.exp([log_evidence(n - k, k, 0.1) for k in range(n + 1)])
        assert chances @ evidence == pytest.approx(1)


@pytest.mark.parametrize(
    ("paid", "held_out"), [(120, 0), (9_000, 800), (90_000, 9_300), (45_000, 5_500)]
)
def test_real_faults_are_found(paid: int, held_out: int) -> None:
    """Nobody held out; a tenth of the holdout lost; 7 % of it lost; 10 % too many in it."""
    check = check_split(paid, held_out, 0.1)
    assert check.broken == (check.p_value < THRESHOLD)
    assert check.broken


def test_players_are_split_rather_than_visits() -> None:
    """200 players who come 100 times each: 28 instead of 20 held out is chance, 2,800 is not."""
    paid = GroupTotals(17_200, 0, 0, 0, 0, players=172)
    holdout = GroupTotals(2_800, 0, 0, 0, 0, players=28)
    scale = {"holdout_share": 0.1, "lowest_rating": 1, "highest_rating": 5}
    assert not measure_effect(paid, holdout, **scale).split.broken
    visits = GroupTotals(17_200, 0, 0, 0, 0), GroupTotals(2_800, 0, 0, 0, 0)
    assert measure_effect(*visits, **scale).split.broken
