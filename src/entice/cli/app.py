"""The command line. Commands import slow modules themselves, so that --help is fast."""

from __future__ import annotations

import contextlib
import errno
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, NoReturn

import typer
from rich.console import Console
from rich.markup import escape

import entice
from entice.cli.database import backup, head, restore, verify
from entice.cli.evaluate import evaluate
from entice.cli.pages import HOME, add_pages, page_of
from entice.cli.plan import plan
from entice.cli.service import register
from entice.cli.studio import demo
from entice.errors import EnticeError
from entice.extras import require

app = typer.Typer(
    name="entice",
    help="Incentivized exploration under reward drift (Liu et al., AAAI 2020).\n\n"
    "Pay people to explore, and don't be fooled by their gratitude.",
    epilog=HOME,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

Seed = Annotated[int | None, typer.Option(help="Random seed. Drawn and printed if omitted.")]
Threads = Annotated[
    int | None,
    typer.Option(help="Number of threads. One for each core by default. Does not change results."),
]


def _print_version(requested: bool) -> None:
    if requested:
        print(entice.__version__)
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool,
        typer.Option(
            "--version", help="Print the version and exit.", is_eager=True, callback=_print_version
        ),
    ] = False,
) -> None:
    pass


@app.command()
def reproduce(
    replications: Annotated[
        int, typer.Option(help="Number of independent runs of each cell.")
    ] = 1000,
    seed: Seed = None,
    horizon: Annotated[
        int | None,
        typer.Option(
            help="Number of rounds. Default: the 20,000 and 10,000 that fit the paper's numbers."
        ),
    ] = None,
    out: Annotated[Path, typer.Option(help="Output folder for tables, figures and report.")] = Path(
        "reproduction"
    ),
    threads: Threads = None,
) -> None:
    """Reproduce the paper: Tables 1 and 2, Figures 2 and 3, the greedy baseline.

    Each policy runs twice: as described in the paper, and in the set-up that best fits the
    published numbers. Every published value is compared with the 5 % to 95 % range of the simulated
    runs.

    Writes table1.csv, table2.csv, coverage.csv and greedy.csv; the figures fig2, fig3, explained
    and lock_in as PNG and SVG; and report.html, a page with all of these.
    """
    from entice.paper.reproduce import reproduce as reproduce_paper
    from entice.paper.terminal import print_reproduction

    console = Console(highlight=False)
    reproduction = reproduce_paper(
        replications=replications, seed=seed, horizon=horizon, out=out, threads=threads
    )
    print_reproduction(reproduction, console)
    console.print(f"\nReport: [bold]{escape(str(out / 'report.html'))}[/] (open in a browser)")


@app.command()
def run(
    study: Annotated[Path, typer.Argument(help="Study file (TOML).")],
    out: Annotated[
        Path, typer.Option(help="Output folder for the result and the state to resume from.")
    ],
    threads: Threads = None,
    cluster: Annotated[
        str | None,
        typer.Option(
            help="Address of the scheduler of a Dask cluster to run on, such as "
            "tcp://scheduler:8786. Requires entice\\[cluster]. Does not change results."
        ),
    ] = None,
    include: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="<file.py>",
            help="Python file with functions that the study uses. On a cluster, it is sent to the "
            "workers. Can be repeated.",
        ),
    ] = None,
) -> None:
    """Run a study from a file and save its result.

    Interrupted? Run the same command again to resume; the result is the same. A finished study is
    read, not run again. With more replications, only the missing ones are run. On a cluster,
    workers may join and leave.

    Writes final.parquet (one row for each run), curves.parquet (means and quantiles over time),
    as_run.toml (the study, with its seed) and a folder blocks-… (needed to add replications; it may
    be deleted). A study file:

    ```toml
    horizon = 20000
    replications = 1000
    seed = 7
    arms = { kind = "gaussian", means = [0.9, 0.8, 0.7] }
    policies = [{ kind = "ucb" }, { kind = "epsilon_greedy", c = 5 }]
    drifts = [{ kind = "linear", l = 1.1 }]
    ```

    A list of values runs each of them: l = [0, 0.5, 1.1] makes three drifts, horizon = [1000,
    10000] two studies, each in its own sub-folder. Any parameter of a policy or a drift may be a
    list.
    """
    from entice.study.results.table import summary_table
    from entice.study.running.run import run as run_study
    from entice.study.sweep import sweep_from_file
    from entice.user_functions import include as load

    for file in include or ():
        load(file)
    spec = sweep_from_file(study)
    with _report_interruption(out):
        result = run_study(spec, out=out, threads=threads, cluster=cluster)
    console = Console(highlight=False)
    for part in result.parts:
        console.print(summary_table(part))
        engines = zip(part.study.policy_labels, part.engines, strict=True)
        text = ", ".join(f"{label} {engine}" for label, engine in engines)
        console.print(f"Engines: {escape(text)}")
        console.print(f"Seed {part.study.seed}.")
    console.print(f"Result: [bold]{escape(str(out))}[/]")


@app.command()
def bounds(
    study: Annotated[Path, typer.Argument(help="Study file (TOML), as for `entice run`.")],
    out: Annotated[
        Path | None,
        typer.Option(
            help="Output folder for bounds.csv, the figures and the result. If it already has the "
            "result of this study, that is used. Nothing is saved if omitted."
        ),
    ] = None,
    threads: Threads = None,
) -> None:
    """Compare the theorems' bounds with a run of the study.

    For each policy and drift: the bound as stated and, where that differs, as proved; whether it
    applies (all of its assumptions hold); whether it is vacuous (larger than any run could reach);
    the measured mean, the 95 % quantile of the runs, and the ratio of bound and mean. Numbered
    footnotes give the reasons.

    With --out, writes bounds.csv, and regret.png and compensation.png with the bounds drawn.
    """
    import polars as pl

    from entice.study.running.output_folder import run_in_folder
    from entice.study.running.run import run as run_study
    from entice.study.spec import Study
    from entice.theory import bounds as all_bounds
    from entice.theory import plot_bounds
    from entice.theory.terminal import show_bounds

    spec = Study.from_file(study)
    all_bounds(spec)  # raises errors before anything is run
    if out is not None:
        require("plot")
    with _report_interruption(out):
        if out is None:
            result = run_study(spec, threads=threads)
        else:
            result = run_in_folder(spec, out, threads=threads)
    console, rows = Console(highlight=False), all_bounds(result)
    show_bounds(rows, spec.horizon, console)
    if out is not None:
        table = rows.with_columns(pl.col("doubts", "emptiness").list.join("; "))
        table.write_csv(out / "bounds.csv")
        for metric in ("regret", "compensation"):
            plot_bounds(result, metric).savefig(out / f"{metric}.png")
        console.print(f"\nTable and figures: [bold]{escape(str(out))}[/]")


@app.command()
def growth(
    study: Annotated[
        Path | None,
        typer.Argument(
            help="Study file (TOML), with the longest horizon to run. By default the paper's nine "
            "arms, four policies, three linear drifts and a step, up to 10,000,000 rounds."
        ),
    ] = None,
    replications: Annotated[
        int | None,
        typer.Option(help="Number of independent runs of each cell, instead of the study's."),
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option(help="Random seed, instead of the study's. Drawn if neither is set."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Output folder for growth.csv, points.csv, growth.png and as_run.toml."),
    ] = None,
    threads: Threads = None,
) -> None:
    """Measure how regret and compensation grow with T: like log T, or like a power of T.

    Runs the study at its own horizon (at least 10,000) and at shorter ones down to 1,000, two for
    each decade. Reports the exponent d log R / d log T over the first and the last decade, and
    which of a + b log T and a T^p fits. The exponent falls towards 0 if growth is logarithmic, and
    is 1 if regret is linear. The verdict may be that T is too short: use at least 100,000 rounds.
    An interrupted run saves nothing.
    """
    import msgspec

    from entice.study.running.output_folder import study_folder
    from entice.study.spec import Study
    from entice.theory.growth import growth as measure_growth
    from entice.theory.growth import paper_study
    from entice.theory.terminal import show_growth

    if out is not None:
        require("plot")
    spec = paper_study() if study is None else Study.from_file(study)
    changes = {"replications": replications, "seed": seed}
    spec = msgspec.structs.replace(spec, **{k: v for k, v in changes.items() if v is not None})
    console = Console(highlight=False)
    with study_folder(spec, out) as spec, _report_interruption(None):
        found = measure_growth(spec, threads=threads)
        show_growth(found, console)
        console.print(f"Seed {spec.seed}, {spec.replications:,} runs of each cell and horizon.")
        if out is not None:
            found.table.write_csv(out / "growth.csv")
            found.points.write_csv(out / "points.csv")
            found.plot().savefig(out / "growth.png")
            console.print(f"Table and figure: [bold]{escape(str(out))}[/]")


@app.command()
def atlas(
    replications: Annotated[
        int, typer.Option(help="Number of independent runs of each cell.")
    ] = 200,
    horizon: Annotated[int, typer.Option(help="Number of rounds.")] = 20_000,
    seed: Seed = None,
    out: Annotated[
        Path | None, typer.Option(help="Output folder for atlas.csv and atlas.png.")
    ] = None,
    threads: Threads = None,
) -> None:
    """Compare policies in many worlds, to find where each of them fails.

    The worlds have drifts of all kinds, late or missing ratings, players who decline, strategic
    arms, and an attacker. Each policy is compared with the best one in each world, by regret and by
    compensation.

    The first run takes minutes, because each policy is compiled for each kind of world.
    """
    from entice.atlas import atlas as run_atlas
    from entice.atlas.terminal import print_atlas
    from entice.study.running.output_folder import output_folder

    if out is not None:
        require("plot")
    console = Console(highlight=False)
    with output_folder(out) if out is not None else contextlib.nullcontext():
        with _report_interruption(None):
            found = run_atlas(
                replications=replications, horizon=horizon, seed=seed, threads=threads
            )
        print_atlas(found, console)
        if out is not None:
            found.table.write_csv(out / "atlas.csv")
            found.plot().savefig(out / "atlas.png")
            console.print(f"Table and figure: [bold]{escape(str(out))}[/]")
    console.print(f"Seed {found.seed}, {replications:,} runs of {horizon:,} rounds for each cell.")


app.command()(plan)
app.command()(demo)
app.command()(evaluate)
register(app)
for command in (verify, head, backup, restore):
    app.command()(command)
add_pages(app)


@contextlib.contextmanager
def _report_interruption(out: Path | None) -> Iterator[None]:
    """Exit on Ctrl-C with a message that says what was saved and how to resume."""
    try:
        yield
    except KeyboardInterrupt:
        message = "\nInterrupted."
        if out is None:
            message += " Nothing was saved."
        elif any(out.rglob("*.npz")) or any(out.rglob("*.parquet")):
            message += f" Finished blocks are saved in {out}. Run the same command again to resume."
        else:
            message += " No block was finished."
        Console(stderr=True).print(escape(message), highlight=False, soft_wrap=True)
        raise typer.Exit(130) from None


_FIXABLE = {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM, errno.EFBIG}
"""Errors of files and disks that users can fix."""


def main() -> NoReturn:
    """Run the command line. Errors that users can fix are printed without a traceback."""
    try:
        app(standalone_mode=True)
    except EnticeError as error:
        _print_error(str(error))
        page = page_of(sys.argv[1:])
        if page is not None:
            Console(stderr=True).print(f"See docs/{page}", highlight=False, soft_wrap=True)
        sys.exit(2)
    except OSError as error:
        if error.errno not in _FIXABLE:
            raise
        file = error.filename2 or error.filename
        where = f" ({file})" if file else ""
        _print_error(
            f"A file could not be opened or written: {error.strerror}{where}. Free some space or "
            "change the permissions, or use another folder, and run the command again."
        )
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(130)
    sys.exit(0)


def _print_error(text: str) -> None:
    Console(stderr=True).print(
        f"[bold red]Error:[/] {escape(text)}", highlight=False, soft_wrap=True
    )
