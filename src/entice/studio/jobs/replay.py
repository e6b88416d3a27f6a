"""The replay of one campaign's log: what `entice verify` does."""

from __future__ import annotations

import contextlib
from datetime import UTC, datetime
from typing import Any

from entice.service.operations.verify import events_in, verify
from entice.service.storage.store import open_store
from entice.studio.jobs.job import Task


def replay(db: str, campaign: str, task: Task) -> dict[str, Any]:
    """Make every event of a campaign again, and compare; tell how far it is."""
    with contextlib.closing(open_store(db)) as store:
        total, done = events_in(store, campaign), 0

        def progress(more: int) -> None:
            nonlocal done
            done += more
            task.progress(done, max(done, total))

        verdict = next(verify(store, campaign, progress))
    detail = verdict.fault or (
        f"{verdict.events:,} events were made again by the rules that made them first, and came "
        "out byte for byte; their hashes follow from each other, and the tables hold what they "
        "add up to."
    )
    return {
        "kind": "replay",
        "ok": verdict.fault is None,
        "events": verdict.events,
        "detail": detail,
        "at": datetime.now(UTC),
    }
