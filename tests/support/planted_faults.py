"""Fast paths with changed source: aggressive settings, and faults that are planted one at a time.

An aggressive setting changes the length of jumps, which must not change the distribution. Most of
its jumps are cut short, so that every rare branch runs and no fault stays hidden.

All faults of a setting are compiled together, each behind a switch that is read at run time:
compiling a fast path takes longer than comparing it.
"""

from __future__ import annotations

import ast
import contextlib
import ctypes
import importlib
import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from typing import Any, NamedTuple

from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.extending import intrinsic

import entice.study.spec

FAST = "entice.engine.fast"

_SWITCH = ctypes.c_int64(0)
_ADDRESS = ctypes.addressof(_SWITCH)


class Change(NamedTuple):
    """A replacement of text in a module of the fast paths.

    For a fault, both texts are expressions, or whole statements with their indentation.
    """

    module: str
    old: str
    new: str


@intrinsic  # type: ignore[untyped-decorator]
def planted(typing: Any) -> Any:
    """Return the number of the planted fault, or 0."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        address = context.get_constant(types.intp, _ADDRESS)
        return builder.load(builder.inttoptr(address, ir.IntType(64).as_pointer()))

    return types.int64(), generate


@contextlib.contextmanager
def changed(
    changes: Sequence[Change], faults: Mapping[str, Change]
) -> Iterator[Callable[[str | None], None]]:
    """Run studies on fast paths with these changes; yield a function that plants one fault."""
    kept = {name: module for name, module in sys.modules.items() if name.startswith(FAST)}
    specs: Any = entice.study.spec  # studies look `fast_path` up here
    original, finder = specs.fast_path, _Finder(changes, tuple(faults.values()))
    names = list(faults)

    def plant(fault: str | None) -> None:
        _SWITCH.value = 0 if fault is None else 1 + names.index(fault)

    _unload()
    sys.meta_path.insert(0, finder)
    try:
        selection = importlib.import_module(f"{FAST}.selection")
        touched = {f"{FAST}.{change.module}" for change in (*changes, *faults.values())}
        assert touched <= sys.modules.keys(), touched - sys.modules.keys()
        specs.fast_path = selection.fast_path
        yield plant
    finally:
        plant(None)
        specs.fast_path = original
        sys.meta_path.remove(finder)
        _unload()
        sys.modules.update(kept)


class _Finder(MetaPathFinder):
    def __init__(self, changes: Sequence[Change], faults: Sequence[Change]) -> None:
        self.changes, self.faults = changes, faults

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> ModuleSpec | None:
        if not fullname.startswith(FAST):
            return None
        spec = PathFinder.find_spec(fullname, path)
        assert spec is not None
        assert spec.origin is not None
        loader = _Loader(fullname, spec.origin)
        loader.changes, loader.faults = self.changes, self.faults
        spec.loader = loader
        return spec


class _Loader(SourceFileLoader):
    changes: Sequence[Change] = ()
    faults: Sequence[Change] = ()

    def get_code(self, fullname: str) -> Any:
        source = self.get_data(self.path).decode()
        for change in self.changes:
            if fullname == f"{FAST}.{change.module}":
                source = _replaced(source, change.old, change.new)
        originals: dict[str, str] = {}  # several faults may change the same text
        for number, fault in enumerate(self.faults, start=1):
            if fullname == f"{FAST}.{fault.module}":
                text = originals.get(fault.old, fault.old)
                _require_whole(source, text)
                originals[fault.old] = _switched(fault, text, number)
                source = _replaced(source, text, originals[fault.old])
        if originals:
            source = source.replace(
                "\nfrom entice.", "\nfrom planted_faults import planted\nfrom entice.", 1
            )
        return compile(source, self.path, "exec")


def _replaced(source: str, old: str, new: str) -> str:
    assert source.count(old) == 1, (old, new)
    return source.replace(old, new)


def _require_whole(source: str, text: str) -> None:
    """Require that a text is whole statements, or an expression that parentheses do not change."""
    if not text.startswith(" "):
        parsed = (ast.dump(ast.parse(s)) for s in (source, _replaced(source, text, f"({text})")))
        assert len(set(parsed)) == 1, text


def _switched(fault: Change, text: str, number: int) -> str:
    """Return code that runs the fault if its number is planted, and otherwise the text."""
    test = f"planted() == {number}"
    if not fault.old.startswith(" "):
        return f"(({fault.new}) if {test} else ({text}))"
    indent = " " * (len(fault.old) - len(fault.old.lstrip()))
    branches = ("if " + test, fault.new), ("else", text)
    return "\n".join(
        f"{indent}{head}:\n{textwrap.indent(textwrap.dedent(body), indent + '    ')}"
        for head, body in branches
    )


def _unload() -> None:
    for name in [name for name in sys.modules if name.startswith(FAST)]:
        del sys.modules[name]
