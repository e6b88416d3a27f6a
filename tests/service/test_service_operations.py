"""Running the service: processes, shutdown, logs, metrics and commands."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import polars as pl
import pytest
from command_line import RunEntice, assert_error, plain
from postgres import Postgres, postgres
from service_fixtures import TEAS, Server, Service, assert_problem, server, service
from studio_fixtures import child_pids

from entice.service import logs
from entice.service.domain.errors import Corrupt, SchemaTooNew, Unavailable
from entice.service.operations.metrics import remove_dead_processes

__all__ = ["postgres"]

SPEC = """\
name = "Teas"
arms = ["oolong", "sencha"]
budget = 50000
price_of_a_star = 200
"""


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Service]:
    with service(tmp_path) as made:
        yield made


def campaign_at(running: Server) -> str:
    answer = httpx.post(f"{running.url}/v1/campaigns", json=TEAS)
    assert answer.status_code == 201, answer.text
    return str(answer.json()["id"])


def lines_of(log: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in log.read_text().splitlines()]


# The process


def test_acknowledged_requests_survive_shutdown(tmp_path: Path) -> None:
    with server(tmp_path) as running:
        campaign = campaign_at(running)
        url = f"{running.url}/v1/campaigns/{campaign}/offers"
        answered: list[str] = []
        refused = 0

        def request_offers(first: int) -> None:
            nonlocal refused
            with httpx.Client() as client:
                for i in range(first, first + 10_000):
                    try:
                        answer = client.post(url, json={"player": f"player {i}"})
                    except httpx.TransportError:
                        return  # the server has stopped
                    if answer.status_code == 503:
                        refused += 1
                        return
                    assert answer.status_code == 201
                    answered.append(answer.json()["id"])

        with ThreadPoolExecutor(8) as threads:
            requests = [threads.submit(request_offers, i * 100_000) for i in range(8)]
            while len(answered) < 50:
                assert not any(request.done() for request in requests)
                time.sleep(0.01)
            assert running.stop() == 0
            for request in requests:
                request.result()
    with contextlib.closing(sqlite3.connect(tmp_path / "entice.db")) as database:
        kept = {f"{campaign}.{n}" for (n,) in database.execute("SELECT n FROM offers")}
    assert set(answered) <= kept
    events = [line["event"] for line in lines_of(running.log)]
    assert events[0] == "start"
    assert events[-2:] == ["stopped", "stop"]


def test_shutdown_does_not_wait_for_streams(tmp_path: Path) -> None:
    with server(tmp_path) as running:
        campaign = campaign_at(running)
        url = f"{running.url}/v1/campaigns/{campaign}/stream"
        seen: list[str] = []
        started = threading.Event()

        def follow() -> None:
            with httpx.stream("GET", url, headers={"last-event-id": "0"}) as stream:
                for line in stream.iter_lines():
                    seen.append(line)
                    started.set()

        following = threading.Thread(target=follow)
        following.start()
        assert started.wait(120)
        assert running.stop() == 0  # a worker that waits is killed, with another exit code
        following.join(60)
        assert not following.is_alive()
    assert "event: created" in seen


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
    with server(tmp_path, *options) as running:
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


def test_an_orderly_shutdown_logs_no_death(tmp_path: Path) -> None:
    with server(tmp_path) as running:
        running.process.send_signal(signal.SIGINT)
        for worker in child_pids(running.process.pid):  # as a terminal does
            os.kill(worker, signal.SIGINT)
        assert running.process.wait(120) == 0
    assert deaths_in(running.log) == []


def test_a_port_is_not_shared(tmp_path: Path, run_entice: RunEntice) -> None:
    with server(tmp_path) as running:
        port = running.url.rpartition(":")[2]
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


# Logs


def test_logs_contain_no_player_and_no_secret(tmp_path: Path) -> None:
    with server(tmp_path) as running:
        key = re.escape("entice_")
        campaign = campaign_at(running)
        with httpx.Client(base_url=running.url) as client:
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
    shop: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = io.BytesIO()
    logs.configure(target)

    def broken(*_: Any) -> None:
        raise KeyError("unlikely-ann")

    monkeypatch.setattr(shop.context.queries, "offer", broken)
    answer = shop.client.get("/v1/offers/c_0.1")
    assert answer.status_code == 500
    logged = [json.loads(line) for line in target.getvalue().splitlines()]
    found = next(line for line in logged if line["event"] == "unexpected")
    assert found["error"] == "KeyError"
    assert found["request"] == answer.headers["x-request-id"]
    assert any("test_service_operations.py" in line for line in found["lines"])
    assert "unlikely" not in target.getvalue().decode()


@pytest.mark.parametrize("error", [Unavailable("no disk"), Corrupt("a bit"), SchemaTooNew("2")])
def test_errors_of_the_database_return_503(
    shop: Service, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    target = io.BytesIO()
    logs.configure(target)

    def fail(*_: Any, **__: Any) -> None:
        raise error

    campaign = shop.campaign()
    monkeypatch.setattr(shop.store, "check", fail)
    monkeypatch.setattr(shop.context.writer, "execute", fail)
    answer = shop.client.get("/readyz")
    assert_problem(answer, 503)
    # Trying again helps where the database is away, and not where it is damaged.
    assert answer.headers.get("retry-after") == ("1" if isinstance(error, Unavailable) else None)
    offer = shop.client.post(f"/v1/campaigns/{campaign}/offers", json={"player": "x"})
    problem = assert_problem(offer, 503)
    assert str(error) not in problem["detail"]
    assert str(error) in target.getvalue().decode()
    assert shop.client.get("/healthz").status_code == 200


def test_the_service_is_ready_when_policies_are_compiled(tmp_path: Path) -> None:
    with service(tmp_path) as shop:
        campaign = shop.campaign()
        shop.client.patch(f"/v1/campaigns/{shop.campaign()}", json={"status": "closed"})
    with service(tmp_path) as shop:
        for _ in range(2400):
            if shop.client.get("/readyz").status_code == 200:
                break
            time.sleep(0.05)
        assert shop.client.get("/readyz").json() == {"status": "ready"}
        shop.offer(campaign, "ann")
        shop.context.ready = False
        assert_problem(shop.client.get("/readyz"), 503, "not-ready")
        shop.context.ready = True
        shop.context.writer.last_error = Unavailable("no disk")
        assert_problem(shop.client.get("/readyz"), 503, "unavailable")


def test_the_warm_up_waits_for_the_database(shop: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    context, read = shop.context, shop.store.read
    for failure in (Unavailable("away"), Corrupt("a bit")):
        tries: list[int] = []

        def fail_once(tries: list[int] = tries, failure: Exception = failure) -> Any:
            tries.append(1)
            if len(tries) == 1:
                raise failure
            return read()

        context.ready = False
        monkeypatch.setattr(shop.store, "read", fail_once)
        context._warm_up()
        assert context.ready


# Metrics


def values(text: str) -> dict[str, float]:
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines)}


def test_metrics_count_requests_commits_and_money(shop: Service) -> None:
    campaign = shop.campaign()
    shop.client.post(
        f"/v1/campaigns/{campaign}/ratings", json={"ratings": [{"arm": "oolong", "rating": 5}]}
    )
    shop.offer(campaign, "ann")
    shop.client.get("/nowhere")
    answer = shop.client.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    found = values(answer.text)
    route = 'route="/v1/campaigns/{campaign}/offers"'
    assert found[f'entice_requests_total{{method="POST",{route},status="201"}}'] == 1
    assert found[f"entice_request_seconds_count{{{route}}}"] == 1
    assert found['entice_requests_total{method="other",route="none",status="404"}'] == 1
    assert found["entice_group_size_count"] == found["entice_group_size_sum"] == 3
    assert found["entice_commit_seconds_count"] == 3
    assert found["entice_queue_depth"] == found["entice_open_streams"] == 0
    mine = {
        name: found[f'entice_campaign_{name}{{campaign="{campaign}"}}']
        for name in ("budget", "reserved", "committed", "free", "decisions")
    }
    assert mine == {
        "budget": 50_000, "reserved": 400, "committed": 0, "free": 49_600, "decisions": 1,
    }  # fmt: skip
    for name in ("overdrawn", "reserved_gap", "log_gap"):
        assert found[f'entice_campaign_{name}{{campaign="{campaign}"}}'] == 0
    assert abs(found["entice_clock_ahead_seconds"]) < 5


@pytest.mark.parametrize(
    ("damage", "gauge"),
    [
        ("UPDATE offers SET cost = cost + 1 WHERE n = 1", "reserved_gap"),
        ("DELETE FROM events WHERE seq = 3", "log_gap"),
    ],
)
def test_gauges_that_must_be_0_show_damage(shop: Service, damage: str, gauge: str) -> None:
    campaign = shop.campaign()
    shop.client.post(
        f"/v1/campaigns/{campaign}/ratings", json={"ratings": [{"arm": "oolong", "rating": 5}]}
    )
    shop.offer(campaign, "ann")
    with shop.store.write() as session:
        session.run(damage)
    found = values(shop.client.get("/metrics").text)
    assert found[f'entice_campaign_{gauge}{{campaign="{campaign}"}}'] != 0


def test_metrics_work_without_the_database(shop: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise Unavailable("no disk")

    monkeypatch.setattr(shop.store, "read", fail)
    found = values(shop.client.get("/metrics").text)
    assert found["entice_database_up"] == 0
    assert "entice_clock_ahead_seconds" not in found
    monkeypatch.undo()
    shop.context.metrics._gauges._read_at -= 10
    assert values(shop.client.get("/metrics").text)["entice_database_up"] == 1


def test_gauges_of_ended_processes_are_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    monkeypatch.setenv("PROMETHEUS_MULTIPROC_DIR", str(tmp_path))
    dead, alive = (tmp_path / f"gauge_livesum_{pid}.db" for pid in (ended.pid, os.getpid()))
    dead.touch()
    alive.touch()
    remove_dead_processes()
    assert (dead.exists(), alive.exists()) == (False, True)


# Commands


def test_keys_on_the_command_line(run_entice: RunEntice, tmp_path: Path) -> None:
    assert_error(run_entice("keys", "list"), "the database must exist")
    (tmp_path / "spec.toml").write_text(SPEC)
    campaign = run_entice("campaign", "create", "spec.toml").out.strip()
    made = run_entice("keys", "create", "--role", "read", "--name", "ann", "--campaign", campaign)
    assert made.code == 0
    number = made.out.split("_")[1]
    listed = plain(run_entice("keys", "list").out)
    assert number in listed
    assert campaign in listed
    assert made.out.strip() not in listed
    assert "Revoked" in run_entice("keys", "revoke", number).out
    assert_error(run_entice("keys", "revoke", "00000000"), "key must be the id of a key")
    bad = run_entice("keys", "create", "--role", "raed", "--name", "ann")
    assert_error(bad, "role must be a known role", "Did you mean 'read'?")


def test_a_campaign_from_a_file_to_an_export(
    run_entice: RunEntice, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ENTICE_DB", "sqlite:///other.db")
    (tmp_path / "spec.toml").write_text(SPEC)
    made = run_entice("campaign", "create", "spec.toml")
    campaign = made.out.strip()
    assert re.fullmatch("c_[0-9a-z]+", campaign)
    assert (tmp_path / "other.db").exists()
    assert "1 event replayed: OK" in run_entice("verify").out
    for name in ("taken.csv", "taken.parquet", "taken.jsonl"):
        assert "0 rows" in run_entice("export", campaign, "--out", name).out
    assert pl.read_parquet(tmp_path / "taken.parquet").height == 0
    assert_error(run_entice("export", campaign, "--out", "taken.xls"), "--out must end")
    assert_error(run_entice("export", "c_0", "--out", "taken.csv"), "There is no campaign")
    (tmp_path / "spec.toml").write_text(SPEC + "bugdet = 1\n")
    assert_error(run_entice("campaign", "create", "spec.toml"), "Did you mean 'budget'?")


def test_verify_names_the_first_bad_event(run_entice: RunEntice, tmp_path: Path) -> None:
    with service(tmp_path) as shop:
        campaign = shop.campaign()
        for i in range(5):
            shop.offer(campaign, str(i))
    assert run_entice("verify").code == 0
    with contextlib.closing(sqlite3.connect(tmp_path / "entice.db")) as database:
        body = database.execute("SELECT body FROM events WHERE seq = 4").fetchone()[0]
        changed = body.replace(b'"amount":', b'"amount":1', 1)
        database.execute("UPDATE events SET body = ? WHERE seq = 4", (changed,))
        database.commit()
    ran = run_entice("verify", campaign)
    assert ran.code == 1
    assert "3 events replayed: FAILED. Event 4" in plain(ran.out)
    assert_error(run_entice("verify", "c_0"), "campaign must be the id of a campaign; got 'c_0'")
    (tmp_path / "entice.db").write_bytes(b"no database at all" * 100)
    ran = run_entice("verify")
    assert (ran.code, "FAILED." in ran.out) == (1, True)


def test_a_backup_works_while_the_service_runs(run_entice: RunEntice, tmp_path: Path) -> None:
    with service(tmp_path) as shop:
        campaign = shop.campaign()
        shop.offer(campaign, "ann")
        assert run_entice("backup", "copy.db").code == 0
        shop.offer(campaign, "bob")
    assert "2 events replayed" in run_entice("verify", "--db", "sqlite:///copy.db").out
    assert_error(run_entice("backup", "copy.db"), "must not exist yet")
    ran = run_entice("backup", "more.db", "--db", "postgresql://x")
    assert_error(ran, "must be a SQLite", "pg_dump")


def test_help_has_examples(run_entice: RunEntice) -> None:
    expected = {
        "serve": "entice keys create",
        "campaign": "Create and list campaigns",
        "keys": "API keys",
        "verify": "Verify",
        "export": "entice.estimate",
        "backup": "pg_dump",
    }
    for command, words in expected.items():
        ran = run_entice(command, "--help")
        assert ran.code == 0
        assert words in plain(ran.out)
    assert "price_of_a_star" in plain(run_entice("campaign", "create", "--help").out)


def test_help_does_not_import_the_service() -> None:
    """Nothing heavy is imported before it is needed."""
    script = "import sys, entice.cli.service; print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True,
        env={**os.environ, "COVERAGE_PROCESS_START": ""},
    ).stdout.split()  # fmt: skip
    heavy = {"litestar", "granian", "numba", "polars", "structlog", "prometheus_client", "psycopg"}
    assert heavy.isdisjoint(loaded)
