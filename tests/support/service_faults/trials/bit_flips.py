"""Flipped bits in the database file: rejected or found by verification, never served."""

from __future__ import annotations

import random
import sqlite3
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal, NamedTuple
from unittest import mock

import msgspec
from sizes import sized

from entice.service.domain.commands import CommandResult
from entice.service.domain.errors import Refusal
from entice.service.operations.verify import rows_without_events
from entice.service.storage import api_keys as keys
from entice.service.storage.api_keys import Keys
from entice.service.storage.queries import Queries
from entice.service.storage.row_checksums import seal_rows
from entice.service.storage.store import Store
from entice.service.storage.writer import Writer
from service_faults.outcome import Outcome
from service_faults.recording import replace_files
from service_faults.scenario import (
    PLAYERS,
    Request,
    TestClock,
    all_queries,
    faults_in,
    idle_writer,
    open_as_service,
    run_scenario,
    submit,
)

FILE = "entice.db"


class Original(NamedTuple):
    """An intact database, and all responses from it."""

    content: bytes
    requests: list[Request]
    """Requests with an idempotency key: repeated, they get the same responses."""
    secrets: list[str]
    """API keys; the last one is revoked."""
    decisions: dict[str, int]
    """The number of decisions of each campaign."""
    served: dict[str, bytes | Exception]
    unchecked_rows: list[Any]
    """The rows that a reader without checks sees."""


def make_original(length: int, seed: int) -> Original:
    """Run a scenario, and record all responses."""
    requests: list[Request] = []

    def response(request: Request, answer: CommandResult) -> None:
        if request.key is not None:
            requests.append(request)

    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / FILE
        with open_as_service(path) as store:
            seal_rows(store, PLAYERS.rows)
            run_scenario(store, length, seed, response)
            secrets = issue_keys(store, seed)
            decisions = {view.id: view.decisions for view in Queries(store).campaigns()}
        sound = Original(
            path.read_bytes(), requests, secrets, decisions, {}, rows_without_checks(path)
        )
        with open_as_service(path) as store:
            return sound._replace(served=serve(store, sound))


def issue_keys(store: Store, seed: int) -> list[str]:
    """Create API keys deterministically."""
    rng = random.Random(seed)
    fake = SimpleNamespace(
        token_hex=lambda size: rng.randbytes(size).hex(),
        token_urlsafe=lambda size: rng.randbytes(size).hex(),
    )
    steady = SimpleNamespace(time_ns=lambda: 10**18, monotonic=time.monotonic)
    with mock.patch.object(keys, "secrets", fake), mock.patch.object(keys, "time", steady):
        made = [
            Keys(store, PLAYERS).create(role, None, f"for {role}") for role in ("admin", "read")
        ]
        Keys(store, PLAYERS).revoke(made[-1][0].id)
    return [secret for _, secret in made]


def serve(store: Store, original: Original) -> dict[str, bytes | Exception]:
    """Start a service, and return all its responses: queries, stored responses, keys.

    Each request is independent of the others. "Not found" is a response, and a wrong one.
    """
    keys, writer = Keys(store, PLAYERS), idle_writer(store, TestClock())
    wanted = all_queries(store, original.decisions)
    wanted["keys"] = keys.list
    for secret in original.secrets:
        wanted[f"key {secret}"] = partial(keys.check, secret)
    for request in original.requests:
        wanted[f"answer to {request.key}"] = partial(repeat_request, writer, request)
    writer.start()
    try:
        return {name: response_to(ask) for name, ask in wanted.items()}
    finally:
        writer.stop()


def repeat_request(writer: Writer, request: Request) -> CommandResult:
    """Repeat a request with its idempotency key."""
    return submit(writer, request, lambda *_: None)[1].result(timeout=30)


def response_to(ask: Callable[[], Any]) -> bytes | Exception:
    """Return an encoded response, or the error that reports the damage."""
    try:
        return msgspec.json.encode(ask())
    except Refusal as refusal:
        return refusal if refusal.status >= 500 else str(refusal).encode()
    except Exception as error:
        return error


def rows_without_checks(path: Path) -> list[Any]:
    """Return rows as plain SQL reads them, without checks: the control."""
    with closing(sqlite3.connect(path)) as db:
        return [
            db.execute("SELECT id, seq, budget, reserved, committed FROM campaigns").fetchall(),
            db.execute("SELECT n, state, cost FROM offers ORDER BY campaign, n").fetchall(),
            db.execute("SELECT seq, body FROM events ORDER BY campaign, seq").fetchall(),
            db.execute("SELECT key, body FROM answers ORDER BY key").fetchall(),
        ]


class FlipResult(NamedTuple):
    """The result of one flipped bit."""

    outcome: Literal["rejected", "detected", "harmless", "undetected"]
    detail: str
    wrong: Sequence[str] = ()
    """Wrong responses; if the flip was detected, of a service that was not verified."""


def flip(original: Original, bit: int, folder: Path) -> FlipResult:
    """Flip one bit, start the service, verify it, and compare all responses."""
    write_damaged(original, bit, folder)
    try:
        with open_as_service(folder / FILE) as store:
            mismatches = response_to(
                lambda: [*faults_in(store), *rows_without_events(store, PLAYERS)]
            )
            served = serve(store, original)
    except Exception as error:
        return FlipResult("rejected", repr(error))
    errors = [
        f"{name}: {response!r}"
        for name, response in served.items()
        if isinstance(response, Exception)
    ]
    wrong = [
        name
        for name, response in served.items()
        if not isinstance(response, Exception) and response != original.served[name]
    ]
    if mismatches != b"[]":
        return FlipResult("detected", str(mismatches), wrong)
    if wrong:
        return FlipResult("undetected", ", ".join(wrong), wrong)
    return FlipResult("rejected" if errors else "harmless", ", ".join(errors))


def write_damaged(original: Original, bit: int, folder: Path) -> None:
    """Write the database with one bit flipped."""
    content = bytearray(original.content)
    content[bit // 8] ^= 1 << bit % 8
    replace_files({FILE: bytes(content)}, folder)


def bits_of(original: Original, flips: int, seed: int) -> list[int]:
    return random.Random(seed).sample(range(8 * len(original.content)), flips)


def flip_each(original: Original, bits: list[int]) -> list[FlipResult]:
    """Flip each bit in an intact copy of the database."""
    with tempfile.TemporaryDirectory() as name:
        return [flip(original, bit, Path(name)) for bit in bits]


def count_undetected(original: Original, bits: list[int]) -> int:
    """Return how many flips a reader without checks does not detect: the control."""
    wrong = 0
    with tempfile.TemporaryDirectory() as name:
        for bit in bits:
            write_damaged(original, bit, Path(name))
            with suppress(sqlite3.DatabaseError):
                wrong += rows_without_checks(Path(name) / FILE) != original.unchecked_rows
    return wrong


def run(long: bool) -> Outcome:
    """Flip 1,000 bits, or 30 in the short version."""
    length, flips = (200, 1_000) if long else sized((50, 30), (80, 60))
    original = make_original(length, seed=4)
    bits = bits_of(original, flips, seed=4)
    found = flip_each(original, bits)
    outcomes = Counter(one.outcome for one in found)
    wrong = count_undetected(original, bits)
    return Outcome(
        "flipped bits",
        f"{flips:,} single bits in a file of {len(original.content) // 1024:,} KiB",
        f"{outcomes['rejected']} rejected, {outcomes['detected']} detected by verify, "
        f"{outcomes['harmless']} without effect, {outcomes['undetected']} served undetected",
        f"a reader without checks: {wrong} served wrong",
        outcomes["undetected"] == 0
        and outcomes["rejected"] + outcomes["detected"] > 0
        and wrong > 0,
    )
