"""Compiled code on disk is loaded if it is current, never if it is stale or damaged."""

from __future__ import annotations

import enum
import os
import resource
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
import numpy as np
import platformdirs
import pytest
from compiled_code import (
    FILES,
    SECOND,
    clear_memory,
    contents,
    define,
    entries,
    loaded,
    only_entry,
    pulls_of,
    second,
    selected_arm,
)

import entice
from entice import rng
from entice.jit import specialize
from entice.jit.decorators import compiled, inline_always
from entice.rng import new_stream

pytestmark = pytest.mark.usefixtures("cache")


def test_code_is_compiled_once_and_then_loaded(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert selected_arm(second) == 1
    assert loaded() == (0, 1)
    before = contents(only_entry(cache))
    clear_memory(monkeypatch)
    assert selected_arm(second) == 1
    assert loaded() == (1, 0)
    assert contents(only_entry(cache)) == before


FACTOR = 3


@inline_always
def _multiply(function: Callable[..., float], x: float) -> float:
    return FACTOR * function(x)


@compiled
def _add_one(x: float) -> float:
    return x + 1.0


def no_source(_: object) -> tuple[list[str], int]:
    raise OSError("could not get source code")


def changed_source(_: object) -> tuple[list[str], int]:
    return ["def _multiply(function, x):\n", "    return function(x) + 1.0\n"], 0


@pytest.mark.parametrize("find", [None, no_source, changed_source])
def test_an_entry_point_is_copied_if_its_source_is_that_which_runs(
    cache: Path, monkeypatch: pytest.MonkeyPatch, find: Any
) -> None:
    """Otherwise Numba inlines it. Both read the globals of its module, and are loaded again."""
    has_source = find is None
    monkeypatch.setattr(specialize, "is_own", lambda _: True)
    monkeypatch.setattr(specialize, "_own_key", specialize._key)
    if not has_source:
        monkeypatch.setattr("inspect.findsource", find)
    for counts in (0, 1), (1, 0):
        clear_memory(monkeypatch)
        assert specialize.get_compiled(_multiply, (_add_one,), (1.0,))(1.0) == 6.0
        assert loaded() == counts
    source = (only_entry(cache) / "kernel.py").read_text(encoding="utf-8")
    assert ("return FACTOR * function(x)" in source) == has_source
    assert ("return entry(function, x)" in source) != has_source


def test_a_function_called_from_python_is_compiled_once_and_then_loaded(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    function = rng.seed_stream.py_func  # type: ignore[attr-defined]
    streams = np.zeros((2, 4), np.uint64)
    for i, counts in enumerate([(0, 1), (1, 0)]):
        clear_memory(monkeypatch)
        compiled(function)(streams[i], 1, 2, rng.POLICY)
        assert loaded() == counts
    only_entry(cache)
    assert streams[0].tolist() == streams[1].tolist() == new_stream(1, 2, rng.POLICY).tolist()


def test_threads_that_compile_the_same_function_leave_one_entry(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    function: Any = compiled(rng.seed_stream.py_func)  # type: ignore[attr-defined]
    arguments = np.zeros(4, np.uint64), 1, 2, rng.POLICY
    for _ in range(2):  # as two threads do that call it at the same time
        function._compile_for_args(*arguments)
    monkeypatch.delattr(type(function), "_compile_for_args")
    monkeypatch.setattr(numba.core.dispatcher.Dispatcher, "_compile_for_args", None)
    function(*arguments)  # finds the machine code


def test_another_type_of_argument_and_keywords_are_compiled_too(cache: Path) -> None:
    function = compiled(rng.seed_stream.py_func)  # type: ignore[attr-defined]
    stream = np.zeros(4, np.uint64)
    for seed in (1, np.uint8(1)):
        function(stream, seed, 2, rng.POLICY)
        assert stream.tolist() == new_stream(1, 2, rng.POLICY).tolist()
    assert len(entries(cache)) == 2
    function(stream, 1, 2, purpose=rng.POLICY)
    assert stream.tolist() == new_stream(1, 2, rng.POLICY).tolist()


def test_a_changed_global_changes_the_result(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = "def select(t, pulls, means, memory, params, rng):\n    return ARM"
    select = define(source, ARM=0)
    assert selected_arm(select) == 0
    select.__globals__["ARM"] = 1
    assert selected_arm(select) == 1
    # Both entries on disk are correct too: equal functions, defined again, load them.
    for arm in (0, 1):
        clear_memory(monkeypatch)
        assert selected_arm(define(source, ARM=arm)) == arm
        assert loaded() == (1, 0)


def test_a_redefined_callee_changes_the_result() -> None:
    # A cell of a notebook is run again, but not the one below it.
    callees = [numba.njit(define(f"def select(t):\n    return {arm}")) for arm in (0, 1)]
    select = define(
        "def select(t, pulls, means, memory, params, rng):\n    return choose(t)", choose=callees[0]
    )
    assert selected_arm(select) == 0
    select.__globals__["choose"] = callees[1]
    assert selected_arm(select) == 1


def truncated(file: Path) -> None:
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def bit_flipped(file: Path) -> None:
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 0x80  # which makes text no longer UTF-8, either
    file.write_bytes(data)


def emptied(file: Path) -> None:
    file.write_bytes(b"")


@pytest.fixture(scope="module")
def compiled_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache with the entry of `second`."""
    folder = tmp_path_factory.mktemp("compiled") / "cache"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ENTICE_CACHE_DIR", str(folder))
        clear_memory(patch)
        assert selected_arm(second) == 1
        assert loaded() == (0, 1)
    return folder


@pytest.fixture
def filled_cache(cache: Path, compiled_once: Path) -> Path:
    """A copy of that cache, to be damaged."""
    return Path(shutil.copytree(compiled_once, cache))


@pytest.mark.parametrize("damaged", [truncated, bit_flipped, emptied, Path.unlink])
@pytest.mark.parametrize("pattern", FILES)
def test_a_damaged_entry_is_silently_recompiled(
    filled_cache: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    pattern: str,
    damaged: Callable[[Path], None],
) -> None:
    entry = only_entry(filled_cache)
    (file,) = entry.glob(pattern)
    damaged(file)
    assert not specialize._is_intact(entry)
    assert selected_arm(second) == 1  # warnings would be errors here
    assert loaded() == (0, 1)
    assert capfd.readouterr() == ("", "")
    assert only_entry(filled_cache) == entry
    clear_memory(monkeypatch)
    assert selected_arm(second) == 1
    assert loaded() == (1, 0)


def test_an_intact_entry_is_loaded(filled_cache: Path) -> None:
    """The control: copies of the cache are valid."""
    assert selected_arm(second) == 1
    assert loaded() == (1, 0)


@pytest.mark.parametrize("pattern", ["__pycache__/*.nbi", "__pycache__/*.nbc"])
@pytest.mark.parametrize("content", [b"", b"garbage"])
def test_an_intact_but_unreadable_entry_is_recompiled(
    filled_cache: Path, pattern: str, content: bytes
) -> None:
    entry = only_entry(filled_cache)
    (file,) = entry.glob(pattern)
    file.write_bytes(content)
    (entry / "checksums.txt").write_text(specialize._checksums(entry))
    assert specialize._is_intact(entry)
    assert selected_arm(second) == 1
    assert loaded() == (0, 1)


def test_an_entry_whose_times_have_changed_gives_the_right_result(
    filled_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The cache was copied or restored without its times.
    for file in only_entry(filled_cache).rglob("*"):
        os.utime(file, (0, 0))
    for _ in range(3):
        clear_memory(monkeypatch)
        assert selected_arm(second) == 1
    assert only_entry(filled_cache)
    assert loaded() == (1, 0)


def test_half_written_folders_are_ignored_and_removed_after_a_day(
    filled_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = only_entry(filled_cache)
    # One process was killed while it wrote to a temporary folder, another in the entry itself.
    left, old = filled_cache / f"{entry.name}.k1ll3d", filled_cache / f"{'0' * 32}.k1ll3d"
    others = filled_cache / "release-1.2"
    for folder in left, old, others:
        shutil.copytree(entry, folder)
        (folder / "checksums.txt").unlink()
        (folder / "kernel.py").write_text("raise SystemExit")
    for folder in old, others:
        os.utime(folder, (0, time.time() - 90_000))
    shutil.rmtree(entry)
    entry.mkdir()
    (entry / "kernel.py").write_text("raise SystemExit")
    before = contents(left)
    assert selected_arm(second) == 1
    assert loaded() == (0, 1)
    assert contents(left) == before
    assert not old.exists()
    assert others.exists()
    assert specialize._is_intact(entry)
    clear_memory(monkeypatch)
    assert selected_arm(second) == 1
    assert loaded() == (1, 0)


def test_a_file_in_the_place_of_an_entry_does_no_harm(filled_cache: Path) -> None:
    entry = only_entry(filled_cache)
    shutil.rmtree(entry)
    entry.write_text("not a folder")
    assert selected_arm(second) == 1
    assert entries(filled_cache) == [entry]  # nothing half-written is left


def test_everything_works_without_a_writable_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "file"
    file.write_text("not a folder")
    monkeypatch.setenv("ENTICE_CACHE_DIR", str(file / "below" / "it"))
    assert selected_arm(second) == 1
    assert list(tmp_path.iterdir()) == [file]
    assert file.read_text() == "not a folder"


@pytest.mark.parametrize("bytes_left", [0, 2000])
def test_everything_works_on_a_full_disk(cache: Path, bytes_left: int) -> None:
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (bytes_left, limits[1]))  # of any file
    try:
        assert selected_arm(second) == 1
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert entries(cache) == []  # nothing half-written is left


def test_numba_s_cache_folder_does_not_matter(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = str(tmp_path / "numba")
    monkeypatch.setattr(numba.config, "CACHE_DIR", elsewhere)
    assert selected_arm(second) == 1
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
    assert selected_arm(select) == 1


def test_a_policy_may_be_compiled_already(cache: Path) -> None:
    assert selected_arm(numba.njit(second)) == 1
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
    assert selected_arm(select) == 1
    assert selected_arm(select) == 1
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
        selected_arm(select)
    assert entries(cache) == []  # no entry, intact or not


def test_simulate_names_a_drift_that_numba_can_t_compile(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()  # UCB itself is loaded from the cache of all tests

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
