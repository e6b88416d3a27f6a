"""Commands of the service. Heavy imports are inside functions, so that --help is fast."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from rich.console import Console
from rich.markup import escape

from entice.atomic_file import atomic_file
from entice.errors import InputError
from entice.extras import missing_extra, require

if TYPE_CHECKING:
    from entice.service.storage.store import Store

Db = Annotated[
    str,
    typer.Option(
        envvar="ENTICE_DB",
        help="Database URL: sqlite:///entice.db (relative path; four slashes for an absolute one) "
        "or postgresql://user@host/name.",
    ),
]
DEFAULT_DB = "sqlite:///entice.db"
SecretFile = Annotated[
    Path | None,
    typer.Option(
        help="File with the secret for players' ids, as 64 hexadecimal digits. Default: the "
        "environment variable ENTICE_SECRET or, with SQLite, a file beside the database such as "
        "entice.db.secret, created at first use."
    ),
]

_ID_WIDTH = 18
"""The width of a campaign's id, such as c_9f2c1ab34d5e6f70."""
_NUMBERS = ("offers", "ratings", "committed", "reserved", "budget")
"""Columns of `entice campaign list` that are right-aligned."""

keys = typer.Typer(help="Create, list and revoke API keys.", no_args_is_help=True)
campaign = typer.Typer(
    help="Create and list campaigns, directly in the database.", no_args_is_help=True
)


def serve(
    db: Db = DEFAULT_DB,
    host: Annotated[
        str, typer.Option(help="Address to bind. Any other than loopback requires an API key.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to bind. 0 selects a free port.")] = 8000,
    workers: Annotated[
        int, typer.Option(help="Number of worker processes. More than one requires PostgreSQL.")
    ] = 1,
    secret_file: SecretFile = None,
    connections_per_address: Annotated[
        int,
        typer.Option(
            help="Maximum number of connections from one address other than loopback. 0: no limit, "
            "for a reverse proxy on another machine."
        ),
    ] = 256,
    client_timeout: Annotated[
        float,
        typer.Option(
            help="Seconds in which a client has to send a request, and to read a part of a "
            "response. Its connection is then closed."
        ),
    ] = 20.0,
    webhook_network: Annotated[
        list[str] | None,
        typer.Option(
            help="Network that webhooks may reach besides public addresses, also without TLS, such "
            "as 10.0.0.0/8. Can be repeated."
        ),
    ] = None,
) -> None:
    """Serve campaigns over HTTP.

    The database is created at first use. Every response is sent after its change is on disk. Logs
    are written to standard error, one JSON object per line. On SIGTERM or Ctrl-C, the service
    completes all waiting requests and exits.

    Every request requires an API key. As long as none exists, a token takes its place: it is in the
    address that this command prints, and in a file that only you can read, where `entice.client`
    finds it. To serve other machines, create a key:

    ```sh
    entice keys create --role admin --name me
    entice serve --host 0.0.0.0
    ```

    The studio, if installed, is at /. The OpenAPI description is at /openapi.json, and Prometheus
    metrics are at /metrics.
    """
    require("service")
    from entice.service.http.connections import ClientLimits
    from entice.service.http.server import serve as run_server
    from entice.studio.app import studio_extensions

    no_studio = missing_extra("studio")
    run_server(
        db, host, port, workers, secret_file,
        report=lambda text: print(f"{text}\n{no_studio}".rstrip(), flush=True),
        extensions=tuple if no_studio else studio_extensions,
        limits=ClientLimits(connections_per_address, client_timeout),
        webhook_networks=webhook_network or (),
    )  # fmt: skip


@keys.command("create")
def create_key(
    role: Annotated[
        list[str],
        typer.Option(
            help="Role: admin (everything), decide (make offers), feedback (accept, decline, rate, "
            "reverse, organic ratings) or read (read everything). Can be repeated."
        ),
    ],
    name: Annotated[str, typer.Option(help="Label for this key.")],
    campaign: Annotated[
        str | None, typer.Option(help="Campaign that the key is restricted to. Default: all.")
    ] = None,
    db: Db = DEFAULT_DB,
    secret_file: SecretFile = None,
) -> None:
    """Create an API key and print it. It cannot be shown again: only its hash is stored.

    The first key replaces the token of a running service (see `entice serve --help`) within a
    second.
    """
    require("service")
    from entice.service.storage.api_keys import Keys
    from entice.service.storage.player_hasher import player_hasher_for

    with opened_store(db) as store:
        players = player_hasher_for(store, secret_file)
        _, secret = Keys(store, players).create(",".join(role), campaign, name)
    print(secret)


@keys.command("list")
def list_keys(db: Db = DEFAULT_DB, secret_file: SecretFile = None) -> None:
    """List all API keys, including revoked ones. The keys themselves are not stored."""
    require("service")
    from entice.service.storage.api_keys import Keys
    from entice.service.storage.player_hasher import player_hasher_for

    with opened_store(db, existing=True) as store:
        stored = Keys(store, player_hasher_for(store, secret_file))
        found, altered = stored.list(), stored.altered()
    rows = []
    for key in found:
        times = ("" if at is None else _minute(at) for at in (key.created, key.revoked))
        folded = (at.replace(" ", "\n", 1) for at in times)
        roles = key.role.replace(",", "\n")
        number = f"{key.id}\nALTERED" if key.id in altered else key.id
        rows.append([key.name, number, roles, key.campaign or "all", *folded])
    _print_listing(("name", "id", "role", "campaign", "created", "revoked"), rows)
    if altered:
        print(
            "The rows of altered keys were changed by another program or a faulty disk. The "
            "service rejects these keys. Revoke them, and run `entice verify`."
        )


@keys.command("revoke")
def revoke_key(
    key: Annotated[str, typer.Argument(help="Id of the key, as shown by `entice keys list`.")],
    db: Db = DEFAULT_DB,
    secret_file: SecretFile = None,
) -> None:
    """Revoke an API key. A running service rejects it within a second."""
    require("service")
    from entice.service.storage.api_keys import Keys
    from entice.service.storage.player_hasher import player_hasher_for

    with opened_store(db, existing=True) as store:
        view = Keys(store, player_hasher_for(store, secret_file)).revoke(key)
    Console(highlight=False).print(f"Revoked {view.id} ({escape(view.name)}).")


@campaign.command("create")
def create_campaign(
    spec: Annotated[
        Path, typer.Argument(help="TOML file with the campaign's settings.", metavar="SPEC")
    ],
    db: Db = DEFAULT_DB,
) -> None:
    """Create a campaign from a file, and print its id.

    The service may be running. Money is in whole minor units, such as cents. Example:

    ```toml
    name = "Teas of the month"
    arms = ["oolong", "sencha", "matcha"]
    budget = 50000             # 500.00 in total
    price_of_a_star = 200      # 2.00 for forgoing one star
    cap_per_offer = 300
    policy = { kind = "ucb" }
    probe = { share = 0.05, amount = 0.3 }
    ```
    """
    require("service")
    import msgspec

    from entice.service.domain.clock import Clock
    from entice.service.domain.commands import CreateCampaign
    from entice.service.domain.spec import CampaignSpec
    from entice.service.storage.writer import Writer

    settings = CampaignSpec.from_file(spec)
    with opened_store(db) as store:
        writer = Writer(store, Clock())
        writer.start()
        try:
            result = writer.submit(CreateCampaign(settings)).result()
        finally:
            writer.stop()
    created = msgspec.json.decode(result.body)
    money = settings.money.format
    print(
        f"{created['name']}: {len(settings.arms)} arms, budget {money(settings.budget)}, "
        f"price of a star {money(settings.price_of_a_star)}",
        file=sys.stderr,
    )
    print(created["id"])


@campaign.command("list")
def list_campaigns(db: Db = DEFAULT_DB) -> None:
    """List all campaigns."""
    require("service")
    from entice.money import Currency
    from entice.service.storage.queries import Queries

    with opened_store(db, existing=True) as store:
        found = Queries(store).campaigns()
    rows = []
    for view in found:
        money = Currency(view.currency, view.currency_digits).format
        counts = [f"{n:,}" for n in (view.decisions, view.ratings)]
        amounts = [money(units) for units in (view.committed, view.reserved, view.budget)]
        rows.append([f"{view.id}\n{view.name}", view.status, *counts, *amounts])
    _print_listing(("id and name", "status", *_NUMBERS), rows)


def export(
    campaign: Annotated[str, typer.Argument(help="Id of a campaign.")],
    out: Annotated[Path, typer.Option(help="Output file: .parquet, .csv or .jsonl.")],
    db: Db = DEFAULT_DB,
    after: Annotated[
        int | None,
        typer.Option(min=0, help="Export only rows that changed after this event. 0: all rows."),
    ] = None,
) -> None:
    """Export a campaign as a table, with a row for each offer and each organic rating.

    `entice.estimate` reads the file: it has the columns t, arm, payment, feedback, probe and more.
    Players appear as keyed hashes. In CSV, text that a spreadsheet would interpret as a formula is
    prefixed with an apostrophe.
    """
    require("service")
    from polars.exceptions import PolarsError

    from entice.service.operations.export import export_campaign, format_of

    file_format = format_of(out)
    check_output(out, db)
    with opened_store(db, existing=True) as store, atomic_file(out) as temporary:
        try:
            rows, last_event = export_campaign(store, campaign, file_format, temporary, after)
        except (OSError, PolarsError) as error:
            rule = f"could not be written ({getattr(error, 'strerror', None) or error})"
            todo = "Check that the disk is not full and the folder is writable."
            raise InputError("--out", rule, given=str(out), todo=todo) from error
    count = f"{rows:,} {'row' if rows == 1 else 'rows'}"
    console = Console(highlight=False)
    console.print(f"Exported {count}: [bold]{escape(str(out))}[/]")
    if after is not None:
        console.print(f"For the rows that change from now on: --after {last_event}")


def register(app: typer.Typer) -> None:
    """Register the commands."""
    for command in (serve, export):
        app.command()(command)
    app.add_typer(keys, name="keys")
    app.add_typer(campaign, name="campaign")


def _print_listing(heads: Sequence[str], rows: list[list[str]]) -> None:
    """Print a table. In a narrow terminal the first column is wrapped.

    Rich truncates cells that do not fit, including ids and amounts. If wrapping is not enough, the
    lines are wider than the terminal instead.
    """
    from rich.box import SIMPLE_HEAD
    from rich.cells import cell_len
    from rich.table import Table

    console = Console(highlight=False)
    table = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0), show_edge=False)
    columns = zip(heads, *rows, strict=True)
    widths = [max(cell_len(line) for text in c for line in text.split("\n")) for c in columns]
    others = sum(widths[1:]) + 2 * len(widths) - 1
    widths[0] = min(widths[0], max(_ID_WIDTH, console.width - others))
    for head, width in zip(heads, widths, strict=True):
        justify: Literal["left", "right"] = "right" if head in _NUMBERS else "left"
        table.add_column(head, justify=justify, width=width, overflow="fold")
    for row in rows:
        table.add_row(*map(escape, row))
    console.width = max(console.width, others + widths[0])
    console.print(table)


def check_output(out: Path, db: str) -> None:
    """Raise `InputError` if an output file cannot be written, or would replace something else."""
    if not out.parent.is_dir():
        rule = "must be in an existing folder"
        todo = f"Create it: mkdir -p {out.parent}"
        raise InputError("the output file", rule, given=str(out), todo=todo)
    database = Path(db.removeprefix("sqlite:///"))
    if out.exists() and (not out.is_file() or (database.exists() and out.samefile(database))):
        rule = "must be a new or a regular file, and not the database"
        raise InputError("the output file", rule, given=str(out), todo="Use another name.")


def _minute(at: int) -> str:
    return f"{datetime.fromtimestamp(at / 1e6, UTC):%Y-%m-%d %H:%M} UTC"


@contextlib.contextmanager
def opened_store(db: str, *, existing: bool = False) -> Iterator[Store]:
    """Open a database; with `existing`, do not create one."""
    from entice.service.storage.store import open_store

    path = Path(db.removeprefix("sqlite:///"))
    if existing and db.startswith("sqlite:///") and not (path.exists() and path.stat().st_size):
        todo = "Check --db, or create one with `entice serve` or `entice campaign create`."
        raise InputError("the database", "must exist and not be empty", given=db, todo=todo)
    with contextlib.closing(open_store(db)) as store:
        yield store
