"""Arms and drifts from star counts, and the data set of star counts."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest
from plain_kernel import plain_kernel

import entice
from entice.datasets import make_star_counts
from entice.worlds.star_counts import STARS, read_star_counts

COUNTS = """\
product,incentivized,stars_1,stars_2,stars_3,stars_4,stars_5
a,0,10,0,0,0,30
a,1,0,0,5,5,10
b,0,0,10,0,10,0
c,0,1,0,0,0,0
"""


def test_arms_from_star_counts(tmp_path: Path) -> None:
    path = tmp_path / "counts.csv"
    path.write_text(COUNTS)
    arms = entice.Empirical.from_star_counts(path)
    assert arms.true_means().tolist() == [0.75, 0.5, 0.0]
    assert entice.Empirical.from_star_counts(path, arms=2).true_means().tolist() == [0.75, 0.5]
    assert len(entice.Empirical.from_star_counts(path, least_ratings=2).weights) == 2


def test_compression_from_star_counts(tmp_path: Path) -> None:
    path = tmp_path / "counts.csv"
    path.write_text(COUNTS)
    drift = entice.CompressionDrift.from_star_counts(path)
    paid = np.repeat([0.5, 0.75, 1.0], [5, 5, 10])
    ordinary = np.repeat([0.0, 1.0], [10, 30])
    strength = 1 - paid.std(ddof=1) / ordinary.std(ddof=1)
    assert drift.strength == pytest.approx(strength)
    moved = 0.75 + (paid.mean() - 0.75) / strength
    assert drift.target == pytest.approx(moved)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("product,stars_1\na,1\n", "stars_2, stars_3, stars_4, stars_5 is missing"),
        (COUNTS.replace("10,0,0,0,30", "10,x,0,0,30"), "must be whole numbers"),
        (COUNTS.replace("10,0,0,0,30", "-1,0,0,0,30"), "must not be negative"),
        ("product,stars_1,stars_2,stars_3,stars_4,stars_5\na,1,0,0,0,0\n", "at least 2 products"),
    ],
)
def test_invalid_star_counts_are_rejected(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "counts.csv"
    path.write_text(text)
    with pytest.raises(entice.InputError, match=words):
        entice.Empirical.from_star_counts(path)
    with pytest.raises(entice.InputError, match="can't be read"):
        entice.Empirical.from_star_counts(tmp_path / "nowhere.csv")


def test_compression_needs_ratings_that_differ(tmp_path: Path) -> None:
    path = tmp_path / "counts.csv"
    for text in (
        COUNTS.replace("a,1,0,0,5,5,10", "a,1,0,0,0,0,1"),
        COUNTS.replace("a,0,10,0,0,0,30", "a,0,0,0,0,0,30"),
    ):
        path.write_text(text)
        with pytest.raises(entice.InputError, match="several paid ratings, and ordinary ones"):
            entice.CompressionDrift.from_star_counts(path)


def test_compression_needs_products_with_both_kinds(tmp_path: Path) -> None:
    path = tmp_path / "counts.csv"
    path.write_text(COUNTS.replace("a,1,", "d,1,"))
    with pytest.raises(entice.InputError, match="ordinary and with incentivized"):
        entice.CompressionDrift.from_star_counts(path)


def test_the_data_set_equals_the_output_of_its_script() -> None:
    made = io.StringIO()
    make_star_counts.write(made)
    assert made.getvalue() == entice.datasets.star_counts().read_text()
    other = io.StringIO()
    make_star_counts.write(other, seed=1)
    assert other.getvalue() != made.getvalue()


def test_the_data_set_has_the_shape_it_was_modelled_on() -> None:
    """Shares of stars of products with both kinds, within about four standard errors."""
    counts = read_star_counts(entice.datasets.star_counts())
    assert counts.filter(incentivized=0).height == 100
    paid = counts.filter(incentivized=1)
    ordinary = counts.filter(incentivized=0).join(paid.select("product"), on="product", how="semi")
    assert (ordinary.height, paid.height) == (40, 40)
    for rows, one, five, within in ((ordinary, 0.062, 0.579, 0.03), (paid, 0.009, 0.559, 0.06)):
        shares = np.array(rows.select(STARS).sum().row(0)) / rows.select(STARS).to_numpy().sum()
        assert shares[0] == pytest.approx(one, abs=within / 2)
        assert shares[4] == pytest.approx(five, abs=within)


def test_a_study_on_star_counts_with_the_drift_of_paid_reviews() -> None:
    path = entice.datasets.star_counts()
    arms = entice.Empirical.from_star_counts(path, arms=10, least_ratings=50)
    drift = entice.CompressionDrift.from_star_counts(path)
    assert drift.strength == pytest.approx(0.37, abs=0.005)  # as docs/how-to/worlds.md says
    assert drift.target == pytest.approx(0.96, abs=0.005)
    with plain_kernel():
        result = entice.simulate(
            arms=arms, policies=[entice.UCB(), entice.ThompsonSampling()], replications=5,
            drifts=[entice.NoDrift(), drift], horizon=1_000, seed=7, progress=False,
        )  # fmt: skip
    paid = result.summary().filter(metric="total_drift", drift=drift.label)
    assert (paid["mean"] > 0).all()  # paid ratings of these products are higher on average
