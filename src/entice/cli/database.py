"""Commands that verify, back up and restore a database."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape

from entice.cli.service import DEFAULT_DB, Db, SecretFile, check_output, opened_store
from entice.errors import InputError
from entice.extras import require

HeadFile = Annotated[
    Path | None,
    typer.Option(
        help="File that `entice head` has written. The database must continue from it.",
        metavar="FILE",
    ),
]


def verify(
    campaign: Annotated[str | None, typer.Argument(help="Id of a campaign. Default: all.")] = None,
    head: HeadFile = None,
    db: Db = DEFAULT_DB,
    secret_file: SecretFile = None,
) -> None:
    """Verify that no event was lost or altered, by replaying the event log.

    The replay must reproduce every event, every hash must follow from the previous one, and the
    final state must equal the tables, byte for byte. Otherwise the first mismatch of each campaign
    is reported, and the exit code is 1. API keys and stored responses are checked by keyed
    checksums, if the secret for players' ids is there.

    With --head, the database must also continue from heads that were kept before: a log that was
    cut or rewritten, a key that was altered or removed, and a response that was altered or removed
    are reported.
    """
    require("service")
    from entice.progress import reporting
    from entice.service.domain.errors import Corrupt
    from entice.service.operations.heads import check_heads, load_heads
    from entice.service.operations.verify import can_check_rows, count_events, rows_without_events
    from entice.service.operations.verify import verify as check
    from entice.service.storage.player_hasher import known_player_hasher

    console, failed = Console(highlight=False, soft_wrap=True), False
    heads = load_heads(head) if head is not None else None
    try:
        with (
            opened_store(db, existing=True) as store,
            reporting(None, "Replaying", "events") as report,
        ):
            store.check_integrity()
            players = known_player_hasher(store, secret_file)
            total, done = count_events(store, campaign), 0
            is_kept = heads is not None and campaign in heads.campaigns
            if campaign is not None and total == 0 and not is_kept:
                raise InputError(
                    "campaign",
                    "must be the id of a campaign",
                    given=campaign,
                    todo="See `entice campaign list`.",
                )

            def progress(more: int) -> None:
                nonlocal done
                done += more
                report(done, max(done, total))

            for result in check(store, campaign, progress):
                failed = failed or result.fault is not None
                outcome = "OK" if result.fault is None else f"FAILED. {result.fault}"
                events = f"{result.events:,} {'event' if result.events == 1 else 'events'}"
                console.print(escape(f"{result.campaign}: {events} replayed: {outcome}"))
            faults = [] if campaign else list(rows_without_events(store, players))
            faults += check_heads(store, heads, campaign) if heads is not None else []
            for fault in faults:
                failed = True
                console.print(f"FAILED. {escape(fault)}")
            if campaign is None and not can_check_rows(store, players):
                console.print("API keys and stored responses: not checked, without the secret.")
            if heads is not None and not failed:
                kept = f"{heads.at:%Y-%m-%d %H:%M} UTC"
                console.print(f"The database continues from the heads of {kept}.")
    except Corrupt as corrupt:
        console.print(f"FAILED. {escape(str(corrupt))}")
        failed = True
    if failed:
        raise typer.Exit(1)


def head(
    out: Annotated[
        Path | None, typer.Option(help="Output file, which is replaced. Printed if omitted.")
    ] = None,
    db: Db = DEFAULT_DB,
) -> None:
    """Print the head of each event log, of the API keys and of the stored responses, as JSON.

    Keep the file on another machine. `entice verify --head FILE` then finds changes that leave a
    consistent database: a log whose end was cut off, a campaign or key that was removed.
    """
    require("service")
    from entice.atomic_file import atomic_file
    from entice.service.operations.heads import encode_heads, read_heads

    if out is not None:
        check_output(out, db)
    with opened_store(db, existing=True) as store:
        found = read_heads(store)
    text = encode_heads(found)
    if out is None:
        print(text.decode(), end="")
        return
    with atomic_file(out) as file:
        file.write_bytes(text)
    count = f"{len(found.campaigns):,} {'campaign' if len(found.campaigns) == 1 else 'campaigns'}"
    Console(highlight=False).print(f"Heads of {count}: [bold]{escape(str(out))}[/]", soft_wrap=True)


def backup(
    out: Annotated[Path, typer.Argument(help="Output file, which must not exist.")],
    db: Db = DEFAULT_DB,
) -> None:
    """Back up a SQLite database to a file. The service may be running.

    The backup does not contain the secret for players' ids: also copy its file (entice.db.secret),
    and store it separately. For PostgreSQL, use pg_dump.
    """
    require("service")
    from entice.service.storage.sqlite import SqliteStore

    _sqlite_path(db, "Use pg_dump.")
    check_output(out, db)
    if out.exists():
        raise InputError("the output file", "must not exist yet", given=str(out))
    with opened_store(db, existing=True) as store:
        assert isinstance(store, SqliteStore)
        store.backup(out)
    Console(highlight=False).print(f"Backed up to [bold]{escape(str(out))}[/]", soft_wrap=True)


def restore(
    backup: Annotated[Path, typer.Argument(help="File that `entice backup` has written.")],
    db: Db = DEFAULT_DB,
    replace: Annotated[
        bool,
        typer.Option(
            "--replace",
            help="Replace an existing database, which is kept with .replaced added to its name.",
        ),
    ] = False,
    head: HeadFile = None,
    secret_file: SecretFile = None,
) -> None:
    """Restore a SQLite database from a backup, after verifying the backup as `entice verify` does.

    Stop the service first: a database that is in use is not replaced. Everything acknowledged after
    the backup is lost. The secret for players' ids is not part of a backup: put its file
    (entice.db.secret) back yourself.
    """
    require("service")
    from entice.progress import reporting
    from entice.service.domain.errors import Corrupt
    from entice.service.operations.heads import load_heads
    from entice.service.operations.restore import restore as restore_backup
    from entice.service.storage.player_hasher import VARIABLE, secret_file_of

    console = Console(highlight=False, soft_wrap=True)
    target = _sqlite_path(db, "Use pg_restore.")
    heads = load_heads(head) if head is not None else None
    try:
        with reporting(None, "Verifying", "events") as report:
            events = restore_backup(
                backup,
                target,
                replace=replace,
                heads=heads,
                secret_file=secret_file,
                progress=report,
            )
    except Corrupt as corrupt:
        console.print(f"FAILED. {escape(str(corrupt))}")
        raise typer.Exit(1) from None
    console.print(f"Restored {events:,} events: [bold]{escape(str(target))}[/]")
    secret = secret_file_of(f"sqlite:///{target}")
    if secret_file is None and not os.environ.get(VARIABLE) and secret and not secret.exists():
        console.print(
            f"Put the secret for players' ids back before you start: {escape(str(secret))}"
        )


def _sqlite_path(db: str, todo: str) -> Path:
    from entice.service.storage.store import without_password

    path = db.removeprefix("sqlite:///")
    if path in (db, ""):
        rule = "must be a SQLite database for this command"
        raise InputError("--db", rule, given=without_password(db), todo=todo)
    return Path(path)
