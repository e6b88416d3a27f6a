"""What a study found."""

from __future__ import annotations

import errno
import itertools
import json
import platform
import shutil
from collections.abc import Iterator, Sequence
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl
from polars.io.plugins import register_io_source

from entice.engine.kernel import METRICS
from entice.errors import InputError
from entice.functions import stand_ins
from entice.specs import Study
from entice.study.digest import is_on_disk
from entice.study.spool import Spool
from entice.study.summary import STATISTICS, statistics
from entice.study.whole_file import whole_file

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FINAL, CURVES = "final.parquet", "curves.parquet"
_ROWS = 2**18
"""In a group of a large file: what a reader needs at least to hold at a time."""


class Result:
    """The numbers of a study, with the spec and the seed that made them.

    Attributes
    ----------
    study : Study
        What was run, seed included.
    final : polars.DataFrame
        One row for each cell and replication: `policy`, `drift`, `policy_index`, `drift_index`,
        `replication`, `regret`, `compensation`, `compensated_pulls`, `total_drift`,
        `best_arm_error` (relative; nan if the best mean is 0), `pulls` (an array, one entry for
        each arm) and `stopped`: the round in which payments had grown without bound, if they did.
        Metrics of such a run are nan.
    curves : polars.DataFrame
        One row for each cell, metric and checkpoint `t`: `mean`, `stderr`, `q05` … `q95`.
        Quantiles of a large study (`entice.study.digest.is_large`) lie between runs that are told
        to 0.4 %; those of `summary` are exact.
    engines : tuple
        What ran each policy of the study: ``"fast"``, a path that skips rounds, or ``"generic"``,
        the kernel that plays each. Their numbers differ as those of two seeds do.
    """

    def __init__(
        self,
        study: Study,
        final: pl.DataFrame | Path,
        curves: pl.DataFrame,
        engines: Sequence[str],
        kept_in: Spool | None = None,
    ) -> None:
        self.study = study
        self.curves = curves
        self.engines = tuple(engines)
        self._final = final
        self._kept_in = kept_in  # the file lasts as long as the result

    @cached_property
    def final(self) -> pl.DataFrame:
        """One row for each cell and replication; that of a large study is read when asked for."""
        return pl.read_parquet(self._final) if isinstance(self._final, Path) else self._final

    def __repr__(self) -> str:
        cells = len(self.study.policies) * len(self.study.drifts)
        return (
            f"<Result: {cells} cell{'s' * (cells > 1)} × {self.study.replications} replications × "
            f"{self.study.horizon} rounds, seed {self.study.seed}>"
        )

    def __str__(self) -> str:
        """Show each cell's mean, error and range, as `entice run` does."""
        from rich.console import Console

        from entice.study.table import summary_table

        console = Console(width=100, color_system=None)
        with console.capture() as capture:
            console.print(summary_table(self))
        return capture.get().rstrip()

    def summary(self) -> pl.DataFrame:
        """Summarise the last round: a row for each cell and metric, with mean and quantiles.

        >>> import entice
        >>> result = entice.simulate(arms=entice.Gaussian([0.9, 0.1]), policies=[entice.UCB()],
        ...                          horizon=100, replications=5, seed=7)
        >>> result.summary().columns[:5]
        ['policy', 'drift', 'metric', 'mean', 'stderr']
        """
        rows = []
        for p, d, policy, drift in self.study.cells():
            cell = self._rows_of(p, d)
            for metric in METRICS:
                found = statistics(cell[metric].cast(pl.Float64).to_numpy())
                row: dict[str, Any] = {
                    "policy": policy.label,
                    "drift": drift.label,
                    "metric": metric,
                }
                row |= {name: float(found[name]) for name in STATISTICS}
                rows.append(row | {"policy_index": p, "drift_index": d})
        return pl.DataFrame(rows)

    def _rows_of(self, p: int, d: int) -> pl.DataFrame:
        """The metrics of one cell, without reading those of others."""
        if isinstance(self._final, pl.DataFrame):
            return self._final.filter(policy_index=p, drift_index=d)
        rows = pl.scan_parquet(self._final).filter(policy_index=p, drift_index=d)
        return rows.select(METRICS).collect()

    def plot(self, metric: str = "regret", *, bounds: bool = False) -> Figure:
        """Draw a metric against t: a line and bands for each policy, a panel for each drift.

        The line is the median of the runs at each round, which no single run need follow. The bands
        hold half and nine tenths of the runs at each round.

        With `bounds`, those of `entice.theory` that say something of this study are drawn, on a
        logarithmic scale; those that do not are listed below, with the reasons.
        """
        from entice.plots import plot_curves

        return plot_curves(self, metric, bounds=bounds)

    def save(self, folder: str | Path) -> Path:
        """Write `final.parquet` and `curves.parquet`, spec and seed inside, into a folder."""
        folder = Path(folder)
        try:
            folder.mkdir(parents=True, exist_ok=True)
            about = _metadata(self.study)
            with whole_file(folder / FINAL) as path:
                if isinstance(self._final, Path):
                    about = {"entice": pl.read_parquet_metadata(self._final)["entice"]}
                    shutil.copyfile(self._final, path)
                else:
                    self._final.write_parquet(path, metadata=about)
            with whole_file(folder / CURVES) as path:
                self.curves.write_parquet(path, metadata=about)
        except (OSError, pl.exceptions.PolarsError) as error:
            raise InputError(
                "the folder", f"can't be written ({error})", given=str(folder)
            ) from error
        return folder

    @classmethod
    def load(cls, folder: str | Path) -> Result:
        """Read a result that `save` or `entice run` wrote.

        Where a custom function of the study is not to be found here, another stands in for it, with
        its name: the result can be looked at, but the study can't be run again.
        """
        folder = Path(folder)
        about, also = read_metadata(folder / FINAL), read_metadata(folder / CURVES)
        if about is None or about != also:
            raise InputError(
                "the folder", f"must hold a result ({FINAL} and {CURVES})", given=str(folder)
            )
        with stand_ins():
            study = Study.from_json(about["study"])
        return cls(
            study,
            final=folder / FINAL if is_on_disk(study) else pl.read_parquet(folder / FINAL),
            curves=pl.read_parquet(folder / CURVES),
            engines=about["engines"],
        )


def write_final(path: Path, study: Study, frames: Iterator[pl.DataFrame]) -> None:
    """Write the last rounds of a large study, of which few are in memory at a time."""
    first = next(frames)
    rows = register_io_source(lambda *_: itertools.chain([first], frames), schema=first.schema)
    with whole_file(path) as beside:
        try:
            rows.sink_parquet(beside, metadata=_metadata(study), row_group_size=_ROWS)
        except pl.exceptions.PolarsError as error:  # which is how a full disk is told
            raise OSError(errno.EIO, str(error)) from error


def _metadata(study: Study) -> dict[str, str]:
    about = {
        "study": study.to_json(),
        "key": study.key(),
        "engines": study.engines(),
        "versions": {
            "python": platform.python_version(),
            **{name: version(name) for name in ("entice", "numba", "numpy", "polars")},
        },
    }
    return {"entice": json.dumps(about)}


def read_metadata(path: Path) -> dict[str, Any] | None:
    """Read what a file of a result says of itself: study, key, versions. None if it is not one."""
    try:
        about: dict[str, Any] = json.loads(pl.read_parquet_metadata(path)["entice"])
    except (OSError, KeyError, ValueError, pl.exceptions.PolarsError):
        return None
    return about
