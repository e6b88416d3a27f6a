"""Validation of the fields of specs, with one error message for each rule."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np

from entice.errors import InputError

MAX_COUNT = 10**12
"""Upper limit on counts in a study: more rounds than a thousand CPU years can simulate."""


def set_number(spec: msgspec.Struct, field: str) -> float:
    """Convert a field to a finite float, or raise `InputError`."""
    value = as_number(field_name(spec, field), getattr(spec, field))
    msgspec.structs.force_setattr(spec, field, value)
    return value


def set_noise(spec: msgspec.Struct) -> None:
    """Convert the field `noise`, a standard deviation, to a positive float."""
    value = set_number(spec, "noise")
    if value <= 0:
        rule = "must be greater than 0: it is the standard deviation of ratings"
        raise InputError(field_name(spec, "noise"), rule, given=value)


def set_numbers(spec: msgspec.Struct, field: str, *, at_least: int = 0) -> tuple[float, ...]:
    """Convert a field to a tuple of finite floats, or raise `InputError`."""
    name, given = field_name(spec, field), getattr(spec, field)
    if not is_list(given):
        raise InputError(name, "must be a list of numbers", given=given)
    values = tuple(as_number(f"{name}[{i}]", v) for i, v in enumerate(given))
    if len(values) < at_least:
        raise InputError(name, f"must have at least {at_least} numbers", given=given)
    msgspec.structs.force_setattr(spec, field, values)
    return values


def is_list(given: object) -> bool:
    """Return whether a value is a list, a tuple, a range or an array, but not a string."""
    if isinstance(given, np.ndarray):
        return given.ndim > 0
    return isinstance(given, Sequence) and not isinstance(given, (str, bytes, bytearray))


def set_whole(spec: msgspec.Struct, field: str, *, at_least: int, at_most: int = MAX_COUNT) -> int:
    """Convert a field to an int in a range, or raise `InputError`."""
    name, given = field_name(spec, field), getattr(spec, field)
    value = as_whole_number(name, given)
    if value < at_least:
        raise InputError(name, f"must be a whole number of at least {at_least}", given=given)
    if value > at_most:
        raise InputError(name, f"must be at most {at_most:,}", given=given)
    msgspec.structs.force_setattr(spec, field, value)
    return value


def as_number(name: str, given: Any) -> float:
    """Return a finite number as a float, or raise `InputError`."""
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
    """Return a whole number (10_000.0 and 1e4 are) as an int, or raise `InputError`."""
    value = as_number(name, given)
    if value != int(value):
        raise InputError(name, "must be a whole number", given=given)
    # The float serves for checking only: it would round a large int.
    return int(given)


def as_seed(name: str, given: Any) -> int:
    """Return a seed, a whole number in the range of TOML's integers, or raise `InputError`."""
    value = as_whole_number(name, given)
    if not 0 <= value < 2**63:
        raise InputError(name, "must be from 0 to 2**63 - 1", given=given)
    return value


def set_share(spec: msgspec.Struct, field: str, *, of: str, without: str, typical: float) -> None:
    """Convert a field to a share of at least 0 and less than 1, or raise `InputError`.

    `without` names what there is none of with a share of 0.
    """
    value = set_number(spec, field)
    if not 0 <= value < 1:
        rule = f"must be a share of {of}: at least 0 and less than 1"
        todo = f"Use 0 for no {without}, or a share such as {typical}."
        raise InputError(field_name(spec, field), rule, given=value, todo=todo)


def set_name(spec: msgspec.Struct, field: str) -> None:
    """Check that a field is None or a string of 1 to 100 characters."""
    given = getattr(spec, field)
    if given is None or (isinstance(given, str) and given.strip() and len(given) <= 100):
        return
    rule = "must be text of 1 to 100 characters"
    raise InputError(field_name(spec, field), rule, given=given)


def field_name(spec: msgspec.Struct, field: str) -> str:
    """Return the name of a field in error messages."""
    return f"{type(spec).__name__}: {field}"
