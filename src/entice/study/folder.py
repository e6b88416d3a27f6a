"""A study in a folder: what is finished there is not run again."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator
from pathlib import Path

import msgspec

from entice.errors import EnticeError, InputError, StudyError
from entice.specs import Study
from entice.study.blocks import BlockFolder
from entice.study.progress import Report
from entice.study.result import CURVES, FINAL, Result, read_metadata
from entice.study.run import Run, thread_count
from entice.study.whole_file import whole_file

RECORD = "as_run.toml"
_HEAD = "# The study whose result lies beside this file, as `entice run` ran it.\n"


def run_in_folder(
    study: Study,
    folder: str | Path,
    *,
    threads: int | None = None,
    progress: bool | Report | None = None,
) -> Result:
    """Run a study, keep its result in a folder, and go on there after any interruption.

    While it runs, the folder holds `as_run.toml` (the spec, with its seed) and finished blocks;
    in the end `final.parquet` and `curves.parquet`. An interrupted run that goes on gives the
    same numbers as one that was never interrupted. A finished one is read, not run.
    """
    folder, threads = Path(folder), thread_count(threads)
    study = _with_recorded_seed(study, folder)
    if _is_finished(study, folder):
        return Result.load(folder)
    blocks = folder / f"blocks-{study.key()[:16]}"
    if any(other != blocks for other in folder.glob("blocks-*")):
        raise _belongs_elsewhere(folder)
    with output_folder(folder):
        ready = Run(study, blocks)  # compiles: what can't be is told before anything is written
        _record(study, folder)
        try:
            result = ready.go(threads, progress)
        except OSError as error:
            raise StudyError(
                f"The folder {folder} can't be written any more ({error.strerror}). What was "
                "finished is kept there: mend that, and run the same again to go on."
            ) from error
        result.save(folder)
    BlockFolder(blocks).remove()
    return result


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


def _with_recorded_seed(study: Study, folder: Path) -> Study:
    """Take the seed of an earlier run of the same study, so that it can go on."""
    if study.seed is None:
        with contextlib.suppress(EnticeError):
            recorded = Study.from_file(folder / RECORD)
            if msgspec.structs.replace(recorded, seed=None) == study:
                return recorded
    return study.with_seed()


def _is_finished(study: Study, folder: Path) -> bool:
    whole = 0
    for name in (FINAL, CURVES):
        if (folder / name).exists():
            about = read_metadata(folder / name)
            if about is None or about["key"] != study.key():
                raise _belongs_elsewhere(folder)
            whole += 1
    return whole == 2


def _belongs_elsewhere(folder: Path) -> InputError:
    return InputError(
        "the output folder",
        "must be empty, or hold this very study, made by the same code. "
        f"{folder / RECORD} says what was run there",
        given=str(folder),
        todo="Choose another with --out, or remove this one.",
    )


def _record(study: Study, folder: Path) -> None:
    with whole_file(folder / RECORD) as path:
        path.write_text(_HEAD + study.to_toml(), encoding="utf-8")
