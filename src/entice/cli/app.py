"""The command line. Heavy imports wait inside the commands, so that --help is quick."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, NoReturn

import typer
from rich.console import Console
from rich.markup import escape

import entice
from entice.cli.plan import plan
from entice.cli.service import register
from entice.cli.studio import demo
from entice.errors import EnticeError

app = typer.Typer(
    name="entice",
    help="Incentivized exploration under reward drift (Liu et al., AAAI 2020).\n\n"
    "Pay people to explore, and don't be fooled by their gratitude.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

Threads = Annotated[
    int | None,
    typer.Option(help="Threads to use; one for each core by default. Changes no number."),
]


def _print_version(asked: bool) -> None:
    if asked:
        print(entice.__version__)
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool,
        typer.Option(
            "--version", help="Print the version.", is_eager=True, callback=_print_version
        ),
    ] = False,
) -> None:
    pass


@app.command()
def reproduce(
    replications: Annotated[int, typer.Option(help="Independent runs of each cell.")] = 1000,
    seed: Annotated[
        int | None, typer.Option(help="Of all random numbers; drawn and printed if not given.")
    ] = None,
    horizon: Annotated[
        int | None,
        typer.Option(
            help="Rounds, instead of the 20,000 and 10,000 that the paper's numbers need."
        ),
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder for tables, figures and report.")] = Path(
        "reproduction"
    ),
    threads: Threads = None,
) -> None:
    """Reproduce the paper: Tables 1 and 2, Figures 2 and 3, the greedy baseline.

    Each policy runs twice: as the paper writes it, and in the set-up that explains the published
    numbers. Every published value is set against the range of one run (5 % to 95 % of all runs).

    Writes table1.csv, table2.csv, coverage.csv and greedy.csv; the figures fig2, fig3, explained
    and lock_in as PNG and SVG; and report.html, a page to read it all on.
    """
    from entice.paper.reproduce import reproduce as work
    from entice.paper.terminal import show

    console = Console(highlight=False)
    reproduction = work(
        replications=replications, seed=seed, horizon=horizon, out=out, threads=threads
    )
    show(reproduction, console)
    console.print(f"\nReport: [bold]{escape(str(out / 'report.html'))}[/] (open it in a browser)")


@app.command()
def run(
    study: Annotated[Path, typer.Argument(help="A study as TOML.")],
    out: Annotated[Path, typer.Option(help="Folder for the result, and for going on later.")],
    threads: Threads = None,
    cluster: Annotated[
        str | None,
        typer.Option(
            help="Run on a Dask cluster: the address of its scheduler, such as "
            "tcp://scheduler:8786. Needs entice\\[cluster]. Changes no number."
        ),
    ] = None,
    include: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="<file.py>",
            help="A Python file with functions that the study names; it is sent along to the "
            "workers of a cluster. May be given several times.",
        ),
    ] = None,
) -> None:
    """Run a study from a file and keep its result.

    Interrupted? Run the same command again to resume; the numbers will be the same. A finished
    study is read, not run again. With more replications the missing ones are run. On a cluster,
    workers may come and go.

    Writes final.parquet (one row for each run), curves.parquet (means and quantiles over time),
    as_run.toml (what was run, with its seed) and a folder blocks-… (what more replications
    would build on; it may be deleted). A study looks like this:

    ```toml
    horizon = 20000
    replications = 1000
    seed = 7
    arms = { kind = "gaussian", means = [0.9, 0.8, 0.7] }
    policies = [{ kind = "ucb" }, { kind = "epsilon_greedy", c = 5 }]
    drifts = [{ kind = "linear", l = 1.1 }]
    ```

    A list of values runs each: l = [0, 0.5, 1.1] is three drifts, horizon = [1000, 10000] two
    studies, each with a sub-folder of its own. Of a policy or a drift, any parameter may be a list.
    """
    from entice.study.results.table import summary_table
    from entice.study.running.run import run as run_study
    from entice.study.sweep import sweep_from_file
    from entice.user_functions import include as load

    for file in include or ():
        load(file)
    spec = sweep_from_file(study)
    with _told_if_interrupted(out):
        result = run_study(spec, out=out, threads=threads, cluster=cluster)
    console = Console(highlight=False)
    for part in result.parts:
        console.print(summary_table(part))
        engines = zip(part.study.policy_labels, part.engines, strict=True)
        told = ", ".join(f"{label} {engine}" for label, engine in engines)
        console.print(f"Engines: {escape(told)}")
        console.print(f"Seed {part.study.seed}.")
    console.print(f"Result: [bold]{escape(str(out))}[/]")


@app.command()
def bounds(
    study: Annotated[Path, typer.Argument(help="A study as TOML, as for `entice run`.")],
    out: Annotated[
        Path | None,
        typer.Option(
            help="Folder for the result, which is run there or read from there, as by "
            "`entice run`, and for bounds.csv and the figures. By default nothing is kept."
        ),
    ] = None,
    threads: Threads = None,
) -> None:
    """Set the theorems' bounds against a run of the study.

    For each policy and drift: the bound as stated and, where that differs, as proved; whether it
    applies (everything that it assumes holds), whether it is vacuous (beyond what any run could
    reach), the measured mean, the value that 95 % of runs stay under, and the ratio of bound and
    mean. Numbers beside the answers lead to the reasons below.

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
    all_bounds(spec)  # what can't be computed is told before anything is run
    with _told_if_interrupted(out):
        if out is None:
            result = run_study(spec, threads=threads)
        else:
            result = run_in_folder(spec, out, threads=threads)
    console, rows = Console(highlight=False), all_bounds(result)
    show_bounds(rows, spec.horizon, console)
    if out is not None:
        told = rows.with_columns(pl.col("doubts", "emptiness").list.join("; "))
        told.write_csv(out / "bounds.csv")
        for metric in ("regret", "compensation"):
            plot_bounds(result, metric).savefig(out / f"{metric}.png")
        console.print(f"\nTable and figures: [bold]{escape(str(out))}[/]")


@app.command()
def growth(
    study: Annotated[
        Path | None,
        typer.Argument(
            help="A study as TOML; its horizon is the last one. By default the paper's nine arms, "
            "four policies, three linear drifts and a step, up to 10,000,000 rounds."
        ),
    ] = None,
    replications: Annotated[
        int | None, typer.Option(help="Independent runs of each cell, instead of the study's.")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Of all random numbers.")] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Folder for growth.csv, points.csv, growth.png and as_run.toml."),
    ] = None,
    threads: Threads = None,
) -> None:
    """Ask how regret and compensation grow with T: like log T, or like a power.

    Runs the study at its own horizon (at least 10,000) and at shorter ones down to 1,000, two for
    each decade, and reports the exponent d log R / d log T over the first and the last decade, and
    which of a + b log T and a T^p fits. It falls towards 0 where growth is logarithmic, and is 1
    where regret is linear. Says when T is too short for a verdict: use at least 100,000 rounds.
    An interrupted run keeps nothing.
    """
    import msgspec

    from entice.study.running.output_folder import study_folder
    from entice.study.spec import Study
    from entice.theory.growth import growth as grow
    from entice.theory.growth import paper_study
    from entice.theory.terminal import show_growth

    spec = paper_study() if study is None else Study.from_file(study)
    changes = {"replications": replications, "seed": seed}
    spec = msgspec.structs.replace(spec, **{k: v for k, v in changes.items() if v is not None})
    console = Console(highlight=False)
    with study_folder(spec, out) as spec, _told_if_interrupted(None):
        found = grow(spec, threads=threads)
        show_growth(found, console)
        console.print(f"Seed {spec.seed}, {spec.replications:,} runs of each cell and horizon.")
        if out is not None:
            found.table.write_csv(out / "growth.csv")
            found.points.write_csv(out / "points.csv")
            found.plot().savefig(out / "growth.png")
            console.print(f"Table and figure: [bold]{escape(str(out))}[/]")


@app.command()
def atlas(
    replications: Annotated[int, typer.Option(help="Independent runs of each cell.")] = 200,
    horizon: Annotated[int, typer.Option(help="Rounds.")] = 20_000,
    seed: Annotated[
        int | None, typer.Option(help="Of all random numbers; drawn and printed if not given.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Folder for atlas.csv and atlas.png.")] = None,
    threads: Threads = None,
) -> None:
    """Send policies through many worlds, and see where each breaks.

    Drifts of all kinds, ratings that are late or missing, players who decline, arms that cheat, an
    attacker. Regret and compensation are set against the best policy of each world.

    The first time takes minutes, since each policy is compiled for each kind of world.
    """
    from entice.atlas import atlas as explore
    from entice.atlas.terminal import show_atlas
    from entice.study.running.output_folder import output_folder

    console = Console(highlight=False)
    with output_folder(out) if out is not None else contextlib.nullcontext():
        with _told_if_interrupted(None):
            found = explore(replications=replications, horizon=horizon, seed=seed, threads=threads)
        show_atlas(found, console)
        if out is not None:
            found.table.write_csv(out / "atlas.csv")
            found.plot().savefig(out / "atlas.png")
            console.print(f"Table and figure: [bold]{escape(str(out))}[/]")
    console.print(f"Seed {found.seed}, {replications:,} runs of {horizon:,} rounds for each cell.")


app.command()(plan)
app.command()(demo)
register(app)


@contextlib.contextmanager
def _told_if_interrupted(out: Path | None) -> Iterator[None]:
    """End a run by Ctrl-C with a word on what was kept, and how to go on."""
    try:
        yield
    except KeyboardInterrupt:
        told = "\nInterrupted."
        if out is None:
            told += " Nothing was kept."
        elif out.exists():
            told += f" What was finished is kept in {out}: run the same command to go on."
        Console(stderr=True).print(escape(told), highlight=False, soft_wrap=True)
        raise typer.Exit(130) from None


def main() -> NoReturn:
    """Run the command line; what users can mend is told in a sentence, without a traceback."""
    try:
        app(standalone_mode=True)
    except EnticeError as error:
        Console(stderr=True).print(
            f"[bold red]Error:[/] {escape(str(error))}", highlight=False, soft_wrap=True
        )
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(130)
    sys.exit(0)
