"""Overlap: drawn arms, the propensities of the mixture, and what the log records of them."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import msgspec
import numpy as np
import pytest
from scipy import stats
from sizes import sized
from writer_fixtures import Service, service

import entice
from entice.errors import InputError
from entice.model.overlap import NOT_DRAWN, draw_overlap
from entice.policies.propensity import MAX_ARMS_TO_INTEGRATE, propensity_function
from entice.rng import OVERLAP, new_stream
from entice.service.domain.campaign import Campaign, Decision, Limit
from entice.service.domain.commands import Accept, AddArms, ChangeCampaign, Rate
from entice.service.domain.events import Offered, decode
from entice.service.domain.explain import explain
from entice.service.domain.spec import CampaignSpec

__all__ = ["service"]

pytestmark = pytest.mark.usefixtures("unmeasured")

FALSE_ALARM = 1e-6
"""The false-alarm probability of each comparison for a random seed; the seeds are fixed."""
POLICIES = [
    entice.UCB(), entice.EpsilonGreedy(c=2), entice.ThompsonSampling(), entice.Greedy(),
    entice.RoundRobinEpsilonGreedy(c=2), entice.AlternatingThompson(),
]  # fmt: skip


def campaign_of(policy: Any, **changes: Any) -> Campaign:
    """Return a campaign after 40 decisions; "a" leads, then "b", "c" and "d"."""
    spec = CampaignSpec(
        name="Tea", arms=list("abcd"), policy=policy, budget=10**9, price_of_a_star=200, seed=1,
        **{"overlap": 0.3} | changes,
    )  # fmt: skip
    campaign = Campaign.create("c_1", spec, 0)
    campaign.state.decisions = 40
    for arm, ratings in enumerate([[5, 4, 4], [4, 4, 4], [3, 5], [3]]):
        for rating in ratings:
            campaign.state.pulls[arm] += 1
            campaign.state.totals[arm] += rating
            campaign.update_arm(arm, True, 0.0, rating)
    return campaign


def decide(campaign: Campaign, seed: int, most: int = 10**6, **among: Any) -> Decision:
    """Make the campaign's next decision with the random numbers of a seed."""
    memory = campaign.memory.copy()
    msgspec.structs.force_setattr(campaign.spec, "seed", seed)
    made = campaign.decide(0, Limit(most, "budget"), among.get("eligible"), among.get("displayed"))
    campaign.memory[:] = memory
    return made


@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: policy.label)
@pytest.mark.parametrize(
    "among", [{}, {"eligible": ("b", "d")}, {"most": 100}, {"most": 0}], ids=str
)
def test_arms_are_offered_as_often_as_the_mixture_says(policy: Any, among: Any) -> None:
    campaign, times = campaign_of(policy), sized(300, 3000)
    made = [decide(campaign, seed, **among) for seed in range(times)]
    assert len({decision.overlap for decision in made}) == 1  # the seed changes no propensity
    expected = np.array(made[0].overlap.propensities)
    assert expected.sum() == pytest.approx(1, abs=1e-6)
    assert all(decision.propensity == expected[decision.arm] for decision in made)
    counts = np.bincount([decision.arm for decision in made], minlength=4)
    assert counts[expected == 0].sum() == 0
    some = expected > 0
    assert expected[some].min() >= 0.3 / some.sum() - 1e-9
    if some.sum() > 1:
        test = stats.chisquare(counts[some], times * expected[some] / expected[some].sum())
        assert test.pvalue > FALSE_ALARM


def test_the_mixture_is_the_policys_propensity_and_a_uniform_draw() -> None:
    campaign = campaign_of(entice.EpsilonGreedy(c=2))
    mixture = decide(campaign, 1).overlap.propensities
    alone = campaign_of(entice.EpsilonGreedy(c=2), overlap=0.0)
    seen = {made.arm: made.propensity for made in (decide(alone, seed) for seed in range(300))}
    assert len(seen) == 4
    for arm, likely in seen.items():
        assert mixture is not None
        assert mixture[arm] == pytest.approx(0.3 / 4 + 0.7 * likely, abs=1e-8)


@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: policy.label)
def test_decisions_that_are_not_drawn_are_those_without_overlap(policy: Any) -> None:
    campaign, alone = campaign_of(policy), campaign_of(policy, overlap=0.0)
    drawn = 0
    for seed in range(100):
        made, without = decide(campaign, seed), decide(alone, seed)
        assert without.overlap == (None, None, None)
        arm = draw_overlap(0.3, np.ones(4, np.bool_), new_stream(seed, 41, OVERLAP))
        if arm in (NOT_DRAWN, without.arm):
            assert made[:5] == without[:5]  # arm, own choice, payment, amount and reason
        else:
            drawn += 1
            assert (made.arm, made.reason) == (arm, "overlap")
            gap = max(campaign.shown_stars()) - campaign.shown_stars()[arm]
            assert made.payment == gap
            assert (made.payment > 0) == (made.arm != made.greedy)
    assert 5 < drawn < 45


def test_a_limit_changes_a_drawn_arm_only_if_it_is_too_expensive() -> None:
    """With the same random numbers, a drawn arm that is affordable stays the same."""
    campaign, kept, changed = campaign_of(entice.Greedy(), overlap=0.9), 0, 0
    for seed in range(200):
        free, limited = decide(campaign, seed), decide(campaign, seed, most=100)
        assert limited.amount <= 100
        if free.amount <= 100:
            assert limited[:5] == free[:5]
            kept += 1
        else:
            assert limited.limited
            changed += 1
    assert min(kept, changed) > 20


def test_control_a_wrong_mixture_is_detected() -> None:
    campaign, times = campaign_of(entice.UCB()), sized(600, 3000)
    counts = Counter(decide(campaign, seed).arm for seed in range(times))
    wrong = np.full(4, 0.15 / 4) + 0.85 * (np.arange(4) == counts.most_common(1)[0][0])
    test = stats.chisquare([counts[arm] for arm in range(4)], times * wrong)
    assert test.pvalue < FALSE_ALARM


def offered_events(service: Service, campaign: str) -> list[Offered]:
    with service.store.read() as session:
        bodies = session.rows("SELECT body FROM events ORDER BY seq")
    found = [decode(body) for (body,) in bodies]
    return [event for event in found if isinstance(event, Offered) and event.campaign == campaign]


def visit(service: Service, campaign: str, visitors: range, **among: Any) -> list[Any]:
    made = []
    for visitor in visitors:
        made.append(service.offer(campaign, visitor, **among))
        service.do(Accept(made[-1]["id"]))
        service.do(Rate(made[-1]["id"], 1 + visitor % 5))
        service.later(60)
    return made


def test_overlap_can_be_changed_while_the_campaign_runs_and_the_log_is_replayed(
    service: Service,
) -> None:
    campaign = service.create(cap_per_offer=300)
    visit(service, campaign, range(20))
    assert service.do(ChangeCampaign(campaign=campaign, overlap=0.0))["version"] == 1
    assert service.do(ChangeCampaign(campaign=campaign, overlap=0.5))["spec"]["overlap"] == 0.5
    visit(service, campaign, range(20, 60))
    visit(service, campaign, range(60, 70), displayed={"a": 4.5})
    service.do(ChangeCampaign(campaign=campaign, status="paused"))
    visit(service, campaign, range(70, 80))
    service.do(ChangeCampaign(campaign=campaign, status="live"))
    assert "overlap" not in service.do(ChangeCampaign(campaign=campaign, overlap=0.0))["spec"]
    visit(service, campaign, range(80, 100))
    for event in offered_events(service, campaign):
        assert (event.propensities is not None) == (20 < event.n <= 70)
        assert (event.counts is not None) == (20 < event.n <= 70)
        assert (event.averages is not None) == (60 < event.n <= 70)
        if event.reason == "overlap":
            assert event.propensities is not None
            assert event.propensity == event.propensities["abc".index(event.arm)]
    reasons = Counter(event.reason for event in offered_events(service, campaign))
    assert reasons["overlap"] > 5
    assert service.faults(campaign) == [None]


def test_a_campaign_without_overlap_stores_what_it_stored_before(service: Service) -> None:
    campaign = service.create()
    visit(service, campaign, range(3))
    with service.store.read() as session:
        bodies = [json.loads(body) for (body,) in session.rows("SELECT body FROM events")]
    assert "overlap" not in bodies[0]["spec"]
    for body in bodies:
        assert not {"propensities", "counts", "averages"} & set(body)


def test_drawn_offers_are_explained() -> None:
    drawn = Offered(
        "c_0", 2, 0, 1, 1, "", "tea", "mint", 0.25, 50, "overlap", 0.01, (4.25, 4.5), 0, 300
    )
    assert explain(drawn) == (
        "Drawn at random, to learn what other policies would achieve: tea, which shows 0.25 stars "
        "less than mint. The payment covers the gap."
    )
    own = msgspec.structs.replace(drawn, arm="mint", payment=0.0, amount=0)
    assert explain(own) == (
        "Drawn at random, to learn what other policies would achieve: mint, the visitor's own "
        "choice. Nothing needs to be paid."
    )


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"overlap": -0.01}, "must be a share of decisions: at least 0 and less than 1; got -0.01"),
        ({"overlap": 1.0}, "less than 1; got 1"),
        ({"overlap": float("nan")}, "finite"),
        ({"overlap": "much"}, "must be a number"),
        ({"policy": entice.EqualPay()}, "compares ratings under equal payments"),
        (
            {"policy": entice.EqualPayElimination(horizon=500)},
            "compares ratings under equal payments",
        ),
        ({"policy": entice.DriftCorrectedThompson()}, "propensities are not known exactly"),
        ({"policy": entice.ThompsonSampling(scale="std")}, "propensities are not known exactly"),
        (
            {"policy": entice.ThompsonSampling(), "arms": [f"x{i}" for i in range(101)]},
            "more than 100 arms; got '0.02 and 101 arms'",
        ),
    ],
    ids=str,
)
def test_overlap_that_is_not_possible_is_rejected(changes: dict[str, Any], words: str) -> None:
    settings: dict[str, Any] = {
        "name": "Tea", "arms": ["a", "b"], "budget": 1, "price_of_a_star": 1, "overlap": 0.02,
    }  # fmt: skip
    CampaignSpec(**settings)
    with pytest.raises(InputError, match=words):
        CampaignSpec(**settings | changes)


def test_a_running_campaign_rejects_what_a_new_one_does(service: Service) -> None:
    campaign = service.create(policy=entice.ThompsonSampling(), overlap=0.02)
    for share in (-0.5, 1.0):
        assert service.refusal(ChangeCampaign(campaign=campaign, overlap=share)).status == 422
    many = [f"x{i}" for i in range(98)]
    assert "100 arms" in str(service.refusal(AddArms(campaign, many)))
    service.do(AddArms(campaign, many[:-1]))
    assert service.faults(campaign) == [None]


def test_overlap_is_checked_against_the_arms_that_were_added_live(service: Service) -> None:
    campaign = service.create(policy=entice.ThompsonSampling())
    service.do(AddArms(campaign, [f"x{i}" for i in range(MAX_ARMS_TO_INTEGRATE)]))
    events = service.queries.head(campaign)
    refusal = service.refusal(ChangeCampaign(campaign=campaign, overlap=0.02))
    assert (refusal.status, service.queries.head(campaign)) == (422, events)
    assert f"more than {MAX_ARMS_TO_INTEGRATE} arms" in refusal.detail
    assert service.do(ChangeCampaign(campaign=campaign, budget=90_000))["version"] == 2


def test_the_service_needs_the_propensities_of_its_policies() -> None:
    """All policies that may have overlap know the propensity of every arm without repetitions."""
    for policy in POLICIES:
        found = propensity_function(policy, policy.kernel(4), 1)
        assert found is None or (found.every is not None and not found.estimated)
