"""A plan's run equals a live campaign, decision by decision and bit for bit.

The loops of some plans run in plain Python, which gives the same numbers
(`tests/engine/test_plain_kernel.py`); `make test-long` compiles all of them.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_type_hints

import msgspec
import numpy as np
import pytest
from live_campaign import LiveRun, Response, play_live
from plain_kernel import plain_kernel
from plan_fixtures import ALWAYS, make_plan
from sizes import LONG, sized
from writer_fixtures import hashed

import entice
from entice.model.learned_price import new_curve
from entice.planner.campaign_loop import HOLDOUT, REASONS, Visits
from entice.planner.forecast import Forecast
from entice.planner.runner import PlanRunner
from entice.planner.spec import Plan
from entice.planner.visitors import DAY
from entice.service.domain.events import Offered, decode
from entice.service.domain.from_plan import campaigns
from entice.service.domain.holdout import assign_groups
from entice.service.domain.spec import CampaignSpec
from entice.service.operations.verify import verify
from entice.service.storage.store import Store, open_store

pytestmark = pytest.mark.usefixtures("unmeasured")

LOGISTIC = entice.LogisticAcceptance(midpoint=0.1, width=0.2)
UCB, THOMPSON = entice.UCB(), entice.ThompsonSampling()
EPSILON, CORRECTED = entice.EpsilonGreedy(c=5), entice.DriftCorrectedThompson()
AN_HOUR, A_DAY = 3600, 24 * 3600

SEGMENTS = entice.PlanSegments(
    shares=[0.5, 0.3, 0.2], means=[[4.5, 3.5, 4.0, 3.8], [3.2, 4.6, 4.0, 3.6], [3.9, 3.7, 4.0, 4.8]]
)

CASES: dict[str, dict[str, Any]] = {
    "ratings at once": {"policies": [UCB], "share_who_rate": 1.0},
    "some rate, late": {
        "policies": [UCB], "share_who_rate": 0.4, "acceptance": LOGISTIC,
        "rating_delay": entice.ExponentialDelay(mean=3),
    },
    "few rate": {
        "policies": [THOMPSON], "share_who_rate": 0.05, "acceptance": ALWAYS,
        "rating_delay": entice.ExponentialDelay(mean=0.01),
    },
    "budget": {"policies": [UCB], "budget": 20, "acceptance": LOGISTIC},
    "budget, late": {
        "policies": [THOMPSON], "budget": 1.99, "share_who_rate": 0.4,
        "rating_delay": entice.LogNormalDelay(median=1, sigma=1.5),
    },
    "pace and margin": {
        "policies": [EPSILON], "budget": 40, "pace_over": 300, "margin": 0.05,
        "acceptance": LOGISTIC,
    },
    "caps": {"policies": [UCB], "cap_per_offer": 0.60, "cap_per_player": 0.55},
    "probe": {
        "policies": [EPSILON], "probe": entice.Probe(share=0.3, amount=[0.1, 0.4]),
        "budget": 30, "margin": 0.01, "share_who_rate": 0.4, "acceptance": ALWAYS,
    },
    "corrected, 0 to 1": {
        "policies": [CORRECTED], "policy_sees": "zero_to_one", "share_who_rate": 0.4,
        "acceptance": LOGISTIC, "rating_delay": 0.3,
    },
    "corrected, all limits": {
        "policies": [CORRECTED], "budget": 15, "pace_over": 500, "cap_per_offer": 0.8,
        "probe": entice.Probe(share=0.1, amount=0.25), "rating_delay": 0.5, "acceptance": ALWAYS,
    },
    "late ratings count": {
        "policies": [UCB], "rating_window": AN_HOUR, "policy_sees": "zero_to_one",
        "rating_delay": entice.TableDelay(ages=[0, 0.1, 2], shares=[0.2, 0.6, 1]),
    },
    "late ratings are rejected": {
        "policies": [THOMPSON], "rating_window": A_DAY, "late_ratings": False,
        "rating_delay": entice.ExponentialDelay(mean=1), "acceptance": LOGISTIC,
    },
    "equal pay, 0 to 1": {
        "policies": [entice.EqualPay(noise=0.25)], "policy_sees": "zero_to_one", "margin": 0.02,
        "share_who_rate": 0.6, "acceptance": LOGISTIC, "rating_delay": 0.3,
    },
    "equal pay, all limits": {
        "policies": [entice.EqualPay(horizon=3600)], "budget": 1, "pace_over": 500,
        "cap_per_offer": 0.4, "share_who_rate": 1.0, "acceptance": ALWAYS, "rating_delay": 0.1,
    },
    "equal-pay elimination": {
        "policies": [entice.EqualPayElimination(horizon=360)], "budget": 2, "cap_per_offer": 0.3,
        "share_who_rate": 1.0, "acceptance": LOGISTIC, "rating_delay": 0.1,
    },
    "holdout": {
        "policies": [UCB], "share_who_rate": 0.4, "acceptance": LOGISTIC, "holdout": 0.3,
        "rating_delay": entice.ExponentialDelay(mean=3),
    },
    "holdout kept apart": {
        "policies": [EPSILON], "probe": entice.Probe(share=0.3, amount=[0.1, 0.4]),
        "budget": 15, "margin": 0.01, "share_who_rate": 0.4, "acceptance": ALWAYS,
        "holdout": 0.25, "holdout_feeds_averages": False,
    },
    "holdout and equal pay": {
        "policies": [entice.EqualPay(noise=0.25)], "policy_sees": "zero_to_one", "margin": 0.02,
        "share_who_rate": 0.6, "acceptance": LOGISTIC, "rating_delay": 0.3, "holdout": 0.1,
    },
    "holdout and elimination": {
        "policies": [entice.EqualPayElimination(horizon=360)], "budget": 2, "cap_per_offer": 0.3,
        "share_who_rate": 1.0, "acceptance": LOGISTIC, "rating_delay": 0.1, "holdout": 0.2,
        "holdout_feeds_averages": False,
    },
    "overlap": {
        "policies": [EPSILON], "probe": entice.Probe(share=0.3, amount=[0.1, 0.4]),
        "overlap": 0.3, "budget": 30, "share_who_rate": 0.4, "acceptance": ALWAYS,
    },
    "overlap without a policy, 0 to 1": {
        "policies": [entice.Greedy()], "overlap": 0.2, "cap_per_offer": 0.9, "acceptance": LOGISTIC,
        "policy_sees": "zero_to_one", "rating_delay": entice.ExponentialDelay(mean=3),
    },
    "discounted": {
        "policies": [entice.DiscountedUCB(gamma=0.98)], "budget": 20, "cap_per_offer": 0.8,
        "share_who_rate": 0.6, "acceptance": LOGISTIC, "rating_delay": 0.3,
    },
    "sliding window, 0 to 1": {
        "policies": [entice.SlidingWindowUCB(window=60, xi=0.2)], "policy_sees": "zero_to_one",
        "rating_delay": entice.ExponentialDelay(mean=1), "acceptance": LOGISTIC,
    },
    "response": {
        "policies": [UCB], "share_who_rate": 1.0, "acceptance": LOGISTIC, "rating_delay": 0.3,
        "response": entice.LogisticResponse(-4, by_reward=0.8, by_payment=2),
    },
    "learned price": {
        "policies": [UCB], "share_who_rate": 0.4, "acceptance": LOGISTIC,
        "rating_delay": entice.ExponentialDelay(mean=0.2),
        "price": entice.LearnedPrice(acceptance=0.3, explore=0.4),
    },
    "learned price, segments": {
        "policies": [UCB], "share_who_rate": 0.4, "acceptance": LOGISTIC, "spread": None,
        "rating_delay": entice.ExponentialDelay(mean=0.2), "segments": SEGMENTS,
        "price": entice.LearnedPrice(acceptance=0.3, explore=0.4),
    },
    "learned price, all limits": {
        "policies": [EPSILON], "budget": 90, "pace_over": 300, "margin": 0.05,
        "cap_per_offer": 3, "acceptance": LOGISTIC, "overlap": 0.9, "holdout": 0.1,
        "probe": entice.Probe(share=0.1, amount=[0.05, 0.1]), "share_who_rate": 0.8,
        "price": entice.LearnedPrice(acceptance=0.3, explore=0.3),
    },
    "learned price, 0 to 1": {
        "policies": [CORRECTED], "policy_sees": "zero_to_one", "share_who_rate": 0.4,
        "acceptance": LOGISTIC, "rating_delay": 0.3, "price": entice.LearnedPrice(acceptance=0.3),
    },
    "segments": {
        "policies": [UCB], "share_who_rate": 0.4, "acceptance": LOGISTIC,
        "rating_delay": entice.ExponentialDelay(mean=3), "segments": SEGMENTS, "spread": None,
    },
    "segments, budget, probe, overlap, holdout": {
        "policies": [EPSILON], "probe": entice.Probe(share=0.3, amount=[0.1, 0.4]),
        "overlap": 0.1, "budget": 100, "share_who_rate": 0.4, "acceptance": ALWAYS,
        "holdout": 0.2, "segments": SEGMENTS, "spread": None,
    },
    "segments, 0 to 1": {
        "policies": [THOMPSON], "policy_sees": "zero_to_one", "share_who_rate": 1.0,
        "acceptance": LOGISTIC, "rating_delay": entice.ExponentialDelay(mean=1),
        "holdout": 0.2, "holdout_feeds_averages": False, "segments": SEGMENTS, "spread": None,
    },
    "yen": {"policies": [UCB], "currency": "JPY", "price_of_a_star": 300, "budget": 2000},
}  # fmt: skip
PLAIN = {
    "budget, late", "corrected, 0 to 1", "corrected, all limits", "late ratings count", "response",
    "overlap without a policy, 0 to 1", "discounted", "sliding window, 0 to 1", "segments, 0 to 1",
    "learned price, 0 to 1",
}  # fmt: skip
"""The cases with a combination of policy, acceptance and delay that no other test compiles."""


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    made = open_store(f"sqlite:///{tmp_path / 'entice.db'}")
    yield made
    made.close()


def campaign_spec(runner: PlanRunner, run: int, **changes: Any) -> CampaignSpec:
    """Return the campaign of a plan, with the seed of one of its runs."""
    forecast = Forecast(runner.plan, [runner.run_world(run)])
    (table,) = campaigns(forecast).values()
    if runner.plan.budget is None:
        table["budget"] = 10**15
    return CampaignSpec.from_plain(table | {"seed": runner.worlds.seed(run)} | changes)


def replay_live(store: Store, spec: CampaignSpec, visits: Visits, visitors_a_day: int) -> LiveRun:
    """Replay the visitors of a run against the live service."""

    def respond(visitor: int, offer: dict[str, Any]) -> Response:
        return Response(
            bool(visits.accepted[visitor]), spec.arms[visits.taken[visitor]],
            int(visits.rating[visitor]), int(visits.rated_at[visitor]),
        )  # fmt: skip

    assert spec.seed is not None
    group_of = assign_groups(spec.seed, spec.holdout)

    def player(visitor: int) -> bytes:
        """Return a player of the group to which the plan's visitor belongs."""
        held_out = visits.reason[visitor] == HOLDOUT
        players = (hashed(visitor + len(visits.offered) * k) for k in itertools.count())
        return next(one for one in players if (group_of(one) == "holdout") == held_out)

    def segment(visitor: int) -> str | None:
        return spec.segments[visits.segment[visitor]] if spec.segments else None

    return play_live(store, spec, len(visits.offered), visitors_a_day, respond, player, segment)


def differing(visits: Visits, live: LiveRun, spec: CampaignSpec) -> list[int]:
    """Return the visitors who got different offers from plan and service."""
    return [
        i
        for i, offer in enumerate(live.offers)
        if (offer["arm"], offer["greedy_arm"], offer["payment"], offer["amount"], offer["reason"])
        != (
            spec.arms[visits.offered[i]], spec.arms[visits.leader[i]], visits.stars[i],
            visits.amount[i], REASONS[visits.reason[i]],
        )
    ]  # fmt: skip


def check_groups(live: LiveRun, visits: Visits, entered: Any, held_out: Any) -> None:
    """Compare the totals of both groups, if there are groups."""
    for group, counts in live.state.groups.items():
        members = held_out == (group == "holdout")
        # A declined offer's rating is organic and belongs to no group.
        ratings = visits.rating[members & entered & visits.accepted].astype(int)
        assert msgspec.structs.astuple(counts) == (
            members.sum(), len(ratings), ratings.sum(), (ratings**2).sum(),
            visits.spent[members].sum(), members.sum(), (members & ~visits.accepted).sum(),
        )  # fmt: skip


def check_prices(live: LiveRun, visits: Visits, plan: Plan, store: Store) -> None:
    """Compare the answers by price; prices must have been learned, explored and paid."""
    if plan.price is None:
        assert live.state.acceptance is None
        return
    curve, other = new_curve(4), visits.offered != visits.leader
    for stars, accepted in zip(visits.stars[other], visits.accepted[other], strict=True):
        position = next((i for i, p in enumerate(curve.prices) if p >= stars * (1 - 1e-9)), 23)
        curve.answers[position] += 1
        curve.accepted[position] += accepted
    assert live.state.acceptance is not None
    assert live.state.acceptance.answers == curve.answers.tolist()
    assert live.state.acceptance.accepted == curve.accepted.tolist()
    with store.read() as session:
        decoded = [decode(body) for (body,) in session.rows("SELECT body FROM events")]
    events = [e for e in decoded if isinstance(e, Offered) and e.campaign == live.campaign]
    assert any(e.payment == e.learned_price < e.gap for e in events if e.gap and e.learned_price)
    assert any(e.price_explored and e.payment != e.learned_price for e in events)


@pytest.mark.parametrize("case", CASES)
def test_a_run_equals_a_live_campaign(case: str, store: Store) -> None:
    # Prices are learned from some 300 visitors on.
    days = 6 if "price" in CASES[case] else sized(4, 6)
    plan = make_plan(arms=4, visitors_a_day=60, days=days, replications=10, **CASES[case])
    with plain_kernel() if case in PLAIN and not LONG else contextlib.nullcontext():
        runner = PlanRunner(plan)
    controls = 0
    for run in range(sized(1, 2)):
        visits, _ = runner.simulate_run(0, run)
        spec = campaign_spec(runner, run)
        live = replay_live(store, spec, visits, plan.visitors_a_day)
        assert differing(visits, live, spec) == []
        last = (plan.visitors - 1) * DAY // plan.visitors_a_day
        entered = (visits.rating > 0) & (visits.rated_at <= last)
        held_out = visits.reason == HOLDOUT
        check_groups(live, visits, entered, held_out)
        check_prices(live, visits, plan, store)
        if not plan.holdout_feeds_averages:
            entered &= ~held_out
        if live.state.segments is not None:
            counts = live.state.segments
            for arm, segment in np.ndindex(4, 3):
                cell = (visits.taken == arm) & (visits.segment == segment)
                ratings = visits.rating[entered & cell]
                assert counts.pulls[arm][segment] == len(ratings)
                assert counts.totals[arm][segment] == ratings.sum()
        for arm in range(4):
            ratings = visits.rating[entered & (visits.taken == arm)]
            assert live.state.pulls[arm] == len(ratings)
            assert live.state.totals[arm] == ratings.sum()
        assert live.state.committed == visits.spent.sum()
        assert live.state.reserved == 0
        assert [verdict.fault for verdict in verify(store, live.campaign)] == [None]
        # Each case must exercise its own feature.
        assert visits.spent.sum() > 0
        if plan.budget is not None:
            assert "limited" in {offer["reason"] for offer in live.offers}
        if plan.probe is not None:
            assert "probe" in {offer["reason"] for offer in live.offers}
        assert held_out.any() == (plan.holdout > 0)
        if plan.overlap:
            assert "overlap" in {offer["reason"] for offer in live.offers}
        controls += sum(offer["reason"] == "control" for offer in live.offers)
    assert (controls > 0) == plan.policies[0].equal_pay


@pytest.mark.parametrize(
    "changes",
    [
        {"price_of_a_star": 201}, {"margin": 1}, {"seed": 1}, {"rating_window": A_DAY},
        {"unrated_shows": 4.0}, {"policy_sees": "zero_to_one"}, {"cap_per_offer": 40},
        {"overlap": 0.05},
    ],
)  # fmt: skip
def test_control_the_comparison_detects_different_settings(
    changes: dict[str, Any], store: Store
) -> None:
    """With one setting changed, offers differ."""
    settings = CASES["some rate, late"] | {"policies": [THOMPSON]}
    plan = make_plan(arms=4, visitors_a_day=60, days=6, replications=10, **settings)
    runner = PlanRunner(plan)
    visits, _ = runner.simulate_run(0, 0)
    spec = campaign_spec(runner, 0, **changes)
    live = replay_live(store, spec, visits, plan.visitors_a_day)
    assert differing(visits, live, spec)


def test_a_campaign_has_all_settings_of_its_plan() -> None:
    from entice.model.settings import SHARED

    plan = make_plan(
        policies=[UCB], budget=50, currency="€", margin=0.05, cap_per_offer=1, cap_per_player=2.5,
        pace_over=1000, probe=entice.Probe(share=0.1, amount=0.2), overlap=0.05,
        rating_window=A_DAY, late_ratings=False, unrated_shows=3.5, policy_sees="zero_to_one",
        holdout=0.1, holdout_feeds_averages=False,
        price=entice.LearnedPrice(acceptance=0.6, explore=0.1),
    )  # fmt: skip
    spec = campaign_spec(PlanRunner(plan), 0)
    for setting in SHARED:
        assert getattr(spec, setting) == getattr(plan, setting), setting
    money = {"budget": 5000, "price_of_a_star": 200, "margin": 5, "cap_per_offer": 100}
    for setting, amount in (money | {"cap_per_player": 250}).items():
        assert getattr(spec, setting) == amount, setting
    # Types are compared without the limits that the campaign's schema adds.
    plan_types, campaign_types = get_type_hints(Plan), get_type_hints(CampaignSpec)
    plan_fields, campaign_fields = (
        {f.name: f for f in msgspec.structs.fields(spec)} for spec in (Plan, CampaignSpec)
    )
    for setting in SHARED:
        assert campaign_types[setting] == plan_types[setting], setting
        assert campaign_fields[setting].default == plan_fields[setting].default, setting


def test_visitors_behave_alike_under_all_policies() -> None:
    plan = make_plan(
        policies=[UCB, THOMPSON], acceptance=LOGISTIC, rating_delay=entice.ExponentialDelay(mean=1)
    )
    runner = PlanRunner(plan)
    one, other = (runner.simulate_run(policy, 3)[0] for policy in (0, 1))
    assert (one.offered != other.offered).any()
    np.testing.assert_array_equal(one.rating > 0, other.rating > 0)
    np.testing.assert_array_equal(one.rated_at, other.rated_at)


def test_control_the_comparison_detects_ratings_that_are_not_kept_apart(store: Store) -> None:
    settings = CASES["holdout kept apart"]
    plan = make_plan(arms=4, visitors_a_day=60, days=6, replications=10, **settings)
    runner = PlanRunner(plan)
    visits, _ = runner.simulate_run(0, 0)
    spec = campaign_spec(runner, 0, holdout_feeds_averages=True)
    live = replay_live(store, spec, visits, plan.visitors_a_day)
    assert differing(visits, live, spec)


@pytest.mark.parametrize("changes", [{"shares": [0.4, 0.4, 0.2]}, {"known": False}])
def test_control_the_comparison_detects_other_segments(
    changes: dict[str, Any], store: Store
) -> None:
    """The campaign gets other visitors' segments than the plan's, or none."""
    settings = CASES["segments"]
    plan = make_plan(arms=4, visitors_a_day=60, days=6, replications=10, **settings)
    runner = PlanRunner(plan)
    visits, _ = runner.simulate_run(0, 0)
    other = msgspec.structs.replace(SEGMENTS, **changes)
    others = PlanRunner(msgspec.structs.replace(plan, segments=other))
    spec = campaign_spec(others, 0)
    segments = others.simulate_run(0, 0)[0].segment
    live = replay_live(store, spec, visits._replace(segment=segments), plan.visitors_a_day)
    assert differing(visits, live, spec)


def test_one_known_segment_changes_nothing() -> None:
    one = entice.PlanSegments(shares=[1], means=[[4.5, 3.5, 4.0]])
    settings = CASES["segments"] | {"segments": one}
    known, unknown = (
        PlanRunner(make_plan(**settings | {"segments": msgspec.structs.replace(one, known=known)}))
        for known in (True, False)
    )
    for mine, other in zip(known.simulate_run(0, 0), unknown.simulate_run(0, 0), strict=True):
        for column, expected in zip(mine, other, strict=True):
            np.testing.assert_array_equal(column, expected)
