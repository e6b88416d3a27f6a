"""Campaigns: their settings, arms, segments, alerts, spending and plans."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any, Literal

import msgspec

from entice.api_types.times import Time

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


class CampaignWithAlerts(CampaignView, frozen=True):
    """A campaign, what about it needs attention, and whether it is on plan."""

    alerts: list[AlertView] = []
    """Alerts, the most urgent first."""
    plan_status: PlanStatusView | None = None
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
