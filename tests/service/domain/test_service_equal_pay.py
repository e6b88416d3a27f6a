"""Equal pay in campaigns: comparable ratings, propensities, limits, and changes while it runs."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from typing import Any

import msgspec
import numpy as np
import pytest
from rules_in_memory import MINUTE, World, play
from writer_fixtures import Service, hashed, service

import entice
from entice.errors import InputError
from entice.model.probe import Probe
from entice.policies import elimination_blocks as blocks
from entice.policies import equal_pay as levels
from entice.service.domain.campaign import Campaign, Limit
from entice.service.domain.commands import (
    Accept,
    AddArms,
    ChangeCampaign,
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

LEVELS, BLOCKS = entice.EqualPay(), entice.EqualPayElimination(horizon=2000)
both = pytest.mark.parametrize("policy", [LEVELS, BLOCKS], ids=lambda policy: policy.label)
STARS = World(means=(4.2, 3.6, 3.1), std=0.9)
"""Visitors of a campaign with three arms and ratings from 1 to 5."""


def spec_of(policy: Any, arms: int = 3, **changes: Any) -> CampaignSpec:
    settings: dict[str, Any] = {
        "name": "Tea", "arms": list("abcdefghi")[:arms], "policy": policy, "budget": 10**9,
        "price_of_a_star": 200, "seed": 7,
    }  # fmt: skip
    return CampaignSpec(**settings | changes)


@both
def test_a_probe_is_rejected(policy: Any) -> None:
    with pytest.raises(InputError, match="compares ratings under equal payments") as raised:
        spec_of(policy, probe=Probe(share=0.1, amount=0.5))
    assert "CampaignSpec: probe" in str(raised.value)
    assert "Remove the probe, or choose another policy." in str(raised.value)


@both
@pytest.mark.parametrize("scale", [4, 7, 999])
def test_one_price_is_one_amount_and_every_paid_rating_is_comparable(
    policy: Any, scale: int
) -> None:
    """Also if the policy sees payments divided by a number that is no power of two."""
    policy = msgspec.structs.replace(policy, noise=0.25)
    spec = spec_of(
        policy, lowest_rating=1, highest_rating=1 + scale, policy_sees="zero_to_one", margin=3
    )
    world = World(tuple(scale * mean for mean in (0.8, 0.65, 0.5)), 0.25 * scale)
    rules, offers = play(spec, world, 900)
    amounts = defaultdict(set)
    for offer in offers:
        amounts[offer.payment].add(offer.amount)
    assert {len(several) for several in amounts.values()} == {1}
    assert len(amounts) > 3
    if isinstance(policy, entice.EqualPay):
        # The first rating of an arm is unpaid here, so that none has to be left out.
        assert ratings_in_fit(rules.campaign) == rated(rules)
    else:
        # A block without its ratings would go on for 64 sweeps.
        paid = [offer.payment for offer in offers if offer.amount]
        assert max(Counter(paid).values()) < 8
    assert {offer.reason for offer in offers} == {"own_choice", "explore", "control"}


def rated(rules: CampaignRules) -> int:
    return sum(rules.campaign.state.pulls)


def ratings_in_fit(campaign: Campaign) -> int:
    """Return how many ratings `EqualPay` has used."""
    arms = campaign.memory[levels._HEAD :].reshape(-1, levels._BLOCK)
    return int(arms[:, levels._COUNT].sum())


def ratings_in_blocks(campaign: Campaign) -> float:
    """Return the number of ratings in the current and the last block of `EqualPayElimination`."""
    arms = campaign.memory[blocks._HEAD :].reshape(-1, blocks._BLOCK)
    return float(arms[:, [blocks._COUNT, blocks._OLD_COUNT]].sum())


@both
def test_a_rating_after_a_smaller_payment_is_not_compared(policy: Any) -> None:
    """Control: the same rating after the whole payment is compared."""
    rules, _ = play(spec_of(policy), World((4.0, 3.8, 3.7), 0.9), 100)
    campaign = rules.campaign
    count = ratings_in_fit if isinstance(policy, entice.EqualPay) else ratings_in_blocks
    compared = []
    for less in (1, 0):
        offer = paid_offer(rules)
        rules.accept(campaign.state.at, offer, offer.amount - less)
        before, memory = count(campaign), campaign.memory.copy()
        rules.rate(campaign.state.at, offer, 3)
        compared.append(count(campaign) - before)
        if less:
            changed = np.flatnonzero(campaign.memory != memory)
            seen = levels._HEAD + levels._BLOCK * offer.arm + levels._SEEN
            assert changed.tolist() == ([seen] if policy is LEVELS else [])
    assert compared[0] == 0
    assert compared[1] != 0  # a block that it completes becomes the last one


def paid_offer(rules: CampaignRules) -> Any:
    for player in range(10**6, 10**6 + 500):
        offer = rules.offer(rules.campaign.state.at, hashed(player), None, None)
        if offer.amount > 0:
            return offer
    raise AssertionError("no offer was paid")


# Limits


@both
@pytest.mark.parametrize("limit", ["cap_per_offer", "budget", "pace_over"])
def test_a_price_above_the_limit_is_not_paid_in_part(policy: Any, limit: str) -> None:
    changes = {"cap_per_offer": 8} if limit == "cap_per_offer" else {"budget": 300}
    if limit == "pace_over":
        changes["pace_over"] = 10_000
    offers = play(spec_of(policy, **changes), STARS, 500).offers
    limited = [offer for offer in offers if offer.reason == "limited"]
    unpaid = [offer for offer in limited if offer.amount == 0]
    assert unpaid
    assert all(offer.arm == offer.greedy for offer in unpaid)
    assert all(is_price(policy, offer.payment) for offer in offers)
    assert max(offer.amount for offer in offers) <= changes.get("cap_per_offer", 300)
    assert sum(offer.paid or 0 for offer in offers) <= changes.get("budget", 10**9)


def is_price(policy: Any, payment: float) -> bool:
    """Return whether a payment is one that the policy may choose."""
    params = policy.kernel(3).params
    if isinstance(policy, entice.EqualPay):
        return levels.level_of(payment, params) >= 0
    return float(4096 * payment).is_integer()


def test_the_price_of_a_star_cannot_be_changed() -> None:
    """Otherwise players of one block could get different amounts."""
    changeable = {field.name for field in msgspec.structs.fields(ChangeCampaign)}
    assert changeable.isdisjoint({"price_of_a_star", "margin", "policy", "policy_sees"})


# Propensities


def decisions(campaign: Campaign, limit: int, among: dict[str, Any], times: int) -> Any:
    """Repeat a decision with many seeds; return how often each arm was chosen, and propensities."""
    memory, chosen, stated = campaign.memory.copy(), Counter[int](), defaultdict(set)
    for seed in range(times):
        msgspec.structs.force_setattr(campaign.spec, "seed", seed)
        campaign.memory[:] = memory
        made = campaign.decide(
            campaign.state.at, Limit(limit, "budget"), among.get("eligible"), among.get("displayed")
        )
        chosen[made.arm] += 1
        stated[made.arm].add((made.propensity, made.estimated))
    campaign.memory[:] = memory
    return chosen, stated


SITUATIONS: dict[str, dict[str, Any]] = {
    "free": {},
    "with few eligible": {"eligible": ("b", "d", "e")},
    "without the leader": {"eligible": ("b", "c", "d", "e")},
    "with another display": {"displayed": {"c": 4.9}},
    "with a low limit": {"limit": 10},
    "with no money": {"limit": 0},
    "in a slow block": {"sweeps": 200.0},
    "when a block gets cheaper": {"limit": 10, "stalls": 15.0},
    "before the first rating": {"visitors": 0},
}


@pytest.mark.parametrize("situation", SITUATIONS.values(), ids=SITUATIONS.keys())
@both
def test_arms_are_chosen_as_often_as_their_propensity_says(
    policy: Any, situation: dict[str, Any]
) -> None:
    """For each number of visitors so far: in a block, at its start, and at its end."""
    world = World((4.2, 4.0, 3.9, 3.8, 3.7), 0.9)
    times, random_choices = 600, 0
    for visitors in range(60, 72, 2) if "visitors" not in situation else [0]:
        campaign = play(spec_of(policy, arms=5), world, visitors).campaign
        if "sweeps" in situation and policy is BLOCKS:
            # As if the block had waited for ratings for long.
            arms = campaign.memory[blocks._HEAD :].reshape(-1, blocks._BLOCK)
            arms[:, blocks._ASKED] = situation["sweeps"]
            arms[int(campaign.memory[blocks._LEADER]), blocks._ASKED] *= campaign.memory[
                blocks._PLACES
            ]
            arms[:, [blocks._COUNT, blocks._TOTAL]] = 0.0
            campaign.memory[blocks._SWEEP] = situation["sweeps"]
        if "stalls" in situation and policy is BLOCKS:
            campaign.memory[blocks._STALLS] = situation["stalls"]
        chosen, stated = decisions(campaign, situation.get("limit", 10**6), situation, times)
        assert all(len(several) == 1 for several in stated.values())
        likely = {arm: several.pop() for arm, several in stated.items()}
        assert not any(estimated for _, estimated in likely.values())
        assert sum(probability for probability, _ in likely.values()) == pytest.approx(1, abs=1e-8)
        for arm, (probability, _) in likely.items():
            # Five standard deviations: exceeded by chance in 6 of 10 million comparisons.
            error = 5 * (times * probability * (1 - probability)) ** 0.5
            assert abs(chosen[arm] - times * probability) <= error
        random_choices += len(likely) > 1
    if situation in ({}, SITUATIONS["in a slow block"]):
        assert (random_choices > 0) == (policy is BLOCKS)


# Changes while a campaign runs


def visit(service: Service, campaign: str, players: range, draw: random.Random) -> list[Any]:
    """Send visitors in batches of ten; return their offers."""
    offers: list[Any] = []
    for first in players[::10]:
        batch = [MakeOffer(campaign, hashed(player)) for player in range(first, first + 10)]
        made = service.do(MakeOffers(campaign, batch))["offers"]
        for offer in made:
            if draw.random() < 0.2:
                service.do(Decline(offer["id"]))
                continue
            service.do(Accept(offer["id"]))
            if draw.random() < 0.8:
                mean = {"a": 4.2, "b": 4.0, "c": 3.8}.get(offer["arm"], 4.1)
                service.do(Rate(offer["id"], min(5, max(1, round(draw.gauss(mean, 0.8))))))
        service.later(60)
        offers += made
    return offers


@both
def test_a_campaign_goes_on_through_all_changes(service: Service, policy: Any) -> None:
    campaign, draw = service.create(policy=policy), random.Random(1)
    visit(service, campaign, range(0, 100), draw)
    service.do(AddArms(campaign, ["d", "e"]))
    offers = visit(service, campaign, range(100, 400), draw)
    if policy is LEVELS:  # elimination compares them after the race that is under way
        assert {"d", "e"} <= {offer["arm"] for offer in offers}
    service.do(RetireArm(campaign, "d", True))
    service.do(RetireArm(campaign, "a", True))
    offers = visit(service, campaign, range(400, 500), draw)
    assert {offer["arm"] for offer in offers} <= {"b", "c", "e"}
    service.do(ChangeCampaign(campaign=campaign, status="paused"))
    offers = visit(service, campaign, range(500, 510), draw)
    assert {(offer["amount"], offer["reason"]) for offer in offers} == {(0, "paused")}
    service.do(ChangeCampaign(campaign=campaign, status="shadow"))
    offers = visit(service, campaign, range(510, 560), draw)
    assert {offer["amount"] for offer in offers} == {0}
    service.do(ChangeCampaign(campaign=campaign, status="live", cap_per_offer=30))
    service.do(RetireArm(campaign, "a", False))
    assert "a" in {offer["arm"] for offer in visit(service, campaign, range(560, 660), draw)}
    service.do(ChangeCampaign(campaign=campaign, status="closed"))
    assert service.refusal(MakeOffer(campaign, hashed(10**6))).status == 409
    assert service.faults(campaign) == [None]


def test_elimination_explores_an_arm_that_is_added_after_its_rival_has_retired() -> None:
    rules = play(spec_of(BLOCKS, arms=2), World((4.0, 3.9), 0.9), 60).rules
    rules.retire(rules.campaign.state.at, "b", True)
    continue_alone(rules, range(100, 400))
    paid_before = rules.campaign.state.committed
    continue_alone(rules, range(400, 500))
    assert rules.campaign.state.committed == paid_before  # a is no longer compared with anything
    rules.add_arms(rules.campaign.state.at, ("c",))
    assert 10 < continue_alone(rules, range(500, 600)).count("c") < 90


def continue_alone(rules: CampaignRules, players: range) -> list[str]:
    """Make more offers, each accepted and rated 4; return their arms."""
    arms = []
    for player in players:
        at = rules.campaign.state.at + MINUTE
        offer = rules.offer(at, hashed(player), None, None)
        rules.accept(at, offer, None)
        rules.rate(at, offer, 4)
        arms.append(rules.campaign.state.arms[offer.arm])
    return arms


def test_elimination_finds_the_best_arm_if_few_are_eligible_at_a_time() -> None:
    world, names = World((3.0, 3.2, 3.4, 3.6, 4.4), 0.5), "abcde"

    def eligible(visitor: int) -> tuple[str, ...]:
        return tuple(random.Random(visitor).sample(names, 2))

    played = play(spec_of(BLOCKS, arms=5), world, 1500, eligible=eligible)
    last = [(v, offer) for v, offer in enumerate(played.offers) if v >= 1000]
    taken = [names[offer.arm] for v, offer in last if "e" in eligible(v)]
    assert taken.count("e") > 0.9 * len(taken)


def test_shadow_offers_are_compared_as_unpaid_ratings(service: Service) -> None:
    """With levels; elimination's blocks wait for ratings under their own payment."""
    campaign = service.create(policy=LEVELS, status="shadow")
    offers = visit(service, campaign, range(200), random.Random(2))
    assert any(offer["would_pay"] for offer in offers)
    with service.store.read() as session:
        kept = load_campaign(session, campaign)
    assert ratings_in_fit(kept) == sum(kept.state.pulls)
    assert kept.memory[levels._IN_USE] == 0  # no paid level


def test_elimination_keeps_its_blocks_if_a_rating_changes(service: Service) -> None:
    """Its blocks depend on the order of past decisions: only averages change."""
    campaign = service.create(policy=BLOCKS)
    for player in range(30):
        service.rated(campaign, player, 1 + player % 5)

    def memory() -> bytes:
        with service.store.read() as session:
            return load_campaign(session, campaign).memory.tobytes()

    before, arms = memory(), service.arms(campaign)
    service.do(Rate(f"{campaign}.7", 5))
    service.do(Reverse(f"{campaign}.8"))
    assert memory() == before
    assert service.arms(campaign) != arms
    assert service.faults(campaign) == [None]


# Explanations


@both
def test_an_explanation_names_the_gap_and_the_equal_payment(service: Service, policy: Any) -> None:
    campaign = service.create(policy=policy)
    offers = visit(service, campaign, range(200), random.Random(3))
    paid = {offer["reason"]: offer for offer in offers if offer["amount"]}
    assert set(paid) == {"explore", "control"}
    control = service.queries.offer(paid["control"]["id"])
    stars = f"{control.offer.payment:.2f} stars"
    own = control.offer.arm
    assert control.why == (
        f"{own} is the visitor's own choice. It is paid {stars}, like the items it is compared "
        "with."
    )
    assert [step.label for step in control.arithmetic.steps[:2]] == [
        f"{own} is the visitor's own choice", "Payment",
    ]  # fmt: skip
    explored = service.queries.offer(paid["explore"]["id"])
    price = explored.arithmetic
    gap = price.own_choice_shows - price.arm_shows
    assert f"shows {gap:.2f} stars less than {explored.offer.greedy_arm}" in explored.why
    assert "is the same for all items that are compared" in explored.why
    steps = {step.label: step for step in price.steps}
    assert steps["Gap"].stars == pytest.approx(gap)
    assert steps["Payment"].stars == explored.offer.payment >= gap * (1 - 1e-9)
    assert steps["Exact amount"].amount == pytest.approx(explored.offer.payment * 200)


def test_a_payment_that_measures_the_drift_is_explained(service: Service) -> None:
    campaign = service.create(policy=entice.DriftCorrectedThompson())
    offers = visit(service, campaign, range(60), random.Random(4))
    probe = next(offer for offer in offers if offer["reason"] == "probe")
    assert "to measure how much payments raise ratings" in service.queries.offer(probe["id"]).why
