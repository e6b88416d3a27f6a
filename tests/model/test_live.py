"""A live principal, one call at a time, equals the simulator bit for bit."""

from __future__ import annotations

import numpy as np
import pytest
from plain_kernel import plain_kernel

import entice
from entice.rng import REWARD, new_stream

MEANS = [0.9, 0.7, 0.5, 0.3]
POLICIES = [
    entice.UCB(),
    entice.EpsilonGreedy(c=5),
    entice.ThompsonSampling(),
    entice.ThompsonSampling(scale="std"),
    entice.Greedy(),
]


@pytest.mark.parametrize("cold_start", ["each_arm_once", "prior"])
@pytest.mark.parametrize("policy", POLICIES, ids=lambda p: p.label)
def test_live_loop_equals_the_kernel_bit_for_bit(policy: entice.Study, cold_start: str) -> None:
    horizon, l = 400, 1.1
    prior = 0.25 if cold_start == "prior" else 0.0
    arms = entice.Gaussian(MEANS)
    with plain_kernel():
        simulated = entice.trace(
            arms=arms, policies=[policy], drifts=[entice.LinearDrift(l)],
            horizon=horizon, seed=42, cold_start=cold_start, prior=prior,
        )  # fmt: skip

    principal = entice.Principal(policy, arms=4, seed=42, cold_start=cold_start, prior=prior)
    sampler, stream = arms.sampler(), new_stream(42, 0, REWARD)
    live = []
    for _ in range(horizon):
        offer = principal.offer()
        drift = l * offer.payment
        feedback = sampler.sample(offer.arm, sampler.params, stream) + drift
        principal.settle(offer, feedback)
        live.append((*offer, drift, feedback))

    assert simulated.select("t", "arm", "greedy_arm", "payment", "drift", "feedback").rows() == live
    for arm in range(4):
        ratings = simulated.filter(arm=arm)["feedback"].to_list()
        total = 0.0
        for rating in ratings:
            total += rating
        assert principal.ledger.pulls[arm] == len(ratings)
        assert principal.ledger.sums[arm] == total
        assert principal.ledger.means[arm] == (total / len(ratings) if ratings else prior)


def test_the_offer_is_repeated_until_it_is_settled() -> None:
    principal = entice.Principal(entice.ThompsonSampling(), arms=3, seed=1, cold_start="prior")
    assert principal.offer() == principal.offer()


def test_an_offer_is_settled_once() -> None:
    principal = entice.Principal(entice.UCB(), arms=3, seed=1)
    offer = principal.offer()
    principal.settle(offer, 0.5)
    with pytest.raises(entice.EnticeError, match="settle: offer must be the open offer, None; got"):
        principal.settle(offer, 0.5)


def test_an_invalid_rating_is_rejected_and_the_offer_stays_open() -> None:
    principal = entice.Principal(entice.UCB(), arms=3, seed=1)
    offer = principal.offer()
    with pytest.raises(
        entice.InputError, match=r"settle: feedback must be a finite number; got nan"
    ):
        principal.settle(offer, float("nan"))
    principal.settle(offer, 0.5)
    assert principal.ledger.pulls.tolist() == [1, 0, 0]


def test_a_policy_that_selects_a_missing_arm_is_reported() -> None:
    def ninth(t, pulls, means, memory, params, rng):  # type: ignore[no-untyped-def]
        return 9

    principal = entice.Principal(entice.CustomPolicy(ninth), arms=3, seed=1, cold_start="prior")
    with pytest.raises(entice.StudyError, match=r"ninth selected arm 9 in round 1.* 0 to 2"):
        principal.offer()


def test_without_a_seed_one_is_drawn_and_kept() -> None:
    first, second = (entice.Principal(entice.UCB(), arms=2) for _ in range(2))
    assert first.seed != second.seed


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"arms": 1}, "Principal: arms must be at least 2; got 1"),
        ({"arms": 2, "cold_start": "none"}, "Principal: cold_start must be"),
        ({"arms": 2, "prior": np.inf}, "Principal: prior must be a finite number"),
        ({"arms": 2, "seed": -1}, "Principal: seed must be"),
    ],
)
def test_invalid_settings_are_rejected(settings: dict[str, object], message: str) -> None:
    with pytest.raises(entice.InputError, match=message):
        entice.Principal(entice.UCB(), **settings)
