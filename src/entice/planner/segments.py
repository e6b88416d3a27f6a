"""Segments of a plan's visitors, each with its own true ratings of the items."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from entice.checks import as_number, is_list, set_numbers
from entice.errors import InputError
from entice.planner.belief import HIGHEST_MEAN, LOWEST_MEAN, shares_with_means
from entice.worlds.segments import check_shares, cumulative_shares

Floats = npt.NDArray[np.float64]


class PlanSegments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Segments of visitors, who rate the same items differently.

    Each visitor belongs to segment s with probability shares[s]. Lost stars are counted against the
    best item of the visitor's segment. The ratings of an item with mean m are distributed as in
    `Spread`.

    Parameters
    ----------
    shares
        The share of each segment, at most 32, greater than 0 and with the sum 1.
    means
        The true means of the items in stars: a list for each segment, with a number for each item.
        They take the place of `spread` and `star_counts`.
    known
        Whether the campaign has these segments. If not, it treats all visitors as one population.

    >>> from entice.planner.segments import PlanSegments
    >>> PlanSegments(shares=[0.7, 0.3], means=[[4.4, 3.9], [3.8, 4.3]]).known
    True
    """

    shares: Sequence[float]
    means: Sequence[Sequence[float]]
    known: bool = True

    def __post_init__(self) -> None:
        check_shares("PlanSegments: shares", set_numbers(self, "shares", at_least=1))
        given: Any = self.means
        if not is_list(given) or len(given) != len(self.shares) or not all(map(is_list, given)):
            rule = f"must be {len(self.shares)} lists, one for each of `shares`"
            raise InputError("PlanSegments: means", rule, given=given)
        if len(set(map(len, given))) > 1:
            rule = "must have a number for each item in each list"
            raise InputError("PlanSegments: means", rule, given=given)
        rows = tuple(
            tuple(_mean(f"PlanSegments: means[{s}][{i}]", m) for i, m in enumerate(row))
            for s, row in enumerate(given)
        )
        msgspec.structs.force_setattr(self, "means", rows)
        if not isinstance(self.known, bool):
            raise InputError("PlanSegments: known", "must be true or false", given=self.known)

    @property
    def items(self) -> int:
        """The number of items."""
        return len(self.means[0])

    def cumulative_shares(self) -> Floats:
        """Return the probability of each segment or one before it."""
        return cumulative_shares(self.shares)

    def sampler(self, items: int) -> SegmentMeansSampler:
        """Return a sampler for the rating shares of the items."""
        return SegmentMeansSampler(np.array(self.shares), np.array(self.means).T)


def _mean(where: str, given: Any) -> float:
    mean = as_number(where, given)
    if not LOWEST_MEAN <= mean <= HIGHEST_MEAN:
        rule = f"must be from {LOWEST_MEAN:g} to {HIGHEST_MEAN:g} stars"
        raise InputError(where, rule, given=given)
    return mean


class SegmentMeansSampler(NamedTuple):
    """Returns the rating shares of items with known means in each segment."""

    shares: Floats
    means: Floats
    """One row for each item."""

    @property
    def centre(self) -> float:
        """The mean of all items over all visitors."""
        return float((self.means @ self.shares).mean())

    def draw(self, rng: np.random.Generator) -> Floats:
        """Return the shares of 1 to 5 stars of each item and segment, item by item."""
        return shares_with_means(self.means.ravel())
