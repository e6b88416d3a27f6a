"""A queue of simulation jobs in which callers take turns, and the worker process that runs them."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import weakref
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import msgspec

from entice.service import logs
from entice.service.domain.errors import Refusal
from entice.studio.jobs.job import (
    BACKGROUND,
    CANCEL,
    END,
    LOG,
    Job,
    MakePlan,
    Simulate,
    Trace,
)
from entice.studio.jobs.limits import LIMITS

MAX_OPEN = 64
"""Maximum number of jobs that wait, run or whose output is not read yet, of all callers."""
MAX_OPEN_PER_CALLER = 8
KILL_AFTER = 5.0
"""Seconds after which a worker is killed that does not stop a job on request."""
_COMMAND = (sys.executable, "-P", "-m", "entice.studio.jobs.worker")
_MAX_LINE = 256 * 1024 * 1024

_WORKER_ENDED = {
    "kind": "failed",
    "status": 503,
    "title": "The simulation process ended",
    "detail": "It was killed or ran out of memory, and has been restarted. Try again, or request a "
    "smaller simulation.",
}
_SHUTTING_DOWN = {
    "kind": "failed",
    "status": 503,
    "title": "The service is stopping",
    "detail": "Try again once it has restarted.",
}


class JobOutput:
    """The output of a job, line by line."""

    def __init__(
        self, caller: str, job: Job, ahead: int, on_cancel: Callable[[JobOutput], None]
    ) -> None:
        self.caller = caller
        self.job = job
        self.cancelled = False
        self.too_long = False
        """Whether the job was stopped because it took too long."""
        self._on_cancel = on_cancel
        self._lines: asyncio.Queue[bytes | None] = asyncio.Queue()
        self.put({"kind": "queued", "ahead": ahead})

    async def __aiter__(self) -> AsyncIterator[bytes]:
        """Iterate over the lines as they arrive."""
        while (line := await self._lines.get()) is not None:
            yield line

    def put(self, line: bytes | dict[str, Any]) -> None:
        """Add a line."""
        encoded = line if isinstance(line, bytes) else msgspec.json.encode(line) + b"\n"
        self._lines.put_nowait(encoded)

    def end(self, last: bytes | dict[str, Any]) -> None:
        """Add the last line."""
        self.put(last)
        self.close()

    def close(self) -> None:
        """End the output after the lines so far."""
        self._lines.put_nowait(None)

    def cancel(self) -> None:
        """Cancel the job."""
        if not self.cancelled:
            self.cancelled = True
            self._on_cancel(self)


class JobQueue:
    """A queue that runs one job at a time in a worker process. Callers take turns.

    A background worker has the lowest priority, and compiles nothing before its first job. A
    simulation, a trace or a plan that takes longer than `max_seconds` is stopped.
    """

    def __init__(self, background: bool = False, max_seconds: float = LIMITS.most_seconds) -> None:
        self._max_seconds = max_seconds
        self._command = (*_COMMAND, BACKGROUND) if background else _COMMAND
        self._waiting: dict[str, deque[JobOutput]] = {}
        """Jobs by caller. A job of the first caller runs next; the caller then moves to the end."""
        self._outputs: weakref.WeakSet[JobOutput] = weakref.WeakSet()
        """The output of all jobs that anyone reads, or is still to read."""
        self._current: JobOutput | None = None
        self._process: asyncio.subprocess.Process | None = None
        self._runner: asyncio.Task[None] | None = None
        self._open = True

    @property
    def pid(self) -> int | None:
        """The process id of the worker, if it was started."""
        return self._process.pid if self._process is not None else None

    def start(self) -> None:
        """Start the worker if it is not running, so that it compiles before the first job."""
        if self._open and (self._runner is None or self._runner.done()):
            self._runner = asyncio.create_task(self._run_waiting())

    def submit(self, caller: str, job: Job) -> JobOutput:
        """Queue a job; raise `Refusal` if too many are waiting."""
        callers = [output.caller for output in self._outputs if not output.cancelled]
        if callers.count(caller) >= MAX_OPEN_PER_CALLER or len(callers) >= MAX_OPEN:
            detail = (
                f"At most {MAX_OPEN_PER_CALLER} jobs of one key may wait, run or have output that "
                f"was not read yet, and {MAX_OPEN} in total. Close simulations that you no longer "
                "need, or try again soon."
            )
            raise Refusal(429, "too-many-jobs", "Too many simulations", detail)
        output = JobOutput(caller, job, self._jobs_ahead(caller), self._cancel)
        self._outputs.add(output)
        if self._open:
            self._waiting.setdefault(caller, deque()).append(output)
            self.start()
        else:
            output.end(_SHUTTING_DOWN)
        return output

    def cancel_all(self) -> None:
        """End all jobs and reject new ones: the service is shutting down."""
        self._open = False
        self._end_all(_SHUTTING_DOWN)

    async def close(self) -> None:
        """End all jobs and the worker."""
        self.cancel_all()
        if self._runner is not None:
            self._runner.cancel()
            await asyncio.gather(self._runner, return_exceptions=True)
        self._kill()
        if self._process is not None:
            await self._process.wait()

    def _jobs_ahead(self, caller: str) -> int:
        """Count the jobs that run before a caller's next one."""
        own = len(self._waiting.get(caller, ()))
        others = (min(len(of), own + 1) for name, of in self._waiting.items() if name != caller)
        return own + sum(others) + (self._current is not None)

    def _cancel(self, output: JobOutput) -> None:
        """Remove a waiting job, or cancel the running one."""
        of_caller = self._waiting.get(output.caller)
        if of_caller is not None and output in of_caller:
            of_caller.remove(output)
            output.close()
            if not of_caller:
                del self._waiting[output.caller]
        if output is self._current:
            self._send(CANCEL)

    def _next(self) -> JobOutput | None:
        """Remove and return the next job, or None. Callers take turns."""
        for caller in self._waiting:
            of_caller = self._waiting.pop(caller)
            output = of_caller.popleft()
            if of_caller:
                self._waiting[caller] = of_caller  # behind all others
            return output
        return None

    async def _run_waiting(self) -> None:
        """Run all waiting jobs. `submit` starts this again for later ones."""
        try:
            await self._ensure_worker()
            while (output := self._next()) is not None:
                self._current = output
                await self._run(output)
                self._current = None
        except Exception as error:
            logs.unexpected(error, during="simulation")
            self._end_all(_WORKER_ENDED)
        finally:
            self._current = None

    async def _run(self, output: JobOutput) -> None:
        process = await self._ensure_worker()
        assert process.stdout is not None
        if output.cancelled:  # while the worker was started
            output.close()
            return
        self._send(msgspec.json.encode(output.job) + b"\n")
        with self._time_limit(output):
            if await self._pass_on(output, process.stdout):
                return
        logs.event("simulation_process_ended", code=await process.wait())
        await self._ensure_worker()  # restart it now, so that it is warm for the next job

    async def _pass_on(self, output: JobOutput, lines: asyncio.StreamReader) -> bool:
        """Pass on the lines of the running job; return False if the worker ended before the job."""
        while line := await lines.readline():
            mark, body = line[:1], line[1:]
            if mark == LOG:
                logs.event("simulation_failed", **msgspec.json.decode(body))
            elif mark == END:
                output.end(self._too_long if output.too_long else body)
                return True
            elif not output.cancelled:
                output.put(body)
        output.end(self._too_long if output.too_long else _WORKER_ENDED)
        return False

    @contextlib.contextmanager
    def _time_limit(self, output: JobOutput) -> Iterator[None]:
        """Stop a job that takes too long: by a request and, if it does not react, by SIGKILL."""
        if not isinstance(output.job, Simulate | Trace | MakePlan):
            yield
            return
        loop = asyncio.get_running_loop()

        def stop() -> None:
            output.too_long = True
            self._send(CANCEL)

        timers = [
            loop.call_later(self._max_seconds, stop),
            loop.call_later(self._max_seconds + KILL_AFTER, self._kill),
        ]
        try:
            yield
        finally:
            for timer in timers:
                timer.cancel()

    def _kill(self) -> None:
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()

    @property
    def _too_long(self) -> dict[str, Any]:
        return {
            "kind": "failed",
            "status": 422,
            "title": "The simulation took too long",
            "detail": f"A simulation may take {self._max_seconds:g} seconds here, and was stopped. "
            "Request fewer rounds, replications, arms or policies, or use the command line, which "
            "has no such limit.",
        }

    async def _ensure_worker(self) -> asyncio.subprocess.Process:
        if self._process is None or self._process.returncode is not None:
            self._process = await asyncio.create_subprocess_exec(
                *self._command,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.DEVNULL,
                limit=_MAX_LINE,
            )
        return self._process

    def _send(self, line: bytes) -> None:
        process = self._process
        if process is not None and process.stdin is not None:
            process.stdin.write(line)  # a worker that has died is noticed when its output ends

    def _end_all(self, last: dict[str, Any]) -> None:
        outputs = [output for of_caller in self._waiting.values() for output in of_caller]
        self._waiting.clear()
        if self._current is not None:
            outputs.append(self._current)
        for output in outputs:
            output.end(last)
