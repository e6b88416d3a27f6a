"""A study in a folder: what is finished there is not run again."""

from __future__ import annotations

import contextlib
import json
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from entice.errors import EnticeError, InputError, StudyError
from entice.study.atomic_file import atomic_file
from entice.study.results.files import CURVES, FINAL, RECORD, folders_within, read_metadata
from entice.study.results.result import Result
from entice.study.running.block_folder import BlockFolder
from entice.study.running.executor import executor_for
from entice.study.running.progress import Report, reporting
from entice.study.running.run import StudyRun
from entice.study.spec import Study
from entice.user_functions import placeholders_for_missing

if TYPE_CHECKING:
    from distributed import Client

_HEAD = "# The study whose result lies beside this file, as it was run.\n"


def run_in_folder(
    study: Study,
    folder: str | Path,
    *,
    threads: int | None = None,
    cluster: Client | str | None = None,
    progress: bool | Report | None = None,
) -> Result:
    """Run a study, keep its result in a folder, and go on there after any interruption.

    While it runs, the folder holds `as_run.toml` (the spec, with its seed) and finished blocks;
    in the end also `final.parquet` and `curves.parquet`. An interrupted run that goes on gives the
    same numbers as one that was never interrupted. A finished one is read, not run; with more
    replications the missing ones are run, which the blocks are kept for.
    """
    folder = Path(folder)
    study = _with_recorded_seed(study, folder)
    if _is_finished(study, folder):
        _say(f"{folder} holds the finished result; nothing was run")
        return Result.load(folder)
    blocks, outdated = _blocks_to_go_on_with(study, folder)
    with (
        executor_for(threads, cluster) as crew,
        output_folder(folder),
        reporting(progress, "Simulating") as report,
    ):
        ready = StudyRun(
            study, crew, blocks
        )  # what can't be run is told before anything is written
        for older in outdated:
            _say(
                "a function has changed since the interruption, or can't be compared: starting anew"
            )
            BlockFolder(older).remove()
        _record(study, folder)
        try:
            result = ready.go(report)
        except InputError:  # what only a worker of a cluster could tell, before anything was done
            if not blocks.exists():
                (folder / RECORD).unlink()
            raise
        except OSError as error:
            raise StudyError(
                f"The folder {folder} can't be written any more ({error.strerror}). What was "
                "finished is kept there: mend that, and run the same again to go on."
            ) from error
        result.save(folder)
    (blocks / FINAL).unlink(missing_ok=True)  # what a large study writes there is copied by now
    return Result.load(folder)


@contextlib.contextmanager
def output_folder(folder: Path) -> Iterator[None]:
    """Make a folder, or say that it can't be written, before any work is done for it.

    Work that ends early leaves no empty folder behind.
    """
    is_new = not folder.exists()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise InputError(
            "the output folder",
            f"must be one that can be written ({error.strerror})",
            given=str(folder),
            todo="Choose another with --out.",
        ) from error
    try:
        yield
    except BaseException:
        if is_new:
            with contextlib.suppress(OSError):  # not empty: it keeps what was finished
                folder.rmdir()
        raise


@contextlib.contextmanager
def study_folder(study: Study, folder: Path | None) -> Iterator[Study]:
    """Give a study its seed and, if one is wanted, a folder; another study's is refused.

    The study is recorded there once the work is done.
    """
    if folder is None:
        yield study.with_seed()
        return
    study = _with_recorded_seed(study, folder)
    if _recorded(folder) not in (None, study):
        raise _belongs_elsewhere(study, folder)
    with output_folder(folder):
        yield study
        _record(study, folder)


def _recorded(folder: Path) -> Study | None:
    with contextlib.suppress(EnticeError), placeholders_for_missing():
        return Study.from_file(folder / RECORD)
    return None


def _with_recorded_seed(study: Study, folder: Path) -> Study:
    """Take the seed of an earlier run of the same study, so that it can go on."""
    recorded = _recorded(folder)
    if study.seed is None and recorded is not None:
        with_its_seed = msgspec.structs.replace(study, seed=recorded.seed)
        if _has_same_runs(recorded, with_its_seed):
            return with_its_seed
    return study.with_seed()


def _is_finished(study: Study, folder: Path) -> bool:
    if within := folders_within(folder):
        names = ", ".join(path.name for path in within)
        rule = "must not hold the results of several studies where a single one is to be kept"
        todo = "Choose another with --out, or remove them."
        raise InputError(f"the output folder {folder}", rule, given=names, todo=todo)
    whole = 0
    for name in (FINAL, CURVES):
        if (folder / name).exists():
            about = read_metadata(folder / name)
            if about is None or not _can_be_extended(about, study):
                raise _belongs_elsewhere(study, folder)
            whole += about["key"] == study.key()
    return whole == 2


def _can_be_extended(about: dict[str, Any], study: Study) -> bool:
    """Tell whether a file holds runs of this study, and not more than are asked for."""
    if about["key"] == study.key():
        return True
    count: int = json.loads(about["study"])["replications"]
    return about.get("runs") == study.runs_key() and count < study.replications


def _has_same_runs(one: Study | None, other: Study) -> bool:
    """Tell whether two studies differ in their number of replications at most."""
    if one is None:
        return False
    return msgspec.structs.replace(one, replications=other.replications) == other


def _blocks_to_go_on_with(study: Study, folder: Path) -> tuple[Path, list[Path]]:
    """Find the blocks of an interrupted run, and those of the same study by older code."""
    blocks = folder / f"blocks-{study.runs_key()[:16]}"
    others = [other for other in folder.glob("blocks-*") if other != blocks]
    if others and not _has_same_runs(_recorded(folder), study):
        raise _belongs_elsewhere(study, folder)
    finished = len(list(BlockFolder(blocks).found()))
    if finished:
        _say(f"going on with {finished} finished blocks")
    elif (folder / FINAL).exists():
        _say(f"{blocks.name} was removed: all replications are run, not the missing ones alone")
    return blocks, others


def _belongs_elsewhere(study: Study, folder: Path) -> InputError:
    recorded = _recorded(folder)
    different = [
        f"{field} is {getattr(recorded, field)!r} there and {getattr(study, field)!r} here"
        for field in study.__struct_fields__
        if recorded is not None and getattr(recorded, field) != getattr(study, field)
    ]
    return InputError(
        f"the output folder {folder}",
        "must be empty, or hold this very study, made by the same code",
        given="; ".join(different) or "the result of other code, or of something else",
        todo="Choose another with --out, or remove this one.",
    )


def _say(text: str) -> None:
    print(f"entice: {text}", file=sys.stderr)


def _record(study: Study, folder: Path) -> None:
    with atomic_file(folder / RECORD) as path:
        path.write_text(_HEAD + study.to_toml(), encoding="utf-8")
