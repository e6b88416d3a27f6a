"""The obvious estimate of the drift, which finds one where there is none."""

from __future__ import annotations

import math

import numpy as np
import polars as pl

from entice.errors import InputError
from entice.estimate.interval import Estimate, check_level, t_critical_value
from entice.estimate.ratings import Rounds, read_ratings

BIASED = (
    "biased: payments depend on past feedback, so a drift is found where there is none (0.3 to 0.4 "
    "for a true 0 on the paper's instance); only a randomised probe is to be believed"
)


def regression(rounds: Rounds, *, level: float = 0.95) -> Estimate:
    """Slope of feedback on payment within arms. **Biased**: to be shown, not to be used.

    An arm that was rated below its mean at first is one that looks worse than it is: it is paid
    for, and its later ratings are above those first ones. So within an arm feedback rises with
    the payment, and nobody was grateful. On the paper's instance without any drift the slope is
    0.34 under UCB and 0.41 under Thompson sampling, and 4 in 10 intervals of 95 % are wrong
    (bench/coverage.py).

    Parameters
    ----------
    rounds
        A trace, or a log with the columns `arm`, `payment` and `feedback` as a polars frame or as
        the path of a CSV or Parquet file.
    level
        Of the interval, which is robust to unequal noise (HC1).

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
    inside, degrees_of_freedom = frame["x"].to_numpy(), frame.height - arms - 1
    spread = float(inside @ inside)
    if degrees_of_freedom < 1 or not spread > 0:
        raise InputError(
            "rounds",
            "must have arms that were rated at different payments",
            given=f"{frame.height} ratings of {arms} arms",
        )
    slope = float(inside @ frame["y"].to_numpy()) / spread
    left = frame["y"].to_numpy() - slope * inside
    stderr = (
        math.sqrt(frame.height / degrees_of_freedom) * float(np.linalg.norm(inside * left)) / spread
    )
    half_width = t_critical_value(level, degrees_of_freedom) * stderr
    return Estimate(
        slope, slope - half_width, slope + half_width, stderr, frame.height,
        "regression within arms", BIASED,
    )  # fmt: skip
