"""The effect of a campaign over HTTP: totals of both groups, and requests to change the holdout."""

from __future__ import annotations

import io
import random
from typing import Any

import msgspec
import polars as pl
from service_fixtures import Service, assert_problem

from entice.api_types import EffectView


def effect_of(shop: Service, campaign: str) -> EffectView:
    answer = shop.client.get(f"/v1/campaigns/{campaign}/effect")
    assert answer.status_code == 200, answer.text
    return msgspec.json.decode(answer.content, type=EffectView, strict=True)


def post(shop: Service, offer: str, action: str, **body: Any) -> None:
    answer = shop.client.post(f"/v1/offers/{offer}/{action}", json=body)
    assert answer.status_code == 200, answer.text


def exported(shop: Service, campaign: str) -> pl.DataFrame:
    answer = shop.client.get(f"/v1/campaigns/{campaign}/export?format=parquet")
    return pl.read_parquet(io.BytesIO(answer.content))


def test_the_totals_are_those_of_the_exported_offers(shop: Service) -> None:
    draw = random.Random(3)
    campaign = shop.campaign(holdout=0.4, policy={"kind": "epsilon_greedy", "c": 1e6})
    assert effect_of(shop, campaign).verdict == "too_few_ratings"
    for visit in range(90):
        offer = shop.offer(campaign, f"visitor {visit % 60}")["id"]
        if draw.random() < 0.1:
            post(shop, offer, "decline")
            continue
        post(shop, offer, "accept")
        for rating in draw.choices([2, 3, 4, 5], k=draw.randrange(3)):
            post(shop, offer, "rating", rating=rating)
        if draw.random() < 0.1:
            post(shop, offer, "reverse")
    effect, rows = effect_of(shop, campaign), exported(shop, campaign)
    assert rows.height == 90
    for name, group in (("paid", effect.paid), ("holdout", effect.holdout)):
        mine = rows.filter(pl.col("group") == name)
        ratings = mine["feedback"].drop_nulls()
        counted = mine.filter(pl.col("state") != "reversed")
        assert (group.visitors, group.players) == (mine.height, mine["player"].n_unique())
        assert (group.rated, group.rating_sum) == (len(ratings), ratings.sum())
        assert group.rating_squares == (ratings**2).sum()
        assert group.paid == counted["paid"].sum()
        assert (mine["reason"] == "holdout").all() == (name == "holdout")
        assert group.rating == ratings.mean()
        assert group.payment == group.paid / group.visitors
        assert group.declined == (mine["state"] == "declined").sum() > 0
        assert group.share_rated == group.rated / (group.visitors - group.declined)
    assert effect.holdout.paid == 0 < effect.paid.paid
    assert effect.holdout.players + effect.paid.players == 60
    assert effect.difference is not None
    assert effect.low is not None
    assert effect.high is not None
    assert effect.low < effect.difference < effect.high
    assert (effect.campaign, effect.currency, effect.currency_digits) == (campaign, "EUR", 2)
    assert effect.split is not None
    assert (effect.holdout_share, effect.split.intended, effect.split.broken) == (0.4, 0.4, False)


def test_the_split_is_not_checked_if_all_players_came_before_the_campaign_was_live(
    shop: Service,
) -> None:
    campaign = shop.campaign(holdout=0.4, status="shadow", offer_expires_after=1)
    shop.offer(campaign, "ann")
    before = effect_of(shop, campaign)
    assert (before.split, before.paid.visitors + before.holdout.visitors) == (None, 0)
    assert "split" not in before.sentence
    shop.client.patch(f"/v1/campaigns/{campaign}", json={"status": "live"})
    shop.offer(campaign, "ann")
    returned = effect_of(shop, campaign)
    assert (returned.split, returned.paid.visitors + returned.holdout.visitors) == (None, 1)
    assert "split as intended can't be checked" in returned.sentence
    shop.offer(campaign, "bob")
    new = effect_of(shop, campaign)
    assert new.split is not None
    assert new.split.observed in (0, 1)
    assert "split" not in new.sentence


def test_a_campaign_without_a_holdout_has_no_effect_and_no_groups(shop: Service) -> None:
    campaign = shop.campaign()
    shop.offer(campaign, "ann")
    effect = effect_of(shop, campaign)
    assert (effect.verdict, effect.difference, effect.split) == ("no_holdout", None, None)
    assert "no holdout" in effect.sentence
    assert exported(shop, campaign)["group"].to_list() == [None]
    assert_problem(shop.client.get("/v1/campaigns/c_unknown/effect"), 404)


def test_a_bad_share_and_a_change_of_the_share_are_rejected(shop: Service) -> None:
    spec = {"name": "Teas", "arms": ["a", "b"], "budget": 100, "price_of_a_star": 1}
    for share in (1, -0.1, "a tenth"):
        answer = shop.client.post("/v1/campaigns", json={**spec, "holdout": share})
        assert "holdout" in assert_problem(answer, 422)["detail"]
    campaign = shop.campaign(holdout=0.1)
    for change in ({"holdout": 0.2}, {"holdout": 0.0}, {"holdout_feeds_averages": False}):
        answer = shop.client.patch(f"/v1/campaigns/{campaign}", json=change)
        detail = assert_problem(answer, 409)["detail"]
        assert "can't be changed while a campaign runs" in detail
        assert "create a new one" in detail
    same = {"holdout": 0.1, "holdout_feeds_averages": True, "budget": 60_000}
    answer = shop.client.patch(f"/v1/campaigns/{campaign}", json=same)
    assert (answer.status_code, answer.json()["version"]) == (200, 2)
