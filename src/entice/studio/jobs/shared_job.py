"""A job that runs once for all clients, in a background worker of its own."""

from __future__ import annotations

import asyncio

import msgspec

from entice.studio.jobs.job import Job
from entice.studio.jobs.queue import JobOutput, JobQueue


class _Line(msgspec.Struct):
    kind: str


class SharedJob:
    """A job whose result is kept. It runs while anyone reads its output.

    Its worker has the lowest priority, so that neither decisions nor the jobs of other screens wait
    for it, and ends when the result is there.
    """

    def __init__(self, job: Job, result_kind: str) -> None:
        self._job, self._result_kind = job, result_kind
        self._queue = JobQueue(background=True)
        self._running: JobOutput | None = None
        self._runner: asyncio.Task[None] | None = None
        self._readers: list[JobOutput] = []
        self._latest: bytes | None = None
        self._result: bytes | None = None

    @property
    def result(self) -> bytes | None:
        """The last line of the output, once the job has succeeded."""
        return self._result

    def read(self) -> JobOutput:
        """Return the output from its latest line on. Start the job unless it is running."""
        reader = JobOutput("", self._job, 0, self._leave)
        self._readers.append(reader)
        if self._latest is not None:
            reader.put(self._latest)
        if self._runner is None or self._runner.done():
            self._runner = asyncio.create_task(self._run())
        return reader

    def cancel(self) -> None:
        """End the job and reject new readers: the service is shutting down."""
        self._queue.cancel_all()

    async def close(self) -> None:
        """End the job and its worker."""
        await self._queue.close()
        if self._runner is not None:
            await self._runner

    def _leave(self, reader: JobOutput) -> None:
        if reader in self._readers:
            self._readers.remove(reader)
        if not self._readers and self._running is not None:
            self._running.cancel()
            self._latest = None

    async def _run(self) -> None:
        while self._readers:  # again if all left, and one came back before the job had ended
            output = self._running = self._queue.submit("", self._job)
            line = b""
            async for line in output:
                if not output.cancelled:
                    self._latest = line
                    for reader in self._readers:
                        reader.put(line)
            self._running = self._latest = None
            if output.cancelled:
                continue
            if msgspec.json.decode(line, type=_Line).kind == self._result_kind:
                self._result = line
                await self._queue.close()
            for reader in self._readers:
                reader.close()
            self._readers.clear()
