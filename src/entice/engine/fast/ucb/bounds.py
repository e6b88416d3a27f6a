"""UCB's ledger for the fast path, and the highest of its upper confidence bounds.

Every arm's bound m_i + g_t/sqrt(n_i), with g_t = noise · sqrt(2 log t), is a line in g as long as
the arm is not pulled. The highest of some lines is convex in g, so below its chord between two
rounds: one look at all arms certifies a ceiling over the rivals for many rounds.

With many arms, each block of `WIDTH` carries one line in g that lies above all its bounds, and
only blocks whose line is highest are looked into (`_top`).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from entice.engine.fast.ucb.simd import WIDTH, leader_and_rivals, leaders, rivals
from entice.engine.fast.ucb.workspace import Scratch
from entice.jit.decorators import compiled_internal, compiled_internal_noinline
from entice.policies.ucb import growth

_AHEAD = 8
"""A ceiling reaches t/8 rounds ahead: further on it would rise too far above the bounds of now."""
_NEVER = -1


# The ledger --------------------------------------------------------------------------------------


@compiled_internal
def enter(scratch: Scratch, t: int, arm: int, pulls: int, total: float) -> None:
    """Enter an arm's count and sum before round t, and keep what follows from them up to date."""
    at, mean = np.uint64(arm), total / pulls
    scratch.pulls[at] = pulls
    scratch.sums[at] = total
    scratch.means[at] = mean
    scratch.roots[at] = 1.0 / math.sqrt(pulls)
    _compare(scratch, arm, mean)
    if scratch.means.shape[0] > WIDTH:
        _move_line(scratch, t, arm)


@compiled_internal
def _compare(scratch: Scratch, arm: int, mean: float) -> None:
    """Keep the greedy arm, and the bound on all other averages, right after one has changed."""
    greedy, rival = scratch.greedy[0], scratch.rival[0]
    if arm == greedy:
        if mean <= rival:
            find_greedy(scratch)
    elif mean >= rival:
        highest = scratch.means[np.uint64(greedy)]
        scratch.rival[0] = min(mean, highest)
        if mean > highest:
            scratch.greedy[0] = arm


@compiled_internal_noinline
def find_greedy(scratch: Scratch) -> None:
    """Search all averages for the greedy arm and for the best of the others."""
    greedy, highest, rival = 0, -np.inf, -np.inf
    for block in range(0, scratch.means.shape[0], WIDTH):
        place, value, second, _ = leaders(scratch.means, scratch.roots, block, 0.0)
        rival = max(rival, min(value, highest), second)
        if value > highest:
            greedy, highest = place, value
    scratch.greedy[0] = greedy
    scratch.rival[0] = rival


# The highest bound, and a ceiling over the others ------------------------------------------------


class Ceiling(NamedTuple):
    """Before round `until`, no rival's bound is above level + slope · g."""

    until: int
    level: float
    slope: float


@compiled_internal
def growth_at(scratch: Scratch, t: int) -> float:
    """g_t = noise · sqrt(2 log t)."""
    if t < scratch.growth.shape[0]:
        return float(scratch.growth[np.uint64(t)])
    return float(scratch.policy_noise[0] * growth(t))


@compiled_internal
def look(scratch: Scratch, t: int, end: int, last: int) -> tuple[int, Ceiling]:
    """Find the arm with the highest bound at round t (line 2 of Algorithm 2), and a ceiling.

    The ceiling is over all other arms, and ends before the round `end`; `last` is the arm that was
    pulled before.
    """
    until = min(t + t // _AHEAD + _AHEAD, end)
    now, later = growth_at(scratch, t), growth_at(scratch, until)
    if scratch.means.shape[0] <= WIDTH:
        arm, height, height_later = leader_and_rivals(scratch.means, scratch.roots, now, later)
    else:
        arm = _top(scratch, t, now)
        if arm != last:  # most reigns last for one round here: do not look further ahead
            return arm, Ceiling(t + 1, np.inf, 0.0)
        height, height_later = _rivals_of(scratch, arm, now, later)
    level, slope = _chord(now, height, later, height_later)
    return arm, Ceiling(until, level, slope)


@compiled_internal
def _chord(now: float, height: float, later: float, height_later: float) -> tuple[float, float]:
    """Return (a, b) of the line a + b·g through two points: a convex function is below it."""
    slope = (height_later - height) / max(later - now, 1e-300)  # 0 where g does not resolve rounds
    return height - slope * now, slope


# Many arms, by blocks ----------------------------------------------------------------------------


@compiled_internal
def _top(scratch: Scratch, t: int, growth: float) -> int:
    """Return the arm with the highest bound at round t."""
    while True:
        block, height, others = 0, -np.inf, -np.inf
        for some in range(0, scratch.levels.shape[0], WIDTH):
            place, value, second, _ = leaders(scratch.levels, scratch.slopes, some, growth)
            others = max(others, min(value, height), second)
            if value > height:
                block, height = place, value
        if scratch.known[block] != t:
            height = _draw_line(scratch, t, growth, block)
        if height >= others:
            # It is the block's highest bound, and no other block's line is above it.
            return int(scratch.tops[block])


@compiled_internal
def _rivals_of(scratch: Scratch, arm: int, now: float, later: float) -> tuple[float, float]:
    """Bound what is highest now and later in an arm's own block, without it, and in all others."""
    block = arm // WIDTH
    start = block * WIDTH
    height, height_later = rivals(scratch.means, scratch.roots, start, arm, now, later)
    for some in range(0, scratch.levels.shape[0], WIDTH):
        line, line_later = rivals(scratch.levels, scratch.slopes, some, block, now, later)
        height, height_later = max(height, line), max(height_later, line_later)
    return height, height_later


@compiled_internal_noinline
def draw_lines(scratch: Scratch, t: int) -> None:
    """Draw the lines of all blocks."""
    for block in range(scratch.means.shape[0] // WIDTH):
        _draw_line(scratch, t, growth_at(scratch, t), block)


@compiled_internal
def _draw_line(scratch: Scratch, t: int, growth: float, block: int) -> float:
    """Put a block's line through its highest bound at round t, and return that bound.

    The bounds' own slopes in g are the 1/sqrt(n_i), which pulls make smaller. With the steepest of
    them, the line stays above all bounds as g grows.
    """
    arm, bound, rest, steepest = leaders(scratch.means, scratch.roots, block * WIDTH, growth)
    scratch.tops[block] = arm
    scratch.rest_levels[block] = rest - growth * steepest
    scratch.rest_slopes[block] = steepest
    _set_line(scratch, t, growth, block, bound, steepest)
    return float(bound)


@compiled_internal
def _move_line(scratch: Scratch, t: int, arm: int) -> None:
    """Lay the line of a block anew after pulls of its top arm, from what is known of the others."""
    block = arm // WIDTH
    growth = growth_at(scratch, t)
    bound = scratch.means[arm] + growth * scratch.roots[arm]
    rest = scratch.rest_levels[block] + growth * scratch.rest_slopes[block]
    known = t if bound > rest else _NEVER
    _set_line(scratch, known, growth, block, max(bound, rest), scratch.rest_slopes[block])


@compiled_internal
def _set_line(
    scratch: Scratch, t: int, growth: float, block: int, height: float, slope: float
) -> None:
    scratch.levels[block] = height - growth * slope
    scratch.slopes[block] = slope
    scratch.known[block] = t
