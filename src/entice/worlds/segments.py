"""Segments of visitors: each has arms of its own. Regret is against each segment's best arm."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from entice.checks import is_list, set_numbers
from entice.errors import InputError
from entice.jit.decorators import compiled
from entice.model.segments import MAX_SEGMENTS
from entice.rng import ARMS, Stream, fill_uniforms, new_stream, uniform
from entice.worlds.arms import ArmsSpec, Bernoulli, Beta, Empirical, Gaussian, RewardSampler

Floats = npt.NDArray[np.float64]
Counts = npt.NDArray[np.int64]

_KINDS = Gaussian, Bernoulli, Beta, Empirical
_TOLERANCE = 1e-9
"""The largest difference between the sum of all shares and 1."""


class Segments(ArmsSpec, frozen=True, tag="segments"):
    """Visitors of different segments, who reward the same arms differently.

    Each round's visitor belongs to segment s with probability shares[s], independently of all other
    rounds. A replication has the same segments under every policy and drift. Regret is measured
    against the best arm of the visitor's segment.

    Parameters
    ----------
    shares
        The share of each segment, at most 32, greater than 0 and with the sum 1.
    arms
        The arms of each segment: all `Gaussian`, all `Bernoulli`, all `Beta`, or all `Empirical`
        with the same values, and the same number of arms in each.
    known
        Whether the principal knows the segment of each visitor. If so, there is a ledger for each
        segment, and display, payment and policy use its averages, shrunk towards those of all
        visitors. If not, all visitors are one population.

    >>> import entice
    >>> arms = entice.Segments(
    ...     shares=[0.75, 0.25], arms=[entice.Gaussian([0.8, 0.4]), entice.Gaussian([0.0, 0.4])])
    >>> arms.true_means()
    array([0.6, 0.4])
    """

    shares: Sequence[float]
    arms: Sequence[Gaussian | Bernoulli | Beta | Empirical]
    known: bool = True

    def __post_init__(self) -> None:
        self._set_shares()
        self._set_arms()
        if not isinstance(self.known, bool):
            raise InputError("Segments: known", "must be true or false", given=self.known)

    def _set_shares(self) -> None:
        check_shares("Segments: shares", set_numbers(self, "shares", at_least=1))

    def _set_arms(self) -> None:
        given: Any = self.arms
        if not is_list(given) or len(given) != len(self.shares):
            rule = f"must be a list of {len(self.shares)} entries, one for each of `shares`"
            raise InputError("Segments: arms", rule, given=given)
        for s, arms in enumerate(given):
            _check_alike(f"Segments: arms[{s}]", arms, given[0])
        first = given[0]
        msgspec.structs.force_setattr(self, "arms", tuple(given))
        if self.names is None and first.names is not None:
            msgspec.structs.force_setattr(self, "names", first.names)
        self._check_arms("arms", len(first.true_means()))

    def means(self) -> Floats:
        """Return the expected rewards, one row for each segment."""
        return np.array([arms.true_means() for arms in self.arms])

    def true_means(self) -> Floats:
        """Return the expected reward of each arm over all visitors."""
        return np.asarray((np.array(self.shares)[:, None] * self.means()).sum(axis=0))

    def gaps(self) -> Floats:
        """Return, for each segment and arm, the best mean of the segment minus the arm's."""
        means = self.means()
        return np.asarray(means.max(axis=1, keepdims=True) - means)

    def largest_gap(self) -> float:
        """Return the largest difference between two arms' means in any segment."""
        return float(self.gaps().max())

    def scale(self) -> float:  # noqa: D102
        return max(arms.scale() for arms in self.arms)

    def support(self) -> tuple[float, float]:  # noqa: D102
        low, high = zip(*(arms.support() for arms in self.arms), strict=True)
        return min(low), max(high)

    def cumulative_shares(self) -> Floats:
        """Return the probability of each segment or one before it."""
        return cumulative_shares(self.shares)

    def sampler(self) -> RewardSampler:
        """Return a sampler with an arm for each segment and arm, segment by segment."""
        samplers = [arms.sampler() for arms in self.arms]
        params: tuple[Any, ...]
        if isinstance(self.arms[0], Empirical):  # the values, and a row for each arm
            values, _ = samplers[0].params
            params = values, np.concatenate([sampler.params[1] for sampler in samplers])
        else:
            params = tuple(
                np.concatenate(parts)
                for parts in zip(*(sampler.params for sampler in samplers), strict=True)
            )
        # Computed as for arms without segments, so that one segment has the same metrics.
        means = (self.means().max(axis=1, keepdims=True) - self.gaps()).ravel()
        segment_params = SegmentParams(params, means, self.cumulative_shares())
        draw = draw_for_known if self.known else draw_for_unknown
        return RewardSampler(samplers[0].sample, segment_params, draw, len(means) + 2)


def check_shares(where: str, shares: Sequence[float]) -> None:
    """Check the shares of segments."""
    if len(shares) > MAX_SEGMENTS:
        rule = f"must describe at most {MAX_SEGMENTS} segments"
        raise InputError(where, rule, given=f"{len(shares)} segments")
    if min(shares) <= 0 or abs(math.fsum(shares) - 1) > _TOLERANCE:
        rule = "must be greater than 0, and their sum must be 1"
        raise InputError(where, rule, given=shares)


def cumulative_shares(shares: Sequence[float]) -> Floats:
    """Return the probability of each segment or one before it."""
    cumulative = np.cumsum(shares)
    cumulative[-1] = 1.0  # rounding may leave it just below
    return cumulative


class SegmentParams(NamedTuple):
    """The parameters of `draw_for_known` and `draw_for_unknown`."""

    arms: tuple[Any, ...]
    """Those of the arms of all segments."""
    means: Floats
    """Their true means."""
    cumulative: Floats
    """The cumulative shares of the segments."""


def _check_alike(where: str, arms: Any, first: Any) -> None:
    """Check that arms of a segment can be combined with those of the first one."""
    if not isinstance(arms, _KINDS):
        kinds = ", ".join(kind.__name__ for kind in _KINDS)
        raise InputError(where, f"must be one of {kinds}", given=arms)
    if type(arms) is not type(first):
        rule = f"must be {type(first).__name__} arms, like those of the first segment"
        raise InputError(where, rule, given=arms)
    if len(arms.true_means()) != len(first.true_means()):
        rule = f"must have {len(first.true_means())} arms, like the first segment"
        raise InputError(where, rule, given=arms)
    if getattr(arms, "values", None) != getattr(first, "values", None):
        rule = "must be the same in all segments"
        raise InputError(f"{where}: values", rule, given=getattr(arms, "values", None))
    if arms.names != first.names:
        raise InputError(f"{where}: names", "must be the same in all segments", given=arms.names)


@compiled
def draw_segment(cumulative: Floats, stream: Stream) -> int:
    """Draw the segment of a round's visitor."""
    u, segment = uniform(stream), 0
    while u >= cumulative[segment]:
        segment += 1
    return segment


# The memory has the pulls of each segment and arm, the true mean of the round's pull, and the
# round's segment.


@compiled
def draw_for_unknown(
    sample: Callable[..., float],
    t: int,
    arm: int,
    params: SegmentParams,
    memory: Floats,
    stream: Stream,
    reward_stream: Stream,
) -> float:
    """Draw the visitor's segment, and the reward."""
    memory[-1] = draw_segment(params.cumulative, stream)
    return draw_for_known(sample, t, arm, params, memory, stream, reward_stream)


@compiled
def draw_for_known(
    sample: Callable[..., float],
    t: int,
    arm: int,
    params: SegmentParams,
    memory: Floats,
    stream: Stream,
    reward_stream: Stream,
) -> float:
    """Draw the reward of the round's segment, which is known from the offer, and count the pull."""
    arms = params.means.shape[0] // params.cumulative.shape[0]
    cell = int(memory[-1]) * arms + arm
    memory[cell] += 1.0
    memory[-2] = params.means[cell]
    return sample(cell, params.arms, reward_stream)


def segments_by_round(arms: Segments, horizon: int, seed: int, replication: int) -> Counts:
    """Return the segment of each round's visitor in a replication.

    >>> import entice
    >>> from entice.worlds.segments import segments_by_round
    >>> one = entice.Segments(shares=[1], arms=[entice.Gaussian([0.9, 0.1])])
    >>> segments_by_round(one, 3, seed=7, replication=0).tolist()
    [0, 0, 0]
    """
    draws = np.empty(horizon)
    fill_uniforms(new_stream(seed, replication, ARMS), draws)
    return np.searchsorted(arms.cumulative_shares(), draws, side="right")
