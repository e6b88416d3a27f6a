"""Routes of the studio that read event logs: invariants, replays, and off-policy estimates."""

from __future__ import annotations

from typing import Literal

import msgspec
from litestar import Response
from litestar.params import JSONBody
from litestar.response import Stream

from entice.service.http.feedback import EmptyRequest
from entice.service.http.read_threads import in_thread
from entice.service.http.requests import CampaignId, ServiceRequest
from entice.service.http.routes import READ, route
from entice.service.operations.invariants import ReplayView, TrustView, read_trust_view
from entice.service.storage.queries import Queries
from entice.studio.http.json_lines import (
    NDJSON,
    FailedLine,
    ProgressLine,
    QueuedLine,
    stream_lines,
    submit,
)
from entice.studio.jobs.evaluate import EvaluationView
from entice.studio.jobs.job import Evaluate, Replay
from entice.studio.studio import studio_of

_EXAMPLE = {
    "campaigns": [
        {
            "id": "c_9f2c1ab34d5e6f70",
            "name": "Teas of the month",
            "invariants": [
                {
                    "name": "Spent and reserved money is within the budget",
                    "holds": True,
                    "detail": "€12.40 spent and €0.50 reserved of €500.00.",
                }
            ],
            "replay": None,
        }
    ],
    "faults": {
        "trials": [
            {
                "id": "kill",
                "name": "kill −9 under load",
                "tried": "200 kills, 8 clients, 86,967 acknowledged writes",
                "result": "0 lost, 0 executed twice",
                "control": "acknowledge before commit: 2,182 of 12,357 lost in 20 kills",
                "passed": True,
                "date": "2026-11-17",
                "seconds": 1210,
                "commit": "8d5bf36",
                "source": "0f1e2d3c4b5a6978",
                "machine": "Python 3.11.7, 2 cores, Linux on x86_64",
            }
        ]
    },
    "source": "0f1e2d3c4b5a6978",
}


@route(
    "GET",
    "/v1/trust",
    roles=READ,
    responses={200: "The results."},
    examples={"one campaign": _EXAMPLE},
)
async def get_trust(request: ServiceRequest) -> Response[TrustView]:
    """Check the service.

    Returns the invariants of every campaign, checked now; the last replay of each campaign since
    the service started; and the result of the last long run of each fault test, with its date and
    commit. A trial whose `source` differs from that of the response was run on other code.
    """
    replays = studio_of(request.context).replays
    return await request.respond_with(_read_trust, request.auth.campaign, replays)


def _read_trust(
    queries: Queries, campaign: str | None, replays: dict[str, ReplayView]
) -> TrustView:
    return read_trust_view(queries.store, campaign, replays)


@route(
    "POST",
    "/v1/campaigns/{campaign:str}/replay",
    roles=READ,
    responses={200: "One JSON object per line."},
    request={"empty": {}},
    response=QueuedLine | ProgressLine | ReplayView | FailedLine,
    media_types=(NDJSON,),
    problems=(429,),
)
async def replay_events(
    request: ServiceRequest, campaign: CampaignId, data: JSONBody[EmptyRequest | None] = None
) -> Stream:
    """Replay an event log.

    Replays every event of a campaign and compares the results with the database, as `entice verify`
    does. Streams lines of JSON: `queued`, `progress`, then `replay` with the result, or `failed`.
    """
    context = request.context
    await in_thread(context.queries.head, campaign)

    def keep(kind: str, line: bytes) -> None:
        if kind == "replay":
            studio_of(context).replays[campaign] = msgspec.json.decode(line, type=ReplayView)

    return stream_lines(submit(request, Replay(context.store.url, campaign)), keep)


class EvaluationRequest(msgspec.Struct, forbid_unknown_fields=True):
    """The policy to evaluate. `greedy` is the players' own choice: no campaign."""

    policy: Literal["greedy", "ucb", "thompson_sampling", "uniform"] = "greedy"


@route(
    "POST",
    "/v1/campaigns/{campaign:str}/evaluation",
    roles=READ,
    responses={200: "One JSON object per line."},
    request={"no campaign": {"policy": "greedy"}},
    response=QueuedLine | EvaluationView | FailedLine,
    media_types=(NDJSON,),
    problems=(429,),
)
async def evaluate_policy(
    request: ServiceRequest, campaign: CampaignId, data: JSONBody[EvaluationRequest]
) -> Stream:
    """Evaluate another policy.

    Estimates what another policy would have achieved, from the log of a campaign with `overlap`, as
    `entice evaluate` does. Streams lines of JSON: `queued`, then `evaluation` or `failed`.
    """
    context = request.context
    await in_thread(context.queries.head, campaign)
    return stream_lines(submit(request, Evaluate(context.store.url, campaign, data.policy)))


ROUTES = (get_trust, replay_events, evaluate_policy)
