"""What must be true of every campaign at every moment, looked at now."""

from __future__ import annotations

from functools import lru_cache
from importlib.resources import files
from typing import Any

import msgspec

from entice.service.domain.campaign import CampaignState
from entice.service.domain.errors import Corrupt
from entice.service.operations.metrics import CampaignGauges, read_campaign_gauges
from entice.service.storage.queries import find_state, number_of
from entice.service.storage.store import Session, Store


class Invariant(msgspec.Struct, frozen=True):
    """Something that must be true."""

    name: str
    holds: bool
    detail: str


class ReplayView(msgspec.Struct, frozen=True):
    """What came of making a log again."""

    kind: str
    ok: bool
    events: int
    detail: str
    at: str


class CampaignTrust(msgspec.Struct, frozen=True):
    """How far one campaign can be trusted."""

    id: str
    name: str
    invariants: list[Invariant]
    replay: ReplayView | None
    """The last one since the service was started."""


class TrustView(msgspec.Struct, frozen=True):
    """How far the service can be trusted."""

    campaigns: list[CampaignTrust]
    faults: dict[str, Any] | None
    """What the last long run of faults found; it comes with the package."""


def look(store: Store, only: str | None, replays: dict[str, ReplayView]) -> TrustView:
    """Look at all campaigns, or at one, as they are at one moment."""
    with store.read() as session:
        found = [
            _campaign(session, gauges, replays.get(gauges.id))
            for gauges in read_campaign_gauges(session)
            if only is None or gauges.id == only
        ]
    return TrustView(found, faults())


@lru_cache(1)
def faults() -> dict[str, Any]:
    """Read what the last long run of faults found."""
    told: dict[str, Any] = msgspec.json.decode(
        (files("entice.service.operations") / "faults.json").read_bytes()
    )
    return told


def _campaign(session: Session, gauges: CampaignGauges, replay: ReplayView | None) -> CampaignTrust:
    try:
        state = find_state(session, gauges.id)
    except Corrupt as error:
        damaged = Invariant("The campaign's row is what was written", False, str(error))
        return CampaignTrust(gauges.id, gauges.id, [damaged], replay)
    money = state.money.format
    invariants = [
        Invariant(
            "Spent and reserved stay within the budget",
            gauges.reserved + gauges.committed <= gauges.budget,
            f"{money(gauges.committed)} is spent and {money(gauges.reserved)} reserved of "
            f"{money(gauges.budget)}.",
        ),
        Invariant(
            "What is reserved is what open offers may cost",
            gauges.reserved == gauges.open,
            f"{money(gauges.reserved)} is reserved, and open offers add up to "
            f"{money(gauges.open)}.",
        ),
        Invariant(
            "The log ends with the campaign's last event",
            gauges.written == gauges.seq == state.seq,
            f"Events so far: {gauges.seq:,}. The last one in the log is number {gauges.written:,}.",
        ),
        _chain(session, state),
        Invariant(
            "Every decision has its offer",
            gauges.decisions == state.decisions,
            f"Decisions so far: {state.decisions:,}. The last offer is number "
            f"{gauges.decisions:,}.",
        ),
        Invariant(
            "No count is negative",
            min(state.reserved, state.committed, *state.pulls, *state.in_flight) >= 0,
            f"Ratings so far: {sum(state.pulls):,}, and {sum(state.in_flight):,} under way.",
        ),
    ]
    return CampaignTrust(gauges.id, state.spec["name"], invariants, replay)


def _chain(session: Session, state: CampaignState) -> Invariant:
    rows = session.rows(
        "SELECT hash FROM events WHERE campaign = ? AND seq = ?",
        (number_of(session, state.campaign), state.seq),
    )
    written = bytes(rows[0][0]) if rows else b""
    told = f"It begins with {state.head.hex()[:16]}."
    if written != state.head:
        told = f"The books say {state.head.hex()[:16]}…, the log {written.hex()[:16] or 'none'}…."
    return Invariant("The log's last hash is the one in the books", written == state.head, told)
