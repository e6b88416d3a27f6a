"""Policies are compiled at start-up, never during a request."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from command_line import without_coverage
from forking import ForkedPopen
from numba.core import event
from service_fixtures import TEAS, Service, assert_problem, service
from sizes import sized
from studio_fixtures import wait_until

import entice
from entice.jit import specialize
from entice.service import logs
from entice.service.domain import campaign as campaigns
from entice.service.domain.pending_policies import PENDING
from entice.service.operations import warm_up
from entice.service.operations.warm_up import WarmUp

POLICIES: list[dict[str, Any]] = [
    {"kind": "ucb"},
    {"kind": "ucb", "noise": 2},
    {"kind": "epsilon_greedy", "c": 2},
    {"kind": "thompson_sampling"},
    {"kind": "thompson_sampling", "noise": 2},
    {"kind": "thompson_sampling", "scale": "std"},
    {"kind": "greedy"},
    {"kind": "drift_corrected_thompson"},
    {"kind": "drift_corrected_thompson", "display": "corrected", "noise": 2},
    {"kind": "round_robin_epsilon_greedy", "c": 0.5},
    {"kind": "alternating_thompson"},
    {"kind": "moss", "horizon": 100},
    {"kind": "equal_pay"},
    {"kind": "equal_pay", "horizon": 100, "noise": 2},
    {"kind": "equal_pay_elimination", "horizon": 100},
    {"kind": "discounted_ucb", "gamma": 0.9},
    {"kind": "sliding_window_ucb", "window": 20, "xi": 0.5},
]
"""Written by hand, independently of `warm_up.variants`."""


class Counts:
    """Counts how often machine code was loaded or compiled."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.specialized = 0
        from_cache = specialize._from_cache

        def counted(*arguments: Any) -> Any:
            self.specialized += 1
            return from_cache(*arguments)

        monkeypatch.setattr(specialize, "_from_cache", counted)


def send_all_requests(shop: Service, policy: dict[str, Any], name: str) -> None:
    """Send every kind of request to a campaign."""
    equal_pay = policy["kind"].startswith("equal_pay")
    probe = {} if equal_pay else {"probe": {"share": 0.5, "amount": [0.25, 1]}}
    campaign = shop.campaign(name=name, policy=policy, **probe)
    client, path = shop.client, f"/v1/campaigns/{campaign}"
    offers = [shop.offer(campaign, f"player {i}")["id"] for i in range(6)]
    shop.offer(campaign, "choosy", eligible=["matcha"], displayed={"matcha": 4.5})
    answers = [
        client.post(f"{path}/offers/batch", json={"requests": [{"player": "x"}, {"player": "y"}]}),
        client.post(f"{path}/ratings", json={"ratings": [{"arm": "oolong", "rating": 5}]}),
        *(client.post(f"/v1/offers/{offer}/accept") for offer in offers[:4]),
        *(client.post(f"/v1/offers/{offer}/rating", json={"rating": 2}) for offer in offers[:3]),
        client.post(f"/v1/offers/{offers[0]}/rating", json={"rating": 4}),
        client.post(f"/v1/offers/{offers[1]}/reverse"),
        client.post(f"/v1/offers/{offers[5]}/decline"),
        client.post(f"{path}/arms", json={"arms": ["gyokuro"]}),
        client.patch(f"{path}/arms/oolong", json={"retired": True}),
        *(
            answer
            for status in ("shadow", "paused", "live")
            for answer in (
                client.patch(path, json={"status": status}),
                client.post(f"{path}/offers", json={"player": status}),
            )
        ),
        *(client.get(f"{path}{rest}") for rest in ("", "/arms", "/events", "/drift")),
        client.get(f"{path}/export?format=jsonl"),
        client.get(f"/v1/offers/{offers[0]}"),
        client.get("/metrics"),
    ]
    assert {answer.status_code for answer in answers} <= {200, 201}, [a.text for a in answers]


@pytest.mark.usefixtures("untraced")
def test_once_ready_no_request_compiles_or_loads_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert {policy["kind"] for policy in POLICIES} == set(warm_up.kinds())
    with service(tmp_path) as shop:
        assert shop.client.get("/readyz").status_code == 200
        counts = Counts(monkeypatch)
        with event.install_recorder("numba:compile") as compiled:
            for policy in POLICIES:
                send_all_requests(shop, policy, str(policy))
        assert (counts.specialized, len(compiled.buffer)) == (0, 0)


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    """The tests' cache without the functions of a policy, but for the largest one.

    That is the step that decides. It takes 3 s to compile.
    """
    ready = specialize.cache_folder()
    folders = {key: ready / key for key in functions_of("greedy")}
    size = {key: sum(f.stat().st_size for f in path.iterdir()) for key, path in folders.items()}
    missing = size.keys() - {max(size, key=lambda key: size[key])}
    assert len(missing) >= 2  # rate and display
    (tmp_path / "cache").mkdir()
    for folder in ready.iterdir():
        if folder.name not in missing:
            (tmp_path / "cache" / folder.name).symlink_to(folder)
    return tmp_path / "cache"


def functions_of(kind: str) -> set[str]:
    """Return the keys of the machine code of a policy."""
    found: set[str] = set()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(specialize, "_compiled", {})
        campaigns._compiled_steps.cache_clear()
        warm_up._make_ready(kind)
        found.update(specialize._compiled)
    campaigns._compiled_steps.cache_clear()
    return found


def test_without_warm_up_requests_compile(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The control: the same requests to a service without warm-up."""
    monkeypatch.setenv("ENTICE_CACHE_DIR", str(cache))
    monkeypatch.setattr(specialize, "_compiled", {})
    monkeypatch.setattr(WarmUp, "run", lambda self, first: 0)
    campaigns._compiled_steps.cache_clear()
    with service(tmp_path) as shop:
        counts = Counts(monkeypatch)
        with event.install_recorder("numba:compile") as compiled:
            send_all_requests(shop, {"kind": "greedy"}, "greedy")
        assert counts.specialized >= 3
        assert len(compiled.buffer) > 0
    campaigns._compiled_steps.cache_clear()


def test_requests_for_a_policy_that_is_not_ready_are_rejected_and_others_served(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with service(tmp_path) as shop:
        other, ours = shop.campaign(policy={"kind": "greedy"}), shop.campaign()
        offer = shop.offer(ours, "ann")["id"]
        shop.offer(other, "ann")
    arrived, resume, load = threading.Event(), threading.Event(), warm_up._load

    def load_slowly(kind: str) -> bool:
        if kind == "ucb":
            arrived.set()
            assert resume.wait(60)
        return load(kind)

    monkeypatch.setattr(warm_up, "_loaded", set())
    monkeypatch.setattr(warm_up, "_load", load_slowly)
    with service(tmp_path, wait=False) as shop:
        client = shop.client
        assert arrived.wait(60)
        for answer in (
            client.post("/v1/campaigns", json=TEAS),
            client.post(f"/v1/campaigns/{ours}/offers", json={"player": "bob"}),
            client.post(f"/v1/offers/{offer}/accept"),
            client.patch(f"/v1/campaigns/{ours}", json={"budget": 60_000}),
            client.get(f"/v1/campaigns/{ours}/arms"),
            client.get(f"/v1/offers/{offer}"),
        ):
            detail = assert_problem(answer, 503, "not-ready")["detail"]
            assert "the policy ucb is not compiled yet" in detail
            assert answer.headers["retry-after"] == "1"
        problem = assert_problem(client.get("/readyz"), 503, "not-ready")
        assert problem["detail"].startswith("The service is starting. Not compiled yet:")
        assert "ucb" in problem["detail"]
        assert "greedy" not in problem["detail"].replace("epsilon_greedy", "")
        for path in ("/healthz", "/", "/v1/campaigns", f"/v1/campaigns/{ours}"):
            assert client.get(path).status_code == 200, path
        assert client.get(f"/v1/campaigns/{ours}/events").status_code == 200
        shop.offer(other, "bob")  # its policy is ready
        shop.context.check()  # a policy that is not ready is no database error
        resume.set()
        wait_until(lambda: client.get("/readyz").status_code == 200)
        assert client.post(f"/v1/offers/{offer}/accept").status_code == 200
        assert shop.campaign()


def test_retry_after_is_longer_for_compiling_than_for_loading(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(PENDING, "ucb", warm_up.RETRY_COMPILING)
    with service(tmp_path, wait=False) as shop:
        answer = shop.client.post("/v1/campaigns", json=TEAS)
        assert answer.headers["retry-after"] == "5"


WARM_UP = """
import sys, time
from entice.jit import specialize
from entice.service import logs
from entice.service.domain import campaign
from entice.service.domain.pending_policies import PENDING
from entice.service.operations import warm_up
# As after the start of a process: the one that it is forked from may have loaded code.
specialize._compiled.clear()
campaign._compiled_steps.cache_clear()
warm_up._loaded.clear()
logs.configure()
warm_up.kinds = lambda: ["greedy"]
began = time.process_time()
compiled = warm_up.WarmUp().run(["greedy"])
print(compiled, sorted(warm_up._loaded), list(PENDING), flush=True)
"""
DISPLAY_ONLY = """
from entice.service.domain.campaign import Campaign
from entice.service.domain.spec import CampaignSpec
def display(policy):
    spec = CampaignSpec(
        name="x", arms=["a", "b"], budget=0, price_of_a_star=1, policy=policy, seed=0)
    Campaign.create("c_warm_up", spec, 0, rules=1).displayed_stars()
warm_up.exercise = display
"""
"""Only the smallest function of a policy: the step that decides takes 3 s to compile."""
COMPILED_HERE = """
from entice.jit import specialize
print("compiled here:", len(specialize._compiled) > 0)
"""
WITHOUT_STEP = WARM_UP.replace("began =", f"{DISPLAY_ONLY}began =")


def warmed_up(cache: Path, script: str = WARM_UP) -> tuple[str, str]:
    """Warm up one policy in a forked process; return its output."""
    pipe = subprocess.PIPE
    environment = {**without_coverage(), "ENTICE_CACHE_DIR": str(cache)}
    command = [sys.executable, "-c", script]
    with ForkedPopen(command, env=environment, stdout=pipe, stderr=pipe, text=True) as process:
        output, log = process.communicate(timeout=600)
    assert process.returncode == 0, log
    return output.strip(), log


def test_missing_code_is_compiled_by_a_child_process_and_cached(cache: Path) -> None:
    missing = functions_of("greedy") - {path.name for path in cache.iterdir()}
    assert warmed_up(cache) == ("1 ['greedy'] []", "")
    cached = {path.name for path in cache.iterdir()}
    assert cached >= missing
    assert warmed_up(cache) == ("0 ['greedy'] []", "")
    assert {path.name for path in cache.iterdir()} == cached


def test_without_a_writable_cache_the_service_compiles_by_itself(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    cache.write_text("no folder")
    script = sized(WITHOUT_STEP, WARM_UP) + COMPILED_HERE
    output, log = warmed_up(cache, script)
    assert output.splitlines() == ["1 ['greedy'] []", "compiled here: True"]
    [line] = [json.loads(line) for line in log.splitlines()]
    assert (line["event"], line["exit_code"]) == ("compiling-process-failed", 1)


def test_stopping_the_service_cancels_compilation(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    start = subprocess.Popen
    started: list[subprocess.Popen[str]] = []

    def sleep(command: list[str], **options: Any) -> subprocess.Popen[str]:
        assert command[:4] == [sys.executable, "-P", "-m", "entice.service.operations.warm_up"]
        started.append(start(["sleep", "600"], **options))
        return started[-1]

    monkeypatch.setattr(warm_up, "_loaded", set())
    monkeypatch.setattr(warm_up, "_load", lambda kind: False)
    monkeypatch.setattr(warm_up.subprocess, "Popen", sleep)
    compiling = WarmUp()
    running = threading.Thread(target=compiling.run)
    running.start()
    wait_until(lambda: started)
    assert list(PENDING) == warm_up.kinds()
    compiling.cancel()
    running.join(30)
    assert not running.is_alive()
    assert all(process.poll() is not None for process in started)
    assert list(PENDING) == []


def test_a_policy_that_fails_to_compile_is_logged_and_does_not_block_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A request for an offer with it gets an error."""
    exercised, logged = [], []
    exercise = warm_up.exercise

    def fail(policy: Any) -> None:
        exercised.append(policy)
        if policy == entice.UCB():
            raise ZeroDivisionError
        exercise(policy)

    monkeypatch.setattr(warm_up, "_loaded", set())
    monkeypatch.setattr(warm_up, "exercise", fail)
    monkeypatch.setattr(logs, "unexpected", lambda error, **facts: logged.append(error))
    assert WarmUp().run() == 0
    assert [type(error) for error in logged] == [ZeroDivisionError]
    assert warm_up._loaded == set(warm_up.kinds())
