"""The holdout: players who are never paid, the totals of both groups, and bad input."""

from __future__ import annotations

import json
import math
from typing import Any

import msgspec
import numpy as np
import pytest
from log_forging import campaign_with_all_events, fault_of, forge_state, tampering
from oracles.service_comparison import SideBySide, compare, reference_draw
from rules_in_memory import World, play
from sizes import sized
from writer_fixtures import Service, hashed, service

import entice
from entice.errors import InputError
from entice.service.domain.campaign_state import CampaignState
from entice.service.domain.commands import (
    Accept,
    ChangeCampaign,
    Decline,
    ErasePlayer,
    MakeOffer,
    MakeOffers,
    Rate,
    Reverse,
)
from entice.service.domain.effect import effect_view
from entice.service.domain.holdout import GroupCounts, assign_groups
from entice.service.domain.spec import CampaignSpec
from entice.service.storage.queries import load_state

__all__ = ["service"]

KEPT_APART = {"holdout": 0.5, "holdout_feeds_averages": False}
SPEC: dict[str, Any] = {
    "name": "Tea", "arms": ["a", "b"], "budget": 1000, "price_of_a_star": 200, "seed": 7,
}  # fmt: skip


def state_of(service: Service, campaign: str) -> CampaignState:
    with service.store.read() as session:
        return load_state(session, campaign)


def members(seed: int, share: float, group: str, count: int) -> list[int]:
    """Return the first players of a group, by a second implementation of the assignment."""
    found, player = [], 0
    while len(found) < count:
        if (reference_draw(hashed(player), seed) < share) == (group == "holdout"):
            found.append(player)
        player += 1
    return found


# Groups


def test_the_share_of_held_out_players_is_as_set_and_independent_between_campaigns() -> None:
    players = [hashed(i) for i in range(20_000)]
    one, other = (
        [assign_groups(seed, 0.1)(player) == "holdout" for player in players] for seed in (1, 2)
    )
    both = sum(a and b for a, b in zip(one, other, strict=True))
    # Each is binomial; 5 standard deviations are exceeded with a probability below 1e-6.
    for found, share in ((sum(one), 0.1), (sum(other), 0.1), (both, 0.01)):
        spread = math.sqrt(20_000 * share * (1 - share))
        assert abs(found - 20_000 * share) < 5 * spread
    # The control: a hash that ignores the seed would hold out the same players twice.
    assert abs(sum(one) - 200) > 5 * math.sqrt(198)


@pytest.mark.parametrize("share", [1e-9, 0.1, 0.999])
def test_the_assignment_is_that_of_the_second_implementation(share: float) -> None:
    group_of = assign_groups(2**63 - 1, share)
    for player in (b"", b"\0" * 16, b"\xff" * 16, *map(hashed, range(300))):
        expected = "holdout" if reference_draw(player, 2**63 - 1) < share else "paid"
        assert group_of(player) == expected


def test_a_player_stays_in_one_group_until_erased(service: Service) -> None:
    campaign = service.create(holdout=0.5)

    def groups() -> list[bool]:
        service.later(1000)  # earlier offers have expired
        players = ((hashed(player), b"lookup" + hashed(player)) for player in range(24))
        requests = [MakeOffer(campaign, player, lookup=lookup) for player, lookup in players]
        offers = service.do(MakeOffers(campaign, requests))["offers"]
        return [offer["reason"] == "holdout" for offer in offers]

    first = groups()
    assert groups() == groups() == first
    assert 0 < sum(first) < 24  # fails with probability 2⁻²³
    for player in range(24):
        service.answer(ErasePlayer(campaign, hashed(player), b"lookup" + hashed(player)))
    assert groups() != first  # equal with probability 2⁻²⁴
    counts = state_of(service, campaign).groups
    assert sum(group.visitors for group in counts.values()) == 96
    assert sum(group.players for group in counts.values()) == 48  # erased players count as new
    assert service.faults(campaign) == [None]


def test_a_new_player_who_occurs_twice_in_a_batch_counts_once(service: Service) -> None:
    campaign = service.create(holdout=0.5)
    players = [hashed(player) for player in (0, 1, 0, 0)]
    requests = [MakeOffer(campaign, player, lookup=b"lookup" + player) for player in players]
    offers = service.do(MakeOffers(campaign, requests))["offers"]
    assert [offer["decision"] for offer in offers] == [1, 2, 1, 1]
    counts = state_of(service, campaign).groups.values()
    assert sum(group.players for group in counts) == 2
    assert service.faults(campaign) == [None]


# Offers to held-out players


@pytest.mark.parametrize(
    "policy", [entice.UCB(), entice.RoundRobinEpsilonGreedy(c=3), entice.EqualPay(horizon=100)]
)
def test_a_held_out_player_gets_the_own_choice_without_policy_and_probe(
    service: Service, policy: Any
) -> None:
    probe = None if policy.equal_pay else entice.Probe(share=1.0, amount=0.5)
    campaign = service.create(policy=policy, probe=probe, holdout=0.5, unrated_shows=1)
    service.rate_organic(campaign, a=[5, 4], b=[4])
    before = state_of(service, campaign)
    for n, player in enumerate(members(7, 0.5, "holdout", 4), 1):
        offer = service.offer(campaign, player)
        assert (offer["arm"], offer["greedy_arm"], offer["reason"]) == ("a", "a", "holdout")
        assert (offer["amount"], offer["payment"], offer["propensity"]) == (0, 0.0, 1.0)
        assert (offer["decision"], offer["probe"]) == (n, None)
        story = service.queries.offer(offer["id"])
        assert story.history[0]["group"] == "holdout"
        assert "in the holdout" in story.why
        assert (story.arithmetic.steps[-2].amount, story.arithmetic.limited_by) == (0, None)
    after = state_of(service, campaign)
    assert after.memory == before.memory
    assert (after.reserved, after.committed) == (0, 0)
    # The time of the policy counts them: the next decision is number 5.
    offer = service.offer(campaign, members(7, 0.5, "paid", 1)[0])
    assert (offer["decision"], offer["reason"] != "holdout") == (5, True)
    assert service.queries.offer(offer["id"]).history[0]["group"] == "paid"
    assert service.faults(campaign) == [None]


def test_ratings_of_held_out_players_count_in_the_averages_unless_kept_apart(
    service: Service,
) -> None:
    player = members(7, 0.5, "holdout", 1)[0]
    for settings, rated, in_flight in (({"holdout": 0.5}, 1, 1), (KEPT_APART, 0, 0)):
        campaign = service.create(**settings)
        offer = service.offer(campaign, player)
        assert service.arms(campaign)["a"] == (0, None, in_flight)
        service.do(Accept(offer["id"]))
        service.do(Rate(offer["id"], 4))
        service.do(Rate(offer["id"], 2))
        assert service.arms(campaign)["a"] == (rated, 2.0 if rated else None, 0)
        held_out = state_of(service, campaign).groups["holdout"]
        assert (held_out.rated, held_out.rating_sum, held_out.rating_squares) == (1, 2, 4)
        service.do(Reverse(offer["id"]))
        assert service.arms(campaign)["a"] == (0, None, 0)
        assert state_of(service, campaign).groups["holdout"].rated == 0
        assert service.faults(campaign) == [None]


@pytest.mark.parametrize("settings", [{"holdout": 0.5}, KEPT_APART])
def test_a_policy_learns_ratings_kept_apart_neither_at_first_nor_again(
    service: Service, settings: dict[str, Any]
) -> None:
    memories = []
    for rates in (False, True):
        campaign = service.create(policy=entice.DriftCorrectedThompson(), **settings)
        paid = [service.rated(campaign, p, 3)["id"] for p in members(7, 0.5, "paid", 3)]
        offer = service.offer(campaign, members(7, 0.5, "holdout", 1)[0])["id"]
        if rates:
            service.do(Accept(offer))
            service.do(Rate(offer, 5))
            service.do(Rate(offer, 1))
        once = state_of(service, campaign).memory
        service.do(Rate(paid[0], 4))  # then all ratings are learned again
        memories.append((once, state_of(service, campaign).memory))
        assert service.faults(campaign) == [None]
    for without, with_rating in zip(*memories, strict=True):
        assert (without == with_rating) == (settings is KEPT_APART)


def test_offers_made_while_paused_or_in_shadow_mode_count_in_no_group(service: Service) -> None:
    campaign = service.create(holdout=0.5, status="shadow")
    one, other = members(7, 0.5, "holdout", 1)[0], members(7, 0.5, "paid", 1)[0]
    for status, reason in (("shadow", "holdout"), ("paused", "paused")):
        service.do(ChangeCampaign(campaign=campaign, status=status))  # type: ignore[arg-type]
        for player in (one, other):
            offer = service.rated(campaign, player, 5)
            assert player == other or offer["reason"] == reason
    assert {
        counts.visitors + counts.rated for counts in state_of(service, campaign).groups.values()
    } == {0}
    service.do(ChangeCampaign(campaign=campaign, status="live"))
    for player in (one, other):
        service.rated(campaign, player, 5)
    for counts in state_of(service, campaign).groups.values():
        assert (counts.visitors, counts.rated, counts.players) == (1, 1, 0)
    assert service.faults(campaign) == [None]


# Totals


@pytest.mark.parametrize("seed", range(sized(6, 27)))
def test_the_service_and_the_oracle_agree_on_random_commands(service: Service, seed: int) -> None:
    both = SideBySide(service, seed, holdout=0.4, holdout_feeds_averages=seed % 2 == 0)
    try:
        both.run(steps=100)
        assert service.faults(both.id) == [None]
    except BaseException:
        print(*both.history, sep="\n")
        raise
    compare(service.store, both.id, both.oracle)
    assert any(offer.group == "holdout" for offer in both.oracle.offers)


@pytest.mark.parametrize("settings", [{"holdout": 0.5}, KEPT_APART])
def test_a_log_with_every_kind_of_event_verifies_and_forged_totals_do_not(
    service: Service, settings: dict[str, Any]
) -> None:
    campaign = campaign_with_all_events(service, **settings)
    assert service.faults(campaign) == [None]
    fields = ("visitors", "rated", "rating_sum", "rating_squares", "paid", "players", "declined")
    for group in ("paid", "holdout"):
        for field in fields:

            def forge(state: CampaignState, by: int, g: str = group, f: str = field) -> None:
                setattr(state.groups[g], f, getattr(state.groups[g], f) + by)

            with tampering(service) as connection:
                forge_state(connection, lambda state: forge(state, 1))
                assert "row differs" in fault_of(service, campaign)
                forge_state(connection, lambda state: forge(state, -1))
    assert service.faults(campaign) == [None]


def test_a_campaign_of_a_version_that_did_not_count_decliners_verifies(service: Service) -> None:
    campaign = service.create(holdout=0.5)
    for player in range(8):
        service.rated(campaign, player, 4)
    service.do(Decline(service.offer(campaign, 76)["id"]))

    def forget(state: CampaignState) -> None:
        for counts in state.groups.values():
            assert counts.declined is not None
            counts.declined = None

    with tampering(service) as connection:
        forge_state(connection, forget)
    service.close()
    service.__init__(service.path)  # type: ignore[misc]  # restart: the writer remembers campaigns
    assert service.faults(campaign) == [None]
    service.do(Decline(service.offer(campaign, 77)["id"]))
    assert service.faults(campaign) == [None]
    effect = service.queries.effect(campaign)
    for group in (effect.paid, effect.holdout):
        assert group.declined is None
        assert group.share_rated == group.rated / group.visitors
    # A row as such a version stored it: without the last element of each group.
    state = state_of(service, campaign)
    for counts in state.groups.values():
        stored = msgspec.msgpack.encode(msgspec.structs.astuple(counts)[:-1])
        assert msgspec.msgpack.decode(stored, type=GroupCounts) == counts


# Settings


def test_a_campaign_without_a_holdout_stores_what_it_stored_before(service: Service) -> None:
    campaign = service.create(holdout=0, holdout_feeds_averages=True)
    service.rated(campaign, 1, 4)
    events = [json.loads(bytes(event.body)) for event in service.queries.events(campaign)]
    assert not {"holdout", "holdout_feeds_averages"} & set(events[0]["spec"])
    assert all({"group", "in_averages"}.isdisjoint(event) for event in events)
    assert state_of(service, campaign).groups == {}
    spec = CampaignSpec(**SPEC, **KEPT_APART)
    assert CampaignSpec.from_plain(spec.to_plain()) == spec


@pytest.mark.parametrize("share", [-0.1, 1, 1.5, math.nan, math.inf, "0.1", None, True])
def test_a_share_outside_its_range_is_rejected(share: Any) -> None:
    with pytest.raises(InputError, match="holdout") as raised:
        CampaignSpec(**SPEC, holdout=share)
    assert str(share) in str(raised.value) or repr(share) in str(raised.value)


def test_other_bad_settings_are_rejected() -> None:
    with pytest.raises(InputError, match="holdout_feeds_averages must be true or false"):
        CampaignSpec(**SPEC, holdout=0.1, holdout_feeds_averages=1)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="highest_rating must be at most 10000 in a campaign"):
        CampaignSpec(**SPEC, holdout=0.1, highest_rating=10_001)
    assert CampaignSpec(**SPEC, highest_rating=10_001).holdout == 0


@pytest.mark.parametrize("change", [{"holdout": 0.2}, {"holdout": 0.0}, KEPT_APART])
def test_the_holdout_of_a_running_campaign_cannot_be_changed(
    service: Service, change: dict[str, Any]
) -> None:
    campaign = service.create(holdout=0.1)
    events = service.queries.head(campaign)
    refusal = service.refusal(ChangeCampaign(campaign=campaign, budget=90_000, **change))
    assert refusal.status == 409
    assert "Players would change groups" in refusal.detail
    assert "it is 0.1" in refusal.detail or "it is true" in refusal.detail
    # The current value is no change.
    service.do(ChangeCampaign(campaign=campaign, holdout=0.1, holdout_feeds_averages=True))
    assert service.queries.head(campaign) == events
    without = service.create()
    service.do(ChangeCampaign(campaign=without, holdout=0.0))
    assert service.refusal(ChangeCampaign(campaign=without, holdout=0.1)).status == 409


# Effect


def test_the_effect_is_read_from_the_campaigns_row_alone(service: Service) -> None:
    """So its cost does not depend on the number of offers."""
    campaign = campaign_with_all_events(service, holdout=0.5)
    effect = service.queries.effect(campaign)
    assert effect.paid.visitors + effect.holdout.visitors == 9
    with tampering(service) as connection:
        for table in ("offers", "events"):
            connection.execute(f"DELETE FROM {table}")
    assert service.queries.effect(campaign) == effect


def test_the_interval_contains_the_known_effect_of_simulated_campaigns() -> None:
    """Each interval misses the truth with a probability of at most 5 %: 3 of 6 with 0.2 %."""
    # Held-out players take the arm that looks best, the others a random one, with payments.
    world = World(means=(3.0, 4.2), std=0.6, share_lost=0.2)
    missed = excludes_zero = 0
    for seed in range(6):
        spec = CampaignSpec(
            **SPEC | {"budget": 10**9, "seed": seed}, policy=entice.EpsilonGreedy(c=1e6),
            holdout=0.4, holdout_feeds_averages=False,
        )  # fmt: skip
        played = play(spec, world, sized(500, 3650))
        state, group_of = played.campaign.state, played.campaign.group_of
        paid, held_out = (
            [world.means[o.arm] for o in played.offers if group_of(o.player) == group]
            for group in ("paid", "holdout")
        )
        effect = effect_view(state)
        assert effect.low is not None
        assert effect.high is not None
        # Ratings are symmetric about the mean of their arm, apart from a few at 5 stars.
        missed += not effect.low <= np.mean(paid) - np.mean(held_out) <= effect.high
        excludes_zero += effect.high < 0
        assert (effect.paid.visitors, effect.holdout.visitors) == (len(paid), len(held_out))
        assert effect.paid.paid == sum(offer.paid or 0 for offer in played.offers) > 0
    assert missed <= 2
    assert excludes_zero >= 4  # the control: 0 is not the truth
