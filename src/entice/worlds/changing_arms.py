"""Arms that change: means that jump in given rounds, or wander. Regret is counted by rounds."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, get_args

import msgspec
import numpy as np
import numpy.typing as npt

from entice.checks import as_number, as_whole_number, is_list, set_number
from entice.errors import InputError
from entice.jit.decorators import compiled, compiled_noinline
from entice.rng import ARMS, Stream, new_stream, normal, uniform
from entice.worlds.arms import (
    ArmsSpec,
    Bernoulli,
    Beta,
    CustomArms,
    Empirical,
    FixedArms,
    Gaussian,
    RewardSampler,
)
from entice.worlds.segments import Segments, segments_by_round

Floats = npt.NDArray[np.float64]
Counts = npt.NDArray[np.int64]

_REGRET, _BEST, _NEXT, _MEANS = 0, 1, 2, 3
"""Layout of the memory: the regret so far, the best arm of the round, the number of changes so far,
and the current mean of each arm."""


class _ArmsThatChange(ArmsSpec, frozen=True):
    """Base of `Changing` and `Wandering`."""

    arms: Gaussian | Bernoulli | Beta | Empirical | CustomArms

    def _set_arms(self) -> None:
        if not isinstance(self.arms, get_args(FixedArms)):
            kinds = ", ".join(kind.__name__ for kind in get_args(FixedArms))
            rule = f"must be arms with fixed means, one of {kinds}"
            raise InputError(f"{type(self).__name__}: arms", rule, given=self.arms)
        if self.names is None and self.arms.names is not None:
            msgspec.structs.force_setattr(self, "names", self.arms.names)
        self._check_arms("arms", len(self.arms.true_means()))

    def true_means(self) -> Floats:
        """Return the means of round 1."""
        return self.arms.true_means()

    def mean_range(self) -> tuple[float, float]:
        """Return the lowest and the highest possible mean; infinite for rewards that are shifted.

        Rewards of `Gaussian` and `CustomArms` are shifted to another mean. The others keep their
        range: a share of the rewards is replaced by the lowest or the highest possible reward.
        """
        if isinstance(self.arms, Gaussian | CustomArms):
            return -math.inf, math.inf
        return self.arms.support()


class Changing(_ArmsThatChange, frozen=True, tag="changing"):
    """Arms whose means jump: from round at[j] on, the means are means[j].

    Regret is measured against the best arm of each round. Rewards of `Gaussian` and `CustomArms`
    are shifted to the new mean. The other kinds keep their range: a share of an arm's rewards is
    replaced by the lowest reward, if its mean falls, or else by the highest. `Bernoulli` arms stay
    Bernoulli arms.

    Parameters
    ----------
    arms
        The arms up to the first change.
    at
        The rounds in which the means change, in increasing order. The first is at least 2. Changes
        after the horizon do not happen.
    means
        One row for each change: the new mean of each arm.

    >>> import entice
    >>> arms = entice.Changing(entice.Bernoulli([0.8, 0.4]), at=[501], means=[[0.2, 0.4]])
    >>> entice.Study(arms=arms, policies=[entice.UCB()], horizon=1000).engines()
    ('generic',)
    """

    at: Sequence[int]
    means: Sequence[Sequence[float]]

    def __post_init__(self) -> None:
        self._set_arms()
        if not is_list(self.at) or not len(self.at):
            rule = "must be a list of at least one round"
            raise InputError("Changing: at", rule, given=self.at)
        at = tuple(as_whole_number(f"Changing: at[{j}]", t) for j, t in enumerate(self.at))
        if at[0] < 2 or any(later <= t for t, later in itertools.pairwise(at)):
            rule = "must be rounds in increasing order, the first at least 2"
            raise InputError("Changing: at", rule, given=at)
        msgspec.structs.force_setattr(self, "at", at)
        given: Any = self.means
        if not is_list(given) or len(given) != len(at) or not all(map(is_list, given)):
            rule = f"must be a list of {len(at)} lists of means, one for each round of `at`"
            raise InputError("Changing: means", rule, given=given)
        rows = tuple(self._row(j, row) for j, row in enumerate(given))
        msgspec.structs.force_setattr(self, "means", rows)

    def _row(self, j: int, given: Any) -> tuple[float, ...]:
        where, arms = f"Changing: means[{j}]", len(self.true_means())
        row = tuple(as_number(f"{where}[{i}]", mean) for i, mean in enumerate(given))
        if len(row) != arms:
            raise InputError(where, f"must have one mean for each of the {arms} arms", given=row)
        low, high = self.mean_range()
        if min(row) < low or max(row) > high:
            rule = f"must lie between {low:g} and {high:g}, the range of the rewards"
            raise InputError(where, rule, given=row)
        return row

    def scale(self) -> float:  # noqa: D102
        return self.arms.scale() + float(np.abs(self.means).max())

    def support(self) -> tuple[float, float]:  # noqa: D102
        low, high = self.arms.support()
        if self.mean_range()[1] < math.inf:
            return low, high
        # Without noise, rewards are the means.
        return min(low, float(np.min(self.means))), max(high, float(np.max(self.means)))

    def largest_gap(self) -> float:
        """Return the largest difference between two arms' means in any round."""
        return float(np.ptp(np.vstack([self.true_means(), *self.means]), axis=1).max())

    def sampler(self) -> RewardSampler:  # noqa: D102
        start = self.true_means()
        params = ChangingParams(
            self.arms.sampler().params, start, *self.mean_range(),
            np.array(self.at, dtype=np.int64), np.array(self.means),
        )  # fmt: skip
        return RewardSampler(self.arms.sampler().sample, params, draw_changing, _MEANS + len(start))


class Wandering(_ArmsThatChange, frozen=True, tag="wandering"):
    """Arms whose means perform independent random walks.

    After each round, N(0, rate²) is added to each mean, so after t rounds it has moved by about
    rate · sqrt(t). Regret is measured against the best arm of each round. A replication has the
    same walk under every policy and drift. Rewards follow their means as in `Changing`. Means of
    `Bernoulli`, `Beta` and `Empirical` arms are reflected at the ends of the rewards' range; those
    of `Gaussian` and `CustomArms` have no bounds.

    Parameters
    ----------
    arms
        The arms in round 1.
    rate
        The standard deviation of a mean's change from one round to the next.

    >>> import entice
    >>> arms = entice.Wandering(entice.Gaussian([0.9, 0.5, 0.1]), rate=0.005)
    >>> arms.true_means()
    array([0.9, 0.5, 0.1])
    """

    rate: float

    def __post_init__(self) -> None:
        self._set_arms()
        if set_number(self, "rate") <= 0:
            raise InputError("Wandering: rate", "must be greater than 0", given=self.rate)

    def scale(self) -> float:  # noqa: D102
        return self.arms.scale() + self.rate

    def support(self) -> tuple[float, float]:  # noqa: D102
        return self.arms.support() if self.mean_range()[1] < math.inf else self.mean_range()

    def largest_gap(self) -> float:
        """Return the largest possible difference between two arms' means."""
        low, high = self.mean_range()
        return high - low

    def sampler(self) -> RewardSampler:  # noqa: D102
        start = self.true_means()
        params = WanderingParams(self.arms.sampler().params, start, *self.mean_range(), self.rate)
        return RewardSampler(
            self.arms.sampler().sample, params, draw_wandering, _MEANS + len(start)
        )


Arms = Gaussian | Bernoulli | Beta | Empirical | CustomArms | Changing | Wandering | Segments


def fixed_arms(arms: Arms) -> FixedArms:
    """Return the arms themselves, those of round 1 if means change, or those of segment 0."""
    if isinstance(arms, Segments):
        return arms.arms[0]
    return arms.arms if isinstance(arms, Changing | Wandering) else arms


def means_by_round(arms: Arms, horizon: int, seed: int, replication: int) -> Floats:
    """Return the true mean of each arm in each round of a replication, for the round's visitor.

    >>> import entice
    >>> from entice.worlds.changing_arms import means_by_round
    >>> arms = entice.Changing(entice.Gaussian([0.9, 0.1]), at=[3], means=[[0.5, 0.6]])
    >>> means_by_round(arms, 4, seed=7, replication=0).tolist()
    [[0.9, 0.1], [0.9, 0.1], [0.5, 0.6], [0.5, 0.6]]
    """
    if isinstance(arms, Segments):
        return np.asarray(arms.means()[segments_by_round(arms, horizon, seed, replication)])
    start = arms.true_means()
    if isinstance(arms, Changing):
        since = np.searchsorted(arms.at, np.arange(1, horizon + 1), side="right")
        return np.vstack([start, *arms.means])[since]
    found = np.broadcast_to(start, (horizon, len(start)))
    if isinstance(arms, Wandering):
        found, sampler = found.copy(), arms.sampler()
        stream = new_stream(seed, replication, ARMS)
        params: Any = sampler.params
        fill_walk(params, np.zeros(sampler.memory), stream, found)
    return found


class ChangingParams(NamedTuple):
    """The parameters of `draw_changing`."""

    arms: tuple[Any, ...]
    """The parameters of the arms of round 1."""
    start: Floats
    """The means of round 1."""
    lowest: float
    highest: float
    """The range of the means; infinite if rewards are shifted."""
    at: Counts
    means: Floats


class WanderingParams(NamedTuple):
    """The parameters of `draw_wandering`."""

    arms: tuple[Any, ...]
    start: Floats
    lowest: float
    highest: float
    rate: float


@compiled
def draw_changing(
    sample: Callable[..., float],
    t: int,
    arm: int,
    params: ChangingParams,
    memory: Floats,
    stream: Stream,
    reward_stream: Stream,
) -> float:
    """Draw the reward of round t, and add the round's regret."""
    if t == 1:
        _set_means(memory, params.start)
    change = int(memory[_NEXT])
    if change < params.at.shape[0] and t == params.at[change]:
        _set_means(memory, params.means[change])
        memory[_NEXT] = change + 1.0
    _add_regret(memory, arm)
    reward = sample(arm, params.arms, reward_stream)
    u = uniform(stream) if params.highest < math.inf else 0.0
    return _with_mean(
        reward, memory[_MEANS + arm], params.start[arm], params.lowest, params.highest, u
    )


@compiled
def draw_wandering(
    sample: Callable[..., float],
    t: int,
    arm: int,
    params: WanderingParams,
    memory: Floats,
    stream: Stream,
    reward_stream: Stream,
) -> float:
    """Move the means to round t, draw its reward, and add its regret."""
    u = _walk(t, params, memory, stream)
    _add_regret(memory, arm)
    reward = sample(arm, params.arms, reward_stream)
    return _with_mean(
        reward, memory[_MEANS + arm], params.start[arm], params.lowest, params.highest, u
    )


@compiled
def _walk(t: int, params: WanderingParams, memory: Floats, stream: Stream) -> float:
    """Move the means to round t; return the draw that decides whether its reward is replaced.

    What is drawn from the stream does not depend on the arm, so the walk is the same for all
    policies.
    """
    if t == 1:
        _set_means(memory, params.start)
    else:
        best = 0
        for i in range(params.start.shape[0]):
            mean = memory[_MEANS + i] + params.rate * normal(stream)
            if not params.lowest <= mean <= params.highest:
                mean = _reflect(mean, params.lowest, params.highest)
            memory[_MEANS + i] = mean
            if mean > memory[_MEANS + best]:
                best = i
        memory[_BEST] = best
    return uniform(stream) if params.highest < math.inf else 0.0


@compiled
def _reflect(mean: float, lowest: float, highest: float) -> float:
    """Reflect a mean at the ends of its range, as often as necessary."""
    width = highest - lowest
    past = (mean - lowest) % (2.0 * width)
    return lowest + min(past, 2.0 * width - past)


@compiled
def _set_means(memory: Floats, means: Floats) -> None:
    best = 0
    for i in range(means.shape[0]):
        memory[_MEANS + i] = means[i]
        if means[i] > means[best]:
            best = i
    memory[_BEST] = best


@compiled
def _add_regret(memory: Floats, arm: int) -> None:
    memory[_REGRET] += memory[_MEANS + int(memory[_BEST])] - memory[_MEANS + arm]


@compiled
def _with_mean(
    reward: float, mean: float, usual: float, lowest: float, highest: float, u: float
) -> float:
    """Turn a reward of an arm with the mean `usual` into one of the given mean."""
    if highest == math.inf:
        return reward + (mean - usual)
    if u * (usual - lowest) < usual - mean:
        return lowest
    if u * (highest - usual) < mean - usual:
        return highest
    return reward


@compiled
def mean_of_round(memory: Floats, arm: int) -> float:
    """Return the true mean of an arm in the last round that was played."""
    return float(memory[_MEANS + arm])


@compiled
def write_regret_by_round(metrics: Floats, memory: Floats, averages: Floats) -> None:
    """Write the metrics that depend on the true means: regret, and the error of the best arm.

    The best arm is that of the checkpoint's round.
    """
    best = int(memory[_BEST])
    mean = memory[_MEANS + best]
    metrics[0] = memory[_REGRET]
    metrics[4] = abs(averages[best] - mean) / abs(mean) if mean != 0.0 else math.nan


@compiled_noinline
def fill_walk(params: WanderingParams, memory: Floats, stream: Stream, found: Floats) -> None:
    """Fill row t − 1 of `found` with the means of round t."""
    for row in range(found.shape[0]):
        _walk(row + 1, params, memory, stream)
        for i in range(found.shape[1]):
            found[row, i] = memory[_MEANS + i]
