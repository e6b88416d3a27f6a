"""The live drift estimate: from a randomised probe alone, with its interval."""

from __future__ import annotations

import threading

from entice.api_types import ArmDriftView, DriftView
from entice.estimate import DriftEstimator
from entice.service.domain import events as log
from entice.service.domain.campaign import Campaign
from entice.service.storage.store import Session
from entice.service.storage.unit_of_work import OFFER, offer_from_row, verified_events

LEVEL = 0.95
"""Of the interval."""
MOST_KNOWN = 1000
"""Campaigns whose estimates are kept up to date; beyond, all are read anew."""


class _CampaignEstimate:
    def __init__(self, estimator: DriftEstimator) -> None:
        self.estimator = estimator
        self.arms: dict[str, _Sums] = {}
        self.seq = 0
        self.lock = threading.Lock()

    def rated(self, arm: str, count: int, rating: int, paid: float) -> None:
        sums = self.arms.setdefault(arm, _Sums())
        sums.ratings += count
        sums.total += rating
        sums.paid += paid


class _Sums:
    """Of one arm."""

    def __init__(self) -> None:
        self.ratings = 0
        self.total = 0
        self.paid = 0.0


class DriftEstimates:
    """Estimates of several campaigns, each kept up to date from where its log was read last."""

    def __init__(self) -> None:
        self._known: dict[str, _CampaignEstimate] = {}
        self._lock = threading.Lock()

    def view(self, session: Session, campaign: Campaign) -> DriftView:
        """Say what is known of a campaign's drift."""
        if campaign.spec.probe is None:
            return DriftView(
                False, 0, None, None, None, LEVEL,
                "This campaign has no probe, so its drift can't be told from its averages. "
                "Payments follow past ratings, which fools every other estimate.",
            )  # fmt: skip
        name = campaign.state.campaign
        with self._lock:
            if len(self._known) > MOST_KNOWN:
                self._known.clear()
            known = self._known.setdefault(name, _CampaignEstimate(DriftEstimator()))
        with known.lock:
            for _, body, _ in verified_events(session, name, campaign.number, known.seq):
                _apply(known, log.decode(body), session, campaign)
            if known.estimator.probes < 2:
                few = "Too few probed offers have been rated so far."
                probes, arms = known.estimator.probes, _arms(known, None)
                return DriftView(True, probes, None, None, None, LEVEL, few, arms)
            found = known.estimator.estimate(LEVEL)
            # A slope that may be mostly chance would correct nothing.
            arms = _arms(known, None if found.warning else found.slope)
        note = found.warning or "From a randomised probe."
        return DriftView(
            True, found.observations, found.slope, found.low, found.high, LEVEL, note, arms
        )


def _arms(known: _CampaignEstimate, slope: float | None) -> list[ArmDriftView]:
    found = []
    for arm, sums in known.arms.items():
        if sums.ratings > 0:
            paid, average = sums.paid / sums.ratings, sums.total / sums.ratings
            corrected = None if slope is None else average - slope * paid
            found.append(ArmDriftView(arm, paid, corrected))
    return found


def _apply(
    known: _CampaignEstimate, event: log.Event, session: Session, campaign: Campaign
) -> None:
    """Take one event into the estimate.

    A rating that is changed or taken back later has told of the drift all the same: it was given
    by somebody whom the coin did not choose. For the averages only what holds by now counts.
    """
    known.seq = event.seq
    match event:
        case log.Rated(arm=arm, rating=rating, payment=payment):
            known.estimator.add(arm, payment, rating, log.COINS[event.probe], event.probe_amount)
            known.rated(arm, 1, rating, payment)
        case log.OrganicRated(arm=arm, rating=rating):
            known.estimator.add(arm, 0.0, rating)
            known.rated(arm, 1, rating, 0.0)
        case log.Revised(arm=arm, rating=rating, before=before):
            known.rated(arm, 0, rating - before, 0.0)
        case log.Reversed(n=n):
            where = "WHERE campaign = ? AND n = ?"
            rows = session.rows(f"{OFFER.select} {where}", (campaign.number, n))
            offer = offer_from_row(campaign.number, rows[0])
            if offer.rating is not None:
                paid = campaign.stars_paid(offer)
                known.rated(campaign.state.arms[offer.arm], -1, -offer.rating, -paid)
        case _:
            pass
