"""`entice serve`: granian in front, one event loop and one writer in each worker process."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from entice.errors import EnticeError, InputError
from entice.service import logs
from entice.service.storage.api_keys import Keys
from entice.service.storage.player_hasher import player_hasher_for
from entice.service.storage.store import open_store

if TYPE_CHECKING:
    from entice.service.http.context import Extension

STOP_WITHIN = 45
"""Seconds after which a worker that was told to stop is killed."""


class Settings(msgspec.Struct, frozen=True):
    """What each worker process is told."""

    db: str
    secret_file: Path | None
    loopback: bool


def serve(
    db: str,
    host: str = "127.0.0.1",
    port: int = 8000,
    workers: int = 1,
    secret_file: Path | None = None,
    report: Callable[[str], None] = print,
    extensions: Callable[[], Sequence[Extension]] = tuple,
) -> None:
    """Serve a database until SIGTERM or SIGINT; then finish what is waiting, and return.

    Parameters
    ----------
    db
        Its address.
    host, port
        Where to listen. Port 0 is any that is free.
    workers
        Processes. More than one needs PostgreSQL.
    secret_file
        Where the secret for players' ids is, if not where it is by default.
    report
        Called once with the address and a line to try.
    extensions
        Called in each worker process for the extensions to mount, such as the studio.
    """
    address = _address(host)
    _check_workers(db, workers)
    loopback = address.is_loopback
    _check_database(db, secret_file, loopback, host)
    port = _free_port(str(address), port)
    with _shared_metrics(workers):
        server = _granian(str(address), port, workers)
        where = f"http://{f'[{address}]' if address.version == 6 else address}:{port}"
        tried = f"Open it in a browser, or try: curl {where}/healthz"
        server.on_startup(lambda: report(f"Entice is at {where}\n{tried}"))
        logs.configure()
        logs.event("start", address=where, workers=workers)
        load = partial(worker_app, Settings(db, secret_file, loopback), extensions)
        try:
            server.serve(target_loader=load, wrap_loader=False)
        finally:  # a worker's death ends it with SystemExit
            logs.event("stop")


def worker_app(settings: Settings, extensions: Callable[[], Sequence[Extension]]) -> Any:
    """Open the database in a worker process, and make the application."""
    from entice.service.domain.clock import Clock
    from entice.service.http.app import make_app
    from entice.service.storage.queries import Queries
    from entice.service.storage.writer import Writer

    logs.configure()
    # Nobody has been answered yet, so that there is nothing to finish. Granian would not notice.
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    try:
        store = open_store(settings.db)
        players = player_hasher_for(store, settings.secret_file)
    except EnticeError as error:
        logs.trouble(error)
        sys.exit(1)
    app = make_app(
        store,
        Writer(store, Clock()),
        Queries(store),
        Keys(store),
        players,
        open_to_loopback=settings.loopback,
        extensions=extensions(),
    )
    app.on_startup.append(partial(_end_streams_first, app.state.context))
    app.on_shutdown.append(store.close)
    threading.Thread(target=_end_with_parent, args=(os.getppid(),), daemon=True).start()
    return app


async def _end_streams_first(context: Any) -> None:
    """Have SIGTERM end all streams; granian then stops by SIGINT, once all requests are answered.

    Granian tells the application of the end only when no connection is left, and a stream that
    nobody ends would keep its own for ever.
    """

    def stop() -> None:
        context.end()
        os.kill(os.getpid(), signal.SIGINT)

    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop)


def _end_with_parent(parent: int) -> None:
    """Stop when the process that started us is gone: nobody else would stop us."""
    while os.getppid() == parent:
        time.sleep(0.5)
    os.kill(os.getpid(), signal.SIGTERM)


def _granian(address: str, port: int, workers: int) -> Any:
    from granian.constants import HTTPModes, Interfaces
    from granian.http import HTTP1Settings

    from entice.service.http.supervisor import Supervisor

    return Supervisor(
        "entice.service.http.server",
        address=address,
        port=port,
        interface=Interfaces.ASGI,
        workers=workers,
        runtime_threads=1,
        http=HTTPModes.http1,
        http1_settings=HTTP1Settings(header_read_timeout=10_000, keep_alive=True),
        websockets=False,
        backlog=1024,
        log_enabled=False,
        log_access=False,
        respawn_failed_workers=workers > 1,
        workers_kill_timeout=STOP_WITHIN,
    )


def _address(host: str) -> Any:
    try:
        return ip_address("127.0.0.1" if host == "localhost" else host)
    except ValueError:
        rule = "must be an IP address of this machine, such as 127.0.0.1, 0.0.0.0 or ::1"
        raise InputError("host", rule, given=host) from None


def _check_workers(db: str, workers: int) -> None:
    if workers < 1:
        raise InputError("workers", "must be a whole number of at least 1", given=workers)
    if workers > 1 and db.startswith("sqlite:"):
        raise InputError(
            "workers",
            "must be 1 with SQLite, which lets one process write at a time",
            given=workers,
            todo="One worker commits many requests at once. For more, use PostgreSQL: "
            "--db postgresql://user@host/name.",
        )


def _check_database(db: str, secret_file: Path | None, loopback: bool, host: str) -> None:
    """Say what is wrong before any worker starts; migrate, and make the secret."""
    with contextlib.closing(open_store(db)) as store:
        store.check_integrity()
        player_hasher_for(store, secret_file)
        if not loopback and not Keys(store).any():
            raise InputError(
                "host",
                "must be a loopback address, such as 127.0.0.1, while there is no key: whoever "
                "reaches the service could spend the budget",
                given=host,
                todo="Make a key first: entice keys create --role admin --name me",
            )


def _free_port(address: str, port: int) -> int:
    """Make sure that nobody listens there: granian would share the port and tell nobody."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family) as trial:
        trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            trial.bind((address, port))
        except (OSError, OverflowError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            rule = f"can't be listened to at {address} ({reason})"
            raise InputError("port", rule, given=port, todo="Give another --port.") from error
        found: int = trial.getsockname()[1]
        return found


@contextlib.contextmanager
def _shared_metrics(workers: int) -> Iterator[None]:
    """Give several workers a folder to count together in; it must be known before they start."""
    if workers == 1:
        yield
        return
    with tempfile.TemporaryDirectory(prefix="entice-metrics-") as folder:
        os.environ["PROMETHEUS_MULTIPROC_DIR"] = folder
        try:
            yield
        finally:
            del os.environ["PROMETHEUS_MULTIPROC_DIR"]
