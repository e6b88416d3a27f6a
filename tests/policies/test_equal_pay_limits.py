"""Equal pay if offers may cost only so much: a cap, a budget or a pace, as in a campaign."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
from oracles.equal_pay import ReferenceElimination, ReferenceEqualPay
from sizes import sized

import entice
from entice.jit.specialize import specialize
from entice.model.ledger import new_ledger
from entice.model.step import constrained_offer, settle
from entice.policies.pointers import policy_pointer
from entice.rng import POLICY, below, new_stream

pytestmark = pytest.mark.usefixtures("unmeasured")

NINE = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9]
FOUR = [0.5, 0.9, 0.8, 0.1]
BEST = 8
POLICIES = [entice.EqualPay(horizon=2_000), entice.EqualPayElimination(horizon=2_000)]
both = pytest.mark.parametrize("policy", POLICIES, ids=["EqualPay", "EqualPayElimination"])
Limit = Callable[[int], float]


class Round(NamedTuple):
    arm: int
    payment: float
    feedback: float


def play(
    policy: Any, limit: Limit, seed: int, *, means: list[float] = NINE, rounds: int = 2_000,
    drift: Callable[[float], float] = lambda payment: 0.0, knows_cap: bool = True,
) -> list[Round]:  # fmt: skip
    """Play rounds in which an offer may pay `limit(t)`; `knows_cap`: whether the policy knows."""
    arms = len(means)
    kernel = policy.kernel(arms)
    (select, update, display, payment_rule), params = policy_pointer(kernel)
    decide = specialize(constrained_offer, select, display, payment_rule)
    rate = specialize(settle, update)
    ledger, memory, stream = (
        new_ledger(arms, 0.0),
        np.zeros(kernel.memory),
        new_stream(seed, 0, POLICY),
    )
    noise = np.random.default_rng(seed).normal(size=rounds)
    nobody, everybody = np.zeros(arms, np.bool_), np.ones(arms, np.bool_)
    as_it_is, slot = np.full(arms, math.nan), kernel.limit_slot if knows_cap else -1
    outputs = np.zeros(arms), np.zeros(arms, np.bool_), np.zeros(arms), np.zeros(arms)
    played = []
    for t in range(1, rounds + 1):
        arm, _, payment, _, _ = decide(
            t, ledger, ledger.pulls.astype(np.float64), nobody, memory, params, stream,
            limit(t), slot, everybody, as_it_is, *outputs,
        )  # fmt: skip
        assert payment <= limit(t)
        assert slot < 0 or memory[slot] == 0.0  # for this round only
        feedback = float(means[arm] + noise[t - 1] + drift(payment))
        rate(ledger, memory, params, arm, payment, feedback)
        played.append(Round(arm, payment, feedback))
    return played


def cap(payment: float) -> Limit:
    return lambda t: payment


def uneven(t: int) -> float:
    """Every third player may get nothing; the others get less from round 800 on."""
    return 0.0 if t % 3 == 0 else 0.4 if t < 800 else 0.15


LIMITS = {
    "just below a level": cap(0.22),
    "exactly a level": cap(0.03 * 1.25**4),
    "uneven": uneven,
    "nothing": cap(0.0),
}
limits = pytest.mark.parametrize("limit", LIMITS.values(), ids=LIMITS.keys())


@limits
@pytest.mark.parametrize("horizon", [None, 200])
def test_equal_pay_plays_every_round_like_its_reference(horizon: int | None, limit: Limit) -> None:
    prior = 20.0 if horizon else 100.0
    for seed in range(sized(1, 8)):
        played = play(
            entice.EqualPay(horizon=horizon, display_prior=prior), limit, seed, means=FOUR,
            rounds=200, drift=lambda payment: 2.0 * payment,
        )  # fmt: skip
        reference = ReferenceEqualPay(len(FOUR), horizon, 1.0, prior)
        for t, (arm, payment, feedback) in enumerate(played, 1):
            expected = (t - 1, 0) if t <= len(FOUR) else reference.offer(t, limit(t))
            level = expected[1]
            assert (arm, payment) == (expected[0], reference.price(level)), f"round {t}"
            reference.rate(arm, level, feedback)


@limits
def test_elimination_plays_every_round_like_its_reference(limit: Limit) -> None:
    excluded = 0
    for seed in range(sized(3, 30)):
        played = play(entice.EqualPayElimination(horizon=2_000), limit, seed)
        stream = new_stream(seed, 0, POLICY)
        reference = ReferenceElimination(
            len(NINE), 2_000, 1.0, 1.1, 20.0, lambda places, at=stream: below(at, places)
        )
        for t, (arm, payment, feedback) in enumerate(played, 1):
            assert (arm, payment) == reference.offer(t, limit(t)), f"seed {seed}, round {t}"
            reference.rate(arm, payment, feedback)
            excluded += len(reference.excluded)
    assert excluded > 0


@limits
@both
def test_no_drift_changes_an_offer(policy: Any, limit: Limit) -> None:
    drifts: list[Callable[[float], float]] = [
        lambda x: 5.0 * x, lambda x: 0.3 * (x > 0), lambda x: -1.1 * x
    ]  # fmt: skip
    plain = [r[:2] for r in play(policy, limit, 1)]
    assert any(payment > 0 for _, payment in plain) or limit is LIMITS["nothing"]
    for drift in drifts:
        assert [r[:2] for r in play(policy, limit, 1, drift=drift)] == plain


def test_equal_pay_explores_what_a_cap_allows() -> None:
    """Control: if it does not know the cap, it stops at the first level that is above the cap.

    The cap is just below a level, 0.2235. Of 100 runs of 20,000 rounds with a cap of 0.2, 6 and 16
    ended with a wrong arm, and mean regrets were 245 ± 48 and 489 ± 97.
    """
    policy, rounds = entice.EqualPay(horizon=4_000), 4_000
    knows_cap, without_cap = (
        [
            sum(
                r.payment > 0
                for r in play(policy, cap(0.22), seed, rounds=rounds, knows_cap=knows_cap)
            )
            for seed in range(sized(8, 40))
        ]
        for knows_cap in (True, False)
    )
    assert np.mean(knows_cap) > 2 * np.mean(without_cap)


def test_elimination_goes_on_among_the_arms_that_a_cap_allows() -> None:
    """Control: if it does not know the cap, its race stops in the first block that is above it.

    Over 40 runs of 20,000 rounds with a cap of 0.3, mean regrets were 689 ± 113 and 3,213 ± 559.
    """
    policy, rounds = entice.EqualPayElimination(horizon=8_000), 8_000
    found = []
    for knows_cap in (True, False):
        found.append(0)
        for seed in range(sized(6, 40)):
            played = play(policy, cap(0.3), seed, rounds=rounds, knows_cap=knows_cap)
            found[-1] += [r.arm for r in played].count(BEST) > 0.5 * rounds
    assert found[0] >= sized(5, 32)
    assert found[1] <= sized(4, 28)


@pytest.mark.parametrize("kind", [entice.EqualPay, entice.EqualPayElimination])
@pytest.mark.parametrize("most", [0.05, 0.25])
def test_a_display_prior_that_fits_the_cap_keeps_every_price_below_it(
    kind: Any, most: float
) -> None:
    """docs/explanation/equal-pay-limits.md: the path is that without a cap.

    Control: not with the default prior.
    """
    rounds = 2_000
    prior = 1.1 * math.log(rounds) / (most - 1 / 4096) ** 2
    for seed in range(sized(1, 20)):
        policy = kind(horizon=rounds, display_prior=prior)
        assert play(policy, cap(most), seed) == play(policy, cap(math.inf), seed)
        default = kind(horizon=rounds)
        assert play(default, cap(most), seed) != play(default, cap(math.inf), seed)
