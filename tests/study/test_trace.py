"""Traces: one replication, round by round, with displayed values."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

import entice
from entice.study import trace as traces

pytestmark = pytest.mark.usefixtures("plain")

STUDY = entice.Study(
    arms=entice.Gaussian([0.9, 0.6, 0.3]),
    policies=[entice.UCB(), entice.ThompsonSampling()],
    drifts=[entice.NoDrift(), entice.LinearDrift(1.1)],
    horizon=60,
    replications=3,
    seed=7,
    engine="generic",
)
DISPLAYED = ["displayed.0", "displayed.1", "displayed.2"]


def test_a_study_and_its_settings_give_the_same_trace() -> None:
    settings: dict[str, Any] = {name: getattr(STUDY, name) for name in STUDY.__struct_fields__}
    settings |= {"policies": [STUDY.policies[1]], "drifts": [STUDY.drifts[1]]}
    by_label = entice.trace(STUDY, policy="ThompsonSampling", drift="LinearDrift(1.1)")
    assert by_label.equals(entice.trace(**settings))
    assert by_label.equals(entice.trace(STUDY, policy=1, drift=1))
    assert not by_label.equals(entice.trace(STUDY, policy=1, drift=0))


def test_a_trace_equals_the_replication_of_the_study() -> None:
    final = entice.run(STUDY, progress=False).final
    for p, d, i in ((0, 1, 2), (1, 0, 1)):
        rounds = entice.trace(STUDY, policy=p, drift=d, replication=i)
        row = final.filter(policy_index=p, drift_index=d, replication=i).row(0, named=True)
        assert list(row["pulls"]) == [rounds["arm"].eq(k).sum() for k in range(3)]
        assert row["compensation"] == pytest.approx(rounds["payment"].sum(), rel=1e-12)


def test_payments_are_the_gaps_between_displayed_values() -> None:
    rounds = entice.trace(STUDY, policy="UCB", drift=1)
    assert rounds.columns[-3:] == DISPLAYED
    assert rounds.head(3).select(DISPLAYED).null_count().row(0) == (3, 3, 3)
    paid = rounds.filter(pl.col("payment") > 0)
    assert paid.height > 5
    for row in paid.iter_rows(named=True):
        shown = [row[name] for name in DISPLAYED]
        assert row["payment"] == max(shown) - shown[row["arm"]]
        assert shown.index(max(shown)) == row["greedy_arm"]


def test_a_trace_holds_the_corrected_values_that_were_displayed() -> None:
    rounds = entice.trace(
        arms=STUDY.arms,
        policies=[entice.DriftCorrectedThompson(display="corrected")],
        drifts=[entice.LinearDrift(3.0)],
        horizon=300,
        seed=1,
    )
    sums, pulls, corrected = [0.0] * 3, [0] * 3, 0
    for row in rounds.iter_rows(named=True):
        shown = [row[name] for name in DISPLAYED]
        if row["t"] > 3:
            averages = [s / n for s, n in zip(sums, pulls, strict=True)]
            corrected += shown != averages
            # Players choose by displayed values, not by averages.
            assert shown[row["greedy_arm"]] == max(shown)
        sums[row["arm"]] += row["feedback"]
        pulls[row["arm"]] += 1
    assert corrected > 100


def test_displayed_averages_may_be_omitted() -> None:
    with_them = entice.trace(STUDY, policy=0, drift=0)
    without = entice.trace(STUDY, policy=0, drift=0, displayed=False)
    assert without.equals(with_them.drop(DISPLAYED))


def test_a_trace_that_is_too_large_is_rejected_before_it_is_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    one = {"policy": 0, "drift": 0}
    monkeypatch.setattr(traces, "MAX_NUMBERS", 60 * 12)
    assert entice.trace(STUDY, **one).height == 60  # type: ignore[arg-type]
    monkeypatch.setattr(traces, "MAX_NUMBERS", 60 * 12 - 1)
    with pytest.raises(entice.InputError, match=r"at most 59 rounds .*; got 60.*displayed=False"):
        entice.trace(STUDY, **one)  # type: ignore[arg-type]
    assert entice.trace(STUDY, displayed=False, **one).height == 60  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"policy": 0}, r"drift must name one of 2\. Allowed: LinearDrift\(1.1\), NoDrift"),
        ({}, "policy must name one of 2"),
        ({"policy": "UBC", "drift": 0}, "policy must be a label; got 'UBC'"),
        ({"policy": 2, "drift": 0}, "policy must be a label, or a position from 0 to 1; got 2"),
        ({"policy": -1, "drift": 0}, "position from 0 to 1; got -1"),
        ({"policy": 0, "drift": 0, "replication": -1}, "replication must not be negative"),
        ({"policy": 0, "drift": 0, "horizon": 10}, "already has these settings; got 'horizon'"),
    ],
)
def test_a_trace_requires_one_run(options: dict[str, Any], message: str) -> None:
    with pytest.raises(entice.InputError, match=message):
        entice.trace(STUDY, **options)


def test_a_trace_requires_a_seed_and_a_study() -> None:
    with pytest.raises(entice.InputError, match="seed is required"):
        entice.trace(arms=STUDY.arms, policies=[entice.UCB()], horizon=10)
    with pytest.raises(entice.InputError, match="must be a Study; got 7"):
        entice.trace(7)  # type: ignore[arg-type]
