"""A study says what it means, refuses what means nothing, and survives being written down."""

from __future__ import annotations

import json
import re
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

import entice
from entice import Study

NAN, INF = float("nan"), float("inf")

GAUSSIAN = {"kind": "gaussian", "means": [0.9, 0.1]}
PLAIN: dict[str, Any] = {
    "arms": GAUSSIAN,
    "policies": [{"kind": "ucb"}],
    "horizon": 10,
    "replications": 2,
    "seed": 1,
}
CLASSES: dict[str, dict[str, Any]] = {
    "arms": {
        "gaussian": entice.Gaussian,
        "bernoulli": entice.Bernoulli,
        "beta": entice.Beta,
        "empirical": entice.Empirical,
    },
    "policies": {
        "ucb": entice.UCB,
        "epsilon_greedy": entice.EpsilonGreedy,
        "thompson_sampling": entice.ThompsonSampling,
        "greedy": entice.Greedy,
        "custom": entice.CustomPolicy,
    },
    "drifts": {
        "none": entice.NoDrift,
        "linear": entice.LinearDrift,
        "saturating": entice.SaturatingDrift,
        "custom": entice.CustomDrift,
    },
}


# Functions that studies refer to as "test_specs:name".


def halved(payment: float, t: int, arm: int, params: Any) -> float:
    return payment / 2


def scaled(payment: float, t: int, arm: int, params: Any) -> float:
    return params[0] * payment


def always_five(payment: float, t: int, arm: int, params: Any) -> float:
    return 5.0


def not_a_number(payment: float, t: int, arm: int, params: Any) -> float:
    return NAN


def of_three(payment: float, t: int, arm: int) -> float:
    return 0.0


def of_a_keyword(payment: float, t: int, arm: int, *, params: Any) -> float:
    return 0.0


def inverse(payment: float, t: int, arm: int, params: Any) -> float:
    return 1 / payment


def an_array(payment: float, t: int, arm: int, params: Any) -> Any:
    return np.zeros(2)


def first(t: int, pulls: Any, means: Any, memory: Any, params: Any, rng: Any) -> int:
    return 0


def remember(memory: Any, params: Any, arm: int, payment: float, feedback: float) -> None:
    memory[arm] = feedback


ARMS = [
    entice.Gaussian([0.9, 0.1]),
    entice.Gaussian([0.9, -0.1, 1e-300], std=0.25),
    entice.Gaussian([0.9, 0.1], std=[1.0, 0.0]),
    entice.Bernoulli([0.9, 0.1]),
    entice.Beta(a=[3, 1], b=[1, 0.5]),
    entice.Empirical(values=[1, 2, 5], weights=[[1, 0, 3], [0.2, 0.5, 0.3]]),
]
POLICIES = [
    entice.UCB(),
    entice.EpsilonGreedy(c=5),
    entice.ThompsonSampling(),
    entice.ThompsonSampling(scale="std"),
    entice.Greedy(),
    entice.CustomPolicy(first),
    entice.CustomPolicy(
        first, update=remember, params=[1, 0.5], memory=2, memory_per_arm=1, name='"ä" \\ [x]'
    ),
]
DRIFTS = [
    entice.NoDrift(),
    entice.LinearDrift(1.1),
    entice.SaturatingDrift(l=1.1, cap=0.2),
    entice.CustomDrift(halved),
    entice.CustomDrift(scaled, params=[0.5], name="half\nas much"),
]


def study(**changes: Any) -> Study:
    return Study(
        **{
            "arms": entice.Gaussian([0.9, 0.1]),
            "policies": [entice.UCB()],
            "horizon": 10,
            "replications": 2,
            "seed": 1,
            **changes,
        }
    )


def from_python(plain: dict[str, Any]) -> Study:
    """Make a study as a Python user would, from the same settings as a file has."""

    def built(field: str, entry: dict[str, Any]) -> Any:
        named = {name: value for name, value in entry.items() if name != "kind"}
        return CLASSES[field][entry["kind"]](**named)

    made = dict(plain)
    made["arms"] = built("arms", plain["arms"])
    for field in ("policies", "drifts"):
        if field in plain:
            made[field] = [built(field, entry) for entry in plain[field]]
    return Study(**made)


def from_toml(plain: dict[str, Any]) -> Study:
    return Study.from_toml(tomli_w.dumps(plain))


def from_json(plain: dict[str, Any]) -> Study:
    return Study.from_json(json.dumps(plain))


ROUTES: dict[str, Callable[[dict[str, Any]], Study]] = {
    "python": from_python,
    "toml": from_toml,
    "json": from_json,
}


def complaint(call: Callable[[], object]) -> str:
    """Return the message of the InputError that a call raises."""
    with pytest.raises(entice.InputError) as caught:
        call()
    return str(caught.value)


# --- What makes no sense, by all three ways in ------------------------------------------------


def arms(**changes: Any) -> dict[str, Any]:
    return {"arms": GAUSSIAN | changes}


def policy(kind: str, **fields: Any) -> dict[str, Any]:
    return {"policies": [{"kind": kind, **fields}]}


def drift(kind: str, **fields: Any) -> dict[str, Any]:
    return {"drifts": [{"kind": kind, **fields}]}


CUSTOM_DRIFT, CUSTOM_POLICY = "test_specs:halved", "test_specs:first"

# What is changed, and what the message must hold: the setting, the rule, what was given.
NONSENSE: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "no arms": (arms(means=[]), ("means", "at least 2 arms")),
    "one arm": (arms(means=[1.0]), ("means", "at least 2 arms", "1.0")),
    "text for a mean": (arms(means=["a", 1.0]), ("means[0]", "number", "'a'")),
    "a number for means": (arms(means=3), ("means", "list", "3")),
    "text for means": (arms(means="0.9 0.1"), ("means", "list", "0.9 0.1")),
    "negative std": (arms(std=-1), ("std", "negative", "-1")),
    "one negative std": (arms(std=[1, -1]), ("std", "negative", "-1")),
    "too few std": (arms(std=[1.0]), ("std", "2 arms", "1.0")),
    "text for std": (arms(std="one"), ("std", "number", "'one'")),
    "probability above 1": (
        {"arms": {"kind": "bernoulli", "means": [0.5, 1.5]}},
        ("means", "between 0 and 1", "1.5"),
    ),
    "shape 0": ({"arms": {"kind": "beta", "a": [1, 0], "b": [1, 1]}}, ("a", "greater than 0")),
    "shapes that don't pair": (
        {"arms": {"kind": "beta", "a": [1, 2], "b": [1, 2, 3]}},
        ("b", "as many entries", "3"),
    ),
    "ragged weights": (
        {"arms": {"kind": "empirical", "values": [0, 1], "weights": [[1, 2], [1]]}},
        ("weights[1]", "2 entries"),
    ),
    "c = 0": (policy("epsilon_greedy", c=0), ("c", "greater than 0", "got 0")),
    "c < 0": (policy("epsilon_greedy", c=-2), ("c", "greater than 0", "-2")),
    "text for c": (policy("epsilon_greedy", c="5"), ("c", "number", "'5'")),
    "unknown scale": (policy("thompson_sampling", scale="sd"), ("scale", "variance", "std", "sd")),
    "negative memory": (
        policy("custom", select=CUSTOM_POLICY, memory=-1),
        ("memory", "at least 0", "-1"),
    ),
    "a number for update": (
        policy("custom", select=CUSTOM_POLICY, update=3),
        ("update", "function", "module:name", "3"),
    ),
    "a number for a policy's name": (
        policy("custom", select=CUSTOM_POLICY, name=3),
        ("name", "3"),
    ),
    "a number for a drift's name": (drift("custom", function=CUSTOM_DRIFT, name=3), ("name", "3")),
    "a number for params": (
        drift("custom", function=CUSTOM_DRIFT, params=3),
        ("params", "list", "3"),
    ),
    "text in params": (
        drift("custom", function=CUSTOM_DRIFT, params=["a"]),
        ("params[0]", "number", "'a'"),
    ),
    "negative l": (drift("linear", l=-1), ("l", "negative", "-1", "CustomDrift")),
    "negative cap": (drift("saturating", l=1, cap=-1), ("cap", "negative", "-1")),
    "no policies": ({"policies": []}, ("policies", "at least one")),
    "no drifts": ({"drifts": []}, ("drifts", "at least one")),
    "horizon 0": ({"horizon": 0}, ("horizon", "at least 1", "0")),
    "negative horizon": ({"horizon": -5}, ("horizon", "at least 1", "-5")),
    "half a round": ({"horizon": 10.5}, ("horizon", "whole number", "10.5")),
    "text for horizon": ({"horizon": "ten"}, ("horizon", "number", "'ten'")),
    "true for horizon": ({"horizon": True}, ("horizon", "number", "True")),
    "horizon beyond 64 bits": ({"horizon": 2**63}, ("horizon", str(2**63))),
    "fewer rounds than arms": (
        {"horizon": 1},
        ("horizon", "number of arms, 2", "got 1", 'cold_start="prior"'),
    ),
    "no replications": ({"replications": 0}, ("replications", "at least 1", "0")),
    "half a replication": ({"replications": 2.5}, ("replications", "whole number", "2.5")),
    "negative seed": ({"seed": -1}, ("seed", "0 to 2**63 - 1", "-1")),
    "seed too large": ({"seed": 2**63}, ("seed", "0 to 2**63 - 1", str(2**63))),
    "seed with a fraction": ({"seed": 1.5}, ("seed", "whole number", "1.5")),
    "text for seed": ({"seed": "one"}, ("seed", "number", "'one'")),
    "no checkpoints": ({"checkpoints": 0}, ("checkpoints", "at least 1", "0")),
    "half a checkpoint": ({"checkpoints": 1.5}, ("checkpoints", "whole number", "1.5")),
    "an empty list of checkpoints": ({"checkpoints": []}, ("checkpoints", "1 to", "10")),
    "checkpoint 0": ({"checkpoints": [0, 5]}, ("checkpoints", "1 to", "10", "0, 5")),
    "checkpoint after the end": ({"checkpoints": [5, 11]}, ("checkpoints", "1 to", "10", "5, 11")),
    "checkpoint within a round": ({"checkpoints": [1.5]}, ("checkpoints[0]", "whole", "1.5")),
    "text for checkpoints": ({"checkpoints": "all"}, ("checkpoints", "number", "'all'")),
    "ragged checkpoints": ({"checkpoints": [[1], [2, 3]]}, ("checkpoints", "number", "[1]")),
    "feedback range upside down": (
        {"feedback_range": [1, 0]},
        ("feedback_range", "lowest", "highest", "1"),
    ),
    "empty feedback range": ({"feedback_range": [0.5, 0.5]}, ("feedback_range", "below", "0.5")),
    "one end of a feedback range": ({"feedback_range": [7]}, ("feedback_range", "pair", "7")),
    "three ends": ({"feedback_range": [0, 1, 2]}, ("feedback_range", "pair", "0, 1, 2")),
    "text for feedback range": ({"feedback_range": "unit"}, ("feedback_range", "pair", "'unit'")),
    "ragged feedback range": ({"feedback_range": [[0], [1, 2]]}, ("feedback_range",)),
    "unknown cold start": (
        {"cold_start": "never"},
        ("cold_start", '"each_arm_once"', '"prior"', "'never'"),
    ),
    "a number for cold start": ({"cold_start": 1}, ("cold_start", '"each_arm_once"', '"prior"')),
    "text for prior": ({"prior": "none"}, ("prior", "number", "'none'")),
    "a function's name without module": (
        drift("custom", function="halved"),
        ("function", "module:name", "'halved'"),
    ),
    "a module without a function's name": (
        drift("custom", function="test_specs:"),
        ("function", "module:name", "'test_specs:'"),
    ),
    "a relative module": (drift("custom", function=".x:f"), ("function", "'.x:f'")),
    "a module that isn't there": (
        drift("custom", function="no_such_module:f"),
        ("function", "no_such_module", "import", "beside the study"),
    ),
    "a name that isn't there": (
        drift("custom", function="test_specs:halvd"),
        ("function", "'test_specs'", "'test_specs:halvd'"),
    ),
    "a name that is no function": (
        drift("custom", function="test_specs:PLAIN"),
        ("function", "Python function", "payment, t, arm, params", "'test_specs:PLAIN'"),
    ),
    "a function in C": (drift("custom", function="math:sqrt"), ("function", "'math:sqrt'")),
    "a number for a function": (drift("custom", function=3), ("function", "Python function", "3")),
    "a function of three arguments": (
        drift("custom", function="test_specs:of_three"),
        ("4 arguments", "payment, t, arm, params", "of_three(payment"),
    ),
    "an argument by keyword only": (
        drift("custom", function="test_specs:of_a_keyword"),
        ("payment, t, arm, params", "of_a_keyword(payment"),
    ),
    "a drift for no payment": (
        drift("custom", function="test_specs:always_five"),
        ("test_specs:always_five", "return 0 for a payment of 0", "5.0"),
    ),
    "nan for no payment": (
        drift("custom", function="test_specs:not_a_number"),
        ("test_specs:not_a_number", "return 0 for a payment of 0", "nan"),
    ),
    "an error for no payment": (
        drift("custom", function="test_specs:inverse"),
        ("test_specs:inverse", "return 0 for a payment of 0", "division by zero"),
    ),
    "an array for no payment": (
        drift("custom", function="test_specs:an_array"),
        ("test_specs:an_array", "return 0 for a payment of 0"),
    ),
    "a parameter that wasn't given": (
        drift("custom", function="test_specs:scaled"),
        ("test_specs:scaled", "index out of range"),
    ),
}
# JSON has no words for these.
NOT_FINITE: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "nan mean": (arms(means=[0.9, NAN]), ("means[1]", "finite", "nan")),
    "infinite mean": (arms(means=[INF, 0.9]), ("means[0]", "finite", "inf")),
    "nan std": (arms(std=NAN), ("std", "finite", "nan")),
    "infinite std": (arms(std=[1, INF]), ("std[1]", "finite", "inf")),
    "nan c": (policy("epsilon_greedy", c=NAN), ("c", "finite", "nan")),
    "infinite l": (drift("linear", l=INF), ("l", "finite", "inf")),
    "nan prior": ({"prior": NAN}, ("prior", "finite", "nan")),
    "nan in feedback range": (
        {"feedback_range": [NAN, 1]},
        ("feedback_range[0]", "finite", "nan"),
    ),
    "infinite feedback range": ({"feedback_range": [0, INF]}, ("feedback_range[1]", "finite")),
    "nan horizon": ({"horizon": NAN}, ("horizon", "nan")),
}


@pytest.mark.parametrize("case", NONSENSE)
@pytest.mark.parametrize("route", ROUTES)
def test_nonsense_is_refused_with_setting_rule_and_what_was_given(route: str, case: str) -> None:
    changes, expected = NONSENSE[case]
    message = complaint(lambda: ROUTES[route](PLAIN | changes))
    assert [part for part in expected if part not in message] == [], message


@pytest.mark.parametrize("case", NOT_FINITE)
@pytest.mark.parametrize("route", ["python", "toml"])
def test_what_is_not_finite_is_refused(route: str, case: str) -> None:
    changes, expected = NOT_FINITE[case]
    message = complaint(lambda: ROUTES[route](PLAIN | changes))
    assert [part for part in expected if part not in message] == [], message


@pytest.mark.parametrize("route", ["toml", "json"])
@pytest.mark.parametrize("case", ["text for horizon", "text for std", "three ends", "text for c"])
def test_an_error_in_a_file_does_not_speak_of_the_parser(route: str, case: str) -> None:
    message = complaint(lambda: ROUTES[route](PLAIN | NONSENSE[case][0]))
    assert "$" not in message
    assert "`array`" not in message
    assert "null" not in message


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("case", ["horizon 0", "no policies", "fewer rounds than arms", "c = 0"])
def test_a_sentence_ends_in_one_full_stop(route: str, case: str) -> None:
    message = complaint(lambda: ROUTES[route](PLAIN | NONSENSE[case][0]))
    assert re.search(r"(?<!\.)\.\.(?!\.)", message) is None, message
    assert message.endswith(".")


@pytest.mark.parametrize("route", ROUTES)
def test_settings_that_make_sense_are_taken_by_every_route(route: str) -> None:
    assert ROUTES[route](PLAIN) == study()


@pytest.mark.parametrize("route", ROUTES)
def test_whole_numbers_may_be_written_as_floats(route: str) -> None:
    made = ROUTES[route](PLAIN | {"horizon": 1e1, "replications": 2.0, "seed": 1.0})
    assert made == study()
    assert isinstance(made.horizon, int)


@pytest.mark.parametrize("route", ROUTES)
def test_fewer_rounds_than_arms_are_allowed_with_a_prior(route: str) -> None:
    made = ROUTES[route](PLAIN | {"horizon": 1, "cold_start": "prior", "prior": 0.5})
    assert (made.horizon, made.prior) == (1, 0.5)


@pytest.mark.parametrize("route", ROUTES)
def test_the_largest_seed_keeps_its_last_digit(route: str) -> None:
    assert ROUTES[route](PLAIN | {"seed": 2**63 - 1}).seed == 2**63 - 1


# --- What only Python can get wrong -----------------------------------------------------------


@pytest.mark.parametrize(
    "given", [None, "ucb", ["ucb"], entice.UCB, [entice.UCB], 3, [entice.LinearDrift(1)]], ids=repr
)
def test_policies_of_another_type_are_refused_with_what_is_allowed(given: Any) -> None:
    message = complaint(lambda: study(policies=given))
    assert "policies[0]" in message
    assert "UCB, EpsilonGreedy, ThompsonSampling, Greedy, CustomPolicy" in message


def test_the_policy_of_another_type_is_told_by_its_position() -> None:
    assert "policies[1]" in complaint(lambda: study(policies=[entice.UCB(), None]))


@pytest.mark.parametrize("given", [None, 1.1, [1.1], "linear", [entice.UCB()]], ids=repr)
def test_drifts_of_another_type_are_refused_with_what_is_allowed(given: Any) -> None:
    message = complaint(lambda: study(drifts=given))
    assert "drifts[0]" in message
    assert "NoDrift, LinearDrift, SaturatingDrift, CustomDrift" in message


@pytest.mark.parametrize("given", [None, [0.9, 0.1], entice.Gaussian, "gaussian"], ids=repr)
def test_arms_of_another_type_are_refused_with_an_example(given: Any) -> None:
    message = complaint(lambda: study(arms=given))
    assert "arms must be one of Gaussian, Bernoulli, Beta, Empirical" in message
    assert "entice.Gaussian([" in message


@pytest.mark.parametrize("given", [np.array(3.0), b"ab", {0.9: 0.1, 0.5: 0.2}], ids=repr)
def test_means_that_are_no_list_of_numbers_are_refused(given: Any) -> None:
    assert "means must be a list of numbers" in complaint(lambda: entice.Gaussian(given))


def test_a_callable_that_is_no_function_is_refused() -> None:
    class Half:
        def __call__(self, payment: float, t: int, arm: int, params: Any) -> float:
            return payment / 2

    message = complaint(lambda: entice.CustomDrift(Half()))
    assert "must be a Python function" in message


def test_a_policy_of_too_few_arguments_is_refused_with_the_ones_it_has() -> None:
    message = complaint(lambda: entice.CustomPolicy(lambda t: 0))
    assert "6 arguments" in message
    assert "select(t, pulls, means, memory, params, rng)" in message
    assert "<lambda>(t)" in message


def test_an_update_of_too_few_arguments_is_refused() -> None:
    message = complaint(lambda: entice.CustomPolicy(first, update=of_three))
    assert "update(memory, params, arm, payment, feedback)" in message


def test_a_changed_copy_is_checked_like_a_new_study() -> None:
    assert "horizon" in complaint(lambda: msgspec.structs.replace(study(), horizon=0))


def test_a_single_policy_and_a_single_drift_need_no_list() -> None:
    alone = study(policies=entice.UCB(), drifts=entice.LinearDrift(1.1))
    assert alone == study(policies=[entice.UCB()], drifts=[entice.LinearDrift(1.1)])


@pytest.mark.parametrize("route", ["toml", "json"])
def test_a_single_policy_and_a_single_drift_need_no_list_in_a_file(route: str) -> None:
    alone = {"policies": {"kind": "ucb"}, "drifts": {"kind": "linear", "l": 1.1}}
    expected = study(policies=entice.UCB(), drifts=entice.LinearDrift(1.1))
    assert ROUTES[route](PLAIN | alone) == expected


def test_numpy_values_are_the_same_study() -> None:
    made = study(
        arms=entice.Gaussian(np.array([9, 1]), std=np.array([1.0, 2.0])),
        policies=(entice.EpsilonGreedy(np.float32(0.5)),),
        horizon=np.int64(10),
        replications=np.uint8(2),
        seed=np.uint64(1),
        checkpoints=np.array([2, 5]),
        prior=np.float64(0.0),
        feedback_range=np.array([0, 1]),
    )
    plain = study(
        arms=entice.Gaussian([9.0, 1.0], std=[1, 2]),
        policies=[entice.EpsilonGreedy(0.5)],
        checkpoints=[2, 5],
        feedback_range=(0, 1),
    )
    assert made == plain
    assert made.to_toml() == plain.to_toml()
    assert made.key() == plain.key()


def test_whole_means_are_kept_as_floats() -> None:
    assert repr(entice.Gaussian([1, 0]).means) == "(1.0, 0.0)"


# --- Misspelt files ---------------------------------------------------------------------------


MISSPELT: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "a setting, nearly": (
        {"horizn": 10},
        ("the study", "'horizn'", "you mean 'horizon'?", "replications"),
    ),
    "a setting, not at all": ({"zzz": 10}, ("the study", "'zzz'", "Allowed: arms, checkpoints")),
    "of arms": (
        arms(mean=[1]),
        ("arms", "'mean'", "you mean 'means'?", "Allowed: kind, means, std"),
    ),
    "of a policy": (
        policy("epsilon_greedy", c=5, eps=1),
        ("policies[0]", "'eps'", "Allowed: c, kind"),
    ),
    "of the second policy": (
        {"policies": [{"kind": "ucb"}, {"kind": "custom", "selct": "a:b"}]},
        ("policies[1]", "'selct'", "you mean 'select'?"),
    ),
    "of a drift": (
        drift("saturating", l=1, capp=1),
        ("drifts[0]", "'capp'", "you mean 'cap'?"),
    ),
    "kind of arms": (
        arms(kind="gausian"),
        ("arms: kind", "'gausian'", "you mean 'gaussian'?", "beta"),
    ),
    "kind of policy": (policy("UCB1"), ("policies[0]: kind", "'UCB1'", "ucb", "thompson_sampling")),
    "kind in capitals": (policy("UCB"), ("policies[0]: kind", "'UCB'", "you mean 'ucb'?")),
    "kind of drift": (
        drift("linaer", l=1),
        ("drifts[0]: kind", "'linaer'", "you mean 'linear'?"),
    ),
    "kind is a number": (arms(kind=3), ("arms: kind", "3", "gaussian")),
    "kind is a list": (arms(kind=["gaussian"]), ("arms: kind", "['gaussian']", "beta")),
    "no kind of arms": ({"arms": {"means": [1, 2]}}, ("arms", "kind", "gaussian")),
    "no kind of policy": ({"policies": [{"c": 5}]}, ("policies[0]", "kind", "epsilon_greedy")),
    "no kind of drift": ({"drifts": [{"l": 5}]}, ("drifts[0]", "kind", "linear")),
    "policy is text": ({"policies": ["ucb"]}, ("policies[0]", "kind", "'ucb'")),
    "arms are numbers": ({"arms": [0.9, 0.1]}, ("arms", "table", "kind")),
    "arms are a list of tables": ({"arms": [GAUSSIAN]}, ("arms", "table")),
}


@pytest.mark.parametrize("case", MISSPELT)
@pytest.mark.parametrize("route", ["toml", "json"])
def test_a_misspelt_name_is_told_with_what_is_allowed(route: str, case: str) -> None:
    changes, expected = MISSPELT[case]
    message = complaint(lambda: ROUTES[route](PLAIN | changes))
    assert [part for part in expected if part not in message] == [], message
    assert "$" not in message


@pytest.mark.parametrize("missing", ["arms", "policies", "horizon"])
@pytest.mark.parametrize("route", ["toml", "json"])
def test_a_missing_setting_is_named(route: str, missing: str) -> None:
    plain = {name: value for name, value in PLAIN.items() if name != missing}
    assert missing in complaint(lambda: ROUTES[route](plain))


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"arms": {"kind": "gaussian"}}, ("arms", "means")),
        (policy("epsilon_greedy"), ("policies[0]", "c")),
        (drift("linear"), ("drifts[0]", "l")),
        (drift("custom"), ("drifts[0]", "function")),
    ],
    ids=["means", "c", "l", "function"],
)
@pytest.mark.parametrize("route", ["toml", "json"])
def test_a_missing_setting_of_a_kind_is_named_with_its_place(
    route: str, changes: dict[str, Any], expected: tuple[str, ...]
) -> None:
    message = complaint(lambda: ROUTES[route](PLAIN | changes))
    assert [part for part in expected if part not in message] == [], message
    assert "$" not in message


def test_text_that_is_not_toml_is_refused_with_the_line() -> None:
    message = complaint(lambda: Study.from_toml("seed = 1\nhorizon = = 10\n"))
    assert "TOML" in message
    assert "line 2" in message


@pytest.mark.parametrize("text", ["", "{", '{"horizon": NaN}', b"\xff\xfe", '{"seed": 1} x'])
def test_text_that_is_not_json_is_refused(text: str | bytes) -> None:
    assert "JSON" in complaint(lambda: Study.from_json(text))


@pytest.mark.parametrize("text", ["[]", "null", "3", '"horizon"'])
def test_json_that_is_no_table_is_refused(text: str) -> None:
    assert "table of settings" in complaint(lambda: Study.from_json(text))


# --- Files ------------------------------------------------------------------------------------


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    path = tmp_path / "nowhere.toml"
    message = complaint(lambda: Study.from_file(path))
    assert "study file" in message
    assert "No such file" in message
    assert "nowhere.toml" in message


def test_a_folder_is_no_study(tmp_path: Path) -> None:
    message = complaint(lambda: Study.from_file(tmp_path))
    assert "study file" in message
    assert "directory" in message


def test_a_binary_file_is_no_study(tmp_path: Path) -> None:
    path = tmp_path / "study.toml"
    path.write_bytes(b"\xff\xfe\x00\x01")
    message = complaint(lambda: Study.from_file(path))
    assert "study file" in message
    assert "study.toml" in message


def test_a_file_is_read_by_its_name_as_text_or_as_a_path(tmp_path: Path) -> None:
    path = tmp_path / "study.toml"
    path.write_text(tomli_w.dumps(PLAIN))
    assert Study.from_file(path) == Study.from_file(str(path)) == study()


MODULE = "def bent(payment, t, arm, params):\n    return {factor} * payment\n"


@pytest.fixture
def beside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Path]]:
    """Write a study in a folder, with a module beside it that holds its drift."""
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    before = set(sys.modules)
    toml = tomli_w.dumps(PLAIN | drift("custom", function="beside_the_study:bent"))

    def write(folder: str, module: str) -> Path:
        place = tmp_path / folder
        place.mkdir(exist_ok=True)
        (place / "beside_the_study.py").write_text(module)
        (place / "study.toml").write_text(toml)
        return place / "study.toml"

    yield write
    for name in set(sys.modules) - before:
        if name.startswith("beside_the_study"):
            del sys.modules[name]


def in_a_new_process(path: Path) -> Study:
    """Read a study as if nothing had been imported before."""
    sys.modules.pop("beside_the_study", None)
    return Study.from_file(path)


def test_a_function_beside_the_study_file_is_found(beside: Callable[..., Path]) -> None:
    found = Study.from_file(beside("a", MODULE.format(factor=3)))
    assert found.drifts[0].function(2.0, 1, 0, ()) == 6.0
    assert found.drifts[0].label == "bent"


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
    complaint(lambda: Study.from_file(wrong))
    assert sys.path == before


def test_each_study_file_gets_the_function_beside_itself(beside: Callable[..., Path]) -> None:
    single = Study.from_file(beside("a", MODULE.format(factor=1)))
    double = Study.from_file(beside("b", MODULE.format(factor=2)))
    assert single.drifts[0].function(1.0, 1, 0, ()) == 1
    assert double.drifts[0].function(1.0, 1, 0, ()) == 2


@pytest.mark.parametrize(
    "module", ["def bent(:", "raise RuntimeError('not today')", "import no_such_module"]
)
def test_a_module_that_does_not_import_is_an_input_error(
    beside: Callable[..., Path], module: str
) -> None:
    message = complaint(lambda: Study.from_file(beside("a", module)))
    assert "beside_the_study:bent" in message
    assert "can't be imported" in message


# --- Writing down and reading back ------------------------------------------------------------


@pytest.mark.parametrize("arms", ARMS, ids=str)
def test_arms_survive_a_round_trip(arms: Any) -> None:
    made = study(arms=arms)
    assert Study.from_toml(made.to_toml()) == made
    assert Study.from_json(made.to_json()) == made


def test_policies_and_drifts_survive_a_round_trip() -> None:
    made = study(policies=POLICIES, drifts=DRIFTS, checkpoints=[5, 2, 2], feedback_range=(-1, 2))
    assert Study.from_toml(made.to_toml()) == made
    assert Study.from_json(made.to_json()) == made


def test_a_study_without_seed_stays_without() -> None:
    made = study(seed=None)
    assert "seed" not in made.to_toml()
    assert Study.from_toml(made.to_toml()) == made
    assert Study.from_json(made.to_json()) == made


def test_functions_are_written_by_name() -> None:
    made = study(policies=entice.CustomPolicy(first), drifts=entice.CustomDrift(halved))
    assert '"test_specs:first"' in made.to_toml()
    assert '"test_specs:halved"' in made.to_json()


def test_a_function_given_by_name_is_the_function() -> None:
    assert entice.CustomDrift("test_specs:halved") == entice.CustomDrift(halved)


NUMBERS = st.floats(-1e6, 1e6)
POSITIVE = st.floats(1e-6, 1e6)
PARAMS = st.lists(NUMBERS, max_size=3)
NAMES = st.none() | st.text(max_size=8)


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
    st.builds(entice.CustomDrift, st.just(halved), params=PARAMS, name=NAMES),
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
        cold_start=draw(st.sampled_from(["each_arm_once", "prior"])),
        prior=draw(NUMBERS),
        feedback_range=draw(st.none() | pairs),
    )


@settings(deadline=None, max_examples=100)
@given(any_study())
def test_any_study_survives_a_round_trip(made: Study) -> None:
    assert Study.from_toml(made.to_toml()) == made
    assert Study.from_json(made.to_json()) == made


# --- The key ----------------------------------------------------------------------------------


def test_equal_studies_have_equal_keys_however_they_were_made() -> None:
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
        {"prior": 0.1},
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
    before = in_a_new_process(beside("a", MODULE.format(factor=1)))
    after = in_a_new_process(beside("a", MODULE.format(factor=2)))
    assert before.to_json() == after.to_json()
    assert before.key() != after.key()


def test_a_helper_that_is_edited_changes_the_key(beside: Callable[..., Path]) -> None:
    module = (
        "import numba\n\n@numba.njit\ndef helper(x):\n    return {factor} * x\n\n"
        "def bent(payment, t, arm, params):\n    return helper(payment)\n"
    )
    before = in_a_new_process(beside("a", module.format(factor=1)))
    after = in_a_new_process(beside("a", module.format(factor=2)))
    assert before.key() != after.key()


def test_a_comment_and_a_moved_line_leave_the_key(beside: Callable[..., Path]) -> None:
    before = in_a_new_process(beside("a", MODULE.format(factor=1)))
    after = in_a_new_process(beside("b", "# a comment\n\n\n" + MODULE.format(factor=1)))
    assert before.key() == after.key()


# --- Seed and checkpoints ---------------------------------------------------------------------


def test_a_study_with_a_seed_keeps_it() -> None:
    assert study(seed=0).with_seed().seed == 0


def test_a_study_without_seed_draws_another_each_time_and_changes_nothing_else() -> None:
    bare = study(seed=None)
    one, two = bare.with_seed(), bare.with_seed()
    assert one.seed != two.seed
    assert msgspec.structs.replace(one, seed=None) == bare


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
    ("given", "rounds"),
    [([5, 2, 2], [2, 5, 10]), ([10], [10]), ([1, 10], [1, 10]), (range(1, 4), [1, 2, 3, 10])],
)
def test_checkpoints_by_list_are_sorted_without_doubles_and_end_with_the_last_round(
    given: Any, rounds: list[int]
) -> None:
    assert study(checkpoints=given).checkpoint_rounds().tolist() == rounds


def test_cells_are_policies_times_drifts_in_order() -> None:
    made = study(policies=[entice.UCB(), entice.Greedy()], drifts=DRIFTS[:2])
    places = [(p, d) for p, d, _, _ in made.cells()]
    assert places == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert all(
        policy is made.policies[p] and drift is made.drifts[d]
        for p, d, policy, drift in made.cells()
    )
