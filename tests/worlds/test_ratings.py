"""Arms built from a long table of ratings, and the names of arms wherever arms are listed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import polars as pl
import pytest
from plain_kernel import plain_kernel

import entice
from entice import Empirical

ITEMS = ["tea", "cocoa", "tea", "milk", "cocoa", "tea", "milk"]
RATINGS = [5.0, 1.0, 4.5, 3.0, 2.0, 5.0, 3.0]
EXPECTED = Empirical(
    values=[1, 2, 3, 4.5, 5],
    weights=[[0, 0, 0, 1, 2], [1, 1, 0, 0, 0], [0, 0, 2, 0, 0]],
    names=["tea", "cocoa", "milk"],
)


class PandasLike:
    """A column like those of pandas: iterable, with `tolist`."""

    def __init__(self, values: Iterable[Any]) -> None:
        self._values = list(values)

    def tolist(self) -> list[Any]:
        return self._values

    def __iter__(self) -> Any:
        return iter(self._values)


@pytest.mark.parametrize("of", [list, tuple, iter, np.array, pl.Series, PandasLike])
def test_columns_may_have_any_type(of: Any) -> None:
    assert Empirical.from_ratings(of(ITEMS), of(RATINGS)) == EXPECTED


def test_counts_are_added_up() -> None:
    table = pl.DataFrame({"item": ITEMS, "stars": RATINGS, "n": [2, 1, 0, 4, 1, 3, 1]})
    arms = Empirical.from_ratings(table["item"], table["stars"], table["n"])
    assert arms.values == (1.0, 2.0, 3.0, 4.5, 5.0)
    assert arms.weights == ((0, 0, 0, 0, 5), (1, 1, 0, 0, 0), (0, 0, 5, 0, 0))
    grouped = table.group_by("item", "stars", maintain_order=True).agg(pl.len())
    once = Empirical.from_ratings(grouped["item"], grouped["stars"], grouped["len"])
    assert once == EXPECTED


@pytest.mark.parametrize(
    ("scale", "values"),
    [
        (None, (1.0, 2.0, 3.0, 4.5, 5.0)),
        ((1, 5), (0.0, 0.25, 0.5, 0.875, 1.0)),
        ([0, 10], (0.1, 0.2, 0.3, 0.45, 0.5)),
        ((-5, 5), (0.6, 0.7, 0.8, 0.95, 1.0)),
    ],
)
def test_ratings_may_have_any_scale(scale: Any, values: tuple[float, ...]) -> None:
    arms = Empirical.from_ratings(ITEMS, RATINGS, scale=scale)
    assert arms.values == pytest.approx(values)
    assert arms.weights == EXPECTED.weights


def test_items_may_be_numbers() -> None:
    arms = Empirical.from_ratings([30, 4, 30], [1, 2, 3])
    assert arms.names == ("30", "4")


def test_the_items_with_the_most_ratings_are_selected_in_their_order() -> None:
    items, ratings = [*ITEMS, "rum", "gin", "gin", "gin", "gin"], [*RATINGS, 1, 2, 2, 2, 2]
    assert Empirical.from_ratings(items, ratings, arms=2).names == ("tea", "gin")
    assert Empirical.from_ratings(items, ratings, least_ratings=2).names == (
        "tea", "cocoa", "milk", "gin",
    )  # fmt: skip


def test_names_of_arms_are_shown_where_arms_are_listed() -> None:
    study = entice.Study(
        arms=EXPECTED, policies=[entice.EpsilonGreedy(c=1)], horizon=40, replications=3, seed=1,
        players=entice.Players(acceptance=entice.LogisticAcceptance(midpoint=0.5, width=0.5)),
    )  # fmt: skip
    assert entice.Study.from_toml(study.to_toml()) == study
    assert entice.Study.from_json(study.to_json()) == study
    with plain_kernel():
        pulls = entice.run(study, progress=False).pulls_per_arm()
        rounds = entice.trace(study)
    assert pulls["arm_name"].to_list() == ["tea", "cocoa", "milk"]
    assert rounds.columns[-3:] == ["displayed.tea", "displayed.cocoa", "displayed.milk"]
    for column in ("arm", "greedy_arm", "offered_arm"):
        names = [EXPECTED.names[arm] for arm in rounds[column]]  # type: ignore[index]
        assert rounds[f"{column}_name"].to_list() == names


def test_names_do_not_change_results() -> None:
    settings: dict[str, Any] = {
        "policies": [entice.UCB()], "horizon": 50, "replications": 3, "seed": 1, "progress": False,
    }  # fmt: skip
    nameless = entice.simulate(arms=entice.Gaussian([0.9, 0.1]), **settings)
    named = entice.simulate(arms=entice.Gaussian([0.9, 0.1], names=["a", "b"]), **settings)
    assert named.final.equals(nameless.final)
    assert named.engines == nameless.engines


@pytest.mark.parametrize(
    ("columns", "options", "message"),
    [
        ((["a", "b"], [1]), {}, "columns of equal length; got {'items': 2, 'ratings': 1}"),
        ((["a", "b"], [1, 2], [1]), {}, "'counts': 1}"),
        ((["a", "b"], [1, "x"]), {}, "ratings must be a number; got 'x'"),
        ((["a", "b"], ["1", "2"]), {}, "ratings must be a number; got '1'"),
        ((["a", "b"], pl.Series(["1", "2"])), {}, "ratings must be numbers; got '1'"),
        ((["a", "b"], [1, float("inf")]), {}, "ratings must be a finite number; got inf"),
        ((["a", "b"], pl.Series([1.0, float("nan")])), {}, "ratings must be finite numbers"),
        ((["a", None], [1, 2]), {}, "items must have no missing values; got 'none in row 1'"),
        ((["a", float("nan")], [1, 2]), {}, "items must have no missing values"),
        ((["a", "b"], [None, 2]), {}, "ratings must have no missing values; got 'none in row 0'"),
        ((["a", "b"], [1, 2], [1, -1]), {}, "counts must not be negative; got -1.0"),
        ((["a", "a"], [1, 2]), {}, "at least 2 items with at least 1 ratings; got '1 such items'"),
        (([], []), {}, "at least 2 items"),
        ((["a", "b"], [1, 2], [1, 0]), {"least_ratings": 0}, "at least 2 items"),
        ((["a", "b"], [1, 6]), {"scale": (1, 5)}, "scale from 1 to 5; got 6.0"),
        ((["a", "b"], [1, 2]), {"scale": (5, 1)}, "scale must have its lowest rating below"),
        ((["a", "b"], [1, 2]), {"scale": 5}, "scale must be the lowest and the highest rating"),
        ((["a", "b"], [1, 2]), {"arms": 1}, "arms must be at least 2; got 1"),
        ((7, [1, 2]), {}, "items must be a column or a list; got 7"),
    ],
)
def test_an_invalid_table_is_rejected(columns: Any, options: Any, message: str) -> None:
    with pytest.raises(entice.InputError) as refused:
        Empirical.from_ratings(*columns, **options)
    assert message in str(refused.value)


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["a"], "must have one for each of the 2 arms"),
        (["a", "a"], "must all be different"),
        (["a", ""], "must be a list of non-empty strings"),
        (["a", 2], "must be a list of non-empty strings"),
        ("ab", "must be a list of non-empty strings"),
    ],
)
def test_there_must_be_one_name_for_each_arm(names: Any, message: str) -> None:
    for make in (
        lambda: entice.Gaussian([0.9, 0.1], names=names),
        lambda: entice.Bernoulli([0.9, 0.1], names=names),
        lambda: entice.Beta([1, 2], [1, 1], names=names),
        lambda: Empirical([0, 1], [[1, 1], [1, 2]], names=names),
    ):
        with pytest.raises(entice.InputError, match=f"names {message}"):
            make()
