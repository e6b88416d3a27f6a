"""`entice serve` with one address more, which does nothing: what `load.py` measures against.

It stands behind the same server, door, router, admission and reading of the body as an offer does.
"""

from __future__ import annotations

import argparse

from entice.service.http import app
from entice.service.http.context import AppContext
from entice.service.http.offers import OfferRequest
from entice.service.http.operation import Answered, Body, Call, Operation, Reply
from entice.service.http.server import serve
from entice.studio.app import studio_extensions


async def empty(context: AppContext, call: Call) -> Reply:
    """Do nothing."""
    return Reply(b"{}", 201)


def main() -> None:
    """Serve until told to stop."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--db", required=True)
    parser.add_argument("--port", type=int, required=True)
    options = parser.parse_args()
    body = Body(OfferRequest, {"plain": {"player": "ann"}})
    answered = Answered({201: "Nothing was done."}, dict, {"nothing": {}})
    operation = Operation("POST", "/bench/empty", empty, answered, frozenset({"decide"}), body)
    app.OPERATIONS = (*app.OPERATIONS, operation)
    serve(options.db, port=options.port, extensions=studio_extensions)


if __name__ == "__main__":
    main()
