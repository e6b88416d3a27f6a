"""A campaign as it runs: its books, and the policy that decides from them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from entice.jit.specialize import specialize
from entice.model import campaign_step, in_flight
from entice.model.campaign_step import EXPECTED_RATINGS
from entice.model.ledger import new_ledger
from entice.model.payment import pay_required
from entice.model.probe import HEADS, NO_PROBE
from entice.money import Currency, amount_of, max_stars_for, recorded_currency, stars_for
from entice.policies import greedy
from entice.policies.policy import no_update
from entice.service.domain.events import GENESIS
from entice.service.domain.in_flight_state import (
    Expectation,
    FlightState,
    expectation,
    pack,
    unpack,
)
from entice.service.domain.offer import OfferRecord
from entice.service.domain.propensity import propensity_function
from entice.service.domain.spec import CampaignSpec, Status

RULES = EXPECTED_RATINGS
"""The version of the rules that new campaigns run under; older ones are upgraded to it."""
LIMITED_IF_CHANGED = 2
"""The version from which on a decision is called limited only if a limit has changed it."""

RULE_OF_THREE = 3.0
"""Where 3 ratings are expected, none at all comes in 5 of 100 cases."""


class CampaignState(msgspec.Struct, array_like=True):
    """Everything that a campaign's events add up to, apart from its offers."""

    campaign: str
    seq: int
    head: bytes
    """The hash of the last event."""
    at: int
    created: int
    spec: dict[str, Any]
    """As it is by now."""
    version: int
    """How many configurations there have been."""
    status: Status
    budget: int
    reserved: int
    committed: int
    decisions: int
    arms: list[str]
    retired: list[bool]
    pulls: list[int]
    """Ratings of each arm …"""
    totals: list[int]
    """… and their sum, which is exact, in whatever order they came."""
    in_flight: list[int]
    """Offers and sales of each arm whose ratings may yet come."""
    memory: bytes
    """The policy's."""
    rules: int = 1
    """The version of the rules that decisions follow."""
    offered: list[int] = []
    """Offers of each arm, without those declined, expired, reversed before their rating, or made in
    shadow mode."""
    flight: FlightState | None = None
    """The ages of the pulls in flight, since version 2 of the rules."""

    @property
    def expectation(self) -> Expectation:
        """What is expected of the pulls in flight."""
        return expectation(unpack(self.flight, len(self.arms), self.spec["rating_window"]))

    def without_first_rating(self, expected: Expectation) -> list[int]:
        """Return the arms on offer that lack a rating after enough offers to expect one.

        Ratings that may still come do not count as missing.
        """
        missing = (
            offers * (expected.share or 0.0) - ratings
            for offers, ratings in zip(self.offered, expected.ratings, strict=False)
        )
        return [
            i
            for i, ratings in enumerate(missing)
            if ratings >= RULE_OF_THREE and self.pulls[i] == 0 and not self.retired[i]
        ]

    @property
    def free(self) -> int:
        """What is neither spent nor reserved."""
        return self.budget - self.reserved - self.committed

    @property
    def money(self) -> Currency:
        """The currency and its decimals."""
        return recorded_currency(self.spec["currency"], self.spec.get("currency_digits"))

    @property
    def paced(self) -> int | None:
        """What may be spent and reserved by the next offer, if there is any pacing."""
        over = self.spec.get("pace_over")
        if over is None:
            return None
        share = min(1.0, math.log1p(self.decisions + 1) / math.log1p(over))
        return int(self.budget * share)


encode_state = msgspec.msgpack.Encoder().encode
decode_state = msgspec.msgpack.Decoder(CampaignState).decode


class Limit(NamedTuple):
    """The most that an offer may cost, and what limits it."""

    amount: int
    by: str


class Decision(NamedTuple):
    """What the principal wants to say to a player."""

    arm: int
    greedy: int
    payment: float
    """In stars."""
    amount: int
    reason: str
    propensity: float
    estimated: bool
    limited: bool
    """Whether it would be another arm or payment if money were no limit, by the same random
    numbers; in version 1 of the rules, whether some arm cost more than the limit."""
    probe: str | None
    probe_amount: float | None


@lru_cache(maxsize=64)
def _compiled_steps(
    select: Callable[..., int],
    update: Callable[..., None],
    display: Callable[..., int],
    price: Callable[..., float],
    counts: np.dtype[Any],
) -> tuple[Callable[..., Any], ...]:
    """Compile the halves of the step for a policy: deciding, pausing, rating, showing.

    `counts` is the type of the pulls that the policy sees: what `specialize` compiles depends on
    it.
    """
    return (
        specialize(campaign_step.decide, select, display, price),
        specialize(campaign_step.decide, greedy.select, display, pay_required),
        specialize(campaign_step.record_rating, update),
        specialize(campaign_step.displayed_averages, display),
    )


_update_ages = specialize(in_flight.update_ages)
_begin_pull = specialize(campaign_step.begin_pull)
_end_pull = specialize(campaign_step.end_pull)


class Campaign:
    """The books of a campaign in the form that the step works on."""

    def __init__(self, state: CampaignState, number: int = 0) -> None:
        self.state = state
        self.number = number
        """By which the database knows it."""
        self.arms: dict[str, int] = {}
        self._configure()

    @classmethod
    def create(cls, campaign: str, spec: CampaignSpec, at: int, rules: int = RULES) -> Campaign:
        """Open the books of a new campaign, under some version of the rules."""
        arms = len(spec.arms)
        return cls(
            CampaignState(
                campaign=campaign, seq=0, head=GENESIS, at=at, created=at,
                spec=spec.to_plain(), version=1, status=spec.status,
                budget=spec.budget, reserved=0, committed=0, decisions=0,
                arms=list(spec.arms), retired=[False] * arms,
                pulls=[0] * arms, totals=[0] * arms, in_flight=[0] * arms, memory=b"",
                rules=rules, offered=[0] * arms if rules >= EXPECTED_RATINGS else [],
            )
        )  # fmt: skip

    def _configure(self) -> None:
        """Make from the books what decisions need; anew whenever arms or settings have changed."""
        state = self.state
        self.spec = CampaignSpec.from_plain({**state.spec, "arms": state.arms, "status": "live"})
        self.arms = {arm: i for i, arm in enumerate(state.arms)}
        spec, arms = self.spec, len(state.arms)
        # A rating r is seen as (r − zero) / steps.
        self._zero, self._steps = 0, 1
        if spec.policy_sees == "zero_to_one":
            self._zero = spec.lowest_rating
            self._steps = spec.highest_rating - spec.lowest_rating
        limits = (spec.pace_over, spec.cap_per_offer, spec.cap_per_player)
        self._only_budget = limits == (None, None, None)
        self.rules = spec.policy.kernel(arms)
        self.learns_from_ratings = self.rules.update is not no_update
        """Whether the policy learns from single ratings, and not from averages alone."""
        kept = np.frombuffer(state.memory)
        self.memory = kept.copy() if len(kept) else np.zeros(self.rules.memory)
        self._prior = self._to_policy_scale(spec.unrated_stars)
        self._ledger = new_ledger(arms, self._prior)
        self._flight = unpack(state.flight, arms, spec.rating_window)
        # Pulls were counted in whole numbers before version 2 of the rules.
        self._count_type = np.dtype("f8" if state.rules >= EXPECTED_RATINGS else "i8")
        self._allocate()
        self._decide, self._own_choice, self._record_rating, self._displayed_averages = (
            _compiled_steps(*self.rules.functions, self._count_type)
        )
        for arm in range(arms):
            self.update_arm(arm)
        assert spec.seed is not None
        self._propensity = propensity_function(spec.policy, self.rules, spec.seed, self._count_type)

    def _allocate(self) -> None:
        arms = len(self.state.arms)
        self._under_way = np.array(self.state.in_flight, np.int64)
        self._counted = np.zeros(arms, self._count_type)
        self._awaited = np.zeros(arms, np.bool_)
        self._active = np.logical_not(self.state.retired)
        self._nothing_displayed = np.full(arms, np.nan)
        self._shown, self._means = np.zeros(arms), np.zeros(arms)
        self._permitted = np.zeros(arms, np.bool_)
        self._counts = np.zeros(arms, self._count_type)
        self._stream = np.zeros(4, np.uint64)
        probe = self.spec.probe
        self._share, self._amounts = 0.0, np.zeros(1)
        if probe is not None:
            self._share, self._amounts = probe.share, np.array(probe.amounts)

    def limit(self, spent_on_player: int) -> Limit:
        """Find the most that an offer may cost."""
        state = self.state
        limits = [Limit(state.free, "budget")]
        if self._only_budget:
            return limits[0]
        if (paced := state.paced) is not None:
            limits.append(Limit(max(0, paced - state.reserved - state.committed), "pace"))
        if self.spec.cap_per_offer is not None:
            limits.append(Limit(self.spec.cap_per_offer, "cap_per_offer"))
        if self.spec.cap_per_player is not None:
            left = max(0, self.spec.cap_per_player - spent_on_player)
            limits.append(Limit(left, "cap_per_player"))
        return min(limits)

    def decide(
        self,
        at: int,
        limit: Limit,
        eligible: tuple[str, ...] | None,
        displayed: dict[str, float] | None,
    ) -> Decision:
        """Let the policy choose for the next player, and price its choice."""
        state, spec, rules = self.state, self.spec, self.rules
        t = state.decisions + 1
        offerable, seen = self._active, self._nothing_displayed
        if eligible is not None:
            offerable = np.zeros_like(self._active)
            offerable[[self.arms[arm] for arm in eligible]] = True
            offerable &= self._active
        if displayed:
            seen = seen.copy()
            for name, stars in displayed.items():
                seen[self.arms[name]] = self._to_policy_scale(stars)
        before = self.memory.copy()
        paused = state.status == "paused"
        most = 0.0 if paused else max_stars_for(limit.amount, spec.price_of_a_star, spec.margin)

        def decided(most: float, memory: npt.NDArray[np.float64], *room: Any) -> tuple[Any, ...]:
            found: tuple[Any, ...] = (self._own_choice if paused else self._decide)(
                spec.seed, t, at, state.rules, self._ledger, self._flight, self._under_way,
                memory, rules.params, most / self._steps, self._share, self._amounts,
                offerable, seen, *room, self._counted, self._awaited, self._stream,
            )  # fmt: skip
            return found

        room = (self._shown, self._permitted, self._means, self._counts)
        arm, own, payment, limited, first, coin, coin_amount = decided(most, self.memory, *room)
        stars, probe, likely, estimated = payment * self._steps, None, 1.0, False
        reason = "explore" if arm != own else "probe" if stars > 0 else "own_choice"
        if paused:
            reason = "paused"
        else:
            if self._propensity is not None:
                likely, estimated = self._propensity(
                    t, self._counts, self._means, self._permitted, first, arm, before
                )
                likely = float(f"{likely:.9g}")  # the digits that all machines agree on
            if arm == own and stars == 0 and coin != NO_PROBE and self._affords_probe(limit):
                # Only of the player's own choice: who takes it does not depend on the coin.
                probe = "heads" if coin == HEADS else "tails"
                if probe == "heads":
                    stars, reason = coin_amount, "probe"
            elif limited and state.rules < LIMITED_IF_CHANGED:
                reason = "limited"
        if state.rules >= LIMITED_IF_CHANGED:
            free = arm, own, payment
            # Else every arm was permitted, at its price: nothing can have changed.
            if limited or rules.payment_rule is not pay_required:
                free = decided(math.inf, before.copy(), *map(np.empty_like, room))[:3]
            wanted = free[2] * self._steps
            if free[0] == free[1] and wanted == 0 and coin == HEADS:
                wanted = coin_amount
            limited = not paused and (arm, stars) != (free[0], wanted)
            if limited and reason != "probe":
                reason = "limited"
        amount = amount_of(stars, spec.price_of_a_star, spec.margin)
        assert amount <= limit.amount, "what is permitted can be paid: see `max_stars_for`"
        return Decision(
            arm, own, stars, amount, reason, likely, estimated, bool(limited),
            probe, coin_amount if probe else None,
        )  # fmt: skip

    def _affords_probe(self, limit: Limit) -> bool:
        """Tell whether the dearest side of the coin can be paid for, however it fell."""
        dearest = max(self._amounts)
        return amount_of(dearest, self.spec.price_of_a_star, self.spec.margin) <= limit.amount

    def shown_stars(self) -> tuple[float, ...]:
        """What each arm displayed at the last decision, in stars."""
        if self.spec.policy_sees == "stars":
            return tuple(self._shown.tolist())
        return tuple((self._shown * self._steps + self._zero).tolist())

    def update_arm(self, arm: int, new: bool = False, paid: float = 0.0, rating: int = 0) -> None:
        """Bring an arm's average up to its ratings; a new one may be learnt from."""
        state = self.state
        n = state.pulls[arm]
        # From whole numbers, by one division each: equal averages are equal to the last bit.
        above = state.totals[arm] - n * self._zero
        mean = above / (n * self._steps) if n else self._prior
        self._record_rating(
            self._ledger, self.memory, self.rules.params, arm, n, above / self._steps, mean,
            new, paid / self._steps, self._to_policy_scale(rating),
        )  # fmt: skip

    def begin_pull(self, n: int, at: int, arm: int) -> None:
        """Enter an offer among the pulls whose ratings may come."""
        self._adjust_in_flight(arm, 1)
        if self.state.rules >= EXPECTED_RATINGS:
            self.state.offered[arm] += 1
            _begin_pull(self._flight, n, at, arm)

    def end_pull(self, n: int, at: int, arm: int, outcome: int) -> None:
        """Take an offer out of them: see `in_flight.end_pull` for the outcomes."""
        self._adjust_in_flight(arm, -1)
        if self.state.rules >= EXPECTED_RATINGS:
            self.state.offered[arm] -= outcome == in_flight.WITHDRAWN
            _end_pull(self._flight, n, at, arm, outcome)

    def _adjust_in_flight(self, arm: int, by: int) -> None:
        self.state.in_flight[arm] += by
        self._under_way[arm] += by

    def upgrade(self, at: int, rules: int, under_way: Iterable[OfferRecord]) -> None:
        """Change to a later version of the rules; `under_way` are the offers in flight, in order.

        What became of offers before is not known by age, so hazards start from their prior. The
        offers that are still in flight are observed from now on: each has reached the bucket of
        its age, and counts for no earlier one.
        """
        state = self.state
        state.rules = rules
        state.offered = list(state.in_flight)
        self.reconfigure()
        for offer in under_way:
            _begin_pull(self._flight, offer.n, offer.offered_at, offer.arm)
        _update_ages(self._flight, at)
        self._flight.reached[:] = self._flight.unrated

    def retire(self, arm: int, retired: bool) -> None:
        """Offer an arm no more, or again."""
        self.state.retired[arm] = retired
        self._active[arm] = not retired

    def reset_memory(self) -> None:
        """Let the policy forget what it remembers: it is to learn again."""
        self.memory = np.zeros(self.rules.memory)

    def reconfigure(self) -> None:
        """Take over arms or settings that have changed in the books."""
        room = self.spec.policy.kernel(len(self.state.arms)).memory
        memory = self.memory
        if self.learns_from_ratings:  # of each arm a block, the blocks one after the other
            memory = np.concatenate([memory, np.zeros(room - len(memory))])
        elif room != len(memory):  # what does not come from ratings can be worked out again
            memory = np.zeros(room)
        self.state.memory = memory.tobytes()
        self.state.flight = self._pack_in_flight()
        self._configure()

    def stars_paid(self, offer: OfferRecord) -> float:
        """What a player was paid, or would be, in stars: as offered, unless it was less."""
        if offer.paid is None or offer.paid == offer.amount:
            return offer.payment
        return stars_for(offer.paid, self.spec.price_of_a_star, self.spec.margin)

    def averages(self) -> list[float | None]:
        """The average rating of each arm, in stars."""
        return [
            total / n if n else None
            for total, n in zip(self.state.totals, self.state.pulls, strict=True)
        ]

    def displayed_stars(self) -> list[float]:
        """What each arm displays by now, in stars."""
        shown_stars = np.empty_like(self._shown)
        self._displayed_averages(self._ledger, self.memory, self.rules.params, shown_stars)
        return [float(stars) for stars in shown_stars * self._steps + self._zero]

    def encode(self) -> bytes:
        """Write the books for the database."""
        self.state.memory = self.memory.tobytes()
        self.state.flight = self._pack_in_flight()
        return encode_state(self.state)

    def _pack_in_flight(self) -> FlightState | None:
        return pack(self._flight) if self.state.rules >= EXPECTED_RATINGS else None

    def expected(self) -> Expectation:
        """What is expected of the offers in flight, as of the last event."""
        return expectation(self._flight)

    def _to_policy_scale(self, stars: float) -> float:
        """A rating as the policy sees it."""
        return (stars - self._zero) / self._steps
