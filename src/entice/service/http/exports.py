"""A campaign as a table to take away, and what its probe tells of the drift."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any, get_args

import msgspec
from litestar.types import Receive, Scope, Send

from entice.api_types import DriftView
from entice.service.domain.errors import Refusal
from entice.service.http.authentication import READERS
from entice.service.http.context import AppContext
from entice.service.http.operation import (
    Answered,
    Call,
    Operation,
    Query,
    Reply,
)
from entice.service.http.read_threads import look_up, look_up_slowly
from entice.service.operations.export import MEDIA_TYPES, Format, export_campaign

MOST_EXPORTS = 2
_CHUNK = 256 * 1024


class Download:
    """A file on its way to whoever asked for it; it is gone afterwards."""

    def __init__(self, context: AppContext, folder: Any, path: Path, media_type: str) -> None:
        self._context = context
        self._folder = folder
        self._path = path
        self._media_type = media_type

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the file."""
        try:
            headers = [
                (b"content-type", self._media_type.encode()),
                (b"content-length", str(self._path.stat().st_size).encode()),
                (b"content-disposition", f'attachment; filename="{self._path.name}"'.encode()),
            ]
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            with self._path.open("rb") as file:
                while part := await look_up(file.read, _CHUNK):
                    await send({"type": "http.response.body", "body": part, "more_body": True})
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            self._context.exports -= 1
            self._folder.cleanup()


async def export(context: AppContext, call: Call) -> Download:
    """Take a campaign away.

    One row for each offer and each organic rating, in the order of the log, with what was paid,
    what was rated and how likely the choice was: `entice.estimate` reads it as it is. In CSV,
    text that a spreadsheet would take for a formula begins with an apostrophe.
    """
    campaign, form = call.path["campaign"], call.query["format"]
    if context.exports >= MOST_EXPORTS:
        detail = (
            f"{MOST_EXPORTS} exports are under way, which is as many as may be. Try again soon."
        )
        raise Refusal(429, "too-many-exports", "Too many exports", detail)
    context.exports += 1
    folder = tempfile.TemporaryDirectory(prefix="entice-export-")
    path = Path(folder.name) / f"{campaign}.{form}"
    try:
        await look_up_slowly(export_campaign, context.store, campaign, form, path)
    except BaseException:
        context.exports -= 1
        folder.cleanup()
        raise
    return Download(context, folder, path, MEDIA_TYPES[form])


async def read_drift(context: AppContext, call: Call) -> Reply:
    """Read the drift estimate.

    How steeply ratings rise with the payment, with its interval. Only a randomised probe can
    tell: without one there is no number, and `note` says why.
    """
    return Reply(
        msgspec.json.encode(await look_up_slowly(context.queries.drift, call.path["campaign"]))
    )


def _format(given: str) -> str:
    if given not in get_args(Format):
        raise ValueError(" or ".join(get_args(Format)))
    return given


OPERATIONS = (
    Operation(
        "GET",
        "/v1/campaigns/{campaign}/export",
        export,
        Answered(
            {200: "The file."},
            None,
            {},
            tuple(name.partition(";")[0] for name in MEDIA_TYPES.values()),
        ),
        roles=READERS,
        query=(
            Query(
                "format",
                "Which kind of file.",
                {"type": "string", "enum": list(get_args(Format)), "default": "parquet"},
                _format,
                "parquet",
            ),
        ),
        problems=frozenset({429}),
    ),
    Operation(
        "GET",
        "/v1/campaigns/{campaign}/drift",
        read_drift,
        Answered(
            {200: "What the probe tells."},
            DriftView,
            {
                "probed": {
                    "probed": True,
                    "probes": 412,
                    "slope": 0.62,
                    "low": 0.31,
                    "high": 0.93,
                    "level": 0.95,
                    "note": "From a randomised probe.",
                    "arms": [{"id": "oolong", "paid": 0.12, "corrected": 4.243}],
                }
            },
        ),
        roles=READERS,
    ),
)
