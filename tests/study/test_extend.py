"""More replications in the same folder: only the missing ones are run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import polars as pl
import pytest
from command_line import RunEntice
from polars.testing import assert_frame_equal
from study_fixtures import STUDY, assert_same_results, interrupt_at

import entice
from entice.study.aggregation import block_digest as digest
from entice.study.blocks import Block, split
from entice.study.running.block_folder import BlockFolder

pytestmark = pytest.mark.usefixtures("small_blocks")


def with_replications(count: int, **changes: Any) -> entice.Study:
    return msgspec.structs.replace(STUDY, replications=count, **changes)


def run(study: entice.Study, out: Path | None = None, **options: Any) -> entice.Result:
    return entice.run(study, out=out, **{"progress": False} | options)


def replications_in(folder: Path) -> int:
    """Count the replications, of all cells, that are saved as blocks."""
    (blocks,) = folder.glob("blocks-*")
    return sum(block.replications for block in BlockFolder(blocks).blocks())


def test_python_resumes_like_the_command_line(
    tmp_path: Path, blocks_run: list[Any], capsys: Any
) -> None:
    with pytest.raises(KeyboardInterrupt):
        run(STUDY, tmp_path, threads=1, progress=interrupt_at(27))
    saved = replications_in(tmp_path)
    assert 27 <= saved < 80
    blocks_run.clear()
    resumed = run(STUDY, tmp_path)
    assert sum(count for _, count in blocks_run) == 80 - saved
    assert "resuming with" in capsys.readouterr().err
    assert_same_results(resumed, run(STUDY))
    blocks_run.clear()
    settings: dict[str, Any] = {n: getattr(STUDY, n) for n in STUDY.__struct_fields__}
    assert_same_results(entice.simulate(**settings, out=tmp_path, progress=False), resumed)
    assert blocks_run == []


def test_more_replications_run_only_the_missing_ones(tmp_path: Path, blocks_run: list[Any]) -> None:
    first = run(STUDY, tmp_path)
    before = blocks_run.copy()
    assert sum(count for _, count in before) == 2 * 40
    blocks_run.clear()
    more = run(with_replications(100), tmp_path)
    assert sum(count for _, count in blocks_run) == 2 * 60
    assert min(first for first, _ in blocks_run) == 40
    assert_same_results(more, run(with_replications(100)))
    assert_frame_equal(more.final.filter(pl.col("replication") < 40), first.final, check_exact=True)
    blocks_run.clear()
    assert_same_results(run(with_replications(1000), tmp_path), run(with_replications(1000)))
    blocks_run.clear()
    run(with_replications(1000), tmp_path)
    assert blocks_run == []


def test_an_interrupted_extension_resumes(tmp_path: Path, blocks_run: list[Any]) -> None:
    first = run(STUDY, tmp_path)
    with pytest.raises(KeyboardInterrupt):
        run(with_replications(100), tmp_path, threads=1, progress=interrupt_at(120))
    assert_same_results(entice.Result.load(tmp_path), first)  # the finished result is unchanged
    blocks_run.clear()
    # Resume with yet another number of replications.
    assert_same_results(run(with_replications(90), tmp_path), run(with_replications(90)))
    assert sum(count for _, count in blocks_run) < 2 * 90 + 2 * 50


def test_an_interrupted_study_may_be_extended(tmp_path: Path, blocks_run: list[Any]) -> None:
    with pytest.raises(KeyboardInterrupt):
        run(STUDY, tmp_path, threads=1, progress=interrupt_at(50))
    saved = replications_in(tmp_path)
    blocks_run.clear()
    more = run(with_replications(70), tmp_path)
    assert sum(count for _, count in blocks_run) == 2 * 70 - saved
    assert_same_results(more, run(with_replications(70)))


def test_a_crash_between_the_two_files_of_a_result_is_repaired(tmp_path: Path) -> None:
    run(STUDY, tmp_path)
    curves = (tmp_path / "curves.parquet").read_bytes()
    more = run(with_replications(60), tmp_path)
    (tmp_path / "curves.parquet").write_bytes(curves)  # of 40 replications, beside 60 in final
    with pytest.raises(entice.InputError, match="must hold a result"):
        entice.Result.load(tmp_path)
    assert_same_results(run(with_replications(60), tmp_path), more)


def test_a_study_that_becomes_large_resumes(
    tmp_path: Path, blocks_run: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """From some number of replications on, only digests are kept: here from 50 on."""
    monkeypatch.setattr(digest, "MIN_REPLICATIONS", 50)
    monkeypatch.setattr(digest, "MAX_BYTES", 0)
    small, large = with_replications(49), with_replications(100)
    assert not digest.is_large(small)
    assert digest.is_large(large)
    run(small, tmp_path)
    blocks_run.clear()
    more = run(large, tmp_path)
    assert sum(count for _, count in blocks_run) == 2 * 51
    assert_same_results(more, run(large))
    blocks_run.clear()
    most = run(with_replications(150), tmp_path)
    assert sum(count for _, count in blocks_run) == 2 * 50
    assert_same_results(most, run(with_replications(150)))
    assert not list(tmp_path.glob("blocks-*/*.parquet"))


def test_removed_blocks_are_reported_and_everything_is_run(
    tmp_path: Path, blocks_run: list[Any], capsys: Any
) -> None:
    run(STUDY, tmp_path)
    (folder,) = tmp_path.glob("blocks-*")
    BlockFolder(folder).remove()
    assert_same_results(run(STUDY, tmp_path), run(STUDY))  # loading the result needs no blocks
    blocks_run.clear()
    more = run(with_replications(60), tmp_path)
    assert sum(count for _, count in blocks_run) == 2 * 60
    assert "was removed: all replications are run" in capsys.readouterr().err
    assert_same_results(more, run(with_replications(60)))


def test_fewer_replications_are_rejected(tmp_path: Path) -> None:
    run(STUDY, tmp_path)
    with pytest.raises(entice.InputError, match="replications is 40 there and 30 here"):
        run(with_replications(30), tmp_path)


@pytest.mark.parametrize("change", [{"horizon": 600}, {"seed": 8}, {"checkpoints": 5}])
def test_other_changes_are_still_rejected(tmp_path: Path, change: dict[str, Any]) -> None:
    run(STUDY, tmp_path)
    with pytest.raises(entice.InputError, match="must be empty, or hold this study"):
        run(with_replications(60, **change), tmp_path)


def test_an_extension_keeps_the_drawn_seed(tmp_path: Path) -> None:
    first = run(with_replications(10, seed=None), tmp_path)
    more = run(with_replications(20, seed=None), tmp_path)
    assert more.study.seed == first.study.seed
    assert more.final.filter(pl.col("replication") < 10).equals(first.final)


def test_the_command_line_extends_a_study(
    run_entice: RunEntice, tmp_path: Path, blocks_run: list[Any]
) -> None:
    for replications in (40, 60):
        (tmp_path / "study.toml").write_text(with_replications(replications).to_toml())
        blocks_run.clear()
        done = run_entice("run", "study.toml", "--out", "out")
        assert done.code == 0, done.err
        assert f"After 500 rounds, {replications} runs" in done.out
    assert sum(count for _, count in blocks_run) == 2 * 20
    assert_same_results(entice.Result.load(tmp_path / "out"), run(with_replications(60)))


def test_gaps_between_finished_blocks_are_split() -> None:
    finished = [Block(0, 3, 4), Block(0, 8, 2), Block(1, 0, 10), Block(0, 5, 1), Block(0, 9, 5)]
    blocks = split([200] * 2, replications=12, size=4, finished=finished)
    assert blocks == [
        Block(0, 0, 3), Block(0, 3, 4), Block(0, 7, 1), Block(0, 8, 2), Block(0, 10, 2),
        Block(1, 0, 10), Block(1, 10, 2),
    ]  # fmt: skip
