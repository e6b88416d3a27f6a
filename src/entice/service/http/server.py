"""`entice serve`: Granian, with one event loop and one writer in each worker process."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shlex
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
from entice.local_token import create_token, remove_token, token_file
from entice.service import logs
from entice.service.http.connections import ClientLimits, Connections, listen, raise_file_limit
from entice.service.operations.webhook_request import parse_networks
from entice.service.storage.api_keys import Keys
from entice.service.storage.player_hasher import player_hasher_for
from entice.service.storage.store import open_store

if TYPE_CHECKING:
    from entice.service.http.context import Extension

STOP_TIMEOUT = 45
"""Seconds after which a worker that does not stop is killed."""
BACKLOG = 1024
"""Maximum number of connections that wait to be accepted."""
MAX_BUFFER = 32 * 1024
"""Maximum size of a request's head, and of what Granian reads ahead of a body, in bytes."""


class Settings(msgspec.Struct, frozen=True):
    """Settings of a worker process."""

    db: str
    secret_file: Path | None
    token: str | None
    """Accepted in place of a key, as long as no key exists."""
    port: int
    limits: ClientLimits
    webhook_networks: tuple[str, ...]


def serve(
    db: str,
    host: str = "127.0.0.1",
    port: int = 8000,
    workers: int = 1,
    secret_file: Path | None = None,
    report: Callable[[str], None] = print,
    extensions: Callable[[], Sequence[Extension]] = tuple,
    limits: ClientLimits | None = None,
    webhook_networks: Sequence[str] = (),
) -> None:
    """Serve a database until SIGTERM or SIGINT. Requests in progress are finished first.

    Parameters
    ----------
    db
        URL of the database.
    host, port
        Address to listen on. Port 0 chooses a free port.
    workers
        Number of worker processes. More than one requires PostgreSQL.
    secret_file
        File with the secret that players' ids are hashed with, if not the default file.
    report
        Called once, with the address and how to open it.
    extensions
        Called in each worker process. Returns the extensions to mount, such as the studio.
    limits
        Limits on clients and their connections, if not the default ones.
    webhook_networks
        Networks that webhooks may reach besides public addresses, such as 10.0.0.0/8.
    """
    limits = limits or ClientLimits()
    limits.check()
    address = _address(host)
    _check_workers(db, workers)
    parse_networks(webhook_networks)
    keyless = _check_database(db, secret_file, address.is_loopback, host)
    listener = _listen(str(address), port)
    chosen, port = port, listener.getsockname()[1]
    with _shared_metrics(workers), _local_token(str(address), port, keyless, chosen != 0) as token:
        server = _granian(listener, workers)
        where = f"http://{f'[{address}]' if address.version == 6 else address}:{port}"
        has_page = extensions is not tuple  # not the default, which mounts nothing
        greeting = _greeting(where, token, token_file(str(address), port), has_page)
        server.on_startup(lambda: report(greeting))
        logs.configure()
        logs.event("start", address=where, workers=workers)
        logs.flush()
        settings = Settings(db, secret_file, token, port, limits, tuple(webhook_networks))
        load = partial(worker_app, settings, extensions)
        try:
            server.serve(target_loader=load, wrap_loader=False)
        finally:  # a worker that dies ends `serve` with SystemExit
            logs.event("stop")
            logs.flush()


def worker_app(settings: Settings, extensions: Callable[[], Sequence[Extension]]) -> Any:
    """Open the database in a worker process and build the application."""
    from entice.service.domain.clock import Clock
    from entice.service.http.app import make_app
    from entice.service.http.read_process import ReadProcess
    from entice.service.operations.service_queries import ServiceQueries
    from entice.service.storage.writer import Writer

    # First of all: the process has no threads and no open database yet.
    read_processes = [ReadProcess.start(settings.db) for _ in ("fast", "slow")]
    logs.configure()
    # Until the app runs, SIGTERM exits at once: Granian would ignore it, and no request is lost.
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    try:
        store = open_store(settings.db)
        players = player_hasher_for(store, settings.secret_file)
    except EnticeError as error:
        logs.database_error(error)
        logs.flush()
        sys.exit(1)
    app = make_app(
        store,
        Writer(store, Clock(), players=players),
        ServiceQueries(store),
        Keys(store, players),
        players,
        token=settings.token,
        extensions=extensions(),
        connections=Connections(settings.limits, settings.port),
        webhook_networks=parse_networks(settings.webhook_networks),
        read_processes=read_processes,
    )
    app.on_startup.append(partial(_end_streams_first, app.state.context))
    app.on_shutdown.append(store.close)
    threading.Thread(target=_end_with_parent, args=(os.getppid(),), daemon=True).start()
    return app


async def _end_streams_first(context: Any) -> None:
    """On SIGTERM, end all streams and then stop Granian by SIGINT.

    Granian runs the application's shutdown only when no connection is left, and a stream keeps its
    connection open until it ends.
    """

    def stop() -> None:
        context.start_shutdown()
        os.kill(os.getpid(), signal.SIGINT)

    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop)


def _end_with_parent(parent: int) -> None:
    """Stop when the parent process is gone, since no other process would stop this one."""
    while os.getppid() == parent:
        time.sleep(0.5)
    os.kill(os.getpid(), signal.SIGTERM)


def _granian(listener: socket.socket, workers: int) -> Any:
    from granian.constants import HTTPModes, Interfaces
    from granian.http import HTTP1Settings

    from entice.service.http.supervisor import Supervisor

    return Supervisor(
        "entice.service.http.server",
        listener,
        interface=Interfaces.ASGI,
        workers=workers,
        runtime_threads=1,
        http=HTTPModes.http1,
        http1_settings=HTTP1Settings(
            header_read_timeout=10_000, keep_alive=True, max_buffer_size=MAX_BUFFER
        ),
        websockets=False,
        backlog=BACKLOG,
        backpressure=raise_file_limit(),
        log_enabled=False,
        log_access=False,
        respawn_failed_workers=workers > 1,
        workers_kill_timeout=STOP_TIMEOUT,
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
            "must be 1 with SQLite, which allows one writing process",
            given=workers,
            todo="One worker commits many requests at once. For several workers, use PostgreSQL: "
            "--db postgresql://user@host/name.",
        )


def _check_database(db: str, secret_file: Path | None, loopback: bool, host: str) -> bool:
    """Check and migrate the database, and create the secret; return whether there are no keys."""
    with contextlib.closing(open_store(db)) as store:
        store.check_integrity()
        keyless = not Keys(store, player_hasher_for(store, secret_file)).any()
        if keyless and not loopback:
            raise InputError(
                "host",
                "must be a loopback address, such as 127.0.0.1, as long as no key exists: the "
                "token that is then used in its place is for this machine only",
                given=host,
                todo="Create a key first: entice keys create --role admin --name me",
            )
        return keyless


@contextlib.contextmanager
def _local_token(address: str, port: int, keyless: bool, keep: bool) -> Iterator[str | None]:
    """Create the token of a service without keys; keep its file for a restart on the same port."""
    if not keyless:
        remove_token(address, port)
        yield None
        return
    try:
        yield create_token(address, port)
    finally:
        if not keep:
            remove_token(address, port)


def _greeting(where: str, token: str | None, file: Path, has_page: bool) -> str:
    """Return the text that `entice serve` prints when it starts."""
    if token is None:
        browser = "Open it in a browser, or try" if has_page else "Try"
        return f"Entice is at {where}\n{browser}: curl {where}/healthz"
    browser = f"Open it in a browser: {where}/#key={token}\nor try" if has_page else "Try"
    return (
        f"Entice is at {where}\n"
        f"{browser}: curl -H @{shlex.quote(str(file))} {where}/v1/campaigns\n"
        "This token allows everything until you create a key with `entice keys create`."
    )


def _listen(address: str, port: int) -> socket.socket:
    try:
        return listen(address, port, BACKLOG)
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        rule = f"cannot be bound at {address} ({reason})"
        raise InputError("port", rule, given=port, todo="Choose another --port.") from error


@contextlib.contextmanager
def _shared_metrics(workers: int) -> Iterator[None]:
    """Create the folder in which several workers share their metrics."""
    if workers == 1:
        yield
        return
    with tempfile.TemporaryDirectory(prefix="entice-metrics-") as folder:
        os.environ["PROMETHEUS_MULTIPROC_DIR"] = folder
        try:
            yield
        finally:
            del os.environ["PROMETHEUS_MULTIPROC_DIR"]
