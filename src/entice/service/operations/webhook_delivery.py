"""Delivery of events to webhooks: at least once, and in order within each campaign.

Threads of their own read the log and send the events, so that neither the writer nor the event loop
waits for a receiver. The last event that a receiver has confirmed is stored after its response. A
process that dies in between sends the same events again.

A coordinator thread stores the outcomes of all attempts together, at most once per `poll`: the
writer waits for one short transaction, however many webhooks there are.
"""

from __future__ import annotations

import queue
import random
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from entice.errors import EnticeError
from entice.service import logs
from entice.service.domain.errors import Corrupt, Stale, Unavailable
from entice.service.operations.webhook_request import DeliveryFailed, Network, WebhookSender
from entice.service.storage.queries import Queries
from entice.service.storage.store import Store
from entice.service.storage.webhooks import Lease, Outcome, Webhook, failures_after, read_webhooks
from entice.service.storage.webhooks import record as record_outcome

MAX_EVENTS = 500
"""Events in one request."""
MAX_BYTES = 1024 * 1024
"""Size of a request's body at which it takes no more events."""


class DeliverySettings(msgspec.Struct, frozen=True):
    """Times of the delivery, in seconds."""

    poll: float = 0.5
    """Between two looks for new events, and between two writes of what was delivered."""
    timeout: float = 10.0
    """For a request."""
    first_pause: float = 1.0
    """After the first failure. Each further failure doubles the pause."""
    max_pause: float = 600.0
    give_up_after: float = 3 * 24 * 3600.0
    """Without success, after which a webhook is paused."""
    lease: float = 30.0
    """After which another process delivers, if this one ends without releasing its lease."""
    threads: int = 8
    """Maximum number of requests at the same time."""


DEFAULTS = DeliverySettings()


class WebhookDelivery:
    """Delivers the events of all campaigns to their webhooks.

    Parameters
    ----------
    secret
        Returns the secret that signs the requests of a webhook, given by its id.
    networks
        Networks that webhooks may reach besides public addresses.
    observe
        Called after each request with the number of events that were delivered; None if it failed.
    """

    def __init__(
        self,
        store: Store,
        queries: Queries,
        secret: Callable[[str], str],
        networks: Sequence[Network] = (),
        observe: Callable[[int | None], None] = lambda _: None,
        settings: DeliverySettings | None = None,
    ) -> None:
        self.settings = DEFAULTS if settings is None else settings
        self._store = store
        self._queries = queries
        self._secret = secret
        self._observe = observe
        self.sender = WebhookSender(networks, self.settings.timeout)
        self._lease = Lease(self.settings.lease)
        self._stopping = threading.Event()
        self._due: queue.SimpleQueue[Webhook | None] = queue.SimpleQueue()
        self._outcomes: queue.SimpleQueue[tuple[str, Outcome | None]] = queue.SimpleQueue()
        self._in_progress: set[str] = set()
        self._threads: list[threading.Thread] = []
        self._coordinator = threading.Thread(target=self._run, name="entice-webhooks", daemon=True)

    def start(self) -> None:
        """Start the coordinator. The other threads start when there is something to deliver."""
        self._coordinator.start()

    def stop(self) -> None:
        """Interrupt the requests in progress, store what was delivered, and release the lease."""
        self._stopping.set()
        self.sender.interrupt()
        self._coordinator.join(5)

    def _run(self) -> None:
        while not self._stopping.wait(self.settings.poll):
            self._try(self._tick)
        for _ in self._threads:
            self._due.put(None)
        for thread in self._threads:
            thread.join(1)  # longer only while it resolves a host's name
        self._try(self._release)

    def _try(self, step: Callable[[], None]) -> None:
        """Run a step. After an error the next step tries again: this thread must not end."""
        try:
            step()
        except Stale:
            pass
        except EnticeError as error:
            logs.database_error(error, during="webhooks")
        except Exception as error:
            logs.unexpected(error)

    def _tick(self) -> None:
        self._store_outcomes()
        with self._store.read() as session:
            webhooks = read_webhooks(session)
        if webhooks and not self._lease.held:
            self._lease.take(self._store)
        for webhook in sorted(webhooks, key=_longest_ago):
            if self._may_start(webhook):
                self._in_progress.add(webhook.id)
                self._due.put(webhook)
                if len(self._threads) < min(self.settings.threads, len(self._in_progress)):
                    self._start_thread()

    def _may_start(self, webhook: Webhook) -> bool:
        # A request must end before another process may take the lease.
        if self._lease.age > self._lease.seconds - self.settings.timeout:
            return False
        if len(self._in_progress) >= self.settings.threads or webhook.id in self._in_progress:
            return False
        if webhook.damaged or webhook.paused is not None or not webhook.waits:
            return False
        wait = webhook.next_attempt / 1e6 - time.time()
        return not 0 < wait <= 2 * self.settings.max_pause  # longer: the clock was set back

    def _start_thread(self) -> None:
        name = f"entice-webhook-{len(self._threads)}"
        thread = threading.Thread(target=self._deliver_due, name=name, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _store_outcomes(self, *, release: bool = False) -> None:
        ended: list[tuple[str, Outcome | None]] = []
        while not self._outcomes.empty():
            ended.append(self._outcomes.get())
        try:
            self._write([outcome for _, outcome in ended if outcome is not None], release)
        except BaseException:
            for each in ended:  # for the next attempt
                self._outcomes.put(each)
            raise
        self._in_progress.difference_update(name for name, _ in ended)

    def _write(self, outcomes: list[Outcome], release: bool) -> None:
        if not self._lease.held:
            return  # another process has it, and delivers these events again
        if outcomes or release or self._lease.age > self._lease.seconds / 3:
            now = time.monotonic()
            with self._store.write() as session:
                kept = self._lease.renew(session, release=release)
                for outcome in outcomes if kept else ():
                    record_outcome(session, outcome)
            self._lease.set_renewed(now if kept and not release else None)

    def _release(self) -> None:
        self._store_outcomes(release=True)

    def _deliver_due(self) -> None:
        while (webhook := self._due.get()) is not None:
            outcome = None
            try:
                outcome = self._deliver(webhook)
            except (Unavailable, Stale):
                pass  # of the database: the coordinator logs it
            except Exception as error:
                logs.unexpected(error)
            finally:
                self._outcomes.put((webhook.id, outcome))

    def _deliver(self, webhook: Webhook) -> Outcome | None:
        """Send what waits for one webhook, for about the time between two polls."""
        first = delivered = webhook.delivered
        error = None
        end = time.monotonic() + self.settings.poll
        try:
            while True:
                body, last, count = self._payload(webhook, delivered)
                if count == 0 and not (webhook.ping and delivered == first):
                    break
                self.send(webhook, body, last)
                self._observe(count)
                delivered = last
                if count == 0 or self._stopping.is_set() or time.monotonic() > end:
                    break
        except (DeliveryFailed, Corrupt) as failed:
            if self._stopping.is_set():  # interrupted, which is no failure of the receiver
                return self._outcome(webhook, delivered, None) if delivered > first else None
            self._observe(None)
            error = str(failed)
        return self._outcome(webhook, delivered, error)

    def send(self, webhook: Webhook, body: bytes, last: int) -> None:
        """Send one request with the events up to number `last`."""
        self.sender.post(webhook.url, self._secret(webhook.id), body)

    def _outcome(self, webhook: Webhook, delivered: int, error: str | None) -> Outcome:
        settings = self.settings
        doublings = min(failures_after(webhook, delivered) - 1, 30)
        pause = min(settings.max_pause, settings.first_pause * 2**doublings)
        return Outcome(
            webhook=webhook,
            delivered=delivered,
            at=time.time_ns() // 1000,
            error=error,
            pause=pause * random.uniform(0.5, 1.0),
            give_up_after=settings.give_up_after,
        )

    def _payload(self, webhook: Webhook, after: int) -> tuple[bytes, int, int]:
        """Return the body of the next request, its last event's number, and the count of events."""
        events: list[bytes] = []
        size = 0
        for event in self._queries.events(webhook.campaign, after, MAX_EVENTS):
            encoded = msgspec.json.encode(event)
            if events and size + len(encoded) > MAX_BYTES:
                break
            events.append(encoded)
            size, after = size + len(encoded), event.seq
        payload: dict[str, Any] = {
            "webhook": webhook.id,
            "campaign": webhook.campaign,
            "events": [msgspec.Raw(event) for event in events],
        }
        return msgspec.json.encode(payload), after, len(events)


def _longest_ago(webhook: Webhook) -> int:
    """Return when a webhook was last served, or may be tried again: the first is the next one."""
    return max(webhook.next_attempt, webhook.last_success or 0, webhook.last_error_at or 0)
