"""The start of the servers that the trials compare `entice serve` with."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

from entice.service.http import server
from entice.studio.app import studio_extensions


def serve(extensions: Callable[[], Any] = studio_extensions) -> None:
    """Serve as `entice serve` does, with the options of the command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--db", required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--workers", type=int, required=True)
    options = parser.parse_args()
    server.serve(options.db, port=options.port, workers=options.workers, extensions=extensions)
