"""The state of a campaign: everything that its events add up to, apart from its offers."""

from __future__ import annotations

import math
from typing import Any

import msgspec

from entice.model.in_flight import InFlight
from entice.money import Currency, recorded_currency
from entice.service.domain.errors import Corrupt, not_found
from entice.service.domain.holdout import GroupCounts
from entice.service.domain.in_flight_state import Expectation, FlightState, expectation, unpack
from entice.service.domain.pricing import AcceptanceCounts
from entice.service.domain.segment_state import SegmentCounts, cells_per_arm
from entice.service.domain.spec import Status

RULE_OF_THREE = 3.0
"""If 3 ratings are expected, the probability of receiving none is 5 %."""


class CampaignState(msgspec.Struct, array_like=True):
    """The state of a campaign, as its row in the database stores it."""

    campaign: str
    seq: int
    """The number of the last event."""
    head: bytes
    """The hash of the last event."""
    at: int
    """The time of the last event."""
    created: int
    spec: dict[str, Any]
    """The current settings."""
    version: int
    """The version of the settings, from 1."""
    status: Status
    budget: int
    reserved: int
    committed: int
    decisions: int
    arms: list[str]
    retired: list[bool]
    pulls: list[int]
    """The number of ratings of each arm."""
    totals: list[int]
    """The sum of each arm's ratings: an integer, so the order of ratings does not matter."""
    in_flight: list[int]
    """The number of offers of each arm whose ratings may still arrive."""
    memory: bytes
    """The policy's memory."""
    rules: int = 1
    """The version of the rules that decisions follow."""
    offered: list[int] = []
    """The number of offers of each arm, excluding those declined, expired, reversed before their
    rating, or made in shadow mode."""
    flight: FlightState | None = None
    """The ages of the offers in flight, since version 2 of the rules."""
    groups: dict[str, GroupCounts] = {}
    """The totals of the two groups, if the campaign has a holdout."""
    segments: SegmentCounts | None = None
    """The ratings of each arm and segment, if the campaign has segments."""
    acceptance: AcceptanceCounts | None = None
    """The answers to offers by price, if the campaign has a learned price."""

    @property
    def expectation(self) -> Expectation:
        """The ratings expected from the offers in flight."""
        return expectation(self.unpack_flight(), self._cells_per_arm)

    def unpack_flight(self) -> InFlight:
        """Return the offers in flight, by arm or, with segments, by arm and segment."""
        cells = len(self.arms) * self._cells_per_arm
        return unpack(self.flight, cells, self.spec["rating_window"])

    @property
    def _cells_per_arm(self) -> int:
        return cells_per_arm(self.spec.get("segments", ()))

    def without_first_rating(self, expected: Expectation) -> list[int]:
        """Return the active arms that have no rating after enough offers to expect one.

        Ratings that may still arrive do not count as missing.
        """
        missing = (
            offers * (expected.share or 0.0) - ratings
            for offers, ratings in zip(self.offered, expected.ratings, strict=False)
        )
        return [
            i
            for i, ratings in enumerate(missing)
            if ratings >= RULE_OF_THREE and self.pulls[i] == 0 and not self.retired[i]
        ]

    @property
    def free(self) -> int:
        """The part of the budget that is neither committed nor reserved."""
        return self.budget - self.reserved - self.committed

    @property
    def money(self) -> Currency:
        """The currency and its number of decimals."""
        return recorded_currency(self.spec["currency"], self.spec.get("currency_digits"))

    @property
    def paced(self) -> int | None:
        """The maximum of committed plus reserved money after the next offer; None without pace."""
        return paced_budget(self.budget, self.decisions, self.spec.get("pace_over"))


def paced_budget(budget: int, decisions: int, pace_over: int | None) -> int | None:
    """Return how much of a budget may be used, including the next decision; None without pacing.

    This part grows with the logarithm of the number of decisions, and reaches the whole budget at
    decision `pace_over`.
    """
    if pace_over is None:
        return None
    share = min(1.0, math.log1p(decisions + 1) / math.log1p(pace_over))
    return int(budget * share)


def encode_state(state: CampaignState) -> bytes:
    """Encode a state for the database.

    The last fields are left out if they are None, as before they existed.
    """
    fields = msgspec.structs.astuple(state)
    while fields[-1] is None:
        fields = fields[:-1]
    return _encode(fields)


_encode = msgspec.msgpack.Encoder().encode
decode_state = msgspec.msgpack.Decoder(CampaignState).decode
ID_WITHIN = 64
"""The id of a campaign is in the first so many bytes of its encoded state."""


def has_id(start: bytes, campaign: str) -> bool:
    """Return whether the first `ID_WITHIN` bytes of an encoded state contain this id."""
    return msgspec.msgpack.encode(campaign) in start


def missing_offer_error(state: CampaignState, n: int, offer_id: str) -> Exception:
    """Return the error for an offer without a row: never made, or lost from the database."""
    if 1 <= n <= state.decisions:
        return Corrupt(f"The row of offer {offer_id} is missing. Restore a backup.")
    return not_found("offer", offer_id)
