"""Metrics for Prometheus. The help text of each gauge that must be 0 says so."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

import msgspec
from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead
from prometheus_client.registry import Collector

from entice.api_types import AlertKind, AlertView
from entice.errors import EnticeError
from entice.service.domain.campaign_state import CampaignState
from entice.service.storage.store import Session, Store
from entice.service.storage.unit_of_work import load_all_states
from entice.service.storage.webhooks import Webhook, read_webhooks

MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_SECOND_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
_SIZE_BUCKETS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
_CACHE_SECONDS = 5.0

disable_created_metrics()  # type: ignore[no-untyped-call]


class CampaignGauges(msgspec.Struct, frozen=True):
    """The gauges of a campaign, from one snapshot."""

    id: str
    budget: int
    reserved: int
    committed: int
    decisions: int
    open: int
    """Total amount of the open offers."""
    written: int
    """Sequence number of the last event in the log."""
    seq: int
    """Sequence number of the last event in the campaign's row."""


class RatingGauges(msgspec.Struct, frozen=True):
    """The gauges of a campaign's ratings, from one snapshot."""

    id: str
    share_who_rate: float
    arms_without_ratings: int


class ServiceGauges(msgspec.Struct, frozen=True):
    """All gauges, from one snapshot."""

    campaigns: list[CampaignGauges]
    ratings: list[RatingGauges]
    alerts: dict[str, frozenset[AlertKind]]
    """The alerts of each campaign, by its id."""
    damaged: int
    """Number of campaigns whose rows are damaged."""
    webhooks: list[Webhook]
    clock_ahead: float


class Metrics:
    """The metrics of a process. With several processes, a scrape returns their sums."""

    def __init__(self, gauges: Callable[[], ServiceGauges], depth: Callable[[], int]) -> None:
        registry = CollectorRegistry()
        self._registry = registry
        self._gauges = _Gauges(gauges)
        self._requests = Counter(
            "entice_requests",
            "Requests answered.",
            ["method", "route", "status"],
            registry=registry,
        )
        self._seconds = Histogram(
            "entice_request_seconds",
            "From the first byte of a request to the last byte of its response.",
            ["route"],
            buckets=_SECOND_BUCKETS,
            registry=registry,
        )
        self._sizes = Histogram(
            "entice_group_size",
            "Commands committed together.",
            buckets=_SIZE_BUCKETS,
            registry=registry,
        )
        self._commits = Histogram(
            "entice_commit_seconds",
            "From the first command of a group to its durable commit.",
            buckets=_SECOND_BUCKETS,
            registry=registry,
        )
        self._depth = Gauge(
            "entice_queue_depth",
            "Commands that wait for the writer.",
            multiprocess_mode="livesum",
            registry=registry,
        )
        self._streams = Gauge(
            "entice_open_streams",
            "Open event streams.",
            multiprocess_mode="livesum",
            registry=registry,
        )
        self._dropped = Counter(
            "entice_log_lines_dropped",
            "Log lines that could not be written in time.",
            registry=registry,
        )
        self._webhook_requests = Counter(
            "entice_webhook_requests",
            "Requests to webhooks, by whether the receiver confirmed them.",
            ["result"],
            registry=registry,
        )
        self._webhook_events = Counter(
            "entice_webhook_events", "Events delivered to webhooks.", registry=registry
        )
        for result in ("delivered", "failed"):
            self._webhook_requests.labels(result)
        self._read_depth = depth
        self._answered: dict[tuple[str, str, int], tuple[Counter, Histogram]] = {}

    def count_request(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count a request."""
        found = self._answered.get((method, route, status))
        if found is None:
            found = (
                self._requests.labels(method, route, str(status)),
                self._seconds.labels(route),
            )
            self._answered[method, route, status] = found
        found[0].inc()
        found[1].observe(seconds)

    def commit(self, size: int, seconds: float) -> None:
        """Count a group of commands that the writer has committed."""
        self._sizes.observe(size)
        self._commits.observe(seconds)
        self._depth.set(self._read_depth())

    def count_streams(self, change: int) -> None:
        """Count streams that were opened (positive) or closed (negative)."""
        self._streams.inc(change)

    def count_dropped_lines(self, lines: int) -> None:
        """Count log lines that were dropped."""
        self._dropped.inc(lines)

    def count_webhook(self, events: int | None) -> None:
        """Count a request to a webhook that delivered events; None: it failed."""
        self._webhook_requests.labels("failed" if events is None else "delivered").inc()
        self._webhook_events.inc(events or 0)

    def text(self) -> bytes:
        """Return all metrics in Prometheus' text format."""
        self._depth.set(self._read_depth())
        if "PROMETHEUS_MULTIPROC_DIR" in os.environ:
            remove_dead_processes()
            registry = CollectorRegistry()
            MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
            return generate_latest(registry) + generate_latest(self._gauges)
        return generate_latest(self._registry) + generate_latest(self._gauges)


class _Gauges(Collector):
    """Gauges read from the database, at most every `_CACHE_SECONDS`."""

    def __init__(self, read: Callable[[], ServiceGauges]) -> None:
        self._read = read
        self._lock = threading.Lock()
        self._known: ServiceGauges | None = None
        self._read_at = -_CACHE_SECONDS

    def collect(self) -> Iterable[GaugeMetricFamily]:
        with self._lock:
            if time.monotonic() - self._read_at > _CACHE_SECONDS:
                try:
                    self._known = self._read()
                except EnticeError:
                    self._known = None
                self._read_at = time.monotonic()
            known = self._known
        yield GaugeMetricFamily(
            "entice_database_up",
            "Whether the database could be read. Must be 1.",
            value=float(known is not None),
        )
        if known is not None:
            yield from _families(known)


def _families(known: ServiceGauges) -> Iterator[GaugeMetricFamily]:
    gauges: dict[str, tuple[str, Callable[[CampaignGauges], int]]] = {
        "budget": ("Budget in minor units.", lambda c: c.budget),
        "reserved": ("Money held by open offers.", lambda c: c.reserved),
        "committed": ("Money paid.", lambda c: c.committed),
        "free": (
            "Money neither reserved nor committed.",
            lambda c: c.budget - c.reserved - c.committed,
        ),
        "decisions": ("Offers made since the campaign was created.", lambda c: c.decisions),
        "overdrawn": (
            "Money beyond the budget. Must be 0.",
            lambda c: max(0, c.reserved + c.committed - c.budget),
        ),
        "reserved_gap": (
            "Money reserved, less the sum of open offers. Must be 0.",
            lambda c: c.reserved - c.open,
        ),
        "log_gap": (
            "Events counted in the campaign's row but missing from the log. Must be 0.",
            lambda c: c.seq - c.written,
        ),
    }
    for name, (help_text, value) in gauges.items():
        family = GaugeMetricFamily(f"entice_campaign_{name}", help_text, labels=["campaign"])
        for campaign in known.campaigns:
            family.add_metric([campaign.id], value(campaign))
        yield family
    share = GaugeMetricFamily(
        "entice_campaign_share_who_rate",
        "Share of accepted offers that are rated, by the age that offers have reached so far.",
        labels=["campaign"],
    )
    unrated = GaugeMetricFamily(
        "entice_campaign_arms_without_ratings",
        "Arms without a rating although their offers should have brought at least three.",
        labels=["campaign"],
    )
    for ratings in known.ratings:
        share.add_metric([ratings.id], ratings.share_who_rate)
        unrated.add_metric([ratings.id], ratings.arms_without_ratings)
    yield from (share, unrated)
    alerts = GaugeMetricFamily(
        "entice_campaign_alert",
        "Whether a campaign has an alert, by its rule. 1 needs attention.",
        labels=["campaign", "alert"],
    )
    for campaign_id, kinds in known.alerts.items():
        for kind in AlertKind:
            alerts.add_metric([campaign_id, kind], kind in kinds)
    yield alerts
    yield from _webhook_families(known.webhooks)
    yield GaugeMetricFamily(
        "entice_campaigns_damaged",
        "Campaigns that are not served because their row is damaged. Must be 0.",
        value=known.damaged,
    )
    yield GaugeMetricFamily(
        "entice_clock_ahead_seconds",
        "Seconds by which the log's clock is ahead of the wall clock. Must be near 0.",
        value=known.clock_ahead,
    )


def _webhook_families(webhooks: Iterable[Webhook]) -> Iterator[GaugeMetricFamily]:
    gauges: dict[str, tuple[str, Callable[[Webhook], int]]] = {
        "lag": ("Events not delivered to the webhook yet.", lambda w: w.head - w.delivered),
        "failures": (
            "Failed requests since the last success.",
            lambda w: w.failures,
        ),
        "paused": ("Whether the webhook is paused.", lambda w: w.paused is not None),
    }
    for name, (help_text, value) in gauges.items():
        labels = ["campaign", "webhook"]
        family = GaugeMetricFamily(f"entice_webhook_{name}", help_text, labels=labels)
        for webhook in webhooks:
            family.add_metric([webhook.campaign, webhook.id], value(webhook))
        yield family


def remove_dead_processes() -> None:
    """Exclude the live gauges of processes that have ended."""
    for file in Path(os.environ["PROMETHEUS_MULTIPROC_DIR"]).glob("gauge_live*_*.db"):
        process = int(file.stem.rpartition("_")[2])
        try:
            os.kill(process, 0)
        except ProcessLookupError:
            mark_process_dead(process)  # type: ignore[no-untyped-call]


def read_gauges(
    store: Store,
    find_alerts: Callable[[Session, list[CampaignState]], Mapping[str, Iterable[AlertView]]],
    clock_ahead: Callable[[], float],
) -> ServiceGauges:
    """Read all gauges from one snapshot of the database."""
    with store.read() as session:
        campaigns = read_campaign_gauges(session)
        states, damaged = load_all_states(session)
        webhooks = read_webhooks(session)
        found = find_alerts(session, states)
    alerts = {name: frozenset(alert.kind for alert in each) for name, each in found.items()}
    ratings = list(_rating_gauges(states))
    return ServiceGauges(campaigns, ratings, alerts, len(damaged), webhooks, clock_ahead())


def _rating_gauges(states: Iterable[CampaignState]) -> Iterator[RatingGauges]:
    """Return the rating gauges of campaigns that have made offers."""
    for state in states:
        expected = state.expectation
        if expected.share is not None:
            without = len(state.without_first_rating(expected))
            yield RatingGauges(state.campaign, expected.share, without)


def read_campaign_gauges(session: Session, only: str | None = None) -> list[CampaignGauges]:
    """Read the gauges of all campaigns, or of one."""
    where, params = ("", ()) if only is None else ("WHERE c.id = ? ", (only,))
    rows = session.rows(
        "SELECT c.id, c.budget, c.reserved, c.committed, "
        "coalesce((SELECT max(n) FROM offers o WHERE o.campaign = c.number), 0), "
        f"coalesce((SELECT sum(cost) FROM offers AS o{session.index_hint('live_offers')} "
        "WHERE o.campaign = c.number AND o.state = 0), 0), "
        "coalesce((SELECT max(seq) FROM events e WHERE e.campaign = c.number), 0), c.seq "
        f"FROM campaigns c {where}ORDER BY c.number",
        params,
    )
    return [CampaignGauges(name, *(int(value) for value in row)) for name, *row in rows]
