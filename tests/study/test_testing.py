"""The checks of user functions accept valid functions and name the fault of others."""

from __future__ import annotations

import math
from typing import Any, get_args

import numpy as np
import pytest

import entice
from entice.testing import CheckFailed, check_drift, check_policy
from entice.worlds.drifts import Drift

ROUNDS = 20
NAMES = ["a function", "a class", "another spec", "nothing"]


def failure(policy_or_drift: Any, **options: Any) -> str:
    """Return the message of the failed check of a policy or a drift."""
    check = check_drift if isinstance(policy_or_drift, get_args(Drift)) else check_policy
    with pytest.raises(CheckFailed) as caught:
        check(policy_or_drift, **options)
    return str(caught.value)


# --- Policies ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "policy",
    [
        entice.UCB(),
        entice.EpsilonGreedy(c=5),
        entice.ThompsonSampling(),
        entice.ThompsonSampling(scale="std"),
        entice.Greedy(),
    ],
    ids=lambda policy: policy.label,
)
def test_built_in_policies_pass_the_check(policy: Any) -> None:
    assert check_policy(policy, rounds=ROUNDS) is None


def noisy(t, pulls, means, memory, params, rng):
    memory[0] += 1.0
    if entice.rng.uniform(rng) < params[0]:
        return entice.rng.below(rng, pulls.shape[0])
    return np.argmax(memory[1:])


def keep_latest(memory, params, arm, payment, feedback):
    memory[1 + arm] = feedback


def test_a_policy_with_memory_and_its_own_stream_passes_the_check() -> None:
    own = entice.CustomPolicy(noisy, keep_latest, params=[0.5], memory=1, memory_per_arm=1)
    assert check_policy(own, rounds=ROUNDS) is None


def test_the_same_policy_with_too_little_memory_fails_the_check() -> None:
    own = entice.CustomPolicy(noisy, keep_latest, params=[0.5], memory=1)
    message = failure(own, rounds=ROUNDS)
    assert "noisy" in message


def beyond(t, pulls, means, memory, params, rng):
    return pulls.shape[0]


def below(t, pulls, means, memory, params, rng):
    return -1


def at_last(t, pulls, means, memory, params, rng):
    return 5 if t == 7 else 0


@pytest.mark.parametrize(("select", "arm", "t"), [(beyond, 5, 1), (below, -1, 1), (at_last, 5, 7)])
def test_an_invalid_arm_is_reported_with_its_round(select: Any, arm: int, t: int) -> None:
    message = failure(entice.CustomPolicy(select), rounds=ROUNDS)
    assert select.__name__ in message
    assert f"arm {arm} " in message
    assert f"round {t}," in message
    assert "0 to 4" in message


def test_the_number_of_arms_may_be_chosen() -> None:
    assert "0 to 2" in failure(entice.CustomPolicy(beyond), arms=3, rounds=ROUNDS)


def half_an_arm(t, pulls, means, memory, params, rng):
    return 0.0


def no_arm(t, pulls, means, memory, params, rng):
    pass


@pytest.mark.parametrize(("select", "shown"), [(half_an_arm, "0.0"), (no_arm, "None")])
def test_an_arm_must_be_a_whole_number(select: Any, shown: str) -> None:
    message = failure(entice.CustomPolicy(select), rounds=ROUNDS)
    assert f"{select.__name__}: select in round 1" in message
    assert f"must return a whole number, not {shown}" in message


def last(t, pulls, means, memory, params, rng):
    return len(pulls) - 1


def shows_ranks(ledger, memory, params, displayed):
    for i in range(len(displayed)):
        displayed[i] = -i
    return 0


def returns_the_worst(ledger, memory, params, displayed):
    for i in range(len(displayed)):
        displayed[i] = -i
    return len(displayed) - 1


def returns_no_arm(ledger, memory, params, displayed):
    return len(displayed)


def too_little(t, arm, greedy, required, memory, params, rng):
    return 0.5 * required


def test_a_display_must_return_an_arm() -> None:
    policy = entice.CustomPolicy(last, display=returns_no_arm)
    assert "display in round 1 must fill in finite numbers and return one" in failure(policy)
    policy = entice.CustomPolicy(last, display=returns_the_worst)
    assert (
        "display in round 1 must return an arm that displays the highest value, 0, not arm 4, "
        "which displays -4"
    ) in failure(policy)


def test_a_price_must_cover_what_the_player_gives_up() -> None:
    check_policy(entice.CustomPolicy(last, display=shows_ranks))
    policy = entice.CustomPolicy(last, display=shows_ranks, price=too_little)
    assert "price in round 1 must be at least 4" in failure(policy)


def counts_itself(t, pulls, means, memory, params, rng):
    pulls[0] += 1
    return 0


def flatters(t, pulls, means, memory, params, rng):
    if t == 4:
        means[1] = 9.0
    return 0


@pytest.mark.parametrize(("select", "t"), [(counts_itself, 1), (flatters, 4)])
def test_a_policy_that_modifies_counts_or_averages_is_rejected(select: Any, t: int) -> None:
    message = failure(entice.CustomPolicy(select), rounds=ROUNDS)
    assert f"{select.__name__} changed the counts or averages in round {t}" in message


def writes_beyond(t, pulls, means, memory, params, rng):
    memory[t] = 1.0
    return 0


def reads_beyond(t, pulls, means, memory, params, rng):
    return int(0.0 * memory[t])


@pytest.mark.parametrize("select", [writes_beyond, reads_beyond])
def test_select_outside_its_memory_is_reported_with_its_round(select: Any) -> None:
    message = failure(entice.CustomPolicy(select, memory=3), rounds=ROUNDS)
    assert f"{select.__name__}: select in round 3" in message
    assert "out of bounds" in message


def first(t, pulls, means, memory, params, rng):
    return 0


def in_turn(t, pulls, means, memory, params, rng):
    return (t - 1) % pulls.shape[0]


def test_update_outside_its_memory_is_reported_with_its_round() -> None:
    policy = entice.CustomPolicy(in_turn, update=keep_latest, memory=3)
    message = failure(policy, rounds=ROUNDS)
    assert "in_turn: update in round 3" in message
    assert "out of bounds" in message


def with_numpy_random(t, pulls, means, memory, params, rng):
    return np.random.randint(0, pulls.shape[0])


def random_arm(arms):
    return np.random.randint(0, arms)


def with_random_helper(t, pulls, means, memory, params, rng):
    return random_arm(pulls.shape[0])


def test_a_policy_with_another_random_generator_is_rejected() -> None:
    with pytest.raises(
        entice.InputError, match=r"with_numpy_random must draw .*entice.rng.uniform"
    ):
        check_policy(entice.CustomPolicy(with_numpy_random))


def test_a_helper_with_another_random_generator_is_rejected() -> None:
    message = failure(entice.CustomPolicy(with_random_helper), rounds=ROUNDS)
    assert "with_random_helper" in message
    assert "same draws" in message


def of_nothing(t, pulls, means, memory, params, rng):
    return pulls.nothing


def raises(t, pulls, means, memory, params, rng):
    if t == 3:
        raise ValueError("no more")
    return 0


def test_a_policy_that_numba_cannot_compile_is_named() -> None:
    assert "of_nothing" in failure(entice.CustomPolicy(of_nothing), rounds=ROUNDS)


def test_a_policy_that_raises_is_reported_with_its_round() -> None:
    message = failure(entice.CustomPolicy(raises), rounds=ROUNDS)
    assert "raises" in message
    assert "round 3" in message
    assert "no more" in message


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"arms": 0}, "arms"),
        ({"arms": -1}, "arms"),
        ({"arms": 2.5}, "arms"),
        ({"rounds": 0}, "rounds"),
        ({"rounds": 1.5}, "rounds"),
        ({"seed": -1}, "seed"),
        ({"seed": 2**63}, "seed"),
    ],
    ids=str,
)
def test_a_check_without_rounds_or_arms_is_rejected(options: dict[str, Any], name: str) -> None:
    with pytest.raises(entice.InputError, match=name):
        check_policy(entice.CustomPolicy(first), **({"rounds": ROUNDS} | options))


@pytest.mark.parametrize("value", [first, entice.UCB, entice.LinearDrift(1.1), None], ids=NAMES)
def test_check_policy_rejects_other_types(value: Any) -> None:
    with pytest.raises(entice.InputError, match="policy"):
        check_policy(value, rounds=ROUNDS)


# --- Drifts -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "drift",
    [entice.NoDrift(), entice.LinearDrift(1.1), entice.SaturatingDrift(l=1.1, cap=0.2)],
    ids=lambda drift: drift.label,
)
def test_built_in_drifts_satisfy_assumption_1(drift: Any) -> None:
    assert check_drift(drift) is None
    assert check_drift(drift, lipschitz=1.1) is None


def test_a_drift_is_checked_against_its_own_constant() -> None:
    assert check_drift(entice.StepDrift(0.3)) is None  # it claims no Lipschitz constant
    with pytest.raises(CheckFailed, match="has slope"):
        check_drift(entice.StepDrift(0.3), lipschitz=1.0)
    with pytest.raises(CheckFailed, match=r"fading\(2\) has slope 2 > 1"):
        check_drift(entice.CustomDrift(fading, params=[2.0], lipschitz=1.0))


@pytest.mark.parametrize("constant", [-1, math.inf, "1"])
def test_a_lipschitz_constant_must_be_finite(constant: Any) -> None:
    with pytest.raises(entice.InputError, match="CustomDrift: lipschitz must"):
        entice.CustomDrift(fading, params=[2.0], lipschitz=constant)


def fading(payment, t, arm, params):
    return params[0] * payment / math.sqrt(t) / (1 + arm)


def test_a_drift_that_varies_with_time_and_arm_satisfies_assumption_1() -> None:
    assert check_drift(entice.CustomDrift(fading, params=[2.0]), lipschitz=2.0) is None


def zero_only_at_first(payment, t, arm, params):
    return payment if t == 1 and arm == 0 else 1.0 + payment


def zero_only_early(payment, t, arm, params):
    return payment if t < 1000 else 0.5 + payment


@pytest.mark.parametrize(
    ("function", "value", "t", "arm"),
    [(zero_only_at_first, "1", 1, 1), (zero_only_early, "0.5", 1000, 0)],
)
def test_a_drift_without_payment_is_reported_with_round_and_arm(
    function: Any, value: str, t: int, arm: int
) -> None:
    message = failure(entice.CustomDrift(function))
    assert f"{function.__name__} is {value} at payment 0, not 0" in message
    assert f"t = {t}, arm {arm}" in message


def falling(payment, t, arm, params):
    return -payment


def falling_late(payment, t, arm, params):
    return payment if arm < 3 or payment < 1.495 else 0.0


def test_a_decreasing_drift_is_reported_with_the_payments() -> None:
    assert "falling decreases" in failure(entice.CustomDrift(falling))
    message = failure(entice.CustomDrift(falling_late))
    assert "falling_late decreases" in message
    assert "1.49" in message
    assert "1.5 " in message
    assert "arm 3" in message


def test_the_grid_of_payments_ends_at_its_maximum() -> None:
    assert check_drift(entice.CustomDrift(falling_late), largest_payment=1.4) is None


def squared(payment, t, arm, params):
    return payment * payment


def test_a_drift_steeper_than_claimed_is_reported_with_its_slope() -> None:
    message = failure(entice.CustomDrift(squared), lipschitz=1.0)
    assert "squared has slope 3.99 > 1" in message
    assert "1.99" in message
    assert "slope 1.1 > 1" in failure(entice.LinearDrift(1.1), lipschitz=1.0)


def test_a_drift_as_steep_as_claimed_is_accepted() -> None:
    assert check_drift(entice.CustomDrift(squared), lipschitz=4.0) is None


def nan_later(payment, t, arm, params):
    return math.nan if payment > 1.005 and t > 5 else payment


def infinite(payment, t, arm, params):
    return payment / (1.0 - payment) if payment != 0 else 0.0


def test_a_drift_that_is_not_finite_is_reported_with_the_payment() -> None:
    message = failure(entice.CustomDrift(nan_later))
    assert "nan_later is not a finite number at payment 1.01 (t = 10, arm 0)" in message


def test_a_drift_that_divides_by_zero_is_reported_with_the_payment() -> None:
    message = failure(entice.CustomDrift(infinite))
    assert "infinite at payment 1 (t = 1, arm 0) failed in infinite, line" in message


def sometimes_nothing(payment, t, arm, params):
    if payment > 0:
        return None
    return 0.0


def in_words(payment, t, arm, params):
    return "much" if payment > 0 else 0


@pytest.mark.parametrize("function", [sometimes_nothing, in_words])
def test_a_drift_must_return_a_number(function: Any) -> None:
    assert function.__name__ in failure(entice.CustomDrift(function))


def gives_up(payment, t, arm, params):
    if payment > 1:
        raise ValueError("too much")
    return payment


def test_a_drift_that_raises_is_reported_with_its_message() -> None:
    message = failure(entice.CustomDrift(gives_up))
    assert "gives_up" in message
    assert "too much" in message


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"arms": 0}, "arms"),
        ({"arms": "ten"}, "arms"),
        ({"largest_payment": 0}, "largest_payment"),
        ({"largest_payment": -1.0}, "largest_payment"),
        ({"largest_payment": math.nan}, "largest_payment"),
        ({"lipschitz": -1.0}, "lipschitz"),
        ({"lipschitz": math.nan}, "lipschitz"),
        ({"lipschitz": "one"}, "lipschitz"),
    ],
    ids=str,
)
def test_a_check_without_payments_is_rejected(options: dict[str, Any], name: str) -> None:
    with pytest.raises(entice.InputError, match=name):
        check_drift(entice.LinearDrift(1.1), **options)


@pytest.mark.parametrize("value", [squared, entice.NoDrift, entice.UCB(), None], ids=NAMES)
def test_check_drift_rejects_other_types(value: Any) -> None:
    with pytest.raises(entice.InputError, match="drift"):
        check_drift(value)


def test_a_failed_check_is_an_assertion_error_and_an_entice_error() -> None:
    assert issubclass(CheckFailed, AssertionError)
    assert issubclass(CheckFailed, entice.EnticeError)
