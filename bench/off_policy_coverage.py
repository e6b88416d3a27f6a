"""Coverage of the intervals of off-policy estimates, on logs of simulated campaigns.

    python bench/off_policy_coverage.py --campaigns 1000

The logs are those of UCB with `overlap = 0.02`, four arms and 10,000 visitors each, simulated in
plain NumPy (`tests/support/off_policy_logs.py`). The truth of each log is known: the target's
probabilities in each decision times the arms' expected outcomes. Prints a table in Markdown: the
coverage and the mean half-width of the intervals, and the share of logs with a warning that the
quantity is based on few observations. An interval of all that is possible, because there are too
few answers, counts as a refusal rather than in the coverage.
"""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np

import entice
from entice.estimate import Always, Uniform
from entice.estimate.decisions import read_decisions
from entice.estimate.off_policy import evaluate_decisions
from entice.estimate.off_policy_methods import FEW
from entice.estimate.targets import target_probabilities

sys.path.append(str(Path(__file__).parents[1] / "tests" / "support"))
from off_policy_logs import Floats, simulate_logs


def half_accept_at_a_fifth(payment: Floats) -> Floats:
    """Return the acceptance of payments in stars: 12 % of nothing, 50 % at 0.2, 88 % at 0.4."""
    found: Floats = 1 / (1 + np.exp(-10 * (payment - 0.2)))
    return found


MEANS = [4.2, 4.0, 3.6, 3.2]
WORLDS: dict[str, dict[str, Any]] = {
    "all accept and rate": {},
    "some decline, some do not rate": {
        "share_accepted": [0.9, 0.6, 0.7, 0.8], "share_rated": [0.3, 0.6, 0.5, 0.4],
    },
    "all accept and rate, drift 0.8": {"drift": 0.8},
    "acceptance by payment, drift 0.8": {"acceptance": half_accept_at_a_fifth, "drift": 0.8},
    "the same, learned price": {
        "acceptance": half_accept_at_a_fifth, "drift": 0.8,
        "price": entice.LearnedPrice(acceptance=0.7, explore=0.1),
    },
}  # fmt: skip
TARGETS: dict[str, Any] = {
    "always the third arm": Always("arm-2"),
    "uniform": Uniform(),
    "players' own choice": entice.Greedy(),
    "UCB(noise=0.5)": entice.UCB(noise=0.5),
}
AT_ONCE = 100
"""Campaigns that are simulated together, which limits memory."""
ROUNDING = 1e-9


def measure(
    world: dict[str, Any], campaigns: int, decisions: int, overlap: float, seed: int
) -> Any:
    """Return the hits and widths of all intervals by target, quantity and method, and warnings."""
    hits, widths, warned = defaultdict(list), defaultdict(list), defaultdict(list)
    for first in range(0, campaigns, AT_ONCE):
        count = min(AT_ONCE, campaigns - first)
        for log in simulate_logs(MEANS, count, decisions, overlap, seed + first, **world):
            read = read_decisions(log.frame)
            for name, target in TARGETS.items():
                likely = target_probabilities(target, read)
                found = evaluate_decisions(read, likely, 0.95)
                truths = {"rating": log.rating(likely), "payment": log.payment(likely)}
                for quantity, truth in truths.items():
                    few = f"the {quantity} is based on only"
                    warned[name, quantity].append(any(few in text for text in found.warnings))
                    for method, one in getattr(found, quantity).items():
                        key = name, quantity, method
                        widths[key].append(one.high - one.low)
                        if quantity == "payment" and one.effective < FEW and one.high > 0:
                            continue
                        hits[key].append(one.low - ROUNDING <= truth <= one.high + ROUNDING)
    return hits, widths, warned


def describe(hits: list[bool], widths: list[float]) -> str:
    """Return the coverage and the mean half-width, or that there is no interval."""
    if max(widths) <= ROUNDING:
        return "exact"
    refused = 1 - len(hits) / len(widths)
    if refused > 0.8:  # too few for a share
        return f"{refused:.0%} refused"
    return f"{np.mean(hits):.1%}, ±{np.mean(widths) / 2:.3f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--campaigns", type=int, default=1000)
    parser.add_argument("--decisions", type=int, default=10_000)
    parser.add_argument("--overlap", type=float, default=0.02)
    parser.add_argument("--seed", type=int, default=1_000_000)
    parser.add_argument("--worlds", type=int, nargs="*", default=range(len(WORLDS)))
    options = parser.parse_args()
    print(
        "| campaigns | policy | quantity | inverse propensity | doubly robust | "
        "adaptively weighted | warned |\n|---|---|---|---|---|---|---|"
    )
    for name, world in [list(WORLDS.items())[i] for i in options.worlds]:
        hits, widths, warned = measure(
            world, options.campaigns, options.decisions, options.overlap, options.seed
        )
        for target in TARGETS:
            for quantity in ("rating", "payment"):
                cells = [
                    describe(hits[key], widths[key])
                    for key in widths
                    if key[:2] == (target, quantity)
                ]
                cells.append(f"{np.mean(warned[target, quantity]):.0%}")
                print(f"| {name} | {target} | {quantity} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
