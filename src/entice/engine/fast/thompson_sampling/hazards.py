"""The line of hazards: which rivals' samples exceed a level, without drawing the others.

`thompson_sampling/__init__.py` says why that is exact.
"""

from __future__ import annotations

from entice.engine.fast.thompson_sampling.normal_tails import exponential, hazard, normal_above
from entice.engine.fast.thompson_sampling.state import FAN, Floats, Scratch
from entice.jit.decorators import compiled_internal, compiled_internal_noinline
from entice.rng import normal


@compiled_internal
def set_hazard(scratch: Scratch, arm: int, value: float) -> float:
    """Change one arm's hazard; returns the sum of all, added afresh so that no error builds up."""
    hazards, blocks, groups = scratch.hazards, scratch.blocks, scratch.groups
    hazards[arm] = value
    block = arm // FAN
    blocks[block] = sum_of_fan(hazards, block * FAN)
    if scratch.spreads.shape[0] <= FAN:
        return float(blocks[0])
    group = block // FAN
    groups[group] = sum_of_fan(blocks, group * FAN)
    total = 0.0
    for i in range(groups.shape[0]):
        total += groups[i]
    return total


@compiled_internal_noinline
def set_hazards(scratch: Scratch, leader: int, level: float) -> float:
    """Move the level; returns the sum of all rivals' hazards."""
    means, spreads, hazards = scratch.ledger.means, scratch.spreads, scratch.hazards
    for i in range(means.shape[0]):
        hazards[i] = hazard((level - means[i]) / spreads[i])
    hazards[leader] = 0.0
    scratch.level[0] = level
    blocks, groups = scratch.blocks, scratch.groups
    for i in range(blocks.shape[0]):
        blocks[i] = sum_of_fan(hazards, i * FAN)
    total = 0.0
    for i in range(groups.shape[0]):
        groups[i] = sum_of_fan(blocks, i * FAN)
        total += groups[i]
    return total


@compiled_internal
def sum_of_fan(values: Floats, at: int) -> float:
    """Add up `FAN` numbers, in four chains that the processor runs side by side."""
    a, b, c, d = values[at], values[at + 1], values[at + 2], values[at + 3]
    for i in range(at + 4, at + FAN, 4):
        a += values[i]
        b += values[i + 1]
        c += values[i + 2]
        d += values[i + 3]
    return float((a + b) + (c + d))


@compiled_internal
def arm_at(scratch: Scratch, place: float) -> tuple[int, float]:
    """Find the arm on whose segment a place on the line is, and where that segment ends.

    Rounding may put a place beyond the last segment by a hair; it then counts to the last one.
    """
    hazards, blocks, groups = scratch.hazards, scratch.blocks, scratch.groups
    end = 0.0
    block = 0
    if scratch.spreads.shape[0] > FAN:
        group = 0
        while group < groups.shape[0] - 1 and end + groups[group] <= place:
            end += groups[group]
            group += 1
        block = group * FAN
        last = min(block + FAN, (scratch.spreads.shape[0] + FAN - 1) // FAN) - 1
        while block < last and end + blocks[block] <= place:
            end += blocks[block]
            block += 1
    arm = block * FAN
    last = min(arm + FAN, scratch.spreads.shape[0]) - 1
    while arm < last and end + hazards[arm] <= place:
        end += hazards[arm]
        arm += 1
    return arm, end + hazards[arm]


@compiled_internal
def highest_above(
    scratch: Scratch, place: float, total: float, best: int, top: float
) -> tuple[float, int, float]:
    """Go through the points of one round, from `place` on, and draw the samples they announce.

    Returns how far the next point is beyond this round, and the highest sample with its arm.
    """
    level = scratch.level[0]
    means, spreads = scratch.ledger.means, scratch.spreads
    while place < total:
        arm, end = arm_at(scratch, place)
        z = (level - means[arm]) / spreads[arm]
        sample = means[arm] + spreads[arm] * normal_above(z, scratch.stream)
        if sample > top:
            top = sample
            best = arm
        place = end + exponential(scratch.stream)
    return max(place - total, 0.0), best, top


@compiled_internal_noinline
def highest_below(scratch: Scratch, leader: int, top: float) -> int:
    """Draw all rivals' samples below the level; returns the winner, `top` being the leader's."""
    level = scratch.level[0]
    means, spreads, stream = scratch.ledger.means, scratch.spreads, scratch.stream
    best = leader
    for i in range(means.shape[0]):
        if i == leader:
            continue
        if means[i] < level:
            sample = means[i] + spreads[i] * normal(stream)
            while sample > level:
                sample = means[i] + spreads[i] * normal(stream)
        else:  # a sample below z is the mirror image of one above −z
            z = (level - means[i]) / spreads[i]
            sample = means[i] - spreads[i] * normal_above(-z, stream)
        if sample > top:
            top = sample
            best = i
    return best
