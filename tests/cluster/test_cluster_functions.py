"""User functions on a Dask cluster: they are sent to the workers, and other code is rejected."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
import study_fixtures
from dask_cluster import DaskCluster, InstalledElsewhere
from forking import run_forked
from study_fixtures import ENTICE, assert_same_files, assert_same_results

import entice

STUDY = msgspec.structs.replace(
    study_fixtures.STUDY,
    policies=[entice.EpsilonGreedy(c=5)],
    drifts=[entice.LinearDrift(1.1)],
    replications=60,
)
DRIFT_MODULE = """
SLOPE = 2.0

def drift(payment, t, arm, params):
    return SLOPE * payment
"""
RANDOM_POLICY = """
import math

import numba

import entice
from entice.rng import normal, uniform

WIDTH = 0.5


def noise(rng, n):
    return WIDTH * normal(rng) / math.sqrt(n + 1)


@numba.njit
def explores(rng, share):
    return uniform(rng) < share


def select(t, pulls, means, memory, params, rng):
    if explores(rng, params[0]):
        return entice.rng.below(rng, len(pulls))
    best, top = 0, -math.inf
    for i in range(len(pulls)):
        drawn = means[i] + noise(rng, pulls[i]) - 0.01 * memory[i]
        if drawn > top:
            best, top = i, drawn
    return best


def update(memory, params, arm, payment, feedback):
    memory[arm] += payment
"""
RUN = """
study = entice.Study(
    arms=entice.Gaussian([0.9, 0.6, 0.3]),
    policies=[entice.CustomPolicy(select, update, params=[0.05], memory_per_arm=1)],
    drifts=[entice.LinearDrift(1.1)], horizon=500, replications=60, seed=7, checkpoints=10,
)
if __name__ == "__main__":
    import sys

    entice.run(study, cluster=sys.argv[1], progress=False).save("there")
    entice.run(study, threads=2, progress=False).save("here")
"""


# A policy with random draws, helpers (compiled and not) and memory


def test_a_random_policy_of_a_script(cluster: DaskCluster, tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(RANDOM_POLICY + RUN)
    run_forked(sys.executable, "script.py", cluster.address, cwd=tmp_path)
    assert_same_files(tmp_path / "here", tmp_path / "there")


def test_a_random_policy_of_notebook_cells(cluster: DaskCluster, tmp_path: Path) -> None:
    """Each cell is compiled under its own name and run in `__main__`, as in IPython."""
    kernel = """
import linecache, sys
import __main__

cells = sys.argv[2:]
for number, file in enumerate(cells, 1):
    source, name = open(file).read(), f"<ipython-input-{number}-0123456789ab>"
    linecache.cache[name] = len(source), None, source.splitlines(True), name
    exec(compile(source, name, "exec"), __main__.__dict__)
"""
    first = RANDOM_POLICY.replace("WIDTH = 0.5", "WIDTH = 0.8")
    for name, source in {"kernel": kernel, "a": first, "b": RANDOM_POLICY, "c": RUN}.items():
        (tmp_path / f"{name}.py").write_text(source)
    # The cell of the functions is run, edited and run again before the study.
    command = sys.executable, "kernel.py", cluster.address, "a.py", "b.py", "c.py"
    run_forked(*command, cwd=tmp_path)
    assert_same_files(tmp_path / "here", tmp_path / "there")


def test_a_random_policy_of_an_included_file(cluster: DaskCluster, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    file = tmp_path / "elsewhere" / "random_policy.py"
    file.write_text(RANDOM_POLICY)
    (tmp_path / "study.toml").write_text(
        """
        horizon = 500
        replications = 60
        seed = 7
        checkpoints = 10
        arms = { kind = "gaussian", means = [0.9, 0.6, 0.3] }
        drifts = [{ kind = "linear", l = 1.1 }]

        [[policies]]
        kind = "custom"
        select = "random_policy:select"
        update = "random_policy:update"
        params = [0.05]
        memory_per_arm = 1
        """
    )
    command = [*ENTICE, "run", str(tmp_path / "study.toml"), "--include", str(file)]
    for out, more in (("there", ["--cluster", cluster.address]), ("here", [])):
        run_forked(*command, "--out", str(tmp_path / out), *more)
    assert_same_files(tmp_path / "here", tmp_path / "there")


@pytest.mark.parametrize(
    "changed",
    [
        pytest.param(("WIDTH = 0.5", "WIDTH = 0.6"), id="a global of a helper"),
        pytest.param(("< share", "<= share"), id="the body of a compiled helper"),
        pytest.param(
            ("import normal, uniform", "import normal, uniform as normal, uniform"), id="which draw"
        ),
        pytest.param(("memory[arm] += payment", "memory[arm] += feedback"), id="update"),
        pytest.param(None, id="nothing"),
    ],
)
def test_a_random_policy_that_differs_on_the_worker_is_rejected(
    elsewhere: InstalledElsewhere,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    changed: tuple[str, str] | None,
) -> None:
    other = RANDOM_POLICY if changed is None else RANDOM_POLICY.replace(*changed)
    assert (other == RANDOM_POLICY) == (changed is None)
    name = install(RANDOM_POLICY, tmp_path, other, elsewhere, monkeypatch)
    policy = entice.CustomPolicy(
        f"{name}:select", f"{name}:update", params=[0.05], memory_per_arm=1
    )
    study = msgspec.structs.replace(STUDY, policies=[policy])
    if changed is None:  # the control: the same code
        assert_same_results(
            entice.run(study, cluster=elsewhere.cluster.address, progress=False),
            entice.run(study, threads=1, progress=False),
        )
    else:
        with pytest.raises(entice.InputError, match="would run other code on the worker"):
            entice.run(study, cluster=elsewhere.cluster.address, progress=False)


def install(
    ours: str,
    here: Path,
    theirs: str,
    elsewhere: InstalledElsewhere,
    monkeypatch: pytest.MonkeyPatch,
) -> str:
    """Install two versions of a module; return its name, which no other test uses."""
    name = f"installed_{len(list(elsewhere.folder.glob('*.py')))}"
    (here / f"{name}.py").write_text(ours)
    (elsewhere.folder / f"{name}.py").write_text(theirs)
    monkeypatch.syspath_prepend(here)
    return name


# Functions without random draws


def test_functions_of_a_notebook_are_sent_to_the_workers(cluster: DaskCluster) -> None:
    slope = 3.0

    def drift(payment: float, t: int, arm: int, params: Any) -> float:
        return slope * payment + 0.0 * params[0]

    drift.__module__ = "__main__"
    study = msgspec.structs.replace(STUDY, drifts=[entice.CustomDrift(drift, params=[1.0])])
    assert_same_results(
        entice.run(study, cluster=cluster.address, progress=False),
        entice.run(study, threads=1, progress=False),
    )


def test_an_included_file_is_sent_in_its_current_version(
    cluster: DaskCluster, tmp_path: Path
) -> None:
    (tmp_path / "elsewhere").mkdir()
    file = tmp_path / "elsewhere" / "own_drift.py"
    (tmp_path / "study.toml").write_text(
        """
        horizon = 500
        replications = 40
        seed = 11
        arms = { kind = "gaussian", means = [0.9, 0.6, 0.3] }
        policies = [{ kind = "epsilon_greedy", c = 5 }]
        drifts = [{ kind = "custom", function = "own_drift:drift" }]
        """
    )
    command = [*ENTICE, "run", str(tmp_path / "study.toml"), "--include", str(file)]
    # The second run must not use the function of the first. The file has another length: within one
    # second, Python would otherwise take its byte code for current.
    for slope in ("2.0", "4.25"):
        file.write_text(DRIFT_MODULE.replace("2.0", slope))
        for out, more in (("there", ["--cluster", cluster.address]), ("here", [])):
            out = str(tmp_path / f"{out}{slope}")
            run_forked(*command, "--out", out, *more)
        assert_same_files(tmp_path / f"here{slope}", tmp_path / f"there{slope}")
    slopes = [entice.Result.load(tmp_path / f"there{s}").final for s in ("2.0", "4.25")]
    assert not slopes[0].equals(slopes[1])


def test_a_module_that_workers_lack_is_named(
    cluster: DaskCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "only_here.py").write_text(DRIFT_MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    study = msgspec.structs.replace(STUDY, drifts=[entice.CustomDrift("only_here:drift")])
    with pytest.raises(entice.InputError, match=r"'only_here', which the worker .* cannot import"):
        entice.run(study, cluster=cluster.address, progress=False)


def test_another_version_of_a_file_on_the_worker_is_rejected(
    elsewhere: InstalledElsewhere, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = DRIFT_MODULE.replace("2.0", "2.5")
    name = install(DRIFT_MODULE, tmp_path, other, elsewhere, monkeypatch)
    study = msgspec.structs.replace(STUDY, drifts=[entice.CustomDrift(f"{name}:drift")])
    with pytest.raises(entice.InputError, match="would run other code on the worker"):
        entice.run(study, cluster=elsewhere.cluster.address, progress=False)


def test_code_without_a_fingerprint_is_rejected(
    cluster: DaskCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = (
        "import numba\n\n@numba.njit(cache=True)\ndef twice(x):\n    return 2 * x\n" + DRIFT_MODULE
    )
    (tmp_path / "numba_cached.py").write_text(text.replace("SLOPE * payment", "twice(payment)"))
    monkeypatch.syspath_prepend(tmp_path)
    study = msgspec.structs.replace(STUDY, drifts=[entice.CustomDrift("numba_cached:drift")])
    with pytest.raises(entice.InputError, match="cannot be compared between machines"):
        entice.run(study, cluster=cluster.address, progress=False)
