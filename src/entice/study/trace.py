"""One replication, round by round."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from entice.checks import a_whole_number
from entice.errors import InputError
from entice.specs import Study
from entice.study.cell import Cell


def trace(*, replication: int = 0, **settings: Any) -> pl.DataFrame:
    """Run a single replication and return every round of it.

    Parameters
    ----------
    replication
        Which one: the same numbers as in `simulate` with the same settings and seed, and
        ``engine="generic"``.
    settings
        As for `Study`, with one policy and at most one drift, and a seed.

    Returns
    -------
    polars.DataFrame
        `t`, `arm` (the principal's), `greedy_arm` (the player's own choice), `payment`, `drift`,
        `feedback`.

    >>> import entice
    >>> rounds = entice.trace(arms=entice.Gaussian([0.9, 0.1]), policies=[entice.UCB()],
    ...                       drifts=[entice.LinearDrift(1.1)], horizon=1000, seed=7)
    >>> rounds.columns
    ['t', 'arm', 'greedy_arm', 'payment', 'drift', 'feedback']
    """
    study = Study(**settings)
    cells = list(study.cells())
    if len(cells) != 1:
        raise InputError("trace", "takes one policy and one drift", given=f"{len(cells)} cells")
    if study.seed is None:
        raise InputError("trace: seed", "must be given, to say which run is traced")
    if a_whole_number("trace: replication", replication) < 0:
        raise InputError("trace: replication", "must not be negative", given=replication)
    _, _, policy, drift = cells[0]
    cell = Cell(study, policy, drift, stop=np.zeros(1, dtype=np.int64), traced=True)
    rounds = np.empty((study.horizon, 5))
    cell.run(replication, *cell.room_for(1), rounds)
    names = ("arm", "greedy_arm", "payment", "drift", "feedback")
    return pl.DataFrame(
        {"t": np.arange(1, study.horizon + 1)} | {n: rounds[:, i] for i, n in enumerate(names)}
    ).with_columns(pl.col("arm", "greedy_arm").cast(pl.Int64))
