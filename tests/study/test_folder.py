"""Interrupted studies go on where they were, and end with the same numbers."""

from __future__ import annotations

import functools
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from polars.testing import assert_frame_equal

import entice
from entice.study.aggregation.aggregators import ExactAggregator
from entice.study.blocks import Block, split
from entice.study.run_arrays import RunArrays
from entice.study.running.cell import Cell
from entice.study.running.output_folder import run_in_folder

STUDY = entice.Study(
    arms=entice.Gaussian([0.9, 0.6, 0.3]),
    policies=[entice.UCB()],
    drifts=[entice.NoDrift(), entice.LinearDrift(1.1)],
    horizon=500,
    replications=40,
    seed=7,
    checkpoints=10,
)
LONG = """
horizon = 20000
replications = 6000
seed = 11
checkpoints = 20
engine = "generic"
arms = { kind = "gaussian", means = [0.9, 0.6, 0.3] }
policies = [{ kind = "ucb" }]
drifts = [{ kind = "none" }, { kind = "linear", l = 1.1 }]
"""
COMMAND = [sys.executable, "-c", "from entice.cli.app import main; main()"]


def assert_same(one: entice.Result, other: entice.Result) -> None:
    assert_frame_equal(one.final, other.final, check_exact=True)
    assert_frame_equal(one.curves, other.curves, check_exact=True)


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch: Any) -> None:
    monkeypatch.setattr("entice.study.blocks._LEAST_WORK", 4500)
    monkeypatch.setattr("entice.study.blocks._MOST_WORK", 4500)


@pytest.fixture
def counted(monkeypatch: Any) -> list[int]:
    """Count the blocks that are really run, by their first replication."""
    runs: list[int] = []
    original = Cell.run

    def run(self: Cell, first: int, *rest: Any) -> None:
        original(self, first, *rest)
        runs.append(first)

    monkeypatch.setattr(Cell, "run", run)
    return runs


def test_a_finished_study_is_read_not_run(tmp_path: Path, counted: list[int]) -> None:
    first = run_in_folder(STUDY, tmp_path, progress=False)
    assert len(counted) == 10  # two cells of 40 replications, 9 in a block
    second = run_in_folder(STUDY, tmp_path, progress=False)
    assert len(counted) == 10
    assert_same(first, second)
    kept = [p.name for p in tmp_path.glob("blocks-*")]
    assert len(kept) == 1  # for more replications
    assert sorted(p.name for p in tmp_path.iterdir()) == [
        "as_run.toml", *kept, "curves.parquet", "final.parquet",
    ]  # fmt: skip


def test_what_was_finished_before_an_interruption_is_not_run_again(
    tmp_path: Path, counted: list[int]
) -> None:
    def interrupt(done: int, total: int) -> None:
        if done >= 27:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_in_folder(STUDY, tmp_path, threads=1, progress=interrupt)
    kept = len(list(tmp_path.glob("blocks-*/*.npz")))
    assert 3 <= kept < 10
    counted.clear()
    resumed = run_in_folder(STUDY, tmp_path, progress=False)
    assert len(counted) == 10 - kept
    assert_same(resumed, entice.run(STUDY, progress=False))


def test_damaged_blocks_are_run_again(tmp_path: Path, counted: list[int]) -> None:
    def interrupt(done: int, total: int) -> None:
        if done >= 60:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_in_folder(STUDY, tmp_path, threads=1, progress=interrupt)
    blocks = sorted(tmp_path.glob("blocks-*/*.npz"))
    assert len(blocks) >= 6
    whole = blocks[3].read_bytes()
    blocks[0].write_bytes(b"")
    blocks[1].write_bytes(b"not a block at all")
    blocks[2].write_bytes(blocks[2].read_bytes()[:-200])
    blocks[3].write_bytes(whole[:500] + bytes([whole[500] ^ 1]) + whole[501:])
    blocks[4].write_bytes(blocks[5].read_bytes())  # another block's numbers
    counted.clear()
    resumed = run_in_folder(STUDY, tmp_path, progress=False)
    assert len(counted) == 10 - len(blocks) + 5
    assert_same(resumed, entice.run(STUDY, progress=False))


@functools.cache
def uninterrupted() -> entice.Result:
    return entice.run(entice.Study.from_toml(LONG), progress=False)


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT], ids=["kill -9", "Ctrl-C"])
def test_a_process_stopped_in_the_middle_goes_on_to_the_same_result(
    tmp_path: Path, how: signal.Signals
) -> None:
    (tmp_path / "study.toml").write_text(LONG)
    out = tmp_path / "out"
    command = [*COMMAND, "run", str(tmp_path / "study.toml"), "--out", str(out)]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 120
    while len(list(out.glob("blocks-*/*.npz"))) < 3:
        assert process.poll() is None, "it finished, or failed, before it could be stopped"
        assert time.monotonic() < deadline
        time.sleep(0.01)
    process.send_signal(how)
    _, told = process.communicate(timeout=60)
    assert not (out / "final.parquet").exists()
    kept = len(list(out.glob("blocks-*/*.npz")))
    assert kept >= 3
    if how == signal.SIGINT:
        assert process.returncode == 130
        assert "run the same command to go on" in " ".join(told.split())
        assert "Traceback" not in told
        assert not list(out.glob("**/.writing-*"))

    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
    assert "Result:" in done.stdout
    assert_same(entice.Result.load(out), uninterrupted())
    files = {p.name for p in out.iterdir() if p.is_file()}
    assert files == {"as_run.toml", "curves.parquet", "final.parquet"}


def test_a_study_without_a_seed_goes_on_with_the_one_it_drew(tmp_path: Path) -> None:
    unseeded = msgspec.structs.replace(STUDY, seed=None)
    first = run_in_folder(unseeded, tmp_path, progress=False)
    assert first.study.seed is not None
    assert_same(run_in_folder(unseeded, tmp_path, progress=False), first)
    assert f"seed = {first.study.seed}" in (tmp_path / "as_run.toml").read_text()


def test_another_study_s_folder_is_refused_and_left_alone(tmp_path: Path) -> None:
    run_in_folder(STUDY, tmp_path, progress=False)
    before = {p: p.read_bytes() for p in tmp_path.rglob("*.*")}
    with pytest.raises(entice.InputError, match="must be empty, or hold this study"):
        run_in_folder(msgspec.structs.replace(STUDY, horizon=501), tmp_path, progress=False)
    assert {p: p.read_bytes() for p in tmp_path.rglob("*.*")} == before


def test_a_mended_function_starts_an_unfinished_study_anew(tmp_path: Path, capsys: Any) -> None:
    """The same spec by other code: what was finished is of no use, and must not be in the way."""
    text = LONG.replace("20000", "300").replace("6000", "20").replace('"ucb"', '"greedy"')
    study = entice.Study.from_toml(text)
    run_in_folder(study, tmp_path, progress=False)
    expected = entice.Result.load(tmp_path)
    for name in ("final.parquet", "curves.parquet"):
        (tmp_path / name).unlink()
    (tmp_path / "blocks-0123456789abcdef").mkdir()
    again = run_in_folder(study, tmp_path, progress=False)
    assert "starting over" in capsys.readouterr().err
    assert_same(again, expected)


def test_unfinished_blocks_of_another_study_are_refused(tmp_path: Path) -> None:
    (tmp_path / "blocks-0123456789abcdef").mkdir()
    with pytest.raises(entice.InputError, match="must be empty, or hold this study"):
        run_in_folder(STUDY, tmp_path, progress=False)


def test_a_foreign_file_of_the_same_name_is_refused(tmp_path: Path) -> None:
    (tmp_path / "final.parquet").write_bytes(b"somebody's work")
    with pytest.raises(entice.InputError, match="must be empty, or hold this study"):
        run_in_folder(STUDY, tmp_path, progress=False)
    assert (tmp_path / "final.parquet").read_bytes() == b"somebody's work"


def test_a_folder_that_can_t_be_written_is_told_before_any_work(
    tmp_path: Path, counted: list[int]
) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(entice.InputError, match=r"output folder must be writable"):
        run_in_folder(STUDY, tmp_path / "file" / "below", progress=False)
    assert counted == []


def test_a_full_disk_is_told_and_leaves_no_partial_block(tmp_path: Path, monkeypatch: Any) -> None:
    def full(file: object, **arrays: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np, "savez", full)
    with pytest.raises(entice.EnticeError, match="No space left on device"):
        run_in_folder(STUDY, tmp_path, progress=False)
    assert not list(tmp_path.glob("**/*.npz"))
    assert not list(tmp_path.glob("**/.writing-*"))


def test_blocks_cover_each_replication_once() -> None:
    blocks = split([200] * 3, replications=10, size=4)
    assert blocks[:3] == [Block(0, 0, 4), Block(0, 4, 4), Block(0, 8, 2)]
    assert [b.cell for b in blocks] == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    assert split([10**15], replications=5) == [Block(0, i, 1) for i in range(5)]


def test_a_block_of_another_shape_does_not_count() -> None:
    counts, stopped = np.zeros((4, 3), dtype=np.int64), np.zeros(4, dtype=np.int64)
    aggregator = ExactAggregator(STUDY)
    assert aggregator.add(Block(0, 0, 4), RunArrays(np.zeros((4, 10, 5)), counts, stopped))
    assert not aggregator.add(Block(0, 0, 4), RunArrays(np.zeros((4, 11, 5)), counts, stopped))
    assert not aggregator.add(Block(0, 0, 5), RunArrays(np.zeros((4, 10, 5)), counts, stopped))
