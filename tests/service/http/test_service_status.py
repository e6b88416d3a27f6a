"""The status of a campaign, and expiry."""

from __future__ import annotations

import json
from pathlib import Path

from writer_fixtures import Service, hashed, service

import entice
from entice.service.domain.commands import (
    Accept,
    AddArms,
    ChangeCampaign,
    Command,
    Decline,
    Expire,
    MakeOffer,
    MakeOffers,
    Rate,
    Reverse,
)

__all__ = ["service"]

# The campaign's status


def test_shadow_decides_and_records_but_pays_nothing(service: Service) -> None:
    campaign = service.create(status="shadow", unrated_shows=1)
    service.rate_organic(campaign, a=[5], b=[4])
    offers = [service.offer(campaign, player) for player in range(20)]
    assert {offer["state"] for offer in offers} == {"shadow"}
    assert {offer["amount"] for offer in offers} == {0}
    assert any(offer["would_pay"] > 0 for offer in offers)
    assert service.money(campaign) == (100_000, 0, 0)
    assert all(in_flight == 0 for _, _, in_flight in service.arms(campaign).values())
    assert service.refusal(Reverse(offers[0]["id"])).status == 409
    assert "Accept it first." in service.refusal(Rate(offers[0]["id"], 5)).detail
    assert service.queries.campaign(campaign).decisions == 20
    assert service.faults(campaign) == [None]


def test_shadow_offers_are_accepted_and_rated_at_no_cost(service: Service) -> None:
    campaign = service.create(status="shadow", unrated_shows=1)
    service.rate_organic(campaign, a=[5], b=[4])
    offers = [service.offer(campaign, player) for player in range(6)]
    paid_offer = next(offer for offer in offers if offer["would_pay"] > 0)
    others = [offer["id"] for offer in offers if offer is not paid_offer]
    assert service.refusal(Accept(paid_offer["id"], paid_offer["would_pay"])).detail == (
        f"amount must be from 0 to 0 (€0.00), as offered; got {paid_offer['would_pay']}."
    )
    accepted = service.do(Accept(paid_offer["id"]))
    assert (accepted["state"], accepted["paid"]) == ("accepted", 0)
    assert (accepted["amount"], accepted["would_pay"]) == (0, paid_offer["would_pay"])
    assert service.do(Accept(paid_offer["id"])) == accepted  # a repeat
    before = service.arms(campaign)[paid_offer["arm"]]
    rated = service.do(Rate(paid_offer["id"], 2))
    assert (rated["state"], rated["rating"], rated["would_pay"]) == (
        "rated",
        2,
        paid_offer["would_pay"],
    )
    after = service.arms(campaign)[paid_offer["arm"]]
    assert (after[0], after[2]) == (before[0] + 1, 0)  # the rating counts; nothing is in flight
    assert service.do(Rate(paid_offer["id"], 3))["rating"] == 3
    assert service.do(Decline(others[0]))["state"] == "declined"
    assert service.refusal(Accept(others[0])).status == 409
    service.do(Accept(others[1]))
    assert service.do(Reverse(others[1]))["state"] == "reversed"
    service.do(Accept(others[2]))
    service.later(31 * 24 * 3600)
    assert service.do(Expire(campaign)) == {"expired": 1}  # the rating window has passed
    assert service.queries.offer(others[2]).offer.state == "unrated"
    assert service.money(campaign) == (100_000, 0, 0)
    [event] = [e for e in service.queries.events(campaign) if b'"kind":"rated"' in bytes(e.body)]
    assert json.loads(bytes(event.body))["payment"] == 0.0  # learning must not see a payment
    assert service.faults(campaign) == [None]


def test_a_shadow_offer_is_open_as_long_as_a_live_one(service: Service) -> None:
    campaign = service.create(status="shadow")
    first, second = service.offer(campaign, 1)["id"], service.offer(campaign, 2)["id"]
    service.later(899)
    service.do(Accept(first))
    service.later(1)
    for command in (Accept, Decline):
        assert service.refusal(command(second)).detail.endswith("it has expired.")
    third = service.offer(campaign, 3)["id"]
    service.do(ChangeCampaign(campaign=campaign, status="closed"))
    assert service.refusal(Accept(third)).detail.endswith("voided when the campaign closed.")
    assert service.do(Rate(first, 4))["rating"] == 4  # accepted offers may still be rated
    assert service.faults(campaign) == [None]


def test_probes_in_shadow_mode_do_not_count(service: Service) -> None:
    """Heads are not paid in shadow mode, so only tails would count."""
    probe = entice.Probe(share=1.0, amount=0.5)
    campaign = service.create(status="shadow", policy=entice.Greedy(), probe=probe)
    offers = [service.offer(campaign, player) for player in range(20)]
    assert {offer["probe"] for offer in offers} == {"heads", "tails"}
    for offer in offers:
        service.do(Accept(offer["id"]))
        service.do(Rate(offer["id"], 4))
    assert service.queries.drift(campaign).probes == 0
    service.do(ChangeCampaign(campaign=campaign, status="live"))
    for player in range(20, 30):  # the control: live offers count
        service.rated(campaign, player, 4)
    assert service.queries.drift(campaign).probes == 10
    assert service.faults(campaign) == [None]


def test_shadow_would_pay_what_live_pays(service: Service) -> None:
    paid = {}
    for status in ("shadow", "live"):
        campaign = service.create(status=status, policy=entice.ThompsonSampling())
        service.rate_organic(campaign, a=[5, 5], b=[4], c=[3])
        offer = service.offer(campaign, 1)
        paid[status] = offer["arm"], offer["would_pay"] or offer["amount"], offer["propensity"]
    assert paid["shadow"] == paid["live"]


def test_a_paused_campaign_offers_the_own_choice_unpaid(service: Service) -> None:
    campaign = service.create(unrated_shows=1, status="paused")
    service.rate_organic(campaign, b=[4])
    for player in range(5):
        offer = service.rated(campaign, player, 4)
        assert (offer["arm"], offer["paid"], offer["reason"]) == ("b", 0, "paused")
        assert offer["propensity"] == 1.0
    service.do(ChangeCampaign(campaign=campaign, status="live"))
    assert service.offer(campaign, 9)["arm"] == "a"
    assert service.faults(campaign) == [None]


def test_pausing_takes_effect_at_the_next_decision(service: Service) -> None:
    campaign = service.create(unrated_shows=1)
    service.rate_organic(campaign, a=[5])
    commands: list[Command] = [MakeOffer(campaign, hashed(player)) for player in range(60)]
    commands.insert(30, ChangeCampaign(campaign=campaign, status="paused"))
    futures = [service.writer.submit(command) for command in commands]
    answers = [json.loads(future.result(timeout=60).body) for future in futures]
    assert all(answer["reason"] != "paused" for answer in answers[:30])
    assert all((a["reason"], a["amount"]) == ("paused", 0) for a in answers[31:])


def test_closing_voids_open_offers_and_is_final(service: Service) -> None:
    campaign = service.create(unrated_shows=1)
    service.rate_organic(campaign, a=[5])
    sold = service.offer(campaign, 0)["id"]
    service.do(Accept(sold))
    open_offers = [service.offer(campaign, player)["id"] for player in range(1, 6)]
    assert service.money(campaign)[1] > 0
    service.do(ChangeCampaign(campaign=campaign, status="closed"))
    assert service.money(campaign)[1] == 0
    assert {service.queries.offer(offer).offer.state for offer in open_offers} == {"voided"}
    assert service.refusal(MakeOffer(campaign, hashed(9))).extra == {"state": "closed"}
    assert service.refusal(ChangeCampaign(campaign=campaign, status="live")).status == 409
    assert service.refusal(ChangeCampaign(campaign=campaign, budget=10**6)).status == 409
    assert service.refusal(AddArms(campaign, ["d"])).status == 409
    assert service.do(ChangeCampaign(campaign=campaign, status="closed"))["status"] == "closed"
    assert service.do(Rate(sold, 4))["rating"] == 4  # accepted offers may still be rated
    assert service.faults(campaign) == [None]


def test_limits_can_be_removed_and_set(service: Service) -> None:
    campaign = service.create(cap_per_offer=0, cap_per_player=0, pace_over=10**6, unrated_shows=1)
    service.rate_organic(campaign, a=[5])
    assert service.offer(campaign, 1)["amount"] == 0
    lifted = {"cap_per_offer": None, "cap_per_player": None, "pace_over": None}
    changed = service.do(ChangeCampaign(campaign=campaign, **lifted))  # type: ignore[arg-type]
    assert not set(lifted) & set(changed["spec"])
    assert changed["version"] == 2
    assert service.offer(campaign, 2)["amount"] == 800
    again = service.do(ChangeCampaign(campaign=campaign, **lifted))  # type: ignore[arg-type]
    assert again["version"] == 2  # nothing has changed


# Time


def test_time_never_goes_back_in_the_log(service: Service) -> None:
    campaign = service.create()
    offer = service.offer(campaign, 1)["id"]
    service.later(-3600)  # the machine's clock is set back
    service.do(Accept(offer))
    service.later(10 * 366 * 24 * 3600)
    service.do(Rate(offer, 3))
    times = [event.at for event in service.queries.events(campaign)]
    assert times == sorted(times)
    assert service.faults(campaign) == [None]


def test_overdue_offers_expire_oldest_first_100_at_a_time(service: Service) -> None:
    campaign = service.create(offer_expires_after=100)
    batch = [MakeOffer(campaign, hashed(player)) for player in range(150)]
    service.do(MakeOffers(campaign, batch))
    service.later(10)
    service.do(MakeOffers(campaign, [MakeOffer(campaign, hashed(p)) for p in range(2000, 2100)]))
    service.later(90)
    assert service.do(Expire(campaign)) == {"expired": 100}
    assert service.do(Expire(campaign)) == {"expired": 50}
    assert service.do(Expire(campaign)) == {"expired": 0}
    service.later(10)
    assert service.do(Expire(campaign)) == {"expired": 100}
    assert all(in_flight == 0 for _, _, in_flight in service.arms(campaign).values())
    assert service.faults(campaign) == [None]


def test_offers_that_expired_during_downtime_expire_afterwards(tmp_path: Path) -> None:
    first = Service(tmp_path / "entice.db")
    campaign = first.create()
    offer = first.offer(campaign, 1)["id"]
    first.close()
    second = Service(tmp_path / "entice.db")
    second.later(901)
    second.do(Expire(campaign))
    assert second.queries.offer(offer).offer.state == "expired"
    second.close()
