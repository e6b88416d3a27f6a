"""One replication, round by round."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import polars as pl

from entice.checks import as_whole_number
from entice.engine.kernel import TRACE_COLUMNS
from entice.errors import InputError
from entice.labels import position
from entice.model.probe import NO_PROBE
from entice.study.running.cell import Cell
from entice.study.spec import Study
from entice.worlds.players import AlwaysAccept
from entice.worlds.segments import Segments, segments_by_round

_NAMES = (
    "arm", "greedy_arm", "payment", "drift", "feedback", "offered_arm", "probe", "probe_amount",
    "seen_from",
)  # fmt: skip
MAX_NUMBERS = 2**27
"""Maximum size of a trace, as a count of numbers: 1 GiB."""


def trace(
    study: Study | None = None,
    *,
    policy: int | str | None = None,
    drift: int | str | None = None,
    replication: int = 0,
    displayed: bool = True,
    **settings: Any,
) -> pl.DataFrame:
    """Run a single replication and return its rounds.

    Parameters
    ----------
    study
        A study with a seed, or the `settings` of one.
    policy, drift
        The cell of the study to trace: a label, or a position in `study.policies` and
        `study.drifts`. Required where there are several.
    replication
        Index of the replication. Its numbers equal those of `simulate` with the same settings and
        seed and ``engine="generic"``.
    displayed
        Whether to include the displayed value of each arm in each round.
    settings
        As for `Study`, instead of a study.

    Returns
    -------
    polars.DataFrame
        `t`, `arm` (the arm pulled), `greedy_arm` (the player's own choice), `payment`, `drift`,
        `feedback` (null if it never arrived). With players who may decline, `offered_arm`; with
        late ratings, `seen_from` (the round from which the feedback is visible, null if not in this
        run); with a probe, `probe` (1: the coin added the amount, 0: it did not, null: it was not
        tossed) and `probe_amount`; with segments, `segment`. A run whose
        payments grow without bound ends in that round.

        With `displayed`, a column for each arm, `displayed.0`, `displayed.1`, …: its displayed
        value when the player chose, before the player's own rating. An arm without ratings displays
        `prior`. Null in the rounds that try each arm once, when nothing is displayed.

        If the arms have names: `arm_name`, `greedy_arm_name` and, where there is an `offered_arm`,
        `offered_arm_name`, and columns such as `displayed.tea`.

        A trace holds 9 numbers for each round, and one more for each displayed arm. A trace of more
        than 2²⁷ numbers (1 GiB) is rejected.

    >>> import entice
    >>> study = entice.Study(arms=entice.Gaussian([0.9, 0.1]), policies=[entice.UCB()],
    ...                      drifts=[entice.LinearDrift(1.1)], horizon=1000, seed=7)
    >>> entice.trace(study).columns
    ['t', 'arm', 'greedy_arm', 'payment', 'drift', 'feedback', 'displayed.0', 'displayed.1']
    """
    study = _one_cell(_study(study, settings), policy, drift)
    if study.seed is None:
        raise InputError("trace: seed", "is required: it determines which run is traced")
    if as_whole_number("trace: replication", replication) < 0:
        raise InputError("trace: replication", "must not be negative", given=replication)
    arms = len(study.arms.true_means())
    numbers = TRACE_COLUMNS + (arms if displayed else 0)
    if study.horizon * numbers > MAX_NUMBERS:
        raise InputError(
            "trace: horizon",
            f"must be at most {MAX_NUMBERS // numbers:,} rounds with {numbers} numbers for each "
            "round",
            given=study.horizon,
            todo="Trace fewer rounds"
            + (", or use displayed=False for 9 numbers a round." if displayed else "."),
        )
    cell = Cell(study, study.policies[0], study.drifts[0], np.zeros(1, np.int64), traced=True)
    rounds = np.empty((study.horizon, numbers))
    arrays = cell.allocate(1)
    cell.run(replication, arrays, rounds)
    played = int(arrays.stopped[0]) - 1 if arrays.stopped[0] else study.horizon
    frame = _frame(study, rounds[:played])
    if isinstance(study.arms, Segments):
        segments = segments_by_round(study.arms, played, study.seed, replication)
        frame.insert_column(1, pl.Series("segment", segments))
    return frame


def _study(study: Study | None, settings: dict[str, Any]) -> Study:
    if study is None:
        return Study(**settings)
    if not isinstance(study, Study):
        raise InputError("trace: study", "must be a Study", given=study)
    if settings:
        rule = "already has these settings"
        todo = "Use msgspec.structs.replace(study, …) to change them."
        raise InputError("trace: study", rule, given=", ".join(settings), todo=todo)
    return study


def _one_cell(study: Study, policy: int | str | None, drift: int | str | None) -> Study:
    """Return the study reduced to one policy and one drift."""
    return msgspec.structs.replace(
        study,
        policies=[study.policies[position("trace: policy", policy, study.policy_labels)]],
        drifts=[study.drifts[position("trace: drift", drift, study.drift_labels)]],
    )


def _frame(study: Study, rounds: Any) -> pl.DataFrame:
    t = np.arange(1, len(rounds) + 1)
    columns: dict[str, Any] = {name: rounds[:, i] for i, name in enumerate(_NAMES)}
    tossed = pl.when(pl.col("probe") != NO_PROBE)
    frame = pl.DataFrame({"t": t} | columns).with_columns(
        pl.col("arm", "greedy_arm", "offered_arm").cast(pl.Int64),
        tossed.then(pl.col("probe").cast(pl.Int64)),
        tossed.then(pl.col("probe_amount")),
        pl.col("feedback").fill_nan(None),
        pl.when(pl.col("seen_from") <= study.horizon).then(pl.col("seen_from")).cast(pl.Int64),
    )
    columns_shown = ["t", *_NAMES[:5]]
    if study.players.acceptance != AlwaysAccept():
        columns_shown.append("offered_arm")
    if study.players.delay != 0:
        columns_shown.append("seen_from")
    if study.probe is not None:
        columns_shown += ["probe", "probe_amount"]
    frame, names = frame.select(columns_shown), study.arms.names
    if names is not None:
        listed = pl.col("^.*arm$").replace_strict(dict(enumerate(names)), return_dtype=pl.String)
        frame = frame.with_columns(listed.name.suffix("_name"))
    arms = rounds.shape[1] - TRACE_COLUMNS
    if arms == 0:
        return frame
    columns_of = names or range(arms)
    shown = pl.DataFrame(
        {f"displayed.{name}": rounds[:, TRACE_COLUMNS + i] for i, name in enumerate(columns_of)}
    )
    if study.cold_start == "each_arm_once":
        shown = shown.select(pl.when(pl.Series(t) > arms).then(pl.all()))
    return pl.concat([frame, shown], how="horizontal")
