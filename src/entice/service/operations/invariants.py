"""Checks of a campaign's invariants, for the studio's Trust screen."""

from __future__ import annotations

from functools import lru_cache

import msgspec

from entice.service.domain.campaign_state import CampaignState
from entice.service.domain.errors import Corrupt
from entice.service.operations.fault_report import (
    FaultReport,
    digest_of_running_code,
    read_fault_report,
)
from entice.service.operations.metrics import CampaignGauges, read_campaign_gauges
from entice.service.storage.queries import load_state, number_of
from entice.service.storage.store import Session, Store


class Invariant(msgspec.Struct, frozen=True):
    """The result of one check."""

    name: str
    holds: bool
    detail: str


class ReplayView(msgspec.Struct, frozen=True, tag_field="kind", tag="replay"):
    """The result of replaying an event log."""

    ok: bool
    events: int
    detail: str
    at: str


class CampaignTrust(msgspec.Struct, frozen=True):
    """The checks of one campaign, and its last replay."""

    id: str
    name: str
    invariants: list[Invariant]
    replay: ReplayView | None
    """The last replay since the service started."""


class TrustView(msgspec.Struct, frozen=True):
    """The checks of all campaigns, and the report of the fault tests."""

    campaigns: list[CampaignTrust]
    faults: FaultReport
    """Results of the last long run of each fault test, shipped with the package."""
    source: str
    """A digest of the running code's source files. Trials of the same code have the same one."""


def read_trust_view(store: Store, only: str | None, replays: dict[str, ReplayView]) -> TrustView:
    """Check all campaigns, or only one, in one consistent snapshot."""
    with store.read() as session:
        found = [
            _check_campaign(session, gauges, replays.get(gauges.id))
            for gauges in read_campaign_gauges(session, only)
        ]
    return TrustView(found, _shipped_report(), digest_of_running_code())


@lru_cache(1)
def _shipped_report() -> FaultReport:
    return read_fault_report()


def _check_campaign(
    session: Session, gauges: CampaignGauges, replay: ReplayView | None
) -> CampaignTrust:
    try:
        state = load_state(session, gauges.id)
    except Corrupt as error:
        damaged = Invariant("The campaign's row is intact", False, str(error))
        return CampaignTrust(gauges.id, gauges.id, [damaged], replay)
    return CampaignTrust(
        gauges.id, state.spec["name"], check_invariants(session, gauges, state), replay
    )


def check_invariants(
    session: Session, gauges: CampaignGauges, state: CampaignState
) -> list[Invariant]:
    """Check the invariants of a campaign whose row is intact, without reading its log."""
    money = state.money.format
    return [
        Invariant(
            "Spent and reserved money is within the budget",
            gauges.reserved + gauges.committed <= gauges.budget,
            f"{money(gauges.committed)} spent and {money(gauges.reserved)} reserved of "
            f"{money(gauges.budget)}.",
        ),
        Invariant(
            "Reserved money equals the cost of open offers",
            gauges.reserved == gauges.open,
            f"{money(gauges.reserved)} reserved; open offers add up to {money(gauges.open)}.",
        ),
        Invariant(
            "The log ends with the campaign's last event",
            gauges.written == gauges.seq == state.seq,
            f"Last event: {gauges.seq:,}. Last event in the log: {gauges.written:,}.",
        ),
        _check_last_hash(session, state),
        Invariant(
            "Every decision has an offer",
            gauges.decisions == state.decisions,
            f"Last decision: {state.decisions:,}. Last offer: {gauges.decisions:,}.",
        ),
        Invariant(
            "No count is negative",
            min(state.reserved, state.committed, *state.pulls, *state.in_flight) >= 0,
            f"Ratings: {sum(state.pulls):,}. Pending: {sum(state.in_flight):,}.",
        ),
    ]


def _check_last_hash(session: Session, state: CampaignState) -> Invariant:
    rows = session.rows(
        "SELECT hash FROM events WHERE campaign = ? AND seq = ?",
        (number_of(session, state.campaign), state.seq),
    )
    written = bytes(rows[0][0]) if rows else b""
    matches = written == state.head
    detail = f"Both start with {state.head.hex()[:16]}."
    if not matches:
        detail = f"Campaign: {state.head.hex()[:16]}. Log: {written.hex()[:16] or 'none'}."
    return Invariant("The log's last hash matches the campaign's", matches, detail)
