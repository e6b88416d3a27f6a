"""Studies on a Dask cluster: real processes, some of them killed, and the same bytes."""

from __future__ import annotations

import os
import pickle
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from command_line import without_coverage
from dask_cluster import DaskCluster, dask_cluster
from distributed import Client
from polars.testing import assert_frame_equal

import entice
from entice.study.running import cluster as clusters
from entice.study.running.output_folder import run_in_folder
from entice.user_functions import include

STUDY = entice.Study(
    arms=entice.Gaussian([0.9, 0.6, 0.3]),
    policies=[entice.UCB(), entice.EpsilonGreedy(c=5)],
    drifts=[entice.NoDrift(), entice.LinearDrift(1.1)],
    horizon=500,
    replications=60,
    seed=7,
    checkpoints=10,
)
LONG = """
horizon = 20000
replications = 6000
seed = 11
checkpoints = 20
engine = "generic"
arms = { kind = "gaussian", means = [0.9, 0.6, 0.3] }
policies = [{ kind = "ucb" }]
drifts = [{ kind = "none" }, { kind = "linear", l = 1.1 }]
"""
OWN = "def bend(payment, t, arm, params):\n    return 2.0 * payment\n"
SOON = 40
"""Seconds. An idle machine needs less than 10; a busy one takes longer to start a process."""
FILES = ("final.parquet", "curves.parquet")
ENTICE = [sys.executable, "-c", "from entice.cli.app import main; main()"]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaskCluster]:
    with dask_cluster(tmp_path_factory.mktemp("dask"), workers=2) as started:
        yield started


@pytest.fixture
def own_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaskCluster]:
    """A cluster that a test may do to what it likes."""
    with dask_cluster(tmp_path_factory.mktemp("dask"), workers=2) as started:
        yield started


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The long study on one machine, with one thread."""
    folder = tmp_path_factory.mktemp("expected")
    run_in_folder(entice.Study.from_toml(LONG), folder, threads=1, progress=False)
    return folder


def assert_same_bytes(one: Path, other: Path) -> None:
    for name in FILES:
        assert (one / name).read_bytes() == (other / name).read_bytes(), name


def assert_same(one: entice.Result, other: entice.Result) -> None:
    assert_frame_equal(one.final, other.final, check_exact=True)
    assert_frame_equal(one.curves, other.curves, check_exact=True)


def command_for(folder: Path, cluster: DaskCluster) -> list[str]:
    study, out = str(folder / "study.toml"), str(folder / "out")
    return [*ENTICE, "run", study, "--out", out, "--cluster", cluster.address]


def start_long(folder: Path, cluster: DaskCluster) -> tuple[subprocess.Popen[str], Path]:
    """Start the long study from the command line, and wait until some of it is finished."""
    (folder / "study.toml").write_text(LONG)
    out = folder / "out"
    process = subprocess.Popen(
        command_for(folder, cluster), env=without_coverage(),
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    deadline = time.monotonic() + 120
    while len(list(out.glob("blocks-*/*.npz"))) < 3:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return process, out


# The same numbers


def test_a_cluster_finds_the_same_numbers(cluster: DaskCluster) -> None:
    expected = entice.run(STUDY, threads=1, progress=False)
    assert_same(entice.run(STUDY, cluster=cluster.address, progress=False), expected)
    with Client(cluster.address, set_as_default=False) as client:
        settings: dict[str, Any] = {f: getattr(STUDY, f) for f in STUDY.__struct_fields__}
        found = entice.simulate(**settings, cluster=client, progress=False)
        assert client.status == "running"  # a client that was lent is not closed
    assert_same(found, expected)


def test_a_large_study_too(cluster: DaskCluster, tmp_path: Path) -> None:
    study = msgspec.structs.replace(
        STUDY, policies=[entice.Greedy()], horizon=100, checkpoints=100, replications=35_000
    )
    run_in_folder(study, tmp_path / "here", threads=1, progress=False)
    run_in_folder(study, tmp_path / "there", cluster=cluster.address, progress=False)
    assert_same_bytes(tmp_path / "here", tmp_path / "there")


def test_progress_is_told_to_the_end(cluster: DaskCluster) -> None:
    told: list[tuple[int, int]] = []
    entice.run(STUDY, cluster=cluster.address, progress=lambda *seen: told.append(seen))
    assert told[0] == (0, 240)
    assert told[-1] == (240, 240)
    assert sorted(told) == told


def test_workers_forget_a_study_that_is_finished(cluster: DaskCluster) -> None:
    entice.run(STUDY, cluster=cluster.address, progress=False)
    with Client(cluster.address, set_as_default=False) as client:
        assert client.run(lambda: len(clusters._jobs)) == dict.fromkeys(client.nthreads(), 0)


# What dies


def test_a_worker_killed_in_the_middle_changes_nothing(
    own_cluster: DaskCluster, expected: Path, tmp_path: Path
) -> None:
    process, out = start_long(tmp_path, own_cluster)
    own_cluster.workers[0].kill()
    _, told = process.communicate(timeout=120)
    assert process.returncode == 0, told
    assert_same_bytes(out, expected)


def test_a_client_killed_in_the_middle_goes_on(
    cluster: DaskCluster, expected: Path, tmp_path: Path
) -> None:
    process, out = start_long(tmp_path, cluster)
    process.kill()
    process.communicate()
    kept = len(list(out.glob("blocks-*/*.npz")))
    assert kept >= 3
    run = subprocess.run(command_for(tmp_path, cluster), capture_output=True, text=True, check=True)
    assert f"resuming with {kept} finished blocks" in run.stderr
    assert_same_bytes(out, expected)


def test_blocks_that_are_finished_are_not_run_again(cluster: DaskCluster, tmp_path: Path) -> None:
    def interrupt(done: int, total: int) -> None:
        if done >= 120:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_in_folder(STUDY, tmp_path, cluster=cluster.address, progress=interrupt)
    seen: list[int] = []
    run_in_folder(STUDY, tmp_path, cluster=cluster.address, progress=lambda d, _: seen.append(d))
    assert seen[:3] == [0, 60, 120]


def test_ctrl_c_stops_the_workers_and_keeps_what_is_finished(
    cluster: DaskCluster, expected: Path, tmp_path: Path
) -> None:
    with Client(cluster.address, set_as_default=False) as client:
        before = client.run(lambda: set(clusters._jobs))
    process, out = start_long(tmp_path, cluster)
    process.send_signal(signal.SIGINT)
    _, told = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "run the same command to go on" in " ".join(told.split())
    assert "Traceback" not in told
    with Client(cluster.address, set_as_default=False) as client:
        assert client.run(lambda: set(clusters._jobs)) == before
        assert all(not keys for keys in client.processing().values())
    # What was begun on a cluster may end on one machine.
    run_in_folder(entice.Study.from_toml(LONG), out, progress=False)
    assert_same_bytes(out, expected)


def executing(dask_worker: Any) -> int:
    return int(dask_worker.state.executing_count)


executing.__module__ = "__main__"  # so that it travels


def wait_until(true: Callable[[], bool], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_ctrl_c_stops_blocks_that_would_take_minutes(cluster: DaskCluster, tmp_path: Path) -> None:
    """Of Dask's own a task that runs can't be stopped."""
    endless = LONG.replace("horizon = 20000", "horizon = 20000000000")
    (tmp_path / "study.toml").write_text(endless.replace("6000", "2"))
    process = subprocess.Popen(
        command_for(tmp_path, cluster), env=without_coverage(), stderr=subprocess.PIPE, text=True
    )
    with Client(cluster.address, set_as_default=False) as client:
        try:
            wait_until(lambda: sum(client.run(executing).values()) == 2, 60)
            time.sleep(1)
            assert sum(client.run(executing).values()) == 2
        finally:
            process.send_signal(signal.SIGINT)
        process.communicate(timeout=15)
        wait_until(lambda: sum(client.run(executing).values()) == 0, 2)


def test_a_worker_that_hangs_does_not_hang_ctrl_c(own_cluster: DaskCluster, tmp_path: Path) -> None:
    process, _ = start_long(tmp_path, own_cluster)
    own_cluster.workers[0].send_signal(signal.SIGSTOP)
    process.send_signal(signal.SIGINT)
    _, told = process.communicate(timeout=15)
    assert process.returncode == 130
    assert "Traceback" not in told


def test_a_last_worker_that_dies_is_told(own_cluster: DaskCluster, tmp_path: Path) -> None:
    process, _ = start_long(tmp_path, own_cluster)
    for worker in own_cluster.workers:
        worker.kill()
    assert process.stderr is not None
    assert "no worker is connected: waiting for one" in process.stderr.readline()
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=15)


def test_an_error_of_a_workers_machine_is_told_as_such(
    cluster: DaskCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    full.__module__ = "__main__"
    monkeypatch.setattr(clusters, "run_block", full)
    with pytest.raises(entice.StudyError, match=r"A worker failed: OSError: .*No space left"):
        entice.run(STUDY, cluster=cluster.address, progress=False)


def test_a_scheduler_killed_in_the_middle_is_told_and_its_successor_goes_on(
    own_cluster: DaskCluster, expected: Path, tmp_path: Path
) -> None:
    process, out = start_long(tmp_path, own_cluster)
    own_cluster.scheduler.kill()
    own_cluster.scheduler.wait()
    _, told = process.communicate(timeout=60)
    assert process.returncode == 2, told
    assert "connection to the scheduler was lost" in " ".join(told.split())
    assert "Traceback" not in told
    for worker in own_cluster.workers:
        worker.kill()
    own_cluster.start_scheduler()
    own_cluster.start_worker()
    own_cluster.wait_for(1)
    subprocess.run(command_for(tmp_path, own_cluster), check=True, capture_output=True)
    assert_same_bytes(out, expected)


def test_workers_may_come_late(own_cluster: DaskCluster, capfd: Any) -> None:
    for worker in own_cluster.workers:
        worker.terminate()
        worker.wait()
    later = threading.Timer(4, own_cluster.start_worker)
    later.start()
    try:
        found = entice.run(STUDY, cluster=own_cluster.address, progress=False)
    finally:
        later.join()
    assert_same(found, entice.run(STUDY, threads=1, progress=False))
    assert capfd.readouterr().err.count("no worker is connected: waiting for one") == 1


def test_a_block_that_kills_its_workers_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def die(*_: object) -> None:
        os._exit(1)

    die.__module__ = "__main__"
    monkeypatch.setattr(clusters, "run_block", die)
    monkeypatch.setenv("DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES", "0")
    with (
        dask_cluster(tmp_path, workers=1) as doomed,
        pytest.raises(entice.StudyError, match="The same block was under way on each of several"),
    ):
        entice.run(STUDY, cluster=doomed.address, progress=False)


# Bad input


@pytest.mark.parametrize("package", ["entice", "numba"])
def test_a_worker_of_another_version_is_refused_before_anything_is_written(
    own_cluster: DaskCluster, package: str, tmp_path: Path
) -> None:
    """The worker finds other metadata first on its path, as if that version were installed."""
    info = tmp_path / "site" / f"{package}-0.0.1.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 0.0.1\n")
    own_cluster.start_worker(PYTHONPATH=str(tmp_path / "site"))
    own_cluster.wait_for(3)
    out = tmp_path / "out"
    with pytest.raises(entice.InputError) as told:
        run_in_folder(STUDY, out, cluster=own_cluster.address, progress=False)
    assert f"got '{package} 0.0.1'" in str(told.value)
    assert "Install the same version there, or stop that worker" in str(told.value)
    assert not out.exists()


def test_a_worker_of_another_version_that_comes_late_is_refused(
    own_cluster: DaskCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clusters.DaskExecutor, "_check_installed", lambda *_: None)
    # As if nobody had been there to be asked.
    monkeypatch.setattr(clusters, "examine", clusters._first_line)
    monkeypatch.setattr(
        clusters, "_versions", lambda: {"Entice": "9.9", "Numba": "1", "Python": "3"}
    )
    with pytest.raises(entice.InputError, match=r"must run what this machine runs, Entice 9\.9"):
        entice.run(STUDY, cluster=own_cluster.address, progress=False)


def test_a_scheduler_that_does_not_answer_is_reported_soon(tmp_path: Path) -> None:
    began = time.monotonic()
    with pytest.raises(entice.InputError, match="address of a Dask scheduler that answers") as told:
        run_in_folder(STUDY, tmp_path / "out", cluster="tcp://127.0.0.1:9", progress=False)
    assert time.monotonic() - began < SOON
    assert "Start one with `dask scheduler`" in str(told.value)
    assert not (tmp_path / "out").exists()


@pytest.fixture
def silent() -> Iterator[str]:
    """Somebody who listens, and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield f"tcp://127.0.0.1:{listening.getsockname()[1]}"


@pytest.mark.parametrize(
    "address", ["", "scheduler", "tcp://127.0.0.1", "tcp://127.0.0.1:abc", "ftp://x:1", "silent"]
)
def test_a_bad_address_is_reported_soon_in_a_sentence(
    address: str, silent: str, tmp_path: Path
) -> None:
    (tmp_path / "study.toml").write_text(LONG)
    command = [*ENTICE, "run", str(tmp_path / "study.toml"), "--out", str(tmp_path / "out")]
    began = time.monotonic()
    run = subprocess.run(
        [*command, "--cluster", silent if address == "silent" else address],
        capture_output=True, text=True, timeout=60, env=without_coverage(),
    )  # fmt: skip
    assert time.monotonic() - began < SOON
    assert run.returncode == 2
    assert " ".join(run.stderr.split()).startswith("Error: cluster must be the address of a Dask")
    assert "Traceback" not in run.stderr
    assert not (tmp_path / "out").exists()


def test_a_worker_is_no_scheduler(cluster: DaskCluster) -> None:
    with Client(cluster.address, set_as_default=False) as client:
        worker = next(iter(client.nthreads()))
    with pytest.raises(entice.InputError, match="a worker is there"):
        entice.run(STUDY, cluster=worker, progress=False)


def test_what_is_no_cluster_is_told(cluster: DaskCluster) -> None:
    closed = Client(cluster.address, set_as_default=False)
    closed.close()
    for given in (8786, closed):
        with pytest.raises(entice.InputError, match="must be the address of a Dask scheduler"):
            entice.run(STUDY, cluster=given, progress=False)  # type: ignore[arg-type]


def test_a_function_that_can_t_travel_is_told(cluster: DaskCluster) -> None:
    lock = threading.Lock()

    def bend(payment: float, t: int, arm: int, params: Any) -> float:
        return payment if lock else 0.0

    bend.__module__ = "__main__"
    study = msgspec.structs.replace(STUDY, drifts=[entice.CustomDrift(bend)])
    with pytest.raises(entice.InputError, match="can't be sent to other machines"):
        entice.run(study, cluster=cluster.address, progress=False)


def test_a_function_that_can_t_be_compiled_is_told(cluster: DaskCluster, tmp_path: Path) -> None:
    def bend(payment: float, t: int, arm: int, params: Any) -> Any:
        return payment if payment == 0 else str(payment)

    bend.__module__ = "__main__"
    study = msgspec.structs.replace(
        STUDY, policies=[entice.Greedy()], drifts=[entice.CustomDrift(bend)]
    )
    with pytest.raises(entice.InputError, match=r"the study can't be run: .*bend"):
        run_in_folder(study, tmp_path / "out", cluster=cluster.address, progress=False)
    assert not (tmp_path / "out").exists()


def test_a_policy_that_fails_is_told(cluster: DaskCluster) -> None:
    def select(t: int, pulls: Any, means: Any, memory: Any, params: Any, rng: Any) -> int:
        return 17 if t > 400 else 0

    select.__module__ = "__main__"
    study = msgspec.structs.replace(STUDY, policies=[entice.CustomPolicy(select)])
    with pytest.raises(entice.StudyError, match="selected arm 17 in round 401"):
        entice.run(study, cluster=cluster.address, progress=False)


def test_the_folder_of_another_study_is_refused(cluster: DaskCluster, tmp_path: Path) -> None:
    run_in_folder(STUDY, tmp_path, progress=False)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*.*")}
    other = msgspec.structs.replace(STUDY, horizon=501)
    with pytest.raises(entice.InputError, match="must be empty, or hold this study"):
        run_in_folder(other, tmp_path, cluster=cluster.address, progress=False)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*.*")} == before


def test_threads_mean_nothing_on_a_cluster() -> None:
    with pytest.raises(entice.InputError, match="threads means nothing with a cluster"):
        entice.run(STUDY, threads=2, cluster="tcp://127.0.0.1:8786", progress=False)


def test_without_dask_it_is_told_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    monkeypatch.delitem(sys.modules, "entice.study.running.cluster")
    with pytest.raises(entice.InputError, match=r"pip install 'entice\[cluster\]'"):
        entice.run(STUDY, cluster="tcp://127.0.0.1:8786", progress=False)


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("own.txt", OWN, "must be a Python file"),
        ("missing.py", None, "must exist"),
        ("broken.py", "1 / 0", "can't be imported (ZeroDivisionError"),
        ("leaving.py", "raise SystemExit(3)", "can't be imported (SystemExit"),
        ("queue.py", OWN, "must not be called like a module of Python's"),
        ("polars.py", OWN, "must not be called like a module of Python's or of a package"),
    ],
)
def test_a_file_that_can_t_be_included_is_told(
    tmp_path: Path, name: str, text: str | None, told: str
) -> None:
    if text is not None:
        (tmp_path / name).write_text(text)
    before = sys.modules.get(Path(name).stem)
    with pytest.raises(entice.InputError) as error:
        include(tmp_path / name)
    assert told in str(error.value)
    assert sys.modules.get(Path(name).stem) is before


def test_errors_travel_whole() -> None:
    error = entice.InputError("horizon", "must be at least 1", given=0)
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again), again.name) == (type(error), str(error), "horizon")
