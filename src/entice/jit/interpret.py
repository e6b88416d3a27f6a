"""Users' functions run in plain Python: slow, but errors have a line number.

Compiled code reports an index out of bounds without its line, and continues with inf or nan after
1/0 or log(0), as NumPy does.
"""

from __future__ import annotations

import types
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from entice.jit.decorators import is_compiled, plain_python
from entice.jit.fingerprint import names_used

_LIBRARIES = ("entice", "numpy", "numba")


class Fault(NamedTuple):
    """An error in a user's function."""

    error: Exception
    where: str
    """Function, line and file."""

    def __str__(self) -> str:
        return f"{self.where}: {type(self.error).__name__}: {self.error}"


def is_user_function(function: Callable[..., Any]) -> bool:
    """Return whether a function is defined by the user, not by this package."""
    return not plain_python(function).__module__.startswith("entice.")


def interpret(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a copy of a function that Python interprets, including the functions that it calls.

    Functions of this package stay compiled: they are not at fault, and may divide by 0 on purpose.
    Those that take functions are interpreted too, because compiled code can't call Python
    functions.
    """
    result: Callable[..., Any] = _interpret(function, {})
    return result


def find_fault(function: Callable[..., Any], *arguments: Any) -> Fault | None:
    """Run an interpreted function, and return its error if it is an index or arithmetic error.

    These are an index out of range, 1/0, log(0) and sqrt(-1). Other errors may be differences
    between Python and Numba.
    """
    try:
        with np.errstate(divide="raise", invalid="raise", over="raise", under="ignore"):
            function(*arguments)
    except (IndexError, ArithmeticError, ValueError) as error:
        where = _location(error)
        return Fault(error, where) if where is not None else None
    except Exception:  # Python and Numba differ
        return None
    return None


def _interpret(function: Any, done: dict[Any, Any]) -> Any:
    plain: Any = plain_python(function)
    if plain in done:
        return done[plain]
    namespace = dict(plain.__globals__)
    cells = tuple(types.CellType() for _ in plain.__closure__ or ())
    copy = types.FunctionType(plain.__code__, namespace, plain.__name__, plain.__defaults__, cells)
    copy.__kwdefaults__ = plain.__kwdefaults__
    done[plain] = copy  # before its helpers, which may be recursive
    for name in names_used(plain.__code__) & namespace.keys():
        namespace[name] = _helper(namespace[name], done)
    for cell, given in zip(cells, plain.__closure__ or (), strict=True):
        cell.cell_contents = _helper(given.cell_contents, done)
    return copy


def _helper(thing: Any, done: dict[Any, Any]) -> Any:
    if is_compiled(thing) and (is_user_function(thing) or takes_functions(thing)):
        return _interpret(thing, done)
    if isinstance(thing, types.FunctionType) and is_user_function(thing):
        return _interpret(thing, done)
    return thing


def takes_functions(function: Any) -> bool:
    """Return whether a function of this package has a function among its arguments."""
    kinds = getattr(plain_python(function), "__annotations__", {}).values()
    return any("Callable" in str(kind) for kind in kinds)


def _location(error: Exception) -> str | None:
    """Return the innermost of the user's functions in a traceback, with line and file."""
    result, trace = None, error.__traceback__
    while trace is not None:
        frame = trace.tb_frame
        if str(frame.f_globals.get("__name__", "")).partition(".")[0] not in _LIBRARIES:
            file = Path(frame.f_code.co_filename).name
            result = f"{frame.f_code.co_name}, line {trace.tb_lineno} of {file}"
        trace = trace.tb_next
    return result
