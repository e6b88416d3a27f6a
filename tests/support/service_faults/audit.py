"""An independent audit of a log: its money and its order, without the service's rules.

`entice verify` uses the code that wrote the log. The trials also check it with this module, which
shares no code with the service.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from typing import Any, NamedTuple

from entice.service.operations.verify import verify
from entice.service.storage.store import Store


class Audit(NamedTuple):
    """The result of auditing a campaign's log."""

    events: int
    decisions: int
    limited: int
    """Decisions that the budget or another limit changed."""
    exceeded: int
    """Events after which reserved plus committed money exceeds the budget."""
    out_of_order: int
    """Events that are out of sequence, earlier than the previous one, or not chained to it."""
    reserved: int
    committed: int
    budget: int

    @property
    def passed(self) -> bool:
        """Whether nothing is wrong."""
        return self.exceeded == self.out_of_order == 0


def bodies(store: Store, campaign: str) -> Iterator[tuple[int, bytes, bytes]]:
    """Return the events of a campaign in order: number, body, hash."""
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
    """Audit a campaign's log, event by event."""
    reserved = committed = budget = exceeded = out_of_order = decisions = limited = 0
    due, at, head = 1, 0, bytes(32)
    amounts: dict[int, int] = {}
    paid: dict[int, int] = {}
    for seq, body, written in bodies(store, campaign):
        event: dict[str, Any] = json.loads(body)
        head = hashlib.sha256(head + body).digest()
        if seq != due or event["seq"] != seq or event["at"] < at or head != written:
            out_of_order += 1
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
        exceeded += reserved + committed > budget or reserved < 0 or committed < 0
    return Audit(due - 1, decisions, limited, exceeded, out_of_order, reserved, committed, budget)


def faults(store: Store) -> list[str]:
    """Return the mismatches that `entice verify` finds."""
    return [f"{v.campaign}: {v.fault}" for v in verify(store) if v.fault is not None]
