"""A running campaign: its state, and the compiled policy that makes its decisions."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from entice.api_types import SegmentView
from entice.jit.specialize import specialize
from entice.model import campaign_step, in_flight
from entice.model.campaign_step import EXPECTED_RATINGS
from entice.model.display import display_averages
from entice.model.ledger import new_ledger
from entice.model.payment import pay_required
from entice.model.probe import HEADS, NO_PROBE
from entice.money import amount_of, max_stars_for, stars_for
from entice.policies import greedy
from entice.policies.pointers import policy_pointer
from entice.policies.policy import PolicyKernel, no_update
from entice.policies.propensity import (
    DecisionInputs,
    mixture_propensities,
    propensity_function,
    round_propensity,
)
from entice.service.domain.campaign_state import CampaignState, encode_state
from entice.service.domain.events import GENESIS
from entice.service.domain.holdout import HOLDOUT, GroupCounts, assign_groups, new_groups
from entice.service.domain.in_flight_state import (
    Expectation,
    FlightState,
    expectation,
    pack,
)
from entice.service.domain.offer import OfferRecord
from entice.service.domain.pricing import PriceRecord, Pricing, new_counts
from entice.service.domain.segment_state import LiveSegments, new_segment_counts
from entice.service.domain.spec import CampaignSpec

RULES = EXPECTED_RATINGS
"""The version of the rules for new campaigns. Campaigns with an older one are upgraded to it."""
LIMITED_IF_CHANGED = 2
"""Since this version, a decision counts as limited only if a limit has changed it."""


class Limit(NamedTuple):
    """The most that an offer may cost, and the setting that limits it."""

    amount: int
    by: str


class OverlapRecord(NamedTuple):
    """What the log records of a decision with overlap, so that it can evaluate other policies."""

    propensities: tuple[float, ...] | None = None
    counts: tuple[float, ...] | None = None
    averages: tuple[float, ...] | None = None
    """In stars. None if they equal the displayed ratings."""


class Decision(NamedTuple):
    """A decision of the principal: the arm to offer to a player, and the payment."""

    arm: int
    greedy: int
    payment: float
    """In stars."""
    amount: int
    reason: str
    propensity: float
    estimated: bool
    limited: bool
    """Whether unlimited money would have led to another arm or payment, with the same random
    numbers. In version 1 of the rules: whether some arm cost more than the limit."""
    probe: str | None
    probe_amount: float | None
    gap: float | None
    """The displayed gap in stars, if the payment may differ from it."""
    overlap: OverlapRecord
    price: PriceRecord


@lru_cache(maxsize=64)
def _compiled_steps(*functions: Callable[..., Any]) -> tuple[Callable[..., Any], ...]:
    """Compile the parts of the step for a policy: decide, rate, display."""
    select, update, display, price = functions
    return (
        specialize(campaign_step.decide, select, display, price),
        specialize(campaign_step.record_rating, update),
        specialize(campaign_step.displayed_averages, display),
    )


class Campaign:
    """A campaign with the arrays and compiled functions that make its decisions."""

    def __init__(self, state: CampaignState, number: int = 0) -> None:
        self.state = state
        self.number = number
        """The campaign's primary key in the database."""
        self.arms: dict[str, int] = {}
        self._configure()

    @classmethod
    def create(cls, campaign: str, spec: CampaignSpec, at: int, rules: int = RULES) -> Campaign:
        """Create a campaign under a given version of the rules."""
        arms = len(spec.arms)
        return cls(
            CampaignState(
                campaign=campaign, seq=0, head=GENESIS, at=at, created=at,
                spec=spec.to_plain(), version=1, status=spec.status,
                budget=spec.budget, reserved=0, committed=0, decisions=0,
                arms=list(spec.arms), retired=[False] * arms,
                pulls=[0] * arms, totals=[0] * arms, in_flight=[0] * arms, memory=b"",
                rules=rules, offered=[0] * arms if rules >= EXPECTED_RATINGS else [],
                groups=new_groups(spec.holdout), acceptance=new_counts(spec),
                segments=new_segment_counts(len(spec.segments), arms),
            )
        )  # fmt: skip

    def _configure(self) -> None:
        """Derive what decisions need from the state. Called again if arms or settings change."""
        state = self.state
        self.spec = CampaignSpec.from_plain({**state.spec, "arms": state.arms, "status": "live"})
        self.arms = {arm: i for i, arm in enumerate(state.arms)}
        spec, arms = self.spec, len(state.arms)
        # The policy sees a rating r as (r − zero) / steps.
        self._zero, self._steps = 0, 1
        if spec.policy_sees == "zero_to_one":
            self._zero = spec.lowest_rating
            self._steps = spec.highest_rating - spec.lowest_rating
        limits = (spec.pace_over, spec.cap_per_offer, spec.cap_per_player)
        self._only_budget = limits == (None, None, None)
        self.kernel = spec.policy.kernel(arms)
        self.learns_from_ratings = self.kernel.update is not no_update
        """Whether the policy learns from single ratings, not only from averages."""
        memory = np.frombuffer(state.memory)
        self.memory = memory.copy() if len(memory) else np.zeros(self.kernel.memory)
        self._prior = self.to_policy_scale(spec.unrated_stars)
        self._ledger = new_ledger(arms, self._prior)
        self.segments = LiveSegments(state.segments, spec.segments, arms)
        self._flight = state.unpack_flight()
        self._allocate()
        rules = self.kernel
        callers, self._params = policy_pointer(rules)
        decide, self._record_rating, self._displayed_averages = _compiled_steps(*callers)
        # Averages are displayed without the policy's settings, so one compiled step serves all.
        unpaid = PolicyKernel(
            greedy.select,
            params=() if rules.display is display_averages else rules.params,
            display=rules.display,
        )
        callers, own_params = policy_pointer(unpaid)
        self._decide = decide, self._params
        self._own_choice = _compiled_steps(*callers)[0], own_params
        for arm in range(arms):
            self.update_arm(arm)
        assert spec.seed is not None
        self.group_of = assign_groups(spec.seed, spec.holdout)
        """Returns a player's group; None if the campaign has no holdout."""
        self._propensity = propensity_function(spec.policy, self.kernel, spec.seed)
        self.pricing = Pricing(spec, state.acceptance) if state.acceptance is not None else None
        """Sets the payments if the campaign has a learned price."""

    def _allocate(self) -> None:
        arms = len(self.state.arms)
        self._in_flight_counts = np.array(self.state.in_flight, np.int64)
        self._counted = np.zeros(arms)
        self._awaited = np.zeros(arms, np.bool_)
        self._active = np.logical_not(self.state.retired)
        self._nothing_displayed = np.full(arms, np.nan)
        self._shown, self._means = np.zeros(arms), np.zeros(arms)
        self._permitted = np.zeros(arms, np.bool_)
        self._counts = np.zeros(arms)
        self._stream = np.zeros(4, np.uint64)
        probe = self.spec.probe
        self._share, self._amounts = 0.0, np.zeros(1)
        if probe is not None:
            self._share, self._amounts = probe.share, np.array(probe.amounts)

    def limit(self, spent_on_player: int) -> Limit:
        """Return the most that the next offer may cost."""
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
        held_out: bool = False,
        segment: int | None = None,
    ) -> Decision:
        """Choose the arm for the next player, and calculate the payment.

        A player who is `held_out` gets their own choice, without the policy and the probe, as all
        players do while the campaign is paused. The time t of the policy counts these offers too.
        `segment` is that of the player, if the campaign has segments.
        """
        state, spec, kernel = self.state, self.spec, self.kernel
        t = state.decisions + 1
        offerable, seen = self._active, self._nothing_displayed
        if eligible is not None:
            offerable = np.zeros_like(self._active)
            offerable[[self.arms[arm] for arm in eligible]] = True
            offerable &= self._active
        if displayed:
            seen = seen.copy()
            for name, stars in displayed.items():
                seen[self.arms[name]] = self.to_policy_scale(stars)
        self.segments.set_current(segment)
        before = self.memory.copy()
        unpaid = "paused" if state.status == "paused" else "holdout" if held_out else None
        overlap = 0.0 if unpaid else spec.overlap
        most = 0.0 if unpaid else max_stars_for(limit.amount, spec.price_of_a_star, spec.margin)

        def run(most: float, memory: npt.NDArray[np.float64], *buffers: Any) -> tuple[Any, ...]:
            step, params = self._own_choice if unpaid else self._decide
            result: tuple[Any, ...] = step(
                spec.seed, t, at, state.rules, self._ledger, self.segments.arrays, self._flight,
                self._in_flight_counts, memory, params, most / self._steps, kernel.limit_slot,
                self._share, self._amounts, overlap, offerable, seen, *buffers, self._counted,
                self._awaited, self._stream,
            )  # fmt: skip
            return result

        buffers = (self._shown, self._permitted, self._means, self._counts)
        arm, own, payment, limited, first, coin, coin_amount, chosen = run(
            most, self.memory, *buffers
        )
        stars, probe, likely, estimated = payment * self._steps, None, 1.0, False
        priced, price = self._price(t, arm, own, stars) if not unpaid else (stars, PriceRecord())
        gap = stars if price.propensity is not None else None
        stars = priced
        paid_choice = "control" if spec.policy.equal_pay else "probe"
        reason = "explore" if arm != own else paid_choice if stars > 0 else "own_choice"
        record = OverlapRecord()
        if unpaid is not None:
            reason = unpaid
        else:
            if arm != chosen:
                reason = "overlap"
            made = DecisionInputs(
                t, self._counts, self._means, self._permitted, self._shown,
                most / self._steps, first, chosen, before, chosen,
            )  # fmt: skip
            if overlap:
                record = self._record_overlap(made, overlap)
                assert record.propensities is not None
                likely = record.propensities[arm]
            elif self._propensity is not None:
                likely, estimated = self._propensity(made)
                likely = round_propensity(likely)
            if arm == own and stars == 0 and coin != NO_PROBE and self._affords_probe(limit):
                # Probe only the player's own choice: acceptance then does not depend on the coin.
                probe = "heads" if coin == HEADS else "tails"
                if probe == "heads":
                    stars, reason = coin_amount, "probe"
            elif limited and state.rules < LIMITED_IF_CHANGED:
                reason = "limited"
        if state.rules >= LIMITED_IF_CHANGED:
            free = arm, own, payment
            # If this is false, every arm was affordable and no limit can have changed the decision.
            if not unpaid and (limited or kernel.payment_rule is not pay_required):
                free = run(math.inf, before.copy(), *map(np.empty_like, buffers))[:3]
            wanted, _ = self._price(t, free[0], free[1], free[2] * self._steps)
            if free[0] == free[1] and wanted == 0 and coin == HEADS:
                wanted = coin_amount
            limited = not unpaid and (arm, stars) != (free[0], wanted)
            if limited and reason not in ("probe", "overlap"):
                reason = "limited"
        if spec.policy.equal_pay and stars > 0:
            gap = float(self._shown[own] - self._shown[arm]) * self._steps
        amount = amount_of(stars, spec.price_of_a_star, spec.margin)
        assert amount <= limit.amount, "every permitted payment is affordable: see `max_stars_for`"
        return Decision(
            arm, own, stars, amount, reason, likely, estimated, bool(limited),
            probe, coin_amount if probe else None, gap, record, price,
        )  # fmt: skip

    def _price(self, t: int, arm: int, own: int, stars: float) -> tuple[float, PriceRecord]:
        """Return the payment for an arm in stars: as decided, or the learned price."""
        if self.pricing is None:
            return stars, PriceRecord()
        payment, record = self.pricing.price(t, stars if arm != own else 0.0)
        return payment if arm != own else stars, record

    def _record_overlap(self, made: DecisionInputs, share: float) -> OverlapRecord:
        """Return the propensities of all arms, and what the policy saw."""
        means = self.segments.arrays.means if self.segments.names else self._ledger.means
        averages = tuple((means * self._steps + self._zero).tolist())
        return OverlapRecord(
            mixture_propensities(self._propensity, made, share),
            tuple(self._counted.tolist()),
            averages if averages != self.shown_stars() else None,
        )

    def _affords_probe(self, limit: Limit) -> bool:
        """Return whether the largest probe amount is affordable, regardless of the coin's side."""
        return (
            amount_of(max(self._amounts), self.spec.price_of_a_star, self.spec.margin)
            <= limit.amount
        )

    def shown_stars(self) -> tuple[float, ...]:
        """Return the rating that each arm displayed at the last decision, in stars."""
        if self.spec.policy_sees == "stars":
            return tuple(self._shown.tolist())
        return tuple((self._shown * self._steps + self._zero).tolist())

    def update_arm(self, arm: int, new: bool = False, paid: float = 0.0, rating: int = 0) -> None:
        """Recalculate an arm's average. If `new`, let the policy learn from `rating` and `paid`."""
        state = self.state
        n = state.pulls[arm]
        # One division of whole numbers, so that equal averages are equal to the last bit.
        above = state.totals[arm] - n * self._zero
        mean = above / (n * self._steps) if n else self._prior
        self._record_rating(
            self._ledger, self.memory, self._params, arm, n, above / self._steps, mean,
            new, paid / self._steps, self.to_policy_scale(rating),
        )  # fmt: skip
        self.segments.update_arm(arm, n, state.totals[arm], (self._zero, self._steps))

    def count_rating(self, arm: int, segment: int | None, rating: int, more: int = 1) -> None:
        """Add a rating to the counts of an arm and a segment, or remove it with `more` = −1."""
        self.state.pulls[arm] += more
        self.state.totals[arm] += more * rating
        self.segments.count(arm, segment, rating, more)

    def remove_rating(self, arm: int, segment: int | None, rating: int) -> None:
        """Remove a rating from an arm's average, and from the number that the policy knows of."""
        self.count_rating(arm, segment, rating, -1)
        self.update_arm(arm)
        if self.kernel.remove is not None:
            self.kernel.remove(self.memory, self.kernel.params, arm)

    def begin_pull(self, n: int, at: int, arm: int, segment: int | None = None) -> None:
        """Add an offer to the pulls in flight."""
        self._adjust_in_flight(arm, 1)
        if self.state.rules >= EXPECTED_RATINGS:
            self.state.offered[arm] += 1
            campaign_step.begin_pull(self._flight, n, at, self.segments.cell(arm, segment))

    def end_pull(self, n: int, at: int, arm: int, outcome: int, segment: int | None = None) -> None:
        """Remove an offer from the pulls in flight; `in_flight.remove_pull` lists the outcomes."""
        self._adjust_in_flight(arm, -1)
        if self.state.rules >= EXPECTED_RATINGS:
            self.state.offered[arm] -= outcome == in_flight.WITHDRAWN
            campaign_step.end_pull(self._flight, n, at, self.segments.cell(arm, segment), outcome)

    def _adjust_in_flight(self, arm: int, by: int) -> None:
        self.state.in_flight[arm] += by
        self._in_flight_counts[arm] += by

    def upgrade(self, at: int, rules: int, in_flight_offers: Iterable[OfferRecord]) -> None:
        """Switch to a later version of the rules; `in_flight_offers` are sorted by number.

        The ages at which earlier offers were rated are not known, so the estimated rating hazards
        start from their prior. Offers still in flight are observed from now on: each counts in the
        bucket of its current age and in later buckets, but not in earlier ones.
        """
        state = self.state
        state.rules = rules
        state.offered = list(state.in_flight)
        self.reconfigure()
        for offer in in_flight_offers:
            cell = self.segments.cell(offer.arm, offer.segment)
            campaign_step.begin_pull(self._flight, offer.n, offer.offered_at, cell)
        in_flight.update_ages(self._flight, at)
        self._flight.reached[:] = self._flight.unrated

    def retire(self, arm: int, retired: bool) -> None:
        """Retire an arm, or reactivate it."""
        self.state.retired[arm] = retired
        self._active[arm] = not retired

    def reset_memory(self) -> None:
        """Clear the policy's memory before it relearns all ratings."""
        self.memory = np.zeros(self.kernel.memory)

    def reconfigure(self) -> None:
        """Apply changes of the arms or settings in the state."""
        size = self.spec.policy.kernel(len(self.state.arms)).memory
        memory = self.memory
        if self.learns_from_ratings:  # one block per arm: append those of new arms
            memory = np.concatenate([memory, np.zeros(size - len(memory))])
        elif size != len(memory):  # not learned from ratings, so the policy can recalculate it
            memory = np.zeros(size)
        self.state.memory = memory.tobytes()
        self.state.flight = self._pack_in_flight()
        self._configure()

    def feeds_averages(self, player: bytes) -> bool:
        """Return whether a player's offers and ratings count in the averages and in flight."""
        return self.spec.holdout_feeds_averages or self.group_of(player) != HOLDOUT

    def group_counts(self, offer: OfferRecord) -> GroupCounts | None:
        """Return the totals in which an offer counts; None if there are none.

        Offers made while the campaign is paused or in shadow mode do not count: then nobody is
        paid, and the groups do not differ.
        """
        if not self.state.groups or offer.shadow or offer.reason == "paused":
            return None
        return self.state.groups[self.group_of(offer.player) or ""]

    def stars_paid(self, offer: OfferRecord) -> float:
        """Return the payment of an offer in stars: as offered, unless less was accepted."""
        if offer.paid is None or offer.paid == offer.amount:
            return offer.payment
        return stars_for(offer.paid, self.spec.price_of_a_star, self.spec.margin)

    def averages(self) -> list[float | None]:
        """Return the average rating of each arm, in stars."""
        return [
            total / n if n else None
            for total, n in zip(self.state.totals, self.state.pulls, strict=True)
        ]

    def displayed_stars(self) -> list[float]:
        """Return the rating that each arm displays now, in stars."""
        shown = np.empty_like(self._shown)
        self._displayed_averages(self._ledger, self.memory, self._params, shown)
        return [float(stars) for stars in shown * self._steps + self._zero]

    def segment_views(self) -> list[SegmentView]:
        """Return the averages of each segment; empty without segments."""
        return self.segments.views(self.state.arms, self._ledger, (self._zero, self._steps))

    def encode(self) -> bytes:
        """Encode the state for the database."""
        self.state.memory = self.memory.tobytes()
        self.state.flight = self._pack_in_flight()
        return encode_state(self.state)

    def _pack_in_flight(self) -> FlightState | None:
        return pack(self._flight) if self.state.rules >= EXPECTED_RATINGS else None

    def expected(self) -> Expectation:
        """Return the ratings expected from the offers in flight, at the time of the last event."""
        return expectation(self._flight, self.segments.per_arm)

    def to_policy_scale(self, stars: float) -> float:
        """Convert a rating to the scale that the policy sees."""
        return (stars - self._zero) / self._steps
