"""Leader runs of Thompson sampling: one arm is ahead, and only rounds with a hit are played."""

from __future__ import annotations

import math
from typing import NamedTuple

from entice.engine.fast.drift_pointer import DriftPointer
from entice.engine.fast.random_walk import take_steps
from entice.engine.fast.thompson_sampling.hazards import (
    highest_above,
    highest_below,
    set_hazard,
    set_hazards,
)
from entice.engine.fast.thompson_sampling.normal_tails import exponential, hazard, normal_above
from entice.engine.fast.thompson_sampling.workspace import (
    NO_LEADER,
    Floats,
    Params,
    ThompsonWorkspace,
    pull,
    spread,
)
from entice.jit.decorators import compiled_internal, compiled_internal_noinline
from entice.model.ledger import find_greedy
from entice.rng import normal

# These constants affect speed only.
_MAX_HAZARD = 0.45  # with more hits per round than this, jumps do not pay
_JUMP_SAFETY = 3.5  # a jump ends about this many standard deviations above the floor
_FLOOR_DEPTH = 0.75  # distance of the floor below the leader's average, in spreads
_FLOOR_SLACK = 0.75  # the floor is raised if the average rises this many more spreads above it
_MAX_IMBALANCE = 12.0  # rivals' and leader's hazards may differ by this factor


class LeaderBounds(NamedTuple):
    """The floor and the hazards that hold during a leader run. Passed by value, not as an array."""

    floor: float
    """The hazards hold as long as the leader's average stays above this floor."""
    tail: float
    """Distance of the level below the floor, in spreads of the leader."""
    dips: float
    """Upper bound on the hazard of the leader's sample falling below the level."""
    rivals: float
    """Sum of the hazards of rivals' samples exceeding the level; nan before it is computed."""


@compiled_internal
def run_leader(
    drift_function: DriftPointer,
    params: Params,
    arm_params: tuple[Floats, Floats],
    t: int,
    last: int,
    workspace: ThompsonWorkspace,
) -> tuple[int, int]:
    """Play rounds t to `last` at most, while a leader is clearly ahead.

    Returns the next round and the arm whose feedback was not finite, or −1.
    """
    ledger, spreads = workspace.ledger, workspace.spreads
    means, level = ledger.means, workspace.level
    leader = ledger.greedy[0]
    workspace.level_leader[0] = NO_LEADER
    if ledger.pulls[leader] == 0:
        return t, -1
    mean, std = arm_params[0][leader], arm_params[1][leader]
    lead_scale = 1.0 / max(_JUMP_SAFETY * std, 1e-150)
    if workspace.bounded_leader[0] == leader:
        bounds = LeaderBounds(
            workspace.bounds[0], workspace.bounds[1], workspace.bounds[2], workspace.bounds[3]
        )
        position = workspace.bounds[4]  # distance to the next point on the line
    else:
        bounds = set_leader_bounds(workspace, leader, std, LeaderBounds(0.0, 2.5, 0.1, math.nan))
        position = exponential(workspace.stream)
    workspace.bounded_leader[0] = NO_LEADER
    stale = False  # whether the bounds have to be set again
    while t <= last:
        if stale:
            bounds = set_leader_bounds(workspace, leader, std, bounds)
            stale = False
        floor, tail, dips, rivals = bounds
        total_hazard = dips + rivals
        if not (dips >= 0.0 and total_hazard <= _MAX_HAZARD):
            return t, -1
        lead = (means[leader] - floor) * ledger.pulls[leader] * lead_scale
        rounds = min(float(last - t + 1), max(1.0, lead * lead))
        hit = position / total_hazard < rounds
        if hit:
            rounds = position / total_hazard
        if rounds >= 1.0:
            done, stale = pull_leader(mean, std, int(rounds), floor, leader, params, workspace)
            t += done
            position = max(position - done * total_hazard, 0.0)
        if stale:
            continue
        if not hit:
            stale = lead < 1.0
            continue
        arm, position, stale = resolve_round(workspace, leader, bounds, position)
        if arm == leader and not stale:
            position += total_hazard  # the leader has won this round, which opens the next jump
            continue
        if not pull(drift_function, params, arm_params, t, arm, workspace):
            return t, arm
        t += 1
        if arm != leader:
            rivals = set_hazard(workspace, arm, hazard((level[0] - means[arm]) / spreads[arm]))
            bounds = LeaderBounds(floor, tail, dips, rivals)
            stale = stale or rivals > 2.0 * _MAX_IMBALANCE * dips
        stale = stale or ledger.greedy[0] != leader or not floor > ledger.rival[0]
    if not stale:
        workspace.bounded_leader[0] = leader
        workspace.bounds[0], workspace.bounds[1], workspace.bounds[2], workspace.bounds[3] = bounds
        workspace.bounds[4] = position
    return t, -1


@compiled_internal_noinline
def set_leader_bounds(
    workspace: ThompsonWorkspace, leader: int, std: float, last: LeaderBounds
) -> LeaderBounds:
    """Set the floor for the leader's current average, and adjust the level if that is worthwhile.

    A higher level means fewer rivals above it and more dips of the leader below it. The level with
    equal hazards has a total hazard within a factor of 2 of the smallest. If the leader is not far
    enough ahead for a floor, `dips` is −1.
    """
    ledger, width, pulls = (
        workspace.ledger,
        workspace.spreads[leader],
        workspace.ledger.pulls[leader],
    )
    first_time = math.isnan(last.rivals)
    depth = floor_depth(pulls, std, width, 0.2 if first_time else last.dips + last.rivals)
    floor = ledger.means[leader] - depth
    if ledger.greedy[0] != leader or not floor > ledger.rival[0]:
        return LeaderBounds(floor, 0.0, -1.0, 0.0)
    tail, rivals = last.tail, last.rivals
    if not first_time:
        tail = (floor - workspace.level[0]) / width
    if first_time or tail < 1.0:
        tail = max(tail, 1.0)
        rivals = set_hazards(workspace, leader, floor - tail * width)
    dips = hazard(tail)
    for _ in range(4):
        if not 1.0 / pulls < dips + rivals < 4.0 * _MAX_HAZARD:
            break  # hits are too rare for the level to matter, or too frequent for jumps
        if rivals > _MAX_IMBALANCE * dips and tail > 1.25:
            tail -= 0.25
        elif dips > _MAX_IMBALANCE * rivals and tail < 6.0:
            tail += 0.25
        else:
            break
        rivals = set_hazards(workspace, leader, floor - tail * width)
        dips = hazard(tail)
    return LeaderBounds(floor, tail, dips, rivals)


@compiled_internal
def floor_depth(pulls: int, std: float, width: float, total_hazard: float) -> float:
    """Return the distance of the floor below the leader's average.

    It allows a few jumps of 1/total_hazard rounds each, but is not much larger than the spread of
    the leader's sample, or than the distance that its average may still move.
    """
    most = _FLOOR_DEPTH * max(width, std / math.sqrt(pulls + 1.0))
    return min(most, max(0.2 * width, 16.0 * std / (math.sqrt(total_hazard) * (pulls + 1.0))))


@compiled_internal
def resolve_round(
    workspace: ThompsonWorkspace, leader: int, bounds: LeaderBounds, position: float
) -> tuple[int, float, bool]:
    """Decide a round with a point on the line at `position`.

    The leader's segment comes first, then the rivals' segments.

    Returns the winner, the distance of the next point beyond this round, and whether the floor is
    now so far below the leader's average that the bounds should be set again.
    """
    stream, mean, width = (
        workspace.stream,
        workspace.ledger.means[leader],
        workspace.spreads[leader],
    )
    dips, rivals = bounds.dips, bounds.rivals
    z = (workspace.level[0] - mean) / width
    dipped = stale = False
    if position < dips:
        # The segment is an upper bound. A point on its true part, which comes first, is a dip; a
        # point after that part means no dip. Points after the segment are independent of both.
        dipped = position < hazard(-z)
        stale = -z > bounds.tail + _FLOOR_SLACK
        position = dips + exponential(stream)
    position, arm, top = highest_above(workspace, position - dips, rivals, leader, -math.inf)
    if dipped:
        if arm == leader:
            arm = highest_below(workspace, leader, mean - width * normal_above(-z, stream))
    elif arm != leader and top < mean + width * normal_above(z, stream):
        arm = leader
    return arm, position, stale


@compiled_internal
def pull_leader(
    mean: float,
    std: float,
    count: int,
    floor: float,
    leader: int,
    params: Params,
    workspace: ThompsonWorkspace,
) -> tuple[int, bool]:
    """Pull the leader `count` times, or until its average falls below the floor.

    Returns the number of pulls, and whether the average fell below.
    """
    ledger = workspace.ledger
    pulls = ledger.pulls[leader]
    # The height of the sum above the line floor · n is a random walk.
    height = ledger.sums[leader] - floor * pulls
    count, height = take_steps(
        height, mean - floor, std, count, normal(workspace.stream), workspace.stream
    )
    ledger.sums[leader] = floor * (pulls + count) + height
    ledger.pulls[leader] = pulls + count
    ledger.means[leader] = ledger.sums[leader] / ledger.pulls[leader]
    workspace.spreads[leader] = spread(params, ledger.pulls[leader])
    if ledger.means[leader] <= ledger.rival[0]:
        find_greedy(ledger)
    return count, height <= 0.0
