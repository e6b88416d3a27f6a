"""What a store must promise, as checks that any store can be put through, also one of your own.

The service keeps money. It relies on its database for much that is easily lost in a new backend:
that a transaction is all or nothing, that two of them do not overlook each other, that numbers and
texts come back as they were. Each check says in its error what the service would have suffered.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from functools import partial
from typing import Any

from entice.errors import EnticeError
from entice.service.clock import Clock
from entice.service.commands import Accept, Command, CreateCampaign, Decline, MakeOffer, Rate
from entice.service.desk import Desk
from entice.service.errors import Refusal, Stale
from entice.service.reads import Reads
from entice.service.spec import CampaignSpec
from entice.service.store import ANSWERS, OFFERS, Columns, Session, Store
from entice.service.verify import verify

Open = Callable[[], Store]
"""Connects to one database: each call anew, as another process of the service would."""

PATIENCE = 20.0
"""Seconds after which something that should go on is taken to be stuck."""


class NotConforming(EnticeError, AssertionError):
    """A store does not keep a promise; the message says which, and why the service needs it."""


def check_store(open_store: Open) -> None:
    """Put a store through all checks, on a database that may hold campaigns already.

    Parameters
    ----------
    open_store
        Connects to the database; called several times, also while others are still connected.

    >>> import tempfile
    >>> from pathlib import Path
    >>> from entice.service.conformance import check_store
    >>> from entice.service.store import open_store
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     check_store(lambda: open_store(f"sqlite:///{folder}/entice.db"))
    """
    for check in CHECKS:
        check(open_store)


# What is written


def a_write_is_kept(open_store: Open) -> None:
    """What was written is there for everyone, and after everyone has left."""
    with closing(open_store()) as one, closing(open_store()) as other:
        name = _begin(one, "kept")
        with one.write() as session:
            changed = session.run("UPDATE campaigns SET reserved = 7 WHERE id = ?", (name,))
        _demand(changed == 1, f"run() changed one row, but returned {changed!r}")
        _demand(_reserved(other, name) == 7, "another connection does not see what was committed")
    with _opened(open_store) as (again, _):
        _demand(_reserved(again, name) == 7, "what was committed is gone after reopening")


def a_write_is_all_or_nothing(open_store: Open) -> None:
    """A write that fails halfway leaves no trace, whatever it fails of."""
    with _opened(open_store) as (store, other):
        name = _begin(store, "all or nothing")
        for failure in (ValueError("on purpose"), KeyboardInterrupt(), Refusal(409, "", "", "")):
            try:
                with store.write() as session:
                    session.run("UPDATE campaigns SET reserved = 9 WHERE id = ?", (name,))
                    _insert_campaign(session, f"{name}, too")
                    raise failure
            except BaseException as error:
                if error is not failure:
                    raise NotConforming(
                        f"write() must pass on what is raised inside it, {failure!r}; "
                        f"it raised {error!r}"
                    ) from error
            for reader in (store, other):
                _demand(
                    _reserved(reader, name) == 0 and not _exists(reader, f"{name}, too"),
                    f"a write that ended with {failure!r} was kept all the same, or in part",
                )


def a_failed_statement_is_not_passed_over(open_store: Open) -> None:
    """Where a statement fails and the caller goes on, the write is kept or refused, not lost."""
    with _opened(open_store) as (store, _):
        name = _begin(store, "failed statement")
        told = False
        try:
            with store.write() as session:
                session.run("UPDATE campaigns SET reserved = 3 WHERE id = ?", (name,))
                try:
                    session.run("UPDATE campaigns SET reserved = -1 WHERE id = ?", (name,))
                except Exception:
                    pass
                else:
                    raise NotConforming("a negative amount was taken: a CHECK is missing")
        except NotConforming:
            raise
        except Exception:
            told = True
        kept = _reserved(store, name)
        _demand(
            kept == (0 if told else 3),
            "a write in which one statement failed ended without an error, but was not kept: "
            "the caller takes it for committed",
        )


def a_store_goes_on_after_an_error(open_store: Open) -> None:
    """One bad statement, and the next transaction is as good as ever."""
    with _opened(open_store) as (store, _):
        name = _begin(store, "goes on")
        for way in (store.read, store.write):
            for _ in range(3):
                nonsense = partial(_run, way, "SELECT nothing FROM nowhere")
                _must_fail(nonsense, "a statement without meaning was carried out")
        with store.write() as session:
            session.run("UPDATE campaigns SET reserved = 1 WHERE id = ?", (name,))
        _demand(_reserved(store, name) == 1, "after an error nothing can be written any more")
        store.check()
        store.examine()


# What is read


def a_read_is_a_snapshot(open_store: Open) -> None:
    """A read sees one moment, however long it takes and whatever is written meanwhile."""
    with _opened(open_store) as (store, other):
        name = _begin(store, "snapshot")
        with store.read() as session:
            before = _reserved_in(session, name)
            for writer in (store, other):
                _in_thread(partial(_set_reserved, writer, name, 5))
                _demand(
                    _reserved_in(session, name) == before,
                    "a read sees what was written after it began: `verify` would find faults "
                    "where there are none",
                )
        _demand(_reserved(store, name) == 5, "a new read does not see what was written before it")


def a_read_changes_nothing(open_store: Open) -> None:
    """A read can't write."""
    with _opened(open_store) as (store, _):
        name = _begin(store, "read only")
        sql = "UPDATE campaigns SET reserved = 1 WHERE id = ?"
        _must_fail(partial(_run, store.read, sql, (name,)), "a read has changed a row")
        _demand(_reserved(store, name) == 0, "a read has changed a row")


def readers_and_writers_do_not_wait_for_each_other(open_store: Open) -> None:
    """Pages are served while offers are made, and a long export holds up nobody."""
    with _opened(open_store) as (store, other):
        name = _begin(store, "no waiting")
        with store.write() as session:
            session.run("UPDATE campaigns SET reserved = 4 WHERE id = ?", (name,))
            for reader in (store, other):
                seen = _in_thread(partial(_reserved, reader, name))
                _demand(seen == 0, "a read sees what is not committed yet")
        with store.read() as session:
            _reserved_in(session, name)
            _in_thread(partial(_set_reserved, other, name, 6))
        _demand(_reserved(store, name) == 6, "a write beside a read was lost")


def many_threads_read_at_once(open_store: Open) -> None:
    """Each thread has a read of its own."""
    with _opened(open_store) as (store, _):
        name = _begin(store, "many readers")
        together = threading.Barrier(8)

        def look() -> int:
            with store.read() as session:
                together.wait(PATIENCE)  # all are inside a read
                return _reserved_in(session, name)

        _demand(
            _in_threads([look] * 8) == [0] * 8, "reads of several threads get in each other's way"
        )


# Writers among themselves


def writers_do_not_overlook_each_other(open_store: Open) -> None:
    """Two that add to one number at once both count, from threads and from processes."""
    times = 25
    with _opened(open_store) as (store, other):
        name = _begin(store, "writers")

        def add(writer: Store) -> None:
            for _ in range(times):
                _again_if_stale(partial(_add_one, writer, name))

        writers = [store, other, store, other]
        _in_threads([partial(add, writer) for writer in writers])
        found, expected = _reserved(store, name), times * len(writers)
        _demand(
            found == expected,
            f"{expected} writers added 1 each, and {found} was the sum: "
            "a budget would be spent twice",
        )


def a_change_can_depend_on_what_was_there(open_store: Open) -> None:
    """An UPDATE with a condition says whether it was met: the last line of the budget's defence."""
    with _opened(open_store) as (store, _):
        name = _begin(store, "condition")
        for seq, changed in ((0, 1), (0, 0), (1, 1), (7, 0)):
            with store.write() as session:
                found = session.run(
                    "UPDATE campaigns SET seq = seq + 1 WHERE id = ? AND seq = ?", (name, seq)
                )
            _demand(found == changed, f"run() must return {changed} rows changed, not {found!r}")


def writers_who_lock_in_different_order_get_on(open_store: Open) -> None:
    """Nobody waits for ever: one of two that block each other is told to begin again."""
    with _opened(open_store) as (store, other):
        names = [_begin(store, "first"), _begin(store, "second")]
        ready = threading.Barrier(2)

        def add_to(writer: Store, order: Sequence[str]) -> None:
            def both() -> None:
                with writer.write() as session:
                    for name in order:
                        _lock(writer, session, name)
                        session.run(
                            "UPDATE campaigns SET reserved = reserved + 1 WHERE id = ?", (name,)
                        )

            ready.wait(PATIENCE)
            for _ in range(2):
                _again_if_stale(both)

        _in_threads([partial(add_to, store, names), partial(add_to, other, names[::-1])])
        found = [_reserved(store, name) for name in names]
        _demand(found == [4, 4], f"each of two numbers was raised 4 times, and they are {found}")


def a_row_is_there_once(open_store: Open) -> None:
    """Of two who bring the same key at the same time one is told, and leaves no trace."""
    with _opened(open_store) as (store, other):
        name = _begin(store, "once")
        answer = ("scope", name, b"1", 201, b"first", 0, b"")
        begun, outcome = threading.Event(), list[Exception]()
        refusals: tuple[type[Exception], ...] = (Stale, *other.faults)

        def bring_again() -> None:
            begun.wait(PATIENCE)
            try:
                with other.write() as session:
                    session.run("UPDATE campaigns SET reserved = 8 WHERE id = ?", (name,))
                    session.insert(ANSWERS, [("scope", name, b"2", 201, b"second", 0, b"")])
            except refusals as error:
                outcome.append(error)

        thread = threading.Thread(target=bring_again, daemon=True)
        thread.start()
        with store.write() as session:
            session.insert(ANSWERS, [answer])
            begun.set()
        thread.join(PATIENCE)
        _demand(not thread.is_alive(), "a second writer of the same key waits for ever")
        _demand(
            len(outcome) == 1,
            "the same key was written twice, or refused by an error that is neither Stale nor one "
            "of the store's `faults`",
        )
        with store.read() as session:
            rows = session.rows("SELECT body FROM answers WHERE key = ?", (name,))
        _demand(rows == [(b"first",)], f"under a key that came twice is kept {rows!r}")
        _demand(_reserved(store, name) == 0, "a writer that was refused has left something behind")


# What the tables refuse


def more_than_the_budget_is_refused(open_store: Open) -> None:
    """Whatever SQL tries it."""
    with _opened(open_store) as (store, _):
        name = _begin(store, "budget")
        for change in (
            "reserved = budget + 1", "committed = budget + 1", "budget = -1", "reserved = -1",
            "committed = -1", "reserved = budget, committed = 1", "reserved = NULL",
        ):  # fmt: skip
            sql = f"UPDATE campaigns SET {change} WHERE id = ?"
            _must_fail(
                partial(_run, store.write, sql, (name,)),
                f"a campaign took {change}: the last defence of its budget is missing",
            )
        sql = "UPDATE campaigns SET {} WHERE id = ?"
        _run(store.write, sql.format("reserved = budget - 1, committed = 1"), (name,))
        _must_fail(
            partial(_run, store.write, sql.format("budget = budget - 1"), (name,)),
            "a budget fell below what is spent and reserved",
        )


def a_player_has_one_live_offer(open_store: Open) -> None:
    """Of those that are open; any number of others."""
    with _opened(open_store) as (store, _):
        number = _number(store, _begin(store, "live offers"))

        def offer(n: int, state: int, player: bytes = b"p") -> None:
            with store.write() as session:
                row = (number, n, player, state, 1, 0, b"", b"")
                session.insert(OFFERS, [row])

        for n, state in enumerate((5, 5, 0, 1, 2)):
            offer(n, state)
        offer(9, 0, b"another")
        _must_fail(partial(offer, 10, 0), "a player has two live offers")
        with store.write() as session:
            session.run("UPDATE offers SET state = 4 WHERE campaign = ? AND n = 2", (number,))
        offer(11, 0)
        sql = "UPDATE offers SET state = 0 WHERE campaign = ? AND n = 2"
        _must_fail(partial(_run, store.write, sql, (number,)), "a player has two live offers")


def nothing_belongs_to_a_campaign_that_is_not_there(open_store: Open) -> None:
    """Events and offers have a campaign, and an event has its number alone."""
    with _opened(open_store) as (store, _):
        number = _number(store, _begin(store, "belonging"))
        event = "INSERT INTO events (campaign, seq, body, hash) VALUES (?, ?, ?, ?)"
        _run(store.write, event, (number, 1, b"", b""))
        for row in ((number, 1, b"", b""), (10**9, 1, b"", b""), (number, 2, None, b"")):
            _must_fail(
                partial(_run, store.write, event, row),
                f"the log took an event (campaign, seq, body, hash) = {row!r}",
            )


# Values


def values_come_back_as_they_were(open_store: Open) -> None:
    """Numbers up to 2⁶³ − 1, any bytes, any text, and nothing."""
    numbers = (0, 1, -1, 2**31, 2**53 + 1, 2**62, -(2**62), 2**63 - 1)
    blobs = (b"", b"\x00", bytes(range(256)), b"%s ? $1 \\x00", bytes(1_000_000))
    texts = ("", " ", "'; DROP TABLE events; --", "100 % ?", "Zoë 茶 🍵 \u202e\u0301", "x" * 10_000)
    with _opened(open_store) as (store, other):
        number = _number(store, _begin(store, "values"))
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
            _demand(got == [(value,) for value in numbers], f"of {numbers} came back {got}")
            got = session.rows(sql.format("body, hash FROM events", "seq"), (number,))
            _demand(
                got == [(blob, blob[:32]) for blob in blobs]
                and all(type(value) is bytes for row in got for value in row),
                "bytes came back as something else",
            )
            sql = "SELECT key FROM answers WHERE scope = ? ORDER BY at"
            got = session.rows(sql, (f"{number}",))
            _demand(got == [(text,) for text in texts], f"of {texts!r:.200} came back {got!r:.200}")
            for text in texts:
                sql = "SELECT count(*) FROM answers WHERE scope = ? AND key = ?"
                got = session.rows(sql, (f"{number}", text))
                _demand(got == [(1,)], f"{text!r:.50} is there, but not found")
            got = session.rows("SELECT min(n) FROM offers WHERE campaign = -1")
            _demand(got == [(None,)], "nothing must be None")


def many_rows_are_written_and_found_at_once(open_store: Open) -> None:
    """`insert` and `rows_among`, with none, with some and with thousands."""
    some = Columns(OFFERS, ("n", "player", "cost"))
    with _opened(open_store) as (store, _):
        number = _number(store, _begin(store, "many rows"))
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
                found = session.rows_among(some, where, params, "n", list(wanted))
                _demand(
                    sorted(found) == [everything[n] for n in sorted(set(wanted)) if 0 <= n < 3000],
                    f"rows_among() of {len(wanted)} values found {len(found)} rows, and not those",
                )
                players = [b"%d" % n for n in wanted]
                again = session.rows_among(some, where, params, "player", players)
                _demand(sorted(again) == sorted(found), "rows_among() finds others by bytes")


# The service itself


def several_desks_share_a_campaign(open_store: Open) -> None:
    """Two desks, as of two processes, spend one budget and not a cent more."""
    with _opened(open_store) as (store, other):
        desks = [Desk(of, Clock(), tick=3600.0) for of in (store, other)]
        for desk in desks:
            desk.start()
        try:
            campaign = _shop(desks)
        finally:
            for desk in desks:
                desk.stop()
        verdict = next(iter(verify(other, campaign)))
        _demand(verdict.fault is None, f"`verify` finds: {verdict.fault}")


def _shop(desks: Sequence[Desk]) -> str:
    """Make 80 offers, accept and decline each, rate each twice, always from both desks at once."""
    spec = CampaignSpec(
        name="Tea", arms=["a", "b", "c"], budget=3000, price_of_a_star=200, unrated_shows=1, seed=1
    )
    made = desks[0].submit(CreateCampaign(spec)).result(PATIENCE)
    campaign = str(json.loads(made.body)["id"])
    offers = [f"{campaign}.{n}" for n in range(1, 81)]
    asked = [MakeOffer(campaign, player.to_bytes(16, "big")) for player in range(80)]
    at_once: list[tuple[Sequence[Command], Sequence[Command]]] = [
        (asked[::2], asked[1::2]),
        ([Accept(offer) for offer in offers], [Decline(offer) for offer in offers[::-1]]),
        ([Rate(offer, 2) for offer in offers], [Rate(offer, 2) for offer in offers[::-1]]),
    ]
    for commands in at_once:
        _in_threads([partial(_carry_out, *pair) for pair in zip(desks, commands, strict=True)])
    view = Reads(desks[1].store).campaign(campaign)
    _demand(view.decisions == 80, f"80 offers were acknowledged, and {view.decisions} are there")
    _demand(view.reserved == 0, "every offer was answered, and some money is still reserved")
    _demand(view.committed <= 3000, "more was spent than the budget")
    return campaign


def _carry_out(desk: Desk, commands: Sequence[Command]) -> None:
    for command in commands:
        try:
            desk.submit(command).result(PATIENCE)
        except Refusal as refusal:
            if refusal.status != 409:  # the other was faster
                raise


CHECKS: tuple[Callable[[Open], None], ...] = (
    a_write_is_kept,
    a_write_is_all_or_nothing,
    a_failed_statement_is_not_passed_over,
    a_store_goes_on_after_an_error,
    a_read_is_a_snapshot,
    a_read_changes_nothing,
    readers_and_writers_do_not_wait_for_each_other,
    many_threads_read_at_once,
    writers_do_not_overlook_each_other,
    a_change_can_depend_on_what_was_there,
    writers_who_lock_in_different_order_get_on,
    a_row_is_there_once,
    more_than_the_budget_is_refused,
    a_player_has_one_live_offer,
    nothing_belongs_to_a_campaign_that_is_not_there,
    values_come_back_as_they_were,
    many_rows_are_written_and_found_at_once,
    several_desks_share_a_campaign,
)
"""Each of them takes what opens the store, and raises `NotConforming`."""


# What the checks have in common


def _demand(kept: bool, otherwise: str) -> None:
    if not kept:
        raise NotConforming(otherwise)


def _must_fail(act: Callable[[], Any], otherwise: str) -> None:
    try:
        act()
    except Exception:
        return
    raise NotConforming(otherwise)


@contextmanager
def _opened(open_store: Open) -> Iterator[tuple[Store, Store]]:
    """Connect twice, as two processes would, and leave the database as it was."""
    with closing(open_store()) as one, closing(open_store()) as other:
        yield one, other
        with one.write() as session:
            # No service writes rows without a checksum: these are ours.
            ours = "(SELECT number FROM campaigns WHERE digest = ?)"
            session.run(f"DELETE FROM events WHERE campaign IN {ours}", (b"",))
            session.run(f"DELETE FROM offers WHERE campaign IN {ours}", (b"",))
            session.run("DELETE FROM campaigns WHERE digest = ?", (b"",))
            session.run("DELETE FROM answers WHERE digest = ?", (b"",))


def _run(way: Callable[[], Any], sql: str, params: Sequence[Any] = ()) -> None:
    with way() as session:
        session.run(sql, params)


def _in_thread(act: Callable[[], Any]) -> Any:
    return _in_threads([act])[0]


def _in_threads(acts: Sequence[Callable[[], Any]]) -> list[Any]:
    """Do several things at once; what one of them raises is raised here."""
    results: list[Any] = [None] * len(acts)
    errors: list[BaseException] = []

    def run(i: int) -> None:
        try:
            results[i] = acts[i]()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(i,), daemon=True) for i in range(len(acts))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    if errors:
        raise errors[0]
    _demand(
        not any(thread.is_alive() for thread in threads),
        f"somebody still waits after {PATIENCE:g} seconds: readers and writers block each other",
    )
    return results


def _again_if_stale(act: Callable[[], Any]) -> Any:
    """Do what the desk does when another was faster."""
    for _ in range(200):
        try:
            return act()
        except Stale:
            continue
    raise NotConforming("a writer was told 200 times that another was faster")


def _insert_campaign(session: Session, name: str) -> None:
    session.rows(
        "INSERT INTO campaigns (id, seq, head, budget, reserved, committed, state, digest) "
        "VALUES (?, 0, ?, 1000000, 0, 0, ?, ?) RETURNING number",
        (name, b"", b"", b""),
    )


def _begin(store: Store, purpose: str) -> str:
    """Make a row to play with, of a name that nobody has used before."""
    with store.write() as session:
        (count,) = session.rows("SELECT count(*) FROM campaigns")[0]
        name = f"{purpose} {count}"
        _insert_campaign(session, name)
    return name


def _number(store: Store, name: str) -> int:
    with store.read() as session:
        return int(session.rows("SELECT number FROM campaigns WHERE id = ?", (name,))[0][0])


def _exists(store: Store, name: str) -> bool:
    with store.read() as session:
        return bool(session.rows("SELECT 1 FROM campaigns WHERE id = ?", (name,)))


def _reserved_in(session: Session, name: str) -> int:
    return int(session.rows("SELECT reserved FROM campaigns WHERE id = ?", (name,))[0][0])


def _reserved(store: Store, name: str) -> int:
    with store.read() as session:
        return _reserved_in(session, name)


def _set_reserved(store: Store, name: str, value: int) -> None:
    with store.write() as session:
        session.run("UPDATE campaigns SET reserved = ? WHERE id = ?", (value, name))


def _lock(store: Store, session: Session, name: str) -> int:
    """Read a row that nobody else may change before we do."""
    sql = f"SELECT reserved FROM campaigns WHERE id = ?{store.for_update}"
    return int(session.rows(sql, (name,))[0][0])


def _add_one(store: Store, name: str) -> None:
    with store.write() as session:
        value = _lock(store, session, name)
        session.run("UPDATE campaigns SET reserved = ? WHERE id = ?", (value + 1, name))
