"""Replay one campaign's event log, as `entice verify` does."""

from __future__ import annotations

import contextlib
from datetime import UTC, datetime
from typing import Any

from entice.service.operations.verify import count_events, verify
from entice.service.storage.store import open_store
from entice.studio.jobs.job import JobContext


def replay(db: str, campaign: str, context: JobContext) -> dict[str, Any]:
    """Replay every event of a campaign, compare the results, and report progress."""
    with contextlib.closing(open_store(db)) as store:
        total, done = count_events(store, campaign), 0

        def progress(more: int) -> None:
            nonlocal done
            done += more
            context.progress(done, max(done, total))

        verdict = next(verify(store, campaign, progress))
    detail = verdict.fault or (
        f"Replaying {verdict.events:,} events gave the same bytes. The hash chain is intact, and "
        "the tables match the log."
    )
    return {
        "kind": "replay",
        "ok": verdict.fault is None,
        "events": verdict.events,
        "detail": detail,
        "at": datetime.now(UTC),
    }
