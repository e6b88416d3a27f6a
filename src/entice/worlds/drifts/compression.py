"""A drift that pulls paid ratings towards one value."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl

from entice.checks import set_number
from entice.errors import InputError
from entice.jit.decorators import compiled
from entice.rng import Stream
from entice.worlds.drifts.drift import DriftKernel, DriftSpec, Floats
from entice.worlds.star_counts import STAR_VALUES, STARS, read_star_counts


class CompressionDrift(DriftSpec, frozen=True, tag="compression"):
    """b = strength · (target − r) in paid rounds: paid players avoid extreme ratings.

    Real paid reviews have far fewer low ratings, and somewhat fewer top ones, than ordinary reviews
    of the same products. Outside Assumption 1: it jumps at 0, and lowers high ratings.

    >>> import entice
    >>> entice.CompressionDrift(target=0.75, strength=0.4).outside
    'depends on the reward, and jumps at 0'
    """

    target: float
    strength: float

    def __post_init__(self) -> None:
        super().__post_init__()
        set_number(self, "target")
        if not 0 <= set_number(self, "strength") <= 1:
            rule = "must be from 0 to 1"
            raise InputError("CompressionDrift: strength", rule, given=self.strength)

    @classmethod
    def from_star_counts(cls, path: str | Path) -> CompressionDrift:
        """Fit the drift to products that have both ordinary reviews and paid ones.

        Within products, weighted by their paid reviews, `strength` is the relative reduction of the
        standard deviation in paid ratings, and `target` the value towards which their mean has
        moved. Stars are on a scale from 0 to 1. Two numbers fit the mean and the spread, not the
        share of each star, and the file does not show how the drift depends on the payment.
        """
        counts = read_star_counts(path)
        values = np.array(STAR_VALUES)
        moments = counts.select("product", "incentivized").with_columns(
            ratings=counts.select(STARS).sum_horizontal(),
            mean=pl.Series(_mean(counts, values)),
            variance=pl.Series(_mean(counts, values**2) - _mean(counts, values) ** 2),
        )
        both = moments.filter(incentivized=0).join(
            moments.filter(incentivized=1), on="product", suffix="_paid"
        )
        if both.height == 0:
            rule = "must have products with ordinary and with incentivized reviews"
            raise InputError("the star counts", rule, given=str(path))
        n, paid = (both[name].to_numpy().astype(float) for name in ("ratings", "ratings_paid"))
        means = [np.average(both[name].to_numpy(), weights=paid) for name in ("mean", "mean_paid")]
        # The variance of n ratings is biased by a factor of (n−1)/n.
        wide = float(((paid - 1) * both["variance"].to_numpy() * n / np.maximum(1, n - 1)).sum())
        narrow = float((paid * both["variance_paid"].to_numpy()).sum())
        if wide == 0.0:
            rule = "must have products with several paid ratings, and ordinary ones that differ"
            raise InputError("the star counts", rule, given=str(path))
        strength = min(1.0, max(0.0, 1 - math.sqrt(narrow / wide)))
        if strength == 0.0:
            rule = "must have paid ratings that are spread less widely than ordinary ones"
            raise InputError("the star counts", rule, given=str(path))
        moved = float(means[0] + (means[1] - means[0]) / strength)
        return cls(target=min(1.0, max(0.0, moved)), strength=strength)

    @property
    def default_label(self) -> str:  # noqa: D102
        return f"CompressionDrift(to {self.target:.3g}, {self.strength:.3g})"

    @property
    def lipschitz(self) -> float:  # noqa: D102
        return math.inf if self.outside else 0.0

    @property
    def outside(self) -> str:  # noqa: D102
        return "depends on the reward, and jumps at 0" if self.strength > 0 else ""

    def kernel(self) -> DriftKernel:  # noqa: D102
        return DriftKernel(params=(self.target, self.strength), apply_drift=_compress)


@compiled
def _compress(
    drift: Callable[..., float],
    reward: float,
    payment: float,
    t: int,
    arm: int,
    params: tuple[float, float],
    memory: Floats,
    rng: Stream,
) -> float:
    return params[1] * (params[0] - reward) if payment > 0.0 else 0.0


def _mean(counts: pl.DataFrame, values: Floats) -> Floats:
    stars = counts.select(STARS).to_numpy().astype(float)
    return np.asarray(stars @ values / stars.sum(axis=1))
