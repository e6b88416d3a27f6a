"""Answers that come line by line from the simulation process, and end with the connection."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
from litestar.types import Receive, Scope, Send

from entice.service.http import problems
from entice.service.http.context import AppContext
from entice.service.http.operation import Call, Reply, while_connected
from entice.studio.jobs.job import Job
from entice.studio.jobs.queue import JobOutput
from entice.studio.studio import studio_of

NDJSON = "application/x-ndjson"
"""One JSON object a line."""

Keep = Callable[[str, bytes], None]
"""Told of the kind and the text of a last line."""


class Lines:
    """An answer that comes line by line; closing the connection ends the work behind it."""

    def __init__(self, answer: JobOutput, keep: Keep = lambda kind, line: None) -> None:
        self._answer = answer
        self._keep = keep

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, unless nobody listens any more."""
        try:
            await while_connected(receive, self._send(scope, receive, send))
        finally:
            self._answer.cancel()

    async def _send(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = [(b"content-type", NDJSON.encode()), (b"x-accel-buffering", b"no")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        line = b""
        async for line in self._answer:
            await send({"type": "http.response.body", "body": line, "more_body": True})
        self._keep(_last(line).kind, line)
        await send({"type": "http.response.body", "body": b"", "more_body": False})


class LastLine(Lines):
    """The same, of which only the last line is sent, by itself."""

    async def _send(self, scope: Scope, receive: Receive, send: Send) -> None:
        line = [line async for line in self._answer][-1]
        last = _last(line)
        if last.kind != "failed":
            await Reply(line)(scope, receive, send)
            return
        kind = {422: "invalid", 503: "unavailable"}.get(last.status, "internal")
        body = problems.problem(last.status, kind, last.title, last.detail)
        await Reply(body, last.status, problems.MEDIA_TYPE.encode())(scope, receive, send)


class _Last(msgspec.Struct):
    kind: str
    status: int = 200
    title: str = ""
    detail: str = ""


_last = msgspec.json.Decoder(_Last).decode


def begin(context: AppContext, call: Call, job: Job) -> JobOutput:
    """Queue a job of a caller; if there is no room for it, that is told before any answer."""
    client = call.scope.get("client") or ("-", 0)
    return studio_of(context).jobs.submit(f"{call.caller.id} {client[0]}", job)
