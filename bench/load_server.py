"""`entice serve` with one more route, which does nothing: the reference of `load.py`.

It has the same server, middleware, router, guard and body decoding as an offer.
"""

from __future__ import annotations

import argparse

from litestar import Response, Router
from litestar.params import JSONBody

from entice.api_types import OfferView
from entice.service.http.context import Extension
from entice.service.http.offers import OfferRequest
from entice.service.http.requests import ServiceRequest
from entice.service.http.responses import EncodedResponse
from entice.service.http.routes import DECIDE, route
from entice.service.http.server import serve
from entice.studio.app import studio_extensions


@route(
    "POST",
    "/bench/empty",
    roles=DECIDE,
    responses={201: "An empty object."},
    request={"plain": {"player": "ann"}},
)
async def empty(request: ServiceRequest, data: JSONBody[OfferRequest]) -> Response[OfferView]:
    """Do nothing."""
    return EncodedResponse(b"{}", 201)


def extensions() -> list[Extension]:
    """Return the studio and the empty route."""
    return [*studio_extensions(), Extension(Router("/", route_handlers=[empty]))]


def main() -> None:
    """Serve until a signal stops the process."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--db", required=True)
    parser.add_argument("--port", type=int, required=True)
    options = parser.parse_args()
    serve(options.db, port=options.port, extensions=extensions)


if __name__ == "__main__":
    main()
