"""Comparison of two policies: differences, intervals and the probability of improvement."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import polars as pl

from entice.checks import as_number, as_whole_number
from entice.errors import InputError, did_you_mean
from entice.labels import position
from entice.study.results.bootstrap import Bootstrap, Floats
from entice.study.results.display_table import DisplayTable
from entice.study.results.table import format_number

if TYPE_CHECKING:
    from entice.study.results.result import Result

COMPARED = ("regret", "compensation", "compensated_pulls", "best_arm_error")
"""The metrics of which less is better."""
MIN_RUNS = 10
"""The fewest runs that are resampled; see the coverage in docs/how-to/results.md."""

Which = int | str | tuple[int | str, int | str]
"""A policy by label or position, or a pair of a policy and a drift."""


class _Cell(NamedTuple):
    """One cell of a result."""

    result: Result
    policy: int
    drift: int

    @property
    def labels(self) -> tuple[str, str]:
        study = self.result.study
        return study.policy_labels[self.policy], study.drift_labels[self.drift]

    def values(self, metric: str) -> Floats:
        rows = self.result.rows_of(self.policy, self.drift, (metric,))
        return rows[metric].cast(pl.Float64).fill_null(math.nan).to_numpy()


class Comparison:
    """The differences between two policies in a metric, with bootstrap intervals.

    Attributes
    ----------
    metric : str
        The metric.
    confidence : float
        The nominal coverage of the intervals.
    table : polars.DataFrame
        One row for each pair of cells: `a`, `a_drift`, `b`, `b_drift`, `paired`, `a_runs`,
        `b_runs`, `a_mean`, `b_mean`; `difference`, `low` and `high`: the mean of a minus that of b,
        and its interval; `improvement`, `improvement_low` and `improvement_high`: the probability
        that a run of a has less of the metric than an independent run of b, ties counted as one
        half; `correlation` of the paired runs (null if unpaired or constant) and `stopped`, the
        number of runs that were stopped. With such runs the difference is nan, and in
        `improvement` they count as the largest value.
    """

    def __init__(self, metric: str, confidence: float, table: pl.DataFrame) -> None:
        self.metric, self.confidence, self.table = metric, confidence, table

    def __repr__(self) -> str:
        row = self.table.row(0, named=True)
        return f"<Comparison: {row['a']} and {row['b']}, {self.metric}, {len(self.table)} rows>"

    def __str__(self) -> str:
        """Return the table as text, with notes on the runs."""
        from rich.box import SIMPLE_HEAD
        from rich.console import Console
        from rich.table import Table

        console = Console(
            width=100, color_system=None, force_jupyter=False, highlight=False, markup=False
        )
        display = self._display(means=True)
        table = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
        for i, title in enumerate(display.header):
            table.add_column(title, justify="right" if i else "left", overflow="fold")
        for cells in display.rows:
            table.add_row(*cells)
        with console.capture() as capture:
            console.print(display.caption)
            console.print(table)
            for note in self.notes():
                console.print(note)
        return capture.get().rstrip()

    def _repr_html_(self) -> str:
        import html

        notes = "".join(f"<p>{html.escape(note)}</p>" for note in self.notes())
        return self._display(means=True).to_html() + notes

    def to_latex(self) -> str:
        """Return a table for a paper's column, with booktabs; the notes are in its caption."""
        display = self._display(means=False)
        return display._replace(caption=" ".join([display.caption, *self.notes()])).to_latex()

    def notes(self) -> list[str]:
        """Return which runs were compared, and how, in sentences."""
        notes = []
        paired, unpaired = (self.table.filter(paired=paired) for paired in (True, False))
        if len(paired):
            runs = paired["a_runs"].unique().sort()
            known = paired["correlation"].drop_nulls().drop_nans()
            text = f"Paired by replication, {_range(runs)} pairs"
            if len(known):
                low, high = float(known.min()), float(known.max())  # type: ignore[arg-type]
                text += f"; correlation {low:.2f}" + (f" to {high:.2f}" if high > low else "")
            notes.append(f"{text.replace('-', '−')}.")
        if len(unpaired):
            a, b = unpaired["a_runs"].unique().sort(), unpaired["b_runs"].unique().sort()
            notes.append(
                f"Unpaired, because the seeds differ: {_range(a)} and {_range(b)} independent runs."
            )
        if stopped := int(self.table["stopped"].sum()):
            notes.append(
                f"{stopped:,} runs were stopped because their payments grew without bound: no mean "
                "difference there; in the probability they count as the largest value."
            )
        return notes

    def _display(self, *, means: bool) -> DisplayTable:
        first = self.table.row(0, named=True)
        a, b = first["a"], first["b"]
        one_drift = first["a_drift"] == first["b_drift"]
        if not one_drift:  # then there is one row
            a, b = f"{a} with {first['a_drift']}", f"{b} with {first['b_drift']}"
        share = f"{100 * self.confidence:g} %"
        caption = f"{self.metric.replace('_', ' ')} of {a} minus that of {b}, with {share} "
        caption += (
            "bootstrap intervals, and the probability that a run of the former has less than "
        )
        caption += "an independent run of the latter."
        header = ["drift", *(["former", "latter"] if means else []), "difference", "probability"]
        rows = []
        for row in self.table.iter_rows(named=True):
            cells = [row["a_drift"] if one_drift else "as named above"]
            if means:
                cells += [format_number(row["a_mean"]), format_number(row["b_mean"])]
            cells += [_signed(row), _share(row)]
            rows.append(cells)
        return DisplayTable(caption[0].upper() + caption[1:], header, rows)


def compare(
    result: Result,
    a: Which,
    b: Which,
    metric: str,
    other: Result | None,
    confidence: float,
    resamples: int,
) -> Comparison:
    """Compare two policies; see `Result.compare`."""
    if metric not in COMPARED:
        todo = did_you_mean(str(metric), COMPARED)
        rule = "must be a metric of which less is better"
        raise InputError("compare: metric", rule, given=metric, todo=todo)
    if not 0.5 <= as_number("compare: confidence", confidence) < 1:
        rule = "must be at least 0.5 and less than 1"
        raise InputError("compare: confidence", rule, given=confidence)
    if as_whole_number("compare: resamples", resamples) < 100:
        raise InputError("compare: resamples", "must be at least 100", given=resamples)
    pairs = list(_pairs(result, a, result if other is None else other, b))
    rows = [_row(one, two, metric, confidence, resamples) for one, two in pairs]
    return Comparison(metric, confidence, pl.DataFrame(rows, schema_overrides=_SCHEMA))


_SCHEMA = {"correlation": pl.Float64}


def _pairs(one: Result, a: Which, two: Result, b: Which) -> Iterator[tuple[_Cell, _Cell]]:
    """Return the cells to compare: those given, or those of each drift that both studies have."""
    for what, first, second in (
        ("horizon", one.study.horizon, two.study.horizon),
        ("arms", one.study.arms, two.study.arms),
    ):
        if first != second:
            rule = f"must have the same {what} as this result, {first}"
            raise InputError("compare: other", rule, given=second)
    for name, study in (("this result", one.study), ("other", two.study)):
        if study.replications < MIN_RUNS:
            rule = f"must have at least {MIN_RUNS} runs to be resampled"
            raise InputError(f"compare: {name}", rule, given=study.replications)
    if isinstance(a, tuple) != isinstance(b, tuple):
        rule = "must both be policies, or both be pairs of a policy and a drift"
        raise InputError("compare: a and b", rule, given=(a, b))
    if isinstance(a, tuple) and isinstance(b, tuple):
        yield _cell(one, "a", *a), _cell(two, "b", *b)
        return
    shared = [label for label in one.study.drift_labels if label in two.study.drift_labels]
    if not shared:
        rule = "must have a drift in common with this result"
        todo = "Pass a and b as pairs of a policy and a drift to compare different drifts."
        given = ", ".join(two.study.drift_labels)
        raise InputError("compare: other", rule, given=given, todo=todo)
    for drift in shared:
        yield _cell(one, "a", a, drift), _cell(two, "b", b, drift)


def _cell(result: Result, name: str, policy: Any, drift: int | str) -> _Cell:
    study = result.study
    return _Cell(
        result,
        position(f"compare: {name}", policy, study.policy_labels),
        position(f"compare: drift of {name}", drift, study.drift_labels),
    )


def _row(one: _Cell, two: _Cell, metric: str, confidence: float, resamples: int) -> dict[str, Any]:
    a, b = one.values(metric), two.values(metric)
    seed = one.result.study.seed
    assert seed is not None
    # All cells with a seed draw from the same streams, so equal replications are not independent.
    paired = seed == two.result.study.seed
    if paired:
        a, b = (values[: min(len(a), len(b))] for values in (a, b))
    resampled = Bootstrap(a, b, paired=paired, resamples=resamples, seed=seed)
    difference, better = resampled.difference(confidence), resampled.improvement(confidence)
    varies = paired and min(a.std(), b.std()) > 0
    names = zip(("a", "a_drift", "b", "b_drift"), one.labels + two.labels, strict=True)
    return {
        **dict(names),
        "paired": paired,
        "a_runs": len(a),
        "b_runs": len(b),
        "a_mean": float(a.mean()),
        "b_mean": float(b.mean()),
        "difference": difference.value,
        "low": difference.low,
        "high": difference.high,
        "improvement": better.value,
        "improvement_low": better.low,
        "improvement_high": better.high,
        "correlation": float(np.corrcoef(a, b)[0, 1]) if varies else None,
        "stopped": int(np.isnan(a).sum() + np.isnan(b).sum()),
    }


def _signed(row: dict[str, Any]) -> str:
    value, low, high = (
        format_number(row[name]).replace("-", "−") for name in ("difference", "low", "high")
    )
    return f"{value} [{low}, {high}]"


def _share(row: dict[str, Any]) -> str:
    low, high = row["improvement_low"], row["improvement_high"]
    return f"{row['improvement']:.2f} [{low:.2f}, {high:.2f}]"


def _range(counts: Sequence[int] | pl.Series) -> str:
    return f"{counts[0]:,}" if len(counts) == 1 else f"{counts[0]:,} to {counts[-1]:,}"
