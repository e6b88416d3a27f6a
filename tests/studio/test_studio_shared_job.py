"""The reproduction of the paper: one run for all clients, behind every other job."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path
from typing import Any

import httpx
import pytest
from service_fixtures import server
from studio_fixtures import SMALL, TIMEOUT, is_running, stream_lines, wait_until, worker_pids

from entice.studio.jobs import queue as queue_module
from entice.studio.jobs.job import Reproduce
from entice.studio.jobs.queue import JobOutput
from entice.studio.jobs.shared_job import SharedJob

WORKER = """
import pathlib, select, sys
stdin, out = open(0, "rb", buffering=0), sys.stdout.buffer
starts, finish = map(pathlib.Path, sys.argv[1:3])
def write(line):
    out.write(line + b"\\n")
    out.flush()
for line in iter(stdin.readline, b""):
    starts.write_text(starts.read_text() + "x")
    write(b'+{"kind":"progress","done":1,"total":2}')
    while not finish.exists():
        if select.select([0], [], [], 0.01)[0]:
            assert stdin.readline() == b"cancel\\n"
            write(b'.{"kind":"cancelled"}')
            break
    else:
        write(b'.' + finish.read_bytes())
"""
"""Reports progress, then waits until it is cancelled or the file `finish` has its last line."""


class SlowJob:
    """A shared job of the worker above."""

    def __init__(self, folder: Path) -> None:
        self._starts, self._finish = folder / "starts", folder / "finish"
        self._starts.write_text("")
        self.job = SharedJob(Reproduce(), "paper")

    @property
    def starts(self) -> int:
        return len(self._starts.read_text())

    def finish(self, kind: str) -> None:
        self._finish.write_text(json.dumps({"kind": kind}))


@pytest.fixture
def slow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SlowJob:
    files = str(tmp_path / "starts"), str(tmp_path / "finish")
    monkeypatch.setattr(queue_module, "_COMMAND", (sys.executable, "-c", WORKER, *files))
    return SlowJob(tmp_path)


async def kinds(output: JobOutput) -> AsyncIterator[str]:
    async for line in output:
        yield json.loads(line)["kind"]


async def until(kind: str, output: JobOutput) -> None:
    async for found in kinds(output):
        if found == kind:
            return
    raise AssertionError(f"the output ended without {kind}")


def run(test: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(asyncio.wait_for(test(), TIMEOUT))


def test_a_job_that_is_cancelled_while_its_worker_starts_can_be_read_again(slow: SlowJob) -> None:
    async def test() -> None:
        first = slow.job.read()
        await asyncio.sleep(0)  # the job is submitted, and its worker is being started
        first.cancel()
        await until("progress", slow.job.read())
        await slow.job.close()

    run(test)


def test_a_waiting_job_that_is_cancelled_ends_its_output(slow: SlowJob) -> None:
    async def test() -> None:
        queue = queue_module.JobQueue()
        running, waiting = queue.submit("a", Reproduce()), queue.submit("a", Reproduce())
        await until("progress", running)
        waiting.cancel()
        assert [kind async for kind in kinds(waiting)] == ["queued"]
        await queue.close()

    run(test)


def test_all_clients_read_one_run(slow: SlowJob) -> None:
    async def test() -> None:
        job = slow.job
        first = job.read()
        await until("progress", first)
        late = job.read()
        await until("progress", late)  # the latest line, at once
        slow.finish("paper")
        assert [kind async for kind in kinds(first)] == ["paper"]
        assert [kind async for kind in kinds(late)] == ["paper"]
        assert job.result == b'{"kind": "paper"}\n'
        assert slow.starts == 1
        await job.close()

    run(test)


def test_the_run_is_cancelled_when_the_last_client_leaves(slow: SlowJob) -> None:
    async def test() -> None:
        job = slow.job
        one, other = job.read(), job.read()
        await until("progress", one)
        one.cancel()
        await until("progress", other)
        other.cancel()
        again = job.read()  # before the worker has noticed
        await until("progress", again)
        assert slow.starts == 2
        again.cancel()
        await job.close()
        assert job.result is None

    run(test)


def test_a_failed_run_can_be_repeated(slow: SlowJob) -> None:
    async def test() -> None:
        job = slow.job
        slow.finish("failed")
        assert [kind async for kind in kinds(job.read())][-1] == "failed"
        slow.finish("paper")
        assert [kind async for kind in kinds(job.read())][-1] == "paper"
        assert slow.starts == 2
        await job.close()

    run(test)


def test_stopping_the_service_ends_the_run(slow: SlowJob) -> None:
    async def test() -> None:
        reader = slow.job.read()
        await until("progress", reader)
        slow.job.cancel()
        assert [kind async for kind in kinds(reader)] == ["failed"]
        await slow.job.close()

    run(test)


def test_simulations_do_not_wait_for_the_reproduction(tmp_path: Path) -> None:
    with server(tmp_path) as made:
        httpx.get(f"{made.url}/v1/studio", headers=made.headers)
        [first] = wait_until(lambda: worker_pids(made.process.pid))
        url = f"{made.url}/v1/paper"
        with httpx.stream("GET", url, headers=made.headers, timeout=TIMEOUT) as paper:
            [background] = wait_until(lambda: set(worker_pids(made.process.pid)) - {first})
            wait_until(lambda: os.getpriority(os.PRIO_PROCESS, background) == 19)
            with stream_lines(made, SMALL) as lines:
                assert next(lines) == {"kind": "queued", "ahead": 0}
                assert list(lines)[-1]["kind"] == "done"
            assert is_running(background)
            assert next(paper.iter_lines()) == '{"kind":"queued","ahead":0}'
        assert made.stop() == 0
        wait_until(lambda: not is_running(background))
