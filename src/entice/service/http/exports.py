"""Routes that export a campaign and estimate its drift."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Annotated, Any

from litestar.params import QueryParameter
from litestar.response import Stream

from entice.api_types import DriftView
from entice.service.domain.errors import Refusal
from entice.service.http import examples
from entice.service.http.context import AppContext
from entice.service.http.read_threads import in_slow_thread, in_thread
from entice.service.http.requests import CampaignId, ServiceRequest
from entice.service.http.routes import READ, route
from entice.service.operations.export import MEDIA_TYPES, Format, export_campaign

MAX_EXPORTS = 2
_CHUNK = 256 * 1024


@route(
    "GET",
    "/v1/campaigns/{campaign:str}/export",
    roles=READ,
    responses={200: "The file."},
    media_types=tuple(name.partition(";")[0] for name in MEDIA_TYPES.values()),
    problems=(429,),
)
async def export(
    request: ServiceRequest,
    campaign: CampaignId,
    format: Annotated[Format, QueryParameter(description="Format of the file.")] = "parquet",
    after: Annotated[
        int | None,
        QueryParameter(
            ge=0,
            le=2**63 - 1,
            description="Return only rows that changed after this event: the Entice-Last-Event of "
            "the previous export, or 0.",
        ),
    ] = None,
) -> Stream:
    """Export a campaign.

    Returns one row for each offer and each organic rating, in the order of the log, with the
    payment, the rating and the propensity. `entice.estimate` reads the file without conversion. In
    CSV, text that a spreadsheet would interpret as a formula gets an apostrophe as a prefix. With
    `after`, returns only the rows that changed after that event, in the order of their last
    change; the header Entice-Last-Event has the `after` of the next export.
    """
    context = request.context
    if context.exports >= MAX_EXPORTS:
        detail = f"{MAX_EXPORTS} exports are in progress, which is the maximum. Try again soon."
        raise Refusal(429, "too-many-exports", "Too many exports", detail)
    context.exports += 1
    folder = tempfile.TemporaryDirectory(prefix="entice-export-")
    path = Path(folder.name) / f"{campaign}.{format}"
    chunks = _chunks(context, folder, path)
    await anext(chunks)
    try:
        done = await in_slow_thread(export_campaign, context.store, campaign, format, path, after)
    except BaseException:
        await chunks.aclose()
        raise
    headers = {
        "Content-Length": str(path.stat().st_size),
        "Content-Disposition": f'attachment; filename="{path.name}"',
        "Entice-Last-Event": str(done.last_event),
    }
    media_type = MEDIA_TYPES[format].partition(";")[0]  # Litestar adds the charset
    return Stream(chunks, media_type=media_type, headers=headers)


async def _chunks(context: AppContext, folder: Any, path: Path) -> AsyncGenerator[bytes, None]:
    try:
        yield b""  # `export` runs the generator up to here, so that `finally` runs in any case.
        with path.open("rb") as file:
            while chunk := await in_thread(file.read, _CHUNK):
                yield chunk
    finally:
        context.exports -= 1
        folder.cleanup()


@route(
    "GET",
    "/v1/campaigns/{campaign:str}/drift",
    roles=READ,
    responses={200: "The estimate."},
    examples={"probed": examples.DRIFT},
)
async def get_drift(request: ServiceRequest, campaign: CampaignId) -> DriftView:
    """Retrieve the drift estimate.

    Returns the rise in ratings per star of payment, with a confidence interval. The estimate
    requires a randomised probe: without one, it is null and `note` says why.
    """
    return await in_slow_thread(request.context.queries.drift, campaign)


ROUTES = (export, get_drift)
