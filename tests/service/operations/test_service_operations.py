"""Running the service: processes, shutdown and logs."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import signal
import socket
import sqlite3
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest
from command_line import RunEntice, assert_error
from postgres import Postgres, postgres
from service_fixtures import TEAS, Server, Service, assert_problem, server, service
from studio_fixtures import child_pids, wait_until

from entice.local_token import read_token
from entice.service import logs
from entice.service.domain.errors import Corrupt, SchemaTooNew, Unavailable
from entice.service.http.server import _local_token

__all__ = ["postgres"]


def campaign_at(running: Server) -> str:
    return str(running.post("/v1/campaigns", TEAS)["id"])


def lines_of(log: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in log.read_text().splitlines()]


def test_shutdown_keeps_acknowledged_requests_and_does_not_wait_for_streams(
    tmp_path: Path,
) -> None:
    with server(tmp_path, new=True) as running:
        campaign = campaign_at(running)
        url = f"{running.url}/v1/campaigns/{campaign}"
        answered: list[str] = []
        refused = 0
        seen: list[str] = []
        started = threading.Event()

        def request_offers(first: int) -> None:
            nonlocal refused
            with httpx.Client(headers=running.headers) as client:
                for i in range(first, first + 10_000):
                    try:
                        answer = client.post(f"{url}/offers", json={"player": f"player {i}"})
                    except httpx.TransportError:
                        return  # the server has stopped
                    if answer.status_code == 503:
                        refused += 1
                        return
                    assert answer.status_code == 201
                    answered.append(answer.json()["id"])

        def follow() -> None:
            headers = {"last-event-id": "0", **running.headers}
            with httpx.stream("GET", f"{url}/stream", headers=headers) as stream:
                for line in stream.iter_lines():
                    seen.append(line)
                    started.set()

        following = threading.Thread(target=follow)
        following.start()
        assert started.wait(120)
        with ThreadPoolExecutor(8) as threads:
            requests = [threads.submit(request_offers, i * 100_000) for i in range(8)]
            while len(answered) < 50:
                assert not any(request.done() for request in requests)
                time.sleep(0.01)
            assert running.stop() == 0  # a worker that waits is killed, with another exit code
            for request in requests:
                request.result()
        following.join(60)
        assert not following.is_alive()
    assert "event: created" in seen
    with contextlib.closing(sqlite3.connect(tmp_path / "entice.db")) as database:
        kept = {f"{campaign}.{n}" for (n,) in database.execute("SELECT n FROM offers")}
    assert set(answered) <= kept
    events = [line["event"] for line in lines_of(running.log)]
    assert events[0] == "start"
    assert events[-2:] == ["stopped", "stop"]


def test_a_worker_does_not_outlive_its_parent(tmp_path: Path) -> None:
    with server(tmp_path) as running:
        running.process.send_signal(signal.SIGKILL)
        running.process.wait(120)
        for _ in range(2400):
            try:
                httpx.get(f"{running.url}/healthz")
            except httpx.TransportError:
                break
            time.sleep(0.1)
        else:
            raise AssertionError("it still answers")


def deaths_in(log: Path) -> list[dict[str, Any]]:
    return [line for line in lines_of(log) if line["event"] == "worker-died"]


def test_the_death_of_the_only_worker_is_logged_and_stops_the_service(tmp_path: Path) -> None:
    with server(tmp_path) as running:
        [worker] = child_pids(running.process.pid)
        os.kill(worker, signal.SIGKILL)
        assert running.process.wait(120) == 1
    [death] = deaths_in(running.log)
    assert death.pop("at")
    assert death == {
        "event": "worker-died",
        "level": "error",
        "worker": 1,
        "pid": worker,
        "exit_code": None,
        "signal": "SIGKILL",
        "next": "stop the service with exit code 1",
    }
    assert lines_of(running.log)[-1]["event"] == "stop"


def test_a_dead_worker_is_restarted_but_not_in_a_crash_loop(
    tmp_path: Path, postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ENTICE_SECRET", "00" * 32)
    options = ("--db", postgres.new_database(), "--workers", "2")
    with server(tmp_path, *options, new=True) as running:
        before = child_pids(running.process.pid)
        os.kill(before[0], signal.SIGKILL)
        for _ in range(600):
            after = child_pids(running.process.pid)
            if len(after) == 2 and after != before:
                break
            time.sleep(0.05)
        assert before[1] in after
        [new] = set(after) - set(before)
        assert httpx.get(f"{running.url}/healthz").status_code == 200
        os.kill(new, signal.SIGKILL)
        assert running.process.wait(120) == 1
    logged = [(death["pid"], death["signal"], death["next"]) for death in deaths_in(running.log)]
    assert logged == [
        (before[0], "SIGKILL", "restart the worker"),
        (new, "SIGKILL", "stop the service with exit code 1"),
    ]


def test_a_service_without_keys_prints_its_token(tmp_path: Path) -> None:
    with server(tmp_path) as running:
        assert running.process.stdout is not None
        page, curl, note = (running.process.stdout.readline() for _ in range(3))
        assert page == f"Open it in a browser: {running.url}/#key={running.token}\n"
        file = re.fullmatch(rf"or try: curl -H @(\S+) {running.url}/v1/campaigns\n", curl)
        assert file is not None
        name, _, value = Path(file[1]).read_text().strip().partition(": ")  # as curl reads it
        answer = httpx.get(f"{running.url}/v1/campaigns", headers={name: value})
        assert (answer.status_code, answer.json()) == (200, [])
        assert "entice keys create" in note
        running.stop()
        assert not Path(file[1]).exists()  # the port was chosen for this run


def test_the_token_is_kept_for_a_restart_and_removed_with_the_first_key() -> None:
    address = "127.0.0.1", 1
    with _local_token(*address, keyless=True, keep=True) as token:
        assert token == read_token(*address)
    with _local_token(*address, keyless=True, keep=True) as again:
        assert again == token
    with _local_token(*address, keyless=False, keep=True) as none:
        assert (none, read_token(*address)) == (None, None)
    with _local_token(*address, keyless=True, keep=False) as other:
        assert other != token
    assert read_token(*address) is None


@pytest.mark.parametrize("late", [False, True], ids=["at once", "after its worker has ended"])
def test_an_orderly_shutdown_logs_no_death(tmp_path: Path, late: bool) -> None:
    with server(tmp_path) as running:
        supervisor, [worker] = running.process.pid, child_pids(running.process.pid)
        if late:
            os.kill(supervisor, signal.SIGSTOP)
        # As a terminal does. The worker may have ended when its turn comes.
        for process in (supervisor, worker):
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGINT)
        if late:
            wait_until(lambda: "Z" in Path(f"/proc/{worker}/stat").read_text().split()[2])
            os.kill(supervisor, signal.SIGCONT)
        assert running.process.wait(120) == 0
    assert deaths_in(running.log) == []


def test_a_reload_replaces_the_worker_and_the_supervisor_sleeps(tmp_path: Path) -> None:
    """Afterwards it once took all of a core, since nothing cleared the event that it waits for."""
    with server(tmp_path) as running:
        supervisor, [old] = running.process.pid, child_pids(running.process.pid)
        os.kill(supervisor, signal.SIGHUP)
        wait_until(lambda: child_pids(supervisor) not in ([], [old]) and not alive(old))
        time.sleep(1.5)  # longer than `OWN_SIGNAL`
        began = cpu_seconds(supervisor)
        time.sleep(1.0)
        assert cpu_seconds(supervisor) - began < 0.5
        assert httpx.get(f"{running.url}/healthz").status_code == 200
        running.stop()
    assert deaths_in(running.log) == []


def alive(process: int) -> bool:
    return Path(f"/proc/{process}").exists()


def cpu_seconds(process: int) -> float:
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(") ")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_a_port_is_not_shared(run_entice: RunEntice) -> None:
    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)  # as Granian does
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = str(other.getsockname()[1])
        assert_error(run_entice("serve", "--port", port), "port cannot be bound", "--port")


def test_serve_rejects_invalid_options(run_entice: RunEntice, tmp_path: Path) -> None:
    assert_error(run_entice("serve", "--workers", "2"), "must be 1 with SQLite", "PostgreSQL")
    assert_error(run_entice("serve", "--workers", "0"), "workers must be")
    assert_error(run_entice("serve", "--host", "here"), "host must be an IP address")
    assert_error(run_entice("serve", "--port", "70000"), "port cannot be bound")
    assert_error(run_entice("serve", "--db", "mysql://x"), "the database must be a URL such as")
    bad = tmp_path / "secret"
    bad.write_text("short")
    assert_error(run_entice("serve", "--secret-file", str(bad)), "64 hexadecimal digits")
    assert_error(run_entice("serve", "--secret-file", "none"), "the secret file cannot be read")


def test_logs_contain_no_player_and_no_secret(tmp_path: Path) -> None:
    with server(tmp_path) as running:
        key = re.escape("entice_")
        campaign = campaign_at(running)
        token = running.token
        with httpx.Client(base_url=running.url, headers=running.headers) as client:
            path = f"/v1/campaigns/{campaign}/offers"
            offer = client.post(path, json={"player": "unlikely-ann"}).json()["id"]
            client.post(path, json={"player": "unlikely-ann", "unlikely-ann": 1})
            client.post(path, content=b'{"player":"unlikely-ann"', headers={"x": "unlikely-ann"})
            client.post(path, json={"player": "x"}, headers={"idempotency-key": "unlikely-key"})
            client.get(f"/v1/campaigns/{campaign}/events?unlikely={offer}")
            client.get("/v1/campaigns/unlikely-ann")
            client.get("/unlikely-ann", headers={"authorization": "Bearer entice_unlikely"})
            client.request("UNLIKELY", "/healthz")
        running.stop()
        log = running.log.read_text()
        secret = (tmp_path / "entice.db.secret").read_text().strip()
    assert not re.search("unlikely", log, re.IGNORECASE)
    assert not re.search(key + "[0-9a-f]{8}", log)
    assert token not in log
    assert secret not in log
    assert offer not in log
    requests = [line for line in lines_of(running.log) if line["event"] == "request"]
    made = next(line for line in requests if line["route"].endswith("/offers"))
    assert made.keys() == {
        "at",
        "event",
        "level",
        "method",
        "route",
        "status",
        "ms",
        "key",
        "request",
    }
    assert (made["method"], made["status"], made["key"]) == ("POST", 201, "-")
    assert made["ms"] > 0
    assert {line["route"] for line in requests if line["status"] == 404} == {
        "/v1/campaigns/{campaign}", "none",
    }  # fmt: skip


def test_unexpected_errors_are_logged_without_their_message(
    own_shop: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = io.BytesIO()
    logs.configure(target)

    def broken(*_: Any) -> None:
        raise KeyError("unlikely-ann")

    monkeypatch.setattr("entice.service.http.offers.Queries.offer", broken)
    answer = own_shop.client.get("/v1/offers/c_0.1")
    assert answer.status_code == 500
    logs.flush()
    logged = [json.loads(line) for line in target.getvalue().splitlines()]
    found = next(line for line in logged if line["event"] == "unexpected")
    assert found["error"] == "KeyError"
    assert found["request"] == answer.headers["x-request-id"]
    assert any("test_service_operations.py" in line for line in found["lines"])
    assert "unlikely" not in target.getvalue().decode()


def test_an_altered_stored_response_is_logged(own_shop: Service) -> None:
    target = io.BytesIO()
    logs.configure(target)
    address = f"/v1/campaigns/{own_shop.campaign()}/offers"
    request: Any = {"json": {"player": "ann"}, "headers": {"Idempotency-Key": "k"}}
    assert own_shop.client.post(address, **request).status_code == 201
    with own_shop.store.write() as session:
        session.run("UPDATE answers SET status = 200")
    problem = assert_problem(own_shop.client.post(address, **request), 503, "out-of-order")
    logs.flush()
    logged = [json.loads(line) for line in target.getvalue().splitlines()]
    assert [line["detail"] for line in logged if line["event"] == "refusal"] == [problem["detail"]]


@pytest.mark.parametrize("error", [Unavailable("no disk"), Corrupt("a bit"), SchemaTooNew("2")])
def test_errors_of_the_database_return_503(
    own_shop: Service, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    target = io.BytesIO()
    logs.configure(target)

    def fail(*_: Any, **__: Any) -> None:
        raise error

    campaign = own_shop.campaign()
    monkeypatch.setattr(own_shop.store, "check", fail)
    monkeypatch.setattr(own_shop.context.writer, "execute", fail)
    answer = own_shop.client.get("/readyz")
    assert_problem(answer, 503)
    # Trying again helps where the database is away, and not where it is damaged.
    assert answer.headers.get("retry-after") == ("1" if isinstance(error, Unavailable) else None)
    offer = own_shop.client.post(f"/v1/campaigns/{campaign}/offers", json={"player": "x"})
    problem = assert_problem(offer, 503)
    assert str(error) not in problem["detail"]
    logs.flush()
    assert str(error) in target.getvalue().decode()
    assert own_shop.client.get("/healthz").status_code == 200


def test_the_service_is_ready_when_policies_are_compiled(tmp_path: Path) -> None:
    with service(tmp_path) as own_shop:
        campaign = own_shop.campaign()
        own_shop.client.patch(f"/v1/campaigns/{own_shop.campaign()}", json={"status": "closed"})
    with service(tmp_path) as own_shop:
        for _ in range(2400):
            if own_shop.client.get("/readyz").status_code == 200:
                break
            time.sleep(0.05)
        assert own_shop.client.get("/readyz").json() == {"status": "ready"}
        own_shop.offer(campaign, "ann")
        own_shop.context.ready = False
        assert_problem(own_shop.client.get("/readyz"), 503, "not-ready")
        own_shop.context.ready = True
        own_shop.context.writer.last_error = Unavailable("no disk")
        assert_problem(own_shop.client.get("/readyz"), 503, "unavailable")


def test_a_cancelled_warm_up_is_not_logged_as_ready(
    own_shop: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    context, target = own_shop.context, io.BytesIO()
    logs.configure(target)

    def stopped(first: Any) -> int:
        context._open = False
        return 12

    for run, ready in ((stopped, False), (lambda first: 12, True)):
        context.ready, context._open = False, True
        monkeypatch.setattr(context._compiling, "run", run)
        context._warm_up()
        logs.flush()
        assert context.ready == ready
        assert ('"policies_compiled":12' in target.getvalue().decode()) == ready


def test_the_warm_up_waits_for_the_database(
    own_shop: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    context, read = own_shop.context, own_shop.store.read
    for failure in (Unavailable("away"), Corrupt("a bit")):
        tries: list[int] = []

        def fail_once(tries: list[int] = tries, failure: Exception = failure) -> Any:
            tries.append(1)
            if len(tries) == 1:
                raise failure
            return read()

        context.ready = False
        monkeypatch.setattr(own_shop.store, "read", fail_once)
        context._warm_up()
        assert context.ready
