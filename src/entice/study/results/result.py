"""The result of a study."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, overload

import polars as pl

from entice.errors import InputError
from entice.extras import require
from entice.study.aggregation.statistics import STATISTICS, statistics
from entice.study.results import files as result_files
from entice.study.results.deferred import DeferredFrame
from entice.study.results.frames import with_settings
from entice.study.spec import Study
from entice.worlds.changing_arms import Changing, Wandering

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from plotly.graph_objects import Figure as PlotlyFigure

    from entice.study.results.comparison import Comparison, Which
    from entice.study.results.plots import Style


class Result:
    """The numbers of a study, with its spec and seed.

    Attributes
    ----------
    study : Study
        The study that was run, with its seed.
    final : polars.DataFrame
        One row for each cell and replication: `policy`, `drift`, `policy_index`, `drift_index`,
        `replication`, `regret`, `compensation`, `compensated_pulls`, `total_drift`,
        `best_arm_error` (relative; nan if the best mean is 0), `pulls` (an array, one entry for
        each arm) and `stopped`: the round in which the run was stopped because its payments grew
        without bound, else null. The metrics of a stopped run are nan.

        If the players have a response, two more metrics follow `best_arm_error`: `share_rated`, the
        share of pulls whose rating comes, now or later, and `selection_bias`, the mean over these
        ratings of the reward minus the true mean of its arm (nan if there is none). So
        `selection_bias` is how much too high displayed averages are because of who rates; drift is
        not part of it.

        The settings follow: `horizon`, `seed`, and a column for each parameter of a policy or a
        drift, such as `policy.kind`, `policy.c`, `drift.kind` and `drift.l`; null where a kind has
        no such parameter.
    curves : polars.DataFrame
        One row for each cell, metric and checkpoint `t`: `mean`, `stderr`, `q05` … `q95`, and the
        settings, as in `final`. Quantiles of a large study
        (`entice.study.aggregation.block_digest.is_large`) are accurate to 0.4 %; those of `summary`
        are exact.
    engines : tuple
        The engine of each policy: ``"fast"``, a path that skips rounds, or ``"generic"``, the
        kernel that plays every round. Their numbers differ like those of two different seeds.
    """

    def __init__(
        self,
        study: Study,
        final: DeferredFrame | Path,
        curves: DeferredFrame,
        engines: Sequence[str],
    ) -> None:
        self._study = study
        self._curves = curves
        self._engines = tuple(engines)
        self._final = final

    @property
    def study(self) -> Study:
        """The study that was run, with its seed."""
        return self._study

    @property
    def parts(self) -> tuple[Result, ...]:
        """The result of each study that this result combines."""
        return (self,)

    @property
    def engines(self) -> tuple[str, ...]:
        """The engine of each policy: ``"fast"`` or ``"generic"``."""
        return self._engines

    @cached_property
    def curves(self) -> pl.DataFrame:
        """One row for each cell, metric and checkpoint. Computed on first use."""
        return with_settings(self._curves.read(), self.study)

    @cached_property
    def final(self) -> pl.DataFrame:
        """One row for each cell and replication. Built on first use, or read for a large study."""
        final = self._final
        frame = pl.read_parquet(final) if isinstance(final, Path) else final.read()
        return with_settings(frame, self.study)

    def __repr__(self) -> str:
        cells = len(self.study.policies) * len(self.study.drifts)
        return (
            f"<Result: {cells} cell{'s' * (cells > 1)} × {self.study.replications} replications × "
            f"{self.study.horizon} rounds, seed {self.study.seed}>"
        )

    def __str__(self) -> str:
        """Return the table that `entice run` prints: mean, error and range of each cell."""
        from rich.console import Console

        from entice.study.results.table import summary_table

        console = Console(width=100, color_system=None, force_jupyter=False)
        with console.capture() as capture:
            for part in self.parts:
                console.print(summary_table(part))
        return capture.get().rstrip()

    def summary(self) -> pl.DataFrame:
        """Summarise the last round: a row for each cell and metric, with mean and quantiles.

        The settings follow, as in `final`.

        >>> import entice
        >>> result = entice.simulate(arms=entice.Gaussian([0.9, 0.1]), policies=[entice.UCB()],
        ...                          horizon=100, replications=5, seed=7)
        >>> result.summary().columns[:5]
        ['policy', 'drift', 'metric', 'mean', 'stderr']
        """
        rows = []
        for p, d, _, _ in self.study.cells():
            cell = self.rows_of(p, d, self.study.metrics)
            for metric in self.study.metrics:
                found = statistics(cell[metric].cast(pl.Float64).to_numpy())
                rows.append(self._row(p, d, {"metric": metric}, found))
        return with_settings(pl.DataFrame(rows), self.study)

    def pulls_per_arm(self) -> pl.DataFrame:
        """Summarise how often each arm was pulled: a row for each cell and arm.

        `arm` is the index of the arm, `arm_name` its name if the arms have names, `true_mean` its
        mean reward, null if means change. Mean and quantiles over the runs and the settings follow,
        as in `summary`.

        >>> import entice
        >>> result = entice.simulate(
        ...     arms=entice.Gaussian([0.9, 0.1], names=["tea", "water"]), policies=[entice.UCB()],
        ...     horizon=100, replications=5, seed=7)
        >>> result.pulls_per_arm().select("arm", "arm_name", "true_mean").rows()
        [(0, 'tea', 0.9), (1, 'water', 0.1)]
        """
        names, changing = self.study.arms.names, isinstance(self.study.arms, Changing | Wandering)
        rows = []
        for p, d, _, _ in self.study.cells():
            cell = self.rows_of(p, d, ("pulls", "stopped"))
            pulls = cell["pulls"].to_numpy().astype(float)
            pulls[cell["stopped"].is_not_null().to_numpy()] = math.nan
            found = statistics(pulls)
            for arm, mean in enumerate(self.study.arms.true_means()):
                about: dict[str, Any] = {
                    "arm": arm,
                    "arm_name": names and names[arm],
                    "true_mean": None if changing else float(mean),
                }
                rows.append(self._row(p, d, about, {n: v[arm] for n, v in found.items()}))
        schema = {"arm_name": pl.String, "true_mean": pl.Float64}
        return with_settings(pl.DataFrame(rows, schema_overrides=schema), self.study)

    def _row(self, p: int, d: int, about: dict[str, Any], found: dict[str, Any]) -> dict[str, Any]:
        row = {"policy": self.study.policy_labels[p], "drift": self.study.drift_labels[d], **about}
        row |= {name: float(found[name]) for name in STATISTICS}
        return row | {"policy_index": p, "drift_index": d}

    def rows_of(self, p: int, d: int, columns: Sequence[str]) -> pl.DataFrame:
        """Return some columns of one cell, without reading the other cells."""
        final = self._final
        rows = pl.scan_parquet(final) if isinstance(final, Path) else final.read().lazy()
        return rows.filter(policy_index=p, drift_index=d).select(columns).collect()

    def compare(
        self,
        a: Which,
        b: Which,
        metric: str = "regret",
        *,
        other: Result | None = None,
        confidence: float = 0.95,
        resamples: int = 2_000,
    ) -> Comparison:
        """Compare two policies: a row for each drift, with bootstrap intervals.

        Runs with the same seed and replication start from the same random streams. They are
        compared as pairs, of which a study with more replications has only the first. Whether
        pairing narrows the interval depends on the correlation, which is reported. Only with
        ``engine="generic"`` do both see the same rewards, round by round (common random numbers),
        which helps with two drifts, but hardly with two policies. Runs with different seeds are
        independent, and compared as such.

        Parameters
        ----------
        a, b
            Policies, by label or position. Pairs of a policy and a drift compare single cells, such
            as one policy under two drifts.
        metric
            ``"regret"``, ``"compensation"``, ``"compensated_pulls"`` or ``"best_arm_error"``.
        other
            The result that holds b, with the same arms and horizon. By default this one.
        confidence
            Nominal coverage of the intervals.
        resamples
            Number of bootstrap resamples. They depend on the seed of the study alone.

        >>> import entice
        >>> result = entice.simulate(
        ...     arms=entice.Gaussian([0.9, 0.1]), policies=[entice.UCB(), entice.EpsilonGreedy(5)],
        ...     horizon=500, replications=50, seed=7, progress=False)
        >>> result.compare("UCB", "EpsilonGreedy(c=5)").table["paired"].to_list()
        [True]
        """
        from entice.study.results.comparison import compare

        return compare(self, a, b, metric, other, confidence, resamples)

    def to_latex(self, metrics: Sequence[str] = ("regret", "compensation")) -> str:
        """Return the last round as a LaTeX table: mean ± standard error, median [5–95 % of runs].

        It requires the package booktabs. Two metrics fit a column of 3.25 inches.
        """
        from entice.study.results.table import display_table

        return "\n".join(display_table(part, metrics).to_latex() for part in self.parts)

    def _repr_html_(self) -> str:
        from entice.study.results.table import SHOWN, display_table

        return "".join(display_table(part, tuple(SHOWN)).to_html() for part in self.parts)

    @overload
    def plot(
        self,
        metric: str = ...,
        *,
        backend: Literal["matplotlib"] = ...,
        style: Style = ...,
        ax: Axes | Sequence[Axes] | None = ...,
    ) -> Figure: ...
    @overload
    def plot(self, metric: str = ..., *, backend: Literal["plotly"]) -> PlotlyFigure: ...
    def plot(
        self,
        metric: str = "regret",
        *,
        backend: Literal["matplotlib", "plotly"] = "matplotlib",
        style: Style = "screen",
        ax: Axes | Sequence[Axes] | None = None,
    ) -> Figure | PlotlyFigure:
        """Draw a metric against t: a line and bands for each policy, a panel for each drift.

        The line is the median of the runs at each round; a single run need not follow it. The
        bands hold half and nine tenths of the runs at each round. `entice.theory.plot_bounds` adds
        the bounds.

        Parameters
        ----------
        metric
            A metric of the study, such as ``"regret"``.
        backend
            ``"matplotlib"``, or ``"plotly"`` for an interactive figure.
        style
            ``"screen"``, or ``"paper"``: 3.25 inches wide, one panel below the other, small type,
            300 dots per inch. Many publishers also require
            ``matplotlib.rcParams["pdf.fonttype"] = 42`` when you save a PDF.
        ax
            Axes of your own to draw on, one for each drift. Their figure is returned.
        """
        if backend == "plotly":
            require("plotly")
            from entice.study.results.plotly_figure import plotly_curves

            if style != "screen" or ax is not None:
                rule = 'cannot be combined with backend="plotly"'
                raise InputError("plot: style and ax", rule, todo='Use backend="matplotlib".')
            return plotly_curves(self, metric)
        if backend != "matplotlib":
            rule = 'must be "matplotlib" or "plotly"'
            raise InputError("plot: backend", rule, given=backend)
        require("plot")
        from entice.study.results.plots import plot_curves

        return plot_curves(self, metric, style=style, ax=ax)

    @staticmethod
    def concat(results: Iterable[Result]) -> Result:
        """Combine the results of several studies into one, whose frames have the rows of all.

        The studies may differ in everything but the number of arms. A run that is in two of the
        results would count twice, and is an error. In the frames, `study_index` is the study of a
        row; `parts` holds the single results.

        >>> import entice
        >>> both = entice.Result.concat(
        ...     entice.simulate(arms=entice.Gaussian([0.9, 0.1]), policies=[entice.UCB()],
        ...                     horizon=horizon, replications=5, seed=7) for horizon in (100, 200))
        >>> both.summary().filter(metric="regret").select("horizon", "policy").rows()
        [(100, 'UCB'), (200, 'UCB')]
        """
        from entice.study.results.combined_result import concat

        return concat(results)

    def save(self, folder: str | Path) -> Path:
        """Write `final.parquet` and `curves.parquet`, with spec and seed, into a folder.

        Results of several studies are written into sub-folders.
        """
        final = self._final if isinstance(self._final, Path) else self._final.read()
        return result_files.save(Path(folder), self.study, final, self.curves)

    @staticmethod
    def load(folder: str | Path) -> Result:
        """Read a result, or those of several studies, written by `save` or `entice run`.

        A custom function of the study that cannot be found here is replaced by a placeholder of the
        same name: the result can be used, but the study cannot be run again.
        """
        folder = Path(folder)
        if within := result_files.folders_within(folder):
            return Result.concat(Result.load(one) for one in within)
        study, final, curves, engines = result_files.load(folder)
        last = final if isinstance(final, Path) else DeferredFrame(final.clone)
        return Result(study, last, DeferredFrame(curves.clone), engines)
