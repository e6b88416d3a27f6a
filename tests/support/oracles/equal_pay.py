"""Reference implementations of the equal-pay policies, in plain Python and NumPy.

Everything is recomputed from the list of all ratings in each round: the two-way fixed effects by
dense least squares over arms and levels, the information of a rating by adding it to the design.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from oracles.algorithm1 import argmax, total


class Rating(NamedTuple):
    arm: int
    level: int
    feedback: float


class ReferenceEqualPay:
    """`EqualPay`, if all ratings are immediate and each arm is tried once at the start.

    An offer may pay at most `limit`.
    """

    def __init__(self, arms: int, horizon: int | None, noise: float, prior: float = 20.0) -> None:
        self.arms, self.horizon, self.noise, self.prior = arms, horizon, noise, prior
        self.ratings: list[Rating] = []
        self.warm: set[int] = set()
        self.pair: tuple[int, int] | None = None

    def variance_of(self, design: list[tuple[int, int]], i: int, j: int) -> float:
        """Return the variance of the fitted μ_i − μ_j of these (arm, level), for noise 1."""
        levels = sorted({level for _, level in design})
        rows = np.zeros((len(design), self.arms + len(levels)))
        for row, (arm, level) in zip(rows, design, strict=True):
            row[arm] = row[self.arms + levels.index(level)] = 1.0
        contrast = np.zeros(rows.shape[1])
        contrast[i] += 1.0
        contrast[j] -= 1.0
        return float(contrast @ np.linalg.pinv(rows.T @ rows) @ contrast)

    def fit(self) -> tuple[list[float], float]:
        """Return the fitted values of the arms, up to a constant, and the noise variance."""
        levels = sorted({r.level for r in self.ratings})
        rows = np.zeros((len(self.ratings), self.arms + len(levels)))
        for row, r in zip(rows, self.ratings, strict=True):
            row[r.arm] = row[self.arms + levels.index(r.level)] = 1.0
        y = np.array([r.feedback for r in self.ratings])
        solution = np.linalg.lstsq(rows, y, rcond=None)[0]
        residuals = float(((y - rows @ solution) ** 2).sum())
        # The arms' constants and the levels' constants share one constant.
        degrees = len(y) - (self.arms + len(levels) - 1)
        return solution[: self.arms].tolist(), (2 * self.noise**2 + residuals) / (2 + degrees)

    def count(self, arm: int) -> int:
        return len([r for r in self.ratings if r.arm == arm])

    def price(self, level: int) -> float:
        return self.noise * 0.03 * 1.25 ** (level - 1) if level else 0.0

    def offer(self, t: int, limit: float = math.inf) -> tuple[int, int]:
        """Return the arm and the payment level of round t."""
        affordable = [level for level in range(1, 27) if self.price(level) <= limit]
        values, s2 = self.fit()
        design = [(r.arm, r.level) for r in self.ratings]
        leader = argmax(values)
        gaps = [values[leader] - value for value in values]
        cold = [i for i in range(self.arms) if i not in self.warm]
        if cold:
            counts = [self.count(i) for i in cold]
            return cold[counts.index(min(counts))], 0
        if self.pair is not None:
            challenger, level = self.pair
            self.pair = None
            if challenger != leader and level in affordable:
                return leader, level
        scale = t / 5 if self.horizon is None else self.horizon / 15
        indices = [-math.inf] * self.arms
        sufficient: dict[int, list[int]] = {}
        for i in set(range(self.arms)) - {leader}:
            v = self.variance_of(design, leader, i)
            gate = max(0.5, math.log(scale * min(v, 1.0)))
            shown = gaps[i] / (1 + self.prior * v)
            sufficient[i] = [level for level in affordable if self.price(level) >= shown]
            if sufficient[i]:
                indices[i] = math.sqrt(2 * s2 * v * gate) - gaps[i]
        best = argmax(indices)
        if indices[best] <= 0:
            return leader, 0
        v = self.variance_of(design, leader, best)
        level = min(sufficient[best])
        # Variance removed for its cost: by a pair, by the leader as a control, by the arm.
        pair = v**2 / (v + 2) / (gaps[best] + 2 * self.price(level))
        options = [(pair, (best, level), True)]
        used = {r.level for r in self.ratings}
        for other in sorted(used & set(range(level, level + 8)) & set(affordable)):
            cost = self.price(other)
            for arm, at_cost in ((leader, cost), (best, gaps[best] + cost)):
                gain = v - self.variance_of([*design, (arm, other)], leader, best)
                options.append((gain / at_cost, (arm, other), False))
        _, offer, is_pair = max(options, key=lambda option: option[0])
        self.pair = (best, level) if is_pair else None
        return offer

    def rate(self, arm: int, level: int, feedback: float) -> None:
        self.ratings.append(Rating(arm, level, feedback))
        if len({r.arm for r in self.ratings}) < self.arms:
            return
        values, s2 = self.fit()
        leader = argmax(values)
        for i in range(self.arms):
            n, gap = self.count(i), values[leader] - values[i]
            spread = 1 / n + 1 / self.count(leader)
            if n >= 10 or (n >= 2 and i != leader and gap**2 > 4 * s2 * spread):
                self.warm.add(i)


class Block(NamedTuple):
    """A block of `ReferenceElimination`: its price, and each arm's places and ratings."""

    price: float
    places: dict[int, int]
    ratings: dict[int, list[float]]


class ReferenceElimination:
    """`EqualPayElimination`, if all ratings are immediate and each arm is tried once at first.

    If 16 offers in a row may pay less than the block's price, the race goes on without the arms
    that cost more; they race again in twice the round in which the race has ended.
    """

    def __init__(
        self, arms: int, horizon: int, noise: float, rho: float, prior: float,
        draw: Callable[[int], int], estimate: bool = False,
    ) -> None:  # fmt: skip
        self.estimate = estimate
        self.squares, self.degrees, self.upper = 0.0, 0, math.inf
        self.active = list(range(arms))
        self.horizon, self.noise, self.rho, self.prior = horizon, noise, rho, prior
        self.draw = draw
        self.leader = 0
        self.excluded: list[int] = []
        self.too_low: list[float] = []
        self.cap, self.next_race = math.inf, 0
        self.start_race()

    def start_race(self) -> None:
        self.prices = dict.fromkeys(self.active, 0.0)
        self.settled: list[tuple[float, Block]] = []
        self.predicted: dict[int, float] | None = None
        self.old: Block | None = None
        self.start_block()
        # In the first block the leader has one place, like the others.
        self.block = Block(0.0, dict.fromkeys(self.active, 1), {i: [] for i in self.active})
        self.to_do = list(self.active)

    def offer(self, t: int = 0, limit: float = math.inf) -> tuple[int, float]:
        """Return the arm and the payment of the next round."""
        if len(self.active) == 1 and self.excluded:
            self.next_race = self.next_race or 2 * t
            if t >= self.next_race:
                return self.race_again()
        if len(self.active) > 1:
            self.follow(limit)
        if len(self.active) == 1 or self.block.price > limit:
            return self.leader, 0.0
        return self.to_do[self.draw(len(self.to_do))], self.block.price

    def race_again(self) -> tuple[int, float]:
        """Start a race, and return the survivor: players still see the excluded arms' old gaps."""
        self.active = sorted([*self.active, *self.excluded])
        self.excluded, self.next_race = [], 0
        self.start_race()
        assert self.draw(1) == 0
        return self.leader, 0.0

    def follow(self, limit: float) -> None:
        """Start a cheaper block if the limit has been below the price for 16 offers."""
        if math.isfinite(self.cap):
            self.cap = max(self.cap, limit)
        self.too_low = [*self.too_low, limit] if self.block.price > limit else []
        if len(self.too_low) == 16:
            self.cap, self.too_low = max(self.too_low), []
            self.start_block()

    def rate(self, arm: int, payment: float, feedback: float) -> None:
        if len(self.active) == 1:
            return
        if payment == self.block.price:
            self.block.ratings[arm].append(feedback)
            self.to_do.remove(arm)
            if not self.to_do:
                self.end_block()
        elif self.old is not None and payment == self.old.price:  # unpaid, while a block waits
            self.old.ratings[arm].append(feedback)

    def weight(self, block: Block) -> float:
        """Return the harmonic mean of the arms' ratings per place; 1 if no rating was added."""
        return len(self.active) / total(
            block.places[i] / len(block.ratings[i]) for i in self.active
        )

    def variance(self) -> float:
        """Return σ², or the lowest of its upper bounds so far."""
        if not self.estimate:
            return self.noise**2
        if self.predicted is not None:
            errors = [y - self.predicted[i] for i in self.active for y in self.block.ratings[i]]
            self.squares += len(errors) * float(np.var(errors))
            self.degrees += len(errors) - 1
        for theta in (0.05, 0.1, 0.2, 0.4, 0.8, 1.6):
            log_term = self.degrees * math.log(1 + 2 * theta) / 2 - math.log(6 * self.horizon)
            if log_term > 0:
                self.upper = min(self.upper, theta * self.squares / log_term)
        return self.upper

    def end_block(self) -> None:
        variance = self.variance()
        if self.old is not None:
            self.settled.append((self.weight(self.old), self.old))
        self.old = self.block
        blocks = [*self.settled, (self.weight(self.old), self.old)]
        sums, spread = dict[int, float](), dict[int, float]()
        for i in self.active:
            ratings = [(w, block.ratings[i]) for w, block in blocks]
            sums[i] = total(w * total(several) / len(several) for w, several in ratings)
            spread[i] = total(w * w / len(several) for w, several in ratings)
        self.leader = self.active[argmax([sums[i] for i in self.active])]
        behind = {i: sums[self.leader] - sums[i] for i in self.active}
        for i in list(self.active):
            v = spread[self.leader] + spread[i]
            log_term = max(1.0, math.log(2 * self.horizon / v))
            if i != self.leader and behind[i] > math.sqrt(2 * self.rho * variance * v * log_term):
                self.active.remove(i)
        weight = total(w for w, _ in blocks)
        self.predicted = {i: -behind[i] / weight for i in behind}
        unit, weight = self.noise / 4096, weight + self.prior
        self.prices = {i: unit * math.ceil(behind[i] / weight / unit) for i in self.active}
        self.start_block()

    def start_block(self) -> None:
        self.excluded += [i for i in self.active if self.prices[i] > self.cap]
        self.active = [i for i in self.active if self.prices[i] <= self.cap]
        extra = math.ceil(math.sqrt(0.5 * (len(self.active) - 1)))
        places = {i: extra if i == self.leader else 1 for i in self.active}
        self.to_do = sorted(i for i in self.active for _ in range(places[i]))
        price = max(self.prices[i] for i in self.active)
        self.block = Block(price, places, {i: [] for i in self.active})
