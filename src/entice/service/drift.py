"""The live drift estimate: from a randomised probe alone, with its interval."""

from __future__ import annotations

import threading

import msgspec

from entice.errors import InputError
from entice.estimate import DriftEstimator
from entice.service import events as log
from entice.service.campaign import Campaign
from entice.service.errors import invalid
from entice.service.store import Session
from entice.service.work import trusted_events


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


class _Known(msgspec.Struct):
    estimator: DriftEstimator
    seq: int = 0


class Drifts:
    """Estimates of several campaigns, each kept up to date from where its log was read last."""

    def __init__(self) -> None:
        self._known: dict[str, _Known] = {}
        self._lock = threading.Lock()

    def view(self, session: Session, campaign: Campaign, level: float) -> DriftView:
        """Say what is known of a campaign's drift."""
        if campaign.spec.probe is None:
            return DriftView(
                False, 0, None, None, None, level,
                "This campaign has no probe, so its drift can't be told from its averages. "
                "Payments follow past ratings, which fools every other estimate.",
            )  # fmt: skip
        with self._lock:
            known = self._caught_up(session, campaign)
            try:
                found = known.estimator.estimate(level)
            except InputError as error:
                if error.name == "level":
                    raise invalid(str(error)) from error
                return DriftView(
                    True, known.estimator.probes, None, None, None, level,
                    "Too few probed offers have been rated so far.",
                )  # fmt: skip
        note = found.warning or "From a randomised probe."
        return DriftView(True, found.observations, found.slope, found.low, found.high, level, note)

    def _caught_up(self, session: Session, campaign: Campaign) -> _Known:
        name = campaign.books.campaign
        known = self._known.get(name)
        if known is None:
            known = self._known[name] = _Known(DriftEstimator())
        for _, body, _ in trusted_events(session, name, campaign.number, known.seq):
            _follow(known, log.decode(body))
        return known


def _follow(known: _Known, event: log.Event) -> None:
    """Take one event into the estimate.

    A rating that is changed or taken back later has told of the drift all the same: it was given
    by somebody whom the coin did not choose.
    """
    known.seq = event.seq
    match event:
        case log.Rated(arm=arm, rating=rating, payment=payment):
            coin = {"heads": 1, "tails": 0, None: None}[event.probe]
            known.estimator.add(arm, payment, rating, coin, event.probe_amount)
        case log.OrganicRated(arm=arm, rating=rating):
            known.estimator.add(arm, 0.0, rating)
        case _:
            pass
