"""Errors that help: what was wrong, what is allowed, what was given, what to do."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Any


class EnticeError(Exception):
    """Anything Entice raises on purpose; the message is written for the person who reads it."""


class InputError(EnticeError, ValueError):
    """Something the user gave can't be used. Raised before any work starts.

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
            message += f"; got {_short(given)}"
        message += "."
        if todo is not None:
            message += f" {todo}"
        super().__init__(message)
        self.name = name

    def __reduce__(self) -> tuple[Any, ...]:
        """Errors travel from the workers of a cluster as they are."""
        return _again, (type(self), str(self), self.name)


class StudyError(EnticeError, RuntimeError):
    """A study could not go on: a policy or a world did something that has no meaning."""


def did_you_mean(given: str, allowed: Iterable[str]) -> str:
    """Say which names are allowed, and name the nearest one first when there is one."""
    names = sorted(allowed)
    close = difflib.get_close_matches(given.lower(), names, n=1)
    guess = f"Did you mean {close[0]!r}? " if close else ""
    return f"{guess}Allowed: {', '.join(names)}."


def _again(kind: type[InputError], message: str, name: str) -> InputError:
    error = kind.__new__(kind, message)
    error.args, error.name = (message,), name
    return error


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 120 else f"{text[:117]}..."
