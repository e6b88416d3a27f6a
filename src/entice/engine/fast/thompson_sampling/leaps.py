"""One arm ahead: only rounds with a point on the line are played."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

from entice.engine.fast.random_walk import leap
from entice.engine.fast.thompson_sampling.hazards import (
    highest_above,
    highest_below,
    set_hazard,
    set_hazards,
)
from entice.engine.fast.thompson_sampling.normal_tails import exponential, hazard, normal_above
from entice.engine.fast.thompson_sampling.state import (
    NOBODY,
    Floats,
    Params,
    Scratch,
    pull,
    spread,
)
from entice.jit.decorators import compiled_internal, compiled_internal_noinline
from entice.model.ledger import find_greedy
from entice.rng import normal

# What follows decides how fast it is, not what comes out.
_BUSY = 0.45  # with more points a round than this on the line, leaping does not pay
_CALM = 3.5  # a leap may be so long that the floor is this many standard deviations away
_DEPTH = 0.75  # how far the floor is below the leader's average, in spreads
_SLACK = 0.75  # the floor is raised when the average is so many more spreads above it
_UNBALANCED = 6.0  # rivals' and leader's hazards may differ by this factor


class Watch(NamedTuple):
    """What the rounds of a leap are watched for. Passed by value: no array."""

    floor: float
    """As long as the leader's average stays above, the hazards below hold."""
    tail: float
    """How many of the leader's spreads the level is below the floor."""
    dips: float
    """Hazard of the leader's sample falling below the level, at most."""
    rivals: float
    """Sum of the hazards of rivals' samples exceeding it; nan before they were looked at."""


@compiled_internal_noinline
def ride(
    drift: Callable[..., float],
    params: Params,
    drift_params: tuple[Any, ...],
    arm_params: tuple[Floats, Floats],
    t: int,
    last: int,
    scratch: Scratch,
) -> tuple[int, int]:
    """Play from round t on, as long as a leader is clearly ahead, to round last at most."""
    ledger, spreads = scratch.ledger, scratch.spreads
    means, level = ledger.means, scratch.level
    leader = ledger.greedy[0]
    if ledger.pulls[leader] == 0:
        return t, -1
    mean, std = arm_params[0][leader], arm_params[1][leader]
    calmness = 1.0 / max(_CALM * std, 1e-150)
    if scratch.watched[0] == leader:
        watch = Watch(scratch.watch[0], scratch.watch[1], scratch.watch[2], scratch.watch[3])
    else:
        watch = set_watch(scratch, leader, std, Watch(0.0, 2.5, 0.1, math.nan))
    scratch.watched[0] = NOBODY
    place = exponential(scratch.stream)  # how far away the next point on the line is
    lapsed = False  # the watch has to be set anew
    while t <= last:
        if lapsed:
            watch = set_watch(scratch, leader, std, watch)
            lapsed = False
        floor, tail, dips, rivals = watch
        line = dips + rivals
        if not (dips >= 0.0 and line <= _BUSY):
            return t, -1
        calm = (means[leader] - floor) * ledger.pulls[leader] * calmness
        rounds = min(float(last - t + 1), max(1.0, calm * calm))
        hit = place / line < rounds
        if hit:
            rounds = place / line
        if rounds >= 1.0:
            done, lapsed = pull_leader(mean, std, int(rounds), floor, leader, params, scratch)
            t += done
            place = max(place - done * line, 0.0)
        if lapsed:
            continue
        if not hit:
            lapsed = calm < 1.0
            continue
        arm, place, lapsed = decide(scratch, leader, watch, place)
        if arm == leader and not lapsed:
            place += line  # a round that the leader has won: it opens the next leap
            continue
        if not pull(drift, params, drift_params, arm_params, t, arm, scratch):
            return t, arm
        t += 1
        if arm != leader:
            rivals = set_hazard(scratch, arm, hazard((level[0] - means[arm]) / spreads[arm]))
            watch = Watch(floor, tail, dips, rivals)
            lapsed = lapsed or rivals > 2.0 * _UNBALANCED * dips
        lapsed = lapsed or ledger.greedy[0] != leader or not floor > ledger.rival[0]
    if not lapsed:
        scratch.watched[0] = leader
        scratch.watch[0], scratch.watch[1], scratch.watch[2], scratch.watch[3] = watch
    return t, -1


@compiled_internal_noinline
def set_watch(scratch: Scratch, leader: int, std: float, last: Watch) -> Watch:
    """Set the floor for the leader's present average, and move the level if that pays.

    A higher level means fewer rivals above it and more dips of the leader below it. Equal hazards
    are within a factor of 2 of the best choice. No dips at all (−1) are reported when the leader
    is not far enough ahead for a floor.
    """
    ledger, width, pulls = scratch.ledger, scratch.spreads[leader], scratch.ledger.pulls[leader]
    anew = math.isnan(last.rivals)
    depth = depth_of_floor(pulls, std, width, 0.2 if anew else last.dips + last.rivals)
    floor = ledger.means[leader] - depth
    if ledger.greedy[0] != leader or not floor > ledger.rival[0]:
        return Watch(floor, 0.0, -1.0, 0.0)
    tail, rivals = last.tail, last.rivals
    if not anew:
        tail = (floor - scratch.level[0]) / width
    if anew or tail < 1.0:
        tail = max(tail, 1.0)
        rivals = set_hazards(scratch, leader, floor - tail * width)
    dips = hazard(tail)
    for _ in range(4):
        if not 1.0 / pulls < dips + rivals < 4.0 * _BUSY:
            break  # so calm that it does not matter, or hopeless
        if rivals > _UNBALANCED * dips and tail > 1.25:
            tail -= 0.25
        elif dips > _UNBALANCED * rivals and tail < 6.0:
            tail += 0.25
        else:
            break
        rivals = set_hazards(scratch, leader, floor - tail * width)
        dips = hazard(tail)
    return Watch(floor, tail, dips, rivals)


@compiled_internal
def depth_of_floor(pulls: int, std: float, width: float, line: float) -> float:
    """How far below the leader's average its floor should be.

    Deep enough for a few leaps of 1/line rounds each, but not much deeper than the spread of the
    leader's sample, or than what its average may still move.
    """
    most = _DEPTH * max(width, std / math.sqrt(pulls + 1.0))
    return min(most, max(0.2 * width, 8.0 * std / (math.sqrt(line) * (pulls + 1.0))))


@compiled_internal
def decide(scratch: Scratch, leader: int, watch: Watch, place: float) -> tuple[int, float, bool]:
    """Decide a round with a point on the line at `place`: the leader's segment, then the rivals'.

    Returns the winner, how far beyond this round the next point is, and whether the floor is so
    far below the leader's average by now that the watch is worth setting anew.
    """
    stream, mean, width = scratch.stream, scratch.ledger.means[leader], scratch.spreads[leader]
    dips, rivals = watch.dips, watch.rivals
    z = (scratch.level[0] - mean) / width
    dipped = lapsed = False
    if place < dips:
        # The segment is an upper bound. A point on its true part, which comes first, is a dip; one
        # behind that says that there is none. What follows the segment is independent of both.
        dipped = place < hazard(-z)
        lapsed = -z > watch.tail + _SLACK
        place = dips + exponential(stream)
    place, arm, top = highest_above(scratch, place - dips, rivals, leader, -math.inf)
    if dipped:
        if arm == leader:
            arm = highest_below(scratch, leader, mean - width * normal_above(-z, stream))
    elif arm != leader and top < mean + width * normal_above(z, stream):
        arm = leader
    return arm, place, lapsed


@compiled_internal
def pull_leader(
    mean: float,
    std: float,
    count: int,
    floor: float,
    leader: int,
    params: Params,
    scratch: Scratch,
) -> tuple[int, bool]:
    """Pull the leader `count` times, or until its average falls below the floor.

    Returns how often it was pulled, and whether the average fell below.
    """
    ledger = scratch.ledger
    pulls = ledger.pulls[leader]
    # Heights of the sum above the line floor · n, along which Brownian motion keeps its law.
    height = ledger.sums[leader] - floor * pulls
    count, height = leap(height, mean - floor, std, count, normal(scratch.stream), scratch.stream)
    ledger.sums[leader] = floor * (pulls + count) + height
    ledger.pulls[leader] = pulls + count
    ledger.means[leader] = ledger.sums[leader] / ledger.pulls[leader]
    scratch.spreads[leader] = spread(params, ledger.pulls[leader])
    if ledger.means[leader] <= ledger.rival[0]:
        find_greedy(ledger)
    return count, height <= 0.0
