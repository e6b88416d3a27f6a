"""Reads in another process, while other campaigns use the service."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from multiprocessing import Pipe
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from service_fixtures import TEAS, Service, assert_problem, server, service

from entice.service.domain.errors import DamagedCampaign, Refusal, not_found
from entice.service.http import read_process
from entice.service.http.read_process import Child, ReadFailed, ReadProcess, answer_reads
from entice.service.storage.queries import Queries
from entice.service.storage.writer import Writer

ROUTES = (
    "/v1/campaigns/{0}", "/v1/campaigns/{0}/arms", "/v1/campaigns/{0}/offers",
    "/v1/campaigns/{0}/events", "/v1/campaigns/{0}/spending", "/v1/campaigns/{0}/drift",
    "/v1/campaigns/{0}/effect", "/v1/offers/{0}.1", "/v1/offers/{0}.99", "/v1/trust",
)  # fmt: skip


@contextlib.contextmanager
def reader(db: str, starts: Sequence[Child | OSError] = ()) -> Iterator[ReadProcess]:
    """Answer reads in a thread of this process, which coverage measures."""
    here, there = Pipe()
    thread = threading.Thread(target=answer_reads, args=(db, there))
    thread.start()
    later = iter(starts)

    def start_again() -> Child:
        child = next(later)
        if isinstance(child, OSError):
            raise child
        return child

    yield ReadProcess(Child(here, os.getpid(), lambda: None), start_again)
    here.close()
    thread.join(30)
    assert not thread.is_alive()


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    folder = tmp_path_factory.mktemp("read_process")
    db = f"sqlite:///{folder / 'entice.db'}"
    with reader(db) as fast, reader(db) as slow, service(
        folder, read_processes=(fast, slow)
    ) as made:  # fmt: skip
        yield made


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The functions that were called in the other process."""
    called: list[str] = []
    read = ReadProcess.read

    def count(self: ReadProcess, function: Any, *arguments: Any) -> bytes:
        called.append(function.__name__)
        return read(self, function, *arguments)

    monkeypatch.setattr(ReadProcess, "read", count)
    return called


def test_reads_use_the_other_process_only_while_other_campaigns_use_the_service(
    shop: Service, calls: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The responses are the same. The control is a key whose campaign is alone."""
    own, other = shop.campaign(), shop.campaign()
    shop.offer(own, "ann")
    key = shop.bearer("read", own)
    responses = []
    asked: list[str | None] = []
    for others in (True, False):

        def is_used(_: Writer, campaign: str | None, others: bool = others) -> bool:
            asked.append(campaign)
            return others

        monkeypatch.setattr(Writer, "is_used_by_others", is_used)
        calls.clear()
        asked.clear()
        answers = [shop.client.get(path.format(own), headers=key) for path in ROUTES]
        assert len(calls) == (len(ROUTES) if others else 0)
        assert asked == [own] * len(ROUTES)
        responses.append([(a.status_code, a.headers["content-type"], a.json()) for a in answers])
    assert responses[0] == responses[1]
    assert [status for status, _, _ in responses[0]] == [200] * 8 + [404, 200]
    assert shop.client.get(f"/v1/campaigns/{other}", headers=key).status_code == 404


def test_the_log_is_in_the_database_once_the_last_process_has_ended(tmp_path: Path) -> None:
    """Otherwise a copy of the file alone would lack the last events."""
    file, log = tmp_path / "entice.db", tmp_path / "entice.db-wal"
    with reader(f"sqlite:///{file}") as process:
        with service(tmp_path) as shop:
            campaign = shop.campaign()
            process.read(Queries.campaign, campaign)
        assert log.stat().st_size > 0  # the control: the process has it open
    assert not log.exists()


def test_an_unexpected_error_in_the_other_process_is_raised_by_this_one(
    shop: Service, calls: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise KeyError("the inside")

    monkeypatch.setattr(Writer, "is_used_by_others", lambda *_: True)
    monkeypatch.setattr(Queries, "effect", broken)
    broken.__qualname__, broken.__module__ = "Queries.effect", Queries.__module__  # for pickle
    answer = shop.client.get("/v1/campaigns/c_0/effect", headers=shop.bearer("read"))
    assert_problem(answer, 500, "internal")
    assert calls == ["broken"]
    assert all(process.alive for process in shop.context.read_processes)


def fail_with(_: Queries, error: Exception) -> None:
    raise error


def test_errors_of_the_service_keep_their_contents(tmp_path: Path) -> None:
    refusal = Refusal(409, "conflict", "Not now", "Because.", limit=3)
    errors = [refusal, not_found("offer", "x"), DamagedCampaign("The row is damaged.")]
    with reader(f"sqlite:///{tmp_path}/entice.db") as process:
        for error in errors:
            with pytest.raises(type(error)) as raised:
                process.read(fail_with, error)
            assert (str(raised.value), vars(raised.value)) == (str(error), vars(error))
        with pytest.raises(ReadFailed):
            process.read(fail_with, ValueError("unexpected"))
        assert process.alive


def wait_for(_: Queries, event: str) -> None:
    EVENTS[event].wait(30)


EVENTS = {"end": threading.Event()}


def test_a_process_that_does_not_answer_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The delay doubles, and is the first one again after a process has run for a long time."""
    delays: list[float] = []
    monkeypatch.setattr(read_process, "MAX_SECONDS", 0.05)
    monkeypatch.setattr(read_process, "time", SimpleNamespace(sleep=delays.append, monotonic=clock))
    db = f"sqlite:///{tmp_path}/entice.db"
    with reader(db) as second, reader(db) as third:
        starts = [OSError("no memory"), second._child, third._child]
        with reader(db, starts) as process:
            for expected in ([1.0, 2.0], [1.0, 2.0, 4.0]):
                with pytest.raises(ReadFailed):
                    process.read(wait_for, "end")
                wait_until(lambda: process.alive)
                assert delays == expected
            monkeypatch.setattr(read_process, "MAX_SECONDS", 30.0)
            assert process.read(add_one, 1) == b"2"
            EVENTS["end"].set()
            TIME[0] += read_process.MAX_DELAY + 1
            third._child.connection.close()
            monkeypatch.setattr(process, "_start_again", lambda: process._child)
            with pytest.raises(ReadFailed):
                process.read(add_one, 1)
            wait_until(lambda: process.alive)
            assert delays[3:] == [1.0]


def add_one(_: Queries, number: int) -> int:
    return number + 1


TIME = [0.0]


def clock() -> float:
    return TIME[0]


def wait_until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.005)


def children(pid: int) -> list[int]:
    tasks = Path(f"/proc/{pid}/task").iterdir()
    found = {int(child) for task in tasks for child in (task / "children").read_text().split()}
    return sorted(found)


def test_a_killed_process_is_started_again_and_ends_with_the_service(
    tmp_path: Path,
) -> None:
    with server(tmp_path) as running, httpx.Client(headers=running.headers) as client:
        campaigns = [running.post("/v1/campaigns", TEAS)["id"] for _ in range(2)]
        [worker] = children(running.process.pid)
        fast, slow = children(worker)[:2]
        os.kill(fast, signal.SIGKILL)
        visits = 0
        while "read-process-ended" not in running.log.read_text():  # it was used, and is gone
            visits += 1
            assert visits < 100
            for campaign in campaigns:
                body = {"player": f"player-{visits}"}
                running.post(f"/v1/campaigns/{campaign}/offers", body)
            found = client.get(f"{running.url}/v1/campaigns/{campaigns[0]}")
            assert found.json()["decisions"] == visits
        assert f'"pid":{fast}' in running.log.read_text().replace(" ", "")
        wait_until(lambda: not Path(f"/proc/{fast}").exists())  # its exit status is collected
        wait_until(lambda: "read-process-started" in running.log.read_text())
        [new] = set(children(worker)) - {slow}
        for campaign in campaigns:
            running.post(f"/v1/campaigns/{campaign}/offers", {"player": "last"})
        used = cpu_time(new)
        found = client.get(f"{running.url}/v1/campaigns/{campaigns[0]}")
        assert (found.json()["decisions"], cpu_time(new) > used) == (visits + 1, True)
        for process in (new, slow):  # as systemd does; they end with the service only
            os.kill(process, signal.SIGTERM)
            assert _is_running(process)
        for process in (running.process.pid, worker):
            os.kill(process, signal.SIGKILL)
        wait_until(lambda: not _is_running(new) and not _is_running(slow))


def cpu_time(pid: int) -> int:
    """Return the CPU time of a process, in nanoseconds."""
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0])


def _is_running(pid: int) -> bool:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False
