"""The control of `slow_clients`: a server without limits on connections, bodies and responses."""

from __future__ import annotations

import asyncio
from typing import Any

import entice.service.http.app as app_module
import entice.service.http.server as serving
from entice.service.http.connections import Connections, RequestBody
from service_faults.serve import serve


async def watch_nothing(_: Connections) -> None:
    """Close no connection."""
    await asyncio.Event().wait()


async def receive(body: Any) -> Any:
    """Wait for a body as long as it takes."""
    return await body._receive()


def main() -> None:
    """Serve as `entice serve` does, without limits, with Granian's default connections."""
    replaced: Any = Connections
    replaced.watch = watch_nothing
    replaced = RequestBody
    replaced.receive = receive
    app_module.CHUNK = 2**40
    serving.raise_file_limit = lambda: serving.BACKLOG
    serve()


if __name__ == "__main__":
    from service_faults import unlimited  # worker processes import it by this name

    unlimited.main()
