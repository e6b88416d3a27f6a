"""Trust: checks of every campaign, replays, and the report of the fault tests."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest
from service_fixtures import Service, assert_problem, service
from studio_fixtures import parse_lines

import entice
from entice.service.operations.fault_report import digest_of_source, read_fault_report


@pytest.fixture
def api(tmp_path: Path) -> Iterator[Service]:
    with service(tmp_path) as made:
        yield made


def campaign_with_events(api: Service) -> str:
    """Create a campaign with some events."""
    campaign = api.campaign()
    for player in ("ann", "bob", "cat"):
        offer = api.offer(campaign, player)["id"]
        assert api.client.post(f"/v1/offers/{offer}/accept").status_code == 200
        rating = {"rating": 4}
        assert api.client.post(f"/v1/offers/{offer}/rating", json=rating).status_code == 200
    api.offer(campaign, "dan")
    return campaign


def read_trust(api: Service, **headers: str) -> dict[str, Any]:
    response = api.client.get("/v1/trust", headers=headers)
    assert response.status_code == 200, response.text
    view: dict[str, Any] = response.json()
    return view


def run_replay(api: Service, campaign: str) -> dict[str, Any]:
    response = api.client.post(f"/v1/campaigns/{campaign}/replay")
    assert response.status_code == 200, response.text
    return parse_lines(response.text)[-1]


def damage(api: Service, sql: str) -> None:
    with closing(sqlite3.connect(api.store.url.removeprefix("sqlite:///"))) as database:
        database.execute(sql)
        database.commit()


def test_all_checks_pass(api: Service) -> None:
    campaign = campaign_with_events(api)
    [view] = read_trust(api)["campaigns"]
    assert (view["id"], view["name"], view["replay"]) == (campaign, "Teas", None)
    assert len(view["invariants"]) == 6
    assert all(found["holds"] for found in view["invariants"])
    assert all(found["detail"].endswith(".") for found in view["invariants"])


@pytest.mark.parametrize(
    ("sql", "name"),
    [
        ("UPDATE offers SET cost = 77, state = 0", "Reserved money equals the cost of open offers"),
        ("DELETE FROM events WHERE seq = 11", "The log ends with the campaign's last event"),
        ("DELETE FROM offers WHERE n = 4", "Every decision has an offer"),
        ("UPDATE events SET hash = zeroblob(32) WHERE seq = 11", "The log's last hash matches"),
        ("UPDATE campaigns SET state = x'00'", "The campaign's row is intact"),
    ],
)
def test_damage_fails_the_check(api: Service, sql: str, name: str) -> None:
    campaign_with_events(api)
    damage(api, sql)
    [view] = read_trust(api)["campaigns"]
    broken = [found["name"] for found in view["invariants"] if not found["holds"]]
    assert any(found.startswith(name) for found in broken), broken


def test_a_replay_verifies_the_log_and_finds_a_forged_event(api: Service) -> None:
    campaign, other = campaign_with_events(api), api.campaign()
    view = run_replay(api, campaign)
    assert (view["kind"], view["ok"], view["events"]) == ("replay", True, 11)
    assert {c["id"]: c["replay"] for c in read_trust(api)["campaigns"]} == {
        campaign: view,
        other: None,
    }
    forged = """replace(CAST(body AS TEXT), '"rating":4', '"rating":5')"""
    damage(api, f"UPDATE events SET body = CAST({forged} AS BLOB)")
    view = run_replay(api, campaign)
    assert (view["ok"], view["events"]) == (False, 3)
    assert "Event 4 was altered" in view["detail"]
    kept = {c["id"]: c["replay"] for c in read_trust(api)["campaigns"]}
    assert kept[campaign]["ok"] is False


def test_a_replay_of_an_unknown_campaign_is_not_found(api: Service) -> None:
    assert_problem(api.client.post("/v1/campaigns/c_0/replay"), 404, "not-found")


def test_a_campaign_key_sees_only_its_campaign(api: Service) -> None:
    own, foreign = campaign_with_events(api), campaign_with_events(api)
    key = api.bearer("read", own)
    assert [c["id"] for c in read_trust(api, **key)["campaigns"]] == [own]
    response = api.client.post(f"/v1/campaigns/{foreign}/replay", headers=key)
    assert_problem(response, 404)
    assert api.client.post(f"/v1/campaigns/{own}/replay", headers=key).status_code == 200
    everything = api.client.get("/v1/trust", headers=api.bearer("read")).json()
    assert {c["id"] for c in everything["campaigns"]} == {own, foreign}


def test_the_fault_tests_are_shown_with_a_digest_of_the_running_code(api: Service) -> None:
    view = read_trust(api)
    assert view["faults"] == msgspec.to_builtins(read_fault_report())
    assert view["source"] == digest_of_source(Path(entice.__file__).parent)
    assert len(view["faults"]["trials"]) == 14
    assert all(trial["control"] for trial in view["faults"]["trials"])
