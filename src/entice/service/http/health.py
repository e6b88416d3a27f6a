"""Is it alive, is it ready, what does it count, what can it do."""

from __future__ import annotations

import msgspec

from entice.service.domain.errors import Refusal
from entice.service.domain.pending_policies import PENDING
from entice.service.http.authentication import unbound
from entice.service.http.context import AppContext
from entice.service.http.operation import Answered, Call, Operation, Reply
from entice.service.http.read_threads import look_up
from entice.service.operations.metrics import MEDIA_TYPE


class Health(msgspec.Struct):
    """How the service is."""

    status: str


async def healthz(context: AppContext, call: Call) -> Reply:
    """Ask whether the process is alive.

    Answers as long as the process runs. Says nothing of the database.
    """
    return Reply(b'{"status":"alive"}')


async def readyz(context: AppContext, call: Call) -> Reply:
    """Ask whether it can do its work.

    Answers 200 when all policies that a campaign can have are compiled and the database can be
    used, and 503 before that, while it is shut down, and when the database is damaged or can't be
    reached. Until then, requests for campaigns whose policy is not there yet are answered with 503
    too, and Retry-After.
    """
    if not context.ready:
        detail = "The service is starting or stopping. Ask again in a moment."
        if waiting := list(PENDING):
            detail = f"The service is starting. Not loaded or compiled yet: {', '.join(waiting)}."
        raise Refusal(503, "not-ready", "Not ready", detail)
    await look_up(context.check)
    return Reply(b'{"status":"ready"}')


async def metrics(context: AppContext, call: Call) -> Reply:
    """Metrics for Prometheus.

    Counters of requests, decisions and commits; money of each campaign; gauges that must be 0.
    """
    unbound(call.caller)
    return Reply(await look_up(context.metrics.text), 200, MEDIA_TYPE.encode())


async def openapi(context: AppContext, call: Call) -> Reply:
    """Read this description.

    All operations, in OpenAPI 3.1.
    """
    return Reply(context.document)


OPERATIONS = (
    Operation(
        "GET",
        "/healthz",
        healthz,
        Answered({200: "It is."}, Health, {"alive": {"status": "alive"}}),
        roles=None,
    ),
    Operation(
        "GET",
        "/readyz",
        readyz,
        Answered({200: "It can."}, Health, {"ready": {"status": "ready"}}),
        roles=None,
        problems=frozenset({503}),
    ),
    Operation(
        "GET",
        "/metrics",
        metrics,
        Answered({200: "In Prometheus' text format."}, None, {}, ("text/plain",)),
        roles=frozenset({"read"}),
        problems=frozenset({503}),
    ),
    Operation(
        "GET",
        "/openapi.json",
        openapi,
        Answered({200: "The description."}, dict, {}),
        roles=None,
    ),
)
