"""Arms: the distributions of true rewards."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt
import polars as pl

from entice.checks import as_number, as_whole_number, is_list, set_numbers
from entice.errors import InputError
from entice.jit.decorators import compiled
from entice.rng import Stream, beta, normal, uniform
from entice.user_functions import custom_label, set_function
from entice.worlds.ratings import ratings_by_item
from entice.worlds.star_counts import STAR_VALUES, STARS, read_star_counts

Floats = npt.NDArray[np.float64]


@compiled
def draw_reward(
    sample: Callable[..., float],
    t: int,
    arm: int,
    params: tuple[Any, ...],
    memory: Floats,
    stream: Stream,
    reward_stream: Stream,
) -> float:
    """Draw the reward of round t from arms whose means are fixed."""
    return sample(arm, params, reward_stream)


class RewardSampler(NamedTuple):
    """Arms in the form that the engine runs."""

    sample: Callable[..., float]
    """`sample(arm, params, rng) -> r`, a true reward."""
    params: tuple[Any, ...]
    draw: Callable[..., float] = draw_reward
    """`draw(sample, t, arm, params, memory, stream, reward_stream) -> r`, called once a round."""
    memory: int = 0
    """The length of the memory that `draw` keeps between rounds; 0 if means are fixed."""


class ArmsSpec(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind", kw_only=True
):
    """Base of all kinds of arms; `names`, one for each arm, are displayed where arms are listed.

    `true_means()` returns the expected rewards, `support()` the lowest and the highest possible
    reward of any arm, and `scale()` the approximate size of rewards.
    """

    names: Sequence[str] | None = None

    def _check_arms(self, field: str, count: int) -> None:
        """Reject a single arm, and names that do not match the arms."""
        if count < 2:
            raise InputError(
                f"{type(self).__name__}: {field}",
                "must describe at least 2 arms",
                given=getattr(self, field),
                todo="With one arm there is nothing to explore.",
            )
        if self.names is None:
            return
        where, names = f"{type(self).__name__}: names", self.names
        if not is_list(names) or not all(isinstance(n, str) and n.strip() for n in names):
            raise InputError(where, "must be a list of non-empty strings", given=names)
        if len(names) != count:
            raise InputError(where, f"must have one for each of the {count} arms", given=names)
        if len(set(names)) < count:
            raise InputError(where, "must all be different", given=names)
        msgspec.structs.force_setattr(self, "names", tuple(names))


class Gaussian(ArmsSpec, frozen=True, tag="gaussian"):
    """Rewards mean_i + std_i · N(0, 1). The paper's experiments have nine such arms with std 1.

    >>> import entice
    >>> entice.Gaussian([0.9, 0.5]).true_means()
    array([0.9, 0.5])
    """

    means: Sequence[float]
    std: float | Sequence[float] = 1.0

    def __post_init__(self) -> None:
        means = set_numbers(self, "means")
        self._check_arms("means", len(means))
        if not is_list(self.std):
            std: tuple[float, ...] = (as_number("Gaussian: std", self.std),)
            msgspec.structs.force_setattr(self, "std", std[0])
        else:
            std = set_numbers(self, "std")
            if len(std) != len(means):
                rule = f"must be one number or one for each of the {len(means)} arms"
                raise InputError("Gaussian: std", rule, given=std)
        if min(std) < 0:
            raise InputError("Gaussian: std", "must not be negative", given=self.std)

    def true_means(self) -> Floats:  # noqa: D102
        return np.array(self.means)

    def scale(self) -> float:  # noqa: D102
        return float(np.max(np.abs(self.means)) + np.max(self.std))

    def support(self) -> tuple[float, float]:  # noqa: D102
        if np.any(np.array(self.std) > 0):
            return -math.inf, math.inf
        return min(self.means), max(self.means)

    def sampler(self) -> RewardSampler:  # noqa: D102
        means = self.true_means()
        return RewardSampler(
            _sample_gaussian, (means, np.broadcast_to(self.std, means.shape).copy())
        )


@compiled
def _sample_gaussian(arm: int, params: tuple[Floats, Floats], rng: Stream) -> float:
    return float(params[0][arm] + params[1][arm] * normal(rng))


class Bernoulli(ArmsSpec, frozen=True, tag="bernoulli"):
    """Rewards of 1 with probability mean_i, else 0: bought or not, liked or not.

    >>> import entice
    >>> entice.Bernoulli([0.9, 1.2])
    Traceback (most recent call last):
        ...
    entice.errors.InputError: Bernoulli: means must lie between 0 and 1; got (0.9, 1.2).
    """

    means: Sequence[float]

    def __post_init__(self) -> None:
        means = set_numbers(self, "means")
        self._check_arms("means", len(means))
        if min(means) < 0 or max(means) > 1:
            raise InputError("Bernoulli: means", "must lie between 0 and 1", given=means)

    def true_means(self) -> Floats:  # noqa: D102
        return np.array(self.means)

    def scale(self) -> float:  # noqa: D102
        return 1.0

    def support(self) -> tuple[float, float]:  # noqa: D102
        return 0.0, 1.0

    def sampler(self) -> RewardSampler:  # noqa: D102
        return RewardSampler(_sample_bernoulli, (self.true_means(),))


@compiled
def _sample_bernoulli(arm: int, params: tuple[Floats], rng: Stream) -> float:
    return 1.0 if uniform(rng) < params[0][arm] else 0.0


class Beta(ArmsSpec, frozen=True, tag="beta"):
    """Rewards from Beta(a_i, b_i), on [0, 1] with mean a_i / (a_i + b_i).

    >>> import entice
    >>> entice.Beta(a=[3, 1], b=[1, 1]).true_means()
    array([0.75, 0.5 ])
    """

    a: Sequence[float]
    b: Sequence[float]

    def __post_init__(self) -> None:
        a, b = set_numbers(self, "a"), set_numbers(self, "b")
        self._check_arms("a", len(a))
        if len(a) != len(b):
            raise InputError("Beta: b", f"must have as many entries as a, {len(a)}", given=b)
        for name, values in (("Beta: a", a), ("Beta: b", b)):
            if min(values) <= 0:
                raise InputError(name, "must be greater than 0", given=values)

    def true_means(self) -> Floats:  # noqa: D102
        with np.errstate(over="ignore"):
            return np.asarray(1.0 / (1.0 + np.array(self.b) / np.array(self.a)))

    def scale(self) -> float:  # noqa: D102
        return 1.0

    def support(self) -> tuple[float, float]:  # noqa: D102
        return 0.0, 1.0

    def sampler(self) -> RewardSampler:  # noqa: D102
        return RewardSampler(_sample_beta, (np.array(self.a), np.array(self.b)))


@compiled
def _sample_beta(arm: int, params: tuple[Floats, Floats], rng: Stream) -> float:
    return beta(rng, params[0][arm], params[1][arm])


class Empirical(ArmsSpec, frozen=True, tag="empirical"):
    """Rewards from a grid of values, such as 1 to 5 stars, with weights for each arm.

    Parameters
    ----------
    values
        The grid of values.
    weights
        For each arm, the frequency of each value: counts or probabilities.

    >>> import entice
    >>> entice.Empirical(values=[0, 1], weights=[[1, 3], [2, 2]]).true_means()
    array([0.75, 0.5 ])
    """

    values: Sequence[float]
    weights: Sequence[Sequence[float]]

    @classmethod
    def from_star_counts(
        cls, path: str | Path, *, arms: int | None = None, least_ratings: int = 1
    ) -> Empirical:
        """Build arms from star counts of products, on a scale from 0 (1 star) to 1 (5 stars).

        Parameters
        ----------
        path
            A CSV file with a row for each product and columns `stars_1` … `stars_5`. If it has a
            column `incentivized`, only ordinary reviews (0) are used.
        arms
            The number of products: those with the most ratings. All by default.
        least_ratings
            Products with fewer ratings are left out.
        """
        least = as_whole_number("least_ratings", least_ratings)
        if arms is not None and as_whole_number("arms", arms) < 2:
            raise InputError("arms", "must be at least 2", given=arms)
        counts = read_star_counts(path).filter(pl.col("incentivized") == 0)
        ratings = pl.sum_horizontal(STARS)
        counts = counts.filter(ratings >= least)
        counts = counts.sort(ratings, descending=True, maintain_order=True)
        if arms is not None:
            counts = counts.head(int(arms))
        if counts.height < 2:
            rule = f"must have at least 2 products with at least {least_ratings} ordinary ratings"
            raise InputError("the star counts", rule, given=str(path))
        return cls(values=STAR_VALUES, weights=counts.select(STARS).rows())

    @classmethod
    def from_ratings(
        cls,
        items: Iterable[Any],
        ratings: Iterable[float],
        counts: Iterable[float] | None = None,
        *,
        scale: tuple[float, float] | None = None,
        arms: int | None = None,
        least_ratings: float = 1,
    ) -> Empirical:
        """Build arms from a long table of ratings: one entry per rating, or per (item, rating).

        Columns may be polars or pandas series, NumPy arrays or any other iterables.

        Parameters
        ----------
        items
            The rated items. They become arms, in the order in which they first occur, and keep
            their names.
        ratings
            Numbers on any scale.
        counts
            The number of occurrences of each (item, rating), 1 by default. Counts of equal entries
            are added up.
        scale
            The lowest and the highest possible rating, which become 0 and 1. By default ratings are
            not rescaled.
        arms
            The number of items: those with the most ratings. All by default.
        least_ratings
            Items with fewer ratings are left out.

        >>> import entice
        >>> arms = entice.Empirical.from_ratings(
        ...     ["tea", "tea", "cocoa", "cocoa"], [5, 3, 4, 1], [10, 10, 1, 3], scale=(1, 5))
        >>> arms.names, arms.true_means()
        (('tea', 'cocoa'), array([0.75  , 0.1875]))
        """
        return cls(**ratings_by_item(items, ratings, counts, scale, arms, least_ratings))

    def __post_init__(self) -> None:
        values = set_numbers(self, "values", at_least=1)
        given: Any = self.weights
        if not is_list(given) or not all(map(is_list, given)):
            rule = "must be a list of lists of numbers, one list for each arm"
            raise InputError("Empirical: weights", rule, given=given)
        rows = []
        for i, row in enumerate(given):
            name = f"Empirical: weights[{i}]"
            numbers = tuple(as_number(f"{name}[{j}]", w) for j, w in enumerate(row))
            if len(numbers) != len(values):
                raise InputError(name, f"must have {len(values)} entries", given=numbers)
            if min(numbers) < 0 or sum(numbers) <= 0:
                raise InputError(name, "must not be negative or all be 0", given=numbers)
            rows.append(numbers)
        self._check_arms("weights", len(rows))
        msgspec.structs.force_setattr(self, "weights", tuple(rows))

    def true_means(self) -> Floats:  # noqa: D102
        return np.asarray(self.probabilities() @ np.array(self.values))

    def scale(self) -> float:  # noqa: D102
        return max(map(abs, self.support()))

    def support(self) -> tuple[float, float]:  # noqa: D102
        possible = np.array(self.values)[self.probabilities().max(axis=0) > 0]
        return float(possible.min()), float(possible.max())

    def sampler(self) -> RewardSampler:  # noqa: D102
        cumulative = np.cumsum(self.probabilities(), axis=1)
        # Rounding may leave the last sum just below 1; values of weight 0 must stay impossible.
        cumulative[cumulative >= cumulative[:, -1:]] = 1.0
        return RewardSampler(_sample_empirical, (np.array(self.values), cumulative))

    def probabilities(self) -> Floats:
        """Return the probability of each value, for each arm."""
        weights = np.array(self.weights)
        weights = weights / weights.max(axis=1, keepdims=True)  # prevents overflow of the sum
        return np.asarray(weights / weights.sum(axis=1, keepdims=True))


@compiled
def _sample_empirical(arm: int, params: tuple[Floats, Floats], rng: Stream) -> float:
    u = uniform(rng)
    cumulative = params[1]
    low, high = 0, params[0].shape[0] - 1
    while low < high:  # the first value whose cumulative probability exceeds u
        middle = (low + high) // 2
        if u < cumulative[arm, middle]:
            high = middle
        else:
            low = middle + 1
    return float(params[0][low])


class CustomArms(ArmsSpec, frozen=True, tag="custom"):
    """User-defined rewards: any function `sample(arm, params, rng) -> reward`.

    Parameters
    ----------
    sample
        A Python function in the subset that Numba compiles, or its ``"module:name"``. It returns a
        reward of an arm, and draws from the stream `rng` with the functions of `entice.rng`:
        `uniform`, `normal`, `beta` and `below`.
    means
        The expected reward of each arm, which regret is measured against. `check_arms` compares
        them with draws.
    params
        Numbers passed to the function.

    >>> import entice
    >>> def heavy_tailed(arm, params, rng):  # Pareto, with mean (arm + 1) / 2
    ...     return (arm + 1) / 3 / (1 - entice.rng.uniform(rng)) ** (1 / params[0])
    >>> arms = entice.CustomArms(heavy_tailed, means=[0.5, 1, 1.5], params=[3])
    >>> arms.label
    'heavy_tailed(3)'
    """

    sample: Any
    means: Sequence[float]
    params: Sequence[float] = ()

    def __post_init__(self) -> None:
        set_function(self, "sample", ("arm", "params", "rng"))
        self._check_arms("means", len(set_numbers(self, "means")))
        set_numbers(self, "params")

    @property
    def label(self) -> str:
        """The name of the function and its parameters."""
        return custom_label(self.sample, self.params)

    def true_means(self) -> Floats:  # noqa: D102
        return np.array(self.means)

    def scale(self) -> float:  # noqa: D102
        return float(np.max(np.abs(self.means)))

    def support(self) -> tuple[float, float]:  # noqa: D102
        return -math.inf, math.inf

    def sampler(self) -> RewardSampler:  # noqa: D102
        return RewardSampler(self.sample, tuple(self.params))


FixedArms = Gaussian | Bernoulli | Beta | Empirical | CustomArms
