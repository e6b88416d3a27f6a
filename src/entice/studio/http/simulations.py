"""What the studio asks for: who it is, and simulations that are shown while they run."""

from __future__ import annotations

from typing import Annotated, Any, get_args

import msgspec
from msgspec import Meta

import entice
from entice.service.domain.errors import invalid
from entice.service.http.authentication import READERS
from entice.service.http.context import AppContext
from entice.service.http.operation import Answered, Body, Call, Operation, Reply, not_too_deep
from entice.service.storage.api_keys import Role
from entice.studio.http.json_lines import NDJSON, LastLine, Lines, begin
from entice.studio.jobs.job import MakePlan, Reproduce, Simulate, Trace
from entice.studio.jobs.limits import LIMITS, Limits, parse_plan, parse_study
from entice.studio.studio import studio_of


class StudioView(msgspec.Struct):
    """Who the page is to the service, and how much it may ask for."""

    version: str
    role: str
    """Of the key, or of a browser without one."""
    may: list[str]
    """All roles that this amounts to."""
    keyless: bool
    """Whether there is no key yet: a browser may look and simulate, but change nothing."""
    campaign: str | None
    """The only campaign that the key opens."""
    limits: Limits


class StudyRequest(msgspec.Struct):
    """A study, as in the TOML of `entice run`. There is more to set than what is named here."""

    arms: dict[str, Any]
    policies: list[dict[str, Any]]
    horizon: int
    drifts: list[dict[str, Any]] = []
    replications: int = 1000
    seed: int | None = None


Index = Annotated[int, Meta(ge=0, le=2**31 - 1)]


class TraceRequest(msgspec.Struct, forbid_unknown_fields=True):
    """Which run to look at."""

    study: dict[str, Any]
    policy_index: Index = 0
    drift_index: Index = 0
    replication: Index = 0


class RaceView(msgspec.Struct):
    """One run in frames."""

    kind: str
    policy: str
    drift: str
    replication: int
    seed: int
    t: list[int]
    """The round of each frame."""
    pulls: list[list[int]]
    """Of each arm by then."""
    averages: list[list[float | None]]
    """Of the ratings that have come by then; null: none has."""
    paid: list[float]
    regret: list[float]
    true_means: list[float]
    ended: int | None
    """The round after which payments had grown without bound, if they did."""


class PlanRequest(msgspec.Struct):
    """A plan, as in the TOML of `entice plan`. There is more to set than what is named here."""

    visitors_a_day: int
    days: int
    price_of_a_star: float
    drift: list[float] | float
    arms: int | None = None
    spread: dict[str, Any] | None = None
    budget: float | None = None


async def read_studio(context: AppContext, call: Call) -> Reply:
    """Ask who one is.

    The role of the key, or what a browser may do without one, and the limits of simulations.
    """
    studio_of(context).jobs.start()
    caller = call.caller
    own = caller.role.split(",")
    may = list(get_args(Role)) if "admin" in own else own
    keyless = not context.keys.any_cached()
    told = StudioView(entice.__version__, caller.role, may, keyless, caller.campaign, LIMITS)
    return Reply(msgspec.json.encode(told))


async def simulate(context: AppContext, call: Call) -> Lines:
    """Run a study and watch it.

    Lines of JSON, each with a `kind`: `queued`, `compiling` if that takes long, `picture` again and
    again from more and more replications, `bounds` once, `done` or `failed`. The last picture is
    what `entice run` finds, to the last digit. Closing the connection ends the work.
    """
    not_too_deep(call.body)
    study = parse_study(call.body)
    return Lines(begin(context, call, Simulate(msgspec.json.decode(study.to_json()))))


async def trace(context: AppContext, call: Call) -> LastLine:
    """Run one replication and see it round by round.

    In at most 240 frames: pulls and averages of each arm, payments and regret so far.
    """
    asked = call.body
    not_too_deep(asked.study)
    study = parse_study(asked.study)
    for name, given, there in (
        ("policy_index", asked.policy_index, len(study.policies)),
        ("drift_index", asked.drift_index, len(study.drifts)),
        ("replication", asked.replication, study.replications),
    ):
        if given >= there:
            raise invalid(f"{name} must be from 0 to {there - 1}; got {given}.")
    plain = msgspec.json.decode(study.to_json())
    where = asked.policy_index, asked.drift_index, asked.replication
    return LastLine(begin(context, call, Trace(plain, *where)))


async def plan(context: AppContext, call: Call) -> Lines:
    """Ask what a campaign would cost.

    Lines of JSON: `queued`, `compiling`, `progress` now and then, then `forecast`: what each policy
    would cost and find, which to take, and the campaigns to create for it; or `failed`.
    """
    not_too_deep(call.body)
    return Lines(begin(context, call, MakePlan(parse_plan(call.body).to_plain())))


async def read_paper(context: AppContext, call: Call) -> Lines | Reply:
    """Reproduce the paper.

    Lines of JSON: `queued`, `progress` now and then, then `paper`: its tables beside ours, curves
    and what the published numbers ran. Made once, and kept as long as the service runs.
    """
    studio = studio_of(context)
    if studio.paper is not None:
        return Reply(studio.paper, 200, NDJSON.encode())

    def keep(kind: str, line: bytes) -> None:
        studio.paper = line if kind == "paper" else studio.paper

    return Lines(begin(context, call, Reproduce()), keep)


_EVERYBODY: frozenset[Role] = frozenset({"read", "decide", "feedback"})
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
_WATCHED = frozenset({429})

OPERATIONS = (
    Operation(
        "GET",
        "/v1/studio",
        read_studio,
        Answered(
            {200: "What the page is to the service."},
            StudioView,
            {
                "without keys": {
                    "version": "0.1.0",
                    "role": "read",
                    "may": ["read"],
                    "keyless": True,
                    "campaign": None,
                    "limits": msgspec.to_builtins(LIMITS),
                }
            },
        ),
        roles=_EVERYBODY,
    ),
    Operation(
        "POST",
        "/v1/simulations",
        simulate,
        Answered({200: "Pictures, a line each."}, None, {}, (NDJSON,)),
        roles=READERS,
        body=Body(dict[str, Any], {"two policies": _STUDY}, schema=StudyRequest),
        problems=_WATCHED,
    ),
    Operation(
        "POST",
        "/v1/traces",
        trace,
        Answered(
            {200: "The run."},
            RaceView,
            {
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
        ),
        roles=READERS,
        body=Body(TraceRequest, {"the first run": {"study": _STUDY}}),
        problems=_WATCHED,
    ),
    Operation(
        "POST",
        "/v1/plans",
        plan,
        Answered({200: "How far it is, then the forecast."}, None, {}, (NDJSON,)),
        roles=READERS,
        body=Body(dict[str, Any], {"eight items": _PLAN}, schema=PlanRequest),
        problems=_WATCHED,
    ),
    Operation(
        "GET",
        "/v1/paper",
        read_paper,
        Answered({200: "How far it is, then the tables."}, None, {}, (NDJSON,)),
        roles=READERS,
        problems=_WATCHED,
    ),
)
