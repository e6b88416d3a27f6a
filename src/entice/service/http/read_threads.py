"""Reading from the database without holding up the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

Read = TypeVar("Read")

_SLOW = ThreadPoolExecutor(2, "entice-slow")


async def look_up(read: Callable[..., Read], *given: Any) -> Read:
    """Read from the database without holding up other requests."""
    return await asyncio.get_running_loop().run_in_executor(None, read, *given)


async def look_up_slowly(read: Callable[..., Read], *given: Any) -> Read:
    """The same for what may take long: others do not wait behind it."""
    return await asyncio.get_running_loop().run_in_executor(_SLOW, read, *given)
