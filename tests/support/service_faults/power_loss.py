"""Power loss: what was answered is still there, whatever the disk made of the rest."""

from __future__ import annotations

import json
import random
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from entice.errors import EnticeError
from entice.service.domain.commands import CommandResult, MakeOffer
from entice.service.storage.sqlite import SqliteStore
from entice.service.storage.store import Store
from service_faults.adapter import SYNCS_NOTHING, connector
from service_faults.disk import Disk
from service_faults.outcome import Outcome
from service_faults.recording import Recording, lay_out
from service_faults.scenario import (
    Request,
    TestClock,
    as_the_service_opens,
    faults_in,
    play,
    quiet_desk,
)

FILE = "entice.db"


class Cuts(NamedTuple):
    """Of many cuts."""

    cuts: int
    answered: int
    """How many answers had been given before the cuts, in all."""
    lost: int
    """Cuts after which something was gone that had been answered."""
    damaged: int
    """Cuts after which the database could not be opened, or did not pass verification."""
    examples: list[str]


def record(
    folder: Path, length: int, seed: int, instead: Mapping[str, str] | None = None
) -> Recording:
    """Play a scenario on a disk that remembers, with a marker at each answer."""
    disk = Disk(folder)
    store = SqliteStore(folder / FILE, connector(disk, instead, checkpoint_at=100))

    def told(request: Request, answer: CommandResult) -> None:
        """Note how long each log was when this answer went out, and the hash at its end."""
        with store.read() as session:
            heads = session.rows("SELECT id, seq, hex(head) FROM campaigns")
        disk.mark(json.dumps([request.key, answer.body.decode(), heads]))

    play(store, length, seed, told)
    store.close()
    disk.close()
    return disk.recording


def cut(recording: Recording, cuts: int, seed: int) -> Cuts:
    """Cut the power so many times, spread over all operations, and look at what is left."""
    places = recording.places()
    rng = random.Random(seed)
    chosen = places * (cuts // len(places)) + rng.sample(places, cuts % len(places))
    answered = lost = damaged = 0
    examples = []
    heard = [json.loads(marker) for marker in recording.markers(len(recording.operations))]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for place, files in recording.power_losses(chosen, seed):
            lay_out(files, folder)
            told = heard[: len(recording.markers(place))]
            answered += len(told)
            try:
                missing = look(folder / FILE, told)
            except Exception as error:  # whatever it is, the service would not be there
                damaged += 1
                examples.append(f"cut {place}: {error!r}")
                continue
            lost += bool(missing)
            examples += [f"cut {place}: {what}" for what in missing]
    return Cuts(len(chosen), answered, lost, damaged, examples)


def look(path: Path, told: list[Any]) -> list[str]:
    """Open what is left as the service would, name what is missing, and let the service go on."""
    with as_the_service_opens(path) as store:
        missing = list(missing_from(store, told))
        go_on(store)
        for fault in faults_in(store):
            raise EnticeError(fault)
    return missing


def go_on(store: Store) -> None:
    """Make one more offer in each campaign."""
    with store.read() as session:
        campaigns = session.rows("SELECT id FROM campaigns")
    writer = quiet_desk(store, TestClock())
    offers = [writer.submit(MakeOffer(name, bytes(16))) for (name,) in campaigns]
    writer.start()
    try:
        for offer in offers:
            offer.result(timeout=30)
    finally:
        writer.stop()


def missing_from(store: Store, told: list[Any]) -> Iterator[str]:
    """Name answers that have no trace. The hash of an event vouches for all events before it."""
    latest = {campaign: (seq, head) for _, _, heads in told for campaign, seq, head in heads}
    with store.read() as session:
        for campaign, (seq, head) in latest.items():
            found = session.rows(
                "SELECT hex(events.hash) FROM events JOIN campaigns "
                "ON events.campaign = campaigns.number WHERE id = ? AND events.seq = ?",
                (campaign, seq),
            )
            if found != [(head,)]:
                yield f"event {seq} of {campaign}"
        answers: dict[str, bytes] = dict(session.rows("SELECT key, body FROM answers"))
        for key, body, _ in told:
            if key is not None and answers.get(key) != body.encode():
                yield f"the answer under {key}"


def run(long: bool) -> Outcome:
    """Cut 2,000 times, or 150 times in short; the control syncs nothing."""
    length, cuts = (400, 2_000) if long else (150, 150)
    with tempfile.TemporaryDirectory() as synced, tempfile.TemporaryDirectory() as careless:
        recording = record(Path(synced), length, seed=1)
        result = cut(recording, cuts, seed=1)
        control = cut(
            record(Path(careless), length, seed=1, instead=SYNCS_NOTHING), cuts // 5, seed=1
        )
    return Outcome(
        "power loss",
        f"{result.cuts:,} cuts over {len(recording.places()):,} operations of the disk",
        f"{result.lost} lost anything that was answered, {result.damaged} damaged "
        f"({result.answered:,} answers had gone out before the cuts)",
        f"synchronous=OFF: {control.lost} of {control.cuts} lost some, {control.damaged} damaged",
        result.lost == result.damaged == 0 and control.lost > 0,
    )
