"""`Result.compare`: pairing, intervals and their coverage, messages, and the printed forms."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache

import numpy as np
import polars as pl
import pytest
from msgspec.structs import replace

import entice
from entice.study.results.bootstrap import Bootstrap, Floats
from entice.study.results.comparison import Comparison

STUDY = entice.Study(
    arms=entice.Gaussian([0.9, 0.6, 0.3]),
    policies=[entice.UCB(), entice.EpsilonGreedy(c=5, name="ε-greedy"), entice.UCB(name="twin")],
    drifts=[entice.NoDrift(), entice.LinearDrift(1.1)],
    horizon=500,
    replications=60,
    seed=7,
    checkpoints=1,
)


@cache
def ran(replications: int = 60, seed: int = 7) -> entice.Result:
    return entice.run(replace(STUDY, replications=replications, seed=seed), progress=False)


def values(result: entice.Result, policy: str, drift: str) -> Floats:
    return result.final.filter(policy=policy, drift=drift)["regret"].to_numpy()


# Means, pairs and the probability of improvement


def test_differences_are_those_of_the_runs() -> None:
    found = ran().compare("UCB", "ε-greedy").table
    assert (
        found["a_drift"].to_list() == ["NoDrift", "LinearDrift(1.1)"] == found["b_drift"].to_list()
    )
    for row in found.iter_rows(named=True):
        a, b = (values(ran(), policy, row["a_drift"]) for policy in ("UCB", "ε-greedy"))
        assert (row["paired"], row["a_runs"], row["b_runs"]) == (True, 60, 60)
        assert row["difference"] == pytest.approx((a - b).mean())
        assert row["correlation"] == pytest.approx(np.corrcoef(a, b)[0, 1])
        assert row["low"] < row["difference"] < row["high"]
        pairs = [(x < y) + (x == y) / 2 for x in a for y in b]
        assert row["improvement"] == pytest.approx(np.mean(pairs))
        assert row["improvement_low"] < row["improvement"] < row["improvement_high"]


def test_paired_intervals_use_the_correlation() -> None:
    """Pairs whose values differ by little: the interval is that of the small differences."""
    rng = np.random.default_rng(3)
    a = rng.exponential(100.0, 50)
    b = a + rng.normal(1.0, 0.1, 50)
    paired, unpaired = (
        Bootstrap(a, b, paired=paired, resamples=500, seed=1).difference(0.95)
        for paired in (True, False)
    )
    assert paired.value == unpaired.value
    assert paired.high - paired.low < 0.1 < 20 < unpaired.high - unpaired.low


def test_equal_runs_have_no_difference() -> None:
    """Two policies with the same spec draw the same streams: run by run the same numbers."""
    (row, _) = ran().compare("UCB", "twin").table.iter_rows(named=True)
    assert (row["difference"], row["low"], row["high"]) == (0.0, 0.0, 0.0)
    assert row["correlation"] == pytest.approx(1.0)
    assert row["improvement"] == pytest.approx(0.5)


def test_a_study_with_more_runs_is_compared_on_the_common_ones() -> None:
    whole, longer = (
        ran().compare("UCB", "ε-greedy"),
        ran().compare("UCB", "ε-greedy", other=ran(80)),
    )
    assert longer.table.equals(whole.table)
    assert ran(80).compare("UCB", "ε-greedy", other=ran()).table.equals(whole.table)


def test_different_seeds_are_unpaired_and_use_all_runs() -> None:
    found = ran().compare("UCB", "UCB", other=ran(80, seed=8))
    row = found.table.row(0, named=True)
    assert (row["paired"], row["a_runs"], row["b_runs"]) == (False, 60, 80)
    assert row["correlation"] is None
    expected = values(ran(), "UCB", "NoDrift").mean() - values(ran(80, 8), "UCB", "NoDrift").mean()
    assert row["difference"] == pytest.approx(expected)
    assert found.notes() == ["Unpaired, because the seeds differ: 60 and 80 independent runs."]


def test_other_engines_are_paired_by_replication() -> None:
    """Both engines seed the streams alike, so their runs are not independent."""
    alone = replace(STUDY, policies=STUDY.policies[:1], engine="generic")
    found = ran().compare("UCB", "UCB", other=entice.run(alone, progress=False)).table
    assert len(found) == 2
    assert found["paired"].all()
    assert (found["difference"] != 0).all()


def test_two_drifts_of_one_policy_are_compared_as_cells() -> None:
    found = ran().compare(("UCB", "NoDrift"), (0, 1))
    row = found.table.row(0, named=True)
    assert len(found.table) == 1
    assert (row["a_drift"], row["b_drift"]) == ("NoDrift", "LinearDrift(1.1)")
    assert row["difference"] < 0
    assert "Regret of UCB with NoDrift minus that of UCB with LinearDrift(1.1)" in str(found)


def test_stopped_runs_count_as_the_largest_value() -> None:
    arms = entice.Gaussian([0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1])
    result = entice.simulate(
        arms=arms, policies=STUDY.policies[:2], drifts=[entice.LinearDrift(10.0)], horizon=500,
        replications=20, seed=7, checkpoints=1, progress=False,
    )  # fmt: skip
    found = result.compare("UCB", "ε-greedy")
    row = found.table.row(0, named=True)
    stopped = result.final.filter(policy="ε-greedy")["stopped"].is_not_null().sum()
    assert row["stopped"] == stopped > 0
    assert math.isnan(row["difference"])
    a, b = (result.final.filter(policy=p)["regret"].fill_nan(np.inf) for p in ("UCB", "ε-greedy"))
    assert row["improvement"] == pytest.approx(np.mean([x < y for x in a for y in b]))
    assert f"{stopped:,} runs were stopped" in str(found)


def test_repeated_comparisons_are_equal() -> None:
    one, two = (ran().compare("UCB", "ε-greedy", confidence=0.9).table for _ in range(2))
    assert one.equals(two)
    wider = ran().compare("UCB", "ε-greedy", confidence=0.99).table
    assert (wider["high"] - wider["low"] > one["high"] - one["low"]).all()


def test_resamples_do_not_depend_on_the_size_of_a_step(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = ran().compare("UCB", "ε-greedy").table
    monkeypatch.setattr("entice.study.results.bootstrap._NUMBERS_AT_ONCE", 6_000)
    in_steps = ran().compare("UCB", "ε-greedy").table
    numbers = pl.selectors.float()
    assert np.allclose(whole.select(numbers), in_steps.select(numbers), rtol=1e-12)


# Coverage

SAMPLES = 250
SKEWED: dict[str, Callable[[np.random.Generator, int], Floats]] = {
    "lognormal, skewness 2.3": lambda rng, n: np.exp(rng.normal(0.0, 0.6, n)),
    "stuck in 15 % of runs": lambda rng, n: rng.normal(1.0, 0.3, n) + 10 * (rng.random(n) < 0.15),
}
MEAN = {"lognormal, skewness 2.3": math.exp(0.18), "stuck in 15 % of runs": 2.5}


@pytest.mark.parametrize("paired", [True, False])
@pytest.mark.parametrize("kind", SKEWED)
def test_intervals_of_differences_cover_the_truth(kind: str, paired: bool, untraced: None) -> None:
    """Skewed runs against normal ones, 60 of each, nominal coverage 95 %.

    If the true coverage is at least 92.5 %, fewer than 215 of 250 intervals hold the truth with
    probability 1.4e-4 in each of the four cases; if it is at most 97 %, all 250 do with probability
    5e-4. Seeds are fixed. Intervals of half the width cover about two thirds, and are detected.
    """
    rng = np.random.default_rng(11)
    hits = narrow = 0
    for i in range(SAMPLES):
        a, b = SKEWED[kind](rng, 60), rng.normal(1.0, 0.5, 60)
        found = Bootstrap(a, b, paired=paired, resamples=200, seed=i).difference(0.95)
        error = MEAN[kind] - 1.0 - found.value
        hits += found.low <= found.value + error <= found.high
        narrow += (found.low - found.value) / 2 <= error <= (found.high - found.value) / 2
    assert 215 <= hits < 250
    assert narrow < 215


@pytest.mark.parametrize(
    ("shift", "paired"), [(0.0, True), (1.8, True), (0.9, False), (2.5, False)]
)
def test_intervals_of_the_probability_cover_the_truth(
    shift: float, paired: bool, untraced: None
) -> None:
    """Normal runs with a known probability of 0.5, 0.90, 0.74 and 0.96; limits as above.

    The intervals are conservative for the larger ones, so all 250 may hold the truth; they must not
    be wider than twice 1.96 standard errors of a share of 60 runs.
    """
    rng = np.random.default_rng(12)
    truth = 0.5 * (1 + math.erf(shift / 2))
    hits, width = 0, 0.0
    for i in range(SAMPLES):
        a, b = rng.normal(0.0, 1.0, 60), rng.normal(shift, 1.0, 60)
        found = Bootstrap(a, b, paired=paired, resamples=200, seed=i).improvement(0.95)
        hits += found.low <= truth <= found.high
        width += (found.high - found.low) / SAMPLES
    assert hits >= 215
    assert width < 2 * 1.96 * math.sqrt(truth * (1 - truth) / 60)


def test_a_probability_of_one_has_an_interval() -> None:
    a = np.arange(20.0)
    above = Bootstrap(a, a + 100, paired=True, resamples=100, seed=1).improvement(0.95)
    below = Bootstrap(a + 100, a, paired=False, resamples=100, seed=1).improvement(0.95)
    assert (above.value, above.high) == (1.0, 1.0)
    assert above.low == pytest.approx(30 / (30 + 1.96**2), abs=1e-4)
    assert below == pytest.approx((0.0, 0.0, 1 - above.low))


def test_nearly_constant_differences_use_quantiles() -> None:
    """With one run of 20 that differs, a third of the resamples have no spread to divide by."""
    a = np.zeros(20)
    a[3] = 8.0
    found = Bootstrap(a, np.ones(20), paired=True, resamples=500, seed=1).difference(0.95)
    assert found.value == pytest.approx(-0.6)
    assert found.low == pytest.approx(-1.0)
    assert -0.6 < found.high <= 1.0


# Messages


@pytest.mark.parametrize(
    ("arguments", "settings", "message"),
    [
        (("UCB", "Greedy"), {}, "compare: b must be a label; got 'Greedy'"),
        (("UCB", 5), {}, "compare: b must be a label, or a position from 0 to 2; got 5"),
        (("UCB", ("twin", 0)), {}, "a and b must both be policies"),
        ((("UCB", "none"), ("twin", 0)), {}, "drift of a must be a label; got 'none'"),
        (("UCB", "twin", "share_rated"), {}, "metric must be a metric of which less is better"),
        (("UCB", "twin"), {"confidence": 1}, "confidence must be at least 0.5 and less than 1"),
        (("UCB", "twin"), {"resamples": 10}, "resamples must be at least 100; got 10"),
    ],
)
def test_invalid_arguments_are_rejected(
    arguments: tuple[object, ...], settings: dict[str, object], message: str
) -> None:
    with pytest.raises(entice.InputError, match=message):
        ran().compare(*arguments, **settings)  # type: ignore[arg-type]


def test_results_that_cannot_be_compared_are_rejected() -> None:
    for change, message in (
        ({"horizon": 400}, "other must have the same horizon as this result, 500; got 400"),
        ({"arms": entice.Gaussian([0.9, 0.6, 0.2])}, "other must have the same arms"),
        ({"drifts": [entice.LinearDrift(0.5)]}, "other must have a drift in common"),
        ({"replications": 9}, "other must have at least 10 runs to be resampled; got 9"),
    ):
        other = entice.run(replace(STUDY, **{"replications": 10, **change}), progress=False)
        with pytest.raises(entice.InputError, match=message):
            ran().compare("UCB", "UCB", other=other)
    both = entice.Result.concat([ran(), ran(80, seed=8)])
    with pytest.raises(entice.InputError, match=r"result.compare\(…\) requires a result of one"):
        both.compare("UCB", "twin")


# Text, HTML and LaTeX


def comparison() -> Comparison:
    return ran().compare("UCB", "ε-greedy", "compensation")


def test_the_text_has_all_numbers_and_the_pairing() -> None:
    text = str(comparison())
    assert text.startswith("Compensation of UCB minus that of ε-greedy, with 95 % bootstrap")
    assert "LinearDrift(1.1)" in text
    correlations = comparison().table["correlation"]
    low, high = (f"{value:.2f}".replace("-", "−") for value in sorted(correlations))
    assert text.endswith(f"Paired by replication, 60 pairs; correlation {low} to {high}.")
    assert max(map(len, text.splitlines())) <= 100
    assert repr(comparison()) == "<Comparison: UCB and ε-greedy, compensation, 2 rows>"


def test_html_escapes_labels() -> None:
    study = replace(STUDY, policies=[entice.UCB(name="<b>&"), entice.UCB()], replications=10)
    found = entice.run(study, progress=False).compare("<b>&", "UCB")
    page = found._repr_html_()
    assert "&lt;b&gt;&amp;" in page
    assert "<b>" not in page
    assert page.count("<tr>") == 3
