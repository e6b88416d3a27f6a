"""`entice evaluate`. Heavy imports are inside the functions, so that --help is fast."""

from __future__ import annotations

import json as json_module
import math
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape

from entice.errors import InputError

if TYPE_CHECKING:
    from entice.estimate import Evaluation


def evaluate(
    log: Annotated[
        Path,
        typer.Argument(help="Campaign as `entice export` writes it: .parquet, .csv or .jsonl."),
    ],
    policy: Annotated[
        str,
        typer.Option(
            help="Policy to evaluate: greedy, uniform, always:ARM, ucb, thompson_sampling, or a "
            "table as in a campaign."
        ),
    ],
    level: Annotated[float, typer.Option(help="Confidence level of the intervals.")] = 0.95,
    without_drift: Annotated[
        bool,
        typer.Option(
            "--without-drift",
            help="Take the drift out of ratings, as estimated from the campaign's probe.",
        ),
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Estimate what another policy would have achieved, from a campaign's log.

    Reports the policy's rating per rated visitor and its payment per visitor, with intervals, by
    three methods. The campaign must have had `overlap`: without it, the log says nothing about arms
    that its policy did not choose, and is refused.

    The policy is applied decision by decision to the histories of the log. This is what it would
    have chosen with the averages, counts and limits of each decision, not what it would have
    learned by itself.

    Examples of policies:

    ```text
    --policy greedy                    # players' own choice: no campaign
    --policy always:oolong             # one arm, whenever it may be offered
    --policy uniform                   # each arm equally often
    --policy ucb
    --policy '{ kind = "epsilon_greedy", c = 5 }'
    ```
    """
    from entice.estimate import evaluate as evaluate_policy

    target = parse_target(policy)
    found = evaluate_policy(log, target, level=level, without_drift=without_drift)
    if json:
        plain = as_json(found, policy, level)
        print(json_module.dumps(plain, indent=2, ensure_ascii=False, allow_nan=False))
        return
    print_evaluation(found, policy, level, Console(highlight=False))


def parse_target(text: str) -> Any:
    """Return the policy that an option names."""
    from msgspec.structs import fields

    from entice.errors import did_you_mean
    from entice.estimate import Always, Uniform
    from entice.estimate.targets import kinds
    from entice.spec_parsing import parse_entry

    text = text.strip()
    if text == "uniform":
        return Uniform()
    if text.startswith("always:"):
        return Always(text.removeprefix("always:"))
    table: Any = {"kind": text}
    if text.startswith("{"):
        try:
            table = tomllib.loads(f"policy = {text}")["policy"]
        except tomllib.TOMLDecodeError as error:
            raise InputError("--policy", f"must be a TOML table ({error})", given=text) from error
    elif text not in kinds():
        todo = did_you_mean(text, [*kinds(), "uniform", "always:ARM"])
        raise InputError("--policy", "is unknown", given=text, todo=todo)
    for field in fields(kinds()[text]) if text in kinds() else ():
        if field.required:
            todo = f"For example: --policy '{{ kind = \"{text}\", {field.name} = 5 }}'."
            raise InputError(
                "--policy", f"must have the setting {field.name}", given=text, todo=todo
            )
    return parse_entry("policies", "--policy", table)


def as_json(found: Evaluation, policy: str, level: float) -> dict[str, Any]:
    """Return an evaluation as plain tables; None for numbers that JSON does not have."""
    return {"policy": policy, "level": level, **_as_plain(found)}


def _as_plain(value: Any) -> Any:
    if hasattr(value, "_asdict"):
        value = value._asdict()
    if isinstance(value, dict):
        return {name: _as_plain(member) for name, member in value.items()}
    if isinstance(value, tuple):
        return [_as_plain(member) for member in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def print_evaluation(found: Evaluation, policy: str, level: float, console: Console) -> None:
    """Print the estimates as a table, what they rest on, and what was left out."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(box=SIMPLE_HEAD, show_edge=False)
    table.add_column("")
    table.add_column("method")
    for head in ("estimate", f"{level:.0%} interval", "effective"):
        table.add_column(head, justify="right")
    titles = {"rating": "stars per rated visitor", "payment": f"{found.currency} per visitor"}
    for quantity, title in titles.items():
        for i, (method, one) in enumerate(getattr(found, quantity).items()):
            table.add_row(
                escape(title) if i == 0 else "", method, f"{one.value:.3f}",
                f"{one.low:.3f} to {one.high:.3f}", f"{one.effective:,.0f}",
            )  # fmt: skip
        logged = found.logged_rating if quantity == "rating" else found.logged_payment
        table.add_row("", "the campaign itself", f"{logged:.3f}", "", "", end_section=True)
    console.print(f"[bold]{escape(policy)}[/], in {found.decisions:,} decisions of the log")
    console.print(table)
    console.print(
        f"{found.rated:,} of {found.decisions:,} visitors rated. A rating per rated visitor says "
        "what the others would have rated only if whether visitors rate does not depend on it.",
        soft_wrap=True,
    )
    if found.drift is not None:
        slope = found.drift
        console.print(
            f"Without the drift: {slope.slope:.2f} stars per star paid ({slope.low:.2f} to "
            f"{slope.high:.2f}).",
            soft_wrap=True,
        )
    for why, count in found.left_out.items():
        console.print(f"Left out: {count:,} decisions {why}.", soft_wrap=True)
    for warning in found.warnings:
        console.print(f"[yellow]Warning:[/] {escape(warning)}", soft_wrap=True)
