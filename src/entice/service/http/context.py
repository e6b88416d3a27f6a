"""The parts of a running service, shared by all requests."""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

from litestar import Router

from entice.errors import EnticeError
from entice.service import logs
from entice.service.domain.errors import Unavailable
from entice.service.http.authentication import Authenticator
from entice.service.http.connections import Connections
from entice.service.http.event_streams import EventStreams
from entice.service.http.quotas import Quota
from entice.service.http.read_process import ReadProcess
from entice.service.http.read_threads import ReadTurns
from entice.service.operations.campaign_list import CampaignList
from entice.service.operations.metrics import Metrics, read_gauges
from entice.service.operations.service_queries import ServiceQueries
from entice.service.operations.warm_up import WarmUp
from entice.service.operations.webhook_delivery import WebhookDelivery
from entice.service.operations.webhook_request import Network
from entice.service.storage.api_keys import Keys
from entice.service.storage.player_hasher import PlayerHasher
from entice.service.storage.store import Store
from entice.service.storage.unit_of_work import load_all_states
from entice.service.storage.webhooks import Webhooks
from entice.service.storage.writer import Writer


class Extension:
    """A router to mount on the service's app, and the state that its handlers use."""

    def __init__(self, router: Router) -> None:
        self.router = router

    def start_shutdown(self) -> None:
        """End the responses in progress, so that their connections close."""

    async def close(self) -> None:
        """Finish shutting down."""


class AppContext:
    """The parts of a running service."""

    def __init__(
        self,
        store: Store,
        writer: Writer,
        queries: ServiceQueries,
        keys: Keys,
        players: PlayerHasher,
        *,
        token: str | None,
        extensions: Sequence[Extension],
        connections: Connections,
        webhook_networks: Sequence[Network],
        read_processes: Sequence[ReadProcess],
    ) -> None:
        self.store = store
        self.writer = writer
        self.queries = queries
        self.keys = keys
        self.players = players
        self.authenticator = Authenticator(keys, token)
        self.reads = ReadTurns()
        self.read_processes = tuple(read_processes)
        """For fast and for slow reads. Without them, reads use threads only."""
        self.streams = EventStreams(queries, keys, connections)
        self.extensions = tuple(extensions)
        self.connections = connections
        self.campaigns = CampaignList(store, queries.alerts)
        self.metrics = Metrics(
            lambda: read_gauges(store, queries.alerts.of_all, writer.clock_ahead),
            lambda: writer.depth,
        )
        logs.on_drop(self.metrics.count_dropped_lines)
        self.webhooks = Webhooks(store)
        self.delivery = WebhookDelivery(
            store, queries, players.webhook_secret, webhook_networks, self.metrics.count_webhook
        )
        self.describe: Callable[[], bytes] = bytes
        """Returns the OpenAPI document."""
        self.exports = Quota("exports", per_key=2, per_campaign=2, total=4)
        self.ready = False
        self._open = True
        self._compiling = WarmUp()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Start the service; on exit, execute the commands in the queue and stop it."""
        loop = asyncio.get_running_loop()
        self.writer.observe = self.metrics.commit
        await loop.run_in_executor(None, self.keys.reload)
        await loop.run_in_executor(None, self.writer.start)
        self.delivery.start()
        warm_up = loop.run_in_executor(None, self._warm_up)
        watcher = asyncio.create_task(self.connections.watch())
        try:
            yield
        finally:
            self.start_shutdown()
            for extension in self.extensions:
                await extension.close()
            await loop.run_in_executor(None, self.delivery.stop)
            try:
                await warm_up
            finally:
                await loop.run_in_executor(None, self.writer.stop)
            watcher.cancel()
            logs.event("stopped")
            await loop.run_in_executor(None, logs.flush)

    def start_shutdown(self) -> None:
        """End all streams and jobs, which would otherwise keep their connections open."""
        self.ready = self._open = False
        self._compiling.cancel()
        self.connections.start_shutdown()
        self.streams.end()
        for extension in self.extensions:
            extension.start_shutdown()

    def _warm_up(self) -> None:
        """Compile the policies. Wait for the database while it is unavailable."""
        while self._open and not self.ready:
            started = time.monotonic()
            try:
                self._read_campaigns()
                compiled = self._compiling.run(self._policies_in_use())
            except EnticeError as error:
                logs.database_error(error, during="warm-up")
                time.sleep(1)
            else:
                # These objects live as long as the process: exclude them from garbage collection.
                gc.collect()
                gc.freeze()
                self.ready = self._open
                if self.ready:  # not if a shutdown has cancelled the compilation
                    seconds = round(time.monotonic() - started, 3)
                    logs.event("ready", policies_compiled=compiled, seconds=seconds)

    def _read_campaigns(self) -> None:
        """Read all campaigns, so that the first list is fast."""
        try:
            self.campaigns.page(limit=1)
        except EnticeError:
            raise
        except Exception as error:  # an error in an alert must not keep the service from starting
            logs.unexpected(error, during="warm-up")

    def _policies_in_use(self) -> list[str]:
        """Return the kinds of the policies of all campaigns that are not closed."""
        with self.store.read() as session:
            states, _ = load_all_states(session)
        return list(dict.fromkeys(s.spec["policy"]["kind"] for s in states if s.status != "closed"))

    def check(self) -> None:
        """Raise an error if the database is not usable."""
        if not self.writer.is_running:
            raise Unavailable("The writer has stopped. Restart the service.")
        self.store.check()
        last_error = self.writer.last_error
        if isinstance(last_error, EnticeError):
            raise last_error
        if last_error is not None:
            name = type(last_error).__name__
            raise Unavailable(f"The database cannot be written: {name}.") from last_error
