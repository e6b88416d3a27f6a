"""Exceptions whose messages name the fault, the rule, the value and the remedy."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Any


class EnticeError(Exception):
    """Base of all errors that Entice raises deliberately. Messages are written for users."""


class InputError(EnticeError, ValueError):
    """An invalid input, raised before any work starts.

    >>> raise InputError("horizon", "must be a whole number of at least 1", given=0)
    Traceback (most recent call last):
        ...
    entice.errors.InputError: horizon must be a whole number of at least 1; got 0.
    """

    def __init__(
        self, name: str, rule: str, *, given: object = ..., todo: str | None = None
    ) -> None:
        message = f"{name} {rule}"
        if given is not ...:
            message += f"; got {_shorten(given)}"
        message += "."
        if todo is not None:
            message += f" {todo}"
        super().__init__(message)
        self.name = name

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the message and the name: errors are sent from workers of a cluster."""
        return _rebuild, (type(self), str(self), self.name)


class StudyError(EnticeError, RuntimeError):
    """A study can't continue: a policy or a drift returned an invalid value or raised."""


def did_you_mean(given: str, allowed: Iterable[str]) -> str:
    """List the allowed names, with a suggestion if one of them is similar."""
    names = sorted(allowed)
    close = difflib.get_close_matches(given.lower(), names, n=1)
    guess = f"Did you mean {close[0]!r}? " if close else ""
    return f"{guess}Allowed: {', '.join(names)}."


def _rebuild(kind: type[InputError], message: str, name: str) -> InputError:
    error = kind.__new__(kind, message)
    error.args, error.name = (message,), name
    return error


def _shorten(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 120 else f"{text[:117]}..."
