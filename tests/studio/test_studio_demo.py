"""`entice demo`: a live campaign, with no data left afterwards."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import IO

import httpx
import pytest
from command_line import RunEntice, plain, without_coverage
from forking import ForkedPopen
from sizes import LONG
from studio_fixtures import TIMEOUT, child_pids, is_running, wait_until, worker_pids

DEMO = """
from entice.studio.demo import demo
demo.PAUSE /= 5
demo.demo(0, lambda text: print(text, flush=True), visitors=30)
"""


def read_until(text: str, stream: IO[str]) -> str:
    """Read lines up to one that contains a text, and return them."""
    output = ""
    while text not in output:
        line = stream.readline()
        assert line, output
        output += line
    return output


def test_the_demo_runs_until_it_is_interrupted(tmp_path: Path) -> None:
    """In a new process if coverage is measured, which forked processes do not measure.

    `tests/packaging/test_installed.py` starts the demo as a user does.
    """
    measured = any(name.startswith("COVERAGE_") for name in os.environ)
    start = subprocess.Popen if measured or LONG else ForkedPopen
    process = start(
        [sys.executable, "-c", DEMO],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )
    try:
        assert process.stdout is not None
        output = read_until("Ctrl-C", process.stdout)
        found = re.search(r"(http://127\.0\.0\.1:\d+)/#key=(entice_\S+)", output)
        assert found is not None, output
        key = {"authorization": f"Bearer {found[2]}"}
        assert httpx.get(found[1]).status_code == 200
        assert httpx.get(f"{found[1]}/v1/campaigns").status_code == 401
        about = httpx.get(f"{found[1]}/v1/studio", headers=key).json()
        assert "admin" in about["may"]
        read_until("is live", process.stdout)
        # The paper is being reproduced, and stays so when a page is closed.
        for _ in range(2):
            with httpx.stream("GET", f"{found[1]}/v1/paper", headers=key) as paper:
                assert next(paper.iter_lines()) == '{"kind":"queued","ahead":0}'
        workers = worker_pids(process.pid)
        assert len(workers) == 2
        [campaign] = httpx.get(f"{found[1]}/v1/campaigns", headers=key).json()
        assert campaign["decisions"] >= 30
        assert campaign["ratings"] > 0
        url = f"{found[1]}/v1/campaigns/{campaign['id']}"
        # Visitors keep coming, also to a new campaign.
        wait_until(
            lambda: httpx.get(url, headers=key).json()["decisions"] > campaign["decisions"] + 2
        )
        body = {"name": "New", "arms": ["a", "b"], "budget": 1000, "price_of_a_star": 100}
        new = httpx.post(f"{found[1]}/v1/campaigns", json=body, headers=key).json()["id"]
        closed = httpx.patch(url, json={"status": "closed"}, headers=key)
        assert closed.json()["status"] == "closed"
        other = f"{found[1]}/v1/campaigns/{new}"
        wait_until(lambda: httpx.get(other, headers=key).json()["decisions"] > 2)
        # The first key replaces the token, and the visitors get a key of their own.
        first = {"name": "me", "roles": ["admin"], "campaign": None}
        made = httpx.post(f"{found[1]}/v1/keys", json=first, headers=key).json()
        assert "“Demo visitors”" in read_until("A key protects", process.stdout)
        assert httpx.get(other, headers=key).status_code == 401
        key = {"authorization": f"Bearer {made['key']}"}
        [own] = [
            one
            for one in httpx.get(f"{found[1]}/v1/keys", headers=key).json()
            if one["name"] == "Demo visitors"
        ]
        assert own["roles"] == ["decide", "feedback", "read"]
        before = httpx.get(other, headers=key).json()["decisions"]
        wait_until(lambda: httpx.get(other, headers=key).json()["decisions"] > before)
        httpx.delete(f"{found[1]}/v1/keys/{own['id']}", headers=key)
        read_until("no more arrive", process.stdout)
        assert list(tmp_path.iterdir())
        process.send_signal(signal.SIGINT)
        assert process.wait(TIMEOUT) == 0
        assert "Stopped." in process.stdout.read()
        assert list(tmp_path.iterdir()) == []
        assert not any(map(is_running, workers))
        with pytest.raises(httpx.TransportError):
            httpx.get(found[1])
    finally:
        process.kill()
        process.communicate()
    assert not is_running(process.pid)


@pytest.mark.parametrize("stop_signal", [signal.SIGHUP, signal.SIGTERM])
def test_a_signal_stops_the_demo_before_it_is_ready(
    tmp_path: Path, stop_signal: signal.Signals
) -> None:
    """SIGHUP: the terminal was closed."""
    with ForkedPopen(
        [sys.executable, "-c", DEMO],
        stdout=subprocess.PIPE,
        text=True,
        env={**without_coverage(), "TMPDIR": str(tmp_path)},
    ) as process:
        assert process.stdout is not None
        read_until("Ctrl-C", process.stdout)
        [service] = child_pids(process.pid)
        process.send_signal(stop_signal)
        assert process.wait(TIMEOUT) == 0
        assert "Stopped." in process.stdout.read()
        assert not is_running(service)
        assert list(tmp_path.iterdir()) == []


def test_a_port_in_use_is_reported(run_entice: RunEntice) -> None:
    import socket

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        ran = run_entice("demo", "--port", str(taken.getsockname()[1]))
    assert ran.code == 2
    assert "cannot be bound" in plain(ran.err)


def test_the_help_describes_the_demo(run_entice: RunEntice) -> None:
    ran = run_entice("demo", "--help")
    assert ran.code == 0
    for word in ("browser", "Ctrl-C", "entice serve"):
        assert word in plain(ran.out)
