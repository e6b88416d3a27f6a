"""The studio's page: its files, and the headers that keep it to itself."""

from __future__ import annotations

from entice.service.domain.errors import not_found
from entice.service.http.context import AppContext
from entice.service.http.operation import Answered, Call, Operation, Reply
from entice.service.http.read_threads import look_up
from entice.studio import page_bundle as page
from entice.studio.studio import studio_of


async def read_page(context: AppContext, call: Call) -> Reply:
    """Open the studio.

    The page on which everything can be looked at. It holds no data: what it shows it asks for, and
    for a key where one is needed.
    """
    studio_of(context).jobs.start()  # whoever opens the page will soon ask for a simulation
    return await _file(call, page.HOME)


async def read_page_file(context: AppContext, call: Call) -> Reply:
    """Read a file of the studio.

    Scripts and styles of the page. 304 if it is still the one that `If-None-Match` names.
    """
    return await _file(call, call.path["file"].strip("/"))


async def _file(call: Call, path: str) -> Reply:
    found = await look_up(page.find_file, path)
    if found is None:
        raise not_found("file", path[:80])
    more = [
        (b"content-security-policy", page.CSP),
        (b"cache-control", b"no-cache"),  # kept, but asked for by its ETag each time
        (b"etag", found.etag),
        (b"vary", b"accept-encoding"),
    ]
    if found.etag in call.headers.get(b"if-none-match", b""):
        return Reply(b"", 304, found.media_type, *more)
    if b"gzip" in call.headers.get(b"accept-encoding", b""):
        encoding = (b"content-encoding", b"gzip")
        return Reply(found.compressed, 200, found.media_type, encoding, *more)
    return Reply(found.body, 200, found.media_type, *more)


OPERATIONS = (
    Operation(
        "GET",
        "/",
        read_page,
        Answered({200: "The page."}, None, {}, ("text/html",)),
        roles=None,
    ),
    Operation(
        "GET",
        "/studio/{file}",
        read_page_file,
        Answered(
            {200: "The file."},
            None,
            {},
            ("text/javascript", "text/css", "text/html", "image/svg+xml"),
        ),
        roles=None,
    ),
)
