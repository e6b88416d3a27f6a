"""The growth of regret and compensation with the horizon: like log T, or like a power of T."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import numpy as np
import polars as pl

from entice.checks import as_whole_number, is_list
from entice.errors import InputError
from entice.extras import require
from entice.paper.setups import MEANS
from entice.policies import UCB, EpsilonGreedy, Policy, ThompsonSampling
from entice.progress import Report
from entice.study.running.run import run_each
from entice.study.spec import Study
from entice.theory.inputs import Floats
from entice.worlds.arms import Gaussian
from entice.worlds.drifts import LinearDrift, StepDrift

if TYPE_CHECKING:
    from matplotlib.figure import Figure

METRICS = ("regret", "compensation")


class Growth(NamedTuple):
    """The result of `growth`."""

    points: pl.DataFrame
    """`policy`, `drift`, `metric`, `T`, `mean`, `stderr`, and the indices of the cell."""
    table: pl.DataFrame
    """A row for each cell and metric, with these columns:

    - `exponent`, `exponent_low`, `exponent_high`: d log/d log T over the last decade of T, and its
      95 % interval; `exponent_at_first`: the same over the first decade
    - `log_a` + `log_b` log T and `power_a` T^`power_p`: two fits, with their root mean square
      relative errors `log_error` and `power_error`
    - `exponent_before`: the exponent over the decade before the last, null with fewer than two
      decades; `change_low`, `change_high`: the 95 % interval of the change since then
    - `fits`: `log`, `power`, `too short` or `undecided`; see `classify_growth`
    """

    def plot(self) -> Figure:
        """Plot the points with the better fit: regret above compensation, a column per drift."""
        require("plot")
        from entice.theory.figures import plot_growth

        return plot_growth(self)


def paper_study(*, horizon: int = 10**7, replications: int = 200, seed: int | None = None) -> Study:
    """Return a study of the paper's nine arms, with drifts inside and outside Assumption 1.

    ε-greedy is included twice: with c = 5 as in the experiments, and with c = 36/Δ as in
    Theorem 2. The drift outside Assumption 1 is a step.
    """
    return Study(
        arms=Gaussian(MEANS),
        policies=(UCB(), EpsilonGreedy(c=5), EpsilonGreedy(c=360), ThompsonSampling()),
        drifts=(LinearDrift(0.0), LinearDrift(0.4), LinearDrift(1.1), StepDrift(0.3)),
        horizon=horizon,
        replications=replications,
        seed=seed,
    )


def growth(
    study: Study,
    *,
    horizons: Sequence[int] | None = None,
    threads: int | None = None,
    progress: bool | Report | None = None,
) -> Growth:
    """Run a study at several horizons and measure how regret and compensation grow.

    Each horizon is run separately with its own seed, so that errors are independent and the
    exponent's interval is valid: 1.96 standard errors, by the delta method. If a few runs account
    for most of the regret (ε-greedy with a small c), neither mean nor interval is reliable.

    A policy whose `horizon` is that of the study is run with the horizon T at each T, and labelled
    `horizon=T`. Other policies are the same at each T.

    Parameters
    ----------
    study
        The study. Its horizon is the longest one; its checkpoints are ignored.
    horizons
        At least three, spanning a decade or more. By default two per decade, from the study's
        horizon down to 1,000.
    threads, progress
        As in `simulate`.

    >>> import entice
    >>> study = entice.Study(
    ...     arms=entice.Gaussian([0.9, 0.5, 0.1]), policies=[entice.UCB()],
    ...     drifts=[entice.LinearDrift(0.5), entice.StepDrift(0.5)],
    ...     horizon=1_000_000, replications=20, seed=7)
    >>> table = entice.theory.growth(study).table.filter(metric="regret")
    >>> dict(zip(table["drift"], table["exponent"].round(1)))
    {'LinearDrift(0.5)': 0.1, 'StepDrift(0.5)': 1.0}
    """
    chosen = _horizons(study, horizons)
    if study.replications < 2:
        rule = "must be at least 2, to estimate the standard error"
        raise InputError("replications", rule, given=study.replications)
    study = study.with_seed()
    assert study.seed is not None
    studies = [
        msgspec.structs.replace(
            study,
            horizon=T,
            policies=tuple(_with_horizon(policy, study.horizon, T) for policy in study.policies),
            checkpoints=1,
            seed=(study.seed + k) % 2**63,
        )
        for k, T in enumerate(chosen)
    ]
    results = run_each(
        studies,
        title="Growing",
        threads=threads,
        progress=progress,
        # The longest run takes most of the time, so progress counts rounds.
        unit="rounds",
        sizes=chosen,
    )
    frames = [
        result.summary().with_columns(T=pl.lit(T))
        for T, result in zip(chosen, results, strict=True)
    ]
    names = ("policy", "drift", "metric", "T", "mean", "stderr", "policy_index", "drift_index")
    points = pl.concat(frames).filter(pl.col("metric").is_in(METRICS)).select(names)
    rows = [
        fit(points.filter(policy_index=p, drift_index=d, metric=metric))
        for p, d, _, _ in study.cells()
        for metric in METRICS
    ]
    return Growth(points, pl.DataFrame(rows))


def _with_horizon(policy: Policy, longest: int, T: int) -> Policy:
    """Return a policy for T rounds, if it is one for the longest horizon of the study."""
    if getattr(policy, "horizon", None) != longest:
        return policy
    label = policy.label.replace(f"horizon={longest}", "horizon=T")
    return msgspec.structs.replace(policy, horizon=T, name=label)


def _horizons(study: Study, given: Any) -> list[int]:
    if given is None:
        steps = range(max(0, math.floor(2 * math.log10(study.horizon / 1_000) + 1e-9)) + 1)
        chosen = sorted({round(study.horizon / 10 ** (k / 2)) for k in steps})
    elif is_list(given):
        chosen = sorted({as_whole_number(f"horizons[{i}]", T) for i, T in enumerate(given)})
    else:
        raise InputError("horizons", "must be a list of whole numbers", given=given)
    if len(chosen) < 3 or chosen[-1] < 10 * chosen[0] or chosen[0] < 2:
        raise InputError(
            "horizons",
            "must be at least three, from 2 on, the last at least ten times the first",
            given=chosen,
            todo="By default that takes a study with a horizon of at least 10,000.",
        )
    return chosen


def fit(points: pl.DataFrame) -> dict[str, Any]:
    """Fit the points of one cell and metric, and return a row of the table."""
    points = points.sort("T")
    T, y, error = (points[name].to_numpy().astype(float) for name in ("T", "mean", "stderr"))
    row = {name: points[name][0] for name in ("policy", "drift", "metric")}
    row |= {name: points[name][0] for name in ("policy_index", "drift_index")}
    empty = dict.fromkeys((*_FIT_COLUMNS, *_CHANGE_COLUMNS, "fits"))
    if y.min() <= 0:  # no payments: nothing grows
        return row | empty
    end, low, high = _exponent(T, y, error, last=True)
    first = _exponent(T, y, error, last=False)[0]
    line = np.polynomial.polynomial.polyfit(np.log(T), y, 1, w=1 / y)
    power = np.polynomial.polynomial.polyfit(np.log(T), np.log(y), 1)
    errors = (
        _relative(line[0] + line[1] * np.log(T), y),
        _relative(np.exp(power[0] + power[1] * np.log(T)), y),
    )
    values = (end, low, high, first, *line, errors[0], np.exp(power[0]), power[1], errors[1])
    found = {name: float(value) for name, value in zip(_FIT_COLUMNS, values, strict=True)}
    change = _change(T, y, error)
    row |= found | (dict.fromkeys(_CHANGE_COLUMNS) if change is None else change._asdict())
    return row | {"fits": classify_growth(errors[0], errors[1], change)}


CLEARLY_BETTER = 2 / 3
"""A fit is clearly better if its error is less than this share of the other's."""


class ExponentChange(NamedTuple):
    """The change of the exponent from the second-to-last decade to the last one."""

    exponent_before: float
    change_low: float
    """With `change_high`, the 95 % interval of the difference."""
    change_high: float
    change_if_log: float
    """The difference under logarithmic growth over both decades."""


_CHANGE_COLUMNS = ExponentChange._fields


def classify_growth(log_error: float, power_error: float, change: ExponentChange | None) -> str:
    """Classify the growth of a metric as `log`, `power`, `too short` or `undecided`.

    The exponent of a power of T is the same in every decade; under logarithmic growth it falls.
    The better fit is therefore accepted only if the exponent agrees with it.

    `too short`
        There are fewer than two decades; or the exponent still falls and a + b log T is not
        clearly better (`CLEARLY_BETTER`); or the exponent rises and a + b log T is clearly better.
        Growth has not stabilised; a longer study is needed.
    `undecided`
        Neither fit is clearly better; or T^p is, but the interval of the change contains both
        zero and the change under logarithmic growth. More runs are needed.
    """
    if change is None:
        return "too short"
    if log_error < CLEARLY_BETTER * power_error:
        return "too short" if change.change_low > 0 else "log"
    if change.change_high < 0:
        return "too short"
    is_power = power_error < CLEARLY_BETTER * log_error and change.change_low > change.change_if_log
    return "power" if is_power else "undecided"


def _change(T: Floats, y: Floats, error: Floats) -> ExponentChange | None:
    """Compare the exponents of the last two decades; their errors depend on a common horizon."""
    j = len(T) - 1
    i = _a_decade_before(T, j)
    h = None if i is None else _a_decade_before(T, i)
    if i is None or h is None:
        return None
    first, second = math.log(T[i] / T[h]), math.log(T[j] / T[i])
    before, last = math.log(y[i] / y[h]) / first, math.log(y[j] / y[i]) / second
    weights = np.array([1 / first, 1 / first + 1 / second, 1 / second])
    half = 1.96 * float(np.linalg.norm(weights * error[[h, i, j]] / y[[h, i, j]]))
    if_log = math.log1p((1 - y[h] / y[i]) * second / first) / second
    return ExponentChange(before, last - before - half, last - before + half, if_log - before)


def _a_decade_before(T: Floats, j: int) -> int | None:
    found = np.flatnonzero(T[j] / T >= 10 * (1 - 1e-6))
    return int(found[-1]) if len(found) else None


_FIT_COLUMNS = (
    "exponent",
    "exponent_low",
    "exponent_high",
    "exponent_at_first",
    "log_a",
    "log_b",
    "log_error",
    "power_a",
    "power_p",
    "power_error",
)


def _exponent(T: Floats, y: Floats, error: Floats, *, last: bool) -> tuple[float, float, float]:
    """Return the slope d log y / d log T over the last or first decade, and its 95 % interval."""
    if last:
        j = len(T) - 1
        i = _a_decade_before(T, j)
        assert i is not None  # horizons span a decade
    else:
        i, j = 0, int(np.flatnonzero(T / T[0] >= 10 * (1 - 1e-6))[0])
    span = math.log(T[j] / T[i])
    slope = math.log(y[j] / y[i]) / span
    spread = 1.96 * math.hypot(error[i] / y[i], error[j] / y[j]) / span
    return slope, slope - spread, slope + spread


def _relative(fitted: Floats, y: Floats) -> float:
    return float(np.sqrt(np.mean((fitted / y - 1) ** 2)))
