"""The paper's experiment, as written and as the published numbers were probably produced.

Liu, Wang, Shen, Liu and Chen, "Incentivized Exploration for Multi-Armed Bandits under Reward
Drift", AAAI 2020, section "Numerical Examples". The text gives neither the horizon of its tables
nor the number of runs, ε-greedy's c, or what an arm without ratings displays.
"""

from __future__ import annotations

from importlib.resources import files
from typing import NamedTuple

import polars as pl

from entice.policies import UCB, EpsilonGreedy, EqualPay, Greedy, Policy, ThompsonSampling
from entice.study.spec import ColdStart, Study
from entice.worlds.arms import Gaussian
from entice.worlds.drifts import LinearDrift

MEANS = (0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1)
COEFFICIENTS = (0.0, 0.05, 0.1, 0.4, 0.7, 0.9, 1.1)
"""The values of l in Tables 1 and 2."""
NAMES = {"ucb": "UCB", "epsilon_greedy": "ε-greedy", "thompson_sampling": "Thompson sampling"}
"""The policies of the tables, in the paper's order."""


class Setup(NamedTuple):
    """A set-up that may have produced a row of the tables."""

    name: str
    """`written`: the algorithm as in the paper; `published`: the set-up that fits its numbers."""
    policy: str
    """A key of `NAMES`."""
    spec: Policy
    horizon: int
    cold_start: ColdStart
    description: str
    """The algorithm and its settings, without the horizon."""


SETUPS = (
    Setup("written", "ucb", UCB(), 20_000, "each_arm_once", "Algorithm 2"),
    Setup("written", "epsilon_greedy", EpsilonGreedy(c=5), 20_000, "each_arm_once",
          "Algorithm 3 with c = 5 and no projection"),
    Setup("written", "thompson_sampling", ThompsonSampling(), 20_000, "each_arm_once",
          "Algorithm 4 (variance 1/(n+1))"),
    Setup("published", "ucb", UCB(), 10_000, "each_arm_once", "Algorithm 2"),
    Setup("published", "epsilon_greedy", EpsilonGreedy(c=5), 20_000, "prior",
          "Algorithm 3 with c = 5 and no projection, arms start at 0"),
    Setup("published", "thompson_sampling", ThompsonSampling(scale="std"), 10_000, "prior",
          "standard deviation 1/(n+1), arms start at 0"),
)  # fmt: skip


def studies(
    replications: int, seed: int | None, horizon: int | None
) -> list[tuple[list[Setup], Study]]:
    """Return the studies of all set-ups; those that share horizon and cold start run together."""
    groups: dict[tuple[str, int, str], list[Setup]] = {}
    for setup in SETUPS:
        groups.setdefault((setup.name, setup.horizon, setup.cold_start), []).append(setup)
    return [
        (
            setups,
            Study(
                arms=Gaussian(MEANS),
                policies=tuple(setup.spec for setup in setups),
                drifts=tuple(LinearDrift(l) for l in COEFFICIENTS),
                horizon=horizon or rounds,
                replications=replications,
                seed=seed,
                cold_start=setups[0].cold_start,
            ),
        )
        for (_, rounds, _), setups in groups.items()
    ]


def greedy_study(replications: int, seed: int | None, horizon: int | None) -> Study:
    """Return the study of the greedy baseline, which never pays.

    The paper reports "nearly 6000 regret for 20000 trials".
    """
    return Study(
        arms=Gaussian(MEANS),
        policies=(Greedy(),),
        horizon=horizon or 20_000,
        replications=replications,
        seed=seed,
    )


MOST_EQUAL_PAY_RUNS = 200
"""Equal pay takes some fifty times as long as UCB; this many runs give a mean within 5 %."""


def equal_pay_study(replications: int, seed: int | None, horizon: int | None) -> Study:
    """Return the study of equal pay, which is not from the paper, without and with drift."""
    rounds = horizon or 20_000
    return Study(
        arms=Gaussian(MEANS),
        policies=(EqualPay(horizon=rounds),),
        drifts=(LinearDrift(0.0), LinearDrift(1.1)),
        horizon=rounds,
        replications=min(replications, MOST_EQUAL_PAY_RUNS),
        seed=seed,
        checkpoints=1,
    )


def published() -> pl.DataFrame:
    """Return Tables 1 and 2 as printed: `policy`, `metric`, `l`, `value`."""
    with (files("entice.paper") / "published.csv").open("rb") as file:
        return pl.read_csv(file, schema_overrides={"l": pl.Float64, "value": pl.Float64})
