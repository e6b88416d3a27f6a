"""The rules of a campaign: the service against a plain-Python oracle, and each rule."""

from __future__ import annotations

import json
import math
import random
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from oracles.service_comparison import SideBySide, compare
from sizes import sized
from writer_fixtures import Service, hashed, service

import entice
from entice.money import amount_of, stars_for
from entice.service.domain.commands import (
    Accept,
    AddArms,
    ChangeCampaign,
    Command,
    CreateCampaign,
    Decline,
    EnterRatings,
    Expire,
    MakeOffer,
    MakeOffers,
    Organic,
    Rate,
    RetireArm,
    Reverse,
)
from entice.service.domain.spec import CampaignSpec
from entice.service.operations.verify import verify
from entice.service.storage.store import open_store

__all__ = ["service"]


@pytest.mark.parametrize("seed", range(sized(9, 27)))
def test_the_service_and_the_oracle_agree_on_random_commands(service: Service, seed: int) -> None:
    both = SideBySide(service, seed)
    try:
        both.run(steps=100)
        assert service.faults(both.id) == [None]
    except BaseException:
        print(*both.history, sep="\n")
        raise
    again = open_store(f"sqlite:///{service.path}")
    try:
        compare(again, both.id, both.oracle)
        assert [verdict.fault for verdict in verify(again)] == [None]
    finally:
        again.close()


# Each transition happens once: a repeat gets the same response, an impossible one 409


def test_a_repeated_command_gets_the_same_response_and_changes_nothing(service: Service) -> None:
    campaign = service.create()
    first, second = (service.offer(campaign, player)["id"] for player in (1, 2))
    for command in (
        Accept(first), Accept(first, 0), Rate(first, 4), Reverse(first), Decline(second),
    ):  # fmt: skip
        answer = service.answer(command)
        events = service.queries.head(campaign)
        assert service.answer(command) == answer
        assert service.queries.head(campaign) == events
    assert service.arms(campaign) == {"a": (0, None, 0), "b": (0, None, 0), "c": (0, None, 0)}


def test_a_late_repeat_of_an_acceptance_succeeds(service: Service) -> None:
    campaign = service.create()
    offer = service.rated(campaign, 1, 5)
    assert service.do(Accept(offer["id"])) == offer
    assert service.do(Accept(offer["id"], offer["amount"])) == offer


STATES_AND_WHAT_IS_NOT_POSSIBLE: list[tuple[str, list[type], list[type]]] = [
    ("offered", [], [Rate, Reverse]),
    ("accepted", [Accept], [Decline]),
    ("rated", [Accept, Rate], [Decline]),
    ("unrated", [Accept, 60], [Decline]),  # type: ignore[list-item]
    ("declined", [Decline], [Accept, Rate, Reverse]),
    ("expired", [30], [Accept, Decline, Rate, Reverse]),  # type: ignore[list-item]
    ("voided", [ChangeCampaign], [Accept, Decline, Rate, Reverse]),
    ("reversed", [Accept, Reverse], [Accept, Decline, Rate]),
]


@pytest.mark.parametrize(
    ("state", "way", "impossible"),
    STATES_AND_WHAT_IS_NOT_POSSIBLE,
    ids=[state for state, _, _ in STATES_AND_WHAT_IS_NOT_POSSIBLE],
)
def test_an_impossible_transition_is_a_conflict_and_changes_nothing(
    service: Service, state: str, way: list[Any], impossible: list[type]
) -> None:
    campaign = service.create(offer_expires_after=20, rating_window=50)
    offer = service.offer(campaign, 1)["id"]

    def command(kind: type) -> Command:
        if kind is ChangeCampaign:
            return ChangeCampaign(campaign=campaign, status="closed")
        command: Command = Rate(offer, 4) if kind is Rate else kind(offer)
        return command

    for step in way:
        if isinstance(step, int):
            service.later(step)
            service.do(Expire(campaign))
        else:
            service.do(command(step))
    assert service.queries.offer(offer).offer.state == state
    events = service.queries.head(campaign)
    for kind in impossible:
        refusal = service.refusal(command(kind))
        assert (refusal.status, refusal.kind, refusal.extra) == (409, "conflict", {"state": state})
    assert service.queries.head(campaign) == events


def test_accepting_again_for_another_amount_is_a_conflict(service: Service) -> None:
    campaign = service.create()
    service.rate_organic(campaign, a=[5], b=[4])
    offer = service.offer(campaign, 1, eligible=["b", "c"])
    assert offer["amount"] == 200
    service.do(Accept(offer["id"], 3))
    assert service.refusal(Accept(offer["id"], 4)).status == 409
    assert service.do(Accept(offer["id"], 3)) == service.do(Accept(offer["id"]))


def test_an_offer_can_be_accepted_for_less_but_not_for_more(service: Service) -> None:
    campaign = service.create()
    service.rate_organic(campaign, a=[5], b=[3])
    offer = service.offer(
        campaign, 1, eligible=["b", "c"]
    )  # both display 3 stars, so c costs nothing
    assert (offer["arm"], offer["amount"]) == ("c", 0)
    offer = service.offer(campaign, 2, eligible=["a", "c"], displayed={"a": 3.5, "c": 3.0})
    assert service.refusal(Accept(offer["id"], offer["amount"] + 1)).status == 422
    assert service.refusal(Accept(offer["id"], -1)).status == 422
    paid = offer["amount"] // 2
    assert service.do(Accept(offer["id"], paid))["paid"] == paid
    assert service.money(campaign) == (100_000, 0, paid)


# One live offer per player


def test_a_repeated_request_returns_the_open_offer(service: Service) -> None:
    campaign = service.create(policy=entice.ThompsonSampling())
    command = MakeOffer(campaign, hashed(1))
    first = service.answer(command)
    assert first.status == 201
    for again in (command, MakeOffer(campaign, hashed(1), ["c"], {"a": 1.0})):
        assert service.answer(again) == first._replace(status=200)
    other = service.offer(campaign, 2)
    assert other["id"] != json.loads(first.body)["id"]


@pytest.mark.parametrize("how", [Decline, Accept, None], ids=["declined", "accepted", "expired"])
def test_a_player_without_an_open_offer_gets_a_new_one(service: Service, how: Any) -> None:
    campaign = service.create()
    first = service.offer(campaign, 1)["id"]
    if how is None:
        service.later(900)  # not expired by maintenance yet
    else:
        service.do(how(first))
    second = service.answer(MakeOffer(campaign, hashed(1)))
    assert second.status == 201
    assert json.loads(second.body)["id"] != first
    assert service.queries.offer(first).offer.state == (
        "expired" if how is None else "declined" if how is Decline else "accepted"
    )


def test_an_offer_is_open_until_it_expires(service: Service) -> None:
    campaign = service.create(offer_expires_after=10)
    first = service.offer(campaign, 1)
    service.later(9.999999)
    assert service.offer(campaign, 1) == first
    service.later(0.000001)
    assert service.refusal(Accept(first["id"])).extra == {"state": "expired"}
    assert service.money(campaign)[1] == 0


def test_a_player_has_one_open_offer_within_a_batch(service: Service) -> None:
    campaign = service.create()
    requests = [MakeOffer(campaign, hashed(player)) for player in (1, 2, 1)]
    first, second, third = service.do(MakeOffers(campaign, requests))["offers"]
    assert first == third != second


# Idempotency keys


def test_the_same_key_and_request_get_the_stored_response(service: Service) -> None:
    campaign = service.create()
    made = service.answer(MakeOffer(campaign, hashed(1)), key="k", request=b"body")
    offer = json.loads(made.body)["id"]
    service.do(Accept(offer))
    service.do(Rate(offer, 3))
    again = service.answer(MakeOffer(campaign, hashed(1)), key="k", request=b"body")
    assert again == made._replace(replayed=True)
    assert not made.replayed
    assert service.queries.campaign(campaign).decisions == 1


def test_the_same_key_with_another_request_is_rejected(service: Service) -> None:
    campaign = service.create()
    service.answer(MakeOffer(campaign, hashed(1)), key="k", request=b"body")
    refusal = service.refusal(MakeOffer(campaign, hashed(2)), key="k", request=b"other body")
    assert (refusal.status, refusal.kind) == (422, "idempotency-key-reused")
    assert service.queries.campaign(campaign).decisions == 1


def test_every_command_accepts_an_idempotency_key(service: Service) -> None:
    spec = CampaignSpec(name="Tea", arms=["a", "b"], budget=10, price_of_a_star=1, seed=1)
    created = service.answer(CreateCampaign(spec), key="create", request=b"")
    campaign = json.loads(created.body)["id"]
    assert service.answer(CreateCampaign(spec), key="create").body == created.body
    assert len(service.queries.campaigns()) == 1
    offer = f"{campaign}.1"
    commands: list[Command] = [
        MakeOffers(campaign, [MakeOffer(campaign, hashed(player)) for player in range(3)]),
        Accept(offer), Rate(offer, 2), Reverse(offer), Decline(f"{campaign}.2"),
        EnterRatings(campaign, [Organic("a", 5)]), AddArms(campaign, ["c"]),
        RetireArm(campaign, "c", True), ChangeCampaign(campaign=campaign, budget=20),
    ]  # fmt: skip
    for command in commands:
        answer = service.answer(command, key=type(command).__name__, request=b"1")
        events = service.queries.head(campaign)
        again = service.answer(command, key=type(command).__name__, request=b"1")
        assert again == answer._replace(replayed=True)
        assert service.queries.head(campaign) == events
    assert service.arms(campaign)["a"][0] == 1


def test_idempotency_keys_of_different_api_keys_are_independent(service: Service) -> None:
    campaign = service.create()
    one = service.do(MakeOffer(campaign, hashed(1)), key="k", scope="one", request=b"1")
    two = service.do(MakeOffer(campaign, hashed(2)), key="k", scope="two", request=b"2")
    assert one["id"] != two["id"]


def test_a_rejection_is_not_stored_under_its_key(service: Service) -> None:
    campaign = service.create()
    offer = service.offer(campaign, 1)["id"]
    assert service.refusal(Rate(offer, 3), key="k", request=b"3").status == 409
    service.do(Accept(offer))
    assert service.do(Rate(offer, 3), key="k", request=b"3")["rating"] == 3


def test_a_key_that_occurs_twice_in_one_group_is_executed_once(service: Service) -> None:
    campaign = service.create()
    organic = EnterRatings(campaign, [Organic("a", 5)])
    futures = [service.writer.submit(organic, key="k", request=b"1") for _ in range(50)]
    answers = [future.result(timeout=60) for future in futures]
    assert sum(not answer.replayed for answer in answers) == 1
    assert service.arms(campaign)["a"] == (1, 5.0, 0)


def test_a_key_survives_a_restart(tmp_path: Path) -> None:
    first = Service(tmp_path / "entice.db")
    campaign = first.create()
    made = first.answer(MakeOffer(campaign, hashed(1)), key="k", request=b"1")
    first.close()
    second = Service(tmp_path / "entice.db")
    assert second.answer(MakeOffer(campaign, hashed(1)), key="k", request=b"1").body == made.body
    second.close()


# Money


def test_a_budget_cannot_fall_below_committed_and_reserved_money(service: Service) -> None:
    campaign = service.create()
    service.rate_organic(campaign, a=[5], b=[4], c=[4])
    for player in range(40):
        offer = service.offer(campaign, player)
        if player % 2 and offer["amount"]:
            service.do(Accept(offer["id"]))
    _, reserved, committed = service.money(campaign)
    assert reserved > 0
    assert committed > 0
    least = reserved + committed
    refusal = service.refusal(ChangeCampaign(campaign=campaign, budget=least - 1))
    assert (refusal.status, refusal.extra) == (409, {"least": least})
    assert service.money(campaign) == (100_000, reserved, committed)
    service.do(ChangeCampaign(campaign=campaign, budget=least))
    assert service.queries.campaign(campaign).free == 0
    assert all(service.offer(campaign, player)["amount"] == 0 for player in range(100, 120))


def test_a_budget_out_of_range_is_invalid(service: Service) -> None:
    campaign = service.create()
    for budget in (-1, 10**15 + 1):
        assert service.refusal(ChangeCampaign(campaign=campaign, budget=budget)).status == 422


def test_a_reversal_releases_the_payment_and_removes_the_rating(service: Service) -> None:
    campaign = service.create(budget=300, cap_per_player=250)
    service.rate_organic(campaign, a=[5], b=[4])
    service.offer(campaign, 0)  # at t = 1 the confidence width is 0
    among: dict[str, Any] = {"eligible": ["a", "b"], "displayed": {"a": 5.0, "b": 4.0}}
    offer = service.offer(campaign, 1, **among)
    assert offer["amount"] in (0, 200)
    bought = service.rated(campaign, 2, 1, eligible=["b", "c"], displayed={"b": 4.0, "c": 3.0})
    assert (bought["arm"], bought["paid"]) == ("c", 200)
    assert service.arms(campaign)["c"] == (1, 1.0, 0)
    service.do(Reverse(bought["id"]))
    assert service.money(campaign)[2] == 0
    assert service.arms(campaign)["c"] == (0, None, 0)


def test_a_reversed_sale_is_no_longer_in_flight(service: Service) -> None:
    campaign = service.create()
    offer = service.offer(campaign, 1)
    service.do(Accept(offer["id"]))
    assert service.arms(campaign)[offer["arm"]] == (0, None, 1)
    service.do(Reverse(offer["id"]))
    assert service.arms(campaign)[offer["arm"]] == (0, None, 0)


def test_a_sale_can_be_reversed_after_its_rating_window(service: Service) -> None:
    campaign = service.create(rating_window=10)
    offer = service.offer(campaign, 1)
    service.do(Accept(offer["id"]))
    service.later(10)
    assert service.do(Reverse(offer["id"]))["state"] == "reversed"
    assert service.arms(campaign)[offer["arm"]] == (0, None, 0)
    assert service.faults(campaign) == [None]


@pytest.mark.parametrize(
    ("stars", "price", "margin", "amount"),
    [
        (0.0, 200, 5, 0),
        (-0.5, 200, 5, 0),
        (0.25, 200, 0, 50),
        (0.25, 200, 5, 55),
        (0.251, 200, 0, 51),
        (1e-6, 200, 0, 1),
        (3.2 - 3.0, 5, 0, 1),  # 0.2000000000000002 in floating point
        (0.1 + 0.2, 10, 0, 3),
        (1 / 3, 1, 0, 1),
        (1.0, 10**10, 0, 10**10),
        (1.0, 10**12, 0, 10**12),
        (0.5, 2 * 10**12 + 1, 0, 10**12 + 1),
        (1e-16, 200, 5, 0),  # only a rounding error, so no margin
    ],
)
def test_a_payment_becomes_money_rounded_up(
    stars: float, price: int, margin: int, amount: int
) -> None:
    assert amount_of(stars, price, margin) == amount


def test_the_amount_is_the_lowest_that_covers_the_gap() -> None:
    draw = random.Random(5)
    for _ in range(sized(5_000, 20_000)):
        n, m = draw.randint(1, 400), draw.randint(1, 400)
        best, other = draw.randint(n, 5 * n), draw.randint(m, 5 * m)
        price, margin = draw.randint(1, 10 ** draw.randint(1, 6)), draw.randint(0, 9)
        gap = Fraction(best, n) - Fraction(other, m)
        amount = amount_of(best / n - other / m, price, margin)
        assert amount == (math.ceil(gap * price) + margin if gap > 0 else 0)


def test_the_stars_for_an_amount_cost_no_more_than_it() -> None:
    draw = random.Random(6)
    for _ in range(sized(5_000, 20_000)):
        price, margin = draw.randint(1, 10 ** draw.randint(1, 12)), draw.randint(0, 9)
        amount = draw.randint(0, 10 ** draw.randint(1, 15))
        stars = stars_for(amount, price, margin)
        assert amount_of(stars, price, margin) <= max(0, amount)
        assert stars == 0 or amount_of(stars * (1 + 1e-6) + 1 / price, price, margin) > amount


def test_equal_averages_cost_no_margin(service: Service) -> None:
    campaign = service.create(
        lowest_rating=1, highest_rating=10, policy_sees="zero_to_one", margin=7, arms=["a", "b"]
    )
    service.rate_organic(campaign, a=[6], b=[5, 6, 7])
    for player in range(6):
        offer = service.rated(campaign, player, 6)
        assert (offer["amount"], offer["greedy_arm"]) == (0, offer["arm"])
