"""Views of the campaign screen: intervals of averages, pace, explanations, drift."""

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
def api(tmp_path: Path) -> Iterator[Service]:
    with service(tmp_path) as made:
        yield made


def get(api: Service, path: str) -> Any:
    response = api.client.get(path)
    assert response.status_code == 200, response.text
    return response.json()


def rate(api: Service, offer: str, rating: int) -> None:
    assert api.client.post(f"/v1/offers/{offer}/accept").status_code == 200
    body = {"rating": rating}
    assert api.client.post(f"/v1/offers/{offer}/rating", json=body).status_code == 200


def test_intervals_contain_the_true_mean() -> None:
    generator = random.Random(1)
    for mean in (1.3, 3.0, 4.1, 4.8):
        covered = 0
        for _ in range(1000):
            ratings = [
                1 + sum(generator.random() < (mean - 1) / 4 for _ in range(4)) for _ in range(9)
            ]
            low, high = wilson_interval(sum(ratings), len(ratings), 1, 5)
            assert 1 <= low <= sum(ratings) / 9 <= high <= 5
            covered += low <= mean <= high
        assert covered >= 950


def test_arms_have_intervals(api: Service) -> None:
    campaign = api.campaign()
    for i in range(12):
        rate(api, api.offer(campaign, f"{i}", eligible=["oolong"])["id"], 4)
    arms = {arm["id"]: arm for arm in get(api, f"/v1/campaigns/{campaign}/arms")}
    assert (arms["sencha"]["low"], arms["sencha"]["high"]) == (1, 5)
    assert 1 < arms["oolong"]["low"] < 4 < arms["oolong"]["high"] < 5


def test_a_paced_campaign_reports_its_limit(api: Service) -> None:
    plain = get(api, f"/v1/campaigns/{api.campaign()}")
    assert plain["paced"] is None
    campaign = api.campaign(pace_over=100)
    for decisions in (0, 1, 2):
        view = get(api, f"/v1/campaigns/{campaign}")
        share = math.log(2 + decisions) / math.log(101)
        assert view["paced"] == math.floor(50_000 * share)
        api.offer(campaign, f"player {decisions}")


def test_an_offer_is_explained(api: Service) -> None:
    campaign = api.campaign(policy={"kind": "greedy"})
    own = api.offer(campaign, "ann", displayed={"sencha": 4.5})
    view = get(api, f"/v1/offers/{own['id']}")
    assert "The policy chose sencha, the visitor's own choice" in view["why"]
    [offered] = view["history"]
    events = get(api, f"/v1/campaigns/{campaign}/events")["events"]
    assert events[1]["hash"] == offered["hash"]
    assert events[1]["why"] == view["why"]
    assert events[0]["why"] is None


def test_the_steps_of_a_price_add_up(api: Service) -> None:
    campaign = api.campaign(policy={"kind": "ucb"}, margin=7)
    offer = api.offer(campaign, "ann", displayed={"sencha": 4.8})
    price = get(api, f"/v1/offers/{offer['id']}")["arithmetic"]
    steps = {step["label"]: step for step in price["steps"]}
    gap = steps["sencha shows"]["stars"] - steps[f"{offer['arm']} shows"]["stars"]
    assert steps["Gap"]["stars"] == price["payment_in_stars"] == pytest.approx(gap)
    assert steps["Exact amount"]["amount"] == steps["Gap"]["stars"] * price["price_of_a_star"]
    assert steps["Rounded up"]["amount"] == math.ceil(steps["Exact amount"]["amount"])
    assert steps["Rounded up"]["amount"] + steps["Margin"]["amount"] == offer["amount"]
    assert (steps["Offered"]["amount"], steps["Offered"]["level"]) == (offer["amount"], "total")


def test_every_reason_is_explained(api: Service) -> None:
    explanations: dict[str, None] = {}
    for cap in (None, 20):
        campaign = api.campaign(probe={"share": 0.5, "amount": 0.5}, cap_per_offer=cap)
        rated_before = {"oolong": 5, "sencha": 4, "matcha": 1}
        ratings = [{"arm": arm, "rating": rating} for arm, rating in rated_before.items()]
        entered = api.client.post(f"/v1/campaigns/{campaign}/ratings", json={"ratings": ratings})
        assert entered.status_code == 201
        for i in range(40):
            rate(api, api.offer(campaign, f"player {i}")["id"], 4)
        for status in ("shadow", "paused"):
            change = {"status": status}
            assert api.client.patch(f"/v1/campaigns/{campaign}", json=change).status_code == 200
            api.offer(campaign, status)
        for event in get(api, f"/v1/campaigns/{campaign}/events?limit=1000")["events"]:
            assert (event["why"] is not None) == (event["body"]["kind"] == "offered")
            explanations[event["why"] or ""] = None
    text = " ".join(explanations)
    for part in (
        "To learn more about",
        "The payment covers the gap",
        "own choice: nothing needs to be paid",
        "The probe added 0.50 stars at random",
        "ratings, added nothing",
        "Limited by the cap per offer",
        "Shadow mode: recorded, not paid",
        "The campaign is paused",
    ):
        assert part in text, (part, list(explanations))


def test_the_drift_view_corrects_averages(api: Service) -> None:
    campaign = api.campaign(
        arms=["tea", "milk"], probe={"share": 1.0, "amount": 1.0}, budget=10**7, cap_per_offer=None
    )
    offers: list[tuple[str, float, int]] = []
    for i in range(120):
        offer = api.offer(campaign, f"player {i}", eligible=["tea"])
        rating = 3 + int(offer["payment"] > 0) - int(i % 5 == 0)
        rate(api, offer["id"], rating)
        offers.append((offer["id"], offer["payment"], rating))
    revised, reversed_offer = offers[10], offers[20]
    body = {"rating": 5}
    assert api.client.post(f"/v1/offers/{revised[0]}/rating", json=body).status_code == 200
    get(api, f"/v1/campaigns/{campaign}/drift")  # cached, and updated below
    assert api.client.post(f"/v1/offers/{reversed_offer[0]}/reverse").status_code == 200
    view = get(api, f"/v1/campaigns/{campaign}/drift")
    [arm] = view["arms"]
    [tea, _] = get(api, f"/v1/campaigns/{campaign}/arms")
    offers[10] = (*revised[:2], 5)
    counted = [(paid, rating) for offer, paid, rating in offers if offer != reversed_offer[0]]
    paid = sum(paid for paid, _ in counted) / 119
    average = sum(rating for _, rating in counted) / 119
    assert tea["average"] == pytest.approx(average)
    assert arm["id"] == "tea"
    assert arm["paid"] == pytest.approx(paid)
    assert arm["corrected"] == pytest.approx(average - view["slope"] * paid)
    assert 0.5 < view["slope"] < 1.5


def test_too_few_probes_do_not_correct_averages(api: Service) -> None:
    campaign = api.campaign(probe={"share": 1.0, "amount": 0.5})
    for i in range(6):
        rate(api, api.offer(campaign, f"{i}", eligible=["oolong"])["id"], 4)
    view = get(api, f"/v1/campaigns/{campaign}/drift")
    assert [arm["corrected"] for arm in view["arms"]] == [None]
    without = get(api, f"/v1/campaigns/{api.campaign()}/drift")
    assert without["arms"] == []
