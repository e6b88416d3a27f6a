"""Fingerprints of functions, so that cached machine code can't become stale.

Numba freezes everything that a function refers to when it compiles it, but its disk cache checks
only the file of the outermost function. So we hash everything that it freezes: the bytecode and
constants of the function and of all functions it calls, and the globals and closure cells that they
read. File names, line numbers and comments have no effect, but docstrings do: they are constants.
It does not matter whether two callers share one function object or have equal copies, as after
pickling to another process.
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
    """A function refers to an object whose content can't be hashed."""


def fingerprint(*things: Any) -> str:
    """Hash functions and plain values by content, with the same result in every process.

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
    """A hash of an object's content; the functions that it refers to are listed by number."""

    def __init__(self) -> None:
        self._digest = hashlib.sha256()
        self.functions: list[int] = []

    def write(self, *words: object) -> None:
        for word in words:
            data = word if isinstance(word, bytes) else str(word).encode()
            self._digest.update(len(data).to_bytes(8, "little") + data)

    def hash_with(self, hashes: list[bytes]) -> bytes:
        """Return the hash, with the hashes of functions in place of their numbers."""
        digest = self._digest.copy()
        for number in self.functions:
            digest.update(hashes[number])
        return digest.digest()


class _Walk:
    def __init__(self) -> None:
        self.compiled: list[Any] = []
        """The compiled functions found."""
        self.roots = _Description()
        self._functions: list[types.FunctionType] = []
        self._numbers: dict[int, int] = {}
        self._descriptions: list[_Description] = []

    def hexdigest(self) -> str:
        """Hash the graph of functions so that equal copies of a function count as one.

        Functions may call each other in cycles, so there may be no order in which each is hashed
        after its callees. Instead all hashes are refined together: each round includes the hashes
        of the callees from the round before. Once a round distinguishes no more functions,
        functions with equal hashes are equal at any depth. The last two rounds together then
        describe the graph of distinct functions.
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
        """Describe all functions found, and those that they refer to."""
        while len(self._descriptions) < len(self._functions):
            self._descriptions.append(self._describe(self._functions[len(self._descriptions)]))

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
        elif isinstance(thing, _Intrinsic):  # a function that generates machine code
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

    def _describe(self, function: types.FunctionType) -> _Description:
        into = _Description()
        self._code(function.__code__, into)
        self.visit(function.__defaults__, into)
        self.visit(sorted((function.__kwdefaults__ or {}).items()), into)
        for cell in function.__closure__ or ():
            try:
                self.visit(cell.cell_contents, into)
            except ValueError:  # the cell is still empty
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
        """Visit a value or, if it is a user's module, its attributes that the function uses."""
        if not isinstance(value, types.ModuleType) or _from_library(value):
            self.visit(value, into)
            return
        into.write("module", value.__name__)
        for name in names:
            attribute = getattr(value, name, None)
            # Modules may refer to each other in cycles; each name of each is visited once.
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
    """Return whether an object belongs to a library whose version is part of the cache key."""
    return str(_home(thing)).split(".")[0].lstrip("_") in _LIBRARIES
