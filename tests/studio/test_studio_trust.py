"""What can be trusted: invariants as they are, replays, and what faults were tried."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from service_faults.__main__ import Tried, as_json
from service_faults.outcome import Outcome
from service_fixtures import Service, assert_problem, service
from studio_fixtures import parse_lines

from entice.service.operations.invariants import read_fault_report


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Service]:
    with service(tmp_path) as made:
        yield made


def lived(shop: Service) -> str:
    """Begin a campaign in which something has happened."""
    campaign = shop.campaign()
    for player in ("ann", "bob", "cat"):
        offer = shop.offer(campaign, player)["id"]
        assert shop.client.post(f"/v1/offers/{offer}/accept").status_code == 200
        rating = {"rating": 4}
        assert shop.client.post(f"/v1/offers/{offer}/rating", json=rating).status_code == 200
    shop.offer(campaign, "dan")
    return campaign


def trusted(shop: Service, **headers: str) -> dict[str, Any]:
    answer = shop.client.get("/v1/trust", headers=headers)
    assert answer.status_code == 200, answer.text
    told: dict[str, Any] = answer.json()
    return told


def replayed(shop: Service, campaign: str) -> dict[str, Any]:
    answer = shop.client.post(f"/v1/campaigns/{campaign}/replay")
    assert answer.status_code == 200, answer.text
    return parse_lines(answer.text)[-1]


def damage(shop: Service, sql: str) -> None:
    with closing(sqlite3.connect(shop.store.url.removeprefix("sqlite:///"))) as database:
        database.execute(sql)
        database.commit()


def test_what_must_be_true_is_true(shop: Service) -> None:
    campaign = lived(shop)
    [told] = trusted(shop)["campaigns"]
    assert (told["id"], told["name"], told["replay"]) == (campaign, "Teas", None)
    assert len(told["invariants"]) == 6
    assert all(found["holds"] for found in told["invariants"])
    assert all(found["detail"].endswith(".") for found in told["invariants"])


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
def test_what_is_not_true_is_told(shop: Service, sql: str, name: str) -> None:
    lived(shop)
    damage(shop, sql)
    [told] = trusted(shop)["campaigns"]
    broken = [found["name"] for found in told["invariants"] if not found["holds"]]
    assert any(found.startswith(name) for found in broken), broken


def test_a_replay_is_what_verify_does(shop: Service) -> None:
    campaign, other = lived(shop), shop.campaign()
    told = replayed(shop, campaign)
    assert (told["kind"], told["ok"], told["events"]) == ("replay", True, 11)
    assert {c["id"]: c["replay"] for c in trusted(shop)["campaigns"]} == {
        campaign: told,
        other: None,
    }


def test_a_replay_finds_what_was_forged(shop: Service) -> None:
    campaign = lived(shop)
    forged = """replace(CAST(body AS TEXT), '"rating":4', '"rating":5')"""
    damage(shop, f"UPDATE events SET body = CAST({forged} AS BLOB)")
    told = replayed(shop, campaign)
    assert (told["ok"], told["events"]) == (False, 3)
    assert "Event 4 was altered" in told["detail"]
    [kept] = trusted(shop)["campaigns"]
    assert kept["replay"]["ok"] is False


def test_a_replay_of_nothing(shop: Service) -> None:
    assert_problem(shop.client.post("/v1/campaigns/c_0/replay"), 404, "not-found")


def test_a_key_of_one_campaign_sees_no_other(shop: Service) -> None:
    own, foreign = lived(shop), lived(shop)
    key = shop.bearer("read", own)
    assert [c["id"] for c in trusted(shop, **key)["campaigns"]] == [own]
    refused = shop.client.post(f"/v1/campaigns/{foreign}/replay", headers=key)
    assert_problem(refused, 404)
    assert shop.client.post(f"/v1/campaigns/{own}/replay", headers=key).status_code == 200
    everything = shop.client.get("/v1/trust", headers=shop.bearer("read")).json()
    assert {c["id"] for c in everything["campaigns"]} == {own, foreign}


def test_the_faults_that_come_with_the_package_are_those_of_the_runner(shop: Service) -> None:
    assert trusted(shop)["faults"] == read_fault_report()
    tried = [Tried(Outcome("kill", "200 kills", "0 lost", "some lost", True), 3.2)]
    made = json.loads(as_json(tried, long=True, note="n"))
    assert made.keys() == read_fault_report().keys()
    assert len(read_fault_report()["trials"]) == 10
    for trial in read_fault_report()["trials"]:
        assert trial.keys() == made["trials"][0].keys()
        assert trial["control"]
