"""The live drift estimate: from a randomised probe alone, with its interval."""

from __future__ import annotations

import threading

import msgspec

from entice.estimate import DriftEstimator
from entice.service import events as log
from entice.service.campaign import Campaign
from entice.service.store import Session
from entice.service.work import trusted_events

LEVEL = 0.95
"""Of the interval."""
MOST_KNOWN = 1000
"""Campaigns whose estimates are kept up to date; beyond, all are read anew."""


class DriftView(msgspec.Struct, frozen=True):
    """How steeply ratings rise with the payment, both in stars: the paper's l if it is linear."""

    probed: bool
    """Whether this campaign throws coins; without them nothing honest can be said."""
    probes: int
    slope: float | None
    low: float | None
    high: float | None
    level: float
    note: str


class _Known:
    def __init__(self, estimator: DriftEstimator) -> None:
        self.estimator = estimator
        self.seq = 0
        self.lock = threading.Lock()


class Drifts:
    """Estimates of several campaigns, each kept up to date from where its log was read last."""

    def __init__(self) -> None:
        self._known: dict[str, _Known] = {}
        self._lock = threading.Lock()

    def view(self, session: Session, campaign: Campaign) -> DriftView:
        """Say what is known of a campaign's drift."""
        if campaign.spec.probe is None:
            return DriftView(
                False, 0, None, None, None, LEVEL,
                "This campaign has no probe, so its drift can't be told from its averages. "
                "Payments follow past ratings, which fools every other estimate.",
            )  # fmt: skip
        name = campaign.books.campaign
        with self._lock:
            if len(self._known) > MOST_KNOWN:
                self._known.clear()
            known = self._known.setdefault(name, _Known(DriftEstimator()))
        with known.lock:
            for _, body, _ in trusted_events(session, name, campaign.number, known.seq):
                _follow(known, log.decode(body))
            if known.estimator.probes < 2:
                few = "Too few probed offers have been rated so far."
                return DriftView(True, known.estimator.probes, None, None, None, LEVEL, few)
            found = known.estimator.estimate(LEVEL)
        note = found.warning or "From a randomised probe."
        return DriftView(True, found.observations, found.slope, found.low, found.high, LEVEL, note)


def _follow(known: _Known, event: log.Event) -> None:
    """Take one event into the estimate.

    A rating that is changed or taken back later has told of the drift all the same: it was given
    by somebody whom the coin did not choose.
    """
    known.seq = event.seq
    match event:
        case log.Rated(arm=arm, rating=rating, payment=payment):
            known.estimator.add(arm, payment, rating, log.COINS[event.probe], event.probe_amount)
        case log.OrganicRated(arm=arm, rating=rating):
            known.estimator.add(arm, 0.0, rating)
        case _:
            pass
