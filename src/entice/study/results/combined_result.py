"""The combined results of several studies."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, NoReturn

import polars as pl

from entice.errors import InputError
from entice.study.results.files import folders_for, folders_within
from entice.study.results.result import Result
from entice.study.spec import Study
from entice.study.sweep import check_compatible


def concat(results: Iterable[Result]) -> Result:
    """Combine results. A single one is returned unchanged."""
    parts: list[Result] = []
    for i, result in enumerate(results):
        if not isinstance(result, Result):
            raise InputError(f"Result.concat: results[{i}]", "must be a Result", given=result)
        parts += result.parts
    if not parts:
        raise InputError("Result.concat: results", "must have at least one entry", given=parts)
    check_compatible("Result.concat: results", [part.study for part in parts])
    return parts[0] if len(parts) == 1 else CombinedResult(parts)


class CombinedResult(Result):
    """The results of several studies, in frames with the rows of all."""

    def __init__(self, parts: Sequence[Result]) -> None:
        self._parts = tuple(parts)

    @property
    def parts(self) -> tuple[Result, ...]:
        """The result of each study."""
        return self._parts

    @property
    def study(self) -> Study:
        """Raise an error: there are several studies."""
        self._require_one("study")

    @property
    def engines(self) -> tuple[str, ...]:
        """Raise an error: there are several studies."""
        self._require_one("engines")

    @cached_property
    def final(self) -> pl.DataFrame:
        """One row for each study, cell and replication."""
        return _concat_frames([part.final for part in self.parts])

    @cached_property
    def curves(self) -> pl.DataFrame:
        """One row for each study, cell, metric and checkpoint."""
        return _concat_frames([part.curves for part in self.parts])

    def summary(self) -> pl.DataFrame:
        """Summarise the last rounds: a row for each study, cell and metric."""
        return _concat_frames([part.summary() for part in self.parts])

    def pulls_per_arm(self) -> pl.DataFrame:
        """Summarise how often each arm was pulled: a row for each study, cell and arm."""
        return _concat_frames([part.pulls_per_arm() for part in self.parts])

    def plot(self, *arguments: Any, **settings: Any) -> NoReturn:
        """Raise an error: there are several studies."""
        self._require_one("plot(…)")

    def compare(self, *arguments: Any, **settings: Any) -> NoReturn:
        """Raise an error: there are several studies."""
        self._require_one("compare(…)")

    def save(self, folder: str | Path) -> Path:
        """Write each part into a sub-folder, named by horizon and seed if these are unique."""
        folder = Path(folder)
        own = folders_for([part.study for part in self.parts], folder)
        others = [path.name for path in folders_within(folder) if path not in own]
        if others:
            rule = "must not hold other results, which `load` would combine with these"
            given, todo = ", ".join(others), "Choose another folder."
            raise InputError(f"the folder {folder}", rule, given=given, todo=todo)
        for path, part in zip(own, self.parts, strict=True):
            part.save(path)
        return folder

    def __repr__(self) -> str:
        horizons = sorted({part.study.horizon for part in self.parts})
        seeds = sorted({part.study.seed or 0 for part in self.parts})
        return f"<Result: {len(self.parts)} studies, horizons {horizons}, seeds {seeds}>"

    def _require_one(self, attribute: str) -> NoReturn:
        raise InputError(
            f"result.{attribute}",
            f"requires a result of one study, and this one has {len(self.parts)}",
            todo=f"Use result.parts[0].{attribute}, or iterate over result.parts.",
        )


def _concat_frames(frames: Sequence[pl.DataFrame]) -> pl.DataFrame:
    numbered = [
        frame.with_columns(study_index=pl.lit(i, dtype=pl.Int64)) for i, frame in enumerate(frames)
    ]
    return pl.concat(numbered, how="diagonal_relaxed")
