"""Compiled code on disk is loaded if it is current, never if it is stale or damaged."""

from __future__ import annotations

import enum
import json
import os
import re
import resource
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
import numpy as np
import platformdirs
import pytest
from command_line import without_coverage

import entice
from entice.jit import specialize

FIRST, SECOND = [5, 1], [1, 5]  # pulls of arms 0 and 1 when each is tried once and then one only

FILES = ("kernel.py", "__pycache__/*.nbi", "__pycache__/*.nbc", "checksums.txt")


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give each test its own empty cache, and no machine code in memory."""
    folder = tmp_path / "cache"
    monkeypatch.setenv("ENTICE_CACHE_DIR", str(folder))
    clear_memory(monkeypatch)
    return folder


def clear_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clear the machine code in memory, as in a new process."""
    monkeypatch.setattr(specialize, "_compiled", {})


def pulls_of(select: Callable[..., Any]) -> list[int]:
    """Simulate 6 rounds of 2 arms and count the pulls of each."""
    result = entice.simulate(
        arms=entice.Bernoulli([0, 1]),
        policies=[entice.CustomPolicy(select)],
        horizon=6,
        replications=1,
        checkpoints=1,
        seed=1,
    )
    pulls: list[int] = result.final["pulls"][0].to_list()
    return pulls


def offered_arm(select: Callable[..., Any]) -> int:
    """Return the arm that a live principal offers: it uses the same cache, with less to compile."""
    policy = entice.CustomPolicy(select)
    return entice.Principal(policy, arms=2, seed=1, cold_start="prior").offer().arm


def define(source: str, **names: Any) -> Callable[..., Any]:
    """Define `select` in a module of its own, with some globals."""
    module = {"__name__": "of_a_user", "numba": numba, "np": np} | names
    exec(textwrap.dedent(source), module)
    found: Callable[..., Any] = module["select"]
    return found


def second(t, pulls, means, memory, params, rng):  # type: ignore[no-untyped-def]
    return 1


def loaded() -> tuple[int, int]:
    """Return how many functions in memory were loaded from disk, and how many were compiled."""
    runs: list[Any] = list(specialize._compiled.values())
    hits = sum(sum(run.stats.cache_hits.values()) for run in runs)
    return hits, len(runs) - hits


def contents(folder: Path) -> dict[str, tuple[int, bytes]]:
    """Return all files below a folder, with the times of their last change."""
    return {
        str(file.relative_to(folder)): (file.stat().st_mtime_ns, file.read_bytes())
        for file in sorted(folder.rglob("*"))
        if file.is_file()
    }


def only_entry(cache: Path) -> Path:
    """Return the only entry of a cache, and check that it is intact."""
    (entry,) = cache.iterdir()
    assert re.fullmatch("[0-9a-f]{32}", entry.name)
    assert specialize._is_intact(entry)
    files = {file for file in entry.rglob("*") if file.is_file()}
    assert {file for pattern in FILES for file in entry.glob(pattern)} == files
    assert len(files) == len(FILES)
    return entry


# New processes.

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
    for process in processes:
        pulls, hits, misses = output_of(process)
        assert pulls == FIRST
        assert hits + misses == 1
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
    assert len(list((copied / "cache").iterdir())) == 2
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


# Within a process.


def test_code_is_compiled_once_and_then_loaded(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert pulls_of(second) == SECOND
    assert loaded() == (0, 1)
    before = contents(only_entry(cache))
    clear_memory(monkeypatch)
    assert pulls_of(second) == SECOND
    assert loaded() == (1, 0)
    assert contents(only_entry(cache)) == before


def test_a_changed_global_changes_the_result(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = "def select(t, pulls, means, memory, params, rng):\n    return ARM"
    select = define(source, ARM=0)
    assert pulls_of(select) == FIRST
    select.__globals__["ARM"] = 1
    assert pulls_of(select) == SECOND
    # Both entries on disk are correct too: equal functions, defined again, load them.
    for arm, expected in enumerate([FIRST, SECOND]):
        clear_memory(monkeypatch)
        assert pulls_of(define(source, ARM=arm)) == expected
        assert loaded() == (1, 0)


def test_a_redefined_callee_changes_the_result() -> None:
    # A cell of a notebook is run again, but not the one below it.
    callees = [numba.njit(define(f"def select(t):\n    return {arm}")) for arm in (0, 1)]
    select = define(
        "def select(t, pulls, means, memory, params, rng):\n    return choose(t)", choose=callees[0]
    )
    assert offered_arm(select) == 0
    select.__globals__["choose"] = callees[1]
    assert offered_arm(select) == 1


def truncated(file: Path) -> None:
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def bit_flipped(file: Path) -> None:
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 0x80  # which makes text no longer UTF-8, either
    file.write_bytes(data)


def emptied(file: Path) -> None:
    file.write_bytes(b"")


@pytest.mark.parametrize("damaged", [truncated, bit_flipped, emptied, Path.unlink])
@pytest.mark.parametrize("pattern", FILES)
def test_a_damaged_entry_is_silently_recompiled(
    cache: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    pattern: str,
    damaged: Callable[[Path], None],
) -> None:
    assert offered_arm(second) == 1
    entry = only_entry(cache)
    (file,) = entry.glob(pattern)
    damaged(file)
    assert not specialize._is_intact(entry)
    clear_memory(monkeypatch)
    assert offered_arm(second) == 1  # warnings would be errors here
    assert loaded() == (0, 1)
    assert capfd.readouterr() == ("", "")
    assert only_entry(cache) == entry
    clear_memory(monkeypatch)
    assert offered_arm(second) == 1
    assert loaded() == (1, 0)


@pytest.mark.parametrize("pattern", ["__pycache__/*.nbi", "__pycache__/*.nbc"])
@pytest.mark.parametrize("content", [b"", b"garbage"])
def test_an_intact_but_unreadable_entry_is_recompiled(
    cache: Path, monkeypatch: pytest.MonkeyPatch, pattern: str, content: bytes
) -> None:
    assert offered_arm(second) == 1
    entry = only_entry(cache)
    (file,) = entry.glob(pattern)
    file.write_bytes(content)
    (entry / "checksums.txt").write_text(specialize._checksums(entry))
    assert specialize._is_intact(entry)
    clear_memory(monkeypatch)
    assert offered_arm(second) == 1


def test_an_entry_whose_times_have_changed_gives_the_right_result(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The cache was copied or restored without its times.
    assert offered_arm(second) == 1
    for file in only_entry(cache).rglob("*"):
        os.utime(file, (0, 0))
    for _ in range(3):
        clear_memory(monkeypatch)
        assert offered_arm(second) == 1
    assert only_entry(cache)
    assert loaded() == (1, 0)


def test_half_written_folders_are_ignored(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert offered_arm(second) == 1
    entry = only_entry(cache)
    # One process was killed while it wrote to a temporary folder, another in the entry itself.
    left = cache / f"{entry.name}.k1ll3d"
    shutil.copytree(entry, left)
    (left / "checksums.txt").unlink()
    (left / "kernel.py").write_text("raise SystemExit")
    shutil.rmtree(entry)
    entry.mkdir()
    (entry / "kernel.py").write_text("raise SystemExit")
    clear_memory(monkeypatch)
    before = contents(left)
    assert offered_arm(second) == 1
    assert loaded() == (0, 1)
    assert contents(left) == before
    assert specialize._is_intact(entry)
    clear_memory(monkeypatch)
    assert offered_arm(second) == 1
    assert loaded() == (1, 0)


def test_a_file_in_the_place_of_an_entry_does_no_harm(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert offered_arm(second) == 1
    entry = only_entry(cache)
    shutil.rmtree(entry)
    entry.write_text("not a folder")
    clear_memory(monkeypatch)
    assert offered_arm(second) == 1
    assert list(cache.iterdir()) == [entry]  # nothing half-written is left


def test_everything_works_without_a_writable_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "file"
    file.write_text("not a folder")
    monkeypatch.setenv("ENTICE_CACHE_DIR", str(file / "below" / "it"))
    assert pulls_of(second) == SECOND
    assert offered_arm(second) == 1
    assert list(tmp_path.iterdir()) == [file]
    assert file.read_text() == "not a folder"


@pytest.mark.parametrize("bytes_left", [0, 2000])
def test_everything_works_on_a_full_disk(cache: Path, bytes_left: int) -> None:
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (bytes_left, limits[1]))  # of any file
    try:
        assert offered_arm(second) == 1
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert list(cache.iterdir()) == []  # nothing half-written is left


def test_numba_s_cache_folder_does_not_matter(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = str(tmp_path / "numba")
    monkeypatch.setattr(numba.config, "CACHE_DIR", elsewhere)
    assert offered_arm(second) == 1
    assert only_entry(cache)
    assert not Path(elsewhere).exists()
    assert elsewhere == numba.config.CACHE_DIR  # the user's setting is left as it was


def test_the_cache_is_where_the_user_or_the_system_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ENTICE_CACHE_DIR", "some/where")
    assert specialize.cache_folder() == Path("some/where")
    usual = Path(platformdirs.user_cache_dir("entice", appauthor=False))
    monkeypatch.setenv("ENTICE_CACHE_DIR", "")
    assert specialize.cache_folder() == usual
    monkeypatch.delenv("ENTICE_CACHE_DIR")
    assert specialize.cache_folder() == usual


# Users' functions of all kinds.


def allocating(t, pulls, means, memory, params, rng):  # type: ignore[no-untyped-def]
    bonus = np.zeros(pulls.shape[0])
    bonus[1] = 10.0
    return np.argmax(means + bonus)


def test_a_policy_may_make_arrays(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert pulls_of(allocating) == SECOND
    assert only_entry(cache)
    clear_memory(monkeypatch)
    assert pulls_of(allocating) == SECOND
    assert loaded() == (1, 0)


@numba.njit
def made(count: int) -> Any:
    return np.ones(count)


def calling_an_allocator(t, pulls, means, memory, params, rng):  # type: ignore[no-untyped-def]
    return int(made(2)[1])


@pytest.mark.parametrize(
    "select",
    [numba.njit(allocating), calling_an_allocator, numba.njit(calling_an_allocator)],
    ids=["compiled by the user", "in a callee", "in a callee, compiled by the user"],
)
def test_a_policy_may_make_arrays_in_other_ways(select: Callable[..., Any]) -> None:
    assert offered_arm(select) == 1


def test_a_policy_may_be_compiled_already(cache: Path) -> None:
    assert offered_arm(numba.njit(second)) == 1
    assert only_entry(cache)


def test_a_function_without_a_fingerprint_works_uncached(cache: Path) -> None:
    # Numba supports enumerations, but their content can't be hashed. The other global is not read;
    # only an attribute has the same name.
    select = define(
        """
        def select(t, pulls, means, memory, params, rng):
            return Arm.SECOND.value if pulls.shape[0] == 2 else 0
        """,
        Arm=enum.Enum("Arm", {"SECOND": 1}),
        shape=object(),
    )
    assert pulls_of(select) == SECOND
    assert pulls_of(select) == SECOND
    assert not cache.exists()


UNCOMPILABLE = {
    "a builtin that Numba lacks": "return len(open('file').read())",
    "a name that is nowhere": "return undefined",
    "an import": "import os\n    return 0",
    "a class": "class Inner: pass\n    return 0",
    "a missing attribute of a module": "return np.no_such_thing(t)",
    "a result that is no arm": "return 'second'",
}


@pytest.mark.parametrize("reason", UNCOMPILABLE)
def test_a_function_that_numba_can_t_compile_is_named(reason: str, cache: Path) -> None:
    select = define(
        f"def select(t, pulls, means, memory, params, rng):\n    {UNCOMPILABLE[reason]}"
    )
    with pytest.raises(entice.InputError, match="of_a_user:select must be in the subset of Python"):
        offered_arm(select)
    assert list(cache.iterdir()) == []  # no entry, intact or not


def test_simulate_names_a_drift_that_numba_can_t_compile() -> None:
    def odd(payment, t, arm, params):  # type: ignore[no-untyped-def]
        return payment * len(str(object()))

    with pytest.raises(entice.InputError, match=r"odd .* raised TypingError"):
        entice.simulate(
            arms=entice.Bernoulli([0, 1]),
            policies=[entice.UCB()],
            drifts=[entice.CustomDrift(odd)],
            horizon=6,
            seed=1,
        )
