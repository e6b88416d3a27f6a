"""Simulations for the page: early, exact, bounded, fair, cancellable, and apart from decisions."""

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
import polars as pl
import pytest
from service_fixtures import TEAS, Server, Service, assert_problem, server, service
from studio_fixtures import (
    LARGE,
    PLAN,
    SMALL,
    STUDY,
    is_running,
    parse_lines,
    stream_lines,
    wait_until,
    worker_pids,
)

import entice
from entice.service.domain.errors import Refusal
from entice.studio.jobs import queue as queue_module
from entice.studio.jobs.job import Reproduce
from entice.studio.jobs.limits import LIMITS
from entice.studio.jobs.queue import JobQueue
from entice.studio.jobs.simulate import FIRST_REPLICATIONS, FIRST_WORK, snapshot_sizes
from entice.studio.studio import studio_of
from entice.study.spec import Study
from entice.theory import bounds

RUNS_AWAY = {"kind": "epsilon_greedy", "c": 5}
"""With a steep drift payments grow without bound in some of its runs."""


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with service(tmp_path_factory.mktemp("studio")) as made:
        yield made


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A service in processes of its own, whose simulation process is warm."""
    with server(tmp_path_factory.mktemp("studio")) as made:
        for study in (STUDY, {**LARGE, "horizon": 100, "replications": 10}):
            with stream_lines(f"{made.url}/v1/simulations", study) as lines:
                assert list(lines)[-1]["kind"] == "done"
        yield made


def simulated(shop: Service, study: dict[str, Any]) -> list[dict[str, Any]]:
    answer = shop.client.post("/v1/simulations", json=study)
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "application/x-ndjson"
    return parse_lines(answer.text)


# What is shown


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"engine": "generic"},
        {"players": {"delay": 20, "loss": 0.3}},
        {"arms": {"kind": "bernoulli", "means": [0.8, 0.5]}, "checkpoints": [10, 500, 1999]},
        # Payments run away in some of these runs.
        {
            "drifts": [{"kind": "linear", "l": 3.0}],
            "policies": [{"kind": "epsilon_greedy", "c": 5}],
        },
        {"replications": 1},
    ],
)
def test_the_last_picture_is_what_a_study_finds(shop: Service, changes: dict[str, Any]) -> None:
    asked = {**STUDY, **changes}
    lines = simulated(shop, asked)
    pictures = [line for line in lines if line["kind"] == "picture"]
    last = pictures[-1]
    result = entice.run(Study.from_json(json.dumps(asked)), progress=False)
    assert last["replications"] == last["of"] == asked["replications"]
    assert len(last["cells"]) == len(list(result.study.cells()))
    for cell in last["cells"]:
        where = {name: cell[name] for name in ("policy_index", "drift_index")}
        for metric, found in cell["metrics"].items():
            curve = result.curves.filter(metric=metric, **where)
            assert cell["t"] == curve["t"].to_list()
            for name, values in found.items():
                # From text and back: equal to the last bit.
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


def test_pictures_grow(shop: Service) -> None:
    lines = simulated(shop, STUDY)
    assert lines[0] == {"kind": "queued", "ahead": 0}
    kinds = [line["kind"] for line in lines if line["kind"] != "compiling"]
    assert kinds[:3] == ["queued", "picture", "bounds"]
    shown = [line["replications"] for line in lines if line["kind"] == "picture"]
    assert shown == [16, 64, 200]


def test_stages_begin_small_and_end_with_all() -> None:
    for replications in (1, 5, 31, 32, 33, 100, 190, 1000, 10_000):
        for work in (1, 540_000, 10**7, 10**9):
            stages = snapshot_sizes(replications, work)
            assert stages == sorted(set(stages))
            assert stages[-1] == replications
            assert stages[0] * work <= FIRST_WORK or stages[0] == 1
            assert len(stages) <= 10


def test_bounds_are_those_of_the_theorems(shop: Service) -> None:
    asked = {**STUDY, "arms": {"kind": "bernoulli", "means": [0.9, 0.5]}}
    [told] = [line for line in simulated(shop, asked) if line["kind"] == "bounds"]
    table = bounds(Study.from_json(json.dumps(asked)))
    assert len(told["rows"]) == table.height > 0
    for row, known in zip(told["rows"], table.iter_rows(named=True), strict=True):
        for name in ("policy_index", "drift_index", "bound", "version", "metric", "kind"):
            assert row[name] == known[name]
        assert row["t"][-1] == asked["horizon"]
        assert row["values"][-1] == pytest.approx(known["value"], rel=1e-12)
        assert (row["applies"], row["vacuous"]) == (known["applies"], known["vacuous"])
        assert row["why"] == known["doubts"] + known["emptiness"]


def test_bounds_of_equal_arms_say_why_there_are_none(shop: Service) -> None:
    asked = {**SMALL, "arms": {"kind": "gaussian", "means": [0.5, 0.5]}}
    lines = simulated(shop, asked)
    [told] = [line for line in lines if line["kind"] == "bounds"]
    assert lines[-1]["kind"] == "done"
    silent = [row for row in told["rows"] if any("single best arm" in why for why in row["why"])]
    assert silent
    assert not any(row["applies"] or row["values"] for row in silent)


def test_a_seed_is_drawn_where_none_is_given(shop: Service) -> None:
    without = {name: value for name, value in SMALL.items() if name != "seed"}
    first, second = (simulated(shop, without)[-1]["seed"] for _ in range(2))
    assert first != second
    assert simulated(shop, {**SMALL, "seed": first})[-1]["seed"] == first


@pytest.mark.parametrize("delay", [50, {"kind": "exponential", "mean": 50}])
def test_a_film_is_one_run(shop: Service, delay: Any) -> None:
    asked = {**STUDY, "players": {"delay": delay, "loss": 0.2}}
    where = {"policy_index": 1, "drift_index": 1, "replication": 3}
    film = shop.client.post("/v1/traces", json={"study": asked, **where}).json()
    study = Study.from_json(json.dumps(asked))
    rounds = entice.trace(
        replication=3, arms=study.arms, policies=[study.policies[1]], drifts=[study.drifts[1]],
        horizon=study.horizon, seed=study.seed, players=study.players,
    )  # fmt: skip
    assert len(film["t"]) == 240
    assert film["t"][-1] == study.horizon
    assert film["true_means"] == [0.9, 0.7, 0.5, 0.3]
    for frame in (0, 100, 239):
        t = film["t"][frame]
        by_then = rounds.filter(pl.col("t") <= t)
        known = rounds.filter(pl.col("seen_from") <= t + 1)
        for arm in range(4):
            assert film["pulls"][frame][arm] == by_then.filter(arm=arm).height
            average = known.filter(arm=arm)["feedback"].mean()
            assert film["averages"][frame][arm] == (average and pytest.approx(average))
        assert film["paid"][frame] == pytest.approx(by_then["payment"].sum())
        lost = sum(0.9 - film["true_means"][arm] for arm in by_then["arm"])
        assert film["regret"][frame] == pytest.approx(lost)


def test_a_film_of_what_is_not_there(shop: Service) -> None:
    for name in ("policy_index", "drift_index", "replication"):
        refused = shop.client.post("/v1/traces", json={"study": SMALL, name: 10**6})
        assert f"{name} must be from 0 to" in assert_problem(refused, 422)["detail"]


# What is refused, before any work


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"horizon": 1_000_001}, "horizon must be at most 1,000,000 here, not 1,000,001"),
        ({"replications": 10_001}, "replications must be at most 10,000 here, not 10,001"),
        (
            {"horizon": 10**6, "replications": 10**4},
            "rounds × replications × arms × cells must be at most 20,000,000,000 here, not "
            "160,000,000,000",
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
        ({"policies": [{"kind": "custom", "select": "os:system"}]}, "can't name code"),
        ({"drifts": {"kind": "custom", "function": "os:system"}}, "can't name code"),
        ({"policies": [{"kind": "nothing"}]}, "is unknown"),
        ({"policies": 5}, "must be a table"),
        ({"arms": {"kind": "gaussian", "means": "x"}}, "means must be"),
    ],
)
def test_what_is_too_much_is_told(shop: Service, changes: dict[str, Any], words: str) -> None:
    for path, body in (
        ("/v1/simulations", {**STUDY, **changes}),
        ("/v1/traces", {"study": {**STUDY, **changes}}),
    ):
        assert words in assert_problem(shop.client.post(path, json=body), 422)["detail"]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"days": 3000, "visitors_a_day": 400}, "visitors_a_day × days must be at most 1,000,000"),
        ({"arms": 1001}, "arms must be at most 1,000"),
        ({"replications": 10_001}, "replications must be at most 10,000"),
        ({"days": 1000, "replications": 5000}, "must be at most 2,000,000,000 here, not"),
        ({"spread": None, "star_counts": {"path": "/etc/passwd"}}, "reads no files"),
        ({"policies": [{"kind": "custom", "select": "os:system"}]}, "can't name code"),
        ({"budget": -1}, "budget must be greater than 0"),
    ],
)
def test_plans_have_limits_too(shop: Service, changes: dict[str, Any], words: str) -> None:
    answer = shop.client.post("/v1/plans", json={**PLAN, **changes})
    assert words in assert_problem(answer, 422)["detail"]


def test_nested_for_the_sake_of_it(shop: Service) -> None:
    deep: Any = 0
    for _ in range(40):
        deep = [deep]
    for path, body in (
        ("/v1/simulations", {"arms": deep}),
        ("/v1/traces", {"study": {"arms": deep}}),
        ("/v1/plans", {"arms": deep}),
    ):
        assert_problem(shop.client.post(path, json=body), 400, "malformed")


def test_the_limits_are_told(shop: Service) -> None:
    limits = shop.client.get("/v1/studio").json()["limits"]
    assert limits == {name: getattr(LIMITS, name) for name in LIMITS.__struct_fields__}


# The process


def test_a_first_picture_comes_early(running: Server) -> None:
    study = {**STUDY, "horizon": 20_000, "replications": 4000}
    began = time.monotonic()
    with stream_lines(f"{running.url}/v1/simulations", study) as lines:
        first = next(line for line in lines if line["kind"] == "picture")
        early = time.monotonic() - began
        last = list(lines)[-1]
    whole = time.monotonic() - began
    assert first["replications"] <= FIRST_REPLICATIONS
    assert last["kind"] == "done"
    # 0.1 s on an idle machine; tests run on busy ones.
    assert early < max(1.0, whole / 3)


def test_whoever_leaves_ends_the_work(running: Server) -> None:
    url = f"{running.url}/v1/simulations"
    [process] = worker_pids(running.process.pid)
    for _ in range(3):
        with stream_lines(url, LARGE) as lines:
            next(line for line in lines if line["kind"] == "picture")
        began = time.monotonic()
        with stream_lines(url, SMALL) as lines:
            assert list(lines)[-1]["kind"] == "done"
        assert time.monotonic() - began < 5
    used = _cpu(process)
    time.sleep(1)
    assert _cpu(process) - used < 0.5  # of a second: nothing goes on
    assert worker_pids(running.process.pid) == [process]


def test_what_waits_is_dropped_with_its_connection(running: Server) -> None:
    url = f"{running.url}/v1/simulations"
    with stream_lines(url, LARGE) as first:
        next(line for line in first if line["kind"] == "picture")
        with stream_lines(url, LARGE) as second:
            assert next(second) == {"kind": "queued", "ahead": 1}
        with stream_lines(url, SMALL) as third:
            # The second is gone as soon as the service has seen it go.
            assert next(third)["ahead"] in (1, 2)
    with stream_lines(url, SMALL) as lines:
        assert list(lines)[-1]["kind"] == "done"


def test_decisions_go_on_while_a_large_simulation_runs(running: Server) -> None:
    campaign = httpx.post(f"{running.url}/v1/campaigns", json=TEAS).json()["id"]
    with stream_lines(f"{running.url}/v1/simulations", LARGE) as lines:
        next(line for line in lines if line["kind"] == "picture")
        [process] = worker_pids(running.process.pid)
        used, took = _cpu(process), []
        with httpx.Client() as client:
            for i in range(100):
                began = time.monotonic()
                url = f"{running.url}/v1/campaigns/{campaign}/offers"
                assert client.post(url, json={"player": f"{i}"}).status_code == 201
                took.append(time.monotonic() - began)
        assert _cpu(process) > used, "the simulation was not under way"
        assert os.getpriority(os.PRIO_PROCESS, process) >= 10
    assert sorted(took)[50] < 0.2
    assert max(took) < 2


def test_a_process_that_is_killed_is_started_again(shop: Service) -> None:
    simulated(shop, SMALL)
    process = studio_of(shop.context).jobs.pid
    assert process is not None
    found: list[list[dict[str, Any]]] = []
    asking = threading.Thread(target=lambda: found.append(simulated(shop, LARGE)))
    asking.start()
    used = _cpu(process)
    wait_until(lambda: _cpu(process) > used + 0.3)  # it is at work
    os.kill(process, signal.SIGKILL)
    asking.join(30)
    last = found[0][-1]
    assert (last["kind"], last["status"]) == ("failed", 503)
    assert "started again" in last["detail"]
    assert simulated(shop, SMALL)[-1]["kind"] == "done"
    assert studio_of(shop.context).jobs.pid != process
    # Also one that dies while nobody waits.
    idle = studio_of(shop.context).jobs.pid
    assert idle is not None
    os.kill(idle, signal.SIGKILL)
    wait_until(lambda: not is_running(idle))
    time.sleep(0.2)
    assert simulated(shop, SMALL)[-1]["kind"] == "done"


def test_a_killed_film_is_a_problem(shop: Service) -> None:
    simulated(shop, SMALL)
    process = studio_of(shop.context).jobs.pid
    assert process is not None
    study = {**LARGE, "horizon": 1_000_000, "replications": 1}
    answers: list[Any] = []
    asking = threading.Thread(
        target=lambda: answers.append(shop.client.post("/v1/traces", json={"study": study}))
    )
    used = _cpu(process)
    asking.start()
    wait_until(lambda: _cpu(process) > used)
    os.kill(process, signal.SIGKILL)
    asking.join(30)
    assert answers[0].status_code in (200, 503)
    if answers[0].status_code == 503:
        assert_problem(answers[0], 503, "unavailable")


def test_the_process_ends_with_its_parent(tmp_path: Path) -> None:
    with server(tmp_path) as made:
        httpx.get(made.url)
        [process] = wait_until(lambda: worker_pids(made.process.pid))
        assert made.stop() == 0
        wait_until(lambda: not is_running(process))
    with server(tmp_path) as made:
        httpx.get(made.url)
        [process] = wait_until(lambda: worker_pids(made.process.pid))
        os.kill(made.process.pid, signal.SIGKILL)
        wait_until(lambda: not is_running(process))


def test_the_end_of_the_service_ends_simulations(tmp_path: Path) -> None:
    with server(tmp_path) as made:
        with stream_lines(f"{made.url}/v1/simulations", LARGE) as lines:
            next(line for line in lines if line["kind"] == "picture")
            began = time.monotonic()
            made.process.terminate()
            last = list(lines)[-1]
        assert (last["kind"], last["title"]) == ("failed", "The service is stopping")
        assert made.process.wait(30) == 0
        assert time.monotonic() - began < 15


def test_nothing_is_started_for_those_who_never_look(tmp_path: Path) -> None:
    with service(tmp_path) as shop:
        campaign = shop.campaign()
        shop.offer(campaign, "ann")
        assert studio_of(shop.context).jobs.pid is None
        shop.client.get("/")
        wait_until(lambda: studio_of(shop.context).jobs.pid)


# The queue

ECHO = """
import sys
for line in sys.stdin.buffer:
    sys.stdout.buffer.write(b'.{"kind":"done"}\\n')
    sys.stdout.buffer.flush()
"""


@pytest.fixture
def echo(monkeypatch: pytest.MonkeyPatch) -> None:
    """Something quick instead of the simulation process."""
    monkeypatch.setattr(queue_module, "_COMMAND", (sys.executable, "-c", ECHO))


@pytest.mark.usefixtures("echo")
def test_each_caller_has_a_turn() -> None:
    async def ask() -> None:
        jobs, order = JobQueue(), []

        async def listen(name: str, answer: Any) -> None:
            lines = [line async for line in answer]
            assert lines[-1] == b'{"kind":"done"}\n'
            order.append((name, json.loads(lines[0])["ahead"]))

        submitted = [("ann", 0), ("ann", 1), ("ann", 2), ("bob", 3), ("cat", 4), ("bob", 5)]
        listening = [
            asyncio.create_task(listen(f"{caller}{i}", jobs.submit(caller, Reproduce())))
            for caller, i in submitted
        ]
        await asyncio.gather(*listening)
        assert [name for name, _ in order] == ["ann0", "bob3", "cat4", "ann1", "bob5", "ann2"]
        # Jobs ahead of each when it was submitted, before any had started.
        assert dict(order) == {"ann0": 0, "ann1": 1, "ann2": 2, "bob3": 1, "cat4": 2, "bob5": 4}
        await jobs.close()

    asyncio.run(ask())


@pytest.mark.usefixtures("echo")
def test_too_many_are_refused() -> None:
    async def ask() -> None:
        jobs = JobQueue()
        for _ in range(8):
            jobs.submit("ann", Reproduce())
        with pytest.raises(Refusal, match="At most 8 jobs of one caller may wait, and 64 in total"):
            jobs.submit("ann", Reproduce())
        for i in range(56):
            jobs.submit(f"caller {i}", Reproduce())
        with pytest.raises(Refusal) as refused:
            jobs.submit("bob", Reproduce())
        assert refused.value.status == 429
        await jobs.close()
        late = jobs.submit("ann", Reproduce())
        assert b"stopping" in [line async for line in late][-1]

    asyncio.run(ask())


@pytest.mark.usefixtures("echo")
def test_what_nobody_waits_for_is_not_done() -> None:
    async def ask() -> None:
        jobs = JobQueue()
        answers = [jobs.submit("ann", Reproduce()) for _ in range(3)]
        answers[1].cancel()
        answers[1].cancel()
        done = [line async for line in answers[2]]
        assert done[-1] == b'{"kind":"done"}\n'
        assert answers[1]._lines.qsize() == 1  # that it was queued, and nothing more
        await jobs.close()

    asyncio.run(ask())


def test_a_process_that_can_not_start(monkeypatch: pytest.MonkeyPatch) -> None:
    async def ask() -> None:
        jobs = JobQueue()
        lines = [line async for line in jobs.submit("ann", Reproduce())]
        assert b"The simulation process ended" in lines[-1]
        await jobs.close()

    for command in (("/nowhere/python",), (sys.executable, "-c", "raise SystemExit(3)")):
        monkeypatch.setattr(queue_module, "_COMMAND", command)
        asyncio.run(ask())


def _cpu(process: int) -> float:
    """Seconds that a process has worked."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
