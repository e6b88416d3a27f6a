"""The two sizes of the tests: short in `make test`, long in `make test-long`.

The short size keeps every case and every control, with fewer replications or examples.
"""

from __future__ import annotations

import os
from typing import TypeVar

LONG = os.environ.get("ENTICE_TESTS") == "long"
"""Whether the tests run at their long size."""

T = TypeVar("T")


def sized(short: T, long: T) -> T:
    """Return the number for the size at which the tests run."""
    return long if LONG else short
