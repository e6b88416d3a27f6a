"""A fingerprint depends on what a function computes, and on nothing else."""

from __future__ import annotations

import collections
import enum
import itertools
import os
import subprocess
import sys
import textwrap
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cloudpickle
import numba
import numpy as np
import pytest

import entice
from entice.jit.fingerprint import NoFingerprint, fingerprint


def define(source: str, **names: Any) -> Callable[..., Any]:
    """Define the function f in a module of its own, with some globals."""
    module = {"__name__": "of_a_user", "numba": numba, "np": np} | names
    exec(textwrap.dedent(source), module)
    found: Callable[..., Any] = module["f"]
    return found


def module_with(**attributes: Any) -> types.ModuleType:
    module = types.ModuleType("helpers")
    vars(module).update(attributes)
    return module


def enclosed(value: Any) -> Callable[..., Any]:
    def f(x: float) -> Any:
        return x * value

    return f


# Differences that change the fingerprint. All versions of a function in an entry are different.

CALLS_G = "def f(x):\n    return g(x)\n"

DIFFERENT: dict[str, list[Callable[..., Any]]] = {
    "the body": [
        define("def f(x, y):\n    return x + y"),
        define("def f(x, y):\n    return x - y"),
        define("def f(x, y):\n    return y - x"),
        define("def f(y, x):\n    return x - y + 0"),
    ],
    "a constant": [
        define(f"def f(x):\n    return {constant}")
        for constant in ("1", "2", "1.0", "True", "-0.0", "0.0", "None", "'1'", "b'1'", "(1, 2)")
    ],
    "a constant in a set": [
        define(f"def f(x):\n    return x in {members}") for members in ("{1, 2}", "{1, 3}")
    ],
    "a constant of a function inside": [
        define(f"def f(x):\n    def g(y):\n        return y + {k}\n    return g(x)") for k in (1, 2)
    ],
    "an attribute's name": [define(f"def f(x):\n    return x.{name}") for name in ("real", "imag")],
    "a default": [define(f"def f(x, y={y}):\n    return x + y") for y in (1, 2, 1.0)],
    "a default of a keyword": [
        define(f"def f(x, *, y={y}):\n    return x + y") for y in (1, 2, 1.0)
    ],
    "a closure's value": [enclosed(1), enclosed(2), enclosed(2.0), enclosed((2, 3))],
    "a closure's array": [enclosed(np.array([1.0])), enclosed(np.array([2.0]))],
    "a global constant": [define("def f(x):\n    return x * K", K=k) for k in (1, 2, 1.0, True)],
    "a global that a function inside reads": [
        define("def f(x):\n    def g(y):\n        return y + K\n    return g(x)", K=k)
        for k in (1, 2)
    ],
    "a global tuple": [define("def f(x):\n    return x * K[0]", K=k) for k in ((1, 2), (2, 1))],
    "a global array": [
        define("def f(x):\n    return A[x]", A=array)
        for array in (
            np.array([1.0, 2.0]),
            np.array([1.0, 3.0]),
            np.array([[1.0, 2.0]]),
            np.array([1, 2]),
            np.array([1.0, 2.0], dtype=np.float32),
        )
    ],
    "the fields of a global structured array": [
        define("def f(x):\n    return A[0]['u']", A=np.array([(1.0, 2.0)], dtype=dtype))
        for dtype in ([("u", "f8"), ("v", "f8")], [("v", "f8"), ("u", "f8")])
    ],
    "the fields of a global named tuple": [
        define("def f(x):\n    return P.u", P=collections.namedtuple("Pair", fields)(1, 2))
        for fields in ("u v", "v u")
    ],
    "the type of a global named tuple": [
        define("def f(x):\n    return P(1, 2).u", P=collections.namedtuple("Pair", fields))
        for fields in ("u v", "v u")
    ],
    "a global scalar's type": [
        define("def f(x):\n    return x * K", K=k) for k in (np.float32(1), np.float64(1))
    ],
    "a member of an enumeration": [
        define("def f(x):\n    return K", K=enum.IntEnum("Kind", {"FIRST": value}).FIRST)
        for value in (1, 2)
    ],
    "a function of a library": [
        define("def f(x):\n    return g(x)", g=g) for g in (np.sin, np.cos, np.mean, np.median)
    ],
    "a name that is a builtin's or a global's": [
        define("def f(x):\n    return abs(x)"),
        define("def f(x):\n    return abs(x)", abs=enclosed(1)),
    ],
    "a callee's body": [
        define(CALLS_G, g=define(f"def f(x):\n    return x {sign} 1")) for sign in "+-"
    ],
    "a callee's default": [
        define(CALLS_G, g=define(f"def f(x, y={y}):\n    return y")) for y in (1, 2)
    ],
    "a callee's global": [
        define(CALLS_G, g=define("def f(x):\n    return K", K=k)) for k in (1, 2)
    ],
    "a callee's callee": [
        define(CALLS_G, g=define(CALLS_G, g=define(f"def f(x):\n    return x + {k}")))
        for k in (1, 2)
    ],
    "a callee in a closure": [enclosed(enclosed(1)), enclosed(enclosed(2))],
    "a compiled callee's body": [
        define(CALLS_G, g=numba.njit(define(f"def f(x):\n    return x + {k}"))) for k in (1, 2)
    ],
    "a compiled callee's compiled callee": [
        define(
            CALLS_G,
            g=numba.njit(define(CALLS_G, g=numba.njit(define(f"def f(x):\n    return {k}")))),
        )
        for k in (1, 2)
    ],
    "a compiled callee's options": [
        define(CALLS_G, g=numba.njit(fastmath=fast)(define("def f(x):\n    return x / 3")))
        for fast in (False, True)
    ],
    "compiled or not": [
        define("def f(x):\n    return x"),
        numba.njit(define("def f(x):\n    return x")),
    ],
    "an attribute of a module": [
        define("def f(x):\n    return helpers.K", helpers=module_with(K=k)) for k in (1, 2)
    ],
    "a function of a module": [
        define("def f(x):\n    return helpers.g(x)", helpers=module_with(g=enclosed(k)))
        for k in (1, 2)
    ],
    "a compiled function of a module": [
        define("def f(x):\n    return helpers.g(x)", helpers=module_with(g=numba.njit(enclosed(k))))
        for k in (1, 2)
    ],
    "the extent of a try block": [
        define("""
            def f(x):
                x = g(x)
                try: x = h(x)
                except Exception: x = 0
                return x
            """),
        define("""
            def f(x):
                try: x = g(x); x = h(x)
                except Exception: x = 0
                return x
            """),
    ],
}


@pytest.mark.parametrize("difference", DIFFERENT)
def test_fingerprints_differ_with(difference: str) -> None:
    versions = DIFFERENT[difference]
    assert len(versions) > 1
    assert len({fingerprint(version) for version in versions}) == len(versions)


def test_an_array_changed_in_place_changes_the_fingerprint() -> None:
    array = np.zeros(3)
    f = define("def f(x):\n    return A[x]", A=array)
    before = fingerprint(f)
    array[2] = 1e-300
    assert fingerprint(f) != before
    array[2] = 0.0
    assert fingerprint(f) == before


def test_fingerprints_depend_on_the_grouping_of_values() -> None:
    groupings = [
        (1, 2, 3), ((1, 2), 3), (1, (2, 3)), ((1, 2, 3),), ("1", "23"), ("12", "3"), ([], ()),
    ]  # fmt: skip
    marks = {fingerprint(*grouping) for grouping in groupings}
    assert len(marks) == len(groupings)


def test_attributes_found_by_a_module_s_own_getattr_are_not_overlooked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # `entice.rng` is loaded that way, and policies use it.
    def mark() -> str:
        try:
            return fingerprint(
                define("def f(r):\n    return entice.rng.below(r, 2)", entice=entice)
            )
        except NoFingerprint:  # also correct: then nothing is loaded from a cache
            return f"none {next(count)}"

    count = itertools.count()
    before = mark()
    monkeypatch.setattr(entice.rng, "below", numba.njit(define("def f(r, n):\n    return 0")))
    assert mark() != before


# Differences that do not change the fingerprint.


def test_line_numbers_comments_and_the_file_make_no_difference() -> None:
    plain = define("def f(x):\n    y = x + 1\n    return y * 2\n")
    moved = define("""


        # Something about f.
        def f(x):
            # First this.
            y = x + 1  # really

            return (
                y
                * 2
            )
        """)
    assert moved(1) == plain(1)
    assert fingerprint(moved) == fingerprint(plain)
    other: dict[str, Any] = {"__name__": "elsewhere"}
    exec(compile("def f(x):\n    y = x + 1\n    return y * 2", "another_file.py", "exec"), other)
    assert fingerprint(other["f"]) == fingerprint(plain)


def test_the_name_of_a_function_makes_no_difference() -> None:
    def one(x: float) -> float:
        return x + 1

    def other(x: float) -> float:
        return x + 1

    assert fingerprint(one) == fingerprint(other)


def test_annotations_make_no_difference() -> None:
    assert fingerprint(define("def f(x: int) -> int:\n    return x")) == fingerprint(
        define("def f(x):\n    return x")
    )


def test_defining_the_same_function_again_makes_no_difference() -> None:
    source = """
        @numba.njit
        def g(x):
            return x + K

        def h(x):
            return g(x) if x in {1, 2, 3} else A.sum()

        def f(x):
            return h(x) + helpers.K
        """
    versions = [define(source, K=1.5, A=np.arange(3), helpers=module_with(K=2)) for _ in range(2)]
    assert fingerprint(versions[0]) == fingerprint(versions[1])


def test_globals_that_are_not_read_make_no_difference() -> None:
    without = define("def f(x):\n    return x")
    assert fingerprint(define("def f(x):\n    return x", K=object())) == fingerprint(without)
    helpers = [module_with(K=1, unread=object()), module_with(K=1)]
    versions = [define("def f(x):\n    return helpers.K", helpers=helper) for helper in helpers]
    assert fingerprint(versions[0]) == fingerprint(versions[1])


def test_running_and_compiling_make_no_difference() -> None:
    # Python rewrites the bytecode of functions that run often.
    f = define(
        "def f(x):\n    y = 0.0\n    for i in range(x):\n        y += i * K\n    return y", K=2.5
    )
    compiled = numba.njit(f)
    before = fingerprint(f), fingerprint(compiled)
    for _ in range(100):
        f(100)
    compiled(3)
    assert (fingerprint(f), fingerprint(compiled)) == before


PROCESS = """
import numba
import numpy as np

from entice.jit.fingerprint import fingerprint

A = np.linspace(0.0, 1.0, 5)
NAMES = ("alpha", "beta")


@numba.njit
def g(x, y=2.5):
    return x in {"one", "two", "three", "four"} or abs(y) > A[1]


def f(x):
    def inner(z):
        return z in {1.0, 2.0, 3.0} and NAMES[0] == "alpha"
    return g(x) + np.sqrt(A.sum()) + inner(x)


print(fingerprint(f, g, [1, 2.0, "three"], frozenset(["one", "two", "three", "four"])))
"""


def test_processes_agree_on_a_fingerprint(tmp_path: Path) -> None:
    file = tmp_path / "process.py"
    file.write_text(PROCESS)
    output = set()
    for seed in "1", "2":
        environment = os.environ | {"PYTHONHASHSEED": seed}
        done = subprocess.run(
            [sys.executable, str(file)], env=environment, capture_output=True, text=True, check=True
        )
        output.add(done.stdout)
    assert len(output) == 1
    assert len(output.pop().strip()) == 64


# Cycles, and content that can't be hashed.

CYCLE = """
    def g(x):
        return f(x - 1) {sign} 1 if x > 0 else 0

    def f(x):
        return g(x - 1) if x > 0 else 0
    """


def test_copies_of_a_function_count_as_the_function() -> None:
    """After pickling, a function shared by two callers may be two objects, or vice versa."""
    source = "def f(x):\n    return g(x) + h(x)"
    one, same = enclosed(1), enclosed(1)
    assert fingerprint(define(source, g=one, h=one)) == fingerprint(define(source, g=one, h=same))
    assert fingerprint(one, one) == fingerprint(one, same)
    # The control: functions that differ, in either place.
    other = enclosed(2)
    different = {fingerprint(define(source, g=g, h=h)) for g in (one, other) for h in (same, other)}
    assert len(different) == 4


def cycle(*constants: int) -> Callable[..., Any]:
    """Define a cycle of functions that add a constant and call the next; return the first."""
    functions = [define(f"def f(x):\n    return g(x + {k})") for k in constants]
    for function, following in zip(functions, [*functions[1:], functions[0]], strict=True):
        function.__globals__["g"] = following
    return functions[0]


def test_a_cycle_equals_its_repetition() -> None:
    assert fingerprint(cycle(1, 2)) == fingerprint(cycle(1, 2, 1, 2))
    assert fingerprint(cycle(1)) == fingerprint(cycle(1, 1, 1))
    different = [(1, 2), (2, 1), (1, 2, 2), (1, 1, 2), (1, 2, 1), (1,), (2,), (1, 2, 1, 3)]
    assert len({fingerprint(cycle(*constants)) for constants in different}) == len(different)


def test_a_pickled_copy_has_the_same_fingerprint() -> None:
    draws = define(
        "def f(rng):\n    return uniform(rng) + g(rng)",
        uniform=entice.rng.uniform,
        g=numba.njit(define("def f(rng):\n    return uniform(rng)", uniform=entice.rng.uniform)),
    )
    copy = cloudpickle.loads(cloudpickle.dumps(draws))
    assert copy is not draws
    assert fingerprint(copy, entice.rng.uniform) == fingerprint(draws, entice.rng.uniform)


def test_functions_that_call_each_other_have_a_fingerprint() -> None:
    cycle = define(CYCLE.format(sign="+"))
    assert fingerprint(cycle) == fingerprint(define(CYCLE.format(sign="+")))
    assert fingerprint(cycle) != fingerprint(define(CYCLE.format(sign="-")))


def test_a_function_that_calls_itself_has_a_fingerprint() -> None:
    versions = [
        define(f"@numba.njit\ndef f(x):\n    return f(x - 1) + {k} if x > 0 else 0") for k in (1, 2)
    ]
    assert fingerprint(versions[0]) != fingerprint(versions[1])


def an_empty_cell() -> Callable[..., Any]:
    def f(x: float) -> float:
        return x * later

    if not f:
        later = 1.0
    return f


NOT_HASHABLE = {
    "a global": define("def f(x):\n    return K", K=object()),
    "a global dict": define("def f(x):\n    return K[x]", K={1: 2}),
    "a closure": enclosed(object()),
    "a variable that has no value yet": an_empty_cell(),
    "a default": define("def f(x, y=object()):\n    return y"),
    "a callee": define(CALLS_G, g=define("def f(x):\n    return K", K=object())),
    "a compiled callee": define(
        CALLS_G, g=numba.njit(define("def f(x):\n    return K", K=object()))
    ),
    "an attribute of a module": define(
        "def f(x):\n    return helpers.K", helpers=module_with(K=object())
    ),
    "a class": define("def f(x):\n    return K()", K=type("K", (), {})),
}


@pytest.mark.parametrize("where", NOT_HASHABLE)
def test_a_reference_that_can_t_be_hashed_has_no_fingerprint(where: str) -> None:
    with pytest.raises(NoFingerprint):
        fingerprint(NOT_HASHABLE[where])


def test_the_error_names_the_object_that_can_t_be_hashed() -> None:
    with pytest.raises(NoFingerprint, match="of type Odd"):
        fingerprint(define("def f(x):\n    return K", K=type("Odd", (), {})()))


def test_two_functions_that_read_different_names_of_a_module_are_both_covered() -> None:
    module = types.ModuleType("shared_module")

    def fingerprint_with(body: str) -> str:
        exec(f"BONUS = 0\ndef choose(t):\n    return {body}", module.__dict__)
        namespace: dict[str, Any] = {"shared_module": module}
        exec("def bonus(t):\n    return shared_module.BONUS", namespace)
        exec("def select(t):\n    return bonus(t) + shared_module.choose(t)", namespace)
        return fingerprint(namespace["select"])

    assert fingerprint_with("0") != fingerprint_with("1")
