"""What tests of the studio share: studies to ask for, and answers read line by line."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

BROWSER = {"sec-fetch-mode": "cors", "sec-fetch-site": "same-origin"}
"""What a page's own requests carry besides."""
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
    "horizon": 200_000,
    "replications": 5000,
    "policies": [{"kind": "thompson_sampling"}],
    "drifts": [{"kind": "linear", "l": 1.1}],
    "engine": "generic",
}
"""Takes minutes."""
SMALL: dict[str, Any] = {**STUDY, "horizon": 100, "replications": 10}
PLAN: dict[str, Any] = {
    "arms": 4,
    "spread": {"centre": 4.1, "width": 0.45},
    "visitors_a_day": 50,
    "days": 10,
    "price_of_a_star": 2.0,
    "currency": "€",
    "share_who_rate": 0.5,
    "drift": [0, 1],
    "replications": 40,
    "seed": 7,
}


def lines_of(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


@contextmanager
def watched(url: str, body: dict[str, Any], **headers: str) -> Iterator[Iterator[dict[str, Any]]]:
    """Ask for lines of a running service; leaving closes the connection."""
    with httpx.stream("POST", url, json=body, headers=headers, timeout=120) as answer:
        assert answer.status_code == 200, answer.read()
        yield (json.loads(line) for line in answer.iter_lines())


def until(true: Callable[[], Any], within: float = 20) -> Any:
    """Wait until something is so."""
    end = time.monotonic() + within
    while not (found := true()):
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.02)
    return found


def simulators(parent: int) -> list[int]:
    """The simulation processes among all that a process has started, directly or not."""
    found = []
    for child in children(parent):
        if b"entice.studio.jobs.worker" in _read(f"/proc/{child}/cmdline"):
            found.append(child)
        found += simulators(child)
    return found


def children(parent: int) -> list[int]:
    """The processes that a process has started."""
    tasks = Path(f"/proc/{parent}/task")
    if not tasks.is_dir():
        return []
    return [int(c) for task in tasks.iterdir() for c in _read(f"{task}/children").split()]


def is_running(process: int) -> bool:
    """Whether a process is there, and more than a memory of itself."""
    state = _read(f"/proc/{process}/stat").rpartition(b")")[2].split()
    return bool(state) and state[0] != b"Z"


def _read(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError:
        return b""
