"""The one way in which Entice compiles a function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba
from numba.core.registry import CPUDispatcher

F = TypeVar("F", bound=Callable[..., Any])

# `nogil`: blocks of replications run in threads. `error_model="numpy"`: 1/0 is inf, as in
# NumPy, with no branch per division. No `fastmath`: it would make results depend on the compiler.
OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy"}
# No wrapper for callers in C, who are not there. Users' functions keep theirs: Numba needs it for
# functions in lists, which users may have.
_OWN: dict[str, Any] = OPTIONS | {"no_cfunc_wrapper": True, "_nrt": False}
_FOR_COMPILED: dict[str, Any] = _OWN | {"no_cpython_wrapper": True}


def compiled(function: F) -> F:
    """Compile a function of the step: inlined into its caller, and free of reference counts.

    Both matter. The step passes its arrays through half a dozen small functions per round, and
    Numba would count references to each array atomically at each call: measured on UCB,
    ε-greedy and Thompson sampling at K = 9, that costs 48, 178 and 250 ns a round where the same
    code without counts costs 39, 36 and 73. The arrays are owned by the Python caller, which
    outlives the call, so nothing needs to be counted.
    """
    return cast(F, numba.njit(**_OWN, forceinline=True)(function))


def compiled_noinline(function: F) -> F:
    """Compile a function that may stay a call of its own: entry points, and rare paths.

    `forceinline` has to be refused: functions take it over from their callers, and the variables
    of a rare path would crowd the caller's registers.
    """
    return cast(F, numba.njit(**_OWN, forceinline=False)(function))


def compiled_internal(function: F) -> F:
    """Compile as `compiled` does, but for compiled callers alone.

    What Python would need to call the function is left out. Unpacking a tuple of arrays is long
    code: of the time that a fast path takes to compile, such wrappers are about a third.
    """
    return cast(F, numba.njit(**_FOR_COMPILED, forceinline=True)(function))


def compiled_internal_noinline(function: F) -> F:
    """Compile as `compiled_noinline` does, but for compiled callers alone."""
    return cast(F, numba.njit(**_FOR_COMPILED, forceinline=False)(function))


def inline_always(function: F) -> F:
    """Compile a function as a part of each of its callers: entry points, and what has one caller.

    LLVM optimises a function once for itself and again in each caller on the way to the outermost.
    For large functions near the top that is most of the time that compiling takes.
    """
    return cast(F, numba.njit(**_OWN, inline="always")(function))


def is_compiled(function: object) -> bool:
    """Tell whether a function has passed through Numba already."""
    return isinstance(function, CPUDispatcher)


def plain_python(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the Python function behind a compiled one, and any other as it is."""
    return getattr(function, "py_func", function)


def import_path(function: Callable[..., Any]) -> str:
    """Return the "module:name" under which a function may be found again."""
    plain = plain_python(function)
    return f"{plain.__module__}:{plain.__qualname__}"
