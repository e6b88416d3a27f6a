"""A second opinion on a log: its money and its order, added up without the service's own rules.

What `entice verify` finds is found by the code that wrote the log. The trials also look at the log
with these few lines, which share nothing with it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from typing import Any, NamedTuple

from entice.service.operations.verify import verify
from entice.service.storage.store import Store


class Audit(NamedTuple):
    """What became of a campaign's log."""

    events: int
    decisions: int
    limited: int
    """Decisions that the budget, or another limit, kept from being what they would have been."""
    overspent: int
    """Positions of the log at which more was reserved and paid than the budget."""
    disordered: int
    """Events that are out of sequence, earlier than the one before, or not chained to it."""
    reserved: int
    committed: int
    budget: int

    @property
    def sound(self) -> bool:
        """Whether nothing is wrong."""
        return self.overspent == self.disordered == 0


def bodies(store: Store, campaign: str) -> Iterator[tuple[int, bytes, bytes]]:
    """The events of a campaign in order: number, body, hash."""
    after = 0
    while True:
        with store.read() as session:
            rows = session.rows(
                "SELECT e.seq, e.body, e.hash FROM events e JOIN campaigns c "
                "ON e.campaign = c.number WHERE c.id = ? AND e.seq > ? ORDER BY e.seq LIMIT 5000",
                (campaign, after),
            )
        if not rows:
            return
        yield from rows
        after = rows[-1][0]


def audit(store: Store, campaign: str) -> Audit:
    """Add up a campaign's log, event by event."""
    reserved = committed = budget = overspent = disordered = decisions = limited = 0
    due, at, head = 1, 0, bytes(32)
    amounts: dict[int, int] = {}
    paid: dict[int, int] = {}
    for seq, body, written in bodies(store, campaign):
        event: dict[str, Any] = json.loads(body)
        head = hashlib.sha256(head + body).digest()
        if seq != due or event["seq"] != seq or event["at"] < at or head != written:
            disordered += 1
        due, at = seq + 1, event["at"]
        match event["kind"]:
            case "created":
                budget = event["spec"]["budget"]
            case "changed":
                budget = event["changes"].get("budget", budget)
            case "offered":
                decisions += 1
                limited += event["reason"] == "limited"
                amounts[event["n"]] = 0 if event.get("shadow") else event["amount"]
                reserved += amounts[event["n"]]
            case "accepted":
                reserved -= amounts.pop(event["n"])
                paid[event["n"]] = event["paid"]
                committed += event["paid"]
            case "declined" | "expired" | "voided":
                reserved -= amounts.pop(event["n"])
            case "reversed":
                committed -= paid.pop(event["n"])
        overspent += reserved + committed > budget or reserved < 0 or committed < 0
    return Audit(due - 1, decisions, limited, overspent, disordered, reserved, committed, budget)


def faults(store: Store) -> list[str]:
    """What `entice verify` has to complain about."""
    return [f"{v.campaign}: {v.fault}" for v in verify(store) if v.fault is not None]
