"""All that requests are answered with, from the opening of the service to its end."""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from entice.errors import EnticeError
from entice.service import logs
from entice.service.auth import Doorkeeper
from entice.service.desk import Desk
from entice.service.errors import Corrupt, Unavailable
from entice.service.identity import Players
from entice.service.keys import Keys
from entice.service.metrics import Metrics, read_gauges
from entice.service.reads import Reads, find_books
from entice.service.store import Store
from entice.service.streams import Streams
from entice.service.warm_up import WarmUp
from entice.studio.trust import ReplayView
from entice.studio.workshop import Workshop


class House:
    """The parts of a service, put together."""

    def __init__(
        self,
        store: Store,
        desk: Desk,
        reads: Reads,
        keys: Keys,
        players: Players,
        *,
        open_to_loopback: bool,
    ) -> None:
        self.store = store
        self.desk = desk
        self.reads = reads
        self.keys = keys
        self.players = players
        self.doorkeeper = Doorkeeper(keys, open_to_loopback=open_to_loopback)
        self.streams = Streams(reads)
        self.workshop = Workshop()
        self.metrics = Metrics(lambda: read_gauges(store, desk.clock_ahead), lambda: desk.depth)
        self.document = b"{}"
        """The description of the API."""
        self.exports = 0
        """How many are under way."""
        self.paper: bytes | None = None
        """The reproduction of the paper, once somebody has asked for it."""
        self.replays: dict[str, ReplayView] = {}
        """The last replay of each campaign."""
        self.ready = False
        self._open = True
        self._compiling = WarmUp()

    @asynccontextmanager
    async def at_work(self) -> AsyncIterator[None]:
        """Open the service, and close it in the end: what waits at the desk is finished."""
        loop = asyncio.get_running_loop()
        self.desk.observe = self.metrics.group
        await loop.run_in_executor(None, self.keys.reload)
        await loop.run_in_executor(None, self.desk.start)
        warming = loop.run_in_executor(None, self._warm_up)
        logging = asyncio.create_task(logs.keep_writing())
        try:
            yield
        finally:
            self.end()
            await self.workshop.close()
            try:
                await warming
            finally:
                await loop.run_in_executor(None, self.desk.stop)
            logging.cancel()
            logs.event("stopped")

    def end(self) -> None:
        """Begin to end: streams first, since whoever waits for them would wait for ever."""
        self.ready = self._open = False
        self._compiling.end()
        self.streams.end()
        self.workshop.end()

    def _warm_up(self) -> None:
        """Make all policies ready; a database that is away is waited for."""
        while self._open and not self.ready:
            began = time.monotonic()
            try:
                compiled = self._compiling.run(self._policies_in_use())
            except EnticeError as error:
                logs.trouble(error, during="warm-up")
                time.sleep(1)
            else:
                # What is here now stays: collecting garbage need not look at it again and again.
                gc.collect()
                gc.freeze()
                self.ready = self._open
                seconds = round(time.monotonic() - began, 3)
                logs.event("ready", policies_compiled=compiled, seconds=seconds)

    def _policies_in_use(self) -> list[str]:
        """Name the kinds of policies of all campaigns that are not closed."""
        found: dict[str, None] = {}
        with self.store.read() as session:
            for (name,) in session.rows("SELECT id FROM campaigns ORDER BY number"):
                try:
                    books = find_books(session, name)
                except Corrupt as error:  # told to whoever asks for that one
                    logs.trouble(error, during="warm-up")
                else:
                    if books.status != "closed":
                        found[books.spec["policy"]["kind"]] = None
        return list(found)

    def check(self) -> None:
        """Raise what keeps the database from being used."""
        if not self.desk.at_work:
            raise Unavailable("The writer has stopped. Start the service again.")
        self.store.check()
        failing = self.desk.failing
        if isinstance(failing, EnticeError):
            raise failing
        if failing is not None:
            raise Unavailable(f"Nothing can be written: {type(failing).__name__}.") from failing
