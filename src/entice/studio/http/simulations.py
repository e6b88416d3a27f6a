"""Routes of the studio: the current identity, simulations and plans."""

from __future__ import annotations

from typing import Annotated, Any, get_args

import msgspec
from litestar import Response
from litestar.params import JSONBody
from litestar.response import Stream
from msgspec import Meta

import entice
from entice.service.domain.errors import invalid
from entice.service.http.requests import ServiceRequest, check_depth
from entice.service.http.responses import EncodedResponse
from entice.service.http.routes import ANY_ROLE, READ, route
from entice.service.storage.api_keys import Role
from entice.studio.http.json_lines import (
    NDJSON,
    BoundsLine,
    CompilingLine,
    DoneLine,
    FailedLine,
    ForecastLine,
    PaperLine,
    PictureLine,
    ProgressLine,
    QueuedLine,
    last_line,
    stream_lines,
    submit,
)
from entice.studio.jobs.job import MakePlan, Simulate, Trace
from entice.studio.jobs.limits import LIMITS, Limits, parse_plan, parse_study
from entice.studio.studio import studio_of


class StudioView(msgspec.Struct):
    """The current identity and its limits."""

    version: str
    role: str
    """Roles of the key, separated by commas."""
    may: list[str]
    """All roles that `role` includes: every role for `admin`."""
    campaign: str | None
    """Campaign that the key is limited to."""
    limits: Limits


class StudyRequest(msgspec.Struct):
    """A study, as in a TOML file for `entice run`. Other settings of such files are accepted."""

    arms: dict[str, Any]
    policies: list[dict[str, Any]]
    horizon: int
    drifts: list[dict[str, Any]] = []
    replications: int = 1000
    seed: Annotated[int, Meta(ge=0, le=2**53 - 1)] | None = None


Index = Annotated[int, Meta(ge=0, le=2**31 - 1)]


class TraceRequest(msgspec.Struct, forbid_unknown_fields=True):
    """A study, and the run to return."""

    study: dict[str, Any]
    policy_index: Index = 0
    drift_index: Index = 0
    replication: Index = 0


class TraceView(msgspec.Struct, tag_field="kind", tag="race"):
    """One run in frames."""

    policy: str
    drift: str
    replication: int
    seed: int
    t: list[int]
    """Round of each frame."""
    pulls: list[list[int]]
    """Pulls of each arm so far, by frame."""
    averages: list[list[float | None]]
    """Average rating of each arm so far, by frame. Null without ratings."""
    paid: list[float]
    """Compensation so far."""
    regret: list[float]
    true_means: list[float]
    """Those of the last round, if they change."""
    ended: int | None
    """Round after which the run ended because payments grew without bound."""


class PlanRequest(msgspec.Struct):
    """A plan, as in a TOML file for `entice plan`. Other settings of such files are accepted."""

    visitors_a_day: int
    days: int
    price_of_a_star: float
    drift: list[float] | float
    arms: int | None = None
    spread: dict[str, Any] | None = None
    budget: float | None = None


_STUDY = {
    "horizon": 20_000,
    "replications": 1000,
    "seed": 7,
    "arms": {"kind": "gaussian", "means": [0.9, 0.8, 0.7]},
    "policies": [{"kind": "ucb"}, {"kind": "epsilon_greedy", "c": 5}],
    "drifts": [{"kind": "linear", "l": 1.1}],
}
_PLAN = {
    "arms": 8,
    "spread": {"centre": 4.1, "width": 0.45},
    "visitors_a_day": 300,
    "days": 60,
    "price_of_a_star": 2.0,
    "currency": "€",
    "share_who_rate": 0.3,
    "drift": [0, 1],
    "budget": 500,
}


@route(
    "GET",
    "/v1/studio",
    roles=ANY_ROLE,
    responses={200: "The identity and its limits."},
    examples={
        "a key that may read": {
            "version": "0.1.0",
            "role": "read",
            "may": ["read"],
            "campaign": None,
            "limits": msgspec.to_builtins(LIMITS),
        }
    },
)
async def get_studio(request: ServiceRequest) -> StudioView:
    """Retrieve the current identity and its limits.

    Returns the roles of the key and the limits of simulations.
    """
    studio_of(request.context).jobs.start()  # the page will soon request a simulation
    caller = request.auth
    own = caller.role.split(",")
    roles = list(get_args(Role)) if "admin" in own else own
    return StudioView(entice.__version__, caller.role, roles, caller.campaign, LIMITS)


@route(
    "POST",
    "/v1/simulations",
    roles=READ,
    responses={200: "One JSON object per line."},
    request={"two policies": _STUDY},
    body=StudyRequest,
    response=QueuedLine | CompilingLine | PictureLine | BoundsLine | DoneLine | FailedLine,
    media_types=(NDJSON,),
    problems=(429,),
)
async def simulate(request: ServiceRequest, data: JSONBody[dict[str, Any]]) -> Stream:
    """Simulate a study.

    Streams lines of JSON, each with a `kind`: `queued`; `compiling`, if that takes long; `picture`,
    a snapshot of the results, several times with more and more replications; `bounds`, once; `done`
    or `failed`. The last snapshot equals the result of `entice run`. Closing the connection cancels
    the job.
    """
    study = parse_study(data)
    return stream_lines(submit(request, Simulate(msgspec.json.decode(study.to_json()))))


@route(
    "POST",
    "/v1/traces",
    roles=READ,
    responses={200: "The run."},
    examples={
        "two rounds": {
            "kind": "race",
            "policy": "UCB",
            "drift": "LinearDrift(1.1)",
            "replication": 0,
            "seed": 7,
            "t": [1, 2],
            "pulls": [[1, 0], [1, 1]],
            "averages": [[0.7, None], [0.7, 0.4]],
            "paid": [0.0, 0.3],
            "regret": [0.0, 0.5],
            "true_means": [0.9, 0.4],
            "ended": None,
        }
    },
    request={"the first run": {"study": _STUDY}},
    problems=(429,),
)
async def trace(request: ServiceRequest, data: JSONBody[TraceRequest]) -> Response[TraceView]:
    """Trace one run.

    Returns the pulls and averages of each arm, the payments and the regret, in at most 240 frames.
    """
    check_depth(data.study)
    study = parse_study(data.study)
    for name, index, count in (
        ("policy_index", data.policy_index, len(study.policies)),
        ("drift_index", data.drift_index, len(study.drifts)),
        ("replication", data.replication, study.replications),
    ):
        if index >= count:
            raise invalid(f"{name} must be from 0 to {count - 1}; got {index}.")
    plain = msgspec.json.decode(study.to_json())
    job = Trace(plain, data.policy_index, data.drift_index, data.replication)
    return await last_line(request, submit(request, job))


@route(
    "POST",
    "/v1/plans",
    roles=READ,
    responses={200: "One JSON object per line."},
    request={"eight items": _PLAN},
    body=PlanRequest,
    response=QueuedLine | CompilingLine | ProgressLine | ForecastLine | FailedLine,
    media_types=(NDJSON,),
    problems=(429,),
)
async def plan(request: ServiceRequest, data: JSONBody[dict[str, Any]]) -> Stream:
    """Forecast the cost of a campaign.

    Streams lines of JSON: `queued`, `compiling`, `progress`, then `forecast` or `failed`. The
    forecast has the cost of each policy, a recommendation, and the settings of the campaigns to
    create.
    """
    return stream_lines(submit(request, MakePlan(parse_plan(data).to_plain())))


@route(
    "GET",
    "/v1/paper",
    roles=READ,
    responses={200: "One JSON object per line."},
    response=QueuedLine | CompilingLine | ProgressLine | PaperLine | FailedLine,
    media_types=(NDJSON,),
    problems=(429,),
)
async def get_paper(request: ServiceRequest) -> Response[Any]:
    """Reproduce the paper.

    Streams lines of JSON: `queued`, `compiling`, `progress`, then `paper` or `failed`. `paper` has
    the published tables beside the simulated ones, the curves, and the set-ups that explain the
    published numbers. All clients read the same run, in the background; it is cancelled when the
    last of them closes its connection. The result is kept while the service runs.
    """
    paper = studio_of(request.context).paper
    if paper.result is not None:
        return EncodedResponse(paper.result, media_type=NDJSON.encode())
    return stream_lines(paper.read())


ROUTES = (get_studio, simulate, trace, plan, get_paper)
