"""The outcome of a trial: a row in the table of `make faults`."""

from __future__ import annotations

from typing import NamedTuple


class Outcome(NamedTuple):
    """A trial, and its control, which shows that the trial can fail."""

    name: str
    tried: str
    result: str
    control: str
    passed: bool
    """Whether the trial succeeded and the control failed."""
