"""Streams of new events, for all clients that follow a campaign."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

from entice.api_types import EventView
from entice.service.http.read_threads import in_thread
from entice.service.storage.queries import Queries

PAGE = 500
POLL_INTERVAL = 0.2
"""Seconds between two checks for new events."""
HEARTBEAT = 15.0
"""Seconds without events after which a stream sends a comment."""


class EventStreams:
    """All open streams. One query per campaign serves all its streams."""

    def __init__(self, queries: Queries) -> None:
        self.open = 0
        """Number of open streams."""
        self._queries = queries
        self._waiting: dict[str, set[asyncio.Event]] = {}
        self._heads: dict[str, int] = {}
        self._poller: asyncio.Task[None] | None = None
        self._ended = asyncio.Event()

    def end(self) -> None:
        """End all streams, because the service shuts down."""
        self._ended.set()
        for streams in self._waiting.values():
            for wake in streams:
                wake.set()

    async def follow(self, campaign: str, after: int) -> AsyncGenerator[list[EventView], None]:
        """Yield new events as they arrive, and an empty list after `HEARTBEAT` without any."""
        wake = asyncio.Event()
        self._waiting.setdefault(campaign, set()).add(wake)
        if self._poller is None or self._poller.done():
            self._poller = asyncio.create_task(self._poll())
        try:
            while not self._ended.is_set():
                wake.clear()
                events = await in_thread(self._queries.events, campaign, after, PAGE)
                if events:
                    after = events[-1].seq
                    yield events
                    continue
                try:
                    await asyncio.wait_for(wake.wait(), HEARTBEAT)
                except TimeoutError:
                    yield []
        finally:
            self._waiting[campaign].discard(wake)
            if not self._waiting[campaign]:
                del self._waiting[campaign]
                self._heads.pop(campaign, None)

    async def _poll(self) -> None:
        """Wake the streams of campaigns that have new events, as long as there are streams."""
        while self._waiting and not self._ended.is_set():
            try:
                heads = await in_thread(self._read_heads, list(self._waiting))
            except Exception:  # the database is unavailable: wake all, to report it
                heads = dict.fromkeys(self._waiting, -1)
            for campaign, head in heads.items():
                if self._heads.get(campaign) != head:
                    self._heads[campaign] = head
                    for wake in self._waiting.get(campaign, ()):
                        wake.set()
            await asyncio.sleep(POLL_INTERVAL)

    def _read_heads(self, campaigns: list[str]) -> dict[str, int]:
        return {campaign: self._queries.head(campaign) for campaign in campaigns}
