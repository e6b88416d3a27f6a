"""Results on disk: two Parquet files, each with its study in the metadata."""

from __future__ import annotations

import errno
import itertools
import json
import platform
import shutil
from collections.abc import Iterator, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import polars as pl
from polars.io.plugins import register_io_source

from entice.atomic_file import atomic_file
from entice.errors import InputError
from entice.study.aggregation.block_digest import is_on_disk
from entice.study.spec import Study
from entice.user_functions import allow_missing_functions

FINAL, CURVES, RECORD = "final.parquet", "curves.parquet", "as_run.toml"
_ROW_GROUP = 2**18
"""Number of rows per row group in a large file. Readers hold at least one group in memory."""


def save(folder: Path, study: Study, final: pl.DataFrame | Path, curves: pl.DataFrame) -> Path:
    """Write both files of a result."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        about = _metadata(study)
        with atomic_file(folder / FINAL) as path:
            if isinstance(final, Path):
                about = {"entice": pl.read_parquet_metadata(final)["entice"]}
                shutil.copyfile(final, path)
            else:
                final.write_parquet(path, metadata=about)
        with atomic_file(folder / CURVES) as path:
            curves.write_parquet(path, metadata=about)
    except (OSError, pl.exceptions.PolarsError) as error:
        raise InputError("the folder", f"must be writable ({error})", given=str(folder)) from error
    return folder


def load(folder: Path) -> tuple[Study, pl.DataFrame | Path, pl.DataFrame, Sequence[str]]:
    """Read a result: study, last rounds (of a large study, their path), curves, engines."""
    about = read_metadata(folder / FINAL)
    if about is None or about != read_metadata(folder / CURVES):
        raise InputError(
            "the folder", f"must hold a result ({FINAL} and {CURVES})", given=str(folder)
        )
    with allow_missing_functions():
        study = Study.from_json(about["study"])
    final = folder / FINAL if is_on_disk(study) else pl.read_parquet(folder / FINAL)
    return study, final, pl.read_parquet(folder / CURVES), about["engines"]


def _folder_names(studies: Sequence[Study]) -> list[str]:
    """Return a folder name for each of several studies, by horizon and seed if these are unique."""
    seeds = ["" if study.seed is None else f"-seed-{study.seed}" for study in studies]
    names = [f"horizon-{study.horizon}{seed}" for study, seed in zip(studies, seeds, strict=True)]
    if len(set(names)) < len(names):
        names = [f"study-{i}" for i in range(len(studies))]
    return names


def folders_for(studies: Sequence[Study], folder: Path) -> list[Path]:
    """Return a sub-folder for each of several studies. The folder of a single study is rejected."""
    if (folder / FINAL).exists() or (folder / RECORD).exists():
        rule = "must not hold the result of a single study when several are run"
        raise InputError(f"the folder {folder}", rule, todo="Choose another folder.")
    return [folder / name for name in _folder_names(studies)]


def folders_within(folder: Path) -> list[Path]:
    """Return the folders of several studies' results, ordered by horizon and seed."""
    if (folder / FINAL).exists():
        return []

    def order(path: Path) -> list[Any]:
        return [int(word) if word.isdigit() else 0 for word in path.name.split("-")]

    found = [*folder.glob("horizon-*"), *folder.glob("study-*")]
    return sorted((path for path in found if (path / FINAL).exists()), key=order)


def write_final(path: Path, study: Study, frames: Iterator[pl.DataFrame]) -> None:
    """Write the last rounds of a large study, a few of them at a time."""
    first = next(frames)
    rows = register_io_source(lambda *_: itertools.chain([first], frames), schema=first.schema)
    with atomic_file(path) as temporary:
        try:
            rows.sink_parquet(temporary, metadata=_metadata(study), row_group_size=_ROW_GROUP)
        except pl.exceptions.PolarsError as error:  # raised when the disk is full
            raise OSError(errno.EIO, str(error)) from error


def _metadata(study: Study) -> dict[str, str]:
    about = {
        "study": study.to_json(),
        "key": study.key(),
        "runs": study.runs_key(),
        "engines": study.engines(),
        "versions": {
            "python": platform.python_version(),
            **{name: version(name) for name in ("entice", "numba", "numpy", "polars")},
        },
    }
    return {"entice": json.dumps(about)}


def read_metadata(path: Path) -> dict[str, Any] | None:
    """Return the metadata of a file of a result: study, key, versions. None for other files."""
    try:
        about: dict[str, Any] = json.loads(pl.read_parquet_metadata(path)["entice"])
    except (OSError, KeyError, ValueError, pl.exceptions.PolarsError):
        return None
    return about
