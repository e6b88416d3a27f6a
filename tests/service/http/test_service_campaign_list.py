"""The list of campaigns: search, sort, status, pages and alerts."""

from __future__ import annotations

import itertools
import sqlite3
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from service_fixtures import Service, assert_problem, service

from entice.api_types import AlertKind
from entice.service import logs
from entice.service.domain import plan_status
from entice.service.domain.clock import Clock
from entice.service.domain.commands import CreateCampaign
from entice.service.domain.spec import CampaignSpec
from entice.service.http.examples import PLAN
from entice.service.operations import alerts
from entice.service.operations.alerts import CampaignAlerts
from entice.service.operations.campaign_list import CampaignList
from entice.service.storage import sqlite
from entice.service.storage.queries import Queries
from entice.service.storage.sqlite import SqliteStore
from entice.service.storage.unit_of_work import load_all_states
from entice.service.storage.writer import Writer

PROBE_ALL = {"share": 1, "amount": 0.5}


def listed(shop: Service, **query: Any) -> list[str]:
    """Return the names of the campaigns on all pages of two."""
    names: list[str] = []
    path = "/v1/campaigns"
    params: dict[str, Any] | None = {"limit": 2, **query}
    while path:
        answer = shop.client.get(path, params=params)
        assert answer.status_code == 200, answer.text
        names += [one["name"] for one in answer.json()]
        path, params = answer.links.get("next", {}).get("url", ""), None
    assert answer.headers["entice-total"] == str(len(names))
    return names


def alert_kinds(shop: Service, campaign: str) -> list[str]:
    found = shop.client.get(f"/v1/campaigns/{campaign}").json()["alerts"]
    [same] = [c["alerts"] for c in shop.client.get("/v1/campaigns").json() if c["id"] == campaign]
    assert same == found
    return [alert["kind"] for alert in found]


def test_campaigns_are_searched_sorted_and_filtered(tmp_path: Path) -> None:
    with service(tmp_path) as shop:
        tea = shop.campaign(name="Tea, autumn", budget=1000)
        coffee = shop.campaign(name="coffee, Autumn", budget=0)
        cocoa = shop.campaign(name="Cocoa")
        assert listed(shop) == ["Tea, autumn", "coffee, Autumn", "Cocoa"]
        assert listed(shop, search="AUTUMN t") == ["Tea, autumn", "coffee, Autumn"]
        assert listed(shop, search=cocoa) == ["Cocoa"]
        assert listed(shop, search="100 %&sort=name") == []
        assert listed(shop, sort="name") == ["Cocoa", "coffee, Autumn", "Tea, autumn"]
        assert listed(shop, sort="-name") == ["Tea, autumn", "coffee, Autumn", "Cocoa"]
        assert listed(shop, sort="-created") == ["Cocoa", "coffee, Autumn", "Tea, autumn"]
        shop.client.patch(f"/v1/campaigns/{coffee}", json={"status": "paused"})
        assert listed(shop, sort="-changed")[0] == "coffee, Autumn"
        assert listed(shop, status="paused") == ["coffee, Autumn"]
        assert listed(shop, sort="status") == ["Tea, autumn", "Cocoa", "coffee, Autumn"]
        shop.client.post(
            f"/v1/campaigns/{tea}/ratings", json={"ratings": [{"arm": "oolong", "rating": 5}]}
        )
        offer = shop.offer(tea, "ann")
        assert offer["amount"] > 0
        assert listed(shop, sort="-used")[0] == "Tea, autumn"
        with_alert = {"budget": offer["amount"]}
        assert shop.client.patch(f"/v1/campaigns/{tea}", json=with_alert).status_code == 200
        assert listed(shop, sort="alerts") == ["coffee, Autumn", "Cocoa", "Tea, autumn"]
        assert listed(shop, sort="-alerts") == ["Tea, autumn", "coffee, Autumn", "Cocoa"]
        shop.client.post(f"/v1/offers/{offer['id']}/accept", json={})
        shop.client.post(f"/v1/offers/{offer['id']}/rating", json={"rating": 4})
        # Unknown shares are last in both directions.
        assert listed(shop, sort="share_who_rate")[0] == "Tea, autumn"
        assert listed(shop, sort="-share_who_rate")[0] == "Tea, autumn"
        # The last campaign of a page changes before the next one is requested.
        first = shop.client.get("/v1/campaigns?limit=1&status=live")
        shop.client.patch(f"/v1/campaigns/{tea}", json={"status": "paused", "name": "Renamed"})
        assert [c["id"] for c in shop.client.get(first.links["next"]["url"]).json()] == [cocoa]
        # A key for one campaign sees that one only.
        limited = shop.bearer("read", cocoa)
        own = shop.client.get("/v1/campaigns?sort=-alerts", headers=limited)
        assert ([c["id"] for c in own.json()], own.headers["entice-total"]) == ([cocoa], "1")
        assert_problem(shop.client.get(f"/v1/campaigns?after={tea}", headers=limited), 404)


def test_invalid_orders_are_rejected(shop: Service) -> None:
    assert_problem(shop.client.get("/v1/campaigns?sort=budget"), 422)
    assert_problem(shop.client.get(f"/v1/campaigns?search={'x' * 201}"), 422)


def test_a_new_alert_is_in_list_page_and_metrics(
    own_shop: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(alerts, "FRESH_SECONDS", 0.0)
    monkeypatch.setattr(alerts, "CHECK_SECONDS", 0.0)
    shop = own_shop
    campaign = shop.campaign()
    assert alert_kinds(shop, campaign) == []
    shop.client.post(
        f"/v1/campaigns/{campaign}/ratings", json={"ratings": [{"arm": "oolong", "rating": 5}]}
    )
    offer = shop.offer(campaign, "ann")
    used = {"budget": offer["amount"]}
    assert shop.client.patch(f"/v1/campaigns/{campaign}", json=used).status_code == 200
    assert alert_kinds(shop, campaign) == ["budget_used_up"]
    with shop.store.write() as session:
        session.run("UPDATE offers SET cost = cost + 1 WHERE n = 1")
    assert alert_kinds(shop, campaign) == ["invariants_broken", "budget_used_up"]
    text = shop.client.get("/metrics").text
    for kind, value in (
        ("invariants_broken", 1.0),
        ("budget_used_up", 1.0),
        ("drift_above_plan", 0.0),
    ):
        line = f'entice_campaign_alert{{alert="{kind}",campaign="{campaign}"}} {value}'
        assert line in text or line.replace("1.0", "1").replace("0.0", "0") in text, text


SHORT = {"visitors": [2, 100], "low": [100, 5000], "typical": [100, 6000], "high": [200, 9000]}
"""The range of a short plan."""


def test_the_plan_status_is_in_list_and_page(
    own_shop: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plan_status, "MIN_VISITORS", 2)
    monkeypatch.setattr(alerts, "FRESH_SECONDS", 0.0)
    shop = own_shop
    shop.campaign()
    campaign = shop.campaign(plan=PLAN | SHORT)

    def statuses() -> list[str | None]:
        page = shop.client.get(f"/v1/campaigns/{campaign}").json()["plan_status"]
        listed = [view["plan_status"] for view in shop.client.get("/v1/campaigns").json()]
        assert listed == [None, page]
        return [page["status"], *alert_kinds(shop, campaign)]

    assert statuses() == ["not_started"]
    for i in range(2):  # tied items, so nothing is paid
        assert statuses() == [["not_started"], ["too_early"]][i]
        shop.offer(campaign, f"visitor {i}")
    assert statuses() == ["below_plan", "spending_below_plan"]


def test_shadow_visitors_are_not_compared_with_the_plan(
    own_shop: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not even after the campaign went live, nor those who answered their offers."""
    monkeypatch.setattr(plan_status, "MIN_VISITORS", 2)
    monkeypatch.setattr(alerts, "FRESH_SECONDS", 0.0)
    shop = own_shop
    campaign = shop.campaign(plan=PLAN | SHORT, status="shadow")

    def status() -> tuple[str, int]:
        found = shop.client.get(f"/v1/campaigns/{campaign}").json()["plan_status"]
        return found["status"], found["shadow_visitors"]

    for i in range(5):
        offer = shop.offer(campaign, f"early {i}")
        if i % 2:
            shop.client.post(f"/v1/offers/{offer['id']}/accept", json={})
    assert status() == ("not_started", 5)
    shop.client.patch(f"/v1/campaigns/{campaign}", json={"status": "live"})
    assert status() == ("not_started", 5)
    shop.offer(campaign, "ann")
    assert status() == ("too_early", 5)
    shop.offer(campaign, "bob")
    assert status() == ("below_plan", 5)


def test_a_drift_above_the_plan_is_found_in_a_long_log(
    own_shop: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a planned drift there is no alert: the first campaign has none."""
    monkeypatch.setattr(alerts, "FRESH_SECONDS", 0.0)
    monkeypatch.setattr(alerts, "DRIFT_EVENTS", 100)
    found = []
    for settings in ({}, {"planned_drift": 1.0}):
        campaign = own_shop.campaign(probe=PROBE_ALL, **settings)
        for i in range(40):
            offer = own_shop.offer(campaign, f"visitor {i}")
            path = f"/v1/offers/{offer['id']}"
            own_shop.client.post(f"{path}/accept", json={})
            stars = 5 if offer["payment"] > 0 else 3 - i % 2
            own_shop.client.post(f"{path}/rating", json={"rating": stars})
        # Each request reads a part of the log; the alert appears once all of it is read.
        own = f"/v1/campaigns/{campaign}"
        looks = [own_shop.client.get(own).json()["alerts"] for _ in range(2)]
        found.append([[alert["kind"] for alert in look] for look in looks])
    assert found == [[[], []], [[], ["drift_above_plan"]]]


def test_ratings_that_stop_are_found(own_shop: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(alerts, "FRESH_SECONDS", 0.0)
    for module in ("entice.service.operations.alerts", "entice.service.domain.alerts"):
        monkeypatch.setattr(f"{module}.RECENT_OFFERS", 20)
    campaign = own_shop.campaign(rating_window=1)  # seconds
    for i in range(60):
        offer = own_shop.offer(campaign, f"visitor {i}")
        own_shop.client.post(f"/v1/offers/{offer['id']}/accept", json={})
        if i < 40:
            own_shop.client.post(f"/v1/offers/{offer['id']}/rating", json={"rating": 4})
        if i == 39:
            assert alert_kinds(own_shop, campaign) == []
    assert "share_who_rate_falling" in alert_kinds(own_shop, campaign)


def test_recent_ratings_of_a_campaign_with_segments_are_compared(own_shop: Service) -> None:
    """In flight, its offers are counted by arm and segment, not by arm."""
    segments = ["new", "regular", "gone"]
    campaign = own_shop.campaign(segments=segments)
    for start in (0, 210):
        requests = [
            {"player": f"visitor {start + i}", "segment": segments[i % 3]} for i in range(210)
        ]
        made = own_shop.client.post(
            f"/v1/campaigns/{campaign}/offers/batch", json={"requests": requests}
        )
        assert made.status_code == 201, made.text
    for offer in made.json()["offers"][-9:]:
        own_shop.client.post(f"/v1/offers/{offer['id']}/accept", json={})
    assert alert_kinds(own_shop, campaign) == []
    assert f'campaign="{campaign}"}} 0' in own_shop.client.get("/metrics").text


def test_an_unexpected_error_in_an_alert_stops_neither_start_nor_metrics(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with service(tmp_path) as shop:
        campaign = shop.campaign()

    def broken(*_: object) -> None:
        raise IndexError

    errors: list[Any] = []
    monkeypatch.setattr(alerts, "find_alerts", broken)
    monkeypatch.setattr(logs, "unexpected", lambda error, **facts: errors.append(facts))
    with service(tmp_path) as shop:  # which waits until it is ready
        assert errors == [{"during": "warm-up"}]
        text = shop.client.get("/metrics").text
    assert f'entice_campaign_budget{{campaign="{campaign}"}} 50000' in text
    assert "entice_campaign_alert{" not in text
    assert errors[1:] == [{"during": "alerts", "campaign": campaign}]


@pytest.mark.parametrize("sort", ["created", "-alerts"])
def test_a_campaign_that_is_damaged_after_it_was_listed_is_left_out(
    own_shop: Service, sort: str
) -> None:
    names = ["a", "b", "c"]
    ids = [own_shop.campaign(name=name) for name in names]
    assert listed(own_shop) == names
    own_shop.context.queries.alerts._cached.clear()
    with own_shop.store.write() as session:
        session.run("UPDATE campaigns SET state = substr(state, 2) WHERE id = ?", (ids[1],))
    found = own_shop.client.get("/v1/campaigns", params={"limit": 2, "sort": sort})
    assert [one["name"] for one in found.json()] == ["a", "c"]
    assert found.headers["entice-total"] == "2"
    assert "link" not in found.headers
    assert listed(own_shop, sort=sort) == ["a", "c"]


def test_a_scrape_reads_for_a_limited_time_and_the_next_one_continues(
    own_shop: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each scrape has time for one campaign. The rules that need the row alone see all of them."""
    ids = [own_shop.campaign() for _ in range(3)]
    with own_shop.store.read() as session:
        states, _ = load_all_states(session)
    for state in states:
        state.committed = state.budget
    found = CampaignAlerts(own_shop.context.queries.drifts)
    read: list[str] = []
    monkeypatch.setattr(alerts, "MAX_SCRAPE_SECONDS", 1.5)
    monkeypatch.setattr(alerts, "_broken_invariants", lambda _, state: read.append(state.campaign))
    clock = SimpleNamespace(monotonic=itertools.count().__next__)  # a second later at each look
    monkeypatch.setattr(alerts, "time", clock)
    for scrape in range(3):
        with own_shop.store.read() as session:
            by_campaign = found.of_all(session, states)
        assert sorted(by_campaign) == sorted(ids)
        assert {each.kind for [each] in by_campaign.values()} == {AlertKind.BUDGET_USED_UP}
        assert read == ids[: scrape + 1]


def test_a_full_cache_of_alerts_keeps_the_others(
    own_shop: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(alerts, "MAX_CACHED", 3)
    ids = [own_shop.campaign() for _ in range(5)]
    for _ in range(2):
        assert len(listed(own_shop)) == 5
        assert list(own_shop.context.queries.alerts._cached) == [*ids[:2], ids[4]]


def test_a_list_request_reads_few_rows(tmp_path: Path) -> None:
    """The first page reads offers and logs of its own campaigns only, and later ones nothing."""
    said: list[str] = []

    def connect(path: str) -> sqlite3.Connection:
        connection = sqlite.connect(path)
        connection.set_trace_callback(said.append)
        return connection

    spec = CampaignSpec(name="x", arms=["a", "b"], budget=1000, price_of_a_star=100, seed=7)
    with closing(SqliteStore(tmp_path / "entice.db", connect)) as store:
        writer = Writer(store, Clock())
        writer.start()
        for _ in range(30):
            writer.submit(CreateCampaign(spec)).result()
        writer.stop()
        campaigns = CampaignList(store, CampaignAlerts(Queries(store).drifts))

        def reads(**query: Any) -> tuple[int, int]:
            said.clear()
            assert len(campaigns.page(limit=5, **query).campaigns) == 5
            log = [sql for sql in said if "offers" in sql or "events" in sql]
            return len(log), sum(sql.startswith("SELECT number, seq, head") for sql in said)

        log, states = reads()
        assert log <= 3 * 5
        assert states == 35  # all campaigns once, and those of the page
        assert reads() == reads(search="x", status="live") == (0, 5)
