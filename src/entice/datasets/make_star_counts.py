"""Make star_counts.csv: `python -m entice.datasets.make_star_counts > star_counts.csv`.

The counts are random, from a fixed seed. They are modelled on published facts about real reviews,
some of which were written under a programme that gives products away (reviews of three kinds of
products, 2002 to 2015; the tables of COMAP's MCM 2020, problem C, which we may not redistribute):

- ratings are strongly skewed: most give 5 stars;
- for products with both kinds of reviews, 6.2 % of the ordinary ones give 1 star and 57.9 % give 5;
  of the paid ones, 0.9 % and 55.9 %: paid ratings are not shifted but compressed, towards 4;
- paid ratings are higher by about 0.29 stars on average, with differences between products.

The shares of 2, 3 and 4 stars and the numbers of reviews are our own choice. A product's shares are
the average ones, tilted towards high or low stars by its quality; a second, smaller tilt gives each
product its own difference between paid and ordinary reviews. The script uses only `random()` of
Python's generator, whose numbers are the same in all versions.
"""

from __future__ import annotations

import csv
import math
import random
import sys
from collections.abc import Callable, Iterator, Sequence
from statistics import NormalDist
from typing import TextIO

SEED = 2020
CATEGORIES = ("headphones", "kettles", "lamps")
PRODUCTS, WITH_PAID = 100, 40
ORDINARY = (0.062, 0.065, 0.105, 0.189, 0.579)
PAID = (0.009, 0.016, 0.066, 0.350, 0.559)
"""Shares of 1 to 5 stars."""
QUALITY, OWN_EFFECT = 0.22, 0.12
"""Standard deviations of both tilts. 0.22 gives the products' means a spread of about 0.3 stars."""

Row = tuple[str, str, int, int, int, int, int, int]
HEADER = ("category", "product", "incentivized", *(f"stars_{i}" for i in range(1, 6)))


def rows(seed: int = SEED) -> Iterator[Row]:
    """Draw all products: the ordinary reviews of each, then its paid ones, if any."""
    draw = random.Random(seed).random
    for i in range(PRODUCTS):
        category = CATEGORIES[i % len(CATEGORIES)]
        name = f"{category}-{i // len(CATEGORIES) + 1:02}"
        quality = QUALITY * NormalDist().inv_cdf(draw())
        reviews = min(900, round(50 / (1 - draw()) ** 0.7))
        yield (category, name, 0, *_counts(ORDINARY, quality, reviews, draw))
        if i % 5 < 5 * WITH_PAID // PRODUCTS:
            quality += OWN_EFFECT * NormalDist().inv_cdf(draw())
            reviews = min(40, round(3 / (1 - draw()) ** 0.8))
            yield (category, name, 1, *_counts(PAID, quality, reviews, draw))


def _counts(
    shares: Sequence[float], tilt: float, reviews: int, draw: Callable[[], float]
) -> tuple[int, int, int, int, int]:
    weights = [share * math.exp(tilt * stars) for stars, share in enumerate(shares)]
    counts = [0] * len(weights)
    for _ in range(reviews):
        left, stars = draw() * sum(weights), 0
        while stars < len(weights) - 1 and left >= weights[stars]:
            left -= weights[stars]
            stars += 1
        counts[stars] += 1
    one, two, three, four, five = counts
    return one, two, three, four, five


def write(file: TextIO, seed: int = SEED) -> None:
    """Write the CSV file."""
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(HEADER)
    writer.writerows(rows(seed))


if __name__ == "__main__":
    write(sys.stdout)
