"""Routes of the studio's page and its files."""

from __future__ import annotations

from typing import Annotated

from litestar import Response
from litestar.openapi.spec import Example
from litestar.params import PathParameter, QueryParameter

from entice.service.domain.errors import not_found
from entice.service.http.read_threads import in_thread
from entice.service.http.requests import ServiceRequest
from entice.service.http.responses import EncodedResponse
from entice.service.http.routes import PUBLIC, route
from entice.studio import page_bundle as page


@route("GET", "/", roles=PUBLIC, responses={200: "The page."}, media_types=("text/html",))
async def get_page(request: ServiceRequest) -> Response[str]:
    """Open the studio.

    The page itself contains no data. It requests all data from the API, with the key in its address
    (`/#key=…`) or one that it asks for.
    """
    return await _file(request, page.HOME)


@route(
    "GET",
    "/studio/{file:path}",
    roles=PUBLIC,
    responses={200: "The file."},
    media_types=(
        "text/javascript",
        "text/css",
        "text/html",
        "image/svg+xml",
        "image/png",
        "image/webp",
        "application/octet-stream",
    ),
)
async def get_page_file(
    request: ServiceRequest,
    file: Annotated[
        str,
        PathParameter(
            description="Path of a file of the studio.", examples=[Example(value="plotly.min.js")]
        ),
    ],
    v: Annotated[
        str | None, QueryParameter(description="Version of the file, by which browsers cache it.")
    ] = None,
    q: Annotated[
        str | None, QueryParameter(description="Words that the documentation's page searches.")
    ] = None,
    check_keywords: Annotated[
        str | None, QueryParameter(description="Sent by the form of the documentation's search.")
    ] = None,
    area: Annotated[
        str | None, QueryParameter(description="Sent by the form of the documentation's search.")
    ] = None,
) -> Response[str]:
    """Retrieve a file of the studio.

    Returns a script or style of the page, a page of the documentation if that is built, or 304 if
    `If-None-Match` names the current version.
    """
    return await _file(request, file.strip("/"))


async def _file(request: ServiceRequest, path: str) -> EncodedResponse[str]:
    found = await in_thread(page.find_file, path)
    if found is None:
        raise not_found("file", path[:80])
    headers = [
        (b"content-security-policy", found.csp),
        (b"cache-control", b"no-cache"),  # browsers cache it, but revalidate it by its ETag
        (b"etag", found.etag),
        (b"vary", b"accept-encoding"),
    ]
    if found.etag in request.raw_headers.get(b"if-none-match", b""):
        return EncodedResponse(b"", 304, found.media_type, headers)
    if b"gzip" in request.raw_headers.get(b"accept-encoding", b""):
        headers.append((b"content-encoding", b"gzip"))
        return EncodedResponse(found.compressed, 200, found.media_type, headers)
    return EncodedResponse(found.body, 200, found.media_type, headers)


ROUTES = (get_page, get_page_file)
