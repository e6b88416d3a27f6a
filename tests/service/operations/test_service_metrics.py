"""Metrics for Prometheus."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from service_fixtures import Service

from entice.service.domain.errors import Unavailable
from entice.service.operations.metrics import remove_dead_processes


def values(text: str) -> dict[str, float]:
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines)}


def test_metrics_count_requests_commits_and_money(own_shop: Service) -> None:
    campaign = own_shop.campaign()
    own_shop.client.post(
        f"/v1/campaigns/{campaign}/ratings", json={"ratings": [{"arm": "oolong", "rating": 5}]}
    )
    own_shop.offer(campaign, "ann")
    own_shop.client.get("/nowhere")
    answer = own_shop.client.get("/metrics")
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
def test_gauges_that_must_be_0_show_damage(own_shop: Service, damage: str, gauge: str) -> None:
    campaign = own_shop.campaign()
    own_shop.client.post(
        f"/v1/campaigns/{campaign}/ratings", json={"ratings": [{"arm": "oolong", "rating": 5}]}
    )
    own_shop.offer(campaign, "ann")
    with own_shop.store.write() as session:
        session.run(damage)
    found = values(own_shop.client.get("/metrics").text)
    assert found[f'entice_campaign_{gauge}{{campaign="{campaign}"}}'] != 0


def test_metrics_work_without_the_database(
    own_shop: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> None:
        raise Unavailable("no disk")

    monkeypatch.setattr(own_shop.store, "read", fail)
    found = values(own_shop.client.get("/metrics").text)
    assert found["entice_database_up"] == 0
    assert "entice_clock_ahead_seconds" not in found
    monkeypatch.undo()
    own_shop.context.metrics._gauges._read_at -= 10
    assert values(own_shop.client.get("/metrics").text)["entice_database_up"] == 1


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
