"""What a campaign measures: its drift, its effect, and the acceptance of its prices."""

from __future__ import annotations

from typing import Literal

import msgspec


class ArmDriftView(msgspec.Struct, frozen=True):
    """The effect of payments on an arm's average."""

    id: str
    paid: float
    """Average payment per rating, in stars."""
    corrected: float | None
    """Average rating without the estimated effect of payments. Null if the slope is unknown."""


class DriftBoundsView(msgspec.Struct, frozen=True):
    """Bounds on the slope that hold if payment changes who rates (Lee 2009)."""

    low: float
    """Lower bound minus its sampling error."""
    high: float
    """Upper bound plus its sampling error."""
    heads: int
    """Offers to which the probe's coin added the amount."""
    heads_rated: int
    tails: int
    """Offers to which the probe's coin added nothing."""
    tails_rated: int
    p_value: float
    """Of a two-sided test that the shares rated after heads and tails are equal."""
    differs: bool
    """Whether these shares differ (p < 0.05). Then use the bounds, not the slope."""


class DriftView(msgspec.Struct, frozen=True):
    """The estimated drift: the rise in rating per star of payment, from the randomised probe."""

    probed: bool
    """Whether the campaign has a probe. Without one the drift cannot be estimated."""
    probes: int
    """Number of rated offers that were part of the probe."""
    slope: float | None
    """Estimated drift in stars per star of payment: the paper's l, if the drift is linear."""
    low: float | None
    """Lower end of the slope's confidence interval."""
    high: float | None
    """Upper end of the slope's confidence interval."""
    level: float
    """Level of the confidence interval."""
    note: str
    arms: list[ArmDriftView] = []
    """Rated arms. Empty without a probe."""
    bounds: DriftBoundsView | None = None
    """Bounds on the slope if payment changes who rates. Null while there are too few ratings."""


class EffectGroupView(msgspec.Struct, frozen=True):
    """A group of a campaign with a holdout: its totals and averages.

    Offers made while the campaign is paused or in shadow mode do not count.
    """

    visitors: int
    """Number of offers."""
    players: int
    """Number of offers that were a player's first in the campaign."""
    rated: int
    """Number of offers that are rated."""
    rating_sum: int
    rating_squares: int
    """Sum of the squares of the ratings."""
    paid: int
    """Total paid, in minor units."""
    rating: float | None
    """Average rating per rated offer. Null without ratings."""
    share_rated: float | None
    """Share of offers that are rated, of those that were not declined. Null without such offers."""
    payment: float | None
    """Average payment per offer, in minor units. Null without offers."""
    declined: int | None
    """Number of offers that were declined. Their players took their own choice; its rating belongs
    to no group. Null in a campaign of an earlier version, which did not count them: then
    `share_rated` is the share of all offers."""


class SplitView(msgspec.Struct, frozen=True):
    """Whether the observed share of held-out players is compatible with the intended one."""

    intended: float
    """Share of players who are to be held out."""
    observed: float
    """Share of players who were held out."""
    p_value: float
    """P-value that is valid at every look: it is ever below p with a probability of at most p."""
    broken: bool
    """Whether chance does not explain the difference. Then the groups can't be compared."""


class EffectView(msgspec.Struct, frozen=True):
    """The effect of a campaign: its visitors beside those of the holdout.

    Held-out players see averages to which paid players have contributed. What the campaign does for
    them through these averages, the spillover, is not in the difference.
    """

    campaign: str
    currency: str
    currency_digits: int
    """Number of decimals of the currency."""
    holdout_share: float
    """Share of players who are held out. 0 without a holdout."""
    paid: EffectGroupView
    """Players who may be paid."""
    holdout: EffectGroupView
    """Players who get their own choice and are never paid."""
    difference: float | None
    """Average rating of the paid group minus that of the holdout, in stars. Null while a group has
    no ratings."""
    low: float | None
    """Lower end of the difference's interval."""
    high: float | None
    """Upper end of the difference's interval."""
    confidence: float
    """Probability that the interval contains the true difference at every look."""
    method: str
    """Name of the method of the interval."""
    cost_per_star: float | None
    """Payment per visitor for each star of the difference, in minor units. Null if a gain is not
    certain."""
    cost_low: float | None
    """Cost per star at the upper end of the difference."""
    cost_high: float | None
    """Cost per star at the lower end of the difference."""
    cost_note: str
    """Reason why there is no cost per star. Empty if there is one."""
    split: SplitView | None
    """Check of the shares of players. Null without a holdout, and without players whose first offer
    was made while the campaign was live: then it can't be checked."""
    verdict: Literal[
        "no_holdout", "split_broken", "too_few_ratings", "no_clear_difference", "better", "worse"
    ]
    sentence: str
    """Result in plain words."""


class PricePoint(msgspec.Struct, frozen=True):
    """A price of the grid, and the answers to offers at this price."""

    price: float
    """Payment in stars. Payments between two prices count at the higher one."""
    amount: int
    """Its cost in minor units, with the margin."""
    answers: int
    """Number of offers that were accepted or declined. Expired offers do not count."""
    accepted: int
    estimate: float | None
    """Estimated share of players who accept this price, by isotonic regression. Null below the
    lowest price with an answer."""


class AcceptanceView(msgspec.Struct, frozen=True):
    """The acceptance curve of a campaign with a learned price."""

    campaign: str
    currency: str
    currency_digits: int
    """Number of decimals of the currency."""
    acceptance: float | None
    """Wanted share of players who accept. Null if the campaign has no learned price."""
    explore: float | None
    """Share of offers whose price is drawn at random. Null without a learned price."""
    learned_price: float | None
    """Cheapest price with enough answers that reaches the wanted share, in stars. Larger gaps are
    paid this price, smaller ones the gap. Null if there is none yet: then all are paid the gap."""
    learned_amount: int | None
    """Cost of the learned price in minor units, with the margin."""
    min_answers: int
    """Number of answers after which a price can be the learned one."""
    prices: list[PricePoint]
    """All prices, lowest first. Empty without a learned price."""
    sentence: str
    """Result in plain words."""
