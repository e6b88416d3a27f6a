"""Regression of feedback on payment: the obvious estimate of the drift, which is biased."""

from __future__ import annotations

import math

import numpy as np
import polars as pl

from entice.errors import InputError
from entice.estimate.interval import Estimate, check_level, t_critical_value
from entice.estimate.ratings import Rounds, read_ratings

BIASED = (
    "biased: payments depend on past feedback, so a drift is found where there is none (0.3 to 0.4 "
    "for a true 0 on the paper's instance); use a randomised probe instead"
)


def regression(rounds: Rounds, *, level: float = 0.95) -> Estimate:
    """Regress feedback on payment within arms. **Biased**: for demonstration only.

    An arm whose first ratings are below its mean looks worse than it is. Pulls of it are then paid
    for, and its later ratings are higher than the first. So feedback rises with the payment within
    an arm, even without drift. On the paper's instance without drift the slope is 0.34 under UCB
    and 0.41 under Thompson sampling, and 4 in 10 of the 95 % intervals miss the true value
    (bench/coverage.py).

    Parameters
    ----------
    rounds
        A trace, or a log with the columns `arm`, `payment` and `feedback`, as a polars frame or
        the path of a CSV, Parquet or JSON Lines file.
    level
        Confidence level of the interval, which is robust to unequal noise (HC1).

    >>> import entice
    >>> rounds = entice.trace(arms=entice.Gaussian([0.9, 0.8, 0.7]), policies=[entice.UCB()],
    ...                       drifts=[entice.LinearDrift(0.0)], horizon=1000, seed=7)
    >>> entice.estimate.regression(rounds).warning[:6]
    'biased'
    """
    level = check_level(level)
    frame = read_ratings(rounds).filter(pl.col("feedback").is_not_null())
    x, y = pl.col("payment"), pl.col("feedback")
    arms = frame["arm"].n_unique()
    frame = frame.select(x=x - x.mean().over("arm"), y=y - y.mean().over("arm"))
    centred, degrees_of_freedom = frame["x"].to_numpy(), frame.height - arms - 1
    spread = float(centred @ centred)
    if degrees_of_freedom < 1 or not spread > 0:
        raise InputError(
            "rounds",
            "must have arms with ratings at different payments",
            given=f"{frame.height} ratings of {arms} arms",
        )
    slope = float(centred @ frame["y"].to_numpy()) / spread
    residuals = frame["y"].to_numpy() - slope * centred
    stderr = (
        math.sqrt(frame.height / degrees_of_freedom)
        * float(np.linalg.norm(centred * residuals))
        / spread
    )
    half_width = t_critical_value(level, degrees_of_freedom) * stderr
    return Estimate(
        slope, slope - half_width, slope + half_width, stderr, frame.height,
        "regression within arms", BIASED,
    )  # fmt: skip
