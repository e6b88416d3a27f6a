"""Duplicates and reordering: repeated and shuffled feedback leads to the same state."""

from __future__ import annotations

import hashlib
import json
import random
from array import array
from collections.abc import Iterable
from typing import NamedTuple

from sizes import sized

import entice
from entice.service.domain.commands import Accept, Command, Decline, MakeOffer, MakeOffers, Rate
from entice.service.domain.errors import Refusal
from entice.service.domain.spec import CampaignSpec, ServedPolicy
from entice.service.storage.queries import load_campaign
from entice.service.storage.store import Store
from entice.service.storage.unit_of_work import offer_from_row
from entice.service.storage.writer import Writer
from service_faults.audit import audit, faults
from service_faults.outcome import Outcome
from service_faults.scenario import segment_of
from service_faults.writers import AT_ONCE, create, running_writer, sqlite_store

MAX_COPIES = 5
POLICIES: dict[ServedPolicy, bool] = {entice.UCB(): False, entice.DriftCorrectedThompson(): True}
"""The policies, and whether they learn from single ratings."""


class Feedback(NamedTuple):
    """A message that a queue delivers at least once."""

    kind: str
    n: int
    """The number of the offer."""
    rating: int = 0

    def of(self, campaign: str) -> Command:
        """Return the command for a campaign; each shuffle has its own."""
        offer = f"{campaign}.{self.n}"
        match self.kind:
            case "accept":
                return Accept(offer)
            case "decline":
                return Decline(offer)
            case _:
                return Rate(offer, self.rating)

    @property
    def key(self) -> str | None:
        """Return an idempotency key for half of the messages."""
        return f"{self.kind} {self.n}" if self.n % 2 else None


def feedback(size: int, seed: int) -> list[Feedback]:
    """Return feedback in order, without duplicates."""
    rng = random.Random(seed)
    made: list[Feedback] = []
    n = 0
    while len(made) < size:
        n += 1
        if rng.random() < 0.2:
            made.append(Feedback("decline", n))
        else:
            made.append(Feedback("accept", n))
            if rng.random() < 0.8:
                made.append(Feedback("rate", n, rng.randint(1, 6)))
    return made[:size]


def copies(original: list[Feedback], rng: random.Random) -> list[Feedback]:
    """Return each message one to five times, shuffled."""
    sent = [one for one in original for _ in range(rng.randint(1, MAX_COPIES))]
    rng.shuffle(sent)
    return sent


class Delivered(NamedTuple):
    """The result of one shuffle."""

    state: str
    memory: tuple[float, ...]
    """The policy's memory."""
    sent: int
    premature: int
    """Ratings sent before the acceptance, which were rejected and sent again."""
    faults: int


def deliver(
    original: list[Feedback], policy: ServedPolicy, seed: int, digits: int = 17
) -> Delivered:
    """Send a shuffle to a new writer, and hash the final state."""
    rng = random.Random(seed)
    offers = original[-1].n
    spec = CampaignSpec(
        name="Queue", arms=[f"item-{i}" for i in range(7)], highest_rating=6, policy=policy,
        budget=offers * 100, price_of_a_star=130, policy_sees="zero_to_one", seed=5,
        offer_expires_after=7200,
        # These players have no salts, so a holdout reads all offers to find out who is new.
        holdout=0.2 if offers < 1000 else 0.0, holdout_feeds_averages=False,
        # Neither if it learns from ratings.
        segments=() if digits < 17 else ("new", "regular"), overlap=0.1 if digits == 17 else 0.0,
        price=entice.LearnedPrice(),
    )  # fmt: skip
    with sqlite_store() as store:
        with running_writer(store) as writer:
            campaign = create(writer, spec)
            _offer(writer, campaign, spec, range(1, offers + 1))
            waiting = copies(original, rng)
            sent, premature = len(waiting), 0
            while waiting:
                rejected = list(_send(writer, campaign, waiting, rng))
                premature += len(rejected)
                rng.shuffle(rejected)
                waiting = rejected
            # Later decisions must be the same, too.
            _offer(writer, campaign, spec, range(offers + 1, offers + 101))
        bad = faults(store)
        bad += [] if audit(store, campaign).passed else [f"{campaign}: the audit"]
        state, memory = _state(store, campaign, digits)
        return Delivered(state, memory, sent + premature, premature, len(bad))


def _offer(writer: Writer, campaign: str, spec: CampaignSpec, numbers: range) -> None:
    for first in numbers[::1000]:
        requests = [
            MakeOffer(campaign, n.to_bytes(16), segment=segment_of(spec.segments, n))
            for n in range(first, min(first + 1000, numbers.stop))
        ]
        command = MakeOffers(campaign, requests)
        writer.submit(command).result(timeout=120)


def _send(
    writer: Writer, campaign: str, waiting: list[Feedback], rng: random.Random
) -> Iterable[Feedback]:
    """Send all messages; yield those that are premature, as a queue would redeliver them."""
    for start in range(0, len(waiting), AT_ONCE):
        some = waiting[start : start + AT_ONCE]
        futures = [
            writer.submit(one.of(campaign), scope="queue", key=one.key, request=repr(one).encode())
            for one in some
        ]
        for one, future in zip(some, futures, strict=True):
            error = future.exception(timeout=120)
            if isinstance(error, Refusal) and error.extra.get("state") == "offered":
                yield one
            elif error is not None:
                raise error


def _state(store: Store, campaign: str, digits: int) -> tuple[str, tuple[float, ...]]:
    """Hash the state and all offers, without times, event numbers and hashes.

    The policy's memory is returned separately: a regression over single ratings consists of floats,
    whose last digits depend on the order. So do the resulting payments in stars, which are rounded
    to `digits` before they are hashed.
    """
    with store.read() as session:
        state = load_campaign(session, campaign).state
        number, *_ = session.rows("SELECT number FROM campaigns WHERE id = ?", (campaign,))[0]
        rows = session.rows(
            "SELECT n, player, state, due, cost, body, digest FROM offers "
            "WHERE campaign = ? ORDER BY n",
            (number,),
        )
    hasher = hashlib.sha256()
    hasher.update(
        json.dumps(
            [
                state.spec, state.version, state.status, state.budget, state.reserved,
                state.committed, state.decisions, state.arms, state.retired, state.pulls,
                state.totals, state.in_flight,
            ]
        ).encode()
    )  # fmt: skip
    for row in rows:
        offer = offer_from_row(number, row)
        hasher.update(
            repr(
                (
                    offer.n, offer.player, offer.state, offer.cost, offer.arm, offer.greedy,
                    round(offer.payment, digits), offer.amount, offer.rating, offer.reason,
                    round(offer.propensity, digits), offer.probe, offer.paid,
                )
            ).encode()
        )  # fmt: skip
    return hasher.hexdigest(), tuple(array("d", state.memory))


def sum_of_floats(sent: list[Feedback]) -> float:
    """Add ratings from 0 to 1 in order of arrival, each once: depends on the order."""
    seen: set[int] = set()
    total = 0.0
    for one in sent:
        if one.kind == "rate" and one.n not in seen:
            seen.add(one.n)
            total += (one.rating - 1) / 5
    return total


def sum_with_duplicates(sent: list[Feedback]) -> int:
    """Add all ratings, including duplicates."""
    return sum(one.rating for one in sent if one.kind == "rate")


def run(long: bool) -> Outcome:
    """Shuffle 20,000 messages 20 times, or 200 of them 4 times, for two policies."""
    size, shuffles = (20_000, 20) if long else (sized(200, 600), 4)
    original = feedback(size, seed=1)
    descriptions, same = [], True
    sent = premature = bad = 0
    for policy, learns_from_ratings in POLICIES.items():
        # A few shuffles are enough for the second policy.
        seeds = range(max(3, shuffles // 5) if learns_from_ratings else shuffles)
        delivered = [
            deliver(original, policy, seed, 9 if learns_from_ratings else 17) for seed in seeds
        ]
        states = {(one.state, one.memory if not learns_from_ratings else ()) for one in delivered}
        difference = max(_largest_difference(one.memory, delivered[0].memory) for one in delivered)
        same = same and len(states) == 1 and difference < 1e-9
        what = f"{len(states)} under {type(policy).__name__} ({len(seeds)} shuffles)"
        descriptions.append(
            f"{what}, whose regression is equal to {difference:.0e}"
            if learns_from_ratings
            else what
        )
        sent += sum(one.sent for one in delivered)
        premature += sum(one.premature for one in delivered)
        bad += sum(one.faults for one in delivered)
    shuffled = [copies(original, random.Random(seed)) for seed in range(shuffles)]
    sums, counts = set(map(sum_of_floats, shuffled)), set(map(sum_with_duplicates, shuffled))
    return Outcome(
        "duplicates and reordering",
        f"{size:,} messages, each 1 to {MAX_COPIES} times, {shuffles} shuffles: {sent:,} sent, "
        f"{premature:,} of them premature and sent again",
        f"different final states: {', '.join(descriptions)}; mismatches in the logs: {bad}",
        f"floats added in order of arrival: {len(sums)} different sums; "
        f"duplicates counted: {len(counts)} different sums",
        same and bad == 0 and len(sums) > 1 < len(counts),
    )


def _largest_difference(one: tuple[float, ...], other: tuple[float, ...]) -> float:
    """By how much the numbers of two memories differ at most, relative to their size."""
    pairs = zip(one, other, strict=True)
    return max((abs(a - b) / max(1.0, abs(a), abs(b)) for a, b in pairs), default=0.0)
