"""Numba's warnings: each once, at the user's function."""

from __future__ import annotations

import contextlib
import warnings

import numba
import pytest
from numba.core.errors import NumbaPerformanceWarning

from entice.jit import compiler_warnings
from entice.jit.compiler_warnings import warnings_once


def users_function() -> int:
    return 0


def shown_by_two_kernels(*functions: object) -> list[warnings.WarningMessage]:
    with warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter("always")
        for kernel in ("kernel.py", "other.py"):
            with warnings_once(functions):  # type: ignore[arg-type]
                # As Numba does: without a registry of the warnings so far.
                warnings.warn_explicit("np.dot() is slow", NumbaPerformanceWarning, kernel, 203)
                warnings.warn_explicit("of another library", UserWarning, kernel, 1)
    return shown


@pytest.fixture(autouse=True)
def nothing_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiler_warnings, "_shown", set())


@pytest.mark.parametrize("function", [users_function, numba.njit(users_function)])
def test_a_warning_of_numba_is_shown_once_at_the_users_function(function: object) -> None:
    shown = shown_by_two_kernels(function)
    assert [warning.category for warning in shown] == [
        NumbaPerformanceWarning, UserWarning, UserWarning,
    ]  # fmt: skip
    assert str(shown[0].message) == "np.dot() is slow"
    line = users_function.__code__.co_firstlineno
    assert (shown[0].filename, shown[0].lineno) == (__file__, line)


def test_without_a_users_function_it_is_shown_where_it_was() -> None:
    numbas = [w for w in shown_by_two_kernels() if w.category is NumbaPerformanceWarning]
    assert [(w.filename, w.lineno) for w in numbas] == [("kernel.py", 203), ("other.py", 203)]


def test_a_warning_that_the_user_ignores_is_not_shown() -> None:
    with warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter("ignore", NumbaPerformanceWarning)
        with warnings_once([users_function]):
            warnings.warn_explicit("np.dot() is slow", NumbaPerformanceWarning, "kernel.py", 203)
    assert shown == []


@pytest.mark.parametrize("fails", [False, True])
def test_a_warning_of_another_thread_survives_a_failed_compilation(fails: bool) -> None:
    warning = UserWarning("of another thread")
    with warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter("always")
        with contextlib.suppress(ValueError), warnings_once([users_function]):
            warnings.warn_explicit("np.dot() is slow", NumbaPerformanceWarning, "kernel.py", 203)
            warnings.warn_explicit(warning, UserWarning, "other.py", 1)
            if fails:
                raise ValueError
    assert shown[-1].message is warning
    assert len(shown) == (1 if fails else 2)
