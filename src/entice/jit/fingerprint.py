"""A fingerprint of what a function computes, so that compiled code can't go stale.

Numba freezes everything that a function refers to when it compiles it, but its disk cache looks
only at the file of the outermost function. So we hash what it would freeze: the bytecode and
constants of the function and of all functions it calls, and the globals and closure cells they
read. File names, line numbers and comments do not count. Nor does it count whether two callers
share one function object or hold equal copies, as they do after a journey to another process.
"""

from __future__ import annotations

import builtins
import hashlib
import inspect
import types
from typing import Any

import numpy as np
from numba.core.extending import _Intrinsic

from entice.jit.decorators import is_compiled

_LIBRARIES = frozenset(
    {"builtins", "math", "cmath", "operator", "typing", "numpy", "numba", "llvmlite"}
)


class NoFingerprint(Exception):
    """A function refers to something whose content can't be told from outside."""


def fingerprint(*things: Any) -> str:
    """Hash functions and plain values by content, the same in every process.

    >>> from entice.jit.fingerprint import fingerprint
    >>> def double(x):
    ...     return 2 * x
    >>> before = fingerprint(double)
    >>> def double(x):
    ...     return 3 * x
    >>> fingerprint(double) == before
    False
    """
    return _walk(*things).hexdigest()


def compiled_within(*things: Any) -> list[Any]:
    """List the compiled functions that a fingerprint of these things covers."""
    return _walk(*things).compiled


def _walk(*things: Any) -> _Walk:
    walk = _Walk()
    for thing in things:
        walk.visit(thing, walk.roots)
    walk.describe_functions()
    return walk


class _Description:
    """What was written about a thing; functions that it refers to are listed by number."""

    def __init__(self) -> None:
        self._digest = hashlib.sha256()
        self.functions: list[int] = []

    def write(self, *words: object) -> None:
        for word in words:
            data = word if isinstance(word, bytes) else str(word).encode()
            self._digest.update(len(data).to_bytes(8, "little") + data)

    def hash_with(self, hashes: list[bytes]) -> bytes:
        """Hash what was written, with the given hashes of all functions in place of numbers."""
        digest = self._digest.copy()
        for number in self.functions:
            digest.update(hashes[number])
        return digest.digest()


class _Walk:
    def __init__(self) -> None:
        self.compiled: list[Any] = []
        """The compiled functions met on the way."""
        self.roots = _Description()
        self._functions: list[types.FunctionType] = []
        self._numbers: dict[int, int] = {}
        self._descriptions: list[_Description] = []

    def hexdigest(self) -> str:
        """Hash the graph of functions so that equal copies of a function count as one.

        Functions may call each other in circles, so there is no order in which each could be
        hashed after those that it calls. Instead all hashes are refined together: each round takes
        in the hashes of the callees from the round before. Once a round tells no more functions
        apart, functions with equal hashes are equal, however deep one looks. The last two rounds
        together then describe the graph of what is different.
        """
        hashes = [
            described.hash_with([b""] * len(self._functions)) for described in self._descriptions
        ]
        while True:
            finer = [described.hash_with(hashes) for described in self._descriptions]
            if len(set(finer)) == len(set(hashes)):
                break
            hashes = finer
        whole = hashlib.sha256(self.roots.hash_with(hashes))
        for pair in sorted(set(zip(hashes, finer, strict=True))):
            whole.update(b"".join(pair))
        return whole.hexdigest()

    def describe_functions(self) -> None:
        """Describe all functions that were met, and those that are met thereby."""
        while len(self._descriptions) < len(self._functions):
            self._descriptions.append(self._described(self._functions[len(self._descriptions)]))

    def visit(self, thing: Any, into: _Description) -> None:
        if is_compiled(thing):
            if thing._cache.cache_path is not None:
                raise NoFingerprint(f"{thing}, whose own disk cache may hold an older version")
            self.compiled.append(thing)
            into.write("compiled", sorted(thing.targetoptions.items()))
            self.visit(thing.py_func, into)
        elif isinstance(thing, types.FunctionType):
            if id(thing) not in self._numbers:
                self._numbers[id(thing)] = len(self._functions)
                self._functions.append(thing)
            into.write("function")
            into.functions.append(self._numbers[id(thing)])
        elif isinstance(thing, _Intrinsic):  # a function that writes machine code
            into.write("intrinsic")
            self.visit(thing._defn, into)
        elif isinstance(thing, np.ndarray):
            into.write("array", thing.dtype.descr, thing.shape, thing.tobytes())
        elif isinstance(thing, (tuple, list)):
            into.write(type(thing).__name__, getattr(thing, "_fields", ()), len(thing))
            for item in thing:
                self.visit(item, into)
        elif isinstance(thing, frozenset):
            into.write("frozenset", sorted(map(repr, thing)))
        elif thing is None or isinstance(
            thing, (bool, int, float, complex, str, bytes, np.generic)
        ):
            into.write(type(thing).__name__, repr(thing))
        elif thing is Ellipsis or _from_library(thing):
            name = getattr(thing, "__qualname__", getattr(thing, "__name__", repr(thing)))
            into.write("library", _home(thing), name)
        elif isinstance(thing, type) and issubclass(thing, tuple) and hasattr(thing, "_fields"):
            into.write("named tuple", thing.__name__, thing._fields)
        else:
            raise NoFingerprint(f"{thing!r} of type {type(thing).__name__}")

    def _described(self, function: types.FunctionType) -> _Description:
        into = _Description()
        self._code(function.__code__, into)
        self.visit(function.__defaults__, into)
        self.visit(sorted((function.__kwdefaults__ or {}).items()), into)
        for cell in function.__closure__ or ():
            try:
                self.visit(cell.cell_contents, into)
            except ValueError:  # nothing has been put into it yet
                raise NoFingerprint(f"{function} with an empty closure") from None
        names, read = sorted(names_used(function.__code__)), set[tuple[str, str]]()
        for name in names:
            if name in function.__globals__:
                into.write("global", name)
                self._global(function.__globals__[name], names, read, into)
            elif hasattr(builtins, name):
                into.write("builtin", name)
        return into

    def _global(
        self, value: Any, names: list[str], read: set[tuple[str, str]], into: _Description
    ) -> None:
        """Visit a value, or what a function may read from a user's module: the names it uses."""
        if not isinstance(value, types.ModuleType) or _from_library(value):
            self.visit(value, into)
            return
        into.write("module", value.__name__)
        for name in names:
            attribute = getattr(value, name, None)
            # Modules may refer to each other in circles, but each name of each is visited once.
            if attribute is not None and (value.__name__, name) not in read:
                read.add((value.__name__, name))
                into.write("attribute", name)
                self._global(attribute, names, read, into)

    def _code(self, code: types.CodeType, into: _Description) -> None:
        into.write("code", code.co_code, code.co_names, code.co_varnames, code.co_freevars)
        into.write(code.co_argcount, code.co_flags, code.co_exceptiontable)
        for constant in code.co_consts:
            if isinstance(constant, types.CodeType):
                self._code(constant, into)
            else:
                self.visit(constant, into)


def names_used(code: types.CodeType) -> set[str]:
    """Return the names of globals and attributes that code uses, nested functions included."""
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
