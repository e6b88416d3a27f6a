"""Prior beliefs about the items' true ratings; each run draws a world from them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

import msgspec
import numpy as np
import numpy.typing as npt
import polars as pl

from entice.checks import as_whole_number, is_list, set_number, set_whole
from entice.errors import InputError
from entice.worlds.star_counts import STARS as STAR_COLUMNS
from entice.worlds.star_counts import read_star_counts

Floats = npt.NDArray[np.float64]
Shape = Literal["normal", "uniform"]

STARS = np.arange(1.0, 6.0)
"""The rating scale."""
_MARGIN = 0.02
"""Minimum distance of an item's mean from the ends of the scale, where ratings cannot vary."""
LOWEST_MEAN, HIGHEST_MEAN = float(STARS[0]) + _MARGIN, float(STARS[-1]) - _MARGIN
_PSEUDO_RATINGS = 5.0
"""The number of ratings, distributed like those of all items, that are added to an item's own."""


class DrawnWorld(NamedTuple):
    """True ratings and drift, drawn from a belief."""

    shares: Floats
    """For each item, the shares of 1, 2, … 5 stars among unpaid ratings. With segments, for each
    item and segment, item by item."""
    slope: float
    """The number of stars by which a payment worth one star raises a rating."""
    segments: int = 1

    @property
    def means(self) -> Floats:
        """The true mean of each item, in stars. With segments, a row of them for each item."""
        means = np.asarray(self.shares @ STARS)
        return means if self.segments == 1 else means.reshape(-1, self.segments)


class Spread(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Belief that the items' true means are spread around a centre, in stars.

    The ratings of an item with mean m follow the maximum-entropy distribution on 1 to 5 stars with
    that mean. Its standard deviation, 1.1 at 4.1 stars, is close to that of real products, 1.2.

    Parameters
    ----------
    centre
        The mean of a typical item.
    width
        ``"normal"``: the standard deviation, so two items in three are within one width of the
        centre; draws outside the scale are repeated. ``"uniform"``: all are within one width.
    shape
        ``"normal"`` or ``"uniform"``.

    >>> from entice.planner.belief import Spread
    >>> Spread(centre=4.1, width=0.45)
    Spread(centre=4.1, width=0.45, shape='normal')
    """

    centre: float
    width: float
    shape: Shape = "normal"

    def __post_init__(self) -> None:
        lowest, highest = STARS[0] + _MARGIN, STARS[-1] - _MARGIN
        if not lowest < set_number(self, "centre") < highest:
            rule = f"must be more than {lowest:g} and less than {highest:g} stars"
            raise InputError("Spread: centre", rule, given=self.centre)
        if not 0 < set_number(self, "width") <= 4:
            rule = "must be more than 0 and at most 4 stars"
            raise InputError("Spread: width", rule, given=self.width)
        if self.shape not in get_args(Shape):
            rule = 'must be "normal" or "uniform"'
            raise InputError("Spread: shape", rule, given=self.shape)

    def sampler(self, items: int) -> SpreadSampler:
        """Return a sampler for the rating shares of this many items."""
        return SpreadSampler(self, items)


class SpreadSampler(NamedTuple):
    """Draws the rating shares of items from a spread."""

    spread: Spread
    items: int

    @property
    def centre(self) -> float:
        """The expected mean of an unrated item."""
        return self.spread.centre

    def draw(self, rng: np.random.Generator) -> Floats:
        """Draw each item's shares of 1 to 5 stars."""
        lowest, highest = STARS[0] + _MARGIN, STARS[-1] - _MARGIN
        centre, width = self.spread.centre, self.spread.width
        if self.spread.shape == "uniform":
            low, high = max(lowest, centre - width), min(highest, centre + width)
            return shares_with_means(rng.uniform(low, high, self.items))
        means = rng.normal(centre, width, self.items)
        while (outside := (means < lowest) | (means > highest)).any():
            means[outside] = rng.normal(centre, width, int(outside.sum()))
        return shares_with_means(means)


def shares_with_means(means: Floats) -> Floats:
    """Return the maximum-entropy shares of 1 to 5 stars with given means.

    They are proportional to exp(λ · stars); λ is found by bisection.

    >>> import numpy as np
    >>> from entice.planner.belief import shares_with_means
    >>> shares_with_means(np.array([3.0, 4.0])).round(2)
    array([[0.2 , 0.2 , 0.2 , 0.2 , 0.2 ],
           [0.05, 0.08, 0.15, 0.26, 0.46]])
    """
    low, high = np.full(means.shape, -50.0), np.full(means.shape, 50.0)
    for _ in range(60):
        tilt = (low + high) / 2
        below = _tilted(tilt) @ STARS < means
        low, high = np.where(below, tilt, low), np.where(below, high, tilt)
    return _tilted((low + high) / 2)


def _tilted(tilt: Floats) -> Floats:
    weights = np.exp(tilt[:, None] * (STARS - STARS.mean()))
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


class StarCounts(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Belief based on existing ratings of the items, or of similar items.

    Each run draws an item's true shares from the Dirichlet distribution of its counts plus 5
    pseudo-ratings, which are distributed like the ratings of all items.

    Parameters
    ----------
    counts
        Ratings of these items: for each, the number of 1, 2, 3, 4 and 5 star ratings.
    path
        Ratings of similar items: a CSV file with the columns `stars_1` … `stars_5`. Each run draws
        its items from the rows at random. If there is a column `incentivized`, only rows with 0
        are used.
    category
        Use only rows with this value in the column `category`.
    least_ratings
        Ignore rows of the file with fewer ratings.

    >>> from entice.planner.belief import StarCounts
    >>> belief = StarCounts(counts=[[2, 1, 3, 8, 20], [0, 0, 1, 4, 2]])
    """

    counts: Sequence[Sequence[int]] | None = None
    path: str | None = None
    category: str | None = None
    least_ratings: int = 50

    def __post_init__(self) -> None:
        if (self.counts is None) == (self.path is None):
            raise InputError(
                "StarCounts",
                "must have either counts, one list per item, or the path of a CSV file",
                given=self,
            )
        if self.counts is not None:
            self._set_counts()
        for field in ("path", "category"):
            given: Any = getattr(self, field)
            if isinstance(given, Path):
                msgspec.structs.force_setattr(self, field, str(given))
            elif given is not None and not isinstance(given, str):
                raise InputError(f"StarCounts: {field}", "must be text", given=given)
        if self.category is not None and self.path is None:
            rule = "selects rows of a file: it requires a path"
            raise InputError("StarCounts: category", rule, given=self.category)
        set_whole(self, "least_ratings", at_least=1)

    def _set_counts(self) -> None:
        given: Any = self.counts
        if not is_list(given) or not all(is_list(row) and len(row) == len(STARS) for row in given):
            rule = "must be lists of 5 numbers, one list per item"
            raise InputError("StarCounts: counts", rule, given=given)
        rows = tuple(
            tuple(as_whole_number(f"StarCounts: counts[{i}][{j}]", n) for j, n in enumerate(row))
            for i, row in enumerate(given)
        )
        if any(n < 0 for row in rows for n in row) or not any(n for row in rows for n in row):
            rule = "must not be negative, and not all 0"
            raise InputError("StarCounts: counts", rule, given=given)
        msgspec.structs.force_setattr(self, "counts", rows)

    def sampler(self, items: int) -> StarCountsSampler:
        """Read the counts and return a sampler for the rating shares of this many items."""
        if self.counts is not None:
            return StarCountsSampler(
                np.array(self.counts, dtype=np.float64), items, same_items=True
            )
        counts = self._read()
        if len(counts) < items:
            raise InputError(
                f"the star counts {self.path}",
                f"must have at least as many items as the plan, {items}, with "
                f"{self.least_ratings} ratings or more",
                given=len(counts),
                todo="Plan fewer items, or lower least_ratings.",
            )
        return StarCountsSampler(counts, items, same_items=False)

    def _read(self) -> Floats:
        assert self.path is not None
        rows = read_star_counts(self.path).filter(pl.col("incentivized") == 0)
        if self.category is not None:
            where = f"the star counts {self.path}"
            if "category" not in rows.columns:
                raise InputError(where, "must have a column 'category'", given=rows.columns)
            known = sorted(rows["category"].cast(pl.String).drop_nulls().unique())
            if self.category not in known:
                todo = f"Known categories: {', '.join(known[:20])}."
                raise InputError(f"{where}: category", "is unknown", given=self.category, todo=todo)
            rows = rows.filter(pl.col("category").cast(pl.String) == self.category)
        counts = rows.select(STAR_COLUMNS).to_numpy().astype(np.float64)
        return np.asarray(counts[counts.sum(axis=1) >= self.least_ratings])


class StarCountsSampler(NamedTuple):
    """Draws the rating shares of items from star counts."""

    counts: Floats
    items: int
    same_items: bool
    """Whether the rows are the items themselves, not similar items."""

    @property
    def centre(self) -> float:
        """The expected mean of an unrated item."""
        return float(self._common() @ STARS)

    def draw(self, rng: np.random.Generator) -> Floats:
        """Draw each item's shares of 1 to 5 stars."""
        counts = self.counts
        if not self.same_items:
            counts = counts[rng.choice(len(counts), self.items, replace=False)]
        weights = rng.standard_gamma(counts + _PSEUDO_RATINGS * self._common())
        return np.asarray(weights / weights.sum(axis=1, keepdims=True))

    def _common(self) -> Floats:
        """Return the rating shares of all items together."""
        return np.asarray(self.counts.sum(axis=0) / self.counts.sum())


ItemSampler = SpreadSampler | StarCountsSampler
