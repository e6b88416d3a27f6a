"""The decorators with which Entice compiles its own functions through Numba."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba
from numba.core.registry import CPUDispatcher

from entice.jit.linked_code import CallableFromPython, InternalFunction

F = TypeVar("F", bound=Callable[..., Any])

# `nogil`: blocks of replications run in threads. `error_model="numpy"`: 1/0 is inf, as in
# NumPy, with no branch per division. No `fastmath`: it would make results depend on the compiler.
OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy"}
# Own functions have no wrapper for calls from C, because C code never calls them. Users' functions
# keep the wrapper: Numba needs it for lists of functions.
_OWN: dict[str, Any] = OPTIONS | {"no_cfunc_wrapper": True, "_nrt": False}
_INTERNAL: dict[str, Any] = _OWN | {"nopython": True, "boundscheck": None}  # as `numba.njit` has


def compiled(function: F) -> F:
    """Compile a function that runs in every round: inlined, and without reference counts.

    Both matter. The step passes its arrays through half a dozen small functions per round, and
    Numba would count references to each array atomically at each call. Measured on UCB, ε-greedy
    and Thompson sampling at K = 9, that costs 48, 178 and 250 ns per round; the same code without
    counts costs 39, 36 and 73. The Python caller owns the arrays and outlives the call, so no
    counting is needed.
    """
    return cast(F, CallableFromPython(function, _OWN | {"forceinline": True}))


def compiled_noinline(function: F) -> F:
    """Compile a function without inlining it: for entry points, and for rarely taken paths.

    `forceinline` is switched off explicitly: functions inherit it from their callers, and the
    variables of a rare path would occupy the caller's registers.
    """
    return cast(F, CallableFromPython(function, _OWN | {"forceinline": False}))


def compiled_internal(function: F) -> F:
    """Compile like `compiled`, but for compiled callers only.

    The wrapper for calls from Python is left out. Unpacking a tuple of arrays requires much code:
    such wrappers take about a third of the compilation time of a fast path.
    """
    return cast(F, InternalFunction(function, targetoptions=_INTERNAL | {"forceinline": True}))


def compiled_internal_noinline(function: F) -> F:
    """Compile like `compiled_noinline`, but for compiled callers only."""
    return cast(F, InternalFunction(function, targetoptions=_INTERNAL | {"forceinline": False}))


def inline_always(function: F) -> F:
    """Inline a function before optimisation: for entry points, and functions with one caller.

    Otherwise LLVM optimises a function once by itself and again in each caller up to the outermost.
    For large functions near the top, that takes most of the compilation time. `specialize` copies
    an entry point of this kind into the module that it generates.
    """
    return cast(F, numba.njit(**_OWN, inline="always")(function))


def is_compiled(function: object) -> bool:
    """Return whether a function is compiled by Numba."""
    return isinstance(function, CPUDispatcher)


def plain_python(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the Python function behind a compiled one; return any other unchanged."""
    return getattr(function, "py_func", function)


def import_path(function: Callable[..., Any]) -> str:
    """Return the "module:name" from which a function can be imported."""
    plain = plain_python(function)
    return f"{plain.__module__}:{plain.__qualname__}"
