"""The claims of the paper's experiments, each with the evidence of a reproduction and a verdict."""

from __future__ import annotations

from typing import NamedTuple

import polars as pl

from entice.paper.reproduce import COUNTED, Reproduction
from entice.paper.setups import COEFFICIENTS, NAMES
from entice.study.results.result import Result
from entice.study.results.table import format_number

SUPPORTED, IN_PART, CONTRADICTED = "supported", "supported in part", "contradicted"
_UCB, _EPSILON_GREEDY, _THOMPSON = range(3)
_NO_DRIFT, _DRIFT = COEFFICIENTS.index(0.0), COEFFICIENTS.index(1.1)


class Claim(NamedTuple):
    """A claim of the paper and what a reproduction says about it."""

    claim: str
    rule: str
    """When the evidence supports the claim."""
    evidence: str
    verdict: str


def claims(reproduction: Reproduction) -> list[Claim]:
    """Judge each claim by the runs of the algorithms as written, and the tables by both set-ups."""
    written = next(r for setups, r in reproduction.results if setups[0].name == "written")
    return [
        *_tables(reproduction.coverage),
        _sublinear(written),
        *(_thompson_is_best(written, metric) for metric in ("regret", "compensation")),
        _grows(written),
        _constant_counts(written),
        _small_errors(reproduction.table2),
        _greedy(reproduction.greedy),
    ]


def _tables(coverage: pl.DataFrame) -> list[Claim]:
    found = []
    for setup, name in (("written", "as the paper describes it"), ("published", "best fit")):
        rows = coverage.filter(setup=setup)
        inside, total = int(rows["inside"].sum()), int(rows["published"].sum())
        parts = ", ".join(
            f"{NAMES[row['policy']]} {row['inside']} of {row['published']}"
            for row in rows.iter_rows(named=True)
        )
        found.append(
            Claim(
                f"Tables 1 and 2, set-up {name}",
                f"all {total} values of {', '.join(COUNTED).replace('_', ' ')} lie between the 5 % "
                "and the 95 % quantile of single runs; half of them: in part",
                f"{inside} of {total}: {parts}",
                _verdict(inside / total, 1.0, 0.5),
            )
        )
    return found


def _verdict(share: float, all_of: float, part: float) -> str:
    if share >= all_of:
        return SUPPORTED
    return IN_PART if share >= part else CONTRADICTED


def _mean(result: Result, policy: int, drift: int, metric: str, share: float = 1.0) -> float:
    """Return the mean of a metric at the checkpoint nearest to a share of the horizon."""
    curve = result.curves.filter(policy_index=policy, drift_index=drift, metric=metric)
    nearest = (curve["t"] - share * result.study.horizon).abs().arg_min()
    assert nearest is not None
    return float(curve["mean"][nearest])


def _sublinear(result: Result) -> Claim:
    factors = {
        (p, d): _mean(result, p, d, "regret") / _mean(result, p, d, "regret", 0.5)
        for p in range(len(NAMES))
        for d in (_NO_DRIFT, _DRIFT)
    }
    parts = [
        f"{name} {factors[p, _NO_DRIFT]:.2f} and {factors[p, _DRIFT]:.2f}"
        for p, name in enumerate(NAMES.values())
    ]
    return Claim(
        "Regret is sublinear for all three policies (Figures 2 and 3)",
        "mean regret grows by a factor of less than 1.5 from half of the rounds to all of them; "
        "linear growth has 2",
        f"at l = 0 and l = 1.1: {', '.join(parts)}",
        _verdict(sum(f < 1.5 for f in factors.values()) / len(factors), 1.0, 0.01),
    )


def _thompson_is_best(result: Result, metric: str) -> Claim:
    wins, parts = 0, []
    for d in (_NO_DRIFT, _DRIFT):
        for p in (_UCB, _EPSILON_GREEDY):
            row = result.compare((_THOMPSON, d), (p, d), metric).table.row(0, named=True)
            wins += row["high"] < 0
            low, high = (format_number(row[end]).replace("-", "−") for end in ("low", "high"))
            parts.append(f"{list(NAMES.values())[p]} at l = {COEFFICIENTS[d]:g}: {low} to {high}")
    return Claim(
        f"Thompson sampling has the least {metric}",
        "the 95 % interval of the difference of means lies below 0 in all four comparisons",
        f"difference from {'; '.join(parts)}",
        _verdict(wins / 4, 1.0, 0.25),
    )


def _grows(result: Result) -> Claim:
    growth = {
        (p, metric): _mean(result, p, _DRIFT, metric) / _mean(result, p, _NO_DRIFT, metric)
        for p in range(len(NAMES))
        for metric in ("regret", "compensation")
    }
    parts = [
        f"{name} {growth[p, 'regret']:.2f} and {growth[p, 'compensation']:.2f}"
        for p, name in enumerate(NAMES.values())
    ]
    return Claim(
        "Regret and compensation are worse under drift, and UCB's regret suffers most",
        "all factors from l = 0 to l = 1.1 exceed 1, and UCB's in regret is the largest; the "
        "latter alone: in part",
        f"factors in mean regret and compensation: {', '.join(parts)}",
        SUPPORTED
        if min(growth.values()) > 1 and growth[_UCB, "regret"] == max(growth.values())
        else _verdict(float(growth[_UCB, "regret"] == max(growth.values())), 2.0, 1.0),
    )


def _constant_counts(result: Result) -> Claim:
    metric = "compensated_pulls"
    factors = [
        _mean(result, p, _DRIFT, metric) / _mean(result, p, _NO_DRIFT, metric)
        for p in (_EPSILON_GREEDY, _THOMPSON)
    ]
    return Claim(
        "The number of paid pulls of ε-greedy and Thompson sampling does not depend on the drift",
        "its mean changes by less than 20 % from l = 0 to l = 1.1; for one of the two: in part",
        f"factors: ε-greedy {factors[0]:.2f}, Thompson sampling {factors[1]:.2f}",
        _verdict(sum(abs(f - 1) < 0.2 for f in factors) / 2, 1.0, 0.5),
    )


def _small_errors(table2: pl.DataFrame) -> Claim:
    rows = table2.filter(setup="written", metric="best_arm_error_percent")
    parts = []
    for policy, name in NAMES.items():
        medians = rows.filter(policy=policy)["q50"].to_numpy()
        parts.append(f"{name} {medians.min():.1f} to {medians.max():.1f} %")
    largest = rows["q50"].to_numpy().max()
    return Claim(
        "The best arm's average is accurate for every l",
        "the median relative error is below 5 % for every l",
        f"median errors: {', '.join(parts)}",
        SUPPORTED if largest < 5 else CONTRADICTED,
    )


def _greedy(greedy: pl.DataFrame) -> Claim:
    row = greedy.row(0, named=True)
    return Claim(
        'Without exploration, regret is linear: "nearly 6000" after 20,000 rounds',
        "6,000 lies between the 5 % and the 95 % quantile of single runs",
        f"mean {row['mean']:,.0f}, median {row['q50']:,.0f}, 5 % to 95 %: {row['q05']:,.0f} to "
        f"{row['q95']:,.0f}",
        SUPPORTED if row["q05"] <= 6000 <= row["q95"] else CONTRADICTED,
    )
