"""`entice plan`. Heavy imports are inside the function, so that --help is fast."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape

from entice.extras import require


def plan(
    file: Annotated[Path, typer.Argument(help="Plan file (TOML).", metavar="PLAN")],
    out: Annotated[
        Path | None,
        typer.Option(
            help="Output folder for plan.json, plan.png and plan.html. Nothing is saved if omitted."
        ),
    ] = None,
    seed: Annotated[
        int | None, typer.Option(help="Random seed. Overrides the plan's seed.")
    ] = None,
    threads: Annotated[
        int | None,
        typer.Option(
            help="Number of threads. One for each core by default. Does not change results."
        ),
    ] = None,
) -> None:
    """Forecast the cost of exploration before a campaign starts.

    Draws many worlds from your beliefs about items and drift, and runs each policy in all of them.
    Reports the recommended policy, the budget that it needs at the given confidence, the day on
    which a given budget is used up, and how often a wrong item leads at the end.

    With --out, writes plan.html (a page to share), plan.png and plan.json. An example of a plan:

    ```toml
    arms = 8                   # items to choose from
    visitors_a_day = 300
    days = 60
    price_of_a_star = 2.00     # payment to a visitor who forgoes one star
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
    if out is not None:
        require("plot")
    if seed is not None:
        spec = msgspec.structs.replace(spec, seed=seed)
    console = Console(highlight=False)
    try:
        with output_folder(out) if out is not None else contextlib.nullcontext():
            found = forecast(spec, threads=threads)
            if out is not None:
                found.save(out)
    except KeyboardInterrupt:
        message = "\nInterrupted. Nothing was saved."
        Console(stderr=True).print(message, highlight=False, soft_wrap=True)
        raise typer.Exit(130) from None
    print_forecast(found, console)
    console.print(f"Seed {found.plan.seed}.")
    if out is not None:
        page = escape(str(out / "plan.html"))
        console.print(f"Page: [bold]{page}[/] (open it in a browser)", soft_wrap=True)
