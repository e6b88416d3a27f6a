"""The tables of docs/explanation/changing-items.md: `.venv/bin/python bench/changing.py`."""

from __future__ import annotations

import entice
from entice.atlas import WORLDS, atlas, default_policies

T, RUNS, SEED = 20_000, 200, 7


def main() -> None:
    """Print regret and compensation of each policy in the worlds whose means change."""
    worlds = [world for world in WORLDS if world.name.startswith("means ")]
    policies = [
        *default_policies(T), entice.DiscountedUCB(1 - 10 / T), entice.SlidingWindowUCB(T // 10),
    ]  # fmt: skip
    found = atlas(worlds, policies, horizon=T, replications=RUNS, seed=SEED).table
    print(f"| | {' | '.join(world.name for world in worlds)} |")
    print(f"|---|{'---:|' * len(worlds)}")
    for of_policy in found.partition_by("policy_index", maintain_order=True):
        cells = [
            f"{row['regret']:,.0f} ± {row['regret_stderr']:,.0f} / {row['compensation']:,.0f}"
            for row in of_policy.iter_rows(named=True)
        ]
        print(f"| `{of_policy['policy'][0]}` | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
