"""What the campaign screen is told besides: how sure an average is, the pace, and why."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from service_fixtures import Service, service

from entice.service.domain.views import wilson_interval


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Service]:
    with service(tmp_path) as made:
        yield made


def get(shop: Service, path: str) -> Any:
    answer = shop.client.get(path)
    assert answer.status_code == 200, answer.text
    return answer.json()


def rated(shop: Service, offer: str, rating: int) -> None:
    assert shop.client.post(f"/v1/offers/{offer}/accept").status_code == 200
    body = {"rating": rating}
    assert shop.client.post(f"/v1/offers/{offer}/rating", json=body).status_code == 200


def test_an_interval_holds_the_truth() -> None:
    chance = random.Random(1)
    for mean in (1.3, 3.0, 4.1, 4.8):
        held = 0
        for _ in range(1000):
            ratings = [
                1 + sum(chance.random() < (mean - 1) / 4 for _ in range(4)) for _ in range(9)
            ]
            low, high = wilson_interval(sum(ratings), len(ratings), 1, 5)
            assert 1 <= low <= sum(ratings) / 9 <= high <= 5
            held += low <= mean <= high
        assert held >= 950


def test_arms_tell_how_sure_their_averages_are(shop: Service) -> None:
    campaign = shop.campaign()
    for i in range(12):
        rated(shop, shop.offer(campaign, f"{i}", eligible=["oolong"])["id"], 4)
    arms = {arm["id"]: arm for arm in get(shop, f"/v1/campaigns/{campaign}/arms")}
    assert (arms["sencha"]["low"], arms["sencha"]["high"]) == (1, 5)
    assert 1 < arms["oolong"]["low"] < 4 < arms["oolong"]["high"] < 5


def test_a_paced_campaign_tells_its_pace(shop: Service) -> None:
    plain = get(shop, f"/v1/campaigns/{shop.campaign()}")
    assert plain["paced"] is None
    campaign = shop.campaign(pace_over=100)
    for decisions in (0, 1, 2):
        told = get(shop, f"/v1/campaigns/{campaign}")
        share = math.log(2 + decisions) / math.log(101)
        assert told["paced"] == math.floor(50_000 * share)
        shop.offer(campaign, f"player {decisions}")


def test_an_offer_says_why(shop: Service) -> None:
    campaign = shop.campaign(policy={"kind": "greedy"})
    own = shop.offer(campaign, "ann", displayed={"sencha": 4.5})
    told = get(shop, f"/v1/offers/{own['id']}")
    assert "The policy chose sencha, the visitor's own choice" in told["why"]
    [offered] = told["history"]
    events = get(shop, f"/v1/campaigns/{campaign}/events")["events"]
    assert events[1]["hash"] == offered["hash"]
    assert events[1]["why"] == told["why"]
    assert events[0]["why"] is None


def test_the_steps_of_a_price_add_up(shop: Service) -> None:
    campaign = shop.campaign(policy={"kind": "ucb"}, margin=7)
    offer = shop.offer(campaign, "ann", displayed={"sencha": 4.8})
    price = get(shop, f"/v1/offers/{offer['id']}")["arithmetic"]
    steps = {step["label"]: step for step in price["steps"]}
    gap = steps["sencha shows"]["stars"] - steps[f"{offer['arm']} shows"]["stars"]
    assert steps["Gap"]["stars"] == price["payment_in_stars"] == pytest.approx(gap)
    assert steps["Exact amount"]["amount"] == steps["Gap"]["stars"] * price["price_of_a_star"]
    assert steps["Rounded up"]["amount"] == math.ceil(steps["Exact amount"]["amount"])
    assert steps["Rounded up"]["amount"] + steps["Margin"]["amount"] == offer["amount"]
    assert (steps["Offered"]["amount"], steps["Offered"]["level"]) == (offer["amount"], "total")


def test_every_reason_has_words(shop: Service) -> None:
    said: dict[str, None] = {}
    for cap in (None, 20):
        campaign = shop.campaign(probe={"share": 0.5, "amount": 0.5}, cap_per_offer=cap)
        rated_before = {"oolong": 5, "sencha": 4, "matcha": 1}
        ratings = [{"arm": arm, "rating": rating} for arm, rating in rated_before.items()]
        entered = shop.client.post(f"/v1/campaigns/{campaign}/ratings", json={"ratings": ratings})
        assert entered.status_code == 201
        for i in range(40):
            rated(shop, shop.offer(campaign, f"player {i}")["id"], 4)
        for status in ("shadow", "paused"):
            change = {"status": status}
            assert shop.client.patch(f"/v1/campaigns/{campaign}", json=change).status_code == 200
            shop.offer(campaign, status)
        for event in get(shop, f"/v1/campaigns/{campaign}/events?limit=1000")["events"]:
            assert (event["why"] is not None) == (event["body"]["kind"] == "offered")
            said[event["why"] or ""] = None
    words = " ".join(said)
    for part in (
        "To learn more about",
        "The payment covers the gap",
        "own choice: nothing needs to be paid",
        "A coin flip added 0.50 stars",
        "ratings, added nothing",
        "Limited by the cap per offer",
        "Shadow mode: recorded, not paid",
        "The campaign is paused",
    ):
        assert part in words, (part, list(said))


def test_the_drift_view_corrects_averages(shop: Service) -> None:
    campaign = shop.campaign(
        arms=["tea", "milk"], probe={"share": 1.0, "amount": 1.0}, budget=10**7, cap_per_offer=None
    )
    offers: list[tuple[str, float, int]] = []
    for i in range(120):
        offer = shop.offer(campaign, f"player {i}", eligible=["tea"])
        rating = 3 + int(offer["payment"] > 0) - int(i % 5 == 0)
        rated(shop, offer["id"], rating)
        offers.append((offer["id"], offer["payment"], rating))
    rated_again, taken_back = offers[10], offers[20]
    body = {"rating": 5}
    assert shop.client.post(f"/v1/offers/{rated_again[0]}/rating", json=body).status_code == 200
    get(shop, f"/v1/campaigns/{campaign}/drift")  # known by now, and goes on from here
    assert shop.client.post(f"/v1/offers/{taken_back[0]}/reverse").status_code == 200
    told = get(shop, f"/v1/campaigns/{campaign}/drift")
    [arm] = told["arms"]
    [tea, _] = get(shop, f"/v1/campaigns/{campaign}/arms")
    offers[10] = (*rated_again[:2], 5)
    counted = [(paid, rating) for offer, paid, rating in offers if offer != taken_back[0]]
    paid = sum(paid for paid, _ in counted) / 119
    average = sum(rating for _, rating in counted) / 119
    assert tea["average"] == pytest.approx(average)
    assert arm["id"] == "tea"
    assert arm["paid"] == pytest.approx(paid)
    assert arm["corrected"] == pytest.approx(average - told["slope"] * paid)
    assert 0.5 < told["slope"] < 1.5


def test_too_few_probes_correct_nothing(shop: Service) -> None:
    campaign = shop.campaign(probe={"share": 1.0, "amount": 0.5})
    for i in range(6):
        rated(shop, shop.offer(campaign, f"{i}", eligible=["oolong"])["id"], 4)
    told = get(shop, f"/v1/campaigns/{campaign}/drift")
    assert [arm["corrected"] for arm in told["arms"]] == [None]
    without = get(shop, f"/v1/campaigns/{shop.campaign()}/drift")
    assert without["arms"] == []
