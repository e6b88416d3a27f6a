"""Offers, the calculation of their amounts, and what is kept about the players who got them."""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Literal

import msgspec

from entice.api_types.times import Time


class OfferState(StrEnum):
    """The state of an offer.

    `offered`: open, neither accepted nor declined yet. `unrated`: accepted, but the rating window
    has ended without a rating. `voided`: open when the campaign was closed. `reversed`: accepted,
    then reversed. `shadow`: made in shadow mode.
    """

    OFFERED = "offered"
    ACCEPTED = "accepted"
    RATED = "rated"
    UNRATED = "unrated"
    DECLINED = "declined"
    EXPIRED = "expired"
    VOIDED = "voided"
    REVERSED = "reversed"
    SHADOW = "shadow"


class OfferReason(StrEnum):
    """The reason for an offer's arm and amount.

    `explore`: the policy chose another arm than the player would. `own_choice`: the player's own
    choice, unpaid. `probe`: the player's own choice, paid at random to measure the drift.
    `control`: the player's own choice, paid by an equal-pay policy like the arms that it is
    compared with. `overlap`: drawn at random instead of the arm that the policy chose, so that the
    log can evaluate other policies. `limited`: a limit changed the decision. `paused`: the campaign
    is paused, so the offer is unpaid. `holdout`: the player is in the holdout, which is never paid.
    """

    EXPLORE = "explore"
    OWN_CHOICE = "own_choice"
    PROBE = "probe"
    CONTROL = "control"
    OVERLAP = "overlap"
    LIMITED = "limited"
    PAUSED = "paused"
    HOLDOUT = "holdout"


class ProbeSide(StrEnum):
    """The side of the probe's coin. Heads adds the probe's amount to the payment."""

    HEADS = "heads"
    TAILS = "tails"


class OfferView(msgspec.Struct, frozen=True, gc=False):
    """An offer: an arm, and the payment for choosing it."""

    id: str
    campaign: str
    decision: int
    """Number of the offer within its campaign, from 1."""
    state: OfferState
    arm: str
    greedy_arm: str
    """Arm that the player would choose without a payment."""
    amount: int
    """Payment offered, in minor units."""
    currency: str
    currency_digits: int
    """Number of decimals of the currency."""
    payment: float
    """Payment in stars, before rounding."""
    would_pay: int | None
    """Amount that would have been offered. Set in shadow mode only."""
    reason: OfferReason
    propensity: float
    """Probability with which this arm was offered, given the player's group: 1 in the holdout."""
    probe: ProbeSide | None
    """Side of the coin, if the offer was part of the drift probe."""
    paid: int | None
    """Amount paid. Null until the offer is accepted."""
    rating: int | None
    offered_at: Time
    expires_at: Time
    """Time after which the offer can no longer be accepted."""
    disclosure: str | None = None
    """Text to show with a paid offer, and wherever its rating is shown, from the campaign's
    settings. Null if nothing is paid or the campaign has no such text."""
    segment: str | None = None
    """Segment of the player. Null if the campaign has no segments."""


class PriceStep(msgspec.Struct, frozen=True):
    """One line of the calculation from stars to money."""

    sign: str
    label: str
    stars: float | None = None
    amount: float | None = None
    """Amount in minor units, before rounding."""
    note: str | None = None
    level: Literal["term", "subtotal", "total"] = "term"


class PriceCalculation(msgspec.Struct, frozen=True):
    """The calculation of an offer's amount, in numbers that can be checked by hand."""

    shown: dict[str, float]
    """Value displayed for each arm, in stars."""
    own_choice_shows: float
    """Displayed value of the arm that the player would choose without a payment."""
    arm_shows: float
    """Displayed value of the offered arm."""
    payment_in_stars: float
    probe_added: float | None
    """Stars added by the probe's coin."""
    price_of_a_star: int
    margin: int
    amount: int
    limit: int
    """Largest amount that the budget, the pace and the caps allowed."""
    limited_by: str | None
    """Limit that changed the decision: `budget`, `pace`, `cap_per_offer` or `cap_per_player`."""
    steps: list[PriceStep] = []
    """The same calculation as lines to display."""


class OfferHistory(msgspec.Struct, frozen=True):
    """An offer, the arithmetic of its amount, and its events."""

    offer: OfferView
    why: str
    """Explanation of the offer in plain words."""
    arithmetic: PriceCalculation
    history: list[dict[str, Any]]
    """Events of the offer in order, each with its hash."""


class OfferPage(msgspec.Struct, frozen=True):
    """A page of offers, newest first."""

    offers: list[OfferView]
    next: int | None
    """Value of `before` for the next page. Null on the last page."""


class PlayerCampaign(msgspec.Struct, frozen=True):
    """What a campaign keeps about a player."""

    campaign: str
    name: str
    player: str
    """Hash of the player's id in the campaign's events and exports."""
    salted: bool
    """Whether the hash depends on a salt. If not, erasure cannot unlink it from the id."""
    offers: list[OfferView]
    """Offers to the player, oldest first."""


class PlayerView(msgspec.Struct, frozen=True):
    """What is kept about a player."""

    campaigns: list[PlayerCampaign]
    damaged: list[str] = []
    """Campaigns that cannot be read, because their rows are damaged. They may hold more."""


class ErasedCampaign(msgspec.Struct, frozen=True):
    """A campaign in which a player was erased."""

    campaign: str
    unlinked: bool
    """Whether the id can no longer be linked to the campaign's events. False in campaigns
    whose players have no salts: with the secret, their hashes can still be computed."""


class ErasureView(msgspec.Struct, frozen=True):
    """The erasure of a player."""

    campaigns: list[ErasedCampaign]
    damaged: list[str] = []
    """Campaigns in which the player may not be erased, because their rows are damaged."""
