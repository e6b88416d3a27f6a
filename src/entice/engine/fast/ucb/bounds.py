"""The ledger of UCB's fast path, and the highest of its upper confidence bounds.

Every arm's bound m_i + g_t/sqrt(n_i), with g_t = noise · sqrt(2 log t), is linear in g while the
arm is not pulled. The maximum of linear functions is convex in g, so it lies below its chord
between two rounds: one search over all arms bounds the rivals for many rounds.

With many arms, each block of `WIDTH` arms has one line in g that lies above all its bounds, and
only the blocks with the highest lines are searched (`_leader_by_blocks`).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from entice.engine.fast.simd import (
    HALF_WIDTH,
    WIDTH,
    leader_and_rivals,
    leader_and_rivals_of_half,
    rivals,
    top_two,
)
from entice.engine.fast.ucb.workspace import UCBWorkspace
from entice.jit.decorators import compiled_internal, compiled_internal_noinline
from entice.policies.ucb import exploration_factor

_BOUND_REACH = 8
"""A rival bound covers the next t/8 rounds; a longer one would be too loose at first."""
_NEVER = -1
ROUNDING = 1e-12
"""Bounds that differ by less than this share may be equal: lines above them are rounded.

With Gaussian arms ties have probability 0. With Bernoulli arms they are common, and an arm leads
only if it wins them.
"""


# The ledger --------------------------------------------------------------------------------------


@compiled_internal
def record_pulls(workspace: UCBWorkspace, t: int, arm: int, pulls: int, total: float) -> None:
    """Record an arm's count and sum before round t, and update everything derived from them."""
    at, mean = np.uint64(arm), total / pulls
    workspace.pulls[at] = pulls
    workspace.sums[at] = total
    workspace.means[at] = mean
    workspace.roots[at] = 1.0 / math.sqrt(pulls)
    _update_greedy(workspace, arm, mean)
    if workspace.means.shape[0] > WIDTH:
        _update_block_bound(workspace, t, arm)


@compiled_internal
def _update_greedy(workspace: UCBWorkspace, arm: int, mean: float) -> None:
    """Update the greedy arm, and the bound on all other averages, after one has changed."""
    greedy, rival = workspace.greedy[0], workspace.rival[0]
    if arm == greedy:
        if mean <= rival:
            find_greedy(workspace)
    elif mean >= rival:
        highest = workspace.means[np.uint64(greedy)]
        workspace.rival[0] = min(mean, highest)
        if mean > highest:
            workspace.greedy[0] = arm


@compiled_internal_noinline
def find_greedy(workspace: UCBWorkspace) -> None:
    """Search all averages for the greedy arm and for the best of the others."""
    greedy, highest, rival = 0, -np.inf, -np.inf
    for block in range(0, workspace.means.shape[0], WIDTH):
        position, value, second, _ = top_two(workspace.means, workspace.roots, block, 0.0)
        rival = max(rival, min(value, highest), second)
        if value > highest:
            greedy, highest = position, value
    workspace.greedy[0] = greedy
    workspace.rival[0] = rival


# The highest bound, and a bound on the rivals ----------------------------------------------------


class RivalBound(NamedTuple):
    """An upper bound, level + slope · g, on the rivals' confidence bounds before round `until`."""

    until: int
    level: float
    slope: float


@compiled_internal
def factor_at(workspace: UCBWorkspace, t: int) -> float:
    """Return g_t = noise · sqrt(2 log t)."""
    if t < workspace.factors.shape[0]:
        return float(workspace.factors[np.uint64(t)])
    return float(workspace.policy_noise[0] * exploration_factor(t))


@compiled_internal
def find_leader(workspace: UCBWorkspace, t: int, end: int, last: int) -> tuple[int, RivalBound]:
    """Return the arm with the highest bound at round t (line 2 of Algorithm 2), and a rival bound.

    The rival bound holds for all other arms, before round `end` at most. `last` is the arm that was
    pulled last.
    """
    until = min(t + t // _BOUND_REACH + _BOUND_REACH, end)
    now, later = factor_at(workspace, t), factor_at(workspace, until)
    means, roots = workspace.means, workspace.roots
    if workspace.pulls.shape[0] <= HALF_WIDTH:  # the number of arms: `pulls` is not padded
        arm, height, height_later = leader_and_rivals_of_half(means, roots, now, later)
    elif means.shape[0] <= WIDTH:
        arm, height, height_later = leader_and_rivals(means, roots, now, later)
    else:
        arm = _leader_by_blocks(workspace, t, now)
        if arm != last:  # most leader runs last one round here, so a longer bound does not pay
            return arm, RivalBound(t + 1, np.inf, 0.0)
        height, height_later = _rivals_of(workspace, arm, now, later)
    level, slope = _chord(now, height, later, height_later)
    return arm, RivalBound(until, level, slope)


@compiled_internal
def _chord(now: float, height: float, later: float, height_later: float) -> tuple[float, float]:
    """Return (a, b) of the line a + b·g through two points of a convex function."""
    slope = (height_later - height) / max(later - now, 1e-300)  # 0 if g is equal in both rounds
    return height - slope * now, slope


# Many arms, by blocks ----------------------------------------------------------------------------


@compiled_internal
def _leader_by_blocks(workspace: UCBWorkspace, t: int, factor: float) -> int:
    """Return the arm with the highest bound at round t."""
    while True:
        block, height, others = 0, -np.inf, -np.inf
        for start in range(0, workspace.levels.shape[0], WIDTH):
            position, value, second, _ = top_two(workspace.levels, workspace.slopes, start, factor)
            others = max(others, min(value, height), second)
            if value > height:
                block, height = position, value
        if workspace.exact_at[block] != t:
            height = _fit_block_bound(workspace, t, factor, block)
        margin = ROUNDING * abs(height)
        if height > others + margin:
            # This is the block's highest bound, and all other blocks' lines are below it.
            return int(workspace.top_arms[block])
        if height >= others - margin:
            return _first_highest(workspace, factor)


@compiled_internal_noinline
def _first_highest(workspace: UCBWorkspace, factor: float) -> int:
    """Return the arm with the highest bound, ties to the lowest index: the lines are rounded."""
    arm, height = 0, -np.inf
    for block in range(0, workspace.means.shape[0], WIDTH):
        position, value, _, _ = top_two(workspace.means, workspace.roots, block, factor)
        if value > height:
            arm, height = position, value
    return arm


@compiled_internal
def _rivals_of(workspace: UCBWorkspace, arm: int, now: float, later: float) -> tuple[float, float]:
    """Bound the rivals of an arm, now and later: those in its own block, and all other blocks."""
    block = arm // WIDTH
    start = block * WIDTH
    height, height_later = rivals(workspace.means, workspace.roots, start, arm, now, later)
    for start in range(0, workspace.levels.shape[0], WIDTH):
        line, line_later = rivals(workspace.levels, workspace.slopes, start, block, now, later)
        height, height_later = max(height, line), max(height_later, line_later)
    return height, height_later


@compiled_internal_noinline
def fit_block_bounds(workspace: UCBWorkspace, t: int) -> None:
    """Fit the lines of all blocks."""
    for block in range(workspace.means.shape[0] // WIDTH):
        _fit_block_bound(workspace, t, factor_at(workspace, t), block)


@compiled_internal
def _fit_block_bound(workspace: UCBWorkspace, t: int, factor: float, block: int) -> float:
    """Fit a block's line through its highest bound at round t, and return that bound.

    The slopes of the bounds in g are 1/sqrt(n_i), which decrease with pulls. With the steepest of
    them, the line stays above all bounds as g grows.
    """
    arm, bound, rest, steepest = top_two(workspace.means, workspace.roots, block * WIDTH, factor)
    workspace.top_arms[block] = arm
    workspace.rest_levels[block] = rest - factor * steepest
    workspace.rest_slopes[block] = steepest
    _store_block_bound(workspace, t, factor, block, bound, steepest)
    return float(bound)


@compiled_internal
def _update_block_bound(workspace: UCBWorkspace, t: int, arm: int) -> None:
    """Refit the line of a block after pulls of its top arm, from the line above the others."""
    block = arm // WIDTH
    factor = factor_at(workspace, t)
    bound = workspace.means[arm] + factor * workspace.roots[arm]
    rest = workspace.rest_levels[block] + factor * workspace.rest_slopes[block]
    exact_at = t if bound > rest + ROUNDING * abs(rest) else _NEVER
    _store_block_bound(
        workspace, exact_at, factor, block, max(bound, rest), workspace.rest_slopes[block]
    )


@compiled_internal
def _store_block_bound(
    workspace: UCBWorkspace, t: int, factor: float, block: int, height: float, slope: float
) -> None:
    workspace.levels[block] = height - factor * slope
    workspace.slopes[block] = slope
    workspace.exact_at[block] = t
