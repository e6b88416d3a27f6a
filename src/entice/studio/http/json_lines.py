"""Responses from the simulation process: line by line, or the last line alone."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

import msgspec
from litestar.response import Stream

from entice.service.domain.errors import Refusal
from entice.service.http.requests import ServiceRequest
from entice.service.http.responses import EncodedResponse, while_connected
from entice.studio.jobs.job import Job
from entice.studio.jobs.queue import JobOutput
from entice.studio.studio import studio_of

NDJSON = "application/x-ndjson"
"""One JSON object per line."""


class QueuedLine(msgspec.Struct, tag_field="kind", tag="queued"):
    """The job is in the queue."""

    ahead: int
    """Number of jobs that run before it."""


class CompilingLine(msgspec.Struct, tag_field="kind", tag="compiling"):
    """The job is waiting for the compiler."""

    done: int | None = None
    """Kernels compiled. Null while the job waits for a kernel of another one."""
    total: int | None = None
    """Kernels that the job has to compile."""


class ProgressLine(msgspec.Struct, tag_field="kind", tag="progress"):
    """The progress of the job."""

    done: int
    total: int


class FailedLine(msgspec.Struct, tag_field="kind", tag="failed"):
    """The job failed. This is the last line."""

    status: int
    """HTTP status that describes the error."""
    title: str
    detail: str


class PictureLine(msgspec.Struct, tag_field="kind", tag="picture"):
    """A snapshot: the results of the replications so far."""

    replications: int
    """Number of replications in the snapshot."""
    of: int
    """Number of replications of the whole study."""
    cells: list[dict[str, Any]]
    """Curves and final values of each policy and drift."""


class BoundsLine(msgspec.Struct, tag_field="kind", tag="bounds"):
    """The bounds of the theorems that apply."""

    rows: list[dict[str, Any]]


class DoneLine(msgspec.Struct, tag_field="kind", tag="done"):
    """The study is complete. This is the last line."""

    seconds: float
    seed: int
    toml: str
    """The study as a file for `entice run`."""


class ForecastLine(msgspec.Struct, tag_field="kind", tag="forecast"):
    """The forecast of a plan. This is the last line."""

    plan: dict[str, Any]
    toml: str
    """The plan as a file for `entice plan`."""
    seed: int
    sentence: str
    sentences: list[str]
    assumptions: list[str]
    budget_for_confidence: float | None
    order: list[int]
    """Indices of the policies, best first."""
    policies: list[dict[str, Any]]
    campaigns: list[dict[str, Any]]
    """Settings of the campaigns to create, one for each policy."""


class PaperLine(msgspec.Struct, tag_field="kind", tag="paper"):
    """The reproduction of the paper. This is the last line."""

    seed: int
    replications: int
    coefficients: list[float]
    means: list[float]
    policies: list[dict[str, Any]]
    ran: list[dict[str, Any]]
    table1: list[dict[str, Any]]
    table2: list[dict[str, Any]]
    coverage: list[dict[str, Any]]
    greedy: dict[str, Any]
    figures: dict[str, Any]
    lock_in: list[dict[str, Any]]


class _LastLine(msgspec.Struct):
    kind: str
    status: int = 200
    title: str = ""
    detail: str = ""


_decode_last = msgspec.json.Decoder(_LastLine).decode


def submit(request: ServiceRequest, job: Job) -> JobOutput:
    """Queue a job for the caller, or raise `Refusal` if too many are queued."""
    return studio_of(request.context).jobs.submit(request.auth.id, job)


def stream_lines(
    output: JobOutput, on_last: Callable[[str, bytes], None] = lambda kind, line: None
) -> Stream:
    """Return a response of a job's lines. Closing the connection cancels the job.

    `on_last` is called with the kind and the text of the last line.
    """

    async def lines() -> AsyncIterator[bytes]:
        line = b""
        try:
            async for line in output:
                yield line
            on_last(_decode_last(line).kind, line)
        finally:
            output.cancel()

    return Stream(lines(), media_type=NDJSON, headers={"X-Accel-Buffering": "no"})


async def last_line(request: ServiceRequest, output: JobOutput) -> EncodedResponse[Any]:
    """Return the last line of a job as a response. Closing the connection cancels the job."""

    async def read() -> bytes:
        return [line async for line in output][-1]

    try:
        line = await while_connected(request, read())
    finally:
        output.cancel()
    last = _decode_last(line)
    if last.kind == "failed":
        kind = {422: "invalid", 503: "unavailable"}.get(last.status, "internal")
        raise Refusal(last.status, kind, last.title, last.detail)
    return EncodedResponse(line)
