"""`verify` finds tampering with rows, and works on several campaigns and on copies."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest
from log_forging import campaign_with_all_events, fault_of, forge_state, tampering
from writer_fixtures import Service, hashed, service

from entice.service.domain.commands import (
    Accept,
    Decline,
    MakeOffer,
    MakeOffers,
    Rate,
)
from entice.service.domain.errors import Corrupt
from entice.service.domain.offer import digest, read_offer
from entice.service.operations import verify as verification
from entice.service.operations.verify import verify
from entice.service.storage.sqlite import SqliteStore
from entice.service.storage.store import open_store

__all__ = ["service"]


@pytest.mark.parametrize(
    "change",
    [
        "seq = seq - 1", "head = zeroblob(32)", "budget = budget + 1", "reserved = reserved + 1",
        "committed = committed + 1", "state = x'00'", "state = substr(state, 2)",
        "digest = zeroblob(8)",
    ],
)  # fmt: skip
def test_an_altered_campaign_row_is_rejected(service: Service, change: str) -> None:
    campaign = campaign_with_all_events(service)
    with tampering(service) as connection:
        connection.execute(f"UPDATE campaigns SET {change}")
    fault = fault_of(service, campaign)
    assert f"row of campaign {campaign}" in fault
    with pytest.raises(Corrupt):
        service.queries.campaign(campaign)


@pytest.mark.parametrize(
    ("field", "change"),
    [
        ("committed", lambda value: value - 1),
        ("budget", lambda value: value + 1),
        ("pulls", lambda value: [value[0] + 1, *value[1:]]),
        ("totals", lambda value: [value[0] + 1, *value[1:]]),
        ("in_flight", lambda value: [value[0] + 1, *value[1:]]),
        ("memory", lambda value: bytes(len(value))),
        ("status", lambda _: "live"),
        ("head", lambda _: bytes(32)),
        ("decisions", lambda value: value + 1),
    ],
)
def test_a_forged_campaign_row_differs_from_the_replay(
    service: Service, field: str, change: Callable[[Any], Any]
) -> None:
    campaign = campaign_with_all_events(service)
    with tampering(service) as connection:
        forge_state(connection, lambda state: setattr(state, field, change(getattr(state, field))))
    assert (
        fault_of(service, campaign) == "The campaign's row differs from the replay of its events."
    )


def test_an_undecodable_campaign_row_is_rejected(service: Service) -> None:
    campaign = campaign_with_all_events(service)
    with tampering(service) as connection:
        for state in (b"", b"nonsense", msgspec.msgpack.encode([1, 2, 3])):
            connection.execute("UPDATE campaigns SET state = ?, digest = ?", (state, digest(state)))
            assert "can't be decoded" in fault_of(service, campaign)
            with pytest.raises(Corrupt):
                service.queries.campaign(campaign)


def test_a_missing_campaign_row_is_reported(service: Service) -> None:
    campaign_with_all_events(service)
    other = service.create()
    with tampering(service) as connection:
        connection.execute("DELETE FROM campaigns WHERE number = 1")
    results = list(verify(service.store))
    assert [(result.campaign, result.fault is None) for result in results] == [
        (other, True), ("number 1", False),
    ]  # fmt: skip
    (result,) = verify(service.store, "c_unknown")
    assert "There is no campaign" in (result.fault or "")


def test_a_renamed_campaign_is_detected(service: Service) -> None:
    campaign_with_all_events(service)
    with tampering(service) as connection:
        connection.execute("UPDATE campaigns SET id = 'c_other'")
    assert fault_of(service, "c_other").startswith("Event 1 claims to be event 1 of c_")


@pytest.mark.parametrize(
    "change",
    [
        "player = zeroblob(16)", "state = 2", "due = due + 1", "cost = cost + 1", "body = x'00'",
        "digest = zeroblob(8)", "n = 1000",
    ],
)  # fmt: skip
def test_an_altered_offer_row_is_named(service: Service, change: str) -> None:
    campaign = campaign_with_all_events(service)
    with tampering(service) as connection:
        connection.execute(f"UPDATE offers SET {change} WHERE n = 2")
    fault = fault_of(service, campaign)
    assert fault.startswith("The row of offer ") or "offers are missing" in fault
    if not change.startswith("n ="):
        assert "offer 2 " in fault
        with pytest.raises(Corrupt):
            service.queries.offer(f"{campaign}.2")
        with pytest.raises(Corrupt):
            service.answer(Decline(f"{campaign}.2"))


def test_a_forged_offer_row_is_named(service: Service) -> None:
    campaign = campaign_with_all_events(service)
    with tampering(service) as connection:
        (body,) = connection.execute("SELECT body FROM offers WHERE n = 1").fetchone()
        offer = read_offer(body)
        assert offer.rating == 4
        offer.rating = 5
        forged = offer.row()
        connection.execute(
            "UPDATE offers SET body = ?, digest = ? WHERE n = 1",
            (forged, digest((1).to_bytes(8), forged)),
        )
    expected = "The row of offer 1 differs from the replay of its events."
    assert fault_of(service, campaign) == expected


def test_deleted_and_invented_offers_are_detected(service: Service) -> None:
    campaign = campaign_with_all_events(service)
    with tampering(service) as connection:
        row = connection.execute("SELECT * FROM offers WHERE n = 3").fetchone()
        connection.execute("DELETE FROM offers WHERE n = 3")
        assert "missing" in fault_of(service, campaign)
        marks = ", ".join("?" * len(row))
        connection.execute(f"INSERT INTO offers VALUES ({marks})", row)
        assert service.faults(campaign) == [None]
        invented = (row[0], 77, *row[2:])
        connection.execute(f"INSERT INTO offers VALUES ({marks})", invented)
        assert "offer 77 " in fault_of(service, campaign)


def test_an_altered_stored_response_is_not_replayed(service: Service) -> None:
    campaign = service.create()
    service.answer(MakeOffer(campaign, hashed(1)), key="k", request=b"1")
    with tampering(service) as connection:
        (body,) = connection.execute("SELECT body FROM answers").fetchone()
        altered = body.replace(b'"amount":0', b'"amount":9')
        assert altered != body
        connection.execute("UPDATE answers SET body = ?", (altered,))
    refusal = service.refusal(MakeOffer(campaign, hashed(1)), key="k", request=b"1")
    assert refusal.status == 503
    assert "damaged" in refusal.detail
    assert service.queries.campaign(campaign).decisions == 1


def test_a_mismatch_in_one_campaign_does_not_hide_the_others(service: Service) -> None:
    campaigns = [service.create() for _ in range(3)]
    for campaign in campaigns:
        service.rate_organic(campaign, a=[1, 2, 3])
    with tampering(service) as connection:
        connection.execute("UPDATE events SET body = x'00' WHERE campaign = 2 AND seq = 3")
    results = list(verify(service.store))
    assert [result.campaign for result in results] == campaigns
    assert [result.fault is None for result in results] == [True, False, True]
    assert results[1].events == 2  # replayed before the mismatch


def test_a_database_in_use_is_verified(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verification, "PAGE", 300)  # many transactions
    campaign = service.create(budget=10**6)
    stop = threading.Event()

    def make_offers() -> None:
        player = 0
        while not stop.is_set():
            requests = [MakeOffer(campaign, hashed(player + i)) for i in range(20)]
            offers = service.do(MakeOffers(campaign, requests))["offers"]
            for offer in offers[::2]:
                service.writer.submit(Accept(offer["id"]))
                service.writer.submit(Rate(offer["id"], 1 + player % 5))
            player += 20

    thread = threading.Thread(target=make_offers)
    thread.start()
    seen: set[int] = set()
    try:
        while len(seen) < 4:
            result = next(verify(service.store, campaign))
            assert result.fault is None
            seen.add(result.events)
    finally:
        stop.set()
        thread.join()


def test_a_backup_verifies(service: Service, tmp_path: Path) -> None:
    campaign = campaign_with_all_events(service)
    with closing(SqliteStore(service.path)) as original:
        original.backup(tmp_path / "copy.db")
    copy = open_store(f"sqlite:///{tmp_path / 'copy.db'}")
    assert list(verify(copy)) == [(campaign, service.queries.head(campaign), None)]
    copy.close()
