"""Database reads in threads, so that they do not block the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from entice.service.domain.errors import Refusal
from entice.service.thread_switching import FREQUENT_SWITCHES

T = TypeVar("T")

MAX_WAITING = 64
"""Maximum number of reads of one key that are in progress or wait."""
_SLOW = ThreadPoolExecutor(4, "entice-slow")


async def in_thread(read: Callable[..., T], *arguments: Any) -> T:
    """Call a function in a thread."""
    return await _in_pool(None, read, *arguments)


async def in_slow_thread(read: Callable[..., T], *arguments: Any) -> T:
    """Call a slow function in a thread of a separate pool, so that fast ones do not wait for it."""
    return await _in_pool(_SLOW, read, *arguments)


async def _in_pool(pool: ThreadPoolExecutor | None, read: Callable[..., T], *arguments: Any) -> T:
    with FREQUENT_SWITCHES:
        return await asyncio.get_running_loop().run_in_executor(pool, read, *arguments)


class ReadTurns:
    """Reads in threads: one fast and one slow read of each key at a time.

    Threads share Python's global lock. Eight threads that read for one key would take it for most
    of the time, and requests with other keys would wait for it.
    """

    def __init__(self) -> None:
        self._turns: dict[tuple[str, bool], _Turns] = {}

    async def read(self, key: str, slow: bool, read: Callable[..., T], *arguments: Any) -> T:
        """Call a function in a thread when the key's earlier reads are done.

        `slow` selects the pool of `in_slow_thread`.
        """
        turns = self._turns.setdefault((key, slow), _Turns())
        if turns.reads >= MAX_WAITING:
            raise Refusal(
                429, "too-many-reads", "Too many reads",
                f"{MAX_WAITING} reads with this key are in progress or wait, which is the maximum. "
                "Send fewer requests at the same time, and repeat this one later.",
            )  # fmt: skip
        turns.reads += 1
        try:
            async with turns.lock:
                return await (in_slow_thread if slow else in_thread)(read, *arguments)
        finally:
            turns.reads -= 1
            if turns.reads == 0:
                del self._turns[key, slow]


class _Turns:
    """The reads of one key."""

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.reads = 0
