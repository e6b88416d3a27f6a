"""Spending over time, against a reference that folds the whole log."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest
from postgres import Postgres, postgres
from service_fixtures import service as over_http
from writer_fixtures import Service, hashed
from writer_fixtures import service as on_sqlite

from entice.api_types import SpendingView
from entice.model.probe import Probe
from entice.service.domain.commands import (
    Accept,
    ChangeCampaign,
    Decline,
    EnterRatings,
    Expire,
    MakeOffer,
    MakeOffers,
    Organic,
    Rate,
    Reverse,
)
from entice.service.domain.errors import Corrupt
from entice.service.domain.views import to_datetime
from entice.service.storage import queries, spending
from entice.service.storage.spending import By, Point, Series

__all__ = ["on_sqlite", "postgres"]


@pytest.fixture(params=["sqlite", "postgresql"])
def service(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Service]:
    url = None
    if request.param == "postgresql":
        server: Postgres = request.getfixturevalue("postgres")
        url = server.new_database()
    made = Service(tmp_path / "entice.db", url)
    yield made
    made.close()


# The reference


class State(NamedTuple):
    """A campaign's money after one event, by the reference."""

    at: Any
    offers: int
    committed: int
    reserved: int
    budget: int
    paced: int | None


def states(service: Service, campaign: str) -> list[State]:
    """Fold the log: the reserved and paid amount of each offer."""
    found: list[State] = []
    settings: dict[str, Any] = {}
    reserved: dict[int, int] = {}
    paid: dict[int, int] = {}
    offers = 0
    for view in service.queries.events(campaign, 0, 10**6):
        event = msgspec.json.decode(view.body)
        n = event.get("n", 0)
        settings |= event.get("spec", {}) | event.get("changes", {})
        if event["kind"] == "offered":
            offers += 1
            reserved[n] = 0 if event.get("shadow") else event["amount"]
        if event["kind"] in ("accepted", "declined", "expired", "voided"):
            reserved[n] = 0
        if event["kind"] == "accepted":
            paid[n] = event["paid"]
        if event["kind"] == "reversed":
            paid[n] = 0
        budget, over = settings["budget"], settings.get("pace_over")
        paced = None
        if over is not None:
            paced = int(budget * min(1.0, math.log(2 + offers) / math.log(1 + over)))
        committed, held = sum(paid.values()), sum(reserved.values())
        found.append(State(view.at, offers, committed, held, budget, paced))
    return found


def rows(view: SpendingView) -> list[State]:
    columns = (view.at, view.offers, view.committed, view.reserved, view.budget, view.paced)
    return [State(*row) for row in zip(*columns, strict=True)]


def run_random_commands(service: Service, campaign: str, seed: int, steps: int) -> None:
    """Run random commands that change money, with short and long pauses."""
    chance = random.Random(seed)
    offered: list[dict[str, Any]] = []
    taken: list[str] = []
    for step in range(steps):
        service.later(chance.choice([0, 0.001, 1, 60, 5_000]))
        deed = chance.choice(
            ["offer"] * 5 + ["take"] * 4 + ["rate", "decline", "reverse", "change"]
        )
        if deed == "offer":
            shown = {arm: chance.uniform(1, 5) for arm in "abc"}
            offered.append(service.offer(campaign, step, displayed=shown))
        elif deed == "take" and offered:
            offer = offered.pop(chance.randrange(len(offered)))
            if _is_open(service, offer["id"]):
                amount = chance.choice([None, offer["amount"] // 2])
                service.do(Accept(offer["id"], amount))
                taken.append(offer["id"])
        elif deed == "decline" and offered:
            offer = offered.pop()
            if _is_open(service, offer["id"]):
                service.do(Decline(offer["id"]))
        elif deed == "rate" and taken:
            service.do(Rate(chance.choice(taken), chance.randint(1, 5)))
        elif deed == "reverse" and taken:
            service.do(Reverse(taken.pop(chance.randrange(len(taken)))))
        elif deed == "change":
            budget, reserved, committed = service.money(campaign)
            change = chance.choice(
                [
                    {"budget": max(reserved + committed, budget + chance.randint(-5_000, 9_000))},
                    {"pace_over": chance.choice([None, 50, 1_000])},
                    {"status": chance.choice(["live", "shadow", "paused", "live"])},
                ]
            )
            service.do(ChangeCampaign(campaign=campaign, **change))
        if chance.random() < 0.1:
            service.do(Expire(campaign))


def _is_open(service: Service, name: str) -> bool:
    """Return whether an offer can be accepted or declined, also in shadow mode."""
    service.do(Expire(name.partition(".")[0]))
    offer = service.queries.offer(name).offer
    return offer.state in ("offered", "shadow") and offer.expires_at > to_datetime(service.clock.at)


@pytest.mark.parametrize("by", ["date", "offer"])
def test_each_point_is_a_state_of_the_log(service: Service, by: By) -> None:
    campaign = service.create(offer_expires_after=900)
    run_random_commands(service, campaign, seed=7, steps=300)
    service.do(ChangeCampaign(campaign=campaign, status="live"))
    service.offer(campaign, 10**6)
    service.do(ChangeCampaign(campaign=campaign, status="closed"))  # voids open offers
    truth = states(service, campaign)
    events = [msgspec.json.decode(e.body) for e in service.queries.events(campaign, 0, 10**6)]
    assert {event["kind"] for event in events} >= {
        "offered", "accepted", "declined", "expired", "voided", "rated", "reversed", "changed",
    }  # fmt: skip
    shadow = {e["n"] for e in events if e.get("shadow")}
    assert shadow & {e["n"] for e in events if e["kind"] == "accepted"}
    assert any(state.paced is not None for state in truth)
    assert min(b.committed - a.committed for a, b in pairwise(truth)) < 0
    for most in (2, 3, 10, 50, 1000):
        view = service.queries.spending(campaign, by, most)
        points = rows(view)
        assert 2 <= len(points) <= most
        assert (points[0], points[-1]) == (truth[0], truth[-1])
        assert (view.through, view.events) == (len(truth), len(truth))
        at = [truth.index(point) for point in points]  # each point is a state …
        assert at == sorted(set(at))  # … in order
    last = service.queries.campaign(campaign)
    now = points[-1]
    assert (now.committed, now.reserved, now.budget, now.paced) == (
        last.committed, last.reserved, last.budget, last.paced,
    )  # fmt: skip


def test_a_short_history_is_returned_in_full(service: Service) -> None:
    campaign = service.create()
    run_random_commands(service, campaign, seed=3, steps=120)
    truth = states(service, campaign)
    last = {state.offers: state for state in truth}  # the state when the next offer was made
    points = rows(service.queries.spending(campaign, "offer", 1000))
    assert points[1:] == [last[n] for n in sorted(last)][-len(points) + 1 :]
    assert {point.offers for point in points} == set(last)


@pytest.mark.parametrize("by", ["date", "offer"])
def test_points_are_spread_over_the_whole_history(on_sqlite: Service, by: By) -> None:
    service = on_sqlite
    campaign = service.create(budget=10**7)
    for hour in range(150):
        batch = [MakeOffer(campaign, hashed(10 * hour + i)) for i in range(10)]
        for offer in service.do(MakeOffers(campaign, batch))["offers"][:3]:
            service.do(Accept(offer["id"]))
        service.later(3600)
    points = rows(service.queries.spending(campaign, by, 100))
    assert 50 <= len(points) <= 100
    where = [p.offers if by == "offer" else p.at.timestamp() for p in points]
    gaps = [b - a for a, b in pairwise(where)]
    assert max(gaps) <= 3 * (where[-1] - where[0]) / len(gaps)


def test_updates_continue_from_the_last_event_read(service: Service) -> None:
    campaign = service.create()
    for seed in range(5):
        run_random_commands(service, campaign, seed, steps=20 if seed else 0)
        service.later(1000)
        service.do(Expire(campaign))
        for by in ("date", "offer"):
            points = rows(service.queries.spending(campaign, by, 1000))  # type: ignore[arg-type]
            assert points[-1] == states(service, campaign)[-1]
            # Reading in steps or at once gives the same result.
            assert points == rows(type(service.queries)(service.store).spending(campaign, by, 1000))  # type: ignore[arg-type]


def test_a_new_campaign_has_one_point(service: Service) -> None:
    campaign = service.create(pace_over=100)
    assert rows(service.queries.spending(campaign)) == states(service, campaign)
    assert len(states(service, campaign)) == 1


@pytest.mark.parametrize("by", ["date", "offer"])
def test_a_period_has_the_first_point_once(on_sqlite: Service, by: By) -> None:
    campaign = on_sqlite.create()
    for player in range(3):
        on_sqlite.later(60)
        on_sqlite.offer(campaign, player)
    everything = rows(on_sqlite.queries.spending(campaign, by))
    assert len(everything) == 4
    assert rows(on_sqlite.queries.spending(campaign, by, period=(0, None))) == everything


# Bounds


def test_a_request_reads_a_bounded_part_of_a_long_log(
    on_sqlite: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = on_sqlite
    campaign = service.create(budget=10**7)
    batch = [MakeOffer(campaign, hashed(i)) for i in range(900)]
    service.do(MakeOffers(campaign, batch))
    service.do(EnterRatings(campaign, [Organic("a", 3)] * 50))
    monkeypatch.setattr(spending, "MAX_READ", 30_000)
    truth = states(service, campaign)
    read: list[int] = []
    for _ in range(100):
        view = service.queries.spending(campaign, "offer", 1000)
        read.append(view.through)
        assert view.events == len(truth)
        assert rows(view)[-1] == truth[view.through - 1]
        if view.through == view.events:
            break
    parts = [b - a for a, b in zip([0, *read], read, strict=False)]
    assert len(parts) > 5
    # An event takes more than 100 bytes.
    assert min(parts) > 0
    assert max(parts) <= 30_000 / 100
    fresh = type(service.queries)(service.store)
    monkeypatch.setattr(spending, "MAX_READ", 10**9)
    assert rows(fresh.spending(campaign, "offer", 1000)) == rows(view)


def test_memory_is_bounded() -> None:
    series = Series(lambda point: point.offers, 1, most=16)
    before = Point(0, 0, 0, 0, 0, None)
    for n in range(1, 100_000):
        after = Point(n, n, n, 0, 0, None)
        series.add(n, before)
        before = after
        assert len(series.points) <= 16
    ends = [point.offers for point in series.points]
    steps = {b - a for a, b in pairwise(ends)}
    assert ends[0] == 8191 == ends[1] - 8192  # the last of each interval of 2¹³ offers
    assert steps == {8192}
    assert [p.offers for p in series.thinned(6)] == [16383, 32767, 49151, 65535, 81919, 98303]
    assert series.thinned(0) == []


def test_the_least_recently_read_campaigns_are_evicted(
    on_sqlite: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spending, "MAX_CACHED", 3)
    names = [on_sqlite.create(name=f"{i}") for i in range(5)]
    for name in (*names, names[4], names[2], names[0]):
        assert on_sqlite.queries.spending(name).through == 1
    assert list(on_sqlite.queries._spendings._cached) == [names[4], names[2], names[0]]


def test_a_log_that_does_not_add_up_is_rejected(on_sqlite: Service) -> None:
    service = on_sqlite
    campaign = service.create()
    service.rated(campaign, 1, 4)
    service.queries.spending(campaign)
    cached = service.queries._spendings._cached[campaign]
    cached._last = cached._last._replace(committed=1)
    with pytest.raises(Corrupt, match="does not add up"):
        service.queries.spending(campaign)


def test_an_altered_event_is_rejected(on_sqlite: Service) -> None:
    service = on_sqlite
    campaign = service.create()
    service.rated(campaign, 1, 4)
    with service.store.write() as session:
        [[body]] = session.rows("SELECT body FROM events WHERE seq = 3")
        session.run("UPDATE events SET body = ? WHERE seq = 3", (body.replace(b"1", b"2"),))
    with pytest.raises(Corrupt, match="Event 3 "):
        service.queries.spending(campaign)


# Over HTTP


def test_the_spending_operation(tmp_path: Path) -> None:
    with over_http(tmp_path) as service:
        campaign = service.campaign()
        path = f"/v1/campaigns/{campaign}/spending"
        for i in range(5):
            offer = service.offer(campaign, f"{i}", displayed={"oolong": 5.0})
            assert service.client.post(f"/v1/offers/{offer['id']}/accept").status_code == 200
        spending = service.client.get(path, params={"by": "offer", "points": 3}).json()
        view = service.client.get(f"/v1/campaigns/{campaign}").json()
        assert spending["offers"][0] == 0
        assert spending["offers"][-1] == 5
        assert spending["committed"][-1] == view["committed"]
        assert spending["through"] == spending["events"] == view["events"] == 11
        assert spending["at"][0] == view["created_at"]
        for wrong, words in (
            ("by=week", "by has an unknown value 'week'. Allowed: date, offer."),
            ("points=1", "points must be a whole number from 2 to 1000; got '1'."),
            ("points=1001", "points must be a whole number from 2 to 1000; got '1001'."),
        ):
            answer = service.client.get(f"{path}?{wrong}")
            assert answer.status_code == 422
            assert answer.json()["detail"] == words
        assert service.client.get("/v1/campaigns/c_none/spending").status_code == 404


def test_the_database_searches_offers_by_reason(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On both databases; beside the spending, whose fixture this is."""
    campaign = service.create(probe=Probe(share=0.5, amount=0.2))
    service.do(EnterRatings(campaign, [Organic("a", 5)] * 40))
    batch = [MakeOffer(campaign, hashed(player)) for player in range(60)]
    made = service.do(MakeOffers(campaign, batch))["offers"]
    reasons = {offer["reason"] for offer in made}
    assert len(reasons) > 1
    decoded: list[Any] = []
    original = queries.offer_from_row

    def recorded(number: int, row: Any) -> Any:
        decoded.append(row)
        return original(number, row)

    monkeypatch.setattr(queries, "offer_from_row", recorded)
    for reason in reasons:
        expected = [offer["decision"] for offer in made if offer["reason"] == reason][::-1]
        decoded.clear()
        page = service.queries.offers(campaign, reason=reason)
        assert [offer.decision for offer in page.offers] == expected
        assert len(decoded) == len(expected)  # no other row is decoded
