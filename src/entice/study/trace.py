"""One replication, round by round."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from entice.checks import a_whole_number
from entice.engine.kernel import TRACED
from entice.errors import InputError
from entice.principal.probe import NO_PROBE
from entice.specs import Study
from entice.study.cell import Cell
from entice.world.players import AlwaysAccept


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
        `t`, `arm` (that was pulled), `greedy_arm` (the player's own choice), `payment`, `drift`,
        `feedback` (null: it never came). With players who may decline, `offered_arm`; with a
        probe, `probe` (1: the coin added the amount, 0: it did not, null: it was not thrown) and
        `probe_amount`. A run whose payments grow without bound ends where they did.

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
    rounds = np.empty((study.horizon, TRACED))
    room = cell.room_for(1)
    cell.run(replication, room, rounds)
    played = int(room.stopped[0]) - 1 if room.stopped[0] else study.horizon
    names = (
        "arm", "greedy_arm", "payment", "drift", "feedback", "offered_arm", "probe", "probe_amount",
    )  # fmt: skip
    columns = {name: rounds[:played, i] for i, name in enumerate(names)}
    thrown = pl.when(pl.col("probe") != NO_PROBE)
    frame = pl.DataFrame({"t": np.arange(1, played + 1)} | columns).with_columns(
        pl.col("arm", "greedy_arm", "offered_arm").cast(pl.Int64),
        thrown.then(pl.col("probe").cast(pl.Int64)),
        thrown.then(pl.col("probe_amount")),
        pl.col("feedback").fill_nan(None),
    )
    shown = ["t", *names[:5]]
    if study.players.acceptance != AlwaysAccept():
        shown.append("offered_arm")
    if study.probe is not None:
        shown += ["probe", "probe_amount"]
    return frame.select(shown)
