"""The live drift estimate, from a randomised probe alone, with its confidence interval."""

from __future__ import annotations

import itertools
import random
import threading

from entice.api_types import ArmDriftView, DriftBoundsView, DriftView
from entice.estimate import DriftEstimator, ResponseBounds
from entice.service.domain import events as log
from entice.service.domain.campaign import Campaign
from entice.service.storage.event_log import PAGE, verified_events
from entice.service.storage.store import Session
from entice.service.storage.unit_of_work import OFFER, offer_from_row

LEVEL = 0.95
"""The confidence level of the interval."""
MAX_CACHED = 1000
"""Maximum number of cached estimates.

A random one is evicted. A scrape of the metrics reads all campaigns in turn, so the least recently
used estimate is the next one to be used, and no estimate would ever be completed."""


class _CampaignEstimate:
    """The estimate of one campaign, up to event `seq`."""

    def __init__(self, estimator: DriftEstimator) -> None:
        self.estimator = estimator
        self.arms: dict[str, _Sums] = {}
        self.open_heads: dict[int, tuple[float, int]] = {}
        """The probe's amount and the cost of each open offer after heads, by its number."""
        self.seq = 0
        self.lock = threading.Lock()

    def rated(self, arm: str, count: int, rating: int, paid: float) -> None:
        sums = self.arms.setdefault(arm, _Sums())
        sums.ratings += count
        sums.total += rating
        sums.paid += paid


class _Sums:
    """The sums over the ratings of one arm."""

    def __init__(self) -> None:
        self.ratings = 0
        self.total = 0
        self.paid = 0.0


class DriftEstimates:
    """Drift estimates of several campaigns, updated incrementally from their logs."""

    def __init__(self) -> None:
        self._estimates: dict[str, _CampaignEstimate] = {}
        self._lock = threading.Lock()

    def advance(self, session: Session, campaign: Campaign, events: int) -> bool:
        """Read up to so many events that the estimate lacks; return whether it is complete."""
        estimate = self._estimate(campaign)
        with estimate.lock:
            self._read(session, campaign, estimate, events)
            return estimate.seq >= campaign.state.seq

    def view(self, session: Session, campaign: Campaign) -> DriftView:
        """Return the drift estimate of a campaign."""
        if campaign.spec.probe is None:
            return DriftView(
                False, 0, None, None, None, LEVEL,
                "This campaign has no probe, so its drift can't be estimated. Payments depend on "
                "past ratings, which biases every estimate without randomisation.",
            )  # fmt: skip
        estimate = self._estimate(campaign)
        with estimate.lock:
            self._read(session, campaign, estimate)
            if estimate.estimator.probes < 2:
                few = "Too few probed offers have been rated so far."
                probes, arms = estimate.estimator.probes, _arms(estimate, None)
                return DriftView(True, probes, None, None, None, LEVEL, few, arms)
            result = estimate.estimator.estimate(LEVEL)
            # Do not correct by a slope that may be mostly noise.
            arms = _arms(estimate, None if result.warning else result.slope)
        note = result.warning or "From a randomised probe."
        return DriftView(
            True, result.observations, result.slope, result.low, result.high, LEVEL, note, arms,
            _bounds_view(result.bounds),
        )  # fmt: skip

    def _estimate(self, campaign: Campaign) -> _CampaignEstimate:
        with self._lock:
            name = campaign.state.campaign
            if name not in self._estimates:
                if len(self._estimates) >= MAX_CACHED:
                    del self._estimates[random.choice(list(self._estimates))]
                self._estimates[name] = _CampaignEstimate(DriftEstimator())
            return self._estimates[name]

    def _read(
        self,
        session: Session,
        campaign: Campaign,
        estimate: _CampaignEstimate,
        events: int | None = None,
    ) -> None:
        """Add events to an estimate: all that it lacks, or so many."""
        name, number = campaign.state.campaign, campaign.number
        page = PAGE if events is None else events
        found = verified_events(session, name, number, estimate.seq, page)
        for _, body, _ in itertools.islice(found, events):
            _apply(estimate, log.decode(body), session, campaign)


def _bounds_view(bounds: ResponseBounds | None) -> DriftBoundsView | None:
    if bounds is None:
        return None
    return DriftBoundsView(
        bounds.low, bounds.high, bounds.heads, bounds.heads_rated, bounds.tails, bounds.tails_rated,
        bounds.p_value, bounds.differs,
    )  # fmt: skip


def _arms(estimate: _CampaignEstimate, slope: float | None) -> list[ArmDriftView]:
    views = []
    for arm, sums in estimate.arms.items():
        if sums.ratings > 0:
            paid, average = sums.paid / sums.ratings, sums.total / sums.ratings
            corrected = None if slope is None else average - slope * paid
            views.append(ArmDriftView(arm, paid, corrected))
    return views


def _apply(
    estimate: _CampaignEstimate, event: log.Event, session: Session, campaign: Campaign
) -> None:
    """Add an event to the estimate.

    A rating that is later changed or reversed still counts in the slope. This causes no bias, since
    the coin does not determine who changes it. The averages contain only the ratings that count
    now. All probed offers count as offers, accepted or not, because the coin may also determine who
    accepts. An offer accepted for less counts neither as an offer nor as a probe.
    """
    estimate.seq = event.seq
    match event:
        case log.Rated(in_averages=False) | log.Revised(in_averages=False):
            pass
        case log.Offered(probe=probe, probe_amount=amount, shadow=False) if probe is not None:
            assert amount is not None
            heads = log.COINS[probe] == 1
            estimate.estimator.add_offer(int(heads), amount)
            if heads:
                estimate.open_heads[event.n] = amount, event.amount
        case log.Accepted(n=n, paid=paid):
            opened = estimate.open_heads.pop(n, None)
            if opened is not None and opened[1] != paid:
                estimate.estimator.add_offer(1, opened[0], count=-1)
        case log.Declined(n=n) | log.Expired(n=n) | log.Voided(n=n):
            estimate.open_heads.pop(n, None)
        case log.Rated(arm=arm, rating=rating, payment=payment):
            estimate.estimator.add(arm, payment, rating, log.COINS[event.probe], event.probe_amount)
            estimate.rated(arm, 1, rating, payment)
        case log.OrganicRated(arm=arm, rating=rating):
            estimate.estimator.add(arm, 0.0, rating)
            estimate.rated(arm, 1, rating, 0.0)
        case log.Revised(arm=arm, rating=rating, before=before):
            estimate.rated(arm, 0, rating - before, 0.0)
        case log.Reversed(n=n):
            where = "WHERE campaign = ? AND n = ?"
            rows = session.rows(f"{OFFER.select} {where}", (campaign.number, n))
            offer = offer_from_row(campaign.number, rows[0])
            if offer.rating is not None and campaign.feeds_averages(offer.player):
                stars = campaign.stars_paid(offer)
                estimate.rated(campaign.state.arms[offer.arm], -1, -offer.rating, -stars)
        case _:
            pass
