"""Visitors of segments in the loop: who arrives, and by which averages their round is decided.

`segment_delivery` records their ratings.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from entice.errors import InputError
from entice.jit.cache_aligned import cache_aligned
from entice.jit.decorators import compiled
from entice.model.ledger import Ledger, new_ledger
from entice.model.segments import (
    SegmentLedgers,
    count_expected_by_segments,
    new_segment_ledgers,
    see_segment,
)
from entice.model.step import offer
from entice.policies import CustomPolicy, Policy
from entice.policies.policy import no_update
from entice.rng import Stream
from entice.worlds.segments import Segments, draw_segment

Floats = npt.NDArray[np.float64]
Counts = npt.NDArray[np.int64]


class SegmentWorkspace(NamedTuple):
    """Arrays of a replication whose visitors belong to segments."""

    cumulative: Floats
    """The cumulative shares of the segments."""
    current: Counts
    """One element: the segment of the round's visitor."""
    ledgers: SegmentLedgers
    seen: Ledger
    """The averages that the round's visitor sees; counts and sums are those of all visitors."""
    counts: Floats
    """The effective counts of these averages."""
    cell_counts: Floats
    """The ratings of each segment and arm, with those expected from pulls in flight. Empty if the
    policy does not count them."""


def new_segment_workspace(
    segments: Segments, ledger: Ledger, *, counting: bool
) -> SegmentWorkspace:
    """Allocate the arrays for a world of segments, beside the ledger of all visitors."""
    arms, count = ledger.pulls.shape[0], len(segments.shares)
    own: SegmentWorkspace = cache_aligned(
        SegmentWorkspace(
            segments.cumulative_shares(),
            np.zeros(1, np.int64),
            new_segment_ledgers(count, arms),
            new_ledger(arms, 0.0),
            np.zeros(arms),
            np.zeros(count * arms if counting else 0),
        )
    )
    return own._replace(seen=own.seen._replace(pulls=ledger.pulls, sums=ledger.sums))


# How a round is decided. Each function returns the number of the first arm of the visitor's segment
# among the arms of all segments, and the result of `model.step.offer`.


@compiled
def offer_without_segments(
    select: Callable[..., int],
    display: Callable[..., int],
    payment_rule: Callable[..., float],
    t: int,
    ledger: Ledger,
    effective_pulls: Counts,
    displayed: Floats,
    memory: Floats,
    params: tuple[Any, ...],
    policy_stream: Stream,
    each_arm_once: bool,
    segments: tuple[()],
    stream: Stream,
) -> tuple[int, int, int, float]:
    """Decide a round of a study without segments."""
    arm, greedy, payment = offer(
        select, display, payment_rule, t, ledger, effective_pulls, displayed, memory, params,
        policy_stream, each_arm_once,
    )  # fmt: skip
    return 0, arm, greedy, payment


@compiled
def offer_to_unknown_segment(
    select: Callable[..., int],
    display: Callable[..., int],
    payment_rule: Callable[..., float],
    t: int,
    ledger: Ledger,
    effective_pulls: Counts,
    displayed: Floats,
    memory: Floats,
    params: tuple[Any, ...],
    policy_stream: Stream,
    each_arm_once: bool,
    segments: SegmentWorkspace,
    stream: Stream,
) -> tuple[int, int, int, float]:
    """Draw the visitor's segment, and decide the round without it."""
    segment = draw_segment(segments.cumulative, stream)
    arm, greedy, payment = offer(
        select, display, payment_rule, t, ledger, effective_pulls, displayed, memory, params,
        policy_stream, each_arm_once,
    )  # fmt: skip
    return segment * ledger.pulls.shape[0], arm, greedy, payment


@compiled
def offer_to_known_segment(
    select: Callable[..., int],
    display: Callable[..., int],
    payment_rule: Callable[..., float],
    t: int,
    ledger: Ledger,
    effective_pulls: Counts,
    displayed: Floats,
    memory: Floats,
    params: tuple[Any, ...],
    policy_stream: Stream,
    each_arm_once: bool,
    segments: SegmentWorkspace,
    stream: Stream,
) -> tuple[int, int, int, float]:
    """Draw the visitor's segment, and decide the round by the averages that it sees."""
    segment = draw_segment(segments.cumulative, stream)
    segments.current[0] = segment
    strength = see_segment(segments.ledgers, ledger, segment, segments.seen, segments.counts)
    if segments.cell_counts.shape[0] > 0:
        count_expected_by_segments(segments.cell_counts, segment, strength, segments.counts)
    arm, greedy, payment = offer(
        select, display, payment_rule, t, segments.seen, segments.counts, displayed, memory, params,
        policy_stream, each_arm_once,
    )  # fmt: skip
    return segment * ledger.pulls.shape[0], arm, greedy, payment


def offer_function(arms: object) -> Callable[..., tuple[int, int, int, float]]:
    """Return the function that decides the rounds of a study with these arms."""
    if not isinstance(arms, Segments):
        return offer_without_segments
    return offer_to_known_segment if arms.known else offer_to_unknown_segment


def check_segments(where: str, policy: Policy, arms: object) -> None:
    """Reject a policy that cannot decide by the averages and counts of a known segment.

    The memory of `CustomPolicy` is the user's: it is the same for all segments.
    """
    if not (isinstance(arms, Segments) and arms.known):
        return
    kernel = policy.kernel(len(arms.true_means()))
    if kernel.update is not no_update and not isinstance(policy, CustomPolicy):
        rule = f"is {policy.label}, which remembers ratings that may be from other segments"
        todo = "Use UCB or another policy of counts and averages, or Segments(…, known=False)."
        raise InputError(where, rule, todo=todo)


@compiled
def count_if_rated_in_segment(
    rated: Floats,
    instance: tuple[Any, ...],
    arms_memory: Floats,
    arm: int,
    reward: float,
    feedback: float,
) -> None:
    """Count a pull whose rating comes, as `kernel.count_if_rated` does."""
    if not np.isnan(feedback):
        rated[0] += 1.0
        rated[1] += reward - arms_memory[-1]
