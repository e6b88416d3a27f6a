"""Estimate the slope of the drift from a randomised probe, in one pass or rating by rating.

In probed offer t a coin s = ±1 decides whether an amount a is added to the payment x. Let e be a
prediction of the rating y at the midpoint x + a/2, made from earlier ratings alone. Then
u = 2 s (y − e) has the mean f(x + a) − f(x), *whatever e is*, because the coin is independent of e.
A poor prediction costs only precision. So l̂ = Σ a u / Σ a² is unbiased however payments and arms
were chosen, its errors form a martingale, and Σ a² (u − l̂ a)² / (Σ a²)² estimates its variance
without assumptions about the noise of ratings.
"""

from __future__ import annotations

import math
from collections.abc import Hashable

import polars as pl

from entice.checks import as_number
from entice.errors import InputError
from entice.estimate.interval import (
    Estimate,
    check_level,
    few_probes_warning,
    t_critical_value,
    unfair_coin_warning,
)
from entice.estimate.ratings import (
    ROUNDING,
    Rounds,
    check_amount,
    rated_offers,
    read_probed_offers,
)
from entice.estimate.response import ProbedOffers, ResponseBounds

METHOD = "randomised probe"
PROBES_BEFORE_CORRECTION = 8
"""The number of probes after which their slope corrects the predictions for later ones."""


class SlopeSums:
    """Running sums over probed offers that give the slope and its interval."""

    def __init__(self) -> None:
        self.probes = 0
        self.heads = 0
        self._aa = self._au = 0.0  # Σ a², Σ a u
        self._aauu = self._aaau = self._aaaa = 0.0  # Σ a² u², Σ a³ u, Σ a⁴, for the variance

    def add(
        self, coin: float, amount: float, base: float, feedback: float,
        mean_feedback: float, mean_payment: float,
    ) -> None:  # fmt: skip
        """Add the rating of a probed offer; the means are those of the arm's earlier ratings."""
        midpoint = base + amount / 2
        expected = mean_feedback + self._shrunk_slope() * (midpoint - mean_payment)
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
        """Return l̂."""
        return self._au / self._aa

    def stderr(self) -> float:
        """Return the standard error of l̂, with n − 1 in place of n."""
        slope = self.slope()
        squares = self._aauu + slope * (slope * self._aaaa - 2 * self._aaau)
        return math.sqrt(max(0.0, squares) * self.probes / (self.probes - 1)) / self._aa

    def _shrunk_slope(self) -> float:
        """Return the slope so far, shrunk as in James–Stein: l̂ (1 − stderr² / l̂²)₊."""
        if self.probes < PROBES_BEFORE_CORRECTION:
            return 0.0
        slope, error = self.slope(), self.stderr()
        return slope - error * error / slope if abs(slope) > error else 0.0

    def estimate(self, level: float, bounds: ResponseBounds | None = None) -> Estimate:
        """Return the slope with its interval, by Student's t with n − 1 degrees of freedom."""
        if self.probes < 2:
            raise InputError(
                "rounds",
                "must have at least 2 rated probes of arms with an earlier rating",
                given=self.probes,
                todo="Probe a larger share of offers, or more of them.",
            )
        slope, stderr = self.slope(), self.stderr()
        half_width = t_critical_value(level, self.probes - 1) * stderr
        warnings = [few_probes_warning(self.probes)]
        if bounds is None:
            warnings.append(unfair_coin_warning(self.heads, self.probes, "rated probes"))
        else:
            tossed = bounds.heads + bounds.tails
            warnings.append(unfair_coin_warning(bounds.heads, tossed, "probed offers"))
        if bounds is not None and bounds.differs:
            warnings.append(f"{bounds.describe()}: the slope compares different raters, use bounds")
        return Estimate(
            slope, slope - half_width, slope + half_width, stderr, self.probes, METHOD,
            "; ".join(filter(None, warnings)), bounds,
        )  # fmt: skip


def probe_slope(rounds: Rounds, *, amount: float | None = None, level: float = 0.95) -> Estimate:
    """Estimate the slope of the drift from a randomised probe. **Unbiased**.

    The slope is the difference in feedback between offers with and without the coin's amount, per
    unit of the amount: l if the drift is l · x, otherwise the average slope at the probed
    payments. Each rating is compared with the arm's earlier ratings, probed or not, which are
    corrected for their payments once the slope is known well enough.

    The slope is biased if payment changes who rates. The `bounds` (`ResponseBounds`) allow for
    that. They use the shares of offers that were rated after heads and after tails; if these
    differ, the `warning` says so.

    Parameters
    ----------
    rounds
        A trace with a probe; or a log in order of time, as a polars frame or the path of a CSV,
        Parquet or JSON Lines file, with the columns

        - `arm`
        - `payment`, including the amount that the coin added, in the unit of the feedback, such as
          stars
        - `feedback`; null if it never arrived. Without the offers that were not rated, the bounds
          only hold if all were
        - `probe`: 1 if the coin added the amount, 0 if it did not, null if it was not tossed
        - `probe_amount`: the amount that heads add; or pass `amount`
        - `t`, if the rows are not in order of time
        - `offered_arm` and `greedy_arm`, if players may decline: then only probes that offered
          the greedy arm are compared
    amount
        The amount that heads add, if `rounds` has no column `probe_amount`.
    level
        Confidence level of the interval.

    >>> import entice
    >>> rounds = entice.trace(
    ...     arms=entice.Gaussian([0.9, 0.8, 0.7]), policies=[entice.UCB()],
    ...     drifts=[entice.LinearDrift(1.1)], probe=entice.Probe(share=0.5, amount=0.3),
    ...     horizon=5_000, seed=7)
    >>> found = entice.estimate.probe_slope(rounds)
    >>> found.low < 1.1 < found.high
    True
    """
    level = check_level(level)
    before = {
        name: pl.col(column).cum_sum().shift(1).over("arm") / pl.col("earlier")
        for name, column in (("mean_feedback", "feedback"), ("mean_payment", "payment"))
    }
    offers = read_probed_offers(rounds, amount)
    frame = rated_offers(offers).with_columns(earlier=pl.int_range(pl.len()).over("arm"))
    frame = frame.with_columns(**before)
    frame = frame.filter(pl.col("coin").is_not_null() & (pl.col("earlier") > 0))
    slope = SlopeSums()
    for row in frame.select("coin", "amount", "base", "feedback", *before).iter_rows():
        slope.add(*row)
    probed = ProbedOffers()
    for coin, added, feedback in (
        offers.filter(pl.col("coin").is_not_null()).select("coin", "amount", "feedback").iter_rows()
    ):
        probed.add_offer(coin, added)
        if feedback is not None:
            probed.add_rating(coin, added, feedback)
    return slope.estimate(level, probed.bounds(level))


class DriftEstimator:
    """`probe_slope` computed one rating at a time, for a live campaign.

    It stores three numbers per arm, a few sums, and the number of probes with each rating.

    Parameters
    ----------
    amount
        The amount that heads add, unless passed to `add`.

    >>> import entice
    >>> estimator = entice.estimate.DriftEstimator(amount=0.3)
    >>> for feedback, probe in [(0.5, None), (0.9, 1), (0.5, 0), (0.8, 1), (0.6, 0)]:
    ...     estimator.add("tea", 0.3 if probe else 0.0, feedback, probe)
    >>> estimator.probes, round(estimator.estimate().slope, 3)
    (4, 1.403)
    """

    def __init__(self, amount: float | None = None) -> None:
        self._amount = None if amount is None else check_amount(amount)
        self._slope = SlopeSums()
        self._probed = ProbedOffers()
        self._arms: dict[Hashable, list[float]] = {}  # number and sum of ratings, sum of payments

    @property
    def probes(self) -> int:
        """The number of probes used; an estimate needs at least two."""
        return self._slope.probes

    def add(
        self,
        arm: Hashable,
        payment: float,
        feedback: float,
        probe: int | None = None,
        amount: float | None = None,
    ) -> None:
        """Add a rating.

        Parameters
        ----------
        arm, payment, feedback
            The rated arm, the payment (including the amount that the coin added), and the rating.
        probe
            1 if the coin added the amount, 0 if it did not. None if it was not tossed, or if the
            player was free to decline, because acceptance then depends on the coin.
        amount
            The amount that heads add in this offer, if it varies.
        """
        payment, feedback = as_number("payment", payment), as_number("feedback", feedback)
        if probe not in (None, 0, 1):
            raise InputError("probe", "must be 1, 0 or None", given=probe)
        sums = self._arms.setdefault(arm, [0.0, 0.0, 0.0])
        if probe is not None:
            added = self._amount_added(amount)
            base = payment - added * probe
            if base < -ROUNDING * added:
                rule = f"must include the {added:g} that heads added"
                raise InputError("payment", rule, given=payment)
            self._probed.add_rating(probe, added, feedback)
            if sums[0] > 0:
                self._slope.add(probe, added, base, feedback, sums[1] / sums[0], sums[2] / sums[0])
        sums[0] += 1
        sums[1] += feedback
        sums[2] += payment

    def add_offer(self, probe: int, amount: float | None = None, count: int = 1) -> None:
        """Count probed offers, rated or not. The estimate then has bounds: see `ResponseBounds`.

        Parameters
        ----------
        probe, amount
            As in `add`.
        count
            The number of such offers; −1 takes one back, such as one that was withdrawn.
        """
        if probe not in (0, 1):
            raise InputError("probe", "must be 1 or 0", given=probe)
        self._probed.add_offer(probe, self._amount_added(amount), count)

    def estimate(self, level: float = 0.95) -> Estimate:
        """Return the slope so far, with its interval; with bounds if offers were counted."""
        level = check_level(level)
        return self._slope.estimate(level, self._probed.bounds(level))

    def _amount_added(self, given: float | None) -> float:
        amount = self._amount if given is None else check_amount(given)
        if amount is None:
            rule = "must be given: the amount that heads add to the payment"
            raise InputError("amount", rule)
        return amount
