"""A fingerprint of what a function computes, so that compiled code can't go stale.

Numba freezes everything that a function refers to when it compiles it, but its disk cache looks
only at the file of the outermost function. So we hash what it would freeze: the bytecode and
constants of the function and of all functions it calls, and the globals and closure cells they
read. File names, line numbers and comments do not count.
"""

from __future__ import annotations

import builtins
import hashlib
import inspect
import types
from typing import Any

import numpy as np
from numba.core.extending import _Intrinsic

from entice.engine.jit import is_compiled

_LIBRARIES = frozenset(
    {"builtins", "math", "cmath", "operator", "typing", "numpy", "numba", "llvmlite"}
)


class NoFingerprint(Exception):
    """A function refers to something whose content can't be told from outside."""


def fingerprint(*things: Any) -> str:
    """Hash functions and plain values by content, the same in every process.

    >>> from entice.engine.fingerprint import fingerprint
    >>> def double(x):
    ...     return 2 * x
    >>> before = fingerprint(double)
    >>> def double(x):
    ...     return 3 * x
    >>> fingerprint(double) == before
    False
    """
    return _walk(*things).digest.hexdigest()


def compiled_within(*things: Any) -> list[Any]:
    """List the compiled functions that a fingerprint of these things covers."""
    return _walk(*things).compiled


def _walk(*things: Any) -> _Walk:
    walk = _Walk()
    for thing in things:
        walk.visit(thing)
    return walk


class _Walk:
    def __init__(self) -> None:
        self.digest = hashlib.sha256()
        self.compiled: list[Any] = []
        """The compiled functions met on the way."""
        self._met: dict[int, int] = {}
        self._read: set[tuple[str, str]] = set()

    def write(self, *words: object) -> None:
        for word in words:
            data = word if isinstance(word, bytes) else str(word).encode()
            self.digest.update(len(data).to_bytes(8, "little") + data)

    def visit(self, thing: Any) -> None:
        if is_compiled(thing):
            if thing._cache.cache_path is not None:
                raise NoFingerprint(f"{thing}, whose own disk cache may hold an older version")
            self.compiled.append(thing)
            self.write("compiled", sorted(thing.targetoptions.items()))
            self.visit(thing.py_func)
        elif isinstance(thing, types.FunctionType):
            # Functions may call each other in circles: the second meeting is written as a number.
            if id(thing) in self._met:
                self.write("met", self._met[id(thing)])
            else:
                self._met[id(thing)] = len(self._met)
                self._function(thing)
        elif isinstance(thing, _Intrinsic):  # a function that writes machine code
            self.write("intrinsic")
            self.visit(thing._defn)
        elif isinstance(thing, np.ndarray):
            self.write("array", thing.dtype.descr, thing.shape, thing.tobytes())
        elif isinstance(thing, (tuple, list)):
            self.write(type(thing).__name__, getattr(thing, "_fields", ()), len(thing))
            for item in thing:
                self.visit(item)
        elif isinstance(thing, frozenset):
            self.write("frozenset", sorted(map(repr, thing)))
        elif thing is None or isinstance(
            thing, (bool, int, float, complex, str, bytes, np.generic)
        ):
            self.write(type(thing).__name__, repr(thing))
        elif thing is Ellipsis or _from_library(thing):
            name = getattr(thing, "__qualname__", getattr(thing, "__name__", repr(thing)))
            self.write("library", _home(thing), name)
        elif isinstance(thing, type) and issubclass(thing, tuple) and hasattr(thing, "_fields"):
            self.write("named tuple", thing.__name__, thing._fields)
        else:
            raise NoFingerprint(f"{thing!r} of type {type(thing).__name__}")

    def _function(self, function: types.FunctionType) -> None:
        self.write("function")
        self._code(function.__code__)
        self.visit(function.__defaults__)
        for cell in function.__closure__ or ():
            try:
                self.visit(cell.cell_contents)
            except ValueError:  # nothing has been put into it yet
                raise NoFingerprint(f"{function} with an empty closure") from None
        names = sorted(names_used(function.__code__))
        for name in names:
            if name in function.__globals__:
                value = function.__globals__[name]
                self.write("global", name)
                if isinstance(value, types.ModuleType) and not _from_library(value):
                    self._module(value, names)
                else:
                    self.visit(value)
            elif hasattr(builtins, name):
                self.write("builtin", name)

    def _module(self, module: types.ModuleType, names: list[str]) -> None:
        """Visit what a function may read from a module of the user's: the names that it uses."""
        self.write("module", module.__name__)
        for name in names:
            value = getattr(module, name, None)
            # Modules may refer to each other in circles, but each name of each is visited once.
            if value is not None and (module.__name__, name) not in self._read:
                self._read.add((module.__name__, name))
                self.write("attribute", name)
                if isinstance(value, types.ModuleType) and not _from_library(value):
                    self._module(value, names)
                else:
                    self.visit(value)

    def _code(self, code: types.CodeType) -> None:
        self.write("code", code.co_code, code.co_names, code.co_varnames, code.co_freevars)
        self.write(code.co_argcount, code.co_flags, code.co_exceptiontable)
        for constant in code.co_consts:
            if isinstance(constant, types.CodeType):
                self._code(constant)
            else:
                self.visit(constant)


def names_used(code: types.CodeType) -> set[str]:
    """The names of globals and attributes that a piece of code uses, nested functions included."""
    names = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            names |= names_used(constant)
    return names


def _home(thing: Any) -> str:
    if isinstance(thing, types.ModuleType):
        return thing.__name__
    if isinstance(thing, np.ufunc):
        return "numpy"
    return getattr(inspect.getmodule(thing), "__name__", "") or getattr(thing, "__module__", "")


def _from_library(thing: Any) -> bool:
    """Tell whether a thing is part of a library whose version stands in the cache key."""
    return str(_home(thing)).split(".")[0].lstrip("_") in _LIBRARIES
