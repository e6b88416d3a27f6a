"""Duplicates and reordering: feedback adds up alike, however often it comes and in any order."""

from __future__ import annotations

import hashlib
import json
import random
from array import array
from collections.abc import Iterable
from typing import NamedTuple

import entice
from entice.service.domain.commands import Accept, Command, Decline, MakeOffer, MakeOffers, Rate
from entice.service.domain.errors import Refusal
from entice.service.domain.spec import CampaignSpec, ServedPolicy
from entice.service.storage.queries import find
from entice.service.storage.store import Store
from entice.service.storage.unit_of_work import offer_from_row
from entice.service.storage.writer import Writer
from service_faults.audit import audit, faults
from service_faults.outcome import Outcome
from service_faults.writers import AT_ONCE, create, desk_on, sqlite_store

MOST_COPIES = 5
POLICIES: dict[ServedPolicy, bool] = {entice.UCB(): False, entice.DriftCorrectedThompson(): True}
"""And whether they remember single ratings."""


class Feedback(NamedTuple):
    """What a shop's queue delivers, at least once."""

    kind: str
    n: int
    """Of the offer."""
    rating: int = 0

    def of(self, campaign: str) -> Command:
        """Name the campaign, which is another one for each shuffle."""
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
        """Half of the shops send an idempotency key; the others trust the transitions."""
        return f"{self.kind} {self.n}" if self.n % 2 else None


def feedback(size: int, seed: int) -> list[Feedback]:
    """So much feedback, as it would come from a queue that loses and repeats nothing."""
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
    """Each one to five times, in any order."""
    sent = [one for one in original for _ in range(rng.randint(1, MOST_COPIES))]
    rng.shuffle(sent)
    return sent


class Delivered(NamedTuple):
    """What became of one shuffle."""

    state: str
    memory: tuple[float, ...]
    """The policy's."""
    sent: int
    early: int
    """Ratings that came before the acceptance, were refused, and came again."""
    faults: int


def deliver(
    original: list[Feedback], policy: ServedPolicy, seed: int, digits: int = 17
) -> Delivered:
    """Send a shuffle to a desk of its own, and hash what it adds up to."""
    rng = random.Random(seed)
    offers = original[-1].n
    spec = CampaignSpec(
        name="Queue", arms=[f"item-{i}" for i in range(7)], highest_rating=6, policy=policy,
        budget=offers * 100, price_of_a_star=130, policy_sees="zero_to_one", seed=5,
        offer_expires_after=7200,
    )  # fmt: skip
    with sqlite_store() as store:
        with desk_on(store) as writer:
            campaign = create(writer, spec)
            _offer(writer, campaign, range(1, offers + 1))
            waiting = copies(original, rng)
            sent, early = len(waiting), 0
            while waiting:
                refused = list(_send(writer, campaign, waiting, rng))
                early += len(refused)
                rng.shuffle(refused)
                waiting = refused
            _offer(writer, campaign, range(offers + 1, offers + 101))  # the future is the same too
        bad = faults(store)
        bad += [] if audit(store, campaign).sound else [f"{campaign}: the audit"]
        state, memory = _state(store, campaign, digits)
        return Delivered(state, memory, sent + early, early, len(bad))


def _offer(writer: Writer, campaign: str, numbers: range) -> None:
    for first in numbers[::1000]:
        players = [n.to_bytes(16) for n in range(first, min(first + 1000, numbers.stop))]
        command = MakeOffers(campaign, [MakeOffer(campaign, player) for player in players])
        writer.submit(command).result(timeout=120)


def _send(
    writer: Writer, campaign: str, waiting: list[Feedback], rng: random.Random
) -> Iterable[Feedback]:
    """Send everything; what comes too early is returned, as a queue returns it."""
    for start in range(0, len(waiting), AT_ONCE):
        some = waiting[start : start + AT_ONCE]
        futures = [
            writer.submit(one.of(campaign), scope="shop", key=one.key, request=repr(one).encode())
            for one in some
        ]
        for one, future in zip(some, futures, strict=True):
            error = future.exception(timeout=120)
            if isinstance(error, Refusal) and error.extra.get("state") == "offered":
                yield one
            elif error is not None:
                raise error


def _state(store: Store, campaign: str, digits: int) -> tuple[str, tuple[float, ...]]:
    """Hash the books and all offers, without times, places in the log and hashes.

    What the policy remembers is returned apart: a regression over single ratings is made of
    floats, whose last digits depend on their order, and so do the payments in stars that it
    leads to; these go into the hash with so many digits.
    """
    with store.read() as session:
        state = find(session, campaign).state
        number, *_ = session.rows("SELECT number FROM campaigns WHERE id = ?", (campaign,))[0]
        rows = session.rows(
            "SELECT n, player, state, due, cost, body, digest FROM offers "
            "WHERE campaign = ? ORDER BY n",
            (number,),
        )
    told = hashlib.sha256()
    told.update(
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
        told.update(
            repr(
                (
                    offer.n, offer.player, offer.state, offer.cost, offer.arm, offer.greedy,
                    round(offer.payment, digits), offer.amount, offer.rating, offer.reason,
                    round(offer.propensity, digits), offer.probe, offer.paid,
                )
            ).encode()
        )  # fmt: skip
    return told.hexdigest(), tuple(array("d", state.memory))


def naive_floats(sent: list[Feedback]) -> float:
    """Add up ratings of 0 to 1 as they arrive, each once: what floats make of another order."""
    seen: set[int] = set()
    total = 0.0
    for one in sent:
        if one.kind == "rate" and one.n not in seen:
            seen.add(one.n)
            total += (one.rating - 1) / 5
    return total


def naive_counts(sent: list[Feedback]) -> int:
    """Add up ratings as they arrive, copies too."""
    return sum(one.rating for one in sent if one.kind == "rate")


def run(long: bool) -> Outcome:
    """Shuffle 20,000 feedbacks 20 times, or 600 of them 4 times in short, for two policies."""
    size, shuffles = (20_000, 20) if long else (600, 4)
    original = feedback(size, seed=1)
    told, same = [], True
    sent = early = bad = 0
    for policy, remembers in POLICIES.items():
        # What holds for the second policy a few shuffles show as well.
        seeds = range(max(3, shuffles // 5) if remembers else shuffles)
        delivered = [deliver(original, policy, seed, 9 if remembers else 17) for seed in seeds]
        states = {(one.state, one.memory if not remembers else ()) for one in delivered}
        cache_aligned = max(_apart(one.memory, delivered[0].memory) for one in delivered)
        same = same and len(states) == 1 and cache_aligned < 1e-9
        what = f"{len(states)} under {type(policy).__name__} ({len(seeds)} shuffles)"
        told.append(
            f"{what}, whose regression is the same to {cache_aligned:.0e}" if remembers else what
        )
        sent += sum(one.sent for one in delivered)
        early += sum(one.early for one in delivered)
        bad += sum(one.faults for one in delivered)
    shuffled = [copies(original, random.Random(seed)) for seed in range(shuffles)]
    sums, counts = set(map(naive_floats, shuffled)), set(map(naive_counts, shuffled))
    return Outcome(
        "duplicates and reordering",
        f"{size:,} feedbacks, each 1 to {MOST_COPIES} times, {shuffles} shuffles: {sent:,} sent, "
        f"{early:,} of them came too early and came again",
        f"different final states: {', '.join(told)}; faults in the logs: {bad}",
        f"floats added as they come: {len(sums)} different sums; "
        f"copies counted: {len(counts)} different sums",
        same and bad == 0 and len(sums) > 1 < len(counts),
    )


def _apart(one: tuple[float, ...], other: tuple[float, ...]) -> float:
    """By how much the numbers of two memories differ at most, relative to their size."""
    pairs = zip(one, other, strict=True)
    return max((abs(a - b) / max(1.0, abs(a), abs(b)) for a, b in pairs), default=0.0)
