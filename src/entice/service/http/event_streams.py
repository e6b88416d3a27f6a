"""Streams of new events, for all clients that follow a campaign."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable

from entice.api_types import EventView
from entice.errors import EnticeError
from entice.service import logs
from entice.service.http.connections import Connections, Peer
from entice.service.http.quotas import Quota
from entice.service.http.read_threads import in_thread
from entice.service.storage.api_keys import Keys
from entice.service.storage.queries import Queries

PAGE = 500
PAGE_BYTES = 64 * 1024
"""Size at which a message ends. A stream that is not read takes a few times as much memory."""
POLL_INTERVAL = 0.2
"""Seconds between two checks for new events, and for revoked keys."""
HEARTBEAT = 15.0
"""Seconds without events after which a stream sends a comment."""


class _Stream:
    """An open stream."""

    def __init__(self, peer: Peer, check_key: Callable[[], None]) -> None:
        self.peer = peer
        self.check_key = check_key
        self.wake = asyncio.Event()
        self.error: EnticeError | None = None
        """Why the stream has to end."""


class EventStreams:
    """All open streams. One query per campaign serves all its streams."""

    def __init__(self, queries: Queries, keys: Keys, connections: Connections) -> None:
        self.quota = Quota("streams", per_key=50, per_campaign=100, total=400)
        self._queries = queries
        self._keys = keys
        self._connections = connections
        self._waiting: dict[str, set[_Stream]] = {}
        self._heads: dict[str, int] = {}
        self._poller: asyncio.Task[None] | None = None
        self._ended = asyncio.Event()

    def end(self) -> None:
        """End all streams, because the service shuts down."""
        self._ended.set()
        for streams in self._waiting.values():
            for stream in streams:
                stream.wake.set()

    async def follow(
        self, campaign: str, after: int, peer: Peer, check_key: Callable[[], None]
    ) -> AsyncGenerator[list[EventView], None]:
        """Yield new events as they arrive, and an empty list after `HEARTBEAT` without any.

        When `check_key` raises an error, because the key was revoked, this raises it too. The
        connection of the client, `peer`, is closed if it does not read.
        """
        stream = _Stream(peer, check_key)
        self._waiting.setdefault(campaign, set()).add(stream)
        if self._poller is None or self._poller.done():
            self._poller = asyncio.create_task(self._poll())
        try:
            while not self._ended.is_set():
                stream.wake.clear()
                if stream.error is not None:
                    raise stream.error
                events = await in_thread(self._queries.events, campaign, after, PAGE, PAGE_BYTES)
                if events:
                    after = events[-1].seq
                    yield events
                    continue
                try:
                    await asyncio.wait_for(stream.wake.wait(), HEARTBEAT)
                except TimeoutError:
                    yield []
        finally:
            self._waiting[campaign].discard(stream)
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
                    for stream in self._waiting.get(campaign, ()):
                        stream.wake.set()
            try:
                await self._check_keys()
            except Exception as error:  # such as too many open files: this task must not end
                logs.unexpected(error)
            await asyncio.sleep(POLL_INTERVAL)

    async def _check_keys(self) -> None:
        """End the streams whose keys were revoked."""
        with contextlib.suppress(EnticeError):  # the database is unavailable
            if self._keys.age() > POLL_INTERVAL:
                await in_thread(self._keys.reload)
        unread: set[Peer] = set()
        for stream in [stream for streams in self._waiting.values() for stream in streams]:
            if stream.error is not None:  # for one interval: the client does not read
                unread.add(stream.peer)
                continue
            try:
                stream.check_key()
            except EnticeError as error:
                stream.error = error
                stream.wake.set()
        if unread:
            await in_thread(self._connections.close, unread)

    def _read_heads(self, campaigns: list[str]) -> dict[str, int]:
        return {campaign: self._queries.head(campaign) for campaign in campaigns}
