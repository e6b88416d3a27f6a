"""The service's own clock: a wall clock that is set anew does not move it."""

from __future__ import annotations

import time


class Clock:
    """Microseconds since 1970, by the wall clock at first and by the steady one from then on.

    So an offer lives as long as was said, whatever happens to the wall clock meanwhile. The desk
    sees to it that no campaign's time goes back where another machine's clock was ahead.
    """

    def __init__(self) -> None:
        self._ahead = time.time_ns() - time.monotonic_ns()

    def now(self) -> int:
        """What time it is."""
        return (time.monotonic_ns() + self._ahead) // 1000

    def seconds_ahead_of_wall(self) -> float:
        """By how many seconds this clock is ahead of the wall clock."""
        return self.now() / 1e6 - time.time()
