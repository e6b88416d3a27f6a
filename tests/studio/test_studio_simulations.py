"""Simulations over HTTP: results equal the library's, and large ones are rejected."""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import httpx
import polars as pl
import pytest
from service_fixtures import TOKEN, Service, assert_problem, service
from studio_fixtures import (
    PLAN,
    SMALL,
    STUDY,
    parse_lines,
    run_simulation,
)

import entice
from entice.local_token import token_file
from entice.studio.jobs.limits import LIMITS
from entice.studio.jobs.simulate import FIRST_WORK, snapshot_sizes
from entice.study.spec import Study
from entice.theory import bounds

CUSTOM = {"kind": "custom", "sample": "os:system", "means": [0, 1]}
NESTED = {"kind": "changing", "arms": {"kind": "wandering", "arms": CUSTOM}}


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with service(tmp_path_factory.mktemp("studio")) as made:
        yield made


# Results


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"engine": "generic"},
        {"players": {"delay": 20, "loss": 0.3}, "policies": [{"kind": "ucb"}]},
        {"arms": {"kind": "bernoulli", "means": [0.8, 0.5]}, "checkpoints": [10, 500, 1999]},
        # Payments grow without bound in some of these runs.
        {
            "drifts": [{"kind": "linear", "l": 3.0}],
            "policies": [{"kind": "epsilon_greedy", "c": 5}],
        },
        {"replications": 1},
    ],
)
def test_the_last_snapshot_equals_the_study(api: Service, changes: dict[str, Any]) -> None:
    body = {**STUDY, **changes}
    lines = run_simulation(api, body)
    snapshots = [line for line in lines if line["kind"] == "picture"]
    last = snapshots[-1]
    result = entice.run(Study.from_json(json.dumps(body)), progress=False)
    assert last["replications"] == last["of"] == body["replications"]
    assert len(last["cells"]) == len(list(result.study.cells()))
    for cell in last["cells"]:
        where = {name: cell[name] for name in ("policy_index", "drift_index")}
        for metric, found in cell["metrics"].items():
            curve = result.curves.filter(metric=metric, **where)
            assert cell["t"] == curve["t"].to_list()
            for name, values in found.items():
                # Equal to the last bit, also after JSON.
                assert values == curve[name].fill_nan(None).to_list(), (metric, name)
        final = result.final.filter(**where)
        for metric, values in cell["final"].items():
            assert values == final[metric].fill_nan(None).to_list()
        assert cell["stopped"] == final["stopped"].drop_nulls().len()
        ran = final.filter(pl.col("stopped").is_null())["pulls"].to_numpy()
        assert cell["pulls"] == (ran.mean(axis=0).tolist() if len(ran) else None)
        assert cell["engine"] == result.engines[cell["policy_index"]]
    done = lines[-1]
    assert (done["kind"], done["seed"]) == ("done", 7)
    assert Study.from_toml(done["toml"]) == result.study


def test_snapshots_have_more_and_more_replications(api: Service) -> None:
    lines = run_simulation(api, STUDY)
    assert lines[0] == {"kind": "queued", "ahead": 0}
    kinds = [line["kind"] for line in lines if line["kind"] != "compiling"]
    assert kinds[:3] == ["queued", "picture", "bounds"]
    sizes = [line["replications"] for line in lines if line["kind"] == "picture"]
    assert sizes == [16, 64, 200]


def test_snapshot_sizes_start_small_and_end_with_all() -> None:
    for replications in (1, 5, 31, 32, 33, 100, 190, 1000, 10_000):
        for work in (1, 540_000, 10**7, 10**9):
            sizes = snapshot_sizes(replications, work)
            assert sizes == sorted(set(sizes))
            assert sizes[-1] == replications
            assert sizes[0] * work <= FIRST_WORK or sizes[0] == 1
            assert len(sizes) <= 10


def test_bounds_equal_those_of_the_theory_module(api: Service) -> None:
    body = {**STUDY, "arms": {"kind": "bernoulli", "means": [0.9, 0.5]}}
    [bounds_line] = [line for line in run_simulation(api, body) if line["kind"] == "bounds"]
    table = bounds(Study.from_json(json.dumps(body)))
    assert len(bounds_line["rows"]) == table.height > 0
    for row, known in zip(bounds_line["rows"], table.iter_rows(named=True), strict=True):
        for name in ("policy_index", "drift_index", "bound", "version", "metric", "kind"):
            assert row[name] == known[name]
        assert row["t"][-1] == body["horizon"]
        assert row["values"][-1] == pytest.approx(known["value"], rel=1e-12)
        assert (row["applies"], row["vacuous"]) == (known["applies"], known["vacuous"])
        assert row["why"] == known["doubts"] + known["emptiness"]


def test_bounds_of_equal_arms_give_the_reason(api: Service) -> None:
    body = {**SMALL, "arms": {"kind": "gaussian", "means": [0.5, 0.5]}}
    lines = run_simulation(api, body)
    [bounds_line] = [line for line in lines if line["kind"] == "bounds"]
    assert lines[-1]["kind"] == "done"
    without_bound = [
        row for row in bounds_line["rows"] if any("single best arm" in why for why in row["why"])
    ]
    assert without_bound
    assert not any(row["applies"] or row["values"] for row in without_bound)


def test_a_missing_seed_is_drawn(api: Service) -> None:
    without = {name: value for name, value in SMALL.items() if name != "seed"}
    first, second = (run_simulation(api, without)[-1]["seed"] for _ in range(2))
    assert first != second
    assert run_simulation(api, {**SMALL, "seed": first})[-1]["seed"] == first


@pytest.mark.parametrize("delay", [50, {"kind": "exponential", "mean": 50}])
def test_a_trace_equals_one_run(api: Service, delay: Any) -> None:
    body = {**STUDY, "players": {"delay": delay, "loss": 0.2}}
    where = {"policy_index": 1, "drift_index": 1, "replication": 3}
    trace = api.client.post("/v1/traces", json={"study": body, **where}).json()
    study = Study.from_json(json.dumps(body))
    rounds = entice.trace(
        replication=3, arms=study.arms, policies=[study.policies[1]], drifts=[study.drifts[1]],
        horizon=study.horizon, seed=study.seed, players=study.players,
    )  # fmt: skip
    assert len(trace["t"]) == 240
    assert trace["t"][-1] == study.horizon
    assert trace["true_means"] == [0.9, 0.7, 0.5, 0.3]
    for frame in (0, 100, 239):
        t = trace["t"][frame]
        by_then = rounds.filter(pl.col("t") <= t)
        known = rounds.filter(pl.col("seen_from") <= t + 1)
        for arm in range(4):
            assert trace["pulls"][frame][arm] == by_then.filter(arm=arm).height
            average = known.filter(arm=arm)["feedback"].mean()
            assert trace["averages"][frame][arm] == (average and pytest.approx(average))
        assert trace["paid"][frame] == pytest.approx(by_then["payment"].sum())
        lost = sum(0.9 - trace["true_means"][arm] for arm in by_then["arm"])
        assert trace["regret"][frame] == pytest.approx(lost)


def test_a_trace_of_an_unknown_cell_is_rejected(api: Service) -> None:
    for name in ("policy_index", "drift_index", "replication"):
        response = api.client.post("/v1/traces", json={"study": SMALL, name: 10**6})
        assert f"{name} must be from 0 to" in assert_problem(response, 422)["detail"]


# Limits


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"horizon": 1_000_001}, "horizon must be at most 1,000,000 here, not 1,000,001"),
        ({"replications": 10_001}, "replications must be at most 10,000 here, not 10,001"),
        (
            {"horizon": 10**6, "replications": 10**4},
            "rounds × replications × arms × cells must be at most 20,000,000,000 here, not "
            "200,000,000,000",
        ),
        (
            {
                "horizon": 10**6,
                "replications": 500,
                "policies": [{"kind": "equal_pay", "horizon": 9}],
            },
            "rounds × replications × arms × cells (EqualPay counts 10 times) must be at most "
            "20,000,000,000 here, not 50,000,000,000",
        ),
        (
            {
                "horizon": 10**6,
                "replications": 200,
                "players": {"delay": {"kind": "exponential", "mean": 10.0}},
            },
            "(UCB counts 10 times, EpsilonGreedy counts 10 times) must be at most",
        ),
        ({"arms": {"kind": "gaussian", "means": [0.5] * 1001}}, "arms must be at most 1,000"),
        ({"policies": [{"kind": "ucb"}] * 17}, "policies × drifts must be at most 32 here, not 34"),
        (
            {"checkpoints": 2000, "replications": 5000},
            "checkpoints × replications × cells must be at most 10,000,000 here, not 40,000,000",
        ),
        ({"players": {"delay": 2_000_000}}, "players.delay must be at most 1,000,000"),
        ({"horizon": 0}, "horizon must be"),
        ({"horizons": 5}, "unknown setting"),
        ({"policies": [{"kind": "custom", "select": "os:system"}]}, "cannot name code"),
        ({"drifts": {"kind": "custom", "function": "os:system"}}, "cannot name code"),
        ({"arms": CUSTOM}, "cannot name code"),
        ({"arms": {"kind": "wandering", "arms": CUSTOM}}, "cannot name code"),
        ({"arms": NESTED}, "cannot name code"),
        ({"policies": [{"kind": "nothing"}]}, "is unknown"),
        ({"policies": 5}, "must be a table"),
        ({"arms": {"kind": "gaussian", "means": "x"}}, "means must be"),
    ],
)
def test_a_simulation_beyond_a_limit_is_rejected(
    api: Service, changes: dict[str, Any], words: str
) -> None:
    for path, body in (
        ("/v1/simulations", {**STUDY, **changes}),
        ("/v1/traces", {"study": {**STUDY, **changes}}),
    ):
        assert words in assert_problem(api.client.post(path, json=body), 422)["detail"]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"days": 3000, "visitors_a_day": 400}, "visitors_a_day × days must be at most 1,000,000"),
        ({"arms": 1001}, "arms must be at most 1,000"),
        ({"replications": 10_001}, "replications must be at most 10,000"),
        (
            {"days": 1000, "replications": 5000},
            "policies × (arms + 75) must be at most 8,000,000,000",
        ),
        ({"spread": None, "star_counts": {"path": "/etc/passwd"}}, "cannot read files"),
        ({"policies": [{"kind": "custom", "select": "os:system"}]}, "cannot name code"),
        ({"budget": -1}, "budget must be greater than 0"),
    ],
)
def test_a_plan_beyond_a_limit_is_rejected(
    api: Service, changes: dict[str, Any], words: str
) -> None:
    response = api.client.post("/v1/plans", json={**PLAN, **changes})
    assert words in assert_problem(response, 422)["detail"]


def test_a_deeply_nested_body_is_rejected(api: Service) -> None:
    deep: Any = 0
    for _ in range(40):
        deep = [deep]
    for path, body in (
        ("/v1/simulations", {"arms": deep}),
        ("/v1/traces", {"study": {"arms": deep}}),
        ("/v1/plans", {"arms": deep}),
    ):
        assert_problem(api.client.post(path, json=body), 400, "malformed")


def test_the_limits_are_reported(api: Service) -> None:
    limits = api.client.get("/v1/studio").json()["limits"]
    assert limits == {name: getattr(LIMITS, name) for name in LIMITS.__struct_fields__}


# Requests of the docs

CONSOLE = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
DOCS = Path(__file__).parents[2] / "docs"


def curl_commands(texts: Iterable[str]) -> list[str]:
    """Return the curl commands in `console` blocks, each in one line."""
    blocks = [block for text in texts for block in CONSOLE.findall(text)]
    lines = [line for block in blocks for line in block.replace("\\\n", " ").splitlines()]
    return [line.removeprefix("$ ") for line in lines if line.startswith("$ curl ")]


def send(api: Service, command: str, campaign: str) -> httpx.Response:
    """Send the request of a curl command."""
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("url")
    parser.add_argument("-H", action="append")
    parser.add_argument("--json")
    parser.add_argument("-N", action="store_true")
    given = command.replace("c_…", campaign).replace("entice_…", TOKEN)
    curl = parser.parse_args(shlex.split(os.path.expandvars(given))[1:])
    lines = [Path(h[1:]).read_text().strip() if h[0] == "@" else h for h in curl.H]
    headers = dict(line.split(": ") for line in lines)
    assert "Authorization" in headers  # or the client would add its own
    headers |= {"content-type": "application/json"}
    return api.client.post(curl.url, content=curl.json, headers=headers)


def test_requests_in_console_blocks_of_the_docs_succeed(
    api: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`tests/test_docs.py` executes `bash` blocks. These need a key, or a service at port 8000."""
    monkeypatch.syspath_prepend(str(DOCS / "_ext"))
    import generated_pages

    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("ENTICE_STATE_DIR", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)
    file = token_file("127.0.0.1", 8000)
    file.parent.mkdir(parents=True)
    file.write_text(f"Authorization: Bearer {TOKEN}\n")
    pages = [path.read_text() for path in sorted(DOCS.glob("*/*.md"))]
    commands = curl_commands([*pages, generated_pages._HTTP_INTRODUCTION])
    answers = {command: send(api, command, api.campaign()) for command in commands}
    for command, answer in answers.items():
        assert answer.is_success, f"{command}\n{answer.text}"
    [simulated, offered] = answers.values()
    assert parse_lines(simulated.text)[-1]["kind"] == "done"
    assert offered.json()["state"] == "offered"
    # The control: another setting, or another field, is rejected.
    for command in commands:
        wrong = re.sub(r'"(horizon|player)"', r'"\1s"', command)
        assert_problem(send(api, wrong, api.campaign()), 422)
