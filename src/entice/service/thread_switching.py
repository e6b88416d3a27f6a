"""How often Python switches between the threads of a worker process."""

from __future__ import annotations

import sys
import threading

INTERVAL = 0.0001
"""Seconds after which a thread gives up Python's global lock to another one, while several need it.
"""


class FrequentSwitches:
    """A context in which Python switches between threads more often.

    By default, a thread that needs Python's global lock waits for up to 5 ms until another one that
    calculates gives it up, and a request needs the lock some ten times. For one campaign alone,
    more switches would cost up to a third more CPU time and gain nothing.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users = 0
        self._before = 0.0

    def __enter__(self) -> None:
        with self._lock:
            self._users += 1
            if self._users == 1:
                self._before = sys.getswitchinterval()
                sys.setswitchinterval(INTERVAL)

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._users -= 1
            if self._users == 0:
                sys.setswitchinterval(self._before)


FREQUENT_SWITCHES = FrequentSwitches()
