"""Settings in the frames of a result, and combined results."""

from __future__ import annotations

import copy
import json
import pickle
from pathlib import Path
from typing import Any

import msgspec
import polars as pl
import pytest
from polars.testing import assert_frame_equal

import entice
from entice.study.aggregation import aggregators
from entice.study.aggregation.statistics import statistics
from entice.study.results.result import Result
from entice.study.running import run as run_module

pytestmark = pytest.mark.usefixtures("plain")

SETTINGS = [
    "horizon", "seed", "policy.kind", "policy.count_in_flight", "policy.noise", "policy.c",
    "drift.kind", "drift.l", "drift.slopes",
]  # fmt: skip
STUDY = entice.Study(
    arms=entice.Gaussian([0.9, 0.5], names=["tea", "cocoa"]),
    policies=[entice.UCB(), entice.EpsilonGreedy(c=5)],
    drifts=[entice.LinearDrift(1.1), entice.ArmDrift([0.1, 0.2])],
    horizon=100,
    replications=4,
    seed=7,
    checkpoints=3,
    engine="generic",
)


def run(**changes: Any) -> Result:
    return entice.run(msgspec.structs.replace(STUDY, **changes), progress=False)


@pytest.fixture
def result() -> Result:
    return run()


def test_frames_contain_the_settings(result: Result) -> None:
    for frame in (result.final, result.curves, result.summary(), result.pulls_per_arm()):
        assert [name for name in frame.columns if name in SETTINGS] == SETTINGS
        assert frame.schema["horizon"] == frame.schema["seed"] == pl.Int64
        assert frame.schema["policy.count_in_flight"] == pl.Boolean
        assert frame.schema["policy.c"] == frame.schema["drift.l"] == pl.Float64
        cells = frame.select("policy", "drift", *SETTINGS).unique(maintain_order=True).rows()
        ucb, eps = ("ucb", False, 1.0, None), ("epsilon_greedy", None, None, 5.0)
        linear, per_arm = ("linear", 1.1, None), ("per_arm", None, [0.1, 0.2])
        assert cells == [
            ("UCB", "LinearDrift(1.1)", 100, 7, *ucb, *linear),
            ("UCB", "ArmDrift(0.1–0.2)", 100, 7, *ucb, *per_arm),
            ("EpsilonGreedy(c=5)", "LinearDrift(1.1)", 100, 7, *eps, *linear),
            ("EpsilonGreedy(c=5)", "ArmDrift(0.1–0.2)", 100, 7, *eps, *per_arm),
        ]


def test_parameters_filter_group_and_pivot(result: Result) -> None:
    found = result.final.filter(pl.col("drift.l") == 1.1)
    by_policy = found.group_by("policy.kind").agg(pl.col("regret").mean()).sort("policy.kind")
    summary = result.summary().filter(pl.col("drift.l") == 1.1, metric="regret")
    assert by_policy["regret"].to_list() == pytest.approx(
        summary.sort("policy.kind")["mean"].to_list()
    )


def test_pulls_per_arm_are_named(result: Result) -> None:
    pulls = result.pulls_per_arm()
    assert pulls.columns[:6] == ["policy", "drift", "arm", "arm_name", "true_mean", "mean"]
    cell = pulls.filter(policy_index=1, drift_index=0)
    assert cell.select("arm", "arm_name", "true_mean").rows() == [
        (0, "tea", 0.9),
        (1, "cocoa", 0.5),
    ]
    runs = result.final.filter(policy_index=1, drift_index=0)["pulls"].to_numpy()
    assert cell["mean"].to_list() == list(runs.mean(axis=0))
    assert cell["mean"].sum() == 100
    nameless = run(arms=entice.Gaussian([0.9, 0.5])).pulls_per_arm()
    assert nameless["arm_name"].null_count() == nameless.height
    assert nameless.drop("arm_name").equals(pulls.drop("arm_name"))


def test_stopped_runs_have_no_pulls() -> None:
    runaway = entice.simulate(
        arms=entice.Gaussian([0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1]), seed=7,
        policies=[entice.EpsilonGreedy(c=5)], drifts=[entice.LinearDrift(5.0)],
        horizon=20_000, replications=40, progress=False,
    )  # fmt: skip
    stopped = runaway.final["stopped"].is_not_null().sum()
    assert stopped > 0
    assert runaway.pulls_per_arm()["mean"].is_nan().all()


def test_results_of_old_versions_load_with_the_settings(result: Result, tmp_path: Path) -> None:
    """A result as version 0.1 wrote it at first: no settings, no names, no key of runs."""
    spec = json.loads(run(arms=entice.Gaussian([0.9, 0.5])).study.to_json())
    for entry in (spec["arms"], *spec["policies"], *spec["drifts"]):
        entry.pop("name", None)
        entry.pop("names", None)
    about = {"study": json.dumps(spec), "key": "0", "engines": ["fast", "fast"], "versions": {}}
    for name, frame in (("final", result.final), ("curves", result.curves)):
        old = frame.drop(SETTINGS)
        old.write_parquet(tmp_path / f"{name}.parquet", metadata={"entice": json.dumps(about)})
    loaded = Result.load(tmp_path)
    assert_frame_equal(loaded.final, result.final, check_exact=True)
    assert_frame_equal(loaded.curves, result.curves, check_exact=True)
    assert loaded.summary().equals(result.summary())


# --- Combined results -----------------------------------------------------------------------------


def test_results_of_several_studies_are_combined(result: Result, tmp_path: Path) -> None:
    longer, reseeded = run(horizon=200), run(seed=8)
    other = run(policies=[entice.ThompsonSampling()], drifts=[entice.NoDrift()], replications=2)
    whole = Result.concat([result, longer, reseeded, other])
    assert [part.study for part in whole.parts] == [
        r.study for r in (result, longer, reseeded, other)
    ]
    assert whole.final.height == 3 * result.final.height + 2
    studies = whole.final.select("study_index", "horizon", "seed").unique(maintain_order=True)
    assert studies.rows() == [(0, 100, 7), (1, 200, 7), (2, 100, 8), (3, 100, 7)]
    kept = whole.final.filter(study_index=1).select(longer.final.columns)
    assert_frame_equal(kept, longer.final, check_exact=True)
    assert whole.final.filter(study_index=3)["policy.scale"].to_list() == ["variance"] * 2
    assert whole.final.filter(study_index=0)["policy.scale"].null_count() == result.final.height
    assert (
        whole.curves.filter(study_index=2).select(reseeded.curves.columns).equals(reseeded.curves)
    )
    assert whole.summary().filter(study_index=3, metric="regret")["mean"].to_list() == (
        other.summary().filter(metric="regret")["mean"].to_list()
    )
    assert whole.pulls_per_arm().height == 3 * 8 + 2
    assert "4 studies" in repr(whole)
    assert str(whole).count("After 100 rounds") == 3


def test_combined_results_can_be_saved_and_combined_again(result: Result, tmp_path: Path) -> None:
    longer, reseeded = run(horizon=200), run(seed=8)
    whole = Result.concat(iter([Result.concat([result, longer]), reseeded]))
    assert len(whole.parts) == 3
    folder = whole.save(tmp_path / "several")
    assert sorted(p.name for p in folder.iterdir()) == [
        "horizon-100-seed-7", "horizon-100-seed-8", "horizon-200-seed-7",
    ]  # fmt: skip
    loaded = Result.load(folder)
    in_order = [part.study for part in loaded.parts]
    assert in_order == [result.study, reseeded.study, longer.study]
    assert_frame_equal(
        loaded.final, Result.concat([result, reseeded, longer]).final, check_exact=True
    )
    assert_frame_equal(
        pl.read_parquet(folder / "*" / "final.parquet").sort(
            pl.all().exclude("pulls", "drift.slopes")
        ),
        loaded.final.drop("study_index").sort(pl.all().exclude("pulls", "drift.slopes")),
    )
    with pytest.raises(
        entice.InputError, match=r"must not hold other results.*got 'horizon-100-seed-8'"
    ):
        Result.concat([result, longer]).save(folder)
    (tmp_path / "single").mkdir()
    result.save(tmp_path / "single")
    with pytest.raises(entice.InputError, match="must not hold the result of a single study"):
        whole.save(tmp_path / "single")


def test_studies_with_the_same_horizon_and_seed_are_numbered(
    result: Result, tmp_path: Path
) -> None:
    whole = Result.concat([result, run(policies=[entice.Greedy()])])
    folder = whole.save(tmp_path)
    assert sorted(p.name for p in folder.iterdir()) == ["study-0", "study-1"]
    assert_frame_equal(Result.load(folder).final, whole.final, check_exact=True)


def test_a_single_result_is_returned_unchanged(result: Result) -> None:
    assert Result.concat([result]) is result
    assert result.parts == (result,)


@pytest.mark.parametrize(
    ("others", "message"),
    [
        (lambda r: [], "must have at least one entry"),
        (lambda r: [r.final], r"results\[0\] must be a Result; got shape"),
        (lambda r: [r, r], "no run counts twice; got 'the same study with seed 7 at 0 and 1'"),
        (lambda r: [r, run(replications=2)], "no run counts twice"),
        (
            lambda r: [r, run(arms=entice.Gaussian([0.9, 0.5, 0.1]), drifts=[entice.NoDrift()])],
            r"same number of arms.*got '\[2, 3\] arms'",
        ),
    ],
)
def test_incompatible_results_are_rejected(result: Result, others: Any, message: str) -> None:
    with pytest.raises(entice.InputError, match=message):
        Result.concat(others(result))


@pytest.mark.parametrize("attribute", ["study", "engines", "plot"])
def test_attributes_of_one_study_raise_an_error(result: Result, attribute: str) -> None:
    whole = Result.concat([result, run(horizon=200)])
    with pytest.raises(
        entice.InputError, match=r"requires a result of one study, and this one has 2.*parts\[0\]"
    ):
        getattr(whole, attribute)()


def test_parameters_of_different_types_become_text() -> None:
    """A column with a number for one kind and a word for another holds text."""
    from entice.labels import _column

    assert _column([1, 2.5, None]).to_list() == [1.0, 2.5, None]
    assert _column([1, None]).dtype == pl.Int64
    assert _column([0.5, "estimated", None]).to_list() == ["0.5", "estimated", None]
    assert _column([None, None]).null_count() == 2


def test_curves_are_computed_when_first_read(monkeypatch: pytest.MonkeyPatch) -> None:
    computed: list[int] = []

    def counting(*parts: Any) -> Any:
        computed.append(len(parts))
        return statistics(*parts)

    monkeypatch.setattr(aggregators, "statistics", counting)
    first, second = (run() for _ in range(2))
    assert not computed
    expected = first.curves
    assert len(computed) == len(list(STUDY.cells()))
    assert first.curves is expected
    assert len(computed) == len(list(STUDY.cells()))
    for copied in (pickle.loads(pickle.dumps(second)), copy.deepcopy(second)):
        assert_frame_equal(copied.curves, expected)
        assert_frame_equal(copied.final, first.final)


def test_curves_of_large_studies_are_computed_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    computed: list[int] = []
    monkeypatch.setattr(run_module, "MAX_DEFERRED", 1)
    monkeypatch.setattr(
        aggregators, "statistics", lambda *parts: computed.append(1) or statistics(*parts)
    )
    run()
    assert len(computed) == len(list(STUDY.cells()))
