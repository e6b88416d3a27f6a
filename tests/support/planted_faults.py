"""Fast paths with changed source: a planted fault, or an aggressive setting.

An aggressive setting changes the length of jumps, which must not change the distribution. Most of
its jumps are cut short, so that every rare branch runs and no fault stays hidden.
"""

from __future__ import annotations

import contextlib
import importlib
import sys
from collections.abc import Iterator, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from typing import Any, NamedTuple

import entice.study.spec

FAST = "entice.engine.fast"


class Change(NamedTuple):
    """A replacement of text in a module of the fast paths."""

    module: str
    old: str
    new: str


class _Loader(SourceFileLoader):
    changes: Sequence[Change] = ()

    def get_code(self, fullname: str) -> Any:
        source = self.get_data(self.path).decode()
        for change in self.changes:
            if fullname == f"{FAST}.{change.module}":
                assert source.count(change.old) == 1, change
                source = source.replace(change.old, change.new)
        return compile(source, self.path, "exec")


class _Finder(MetaPathFinder):
    def __init__(self, changes: Sequence[Change]) -> None:
        self.changes = changes

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> ModuleSpec | None:
        if not fullname.startswith(FAST):
            return None
        spec = PathFinder.find_spec(fullname, path)
        assert spec is not None
        assert spec.origin is not None
        loader = _Loader(fullname, spec.origin)
        loader.changes = self.changes
        spec.loader = loader
        return spec


@contextlib.contextmanager
def changed(*changes: Change) -> Iterator[None]:
    """Run studies on fast paths with these changes."""
    kept = {name: module for name, module in sys.modules.items() if name.startswith(FAST)}
    specs: Any = entice.study.spec  # studies look `fast_path` up here
    original, finder = specs.fast_path, _Finder(changes)
    _unload()
    sys.meta_path.insert(0, finder)
    try:
        selection = importlib.import_module(f"{FAST}.selection")
        touched = {f"{FAST}.{change.module}" for change in changes}
        assert touched <= sys.modules.keys(), touched - sys.modules.keys()
        specs.fast_path = selection.fast_path
        yield
    finally:
        specs.fast_path = original
        sys.meta_path.remove(finder)
        _unload()
        sys.modules.update(kept)


def _unload() -> None:
    for name in [name for name in sys.modules if name.startswith(FAST)]:
        del sys.modules[name]
