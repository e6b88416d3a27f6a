"""Routes of health checks, metrics and the OpenAPI document."""

from __future__ import annotations

import asyncio
from typing import Any, Literal

import msgspec
from litestar import Response

from entice.service.domain.errors import Refusal, Unavailable
from entice.service.domain.pending_policies import PENDING
from entice.service.http.authentication import require_all_campaigns
from entice.service.http.read_threads import in_thread
from entice.service.http.requests import ServiceRequest
from entice.service.http.responses import EncodedResponse
from entice.service.http.routes import ANY_ROLE, PUBLIC, READ, route
from entice.service.operations.metrics import MEDIA_TYPE

READY_WITHIN = 4.5
"""Seconds after which `/readyz` no longer waits for the database."""


class Health(msgspec.Struct):
    """The state of the service."""

    status: Literal["alive", "ready"]


@route(
    "GET",
    "/healthz",
    roles=PUBLIC,
    responses={200: "The process is alive."},
    examples={"alive": {"status": "alive"}},
)
async def healthz(request: ServiceRequest) -> Response[Health]:
    """Check whether the process is alive.

    Does not check the database.
    """
    return EncodedResponse(b'{"status":"alive"}')


@route(
    "GET",
    "/readyz",
    roles=PUBLIC,
    responses={200: "The service is ready."},
    examples={"ready": {"status": "ready"}},
    problems=(503,),
)
async def readyz(request: ServiceRequest) -> Response[Health]:
    """Check whether the service is ready.

    Returns 200 when all policies are compiled and the database is usable; otherwise 503. Until
    then, requests for campaigns whose policy is not compiled yet return 503 with Retry-After.
    """
    if not request.context.ready:
        detail = "The service is starting or stopping. Try again in a moment."
        if waiting := list(PENDING):
            detail = f"The service is starting. Not compiled yet: {', '.join(waiting)}."
        raise Refusal(503, "not-ready", "Not ready", detail)
    try:
        async with asyncio.timeout(READY_WITHIN):
            await in_thread(request.context.check)
    except TimeoutError:
        raise Unavailable(f"The database did not answer within {READY_WITHIN:g} seconds.") from None
    return EncodedResponse(b'{"status":"ready"}')


@route(
    "GET",
    "/metrics",
    roles=READ,
    responses={200: "Metrics in Prometheus' text format."},
    media_types=("text/plain",),
    problems=(503,),
)
async def get_metrics(request: ServiceRequest) -> Response[str]:
    """Retrieve metrics for Prometheus.

    Returns counts of requests, decisions and commits, the money of each campaign, and gauges that
    must be 0.
    """
    require_all_campaigns(request.auth)
    text = await in_thread(request.context.metrics.text)
    return EncodedResponse(text, media_type=MEDIA_TYPE.encode())


@route("GET", "/openapi.json", roles=ANY_ROLE, responses={200: "This document."})
async def get_openapi(request: ServiceRequest) -> Response[dict[str, Any]]:
    """Retrieve this document.

    Describes all routes, in OpenAPI 3.1.
    """
    return EncodedResponse(await in_thread(request.context.describe))


ROUTES = (healthz, readyz, get_metrics, get_openapi)
