"""Parsing of tables from TOML and JSON into specs, with suggestions for misspelt names."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any, get_args, get_origin

import msgspec

from entice.errors import InputError, did_you_mean
from entice.model.learned_price import LearnedPrice
from entice.policies import Policy
from entice.worlds.adversaries import Adversary
from entice.worlds.changing_arms import Arms
from entice.worlds.delays import Delay
from entice.worlds.drifts import Drift
from entice.worlds.players import Acceptance
from entice.worlds.response import Response

UNIONS: dict[str, Any] = {
    "arms": Arms, "policies": Policy, "drifts": Drift, "adversary": Adversary,
    "acceptance": Acceptance, "delay": Delay, "response": Response,
    "price": LearnedPrice,
}  # fmt: skip
"""The kinds of entries that each field may hold."""
MAX_SWEPT = 1_000
"""Maximum number of entries that one table may expand to."""


def _members(field: str) -> tuple[Any, ...]:
    """Return the classes of a field of `UNIONS`, which may be a single one."""
    return get_args(UNIONS[field]) or (UNIONS[field],)


def parse_entry(field: str, where: str, entry: Any) -> Any:
    """Build arms, a policy, a drift or another entry from a table with a `kind`."""
    kinds = {spec.__struct_config__.tag: spec for spec in _members(field)}
    if not isinstance(entry, dict) or "kind" not in entry:
        todo = did_you_mean("", kinds)
        raise InputError(where, "must be a table with a kind", given=entry, todo=todo)
    kind = entry["kind"]
    if not isinstance(kind, str) or kind not in kinds:
        todo = did_you_mean(str(kind), kinds)
        raise InputError(f"{where}: kind", "is unknown", given=kind, todo=todo)
    settings = {name: value for name, value in entry.items() if name != "kind"}
    if field == "arms" and isinstance(settings.get("arms"), dict):  # those of arms that change
        settings["arms"] = parse_entry("arms", f"{where}: arms", settings["arms"])
    elif field == "arms" and isinstance(settings.get("arms"), list):  # those of segments
        settings["arms"] = [
            parse_entry("arms", f"{where}: arms[{s}]", arms)
            for s, arms in enumerate(settings["arms"])
        ]
    return build_spec(kinds[kind], where, settings)


def expand_sweep(field: str, position: int, entry: Any) -> list[Any]:
    """Expand a table in which a parameter has a list of values into one table per value.

    Parameters that are lists themselves take a list of lists. Several lists are combined.
    """
    kinds = {spec.__struct_config__.tag: spec for spec in _members(field)}
    kind = entry.get("kind") if isinstance(entry, dict) else None
    if not isinstance(kind, str) or kind not in kinds:
        return [entry]  # `parse_entry` reports the error
    lists = {}
    for parameter in msgspec.structs.fields(kinds[kind]):
        given = entry.get(parameter.name)
        if not isinstance(given, list) or parameter.name == "name":
            continue
        if not _takes_lists(parameter.type) or (given and all(isinstance(v, list) for v in given)):
            lists[parameter.name] = given
            if not given:
                where = f"{field}[{position}]: {parameter.name}"
                raise InputError(where, "must have at least one value to sweep over", given=given)
    count = math.prod(map(len, lists.values()))
    if count > MAX_SWEPT:
        rule = f"must expand to at most {MAX_SWEPT:,} entries"
        raise InputError(f"{field}[{position}]", rule, given=f"{count:,}")
    return [entry | dict(zip(lists, one, strict=True)) for one in product(*lists.values())]


def _takes_lists(kind: Any) -> bool:
    return get_origin(kind) is Sequence or any(map(_takes_lists, get_args(kind)))


def read_text(what: str, path: Path) -> str:
    """Read a text file, or raise `InputError`."""
    try:
        return path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not text"
        raise InputError(what, f"can't be read ({reason})", given=str(path)) from error


def as_table(where: str, given: Any) -> dict[str, Any]:
    """Return a copy of a table of settings, or raise `InputError`."""
    if not isinstance(given, dict):
        raise InputError(where, "must be a table of settings (in JSON, an object)", given=given)
    return dict(given)


def build_spec(spec: Any, where: str, settings: dict[str, Any]) -> Any:
    """Check the names of settings, and call the spec's constructor."""
    fields = {field.name: field for field in msgspec.structs.fields(spec)}
    for name in settings:
        if name not in fields:
            todo = did_you_mean(name, fields)
            raise InputError(where, "has an unknown setting", given=name, todo=todo)
    for name, field in fields.items():
        if field.required and name not in settings:
            raise InputError(where, f"must have the setting {name!r}", given=settings)
    return spec(**settings)


def kind_names(field: str) -> str:
    """Return the names of the kinds that a field may hold."""
    return ", ".join(spec.__name__ for spec in _members(field))


def without_none(plain: Any) -> Any:
    """Leave out entries that are None, which TOML can't represent."""
    if isinstance(plain, dict):
        return {k: without_none(v) for k, v in plain.items() if v is not None}
    if isinstance(plain, (list, tuple)):
        return [without_none(v) for v in plain]
    return plain
