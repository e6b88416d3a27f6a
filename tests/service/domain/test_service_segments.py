"""Segments of a campaign: averages and counts by definition, replay, and bad input."""

from __future__ import annotations

import json
import random
from typing import Any

import msgspec
import numpy as np
import pytest
from live_campaign import Response, play_live
from log_forging import fault_of, forge_state, tampering
from oracles import segments as reference
from oracles.in_flight import ReferenceInFlight
from writer_fixtures import Service, hashed, service

import entice
from entice.errors import InputError
from entice.service.domain import events as log
from entice.service.domain.campaign_state import CampaignState
from entice.service.domain.commands import (
    Accept,
    AddArms,
    Decline,
    EnterRatings,
    Expire,
    MakeOffer,
    MakeOffers,
    Organic,
    Rate,
    RetireArm,
    Reverse,
)
from entice.service.domain.spec import CampaignSpec
from entice.service.storage.queries import load_state

__all__ = ["service"]

SEGMENTS = ["new", "regular", "gone"]
MEANS = {"new": (5, 2, 3), "regular": (2, 5, 3), "gone": (3, 3, 4)}
DAY = 24 * 3600


def state_of(service: Service, campaign: str) -> CampaignState:
    with service.store.read() as session:
        return load_state(session, campaign)


def offered_events(service: Service, campaign: str) -> list[log.Offered]:
    with service.store.read() as session:
        rows = session.rows("SELECT body FROM events ORDER BY seq")
    events = [log.decode(body) for (body,) in rows]
    return [e for e in events if isinstance(e, log.Offered) and e.campaign == campaign]


class Reference:
    """The ratings of each segment and arm, kept beside the service, and its in-flight offers."""

    def __init__(self, arms: list[str], window: int) -> None:
        self.arms = arms
        self.organic: list[tuple[str, str, int]] = []
        self.rated: dict[str, tuple[str, str, int]] = {}
        self.flight = ReferenceInFlight(window * 1_000_000)

    def check(self, offered: log.Offered, now: int, zero_to_one: bool) -> None:
        """Compare what a visitor saw, and the policy's counts, with their definitions."""
        self.flight.update_ages(now)
        cells: list[list[list[float]]] = [[[] for _ in self.arms] for _ in SEGMENTS]
        for segment, arm, stars in [*self.organic, *self.rated.values()]:
            seen = (stars - 1) / 4 if zero_to_one else float(stars)
            cells[SEGMENTS.index(segment)][self.arms.index(arm)].append(seen)
        assert offered.segment is not None
        own, lam = SEGMENTS.index(offered.segment), reference.strength(cells)
        prior = 0.5 if zero_to_one else 3.0
        assert offered.counts is not None
        for i, arm in enumerate(self.arms):
            shown = reference.average(cells, own, i, lam, prior)
            stars = 1 + 4 * shown if zero_to_one else shown
            assert offered.shown[i] == pytest.approx(stars, abs=1e-7)
            counts = [
                len(cells[s][i]) + self.flight.expected((arm, segment))
                for s, segment in enumerate(SEGMENTS)
            ]
            expected = reference.effective_count(counts, own, lam)
            assert offered.counts[i] == pytest.approx(expected, rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("zero_to_one", [False, True])
def test_averages_and_counts_are_those_of_the_definition(
    service: Service, zero_to_one: bool
) -> None:
    """Revised, reversed, organic, late and withdrawn ratings, and an arm that is added."""
    draw = random.Random(3)
    arms = ["a", "b", "c"]
    campaign = service.create(
        segments=SEGMENTS, overlap=0.3, offer_expires_after=60, rating_window=600,
        policy_sees="zero_to_one" if zero_to_one else "stars",
    )  # fmt: skip
    kept, accepted = Reference(arms, 600), []
    for visitor in range(150):
        service.later(draw.choice([1, 5, 40]))
        service.do(Expire(campaign))
        segment = draw.choice(SEGMENTS)
        offer = service.offer(campaign, visitor, segment=segment)
        name, arm, n = offer["id"], offer["arm"], offer["decision"]
        now = service.clock.at
        kept.check(offered_events(service, campaign)[-1], now, zero_to_one)
        kept.flight.begin(n, now, (arm, segment))
        if draw.random() < 0.1:
            service.do(Decline(name))
            kept.flight.end(n, now, "withdrawn")
            stars = draw.randint(1, 5)
            service.do(EnterRatings(campaign, [Organic("b", stars, segment)]))
            kept.organic.append((segment, "b", stars))
            continue
        service.do(Accept(name))
        accepted.append((n, name, segment, arm))
        chosen = draw.choice(accepted)
        for stars in draw.sample(range(1, 6), draw.randrange(3)):
            m, name, segment, arm = chosen
            if name not in kept.rated:
                kept.flight.end(m, now, "rated")
            service.do(Rate(name, stars))
            kept.rated[name] = segment, arm, stars
        if draw.random() < 0.1 and kept.rated:
            name = draw.choice(list(kept.rated))
            service.do(Reverse(name))
            del kept.rated[name]
            accepted = [one for one in accepted if one[1] != name]
        if visitor == 90:
            service.do(AddArms(campaign, ["d"]))
            service.do(RetireArm(campaign, "c", True))
            kept.arms.append("d")
    assert service.faults(campaign) == [None]
    view = service.queries.campaign(campaign)
    assert [segment.id for segment in view.segments] == SEGMENTS
    last = [*kept.organic, *kept.rated.values()]
    for segment in view.segments:
        for arm_view in segment.arms:
            own = [r for s, a, r in last if (s, a) == (segment.id, arm_view.id)]
            assert arm_view.rated == len(own)
            assert arm_view.average == (sum(own) / len(own) if own else None)
    # The views show what the next visitor sees.
    for segment in view.segments:
        service.offer(campaign, 1000 + SEGMENTS.index(segment.id), segment=segment.id)
        shown = offered_events(service, campaign)[-1].shown
        assert [arm_view.shown for arm_view in segment.arms] == pytest.approx(shown, abs=1e-12)


def test_one_segment_makes_the_offers_of_none(service: Service) -> None:
    ratings = np.random.default_rng(2).integers(1, 6, 300)

    def respond(visitor: int, offer: Any) -> Response:
        return Response(visitor % 7 > 0, "b", int(ratings[visitor]), visitor * DAY * 1000 + 10**9)

    played = [
        play_live(
            service.store,
            CampaignSpec(
                name="Tea", arms=["a", "b", "c"], budget=2_000, price_of_a_star=200, seed=7,
                holdout=0.1, overlap=0.1, segments=segments,
            ),
            300, 1000, respond, segment=lambda visitor, s=segments: s[0] if s else None,
        )
        for segments in ((), ("all",))
    ]  # fmt: skip
    none, one = (
        [{k: v for k, v in o.items() if k not in ("id", "campaign", "segment")} for o in run.offers]
        for run in played
    )
    assert none == one
    assert len({offer["reason"] for offer in none}) > 3
    assert {offer["segment"] for offer in played[1].offers} == {"all"}


def test_segments_learn_their_own_best_arms_from_one_budget(service: Service) -> None:
    campaign = service.create(segments=SEGMENTS, budget=3_000)
    for visitor in range(150):
        segment = SEGMENTS[visitor % 3]
        offer = service.offer(campaign, visitor, segment=segment)
        service.do(Accept(offer["id"]))
        service.do(Rate(offer["id"], MEANS[segment]["abc".index(offer["arm"])]))
    budget, reserved, committed = service.money(campaign)
    assert 0 < committed + reserved <= budget == 3_000
    for segment, own in zip(SEGMENTS, "abc", strict=True):
        assert service.offer(campaign, 999, segment=segment)["greedy_arm"] == own
        service.do(Decline(f"{campaign}.{state_of(service, campaign).decisions}"))
    assert service.faults(campaign) == [None]


def test_verify_detects_altered_ratings_of_a_segment(service: Service) -> None:
    campaign = service.create(segments=SEGMENTS)
    service.rated(campaign, 1, 4, segment="new")

    def move_to_another_segment(state: Any) -> None:
        for rows in (state.segments.pulls, state.segments.totals):
            rows[:] = [list(reversed(row)) for row in rows]

    with tampering(service) as connection:
        forge_state(connection, move_to_another_segment)
    assert "row differs" in fault_of(service, campaign)


def test_offers_name_a_segment_of_the_campaign(service: Service) -> None:
    campaign, plain = service.create(segments=SEGMENTS), service.create()
    rejected = {
        "none was given": MakeOffer(campaign, hashed(1)),
        "'vip'": MakeOffer(campaign, hashed(1), segment="vip"),
        "has no segments": MakeOffer(plain, hashed(1), segment="new"),
        "requests[1]": MakeOffers(
            campaign,
            [MakeOffer(campaign, hashed(1), segment="new"), MakeOffer(campaign, hashed(2))],
        ),
        "ratings[0]": EnterRatings(campaign, [Organic("a", 4)]),
    }
    for words, command in rejected.items():
        refusal = service.refusal(command)
        assert (refusal.status, words in refusal.detail) == (422, True), refusal.detail
        assert "segment" in refusal.detail
    assert "new, regular, gone" in service.refusal(MakeOffer(campaign, hashed(1))).detail
    assert state_of(service, campaign).decisions == state_of(service, plain).decisions == 0


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"segments": "new"}, "must be a list of 0 to 32 ids"),
        ({"segments": [f"s{i}" for i in range(33)]}, "must be a list of 0 to 32 ids"),
        ({"segments": ["new", "new"]}, "must not contain an id twice"),
        ({"segments": ["new", "a b"]}, "must be ids of 1 to 64"),
        ({"segments": ["new", 1]}, "must be ids of 1 to 64"),
        ({"policy": entice.DriftCorrectedThompson()}, "remembers ratings"),
        ({"policy": entice.EqualPay()}, "remembers ratings"),
        ({"policy": entice.SlidingWindowUCB(window=50)}, "remembers ratings"),
        ({"highest_rating": 20_000}, "at most 10000 in a campaign with segments"),
    ],
)
def test_bad_segments_are_rejected(changes: dict[str, Any], words: str) -> None:
    settings: dict[str, Any] = {
        "name": "Tea", "arms": ["a", "b"], "budget": 1, "price_of_a_star": 1, "segments": SEGMENTS,
    }  # fmt: skip
    with pytest.raises(InputError, match=words):
        CampaignSpec(**settings | changes)
    assert CampaignSpec(**settings).segments == tuple(SEGMENTS)


def test_a_campaign_without_segments_stores_nothing_about_them(service: Service) -> None:
    campaign = service.create()
    offer = service.rated(campaign, 1, 4)
    with service.store.read() as session:
        (state,) = session.rows("SELECT state FROM campaigns")
        (row,) = session.rows("SELECT body FROM offers")
        events = session.rows("SELECT body FROM events")
    before = CampaignState.__struct_fields__.index("segments")
    assert len(msgspec.msgpack.decode(state[0])) == before
    assert len(msgspec.msgpack.decode(row[0])) == 18
    assert not any(b"segment" in body for (body,) in events)
    assert offer["segment"] is None
    assert "segments" not in json.loads(events[0][0])["spec"]
