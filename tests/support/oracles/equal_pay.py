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
    """`EqualPay`, if all ratings are immediate and each arm is tried once at the start."""

    def __init__(self, arms: int, horizon: int | None, noise: float) -> None:
        self.arms, self.horizon, self.noise = arms, horizon, noise
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

    def offer(self, t: int) -> tuple[int, int]:
        """Return the arm and the payment level of round t."""
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
            if challenger != leader:
                return leader, level
        scale = t / 5 if self.horizon is None else self.horizon / 15
        indices = [-math.inf] * self.arms
        for i in set(range(self.arms)) - {leader}:
            v = self.variance_of(design, leader, i)
            gate = max(0.5, math.log(scale * min(v, 1.0)))
            indices[i] = math.sqrt(2 * s2 * v * gate) - gaps[i]
        best = argmax(indices)
        if indices[best] <= 0:
            return leader, 0
        v = self.variance_of(design, leader, best)
        shown = gaps[best] / (1 + 20 * v)
        level = next(level for level in range(1, 27) if self.price(level) >= shown)
        # Variance removed for its cost: by a pair, by the leader as a control, by the arm.
        pair = v**2 / (v + 2) / (gaps[best] + 2 * self.price(level))
        options = [(pair, (best, level), True)]
        used = {r.level for r in self.ratings}
        for other in sorted(used & set(range(level, level + 8))):
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


class ReferenceElimination:
    """`EqualPayElimination`, if all ratings are immediate and each arm is tried once at first."""

    def __init__(
        self, arms: int, horizon: int, noise: float, rho: float, prior: float,
        draw: Callable[[int], int],
    ) -> None:  # fmt: skip
        self.active = list(range(arms))
        self.horizon, self.noise, self.rho, self.prior = horizon, noise, rho, prior
        self.draw = draw
        self.blocks: list[dict[int, list[float]]] = [{i: [] for i in self.active}]
        self.leader, self.price = 0, 0.0
        self.to_do = list(self.active)

    def offer(self) -> tuple[int, float]:
        """Return the arm and the payment of the next round."""
        if len(self.active) == 1:
            return self.active[0], 0.0
        return self.to_do[self.draw(len(self.to_do))], self.price

    def rate(self, arm: int, feedback: float) -> None:
        if len(self.active) == 1:
            return
        self.blocks[-1][arm].append(feedback)
        self.to_do.remove(arm)
        if not self.to_do:
            self.end_block()

    def end_block(self) -> None:
        sums = {
            i: total(total(block[i]) / len(block[i]) for block in self.blocks) for i in self.active
        }
        spread = {i: total(1 / len(block[i]) for block in self.blocks) for i in self.active}
        self.leader = self.active[argmax([sums[i] for i in self.active])]
        behind = {i: sums[self.leader] - sums[i] for i in self.active}
        for i in list(self.active):
            v = self.noise**2 * (spread[self.leader] + spread[i])
            log_term = max(1.0, math.log(2 * self.noise**2 * self.horizon / v))
            if i != self.leader and behind[i] > math.sqrt(2 * self.rho * v * log_term):
                self.active.remove(i)
        gap = max(behind[i] for i in self.active) / (len(self.blocks) + self.prior)
        unit = self.noise / 4096
        self.price = unit * math.ceil(gap / unit)
        extra = math.ceil(math.sqrt(0.5 * (len(self.active) - 1)))
        places = {i: extra if i == self.leader else 1 for i in self.active}
        self.to_do = sorted(i for i in self.active for _ in range(places[i]))
        self.blocks.append({i: [] for i in self.active})
