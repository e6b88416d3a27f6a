"""All that requests are answered with, from the opening of the service to its end."""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

from litestar import Router

from entice.errors import EnticeError
from entice.service import logs
from entice.service.domain.errors import Corrupt, Unavailable
from entice.service.http.authentication import Authenticator
from entice.service.http.event_streams import Streams
from entice.service.operations.metrics import Metrics, read_gauges
from entice.service.operations.warm_up import WarmUp
from entice.service.storage.api_keys import Keys
from entice.service.storage.player_hasher import PlayerHasher
from entice.service.storage.queries import Queries, load_state
from entice.service.storage.store import Store
from entice.service.storage.writer import Writer


class Extension:
    """A router that is mounted on the service's app, with the state behind it."""

    def __init__(self, router: Router) -> None:
        self.router = router

    def end(self) -> None:
        """Start to shut down: end the responses that clients may be waiting for."""

    async def close(self) -> None:
        """Finish shutting down."""


class AppContext:
    """The parts of a service, put together."""

    def __init__(
        self,
        store: Store,
        writer: Writer,
        queries: Queries,
        keys: Keys,
        players: PlayerHasher,
        *,
        open_to_loopback: bool,
        extensions: Sequence[Extension] = (),
    ) -> None:
        self.store = store
        self.writer = writer
        self.queries = queries
        self.keys = keys
        self.players = players
        self.authenticator = Authenticator(keys, open_to_loopback=open_to_loopback)
        self.streams = Streams(queries)
        self.extensions = tuple(extensions)
        self.metrics = Metrics(lambda: read_gauges(store, writer.clock_ahead), lambda: writer.depth)
        self.describe: Callable[[], bytes] = bytes
        """Returns the OpenAPI document."""
        self.exports = 0
        """Number of exports in progress."""
        self.ready = False
        self._open = True
        self._compiling = WarmUp()

    @asynccontextmanager
    async def at_work(self) -> AsyncIterator[None]:
        """Open the service, and close it in the end: what waits at the desk is finished."""
        loop = asyncio.get_running_loop()
        self.writer.observe = self.metrics.group
        await loop.run_in_executor(None, self.keys.reload)
        await loop.run_in_executor(None, self.writer.start)
        warming = loop.run_in_executor(None, self._warm_up)
        logging = asyncio.create_task(logs.keep_writing())
        try:
            yield
        finally:
            self.end()
            for extension in self.extensions:
                await extension.close()
            try:
                await warming
            finally:
                await loop.run_in_executor(None, self.writer.stop)
            logging.cancel()
            logs.event("stopped")

    def end(self) -> None:
        """Begin to end: streams first, since whoever waits for them would wait for ever."""
        self.ready = self._open = False
        self._compiling.cancel()
        self.streams.end()
        for extension in self.extensions:
            extension.end()

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
                    state = load_state(session, name)
                except Corrupt as error:  # told to whoever asks for that one
                    logs.trouble(error, during="warm-up")
                else:
                    if state.status != "closed":
                        found[state.spec["policy"]["kind"]] = None
        return list(found)

    def check(self) -> None:
        """Raise what keeps the database from being used."""
        if not self.writer.is_running:
            raise Unavailable("The writer has stopped. Start the service again.")
        self.store.check()
        last_error = self.writer.last_error
        if isinstance(last_error, EnticeError):
            raise last_error
        if last_error is not None:
            name = type(last_error).__name__
            raise Unavailable(f"Nothing can be written: {name}.") from last_error
