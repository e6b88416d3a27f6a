"""What a trial reports: a row in the table that `make faults` prints for the docs."""

from __future__ import annotations

from typing import NamedTuple


class Outcome(NamedTuple):
    """One trial, and the control that shows that it can fail at all."""

    name: str
    tried: str
    result: str
    control: str
    passed: bool
    """The result is as it must be, and so is the control's: that one fails."""
