"""Labels of policies and drifts in tables and figures, and their parameters as columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import polars as pl

from entice.checks import as_whole_number, is_list, set_name
from entice.errors import InputError, did_you_mean
from entice.jit.decorators import import_path


class Named(msgspec.Struct, frozen=True, kw_only=True):
    """Base of specs that have a label in tables and figures."""

    name: str | None = None

    def __post_init__(self) -> None:
        set_name(self, "name")

    @property
    def default_label(self) -> str:
        """The label of a spec without a name; by default its class name."""
        return type(self).__name__

    @property
    def label(self) -> str:
        """The name if there is one, else a label of the kind and its parameters."""
        return self.name or self.default_label


def unique_labels(specs: Sequence[Named]) -> tuple[str, ...]:
    """Return the labels of specs; equal labels get the parameters that differ.

    >>> import entice
    >>> from entice.labels import unique_labels
    >>> unique_labels([entice.LinearDrift(0.1), entice.LinearDrift(0.10000001), entice.NoDrift()])
    ('LinearDrift(0.1) [l=0.1]', 'LinearDrift(0.1) [l=0.10000001]', 'NoDrift')
    """
    labels = [spec.label for spec in specs]
    for label in {label for label in labels if labels.count(label) > 1}:
        alike = [i for i, other in enumerate(labels) if other == label]
        settings = [_settings(specs[i]) for i in alike]
        names = list(dict.fromkeys(name for one in settings for name in one))
        differing = [n for n in names if len({repr(one.get(n)) for one in settings}) > 1]
        for i, one in zip(alike, settings, strict=True):
            settings_text = [f"{n}={one[n]}" for n in differing if one.get(n) is not None]
            labels[i] += f" [{', '.join(settings_text)}]" if settings_text else ""
    found: list[str] = []
    for label in labels:  # equal specs get a number
        before = sum(other == label for other in labels[: len(found)])
        found.append(f"{label} #{before + 1}" if before else label)
    return tuple(found)


def position(where: str, value: int | str | None, labels: Sequence[str]) -> int:
    """Return the position of a label; `value` may be a position, or None if there is one label."""
    if value is None:
        if len(labels) == 1:
            return 0
        todo = did_you_mean("", labels)
        raise InputError(where, f"must name one of {len(labels)}", todo=todo)
    if isinstance(value, str):
        if value not in labels:
            todo = did_you_mean(value, labels)
            raise InputError(where, "must be a label", given=value, todo=todo)
        return labels.index(value)
    found = as_whole_number(where, value)
    if not 0 <= found < len(labels):
        rule = f"must be a label, or a position from 0 to {len(labels) - 1}"
        raise InputError(where, rule, given=value)
    return found


def parameter_columns(role: str, specs: Sequence[Named]) -> dict[str, pl.Series]:
    """Return the parameters of specs as columns `role.kind`, `role.c`, …, with a row per spec.

    A parameter that a spec does not have is null. Functions are left out: labels name them.
    """
    settings = [_settings(spec, functions=False) for spec in specs]
    names = dict.fromkeys(name for one in settings for name in one)
    return {f"{role}.{name}": _column([one.get(name) for one in settings]) for name in names}


def _settings(spec: Named, *, functions: bool = True) -> dict[str, Any]:
    found: dict[str, Any] = {"kind": spec.__struct_config__.tag}
    for field in spec.__struct_fields__:
        value = getattr(spec, field)
        if callable(value):
            if functions:
                found[field] = import_path(value)
        elif field != "name":
            found[field] = list(value) if is_list(value) else value
    return found


def _column(values: list[Any]) -> pl.Series:
    kinds = {type(value) for value in values if value is not None}
    for dtype, accepted in (
        (pl.Boolean, {bool}),
        (pl.Int64, {int}),
        (pl.Float64, {int, float}),
        (pl.List(pl.Float64), {list}),
    ):
        if kinds and kinds <= accepted:
            return pl.Series(values, dtype=dtype, strict=False)
    # Strings, or values of mixed types.
    return pl.Series([None if v is None else str(v) for v in values], dtype=pl.String)
