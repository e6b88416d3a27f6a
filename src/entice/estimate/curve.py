"""An estimate of the drift as a curve, from probes with several amounts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from entice.errors import InputError
from entice.estimate.interval import (
    check_level,
    few_probes_warning,
    t_critical_value,
    unfair_coin_warning,
)
from entice.estimate.ratings import ROUNDING, Rounds, read_probed_ratings


class DriftCurve(NamedTuple):
    """A non-decreasing estimate of the drift at each probed amount."""

    points: pl.DataFrame
    """`payment`, `drift`, `low`, `high` (the interval), `measured` (the difference before isotonic
    regression), `probes` (those that added this amount)."""
    observations: int
    method: str
    warning: str = ""


def probe_curve(rounds: Rounds, *, amount: float | None = None, level: float = 0.95) -> DriftCurve:
    """Estimate a non-decreasing drift f with f(0) = 0, from probes with several amounts.

    Only offers without any other payment are compared; these are most offers of a policy that has
    learned. The probe's amount is then the whole payment, so heads minus tails is f(amount). Each
    rating enters as its difference from the arm's mean of earlier unpaid ratings. Isotonic
    regression then pools neighbours that decrease.

    Intervals are pointwise, centred on the curve and as wide as those of the measured differences.
    This is conservative: pooling brings every point closer to the truth (stochastically; Kelly
    1989, Annals of Statistics 17, 937–940).

    Parameters
    ----------
    rounds
        A trace or a log, with the columns of `entice.estimate.probe_slope`. A curve with more than
        one point needs several amounts, as in
        ``entice.Probe(share=0.2, amount=[0.1, 0.3, 0.6])``.
    amount
        The amount that heads add, if `rounds` has no column `probe_amount`.
    level
        Confidence level of the intervals.

    >>> import entice
    >>> rounds = entice.trace(
    ...     arms=entice.Gaussian([0.9, 0.7], std=0.5), policies=[entice.UCB()],
    ...     drifts=[entice.StepDrift(0.5)], probe=entice.Probe(share=0.5, amount=[0.1, 0.3, 0.6]),
    ...     horizon=5_000, seed=7)
    >>> points = entice.estimate.probe_curve(rounds).points
    >>> points["drift"].round(1).to_list()
    [0.5, 0.5, 0.5]
    """
    level = check_level(level)
    frame = _deviations(read_probed_ratings(rounds, amount))
    plain = _Sample(frame.filter(pl.col("coin") == 0)["deviation"])
    amounts = frame["amount"].unique().sort().to_list()
    paid = [
        _Sample(frame.filter((pl.col("coin") == 1) & (pl.col("amount") == a))["deviation"])
        for a in amounts
    ]
    if not amounts or min(plain.size, *(sample.size for sample in paid)) < 2:
        sizes = {f"{a:g}": sample.size for a, sample in zip(amounts, paid, strict=True)}
        raise InputError(
            "rounds",
            "must have, among offers without another payment, at least 2 rated probes that added "
            "each amount and 2 that added nothing",
            given=f"{plain.size} with nothing added, by amount {sizes}",
            todo="Probe a larger share of offers, or fewer amounts.",
        )
    measured = [sample.mean - plain.mean for sample in paid]
    widths = [_welch_half_width(sample, plain, level) for sample in paid]
    drift = np.maximum(0.0, isotonic(measured, [sample.size for sample in paid]))
    points = pl.DataFrame(
        {
            "payment": amounts,
            "drift": drift,
            "low": np.maximum(0.0, drift - widths),
            "high": drift + widths,
            "measured": measured,
            "probes": [sample.size for sample in paid],
        }
    )
    heads = sum(sample.size for sample in paid)
    warnings = [
        few_probes_warning(frame.height),
        unfair_coin_warning(heads, frame.height, "rated probes"),
    ]
    if (points["measured"] + pl.Series(widths) < 0).any():
        warnings.append("feedback decreases with the payment, which a non-decreasing curve hides")
    warning = "; ".join(filter(None, warnings))
    return DriftCurve(points, frame.height, "randomised probe, isotonic", warning)


def isotonic(values: Sequence[float], weights: Sequence[float]) -> npt.NDArray[np.float64]:
    """Fit non-decreasing values by least squares, by pooling adjacent violators.

    >>> from entice.estimate.curve import isotonic
    >>> isotonic([1, 3, 2, 4], [1, 1, 1, 1]).tolist()
    [1.0, 2.5, 2.5, 4.0]
    """
    pools: list[tuple[float, float, int]] = []  # average, weight, number of values
    for value, weight in zip(values, weights, strict=True):
        pool = (float(value), float(weight), 1)
        while pools and pools[-1][0] > pool[0]:
            last_average, last_weight, count = pools.pop()
            total = last_weight + pool[1]
            average = (last_average * last_weight + pool[0] * pool[1]) / total
            pool = (average, total, count + pool[2])
        pools.append(pool)
    return np.repeat([pool[0] for pool in pools], [pool[2] for pool in pools])


def _deviations(frame: pl.DataFrame) -> pl.DataFrame:
    """Return probed offers without another payment, and their deviation from unpaid ratings."""
    unpaid = pl.col("payment").abs() <= ROUNDING * pl.col("amount").fill_null(1.0)
    total = pl.when(unpaid).then("feedback").otherwise(0.0).cum_sum().shift(1).over("arm")
    earlier = unpaid.cast(pl.Int64).cum_sum().shift(1).over("arm")
    return (
        frame.with_columns(earlier=earlier, deviation=pl.col("feedback") - total / earlier)
        .filter(pl.col("coin").is_not_null() & (pl.col("earlier") > 0))
        .filter(pl.col("base").abs() <= ROUNDING * pl.col("amount"))
    )


class _Sample:
    def __init__(self, values: pl.Series) -> None:
        self.size = len(values)
        self.mean = float(values.to_numpy().mean()) if self.size else math.nan
        self.error = float(values.to_numpy().var(ddof=1)) / self.size if self.size > 1 else math.nan


def _welch_half_width(one: _Sample, other: _Sample, level: float) -> float:
    """Return half the width of Welch's interval for the difference of two means."""
    error = one.error + other.error
    if error == 0:
        return 0.0
    parts = one.error**2 / (one.size - 1) + other.error**2 / (other.size - 1)
    return t_critical_value(level, error**2 / parts) * math.sqrt(error)
