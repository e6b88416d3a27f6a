"""Fixtures of the studio's tests: studies, streamed responses, processes."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
from service_fixtures import Server, Service

TIMEOUT = 120.0
"""Seconds; generous, since the machine may be busy."""
BROWSER = {"sec-fetch-mode": "cors", "sec-fetch-site": "same-origin"}
"""Headers that a browser adds to a page's requests."""
STUDY: dict[str, Any] = {
    "horizon": 2000,
    "replications": 200,
    "seed": 7,
    "arms": {"kind": "gaussian", "means": [0.9, 0.7, 0.5, 0.3]},
    "policies": [{"kind": "ucb"}, {"kind": "epsilon_greedy", "c": 5}],
    "drifts": [{"kind": "linear", "l": 0.0}, {"kind": "linear", "l": 1.1}],
    "checkpoints": 20,
}
LARGE: dict[str, Any] = {
    **STUDY,
    "horizon": 1_000_000,
    "replications": 4000,
    "policies": [{"kind": "ucb"}],
    "drifts": [{"kind": "linear", "l": 1.1}],
    "engine": "generic",
}
"""Takes minutes: the largest study that the studio runs."""
SMALL: dict[str, Any] = {
    **STUDY,
    "horizon": 100,
    "replications": 10,
    "policies": [{"kind": "ucb"}],
    "drifts": [{"kind": "linear", "l": 1.1}],
}
PLAN: dict[str, Any] = {
    "arms": 4,
    "spread": {"centre": 4.1, "width": 0.45},
    "visitors_a_day": 50,
    "days": 10,
    "price_of_a_star": 2.0,
    "currency": "€",
    "share_who_rate": 0.5,
    "acceptance": {"kind": "logistic", "midpoint": 0.1, "width": 0.1},
    "drift": [0, 1],
    "replications": 40,
    "seed": 7,
}
"""Its loops are those of examples/marketplace.toml, so that they are compiled once."""


def parse_lines(text: str) -> list[dict[str, Any]]:
    """Parse a response with one JSON object per line."""
    return [json.loads(line) for line in text.splitlines()]


def run_simulation(api: Service, study: dict[str, Any]) -> list[dict[str, Any]]:
    """Run a study to its end and return the lines of the response."""
    response = api.client.post("/v1/simulations", json=study)
    assert response.status_code == 200, response.text
    assert response.headers["content-type"] == "application/x-ndjson"
    return parse_lines(response.text)


@contextmanager
def stream_lines(running: Server, study: dict[str, Any]) -> Iterator[Iterator[dict[str, Any]]]:
    """Yield the lines of a simulation; leaving the context closes the connection."""
    with httpx.stream(
        "POST", f"{running.url}/v1/simulations", json=study, headers=running.headers,
        timeout=TIMEOUT,
    ) as response:  # fmt: skip
        assert response.status_code == 200, response.read()
        yield (json.loads(line) for line in response.iter_lines())


def wait_until(condition: Callable[[], Any], within: float = TIMEOUT) -> Any:
    """Wait until a condition holds, and return its value."""
    end = time.monotonic() + within
    while not (value := condition()):
        assert time.monotonic() < end, f"the condition did not hold within {within} s"
        time.sleep(0.02)
    return value


def worker_pids(parent: int) -> list[int]:
    """Return the simulation workers among a process's descendants."""
    found = []
    for child in child_pids(parent):
        if b"entice.studio.jobs.worker" in _read(f"/proc/{child}/cmdline"):
            found.append(child)
        found += worker_pids(child)
    return found


def child_pids(parent: int) -> list[int]:
    """Return the children of a process."""
    tasks = Path(f"/proc/{parent}/task")
    if not tasks.is_dir():
        return []
    return [int(c) for task in tasks.iterdir() for c in _read(f"{task}/children").split()]


def is_running(process: int) -> bool:
    """Return whether a process exists and is not a zombie."""
    state = _read(f"/proc/{process}/stat").rpartition(b")")[2].split()
    return bool(state) and state[0] != b"Z"


def _read(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError:
        return b""
