"""The service's own clock: it never goes back, and it always goes on."""

from __future__ import annotations

import time


class Clock:
    """Microseconds since 1970, by the wall clock at first and by the steady one from then on.

    A wall clock that is set anew while the service runs changes nothing: an offer lives as long
    as was said. A database whose latest event lies in this clock's future moves the clock there,
    so that the log stays in order of time and yet nothing that is due waits for the wall clock to
    catch up.
    """

    def __init__(self) -> None:
        self._ahead = time.time_ns() - time.monotonic_ns()

    def now(self) -> int:
        """What time it is."""
        return (time.monotonic_ns() + self._ahead) // 1000

    def advance_to(self, moment: int) -> None:
        """Go on from a moment, unless it has passed already."""
        behind = moment - self.now()
        if behind > 0:
            self._ahead += behind * 1000

    def ahead_of_wall(self) -> float:
        """By how many seconds this clock is ahead of the wall clock."""
        return self.now() / 1e6 - time.time()
