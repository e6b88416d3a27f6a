"""Simulated ratings of a campaign and its holdout, seen at many looks, with the true difference.

At each look a batch of ratings has arrived. Each belongs to the holdout with a given probability.
The mean of a rating may depend on the time, on its group and on all ratings of earlier looks. The
truth at a look is the difference between the averages of these means over the ratings so far.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from entice.estimate.confidence_sequence import RatingSums, difference_interval

Floats = npt.NDArray[np.float64]
LOWEST, HIGHEST = 1, 5


class World(NamedTuple):
    """How ratings come about."""

    name: str
    holdout: float
    """The share of players that are held out."""
    means: Callable[[float, Floats], tuple[Floats, Floats]]
    """Mean ratings of the paid group and the holdout, given the share of the time that has passed
    and the error so far of the estimated difference."""
    draw: Callable[[np.random.Generator, Floats], Floats]
    """Draws ratings with given means."""
    response: float = 1.0
    """How much more often paid players rate than held-out ones."""
    visits: int = 1
    """How often each player rates, with the same rating each time."""


class Looks(NamedTuple):
    """The sums of both groups and the truth, by replication and look."""

    paid: RatingSums
    holdout: RatingSums
    truth: Floats


def around(rng: np.random.Generator, means: Floats) -> Floats:
    """Draw stars from 1 to 5, binomial: most are close to the mean."""
    return np.asarray(rng.binomial(4, (means - 1) / 4) + 1.0)


def love_or_hate(rng: np.random.Generator, means: Floats) -> Floats:
    """Draw 1 or 5 stars: the largest variance that there can be."""
    return np.where(rng.random(means.shape) < (means - 1) / 4, 5.0, 1.0)


def constant(paid: float, holdout: float) -> Callable[[float, Floats], tuple[Floats, Floats]]:
    """Return means that do not change."""
    return lambda at, error: (np.full_like(error, paid), np.full_like(error, holdout))


def learning(at: float, error: Floats) -> tuple[Floats, Floats]:
    """Let the campaign's policy learn while the seasons move both groups."""
    season = 0.3 * np.sin(12 * at)
    return (
        np.full_like(error, 3.6 + 0.6 * (1 - np.exp(-4 * at)) + season),
        np.full_like(error, 3.7 + season),
    )


def adversarial(at: float, error: Floats) -> tuple[Floats, Floats]:
    """Move the means towards the error so far, as an adversary would who wants a wrong result."""
    return 3.5 + np.sign(error), 3.5 - np.sign(error)


WORLDS = (
    World("no effect, 10 % held out", 0.1, constant(4.0, 4.0), around),
    World("+0.3 stars, 5 % held out", 0.05, constant(4.2, 3.9), around),
    World("+0.3 stars, half held out", 0.5, constant(4.2, 3.9), around),
    World("+0.1 stars, 70 % held out", 0.7, constant(3.6, 3.5), around),
    World("the policy learns, seasons; 5 %", 0.05, learning, around),
    World("1 or 5 stars, 10 %", 0.1, constant(3.2, 3.0), love_or_hate),
    World("nearly all 5 stars, 5 %", 0.05, constant(4.97, 4.95), love_or_hate),
    World("paid players rate 3 times as often, 10 %", 0.1, constant(4.2, 4.0), around, 3.0),
    World("means follow the error, 10 %", 0.1, adversarial, love_or_hate),
)
"""The worlds in which the interval must hold."""


def simulate_looks(
    world: World, rng: np.random.Generator, *, replications: int, looks: int, batch: int
) -> Looks:
    """Simulate replications, each with this many looks after a batch of ratings each."""
    sums = np.zeros((looks, 2, 4, replications))  # group; count, total, squares, sum of means
    total = np.zeros((2, 4, replications))
    held_out_share = world.holdout / (world.holdout + (1 - world.holdout) * world.response)
    for look in range(looks):
        error = _difference(total[:, 1], total[:, 0]) - _difference(total[:, 3], total[:, 0])
        means = np.stack(world.means(look / looks, error))
        group = (rng.random((batch, replications)) < held_out_share).astype(int)
        rated = np.where(group == 1, means[1], means[0])
        ratings = world.draw(rng, rated)
        for g in (0, 1):
            mine = (group == g) * world.visits
            total[g] += np.stack(
                [np.sum(mine * x, axis=0) for x in (np.ones_like(ratings), ratings, ratings**2)]
                + [np.sum(mine * rated, axis=0)]
            )
        sums[look] = total
    paid, holdout = np.moveaxis(sums, (0, 3), (3, 2))
    truth = _difference(np.stack([paid[3], holdout[3]]), np.stack([paid[0], holdout[0]]))
    return Looks(RatingSums(*paid[:3]), RatingSums(*holdout[:3]), truth)


def _difference(sums: Floats, counts: Floats) -> Floats:
    averages = sums / np.maximum(counts, 1)
    return np.asarray(averages[0] - averages[1])


def misses_of_sequence(share: float, looks: Looks) -> npt.NDArray[np.bool_]:
    """Return where the 95 % confidence sequence misses the truth, by replication and look.

    `share` is the share of players that were to be held out.
    """
    return np.array([_misses(share, *looks_of_one) for looks_of_one in _replications(looks)])


def _replications(looks: Looks) -> Iterator[tuple[RatingSums, RatingSums, Floats]]:
    """Yield the looks of each replication: small arrays stay in the processor's cache."""
    for r, truth in enumerate(looks.truth):
        paid, holdout = (RatingSums(*(sums[r] for sums in g)) for g in looks[:2])
        yield paid, holdout, truth


def _misses(
    share: float, paid: RatingSums, holdout: RatingSums, truth: Floats
) -> npt.NDArray[np.bool_]:
    seen = (paid.ratings > 0) & (holdout.ratings > 0)
    at_least_one = [RatingSums(np.maximum(g.ratings, 1), *g[1:]) for g in (paid, holdout)]
    _, low, high = difference_interval(
        *at_least_one, share_of_other=share, lowest=LOWEST, highest=HIGHEST,
        confidence=0.95,
    )  # fmt: skip
    return np.asarray(seen & ((truth < low) | (truth > high)))


def misses_of_fixed_n(looks: Looks, from_ratings: int = 30) -> npt.NDArray[np.bool_]:
    """Return where the usual 95 % interval, Welch's with a normal quantile, misses the truth.

    Looks with fewer ratings than `from_ratings` in a group are left out, in its favour.
    """
    means, errors = [], []
    for group in (looks.paid, looks.holdout):
        n = np.maximum(group.ratings, 2)
        mean = group.total / n
        means.append(mean)
        errors.append(np.maximum(group.squares / n - mean**2, 0) / (n - 1))
    half_width = 1.959964 * np.sqrt(errors[0] + errors[1])
    enough = np.minimum(looks.paid.ratings, looks.holdout.ratings) >= from_ratings
    return np.asarray(enough & (np.abs(means[0] - means[1] - looks.truth) > half_width))
