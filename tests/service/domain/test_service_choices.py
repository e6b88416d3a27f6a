"""Decisions: the arm and payment of an offer, batches, pacing, added and retired arms."""

from __future__ import annotations

import json
import math
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from plan_against_live import certain_counting
from sizes import sized
from writer_fixtures import Service, hashed, service

import entice
from entice.api_types import ArmView
from entice.service.domain.campaign import Campaign, Limit
from entice.service.domain.commands import (
    Accept,
    AddArms,
    ChangeCampaign,
    CreateCampaign,
    Decline,
    MakeOffer,
    MakeOffers,
    Rate,
    RetireArm,
    Reverse,
)
from entice.service.domain.rules import CampaignRules
from entice.service.domain.spec import CampaignSpec
from entice.service.storage.queries import load_campaign

__all__ = ["service"]

# Single offers


def test_an_arm_that_costs_exactly_the_remaining_budget_is_offered(service: Service) -> None:
    campaign = service.create(price_of_a_star=5, budget=1, arms=["a", "b"])
    service.rate_organic(campaign, a=[3, 3, 3, 3, 4], b=[3])
    service.offer(campaign, 0)
    offer = service.offer(campaign, 1)
    assert (offer["arm"], offer["amount"]) == ("b", 1)


def test_the_first_decision_uses_existing_ratings(service: Service) -> None:
    campaign = service.create()
    service.rate_organic(campaign, a=[1], b=[5], c=[5])
    offer = service.offer(campaign, 1)
    assert (offer["arm"], offer["amount"]) == ("b", 0)
    campaign = service.create()
    service.rate_organic(campaign, a=[1], b=[2], c=[5])
    offer = service.offer(campaign, 1, eligible=["b", "c"])
    assert (offer["arm"], offer["amount"], offer["reason"]) == ("c", 0, "own_choice")


def test_an_unrated_arm_shows_the_middle_of_the_scale(service: Service) -> None:
    for given, shown in ((None, 3.0), (1.5, 1.5)):
        campaign = service.create(unrated_shows=given)
        assert [arm.shown for arm in service.queries.arms(campaign)] == [shown] * 3


@pytest.mark.parametrize("policy_sees", ["stars", "zero_to_one"])
def test_an_unrated_arm_is_paid_for_while_less_than_one_rating_is_expected(
    service: Service, policy_sees: str
) -> None:
    campaign = service.create(policy_sees=policy_sees)
    service.rate_organic(campaign, a=[5, 5], b=[5, 5])
    paid = []
    for player in range(40):
        expected = arm_of(service, campaign, "c").expected
        offer = service.offer(campaign, player)
        if offer["arm"] == "c":
            assert expected < 1
            paid.append(offer)
    # Before any history, the prior expects a rating of almost every offer.
    assert [offer["amount"] for offer in paid] == [400, 400]
    assert arm_of(service, campaign, "c").expected >= 1
    service.do(Decline(paid[0]["id"]))
    assert arm_of(service, campaign, "c").expected < 1
    assert service.offer(campaign, 50)["arm"] == "c"


def test_an_arm_that_nobody_rates_is_paid_for_again(service: Service) -> None:
    campaign = service.create(rating_window=1000)
    service.rate_organic(campaign, a=[5], b=[5])
    paid = []
    for player in range(100):
        offer = service.offer(campaign, player)
        service.do(Accept(offer["id"]))
        paid += [player] if offer["arm"] == "c" else []
        service.later(10)
    assert len(paid) > 10
    arm = arm_of(service, campaign, "c")
    assert arm.overdue_first_rating is False  # nobody rates anything, so no rating is expected
    assert service.queries.campaign(campaign).share_who_rate < 0.05
    assert service.faults(campaign) == [None]


def test_an_arm_that_is_rated_less_often_than_others_is_flagged(
    service: Service,
) -> None:
    campaign = service.create(rating_window=1000, policy=entice.EpsilonGreedy(c=1000))
    for player in range(60):
        offer = service.offer(campaign, player)
        service.do(Accept(offer["id"]))
        service.later(20)
        if offer["arm"] != "c":
            service.do(Rate(offer["id"], 3))  # as displayed by an unrated arm, so every arm costs 0
    assert 0.5 < service.queries.campaign(campaign).share_who_rate < 0.9
    flags = {arm.id: arm.overdue_first_rating for arm in service.queries.arms(campaign)}
    assert flags == {"a": False, "b": False, "c": True}
    assert arm_of(service, campaign, "c").offered > 3


def test_offers_from_before_an_upgrade_count_as_unrated_until_they_are_rated(
    service: Service,
) -> None:
    with certain_counting():  # by the policy whose old step other tests compile
        campaign = service.create(policy=entice.UCB())
        old = [service.offer(campaign, player)["id"] for player in range(40)]
        for offer in old:
            service.do(Accept(offer))
    service.later(100)
    service.offer(campaign, 50)  # upgrades the campaign
    for offer in old[:4]:
        service.do(Rate(offer, 4))
    share = service.queries.campaign(campaign).share_who_rate
    assert share is not None
    assert 0 < share < 0.3
    assert service.faults(campaign) == [None]


def test_offers_that_were_declined_do_not_make_a_first_rating_overdue(service: Service) -> None:
    campaign = service.create(rating_window=1000, policy=entice.EpsilonGreedy(c=1000))
    for player in range(90):
        offer = service.offer(campaign, player)
        if offer["arm"] == "c":
            service.do(Decline(offer["id"]))
        else:
            service.do(Accept(offer["id"]))
            service.do(Rate(offer["id"], 3))
        service.later(20)
    arm = arm_of(service, campaign, "c")
    assert (arm.offered, arm.overdue_first_rating) == (0, False)


def test_a_campaign_always_counts_ratings_in_flight(service: Service) -> None:
    spec = CampaignSpec(
        name="Tea", arms=["a", "b"], budget=1, price_of_a_star=1,
        policy=entice.UCB(count_in_flight=True),
    )  # fmt: skip
    refusal = service.refusal(CreateCampaign(spec))
    assert refusal.status == 422
    assert "policy.count_in_flight can't be set in a campaign" in str(refusal.detail)


def arm_of(service: Service, campaign: str, name: str) -> ArmView:
    return next(arm for arm in service.queries.arms(campaign) if arm.id == name)


def test_an_unrated_arm_that_is_the_players_own_choice_is_offered_again(service: Service) -> None:
    campaign = service.create()
    offers = [service.offer(campaign, player) for player in range(9)]
    assert {o["arm"] for o in offers} == {"a", "b", "c"}
    assert all(o["amount"] == 0 for o in offers)


def test_the_next_best_affordable_arm_is_offered(service: Service) -> None:
    campaign = service.create(arms=["a", "b", "c", "d"], cap_per_offer=250, unrated_shows=1)
    service.rate_organic(campaign, a=[5], b=[4], c=[3])
    service.offer(campaign, 0, eligible=["a"])
    for player in range(1, 4):
        offer = service.offer(campaign, player, eligible=["b", "c", "d"])  # d costs 600
        assert offer["arm"] in ("b", "c")
        assert offer["amount"] == (200 if offer["arm"] == "c" else 0)
        assert offer["reason"] == "limited"
        assert service.queries.offer(offer["id"]).arithmetic.limited_by == "cap_per_offer"


@pytest.mark.parametrize("limit", ["budget", "cap_per_offer", "cap_per_player"])
def test_if_no_arm_is_affordable_the_own_choice_is_offered_with_the_limit(
    service: Service, limit: str
) -> None:
    campaign = service.create(unrated_shows=1, **{limit: 0})
    service.rate_organic(campaign, a=[5], b=[4])
    for player in range(10):
        offer = service.rated(campaign, player, 5)
        assert (offer["arm"], offer["greedy_arm"], offer["paid"]) == ("a", "a", 0)
        assert offer["reason"] == "limited"
        assert service.queries.offer(offer["id"]).arithmetic.limited_by == limit


@pytest.mark.parametrize("rules", [1, 2])
def test_a_limit_is_named_only_if_it_changed_the_decision(
    service: Service, monkeypatch: pytest.MonkeyPatch, rules: int
) -> None:
    """Greedy always chooses the own choice; version 1 of the rules named the limit anyway."""
    monkeypatch.setattr(Campaign, "create", partial(Campaign.create, rules=rules))
    monkeypatch.setattr(CampaignRules, "upgrade", lambda *_: None)
    campaign = service.create(policy=entice.Greedy(), cap_per_offer=0)
    service.rate_organic(campaign, a=[5], b=[4])
    offer = service.offer(campaign, 1)
    limited_by = service.queries.offer(offer["id"]).arithmetic.limited_by
    expected = {1: ("limited", "cap_per_offer"), 2: ("own_choice", None)}
    assert (offer["reason"], limited_by) == expected[rules]
    monkeypatch.undo()
    assert service.faults(campaign) == [None]


POLICIES = [
    entice.UCB(),
    entice.EpsilonGreedy(c=5),
    entice.RoundRobinEpsilonGreedy(c=5),
    entice.ThompsonSampling(),
    entice.DriftCorrectedThompson(),
    entice.EqualPay(),
    entice.EqualPayElimination(horizon=200),
    entice.SlidingWindowUCB(window=50),
]


@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: type(policy).__name__)
def test_a_decision_is_limited_if_and_only_if_it_differs_without_limits(
    service: Service, policy: Any
) -> None:
    """Each decision is made twice with the same state and random numbers, once without limits."""
    probe = None if policy.equal_pay else entice.Probe(share=0.3, amount=0.75)
    cap = 15 if policy.equal_pay else 120
    name = service.create(policy=policy, cap_per_offer=cap, probe=probe, unrated_shows=2)
    service.rate_organic(name, a=[5, 4], b=[4, 4], c=[3, 5])
    seen = set()
    for player in range(sized(60, 120)):
        with service.store.read() as session:
            campaign = load_campaign(session, name)
        free = campaign.decide(service.clock.at, Limit(10**9, "budget"), None, None)
        offer = service.rated(name, player, 1 + 7 * player % 5)
        changed = (offer["arm"], offer["payment"]) != (campaign.state.arms[free.arm], free.payment)
        limited_by = service.queries.offer(offer["id"]).arithmetic.limited_by
        assert (limited_by is not None) == changed
        assert (offer["reason"] == "limited") == (changed and offer["reason"] != "probe")
        seen.add(changed)
    assert seen == {True, False}
    assert service.faults(name) == [None]


def test_a_players_offers_stay_within_the_cap_per_player(service: Service) -> None:
    campaign = service.create(cap_per_player=500, policy=entice.EpsilonGreedy(c=1000))
    service.rate_organic(campaign, a=[5], b=[4], c=[4])  # b and c, two draws in three, cost 200
    bought = []
    for _ in range(20):
        offer = service.offer(campaign, 1)
        service.do(Accept(offer["id"]))
        bought.append(offer)
    assert sum(offer["amount"] for offer in bought) == 400
    service.do(Reverse(next(offer["id"] for offer in bought if offer["amount"])))
    later = []
    for _ in range(10):
        later.append(service.offer(campaign, 1))
        service.do(Accept(later[-1]["id"]))
    assert sum(offer["amount"] for offer in later) == 200  # the reversed amount is available again
    other = [service.offer(campaign, player) for player in range(2, 12)]
    assert any(offer["amount"] for offer in other)


def test_what_the_player_sees_sets_the_price(service: Service) -> None:
    campaign = service.create()
    service.rate_organic(campaign, a=[5], b=[4])
    offer = service.offer(campaign, 1, displayed={"c": 4.9, "a": 4.0, "b": 5.0})
    assert (offer["arm"], offer["greedy_arm"], offer["amount"]) == ("c", "b", 20)
    sums = service.queries.offer(offer["id"]).arithmetic
    assert sums.shown == {"a": 4.0, "b": 5.0, "c": 4.9}
    assert (sums.own_choice_shows, sums.arm_shows) == (5.0, 4.9)
    assert service.arms(campaign)["a"] == (1, 5.0, 0)  # a displayed value is not a rating


def test_only_eligible_arms_are_offered_or_compared(service: Service) -> None:
    campaign = service.create(policy=entice.EpsilonGreedy(c=1))
    service.rate_organic(campaign, a=[5, 5, 5])
    for player in range(30):
        offer = service.offer(campaign, player, eligible=["c", "b"])
        assert offer["arm"] in ("b", "c")
        assert (offer["greedy_arm"], offer["amount"]) == (offer["arm"], 0)


@pytest.mark.parametrize(
    "among",
    [
        {"eligible": []},
        {"eligible": ["a", "z"]},
        {"displayed": {"z": 3.0}},
        {"displayed": {"a": math.nan}},
        {"displayed": {"a": math.inf}},
        {"displayed": {"a": 1e300}},
    ],
)
def test_a_request_with_impossible_arms_or_ratings_is_invalid(service: Service, among: Any) -> None:
    campaign = service.create()
    assert service.refusal(MakeOffer(campaign, hashed(1), **among)).status == 422
    batch = [MakeOffer(campaign, hashed(0)), MakeOffer(campaign, hashed(1), **among)]
    assert service.refusal(MakeOffers(campaign, batch)).status == 422
    assert service.queries.campaign(campaign).decisions == 0


def test_the_log_records_the_inputs_of_a_decision(service: Service) -> None:
    campaign = service.create(policy=entice.EpsilonGreedy(c=0.1), seed=11)
    service.do(ChangeCampaign(campaign=campaign, cap_per_offer=900))
    service.offer(campaign, 1, eligible=["a", "b"], displayed={"b": 4.5})
    created, *_, offered = (json.loads(bytes(e.body)) for e in service.queries.events(campaign))
    assert created["spec"]["seed"] == 11
    assert (offered["n"], offered["version"], offered["limit"]) == (1, 2, 900)
    assert offered["shown"] == [3.0, 4.5, 3.0]
    assert (offered["eligible"], offered["displayed"]) == (["a", "b"], {"b": 4.5})
    assert 0 < offered["propensity"] < 1
    assert offered["player"] == hashed(1).hex()


@pytest.mark.parametrize(
    "policy", [entice.ThompsonSampling(), entice.DriftCorrectedThompson()], ids=lambda p: p.label
)
def test_a_decision_is_determined_by_the_seed_and_its_number(
    service: Service, policy: Any, tmp_path: Path
) -> None:
    def offers(at: Service, seed: int, one_by_one: bool) -> list[tuple[str, int]]:
        campaign = at.create(policy=policy, seed=seed)
        if one_by_one:
            made = [at.offer(campaign, player) for player in range(40)]
        else:
            batch = [MakeOffer(campaign, hashed(player)) for player in range(40)]
            made = at.do(MakeOffers(campaign, batch))["offers"]
        return [(offer["arm"], offer["amount"]) for offer in made]

    other = Service(tmp_path / "other.db")
    first = offers(service, 3, one_by_one=True)
    assert offers(other, 3, one_by_one=False) == first
    assert offers(service, 4, one_by_one=True) != first
    other.close()


# Batches, pacing, arms


def test_the_decisions_of_a_batch_see_each_others_reservations(service: Service) -> None:
    campaign = service.create(budget=1000, arms=["a", "b", "c", "d"], unrated_shows=1)
    service.rate_organic(campaign, a=[5, 5])
    batch = [MakeOffer(campaign, hashed(player)) for player in range(12)]
    offers = service.do(MakeOffers(campaign, batch))["offers"]
    assert [offer["amount"] for offer in offers if offer["amount"]] == [
        800
    ]  # the budget does not allow a second
    assert len({offer["id"] for offer in offers}) == 12
    assert service.money(campaign) == (1000, 800, 0)
    service.do(ChangeCampaign(campaign=campaign, budget=10_000))
    batch = [MakeOffer(campaign, hashed(player)) for player in range(20, 40)]
    offers = service.do(MakeOffers(campaign, batch))["offers"]
    explored = [offer["arm"] for offer in offers if offer["amount"]]
    assert sorted(explored) == ["c", "d"]  # each once; b is already in flight


def test_the_budget_is_paced_on_log_t(service: Service) -> None:
    over, budget = 400, 5_000
    campaign = service.create(
        budget=budget, pace_over=over, policy=entice.EpsilonGreedy(c=1000), unrated_shows=1
    )
    display = {"a": 5.0, "b": 1.0, "c": 1.0}
    service.rate_organic(campaign, b=[1], c=[1])
    batch = [MakeOffer(campaign, hashed(p), None, display) for p in range(2 * over)]
    offers = service.do(MakeOffers(campaign, batch[:over]))["offers"]
    spent, followed = 0, 0
    for t, offer in enumerate(offers, 1):
        spent += offer["amount"]
        allowed = budget * math.log(1 + t) / math.log(1 + over)
        assert spent <= allowed
        followed += spent > allowed - 800
    assert followed > 0.9 * over  # two draws in three cost 800 and use the limit
    assert spent > budget - 800
    more = service.do(MakeOffers(campaign, batch[over:]))["offers"]
    assert spent + sum(offer["amount"] for offer in more) <= budget
    assert service.faults(campaign) == [None]


def test_an_added_arm_is_explored_and_a_retired_one_is_not_offered(service: Service) -> None:
    campaign = service.create(arms=["a", "b"])
    for player in range(6):
        service.rated(campaign, player, 4)
    open_offer = service.offer(campaign, 10)
    service.do(AddArms(campaign, ["c", "a"]))
    joined = service.offer(campaign, 11)
    assert (joined["arm"], joined["amount"]) == ("c", 200)
    service.do(RetireArm(campaign, "c", True))
    service.do(Accept(joined["id"]))
    service.do(Rate(joined["id"], 5))  # an earlier offer can still be accepted and rated
    assert service.arms(campaign)["c"] == (1, 5.0, 0)
    assert all(service.offer(campaign, player)["arm"] != "c" for player in range(20, 40))
    assert service.refusal(MakeOffer(campaign, hashed(50), ["c"])).status == 422
    service.do(RetireArm(campaign, "c", False))
    assert service.offer(campaign, 51)["greedy_arm"] == "c"
    service.do(Accept(open_offer["id"]))
    assert service.faults(campaign) == [None]


def test_the_last_active_arm_cannot_be_retired(service: Service) -> None:
    campaign = service.create(arms=["a", "b"])
    service.do(RetireArm(campaign, "a", True))
    assert service.refusal(RetireArm(campaign, "b", True)).status == 409
    assert service.refusal(RetireArm(campaign, "z", True)).status == 404
    assert service.do(RetireArm(campaign, "a", True))["retired"]  # repeated
    assert service.offer(campaign, 1)["arm"] == "b"


def test_invalid_ids_and_too_many_arms_are_rejected(service: Service) -> None:
    campaign = service.create()
    for arms in (["d", "d"], ["a b"], [""], [], [f"x{i}" for i in range(998)]):
        assert service.refusal(AddArms(campaign, arms)).status == 422
    assert len(service.queries.arms(campaign)) == 3


def test_a_campaign_that_was_stored_with_a_dot_for_an_arm_still_opens(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("entice.service.domain.commands.reject_dots", lambda where, arms: None)
    campaign = service.create(arms=["a", "."])
    service.do(AddArms(campaign, [".."]))
    monkeypatch.undo()
    again = Service(service.path)
    try:
        again.rated(campaign, 1, 5, eligible=["."])
        again.do(AddArms(campaign, ["b", "."]))  # an existing arm is ignored
        assert [arm.id for arm in again.queries.arms(campaign)] == ["a", ".", "..", "b"]
        assert again.faults(campaign) == [None]
    finally:
        again.close()
    assert "'.' or '..'" in service.refusal(AddArms(service.create(), ["."])).detail


@pytest.mark.parametrize(
    "policy",
    [
        entice.DriftCorrectedThompson(),
        entice.RoundRobinEpsilonGreedy(c=1),
        entice.MOSS(horizon=100),
    ],
    ids=lambda policy: policy.label,
)
def test_a_policy_with_memory_survives_changes_of_the_campaign(
    service: Service, policy: Any
) -> None:
    campaign = service.create(policy=policy)
    for player in range(20):
        offer = service.rated(campaign, player, 1 + player % 5)
        if player % 3 == 0:
            service.do(Rate(offer["id"], 5))
        if player % 7 == 3:
            service.do(Reverse(offer["id"]))
    service.do(AddArms(campaign, ["d"]))
    service.do(ChangeCampaign(campaign=campaign, name="Coffee"))
    for player in range(20, 30):
        service.rated(campaign, player, 3)
    assert service.faults(campaign) == [None]
