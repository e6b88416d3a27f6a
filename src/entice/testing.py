"""Checks of user-defined policies, drifts and arms, to find faults before a study runs.

The checks run one function at a time, so an error refers to that function. A study compiles all
functions together, and can only pass on the compiler's message.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, get_args

import numpy as np
import numpy.typing as npt

from entice.checks import as_number, as_seed, as_whole_number
from entice.errors import EnticeError, InputError
from entice.jit.interpret import find_fault, interpret, is_user_function
from entice.jit.user_code import compile_user_function, reject_global_random
from entice.model.display import display_averages
from entice.model.ledger import new_ledger, record
from entice.model.step import PLAYERS_CHOICE, ROUNDING
from entice.policies import Policy
from entice.policies.policy import PolicyKernel
from entice.rng import PLAYER, POLICY, REWARD, new_stream
from entice.worlds.arms import FixedArms
from entice.worlds.changing_arms import Arms, fixed_arms
from entice.worlds.drifts import ArmDrift, Drift, DriftKernel
from entice.worlds.segments import Segments

_INDEX_HINT = " (are memory, memory_per_arm and params long enough, and is arms correct?)"


class CheckFailed(EnticeError, AssertionError):
    """A policy, a drift or arms break a rule; the message states the rule and the place."""


def check_drift(
    drift: Drift, *, lipschitz: float | None = None, largest_payment: float = 2.0, arms: int = 5
) -> None:
    """Check a drift against Assumption 1 of the paper, on a grid of payments, rounds and arms.

    Parameters
    ----------
    drift
        Any drift.
    lipschitz
        The claimed constant l; by default, the drift's own `lipschitz`.
    largest_payment
        The end of the grid of payments.
    arms
        The number of arms.

    >>> import entice
    >>> from entice.testing import check_drift
    >>> check_drift(entice.LinearDrift(1.1), lipschitz=1.1)
    >>> check_drift(entice.CustomDrift(lambda x, t, arm, params: x * x), lipschitz=1.0)
    Traceback (most recent call last):
        ...
    entice.testing.CheckFailed: <lambda> has slope 3.99 > 1 at payments 1.99 to 2 (t = 1, arm 0)
    """
    if not isinstance(drift, get_args(Drift)):
        raise InputError("check_drift: drift", "must be a drift", given=drift)
    arms = _at_least_one("check_drift: arms", arms)
    if as_number("check_drift: largest_payment", largest_payment) <= 0:
        raise InputError("check_drift: largest_payment", "must be above 0", given=largest_payment)
    claims_nothing = lipschitz is None and bool(drift.outside)
    if lipschitz is None:
        lipschitz = drift.lipschitz
    elif as_number("check_drift: lipschitz", lipschitz) < 0:
        raise InputError("check_drift: lipschitz", "must not be negative", given=lipschitz)
    kernel = drift.kernel()
    function = _Checked(kernel.function) if kernel.is_function_of_payment else None
    arms = len(drift.slopes) if isinstance(drift, ArmDrift) else arms
    payments = np.linspace(0.0, largest_payment, 201)
    for t in (1, 2, 10, 1_000, 1_000_000):
        for arm in range(arms):
            where = f"(t = {t}, arm {arm})"
            values = _values(drift.label, kernel, function, payments, t, arm, arms, where)
            if values[0] != 0.0:
                raise CheckFailed(f"{drift.label} is {values[0]:g} at payment 0, not 0 {where}")
            if claims_nothing:  # the drift declares itself outside Assumption 1
                continue
            slopes = np.diff(values) / np.diff(payments)
            steepest, falling = int(np.argmax(slopes)), int(np.argmin(slopes))
            if slopes[falling] < -1e-9:
                between = f"{payments[falling]:g} to {payments[falling + 1]:g}"
                raise CheckFailed(f"{drift.label} decreases at payments {between} {where}")
            if lipschitz is not None and slopes[steepest] > lipschitz * (1 + 1e-9):
                between = f"{payments[steepest]:g} to {payments[steepest + 1]:g}"
                slope = f"{slopes[steepest]:.3g} > {lipschitz:g}"
                raise CheckFailed(f"{drift.label} has slope {slope} at payments {between} {where}")


def _values(
    label: str, kernel: DriftKernel, function: _Checked | None, payments: Any, t: int, arm: int,
    arms: int, where: str,
) -> npt.NDArray[np.float64]:  # fmt: skip
    """Return the drift of one player's rating for each of several payments."""
    if function is not None:
        found = [
            function.call(f"{label} at payment {x:g} {where}", float(x), t, arm, kernel.params)
            for x in payments
        ]
    else:
        found = []
        for x in payments:  # the same player each time: the same draws and an empty memory
            memory, stream = np.zeros(kernel.memory_per_arm * arms), new_stream(t, arm, PLAYER)
            parts = kernel.function, 0.5, float(x), t, arm, kernel.params, memory, stream
            found.append(_call(f"{label} at payment {x:g} {where}", kernel.apply_drift, *parts))
    if not all(isinstance(value, (int, float)) for value in found):
        raise CheckFailed(f"{label} must return a number, not {found[-1]!r} {where}")
    values = np.array(found)
    if not np.isfinite(values).all():
        at = payments[~np.isfinite(values)][0]
        raise CheckFailed(f"{label} is not a finite number at payment {at:g} {where}")
    return values


_MAX_ERRORS = 6.0
"""Standard errors by which an average of draws may differ from the stated mean. With normal errors,
correct arms fail with probability 2e-9 each."""


def check_arms(arms: Arms, *, draws: int = 10_000, seed: int = 1) -> None:
    """Draw rewards of each arm, and check that they are numbers with the stated means.

    Of arms that change, those of round 1 are checked; of segments, the arms of each.

    Averages may differ from the means by 6 standard errors, so a difference that matters needs
    enough draws, the more the heavier the tails. The function must draw from its own stream only
    (the same draws give the same rewards). It is also run in plain Python, which reports 1/0 and
    log(0) with their line; compiled code continues with inf or nan.

    >>> import entice
    >>> from entice.testing import check_arms
    >>> def coin(arm, params, rng):
    ...     return 1.0 if entice.rng.uniform(rng) < params[arm] else 0.0
    >>> check_arms(entice.CustomArms(coin, means=[0.5, 0.2], params=[0.5, 0.2]))
    >>> check_arms(entice.CustomArms(coin, means=[0.5, 0.3], params=[0.5, 0.2]), draws=999)
    Traceback (most recent call last):
        ...
    entice.testing.CheckFailed: coin(0.5, 0.2): arm 1 averages 0.203 over 999 draws, not 0.3
    """
    if not isinstance(arms, get_args(Arms)):
        raise InputError("check_arms: arms", "must be arms", given=arms)
    draws = _at_least_one("check_arms: draws", draws)
    seed = as_seed("check_arms: seed", seed)
    for each in arms.arms if isinstance(arms, Segments) else [fixed_arms(arms)]:
        _check_fixed_arms(each, draws, seed)


def _check_fixed_arms(arms: FixedArms, draws: int, seed: int) -> None:
    sampler, label = arms.sampler(), getattr(arms, "label", type(arms).__name__)
    reject_global_random(sampler.sample)
    sample = _checked(sampler.sample)
    for arm, mean in enumerate(arms.true_means()):
        one, other = (
            _rewards(f"{label}: sample(arm {arm})", sample, arm, sampler.params, draws, seed)
            for _ in range(2)
        )
        if not np.array_equal(one, other):
            raise CheckFailed(f"{label}: arm {arm} has other rewards with the same draws")
        average, error = one.mean(), one.std() / np.sqrt(draws)
        if abs(average - mean) > _MAX_ERRORS * error + 1e-9 * abs(mean):
            raise CheckFailed(
                f"{label}: arm {arm} averages {average:.3g} over {draws} draws, not {mean:g}"
            )


def _rewards(
    description: str, sample: _Checked, arm: int, params: tuple[Any, ...], draws: int, seed: int
) -> npt.NDArray[np.float64]:
    """Draw rewards of one arm."""
    stream, found = new_stream(seed, arm, REWARD), np.empty(draws)
    for i in range(draws):
        # Plain Python takes 100 times as long, so it runs the first draws only.
        call = sample.call if i < _PLAIN_DRAWS else sample.call_compiled
        reward = call(description, arm, params, stream)
        if not isinstance(reward, (int, float)) or not np.isfinite(reward):
            raise CheckFailed(f"{description} must return a finite number, not {reward!r}")
        found[i] = reward
    return found


_PLAIN_DRAWS = 1_000


def check_policy(policy: Policy, *, arms: int = 5, rounds: int = 500, seed: int = 1) -> None:
    """Run a policy on random ratings and check that it follows the rules.

    It must choose an existing arm in each round, display the highest value for the arm that players
    choose by themselves, pay at least what a player requires to try another, not change counts and
    averages, stay within its memory, and draw from its own stream only (the same draws give the
    same arms and payments). A user's own functions are also run in plain Python, which reports 1/0
    and log(0) with their line; compiled code continues with inf or nan. In the first rounds some
    arms have no ratings, as with ``cold_start="prior"`` or late ratings.

    >>> import entice
    >>> from entice.testing import check_policy
    >>> check_policy(entice.ThompsonSampling())
    >>> check_policy(entice.CustomPolicy(lambda t, pulls, means, memory, params, rng: t))
    Traceback (most recent call last):
        ...
    entice.testing.CheckFailed: <lambda> selected arm 5 in round 5, of arms 0 to 4
    """
    if not isinstance(policy, get_args(Policy)):
        raise InputError("check_policy: policy", "must be a policy", given=policy)
    for function in policy.kernel(2).functions:
        reject_global_random(function)
    arms = _at_least_one("check_policy: arms", arms)
    rounds = _at_least_one("check_policy: rounds", rounds)
    seed = as_seed("check_policy: seed", seed)
    kernel = policy.kernel(arms)
    functions = [_checked(function) for function in kernel.functions]
    one, other = (_play(policy, kernel, functions, arms, rounds, seed) for _ in range(2))
    if one != other:
        raise CheckFailed(
            f"{policy.label} chose different arms or payments when run again with the same draws"
        )


def _play(
    policy: Policy, kernel: PolicyKernel, functions: list[_Checked], arms: int, rounds: int,
    seed: int,
) -> list[tuple[int, float]]:  # fmt: skip
    """Play a few rounds, and return the arm and the payment of each."""
    select, update, display, price = functions
    stream, world = new_stream(seed, 0, POLICY), np.random.default_rng(seed)
    memory, ledger = np.zeros(kernel.memory), new_ledger(arms, 0.0)
    displayed = ledger.means if kernel.display is display_averages else np.zeros(arms)
    played = []
    for t in range(1, rounds + 1):
        before = ledger.pulls.copy(), ledger.means.copy()
        where = f"{policy.label}: {{}} in round {t}".format
        parts = t, ledger.pulls, ledger.means, memory, kernel.params, stream
        arm = select.call(where("select"), *parts)
        _check_whole(where("select"), arm)
        greedy = display.call(where("display"), ledger, memory, kernel.params, displayed)
        _check_whole(where("display"), greedy)
        if not all(map(np.array_equal, before, (ledger.pulls, ledger.means))):
            raise CheckFailed(f"{policy.label} changed the counts or averages in round {t}")
        if not 0 <= greedy < arms or not np.isfinite(displayed).all():
            rule = f"must fill in finite numbers and return one of the arms 0 to {arms - 1}"
            raise CheckFailed(f"{where('display')} {rule}, not {greedy} for {displayed}")
        if displayed[greedy] < displayed.max():
            rule = f"must return an arm that displays the highest value, {displayed.max():g}"
            raise CheckFailed(
                f"{where('display')} {rule}, not arm {greedy}, which displays {displayed[greedy]:g}"
            )
        if arm == PLAYERS_CHOICE:
            arm = greedy
        if not 0 <= arm < arms:
            raise CheckFailed(
                f"{policy.label} selected arm {arm} in round {t}, of arms 0 to {arms - 1}"
            )
        required = float(displayed[greedy] - displayed[arm])
        offered = t, arm, greedy, required, memory, kernel.params, stream
        payment = price.call(where("price"), *offered)
        if not isinstance(payment, (int, float)) or not np.isfinite(payment):
            raise CheckFailed(f"{where('price')} must return a finite number, not {payment!r}")
        if payment < required * (1.0 - ROUNDING):
            rule = f"must be at least {required:g}, the displayed value that the player gives up"
            raise CheckFailed(f"{where('price')} {rule}, not {payment!r}")
        feedback = float(world.normal(loc=1.0 / (1 + arm)))
        record(ledger, arm, feedback)
        update.call(where("update"), memory, kernel.params, arm, payment, feedback)
        played.append((int(arm), float(payment)))
    return played


def _check_whole(description: str, given: Any) -> None:
    if isinstance(given, bool) or not isinstance(given, int):
        raise CheckFailed(f"{description} must return a whole number, not {given!r}")


def _call(description: str, function: Any, *arguments: Any) -> Any:
    try:
        return function(*arguments)
    except Exception as error:  # a user's function, or its compilation, may raise anything
        lines = [line.strip() for line in str(error).splitlines()]
        lines = [line for line in lines if line and not line.startswith("Failed in nopython")]
        reason = " / ".join(lines[:4])
        hint = _INDEX_HINT if isinstance(error, IndexError) else ""
        raise CheckFailed(f"{description} raised {type(error).__name__}: {reason}{hint}") from error


class _Checked:
    """A function compiled with bounds checks and, if it is a user's, also run in plain Python."""

    def __init__(self, function: Any) -> None:
        self._compiled = compile_user_function(function, makes_arrays=True)
        self._plain = interpret(function) if is_user_function(function) else None

    def call(self, description: str, *arguments: Any) -> Any:
        """Call the compiled function; use plain Python to find the line of an error."""
        copies = [a.copy() if isinstance(a, np.ndarray) else a for a in arguments]
        try:
            found = _call(description, self._compiled, *arguments)
        except CheckFailed as failure:
            fault = self._plain and find_fault(self._plain, *copies)
            if isinstance(failure.__cause__, IndexError) and fault:
                raise CheckFailed(
                    f"{description} failed in {fault}{_INDEX_HINT}"
                ) from failure.__cause__
            raise
        if self._plain and (fault := find_fault(self._plain, *copies)):
            raise CheckFailed(
                f"{description} failed in {fault}. Compiled code does not stop there, but "
                "continues with inf or nan. Handle this case before the computation."
            ) from fault.error
        return found

    def call_compiled(self, description: str, *arguments: Any) -> Any:
        """Call the compiled function only."""
        return _call(description, self._compiled, *arguments)


@lru_cache(maxsize=16)  # policies share their defaults, such as `pay_required`
def _checked(function: Any) -> _Checked:
    return _Checked(function)


def _at_least_one(name: str, given: Any) -> int:
    value = as_whole_number(name, given)
    if value < 1:
        raise InputError(name, "must be at least 1", given=given)
    return value
