"""Heads and keyed checksums: cut logs, promoted keys and edited responses are found."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import msgspec
import pytest
from command_line import RunEntice, assert_error
from log_forging import campaign_with_all_events, tampering
from writer_fixtures import Service, hashed, service

from entice.service.domain.campaign_state import CampaignState
from entice.service.domain.commands import MakeOffer, Rate
from entice.service.domain.offer import digest
from entice.service.operations.heads import Heads, check_heads, encode_heads, load_heads, read_heads
from entice.service.operations.verify import LogReplay, rows_without_events, verify
from entice.service.storage.api_keys import Keys, KeyView
from entice.service.storage.event_log import iterate_events
from entice.service.storage.maintenance import RESPONSE_LIFETIME
from entice.service.storage.player_hasher import PlayerHasher, player_hasher_for
from entice.service.storage.row_checksums import KEY, RESPONSE
from entice.service.storage.store import open_store
from entice.service.storage.unit_of_work import offer_to_row

__all__ = ["service"]

ASSETS = Path(__file__).parents[2] / "support" / "assets"


class Kept:
    """A campaign, a key and a stored response, and their heads."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self.campaign = campaign_with_all_events(service)
        self.other = service.create()
        service.answer(MakeOffer(self.other, hashed(1)), key="k", request=b"1")
        self.keys = Keys(service.store)
        self.view, self.secret = self.keys.create("read", None, "ann")
        self.players = player_hasher_for(service.store)
        service.later(120)
        self.heads = self.read()

    def read(self) -> Heads:
        return read_heads(self.service.store, self.service.clock.at)

    def faults(self, heads: Heads | None = None) -> list[str]:
        """Return what the heads reveal."""
        return list(check_heads(self.service.store, heads or self.heads, now=self.service.clock.at))

    def altered(self) -> list[str]:
        """Return what checksums reveal."""
        return list(rows_without_events(self.service.store, self.players))

    def verified(self) -> bool:
        """Return whether the logs and tables fit each other."""
        return all(result.fault is None for result in verify(self.service.store))


@pytest.fixture
def kept(service: Service) -> Kept:
    return Kept(service)


def test_a_later_database_continues_from_its_heads(kept: Kept) -> None:
    assert kept.faults() == []
    kept.service.offer(kept.other, 2)
    kept.service.answer(MakeOffer(kept.other, hashed(3)), key="later", request=b"1")
    kept.keys.create("admin", None, "bob")
    kept.keys.revoke(kept.view.id)
    assert kept.faults() == []
    assert kept.faults(kept.read()) == []
    kept.service.later((RESPONSE_LIFETIME + 1) // 1_000_000)
    with kept.service.store.write() as session:
        session.run("DELETE FROM answers")  # as maintenance does after a week
    assert kept.faults() == []
    assert kept.altered() == []


def cut(kept: Kept, events: int) -> None:
    """Cut a log, and rebuild the tables from the rest as the service itself would."""
    with tampering(kept.service) as connection:
        connection.execute("DELETE FROM events WHERE campaign = 1 AND seq > ?", (events,))
        with kept.service.store.read() as session:
            replay = LogReplay(kept.campaign, 1)
            replay._offers.session = session
            replay.events_of(list(iterate_events(session, 1)))
        assert replay.campaign is not None
        state: CampaignState = replay.campaign.state
        state.head = replay._head
        encoded = replay.campaign.encode()
        connection.execute("DELETE FROM offers WHERE campaign = 1")
        for n in sorted(replay._offers._rows):
            offer = replay._offers.get(n)
            assert offer is not None
            marks = ", ".join("?" * 8)
            connection.execute(f"INSERT INTO offers VALUES ({marks})", offer_to_row(1, offer))
        connection.execute(
            "UPDATE campaigns SET seq = ?, head = ?, budget = ?, reserved = ?, committed = ?, "
            "state = ?, digest = ? WHERE number = 1",
            (
                state.seq, state.head, state.budget, state.reserved, state.committed, encoded,
                digest(encoded),
            ),
        )  # fmt: skip


def test_a_service_whose_clock_is_behind_raises_no_alarm(kept: Kept) -> None:
    """A suspended machine: by the wall clock, new responses are older than the heads."""
    an_hour = 3_600_000_000
    heads = read_heads(kept.service.store, kept.service.clock.at + an_hour)
    assert sum(hour.count for hour in heads.responses.values()) > 0
    kept.service.answer(MakeOffer(kept.other, hashed(3)), key="later", request=b"1")
    assert kept.faults(heads) == []


def test_a_cut_log_is_found_only_with_its_head(kept: Kept) -> None:
    events = kept.service.queries.head(kept.campaign)
    cut(kept, 8)
    assert kept.verified()  # the control: nothing else can find it
    [fault] = kept.faults()
    assert fault == (
        f"The log of campaign {kept.campaign} was cut: it ends with event 8, and had {events} "
        "events."
    )
    for n in range(events):  # nor does a longer log hide it
        kept.service.rate_organic(kept.campaign, a=[1 + n % 5])
    assert kept.verified()
    assert "was rewritten" in kept.faults()[0]


def test_a_removed_campaign_is_found_with_its_head(kept: Kept) -> None:
    with tampering(kept.service) as connection:
        for table, column in (
            ("offers", "campaign"),
            ("events", "campaign"),
            ("campaigns", "number"),
        ):
            connection.execute(f"DELETE FROM {table} WHERE {column} = 2")
    assert kept.verified()
    assert kept.faults() == [f"Campaign {kept.other} is missing."]


def test_a_promoted_key_is_found_and_not_accepted(kept: Kept) -> None:
    """With a plain checksum, as in schema 1, the forger recalculates it."""
    promoted = msgspec.structs.replace(kept.view, role="admin")

    def forge(checksum: bytes) -> KeyView | None:
        with tampering(kept.service) as connection:
            connection.execute("UPDATE keys SET role = 'admin', digest = ?", (checksum,))
        kept.keys.reload()
        return kept.keys.check(kept.secret)

    with kept.service.store.read() as session:
        (hash_,) = session.rows("SELECT hash FROM keys")[0]
    row = (*msgspec.structs.astuple(promoted), hash_)
    assert forge(digest(msgspec.json.encode(promoted), hash_)) is None
    assert forge(PlayerHasher(bytes(32)).rows.of_key(row)) is None  # another secret
    assert kept.altered() == [f"The row of key {kept.view.id} was altered."]
    assert forge(kept.players.rows.of_key(row)) == promoted  # only the secret's owner can,
    assert kept.altered() == []
    [fault] = kept.faults()  # and the kept head shows even that
    assert fault.startswith(f"Key {kept.view.id} was altered")


def test_keys_that_were_removed_or_reinstated_are_found(kept: Kept) -> None:
    kept.keys.revoke(kept.view.id)
    heads = kept.read()
    with tampering(kept.service) as connection:
        connection.execute("UPDATE keys SET revoked = NULL")
        assert kept.faults(heads) == [
            f"Key {kept.view.id} was revoked, and its row no longer says so."
        ]
        connection.execute("DELETE FROM keys")
        assert kept.faults(heads) == [f"Key {kept.view.id} is missing."]


def test_edited_added_and_removed_responses_are_found(kept: Kept) -> None:
    with tampering(kept.service) as connection:
        *row, _ = connection.execute(f"SELECT {RESPONSE}, digest FROM answers").fetchone()
        row[4] = row[4].replace(b'"amount":0', b'"amount":9')
        plain = digest(f"{row[0]}\0{row[1]}\0{row[3]}\0{row[5]}\0".encode(), row[2], row[4])
        connection.execute("UPDATE answers SET body = ?, digest = ?", (row[4], plain))
        assert kept.altered() == ["The response stored under idempotency key 'k' was altered."]
        refusal = kept.service.refusal(MakeOffer(kept.other, hashed(1)), key="k", request=b"1")
        assert refusal.status == 503
        keyed = kept.players.rows.of_response(tuple(row))
        connection.execute("UPDATE answers SET digest = ?", (keyed,))
        assert kept.altered() == []
        assert "1 before, 1 now, with other contents" in kept.faults()[0]
        connection.execute("UPDATE answers SET key = 'other'")
        assert "with other contents" in kept.faults()[0]
        connection.execute("DELETE FROM answers")
        assert "1 before, 0 now" in kept.faults()[0]


def test_heads_on_the_command_line(service: Service, run_entice: RunEntice, tmp_path: Path) -> None:
    campaign = campaign_with_all_events(service)
    assert run_entice("head").out.startswith("{")
    assert "Heads of 1 campaign" in run_entice("head", "--out", "head.json").out
    heads = load_heads(tmp_path / "head.json")
    assert encode_heads(heads) == (tmp_path / "head.json").read_bytes()
    assert heads.campaigns[campaign].seq == service.queries.head(campaign)
    ran = run_entice("verify", "--head", "head.json")
    assert (ran.code, "continues from the heads" in ran.out) == (0, True)
    with tampering(service) as connection:
        [[body]] = connection.execute("SELECT body FROM events WHERE seq = 2").fetchall()
        connection.execute("UPDATE events SET body = x'00' WHERE seq = 2")
    ran = run_entice("verify", "--head", "head.json")
    assert (ran.code, "continues from the heads" in ran.out) == (1, False)
    with tampering(service) as connection:
        connection.execute("UPDATE events SET body = ? WHERE seq = 2", (body,))
        events = connection.execute("SELECT * FROM events ORDER BY seq DESC LIMIT 2").fetchall()
        connection.execute("DELETE FROM events WHERE seq > ?", (heads.campaigns[campaign].seq - 2,))
    cut = f"ends with event {heads.campaigns[campaign].seq - 2}, and had"
    assert cut in run_entice("verify", "--head", "head.json", campaign).out
    with tampering(service) as connection:
        values = ", ".join("?" * len(events[0]))
        connection.executemany(f"INSERT INTO events VALUES ({values})", events)
        connection.execute(
            "UPDATE events SET hash = zeroblob(32) WHERE seq = (SELECT max(seq) FROM events)"
        )
    ran = run_entice("verify", "--head", "head.json", campaign)
    assert (ran.code, "was rewritten" in ran.out) == (1, True)
    (tmp_path / "head.json").write_text("{}")
    assert_error(run_entice("verify", "--head", "head.json"), "must be one that `entice head`")
    assert_error(run_entice("verify", "--head", "none.json"), "the file of heads cannot be read")


def test_rows_of_schema_1_get_keyed_checksums_once(tmp_path: Path) -> None:
    """Rows that were damaged before stay damaged, and later plain checksums do not pass."""
    path = tmp_path / "old.db"
    shutil.copyfile(ASSETS / "service_v1.db", path)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        before = connection.execute(f"SELECT {RESPONSE}, digest FROM answers").fetchall()
        key = connection.execute(f"SELECT {KEY} FROM keys").fetchone()
        connection.execute("UPDATE answers SET body = x'00' WHERE key = 'create 0'")
    damaged = "The response stored under idempotency key 'create 0' was altered."
    with closing(open_store(f"sqlite:///{path}")) as store:
        assert list(rows_without_events(store, None)) == [damaged]  # not sealed yet
        players = player_hasher_for(store)
        assert list(rows_without_events(store, players)) == [damaged]
        with store.read() as session:
            after = dict(session.rows("SELECT key, digest FROM answers"))
            [(sealed,)] = session.rows("SELECT digest FROM keys")
        assert sealed == players.rows.of_key(key)
        assert all(
            after[row[1]] == players.rows.of_response(row) != checksum
            for *values, checksum in before
            if (row := tuple(values))[1] != "create 0"
        )
        with store.write() as session:
            session.run(
                "UPDATE answers SET digest = ? WHERE key = ?", (before[1][-1], before[1][1])
            )
        player_hasher_for(store)  # a later start
        assert len(list(rows_without_events(store, players))) == 2


def test_a_response_is_replayed_after_the_migration(tmp_path: Path) -> None:
    shutil.copyfile(ASSETS / "service_v1.db", tmp_path / "entice.db")
    with closing(Service(tmp_path / "entice.db")) as service:
        campaign = service.queries.campaigns()[0].id
        command = MakeOffer(campaign, (1).to_bytes(16, "big"))
        answer = service.answer(command, scope="asset", key="0 1", request=b"asset")
        assert answer.replayed
        with pytest.raises(Exception, match="no offer"):
            service.answer(Rate(f"{campaign}.999", 3), key="new")
