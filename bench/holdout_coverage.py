"""Measure how often the interval of a campaign's effect misses at any look, and how long to wait.

Tables of docs/how-to/did-it-work.md and docs/explanation/holdout-intervals.md.
`--only coverage`, `year` or `wait` prints one of them.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt
from scipy import optimize, stats  # type: ignore[import-untyped]

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))

from holdout_looks import (
    WORLDS,
    World,
    around,
    constant,
    misses_of_fixed_n,
    misses_of_sequence,
    simulate_looks,
)
from holdout_year import simulate_year, year_plan

import entice
from entice.estimate.confidence_sequence import RatingSums, difference_interval
from entice.planner.runner import PlanRunner

LOOKS = 1_000
REPEATED = tuple(
    World(f"each player rates {n} times, 10 %", 0.1, constant(4.0, 4.0), around, visits=n)
    for n in (2, 5)
)
"""Outside of the guarantee: a player repeats the same rating, the truth is that of new players."""

SHARES = 0.05, 0.1, 0.2, 0.5
VISITORS = 1_000, 10_000, 100_000
EFFECTS = 0.05, 0.1, 0.2, 0.4
RATED, DEVIATION, POWER = 0.2, 1.1, 0.8
MEAN = 3.9
CHECKED = (0.05, 0.4), (0.1, 0.2), (0.5, 0.1)


def coverage(replications: int, batch: int, seed: int) -> None:
    """Print the share of replications in which an interval misses at any look."""
    print(f"{replications:,} replications, {LOOKS:,} looks, {batch} ratings between looks")
    print("\n| world | confidence sequence | at most | usual interval, any look | last look |")
    print("|---|---:|---:|---:|---:|")
    for k, world in enumerate((*WORLDS, *REPEATED)):
        rng = np.random.default_rng((seed, k))
        ours = usual = last = 0
        for start in range(0, replications, 100):
            some = min(100, replications - start)
            looks = simulate_looks(world, rng, replications=some, looks=LOOKS, batch=batch)
            ours += int(misses_of_sequence(world.holdout, looks).any(axis=1).sum())
            misses = misses_of_fixed_n(looks)
            usual += int(misses.any(axis=1).sum())
            last += int(misses[:, -1].sum())
        # The upper end of a one-sided 99.9 % interval (Clopper and Pearson).
        most = stats.beta.ppf(0.999, ours + 1, replications - ours) if ours < replications else 1.0
        print(
            f"| {world.name} | {ours / replications:.1%} | {most:.1%} "
            f"| {usual / replications:.0%} | {last / replications:.0%} |"
        )


def year(runs: int) -> None:
    """Print the effects of simulated years, and what their daily readouts say."""
    print(f"\n{runs} simulated years each, 365 daily looks; medians, in brackets the range\n")
    print(
        "| campaign | true difference | measured at the end | missed on any day "
        "| usual interval | better than without a campaign |"
    )
    print("|---|---:|---:|---:|---:|---:|")
    plans = {
        "no drift": year_plan(drift=0.0),
        "drift 1": year_plan(drift=1.0),
        "drift 1, half of the offers probed": year_plan(1.0, entice.Probe(share=0.5, amount=1.0)),
    }
    for name, plan in plans.items():
        runner = PlanRunner(plan)
        years = [simulate_year(runner, run) for run in range(runs)]
        cells = [
            spread([y.truth for y in years]),
            spread([y.effect.difference or 0.0 for y in years]),
            f"{sum(y.missed for y in years)} of {runs}",
            f"{sum(y.missed_by_fixed_n for y in years)} of {runs}",
            spread([y.gain for y in years]),
        ]
        print(f"| {name} | {' | '.join(cells)} |")


def spread(values: list[float]) -> str:
    """Return the median and the range of values."""
    return f"{np.median(values):+.3f} ({min(values):+.2f} to {max(values):+.2f})".replace("-", "−")


def wait() -> None:
    """Print the days until the interval excludes 0 in 4 of 5 campaigns."""
    print(
        f"\nDays until the interval excludes 0 in {POWER:.0%} of the campaigns; {RATED:.0%} of the "
        f"visitors rate, with a standard deviation of {DEVIATION} stars\n"
    )
    cells = " | ".join(f"+{effect:g} stars" for effect in EFFECTS)
    print(f"| visitors a day | held out | {cells} |")
    print(f"|---:|---:|{'---:|' * len(EFFECTS)}")
    for visitors in VISITORS:
        for share in SHARES:
            days = [ratings_needed(share, effect) / (RATED * visitors) for effect in EFFECTS]
            shown = " | ".join(f"{math.ceil(d):,}" for d in days)
            print(f"| {visitors:,} | {share:.0%} | {shown} |")
    found = ", ".join(f"{power(*cell):.0%}" for cell in CHECKED)
    cells = ", ".join(f"{share:.0%} and +{effect:g}" for share, effect in CHECKED)
    print(f"\nSimulated, 1,000 campaigns each: {found} for {cells} stars")


def ratings_needed(share: float, effect: float) -> float:
    """Return the number of ratings, of both groups, for which the power is reached."""

    def reached(ratings: float) -> bool:
        held_out, paid = share * ratings, (1 - share) * ratings
        error = DEVIATION * math.sqrt(1 / held_out + 1 / paid)
        margin = float(stats.norm.ppf(POWER)) * error
        return half_width(paid, held_out, share) + margin <= effect

    return smallest(reached)


def power(share: float, effect: float) -> float:
    """Return the share of 1,000 simulated campaigns whose interval excludes 0 after the wait."""
    rng, stars = np.random.default_rng(1), np.arange(1, 6)
    ratings = int(ratings_needed(share, effect))
    held_out = rng.binomial(ratings, share, size=1_000)
    counts = [
        rng.multinomial(n, star_shares(mean))
        for n, mean in ((ratings - held_out, MEAN + effect), (held_out, MEAN))
    ]
    groups = [RatingSums(*(np.asarray(c @ stars**k, float) for k in range(3))) for c in counts]
    _, low, _ = difference_interval(
        groups[0], groups[1], share_of_other=share, lowest=1, highest=5, confidence=0.95
    )
    return float((low > 0).mean())


def star_shares(mean: float) -> npt.NDArray[np.float64]:
    """Return shares of 1 to 5 stars with this mean and the standard deviation `DEVIATION`."""
    stars = np.arange(1, 6)

    def shares(tilt: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        weights = np.exp(tilt[0] * stars + tilt[1] * stars**2)
        return np.asarray(weights / weights.sum())

    def error(tilt: npt.NDArray[np.float64]) -> list[float]:
        found = shares(tilt)
        return [
            float(found @ stars) - mean,
            float(found @ (stars - mean) ** 2) - DEVIATION**2,
        ]

    return shares(optimize.fsolve(error, np.array([0.0, 0.1])))


def half_width(paid: float, held_out: float, share: float) -> float:
    """Return half the width of the interval if both groups have the same mean."""
    groups = [
        RatingSums(np.asarray(n), np.asarray(MEAN * n), np.asarray(n * (MEAN**2 + DEVIATION**2)))
        for n in (paid, held_out)
    ]
    _, low, high = difference_interval(
        groups[0], groups[1], share_of_other=share, lowest=1, highest=5, confidence=0.95
    )
    return float(high - low) / 2


def smallest(holds: Callable[[float], bool]) -> float:
    """Return the smallest number, to 0.1 %, for which a condition holds."""
    low, high = 1.0, 1e12
    while high > 1.001 * low:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--replications", type=int, default=2_000)
    parser.add_argument("--batch", type=int, default=20, help="Ratings between two looks.")
    parser.add_argument("--seed", type=int, default=2026)
    parser.add_argument("--only", choices=["coverage", "year", "wait"], help="One of the tables.")
    options = parser.parse_args()
    if options.only in (None, "coverage"):
        coverage(options.replications, options.batch, options.seed)
    if options.only in (None, "year"):
        year(max(2, options.replications // 50))
    if options.only in (None, "wait"):
        wait()


if __name__ == "__main__":
    main()
