"""Equal pay against drift, delay, loss and refusals, in campaigns without a database."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
from rules_in_memory import World, play, regret
from sizes import sized

import entice
from entice.service.domain.spec import CampaignSpec

pytestmark = pytest.mark.usefixtures("unmeasured")

STEPS = 2**19
"""A fine scale, so that a drift hardly ever has to be rounded to whole ratings; a power of two, so
that the policy sees ratings without rounding errors."""
NOISE = 0.1
WORLD = World(means=tuple(STEPS * (0.46 + 0.01 * arm) for arm in range(9)), std=STEPS * NOISE)
"""The paper's nine means, 0.1 to 0.9 with unit noise, on a scale of 0 to 1."""


def policies(horizon: int) -> list[Any]:
    return [
        entice.EqualPay(noise=NOISE),
        entice.EqualPay(horizon=horizon, noise=NOISE),
        entice.EqualPayElimination(horizon=horizon, noise=NOISE),
    ]


def spec_of(policy: Any, seed: int) -> CampaignSpec:
    return CampaignSpec(
        name="Tea", arms=list("abcdefghi"), policy=policy, lowest_rating=0, highest_rating=STEPS,
        policy_sees="zero_to_one", price_of_a_star=3, budget=10**14, seed=seed,
    )  # fmt: skip


@cache  # every drift is compared with the same offers
def path(policy: Any, world: World, visitors: int, seed: int) -> list[tuple[int, int]]:
    """Return the arm and the amount of every offer."""
    offers = play(spec_of(policy, seed), world, visitors).offers
    return [(offer.arm, offer.amount) for offer in offers]


DRIFTS: dict[str, Callable[[float], float]] = {
    "linear": lambda payment: 1.1 * payment,
    "steep": lambda payment: 3.0 * payment,
    "step": lambda payment: 0.03 * STEPS * (payment > 0),
    "negative": lambda payment: -1.1 * payment,
}


VISITORS = sized(600, 1500)


@pytest.mark.parametrize("drift", DRIFTS)
@pytest.mark.parametrize("policy", policies(VISITORS), ids=lambda policy: policy.label)
def test_no_drift_changes_any_offer(policy: Any, drift: str) -> None:
    """Up to rounding: sums of ratings differ in their last digits."""
    for world in (WORLD, WORLD._replace(delay=20, share_lost=0.3, share_declined=0.3)):
        plain = path(policy, world, VISITORS, seed=1)
        assert sum(amount for _, amount in plain) > 0
        assert path(policy, world._replace(drift=DRIFTS[drift]), VISITORS, seed=1) == plain


@pytest.mark.parametrize("drift", DRIFTS)
def test_control_every_drift_changes_the_offers_of_ucb(drift: str) -> None:
    policy = entice.UCB(noise=NOISE)
    drifting = WORLD._replace(drift=DRIFTS[drift])
    plain = path(policy, WORLD, VISITORS, seed=1)
    assert plain != path(policy, drifting, VISITORS, seed=1)


LATE = WORLD._replace(delay=50)
ALL = LATE._replace(share_lost=0.3, share_declined=0.3)


@pytest.mark.parametrize("policy", policies(5000)[1:], ids=lambda policy: policy.label)
def test_late_lost_and_declined_offers_are_no_collapse(policy: Any) -> None:
    """With 50 offers in flight, regret is at most 1.5 times that without delay.

    Over 40 other seeds the ratios were 1.1 and 1.25; with 30 % of ratings lost and of paid offers
    declined as well, 1.7 and 2.0. With 24 random seeds, the long version would fail in about 5 % of
    cases. The short one has 2 seeds and wider limits: resampled from 24 other seeds, each policy
    fails the first limit in 3 % of cases and the second in 1 %. 1.5 would fail in a third.
    `tests/policies/test_equal_pay.py` has the limit of 1.5 in the simulator.
    """
    plain, late, with_all = (
        np.mean([regret(world, play(spec_of(policy, s), world, 5000)) for s in range(seeds)])
        for world, seeds in ((WORLD, sized(2, 24)), (LATE, sized(2, 24)), (ALL, sized(1, 8)))
    )
    assert late < sized(2.5, 1.5) * plain
    assert with_all < sized(5.0, 3.0) * plain
