"""Large studies: digests of blocks give the same result for any split and order."""

from __future__ import annotations

import functools
import itertools
import json
import math
import random
import sys
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import polars as pl
import pytest
from forking import run_forked
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from polars.testing import assert_frame_equal
from sizes import sized
from study_fixtures import assert_same_files, interrupt_at

import entice
from entice.engine.kernel import METRICS
from entice.study.aggregation.aggregators import StreamingAggregator
from entice.study.aggregation.block_digest import BlockDigest, digest, is_large, is_on_disk
from entice.study.aggregation.histogram import ACCURACY, Histogram, count_buckets
from entice.study.aggregation.moments import Moments, moment_nodes
from entice.study.aggregation.statistics import QUANTILES, statistics
from entice.study.blocks import Block
from entice.study.run_arrays import RunArrays
from entice.study.running.cell import Cell
from entice.study.running.output_folder import run_in_folder
from entice.study.running.run import StudyRun
from entice.study.running.threads import ThreadExecutor

STUDY = entice.Study(
    arms=entice.Gaussian([0.9, 0.5, 0.1]),
    policies=[entice.UCB(), entice.EpsilonGreedy(c=5)],
    drifts=[entice.LinearDrift(1.1)],
    horizon=100,
    replications=300,
    seed=7,
    checkpoints=10,
)


@pytest.fixture
def large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Treat every study as large, and reduce its blocks in parts."""
    monkeypatch.setattr("entice.study.aggregation.block_digest.MAX_BYTES", 0)
    monkeypatch.setattr("entice.study.aggregation.block_digest.MIN_REPLICATIONS", 0)
    monkeypatch.setattr(
        "entice.study.running.block_runner._CHUNK_BYTES", 20 * 10 * len(METRICS) * 8
    )


def silent(done: int, total: int) -> None:
    pass


def test_a_study_is_large_when_a_cell_of_it_is() -> None:
    most = msgspec.structs.replace(STUDY, horizon=200, checkpoints=200, replications=16_777)
    assert not is_large(most)
    assert is_large(msgspec.structs.replace(most, replications=16_778))
    assert not is_large(msgspec.structs.replace(most, replications=16_778, checkpoints=199))
    # With few runs, a digest is no smaller than all numbers.
    long = msgspec.structs.replace(most, horizon=10**6, checkpoints=10**6)
    assert not is_large(msgspec.structs.replace(long, replications=4_095))
    assert is_large(msgspec.structs.replace(long, replications=4_096))


def test_last_rounds_are_on_disk_when_those_of_all_cells_are_many() -> None:
    fits = msgspec.structs.replace(STUDY, checkpoints=1, replications=838_860)
    assert not is_on_disk(fits)
    many = msgspec.structs.replace(fits, replications=838_861)
    assert is_on_disk(many)
    assert not is_large(many)
    assert is_on_disk(msgspec.structs.replace(fits, drifts=[entice.NoDrift()] * 2))


# Means and errors


def moments_of(values: Any, splits: list[int], order: random.Random) -> tuple[Any, Any]:
    """Aggregate values that are split into parts and arrive in some order."""
    edges = sorted({0, len(values), *splits})
    parts = [moment_nodes(a, values[a:b]) for a, b in itertools.pairwise(edges)]
    order.shuffle(parts)
    tree = Moments()
    for part in parts:
        tree.add(part)
    return tree.mean_and_error()


@given(st.integers(1, 300), st.lists(st.integers(0, 300), max_size=12), st.randoms())
@settings(deadline=None, max_examples=60)
def test_means_do_not_depend_on_splits_and_order(
    count: int, splits: list[int], order: random.Random
) -> None:
    values = np.random.default_rng(count).lognormal(0, 5, (count, 3, 2))
    in_parts = moments_of(values, [s for s in splits if s < count], order)
    whole = moments_of(values, [], order)
    assert_array_equal(in_parts[0], whole[0])
    assert_array_equal(in_parts[1], whole[1])


def test_means_and_errors_equal_those_of_the_values() -> None:
    values = np.random.default_rng(7).normal(1e6, 1, (1000, 4))  # far from 0, close together
    mean, error = moments_of(values, [], random.Random(1))
    np.testing.assert_allclose(mean, values.mean(axis=0), rtol=1e-14)
    np.testing.assert_allclose(error, values.std(axis=0, ddof=1) / math.sqrt(1000), rtol=1e-9)


def test_one_replication_has_no_error_and_a_stopped_one_no_mean() -> None:
    mean, error = moments_of(np.array([[3.0]]), [], random.Random(1))
    assert mean == [3.0]
    assert np.isnan(error).all()
    mean, error = moments_of(np.array([[3.0], [np.nan], [4.0]]), [], random.Random(1))
    assert np.isnan(mean).all()
    assert np.isnan(error).all()


# Quantiles


def quantiles_of(values: Any, parts: int) -> Any:
    histogram = Histogram(values[0].size)
    for part in np.array_split(values, parts):
        histogram.add(count_buckets(part))
    return histogram.quantiles(np.array(list(QUANTILES.values())))


def exact(values: Any) -> Any:
    found = statistics(values.reshape(len(values), -1))
    return np.stack([found[name] for name in QUANTILES])


@pytest.mark.parametrize(
    "draw",
    [
        lambda rng, shape: rng.lognormal(3, 2, shape),
        lambda rng, shape: rng.normal(0, 1, shape),
        lambda rng, shape: rng.integers(0, 40, shape).astype(float),
        lambda rng, shape: rng.standard_cauchy(shape) * 1e-9,
        lambda rng, shape: rng.exponential(1e30, shape),
    ],
    ids=["lognormal", "both signs", "counts", "tiny", "huge"],
)
@pytest.mark.parametrize("count", [1, 2, 20, 1999])
def test_quantiles_are_as_accurate_as_stated(draw: Any, count: int) -> None:
    values = draw(np.random.default_rng(count), (count, 7))
    found, wanted = quantiles_of(values, min(count, 5)), exact(values)
    # Between two ranks of different sign the quantile may be far smaller than either.
    ranked = np.sort(np.abs(values), axis=0)
    between = np.maximum(np.abs(wanted), ranked[0])
    neighbours = [np.sort(values, axis=0)[_ranks(count, step)] for step in (0, 1)]
    limit = ACCURACY * np.maximum(between, np.maximum(*map(np.abs, neighbours)))
    assert (np.abs(found - wanted) <= limit + 1e-12).all()


def _ranks(count: int, step: int) -> Any:
    below = np.floor(np.array(list(QUANTILES.values())) * (count - 1)).astype(int)
    return np.minimum(below + step, count - 1)


def test_quantiles_do_not_depend_on_splits() -> None:
    values = np.random.default_rng(3).normal(0, 5, (500, 4))
    for parts in (2, 7, 500):
        assert_array_equal(quantiles_of(values, parts), quantiles_of(values, 1))


def test_stopped_runs_count_as_the_largest_in_quantiles() -> None:
    values = np.full((20, 1), 8.0)
    values[:3] = np.nan
    found = quantiles_of(values, 3)[:, 0]
    assert found[0] == pytest.approx(8, rel=ACCURACY)
    assert np.isnan(found[-1])
    assert_array_equal(np.isnan(found), np.isnan(exact(values)[:, 0]))


def test_quantiles_of_equal_values_are_exact() -> None:
    assert_array_equal(quantiles_of(np.zeros((9, 2)), 2), 0)
    assert_array_equal(quantiles_of(np.full((9, 2), 1e-15), 2), 0)
    assert_array_equal(quantiles_of(np.full((9, 2), -np.inf), 2), -np.inf)
    assert_array_equal(quantiles_of(np.full((9, 2), 1e39), 2), np.inf)


# Whole studies


FEWER = msgspec.structs.replace(STUDY, replications=sized(100, 300))


@functools.cache
def by_one_thread() -> entice.Result:
    return StudyRun(FEWER, ThreadExecutor(1)).run(silent)


@pytest.mark.usefixtures("large")
@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("block_size", [1, 7, 64, 1000])  # the last is larger than the study
def test_threads_and_blocks_change_no_number_of_a_large_study(
    threads: int, block_size: int
) -> None:
    expected = by_one_thread()
    found = StudyRun(FEWER, ThreadExecutor(threads), block_size=block_size).run(silent)
    assert_frame_equal(found.curves, expected.curves, check_exact=True)
    assert_frame_equal(found.final, expected.final, check_exact=True)


def test_a_large_study_equals_a_small_one(monkeypatch: pytest.MonkeyPatch) -> None:
    small = entice.run(STUDY, progress=False)
    monkeypatch.setattr("entice.study.aggregation.block_digest.MAX_BYTES", 0)
    on_disk = entice.run(STUDY, progress=False)
    assert isinstance(on_disk._final, Path)
    assert_frame_equal(on_disk.final, small.final, check_exact=True)
    assert_frame_equal(on_disk.curves, small.curves, check_exact=True)
    monkeypatch.setattr("entice.study.aggregation.block_digest.MIN_REPLICATIONS", 0)
    large = entice.run(STUDY, progress=False)
    assert_frame_equal(large.final, small.final, check_exact=True)
    assert_frame_equal(large.summary(), small.summary(), check_exact=True)
    assert_frame_equal(
        large.curves.drop(QUANTILES), small.curves.drop(QUANTILES), abs_tol=0, rel_tol=1e-12
    )
    for name in QUANTILES:
        wanted = small.curves[name].to_numpy()
        off = np.abs(large.curves[name].to_numpy() - wanted)
        # Ranks are interpolated: the larger of two neighbours may be some times the quantile.
        assert (off <= 2 * ACCURACY * np.abs(wanted) + 1e-3).all()


@pytest.mark.usefixtures("large")
def test_a_large_study_is_saved_resumes_and_loads(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        run_in_folder(STUDY, tmp_path / "cut", progress=interrupt_at(300))
    assert list((tmp_path / "cut").glob("blocks-*/*.npz"))
    cut = run_in_folder(STUDY, tmp_path / "cut", progress=False)
    whole = run_in_folder(STUDY, tmp_path / "whole", progress=False)
    assert_same_files(tmp_path / "cut", tmp_path / "whole")
    names = {path.name for path in (tmp_path / "cut").iterdir() if path.is_file()}
    assert names == {"as_run.toml", "curves.parquet", "final.parquet"}
    read = entice.Result.load(tmp_path / "cut")
    assert_frame_equal(read.final, whole.final, check_exact=True)
    assert_frame_equal(read.summary(), cut.summary(), check_exact=True)
    assert entice.Result.load(read.save(tmp_path / "copy")).final.equals(whole.final)


@pytest.mark.usefixtures("large", "plain")
def test_a_large_result_can_be_copied_without_its_functions(tmp_path: Path) -> None:
    nameless = entice.CustomDrift(lambda payment, t, arm, params: 2 * payment)
    study = msgspec.structs.replace(
        STUDY, policies=[entice.Greedy()], drifts=[nameless], engine="generic", replications=20
    )
    result = run_in_folder(study, tmp_path / "made", progress=False)
    copy = entice.Result.load(tmp_path / "made").save(tmp_path / "copy")
    assert_frame_equal(entice.Result.load(copy).summary(), result.summary(), check_exact=True)


@pytest.mark.usefixtures("large")
def test_a_disk_that_fills_up_at_the_end_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise pl.exceptions.ComputeError("No space left on device (os error 28)")

    monkeypatch.setattr(pl.LazyFrame, "sink_parquet", full)
    with pytest.raises(entice.StudyError, match="No space left on device"):
        run_in_folder(STUDY, tmp_path, progress=False)
    monkeypatch.undo()
    monkeypatch.setattr(pl.DataFrame, "write_parquet", full)
    with pytest.raises(entice.InputError, match=r"must be writable .*No space left on device"):
        entice.run(STUDY, progress=False).save(tmp_path / "copy")


@pytest.mark.usefixtures("large")
def test_the_last_rounds_of_a_large_study_stay_on_disk_as_long_as_its_result() -> None:
    result = entice.run(STUDY, progress=False)
    path = result._final
    assert isinstance(path, Path)
    assert path.exists()
    assert [file.name for file in path.parent.iterdir()] == ["final.parquet"]
    del result
    assert not path.parent.exists()


@pytest.mark.usefixtures("large")
def test_runaways_of_a_large_study_are_reported(capsys: pytest.CaptureFixture[str]) -> None:
    result = entice.simulate(
        arms=entice.Gaussian([0.9, 0.7, 0.5, 0.3, 0.1]),
        policies=[entice.EpsilonGreedy(c=5)],
        drifts=[entice.LinearDrift(8.0)],
        horizon=20_000,
        replications=50,
        seed=7,
        progress=False,
    )
    stopped = result.final["stopped"].drop_nulls()
    errors = capsys.readouterr().err
    assert stopped.len() > 0
    assert f"without bound in {stopped.len()} of 50 runs" in errors
    assert f"in round {min(stopped):,}" in errors


def test_a_digest_of_another_shape_is_rejected() -> None:
    def block_digest(replications: int, rounds: int) -> BlockDigest:
        study = msgspec.structs.replace(STUDY, checkpoints=rounds)
        arrays = Cell(study, study.policies[0], study.drifts[0], np.zeros(1, np.int64)).allocate(
            replications
        )
        arrays.metrics[...] = 1.0
        return digest([(0, arrays)])

    aggregator = StreamingAggregator(STUDY)
    assert aggregator.add(Block(0, 0, 4), block_digest(4, 10))
    assert not aggregator.add(Block(0, 4, 4), block_digest(4, 5))
    assert not aggregator.add(Block(0, 4, 4), block_digest(3, 10))


def test_the_digest_of_a_block_does_not_depend_on_its_parts() -> None:
    rng = np.random.default_rng(5)
    values, counts = rng.lognormal(0, 3, (50, 10, 5)), rng.integers(0, 9, (50, 3))
    arrays = RunArrays(values, counts, np.zeros(50, dtype=np.int64))
    whole = digest([(14, arrays)])
    parts = digest((14 + first, arrays.rows(first, 7)) for first in range(0, 50, 7))
    for one, other in zip(whole, parts, strict=True):
        assert one.dtype == other.dtype
        assert_array_equal(one, other)


# The peak that `resource` reports is at least that of the process that started this one.
MEASURE = """
import json, re, sys, entice
for horizon, checkpoints, replications, cells in json.loads(sys.argv[1]):
    entice.run(entice.Study(
        arms=entice.Gaussian([0.9, 0.5, 0.1]), policies=[entice.Greedy()] * cells, horizon=horizon,
        checkpoints=checkpoints, replications=replications, seed=7), progress=False, threads=1)
    print(int(re.search("VmHWM: *(.*) kB", open("/proc/self/status").read())[1]) // 1024)
"""


@pytest.mark.parametrize(
    ("small", "large"),
    [
        # 160 MB of metrics and 480 MB, or 1,280 MB
        ((200, 200, 20_000, 1), (200, 200, sized(60_000, 160_000), 1)),
        ((3, 1, 430_000, 4), (3, 1, 430_000, 10)),  # 138 and 344 MB of last rounds
        ((8_000, 8_000, 400, 1), (8_000, 8_000, 500, 1)),  # few runs: 128 and 160 MB
    ],
    ids=["runs", "cells", "checkpoints"],
)
def test_memory_stays_flat(small: tuple[int, ...], large: tuple[int, ...]) -> None:
    """The peak memory, in MB, of a process that runs a small study and then a large one."""
    done = run_forked(sys.executable, "-c", MEASURE, json.dumps([small, large]))
    before, after = map(int, done.out.split())
    assert after - before < 150
