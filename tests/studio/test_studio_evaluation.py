"""Off-policy estimates of a campaign, as the studio requests them."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
from service_fixtures import Service, assert_problem, service

import entice
from entice.studio.jobs.evaluate import TARGETS
from entice.studio.jobs.job import END, Evaluate, JobContext
from entice.studio.jobs.worker import run_job


def run(job: Evaluate) -> dict[str, Any]:
    """Run a job as the worker process does, and return its last line."""
    out = io.BytesIO()
    run_job(job, JobContext(out, np.zeros(1, dtype=np.int64)))
    last = out.getvalue().splitlines()[-1]
    assert last.startswith(END)
    found: dict[str, Any] = json.loads(last.removeprefix(END))
    return found


def campaign_with_overlap(api: Service) -> str:
    campaign = api.campaign(overlap=0.5)
    for i in range(120):
        offer = api.offer(campaign, f"player {i}")
        path = f"/v1/offers/{offer['id']}"
        api.client.post(f"{path}/accept")
        rating = {"oolong": 5, "sencha": 3, "matcha": 4}[offer["arm"]]
        api.client.post(f"{path}/rating", json={"rating": rating})
    return campaign


def test_a_job_returns_the_estimates_of_the_export(tmp_path: Path, unmeasured: None) -> None:
    with service(tmp_path) as api:
        campaign = campaign_with_overlap(api)
        path = tmp_path / "export.parquet"
        path.write_bytes(api.client.get(f"/v1/campaigns/{campaign}/export").content)
        for policy, target in TARGETS.items():
            found = run(Evaluate(api.store.url, campaign, policy))
            expected = entice.estimate.evaluate(path, target)
            assert (found["kind"], found["policy"]) == ("evaluation", policy)
            assert found["decisions"] == expected.decisions == 120
            assert found["logged_payment"] == expected.logged_payment
            for quantity in ("rating", "payment"):
                estimate = getattr(expected, quantity)["doubly robust"]
                kept = {name: getattr(estimate, name) for name in found[quantity]}
                assert found[quantity] == kept
        # Offering each item equally often: the average of 3, 4 and 5 stars.
        uniform = run(Evaluate(api.store.url, campaign, "uniform"))
        assert uniform["rating"]["low"] < 4 < uniform["rating"]["high"]
        without = api.campaign()
        api.offer(without, "ann")
        failed = run(Evaluate(api.store.url, without, "greedy"))
        assert (failed["kind"], failed["status"]) == ("failed", 422)
        assert "overlap" in failed["detail"]
        path_of = "/v1/campaigns/{}/evaluation"
        detail = assert_problem(
            api.client.post(path_of.format(campaign), json={"policy": "best"}), 422
        )["detail"]
        assert "policy" in detail
        assert_problem(api.client.post(path_of.format("c_none"), json={}), 404)
