"""Warnings of the compiler: each once, at the user's function."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from numba.core.errors import NumbaWarning

from entice.jit.decorators import plain_python

_shown: set[tuple[type[Warning], str, str]] = set()


@contextmanager
def warnings_once(user_functions: Sequence[Callable[..., Any]]) -> Iterator[None]:
    """Show each of Numba's warnings once in this process, although each kernel repeats it.

    Numba refers to the line of the kernel that calls the user's function. If there is one user's
    function, the warning refers to that instead.
    """
    with warnings.catch_warnings(record=True) as caught:
        yield
    for warning in caught:
        text, name, line = str(warning.message), warning.filename, warning.lineno
        if issubclass(warning.category, NumbaWarning):
            if len(user_functions) == 1:
                code = plain_python(user_functions[0]).__code__
                name, line = code.co_filename, code.co_firstlineno
            if (warning.category, text, name) in _shown:
                continue
            _shown.add((warning.category, text, name))
        warnings.warn_explicit(text, warning.category, name, line)
