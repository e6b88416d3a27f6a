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
import study_fixtures
from command_line import RunEntice, without_coverage
from dask_cluster import DaskCluster, dask_cluster
from distributed import Client
from forking import ForkedPopen, run_forked
from sizes import sized
from study_fixtures import (
    ENDLESS_STUDY,
    ENTICE,
    HANG,
    assert_same_files,
    assert_same_results,
    interrupt_at,
    wait_for_blocks,
)

import entice
from entice.study.running import cluster as clusters
from entice.study.running.output_folder import run_in_folder
from entice.user_functions import include

STUDY = msgspec.structs.replace(
    study_fixtures.STUDY, policies=[entice.UCB(), entice.EpsilonGreedy(c=5)], replications=60
)
LONG_STUDY = study_fixtures.LONG_STUDY.replace("4000", str(sized(1500, 4000)))
"""12 blocks of 0.2 s, or 32: a process dies after the first three."""
DRIFT_MODULE = "def drift(payment, t, arm, params):\n    return 2.0 * payment\n"


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The long study on one machine, with one thread."""
    folder = tmp_path_factory.mktemp("expected")
    run_in_folder(entice.Study.from_toml(LONG_STUDY), folder, threads=1, progress=False)
    return folder


def command_for(folder: Path, cluster: DaskCluster) -> list[str]:
    study, out = str(folder / "study.toml"), str(folder / "out")
    return [*ENTICE, "run", study, "--out", out, "--cluster", cluster.address]


def start_long(
    folder: Path, cluster: DaskCluster, study: str = LONG_STUDY
) -> tuple[subprocess.Popen[str], Path]:
    """Start a long study from the command line, and wait until some of it is finished."""
    (folder / "study.toml").write_text(study)
    out = folder / "out"
    process = ForkedPopen(
        command_for(folder, cluster), env=without_coverage(),
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    wait_for_blocks(process, out)
    return process, out


# The same numbers


def test_a_cluster_gives_the_same_numbers(cluster: DaskCluster) -> None:
    expected = entice.run(STUDY, threads=1, progress=False)
    assert_same_results(entice.run(STUDY, cluster=cluster.address, progress=False), expected)
    with Client(cluster.address, set_as_default=False) as client:
        settings: dict[str, Any] = {f: getattr(STUDY, f) for f in STUDY.__struct_fields__}
        found = entice.simulate(**settings, cluster=client, progress=False)
        assert client.status == "running"  # a client that was lent is not closed
    assert_same_results(found, expected)


def test_a_cluster_gives_the_same_numbers_of_a_large_study(
    cluster: DaskCluster, tmp_path: Path
) -> None:
    study = msgspec.structs.replace(
        STUDY, policies=[entice.Greedy()], horizon=100, checkpoints=100, replications=35_000
    )
    run_in_folder(study, tmp_path / "here", threads=1, progress=False)
    run_in_folder(study, tmp_path / "there", cluster=cluster.address, progress=False)
    assert_same_files(tmp_path / "here", tmp_path / "there")


def test_progress_is_reported_to_the_end(cluster: DaskCluster) -> None:
    reports: list[tuple[int, int]] = []
    entice.run(STUDY, cluster=cluster.address, progress=lambda *report: reports.append(report))
    assert reports[0] == (0, 240)
    assert reports[-1] == (240, 240)
    assert sorted(reports) == reports


def test_workers_discard_a_finished_study(cluster: DaskCluster) -> None:
    entice.run(STUDY, cluster=cluster.address, progress=False)
    with Client(cluster.address, set_as_default=False) as client:
        assert client.run(lambda: len(clusters._runners)) == dict.fromkeys(client.nthreads(), 0)


# Processes that die


def test_a_killed_worker_does_not_change_the_result(
    cluster: DaskCluster, expected: Path, tmp_path: Path
) -> None:
    process, out = start_long(tmp_path, cluster)
    cluster.workers[0].kill()
    _, errors = process.communicate(timeout=HANG)
    assert process.returncode == 0, errors
    assert_same_files(out, expected)


def test_a_killed_client_resumes(cluster: DaskCluster, expected: Path, tmp_path: Path) -> None:
    process, out = start_long(tmp_path, cluster)
    process.kill()
    process.communicate()
    saved = len(list(out.glob("blocks-*/*.npz")))
    assert saved >= 3
    run = run_forked(*command_for(tmp_path, cluster))
    assert f"resuming with {saved} finished blocks" in run.err
    assert_same_files(out, expected)


def test_finished_blocks_are_not_run_again(cluster: DaskCluster, tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        run_in_folder(STUDY, tmp_path, cluster=cluster.address, progress=interrupt_at(120))
    seen: list[int] = []
    run_in_folder(STUDY, tmp_path, cluster=cluster.address, progress=lambda d, _: seen.append(d))
    assert seen[:3] == [0, 60, 120]


def test_ctrl_c_stops_the_workers_and_keeps_finished_blocks(
    cluster: DaskCluster, expected: Path, tmp_path: Path
) -> None:
    with Client(cluster.address, set_as_default=False) as client:
        before = client.run(lambda: set(clusters._runners))
    process, out = start_long(tmp_path, cluster)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=HANG)
    assert process.returncode == 130
    assert "Run the same command again to resume" in " ".join(errors.split())
    assert "Traceback" not in errors
    with Client(cluster.address, set_as_default=False) as client:
        assert client.run(lambda: set(clusters._runners)) == before
        assert all(not keys for keys in client.processing().values())
    # A study that was started on a cluster can be finished on one machine.
    run_in_folder(entice.Study.from_toml(LONG_STUDY), out, progress=False)
    assert_same_files(out, expected)


def executing(dask_worker: Any) -> int:
    return int(dask_worker.state.executing_count)


executing.__module__ = "__main__"  # so that it is pickled by value


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + HANG
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_ctrl_c_stops_blocks_that_would_take_minutes(cluster: DaskCluster, tmp_path: Path) -> None:
    """Dask itself cannot stop a running task."""
    text = study_fixtures.LONG_STUDY.replace("horizon = 20000", "horizon = 20000000000")
    (tmp_path / "study.toml").write_text(text.replace("4000", "2"))
    process = ForkedPopen(
        command_for(tmp_path, cluster), env=without_coverage(), stderr=subprocess.PIPE, text=True
    )
    with Client(cluster.address, set_as_default=False) as client:
        try:
            wait_until(lambda: sum(client.run(executing).values()) == 2)
            time.sleep(1)
            assert sum(client.run(executing).values()) == 2
        finally:
            process.send_signal(signal.SIGINT)
        process.communicate(timeout=HANG)
        wait_until(lambda: sum(client.run(executing).values()) == 0)


def test_a_hanging_worker_does_not_block_ctrl_c(cluster: DaskCluster, tmp_path: Path) -> None:
    process, _ = start_long(tmp_path, cluster, ENDLESS_STUDY)
    cluster.workers[0].send_signal(signal.SIGSTOP)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=HANG)
    cluster.workers[0].kill()
    cluster.workers[0].wait()
    assert process.returncode == 130
    assert "Traceback" not in errors


def test_the_death_of_the_last_worker_is_reported(cluster: DaskCluster, tmp_path: Path) -> None:
    process, _ = start_long(tmp_path, cluster, ENDLESS_STUDY)
    for worker in cluster.workers:
        worker.kill()
    assert process.stderr is not None
    assert "no worker is connected: waiting for one" in process.stderr.readline()
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=HANG)


def test_an_error_on_the_machine_of_a_worker_is_reported(
    cluster: DaskCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    full.__module__ = "__main__"
    monkeypatch.setattr(clusters, "run_block", full)
    with pytest.raises(entice.StudyError, match=r"A worker failed: OSError: .*No space left"):
        entice.run(STUDY, cluster=cluster.address, progress=False)


def test_a_killed_scheduler_is_reported_and_the_next_one_resumes(
    cluster: DaskCluster, expected: Path, tmp_path: Path
) -> None:
    process, out = start_long(tmp_path, cluster)
    cluster.scheduler.kill()
    cluster.scheduler.wait()
    _, errors = process.communicate(timeout=HANG)
    assert process.returncode == 2, errors
    assert "connection to the scheduler was lost" in " ".join(errors.split())
    assert "Traceback" not in errors
    cluster.repair(workers=1)
    run_forked(*command_for(tmp_path, cluster))
    assert_same_files(out, expected)


def test_workers_may_join_late(cluster: DaskCluster, capfd: Any) -> None:
    for worker in cluster.workers:
        worker.terminate()
        worker.wait()
    # After the message, which is printed at the first count of the workers.
    later = threading.Timer(0.5, cluster.start_worker)
    later.start()
    try:
        found = entice.run(STUDY, cluster=cluster.address, progress=False)
    finally:
        later.join()
    assert_same_results(found, entice.run(STUDY, threads=1, progress=False))
    assert capfd.readouterr().err.count("no worker is connected: waiting for one") == 1


def test_a_block_that_kills_its_workers_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def die(*_: object) -> None:
        os._exit(1)

    die.__module__ = "__main__"
    monkeypatch.setattr(clusters, "run_block", die)
    monkeypatch.setenv("DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES", "0")
    with (
        dask_cluster(tmp_path, workers=1) as one_worker,
        pytest.raises(entice.StudyError, match="Several workers died while running the same block"),
    ):
        entice.run(STUDY, cluster=one_worker.address, progress=False)


# Invalid input


@pytest.mark.parametrize("package", ["entice", "numba"])
def test_a_worker_of_another_version_is_rejected_before_anything_is_written(
    cluster: DaskCluster, package: str, tmp_path: Path
) -> None:
    """The worker finds other metadata first on its path, as if that version were installed."""
    info = tmp_path / "site" / f"{package}-0.0.1.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 0.0.1\n")
    cluster.start_worker(PYTHONPATH=str(tmp_path / "site"))
    cluster.wait_for(3)
    out = tmp_path / "out"
    with pytest.raises(entice.InputError) as error:
        run_in_folder(STUDY, out, cluster=cluster.address, progress=False)
    assert f"got '{package} 0.0.1'" in str(error.value)
    assert "Install that version there, or stop the worker" in str(error.value)
    assert not out.exists()


def test_a_worker_of_another_version_that_joins_late_is_rejected(
    cluster: DaskCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clusters.DaskExecutor, "_check_installed", lambda *_: None)
    # As if no worker had been connected at the check.
    monkeypatch.setattr(clusters, "check", clusters._first_line)
    monkeypatch.setattr(
        clusters, "_versions", lambda: {"Entice": "9.9", "Numba": "1", "Python": "3"}
    )
    with pytest.raises(
        entice.InputError, match=r"must have the same version as this machine, Entice 9\.9"
    ):
        entice.run(STUDY, cluster=cluster.address, progress=False)


@pytest.fixture
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait a tenth of the time for a scheduler that does not reply."""
    monkeypatch.setattr(clusters, "CONNECT_TIMEOUT", clusters.CONNECT_TIMEOUT / 10)


@pytest.mark.usefixtures("_impatient")
def test_a_missing_scheduler_is_reported(tmp_path: Path) -> None:
    with pytest.raises(entice.InputError, match="address of a running Dask scheduler") as error:
        run_in_folder(STUDY, tmp_path / "out", cluster="tcp://127.0.0.1:9", progress=False)
    assert "Start one with `dask scheduler`" in str(error.value)
    assert not (tmp_path / "out").exists()


@pytest.fixture
def silent() -> Iterator[str]:
    """The address of a server that never replies."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"tcp://127.0.0.1:{server.getsockname()[1]}"


INVALID_ADDRESS = "Error: cluster must be the address of a running Dask"


@pytest.mark.usefixtures("_impatient")
@pytest.mark.parametrize(
    "address", ["", "scheduler", "tcp://127.0.0.1", "tcp://127.0.0.1:abc", "ftp://x:1"]
)
def test_an_invalid_address_is_reported(address: str, run_entice: RunEntice) -> None:
    Path("study.toml").write_text(LONG_STUDY)
    ran = run_entice("run", "study.toml", "--out", "out", "--cluster", address)
    assert ran.code == 2
    assert " ".join(ran.err.split()).startswith(INVALID_ADDRESS)
    assert "Traceback" not in ran.err
    assert not Path("out").exists()


IMPATIENT = """
from entice.cli.app import main
from entice.study.running import cluster
cluster.CONNECT_TIMEOUT /= 10
main()
"""


def test_the_address_of_a_silent_server_is_reported_without_hanging(
    silent: str, tmp_path: Path
) -> None:
    (tmp_path / "study.toml").write_text(LONG_STUDY)
    arguments = ["run", str(tmp_path / "study.toml"), "--out", str(tmp_path / "out")]
    process = ForkedPopen(
        [sys.executable, "-c", IMPATIENT, *arguments, "--cluster", silent],
        stderr=subprocess.PIPE, text=True, env=without_coverage(),
    )  # fmt: skip
    _, errors = process.communicate(timeout=HANG)
    assert process.returncode == 2
    assert " ".join(errors.split()).startswith(INVALID_ADDRESS)
    assert "Traceback" not in errors
    assert not (tmp_path / "out").exists()


def test_the_address_of_a_worker_is_rejected(cluster: DaskCluster) -> None:
    with Client(cluster.address, set_as_default=False) as client:
        worker = next(iter(client.nthreads()))
    with pytest.raises(entice.InputError, match="this is a worker"):
        entice.run(STUDY, cluster=worker, progress=False)


def test_other_values_of_cluster_are_rejected(cluster: DaskCluster) -> None:
    closed = Client(cluster.address, set_as_default=False)
    closed.close()
    for value in (8786, closed):
        with pytest.raises(entice.InputError, match="must be the address of a Dask scheduler"):
            entice.run(STUDY, cluster=value, progress=False)  # type: ignore[arg-type]


def test_a_function_that_cannot_be_pickled_is_reported(cluster: DaskCluster) -> None:
    lock = threading.Lock()

    def drift(payment: float, t: int, arm: int, params: Any) -> float:
        return payment if lock else 0.0

    drift.__module__ = "__main__"
    study = msgspec.structs.replace(STUDY, drifts=[entice.CustomDrift(drift)])
    with pytest.raises(entice.InputError, match="cannot be sent to other machines"):
        entice.run(study, cluster=cluster.address, progress=False)


def test_a_function_that_cannot_be_compiled_is_reported(
    cluster: DaskCluster, tmp_path: Path
) -> None:
    def drift(payment: float, t: int, arm: int, params: Any) -> Any:
        return payment if payment == 0 else str(payment)

    drift.__module__ = "__main__"
    study = msgspec.structs.replace(
        STUDY, policies=[entice.Greedy()], drifts=[entice.CustomDrift(drift)]
    )
    with pytest.raises(entice.InputError, match=r"the study cannot be run: .*drift"):
        run_in_folder(study, tmp_path / "out", cluster=cluster.address, progress=False)
    assert not (tmp_path / "out").exists()


def test_a_failing_policy_is_reported(cluster: DaskCluster) -> None:
    def select(t: int, pulls: Any, means: Any, memory: Any, params: Any, rng: Any) -> int:
        return 17 if t > 400 else 0

    select.__module__ = "__main__"
    study = msgspec.structs.replace(STUDY, policies=[entice.CustomPolicy(select)])
    with pytest.raises(entice.StudyError, match="selected arm 17 in round 401"):
        entice.run(study, cluster=cluster.address, progress=False)


def test_threads_are_rejected_with_a_cluster() -> None:
    with pytest.raises(entice.InputError, match="threads must be omitted with a cluster"):
        entice.run(STUDY, threads=2, cluster="tcp://127.0.0.1:8786", progress=False)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("own.txt", DRIFT_MODULE, "must be a Python file"),
        ("missing.py", None, "must exist"),
        ("broken.py", "1 / 0", "can't be imported (ZeroDivisionError"),
        ("leaving.py", "raise SystemExit(3)", "can't be imported (SystemExit"),
        ("queue.py", DRIFT_MODULE, "must not have the name of a standard-library module"),
        ("polars.py", DRIFT_MODULE, "must not have the name of a standard-library module or of an"),
    ],
)
def test_a_file_that_cannot_be_included_is_reported(
    tmp_path: Path, name: str, text: str | None, message: str
) -> None:
    if text is not None:
        (tmp_path / name).write_text(text)
    before = sys.modules.get(Path(name).stem)
    with pytest.raises(entice.InputError) as error:
        include(tmp_path / name)
    assert message in str(error.value)
    assert sys.modules.get(Path(name).stem) is before


def test_errors_survive_pickling() -> None:
    error = entice.InputError("horizon", "must be at least 1", given=0)
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again), again.name) == (type(error), str(error), "horizon")
