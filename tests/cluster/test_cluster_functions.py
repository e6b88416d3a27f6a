"""Users' own functions on a Dask cluster: they travel, and other code is refused."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from command_line import without_coverage
from dask_cluster import DaskCluster, dask_cluster
from polars.testing import assert_frame_equal

import entice

STUDY = entice.Study(
    arms=entice.Gaussian([0.9, 0.6, 0.3]),
    policies=[entice.EpsilonGreedy(c=5)],
    drifts=[entice.LinearDrift(1.1)],
    horizon=500,
    replications=60,
    seed=7,
    checkpoints=10,
)
OWN = """
SLOPE = 2.0

def bend(payment, t, arm, params):
    return SLOPE * payment
"""
FILES = ("final.parquet", "curves.parquet")
ENTICE = [sys.executable, "-c", "from entice.cli.app import main; main()"]
DRAWING = """
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


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaskCluster]:
    with dask_cluster(tmp_path_factory.mktemp("dask"), workers=2) as started:
        yield started


@pytest.fixture
def own_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaskCluster]:
    """A cluster without workers yet."""
    with dask_cluster(tmp_path_factory.mktemp("dask"), workers=0) as started:
        yield started


def assert_same_bytes(one: Path, other: Path) -> None:
    for name in FILES:
        assert (one / name).read_bytes() == (other / name).read_bytes(), name


def assert_same(one: entice.Result, other: entice.Result) -> None:
    assert_frame_equal(one.final, other.final, check_exact=True)
    assert_frame_equal(one.curves, other.curves, check_exact=True)


def run_python(*command: str, cwd: Path) -> None:
    ran = subprocess.run(
        [sys.executable, *command], cwd=cwd, env=without_coverage(), capture_output=True, text=True
    )
    assert ran.returncode == 0, ran.stderr


# A policy with draws, helpers (compiled and not) and memory


def test_a_drawing_policy_of_a_script(cluster: DaskCluster, tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(DRAWING + RUN)
    run_python("script.py", cluster.address, cwd=tmp_path)
    assert_same_bytes(tmp_path / "here", tmp_path / "there")


def test_a_drawing_policy_of_notebook_cells(cluster: DaskCluster, tmp_path: Path) -> None:
    """Cells are compiled under names of their own and run in `__main__`, as IPython does."""
    kernel = """
import linecache, sys
import __main__

cells = sys.argv[2:]
for number, file in enumerate(cells, 1):
    source, name = open(file).read(), f"<ipython-input-{number}-0123456789ab>"
    linecache.cache[name] = len(source), None, source.splitlines(True), name
    exec(compile(source, name, "exec"), __main__.__dict__)
"""
    edited = DRAWING.replace("WIDTH = 0.5", "WIDTH = 0.8")
    for name, source in {"kernel": kernel, "a": DRAWING, "b": edited, "c": RUN}.items():
        (tmp_path / f"{name}.py").write_text(source)
    # The cell of the functions is run, edited and run again before the study.
    run_python("kernel.py", cluster.address, "a.py", "b.py", "c.py", cwd=tmp_path)
    assert_same_bytes(tmp_path / "here", tmp_path / "there")


def test_a_drawing_policy_of_an_included_file(cluster: DaskCluster, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    file = tmp_path / "elsewhere" / "drawing_policy.py"
    file.write_text(DRAWING)
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
        select = "drawing_policy:select"
        update = "drawing_policy:update"
        params = [0.05]
        memory_per_arm = 1
        """
    )
    command = [*ENTICE, "run", str(tmp_path / "study.toml"), "--include", str(file)]
    for out, more in (("there", ["--cluster", cluster.address]), ("here", [])):
        whole = [*command, "--out", str(tmp_path / out), *more]
        ran = subprocess.run(whole, env=without_coverage(), capture_output=True, text=True)
        assert ran.returncode == 0, ran.stderr
    assert_same_bytes(tmp_path / "here", tmp_path / "there")


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
def test_a_drawing_policy_that_differs_on_the_worker_is_refused(
    own_cluster: DaskCluster,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    changed: tuple[str, str] | None,
) -> None:
    other = DRAWING if changed is None else DRAWING.replace(*changed)
    assert (other == DRAWING) == (changed is None)
    for place, source in (("here", DRAWING), ("there", other)):
        (tmp_path / place).mkdir()
        (tmp_path / place / "installed_policy.py").write_text(source)
    own_cluster.start_worker(PYTHONPATH=f"{tmp_path / 'there'}:{os.environ.get('PYTHONPATH', '')}")
    own_cluster.wait_for(1)
    monkeypatch.syspath_prepend(tmp_path / "here")
    monkeypatch.delitem(sys.modules, "installed_policy", raising=False)
    policy = entice.CustomPolicy(
        "installed_policy:select", "installed_policy:update", params=[0.05], memory_per_arm=1
    )
    study = msgspec.structs.replace(STUDY, policies=[policy])
    if changed is None:  # the control: the same code is run
        assert_same(
            entice.run(study, cluster=own_cluster.address, progress=False),
            entice.run(study, threads=1, progress=False),
        )
    else:
        with pytest.raises(entice.InputError, match="would run other code on the worker"):
            entice.run(study, cluster=own_cluster.address, progress=False)


# Functions that draw nothing


def test_functions_of_a_notebook_travel(cluster: DaskCluster) -> None:
    slope = 3.0

    def bend(payment: float, t: int, arm: int, params: Any) -> float:
        return slope * payment + 0.0 * params[0]

    bend.__module__ = "__main__"
    study = msgspec.structs.replace(STUDY, drifts=[entice.CustomDrift(bend, params=[1.0])])
    assert_same(
        entice.run(study, cluster=cluster.address, progress=False),
        entice.run(study, threads=1, progress=False),
    )


def test_a_file_that_is_included_travels_in_its_present_version(
    cluster: DaskCluster, tmp_path: Path
) -> None:
    (tmp_path / "elsewhere").mkdir()
    file = tmp_path / "elsewhere" / "own_drift.py"
    (tmp_path / "study.toml").write_text(
        """
        horizon = 500
        replications = 40
        seed = 11
        engine = "generic"
        arms = { kind = "gaussian", means = [0.9, 0.6, 0.3] }
        policies = [{ kind = "epsilon_greedy", c = 5 }]
        drifts = [{ kind = "custom", function = "own_drift:bend" }]
        """
    )
    command = [*ENTICE, "run", str(tmp_path / "study.toml"), "--include", str(file)]
    for slope in ("2.0", "4.0"):  # the second must not meet the first one's function
        file.write_text(OWN.replace("2.0", slope))
        for out, more in (("there", ["--cluster", cluster.address]), ("here", [])):
            out = str(tmp_path / f"{out}{slope}")
            subprocess.run([*command, "--out", out, *more], check=True, capture_output=True)
        assert_same_bytes(tmp_path / f"here{slope}", tmp_path / f"there{slope}")
    slopes = [entice.Result.load(tmp_path / f"there{s}").final for s in ("2.0", "4.0")]
    assert not slopes[0].equals(slopes[1])


def test_a_module_that_workers_lack_is_told(
    cluster: DaskCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "only_here.py").write_text(OWN)
    monkeypatch.syspath_prepend(tmp_path)
    study = msgspec.structs.replace(STUDY, drifts=[entice.CustomDrift("only_here:bend")])
    with pytest.raises(entice.InputError, match=r"'only_here', which the worker .* can't import"):
        entice.run(study, cluster=cluster.address, progress=False)


def test_another_version_of_a_users_file_is_refused(
    own_cluster: DaskCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for place, slope in (("here", "2.0"), ("there", "2.5")):
        (tmp_path / place).mkdir()
        (tmp_path / place / "two_versions.py").write_text(OWN.replace("2.0", slope))
    own_cluster.start_worker(PYTHONPATH=f"{tmp_path / 'there'}:{os.environ.get('PYTHONPATH', '')}")
    own_cluster.wait_for(1)
    monkeypatch.syspath_prepend(tmp_path / "here")
    study = msgspec.structs.replace(STUDY, drifts=[entice.CustomDrift("two_versions:bend")])
    with pytest.raises(entice.InputError, match="would run other code on the worker"):
        entice.run(study, cluster=own_cluster.address, progress=False)


def test_code_that_can_t_be_compared_is_refused(
    cluster: DaskCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "import numba\n\n@numba.njit(cache=True)\ndef twice(x):\n    return 2 * x\n" + OWN
    (tmp_path / "kept_elsewhere.py").write_text(text.replace("SLOPE * payment", "twice(payment)"))
    monkeypatch.syspath_prepend(tmp_path)
    study = msgspec.structs.replace(STUDY, drifts=[entice.CustomDrift("kept_elsewhere:bend")])
    with pytest.raises(entice.InputError, match="can't be compared between machines"):
        entice.run(study, cluster=cluster.address, progress=False)
