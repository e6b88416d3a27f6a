"""A plain-Python oracle of the live service, independent of the package.

It implements the transition table of the service line by line. Money and counts are updated by the
table's increments and, after each one, recomputed from all offers: both must agree. Averages and
prices are exact fractions. The code is slow and simple on purpose.
"""

import math
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Literal

from oracles.in_flight import ReferenceInFlight

SECOND = 1_000_000
CLOSE = 1e-9
"""Bounds that differ by less may be ordered either way, because of rounding."""


class Rejected(Exception):
    """A command that the service must reject, with the expected status."""

    def __init__(self, status: int) -> None:
        super().__init__(str(status))
        self.status = status


@dataclass
class OracleOffer:
    """One offer."""

    n: int
    player: str
    arm: str
    amount: int
    state: str
    expires: int
    paid: int | None = None
    rating: int | None = None
    awaited: int | None = None
    """The end of the rating window."""
    shadow: bool = False
    """Whether it was made in shadow mode: it costs nothing and is never in flight."""
    group: str | None = None
    """The group in whose totals it counts."""
    apart: bool = False
    """Whether it is kept out of the averages and the offers in flight."""

    @property
    def cost(self) -> int:
        """The amount that it currently takes from the budget."""
        if self.state == "offered":
            return self.amount
        if self.state in ("accepted", "rated", "unrated"):
            assert self.paid is not None
            return self.paid
        return 0


@dataclass(frozen=True)
class Choices:
    """The possible outcomes of a decision."""

    own: str
    """The player's own choice; ties go to the first arm."""
    prices: dict[str, int]
    """The prices of the arms that may be offered."""
    wanted: frozenset[str]
    """The arms that UCB may choose with unlimited money."""
    ucb: frozenset[str]
    """The arms that UCB may choose; several only if their bounds are nearly equal."""
    limit: int
    best: frozenset[str]
    """The arms that tie for the highest displayed rating."""


@dataclass
class OracleCampaign:
    """A campaign: its settings, offers and totals."""

    arms: list[str]
    budget: int
    price_of_a_star: int
    margin: int = 0
    lowest: int = 1
    highest: int = 5
    zero_to_one: bool = False
    unrated_shows: Fraction | None = None
    cap_per_offer: int | None = None
    cap_per_player: int | None = None
    pace_over: int | None = None
    offer_expires_after: int = 900
    rating_window: int = 30 * 24 * 3600
    late_ratings: bool = True
    status: str = "live"
    holdout: frozenset[str] | None = None
    """The players who are held out."""
    holdout_feeds_averages: bool = True
    retired: set[str] = field(default_factory=set)
    offers: list[OracleOffer] = field(default_factory=list)
    organic: list[tuple[str, int]] = field(default_factory=list)
    reserved: int = 0
    committed: int = 0
    in_flight: dict[str, int] = field(default_factory=dict)
    n: dict[str, int] = field(default_factory=dict)
    S: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.flight = ReferenceInFlight(self.rating_window * SECOND)
        for arm in self.arms:
            self.in_flight[arm] = self.n[arm] = self.S[arm] = 0

    # Totals

    def check(self) -> None:
        """Recompute all totals from the offers and the organic ratings."""
        waiting, sold = ("offered", "accepted"), ("accepted", "rated", "unrated")
        assert self.reserved == sum(o.amount for o in self.offers if o.state == "offered")
        assert self.committed == sum(o.paid or 0 for o in self.offers if o.state in sold)
        for arm in self.arms:
            mine = [o for o in self.offers if o.arm == arm]
            mine = [o for o in mine if not o.apart]
            ratings = [o.rating for o in mine if o.state == "rated" and o.rating is not None]
            ratings += [rating for rated, rating in self.organic if rated == arm]
            assert self.in_flight[arm] == sum(o.state in waiting and not o.shadow for o in mine)
            assert self.n[arm] == len(ratings)
            assert self.S[arm] == sum(ratings)
        assert self.reserved + self.committed <= self.budget

    def group_totals(self, group: str) -> tuple[int, int, int, int, int, int, int]:
        """Return the totals of a group.

        Visitors, rated, sum and squares of ratings, payments, players, declined.
        """
        mine = [o for o in self.offers if o.group == group]
        ratings = [o.rating for o in mine if o.state == "rated" and o.rating is not None]
        paid = sum(o.paid or 0 for o in mine if o.state in ("accepted", "rated", "unrated"))
        squares = sum(rating**2 for rating in ratings)
        first = {o.player: o for o in reversed(self.offers)}
        players = sum(o.group == group for o in first.values())
        declined = sum(o.state == "declined" for o in mine)
        return len(mine), len(ratings), sum(ratings), squares, paid, players, declined

    # Decision

    def shows(self, arm: str, displayed: dict[str, float] | None = None) -> Fraction:
        """Return the rating displayed by an arm, in stars."""
        if displayed is not None and arm in displayed:
            return Fraction(displayed[arm])
        if self.n[arm]:
            return Fraction(self.S[arm], self.n[arm])
        if self.unrated_shows is not None:
            return self.unrated_shows
        return Fraction(self.lowest + self.highest, 2)

    def price(self, stars: Fraction) -> int:
        """Return κ per star, rounded up, plus the margin; 0 for no stars."""
        return math.ceil(stars * self.price_of_a_star) + self.margin if stars > 0 else 0

    def limit(self, player: str) -> int:
        """Return the most that the next offer may cost."""
        spent = self.reserved + self.committed
        limits = [self.budget - spent]
        if self.pace_over is not None:
            share = min(1.0, math.log(1 + len(self.offers) + 1) / math.log(1 + self.pace_over))
            limits.append(max(0, math.floor(self.budget * share) - spent))
        if self.cap_per_offer is not None:
            limits.append(self.cap_per_offer)
        if self.cap_per_player is not None:
            mine = sum(o.cost for o in self.offers if o.player == player)
            limits.append(max(0, self.cap_per_player - mine))
        return min(limits)

    def choices(
        self,
        player: str,
        eligible: list[str] | None = None,
        displayed: dict[str, float] | None = None,
    ) -> Choices:
        """Return the arms that may be offered to a player, and those that UCB may choose."""
        known = set(self.arms)
        if self.status == "closed":
            raise Rejected(409)
        if not set(eligible or []) <= known or not set(displayed or {}) <= known:
            raise Rejected(422)
        if any(not self.lowest <= stars <= self.highest for stars in (displayed or {}).values()):
            raise Rejected(422)
        among = [arm for arm in self.arms if arm not in self.retired]
        if eligible is not None:
            among = [arm for arm in among if arm in eligible]
        if not among:
            raise Rejected(422)
        shown = {arm: self.shows(arm, displayed) for arm in among}
        top = max(shown.values())
        own = next(arm for arm in among if shown[arm] == top)
        limit = self.limit(player)
        prices, free = {}, []
        for arm in among:
            gap = top - shown[arm]
            if gap > 0 and self.n[arm] == 0 and self.flight.expected(arm) >= 1:
                continue
            free.append(arm)
            if self.price(gap) <= limit:
                prices[arm] = self.price(gap)
        best = frozenset(arm for arm in among if shown[arm] == top)
        wanted, ucb = self._highest_bounds(free), self._highest_bounds(list(prices))
        return Choices(own, prices, wanted, ucb, limit, best)

    def _highest_bounds(self, among: list[str]) -> frozenset[str]:
        """Return UCB's arm: average over n_i, width from n_i + e_i; unknown arms come first."""
        t = len(self.offers) + 1
        bounds = {}
        for arm in among:
            pulls = self.n[arm] + self.flight.expected(arm)
            if pulls == 0:
                return frozenset([arm])
            mean = self.shows(arm)
            if self.zero_to_one:
                mean = (mean - self.lowest) / (self.highest - self.lowest)
            bounds[arm] = float(mean) + math.sqrt(2 * math.log(t) / pulls)
        top = max(bounds.values())
        first = next(arm for arm in among if bounds[arm] == top)
        return frozenset({first} | {arm for arm in among if 0 < top - bounds[arm] < CLOSE})

    def live(self, player: str) -> OracleOffer | None:
        """Return the open offer of a player."""
        mine = [o for o in self.offers if o.player == player and o.state == "offered"]
        assert len(mine) <= 1
        return mine[0] if mine else None

    # Transitions

    def offer(self, now: int, player: str, arm: str, amount: int) -> OracleOffer:
        """Offer a: reserved + a, in flight + 1."""
        expires = now + self.offer_expires_after * SECOND
        offer = OracleOffer(len(self.offers) + 1, player, arm, amount, "offered", expires)
        self.offers.append(offer)
        if self.holdout is not None:
            held_out = player in self.holdout
            offer.apart = held_out and not self.holdout_feeds_averages
            if self.status == "live":
                offer.group = "holdout" if held_out else "paid"
        if self.status == "shadow":
            offer.state, offer.shadow = "shadow", True
        else:
            self.reserved += amount
            if not offer.apart:
                self.in_flight[arm] += 1
                self.flight.begin(offer.n, now, arm)
        return offer

    def find(self, now: int, number: int) -> OracleOffer:
        """Return an offer, after expiring it if it is due."""
        if not 1 <= number <= len(self.offers):
            raise Rejected(404)
        offer = self.offers[number - 1]
        self.expire_if_due(now, offer)
        return offer

    def accept(self, now: int, number: int, amount: int | None) -> None:
        """Accept a' ≤ a: reserved − a, committed + a'."""
        offer = self.find(now, number)
        if offer.state in ("accepted", "rated", "unrated"):
            if amount is not None and amount != offer.paid:
                raise Rejected(409)
            return
        self._check_offer_is_open(now, offer)
        offered = 0 if offer.shadow else offer.amount
        paid = offered if amount is None else amount
        if not 0 <= paid <= offered:
            raise Rejected(422)
        self.reserved -= offered
        self.committed += paid
        offer.state, offer.paid = "accepted", paid
        offer.awaited = now + self.rating_window * SECOND

    def decline(self, now: int, number: int) -> None:
        """Decline: reserved − a, in flight − 1."""
        offer = self.find(now, number)
        if offer.state == "declined":
            return
        self._check_offer_is_open(now, offer)
        if offer.shadow:
            offer.state = "declined"
        else:
            self._release(now, offer, "declined")

    def rate(self, now: int, number: int, rating: int) -> None:
        """Rate: in flight − 1, n + 1, S + rating; late: no longer in flight; changed: only S."""
        offer = self.find(now, number)
        if offer.state == "rated" and offer.rating == rating:
            return
        if offer.state not in ("accepted", "unrated", "rated"):
            raise Rejected(409)
        if offer.state == "unrated" and not self.late_ratings:
            raise Rejected(409)
        self._check_rating(rating)
        if offer.state == "rated":
            assert offer.rating is not None
            self.S[offer.arm] += 0 if offer.apart else rating - offer.rating
        else:
            if offer.state == "accepted":
                self._land(now, offer, "rated")
            if not offer.apart:
                self.n[offer.arm] += 1
                self.S[offer.arm] += rating
        offer.state, offer.rating = "rated", rating

    def reverse(self, now: int, number: int) -> None:
        """Reverse: committed − a'; in flight − 1 if not rated yet; rating removed if rated."""
        offer = self.find(now, number)
        if offer.state == "reversed":
            return
        if offer.state not in ("accepted", "rated", "unrated"):
            raise Rejected(409)
        assert offer.paid is not None
        self.committed -= offer.paid
        if offer.state == "accepted":
            self._land(now, offer, "withdrawn")
        if offer.state == "rated" and not offer.apart:
            assert offer.rating is not None
            self.n[offer.arm] -= 1
            self.S[offer.arm] -= offer.rating
        offer.state = "reversed"

    def rate_organic(self, ratings: list[tuple[str, int]]) -> None:
        """Enter organic ratings: n + 1, S + rating, no money; all or none."""
        for arm, rating in ratings:
            if arm not in self.arms:
                raise Rejected(422)
            self._check_rating(rating)
        for arm, rating in ratings:
            self.organic.append((arm, rating))
            self.n[arm] += 1
            self.S[arm] += rating

    def expire_if_due(self, now: int, offer: OracleOffer) -> None:
        """Expire: reserved − a, in flight − 1. End of the rating window: in flight − 1."""
        if offer.state == "offered" and offer.expires <= now:
            self._release(now, offer, "expired")
        elif offer.state == "accepted" and offer.awaited is not None and offer.awaited <= now:
            self._land(now, offer, "unrated")
            offer.state = "unrated"

    def tick(self, now: int) -> int:
        """Expire all offers that are due, and return their number."""
        before = [offer.state for offer in self.offers]
        for offer in self.offers:
            self.expire_if_due(now, offer)
        return sum(a != b.state for a, b in zip(before, self.offers, strict=True))

    def set_budget(self, budget: int) -> None:
        """Change the budget, but not below committed plus reserved money."""
        self._check_open(budget != self.budget)
        if budget < self.reserved + self.committed:
            raise Rejected(409)
        self.budget = budget

    def set_status(self, now: int, status: str) -> None:
        """Change the status. Closing is final and voids open offers."""
        self._check_open(status != self.status)
        self.status = status
        if status == "closed":
            for offer in self.offers:
                if offer.state == "offered":
                    self._release(now, offer, "voided")

    def add_arms(self, arms: list[str]) -> None:
        """Add arms."""
        self._check_open(True)
        for arm in arms:
            if arm not in self.arms:
                self.arms.append(arm)
                self.in_flight[arm] = self.n[arm] = self.S[arm] = 0

    def retire(self, arm: str, retired: bool) -> None:
        """Retire an arm, or reactivate it."""
        if arm not in self.arms:
            raise Rejected(404)
        if retired and self.retired | {arm} == set(self.arms) and arm not in self.retired:
            raise Rejected(409)
        self.retired = self.retired | {arm} if retired else self.retired - {arm}

    def _release(self, now: int, offer: OracleOffer, state: str) -> None:
        self.reserved -= offer.amount
        self._land(now, offer, "withdrawn")
        offer.state = state

    def _land(
        self, now: int, offer: OracleOffer, outcome: Literal["rated", "unrated", "withdrawn"]
    ) -> None:
        """Remove an offer from those in flight, if it is one of them."""
        if not offer.shadow and not offer.apart:
            self.in_flight[offer.arm] -= 1
            self.flight.end(offer.n, now, outcome)

    def _check_offer_is_open(self, now: int, offer: OracleOffer) -> None:
        """Reject unless the offer is open; a shadow offer is open as long as a live one."""
        closed = offer.shadow and (offer.expires <= now or self.status == "closed")
        if offer.state not in ("offered", "shadow") or closed:
            raise Rejected(409)

    def _check_open(self, changes: bool) -> None:
        if self.status == "closed" and changes:
            raise Rejected(409)

    def _check_rating(self, rating: int) -> None:
        if not self.lowest <= rating <= self.highest:
            raise Rejected(422)
