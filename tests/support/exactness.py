"""Two-sample tests of the fast paths against the generic kernel: exactness in distribution.

Each case runs one policy both ways, with different seeds, and compares all metrics at three
checkpoints and at the end, and the pulls of each arm, by Kolmogorov–Smirnov (shape) and Welch
(mean). With N tests in all, an exact path has a p-value below α/N with probability α at most
(Bonferroni; Kolmogorov–Smirnov is conservative for counts). `test_exactness.py` runs a part of the
grid in CI. As a script, `make exactness`, this file runs another part with 100,000 replications
per case, which takes half an hour; `--cases 2000` runs the whole grid.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import random
import sys
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import stats  # type: ignore[import-untyped]

import entice
from entice.engine.kernel import METRICS
from entice.policies import Policy
from entice.study.running.cell import Cell

STDS = ("0.1", "1", "unequal")
BERNOULLI = ("Bernoulli", PROJECTED := "Bernoulli, projected")

ALPHA = 0.001
"""Probability that an exact path fails one whole comparison."""

Sample = tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]


class Case(NamedTuple):
    """One policy in one world."""

    policy: Policy
    arms: int
    horizon: int
    l: float
    noise: str
    """Gaussian arms with this std, or Bernoulli arms, whose feedback may be projected."""
    cold_start: Any
    spread: float = 0.8
    """The difference between the best and the worst mean."""
    best: float = 0.9
    """The best mean."""

    def study(self, seed: int, engine: Any) -> entice.Study:
        """Return the case as a study of one cell."""
        means = np.linspace(self.best, self.best - self.spread, self.arms).tolist()
        unequal = np.linspace(0.05, 1.5, self.arms)[np.arange(self.arms) * 7 % self.arms]
        arms = {
            "0.1": entice.Gaussian(means, std=0.1),
            "1": entice.Gaussian(means),
            "unequal": entice.Gaussian(means, std=unequal.tolist()),
        }.get(self.noise, entice.Bernoulli(means))
        return entice.Study(
            arms=arms,
            feedback_range=(0, 1) if self.noise == PROJECTED else None,
            policies=[self.policy],
            drifts=[entice.LinearDrift(self.l)],
            horizon=self.horizon,
            seed=seed,
            checkpoints=sorted({self.horizon // 20, self.horizon // 5, self.horizon // 2}),
            cold_start=self.cold_start,
            prior=0.3 if self.cold_start == "prior" else 0.0,
            engine=engine,
        )


class Finding(NamedTuple):
    """The result of one test."""

    p: float
    what: str
    case: Case


UCBS = (entice.UCB(),)
EPSILONS = tuple(entice.EpsilonGreedy(c=c) for c in (0.05, 1, 5, 50))
BERNOULLI_UCBS = (entice.UCB(), entice.UCB(noise=0.5))
"""UCB with the paper's noise, and with the highest that Bernoulli arms can have."""
THOMPSONS = (entice.ThompsonSampling(), entice.ThompsonSampling(scale="std"))
GREEDY = (entice.Greedy(),)
OTHER_NOISE = (
    entice.UCB(noise=0.2),
    entice.UCB(noise=3.0),
    entice.ThompsonSampling(noise=0.2),
    entice.ThompsonSampling(noise=3.0),
    entice.ThompsonSampling(scale="std", noise=3.0),
)
"""UCB and Thompson sampling that assume a noise other than 1, often a wrong one."""


def grid(
    policies: Sequence[Policy], count: int | None = None, noise: Sequence[str] = STDS
) -> list[Case]:
    """Return combinations of policy, K, T, l, noise and cold start: all, or `count` random ones.

    40 arms that start at the prior with l = 3 are left out. There each arm's first average is three
    times the last one's. At 10¹⁸ noise is lost in rounding, and rounding decides both runs.
    """
    levels = (
        policies, (2, 3, 9, 40), (300, 3_000, 20_000), (0.0, 0.5, 1.1, 3.0),
        noise, ("each_arm_once", "prior"),
    )  # fmt: skip
    cases = [Case(*values) for values in itertools.product(*levels)]
    cases = [c for c in cases if (c.arms, c.l, c.cold_start) != (40, 3.0, "prior")]
    random.Random(1).shuffle(cases)
    chosen = cases[:count]
    for i, values in enumerate(levels):  # each value occurs at least once
        assert {case[i] for case in chosen} == set(values), (count, values)
    return chosen


RAN_AWAY = 1e300
"""Replaces the metrics of a run that was stopped."""


def sample(study: entice.Study, replications: int) -> Sample:
    """Return the metrics at all checkpoints, and the pulls, of each replication."""
    cell = Cell(study, study.policies[0], study.drifts[0], stop=np.zeros(1, np.int64))
    room = cell.allocate(replications)
    size = -(-replications // 16)
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda i: cell.run(i, room.rows(i, size)), range(0, replications, size)))
    assert ((room.pulls.sum(axis=1) == study.horizon) | (room.stopped > 0)).all()
    # Runs with diverging payments are compared too: their number and the round they stop in.
    return np.nan_to_num(room.metrics, nan=RAN_AWAY), room.pulls


@functools.lru_cache(maxsize=16)
def by_kernel(case: Case, seed: int, replications: int) -> Sample:
    """Run a case on the generic kernel. All planted faults are compared with the same run."""
    return sample(case.study(seed, "generic"), replications)


def p_values(one: Sample, other: Sample) -> list[tuple[float, str]]:
    """Return the p-values and names of all tests of one case."""
    names = [
        f"{METRICS[j]} at checkpoint {c}"
        for c in range(one[0].shape[1])
        for j in range(len(METRICS))
    ]
    names += [f"pulls of arm {i}" for i in range(one[1].shape[1])]
    x, y = _columns(one), _columns(other)
    equal = (np.ptp(x, axis=0) == 0) & (np.ptp(y, axis=0) == 0)
    same = np.isclose(x[0], y[0])
    found = [(float(same[i]), f"equal {names[i]}") for i in np.flatnonzero(equal)]
    varying = np.flatnonzero(~equal)
    x, y = x[:, varying], y[:, varying]
    distances = [_largest_distance(x[:, i], y[:, i]) for i in range(len(varying))]
    shape = stats.kstwo.sf(distances, round(len(x) * len(y) / (len(x) + len(y))))
    # The shift avoids cancellation if almost all values are equal.
    mean = stats.ttest_ind(x - y[0], y - y[0], equal_var=False).pvalue
    for i, p, q in zip(varying, shape, mean, strict=True):
        found += [(float(p), f"KS {names[i]}"), (float(q), f"mean {names[i]}")]
    return found


def _columns(found: Sample) -> npt.NDArray[np.float64]:
    metrics, pulls = found
    columns = np.concatenate([metrics.reshape(len(metrics), -1), pulls], axis=1)
    return np.round(columns, 9)  # the same sum may round differently on both sides


def _largest_distance(x: npt.NDArray[np.float64], y: npt.NDArray[np.float64]) -> float:
    """Return the Kolmogorov–Smirnov statistic of two samples."""
    x, y = np.sort(x), np.sort(y)
    values = np.r_[x, y]
    below = [np.searchsorted(sample, values, side="right") / len(sample) for sample in (x, y)]
    return float(np.abs(below[0] - below[1]).max())


def compare(cases: Iterable[Case], replications: int, seed: int) -> list[Finding]:
    """Run all cases both ways; return the findings, the smallest p-values first."""
    found = [f for i, case in enumerate(cases) for f in _compare(case, replications, seed + 2 * i)]
    return sorted(found, key=lambda f: f.p)


def _compare(case: Case, replications: int, seed: int) -> list[Finding]:
    fast = case.study(seed, "auto")
    assert fast.fast_path(case.policy) is not None
    tests = p_values(sample(fast, replications), by_kernel(case, seed + 1, replications))
    assert not any(np.isnan(p) for p, _ in tests)
    return [Finding(p, what, case) for p, what in tests]


def differs(cases: Sequence[Case], replications: int, seed: int) -> bool:
    """Return whether `compare` would find a difference; the first case that differs is enough."""
    threshold = ALPHA / sum(2 * (4 * len(METRICS) + case.arms) for case in cases)
    return any(
        min(f.p for f in _compare(case, replications, seed + 2 * i)) < threshold
        for i, case in enumerate(cases)
    )


def is_exact(found: list[Finding]) -> bool:
    """Return whether the smallest p-value passes the Bonferroni threshold."""
    return found[0].p >= ALPHA / len(found)


def main() -> None:
    """Compare over the grid, policy by policy, and print the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--replications", type=int, default=100_000)
    parser.add_argument("--cases", type=int, default=14, help="number of cases for each policy")
    options = parser.parse_args()
    exact = True
    gaussian = [(policies, STDS) for policies in (UCBS, EPSILONS, THOMPSONS, GREEDY, OTHER_NOISE)]
    bernoulli = [(policies, BERNOULLI) for policies in (EPSILONS, GREEDY, BERNOULLI_UCBS)]
    for policies, noise in gaussian + bernoulli:
        started = time.perf_counter()
        cases = grid(policies, options.cases, noise)
        found: list[Finding] = []
        for i, case in enumerate(cases):
            found += compare([case], options.replications, seed=10_000 + 2 * i)
            if sys.stderr.isatty():
                print(f"\r{i + 1} of {len(cases)} cases", end="", file=sys.stderr, flush=True)
        found.sort(key=lambda f: f.p)
        exact &= is_exact(found)
        p = np.array([f.p for f in found])
        labels, seconds = ", ".join(p.label for p in policies), time.perf_counter() - started
        world = "Gaussian" if noise == STDS else "Bernoulli"
        print(
            f"\n{labels}, {world} arms: {len(cases)} cases × {options.replications} replications, ",
            end="",
        )
        print(f"{len(found)} tests, {seconds:.0f} s")
        print(f"  smallest p-values (threshold {ALPHA / len(found):.1e}):")
        for f in found[:3]:
            print(f"    {f.p:.1e}  {f.what}  {f.case}")
        shares = ", ".join(f"{(p < q).mean():.4f} < {q}" for q in (0.001, 0.01, 0.1))
        print(f"  share of p-values: {shares}")
        print("  no difference found" if is_exact(found) else "  NOT EXACT")
    sys.exit(not exact)


if __name__ == "__main__":
    main()
