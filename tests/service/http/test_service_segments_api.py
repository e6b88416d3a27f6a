"""Segments over HTTP and through the client: offers, averages, export, and fixed settings."""

from __future__ import annotations

import io
from typing import Any

import polars as pl
import pytest
from service_fixtures import Service, assert_problem

from entice.client import Client
from entice.service.domain.changes import FIXED_SETTINGS
from entice.service.domain.spec import CampaignSpec
from entice.service.http.campaigns import CampaignChange

SEGMENTS = ["new", "regular"]


def test_offers_averages_and_the_export_have_segments(shop: Service) -> None:
    campaign = shop.campaign(segments=SEGMENTS)
    path = f"/v1/campaigns/{campaign}"
    for i in range(12):
        segment = SEGMENTS[i % 2]
        offer = shop.offer(campaign, f"player {i}", segment=segment)
        assert offer["segment"] == segment
        shop.client.post(f"/v1/offers/{offer['id']}/accept")
        shop.client.post(f"/v1/offers/{offer['id']}/rating", json={"rating": 2 + 3 * (i % 2)})
    organic = {"ratings": [{"arm": "matcha", "rating": 4, "segment": "new"}]}
    assert shop.client.post(f"{path}/ratings", json=organic).status_code == 201
    view = shop.client.get(path).json()
    assert view["spec"]["segments"] == SEGMENTS
    assert [(s["id"], s["rated"]) for s in view["segments"]] == [("new", 7), ("regular", 6)]
    averages = {arm["average"] for arm in view["segments"][1]["arms"]}
    assert averages <= {5.0, None}
    assert shop.client.get("/v1/campaigns").json()[-1]["segments"] == []
    exported = shop.client.get(f"{path}/export?format=parquet")
    rows = pl.read_parquet(io.BytesIO(exported.content))
    assert rows["segment"].to_list() == [*SEGMENTS * 6, "new"]
    assert_problem(shop.client.post(f"{path}/offers", json={"player": "ann"}), 422)
    bad = {"player": "ann", "segment": ""}
    assert_problem(shop.client.post(f"{path}/offers", json=bad), 422)


def test_a_campaign_without_segments_rejects_one(shop: Service) -> None:
    campaign = shop.campaign()
    body = {"player": "ann", "segment": "new"}
    problem = assert_problem(shop.client.post(f"/v1/campaigns/{campaign}/offers", json=body), 422)
    assert "has no segments" in problem["detail"]
    assert shop.client.get(f"/v1/campaigns/{campaign}").json()["segments"] == []


VALUES: dict[str, Any] = {"segments": ["new", "regular", "vip"], "arms": ["oolong"], "seed": 8}


def test_every_setting_can_be_changed_or_is_refused_with_a_reason(shop: Service) -> None:
    campaign = shop.campaign(segments=SEGMENTS)
    path = f"/v1/campaigns/{campaign}"
    before = shop.client.get(path).json()
    changeable = set(CampaignChange.__struct_fields__)
    assert changeable | FIXED_SETTINGS.keys() == set(CampaignSpec.__struct_fields__)
    assert not changeable & FIXED_SETTINGS.keys()
    for name, reason in FIXED_SETTINGS.items():
        answer = shop.client.patch(path, json={name: VALUES.get(name, 3)})
        detail = assert_problem(answer, 409, "conflict")["detail"]
        assert detail.startswith(f"{name} can't be changed while a campaign runs")
        assert "fixed when the campaign is created" in detail
        assert reason in detail
    assert shop.client.get(path).json() == before
    unknown = assert_problem(shop.client.patch(path, json={"segmets": []}), 422)
    assert "unknown field 'segmets'" in unknown["detail"]


def test_the_client_names_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[Any] = []

    def ask(self: Client, method: str, path: str, kind: Any, body: Any = None, *_: Any) -> Any:
        sent.append(body)
        return {"entered": 2}

    monkeypatch.setattr(Client, "_ask", ask)
    client = Client("http://127.0.0.1:9", key="k")
    client.offer("c", "ann", segment="new")
    client.offer("c", "ann")
    client.enter_ratings("c", [("a", 4, "new"), ("b", 5)])
    assert [body.get("segment") for body in sent[:2]] == ["new", None]
    assert "segment" not in sent[1]
    assert sent[2]["ratings"] == [
        {"arm": "a", "rating": 4, "segment": "new"}, {"arm": "b", "rating": 5},
    ]  # fmt: skip
