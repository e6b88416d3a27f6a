"""A server with one more route, which breaks its promises: the control that must be found out."""

from __future__ import annotations

import argparse
from typing import Any

import msgspec

from entice.service.http import server as serving
from entice.service.http.server import Settings
from entice.service.http.server import worker_app as sound_app
from entice.studio.app import studio_extensions


class Number(msgspec.Struct):
    """Any number."""

    number: int


async def divide(context: Any, call: Any) -> Any:
    """Divide by a number.

    Fails where nobody has thought of it.
    """
    from entice.service.http.operation import Reply

    if call.body.number < 0:
        return Reply(b"must not be negative", 400, b"text/plain")
    return Reply(b"%d" % (1000 // call.body.number), 201)


def worker_app(settings: Settings, extensions: Any) -> Any:
    """Make the application as the service does, and add the route."""
    from entice.service.http import app
    from entice.service.http.operation import Answered, Body, Operation

    route = Operation(
        "POST", "/v1/divide", divide, Answered({201: "Divided."}, int), body=Body(Number, {})
    )
    app.OPERATIONS = (*app.OPERATIONS, route)
    return sound_app(settings, extensions)


def main() -> None:
    """Serve as `entice serve` does, and a bit more."""
    given = argparse.ArgumentParser()
    given.add_argument("--db", required=True)
    given.add_argument("--port", type=int, required=True)
    given.add_argument("--workers", type=int, required=True)
    asked = given.parse_args()
    serving.worker_app = worker_app
    serving.serve(asked.db, port=asked.port, workers=asked.workers, extensions=studio_extensions)


if __name__ == "__main__":
    from service_faults import broken  # by its own name: worker processes look for it there

    broken.main()
