"""The checks that specs make of what they are given, with one wording for each."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np

from entice.errors import InputError

MAX_COUNT = 10**12
"""No count that a study is given may be larger; a thousand CPU years of rounds are fewer."""


def set_number(spec: msgspec.Struct, field: str) -> float:
    """Make a field a float, or say why it can't be one."""
    value = as_number(field_name(spec, field), getattr(spec, field))
    msgspec.structs.force_setattr(spec, field, value)
    return value


def set_noise(spec: msgspec.Struct) -> None:
    """Make the field `noise`, a standard deviation, a float above 0, or say why it can't be."""
    value = set_number(spec, "noise")
    if value <= 0:
        rule = "must be greater than 0: it is the standard deviation of ratings"
        raise InputError(field_name(spec, "noise"), rule, given=value)


def set_numbers(spec: msgspec.Struct, field: str, *, at_least: int = 0) -> tuple[float, ...]:
    """Make a field a tuple of floats, or say why it can't be one."""
    name, given = field_name(spec, field), getattr(spec, field)
    if not is_list(given):
        raise InputError(name, "must be a list of numbers", given=given)
    values = tuple(as_number(f"{name}[{i}]", v) for i, v in enumerate(given))
    if len(values) < at_least:
        raise InputError(name, f"must have at least {at_least} numbers", given=given)
    msgspec.structs.force_setattr(spec, field, values)
    return values


def is_list(given: object) -> bool:
    """Tell whether something is a row of values: a list, a tuple, a range, an array."""
    if isinstance(given, np.ndarray):
        return given.ndim > 0
    return isinstance(given, Sequence) and not isinstance(given, (str, bytes, bytearray))


def set_whole(spec: msgspec.Struct, field: str, *, at_least: int, at_most: int = MAX_COUNT) -> int:
    """Make a field a whole number in a range, or say why it can't be one."""
    name, given = field_name(spec, field), getattr(spec, field)
    value = as_whole_number(name, given)
    if value < at_least:
        raise InputError(name, f"must be a whole number of at least {at_least}", given=given)
    if value > at_most:
        raise InputError(name, f"must be at most {at_most:,}", given=given)
    msgspec.structs.force_setattr(spec, field, value)
    return value


def as_number(name: str, given: Any) -> float:
    """Return `given` as a float if it is a finite number."""
    if isinstance(given, (bool, np.bool_, str, bytes)):
        raise InputError(name, "must be a number", given=given)
    try:
        value = float(given)
    except (TypeError, ValueError, OverflowError):
        raise InputError(name, "must be a number", given=given) from None
    if not math.isfinite(value):
        raise InputError(name, "must be a finite number", given=given)
    return value


def as_whole_number(name: str, given: Any) -> int:
    """Return `given` as an int if it is a whole number (10_000.0 and 1e4 are)."""
    value = as_number(name, given)
    if value != int(value):
        raise InputError(name, "must be a whole number", given=given)
    # The float was for checking only: a large int must not pass through it.
    return int(given)


def as_seed(name: str, given: Any) -> int:
    """Return `given` as a seed: a whole number that fits TOML's integers."""
    value = as_whole_number(name, given)
    if not 0 <= value < 2**63:
        raise InputError(name, "must be from 0 to 2**63 - 1", given=given)
    return value


def set_name(spec: msgspec.Struct, field: str) -> None:
    """Check that a field is a short text, or none."""
    given = getattr(spec, field)
    if given is None or (isinstance(given, str) and given.strip() and len(given) <= 100):
        return
    rule = "must be text of 1 to 100 characters"
    raise InputError(field_name(spec, field), rule, given=given)


def field_name(spec: msgspec.Struct, field: str) -> str:
    """Name a field as an error message does."""
    return f"{type(spec).__name__}: {field}"
