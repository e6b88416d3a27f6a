"""Sweeps: several studies that differ in horizon or seed."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any

import msgspec

from entice.checks import is_list
from entice.errors import InputError
from entice.spec_parsing import read_text
from entice.study.spec import SWEPT, Study
from entice.user_functions import importable


def sweep(**settings: Any) -> list[Study]:
    """Return a study for each combination of horizon and seed; either may be a list.

    Parameters
    ----------
    settings
        As for `Study`. Policies and drifts need no sweep: a study has lists of both, as in
        ``drifts=[entice.LinearDrift(l) for l in (0, 0.5, 1.1)]``.

    >>> import entice
    >>> studies = entice.sweep(arms=entice.Gaussian([0.9, 0.1]), policies=[entice.UCB()],
    ...                        horizon=[1_000, 10_000], replications=10, seed=7)
    >>> [study.horizon for study in studies]
    [1000, 10000]
    """
    return [Study(**one) for one in combinations(settings)]


def sweep_from_file(path: str | Path) -> Study | list[Study]:
    """Read a study from a TOML file, or several if its `horizon` or `seed` is a list."""
    path = Path(path)
    text = read_text("the study file", path)
    try:
        plain = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        plain = {}  # Study.from_file raises the error
    if not any(is_list(plain.get(field)) for field in SWEPT):
        return Study.from_file(path)
    with importable(path.resolve().parent):
        return [Study.from_table(one) for one in combinations(plain)]


def combinations(settings: dict[str, Any]) -> list[dict[str, Any]]:
    """Replace each list among the swept settings by its entries, in all combinations."""
    swept = {field: settings[field] for field in SWEPT if is_list(settings.get(field))}
    for field, values in swept.items():
        if not len(values):
            raise InputError(f"sweep: {field}", "must have at least one value", given=values)
        twice = [value for i, value in enumerate(values) if value in list(values)[:i]]
        if twice:
            raise InputError(f"sweep: {field}", "must not contain a value twice", given=twice[0])
    return [settings | dict(zip(swept, chosen, strict=True)) for chosen in product(*swept.values())]


def check_studies(studies: Any) -> Sequence[Study]:
    """Check that the results of several studies can be combined, before any of them is run."""
    if not is_list(studies) or not all(isinstance(study, Study) for study in studies):
        raise InputError("run: study", "must be a Study or a list of them", given=studies)
    if not studies:
        raise InputError("run: study", "must have at least one study", given=studies)
    check_compatible("run: study", studies)
    return list(studies)


def check_compatible(name: str, studies: Sequence[Study]) -> None:
    """Raise an error if the results of studies cannot be combined."""
    counts = [len(study.arms.true_means()) for study in studies]
    if len(set(counts)) > 1:
        rule = "must have the same number of arms, because `pulls` has an entry for each"
        todo = "Drop `pulls` and use pl.concat(…, how='diagonal') on the frames."
        raise InputError(name, rule, given=f"{counts} arms", todo=todo)
    seen: dict[str, int] = {}
    for i, study in enumerate(studies):
        # Studies that differ only in the number of replications share their first runs.
        runs = msgspec.structs.replace(study, replications=1).to_json()
        if runs in seen and study.seed is not None:
            raise InputError(
                name,
                "must be different studies or have different seeds, so that no run counts twice",
                given=f"the same study with seed {study.seed} at {seen[runs]} and {i}",
            )
        seen[runs] = i
