"""Reference implementations of policies beyond the paper, in plain Python.

Everything is recomputed from the list of all ratings in each round.
"""

from __future__ import annotations

import math

from entice.rng import POLICY, new_stream, normal, uniform
from oracles.algorithm1 import argmax, total

SEED = 5


class ReferencePolicy:
    """A policy that decides from all ratings so far, as (arm, feedback), oldest first."""

    def __init__(self, arms: int) -> None:
        self.arms, self.ratings = arms, list[tuple[int, float]]()
        self.stream = new_stream(SEED, 0, POLICY)

    def of(self, arm: int) -> list[float]:
        return [feedback for rated, feedback in self.ratings if rated == arm]

    def averages(self) -> list[float]:
        return [total(self.of(i)) / len(self.of(i)) if self.of(i) else 0.0 for i in self.all()]

    def all(self) -> range:
        return range(self.arms)

    def select(self, t: int) -> int:
        raise NotImplementedError

    def rate(self, arm: int, feedback: float) -> None:
        self.ratings.append((arm, feedback))


class ReferenceRoundRobin(ReferencePolicy):
    """Wang and Huang's modified ε-greedy, c = 2."""

    explored = 0

    def select(self, t: int) -> int:
        if float(uniform(self.stream)) < min(1.0, 2 * self.arms / t):
            self.explored += 1
            return (self.explored - 1) % self.arms
        return argmax(self.averages())


class ReferenceAlternating(ReferencePolicy):
    """Thompson sampling of Algorithm 4 in odd rounds, greedy in even ones."""

    def select(self, t: int) -> int:
        means = self.averages()
        if t % 2 == 0:
            return argmax(means)
        spreads = [1 / math.sqrt(len(self.of(i)) + 1) for i in self.all()]
        return argmax([means[i] + spreads[i] * float(normal(self.stream)) for i in self.all()])


class ReferenceDiscounted(ReferencePolicy):
    """D-UCB, γ = 0.97, ξ = 2."""

    def select(self, t: int) -> int:
        latest = len(self.ratings)
        weights, sums = [0.0] * self.arms, [0.0] * self.arms
        for s, (arm, feedback) in enumerate(self.ratings, start=1):
            weights[arm] += 0.97 ** (latest - s)
            sums[arm] += 0.97 ** (latest - s) * feedback
        if 0.0 in weights:
            return weights.index(0.0)
        log = math.log(sum(weights))
        return argmax([sums[i] / weights[i] + math.sqrt(2 * log / weights[i]) for i in self.all()])


class ReferenceWindow(ReferencePolicy):
    """SW-UCB, τ = 40, ξ = 2."""

    def select(self, t: int) -> int:
        recent = self.ratings[-40:]
        bounds = []
        for i in self.all():
            own = [feedback for arm, feedback in recent if arm == i]
            if not own:
                return i
            width = math.sqrt(2 * math.log(min(t, 40)) / len(own))
            bounds.append(total(own) / len(own) + width)
        return argmax(bounds)


class ReferenceRace(ReferencePolicy):
    """The race for T = 64 and δ = 0.1, with sets of arms, lists of ratings and pairwise rules."""

    def __init__(self, arms: int) -> None:
        super().__init__(arms)
        self.active = {layer: set(self.all()) for layer in range(1, 7)}
        self.own = {(layer, arm): list[float]() for layer in range(1, 7) for arm in self.all()}
        self.log_term = math.log(4 * arms * 64 * 6 / 0.1)
        self.layer: int | None = 1
        self.borrowed = 0

    def draw(self) -> int:
        """Draw layer ℓ with probability 2^−ℓ; the remaining probability goes to layer 1.

        Layer ℓ has the upper half of what layers 1 to ℓ − 1 leave of [0, 1): a convention.
        """
        u = float(uniform(self.stream))
        return next((layer for layer in range(1, 7) if u >= 2.0**-layer), 1)

    def select(self, t: int) -> int:
        self.layer = self.draw()
        arms = sorted(self.active[self.layer])
        if arms:
            counts = [len(self.own[self.layer, arm]) for arm in arms]
            return arms[counts.index(min(counts))]
        self.borrowed += 1
        arms = sorted(next(self.active[layer] for layer in range(1, 7) if self.active[layer]))
        self.layer = None
        means = self.averages()
        return arms[argmax([means[arm] for arm in arms])]

    def rate(self, arm: int, feedback: float) -> None:
        super().rate(arm, feedback)
        if self.layer is None:
            return
        self.own[self.layer, arm].append(feedback)
        while beaten := self.beaten(self.layer):
            for layer in range(1, self.layer + 1):
                self.active[layer] -= beaten

    def beaten(self, layer: int) -> set[int]:
        rated = [arm for arm in self.active[layer] if self.own[layer, arm]]
        mean = {arm: total(own) / len(own) for arm in rated if (own := self.own[layer, arm])}
        n = {arm: len(self.own[layer, arm]) for arm in rated}
        wide = {arm: math.sqrt(self.log_term / n[arm]) + self.log_term / n[arm] for arm in rated}
        return {a for a in rated for b in rated if mean[b] - mean[a] > wide[a] + wide[b]}
