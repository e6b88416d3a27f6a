"""Baselines that know the noise: UCB and Thompson sampling with `noise`, KL-UCB, Beta–Thompson."""

from __future__ import annotations

import math
from typing import Any

import msgspec
import numpy as np
import pytest
from scipy import stats  # type: ignore[import-untyped]

import entice
from entice.policies.kl_ucb import TOLERANCE, divergence, upper_bound
from entice.rng import POLICY, new_stream
from entice.testing import check_policy

UNIT = [entice.BetaThompson(), entice.KLUCB(), entice.KLUCB(c=3)]
NOISY = [entice.UCB(noise=0.3), entice.ThompsonSampling(noise=0.3)]


@pytest.mark.parametrize("policy", UNIT + NOISY, ids=lambda policy: policy.label)
def test_policies_pass_the_checks(policy: Any) -> None:
    check_policy(policy)


def test_labels_show_the_noise() -> None:
    assert entice.UCB(count_in_flight=True, noise=0.25).label == "UCB(in flight, noise=0.25)"
    std = entice.ThompsonSampling(scale="std", noise=2)
    assert std.label == "ThompsonSampling(scale=std, noise=2)"


@pytest.mark.parametrize("kind", [entice.UCB, entice.ThompsonSampling])
@pytest.mark.parametrize(
    ("noise", "words"),
    [(0, "greater than 0"), (-1.0, "greater than 0"), (math.nan, "finite"), ("a", "a number")],
)
def test_an_invalid_noise_is_rejected(kind: Any, noise: Any, words: str) -> None:
    with pytest.raises(entice.InputError, match=f"{kind.__name__}: noise must be .*{words}"):
        kind(noise=noise)


def final(policy: Any, **settings: Any) -> Any:
    settings = {
        "arms": entice.Gaussian([0.9, 0.7, 0.2]), "drifts": [entice.LinearDrift(0.5)],
        "horizon": 2_000, "replications": 20, "seed": 7, "progress": False,
    } | settings  # fmt: skip
    return entice.simulate(policies=[policy], **settings)


@pytest.mark.parametrize("engine", ["auto", "generic"])
@pytest.mark.parametrize("policy", [entice.UCB(), entice.ThompsonSampling()], ids=repr)
def test_noise_is_a_scale(policy: Any, engine: str) -> None:
    """A policy for a noise of 1/4 on arms scaled by 1/4 makes the same choices.

    Powers of 2 change no digit, so all runs are bit-identical, on either engine.
    """
    whole = final(policy, engine=engine)
    quarter = final(
        msgspec.structs.replace(policy, noise=0.25), engine=engine,
        arms=entice.Gaussian([0.225, 0.175, 0.05], std=0.25),
    )  # fmt: skip
    assert whole.engines == quarter.engines == ("fast" if engine == "auto" else engine,)
    assert whole.final["pulls"].to_list() == quarter.final["pulls"].to_list()
    paid = [result.final["compensation"].to_numpy() for result in (whole, quarter)]
    assert (paid[0] == 4 * paid[1]).all()
    assert len(set(whole.final["regret"])) > 10


def test_knowing_the_noise_saves_regret() -> None:
    """Ratings have a standard deviation of 0.1, not 1: 5 standard errors, p < 1e-6."""
    for policy in (entice.UCB(), entice.ThompsonSampling()):
        means, errors = [], []
        for noise in (1.0, 0.1):
            informed = msgspec.structs.replace(policy, noise=noise)
            arms = entice.Gaussian([0.9, 0.7, 0.2], std=0.1)
            regret = final(informed, arms=arms).final["regret"].to_numpy()
            means.append(regret.mean())
            errors.append(regret.std(ddof=1) / math.sqrt(len(regret)))
        assert means[1] + 5 * math.hypot(*errors) < means[0] / 3


# --- Ratings between 0 and 1 ------------------------------------------------------------------


@pytest.mark.parametrize("policy", UNIT, ids=lambda policy: policy.label)
def test_arms_with_other_ratings_are_rejected(policy: Any) -> None:
    stars = entice.Empirical(values=[1, 5], weights=[[1, 2], [2, 1]])
    settings: Any = {"policies": [entice.UCB(), policy], "horizon": 100}
    for arms, given in (
        (stars, r"\(1\.0, 5\.0\)"),
        (entice.Gaussian([0.9, 0.5]), r"\(-inf, inf\)"),
    ):
        with pytest.raises(entice.InputError, match=f"between 0 and 1; got {given}"):
            entice.Study(arms=arms, **settings)
    entice.Study(arms=entice.Gaussian([0.9, 0.5]), feedback_range=(0, 1), **settings)
    entice.Study(arms=entice.Bernoulli([0.9, 0.5]), drifts=[entice.LinearDrift(5)], **settings)


def decided(policy: Any, t: int, pulls: Any, means: Any, seed: int = 0) -> int:
    kernel = policy.kernel(len(pulls))
    stream = new_stream(seed, 0, POLICY)
    memory = np.zeros(kernel.memory)
    return int(kernel.select(t, pulls, np.array(means), memory, kernel.params, stream))


@pytest.mark.parametrize("policy", UNIT, ids=lambda policy: policy.label)
def test_counts_may_be_expected_ones(policy: Any) -> None:
    """Pulls in flight may count with the probability of their rating: then counts are floats."""
    for seed in range(50):
        draw = np.random.default_rng(seed)
        pulls, means = draw.integers(1, 50, 4), draw.uniform(0, 1, 4)
        whole = decided(policy, 200, pulls, means, seed)
        assert whole == decided(policy, 200, pulls.astype(np.float64), means, seed)
    assert decided(policy, 200, np.array([0.5, 2.25]), [0.1, 0.9]) in (0, 1)


def kl(p: float, q: float) -> float:
    below = p * math.log(p / q) if p > 0 else 0.0
    return below + ((1 - p) * math.log((1 - p) / (1 - q)) if p < 1 else 0.0)


def test_bounds_solve_for_the_divergence() -> None:
    draw = np.random.default_rng(1)
    solved = 0
    for mean in [0.0, 1e-9, 0.5, 1 - 1e-9, 1.0, *draw.uniform(0, 1, 300)]:
        assert upper_bound(mean, 0.0) == mean
        for radius in 10 ** draw.uniform(-6, 2, 10):
            q = float(upper_bound(mean, radius))
            assert mean <= q <= 1
            step = 10 * TOLERANCE  # room for the rounding of this plain formula
            if q - step > mean:
                assert kl(mean, q - step) <= radius
            if q + step < 1:
                assert kl(mean, q + step) >= radius
                solved += 1
    assert solved > 2000
    assert divergence(0.3, 0.4) == pytest.approx(kl(0.3, 0.7), rel=1e-14)


def test_kl_ucb_by_hand() -> None:
    """Averages 0.5 and 0.2 after 8 and 2 ratings, t = 20: radii 0.374 and 1.498.

    Bounds 0.863 and 0.916, so arm 1 leads; after 4 ratings of it, radius 0.749, 0.777.
    """
    assert decided(entice.KLUCB(), 20, np.array([8, 2]), [0.5, 0.2]) == 1
    assert decided(entice.KLUCB(), 20, np.array([8, 4]), [0.5, 0.2]) == 0
    assert decided(entice.KLUCB(c=3), 20, np.array([8, 4]), [0.5, 0.2]) == 0
    assert decided(entice.KLUCB(), 20, np.array([8, 0]), [0.5, 0.2]) == 1  # unrated arms first
    assert decided(entice.KLUCB(), 20, np.array([8, 8]), [1.4, 1.2]) == 0  # both count as 1
    assert decided(entice.KLUCB(), 20, np.array([8, 8]), [-1.0, -0.2]) == 0  # and as 0


def test_beta_samples_win_as_often_as_their_posteriors_say() -> None:
    """Compare with the integral of one density times the other distribution function.

    A fair sampler fails with probability 1e-6: 4.9 standard deviations of 20,000 decisions.
    """
    for pulls, means, clipped in (
        ([3, 10], [1.0, 0.6], [1.0, 0.6]),
        ([0, 4], [0.5, 0.5], [0.5, 0.5]),
        ([5, 7], [1.3, -0.2], [1.0, 0.0]),
        ([6, 5], [0.35, 0.55], [0.35, 0.55]),
    ):
        first, second = (
            stats.beta(1 + n * m, 1 + n * (1 - m)) for n, m in zip(pulls, clipped, strict=True)
        )
        grid = (np.arange(100_000) + 0.5) / 100_000
        expected = float((first.pdf(grid) * second.cdf(grid)).mean())
        kernel, stream = entice.BetaThompson().kernel(2), new_stream(7, 0, POLICY)
        counts, averages = np.array(pulls), np.array(means)
        won = sum(
            kernel.select(9, counts, averages, np.zeros(0), kernel.params, stream) == 0
            for _ in range(20_000)
        )
        spread = math.sqrt(max(expected * (1 - expected), 1e-3) * 20_000)
        assert abs(won - 20_000 * expected) < 4.9 * spread


def test_bernoulli_bounds_beat_those_of_a_common_noise_near_the_ends() -> None:
    """Rare successes have a small variance, which KL-UCB uses: 5 standard errors, p < 1e-6."""
    # As empirical distributions, on which other tests compile these policies.
    bernoulli = entice.Empirical([0, 1], [[1 - mean, mean] for mean in (0.02, 0.03, 0.08)])
    settings: Any = {
        "arms": bernoulli, "drifts": [entice.LinearDrift(0)], "horizon": 5_000,
        "replications": 100,
    }  # fmt: skip
    found = []
    for policy in (entice.KLUCB(), entice.BetaThompson(), entice.UCB(noise=0.5)):
        regret = final(policy, **settings).final["regret"].to_numpy()
        found.append((regret.mean(), regret.std(ddof=1) / 10))
    assert found[0][0] + 5 * math.hypot(found[0][1], found[2][1]) < found[2][0]
    assert found[1][0] + 5 * math.hypot(found[1][1], found[2][1]) < found[2][0]
