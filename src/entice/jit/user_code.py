"""Compilation of users' functions, such as a custom policy or drift function.

They are checked first, and compiled together with the helper functions that they call.
"""

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
    """Compile a user's policy or drift function, and the user's functions that it calls.

    Array bounds are checked, unlike in the package's own code: a policy that writes beyond its
    `memory` must raise an error, not give wrong numbers. Helpers that the user has already compiled
    are compiled again.
    `makes_arrays` is for functions that allocate; they are not inlined, and count references.
    """
    options = OPTIONS | {"boundscheck": True, "_nrt": makes_arrays, "forceinline": not makes_arrays}
    return _compile(plain_python(function), options, {})


def reject_global_random(function: Callable[..., Any]) -> None:
    """Reject a function that draws from a global generator, which ignores the seed."""
    plain = plain_python(function)
    names = names_used(plain.__code__)
    used = [plain.__globals__.get(name) for name in names]
    uses_numpy = any(value is np for value in used) and "random" in names
    if uses_numpy or any(value is random or value is np.random for value in used):
        raise InputError(
            import_path(function),
            "must draw random numbers from its own stream only, or seeds have no effect",
            given="a use of random or numpy.random",
            todo="Use entice.rng.uniform(rng), normal(rng) or below(rng, count).",
        )


def _compile(function: Any, options: dict[str, Any], done: dict[Any, Any]) -> Any:
    if function not in done:
        done[function] = None  # recursive functions are left to Numba
        done[function] = numba.njit(**options)(_with_compiled_helpers(function, options, done))
    return done[function]


def _with_compiled_helpers(function: Any, options: dict[str, Any], done: dict[Any, Any]) -> Any:
    """Copy a function into globals in which the functions that it calls are compiled."""
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
    """Compile a referenced object if it is a user's function; return all others unchanged."""
    if is_compiled(thing) and not thing.__module__.startswith("entice."):
        thing = thing.py_func
    if isinstance(thing, types.FunctionType):
        return _compile(thing, options, done) or thing
    return thing
