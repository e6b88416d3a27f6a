"""A server with one more route, which breaks its promises: a control that must be detected."""

from __future__ import annotations

import msgspec
from litestar import Response, Router
from litestar.params import JSONBody

from entice.service.http.context import Extension
from entice.service.http.requests import ServiceRequest
from entice.service.http.responses import EncodedResponse
from entice.service.http.routes import ADMIN_ONLY, route
from entice.studio.app import studio_extensions
from service_faults.serve import serve


class Divisor(msgspec.Struct):
    """A number to divide by."""

    number: int


@route("POST", "/v1/divide", roles=ADMIN_ONLY, responses={201: "The quotient."})
async def divide(request: ServiceRequest, data: JSONBody[Divisor]) -> Response[int]:
    """Divide by a number.

    Fails for zero, and rejects negative numbers without problem details.
    """
    if data.number < 0:
        return EncodedResponse(b"must not be negative", 400, b"text/plain")
    return EncodedResponse(b"%d" % (1000 // data.number), 201)


def extensions() -> list[Extension]:
    """Return the studio and the broken route."""
    return [*studio_extensions(), Extension(Router("/", route_handlers=[divide]))]


def main() -> None:
    """Serve as `entice serve` does, with the broken route."""
    serve(extensions)


if __name__ == "__main__":
    from service_faults import broken  # under its own name, for worker processes to import

    broken.main()
