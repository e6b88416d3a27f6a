"""Mistakes in a user's function are found by function and line, in checks and in studies."""

from __future__ import annotations

import inspect
import math
from typing import Any

import numba
import numpy as np
import pytest

import entice
from entice.rng import uniform
from entice.study.running import python_replay as replay
from entice.testing import CheckFailed, check_drift, check_policy

# User functions, each with one fault, in the marked line.


def looked_up(memory, i):  # type: ignore[no-untyped-def]
    return memory[i]  # fault


@numba.njit
def compiled_look_up(memory, i):  # type: ignore[no-untyped-def]
    return memory[i]  # fault


LATE, LATE_IN_COMPILED, IN_UPDATE = 0, 1, 2
"""The faults of one policy, compiled together; its `params` select one."""


def misindexed(t, pulls, means, memory, params, rng):  # type: ignore[no-untyped-def]
    if params[0] == LATE and t > 40 and uniform(rng) < 0.05:
        return int(looked_up(memory, 7))
    if params[0] == LATE_IN_COMPILED and t >= 40 and compiled_look_up(memory, t) > 3:
        return 1
    return t % len(pulls) if params[0] == IN_UPDATE else means.argmax()


def forgetful(memory, params, arm, payment, feedback):  # type: ignore[no-untyped-def]
    if params[0] == IN_UPDATE:
        memory[arm] += feedback  # fault


def with_fault(fault: int, memory: int) -> entice.CustomPolicy:
    return entice.CustomPolicy(misindexed, update=forgetful, memory=memory, params=[fault])


def by_arm(payment, t, arm, params):  # type: ignore[no-untyped-def]
    return payment * params[arm]  # fault


def inverse(n):  # type: ignore[no-untyped-def]
    return 1 / n  # fault


def divides(t, pulls, means, memory, params, rng):  # type: ignore[no-untyped-def]
    return 0 if inverse(pulls[0]) < 0.5 else 1


def takes_logs(t, pulls, means, memory, params, rng):  # type: ignore[no-untyped-def]
    return 0 if math.log(pulls[0]) > 1 else 1  # fault


def takes_numpy_logs(t, pulls, means, memory, params, rng):  # type: ignore[no-untyped-def]
    return 0 if np.log(pulls[0]) > 1 else 1  # fault


def takes_roots(t, pulls, means, memory, params, rng):  # type: ignore[no-untyped-def]
    return 0 if t < 10 or math.sqrt(means[0] - 100) > 1 else 1  # fault


def divides_whole_numbers(t, pulls, means, memory, params, rng):  # type: ignore[no-untyped-def]
    return t // (t - 30) % len(pulls)  # fault


def wears_off(payment, t, arm, params):  # type: ignore[no-untyped-def]
    return payment / (t - 10) ** 2  # fault


def guarded(t, pulls, means, memory, params, rng):  # type: ignore[no-untyped-def]
    for i in range(len(pulls)):
        if pulls[i] == 0:
            return i
    return (means + np.sqrt(2 * math.log(t) / pulls)).argmax()


def line_of(function: Any) -> str:
    """Return the location of a function's fault, as errors name it."""
    plain = getattr(function, "py_func", function)
    lines, first = inspect.getsourcelines(plain)
    (at,) = [i for i, line in enumerate(lines) if line.rstrip().endswith("# fault")]
    return f"{plain.__name__}, line {first + at} of test_user_faults.py"


INDEX = [
    (with_fault(LATE, memory=3), looked_up, "index 7 is out of bounds"),
    (with_fault(LATE_IN_COMPILED, memory=40), compiled_look_up, "index 40 is out of"),
    (with_fault(IN_UPDATE, memory=2), forgetful, "index 2 is out of bounds"),
]


@pytest.mark.parametrize(
    ("policy", "where", "message"), INDEX, ids=lambda x: getattr(x, "label", "")
)
def test_an_index_out_of_range_is_found_by_a_check(policy: Any, where: Any, message: str) -> None:
    with pytest.raises(CheckFailed) as failed:
        check_policy(policy, arms=3)
    assert f"failed in {line_of(where)}: IndexError: {message}" in str(failed.value)


@pytest.mark.parametrize("cold_start", ["each_arm_once", "prior"])
@pytest.mark.parametrize(
    ("policy", "where", "message"), INDEX, ids=lambda x: getattr(x, "label", "")
)
def test_an_index_out_of_range_is_found_in_a_study(
    policy: Any, where: Any, message: str, cold_start: Any
) -> None:
    with pytest.raises(entice.StudyError) as failed:
        entice.simulate(
            arms=entice.Bernoulli([0.5, 0.4, 0.3]), policies=[policy], horizon=500, seed=1,
            replications=5, progress=False, cold_start=cold_start,
        )  # fmt: skip
    assert f"failed in {line_of(where)}: IndexError: {message}" in str(failed.value)


@pytest.mark.parametrize("engine", ["auto", "generic"])
def test_an_index_of_a_drift_out_of_range_is_found(engine: Any) -> None:
    drift = entice.CustomDrift(by_arm, params=[1.0, 1.0])
    with pytest.raises(CheckFailed) as failed:
        check_drift(drift, arms=3)
    assert f"failed in {line_of(by_arm)}: IndexError: tuple index" in str(failed.value)
    with pytest.raises(entice.StudyError) as stopped:
        entice.simulate(
            arms=entice.Gaussian([0.5, 0.4, 0.3]), policies=[entice.UCB()], drifts=[drift],
            horizon=500, seed=1, replications=5, engine=engine, progress=False,
        )  # fmt: skip
    assert f"failed in {line_of(by_arm)}: IndexError: tuple index" in str(stopped.value)


def test_a_fault_too_late_to_be_replayed_is_reported_without_a_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(replay, "MAX_ROUNDS", 30)
    with pytest.raises(entice.StudyError, match="or drift NoDrift raised IndexError: index"):
        entice.simulate(
            arms=entice.Bernoulli([0.5, 0.4]), policies=[with_fault(LATE, memory=3)],
            horizon=500, seed=1, replications=5, progress=False,
        )  # fmt: skip


@pytest.mark.parametrize(
    ("select", "where", "message"),
    [
        (divides, inverse, "divide by zero"),
        (takes_logs, takes_logs, "math domain error"),
        (takes_numpy_logs, takes_numpy_logs, "divide by zero encountered in log"),
        (takes_roots, takes_roots, "math domain error"),
        (divides_whole_numbers, divides_whole_numbers, "division or modulo by zero"),
    ],
)
def test_invalid_arithmetic_is_found(select: Any, where: Any, message: str) -> None:
    with pytest.raises(CheckFailed) as failed:
        check_policy(entice.CustomPolicy(select))
    assert f"failed in {line_of(where)}: " in str(failed.value)
    assert message in str(failed.value)
    assert "Compiled code does not stop there" in str(failed.value)


def test_invalid_arithmetic_of_a_drift_is_found() -> None:
    with pytest.raises(CheckFailed) as failed:
        check_drift(entice.CustomDrift(wears_off), lipschitz=1.0)
    assert f"(t = 10, arm 0) failed in {line_of(wears_off)}: ZeroDivisionError" in str(failed.value)


def test_a_policy_that_guards_against_a_division_by_zero_passes() -> None:
    check_policy(entice.CustomPolicy(guarded))


def test_functions_of_the_package_may_divide_by_zero() -> None:
    """UCB's 1/sqrt(0) is infinite, which selects unrated arms first."""
    check_policy(entice.UCB())


def test_a_function_of_a_notebook_cell_is_named_by_its_line() -> None:
    cell = "\n\ndef select(t, pulls, means, memory, params, rng):\n    return int(memory[t])\n"
    namespace: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(cell, "<ipython-input-3-abc>", "exec"), namespace)
    with pytest.raises(CheckFailed, match=r"select, line 4 of <ipython-input-3-abc>: IndexError"):
        check_policy(entice.CustomPolicy(namespace["select"], memory=5))
