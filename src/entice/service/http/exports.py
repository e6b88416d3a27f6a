"""Routes that export a campaign and estimate its drift, its effect and its acceptance curve."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Annotated

from litestar import Response
from litestar.params import QueryParameter
from litestar.response import Stream
from polars.exceptions import PolarsError

from entice.api_types import AcceptanceView, DriftView, EffectView
from entice.service import logs
from entice.service.domain.errors import Refusal
from entice.service.http import examples
from entice.service.http.read_threads import in_slow_thread, in_thread
from entice.service.http.requests import CampaignId, ServiceRequest
from entice.service.http.routes import READ, route
from entice.service.operations.export import MEDIA_TYPES, Format, export_campaign
from entice.service.storage.queries import Queries

_CHUNK = 64 * 1024


@route(
    "GET",
    "/v1/campaigns/{campaign:str}/export",
    roles=READ,
    responses={200: "The file."},
    media_types=tuple(name.partition(";")[0] for name in MEDIA_TYPES.values()),
    problems=(429, 507),
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
    try:
        with contextlib.ExitStack() as held:
            held.enter_context(context.exports.take(request.auth.id, campaign))
            temporary = tempfile.TemporaryDirectory(
                prefix="entice-export-", ignore_cleanup_errors=True
            )
            path = Path(held.enter_context(temporary)) / f"{campaign}.{format}"
            done = await in_slow_thread(
                export_campaign, context.store, campaign, format, path, after
            )
            chunks = _chunks(path, held.pop_all())
    except (OSError, PolarsError) as error:
        raise _no_space(error) from error
    await anext(chunks)
    headers = {
        "Content-Length": str(path.stat().st_size),
        "Content-Disposition": f'attachment; filename="{path.name}"',
        "Entice-Last-Event": str(done.last_event),
    }
    media_type = MEDIA_TYPES[format].partition(";")[0]  # Litestar adds the charset
    return Stream(chunks, media_type=media_type, headers=headers)


def _no_space(error: Exception) -> Refusal:
    reason = getattr(error, "strerror", None)
    logs.failure("export-not-written", error=type(error).__name__, reason=reason)
    detail = (
        "The service could not write the export to its temporary folder: the disk may be full, or "
        "the folder read-only. Try again after its operator has fixed this."
    )
    return Refusal(507, "no-temporary-space", "No temporary space", detail)


async def _chunks(path: Path, held: contextlib.ExitStack) -> AsyncGenerator[bytes, None]:
    with held:
        yield b""  # `export` runs the generator up to here, so that `held` is closed in any case.
        with path.open("rb") as file:
            while chunk := await in_thread(file.read, _CHUNK):
                yield chunk


@route(
    "GET",
    "/v1/campaigns/{campaign:str}/drift",
    roles=READ,
    responses={200: "The estimate."},
    examples={"probed": examples.DRIFT},
)
async def get_drift(request: ServiceRequest, campaign: CampaignId) -> Response[DriftView]:
    """Retrieve the drift estimate.

    Returns the rise in ratings per star of payment, with a confidence interval. The estimate
    requires a randomised probe: without one, it is null and `note` says why.
    """
    return await request.respond_with(Queries.drift, campaign, slow=True)


@route(
    "GET",
    "/v1/campaigns/{campaign:str}/effect",
    roles=READ,
    responses={200: "The effect of the campaign."},
    examples={"better": examples.EFFECT},
)
async def get_effect(request: ServiceRequest, campaign: CampaignId) -> Response[EffectView]:
    """Retrieve the effect of the campaign.

    Returns the totals of the players who may be paid and of the holdout, the difference between
    their ratings with an interval that is valid at every look, the cost per star gained, and a
    check that players were split as intended. Without a holdout, `verdict` is `no_holdout`.
    """
    return await request.respond_with(Queries.effect, campaign)


@route(
    "GET",
    "/v1/campaigns/{campaign:str}/acceptance",
    roles=READ,
    responses={200: "The acceptance curve."},
    examples={"learned": examples.ACCEPTANCE},
)
async def get_acceptance(request: ServiceRequest, campaign: CampaignId) -> AcceptanceView:
    """Retrieve the acceptance curve.

    Returns the learned price, and for each price the number of answers and acceptances and the
    estimated share of players who accept it. Without a learned price, `acceptance` is null.
    """
    return await request.read(request.context.queries.acceptance, campaign)


ROUTES = (export, get_drift, get_effect, get_acceptance)
