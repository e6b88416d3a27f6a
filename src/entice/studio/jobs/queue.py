"""The service's side of the simulation process: a fair queue, and a hand that minds it."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections import deque
from collections.abc import AsyncIterator, Callable
from typing import Any

import msgspec

from entice.service import logs
from entice.service.domain.errors import Refusal
from entice.studio.jobs.job import CANCEL, LAST, NOTE, Job

MOST_WAITING = 64
"""Jobs that may wait in all …"""
MOST_OF_ONE = 8
"""… and of one caller."""
_COMMAND = (sys.executable, "-P", "-m", "entice.studio.jobs.process")
_LONGEST_LINE = 256 * 1024 * 1024

_GONE = {
    "kind": "failed",
    "status": 503,
    "title": "The simulation process ended",
    "detail": "It was killed, or ran out of memory. It has been started again: ask once more, or "
    "for less.",
}
_CLOSING = {
    "kind": "failed",
    "status": 503,
    "title": "The service is stopping",
    "detail": "Ask again once it is back.",
}


class JobOutput:
    """The answer to a job, line by line; whoever no longer waits for it drops it."""

    def __init__(
        self, caller: str, job: Job, ahead: int, drop: Callable[[JobOutput], None]
    ) -> None:
        self.caller = caller
        self.job = job
        self.wanted = True
        self._drop = drop
        self._lines: asyncio.Queue[bytes | None] = asyncio.Queue()
        self.put({"kind": "queued", "ahead": ahead})

    async def __aiter__(self) -> AsyncIterator[bytes]:
        """Go through the lines as they come."""
        while (line := await self._lines.get()) is not None:
            yield line

    def put(self, line: bytes | dict[str, Any]) -> None:
        """Add a line."""
        told = line if isinstance(line, bytes) else msgspec.json.encode(line) + b"\n"
        self._lines.put_nowait(told)

    def end(self, last: bytes | dict[str, Any]) -> None:
        """Add the last line."""
        self.put(last)
        self._lines.put_nowait(None)

    def drop(self) -> None:
        """Have it forgotten, and its job cancelled."""
        if self.wanted:
            self.wanted = False
            self._drop(self)


class JobQueue:
    """Has jobs done by a process of its own, one after the other, each caller in turn."""

    def __init__(self) -> None:
        self._waiting: dict[str, deque[JobOutput]] = {}
        """By caller; whoever is first is served next, and goes to the end."""
        self._current: JobOutput | None = None
        self._process: asyncio.subprocess.Process | None = None
        self._working: asyncio.Task[None] | None = None
        self._open = True

    @property
    def pid(self) -> int | None:
        """The number of the simulation process, if there is one."""
        return self._process.pid if self._process is not None else None

    def wake(self) -> None:
        """Have the process started, if it is not yet: it warms up while nobody asks."""
        if self._open and (self._working is None or self._working.done()):
            self._working = asyncio.create_task(self._work())

    def ask(self, caller: str, job: Job) -> JobOutput:
        """Queue a job, or refuse it if too many wait."""
        own = self._waiting.get(caller, ())
        if len(own) >= MOST_OF_ONE or sum(map(len, self._waiting.values())) >= MOST_WAITING:
            detail = (
                f"{MOST_OF_ONE} jobs of one caller may wait, {MOST_WAITING} in all. Close what you "
                "no longer look at, or try again soon."
            )
            raise Refusal(429, "too-many-jobs", "Too many simulations", detail)
        answer = JobOutput(caller, job, self._ahead_of(caller), self._forget)
        if self._open:
            self._waiting.setdefault(caller, deque()).append(answer)
            self.wake()
        else:
            answer.end(_CLOSING)
        return answer

    def end(self) -> None:
        """End all answers: the service shuts down."""
        self._open = False
        self._end_all(_CLOSING)

    async def close(self) -> None:
        """End the process too."""
        self.end()
        if self._working is not None:
            self._working.cancel()
            await asyncio.gather(self._working, return_exceptions=True)
        await self._stop()

    def _ahead_of(self, caller: str) -> int:
        """How many jobs will be done before the next one of a caller."""
        own = len(self._waiting.get(caller, ()))
        others = (min(len(of), own + 1) for name, of in self._waiting.items() if name != caller)
        return own + sum(others) + (self._current is not None)

    def _forget(self, answer: JobOutput) -> None:
        """Nobody listens any more."""
        of_caller = self._waiting.get(answer.caller)
        if of_caller is not None and answer in of_caller:
            of_caller.remove(answer)
            if not of_caller:
                del self._waiting[answer.caller]
        if answer is self._current:
            self._send(CANCEL)

    def _next(self) -> JobOutput | None:
        """Take the next one: each caller has one turn, then the next caller."""
        for caller in self._waiting:
            of_caller = self._waiting.pop(caller)
            answer = of_caller.popleft()
            if of_caller:
                self._waiting[caller] = of_caller  # behind all others
            return answer
        return None

    async def _work(self) -> None:
        """Do all that waits; the next who comes begins anew."""
        try:
            await self._start()
            while (answer := self._next()) is not None:
                self._current = answer
                await self._do(answer)
                self._current = None
        except Exception as error:
            logs.unexpected(error, during="simulation")
            self._end_all(_GONE)
        finally:
            self._current = None

    async def _do(self, answer: JobOutput) -> None:
        process = await self._start()
        assert process.stdout is not None
        if not answer.wanted:  # dropped while the process was started
            return
        self._send(msgspec.json.encode(answer.job) + b"\n")
        while line := await process.stdout.readline():
            mark, body = line[:1], line[1:]
            if mark == NOTE:
                logs.event("simulation_failed", **msgspec.json.decode(body))
            elif mark == LAST:
                answer.end(body)
                return
            elif answer.wanted:
                answer.put(body)
        answer.end(_GONE)
        logs.event("simulation_process_ended", code=await process.wait())
        await self._start()  # at once, so that it is warm when the next job comes

    async def _start(self) -> asyncio.subprocess.Process:
        if self._process is None or self._process.returncode is not None:
            self._process = await asyncio.create_subprocess_exec(
                *_COMMAND,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.DEVNULL,
                limit=_LONGEST_LINE,
            )
        return self._process

    async def _stop(self) -> None:
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()
            await self._process.wait()

    def _send(self, line: bytes) -> None:
        process = self._process
        if process is not None and process.stdin is not None:
            process.stdin.write(line)  # what a dead process does not read is told by its end

    def _end_all(self, last: dict[str, Any]) -> None:
        answers = [answer for of_caller in self._waiting.values() for answer in of_caller]
        self._waiting.clear()
        if self._current is not None:
            answers.append(self._current)
        for answer in answers:
            answer.end(last)
