"""Power loss: no acknowledged write is lost, whatever happens to unsynced ones."""

from __future__ import annotations

import json
import random
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from sizes import sized

from entice.errors import EnticeError
from entice.service.domain.commands import CommandResult, MakeOffer
from entice.service.storage.queries import Queries
from entice.service.storage.sqlite import SqliteStore
from entice.service.storage.store import Store
from service_faults.adapter import WITHOUT_SYNC, connector
from service_faults.disk import Disk
from service_faults.outcome import Outcome
from service_faults.recording import Recording, replace_files
from service_faults.scenario import (
    Request,
    TestClock,
    faults_in,
    idle_writer,
    open_as_service,
    run_scenario,
    segment_of,
)

FILE = "entice.db"


class Cuts(NamedTuple):
    """The results of many power cuts."""

    cuts: int
    acknowledged_writes: int
    """The total number of acknowledged writes before the cuts."""
    lost: int
    """Cuts that lost an acknowledged write."""
    damaged: int
    """Cuts after which the database could not be opened or did not verify."""
    examples: list[str]


def record_scenario(
    folder: Path, length: int, seed: int, replacements: Mapping[str, str] | None = None
) -> Recording:
    """Run a scenario on a recording disk, with a marker at each acknowledgement."""
    disk = Disk(folder)
    store = SqliteStore(folder / FILE, connector(disk, replacements, checkpoint_at=100))

    def acknowledged(request: Request, answer: CommandResult) -> None:
        """Mark the length and the last hash of each log at this acknowledgement."""
        with store.read() as session:
            heads = session.rows("SELECT id, seq, hex(head) FROM campaigns")
        disk.mark(json.dumps([request.key, answer.body.decode(), heads]))

    run_scenario(store, length, seed, acknowledged)
    store.close()
    disk.close()
    return disk.recording


def cut(recording: Recording, cuts: int, seed: int) -> Cuts:
    """Cut the power `cuts` times, spread over all operations, and check what is left."""
    places = recording.places()
    rng = random.Random(seed)
    chosen = places * (cuts // len(places)) + rng.sample(places, cuts % len(places))
    acknowledged_writes = lost = damaged = 0
    examples = []
    all_acknowledged = [
        json.loads(marker) for marker in recording.markers(len(recording.operations))
    ]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for place, files in recording.power_losses(chosen, seed):
            replace_files(files, folder)
            acknowledged = all_acknowledged[: len(recording.markers(place))]
            acknowledged_writes += len(acknowledged)
            try:
                missing = check_database(folder / FILE, acknowledged)
            except Exception as error:  # with any error, the service would not start
                damaged += 1
                examples.append(f"cut {place}: {error!r}")
                continue
            lost += bool(missing)
            examples += [f"cut {place}: {what}" for what in missing]
    return Cuts(len(chosen), acknowledged_writes, lost, damaged, examples)


def check_database(path: Path, acknowledged: list[Any]) -> list[str]:
    """Open the database as the service would; return missing writes; make more offers."""
    with open_as_service(path) as store:
        missing = list(missing_from(store, acknowledged))
        make_more_offers(store)
        for fault in faults_in(store):
            raise EnticeError(fault)
    return missing


def make_more_offers(store: Store) -> None:
    """Make an offer in each campaign."""
    with store.read() as session:
        campaigns = session.rows("SELECT id FROM campaigns")
    writer = idle_writer(store, TestClock())
    queries = Queries(store)
    segments = {name: queries.campaign(name).spec.get("segments", ()) for (name,) in campaigns}
    offers = [
        writer.submit(MakeOffer(name, bytes(16), segment=segment_of(found, 0)))
        for name, found in segments.items()
    ]
    writer.start()
    try:
        for offer in offers:
            offer.result(timeout=30)
    finally:
        writer.stop()


def missing_from(store: Store, acknowledged: list[Any]) -> Iterator[str]:
    """Yield missing acknowledged writes. The hash of an event covers all events before it."""
    latest = {
        campaign: (seq, head) for _, _, heads in acknowledged for campaign, seq, head in heads
    }
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
        for key, body, _ in acknowledged:
            if key is not None and answers.get(key) != body.encode():
                yield f"the response under {key}"


def run(long: bool) -> Outcome:
    """Cut the power 2,000 times, or 60 in the short version; the control syncs nothing."""
    length, cuts = (400, 2_000) if long else sized((80, 60), (150, 150))
    with (
        tempfile.TemporaryDirectory() as synced,
        tempfile.TemporaryDirectory() as unsynced,
    ):
        recording = record_scenario(Path(synced), length, seed=1)
        result = cut(recording, cuts, seed=1)
        control = cut(
            record_scenario(Path(unsynced), length, seed=1, replacements=WITHOUT_SYNC),
            cuts // 5,
            seed=1,
        )
    return Outcome(
        "power loss",
        f"{result.cuts:,} power cuts over {len(recording.places()):,} disk operations",
        f"{result.lost} lost an acknowledged write, {result.damaged} damaged the database "
        f"({result.acknowledged_writes:,} acknowledgements before the cuts)",
        f"synchronous=OFF: {control.lost} of {control.cuts} lost writes, {control.damaged} damaged "
        f"the database",
        result.lost == result.damaged == 0 and control.lost > 0,
    )
