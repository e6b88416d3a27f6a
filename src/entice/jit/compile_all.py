"""Compilation of all kernels of a call, with progress reports."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from entice.jit.specialize import NotCompiled, load_only
from entice.progress import report_compilation

T = TypeVar("T")


def compile_all(steps: Sequence[Callable[[], T]]) -> list[T]:
    """Call functions that each get machine code, and return their results in the same order.

    Steps whose machine code is cached come first, so that the number of kernels to compile is known
    when the first of them is compiled.
    """
    found: dict[int, T] = {}
    missing: dict[str, list[int]] = {}
    for number, step in enumerate(steps):
        try:
            with load_only():
                found[number] = step()
        except NotCompiled as error:
            missing.setdefault(error.key, []).append(number)
    for done, numbers in enumerate(missing.values()):
        report_compilation(done, len(missing))
        found |= {number: steps[number]() for number in numbers}
    return [found[number] for number in range(len(steps))]
