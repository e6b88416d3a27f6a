"""Types of the HTTP API's responses: what the service encodes and `entice.client` decodes.

Amounts of money are whole numbers of the currency's minor unit (cents, where it has two decimals).
Ratings, averages and payments are in stars. Times are in UTC.

This module depends on msgspec only, so that the client does not import the web stack. The docstring
of a field is its description in `/openapi.json`.
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any, Literal

import msgspec

Time = Annotated[datetime, msgspec.Meta(tz=True)]
MAX_PLANNED_POINTS = 60
PlannedPoints = msgspec.Meta(min_length=1, max_length=MAX_PLANNED_POINTS)
PlannedVisitors = Annotated[int, msgspec.Meta(ge=1, le=10**12)]
PlannedMoney = Annotated[int, msgspec.Meta(ge=0, le=2**53 - 1)]


class CampaignStatus(StrEnum):
    """The status of a campaign."""

    LIVE = "live"
    PAUSED = "paused"
    SHADOW = "shadow"
    CLOSED = "closed"


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


class SegmentArmView(msgspec.Struct, frozen=True):
    """An arm as the players of a segment see it."""

    id: str
    rated: int
    """Number of ratings by the segment."""
    average: float | None
    """Average rating of the segment. Null without ratings."""
    shown: float
    """Value displayed to the segment: its average, shrunk towards the average of all players."""


class SegmentView(msgspec.Struct, frozen=True):
    """A segment of a campaign."""

    id: str
    rated: int
    """Number of ratings."""
    arms: list[SegmentArmView]


class CampaignView(msgspec.Struct, frozen=True):
    """A campaign: its money, its counts and its settings."""

    id: str
    name: str
    status: CampaignStatus
    currency: str
    """ISO 4217 code, or a name of your own."""
    currency_digits: int
    """Number of decimals of the currency."""
    budget: int
    """Total that may be spent, in minor units."""
    reserved: int
    """Total amount of the open offers."""
    committed: int
    """Total paid for accepted offers. `committed` plus `reserved` never exceeds the budget."""
    free: int
    """Budget that is neither reserved nor committed."""
    paced: int | None
    """Maximum of `committed` plus `reserved` after the next offer. Null without `pace_over`."""
    decisions: int
    """Number of offers made."""
    ratings: int
    """Number of ratings, including organic ones."""
    in_flight: int
    """Number of offers that may still be rated."""
    share_who_rate: float | None
    """Estimated share of accepted offers that are rated. Null before the first offer."""
    events: int
    """Sequence number of the last event in the log."""
    version: int
    """Version of the settings. Each change adds one."""
    created_at: Time
    changed_at: Time
    """Time of the last event."""
    spec: dict[str, Any]
    """Settings, as `POST /v1/campaigns` accepts them."""
    segments: list[SegmentView] = []
    """Averages of each segment. Empty without segments, and in lists of campaigns."""
    retired: int = 0
    """Number of arms in `spec` that are retired."""


class CampaignPlan(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The forecast that a campaign was created from: its spending, after numbers of visitors.

    The amounts are quantiles over the runs of the plan, in minor units, and at most the budget. All
    lists have the same length.
    """

    policy: Annotated[str, msgspec.Meta(min_length=1, max_length=200)]
    """Name of the policy in the plan."""
    visitors_a_day: Annotated[int, msgspec.Meta(ge=1, le=10**9)]
    days: Annotated[int, msgspec.Meta(ge=1, le=10**6)]
    drift: Annotated[list[float], msgspec.Meta(min_length=2, max_length=2)]
    """Range of drifts that the plan assumes, in stars per star of payment."""
    replications: Annotated[int, msgspec.Meta(ge=1, le=10**9)]
    """Number of runs."""
    seed: Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
    visitors: Annotated[list[PlannedVisitors], PlannedPoints]
    """Number of visitors at each point, increasing."""
    low: Annotated[list[PlannedMoney], PlannedPoints]
    """Spending that 5 % of the runs do not exceed."""
    typical: Annotated[list[PlannedMoney], PlannedPoints]
    """Median spending."""
    high: Annotated[list[PlannedMoney], PlannedPoints]
    """Spending that 95 % of the runs do not exceed."""


class CampaignPlanView(msgspec.Struct, frozen=True):
    """The plan of a campaign."""

    campaign: str
    currency: str
    currency_digits: int
    """Number of decimals of the currency."""
    plan: CampaignPlan | None
    """Null if the campaign was not created from a plan."""


class SettingChange(msgspec.Struct, frozen=True):
    """A change of one setting of a campaign."""

    seq: int
    """Sequence number of the event that records the change."""
    at: Time
    by: str | None
    """Id of the API key that requested the change. Null without a key, and in older logs."""
    by_name: str | None
    """Label of that key. Null if the key is unknown."""
    setting: str
    """Name of the setting; `created`, `arms` for arms that were added, or `retired`."""
    arm: str | None
    """Arm that was retired or offered again. Null for other settings."""
    before: Any
    """Value before the change. Null if there was none."""
    after: Any
    """Value after the change. Null if a limit was removed."""


class SettingsHistory(msgspec.Struct, frozen=True):
    """The changes of a campaign's settings, newest first."""

    campaign: str
    currency: str
    currency_digits: int
    """Number of decimals of the currency."""
    through: int
    """Sequence number of the last event that was searched."""
    events: int
    """Sequence number of the campaign's last event. If it is larger than `through`, repeat the
    request to get the rest."""
    changes: list[SettingChange]
    """The last 1,000 changes."""


class AlertKind(StrEnum):
    """The rule of an alert.

    `invariants_broken`: the stored data contradicts itself. `budget_used_up`: at most 1 % of the
    budget is free. `budget_ahead_of_pace`: at least 95 % of what the pace permits is used, after
    100 offers or more. `items_without_ratings`: an item has no rating although its offers should
    have brought at least three. `share_who_rate_falling`: the last 200 offers have brought fewer
    ratings than earlier ones had at the same age. `drift_above_plan`: the drift's interval is above
    `planned_drift`. `spending_above_plan` and `spending_below_plan`: the committed money is outside
    the range of the plan that the campaign was created from.
    """

    INVARIANTS_BROKEN = "invariants_broken"
    BUDGET_USED_UP = "budget_used_up"
    BUDGET_AHEAD_OF_PACE = "budget_ahead_of_pace"
    ITEMS_WITHOUT_RATINGS = "items_without_ratings"
    SHARE_WHO_RATE_FALLING = "share_who_rate_falling"
    DRIFT_ABOVE_PLAN = "drift_above_plan"
    SPENDING_ABOVE_PLAN = "spending_above_plan"
    SPENDING_BELOW_PLAN = "spending_below_plan"


class AlertView(msgspec.Struct, frozen=True):
    """A condition of a campaign that needs attention."""

    kind: AlertKind
    message: str
    """Condition in plain words, with its numbers."""
    todo: str
    """What to do next."""


class PlanStatus(StrEnum):
    """Whether a campaign spends as planned.

    `not_started`: there is no offer yet, or the campaign is in shadow mode. `too_early`: fewer than
    50 visitors, or than 1 % of those of the plan. `on_plan`, `above_plan`, `below_plan`: the
    committed money is within, above or below the range of 90 % of the plan's runs. `ended`: there
    are more visitors than in the plan. Visitors before the campaign went live do not count.
    """

    NOT_STARTED = "not_started"
    TOO_EARLY = "too_early"
    ON_PLAN = "on_plan"
    ABOVE_PLAN = "above_plan"
    BELOW_PLAN = "below_plan"
    ENDED = "ended"


class PlanStatusView(msgspec.Struct, frozen=True):
    """The spending of a campaign compared with its plan."""

    status: PlanStatus
    message: str
    """Comparison in plain words, with its amounts."""
    todo: str
    """What to do next."""
    shadow_visitors: int = 0
    """Number of visitors in shadow mode before the campaign went live, who are not compared."""


class CampaignWithAlerts(CampaignView, frozen=True):
    """A campaign, what about it needs attention, and whether it is on plan."""

    alerts: list[AlertView] = []
    """Alerts, the most urgent first."""
    plan_status: PlanStatusView | None = None
    """Null if the campaign was not created from a plan."""


class ApiKeyView(msgspec.Struct, frozen=True):
    """An API key, without its secret."""

    id: str
    name: str
    """Label of the key."""
    roles: list[str]
    campaign: str | None
    """Only campaign that the key has access to. Null: all campaigns."""
    created_at: Time
    revoked_at: Time | None
    current: bool
    """Whether the request was sent with this key."""
    altered: bool
    """Whether the stored key was altered, so that it is rejected. Revoke it."""


class CreatedApiKey(ApiKeyView, frozen=True):
    """A new API key, with its secret."""

    key: str
    """The key to send as `Authorization: Bearer`. It cannot be retrieved again."""


class ArmView(msgspec.Struct, frozen=True):
    """An arm of a campaign."""

    id: str
    retired: bool
    """Whether the arm is no longer offered."""
    rated: int
    """Number of ratings."""
    average: float | None
    """Average rating. Null without ratings."""
    low: float
    """Lower end of the average's 95 % confidence interval."""
    high: float
    """Upper end of the average's 95 % confidence interval."""
    shown: float
    """Value displayed to players: the average, or the campaign's value for unrated arms."""
    in_flight: int
    """Number of offers that may still be rated."""
    expected: float
    """Expected number of ratings from the offers in flight, given their ages."""
    offered: int
    """Number of offers, excluding those declined, expired, or reversed before they were rated.
    Campaigns created under version 1 of the rules count from their upgrade to version 2."""
    overdue_first_rating: bool
    """Whether the arm has no rating although at least three were expected from its offers."""
    greedy: bool
    """Whether players would choose this arm without a payment."""


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


class EventView(msgspec.Struct, frozen=True):
    """An event of a campaign's log."""

    seq: int
    """Sequence number within the campaign, from 1."""
    at: Time
    hash: str
    """SHA-256 of the previous event's hash and the bytes of `body`."""
    body: dict[str, Any]
    """Event exactly as it was stored."""
    why: str | None
    """Explanation of an offer in plain words. Null for other events."""


class EventPage(msgspec.Struct, frozen=True):
    """A page of events in order."""

    events: list[EventView]
    next: int | None
    """Value of `after` for the next page. Null on the last page."""


class WebhookView(msgspec.Struct, frozen=True):
    """A webhook: an address to which the service sends the events of a campaign."""

    id: str
    campaign: str
    url: str
    created_at: Time
    paused: bool
    """Whether nothing is sent: by request, or because all attempts have failed for three days."""
    delivered: int
    """Sequence number of the last event that the receiver has confirmed."""
    lag: int
    """Number of events that are not delivered yet."""
    failures: int
    """Failed attempts since the last success."""
    last_success_at: Time | None
    last_error: str | None
    """Reason of the last failed attempt. It stays after a later success."""
    last_error_at: Time | None
    next_attempt_at: Time | None
    """Time of the next attempt after a failure. Null if the last attempt succeeded."""


class CreatedWebhook(WebhookView, frozen=True):
    """A new webhook, with its secret."""

    secret: str
    """Key of the signatures. It cannot be retrieved again."""


class WebhookPayload(msgspec.Struct, frozen=True):
    """The body of a request to a webhook."""

    webhook: str
    campaign: str
    events: list[EventView]
    """Events in order. Empty in the first request to a new webhook without events to send."""


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


class SpendingView(msgspec.Struct, frozen=True):
    """The spending of a campaign over its history, as columns of equal length, oldest point first.

    Each point is exact: it describes the campaign after the last event of an interval of time, or
    of an interval of offers. The first point is the campaign's creation, the last point its last
    event.
    """

    campaign: str
    by: Literal["date", "offer"]
    currency: str
    currency_digits: int
    """Number of decimals of the currency."""
    through: int
    """Sequence number of the last event included."""
    events: int
    """Sequence number of the campaign's last event. If it is larger than `through`, repeat the
    request to get the rest."""
    at: list[Time]
    offers: list[int]
    """Number of offers made."""
    committed: list[int]
    reserved: list[int]
    budget: list[int]
    paced: list[int | None]
    """Maximum of `committed` plus `reserved` after the next offer. Null while no pace was set."""
