"""The job queue and its worker: fair, cancellable, restarted, and separate from decisions."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from service_fixtures import TEAS, Server, Service, assert_problem, server, service
from studio_fixtures import (
    LARGE,
    SMALL,
    STUDY,
    TIMEOUT,
    is_running,
    run_simulation,
    stream_lines,
    wait_until,
    worker_pids,
)
from studio_worker import ECHO_WORKER, USERS_WORKER

import entice
from entice.service.domain.errors import Refusal
from entice.studio.jobs import queue as queue_module
from entice.studio.jobs import worker
from entice.studio.jobs.job import Reproduce, Simulate
from entice.studio.jobs.queue import JobQueue
from entice.studio.jobs.simulate import FIRST_REPLICATIONS
from entice.studio.studio import studio_of


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with service(tmp_path_factory.mktemp("studio")) as made:
        yield made


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A service in its own process, with a worker that has compiled."""
    with server(tmp_path_factory.mktemp("studio")) as made:
        for study in (STUDY, {**LARGE, "horizon": 100, "replications": 10}):
            with stream_lines(made, study) as lines:
                assert list(lines)[-1]["kind"] == "done"
        yield made


# The worker process


def test_the_first_snapshot_comes_early(running: Server) -> None:
    study = {**STUDY, "horizon": 20_000, "replications": 2000}
    started = time.monotonic()
    with stream_lines(running, study) as lines:
        first = next(line for line in lines if line["kind"] == "picture")
        early = time.monotonic() - started
        last = list(lines)[-1]
    whole = time.monotonic() - started
    assert first["replications"] <= FIRST_REPLICATIONS
    assert last["kind"] == "done"
    # 0.1 s on an idle machine; this one may be busy.
    assert early < max(1.0, whole / 3)


def test_closing_the_connection_cancels_the_job(running: Server) -> None:
    [process] = worker_pids(running.process.pid)
    for _ in range(3):
        with stream_lines(running, LARGE) as lines:
            next(line for line in lines if line["kind"] == "picture")
        started = time.monotonic()
        with stream_lines(running, SMALL) as lines:
            assert list(lines)[-1]["kind"] == "done"
        assert time.monotonic() - started < 60  # LARGE takes minutes
    used = _cpu(process)
    time.sleep(1)
    assert _cpu(process) - used < 0.5  # seconds: the worker is idle
    assert worker_pids(running.process.pid) == [process]


def test_closing_the_connection_removes_a_waiting_job(running: Server) -> None:
    with stream_lines(running, LARGE) as first:
        next(line for line in first if line["kind"] == "picture")
        with stream_lines(running, LARGE) as second:
            assert next(second) == {"kind": "queued", "ahead": 1}
        with stream_lines(running, SMALL) as third:
            # The second is removed once the service notices.
            assert next(third)["ahead"] in (1, 2)
    with stream_lines(running, SMALL) as lines:
        assert list(lines)[-1]["kind"] == "done"


def test_decisions_do_not_wait_for_a_large_simulation(running: Server) -> None:
    campaign = running.post("/v1/campaigns", TEAS)["id"]
    with stream_lines(running, LARGE) as lines:
        next(line for line in lines if line["kind"] == "picture")
        [process] = worker_pids(running.process.pid)
        used, took = _cpu(process), []
        with httpx.Client(headers=running.headers) as client:
            for i in range(100):
                started = time.monotonic()
                url = f"{running.url}/v1/campaigns/{campaign}/offers"
                assert client.post(url, json={"player": f"{i}"}).status_code == 201
                took.append(time.monotonic() - started)
        assert _cpu(process) > used, "the simulation was not running"
        assert os.getpriority(os.PRIO_PROCESS, process) >= 10
    assert sorted(took)[50] < 2  # the simulation takes minutes


def test_a_killed_worker_is_restarted(api: Service) -> None:
    run_simulation(api, SMALL)
    process = studio_of(api.context).jobs.pid
    assert process is not None
    found: list[list[dict[str, Any]]] = []
    requesting = threading.Thread(target=lambda: found.append(run_simulation(api, LARGE)))
    requesting.start()
    used = _cpu(process)
    wait_until(lambda: _cpu(process) > used + 0.3)  # it is running
    os.kill(process, signal.SIGKILL)
    requesting.join(TIMEOUT)
    last = found[0][-1]
    assert (last["kind"], last["status"]) == ("failed", 503)
    assert "restarted" in last["detail"]
    assert run_simulation(api, SMALL)[-1]["kind"] == "done"
    assert studio_of(api.context).jobs.pid != process
    # Also if it dies while idle.
    idle = studio_of(api.context).jobs._process
    assert idle is not None
    os.kill(idle.pid, signal.SIGKILL)
    wait_until(lambda: idle.returncode is not None)
    assert run_simulation(api, SMALL)[-1]["kind"] == "done"


def test_a_killed_worker_fails_a_trace(api: Service) -> None:
    run_simulation(api, SMALL)
    process = studio_of(api.context).jobs.pid
    assert process is not None
    study = {**LARGE, "horizon": 1_000_000, "replications": 1}
    outputs: list[Any] = []
    requesting = threading.Thread(
        target=lambda: outputs.append(api.client.post("/v1/traces", json={"study": study}))
    )
    used = _cpu(process)
    requesting.start()
    wait_until(lambda: _cpu(process) > used)
    os.kill(process, signal.SIGKILL)
    requesting.join(TIMEOUT)
    assert outputs[0].status_code in (200, 503)
    if outputs[0].status_code == 503:
        assert_problem(outputs[0], 503, "unavailable")


def test_the_worker_ends_with_its_killed_parent(tmp_path: Path) -> None:
    with server(tmp_path) as made:
        httpx.get(f"{made.url}/v1/studio", headers=made.headers)
        [process] = wait_until(lambda: worker_pids(made.process.pid))
        os.kill(made.process.pid, signal.SIGKILL)
        wait_until(lambda: not is_running(process))


def test_stopping_the_service_ends_simulations_and_the_worker(tmp_path: Path) -> None:
    with server(tmp_path) as made:
        with stream_lines(made, LARGE) as lines:
            next(line for line in lines if line["kind"] == "picture")
            [process] = worker_pids(made.process.pid)
            made.process.terminate()
            last = list(lines)[-1]
        assert (last["kind"], last["title"]) == ("failed", "The service is stopping")
        assert made.process.wait(TIMEOUT) == 0
        wait_until(lambda: not is_running(process))


def test_the_worker_starts_with_the_page_and_ends_with_the_service(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queue_module, "_COMMAND", USERS_WORKER)
    with service(tmp_path) as api:
        campaign = api.campaign()
        api.offer(campaign, "ann")
        api.client.get("/")  # needs no key, so it must cost little
        assert studio_of(api.context).jobs.pid is None
        api.client.get("/v1/studio")
        process = wait_until(lambda: studio_of(api.context).jobs.pid)
        assert run_simulation(api, SMALL)[-1]["kind"] == "done"
    wait_until(lambda: not is_running(process))


def test_the_worker_warms_up_for_every_policy_of_the_page(monkeypatch: pytest.MonkeyPatch) -> None:
    cells: list[Any] = []
    plans: list[Any] = []
    monkeypatch.setattr(worker, "Cell", lambda *arguments: cells.append(arguments))
    monkeypatch.setattr(worker, "PlanRunner", plans.append)
    for step in worker.warm_up_steps():
        step()
    policies = [entice.UCB(), entice.EpsilonGreedy(c=5), entice.ThompsonSampling(), entice.Greedy()]
    equal_pay = entice.EqualPay(horizon=100)
    planned = {type(policy) for plan in plans for policy in plan.policies}
    assert planned == {type(policy) for policy in (*policies, equal_pay)}
    for delay, expected in ((0, [*policies, equal_pay]), (1, policies)):
        for traced in (False, True):
            found = [c[1] for c in cells if (c[0].players.delay, c[4]) == (delay, traced)]
            assert found == expected


# The time limit

_SLOW = """
import sys, threading, time
for line in sys.stdin.buffer:
    if line == b"cancel\\n" and "--obeys" in sys.argv:
        sys.stdout.write('.{"kind":"cancelled"}\\n')
    if b"horizon" in line:
        threading.Timer(0.6, lambda: print('.{"kind":"done"}', flush=True)).start()
    if b"reproduce" in line:
        time.sleep(0.6)
        sys.stdout.write('.{"kind":"done"}\\n')
    sys.stdout.flush()
"""


@pytest.mark.parametrize("obeys", [True, False])
@pytest.mark.parametrize("limit", [0.2, 20.0])
def test_a_simulation_that_takes_too_long_is_stopped(
    monkeypatch: pytest.MonkeyPatch, obeys: bool, limit: float
) -> None:
    """By a request, or by SIGKILL if the worker does not react. Control: the same without limit."""
    arguments = ("--obeys",) if obeys else ()
    monkeypatch.setattr(queue_module, "_COMMAND", (sys.executable, "-c", _SLOW, *arguments))
    monkeypatch.setattr(queue_module, "KILL_AFTER", 0.1)

    async def run() -> None:
        jobs = JobQueue(max_seconds=limit)
        last = json.loads([line async for line in jobs.submit("ann", Simulate({"horizon": 1}))][-1])
        if limit > 1:
            assert last == {"kind": "done"}
        else:
            assert (last["kind"], last["status"]) == ("failed", 422)
            assert "may take 0.2 seconds here" in last["detail"]
            assert "use the command line" in last["detail"]
        # The next job runs, and jobs of another kind have no limit.
        if not obeys or limit > 1:
            last = json.loads([line async for line in jobs.submit("ann", Reproduce())][-1])
            assert last == {"kind": "done"}
        await jobs.close()

    asyncio.run(run())


# The queue


@pytest.fixture
def echo(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queue_module, "_COMMAND", ECHO_WORKER)


@pytest.mark.usefixtures("echo")
def test_callers_take_turns() -> None:
    async def run() -> None:
        jobs, order = JobQueue(), []

        async def read(name: str, response: Any) -> None:
            lines = [line async for line in response]
            assert lines[-1] == b'{"kind":"done"}\n'
            order.append((name, json.loads(lines[0])["ahead"]))

        submitted = [("ann", 0), ("ann", 1), ("ann", 2), ("bob", 3), ("cat", 4), ("bob", 5)]
        reading = [
            asyncio.create_task(read(f"{caller}{i}", jobs.submit(caller, Reproduce())))
            for caller, i in submitted
        ]
        await asyncio.gather(*reading)
        assert [name for name, _ in order] == ["ann0", "bob3", "cat4", "ann1", "bob5", "ann2"]
        # Jobs ahead of each when it was submitted, before any had started.
        assert dict(order) == {"ann0": 0, "ann1": 1, "ann2": 2, "bob3": 1, "cat4": 2, "bob5": 4}
        await jobs.close()

    asyncio.run(run())


@pytest.mark.usefixtures("echo")
def test_too_many_waiting_jobs_are_rejected() -> None:
    async def run() -> None:
        jobs = JobQueue()
        outputs = [jobs.submit("ann", Reproduce()) for _ in range(8)]
        with pytest.raises(Refusal, match="At most 8 jobs of one key may wait, run or have output"):
            jobs.submit("ann", Reproduce())
        outputs += [jobs.submit(f"caller {i}", Reproduce()) for i in range(56)]
        with pytest.raises(Refusal) as rejected:
            jobs.submit("bob", Reproduce())
        assert rejected.value.status == 429
        # Jobs that have run count as long as their output is kept for a client that does not read.
        assert [line async for line in outputs[0]][-1] == b'{"kind":"done"}\n'
        with pytest.raises(Refusal):
            jobs.submit("ann", Reproduce())
        outputs.pop(0).cancel()
        outputs.append(jobs.submit("ann", Reproduce()))
        await jobs.close()
        outputs.clear()
        late = jobs.submit("ann", Reproduce())
        assert b"stopping" in [line async for line in late][-1]

    asyncio.run(run())


@pytest.mark.usefixtures("echo")
def test_a_cancelled_job_does_not_run() -> None:
    async def run() -> None:
        jobs = JobQueue()
        outputs = [jobs.submit("ann", Reproduce()) for _ in range(3)]
        outputs[1].cancel()
        outputs[1].cancel()
        done = [line async for line in outputs[2]]
        assert done[-1] == b'{"kind":"done"}\n'
        cancelled = [json.loads(line)["kind"] async for line in outputs[1]]
        assert cancelled == ["queued"]
        await jobs.close()

    asyncio.run(run())


def test_a_worker_that_cannot_start_fails_the_job(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        jobs = JobQueue()
        lines = [line async for line in jobs.submit("ann", Reproduce())]
        assert b"The simulation process ended" in lines[-1]
        await jobs.close()

    for command in (("/nowhere/python",), (sys.executable, "-c", "raise SystemExit(3)")):
        monkeypatch.setattr(queue_module, "_COMMAND", command)
        asyncio.run(run())


def _cpu(process: int) -> float:
    """Return the CPU seconds of a process."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
