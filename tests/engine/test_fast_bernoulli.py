"""The components of the fast paths for Bernoulli arms, their edge cases, and their selection.

`test_exactness.py` tests that whole paths are exact in distribution. Probabilities of a false alarm
are stated for random seeds; the seeds here are fixed.
"""

from __future__ import annotations

import math
import threading
import time
from typing import Any

import numba
import numpy as np
import pytest
from exactness import p_values, sample
from scipy import stats
from sizes import sized

import entice
from entice.engine.fast.bernoulli import binomial, walk
from entice.parallel import Stopped
from entice.rng import new_stream, seed_stream, uniform
from entice.study.running.cell import Cell
from entice.study.running.run import StudyRun
from entice.study.running.threads import ThreadExecutor

pytestmark = pytest.mark.usefixtures("unmeasured")

POLICIES = [entice.EpsilonGreedy(c=1), entice.Greedy(), entice.UCB()]
by_policy = pytest.mark.parametrize("policy", POLICIES, ids=lambda p: p.label)


def study(policy: Any, **changes: Any) -> entice.Study:
    settings: dict[str, Any] = {
        "arms": entice.Bernoulli([0.9, 0.5, 0.1]),
        "drifts": [entice.LinearDrift(0.5)],
        "horizon": 1_000,
        "replications": 20,
        "seed": 7,
        "feedback_range": (0, 1),
    }
    return entice.Study(policies=[policy], **settings | changes)


# Binomial draws


@numba.njit
def _draw_binomials(n, p, stream, out):  # type: ignore[no-untyped-def]
    for i in range(out.shape[0]):
        out[i] = binomial.draw_binomial(n, p, stream)


@pytest.mark.parametrize("p", [0.0, 1e-3, 0.1, 0.3, 0.5, 0.77, 0.999, 1.0])
@pytest.mark.parametrize("n", [1, 2, 63, 64, 65, 200, 5_000, 10**6])
def test_binomial_draws_have_the_binomial_distribution(n: int, p: float) -> None:
    """64 cases by χ², each with a false alarm with probability 1e-7."""
    draws = np.empty(400_000, np.int64)
    _draw_binomials(n, p, new_stream(5, n, 40), draws)
    edges = np.unique(stats.binom.ppf(np.linspace(1e-4, 1 - 1e-4, 201), n, p))
    expected = np.diff(stats.binom.cdf(np.r_[-1, edges, n], n, p))
    observed = np.histogram(draws, np.r_[-0.5, edges + 0.5, n + 0.5])[0]
    possible = expected > 1e-12  # beyond the highest edge there may be nothing
    assert observed[~possible].sum() == 0
    if possible.sum() > 1:
        share = expected[possible] / expected[possible].sum()
        assert stats.chisquare(observed[possible], share * draws.size).pvalue > 1e-7


@numba.njit
def _draw_words(p, stream, out):  # type: ignore[no-untyped-def]
    for i in range(out.shape[0]):
        out[i] = binomial.draw_rewards(64, p, stream)


@pytest.mark.parametrize("p", [0.02, 0.5, 0.9])
def test_the_rewards_of_a_word_are_independent(p: float) -> None:
    """Each of 64 shares, and each of 63 pairs, at 6 standard errors: a false alarm in 1e-6."""
    words = np.empty(200_000, np.uint64)
    _draw_words(p, new_stream(6, 0, 40), words)
    rewards = np.unpackbits(words.view(np.uint8).reshape(-1, 8), axis=1) - p
    std = math.sqrt(p * (1 - p))
    assert abs(rewards.mean(axis=0)).max() < 6 * std / math.sqrt(words.size)
    pairs = (rewards[:, 1:] * rewards[:, :-1]).mean(axis=0)
    assert abs(pairs).max() < 6 * std**2 / math.sqrt(words.size)


# Walks


@numba.njit
def _walk_by_jumps(total, line, slope, pulls, p, out):  # type: ignore[no-untyped-def]
    """Take pulls by jumps until the sum is at or below the line, or until all are taken."""
    stream = np.empty(4, np.uint64)
    for i in range(out.shape[0]):
        seed_stream(stream, 11, i, 40)
        done, end = walk.take_pulls(total, line, slope, pulls, p, stream)
        while done < pulls and end > line + done * slope + 1e-9:
            more, end = walk.take_pulls(end, line + done * slope, slope, pulls - done, p, stream)
            done += more
        out[i, 0], out[i, 1] = done, end


@numba.njit
def _walk_by_steps(total, line, slope, pulls, p, out):  # type: ignore[no-untyped-def]
    """Take the same pulls one by one."""
    stream = np.empty(4, np.uint64)
    for i in range(out.shape[0]):
        seed_stream(stream, 12, i, 40)
        done, end = 1, total + (1.0 if uniform(stream) < p else 0.0)
        while done < pulls and end > line + done * slope + 1e-9:
            done += 1
            end += 1.0 if uniform(stream) < p else 0.0
        out[i, 0], out[i, 1] = done, end


@pytest.mark.parametrize("above", [0.0, 0.5, 3.0, 70.0])
@pytest.mark.parametrize("slope", [-0.2, 0.25, 0.5, 0.62])
@pytest.mark.parametrize("pulls", [1, 5, 64, 300, 2_000])
def test_a_walk_by_jumps_ends_when_and_where_one_by_steps_does(
    above: float, slope: float, pulls: int
) -> None:
    """80 cases of 2 tests on 20,000 walks: a false alarm with probability 2e-5."""
    one, other = np.empty((2, 20_000, 2))
    _walk_by_jumps(10.3, 10.3 - above, slope, pulls, 0.5, one)
    _walk_by_steps(10.3, 10.3 - above, slope, pulls, 0.5, other)
    for j in range(2):
        x, y = np.round(one[:, j], 6), np.round(other[:, j], 6)
        assert stats.ks_2samp(x, y, method="asymp").pvalue > 1e-7


def test_ones_are_added_with_the_rounding_of_single_additions() -> None:
    @numba.njit
    def by_ones(total, count):  # type: ignore[no-untyped-def]
        for _ in range(count):
            total += 1.0
        return total

    @numba.njit
    def at_once(total, count):  # type: ignore[no-untyped-def]
        return walk.add_ones(total, count)

    random = np.random.default_rng(3)
    totals = np.r_[random.uniform(-3, 3, 3_000), random.uniform(-2_000, 2_000, 3_000), 0.1, -0.1]
    totals = np.r_[
        totals, 2.0 ** -random.uniform(0, 60, 1_000), -(2.0 ** -random.uniform(0, 60, 9))
    ]
    rounded = 0
    for total in totals:
        for count in (0, 1, 2, 5, 37, 4_000):
            expected = by_ones(total, count)
            assert at_once(total, count) == expected
            rounded += total + count != expected
    assert rounded > 100  # one addition of all would be wrong


# Whole runs


@by_policy
@pytest.mark.parametrize("arms", [3, 40])
def test_results_do_not_depend_on_blocks_and_threads(policy: Any, arms: int) -> None:
    means = np.linspace(0, 1, arms).tolist()
    spec = study(policy, arms=entice.Bernoulli(means), checkpoints=[3, 100], replications=41)
    results = [
        StudyRun(spec, ThreadExecutor(threads), block_size=size).run(lambda done, total: None)
        for size, threads in ((41, 1), (1, 2), (7, 2))
    ]
    for other in results[1:]:
        assert other.final.equals(results[0].final)
        assert other.curves.equals(results[0].curves)


@by_policy
@pytest.mark.parametrize("cold_start", ["each_arm_once", "prior"])
@pytest.mark.parametrize("arms", [2, 40])
def test_checkpoints_within_the_cold_start(policy: Any, cold_start: str, arms: int) -> None:
    """A comparison fails by chance with probability 1e-5."""
    changes: dict[str, Any] = {
        "arms": entice.Bernoulli(np.linspace(0, 1, arms).tolist()),
        "horizon": arms + 3,
        "checkpoints": sorted({1, arms // 2, arms, arms + 1}),
        "cold_start": cold_start,
        "prior": 0.3 if cold_start == "prior" else 0.0,
    }
    fast = sample(study(policy, **changes), 1_000)
    kernel = sample(study(policy, **changes, engine="generic", seed=8), 1_000)
    found = p_values(fast, kernel)
    assert min(found)[0] > 1e-5 / len(found), min(found)


@pytest.mark.parametrize(
    ("policy", "drift", "projected"),
    [
        (POLICIES[0], entice.StepDrift(0.3), (0, 1)),
        (POLICIES[0], entice.StepDrift(0.3), None),
        (POLICIES[0], entice.NegativeDrift(0.7), None),
        (POLICIES[1], entice.LinearDrift(0.5), None),
        (POLICIES[2], entice.StepDrift(0.3), (0, 1)),
        (POLICIES[2], entice.NegativeDrift(0.7), None),
    ],
)
def test_ties_are_broken_as_in_the_kernel(policy: Any, drift: Any, projected: Any) -> None:
    """Few ratings and a drift of a fixed size: equal sums, in another order of rounding.

    Compares the joint law of all pulls and of the compensated ones, by χ² with a false alarm with
    probability 1e-6.
    """
    changes: dict[str, Any] = {
        "arms": entice.Bernoulli([0.5, 0.5, 0.5]), "drifts": [drift], "horizon": 14,
        "feedback_range": projected,
    }  # fmt: skip
    runs = []
    for settings in ({}, {"engine": "generic", "seed": 8}):
        metrics, pulls = sample(study(policy, **changes, **settings), sized(40_000, 100_000))
        runs.append((pulls @ [1, 100, 10_000]) * 100 + metrics[:, -1, 2])
    values = np.unique(np.r_[runs[0], runs[1]])
    table = np.array([np.bincount(np.searchsorted(values, x), minlength=len(values)) for x in runs])
    common = table.sum(axis=0) >= 20
    table = np.c_[table[:, common], table[:, ~common].sum(axis=1)]
    assert stats.chi2_contingency(table[:, table.sum(axis=0) > 0]).pvalue > 1e-6


def explode(payment: float, t: int, arm: int, params: tuple[()]) -> float:
    """A drift that is huge from round 100 on."""
    return 1e12 * payment if t >= 100 else 0.5 * payment


@pytest.mark.parametrize("policy", [p for p in POLICIES if p != entice.Greedy()])
def test_a_run_whose_feedback_diverges_is_stopped_unless_it_is_projected(policy: Any) -> None:
    changes: dict[str, Any] = {"drifts": [entice.CustomDrift(explode)], "horizon": 5_000}
    stopped = entice.run(study(policy, **changes, feedback_range=None)).final["stopped"]
    assert stopped.null_count() < 20
    assert stopped.drop_nulls().to_numpy().min() >= 100
    assert entice.run(study(policy, **changes)).final["stopped"].null_count() == 20


@by_policy
def test_a_run_stops_when_the_flag_is_set_in_the_middle(policy: Any) -> None:
    for drift in (entice.LinearDrift(0.5), entice.LinearDrift(1e6)):
        spec = study(policy, drifts=[drift], horizon=10**10, checkpoints=1, feedback_range=None)
        stop = np.zeros(1, dtype=np.int64)
        cell = Cell(spec, policy, drift, stop)
        threading.Timer(0.05, lambda stop=stop: stop.fill(1)).start()
        before = time.monotonic()
        with pytest.raises(Stopped):
            cell.run(0, cell.allocate(10**6))
        assert time.monotonic() - before < 30


@by_policy
def test_a_path_needs_a_range_that_contains_both_rewards(policy: Any) -> None:
    for feedback_range in (None, (0, 1), (-1, 1.5)):
        assert study(policy, feedback_range=feedback_range).engines() == ("fast",)
    for feedback_range in ((0.1, 1), (0, 0.9)):
        assert study(policy, feedback_range=feedback_range).engines() == ("generic",)
    assert study(policy, arms=entice.Beta(a=[1, 2], b=[1, 1])).engines() == ("generic",)
