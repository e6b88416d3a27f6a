"""Those who follow a campaign's events as they come."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

from entice.api_types import EventView
from entice.service.http.read_threads import look_up
from entice.service.storage.queries import Queries

PAGE = 500
LOOK_EVERY = 0.2
"""Seconds between looks for new events."""
HEARTBEAT = 15.0
"""Seconds of silence after which a stream says that it is still there."""


class Streams:
    """Streams of events: one look at the database serves all who follow a campaign."""

    def __init__(self, queries: Queries) -> None:
        self.open = 0
        self._queries = queries
        self._followed: dict[str, set[asyncio.Event]] = {}
        self._heads: dict[str, int] = {}
        self._looking: asyncio.Task[None] | None = None
        self._ended = asyncio.Event()

    def end(self) -> None:
        """End all streams: the service shuts down."""
        self._ended.set()
        for waiting in self._followed.values():
            for woken in waiting:
                woken.set()

    async def follow(self, campaign: str, after: int) -> AsyncGenerator[list[EventView], None]:
        """Yield events as they come, and an empty list when none has come for a while."""
        woken = asyncio.Event()
        self._followed.setdefault(campaign, set()).add(woken)
        if self._looking is None or self._looking.done():
            self._looking = asyncio.create_task(self._look())
        try:
            while not self._ended.is_set():
                woken.clear()
                events = await look_up(self._queries.events, campaign, after, PAGE)
                if events:
                    after = events[-1].seq
                    yield events
                    continue
                try:
                    await asyncio.wait_for(woken.wait(), HEARTBEAT)
                except TimeoutError:
                    yield []
        finally:
            self._followed[campaign].discard(woken)
            if not self._followed[campaign]:
                del self._followed[campaign]
                self._heads.pop(campaign, None)

    async def _look(self) -> None:
        """Wake those whose campaign has new events, as long as anybody waits."""
        while self._followed and not self._ended.is_set():
            try:
                heads = await look_up(self._read_heads, list(self._followed))
            except Exception:  # the database is away: streams find out by themselves
                heads = dict.fromkeys(self._followed, -1)
            for campaign, head in heads.items():
                if self._heads.get(campaign) != head:
                    self._heads[campaign] = head
                    for woken in self._followed.get(campaign, ()):
                        woken.set()
            await asyncio.sleep(LOOK_EVERY)

    def _read_heads(self, campaigns: list[str]) -> dict[str, int]:
        return {campaign: self._queries.head(campaign) for campaign in campaigns}
