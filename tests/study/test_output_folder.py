"""Studies in an output folder: interrupted runs resume and end with the same numbers."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from command_line import without_coverage
from forking import ForkedPopen, run_forked
from sizes import sized
from study_fixtures import (
    ENTICE,
    HANG,
    LONG_STUDY,
    STUDY,
    assert_same_results,
    interrupt_at,
    wait_for_blocks,
)

import entice
from entice.study.aggregation.aggregators import ExactAggregator
from entice.study.blocks import Block, split
from entice.study.run_arrays import RunArrays
from entice.study.running.output_folder import run_in_folder

pytestmark = pytest.mark.usefixtures("small_blocks")


def test_a_finished_study_is_read_not_run(tmp_path: Path, blocks_run: list[Any]) -> None:
    first = run_in_folder(STUDY, tmp_path, progress=False)
    assert len(blocks_run) == 10  # two cells of 40 replications, 9 in a block
    second = run_in_folder(STUDY, tmp_path, progress=False)
    assert len(blocks_run) == 10
    assert_same_results(first, second)
    (blocks,) = [p.name for p in tmp_path.glob("blocks-*")]  # kept for more replications
    assert sorted(p.name for p in tmp_path.iterdir()) == [
        "as_run.toml", blocks, "curves.parquet", "final.parquet",
    ]  # fmt: skip


def test_damaged_blocks_are_run_again(tmp_path: Path, blocks_run: list[Any]) -> None:
    with pytest.raises(KeyboardInterrupt):
        run_in_folder(STUDY, tmp_path, threads=1, progress=interrupt_at(60))
    blocks = sorted(tmp_path.glob("blocks-*/*.npz"))
    assert len(blocks) >= 6
    whole = blocks[3].read_bytes()
    blocks[0].write_bytes(b"")
    blocks[1].write_bytes(b"not a block at all")
    blocks[2].write_bytes(blocks[2].read_bytes()[:-200])
    blocks[3].write_bytes(whole[:500] + bytes([whole[500] ^ 1]) + whole[501:])
    blocks[4].write_bytes(blocks[5].read_bytes())  # another block's numbers
    blocks_run.clear()
    resumed = run_in_folder(STUDY, tmp_path, progress=False)
    assert len(blocks_run) == 10 - len(blocks) + 5
    assert_same_results(resumed, entice.run(STUDY, progress=False))


@pytest.mark.usefixtures("untraced")
def test_a_stopped_process_resumes_to_the_same_result(tmp_path: Path) -> None:
    """A process is killed; the next one is interrupted by Ctrl-C; the last one finishes."""
    text = LONG_STUDY.replace("4000", str(sized(1500, 2500)))
    (tmp_path / "study.toml").write_text(text)
    out = tmp_path / "out"
    command = [*ENTICE, "run", str(tmp_path / "study.toml"), "--out", str(out)]
    environment = without_coverage()
    for how, blocks in (signal.SIGKILL, 3), (signal.SIGINT, 6):
        process = ForkedPopen(command, stderr=subprocess.PIPE, text=True, env=environment)
        wait_for_blocks(process, out, blocks)
        process.send_signal(how)
        _, errors = process.communicate(timeout=HANG)
        assert not (out / "final.parquet").exists()
        assert len(list(out.glob("blocks-*/*.npz"))) >= blocks
        if how == signal.SIGKILL:  # which may have interrupted the writing of a block
            left = set(out.glob("**/.writing-*"))
    assert process.returncode == 130
    assert "Run the same command again to resume" in " ".join(errors.split())
    assert "Traceback" not in errors
    assert set(out.glob("**/.writing-*")) <= left

    assert "Result:" in run_forked(*command).out
    uninterrupted = entice.run(entice.Study.from_toml(text), progress=False)
    assert_same_results(entice.Result.load(out), uninterrupted)
    files = {p.name for p in out.iterdir() if p.is_file()}
    assert files == {"as_run.toml", "curves.parquet", "final.parquet"}


def test_the_folder_of_another_study_is_rejected_and_unchanged(tmp_path: Path) -> None:
    run_in_folder(STUDY, tmp_path, progress=False)
    before = {p: p.read_bytes() for p in tmp_path.rglob("*.*")}
    with pytest.raises(entice.InputError, match="must be empty, or hold this study"):
        run_in_folder(msgspec.structs.replace(STUDY, horizon=501), tmp_path, progress=False)
    assert {p: p.read_bytes() for p in tmp_path.rglob("*.*")} == before


def test_a_changed_function_restarts_an_unfinished_study(tmp_path: Path, capsys: Any) -> None:
    """Blocks of the same spec run by other code are discarded."""
    text = LONG_STUDY.replace("20000", "300").replace("4000", "20").replace('"ucb"', '"greedy"')
    study = entice.Study.from_toml(text)
    run_in_folder(study, tmp_path, progress=False)
    expected = entice.Result.load(tmp_path)
    for name in ("final.parquet", "curves.parquet"):
        (tmp_path / name).unlink()
    (tmp_path / "blocks-0123456789abcdef").mkdir()
    again = run_in_folder(study, tmp_path, progress=False)
    assert "starting over" in capsys.readouterr().err
    assert_same_results(again, expected)


def test_a_full_disk_is_reported_and_leaves_no_partial_block(
    tmp_path: Path, monkeypatch: Any
) -> None:
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


def test_a_block_of_another_shape_is_rejected() -> None:
    counts, stopped = np.zeros((4, 3), dtype=np.int64), np.zeros(4, dtype=np.int64)
    aggregator = ExactAggregator(STUDY)
    assert aggregator.add(Block(0, 0, 4), RunArrays(np.zeros((4, 10, 5)), counts, stopped))
    assert not aggregator.add(Block(0, 0, 4), RunArrays(np.zeros((4, 11, 5)), counts, stopped))
    assert not aggregator.add(Block(0, 0, 5), RunArrays(np.zeros((4, 10, 5)), counts, stopped))
