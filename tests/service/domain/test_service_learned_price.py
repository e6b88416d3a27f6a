"""A learned price in campaigns: which answers count, and what is logged, stored and explained."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import polars as pl
import pytest
from log_forging import fault_of, forge_state, tampering
from oracles import learned_price as oracle
from writer_fixtures import Service, service

import entice
from entice.errors import InputError
from entice.service.domain.campaign_state import CampaignState, decode_state, encode_state
from entice.service.domain.commands import Accept, ChangeCampaign, Decline, Expire, Rate, Reverse
from entice.service.domain.events import Offered, decode
from entice.service.domain.explain import explain
from entice.service.domain.spec import CampaignSpec
from entice.service.operations.export import export_campaign

__all__ = ["service"]

SHOWN = {"a": 5.0, "b": 4.5, "c": 4.0}
"""What players see: "b" has a gap of 0.5 stars, which is a price of the grid, "c" one of 1 star."""
LEARNED = entice.LearnedPrice(acceptance=0.6, explore=0.0)


def create(service: Service, **changes: Any) -> str:
    """Create a campaign that offers all arms equally often, and whose arms are rated."""
    settings = {"policy": entice.EpsilonGreedy(c=1e6), "price": LEARNED} | changes
    campaign = service.create(**settings)
    service.rate_organic(campaign, a=[4], b=[4], c=[4])
    return campaign


def offers_of(service: Service, campaign: str, count: int, first: int = 1) -> list[Any]:
    """Make offers until so many of them are of another arm than "a"; accept the others."""
    found: list[Any] = []
    player = first
    while len(found) < count:
        offer = service.offer(campaign, player, displayed=SHOWN)
        player += 1
        if offer["arm"] == offer["greedy_arm"]:
            service.do(Accept(offer["id"]))
        else:
            found.append(offer)
    return found


def answers(service: Service, campaign: str) -> dict[float, tuple[int, int]]:
    """Return the answers and acceptances of the prices that have some."""
    points = service.queries.acceptance(campaign).prices
    return {round(p.price, 6): (p.answers, p.accepted) for p in points if p.answers}


def events_of(service: Service, campaign: str) -> list[Offered]:
    with service.store.read() as session:
        found = [decode(body) for (body,) in session.rows("SELECT body FROM events ORDER BY seq")]
    return [e for e in found if isinstance(e, Offered) and e.campaign == campaign]


def test_only_answers_to_paid_offers_count(service: Service) -> None:
    campaign = create(service)
    by_arm: dict[str, list[Any]] = {"b": [], "c": []}
    for offer in offers_of(service, campaign, 16):
        by_arm[offer["arm"]].append(offer)
    assert min(map(len, by_arm.values())) >= 4
    assert {offer["payment"] for offer in by_arm["b"]} == {0.5}
    accepted, declined, reversed_, expired = by_arm["b"][:4]
    service.do(Accept(accepted["id"], 10))  # for less than offered: still an answer to the offer
    service.do(Accept(accepted["id"], 10))  # repeated: counts once
    service.do(Decline(declined["id"]))
    service.do(Decline(declined["id"]))
    service.do(Accept(reversed_["id"]))
    service.do(Rate(reversed_["id"], 4))
    service.do(Reverse(reversed_["id"]))  # stays an answer
    service.do(Accept(by_arm["c"][0]["id"]))
    service.later(3600)
    service.do(Expire(campaign))  # and with it the offers that were not answered
    assert service.refusal(Accept(expired["id"])).status == 409
    assert answers(service, campaign) == {0.5: (3, 2), 1.0: (1, 1)}
    assert service.faults(campaign) == [None]


def test_answers_in_shadow_mode_and_own_choices_do_not_count(service: Service) -> None:
    campaign = create(service, status="shadow")
    accepted, declined = offers_of(service, campaign, 2)
    service.do(Accept(accepted["id"]))
    service.do(Decline(declined["id"]))
    assert answers(service, campaign) == {}
    assert service.queries.acceptance(campaign).sentence == (
        "No price with at least 10 answers is accepted by 60 % of the visitors yet (0 answers so "
        "far), so payments cover the gap."
    )
    assert service.faults(campaign) == [None]


def test_one_answer_is_one_answer(service: Service) -> None:
    campaign = create(service)
    [offer] = offers_of(service, campaign, 1)
    service.do(Accept(offer["id"]))
    assert "(1 answer so far)" in service.queries.acceptance(campaign).sentence


def learn(service: Service, campaign: str) -> None:
    """Let all players accept 0.5 stars, and 2 in 3 of them 1 star."""
    first = 1
    while sorted(n for n, _ in answers(service, campaign).values()) < [12, 12]:
        (offer,) = offers_of(service, campaign, 1, first)
        first = offer["decision"] + 1
        refuses = offer["arm"] == "c" and offer["decision"] % 3 == 0
        service.do((Decline if refuses else Accept)(offer["id"]))


def test_the_cheapest_price_is_paid_for_larger_gaps_and_the_gap_for_smaller_ones(
    service: Service,
) -> None:
    campaign = create(service)
    learn(service, campaign)
    view = service.queries.acceptance(campaign)
    assert (view.acceptance, view.explore, view.min_answers) == (0.6, 0.0, 10)
    assert (view.learned_price, view.learned_amount) == (0.5, 100)
    assert view.sentence.startswith("€1.00 (0.5 stars) is the cheapest price that 60 % of the vis")
    shares = oracle.isotonic([p.answers for p in view.prices], [p.accepted for p in view.prices])
    assert [p.estimate for p in view.prices] == [None if s is None else float(s) for s in shares]
    before = service.queries.campaign(campaign).decisions
    for arm, shown, payment in (("c", 4.0, 0.5), ("c", 4.75, 0.25), ("b", 4.5, 0.5)):
        displayed = {"a": 5.0, arm: shown}
        for player in range(1000, 1100):  # until the arm is offered
            offer = service.offer(campaign, player, displayed=displayed, eligible=["a", arm])
            service.do(Accept(offer["id"]))
            if offer["arm"] == arm:
                break
        assert (offer["payment"], offer["amount"]) == (payment, round(200 * payment))
        event = events_of(service, campaign)[-1]
        assert (event.learned_price, event.gap) == (0.5, 5.0 - shown)
        assert (event.price_propensity, event.price_explored) == (1.0, False)
    assert all(e.learned_price is not None for e in events_of(service, campaign)[before:])
    # A larger gap than the cap permits is not offered, as without a learned price.
    service.do(ChangeCampaign(campaign=campaign, cap_per_offer=150))
    offers = [
        service.offer(campaign, player, displayed=SHOWN, eligible=["a", "c"])
        for player in range(2000, 2020)
    ]
    assert {offer["arm"] for offer in offers} == {"a"}
    assert "limited" in {offer["reason"] for offer in offers}
    assert service.faults(campaign) == [None]


def test_explored_prices_are_logged_with_their_probability(
    service: Service, tmp_path: Path
) -> None:
    price = entice.LearnedPrice(acceptance=0.6, explore=0.7)
    campaign = create(service, price=price, overlap=0.2)
    offers = offers_of(service, campaign, 40)
    for offer in offers:
        service.do(Accept(offer["id"]))
    events = [e for e in events_of(service, campaign) if e.arm != e.greedy_arm]
    assert len(events) == 40
    assert 15 < sum(e.price_explored for e in events) < 40
    for event in events:
        assert event.gap is not None
        cheapest = None
        if event.learned_price is not None:
            cheapest = oracle.position(event.learned_price)
        possible = oracle.possible_payments(event.gap, cheapest, 0.7)
        likely = sum(p for payment, p in possible if payment == event.payment)
        assert event.price_propensity == pytest.approx(likely)
    assert len({e.payment for e in events}) > 4
    assert service.faults(campaign) == [None]
    target = tmp_path / "log.parquet"
    export_campaign(service.store, campaign, "parquet", target)
    rows = pl.read_parquet(target).filter(pl.col("arm") != pl.col("greedy_arm"))
    assert rows["price_propensity"].to_list() == [e.price_propensity for e in events]
    for event, amounts in zip(events, rows["amounts"].to_list(), strict=True):
        usual = [min(gap, event.learned_price or 4) for gap in (0.0, 0.5, 1.0)]
        assert amounts == [round(200 * stars) for stars in usual]


def test_a_forged_count_is_found(service: Service) -> None:
    campaign = create(service)
    for offer in offers_of(service, campaign, 3):
        service.do(Accept(offer["id"]))
    for column in ("answers", "accepted"):

        def forge(state: CampaignState, by: int, column: str = column) -> None:
            getattr(state.acceptance, column)[14] += by

        with tampering(service) as connection:
            forge_state(connection, lambda state: forge(state, 1))
            assert "row differs" in fault_of(service, campaign)
            forge_state(connection, lambda state: forge(state, -1))
    assert service.faults(campaign) == [None]


def test_a_campaign_that_pays_the_gap_stores_what_it_stored_before(service: Service) -> None:
    campaign = service.create()
    service.rated(campaign, 1, 4)
    with service.store.read() as session:
        [[encoded]] = session.rows("SELECT state FROM campaigns")
        bodies = [json.loads(body) for (body,) in session.rows("SELECT body FROM events")]
    assert len(msgspec.msgpack.decode(encoded)) == CampaignState.__struct_fields__.index("segments")
    assert encode_state(decode_state(encoded)) == encoded
    assert "price" not in bodies[0]["spec"]
    added = {"learned_price", "price_propensity", "price_explored", "gap"}
    assert all(added.isdisjoint(body) for body in bodies)
    view = service.queries.acceptance(campaign)
    assert (view.acceptance, view.learned_price, view.prices) == (None, None, [])
    assert view.sentence.startswith("This campaign has no learned price")


def test_a_learned_price_is_explained() -> None:
    paid = Offered(
        "c_0", 2, 0, 1, 1, "", "tea", "mint", 0.16, 32, "overlap", 0.01, (4.25, 4.5), 0, 300,
        gap=0.25, learned_price=0.16, price_propensity=0.9,
    )  # fmt: skip
    assert explain(paid).endswith(
        "tea, which shows 0.25 stars less than mint. The payment, 0.16 stars, is the cheapest "
        "price that visitors accept often enough."
    )
    drawn = msgspec.structs.replace(paid, payment=0.1, price_explored=True)
    assert explain(drawn).endswith(
        "The payment, 0.10 stars, was drawn at random, to learn which prices visitors accept."
    )
    covers = msgspec.structs.replace(paid, payment=0.25, learned_price=None)
    assert explain(covers).endswith(
        "The payment covers the gap; no cheaper price is known to be accepted often enough."
    )


def test_the_calculation_of_a_learned_price_adds_up(service: Service) -> None:
    price = entice.LearnedPrice(acceptance=0.6, explore=0.9)
    campaign = create(service, price=price, margin=3)
    notes = set()
    for offer in offers_of(service, campaign, 12):
        steps = service.queries.offer(offer["id"]).arithmetic.steps
        payment = next(step for step in steps if step.label == "Payment")
        assert (payment.sign, payment.stars) == ("↓", offer["payment"])
        assert next(step for step in steps if step.label == "Offered").amount == offer["amount"]
        notes.add(payment.note)
    assert "drawn at random, to learn which prices visitors accept" in notes


@pytest.mark.parametrize(
    ("price", "words"),
    [
        ({"kind": "learned", "acceptance": 1.5}, "LearnedPrice: acceptance must be a share of"),
        ({"kind": "learned", "explore": 1}, "LearnedPrice: explore must be a share of offers"),
        ({"kind": "learned", "wanted": 0.8}, "price has an unknown setting; got 'wanted'"),
        ({"kind": "cheapest"}, "price: kind is unknown; got 'cheapest'"),
        ({"acceptance": 0.8}, "price must be a table with a kind"),
        (0.8, "price must be a table with a kind"),
    ],
)
def test_bad_prices_are_rejected(price: Any, words: str) -> None:
    plain = {"name": "Tea", "arms": ["a", "b"], "budget": 1, "price_of_a_star": 200}
    with pytest.raises(InputError) as caught:
        CampaignSpec.from_plain(plain | {"price": price})
    assert words in str(caught.value)


@pytest.mark.parametrize("policy", [entice.EqualPay(), entice.EqualPayElimination(horizon=100)])
def test_equal_pay_rejects_a_learned_price(policy: Any) -> None:
    settings: Any = {"name": "Tea", "arms": ["a", "b"], "budget": 1, "price_of_a_star": 200}
    with pytest.raises(InputError) as caught:
        CampaignSpec(**settings, policy=policy, price=LEARNED)
    assert "CampaignSpec: price can't be used with" in str(caught.value)
    assert "pays the same for all items it compares" in str(caught.value)
    with pytest.raises(InputError) as caught:
        CampaignSpec(**settings, price=0.8)
    assert "CampaignSpec: price must be a LearnedPrice; got 0.8." in str(caught.value)
