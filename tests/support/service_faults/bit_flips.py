"""Flipped bits in the database file: refused, or found by verification, but never just served."""

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

from entice.service.domain.commands import CommandResult
from entice.service.domain.errors import Refusal
from entice.service.storage import api_keys as keys
from entice.service.storage.api_keys import Keys
from entice.service.storage.queries import Queries
from entice.service.storage.store import Store
from entice.service.storage.writer import Writer
from service_faults.outcome import Outcome
from service_faults.recording import lay_out
from service_faults.scenario import (
    Request,
    TestClock,
    as_the_service_opens,
    faults_in,
    play,
    put,
    questions,
    quiet_desk,
)

FILE = "entice.db"


class Original(NamedTuple):
    """A sound database, and everything that is served from it."""

    content: bytes
    asked: list[Request]
    """Requests with a key: asked again, they get the same answers."""
    secrets: list[str]
    """API keys; the last one is revoked."""
    decisions: dict[str, int]
    """How many each campaign has made."""
    served: dict[str, bytes | Exception]
    naive: list[Any]
    """What a reader without any checks finds."""


def make(length: int, seed: int) -> Original:
    """Play a scenario to its end."""
    asked: list[Request] = []

    def told(request: Request, answer: CommandResult) -> None:
        if request.key is not None:
            asked.append(request)

    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / FILE
        with as_the_service_opens(path) as store:
            play(store, length, seed, told)
            secrets = issue_keys(store, seed)
            decisions = {view.id: view.decisions for view in Queries(store).campaigns()}
        sound = Original(path.read_bytes(), asked, secrets, decisions, {}, naive_rows(path))
        with as_the_service_opens(path) as store:
            return sound._replace(served=serve(store, sound))


def issue_keys(store: Store, seed: int) -> list[str]:
    """Make a few API keys, the same ones each time."""
    rng = random.Random(seed)
    fake = SimpleNamespace(
        token_hex=lambda size: rng.randbytes(size).hex(),
        token_urlsafe=lambda size: rng.randbytes(size).hex(),
    )
    steady = SimpleNamespace(time_ns=lambda: 10**18, monotonic=time.monotonic)
    with mock.patch.object(keys, "secrets", fake), mock.patch.object(keys, "time", steady):
        made = [Keys(store).create(role, None, f"for {role}") for role in ("admin", "read")]
        Keys(store).revoke(made[-1][0].id)
    return [secret for _, secret in made]


def serve(store: Store, original: Original) -> dict[str, bytes | Exception]:
    """Start a service, and ask it for everything: reads, answers given before, keys.

    Each question by itself: one that is refused says nothing of the others. That something is
    not there is no refusal but an answer, and a wrong one.
    """
    keys, writer = Keys(store), quiet_desk(store, TestClock())
    wanted = questions(store, original.decisions)
    wanted["keys"] = keys.list
    for secret in original.secrets:
        wanted[f"opened by {secret}"] = partial(keys.check, secret)
    for request in original.asked:
        wanted[f"answer to {request.key}"] = partial(ask_again, writer, request)
    writer.start()
    try:
        return {name: answer_to(ask) for name, ask in wanted.items()}
    finally:
        writer.stop()


def ask_again(writer: Writer, request: Request) -> CommandResult:
    """Ask for what was answered before, in a transaction of its own."""
    return put(writer, request, lambda *_: None)[1].result(timeout=30)


def answer_to(ask: Callable[[], Any]) -> bytes | Exception:
    """An answer as it would be sent, or the error that says that something is wrong."""
    try:
        return msgspec.json.encode(ask())
    except Refusal as refusal:
        return refusal if refusal.status >= 500 else str(refusal).encode()
    except Exception as error:
        return error


def naive_rows(path: Path) -> list[Any]:
    """The control: plain SQL, and whatever comes is believed."""
    with closing(sqlite3.connect(path)) as db:
        return [
            db.execute("SELECT id, seq, budget, reserved, committed FROM campaigns").fetchall(),
            db.execute("SELECT n, state, cost FROM offers ORDER BY campaign, n").fetchall(),
            db.execute("SELECT seq, body FROM events ORDER BY campaign, seq").fetchall(),
            db.execute("SELECT key, body FROM answers ORDER BY key").fetchall(),
        ]


class Found(NamedTuple):
    """What became of one flipped bit."""

    fate: Literal["refused", "detected", "harmless", "silent"]
    why: str
    wrong: Sequence[str] = ()
    """What was served wrong: by a service that nobody had verified, if it was detected."""


def flip(original: Original, bit: int, folder: Path) -> Found:
    """Flip one bit, start the service, verify it, and have everything from it."""
    damage(original, bit, folder)
    try:
        with as_the_service_opens(folder / FILE) as store:
            objection = answer_to(lambda: faults_in(store))
            served = serve(store, original)
    except Exception as error:
        return Found("refused", repr(error))
    errors = [f"{name}: {told!r}" for name, told in served.items() if isinstance(told, Exception)]
    wrong = [
        name
        for name, told in served.items()
        if not isinstance(told, Exception) and told != original.served[name]
    ]
    if objection != b"[]":
        return Found("detected", str(objection), wrong)
    if wrong:
        return Found("silent", ", ".join(wrong), wrong)
    return Found("refused" if errors else "harmless", ", ".join(errors))


def damage(original: Original, bit: int, folder: Path) -> None:
    """Lay out the database with one bit flipped."""
    content = bytearray(original.content)
    content[bit // 8] ^= 1 << bit % 8
    lay_out({FILE: bytes(content)}, folder)


def bits_of(original: Original, flips: int, seed: int) -> list[int]:
    return random.Random(seed).sample(range(8 * len(original.content)), flips)


def flip_each(original: Original, bits: list[int]) -> list[Found]:
    """Flip one bit after the other, each in a sound database."""
    with tempfile.TemporaryDirectory() as name:
        return [flip(original, bit, Path(name)) for bit in bits]


def believed(original: Original, bits: list[int]) -> int:
    """The control: how many of the flips a reader without checks serves as if nothing were."""
    wrong = 0
    with tempfile.TemporaryDirectory() as name:
        for bit in bits:
            damage(original, bit, Path(name))
            with suppress(sqlite3.DatabaseError):
                wrong += naive_rows(Path(name) / FILE) != original.naive
    return wrong


def run(long: bool) -> Outcome:
    """Flip 1,000 bits, or 60 in short."""
    length, flips = (200, 1_000) if long else (80, 60)
    original = make(length, seed=4)
    bits = bits_of(original, flips, seed=4)
    found = flip_each(original, bits)
    fates = Counter(one.fate for one in found)
    wrong = believed(original, bits)
    return Outcome(
        "flipped bits",
        f"{flips:,} single bits in a file of {len(original.content) // 1024:,} KiB",
        f"{fates['refused']} refused, {fates['detected']} detected by verify, "
        f"{fates['harmless']} change nothing, {fates['silent']} served silently",
        f"a reader without checks: {wrong} served wrong",
        fates["silent"] == 0 and fates["refused"] + fates["detected"] > 0 and wrong > 0,
    )
