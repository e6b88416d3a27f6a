"""Discounted and sliding-window UCB in campaigns: every decision as in plain Python."""

from __future__ import annotations

import math
import random
from typing import Any

import numpy as np
import pytest
from oracles.algorithm1 import argmax
from rules_in_memory import MINUTE, OffersInMemory
from writer_fixtures import Service, hashed, service

import entice
from entice.errors import InputError
from entice.service.domain import rules as rules_module
from entice.service.domain.campaign import Campaign
from entice.service.domain.commands import Accept, AddArms, Rate, RetireArm, Reverse
from entice.service.domain.rules import CampaignRules
from entice.service.domain.spec import CampaignSpec
from entice.service.storage.queries import load_campaign

__all__ = ["service"]

GAMMA, WINDOW, XI = 0.9, 20, 0.5
POLICIES = [entice.DiscountedUCB(GAMMA, XI), entice.SlidingWindowUCB(WINDOW, XI)]
both = pytest.mark.parametrize("policy", POLICIES, ids=["discounted", "window"])


def spec_of(policy: Any, **changes: Any) -> CampaignSpec:
    settings: dict[str, Any] = {
        "name": "Tea", "arms": list("abcd"), "policy": policy, "budget": 10**9,
        "price_of_a_star": 200, "seed": 7,
    }  # fmt: skip
    return CampaignSpec(**settings | changes)


def bounds(campaign: Campaign, ratings: list[tuple[int, int]], t: int) -> list[float]:
    """Return each arm's bound, from all ratings so far, oldest first; −inf: not permitted."""
    latest = len(ratings)
    if isinstance(campaign.spec.policy, entice.DiscountedUCB):
        weights = [GAMMA ** (latest - 1 - s) for s in range(latest)]
        total = max(1.0, sum(weights))
    else:
        weights = [float(s >= latest - WINDOW) for s in range(latest)]
        total = min(t, WINDOW)
    found = []
    for arm in range(len(campaign.state.arms)):
        weight = sum(w for w, (rated, _) in zip(weights, ratings, strict=True) if rated == arm)
        stars = sum(w * r for w, (rated, r) in zip(weights, ratings, strict=True) if rated == arm)
        expected = campaign._counted[arm] - campaign.state.pulls[arm]
        average = stars / weight if weight else campaign.averages()[arm] or 3.0
        width = math.sqrt(XI * math.log(total) / (weight + expected)) if weight + expected else None
        bound = math.inf if width is None else average + width
        found.append(bound if campaign._permitted[arm] else -math.inf)
    return found


@both
def test_every_decision_equals_that_of_the_reference(policy: Any) -> None:
    """Also with a cap, with few eligible arms, and after arms are added, retired and reactivated.

    Ratings are late, some are lost, changed or reversed, and arms change.
    """
    campaign = Campaign.create("c_0", spec_of(policy, cap_per_offer=250), 0)
    rules, draw = CampaignRules(campaign, OffersInMemory()), random.Random(3)
    rules.create(0)
    pending: list[tuple[int, Any]] = []
    unpermitted = offered_without_recent = 0
    for visitor in range(500):
        at = visitor * MINUTE
        if visitor == 150:
            rules.add_arms(at, ["e", "f"])
        if visitor in (250, 350):
            rules.retire(at, "a", visitor == 250)
        for due, offer in [pair for pair in pending if pair[0] <= visitor]:
            pending.remove((due, offer))
            mean = [4.5, 4, 3.5, 3, 2.5, 4.8][(offer.arm + visitor // 100) % 6]
            rules.rate(at, offer, min(5, max(1, round(draw.gauss(mean, 0.9)))))
            if draw.random() < 0.1:
                rules.rate(at, offer, draw.randint(1, 5))
            elif draw.random() < 0.05:
                rules.reverse(at, offer)
        counted = rules.offers.counted_ratings()
        ratings = [(campaign.arms[arm], rating) for arm, _, rating in counted]
        eligible = None
        if draw.random() < 0.4:
            eligible = tuple({*draw.sample(campaign.state.arms, 3), "b"})
        offer = rules.offer(at, hashed(visitor), eligible, None)
        found = bounds(campaign, ratings, visitor + 1)
        rounded = [round(bound, 9) for bound in found]
        assert rounded[offer.arm] == max(rounded)
        if len(set(rounded)) == len(rounded):
            assert offer.arm == argmax(found)
        assert offer.propensity == 1
        unpermitted += not campaign._permitted.all()
        recent = {arm for arm, _ in ratings[-WINDOW:]}
        offered_without_recent += offer.arm not in recent
        rules.accept(at, offer, None)
        if draw.random() < 0.8:
            pending.append((visitor + 1 + draw.randrange(30), offer))
    assert unpermitted > 100
    assert offered_without_recent > 5
    assert all(campaign.state.pulls)


def test_an_old_arm_is_not_offered_to_everybody_while_its_rating_is_awaited() -> None:
    """All ratings of b have left the window. Without ratings in flight, b would be offered on."""
    campaign = Campaign.create("c_0", spec_of(POLICIES[1]), 0)
    rules = CampaignRules(campaign, OffersInMemory())
    rules.create(0)
    for arm in "bacd" + "acd" * 7:
        rules.organic(0, arm, {"a": 5, "b": 4}.get(arm, 3))
    offers = [rules.offer(n * MINUTE, hashed(n), None, None).arm for n in range(6)]
    assert offers[0] == 1
    assert 0 in offers[1:]
    kernel, stream = campaign.kernel, np.zeros(4, np.uint64)
    pulls, means = np.array(campaign.state.pulls), np.array(campaign.averages(), float)
    again = [
        kernel.select(20 + n, pulls, means, campaign.memory.copy(), kernel.params, stream)
        for n in range(6)
    ]
    assert again == [1] * 6  # the control: ratings only


@both
def test_a_reversal_that_is_not_relearned_hides_no_rating_in_flight(
    policy: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of nine ratings of b, eight are reversed in a long log, and all are too old to count."""
    monkeypatch.setattr(rules_module, "MAX_EVENTS_TO_RELEARN", 0)
    campaign = Campaign.create("c_0", spec_of(policy), 0)
    rules = CampaignRules(campaign, OffersInMemory())
    rules.create(0)
    rated = [rules.offer(0, hashed(n), ("b",), None) for n in range(6, 15)]
    for offer in rated:
        rules.accept(0, offer, None)
        rules.rate(0, offer, 4)
    for arm in "acd" * 20:
        rules.organic(0, arm, 5 if arm == "a" else 3)
    for offer in rated[1:]:
        rules.reverse(0, offer)
    offers = [rules.offer(n * MINUTE, hashed(n), None, None).arm for n in range(6)]
    assert offers[0] == 1
    assert 0 in offers[1:]
    blocks = campaign.memory[-12:].reshape(-1, 3)
    assert blocks[:, 2].tolist() == campaign.state.pulls == [20, 1, 20, 20]


@both
def test_memory_survives_every_change_and_a_restart(service: Service, policy: Any) -> None:
    name = service.create(policy=policy)
    first = [service.rated(name, player, 1 + player % 5) for player in range(30)]
    service.do(AddArms(name, ["x", "y"]))
    for player in range(30, 60):
        service.rated(name, player, 5 if player % 2 else 2)
    service.do(Rate(first[3]["id"], 5))
    service.do(Reverse(first[4]["id"]))
    service.do(RetireArm(name, "a", True))
    offers = [service.offer(name, player) for player in range(60, 70)]
    for offer in offers[:5]:
        service.do(Accept(offer["id"]))
    assert "a" not in {offer["arm"] for offer in offers}
    assert service.arms(name)["x"][0] > 0  # a new arm is offered and rated
    assert service.faults(name) == [None]  # a replay of the log gives the same state
    with service.store.read() as session:
        stored = load_campaign(session, name)
    memory = stored.memory
    blocks = memory[-3 * len(stored.state.arms) :].reshape(-1, 3)
    assert blocks[:, 2].tolist() == stored.state.pulls
    if isinstance(policy, entice.SlidingWindowUCB):
        assert blocks[:, 0].sum() == WINDOW
        assert memory[0] == sum(stored.state.pulls)
    else:
        assert blocks[:, 0].sum() == pytest.approx((1 - GAMMA**59) / (1 - GAMMA))


def test_a_window_that_is_too_large_for_a_campaign_is_rejected() -> None:
    spec = spec_of(entice.SlidingWindowUCB(1000))
    # Each commit writes this.
    assert 16_000 < len(Campaign.create("c_0", spec, 0).encode()) < 17_000
    with pytest.raises(InputError, match=r"policy.window must be at most 1,000 in a campaign"):
        spec_of(entice.SlidingWindowUCB(1001))
