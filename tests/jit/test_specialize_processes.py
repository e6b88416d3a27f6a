"""Compiled code on disk is shared by processes, and checked by each of them."""

from __future__ import annotations

import contextlib
import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

import pytest
from command_line import without_coverage
from compiled_code import FIRST, contents, entries, only_entry
from example_runner import ExampleRunner, Finished

pytestmark = pytest.mark.usefixtures("cache")

SIMULATE = """
result = entice.simulate(
    arms=entice.Bernoulli([0, 1]), policies=[entice.CustomPolicy(select)],
    horizon=6, replications=1, checkpoints=1, seed=1,
)
output = result.final["pulls"][0].to_list()
"""

# The same through an entry point with little to compile.
ASK = """
import numpy as np
from entice.jit.decorators import inline_always

@inline_always
def ask(select, pulls, means, memory, stream):
    return 0 + select(1, pulls, means, memory, (), stream)

arguments = np.zeros(2, np.int64), np.zeros(2), np.zeros(0), np.zeros(4, np.uint64)
output = int(specialize.get_compiled(ask, (select,), arguments)(*arguments))
"""

SCRIPT = """
import json
import entice
from entice.jit import specialize

{select}
{work}
(run,) = specialize._compiled.values()
hits, misses = (sum(n.values()) for n in (run.stats.cache_hits, run.stats.cache_misses))
print(json.dumps([output, hits, misses]))
"""

CALLS_MODULE = """
import helpers

def select(t, pulls, means, memory, params, rng):
    return helpers.choose(t)
"""

HELPERS = """
import numba

@numba.njit
def deeper(t):
    return {arm}

@numba.njit
def choose(t):
    return deeper(t)
"""

CALLS_ITSELF = """
import numba

ARM = {arm}

@numba.njit
def choose(t):
    return ARM

def select(t, pulls, means, memory, params, rng):
    return choose(t)
"""

MODULE = """
def select(t, pulls, means, memory, params, rng):
    return pulls[0] + 1
"""

SENT = f"""
namespace = {{"__name__": "only_there"}}
exec({MODULE!r}, namespace)
select = namespace["select"]
"""


def script(folder: Path, select: str, work: str) -> Path:
    file = folder / "script.py"
    file.write_text(SCRIPT.format(select=select, work=work))
    return file


def start_process(file: Path, cache: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-W", "error", str(file)],
        env={
            **without_coverage(),
            "ENTICE_CACHE_DIR": str(cache),
            # Python reuses bytecode of an edited module with the same length and time.
            "PYTHONDONTWRITEBYTECODE": "1",
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def output_of(process: subprocess.Popen[str]) -> tuple[Any, int, int]:
    """Return the output, and how many functions were loaded and compiled."""
    out, err = process.communicate(timeout=120)
    return _parsed(Finished(process.returncode, out, err))


def _parsed(finished: Finished) -> tuple[Any, int, int]:
    assert finished.err == ""
    assert finished.code == 0
    output, hits, misses = json.loads(finished.out)
    return output, hits, misses


@pytest.fixture(scope="module")
def runner() -> Iterator[ExampleRunner]:
    with contextlib.closing(ExampleRunner(without_coverage(), timeout=120)) as running:
        yield running


class Run(Protocol):
    def __call__(self, file: Path, cache: Path, **environment: str) -> tuple[Any, int, int]: ...


@pytest.fixture
def run(runner: ExampleRunner) -> Run:
    """Run a script in a process of its own, which is forked from one that has imported Numba."""

    def call(file: Path, cache: Path, **environment: str) -> tuple[Any, int, int]:
        environment["ENTICE_CACHE_DIR"] = str(cache)
        prepare = f"import os, sys; os.environ |= {environment}; sys.dont_write_bytecode = True\n"
        if any(name.startswith("NUMBA_") for name in environment):
            prepare += "import numba; numba.config.reload_config()\n"
        return _parsed(runner.run(prepare + file.read_text(), file.parent))

    return call


@pytest.fixture(scope="module")
def raced(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A script, and the cache left by two processes that ran it at the same time."""
    folder = tmp_path_factory.mktemp("raced")
    (folder / "helpers.py").write_text(HELPERS.format(arm=0))
    file = script(folder, CALLS_MODULE, SIMULATE)
    processes = [start_process(file, folder / "cache") for _ in range(2)]
    outputs = [output_of(process) for process in processes]
    # One compiles, the other waits for it.
    assert sorted(outputs, key=str) == [(FIRST, 0, 1), (FIRST, 1, 0)]
    return folder


def test_processes_that_race_for_an_entry_leave_an_intact_one(raced: Path) -> None:
    assert only_entry(raced / "cache")


@pytest.fixture
def copied(raced: Path, tmp_path: Path) -> Path:
    """A copy of the script and its cache, to be changed."""
    return Path(shutil.copytree(raced, tmp_path / "copied"))


def test_a_second_process_loads_what_the_first_one_compiled(copied: Path, run: Run) -> None:
    before = contents(copied / "cache")
    assert run(copied / "script.py", copied / "cache") == (FIRST, 1, 0)
    assert contents(copied / "cache") == before


def test_another_process_sees_that_a_callee_in_a_module_was_edited(
    cache: Path, tmp_path: Path, run: Run
) -> None:
    file, helpers = script(tmp_path, CALLS_MODULE, ASK), tmp_path / "helpers.py"
    # After the edit is reverted, the old entry is loaded again.
    for arm, loaded in (0, False), (1, False), (0, True):
        helpers.write_text(HELPERS.format(arm=arm))
        assert run(file, cache) == (arm, loaded, not loaded)
    assert len(entries(cache)) == 2


def test_another_process_sees_that_the_script_itself_was_edited(
    cache: Path, tmp_path: Path, run: Run
) -> None:
    for arm in 0, 1:
        file = script(tmp_path, CALLS_ITSELF.format(arm=arm), ASK)
        assert run(file, cache) == (arm, 0, 1)


def test_another_process_recompiles_a_damaged_entry(cache: Path, tmp_path: Path, run: Run) -> None:
    file = script(tmp_path, CALLS_ITSELF.format(arm=1), ASK)
    assert run(file, cache) == (1, 0, 1)
    (code,) = only_entry(cache).glob("__pycache__/*.nbc")
    code.write_bytes(code.read_bytes()[:-100])
    assert run(file, cache) == (1, 0, 1)
    assert only_entry(cache)


@pytest.mark.parametrize("sent_first", [True, False])
def test_a_process_without_the_module_shares_the_entry_of_one_that_has_it(
    cache: Path, tmp_path: Path, run: Run, sent_first: bool
) -> None:
    """The workers of a cluster do not have a file that is sent to them."""
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "only_there.py").write_text(MODULE)
    here = script(tmp_path / "here", "from only_there import select", ASK)
    sent = script(tmp_path, SENT, ASK)
    assert run(sent if sent_first else here, cache) == (1, 0, 1)
    for file in (sent, here, sent):
        assert run(file, cache) == (1, 1, 0)


def test_numba_s_cache_folder_does_not_matter_to_another_process(
    copied: Path, tmp_path: Path, run: Run
) -> None:
    elsewhere = tmp_path / "numba"
    found = run(copied / "script.py", copied / "cache", NUMBA_CACHE_DIR=str(elsewhere))
    assert found == (FIRST, 1, 0)
    assert not elsewhere.exists()
