"""Runs random commands on the service and on its plain-Python oracle, and compares them."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import msgspec
import pytest
from writer_fixtures import Service, hashed

import entice
from entice.service.domain.commands import (
    Accept,
    AddArms,
    ChangeCampaign,
    Command,
    CommandResult,
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
from entice.service.domain.errors import Refusal
from entice.service.domain.offer import STATES
from entice.service.storage.queries import Queries, load_state
from entice.service.storage.store import Store
from oracles.service import OracleCampaign, Rejected

POLICIES = [
    entice.UCB(), entice.UCB(), entice.UCB(), entice.EpsilonGreedy(c=3),
    entice.ThompsonSampling(), entice.RoundRobinEpsilonGreedy(c=3),
    entice.AlternatingThompson(), entice.DriftCorrectedThompson(), entice.Greedy(),
]  # fmt: skip
GROUPS = ("paid", "holdout")
LATER_ARMS = ["d", "e", "f"]
STEPS = {
    "make_offer": 10, "make_offers": 3, "accept_open_offer": 8, "rate_accepted_offer": 8,
    "accept": 1, "decline": 1, "rate": 2, "reverse": 1, "enter_organic": 3, "add_arms": 0.3,
    "retire": 0.7, "change_budget": 1.5, "change_status": 0.7, "close": 0.1, "advance_clock": 1,
    "use_unknown_ids": 0.3,
}  # fmt: skip
"""The steps and their relative frequencies."""


Request = tuple[int, list[str] | None, dict[str, float] | None]
"""A player, the eligible arms, and the displayed ratings."""


class SideBySide:
    """Runs the same random steps on a campaign of the service and on the oracle's."""

    def __init__(self, service: Service, seed: int, **holdout: Any) -> None:
        self.service = service
        self.random = draw = random.Random(seed)
        self.policy = POLICIES[seed % len(POLICIES)]
        budget, price = draw.choice([0, 150, 700, 3000, 10**6]), draw.choice([1, 7, 200])
        limits: dict[str, Any] = {
            "cap_per_offer": self.maybe(draw.randrange(900)),
            "cap_per_player": self.maybe(draw.randrange(900)),
            "pace_over": self.maybe(draw.choice([10, 16, 40])),
            "margin": draw.choice([0, 0, 3]),
            "late_ratings": draw.random() < 0.5,
            "status": draw.choice(["live"] * 5 + ["shadow", "paused"]),
            "offer_expires_after": 60,
            "rating_window": 600,
        }
        zero_to_one = draw.random() < 0.5
        unrated = self.maybe(draw.randint(4, 20) / 4)
        self.id = service.create(
            policy=self.policy, budget=budget, price_of_a_star=price, unrated_shows=unrated,
            policy_sees="zero_to_one" if zero_to_one else "stars", seed=seed, **limits, **holdout,
        )  # fmt: skip
        self.oracle = OracleCampaign(
            ["a", "b", "c"], budget, price, zero_to_one=zero_to_one,
            unrated_shows=None if unrated is None else Fraction(unrated), **limits,
        )  # fmt: skip
        if holdout:
            share = holdout["holdout"]
            held_out = [str(p) for p in range(8) if reference_draw(hashed(p), seed) < share]
            self.oracle.holdout = frozenset(held_out)
            self.oracle.holdout_feeds_averages = holdout.get("holdout_feeds_averages", True)
        self.history: list[Command | int] = []
        """All commands, and the seconds between them, for debugging."""

    def run(self, steps: int) -> None:
        names, weights = list(STEPS), list(STEPS.values())
        for name in self.random.choices(names, weights, k=steps):
            getattr(self, name)()
            self.oracle.check()
            compare(self.service.store, self.id, self.oracle)

    # Random values

    def maybe(self, value: Any) -> Any:
        return value if self.random.random() < 0.3 else None

    def an_arm(self) -> str:
        return str(self.random.choice([*"abc" * 4, *LATER_ARMS, "unknown"]))

    def an_offer(self, *states: str) -> int:
        """Return the number of an offer in one of some states; if none is, any number."""
        of_these = [o.n for o in self.oracle.offers if o.state in states]
        return self.random.choice(of_these or list(range(len(self.oracle.offers) + 2)))

    def a_rating(self) -> int:
        return int(self.random.choice([*range(-1, 7), *[1, 2, 3, 4, 5] * 3]))

    def a_request(self) -> Request:
        draw = self.random
        eligible = [self.an_arm() for _ in range(draw.randrange(5))]
        displayed = {self.an_arm(): draw.randint(3, 20) / 4 for _ in range(draw.randrange(4))}
        return draw.randrange(8), self.maybe(eligible), self.maybe(displayed)

    @property
    def now(self) -> int:
        return self.service.clock.at

    # Steps

    def both(self, command: Command, expected: Callable[[], Any]) -> None:
        """Run a command on the service, then on the oracle; both or neither must reject it."""
        result = self.submit(command)
        if isinstance(result, int):
            with pytest.raises(Rejected) as rejected:
                expected()
            assert rejected.value.status == result
        else:
            expected()

    def submit(self, command: Command) -> CommandResult | int:
        """Return the service's result, or the status of its rejection."""
        self.history.append(command)
        try:
            return self.service.answer(command)
        except Refusal as refusal:
            return refusal.status

    def make_offer(self) -> None:
        player, eligible, displayed = self.a_request()
        answer = self.submit(MakeOffer(self.id, hashed(player), eligible, displayed))
        if isinstance(answer, int):
            assert self.rejections([(player, eligible, displayed)]) == {answer}
        else:
            self.check_decision(answer.status, json.loads(answer.body), player, eligible, displayed)

    def rejections(self, requests: list[Request]) -> set[int]:
        """Return the statuses with which the oracle rejects requests."""
        statuses = set()
        for player, eligible, displayed in requests:
            try:
                self.oracle.choices(str(player), eligible, displayed)
            except Rejected as rejected:
                statuses.add(rejected.status)
        return statuses

    def make_offers(self) -> None:
        requests = [self.a_request() for _ in range(self.random.randint(1, 6))]
        batch = [MakeOffer(self.id, hashed(p), arms, shown) for p, arms, shown in requests]
        answer = self.submit(MakeOffers(self.id, batch))
        if isinstance(answer, int):
            assert answer in self.rejections(requests)  # and no offer was made
            return
        offers = json.loads(answer.body)["offers"]
        for offer, (player, eligible, displayed) in zip(offers, requests, strict=True):
            live = self.oracle.live(str(player))
            fresh = live is None or live.expires <= self.now
            self.check_decision(201 if fresh else 200, offer, player, eligible, displayed)

    def check_decision(
        self, status: int, answer: Any, player: int, eligible: Any, displayed: Any
    ) -> None:
        oracle = self.oracle
        live = oracle.live(str(player))
        if live is not None and live.expires > self.now:
            assert (status, answer["decision"], answer["state"]) == (200, live.n, "offered")
            assert (answer["arm"], answer["amount"]) == (live.arm, live.amount)
            return
        if live is not None:
            oracle.expire_if_due(self.now, live)
        assert status == 201
        oracle.flight.update_ages(self.now)
        choices = oracle.choices(str(player), eligible, displayed)
        arm, own, reason = answer["arm"], answer["greedy_arm"], answer["reason"]
        amount = answer["would_pay"] if oracle.status == "shadow" else answer["amount"]
        price = self.service.queries.offer(answer["id"]).arithmetic
        assert price.limit == choices.limit
        assert 0 <= amount <= choices.limit
        assert 0 < answer["propensity"] <= 1
        if oracle.status == "shadow":
            assert (answer["amount"], answer["state"]) == (0, "shadow")
        held_out = str(player) in (oracle.holdout or ())
        if held_out:
            assert (arm, amount, answer["propensity"], answer["probe"]) == (own, 0, 1.0, None)
            assert reason == ("paused" if oracle.status == "paused" else "holdout")
        else:
            assert reason != "holdout"
        if not isinstance(
            self.policy, entice.DriftCorrectedThompson
        ):  # it displays corrected averages
            assert arm in choices.prices
            seen = {name: float(oracle.shows(name, displayed)) for name in oracle.arms}
            assert price.shown == pytest.approx(seen, abs=1e-9)
            assert own == (arm if arm in choices.best else choices.own)
            unpaid = held_out or oracle.status == "paused"
            if unpaid:
                assert (arm, amount) == (choices.own, 0)
                assert reason in ("paused", "holdout")
            else:
                assert amount == choices.prices[arm]
            if not unpaid and isinstance(self.policy, entice.UCB):
                assert arm in choices.ucb
                if len(choices.wanted) == 1:  # otherwise rounding decides
                    assert (reason == "limited") == (arm not in choices.wanted)
            if isinstance(self.policy, entice.Greedy):
                assert (arm, amount) == (choices.own, 0)
                assert reason != "limited"
            assert (price.limited_by is not None) == (reason == "limited")
        made = oracle.offer(self.now, str(player), arm, amount)
        assert made.n == answer["decision"]

    def _offer_id(self, n: int) -> str:
        return f"{self.id}.{n}"

    def accept(self) -> None:
        self._accept(self.an_offer(), self.maybe(self.random.randrange(-1, 1500)))

    def accept_open_offer(self) -> None:
        n = self.an_offer("offered", "shadow")
        offers = self.oracle.offers
        offered = offers[n - 1].amount if 1 <= n <= len(offers) else 0
        amount = self.random.choice([None, None, offered, offered // 2, offered + 1])
        for _ in range(self.random.randint(1, 2)):
            self._accept(n, amount)

    def _accept(self, n: int, amount: int | None) -> None:
        command = Accept(self._offer_id(n), amount)
        self.both(command, lambda: self.oracle.accept(self.now, n, amount))

    def rate(self) -> None:
        self._rate(self.an_offer(), self.a_rating())

    def rate_accepted_offer(self) -> None:
        n, rating = self.an_offer("accepted"), self.a_rating()
        for _ in range(self.random.randint(1, 2)):
            self._rate(n, rating)

    def _rate(self, n: int, rating: int) -> None:
        command = Rate(self._offer_id(n), rating)
        self.both(command, lambda: self.oracle.rate(self.now, n, rating))

    def decline(self) -> None:
        n = self.an_offer("offered", "shadow") if self.random.random() < 0.7 else self.an_offer()
        self.both(Decline(self._offer_id(n)), lambda: self.oracle.decline(self.now, n))

    def reverse(self) -> None:
        n = self.an_offer()
        self.both(Reverse(self._offer_id(n)), lambda: self.oracle.reverse(self.now, n))

    def enter_organic(self) -> None:
        entered = [(self.an_arm(), self.a_rating()) for _ in range(self.random.randrange(3))]
        command = EnterRatings(self.id, [Organic(*one) for one in entered])
        self.both(command, lambda: self.oracle.rate_organic(entered))

    def add_arms(self) -> None:
        arms = self.random.sample(LATER_ARMS, self.random.randint(1, 2))
        self.both(AddArms(self.id, arms), lambda: self.oracle.add_arms(arms))

    def retire(self) -> None:
        arm, retired = self.an_arm(), self.random.random() < 0.6
        if self.oracle.status != "closed":
            command = RetireArm(self.id, arm, retired)
            self.both(command, lambda: self.oracle.retire(arm, retired))

    def change_budget(self) -> None:
        spent = self.oracle.reserved + self.oracle.committed
        choices = [0, spent - 1, spent, spent + 1, spent + 300, 2 * spent, 3000]
        budget = max(0, self.random.choice(choices))
        command = ChangeCampaign(campaign=self.id, budget=budget)
        self.both(command, lambda: self.oracle.set_budget(budget))

    def change_status(self) -> None:
        status: Any = self.random.choice(["live"] * 6 + ["paused", "shadow"])
        command = ChangeCampaign(campaign=self.id, status=status)
        self.both(command, lambda: self.oracle.set_status(self.now, status))

    def close(self) -> None:
        command = ChangeCampaign(campaign=self.id, status="closed")
        self.both(command, lambda: self.oracle.set_status(self.now, "closed"))

    def advance_clock(self) -> None:
        seconds = self.random.choice([1, 59, 60, 300, 600])
        self.history.append(seconds)
        self.service.later(seconds)
        if self.random.random() < 0.5:
            self.history.append(Expire(self.id))
            answer = self.service.do(Expire(self.id))
            assert answer["expired"] == self.oracle.tick(self.now)

    def use_unknown_ids(self) -> None:
        campaign = self.random.choice(["c_0000000000000000", "", "c", "."])
        for command in (
            MakeOffer(campaign, hashed(0)), Accept(f"{campaign}.1"), Expire(campaign),
            Rate(f"{self.id}.01", 3), Decline(f"{self.id}."), Reverse(self.id),
            Accept(f"{self.id}.1.1"), Accept(f"{self.id}.-1"), Accept(f"{self.id}.{10**30}"),
        ):  # fmt: skip
            assert self.service.refusal(command).status == 404


def reference_draw(player: bytes, seed: int) -> Fraction:
    """Return the number in [0, 1) that decides a player's group."""
    key = seed.to_bytes(8, "big")
    digest = hashlib.blake2b(player, digest_size=8, key=key, person=b"entice holdout").digest()
    return Fraction(int.from_bytes(digest, "big") // 2**11, 2**53)


def compare(store: Store, campaign: str, oracle: OracleCampaign) -> None:
    """Compare the database with the oracle."""
    queries = Queries(store)
    view = queries.campaign(campaign)
    assert view.status == oracle.status
    assert (view.budget, view.reserved, view.committed) == (
        oracle.budget, oracle.reserved, oracle.committed,
    )  # fmt: skip
    assert view.free == oracle.budget - oracle.reserved - oracle.committed >= 0
    assert view.decisions == len(oracle.offers)
    arms = queries.arms(campaign)
    assert [arm.id for arm in arms] == oracle.arms
    assert {arm.id for arm in arms if arm.retired} == oracle.retired
    for arm in arms:
        n, total = oracle.n[arm.id], oracle.S[arm.id]
        assert (arm.rated, arm.in_flight) == (n, oracle.in_flight[arm.id])
        assert arm.average == (total / n if n else None)
        assert arm.expected == pytest.approx(oracle.flight.expected(arm.id), abs=1e-12)
    with store.read() as session:
        groups = load_state(session, campaign).groups
        rows = session.rows(
            "SELECT n, state, cost FROM offers WHERE campaign = "
            "(SELECT number FROM campaigns WHERE id = ?) ORDER BY n",
            (campaign,),
        )
    assert [(n, STATES[state], cost) for n, state, cost in rows] == [
        (offer.n, offer.state, offer.cost) for offer in oracle.offers
    ]
    expected = {} if oracle.holdout is None else {g: oracle.group_totals(g) for g in GROUPS}
    assert {group: msgspec.structs.astuple(counts) for group, counts in groups.items()} == expected
