"""Validation of the formulas' arguments: gaps or means, l, T."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from entice.checks import as_number, is_list
from entice.errors import InputError

Floats = npt.NDArray[np.float64]
Numbers = Sequence[float] | Floats


def gaps_from(gaps: Numbers | None, means: Numbers | None) -> Floats:
    """Return Δ_i = max μ − μ_i of the suboptimal arms, from gaps or from means.

    >>> from entice.theory.inputs import gaps_from
    >>> gaps_from(None, means=[0.5, 0.75, 0.25])
    array([0.25, 0.5 ])
    >>> gaps_from(None, means=[0.5, 0.75, 0.75])
    Traceback (most recent call last):
        ...
    entice.errors.InputError: means must have a single best arm, not 2 with mean 0.75: gaps would \
be 0; got [0.5, 0.75, 0.75].
    """
    if (gaps is None) == (means is None):
        given = "neither" if gaps is None else "both"
        raise InputError("gaps or means", "must be given, exactly one of the two", given=given)
    if means is not None:
        values = _row("means", means, at_least=2)
        best = values.max()
        # Means that differ by rounding alone (0.3 and 0.1 + 0.2) are equal.
        if (ties := int((best - values <= 1e-12 * max(1.0, abs(best))).sum())) > 1:
            rule = f"must have a single best arm, not {ties} with mean {best:g}: gaps would be 0"
            raise InputError("means", rule, given=values.tolist())
        return np.asarray(best - np.delete(values, values.argmax()))
    assert gaps is not None
    values = _row("gaps", gaps, at_least=1)
    if values.min() <= 0:
        raise InputError(
            "gaps",
            "must be greater than 0, one for each suboptimal arm",
            given=values.tolist(),
            todo="Leave out the best arm's own gap, 0. With two best arms no bound is claimed.",
        )
    return values


def rounds_from(T: Any) -> Floats:
    """Return T, a number or an array of any shape, as floats; each must be at least 2."""
    rounds = numbers_from("T", T, "a number of rounds, or an array of them")
    if rounds.size == 0 or not np.isfinite(rounds).all() or rounds.min() < 2:
        low = "" if rounds.size == 0 else f" (the lowest is {rounds.min():g})"
        raise InputError("T", f"must be at least 2 rounds, and finite{low}", given=T)
    return rounds


def numbers_from(name: str, given: Any, what: str) -> Floats:
    """Return numbers in an array of any shape as floats; reject text."""
    try:
        array = np.asarray(given)
    except (TypeError, ValueError):
        array = np.empty(0, dtype=object)
    if array.dtype.kind not in "iuf" and array.size > 0:
        raise InputError(name, f"must be {what}", given=given)
    return array.astype(np.float64)


def between(name: str, given: Any, low: float, high: float) -> Floats:
    """Return an array of numbers that must lie in a closed range."""
    values = numbers_from(name, given, "numbers")
    if not ((values >= low) & (values <= high)).all():
        if high == math.inf:
            rule = f"must be at least {low:g}"
        else:
            rule = f"must lie between {low:g} and {high:g}"
        raise InputError(name, rule, given=given)
    return values


def at_least(name: str, given: Any, lowest: float) -> float:
    """Return a number that must be at least `lowest`."""
    value = as_number(name, given)
    if value < lowest:
        rule = f"must be at least {lowest:g}" if lowest else "must not be negative"
        raise InputError(name, rule, given=given)
    return value


def above_zero(name: str, given: Any) -> float:
    """Return a number that must be greater than 0."""
    value = as_number(name, given)
    if value <= 0:
        raise InputError(name, "must be greater than 0", given=given)
    return value


def slope(l: Any) -> float:
    """Return the drift's Lipschitz constant l ≥ 0."""
    return at_least("l", l, 0.0)


def _row(name: str, given: Any, at_least: int) -> Floats:
    if hasattr(given, "to_numpy"):  # a column of a frame
        given = given.to_numpy()
    if not is_list(given) or len(given) < at_least:
        rule = f"must be a list of at least {at_least} number{'s' * (at_least > 1)}"
        raise InputError(name, rule, given=given)
    return np.array([as_number(f"{name}[{i}]", value) for i, value in enumerate(given)])
