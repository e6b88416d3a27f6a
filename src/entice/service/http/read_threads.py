"""Database reads in threads, so that they do not block the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

T = TypeVar("T")

_SLOW = ThreadPoolExecutor(4, "entice-slow")


async def in_thread(read: Callable[..., T], *arguments: Any) -> T:
    """Call a function in a thread."""
    return await asyncio.get_running_loop().run_in_executor(None, read, *arguments)


async def in_slow_thread(read: Callable[..., T], *arguments: Any) -> T:
    """Call a slow function in a thread of a separate pool, so that fast ones do not wait for it."""
    return await asyncio.get_running_loop().run_in_executor(_SLOW, read, *arguments)
