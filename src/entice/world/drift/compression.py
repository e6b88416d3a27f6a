"""A drift that draws paid ratings towards one value."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl

from entice.checks import set_number
from entice.engine.jit import compiled
from entice.errors import InputError
from entice.rng import Stream
from entice.world.drift.drift import Bend, DriftSpec, Floats
from entice.world.stars import STAR_VALUES, STARS, read_star_counts


class CompressionDrift(DriftSpec, frozen=True, tag="compression"):
    """b = strength · (target − r) in paid rounds: who was paid avoids extremes.

    Seen in real paid reviews, which have far fewer low ratings and somewhat fewer top ones than
    ordinary reviews of the same products. Outside Assumption 1: it jumps at 0, and lowers high
    ratings.

    >>> import entice
    >>> entice.CompressionDrift(target=0.75, strength=0.4).outside
    'depends on the reward, and jumps at 0'
    """

    target: float
    strength: float

    def __post_init__(self) -> None:
        set_number(self, "target")
        if not 0 <= set_number(self, "strength") <= 1:
            rule = "must be from 0 to 1"
            raise InputError("CompressionDrift: strength", rule, given=self.strength)

    @classmethod
    def from_star_counts(cls, path: str | Path) -> CompressionDrift:
        """Fit the drift to products that have both ordinary reviews and paid ones.

        Within products, weighted by their paid reviews: `strength` is how much narrower paid
        ratings are spread, and `target` the value towards which their mean has moved. Stars are on
        a scale from 0 to 1. What the file can't show is how the drift depends on the payment.
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
        weights = both["ratings_paid"].to_numpy().astype(float)
        told = {
            name: float(np.average(both[name].to_numpy(), weights=weights))
            for name in ("mean", "mean_paid", "variance")
        }
        # Few paid reviews of a product have too small a variance by themselves: n/(n−1).
        several = both.filter(pl.col("ratings_paid") > 1)
        n = several["ratings_paid"].to_numpy().astype(float)
        narrow = float(np.average(several["variance_paid"].to_numpy() * n / (n - 1), weights=n - 1))
        strength = min(1.0, max(0.0, 1 - math.sqrt(narrow / told["variance"])))
        if strength == 0.0:
            rule = "must have paid ratings that are spread less widely than ordinary ones"
            raise InputError("the star counts", rule, given=str(path))
        moved = told["mean"] + (told["mean_paid"] - told["mean"]) / strength
        return cls(target=min(1.0, max(0.0, moved)), strength=strength)

    @property
    def label(self) -> str:  # noqa: D102
        return f"CompressionDrift(to {self.target:.3g}, {self.strength:.3g})"

    @property
    def lipschitz(self) -> float:  # noqa: D102
        return math.inf if self.outside else 0.0

    @property
    def outside(self) -> str:  # noqa: D102
        return "depends on the reward, and jumps at 0" if self.strength > 0 else ""

    def bend(self) -> Bend:  # noqa: D102
        return Bend(params=(self.target, self.strength), respond=_towards)


@compiled
def _towards(
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
