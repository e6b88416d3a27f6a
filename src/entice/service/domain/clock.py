"""The service's clock, which does not jump when the wall clock is reset."""

from __future__ import annotations

import time


class Clock:
    """Microseconds since 1970: the wall clock at start-up, advanced by the monotonic clock.

    An offer is therefore valid for as long as promised, even if the wall clock is changed. The
    writer ensures that no campaign's time runs backwards if another machine's clock was ahead.
    """

    def __init__(self) -> None:
        self._offset = time.time_ns() - time.monotonic_ns()

    def now(self) -> int:
        """Return the current time."""
        return (time.monotonic_ns() + self._offset) // 1000

    def seconds_ahead_of_wall(self) -> float:
        """Return how far this clock is ahead of the wall clock."""
        return self.now() / 1e6 - time.time()
