"""The slope of the drift from a randomised probe, at once or one rating at a time.

In probed offer t a coin s = ±1 adds an amount a to the payment x, or not. Take e, what is expected
of the rating y halfway between, from earlier ratings alone. Then u = 2 s (y − e) has the mean
f(x + a) − f(x), *whatever e is*: the coin knows nothing of e. A bad guess costs precision only.
So l̂ = Σ a u / Σ a² is unbiased however payments and arms were chosen, its errors are a martingale,
and its variance is estimated by Σ a² (u − l̂ a)² / (Σ a²)² without a word on how ratings scatter.
"""

from __future__ import annotations

import math
from collections.abc import Hashable

import polars as pl

from entice.checks import as_number
from entice.errors import InputError
from entice.estimate.interval import Estimate, check_level, probe_warning, t_critical_value
from entice.estimate.ratings import ROUNDING, Rounds, check_amount, read_probed_ratings

METHOD = "randomised probe"
PROBES_BEFORE_CORRECTION = 8
"""From so many probes on, the slope that they show corrects what is expected of further ones."""


class SlopeSums:
    """Running sums over probed offers, from which the slope and its interval follow."""

    def __init__(self) -> None:
        self.probes = 0
        self.heads = 0
        self._aa = self._au = 0.0  # Σ a², Σ a u
        self._aauu = self._aaau = self._aaaa = 0.0  # the same for the variance

    def add(
        self, coin: float, amount: float, base: float, feedback: float,
        mean_feedback: float, mean_payment: float,
    ) -> None:  # fmt: skip
        """Enter the rating of a probed offer; the means are of the arm's earlier ratings."""
        halfway = base + amount / 2
        expected = mean_feedback + self._shrunk_slope() * (halfway - mean_payment)
        u = (2 if coin else -2) * (feedback - expected)
        self.probes += 1
        self.heads += bool(coin)
        aa = amount * amount
        self._aa += aa
        self._au += amount * u
        self._aauu += aa * u * u
        self._aaau += aa * amount * u
        self._aaaa += aa * aa

    def slope(self) -> float:
        """l̂."""
        return self._au / self._aa

    def stderr(self) -> float:
        """The standard error of l̂, with n − 1 in place of n."""
        slope = self.slope()
        squares = self._aauu + slope * (slope * self._aaaa - 2 * self._aaau)
        return math.sqrt(max(0.0, squares) * self.probes / (self.probes - 1)) / self._aa

    def _shrunk_slope(self) -> float:
        """The slope so far, less what may be chance: l̂ (1 − stderr² / l̂²)₊ as in James–Stein."""
        if self.probes < PROBES_BEFORE_CORRECTION:
            return 0.0
        slope, error = self.slope(), self.stderr()
        return slope - error * error / slope if abs(slope) > error else 0.0

    def estimate(self, level: float) -> Estimate:
        """The slope with its interval, by Student's t with n − 1 degrees of freedom."""
        if self.probes < 2:
            raise InputError(
                "rounds",
                "must have at least 2 rated probes of arms that were rated before",
                given=self.probes,
                todo="Probe a larger share of offers, or more of them.",
            )
        slope, stderr = self.slope(), self.stderr()
        half_width = t_critical_value(level, self.probes - 1) * stderr
        return Estimate(
            slope, slope - half_width, slope + half_width, stderr, self.probes, METHOD,
            probe_warning(self.heads, self.probes),
        )  # fmt: skip


def probe_slope(rounds: Rounds, *, amount: float | None = None, level: float = 0.95) -> Estimate:
    """Estimate the slope of the drift from a randomised probe, without bias.

    The rise of feedback where the coin added its amount, against where it did not, per unit of
    the amount: l, if the drift is l · x; else the average rise at the payments that were probed.
    Each rating is compared with the arm's earlier ones, corrected for payments once the slope is
    known well enough; all ratings serve for that, probed or not.

    Parameters
    ----------
    rounds
        A trace with a probe, or a log with the columns `arm`, `payment` (with what the coin
        added), `feedback` (null: it never came), `probe` (1: the coin added the amount, 0: it did
        not, null: it was not thrown), as a polars frame or as the path of a CSV or Parquet file.
        Rows are in order of time, or there is a column `t`. Where players may decline, also
        `offered_arm` and `greedy_arm`: only probes of the player's own choice are compared then.
    amount
        What the coin adds, if `rounds` has no column `probe_amount`.
    level
        Of the interval.

    >>> import entice
    >>> rounds = entice.trace(
    ...     arms=entice.Gaussian([0.9, 0.8, 0.7]), policies=[entice.UCB()],
    ...     drifts=[entice.LinearDrift(1.1)], probe=entice.Probe(share=0.5, amount=0.3),
    ...     horizon=20_000, seed=7)
    >>> found = entice.estimate.probe_slope(rounds)
    >>> found.low < 1.1 < found.high
    True
    """
    level = check_level(level)
    before = {
        name: pl.col(column).cum_sum().shift(1).over("arm") / pl.col("earlier")
        for name, column in (("mean_feedback", "feedback"), ("mean_payment", "payment"))
    }
    frame = read_probed_ratings(rounds, amount).with_columns(
        earlier=pl.int_range(pl.len()).over("arm")
    )
    frame = frame.with_columns(**before)
    frame = frame.filter(pl.col("coin").is_not_null() & (pl.col("earlier") > 0))
    slope = SlopeSums()
    for row in frame.select("coin", "amount", "base", "feedback", *before).iter_rows():
        slope.add(*row)
    return slope.estimate(level)


class DriftEstimator:
    """`probe_slope` one rating at a time: what a live principal knows of the drift by now.

    It keeps three numbers of each arm, and a few more.

    Parameters
    ----------
    amount
        What the coin adds, where `add` is not told.

    >>> import entice
    >>> known = entice.estimate.DriftEstimator(amount=0.3)
    >>> for feedback, probe in [(0.5, None), (0.9, 1), (0.5, 0), (0.8, 1), (0.6, 0)]:
    ...     known.add("tea", 0.3 if probe else 0.0, feedback, probe)
    >>> known.probes, round(known.estimate().slope, 3)
    (4, 1.403)
    """

    def __init__(self, amount: float | None = None) -> None:
        self._amount = None if amount is None else check_amount(amount)
        self._slope = SlopeSums()
        self._arms: dict[Hashable, list[float]] = {}  # ratings, their sum, that of payments

    @property
    def probes(self) -> int:
        """How many probes it rests on; an estimate needs at least two."""
        return self._slope.probes

    def add(
        self,
        arm: Hashable,
        payment: float,
        feedback: float,
        probe: int | None = None,
        amount: float | None = None,
    ) -> None:
        """Enter a rating.

        Parameters
        ----------
        arm, payment, feedback
            What was rated, for how much (with what the coin added), and how.
        probe
            1: the coin added the amount, 0: it did not, None: it was not thrown, or the player
            was free to decline: whether such an offer is taken depends on the coin.
        amount
            What hung on this coin, if there are several amounts.
        """
        payment, feedback = as_number("payment", payment), as_number("feedback", feedback)
        if probe not in (None, 0, 1):
            raise InputError("probe", "must be 1, 0 or None", given=probe)
        sums = self._arms.setdefault(arm, [0.0, 0.0, 0.0])
        if probe is not None:
            added = self._amount if amount is None else check_amount(amount)
            if added is None:
                raise InputError("amount", "must be given: what heads add to the payment")
            base = payment - added * probe
            if base < -ROUNDING * added:
                rule = f"must include the {added:g} that heads added"
                raise InputError("payment", rule, given=payment)
            if sums[0] > 0:
                self._slope.add(probe, added, base, feedback, sums[1] / sums[0], sums[2] / sums[0])
        sums[0] += 1
        sums[1] += feedback
        sums[2] += payment

    def estimate(self, level: float = 0.95) -> Estimate:
        """The slope by now, with its interval."""
        return self._slope.estimate(check_level(level))
