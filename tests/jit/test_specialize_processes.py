"""Compiled code on disk is shared by processes, and checked by each of them."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from command_line import without_coverage
from compiled_code import FIRST, SECOND, contents, entries, only_entry

pytestmark = pytest.mark.usefixtures("cache")

SIMULATE = """
result = entice.simulate(
    arms=entice.Bernoulli([0, 1]), policies=[entice.CustomPolicy(select)],
    horizon=6, replications=1, checkpoints=1, seed=1,
)
output = result.final["pulls"][0].to_list()
"""

ASK = """
policy = entice.CustomPolicy(select)
output = entice.Principal(policy, arms=2, seed=1, cold_start="prior").offer().arm
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


def script(folder: Path, select: str, work: str) -> Path:
    file = folder / "script.py"
    file.write_text(SCRIPT.format(select=select, work=work))
    return file


def start_process(file: Path, cache: Path, **environment: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-W", "error", str(file)],
        env={
            **without_coverage(),
            "ENTICE_CACHE_DIR": str(cache),
            # Python reuses bytecode of an edited module with the same length and time.
            "PYTHONDONTWRITEBYTECODE": "1",
            **environment,
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def output_of(process: subprocess.Popen[str]) -> tuple[Any, int, int]:
    """Return the output, and how many functions were loaded and compiled."""
    out, err = process.communicate(timeout=120)
    assert err == ""
    assert process.returncode == 0
    output, hits, misses = json.loads(out)
    return output, hits, misses


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


def test_a_second_process_loads_what_the_first_one_compiled(copied: Path) -> None:
    before = contents(copied / "cache")
    assert output_of(start_process(copied / "script.py", copied / "cache")) == (FIRST, 1, 0)
    assert contents(copied / "cache") == before


def test_another_process_sees_that_a_callee_in_a_module_was_edited(copied: Path) -> None:
    helpers = copied / "helpers.py"
    helpers.write_text(HELPERS.format(arm=1))
    assert output_of(start_process(copied / "script.py", copied / "cache")) == (SECOND, 0, 1)
    assert len(entries(copied / "cache")) == 2
    # After the edit is reverted, the old entry is loaded again.
    helpers.write_text(HELPERS.format(arm=0))
    assert output_of(start_process(copied / "script.py", copied / "cache")) == (FIRST, 1, 0)


def test_another_process_sees_that_the_script_itself_was_edited(
    cache: Path, tmp_path: Path
) -> None:
    for arm in 0, 1:
        file = script(tmp_path, CALLS_ITSELF.format(arm=arm), ASK)
        assert output_of(start_process(file, cache)) == (arm, 0, 1)


def test_another_process_recompiles_a_damaged_entry(cache: Path, tmp_path: Path) -> None:
    file = script(tmp_path, CALLS_ITSELF.format(arm=1), ASK)
    assert output_of(start_process(file, cache)) == (1, 0, 1)
    (code,) = only_entry(cache).glob("__pycache__/*.nbc")
    code.write_bytes(code.read_bytes()[:-100])
    assert output_of(start_process(file, cache)) == (1, 0, 1)
    assert only_entry(cache)


def test_numba_s_cache_folder_does_not_matter_to_another_process(
    copied: Path, tmp_path: Path
) -> None:
    elsewhere = tmp_path / "numba"
    process = start_process(copied / "script.py", copied / "cache", NUMBA_CACHE_DIR=str(elsewhere))
    assert output_of(process) == (FIRST, 1, 0)
    assert not elsewhere.exists()
