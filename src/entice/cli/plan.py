"""`entice plan`. Heavy imports wait inside, so that --help is quick."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape


def plan(
    file: Annotated[Path, typer.Argument(help="A plan as TOML.", metavar="PLAN")],
    out: Annotated[
        Path | None,
        typer.Option(
            help="Folder for plan.json, plan.png and plan.html. By default nothing is kept."
        ),
    ] = None,
    seed: Annotated[
        int | None, typer.Option(help="Of all random numbers, instead of the plan's.")
    ] = None,
    threads: Annotated[
        int | None,
        typer.Option(help="Threads to use; one for each core by default. Changes no number."),
    ] = None,
) -> None:
    """Ask before launch what exploring would cost, and what it would find.

    Draws many worlds from what you believe of your items and of your visitors' gratitude, runs each
    policy in all of them, and says which to take, the budget that is enough with the confidence
    that you want, when a given budget is used up, and how often a wrong item leads at the end.

    With --out, writes plan.html (a page to pass on), plan.png and plan.json. A plan looks like
    this:

    ```toml
    arms = 8                   # items to choose from
    visitors_a_day = 300
    days = 60
    price_of_a_star = 2.00     # what you pay a visitor who forgoes a star
    share_who_rate = 0.3
    drift = [0, 1]             # a payment worth a star raises a rating by 0 to 1 stars
    budget = 500
    spread = { centre = 4.1, width = 0.45 }
    ```
    """
    import contextlib

    import msgspec

    from entice.planner.forecast import forecast
    from entice.planner.forecast_table import print_forecast
    from entice.planner.spec import Plan
    from entice.study.running.output_folder import output_folder

    spec = Plan.from_file(file)
    if seed is not None:
        spec = msgspec.structs.replace(spec, seed=seed)
    console = Console(highlight=False)
    try:
        with output_folder(out) if out is not None else contextlib.nullcontext():
            found = forecast(spec, threads=threads)
            if out is not None:
                found.save(out)
    except KeyboardInterrupt:
        told = "\nInterrupted. Nothing was kept."
        Console(stderr=True).print(told, highlight=False, soft_wrap=True)
        raise typer.Exit(130) from None
    print_forecast(found, console)
    console.print(f"Seed {found.plan.seed}.")
    if out is not None:
        page = escape(str(out / "plan.html"))
        console.print(f"Page: [bold]{page}[/] (open it in a browser)", soft_wrap=True)
