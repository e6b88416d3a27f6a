"""Invariants of every study, independent of its numbers."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numba
import numpy as np
import polars as pl
import pytest
from command_line import without_coverage
from forking import ForkedPopen
from plain_kernel import plain_kernel
from polars.testing import assert_frame_equal
from study_fixtures import HANG

import entice
from entice.engine.kernel import METRICS
from entice.study.results.table import format_number
from entice.study.running.run import StudyRun
from entice.study.running.threads import ThreadExecutor

MEANS = np.array([0.9, 0.6, 0.3])
POLICIES = [entice.UCB(), entice.EpsilonGreedy(c=5), entice.ThompsonSampling(), entice.Greedy()]
DRIFTS = [entice.NoDrift(), entice.LinearDrift(1.1)]


def simulate(**changes: Any) -> entice.Result:
    settings: dict[str, Any] = {
        "arms": entice.Gaussian(MEANS),
        "policies": POLICIES,
        "drifts": DRIFTS,
        "horizon": 500,
        "replications": 40,
        "seed": 7,
        "checkpoints": 10,
        "progress": False,
    }
    return entice.simulate(**settings | changes)


@pytest.fixture(scope="module")
def result() -> entice.Result:
    return simulate()


def test_final_has_the_documented_columns_and_rows(result: entice.Result) -> None:
    assert result.final.columns == [
        "policy", "drift", "policy_index", "drift_index", "replication", "regret", "compensation",
        "compensated_pulls", "total_drift", "best_arm_error", "pulls", "stopped", "horizon", "seed",
        "policy.kind", "policy.count_in_flight", "policy.noise", "policy.c", "policy.scale",
        "drift.kind", "drift.l",
    ]  # fmt: skip
    assert result.final["stopped"].null_count() == result.final.height
    assert result.final.height == len(POLICIES) * len(DRIFTS) * 40
    assert result.final["policy"].unique(maintain_order=True).to_list() == [
        "UCB", "EpsilonGreedy(c=5)", "ThompsonSampling", "Greedy",
    ]  # fmt: skip
    assert result.final["drift"].unique(maintain_order=True).to_list() == [
        "NoDrift",
        "LinearDrift(1.1)",
    ]


def test_pulls_sum_to_the_horizon_and_regret_is_gaps_times_pulls(result: entice.Result) -> None:
    pulls = result.final["pulls"].to_numpy()
    assert (pulls.sum(axis=1) == 500).all()
    np.testing.assert_allclose(result.final["regret"], pulls @ (0.9 - MEANS), rtol=1e-12)


def test_linear_drift_is_l_times_the_compensation(result: entice.Result) -> None:
    drifted = result.final.filter(drift_index=1)
    np.testing.assert_allclose(drifted["total_drift"], 1.1 * drifted["compensation"], rtol=1e-9)
    assert (result.final.filter(drift_index=0)["total_drift"] == 0).all()


def test_greedy_never_pays_and_others_do(result: entice.Result) -> None:
    paid = result.final.group_by("policy_index").agg(
        pl.col("compensation", "compensated_pulls").sum()
    )
    for index, compensation, pulls in paid.iter_rows():
        assert (compensation > 0) == (pulls > 0) == (index != 3)


@pytest.mark.usefixtures("plain")
def test_payments_are_never_negative_and_paid_rounds_are_those_off_the_greedy_arm() -> None:
    rounds = entice.trace(
        arms=entice.Gaussian(MEANS), policies=[entice.ThompsonSampling()],
        drifts=[entice.LinearDrift(1.1)], horizon=2000, seed=3,
    )  # fmt: skip
    paid = rounds["arm"] != rounds["greedy_arm"]
    assert (rounds["payment"] >= 0).all()
    assert ((rounds["payment"] > 0) == paid).all()
    assert ((rounds["drift"] > 0) == paid).all()
    assert 0 < paid.sum() < 2000


@pytest.mark.usefixtures("plain")
def test_feedback_stays_in_its_range() -> None:
    rounds = entice.trace(
        arms=entice.Gaussian(MEANS), policies=[entice.UCB()], drifts=[entice.LinearDrift(1.1)],
        horizon=300, seed=3, feedback_range=(0, 1),
    )  # fmt: skip
    assert rounds["feedback"].min() == 0.0
    assert rounds["feedback"].max() == 1.0


def test_curves_end_at_final_and_never_fall(result: entice.Result) -> None:
    assert result.curves["t"].unique().sort().to_list() == list(range(50, 501, 50))
    last = result.curves.filter(t=500).drop("t")
    assert_frame_equal(last, result.summary(), check_column_order=False)
    for metric in ("regret", "compensation", "compensated_pulls", "total_drift"):
        for (_, _), curve in result.curves.filter(metric=metric).group_by(
            "policy_index", "drift_index", maintain_order=True
        ):
            assert curve["q50"].is_sorted()


def test_the_summary_equals_numpy(result: entice.Result) -> None:
    regret = result.final.filter(policy_index=0, drift_index=1)["regret"].to_numpy()
    row = result.summary().row(
        by_predicate=(pl.col("policy_index") == 0)
        & (pl.col("drift_index") == 1)
        & (pl.col("metric") == "regret"),
        named=True,
    )
    assert row["mean"] == pytest.approx(regret.mean())
    assert row["stderr"] == pytest.approx(regret.std(ddof=1) / np.sqrt(40))
    assert row["q05"] == pytest.approx(np.quantile(regret, 0.05))
    assert row["q95"] == pytest.approx(np.quantile(regret, 0.95))


def test_the_standard_error_of_one_run_is_nan() -> None:
    summary = simulate(replications=1, policies=[entice.UCB()]).summary()
    assert summary["stderr"].is_nan().all()
    assert summary["mean"].is_finite().all()


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("block_size", [1, 7, 40, 1000])
def test_threads_and_blocks_change_no_number(
    result: entice.Result, threads: int, block_size: int
) -> None:
    again = StudyRun(result.study, ThreadExecutor(threads), block_size=block_size).run(
        lambda done, total: None
    )
    assert_frame_equal(again.final, result.final, check_exact=True)
    assert_frame_equal(again.curves, result.curves, check_exact=True)


def test_a_cell_does_not_depend_on_other_cells(result: entice.Result) -> None:
    alone = simulate(policies=[entice.ThompsonSampling()], drifts=[entice.LinearDrift(1.1)])
    among = result.final.filter(policy_index=2, drift_index=1)
    own = alone.final.drop("policy_index", "drift_index")
    assert_frame_equal(own, among.select(own.columns))


def test_fewer_replications_are_the_first_of_more(result: entice.Result) -> None:
    fewer = simulate(replications=10)
    assert_frame_equal(fewer.final, result.final.filter(pl.col("replication") < 10))


def test_another_seed_gives_other_numbers(result: entice.Result) -> None:
    assert simulate(seed=8).final["regret"].to_list() != result.final["regret"].to_list()


def test_without_a_seed_one_is_drawn_printed_and_recorded(capsys: Any) -> None:
    drawn = simulate(seed=None, policies=[entice.UCB()])
    assert f"seed {drawn.study.seed}" in capsys.readouterr().err
    assert simulate(seed=drawn.study.seed, policies=[entice.UCB()]).final.equals(drawn.final)


def test_saved_results_load_as_they_were(result: entice.Result, tmp_path: Path) -> None:
    loaded = entice.Result.load(result.save(tmp_path / "new" / "folder"))
    assert_frame_equal(loaded.final, result.final, check_exact=True)
    assert_frame_equal(loaded.curves, result.curves, check_exact=True)
    assert loaded.study == result.study
    assert sorted(p.name for p in (tmp_path / "new" / "folder").iterdir()) == [
        "curves.parquet",
        "final.parquet",
    ]


def test_a_result_loads_without_its_functions(tmp_path: Path) -> None:
    nameless = entice.CustomDrift(lambda payment, t, arm, params: params[0] * payment, params=[2])
    with plain_kernel():
        result = simulate(
            policies=[entice.UCB()], drifts=[nameless], engine="generic", replications=4
        )
    loaded = entice.Result.load(result.save(tmp_path))
    assert_frame_equal(loaded.summary(), result.summary())
    assert loaded.study.drifts[0].label == "<lambda>(2)"
    with pytest.raises(entice.EnticeError, match="was not found when this study was read"):
        entice.run(loaded.study, progress=False)


def test_a_folder_without_a_result_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(entice.InputError, match="must hold a result"):
        entice.Result.load(tmp_path)


def test_a_result_that_cannot_be_saved_is_reported(result: entice.Result, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(entice.InputError, match="must be writable"):
        result.save(tmp_path / "file" / "below")


def test_progress_is_reported_to_the_end() -> None:
    seen: list[tuple[int, int]] = []
    simulate(progress=lambda done, total: seen.append((done, total)))
    assert seen[0] == (0, 320)
    assert seen[-1] == (320, 320)
    assert seen == sorted(seen)


def test_progress_true_draws_a_bar(capsys: Any) -> None:
    simulate(progress=True, policies=[entice.UCB()])
    assert "Simulating" in capsys.readouterr().err


@numba.njit
def writes_far(memory):  # type: ignore[no-untyped-def]
    memory[3] = 7.0


def faulty(t, pulls, means, memory, params, rng):  # type: ignore[no-untyped-def]
    """Policies with different faults, compiled together; `params` selects the fault."""
    fault = params[0]
    if fault == 0 and t == 333:
        return -1
    if fault == 1:
        return int(memory[3])
    if fault == 2:
        writes_far(memory)
    if fault == 3:
        means[2] = 9.0
    if fault == 4:
        return 99
    return 0


def with_fault(fault: int, name: str) -> entice.CustomPolicy:
    return entice.CustomPolicy(faulty, memory=1, params=[fault], name=name)


@pytest.mark.parametrize(
    ("fault", "name", "message"),
    [
        (0, "late_fault", r"late_fault selected arm -1 in round 333 of .*numbered 0 to 2"),
        (1, "forgetful", r"out of bounds .*\. Are memory, memory_per_arm"),
        (2, "helper compiled by the user", r"out of bounds .*\. Are memory, memory_per_arm"),
        (3, "flatterer", "flatterer modified `pulls` or `means`"),
    ],
)
def test_a_faulty_policy_stops_the_study(fault: int, name: str, message: str) -> None:
    with pytest.raises(entice.StudyError, match=message):
        simulate(policies=[with_fault(fault, name)], drifts=DRIFTS[1:])


def test_a_policy_may_call_plain_helpers() -> None:
    def turns(t, pulls, means, memory, params, rng):  # type: ignore[no-untyped-def]
        return modulo(t, len(pulls))

    rounds = entice.trace(
        arms=entice.Gaussian(MEANS), policies=[entice.CustomPolicy(turns)], horizon=9, seed=1,
        cold_start="prior",
    )  # fmt: skip
    assert rounds["arm"].to_list() == [1, 2, 0] * 3


def modulo(t, arms):  # type: ignore[no-untyped-def]
    return below(t, arms) if t < arms else modulo_of(t - arms, arms)


def below(t, arms):  # type: ignore[no-untyped-def]
    return t


def modulo_of(t, arms):  # type: ignore[no-untyped-def]
    while t >= arms:
        t -= arms
    return t


def test_printing_a_result_prints_its_table(result: entice.Result) -> None:
    text = str(result)
    assert "UCB" in text
    assert "LinearDrift(1.1)" in text
    mean = result.summary().filter(metric="regret", policy_index=0, drift_index=1)["mean"].item()
    assert f"{format_number(mean)} ± " in text


def test_an_error_in_one_cell_stops_the_others_soon() -> None:
    seen: list[int] = []
    with pytest.raises(entice.StudyError, match="selected arm 99"):
        simulate(
            policies=[with_fault(4, "out of range"), *POLICIES],
            drifts=DRIFTS[1:],
            horizon=200_000,
            replications=400,
            progress=lambda done, total: seen.append(done),
        )
    assert max(seen) < 400


def test_a_best_mean_of_zero_has_no_relative_error() -> None:
    result = simulate(arms=entice.Gaussian([0.0, -0.5]), policies=[entice.UCB()])
    assert result.final["best_arm_error"].is_nan().all()
    assert result.final["regret"].is_finite().all()


@pytest.mark.usefixtures("plain")
def test_a_cold_start_with_a_prior_pays_for_unrated_arms() -> None:
    def second(t, pulls, means, memory, params, rng):  # type: ignore[no-untyped-def]
        return 1 if pulls[0] > 0 else 0

    rounds = entice.trace(
        arms=entice.Gaussian([5.0, 1.0], std=0.0), policies=[entice.CustomPolicy(second)],
        horizon=2, seed=1, cold_start="prior", prior=0.5,
    )  # fmt: skip
    assert rounds.rows() == [
        (1, 0, 0, 0.0, 0.0, 5.0, 0.5, 0.5),
        (2, 1, 0, 4.5, 0.0, 1.0, 5.0, 0.5),
    ]


@pytest.mark.usefixtures("plain")
def test_memory_starts_at_zero_and_update_receives_every_round() -> None:
    """Replay in plain Python a policy that decides by everything that `update` receives."""
    settings: dict[str, Any] = {
        "arms": entice.Gaussian(MEANS),
        "policies": [entice.CustomPolicy(by_memory, update=remember, memory=3)],
        "drifts": [entice.LinearDrift(1.1)],
        "horizon": 300,
        "seed": 7,
        "cold_start": "prior",
    }
    final = entice.simulate(**settings, replications=2, progress=False).final
    for replication in (0, 1):
        rounds = entice.trace(**settings, replication=replication)
        memory = [0.0, 0.0, 0.0]
        for row in rounds.iter_rows(named=True):
            assert row["arm"] == by_memory(row["t"], [0, 0, 0], None, memory, (), None)
            remember(memory, (), row["arm"], row["payment"], row["feedback"])
        assert rounds["payment"].sum() > 0
        assert rounds["arm"].n_unique() == 3
        pulls = [rounds["arm"].eq(i).sum() for i in range(3)]
        assert list(final["pulls"][replication]) == pulls


def by_memory(t, pulls, means, memory, params, rng):  # type: ignore[no-untyped-def]
    return int(abs(memory[0]) * 10 + abs(memory[1]) * 100 + memory[2]) % len(pulls)


def remember(memory, params, arm, payment, feedback):  # type: ignore[no-untyped-def]
    memory[0] += feedback
    memory[1] += payment
    memory[2] = arm


def test_checkpoints_hold_the_metrics_after_their_round() -> None:
    settings: dict[str, Any] = {
        "arms": entice.Gaussian(MEANS),
        "policies": [entice.UCB()],
        "drifts": [entice.LinearDrift(1.1)],
        "horizon": 400,
        "seed": 7,
        "engine": "generic",
    }
    checkpoints = [1, 3, 4, 77, 399, 400]
    curves = simulate(**settings, replications=1, checkpoints=checkpoints).curves
    with plain_kernel():
        rounds = entice.trace(**settings)
    for t in checkpoints:
        before = rounds.filter(pl.col("t") <= t)
        best = before.filter(arm=0)["feedback"]
        expected = {
            "regret": sum(0.9 - MEANS[arm] for arm in before["arm"]),
            "compensation": before["payment"].sum(),
            "compensated_pulls": (before["arm"] != before["greedy_arm"]).sum(),
            "total_drift": before["drift"].sum(),
            "best_arm_error": abs(best.mean() - 0.9) / 0.9,
        }
        found = dict(curves.filter(t=t).select("metric", "mean").iter_rows())
        assert found == pytest.approx(expected, rel=1e-9, abs=1e-12)


def test_plots_have_a_panel_for_each_drift_and_a_line_for_each_policy(
    result: entice.Result, tmp_path: Path
) -> None:
    for metric in METRICS:
        figure = result.plot(metric)
        panels = [ax for ax in figure.axes if ax.get_visible()]
        assert [ax.get_title(loc="left") for ax in panels] == ["NoDrift", "LinearDrift(1.1)"]
        for ax in panels:
            assert [line.get_label() for line in ax.lines] == [p.label for p in POLICIES]
            curve = result.curves.filter(policy_index=0, drift_index=0, metric=metric)["q50"]
            assert len(ax.lines[0].get_xdata()) == len(curve)
    figure.savefig(tmp_path / "figure.png")
    assert (tmp_path / "figure.png").stat().st_size > 10_000


def test_an_unknown_metric_is_rejected(result: entice.Result) -> None:
    with pytest.raises(entice.InputError, match="Did you mean 'regret'"):
        result.plot("regrets")


def test_the_repr_of_a_result_describes_it(result: entice.Result) -> None:
    assert repr(result) == "<Result: 8 cells × 40 replications × 500 rounds, seed 7>"


@pytest.mark.parametrize("engine", ["auto", "generic"])
def test_ctrl_c_ends_a_run_in_the_middle_of_a_block(engine: str) -> None:
    script = f"""
import entice
entice.simulate(
    arms=entice.Gaussian([0.9, 0.8]), policies=[entice.EpsilonGreedy(c=1)], horizon=10**10,
    drifts=[entice.LinearDrift(1e6)], replications=10**5, seed=1, checkpoints=1, engine={engine!r},
    progress=lambda done, total: print(done, flush=True))
"""
    with ForkedPopen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env=without_coverage(),
    ) as process:  # fmt: skip
        assert process.stdout is not None
        assert process.stdout.readline() == "0\n"  # compiled, and running
        time.sleep(0.2)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=HANG)
    assert process.returncode != 0
    assert errors.rstrip().endswith("KeyboardInterrupt")
