"""`verify` finds tampering with the event log, and names the first bad event."""

from __future__ import annotations

import json
import sqlite3
from typing import Any

import msgspec
import pytest
from log_forging import KINDS, campaign_with_all_events, fault_of, forge_state, log_of, tampering
from writer_fixtures import Service, service

import entice
from entice.service.domain import events as log
from entice.service.domain.errors import Corrupt
from entice.service.domain.events import GENESIS, chain_hash
from entice.service.operations.verify import LogReplay, verify

__all__ = ["service"]


def number_of(service: Service, campaign: str, kind: str, which: int = 0) -> int:
    return [seq for seq, of in log_of(service, campaign) if of == kind][which]


def body_of(connection: sqlite3.Connection, seq: int) -> bytes:
    return bytes(connection.execute("SELECT body FROM events WHERE seq = ?", (seq,)).fetchone()[0])


def rechain(connection: sqlite3.Connection) -> None:
    """Recompute all hashes, as a forger would."""
    head = GENESIS
    for seq, body in connection.execute("SELECT seq, body FROM events ORDER BY seq").fetchall():
        head = chain_hash(head, body)
        connection.execute("UPDATE events SET hash = ? WHERE seq = ?", (head, seq))
    forge_state(connection, lambda state: setattr(state, "head", head))


def test_an_unaltered_log_verifies(service: Service) -> None:
    for policy in (entice.UCB(), entice.DriftCorrectedThompson(), entice.ThompsonSampling()):
        campaign = campaign_with_all_events(service, policy)
        (result,) = verify(service.store, campaign)
        assert result == (campaign, service.queries.head(campaign), None)


def test_a_replay_reproduces_the_campaigns_row(service: Service) -> None:
    campaign = campaign_with_all_events(service, entice.DriftCorrectedThompson())
    with service.store.read() as session:
        replay = LogReplay(campaign, 1)
        assert replay.compare(session, replay.next_rows(session))
        assert replay.campaign is not None
        rows = session.rows("SELECT state FROM campaigns")
        assert rows == [(replay.campaign.encode(),)]


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_an_event_that_was_altered_is_named(service: Service, kind: str) -> None:
    campaign = campaign_with_all_events(service)
    seq = number_of(service, campaign, kind)
    with tampering(service) as connection:
        body = body_of(connection, seq)
        at = body.index(b'"at":') + 14  # a digit of the time
        altered = body[:at] + (b"1" if body[at : at + 1] != b"1" else b"2") + body[at + 1 :]
        connection.execute("UPDATE events SET body = ? WHERE seq = ?", (altered, seq))
    assert fault_of(service, campaign).startswith(f"Event {seq} was altered")
    with pytest.raises(Corrupt, match=f"Event {seq} "):
        service.queries.events(campaign, limit=1000)


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_an_event_whose_hash_was_altered_is_named(service: Service, kind: str) -> None:
    campaign = campaign_with_all_events(service)
    seq = number_of(service, campaign, kind)
    with tampering(service) as connection:
        connection.execute("UPDATE events SET hash = zeroblob(32) WHERE seq = ?", (seq,))
    assert fault_of(service, campaign).startswith(f"Event {seq} was altered")


FORGERIES: list[tuple[str, int, str, Any]] = [
    ("created", 0, "spec", {"name": "x"}),
    ("created", 0, "spec", None),
    ("changed", 0, "changes", {"budget": "lots"}),
    ("changed", 0, "changes", {"budget": None}),
    ("changed", 0, "changes", {"budget": 0}),
    ("changed", 0, "changes", {"colour": "red"}),
    ("changed", 0, "changes", {}),
    ("changed", 0, "changes", {"status": 7}),
    ("changed", 0, "by", 7),
    ("arms_added", 0, "arms", []),
    ("arms_added", 0, "arms", ["a"]),
    ("arms_added", 0, "arms", ["no id"]),
    ("arm_retired", 0, "arm", "z"),
    ("arm_retired", 0, "retired", False),
    ("offered", 0, "n", 2),
    ("offered", 1, "version", 9),
    ("offered", 0, "player", "zz"),
    ("offered", 0, "arm", "b"),
    ("offered", 0, "greedy_arm", "c"),
    ("offered", 0, "payment", 0.125),
    ("offered", 0, "amount", 1),
    ("offered", 0, "amount", 10**9),
    ("offered", 0, "reason", "because"),
    ("offered", 0, "propensity", 0.5),
    ("offered", 0, "shown", [1.0, 2.0, 3.0]),
    ("offered", 0, "expires", 1),
    ("offered", 0, "limit", 1),
    ("offered", 0, "eligible", ["z"]),
    ("offered", 0, "displayed", {"z": 1.0}),
    ("offered", 0, "shadow", True),
    ("accepted", 0, "n", 99),
    ("accepted", 0, "paid", 10**9),
    ("accepted", 0, "paid", -1),
    ("accepted", 0, "due", 5),
    ("declined", 0, "n", 1),
    ("declined", 0, "n", -5),
    ("expired", 0, "n", 1),
    ("voided", 0, "n", 1),
    ("rated", 0, "rating", 6),
    ("rated", 0, "arm", "b"),
    ("rated", 0, "n", 2),
    ("rated", 0, "payment", 0.125),
    ("rated", 0, "probe", "heads"),
    ("revised", 0, "before", 5),
    ("revised", 0, "rating", 99),
    ("revised", 0, "rating", 3),
    ("unrated", 0, "n", 99),
    ("reversed", 0, "paid", 12345),
    ("organic", 0, "arm", "z"),
    ("organic", 0, "rating", 0),
    ("organic", 1, "at", 5),
    ("organic", 1, "seq", 5),
    ("organic", 1, "campaign", "c_other"),
    ("organic", 1, "kind", "expired"),
    ("organic", 1, "kind", "unheard of"),
    ("organic", 1, "more", 1),
]


@pytest.mark.parametrize(
    ("kind", "which", "field", "value"), FORGERIES, ids=[f"{k}-{f}={v}" for k, _, f, v in FORGERIES]
)
def test_an_event_forged_with_matching_hashes_is_named(
    service: Service, kind: str, which: int, field: str, value: Any
) -> None:
    campaign = campaign_with_all_events(service)
    seq = number_of(service, campaign, kind, which)
    with tampering(service) as connection:
        body = {**json.loads(body_of(connection, seq)), field: value}
        forged = msgspec.json.encode(body)
        connection.execute("UPDATE events SET body = ? WHERE seq = ?", (forged, seq))
        rechain(connection)
    assert fault_of(service, campaign).startswith(f"Event {seq} ")


@pytest.mark.parametrize(
    ("kind", "field", "value"),
    [("rated", "rating", 1), ("accepted", "paid", 0), ("organic", "rating", 1)],
)
def test_a_plausible_forgery_contradicts_later_events_or_rows(
    service: Service, kind: str, field: str, value: Any
) -> None:
    campaign = campaign_with_all_events(service)
    seq = number_of(service, campaign, kind, 1)
    with tampering(service) as connection:
        body = {**json.loads(body_of(connection, seq)), field: value}
        assert json.loads(body_of(connection, seq))[field] != value
        forged = msgspec.json.encode(body)
        connection.execute("UPDATE events SET body = ? WHERE seq = ?", (forged, seq))
        rechain(connection)
    fault = fault_of(service, campaign)
    rows = ("The campaign's row", "The row of offer ")
    assert fault.startswith(rows) or int(fault.removeprefix("Event ").split()[0]) > seq


@pytest.mark.parametrize("written", [b"", b"{", b"null", b"\xff\xfe", b'{"kind":"rated"}'])
def test_an_undecodable_event_is_named(service: Service, written: bytes) -> None:
    campaign = campaign_with_all_events(service)
    with tampering(service) as connection:
        connection.execute("UPDATE events SET body = ? WHERE seq = 5", (written,))
        rechain(connection)
    assert fault_of(service, campaign).startswith("Event 5 can't be decoded")


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_an_event_that_was_deleted_is_named(service: Service, kind: str) -> None:
    campaign = campaign_with_all_events(service)
    seq = number_of(service, campaign, kind)
    with tampering(service) as connection:
        connection.execute("DELETE FROM events WHERE seq = ?", (seq,))
    fault = fault_of(service, campaign)
    assert fault == f"Event {seq} is missing: the log continues with event {seq + 1}."
    with pytest.raises(Corrupt):
        service.queries.events(campaign, limit=1000)
    with pytest.raises(Corrupt):
        service.queries.events(campaign, after=seq, limit=1000)


@pytest.mark.parametrize("removed", [1, 3])
def test_a_truncated_log_is_detected(service: Service, removed: int) -> None:
    campaign = campaign_with_all_events(service)
    last = service.queries.head(campaign)
    with tampering(service) as connection:
        connection.execute("DELETE FROM events WHERE seq > ?", (last - removed,))
    assert fault_of(service, campaign).startswith(f"Event {last - removed + 1} is missing")


def test_an_empty_log_is_detected(service: Service) -> None:
    campaign = campaign_with_all_events(service)
    with tampering(service) as connection:
        connection.execute("DELETE FROM events")
    assert "log is empty" in fault_of(service, campaign)


def test_the_first_of_two_swapped_events_is_named(service: Service) -> None:
    for seq in (2, 5, 8, 12):
        campaign = campaign_with_all_events(service)
        number = f"(SELECT number FROM campaigns WHERE id = '{campaign}')"
        with tampering(service) as connection:
            for old, new in ((seq, -1), (seq + 1, seq), (-1, seq + 1)):
                connection.execute(
                    f"UPDATE events SET seq = ? WHERE seq = ? AND campaign = {number}", (new, old)
                )
        assert fault_of(service, campaign).startswith(f"Event {seq} was altered")


def test_swapped_events_are_named_even_if_all_hashes_match(service: Service) -> None:
    campaign = campaign_with_all_events(service)
    with tampering(service) as connection:
        first, second = body_of(connection, 2), body_of(connection, 3)
        connection.execute("UPDATE events SET body = ? WHERE seq = 2", (second,))
        connection.execute("UPDATE events SET body = ? WHERE seq = 3", (first,))
        rechain(connection)
    assert fault_of(service, campaign).startswith("Event 2 claims to be event 3")


@pytest.mark.parametrize("forged", [False, True])
def test_an_inserted_event_is_named(service: Service, forged: bool) -> None:
    campaign = campaign_with_all_events(service)
    last = service.queries.head(campaign)
    with tampering(service) as connection:
        for seq in range(last, 5, -1):
            connection.execute("UPDATE events SET seq = ? WHERE seq = ?", (seq + 1, seq))
        body = {**json.loads(body_of(connection, 2)), "seq": 6}
        body["at"] = json.loads(body_of(connection, 5))["at"]
        connection.execute(
            "INSERT INTO events VALUES (1, 6, ?, zeroblob(32))", (msgspec.json.encode(body),)
        )
        if forged:  # a plausible rating, but the later events do not follow from it
            rechain(connection)
    expected = "Event 7 claims to be event 6" if forged else "Event 6 was altered"
    assert fault_of(service, campaign).startswith(expected)


def test_an_event_added_at_the_end_is_named(service: Service) -> None:
    campaign = campaign_with_all_events(service)
    last = service.queries.head(campaign)
    with tampering(service) as connection:
        (head,) = connection.execute("SELECT head FROM campaigns").fetchone()
        at = json.loads(body_of(connection, last))["at"]
        body = log.encode(log.OrganicRated(campaign, last + 1, at, "a", 5))
        connection.execute(
            "INSERT INTO events VALUES (1, ?, ?, ?)", (last + 1, body, chain_hash(head, body))
        )
    assert fault_of(service, campaign).startswith(f"Event {last + 1} ")


def test_an_event_of_another_campaign_is_named(service: Service) -> None:
    first, second = service.create(), service.create()
    for campaign in (first, second):
        service.rate_organic(campaign, a=[3, 4, 5])
    with tampering(service) as connection:
        connection.execute(
            "UPDATE events SET (body, hash) = "
            "(SELECT body, hash FROM events WHERE campaign = 1 AND seq = 3) "
            "WHERE campaign = 2 AND seq = 3"
        )
    results = {result.campaign: result.fault for result in verify(service.store)}
    assert results[first] is None
    assert (results[second] or "").startswith("Event 3 was altered")
