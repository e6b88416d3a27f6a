"""Users' own functions on their way to the compiler: safe first, then fast."""

from __future__ import annotations

import random
import types
from collections.abc import Callable
from typing import Any

import numba
import numpy as np

from entice.errors import InputError
from entice.jit.decorators import OPTIONS, import_path, is_compiled, plain_python
from entice.jit.fingerprint import names_used


def compile_user_function(function: Callable[..., Any], *, makes_arrays: bool) -> Any:
    """Compile a user's function and the user's functions that it calls.

    Array bounds are checked, unlike in the package's own code: a forgotten `memory` must be an
    error, not a wrong number. Helpers that the user has compiled already are compiled anew for
    it. `makes_arrays` is for functions that allocate, which costs them inlining and reference
    counts.
    """
    options = OPTIONS | {"boundscheck": True, "_nrt": makes_arrays, "forceinline": not makes_arrays}
    return _compile(plain_python(function), options, {})


def reject_global_random(function: Callable[..., Any]) -> None:
    """Refuse a function that draws from a global generator, which would make seeds meaningless."""
    plain = plain_python(function)
    names = names_used(plain.__code__)
    used = [plain.__globals__.get(name) for name in names]
    uses_numpy = any(value is np for value in used) and "random" in names
    if uses_numpy or any(value is random or value is np.random for value in used):
        raise InputError(
            import_path(function),
            "must draw random numbers from its own stream only, or a seed would mean nothing",
            given="a use of random or numpy.random",
            todo="Take entice.rng.uniform(rng), normal(rng) or below(rng, count).",
        )


def _compile(function: Any, options: dict[str, Any], done: dict[Any, Any]) -> Any:
    if function not in done:
        done[function] = None  # a function that calls itself, directly or not, is left to Numba
        done[function] = numba.njit(**options)(_with_compiled_helpers(function, options, done))
    return done[function]


def _with_compiled_helpers(function: Any, options: dict[str, Any], done: dict[Any, Any]) -> Any:
    """Copy a function into globals where the plain functions that it calls are compiled ones."""
    namespace = dict(function.__globals__)
    for name in names_used(function.__code__) & namespace.keys():
        namespace[name] = _helper(namespace.get(name), options, done)
    cells = tuple(map(types.CellType, _closure_contents(function, options, done)))
    copy = types.FunctionType(
        function.__code__, namespace, function.__name__, function.__defaults__, cells
    )
    copy.__module__, copy.__qualname__ = function.__module__, function.__qualname__
    return copy


def _closure_contents(function: Any, options: dict[str, Any], done: dict[Any, Any]) -> list[Any]:
    contents = [cell.cell_contents for cell in function.__closure__ or ()]
    return [_helper(content, options, done) for content in contents]


def _helper(thing: Any, options: dict[str, Any], done: dict[Any, Any]) -> Any:
    """Compile what a function refers to if it is a user's function; leave all else as it is."""
    if is_compiled(thing) and not thing.__module__.startswith("entice."):
        thing = thing.py_func
    if isinstance(thing, types.FunctionType):
        return _compile(thing, options, done) or thing
    return thing
