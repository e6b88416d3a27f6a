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
    function, the warning refers to that instead. If compilation fails, the error is enough, and
    Numba's warnings are not shown. Other warnings, such as those of other threads, always are.
    """
    succeeded = False
    try:
        with warnings.catch_warnings(record=True) as caught:
            yield
        succeeded = True
    finally:
        for warning in caught:
            if not issubclass(warning.category, NumbaWarning):
                _show(warning)
            elif succeeded:
                _show_once(warning, user_functions)


def _show(warning: warnings.WarningMessage) -> None:
    warnings.warn_explicit(
        warning.message, warning.category, warning.filename, warning.lineno, source=warning.source
    )


def _show_once(
    warning: warnings.WarningMessage, user_functions: Sequence[Callable[..., Any]]
) -> None:
    text, name, line = str(warning.message), warning.filename, warning.lineno
    if len(user_functions) == 1:
        code = plain_python(user_functions[0]).__code__
        name, line = code.co_filename, code.co_firstlineno
    if (warning.category, text, name) not in _shown:
        _shown.add((warning.category, text, name))
        warnings.warn_explicit(text, warning.category, name, line)
