"""Alerts: each rule at its threshold, and what a list request costs."""

from __future__ import annotations

import random
from typing import Any

import pytest
from rules_in_memory import MINUTE, OffersInMemory

from entice.api_types import AlertKind, CampaignPlan, DriftView
from entice.service.domain.alerts import RECENT_OFFERS, StoredFacts, find_alerts, recent_ratings
from entice.service.domain.campaign import Campaign
from entice.service.domain.campaign_state import CampaignState
from entice.service.domain.offer import ACCEPTED, RATED, OfferRecord
from entice.service.domain.plan_status import plan_status
from entice.service.domain.spec import CampaignSpec

FEW = CampaignSpec(name="Teas", arms=["a", "b"], budget=10_000, price_of_a_star=200, seed=7)


def state_of(**changes: Any) -> CampaignState:
    """Return the state of a new campaign, with changes of its settings and then of its fields."""
    settings = {k: changes.pop(k) for k in list(changes) if k in CampaignSpec.__struct_fields__}
    status = settings.pop("status", "live")
    spec = CampaignSpec.from_plain({**FEW.to_plain(), **settings})
    state = Campaign.create("c_1", spec, at=0).state
    for name, value in {"status": status, **changes}.items():
        setattr(state, name, value)
    return state


def kinds(state: CampaignState, **facts: Any) -> list[str]:
    found = find_alerts(state, state.expectation, StoredFacts(**facts))
    for alert in found:
        assert alert.message.endswith("."), alert
        assert alert.todo.endswith("."), alert
    return [alert.kind.value for alert in found]


def test_a_new_campaign_has_no_alerts() -> None:
    assert kinds(state_of()) == []


@pytest.mark.parametrize(
    ("committed", "status", "expected"),
    [
        (9_900, "live", ["budget_used_up"]),
        (9_899, "live", []),
        (10_000, "paused", []),
        (10_000, "shadow", []),
        (10_000, "closed", []),
    ],
)
def test_a_budget_is_used_up_at_99_percent(
    committed: int, status: str, expected: list[str]
) -> None:
    assert kinds(state_of(committed=committed, status=status)) == expected


def test_a_campaign_without_a_budget_has_not_used_it_up() -> None:
    assert kinds(state_of(budget=0)) == []


@pytest.mark.parametrize(
    ("decisions", "ahead", "expected"),
    [
        (100, 0, ["budget_ahead_of_pace"]),
        (100, -1, []),
        (99, 0, []),
        (10_000, 0, []),  # the whole budget is permitted
    ],
)
def test_a_budget_is_ahead_of_its_pace_at_95_percent_of_it(
    decisions: int, ahead: int, expected: list[str]
) -> None:
    state = state_of(pace_over=10_000, decisions=decisions)
    assert state.paced is not None
    state.reserved = -(-95 * state.paced // 100) + ahead
    assert kinds(state) == expected
    state.spec.pop("pace_over")
    assert kinds(state) == []


def test_items_without_ratings_are_named() -> None:
    state = state_of(decisions=20)
    campaign = Campaign(state)
    for n in range(1, 21):  # ten offers of each item; only "a" is rated
        campaign.begin_pull(n, n, n % 2)
        campaign.end_pull(n, n, n % 2, 0 if n % 2 == 0 else 1)
    state.pulls[0] = 10
    campaign.encode()
    [alert] = find_alerts(state, state.expectation, StoredFacts())
    assert alert.kind is AlertKind.ITEMS_WITHOUT_RATINGS
    assert alert.message.startswith("b has no rating")
    state.retired[1] = True
    assert kinds(state) == []
    state.retired[1] = False
    state.status = "closed"
    assert kinds(state) == []


def test_broken_invariants_come_first_and_concern_closed_campaigns_too() -> None:
    state = state_of(committed=10_000)
    broken = {"broken": ("Every decision has an offer",)}
    assert kinds(state, **broken) == ["invariants_broken", "budget_used_up"]
    state.status = "closed"
    assert kinds(state, **broken) == ["invariants_broken"]


@pytest.mark.parametrize(
    ("planned", "low", "expected"),
    [(0.5, 0.51, ["drift_above_plan"]), (0.5, 0.5, []), (None, 3.0, []), (0.5, None, [])],
)
def test_the_whole_interval_of_the_drift_must_be_above_the_plan(
    planned: float | None, low: float | None, expected: list[str]
) -> None:
    drift = DriftView(True, 50, low and low + 0.2, low, low and low + 0.4, 0.95, "")
    settings = {} if planned is None else {"planned_drift": planned}
    assert kinds(state_of(**settings), drift=drift) == expected


def visited(raters_first: float, raters_last: float, seed: int) -> tuple[CampaignState, Any]:
    """Return a campaign with 600 accepted offers, one a minute, and its last offers.

    Ratings take half an hour on average. Another share of visitors rates the last offers.
    """
    rng, state, offers = random.Random(seed), state_of(), OffersInMemory()
    campaign, due = Campaign(state), []
    total = 600
    for n in range(1, total + 1):
        now = n * MINUTE
        for at, m in sorted(pair for pair in due if pair[0] <= now):
            campaign.end_pull(m, at, 0, 0)
            offers.offers[m].state = RATED
            state.pulls[0] += 1
        due = [pair for pair in due if pair[0] > now]
        campaign.begin_pull(n, now, 0)
        offers.offers[n] = OfferRecord(
            n, b"", ACCEPTED, 0, 0, 0, 0, 0.0, 0, None, "", 1.0, None, None, now, 0, 0, []
        )
        share = raters_first if n <= total - RECENT_OFFERS else raters_last
        if rng.random() < share:
            due.append((now + int(rng.expovariate(1 / 30) * MINUTE), n))
        state.at = now
    state.decisions = total
    campaign.encode()
    return state, [offers.offers[n] for n in range(total - RECENT_OFFERS + 1, total + 1)]


def test_ratings_expected_at_an_unchanged_share_arrive() -> None:
    """Fails by chance with a probability below 0.001: a normal deviate above 3.3."""
    state, last = visited(0.3, 0.3, seed=1)
    recent = recent_ratings(state, last)
    assert recent is not None
    assert recent.expected > 30
    assert abs(recent.rated - recent.expected) < 3.3 * recent.variance**0.5
    assert kinds(state, recent=recent) == []


def test_a_falling_share_of_raters_is_found() -> None:
    state, last = visited(0.3, 0.05, seed=2)
    recent = recent_ratings(state, last)
    assert recent is not None
    assert kinds(state, recent=recent) == ["share_who_rate_falling"]
    # Fewer than ten ratings are to be expected: nothing is known yet.
    assert kinds(state, recent=recent._replace(expected=9.9)) == []
    state.decisions = 2 * RECENT_OFFERS - 1  # too few earlier offers to compare with
    assert recent_ratings(state, last) is None


PLANNED = CampaignPlan(
    policy="UCB", visitors_a_day=10, days=1000, drift=[0, 1], replications=10, seed=7,
    visitors=[100, 10_000], low=[100, 1_000], typical=[400, 4_000], high=[1_000, 6_000],
)  # fmt: skip
UNLIMITED = "Set a pace or a cap, or raise the budget."


@pytest.mark.parametrize(
    ("decisions", "committed", "changes", "expected", "todo"),
    [
        (0, 0, {}, "not_started", "Request offers from your platform."),
        (99, 9_000, {}, "too_early", "Nothing needs to be done."),  # 1 % of the visitors are 100
        (100, 1_000, {}, "on_plan", "Nothing needs to be done."),
        (100, 1_001, {}, "above_plan", UNLIMITED),
        (100, 99, {}, "below_plan", "Check whether visitors accept and rate."),
        (5_050, 3_500, {}, "on_plan", "Nothing needs to be done."),  # half-way between the points
        (5_050, 3_501, {"pace_over": 9**9}, "above_plan", "Check the pace, or raise the budget."),
        (5_050, 3_501, {"pace_over": 9**9, "cap_per_player": 5}, "above_plan",
         "Check the caps and the pace, or raise the budget."),
        (5_050, 549, {}, "below_plan", "Check whether visitors accept and rate."),
        (5_050, 0, {"status": "shadow"}, "not_started", "Go live to start the plan."),
        (10_001, 9_000, {}, "ended", "Plan again for more visitors."),
    ],
)  # fmt: skip
def test_the_spending_is_compared_with_the_plan(
    decisions: int, committed: int, changes: dict[str, Any], expected: str, todo: str
) -> None:
    state = state_of(decisions=decisions, committed=committed, **changes)
    found = plan_status(state, PLANNED)
    assert (found.status.value, found.todo) == (expected, todo)
    off_plan = [f"spending_{expected}"] if expected in ("above_plan", "below_plan") else []
    alerts = [kind for kind in kinds(state, plan=PLANNED) if kind != "budget_ahead_of_pace"]
    assert alerts == off_plan
    # Visitors in shadow mode, before the campaign went live, are not compared with the plan.
    state.decisions += 4_000
    shifted = plan_status(state, PLANNED, 4_000)
    assert (shifted.status, shifted.todo) == (found.status, found.todo)
    assert shifted.shadow_visitors == 4_000
    state.status = "paused"
    assert kinds(state, plan=PLANNED) == []  # nothing is spent
