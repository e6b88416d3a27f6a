"""The writer's queue: one queue per campaign, which share the writer's time equally.

A campaign whose commands take long, or that sends many, delays its own commands only. Each turn
takes the next command of the campaign that has used the least time since it started to wait
(start-time fair queueing). The time that a command will take is estimated from the campaign's last
commands.
"""

from __future__ import annotations

import asyncio
import heapq
import math
import threading
import time
from collections import deque
from collections.abc import Callable, Collection
from typing import NamedTuple

from entice.service.domain.commands import (
    Command,
    CommandResult,
    CreateCampaign,
    EnterRatings,
    MakeOffers,
)
from entice.service.domain.errors import Refusal, Unavailable

MAX_GROUP = 512
"""Number of offers and ratings at which a transaction is full and takes no more commands."""
MAX_SECONDS, MAX_SECONDS_SHARED = 0.025, 0.002
"""Estimated seconds at which a transaction is full, for one campaign alone, and for several.

Commands that arrive in the meantime wait for the whole transaction. A campaign alone gets longer
ones, because each ends with a sync to disk, which takes about a millisecond, and because a batch
that does not fit is executed in slices: 100 offers take 8 ms."""
SHARED_FOR = 1.0
"""Seconds for which the writer counts as shared after a command of another campaign arrived."""
MAX_WAITING = 50_000
"""Number of offers and ratings at which the queue is full and rejects new commands."""
MAX_WAITING_PER_CAMPAIGN = 10_000
"""Number of a campaign's offers and ratings at which its own commands are rejected."""
UNKNOWN_COST = 0.001
"""Assumed seconds of an offer or rating of a campaign without a measurement."""
MAX_ESTIMATES = 10_000
"""Number of campaigns with an estimate above which all estimates are forgotten."""


class PendingCommand(NamedTuple):
    """A command in the queue, and the callback that receives its result."""

    command: Command
    scope: str
    """The API key to which the idempotency key belongs."""
    key: str | None
    """The idempotency key."""
    digest: bytes
    """A digest of the request, to detect a different request with the same idempotency key."""
    done: Callable[[CommandResult | Exception], None]
    loop: asyncio.AbstractEventLoop | None
    """The event loop to call `done` in, if any."""
    long: bool = False
    """Whether to execute the command in slices, whatever its estimated time."""

    @property
    def campaign(self) -> str:
        """The campaign that the command changes; empty for a new one."""
        return "" if isinstance(self.command, CreateCampaign) else self.command.campaign

    @property
    def weight(self) -> int:
        """The number of offers or ratings in the command; 1 for other commands."""
        match self.command:
            case MakeOffers(requests=requests):
                return max(1, len(requests))
            case EnterRatings(ratings=ratings):
                return max(1, len(ratings))
        return 1


def check_waiting(weight: int) -> None:
    """Raise an error if so many of a campaign's offers and ratings wait that no more may."""
    if weight >= MAX_WAITING_PER_CAMPAIGN:
        raise Refusal(
            429, "too-many-waiting", "Too many requests",
            f"{MAX_WAITING_PER_CAMPAIGN:,} offers and ratings of this campaign wait to be "
            "executed, which is the maximum. Send fewer requests at the same time, and repeat this "
            "one later.",
        )  # fmt: skip


class _CampaignQueue:
    """The waiting commands of one campaign."""

    def __init__(self, used: float) -> None:
        self.commands: deque[PendingCommand] = deque()
        self.weight = 0
        self.used = used
        """Estimated seconds of the commands taken so far, from a common start."""


class FairQueue:
    """The queue. Any thread may put commands; the writer takes them."""

    def __init__(self) -> None:
        self._changed = threading.Condition(threading.Lock())
        self._queues: dict[str, _CampaignQueue] = {}
        self._weight = 0
        self._closed = False
        self._start = 0.0
        """The time used with which a campaign starts to wait: that of the last one served."""
        self._costs: dict[str, float] = {}
        self._latest: str | None = None
        """The campaign of the latest command."""
        self._latest_at = -math.inf
        self._shared_until = -math.inf

    @property
    def shared(self) -> bool:
        """Whether commands of several campaigns have arrived within the last second."""
        return time.monotonic() < self._shared_until

    def is_used_by_others(self, campaign: str | None) -> bool:
        """Return whether a command of another campaign has arrived within the last second.

        For None, which stands for all campaigns: whether commands of several campaigns have.
        """
        if self.shared:
            return True
        recent = time.monotonic() < self._latest_at + SHARED_FOR
        return campaign is not None and recent and self._latest != campaign

    @property
    def depth(self) -> int:
        """The number of offers and ratings in the queue."""
        return self._weight

    def close(self) -> None:
        """Reject new commands."""
        with self._changed:
            self._closed = True
            self._changed.notify()

    def put(self, pending: PendingCommand) -> None:
        """Add a command; raise an error if the queue, or its campaign's part of it, is full."""
        name, weight = pending.campaign, pending.weight
        with self._changed:
            if self._closed:
                raise Unavailable("The service is shutting down.")
            queue = self._queues.get(name)
            check_waiting(0 if queue is None else queue.weight)
            if self._weight >= MAX_WAITING:
                raise Unavailable(f"The queue is full: {MAX_WAITING:,} offers and ratings wait.")
            if queue is None:
                queue = self._queues[name] = _CampaignQueue(self._start)
            queue.commands.append(pending)
            queue.weight += weight
            self._latest_at = time.monotonic()
            if name != self._latest:
                if self._latest is not None:
                    self._shared_until = self._latest_at + SHARED_FOR
                self._latest = name
            self._weight += weight
            self._changed.notify()

    def put_back(self, pendings: Collection[PendingCommand]) -> None:
        """Return commands that were taken but not executed, in the order in which they were taken.

        They are next in their campaigns' queues.
        """
        with self._changed:
            for pending in reversed(list(pendings)):
                queue = self._queues.get(pending.campaign)
                if queue is None:
                    queue = self._queues[pending.campaign] = _CampaignQueue(self._start)
                queue.commands.appendleft(pending)
                queue.weight += pending.weight
                self._weight += pending.weight

    def wait(self, timeout: float) -> bool:
        """Wait until there is a command, or the queue is closed. Return False if it is closed."""
        with self._changed:
            if not self._queues and not self._closed and timeout > 0:
                self._changed.wait(timeout)
            return not self._closed or bool(self._queues)

    def take(
        self, busy: Collection[str], *, admit_long: bool = True
    ) -> tuple[list[PendingCommand], PendingCommand | None]:
        """Take commands for one transaction, and a long command for execution in slices.

        Campaigns in `busy` are passed over, because a long command of theirs is being executed.
        """
        group: list[PendingCommand] = []
        with self._changed:
            order = [(q.used, name) for name, q in self._queues.items() if name not in busy]
            heapq.heapify(order)
            limit = MAX_SECONDS if len(order) == 1 and not self.shared else MAX_SECONDS_SHARED
            seconds, weight = 0.0, 0
            while order and weight < MAX_GROUP and seconds < limit:
                used, name = heapq.heappop(order)
                queue = self._queues[name]
                pending = queue.commands[0]
                own = pending.weight
                cost = own * self._costs.get(name, UNKNOWN_COST)
                is_long = pending.long or (own > 1 and cost > limit)
                if is_long and (not admit_long or any(p.campaign == name for p in group)):
                    continue  # wait for other long commands, or for the campaign's earlier ones
                if group and not is_long and seconds + cost > limit:
                    break  # the commands in the group would wait for this one
                self._start = used
                queue.used = used + cost
                self._remove_first(name, queue)
                if is_long:
                    return group, pending
                group.append(pending)
                seconds, weight = seconds + cost, weight + own
                if queue.commands:
                    heapq.heappush(order, (queue.used, name))
        return group, None

    def _remove_first(self, name: str, queue: _CampaignQueue) -> None:
        weight = queue.commands.popleft().weight
        queue.weight -= weight
        self._weight -= weight
        if not queue.commands:
            del self._queues[name]

    def record(self, pending: PendingCommand, seconds: float) -> None:
        """Record the seconds of CPU time that a command took, for the estimates."""
        if len(self._costs) > MAX_ESTIMATES:
            self._costs.clear()
        name, cost = pending.campaign, seconds / pending.weight
        before = self._costs.get(name)
        self._costs[name] = cost if before is None else 0.8 * before + 0.2 * cost
