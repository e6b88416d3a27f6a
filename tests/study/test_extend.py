"""More replications in the same folder: the missing ones are run, and nothing else changes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import polars as pl
import pytest
from command_line import RunEntice
from polars.testing import assert_frame_equal

import entice
from entice.study.aggregation import block_digest as digest
from entice.study.blocks import Block, split
from entice.study.running.block_folder import BlockFolder
from entice.study.running.cell import Cell

STUDY = entice.Study(
    arms=entice.Gaussian([0.9, 0.6, 0.3]),
    policies=[entice.UCB()],
    drifts=[entice.NoDrift(), entice.LinearDrift(1.1)],
    horizon=500,
    replications=40,
    seed=7,
    checkpoints=10,
)


def of(replications: int, **changes: Any) -> entice.Study:
    return msgspec.structs.replace(STUDY, replications=replications, **changes)


def run(study: entice.Study, out: Path | None = None, **options: Any) -> entice.Result:
    return entice.run(study, out=out, **{"progress": False} | options)


def assert_same(one: entice.Result, other: entice.Result) -> None:
    assert one.study == other.study
    assert_frame_equal(one.final, other.final, check_exact=True)
    assert_frame_equal(one.curves, other.curves, check_exact=True)
    assert_frame_equal(one.summary(), other.summary(), check_exact=True)


def kept_in(folder: Path) -> int:
    """How many replications, of all cells, are kept as blocks."""
    (blocks,) = folder.glob("blocks-*")
    return sum(block.replications for block in BlockFolder(blocks).blocks())


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of 9 replications."""
    monkeypatch.setattr("entice.study.blocks._LEAST_WORK", 4500)
    monkeypatch.setattr("entice.study.blocks._MOST_WORK", 4500)


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """The replications that are really run: first and count, for each block."""
    found: list[tuple[int, int]] = []
    original = Cell.run

    def noted(self: Cell, first: int, room: Any, *rest: Any) -> None:
        original(self, first, room, *rest)
        found.append((first, len(room.stopped)))

    monkeypatch.setattr(Cell, "run", noted)
    return found


def test_python_resumes_like_the_command_line(tmp_path: Path, ran: list[Any], capsys: Any) -> None:
    def interrupt(done: int, total: int) -> None:
        if done >= 27:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(STUDY, tmp_path, threads=1, progress=interrupt)
    kept = kept_in(tmp_path)
    assert 27 <= kept < 80
    ran.clear()
    resumed = run(STUDY, tmp_path)
    assert sum(count for _, count in ran) == 80 - kept
    assert "resuming with" in capsys.readouterr().err
    assert_same(resumed, run(STUDY))
    ran.clear()
    settings: dict[str, Any] = {n: getattr(STUDY, n) for n in STUDY.__struct_fields__}
    assert_same(entice.simulate(**settings, out=tmp_path, progress=False), resumed)
    assert ran == []


def test_more_replications_run_the_missing_ones_alone(tmp_path: Path, ran: list[Any]) -> None:
    first = run(STUDY, tmp_path)
    before = ran.copy()
    assert sum(count for _, count in before) == 2 * 40
    ran.clear()
    more = run(of(100), tmp_path)
    assert sum(count for _, count in ran) == 2 * 60
    assert min(first for first, _ in ran) == 40
    assert_same(more, run(of(100)))
    assert_frame_equal(more.final.filter(pl.col("replication") < 40), first.final, check_exact=True)
    ran.clear()
    assert_same(run(of(1000), tmp_path), run(of(1000)))
    ran.clear()
    run(of(1000), tmp_path)
    assert ran == []


def test_an_interrupted_extension_resumes(tmp_path: Path, ran: list[Any]) -> None:
    def interrupt(done: int, total: int) -> None:
        if done >= 120:
            raise KeyboardInterrupt

    first = run(STUDY, tmp_path)
    with pytest.raises(KeyboardInterrupt):
        run(of(100), tmp_path, threads=1, progress=interrupt)
    assert_same(entice.Result.load(tmp_path), first)  # what was finished is still there
    ran.clear()
    # And with yet another count.
    assert_same(run(of(90), tmp_path), run(of(90)))
    assert sum(count for _, count in ran) < 2 * 90 + 2 * 50


def test_an_interrupted_study_may_be_extended(tmp_path: Path, ran: list[Any]) -> None:
    def interrupt(done: int, total: int) -> None:
        if done >= 50:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(STUDY, tmp_path, threads=1, progress=interrupt)
    kept = kept_in(tmp_path)
    ran.clear()
    more = run(of(70), tmp_path)
    assert sum(count for _, count in ran) == 2 * 70 - kept
    assert_same(more, run(of(70)))


def test_a_crash_between_the_two_files_of_a_result_is_got_over(tmp_path: Path) -> None:
    run(STUDY, tmp_path)
    curves = (tmp_path / "curves.parquet").read_bytes()
    more = run(of(60), tmp_path)
    (tmp_path / "curves.parquet").write_bytes(curves)  # of 40 replications, beside 60 in final
    with pytest.raises(entice.InputError, match="must hold a result"):
        entice.Result.load(tmp_path)
    assert_same(run(of(60), tmp_path), more)


def test_a_study_that_becomes_large_goes_on(
    tmp_path: Path, ran: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beyond some number of replications only digests are kept: here beyond 50."""
    monkeypatch.setattr(digest, "MIN_REPLICATIONS", 50)
    monkeypatch.setattr(digest, "MAX_BYTES", 0)
    small, large = of(49), of(100)
    assert not digest.is_large(small)
    assert digest.is_large(large)
    run(small, tmp_path)
    ran.clear()
    more = run(large, tmp_path)
    assert sum(count for _, count in ran) == 2 * 51
    assert_same(more, run(large))
    ran.clear()
    most = run(of(150), tmp_path)
    assert sum(count for _, count in ran) == 2 * 50
    assert_same(most, run(of(150)))
    assert not list(tmp_path.glob("blocks-*/*.parquet"))


def test_removed_blocks_are_told_and_everything_is_run(
    tmp_path: Path, ran: list[Any], capsys: Any
) -> None:
    run(STUDY, tmp_path)
    (folder,) = tmp_path.glob("blocks-*")
    BlockFolder(folder).remove()
    assert_same(run(STUDY, tmp_path), run(STUDY))  # the result needs no blocks
    ran.clear()
    more = run(of(60), tmp_path)
    assert sum(count for _, count in ran) == 2 * 60
    assert "was removed: all replications are run" in capsys.readouterr().err
    assert_same(more, run(of(60)))


def test_a_damaged_block_is_run_again(tmp_path: Path, ran: list[Any]) -> None:
    run(STUDY, tmp_path)
    damaged = sorted(tmp_path.glob("blocks-*/cell0-*.npz"))[0]
    damaged.write_bytes(damaged.read_bytes()[:-100])
    ran.clear()
    more = run(of(60), tmp_path)
    assert sum(count for _, count in ran) == 2 * 20 + 9
    assert_same(more, run(of(60)))


def test_fewer_replications_are_refused(tmp_path: Path) -> None:
    run(STUDY, tmp_path)
    told = "replications is 40 there and 30 here"
    with pytest.raises(entice.InputError, match=told):
        run(of(30), tmp_path)


@pytest.mark.parametrize("change", [{"horizon": 600}, {"seed": 8}, {"checkpoints": 5}])
def test_other_changes_are_still_refused(tmp_path: Path, change: dict[str, Any]) -> None:
    run(STUDY, tmp_path)
    with pytest.raises(entice.InputError, match="must be empty, or hold this study"):
        run(of(60, **change), tmp_path)


def test_a_drawn_seed_is_kept(tmp_path: Path) -> None:
    first = run(of(10, seed=None), tmp_path)
    more = run(of(20, seed=None), tmp_path)
    assert more.study.seed == first.study.seed
    assert more.final.filter(pl.col("replication") < 10).equals(first.final)


def test_the_command_line_extends(run_entice: RunEntice, tmp_path: Path, ran: list[Any]) -> None:
    for replications in (40, 60):
        (tmp_path / "study.toml").write_text(of(replications).to_toml())
        ran.clear()
        done = run_entice("run", "study.toml", "--out", "out")
        assert done.code == 0, done.err
        assert f"After 500 rounds, {replications} runs" in done.out
    assert sum(count for _, count in ran) == 2 * 20
    assert_same(entice.Result.load(tmp_path / "out"), run(of(60)))


def test_blocks_are_cut_around_kept_ones() -> None:
    kept = [Block(0, 3, 4), Block(0, 8, 2), Block(1, 0, 10), Block(0, 5, 1), Block(0, 9, 5)]
    blocks = split([200] * 2, replications=12, size=4, kept=kept)
    assert blocks == [
        Block(0, 0, 3), Block(0, 3, 4), Block(0, 7, 1), Block(0, 8, 2), Block(0, 10, 2),
        Block(1, 0, 10), Block(1, 10, 2),
    ]  # fmt: skip
