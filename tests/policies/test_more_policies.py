"""Policies beyond the paper: decisions equal to reference implementations, and their benefits."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest
from oracles.policies import (
    SEED,
    ReferenceAlternating,
    ReferenceDiscounted,
    ReferencePolicy,
    ReferenceRace,
    ReferenceRoundRobin,
    ReferenceWindow,
)
from plain_kernel import plain_kernel
from sizes import LONG, sized

import entice
from entice.model.step import PLAYERS_CHOICE
from entice.paper.setups import MEANS
from entice.rng import POLICY, REWARD, new_stream
from entice.testing import check_policy

NEW = [
    entice.UCB(count_in_flight=True),
    entice.RoundRobinEpsilonGreedy(c=2),
    entice.AlternatingThompson(),
    entice.EliminationRace(horizon=64, delta=0.1),
    entice.DiscountedUCB(gamma=0.97),
    entice.SlidingWindowUCB(window=40),
]
by_policy = pytest.mark.parametrize("policy", NEW, ids=lambda policy: policy.label)
by_cold_start = pytest.mark.parametrize("cold_start", ["each_arm_once", "prior"])

Feedback = Callable[[int, int], float]
"""The feedback of the player of round t on an arm."""


def noisy(means: Sequence[float], std: float = 1.0) -> Feedback:
    """Return feedback that depends only on the round and the arm, so that any loop can use it."""
    noise = np.random.default_rng(SEED).normal(scale=std, size=(20_001, len(means)))
    return lambda t, arm: float(means[arm] + noise[t, arm])


def arms_of_principal(
    policy: Any, arms: int, horizon: int, feedback: Feedback, cold_start: Any = "each_arm_once"
) -> list[int]:
    """Run a principal in plain Python, and return the arms that it offered."""
    with plain_kernel():
        principal = entice.Principal(policy, arms, seed=SEED, cold_start=cold_start)
    chosen = []
    for t in range(1, horizon + 1):
        offer = principal.offer()
        principal.settle(offer, feedback(t, offer.arm))
        chosen.append(offer.arm)
    return chosen


# --- Decisions of the references --------------------------------------------------------------


def arms_of_reference(
    reference: ReferencePolicy, horizon: int, feedback: Feedback, cold_start: str = "each_arm_once"
) -> list[int]:
    chosen = []
    for t in range(1, horizon + 1):
        arm = (
            t - 1 if cold_start == "each_arm_once" and t <= reference.arms else reference.select(t)
        )
        reference.rate(arm, feedback(t, arm))
        chosen.append(arm)
    return chosen


@pytest.mark.usefixtures("untraced")
@by_cold_start
@pytest.mark.parametrize(
    ("policy", "reference"),
    [
        (NEW[1], ReferenceRoundRobin),
        (NEW[2], ReferenceAlternating),
        (NEW[3], ReferenceRace),
        (NEW[4], ReferenceDiscounted),
        (NEW[5], ReferenceWindow),
    ],
    ids=lambda value: getattr(value, "label", ""),
)
def test_every_decision_equals_that_of_the_reference(
    policy: Any, reference: Callable[[int], ReferencePolicy], cold_start: str
) -> None:
    feedback = noisy([0.9, 0.5, 0.4, 0.1])
    ours = arms_of_principal(policy, 4, 600, feedback, cold_start)
    assert ours == arms_of_reference(reference(4), 600, feedback, cold_start)
    assert len(set(ours[300:])) > 1  # the decisions are not trivial


@pytest.mark.usefixtures("untraced")
def test_the_race_drops_and_borrows_arms_like_the_reference() -> None:
    """Arm 0 looks worst at first, so low layers drop it; higher layers find that it is the best."""
    early, late = noisy([-3.0, 3.0, 0.0]), noisy([6.0, -2.0, -2.5])

    def turned(t: int, arm: int) -> float:
        return (early if t <= 150 else late)(t, arm)

    reference = ReferenceRace(3)
    expected = arms_of_reference(reference, 4000, turned)
    assert reference.borrowed > 500
    assert arms_of_principal(NEW[3], 3, 4000, turned) == expected


# --- Hand-computed decisions, and limits that are known policies ------------------------------


def selected_after(policy: Any, ratings: Sequence[tuple[int, float]], arms: int = 2) -> int:
    """Return the arm that a policy's compiled functions select after some ratings."""
    kernel = policy.kernel(arms)
    memory, pulls, sums = np.zeros(kernel.memory), np.zeros(arms, dtype=np.int64), np.zeros(arms)
    for arm, feedback in ratings:
        kernel.update(memory, kernel.params, arm, 0.0, feedback)
        pulls[arm] += 1
        sums[arm] += feedback
    means = sums / np.maximum(pulls, 1)
    stream = new_stream(SEED, 0, POLICY)
    return int(kernel.select(len(ratings) + 1, pulls, means, memory, kernel.params, stream))


def test_discounted_bounds_by_hand() -> None:
    """After 1, 0, 0 with γ = 1/2: N = (1/4, 3/2), n = 7/4, M = (1, 0).

    With ξ = 2 the bounds are 1 + sqrt(2 log 1.75 / 0.25) = 3.12 and sqrt(2 log 1.75 / 1.5) = 0.86.
    A rating of arm 0 of −2 at first makes them 0.12 and 0.86.
    """
    policy = entice.DiscountedUCB(gamma=0.5)
    assert selected_after(policy, [(0, 1.0), (1, 0.0), (1, 0.0)]) == 0
    assert selected_after(policy, [(0, -2.0), (1, 0.0), (1, 0.0)]) == 1
    # M = (1, 0) again, but with ξ = 0.01 hardly any width: 1.15 against 0.06, then 0.15 below 0.6.
    assert (
        selected_after(entice.DiscountedUCB(gamma=0.5, xi=0.01), [(0, 0.0), (1, 0.5), (1, 0.5)])
        == 1
    )


def test_window_bounds_by_hand() -> None:
    """Only the last three ratings count: if all are of arm 1, arm 0 comes first.

    In the other cases arm 0 has one rating, −1, and arm 1 has two ratings of 0, and in round 5
    log min(t, 3) is log 3: the bounds are −1 + sqrt(2 log 3) = 0.48 and sqrt(log 3) = 1.05. With
    −0.4 they are 1.08 and 1.05.
    """
    policy = entice.SlidingWindowUCB(window=3)
    assert selected_after(policy, [(0, 9.0), (1, 0.0), (1, 0.0), (1, 0.0)]) == 0
    assert selected_after(policy, [(1, 9.0), (1, 0.0), (1, 0.0), (0, -1.0)]) == 1
    assert selected_after(policy, [(1, 9.0), (1, 0.0), (1, 0.0), (0, -0.4)]) == 0


@pytest.mark.usefixtures("untraced")
@by_cold_start
def test_a_window_of_the_whole_horizon_is_ucb(cold_start: str) -> None:
    feedback = noisy([0.9, 0.8, 0.1])
    whole = entice.SlidingWindowUCB(window=3000)
    assert arms_of_principal(whole, 3, 3000, feedback, cold_start) == arms_of_principal(
        entice.UCB(), 3, 3000, feedback, cold_start
    )


def test_ratings_that_left_the_window_leave_no_rounding_error() -> None:
    """Added to 10^15, ratings are rounded to an eighth; subtracting it does not undo that."""
    kernel = entice.SlidingWindowUCB(window=40).kernel(2)
    noise = np.random.default_rng(SEED).normal(size=80)
    memories = []
    for first in (1e15, 0.0):
        memory = np.zeros(kernel.memory)
        for s, feedback in enumerate([first, *noise[1:]]):
            kernel.update(memory, kernel.params, s % 2, 0.0, float(feedback))
        memories.append(memory.tolist())
    assert memories[0] == memories[1]


def test_exploration_takes_turns() -> None:
    """If c is so large that every round explores, arms are selected in turn."""
    chosen = arms_of_principal(
        entice.RoundRobinEpsilonGreedy(c=1000), 3, 300, noisy([0.9, 0.5, 0.1])
    )
    assert chosen == [0, 1, 2] * 100


@pytest.mark.usefixtures("plain")
def test_even_rounds_of_alternating_thompson_are_unpaid() -> None:
    rounds = entice.trace(
        arms=entice.Gaussian(MEANS), policies=[entice.AlternatingThompson()],
        drifts=[entice.LinearDrift(1.1)], horizon=2000, seed=SEED,
    )  # fmt: skip
    paid = rounds.filter(rounds["payment"] > 0)["t"].to_list()
    assert len(paid) > 100
    assert all(t % 2 == 1 for t in paid)


@pytest.mark.usefixtures("untraced")
def test_layers_are_drawn_by_halves() -> None:
    """Layer ℓ has n 2^−ℓ of n draws; a count is off by 4.5 standard deviations with p < 7e-6.

    With three layers, the remaining eighth goes to the lowest: 5/8, 1/4, 1/8.
    """
    from entice.policies.elimination_race import draw_layer

    stream, n = new_stream(SEED, 0, POLICY), 40_000
    counts = np.bincount([draw_layer(3, stream) for _ in range(n)], minlength=3)
    for count, share in zip(counts, (5 / 8, 1 / 4, 1 / 8), strict=True):
        assert abs(count - n * share) < 4.5 * math.sqrt(n * share * (1 - share))


def test_counting_pulls_in_flight_changes_nothing_if_ratings_are_immediate() -> None:
    def final(policy: Any, **settings: Any) -> Any:
        result = entice.simulate(
            arms=entice.Gaussian(MEANS), policies=[policy], horizon=2000, replications=8, seed=SEED,
            drifts=[entice.LinearDrift(1.1)], checkpoints=1, progress=False, **settings,
        )  # fmt: skip
        return result.final.drop("policy", "policy.count_in_flight")

    for engine in ("auto", "generic"):
        ours, usual = entice.UCB(count_in_flight=True), entice.UCB()
        assert final(ours, engine=engine).equals(final(usual, engine=engine))


def test_the_fast_path_is_for_immediate_ratings() -> None:
    def engines(delay: int) -> tuple[str, ...]:
        return entice.Study(
            arms=entice.Gaussian(MEANS), policies=[entice.UCB(count_in_flight=True)], horizon=100,
            players=entice.Players(delay=delay),
        ).engines()  # fmt: skip

    assert engines(0) == ("fast",)
    assert engines(1) == ("generic",)


# --- Their benefits --------------------------------------------------------------------------


@pytest.mark.usefixtures("untraced")
def test_policies_that_discount_find_a_new_best_arm_and_ucb_does_not() -> None:
    """Arm 1 is 3.5 worse than arm 0 for 2000 rounds, then 3.5 better.

    UCB has tried it twice by then, and tries it again when 2 log t / 2 > 3.5²: in round 208,000. To
    do so before round 4000, two ratings would have to average 0.6 too high, 8 of their standard
    deviations (p < 1e-15). The others try an arm again once its weight is below about 1.
    """
    before, after = noisy([0.0, -3.5], std=0.1), noisy([0.0, 3.5], std=0.1)

    def turned(t: int, arm: int) -> float:
        return (before if t <= 2000 else after)(t, arm)

    share = {
        policy.label: arms_of_principal(policy, 2, 4000, turned)[3000:].count(1) / 1000
        for policy in (
            entice.UCB(),
            entice.DiscountedUCB(gamma=0.99),
            entice.SlidingWindowUCB(window=200),
        )
    }
    assert share.pop("UCB") == 0
    assert min(share.values()) > 0.9


@pytest.mark.usefixtures("untraced")
def test_a_few_false_ratings_mislead_ucb_permanently_but_not_the_race() -> None:
    """The best arm's first 40 ratings are lowered by 2; later ratings are honest.

    UCB sees 0.1 against −1.1 and tries the best arm about 2 log(T) / 1.2² = 12 times in 5000
    rounds, all with false ratings. The race tries both equally often until the false ratings are
    averaged out.
    """
    honest = noisy([0.9, 0.1], std=0.3)

    def regret(policy: Any) -> float:
        lies = 40

        def lied(t: int, arm: int) -> float:
            nonlocal lies
            if arm == 0 and lies > 0:
                lies -= 1
                return honest(t, arm) - 2
            return honest(t, arm)

        return 0.8 * arms_of_principal(policy, 2, 5000, lied).count(1)

    assert regret(entice.UCB()) > 3900
    assert regret(entice.EliminationRace(horizon=5000)) < 1500


def excess(metric: str, usual: Any, times: float, ours: Any, **settings: Any) -> float:
    """Return a lower bound on the usual policy's metric minus `times` times ours.

    It is 4.5 standard errors below the mean difference over runs: the true value is lower with
    p < 1e-5.
    """
    result = entice.simulate(
        arms=entice.Gaussian(MEANS), policies=[usual, ours], drifts=[entice.LinearDrift(1.1)],
        horizon=20_000, replications=60, seed=SEED, checkpoints=1, progress=False,
        engine="generic", **settings,
    )  # fmt: skip
    by_policy = [result.final.filter(policy_index=p)[metric].to_numpy() for p in (0, 1)]
    found = by_policy[0] - times * by_policy[1]
    return float(found.mean() - 4.5 * found.std(ddof=1) / math.sqrt(len(found)))


@pytest.mark.usefixtures("untraced")
def test_alternating_thompson_pays_less_than_thompson() -> None:
    """About 236 against 312."""
    thompson, alternating = entice.ThompsonSampling(), entice.AlternatingThompson()
    assert excess("compensation", thompson, 1, alternating) > 40


@pytest.mark.usefixtures("untraced")
def test_counting_pulls_in_flight_halves_the_regret_of_late_ratings() -> None:
    """About 1000 against 2800."""
    late = entice.Players(delay=500)
    assert excess("regret", entice.UCB(), 2, entice.UCB(count_in_flight=True), players=late) > 0


# --- Properties of all of them ----------------------------------------------------------------


@by_policy
def test_they_pass_the_checks(policy: Any) -> None:
    check_policy(policy, rounds=200)


@pytest.mark.usefixtures("untraced")
@by_policy
@by_cold_start
def test_live_loop_equals_the_kernel_bit_for_bit(policy: Any, cold_start: str) -> None:
    arms = entice.Gaussian([0.9, 0.7, 0.5, 0.3])
    with plain_kernel():
        simulated = entice.trace(
            arms=arms, policies=[policy], drifts=[entice.LinearDrift(1.1)], horizon=300, seed=SEED,
            cold_start=cold_start,
        )  # fmt: skip
    # The first policy is compiled; all are in the long version.
    with nullcontext() if LONG or policy == NEW[0] else plain_kernel():
        principal = entice.Principal(policy, arms=4, seed=SEED, cold_start=cold_start)
    sampler, stream = arms.sampler(), new_stream(SEED, 0, REWARD)
    offers = []
    for _ in range(300):
        offer = principal.offer()
        reward = sampler.sample(offer.arm, sampler.params, stream)
        principal.settle(offer, reward + 1.1 * offer.payment)
        offers.append(offer)
    assert simulated.select("t", "arm", "greedy_arm", "payment").rows() == offers


@pytest.mark.usefixtures("untraced")
@by_policy
@by_cold_start
def test_they_handle_late_and_lost_ratings_and_declined_offers(
    policy: Any, cold_start: str
) -> None:
    """The long version is compiled."""
    horizon, runs = sized((400, 2), (2000, 5))
    players = entice.Players(
        acceptance=entice.LogisticAcceptance(midpoint=0.1, width=0.2), delay=30, loss=0.3
    )
    with nullcontext() if LONG else plain_kernel():
        result = entice.simulate(
            arms=entice.Gaussian(MEANS), policies=[policy], drifts=[entice.LinearDrift(1.1)],
            horizon=horizon, replications=runs, seed=SEED, players=players, cold_start=cold_start,
            progress=False,
        )  # fmt: skip
    pulls = result.final["pulls"].to_numpy()
    assert (pulls.sum(axis=1) == horizon).all()
    assert ((pulls > 0).sum(axis=1) > 2).all()


def test_they_select_without_any_ratings() -> None:
    """With late ratings there are no ratings at all in the first rounds."""
    for policy in NEW:
        kernel = policy.kernel(3)
        memory, stream = np.zeros(kernel.memory), new_stream(SEED, 0, POLICY)
        for t in range(1, 50):
            nothing = np.zeros(3, dtype=np.int64), np.zeros(3)
            arm = kernel.select(t, *nothing, memory, kernel.params, stream)
            assert arm in (0, 1, 2, PLAYERS_CHOICE)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: entice.UCB(count_in_flight=1), "UCB: count_in_flight must be true or false; got"),
        (lambda: entice.RoundRobinEpsilonGreedy(c=0), "RoundRobinEpsilonGreedy: c must be greater"),
        (lambda: entice.RoundRobinEpsilonGreedy(c="5"), "RoundRobinEpsilonGreedy: c must be a num"),
        (lambda: entice.EliminationRace(horizon=0), "EliminationRace: horizon must be a whole"),
        (lambda: entice.EliminationRace(horizon=1.5), "EliminationRace: horizon must be a whole"),
        (lambda: entice.EliminationRace(9, delta=0), "EliminationRace: delta must lie between"),
        (lambda: entice.EliminationRace(9, delta=1), "EliminationRace: delta must lie between"),
        (lambda: entice.DiscountedUCB(gamma=0), "DiscountedUCB: gamma must be greater than 0 and"),
        (lambda: entice.DiscountedUCB(gamma=1.01), "DiscountedUCB: gamma must be greater than 0"),
        (lambda: entice.DiscountedUCB(0.9, xi=0), "DiscountedUCB: xi must be greater than 0"),
        (lambda: entice.SlidingWindowUCB(window=0), "SlidingWindowUCB: window must be a whole"),
        (lambda: entice.SlidingWindowUCB(window=10**8), "SlidingWindowUCB: window must be at most"),
        (lambda: entice.SlidingWindowUCB(9, xi=-1), "SlidingWindowUCB: xi must be greater than 0"),
    ],
)
def test_invalid_parameters_are_rejected(make: Callable[[], object], message: str) -> None:
    with pytest.raises(entice.InputError, match=message):
        make()


def test_labels_name_settings_that_differ_from_the_default() -> None:
    assert [policy.label for policy in NEW] == [
        "UCB(in flight)",
        "RoundRobinEpsilonGreedy(c=2)",
        "AlternatingThompson",
        "EliminationRace(horizon=64, delta=0.1)",
        "DiscountedUCB(gamma=0.97)",
        "SlidingWindowUCB(window=40)",
    ]
    assert entice.DiscountedUCB(0.5, xi=1).label == "DiscountedUCB(gamma=0.5, xi=1)"
    assert entice.SlidingWindowUCB(9, xi=1).label == "SlidingWindowUCB(window=9, xi=1)"
