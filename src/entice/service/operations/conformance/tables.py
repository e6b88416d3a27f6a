"""Checks: constraints of the tables, and exact values."""

from __future__ import annotations

from functools import partial

from entice.service.operations.conformance.common import (
    Open,
    execute,
    must_fail,
    new_campaign,
    number_of,
    opened,
    require,
)
from entice.service.storage.store import ANSWERS, OFFERS, Columns

# Constraints


def an_overspent_budget_is_rejected(open_store: Open) -> None:
    """A CHECK of the table rejects any statement that would exceed the budget."""
    with opened(open_store) as (store, _):
        name = new_campaign(store, "budget")
        for change in (
            "reserved = budget + 1", "committed = budget + 1", "budget = -1", "reserved = -1",
            "committed = -1", "reserved = budget, committed = 1", "reserved = NULL",
        ):  # fmt: skip
            sql = f"UPDATE campaigns SET {change} WHERE id = ?"
            must_fail(
                partial(execute, store.write, sql, (name,)),
                f"a campaign accepted {change}: the CHECK that protects its budget is missing",
            )
        sql = "UPDATE campaigns SET {} WHERE id = ?"
        execute(store.write, sql.format("reserved = budget - 1, committed = 1"), (name,))
        must_fail(
            partial(execute, store.write, sql.format("budget = budget - 1"), (name,)),
            "a budget was lowered below the committed and reserved amounts",
        )


def a_player_has_one_live_offer(open_store: Open) -> None:
    """A player has at most one open offer, and any number of offers in other states."""
    with opened(open_store) as (store, _):
        number = number_of(store, new_campaign(store, "live offers"))

        def offer(n: int, state: int, player: bytes = b"p") -> None:
            with store.write() as session:
                row = (number, n, player, state, 1, 0, b"", b"")
                session.insert(OFFERS, [row])

        for n, state in enumerate((5, 5, 0, 1, 2)):
            offer(n, state)
        offer(9, 0, b"another")
        must_fail(partial(offer, 10, 0), "a player has two live offers")
        with store.write() as session:
            session.run("UPDATE offers SET state = 4 WHERE campaign = ? AND n = 2", (number,))
        offer(11, 0)
        sql = "UPDATE offers SET state = 0 WHERE campaign = ? AND n = 2"
        must_fail(partial(execute, store.write, sql, (number,)), "a player has two live offers")


def foreign_keys_are_enforced(open_store: Open) -> None:
    """Events belong to an existing campaign, and their numbers are unique in it."""
    with opened(open_store) as (store, _):
        number = number_of(store, new_campaign(store, "foreign keys"))
        event = "INSERT INTO events (campaign, seq, body, hash) VALUES (?, ?, ?, ?)"
        execute(store.write, event, (number, 1, b"", b""))
        for row in ((number, 1, b"", b""), (10**9, 1, b"", b""), (number, 2, None, b"")):
            must_fail(
                partial(execute, store.write, event, row),
                f"the log accepted an event (campaign, seq, body, hash) = {row!r}",
            )


# Values


def values_are_stored_exactly(open_store: Open) -> None:
    """Integers up to 2⁶³ − 1, bytes, text and NULL are returned as they were stored."""
    numbers = (0, 1, -1, 2**31, 2**53 + 1, 2**62, -(2**62), 2**63 - 1)
    blobs = (b"", b"\x00", bytes(range(256)), b"%s ? $1 \\x00", bytes(1_000_000))
    texts = ("", " ", "'; DROP TABLE events; --", "100 % ?", "Zoë 茶 🍵 \u202e\u0301", "x" * 10_000)
    with opened(open_store) as (store, other):
        number = number_of(store, new_campaign(store, "values"))
        with store.write() as session:
            session.insert(
                OFFERS,
                [(number, n, b"%d" % n, 5, value, 0, b"", b"") for n, value in enumerate(numbers)],
            )
            for n, blob in enumerate(blobs):
                sql = "INSERT INTO events (campaign, seq, body, hash) VALUES (?, ?, ?, ?)"
                session.run(sql, (number, n, blob, blob[:32]))
            session.insert(
                ANSWERS,
                [(f"{number}", text, b"", 200, b"", n, b"") for n, text in enumerate(texts)],
            )
        with other.read() as session:
            sql = "SELECT {} WHERE campaign = ? ORDER BY {}"
            got = session.rows(sql.format("due FROM offers", "n"), (number,))
            require(got == [(value,) for value in numbers], f"stored {numbers}, got {got}")
            got = session.rows(sql.format("body, hash FROM events", "seq"), (number,))
            require(
                got == [(blob, blob[:32]) for blob in blobs]
                and all(type(value) is bytes for row in got for value in row),
                "bytes were not returned as they were stored",
            )
            sql = "SELECT key FROM answers WHERE scope = ? ORDER BY at"
            got = session.rows(sql, (f"{number}",))
            require(got == [(text,) for text in texts], f"stored {texts!r:.200}, got {got!r:.200}")
            for text in texts:
                sql = "SELECT count(*) FROM answers WHERE scope = ? AND key = ?"
                got = session.rows(sql, (f"{number}", text))
                require(got == [(1,)], f"{text!r:.50} is stored, but not found")
            got = session.rows("SELECT min(n) FROM offers WHERE campaign = -1")
            require(got == [(None,)], "NULL must be returned as None")


def bulk_inserts_and_lookups_are_complete(open_store: Open) -> None:
    """`insert` and `rows_where_in` work with zero, few and thousands of rows."""
    some = Columns(OFFERS, ("n", "player", "cost"))
    with opened(open_store) as (store, _):
        number = number_of(store, new_campaign(store, "many rows"))
        rows = [(number, n, b"%d" % n, 5, 1, n, b"", b"") for n in range(3000)]
        update = "ON CONFLICT (campaign, n) DO UPDATE SET cost = excluded.cost"
        with store.write() as session:
            session.insert(OFFERS, [])
            session.insert(OFFERS, rows)
            session.insert(OFFERS, [(*row[:5], row[5] + 1, *row[6:]) for row in rows[:10]], update)
        everything = [(n, b"%d" % n, n + (n < 10)) for n in range(3000)]
        for wanted in (
            [],
            [7],
            [5, 5, 5],
            [0, 2999, 5000, -1],
            list(range(0, 3000, 3)),
            range(5000),
        ):
            with store.read() as session:
                where, params = "campaign = ? AND state = 5", (number,)
                found = session.rows_where_in(some, where, params, "n", list(wanted))
                require(
                    sorted(found) == [everything[n] for n in sorted(set(wanted)) if 0 <= n < 3000],
                    f"rows_where_in() of {len(wanted)} values found {len(found)} wrong rows",
                )
                players = [b"%d" % n for n in wanted]
                again = session.rows_where_in(some, where, params, "player", players)
                require(sorted(again) == sorted(found), "rows_where_in() finds others by bytes")
