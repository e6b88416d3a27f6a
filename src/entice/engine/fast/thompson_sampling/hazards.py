"""Hazards on a line: which rivals' samples exceed a level, without drawing the others.

The package docstring (`thompson_sampling/__init__.py`) explains why this is exact.
"""

from __future__ import annotations

from entice.engine.fast.thompson_sampling.normal_tails import exponential, hazard, normal_above
from entice.engine.fast.thompson_sampling.workspace import GROUP_SIZE, Floats, ThompsonWorkspace
from entice.jit.decorators import compiled_internal, compiled_internal_noinline
from entice.rng import normal


@compiled_internal
def set_hazard(workspace: ThompsonWorkspace, arm: int, value: float) -> float:
    """Set one arm's hazard; return the sum of all, recomputed so that no error accumulates."""
    hazards, blocks, groups = workspace.hazards, workspace.blocks, workspace.groups
    hazards[arm] = value
    block = arm // GROUP_SIZE
    blocks[block] = sum_group(hazards, block * GROUP_SIZE)
    if workspace.spreads.shape[0] <= GROUP_SIZE:
        return float(blocks[0])
    group = block // GROUP_SIZE
    groups[group] = sum_group(blocks, group * GROUP_SIZE)
    total = 0.0
    for i in range(groups.shape[0]):
        total += groups[i]
    return total


@compiled_internal_noinline
def set_hazards(workspace: ThompsonWorkspace, leader: int, level: float) -> float:
    """Set the level; return the sum of all rivals' hazards."""
    means, spreads, hazards = workspace.ledger.means, workspace.spreads, workspace.hazards
    for i in range(means.shape[0]):
        hazards[i] = hazard((level - means[i]) / spreads[i])
    hazards[leader] = 0.0
    workspace.level[0] = level
    blocks, groups = workspace.blocks, workspace.groups
    for i in range(blocks.shape[0]):
        blocks[i] = sum_group(hazards, i * GROUP_SIZE)
    total = 0.0
    for i in range(groups.shape[0]):
        groups[i] = sum_group(blocks, i * GROUP_SIZE)
        total += groups[i]
    return total


@compiled_internal
def sum_group(values: Floats, at: int) -> float:
    """Add up `GROUP_SIZE` numbers, in four chains that the processor runs in parallel."""
    a, b, c, d = values[at], values[at + 1], values[at + 2], values[at + 3]
    for i in range(at + 4, at + GROUP_SIZE, 4):
        a += values[i]
        b += values[i + 1]
        c += values[i + 2]
        d += values[i + 3]
    return float((a + b) + (c + d))


@compiled_internal
def arm_at(workspace: ThompsonWorkspace, position: float) -> tuple[int, float]:
    """Return the arm whose segment contains a position on the line, and the end of that segment.

    Rounding may put a position slightly beyond the last segment; then the last arm is returned.
    """
    hazards, blocks, groups = workspace.hazards, workspace.blocks, workspace.groups
    end = 0.0
    block = 0
    if workspace.spreads.shape[0] > GROUP_SIZE:
        group = 0
        while group < groups.shape[0] - 1 and end + groups[group] <= position:
            end += groups[group]
            group += 1
        block = group * GROUP_SIZE
        last = (
            min(block + GROUP_SIZE, (workspace.spreads.shape[0] + GROUP_SIZE - 1) // GROUP_SIZE) - 1
        )
        while block < last and end + blocks[block] <= position:
            end += blocks[block]
            block += 1
    arm = block * GROUP_SIZE
    last = min(arm + GROUP_SIZE, workspace.spreads.shape[0]) - 1
    while arm < last and end + hazards[arm] <= position:
        end += hazards[arm]
        arm += 1
    return arm, end + hazards[arm]


@compiled_internal
def highest_above(
    workspace: ThompsonWorkspace, position: float, total: float, best: int, top: float
) -> tuple[float, int, float]:
    """Draw the samples that the points of one round identify, from `position` on.

    Returns the distance of the next point beyond this round, and the highest sample and its arm.
    """
    level = workspace.level[0]
    means, spreads = workspace.ledger.means, workspace.spreads
    while position < total:
        arm, end = arm_at(workspace, position)
        z = (level - means[arm]) / spreads[arm]
        sample = means[arm] + spreads[arm] * normal_above(z, workspace.stream)
        if sample > top:
            top = sample
            best = arm
        position = end + exponential(workspace.stream)
    return max(position - total, 0.0), best, top


@compiled_internal_noinline
def highest_below(workspace: ThompsonWorkspace, leader: int, top: float) -> int:
    """Draw all rivals' samples, known to be below the level, and return the winning arm.

    `top` is the leader's sample.
    """
    level = workspace.level[0]
    means, spreads, stream = workspace.ledger.means, workspace.spreads, workspace.stream
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
