"""Study files, round trips through TOML and JSON, and keys."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
import tomli_w
from hypothesis import given, settings
from hypothesis import strategies as st
from sizes import sized
from spec_fixtures import (
    ARMS,
    DRIFTS,
    PLAIN,
    POLICIES,
    drift,
    error_message,
    first,
    halved,
    remember,
    scaled,
    study,
)

import entice
from entice import Study

# --- Files ------------------------------------------------------------------------------------


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "nowhere.toml"
    message = error_message(lambda: Study.from_file(path))
    assert "study file" in message
    assert "No such file" in message
    assert "nowhere.toml" in message


def test_a_folder_is_rejected(tmp_path: Path) -> None:
    message = error_message(lambda: Study.from_file(tmp_path))
    assert "study file" in message
    assert "directory" in message


def test_a_binary_file_is_rejected(tmp_path: Path) -> None:
    path = tmp_path / "study.toml"
    path.write_bytes(b"\xff\xfe\x00\x01")
    message = error_message(lambda: Study.from_file(path))
    assert "study file" in message
    assert "study.toml" in message


def test_a_file_may_be_a_string_or_a_path(tmp_path: Path) -> None:
    path = tmp_path / "study.toml"
    path.write_text(tomli_w.dumps(PLAIN))
    assert Study.from_file(path) == Study.from_file(str(path)) == study()


MODULE = "def drift(payment, t, arm, params):\n    return {factor} * payment\n"


@pytest.fixture
def beside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Path]]:
    """Return a function that writes a study and, beside it, a module with its drift."""
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    before = set(sys.modules)
    toml = tomli_w.dumps(PLAIN | drift("custom", function="beside_the_study:drift"))

    def write(folder: str, module: str) -> Path:
        path = tmp_path / folder
        path.mkdir(exist_ok=True)
        (path / "beside_the_study.py").write_text(module)
        (path / "study.toml").write_text(toml)
        return path / "study.toml"

    yield write
    for name in set(sys.modules) - before:
        if name.startswith("beside_the_study"):
            del sys.modules[name]


def read_afresh(path: Path) -> Study:
    """Read a study as a new process would, without the imported module."""
    sys.modules.pop("beside_the_study", None)
    return Study.from_file(path)


def test_a_function_beside_the_study_file_is_found(beside: Callable[..., Path]) -> None:
    found = Study.from_file(beside("a", MODULE.format(factor=3)))
    assert found.drifts[0].function(2.0, 1, 0, ()) == 6.0
    assert found.drifts[0].label == "drift"


def test_a_function_beside_the_study_file_survives_a_round_trip(
    beside: Callable[..., Path],
) -> None:
    found = Study.from_file(beside("a", MODULE.format(factor=3)))
    assert Study.from_toml(found.to_toml()) == found
    assert Study.from_json(found.to_json()) == found


def test_reading_a_file_leaves_the_python_path_alone(
    beside: Callable[..., Path], tmp_path: Path
) -> None:
    before = list(sys.path)
    Study.from_file(beside("a", MODULE.format(factor=3)))
    assert sys.path == before
    wrong = tmp_path / "wrong.toml"
    wrong.write_text("horizon = 0")
    error_message(lambda: Study.from_file(wrong))
    assert sys.path == before


def test_each_study_file_gets_the_function_beside_itself(beside: Callable[..., Path]) -> None:
    single = Study.from_file(beside("a", MODULE.format(factor=1)))
    double = Study.from_file(beside("b", MODULE.format(factor=2)))
    assert single.drifts[0].function(1.0, 1, 0, ()) == 1
    assert double.drifts[0].function(1.0, 1, 0, ()) == 2


@pytest.mark.parametrize(
    "module", ["def drift(:", "raise RuntimeError('not today')", "import no_such_module"]
)
def test_a_module_that_does_not_import_is_an_input_error(
    beside: Callable[..., Path], module: str
) -> None:
    message = error_message(lambda: Study.from_file(beside("a", module)))
    assert "beside_the_study:drift" in message
    assert "can't be imported" in message


# --- Round trips through TOML and JSON ------------------------------------------------------------


@pytest.mark.parametrize("arms", ARMS, ids=str)
def test_arms_survive_a_round_trip(arms: Any) -> None:
    made = study(arms=arms)
    assert Study.from_toml(made.to_toml()) == made
    assert Study.from_json(made.to_json()) == made


def test_policies_and_drifts_survive_a_round_trip() -> None:
    made = study(policies=POLICIES, drifts=DRIFTS, checkpoints=[5, 2, 2], feedback_range=(-1, 2))
    assert Study.from_toml(made.to_toml()) == made
    assert Study.from_json(made.to_json()) == made


def test_a_study_without_seed_survives_a_round_trip() -> None:
    made = study(seed=None)
    assert "seed" not in made.to_toml()
    assert Study.from_toml(made.to_toml()) == made
    assert Study.from_json(made.to_json()) == made


def test_functions_are_written_by_name() -> None:
    made = study(policies=entice.CustomPolicy(first), drifts=entice.CustomDrift(halved))
    assert '"spec_fixtures:first"' in made.to_toml()
    assert '"spec_fixtures:halved"' in made.to_json()


def test_a_function_named_by_module_is_the_function() -> None:
    assert entice.CustomDrift("spec_fixtures:halved") == entice.CustomDrift(halved)


NUMBERS = st.floats(-1e6, 1e6)
POSITIVE = st.floats(1e-6, 1e6)
PARAMS = st.lists(NUMBERS, max_size=3)
NAMES = st.none() | st.text(min_size=1, max_size=100).filter(str.strip)


@st.composite
def any_arms(draw: st.DrawFn) -> Any:
    kind = draw(st.sampled_from(["gaussian", "bernoulli", "beta", "empirical"]))
    count = draw(st.integers(2, 4))

    def several(values: st.SearchStrategy[float]) -> list[float]:
        return draw(st.lists(values, min_size=count, max_size=count))

    if kind == "gaussian":
        std = several(st.floats(0, 1e6)) if draw(st.booleans()) else draw(st.floats(0, 1e6))
        return entice.Gaussian(several(NUMBERS), std=std)
    if kind == "bernoulli":
        return entice.Bernoulli(several(st.floats(0, 1)))
    if kind == "beta":
        return entice.Beta(a=several(POSITIVE), b=several(POSITIVE))
    values = draw(st.lists(NUMBERS, min_size=1, max_size=3))
    rows = st.lists(POSITIVE, min_size=len(values), max_size=len(values))
    return entice.Empirical(values, draw(st.lists(rows, min_size=count, max_size=count)))


ANY_POLICY = st.one_of(
    st.sampled_from([p for p in POLICIES if not isinstance(p, entice.CustomPolicy)]),
    st.builds(entice.EpsilonGreedy, POSITIVE),
    st.builds(
        entice.CustomPolicy,
        st.just(first),
        update=st.sampled_from([None, remember]),
        params=PARAMS,
        memory=st.integers(0, 9),
        memory_per_arm=st.integers(0, 9),
        name=NAMES,
    ),
)
ANY_DRIFT = st.one_of(
    st.just(entice.NoDrift()),
    st.builds(entice.LinearDrift, st.floats(0, 1e6)),
    st.builds(entice.SaturatingDrift, l=st.floats(0, 1e6), cap=st.floats(0, 1e6)),
    st.builds(entice.StepDrift, st.floats(0, 1e6)),
    st.builds(
        entice.CustomDrift,
        st.just(halved),
        params=PARAMS,
        name=NAMES,
        lipschitz=st.none() | st.floats(0, 1e6),
    ),
)


@st.composite
def any_study(draw: st.DrawFn) -> Study:
    horizon = draw(st.integers(4, 10**6))
    rounds = st.lists(st.integers(1, horizon), min_size=1, max_size=5)
    pairs = st.tuples(NUMBERS, NUMBERS).map(sorted).filter(lambda pair: pair[0] < pair[1])
    return Study(
        arms=draw(any_arms()),
        policies=draw(st.lists(ANY_POLICY, min_size=1, max_size=3)),
        drifts=draw(st.lists(ANY_DRIFT, min_size=1, max_size=3)),
        horizon=horizon,
        replications=draw(st.integers(1, 10**6)),
        seed=draw(st.none() | st.integers(0, 2**63 - 1)),
        checkpoints=draw(st.integers(1, 10**6) | rounds),
        **draw(st.just({}) | NUMBERS.map(lambda prior: {"cold_start": "prior", "prior": prior})),
        feedback_range=draw(st.none() | pairs),
    )


@settings(deadline=None, max_examples=sized(40, 100))
@given(any_study())
def test_any_study_survives_a_round_trip(made: Study) -> None:
    assert Study.from_toml(made.to_toml()) == made
    assert Study.from_json(made.to_json()) == made


# --- The key ----------------------------------------------------------------------------------


def test_equal_studies_have_equal_keys() -> None:
    made = study(policies=POLICIES, drifts=DRIFTS)
    again = study(policies=list(POLICIES), drifts=list(DRIFTS))
    assert made.key() == again.key() == Study.from_toml(made.to_toml()).key()


@pytest.mark.parametrize(
    "change",
    [
        {"arms": entice.Gaussian([0.9, 0.2])},
        {"arms": entice.Gaussian([0.9, 0.1], std=0.5)},
        {"arms": entice.Bernoulli([0.9, 0.1])},
        {"policies": entice.Greedy()},
        {"policies": entice.EpsilonGreedy(c=5)},
        {"policies": [entice.UCB(), entice.UCB()]},
        {"drifts": entice.LinearDrift(0.0)},
        {"drifts": entice.LinearDrift(1e-9)},
        {"horizon": 11},
        {"replications": 3},
        {"seed": 2},
        {"seed": None},
        {"checkpoints": 3},
        {"checkpoints": [3]},
        {"cold_start": "prior"},
        {"cold_start": "prior", "prior": 0.1},
        {"feedback_range": (0, 1)},
    ],
    ids=str,
)
def test_any_changed_setting_changes_the_key(change: dict[str, Any]) -> None:
    assert study(**change).key() != study().key()


def test_parameters_of_a_custom_function_change_the_key() -> None:
    half, whole = (study(drifts=entice.CustomDrift(scaled, params=[p])) for p in (0.5, 1.0))
    assert half.key() != whole.key()


def test_a_function_that_is_edited_changes_the_key_under_the_same_name(
    beside: Callable[..., Path],
) -> None:
    before = read_afresh(beside("a", MODULE.format(factor=1)))
    after = read_afresh(beside("a", MODULE.format(factor=2)))
    assert before.to_json() == after.to_json()
    assert before.key() != after.key()


def test_a_helper_that_is_edited_changes_the_key(beside: Callable[..., Path]) -> None:
    module = (
        "import numba\n\n@numba.njit\ndef helper(x):\n    return {factor} * x\n\n"
        "def drift(payment, t, arm, params):\n    return helper(payment)\n"
    )
    before = read_afresh(beside("a", module.format(factor=1)))
    after = read_afresh(beside("a", module.format(factor=2)))
    assert before.key() != after.key()


def test_a_comment_and_a_moved_line_leave_the_key(beside: Callable[..., Path]) -> None:
    before = read_afresh(beside("a", MODULE.format(factor=1)))
    after = read_afresh(beside("b", "# a comment\n\n\n" + MODULE.format(factor=1)))
    assert before.key() == after.key()


# --- Seed and checkpoints ---------------------------------------------------------------------


def test_a_study_with_a_seed_keeps_it() -> None:
    assert study(seed=0).with_seed().seed == 0


def test_a_study_without_seed_draws_another_each_time_and_changes_nothing_else() -> None:
    bare = study(seed=None)
    one, two = bare.with_seed(), bare.with_seed()
    assert one.seed != two.seed
    assert msgspec.structs.replace(one, seed=None) == bare


@settings(deadline=None)
@given(count=st.integers(1, 10**4), horizon=st.integers(2, 10**9))
def test_checkpoints_by_number_rise_to_the_last_round(count: int, horizon: int) -> None:
    rounds = study(horizon=horizon, checkpoints=count).checkpoint_rounds()
    assert len(rounds) == min(count, horizon)
    assert rounds[0] >= 1
    assert rounds[-1] == horizon
    assert (np.diff(rounds) > 0).all()


def test_checkpoints_by_number_are_evenly_spaced() -> None:
    assert study(horizon=20, checkpoints=4).checkpoint_rounds().tolist() == [5, 10, 15, 20]


def test_more_checkpoints_than_rounds_are_every_round() -> None:
    assert study(checkpoints=1000).checkpoint_rounds().tolist() == list(range(1, 11))


@pytest.mark.parametrize(
    ("checkpoints", "rounds"),
    [([5, 2, 2], [2, 5, 10]), ([10], [10]), ([1, 10], [1, 10]), (range(1, 4), [1, 2, 3, 10])],
)
def test_checkpoints_by_list_are_sorted_without_doubles_and_end_with_the_last_round(
    checkpoints: Any, rounds: list[int]
) -> None:
    assert study(checkpoints=checkpoints).checkpoint_rounds().tolist() == rounds


def test_cells_are_policies_times_drifts_in_order() -> None:
    made = study(policies=[entice.UCB(), entice.Greedy()], drifts=DRIFTS[:2])
    positions = [(p, d) for p, d, _, _ in made.cells()]
    assert positions == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert all(
        policy is made.policies[p] and drift is made.drifts[d]
        for p, d, policy, drift in made.cells()
    )
