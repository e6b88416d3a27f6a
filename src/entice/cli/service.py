"""The service's commands. Heavy imports wait inside, so that --help is quick."""

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

from entice.errors import InputError

if TYPE_CHECKING:
    from entice.service.storage.store import Store

Db = Annotated[
    str,
    typer.Option(
        envvar="ENTICE_DB",
        help="The database: sqlite:///entice.db (a file here; four slashes: from the root) or "
        "postgresql://user@host/name.",
    ),
]
DEFAULT_DB = "sqlite:///entice.db"
SecretFile = Annotated[
    Path | None,
    typer.Option(
        help="File with the secret for players' ids: 64 hexadecimal digits. By default "
        "ENTICE_SECRET or, with SQLite, a file beside the database, such as entice.db.secret, "
        "made at first use."
    ),
]

_ID_WIDTH = 18
"""Of a campaign's id, such as c_9f2c1ab34d5e6f70."""
_NUMBERS = ("offers", "ratings", "committed", "reserved", "budget")
"""Columns of `entice campaign list` that are aligned to the right."""

keys = typer.Typer(help="API keys: who may call the service, and for what.", no_args_is_help=True)
campaign = typer.Typer(help="Campaigns, without a running service.", no_args_is_help=True)


def serve(
    db: Db = DEFAULT_DB,
    host: Annotated[
        str, typer.Option(help="Address to listen at. Others than loopback need a key first.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to listen at; 0 is any free one.")] = 8000,
    workers: Annotated[int, typer.Option(help="Processes. More than one needs PostgreSQL.")] = 1,
    secret_file: SecretFile = None,
) -> None:
    """Serve campaigns over HTTP: an arm and a price in one call.

    Makes the database at first use. Everything that was answered is on disk. Logs go to standard
    error, one JSON object a line. SIGTERM and Ctrl-C end it once all that is waiting is done.

    On this machine alone no key is needed until there is one. To serve others:

    ```sh
    entice keys create --role admin --name me
    entice serve --host 0.0.0.0
    ```

    The studio is at /, to look at campaigns and to simulate; without keys it changes nothing. The
    description of the API is at /openapi.json, metrics for Prometheus are at /metrics.
    """
    from entice.service.http.server import serve as run_server
    from entice.studio.app import studio_extensions

    run_server(
        db, host, port, workers, secret_file,
        report=lambda text: print(text, flush=True), extensions=studio_extensions,
    )  # fmt: skip


@keys.command("create")
def create_key(
    role: Annotated[
        list[str],
        typer.Option(
            help="admin: everything. decide: make offers. feedback: accept, decline, rate, "
            "reverse, organic ratings. read: look at everything. May be given several times."
        ),
    ],
    name: Annotated[str, typer.Option(help="Whose it is; for you.")],
    campaign: Annotated[
        str | None, typer.Option(help="The only campaign that it opens. By default all.")
    ] = None,
    db: Db = DEFAULT_DB,
) -> None:
    """Make a key and print it. It can't be shown again: only its hash is kept.

    From the first key on, every request needs one, on this machine too.
    """
    from entice.service.storage.api_keys import Keys

    with _store(db) as store:
        _, secret = Keys(store).create(",".join(role), campaign, name)
    print(secret)


@keys.command("list")
def list_keys(db: Db = DEFAULT_DB) -> None:
    """List all keys, revoked ones too. The keys themselves are not known."""
    from entice.service.storage.api_keys import Keys

    with _store(db, existing=True) as store:
        found = Keys(store).list()
    rows = []
    for key in found:
        times = ("" if at is None else _minute(at) for at in (key.created, key.revoked))
        folded = (at.replace(" ", "\n", 1) for at in times)
        roles = key.role.replace(",", "\n")
        rows.append([key.name, key.id, roles, key.campaign or "all", *folded])
    _print_listing(("name", "id", "role", "campaign", "created", "revoked"), rows)


@keys.command("revoke")
def revoke_key(
    key: Annotated[str, typer.Argument(help="Its id, as `entice keys list` shows it.")],
    db: Db = DEFAULT_DB,
) -> None:
    """Let a key open nothing any more. A running service knows within a second."""
    from entice.service.storage.api_keys import Keys

    with _store(db, existing=True) as store:
        view = Keys(store).revoke(key)
    Console(highlight=False).print(f"Revoked {view.id} ({escape(view.name)}).")


@campaign.command("create")
def create_campaign(
    spec: Annotated[Path, typer.Argument(help="A campaign as TOML.", metavar="SPEC")],
    db: Db = DEFAULT_DB,
) -> None:
    """Begin a campaign from a file, and print its id.

    Also while the service runs. Money is in whole minor units, such as cents. A campaign looks
    like this:

    ```toml
    name = "Teas of the month"
    arms = ["oolong", "sencha", "matcha"]
    budget = 50000             # 500.00 in all
    price_of_a_star = 200      # 2.00 to a player who forgoes a star
    cap_per_offer = 300
    policy = { kind = "ucb" }
    probe = { share = 0.05, amount = 0.3 }
    ```
    """
    import msgspec

    from entice.service.domain.clock import Clock
    from entice.service.domain.commands import CreateCampaign
    from entice.service.domain.spec import CampaignSpec
    from entice.service.storage.writer import Writer

    asked = CampaignSpec.from_file(spec)
    with _store(db) as store:
        writer = Writer(store, Clock())
        writer.start()
        try:
            answer = writer.submit(CreateCampaign(asked)).result()
        finally:
            writer.stop()
    told = msgspec.json.decode(answer.body)
    money = asked.money.format
    print(
        f"{told['name']}: {len(asked.arms)} arms, budget {money(asked.budget)}, a star is worth "
        f"{money(asked.price_of_a_star)}",
        file=sys.stderr,
    )
    print(told["id"])


@campaign.command("list")
def list_campaigns(db: Db = DEFAULT_DB) -> None:
    """List all campaigns."""
    from entice.money import Currency
    from entice.service.storage.queries import Queries

    with _store(db, existing=True) as store:
        found = Queries(store).campaigns()
    rows = []
    for view in found:
        money = Currency(view.currency, view.currency_digits).format
        counts = [f"{n:,}" for n in (view.decisions, view.ratings)]
        amounts = [money(units) for units in (view.committed, view.reserved, view.budget)]
        rows.append([f"{view.id}\n{view.name}", view.status, *counts, *amounts])
    _print_listing(("id and name", "status", *_NUMBERS), rows)


def verify(
    campaign: Annotated[
        str | None, typer.Argument(help="The id of a campaign. By default all.")
    ] = None,
    db: Db = DEFAULT_DB,
) -> None:
    """Replay the log, to see whether anything was lost or tampered with.

    Every event is made again by the rules that made it first, its hash must follow from the one
    before, and what all of them add up to must be what the tables hold, byte for byte. Ends with
    code 1 and names the first bad event if not.
    """
    from entice.progress import reporting
    from entice.service.domain.errors import Corrupt
    from entice.service.operations.verify import count_events, rows_without_events
    from entice.service.operations.verify import verify as check

    console, bad = Console(highlight=False, soft_wrap=True), False
    try:
        with _store(db, existing=True) as store, reporting(None, "Replaying", "events") as report:
            store.check_integrity()
            total, done = count_events(store, campaign), 0
            if campaign is not None and total == 0:
                raise InputError("campaign", "is unknown", given=campaign)

            def progress(more: int) -> None:
                nonlocal done
                done += more
                report(done, total)

            for verdict in check(store, campaign, progress):
                bad = bad or verdict.fault is not None
                told = "as it should be" if verdict.fault is None else f"BAD. {verdict.fault}"
                name, events = escape(verdict.campaign), f"{verdict.events:,} events"
                console.print(f"{name}: {events} replayed, {escape(told)}")
            for fault in [] if campaign else rows_without_events(store):
                bad = True
                console.print(f"BAD. {escape(fault)}")
    except Corrupt as corrupt:
        console.print(f"BAD. {escape(str(corrupt))}")
        bad = True
    if bad:
        raise typer.Exit(1)


def export(
    campaign: Annotated[str, typer.Argument(help="The id of a campaign.")],
    out: Annotated[Path, typer.Option(help="The file to write: named .parquet, .csv or .jsonl.")],
    db: Db = DEFAULT_DB,
) -> None:
    """Write a campaign as a table: a row for each offer and each organic rating.

    Players are keyed hashes. `entice.estimate` reads the file as it is: t, arm, payment, feedback,
    probe and more. In CSV, text that a spreadsheet would take for a formula begins with an
    apostrophe.
    """
    from entice.service.operations.export import format_of, write

    form = format_of(out)
    _check_folder(out)
    with _store(db, existing=True) as store:
        rows = write(store, campaign, form, out)
    Console(highlight=False).print(f"{rows:,} rows: [bold]{escape(str(out))}[/]")


def backup(
    out: Annotated[Path, typer.Argument(help="The file to write. It must not exist yet.")],
    db: Db = DEFAULT_DB,
) -> None:
    """Copy a SQLite database to a file, also while the service runs.

    The secret for players' ids is not in it: keep a copy of that file too (entice.db.secret), in
    another place than the backups. For PostgreSQL use pg_dump.
    """
    from entice.service.storage.sqlite import SqliteStore

    if not db.startswith("sqlite:"):
        rule = "must be SQLite for this command"
        raise InputError("the database", rule, todo="For PostgreSQL use pg_dump.")
    _check_folder(out)
    if out.exists():
        raise InputError("the backup", "must be a new file; it exists", given=str(out))
    with _store(db, existing=True) as store:
        assert isinstance(store, SqliteStore)
        store.backup(out)
    Console(highlight=False).print(f"Backup: [bold]{escape(str(out))}[/]", soft_wrap=True)


def register(app: typer.Typer) -> None:
    """Add the commands to the command line."""
    for command in (serve, verify, export, backup):
        app.command()(command)
    app.add_typer(keys, name="keys")
    app.add_typer(campaign, name="campaign")


def _print_listing(heads: Sequence[str], rows: list[list[str]]) -> None:
    """Print a table, numbers to the right. In a narrow window the first column is folded.

    Rich cuts what does not fit, ids and amounts included. Here lines are longer than the window
    where folding does not suffice.
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


def _check_folder(out: Path) -> None:
    if not out.parent.is_dir():
        rule = "must be in a folder that exists"
        raise InputError("the file", rule, given=str(out), todo=f"Make it: mkdir -p {out.parent}")


def _minute(at: int) -> str:
    return f"{datetime.fromtimestamp(at / 1e6, UTC):%Y-%m-%d %H:%M} UTC"


@contextlib.contextmanager
def _store(db: str, *, existing: bool = False) -> Iterator[Store]:
    """Open a database, and make it only where that makes sense."""
    from entice.service.storage.store import open_store

    path = Path(db.removeprefix("sqlite:///"))
    if existing and db.startswith("sqlite:///") and not (path.exists() and path.stat().st_size):
        todo = "Give another --db, or start with `entice serve` or `entice campaign create`."
        raise InputError("the database", "must exist, and not be empty", given=db, todo=todo)
    with contextlib.closing(open_store(db)) as store:
        yield store
