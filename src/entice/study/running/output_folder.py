"""Studies with an output folder: finished blocks there are not run again."""

from __future__ import annotations

import contextlib
import json
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from entice.atomic_file import atomic_file
from entice.errors import EnticeError, InputError, StudyError
from entice.progress import Report, reporting
from entice.study.results.files import CURVES, FINAL, RECORD, folders_within, read_metadata
from entice.study.results.result import Result
from entice.study.running.block_folder import BlockFolder
from entice.study.running.executor import executor_for
from entice.study.running.run import StudyRun
from entice.study.spec import Study
from entice.user_functions import allow_missing_functions

if TYPE_CHECKING:
    from distributed import Client

_OTHER = "Choose another folder with `out` (--out on the command line)"
_HEAD = "# The study of the result in this folder, as it was run.\n"


def run_in_folder(
    study: Study,
    folder: str | Path,
    *,
    threads: int | None = None,
    cluster: Client | str | None = None,
    progress: bool | Report | None = None,
) -> Result:
    """Run a study, save its result in a folder, and resume from there after an interruption.

    During the run the folder holds `as_run.toml` (the spec, with its seed) and finished blocks;
    at the end also `final.parquet` and `curves.parquet`. A resumed run gives the same numbers as an
    uninterrupted one. A finished study is read, not run. With more replications, only the missing
    ones are run: the blocks are kept for that.
    """
    folder = Path(folder)
    study = _with_recorded_seed(study, folder)
    if _is_finished(study, folder):
        _print(f"{folder} holds the finished result; nothing was run")
        return Result.load(folder)
    blocks, outdated = _blocks_to_resume(study, folder)
    with (
        executor_for(threads, cluster) as executor,
        output_folder(folder),
        reporting(progress, "Simulating") as report,
    ):
        # Raises an error for a study that cannot be run, before anything is written.
        study_run = StudyRun(study, executor, blocks)
        for older in outdated:
            _print(
                "a function has changed since the interruption, or cannot be compared: starting "
                "over"
            )
            BlockFolder(older).remove()
        _record(study, folder)
        try:
            result = study_run.run(report)
        except InputError:  # found by a worker of a cluster, before anything was run
            if not blocks.exists():
                (folder / RECORD).unlink()
            raise
        except OSError as error:
            raise StudyError(
                f"The folder {folder} can no longer be written ({error.strerror}). Finished "
                "blocks are kept there. Fix this, then run the same command to resume."
            ) from error
        result.save(folder)
    (blocks / FINAL).unlink(missing_ok=True)  # written there by a large study, and copied by `save`
    return Result.load(folder)


@contextlib.contextmanager
def output_folder(folder: Path) -> Iterator[None]:
    """Create a folder, and raise an error if it cannot be written, before any work starts.

    A new folder that is still empty after an error is removed.
    """
    is_new = not folder.exists()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise InputError(
            "the output folder",
            f"must be writable ({error.strerror})",
            given=str(folder),
            todo=f"{_OTHER}.",
        ) from error
    try:
        yield
    except BaseException:
        if is_new:
            with contextlib.suppress(OSError):  # not empty: it holds finished blocks
                folder.rmdir()
        raise


@contextlib.contextmanager
def study_folder(study: Study, folder: Path | None) -> Iterator[Study]:
    """Provide a study with a seed, and its output folder. The folder of another study is rejected.

    The study is recorded in the folder at the end.
    """
    if folder is None:
        yield study.with_seed()
        return
    study = _with_recorded_seed(study, folder)
    if _recorded(folder) not in (None, study):
        raise _other_study(study, folder)
    with output_folder(folder):
        yield study
        _record(study, folder)


def _recorded(folder: Path) -> Study | None:
    with contextlib.suppress(EnticeError), allow_missing_functions():
        return Study.from_file(folder / RECORD)
    return None


def _with_recorded_seed(study: Study, folder: Path) -> Study:
    """Add the seed of an earlier run of the same study, so that the study can be resumed."""
    recorded = _recorded(folder)
    if study.seed is None and recorded is not None:
        with_its_seed = msgspec.structs.replace(study, seed=recorded.seed)
        if _has_same_runs(recorded, with_its_seed):
            return with_its_seed
    return study.with_seed()


def _is_finished(study: Study, folder: Path) -> bool:
    if within := folders_within(folder):
        names = ", ".join(path.name for path in within)
        rule = "must not hold the results of several studies when a single one is run"
        todo = f"{_OTHER}, or remove them."
        raise InputError(f"the output folder {folder}", rule, given=names, todo=todo)
    whole = 0
    for name in (FINAL, CURVES):
        if (folder / name).exists():
            about = read_metadata(folder / name)
            if about is None or not _can_be_extended(about, study):
                raise _other_study(study, folder)
            whole += about["key"] == study.key()
    return whole == 2


def _can_be_extended(about: dict[str, Any], study: Study) -> bool:
    """Return whether a file holds runs of this study, but no more runs than the study has."""
    if about["key"] == study.key():
        return True
    count: int = json.loads(about["study"])["replications"]
    return about.get("runs") == study.runs_key() and count < study.replications


def _has_same_runs(one: Study | None, other: Study) -> bool:
    """Return whether two studies differ at most in their number of replications."""
    if one is None:
        return False
    return msgspec.structs.replace(one, replications=other.replications) == other


def _blocks_to_resume(study: Study, folder: Path) -> tuple[Path, list[Path]]:
    """Return the folder of the study's blocks, and those of the same study run by older code."""
    blocks = folder / f"blocks-{study.runs_key()[:16]}"
    others = [other for other in folder.glob("blocks-*") if other != blocks]
    if others and not _has_same_runs(_recorded(folder), study):
        raise _other_study(study, folder)
    finished = len(list(BlockFolder(blocks).blocks()))
    if finished:
        _print(f"resuming with {finished} finished blocks")
    elif (folder / FINAL).exists():
        _print(f"{blocks.name} was removed: all replications are run, not only the missing ones")
    return blocks, others


def _other_study(study: Study, folder: Path) -> InputError:
    recorded = _recorded(folder)
    different = [
        f"{field} is {getattr(recorded, field)!r} there and {getattr(study, field)!r} here"
        for field in study.__struct_fields__
        if recorded is not None and getattr(recorded, field) != getattr(study, field)
    ]
    return InputError(
        f"the output folder {folder}",
        "must be empty, or hold this study, run by the same code",
        given="; ".join(different) or "the result of other code, or other files",
        todo=f"{_OTHER}, or remove this one.",
    )


def _print(text: str) -> None:
    print(f"entice: {text}", file=sys.stderr)


def _record(study: Study, folder: Path) -> None:
    with atomic_file(folder / RECORD) as path:
        path.write_text(_HEAD + study.to_toml(), encoding="utf-8")
