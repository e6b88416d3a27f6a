"""A study rejects invalid settings, from Python, TOML and JSON."""

from __future__ import annotations

import re
from typing import Any

import msgspec
import numpy as np
import pytest
from spec_fixtures import (
    GAUSSIAN,
    INF,
    NAN,
    PLAIN,
    ROUTES,
    drift,
    error_message,
    first,
    of_three,
    study,
)

import entice
from entice import Study

# --- Invalid settings, by all three routes ------------------------------------------------


def arms(**changes: Any) -> dict[str, Any]:
    return {"arms": GAUSSIAN | changes}


def policy(kind: str, **fields: Any) -> dict[str, Any]:
    return {"policies": [{"kind": kind, **fields}]}


CUSTOM_DRIFT, CUSTOM_POLICY = "spec_fixtures:halved", "spec_fixtures:first"

# The change, and parts of the message: the setting, the rule, the value.
INVALID: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
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
    "negative l": (drift("linear", l=-1), ("l", "negative", "-1", "NegativeDrift")),
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
        drift("custom", function="spec_fixtures:"),
        ("function", "module:name", "'spec_fixtures:'"),
    ),
    "a relative module": (drift("custom", function=".x:f"), ("function", "'.x:f'")),
    "a module that isn't there": (
        drift("custom", function="no_such_module:f"),
        ("function", "no_such_module", "import", "study's folder"),
    ),
    "a name that isn't there": (
        drift("custom", function="spec_fixtures:halvd"),
        ("function", "'spec_fixtures'", "'spec_fixtures:halvd'"),
    ),
    "a name that is no function": (
        drift("custom", function="spec_fixtures:PLAIN"),
        ("function", "Python function", "payment, t, arm, params", "'spec_fixtures:PLAIN'"),
    ),
    "a function in C": (drift("custom", function="math:sqrt"), ("function", "'math:sqrt'")),
    "a number for a function": (drift("custom", function=3), ("function", "Python function", "3")),
    "a function of three arguments": (
        drift("custom", function="spec_fixtures:of_three"),
        ("4 arguments", "payment, t, arm, params", "of_three(payment"),
    ),
    "an argument by keyword only": (
        drift("custom", function="spec_fixtures:of_a_keyword"),
        ("payment, t, arm, params", "of_a_keyword(payment"),
    ),
    "a drift for no payment": (
        drift("custom", function="spec_fixtures:always_five"),
        ("spec_fixtures:always_five", "return 0 for a payment of 0", "5.0"),
    ),
    "nan for no payment": (
        drift("custom", function="spec_fixtures:not_a_number"),
        ("spec_fixtures:not_a_number", "return 0 for a payment of 0", "nan"),
    ),
    "an error for no payment": (
        drift("custom", function="spec_fixtures:inverse"),
        ("spec_fixtures:inverse", "return 0 for a payment of 0", "division by zero"),
    ),
    "an array for no payment": (
        drift("custom", function="spec_fixtures:an_array"),
        ("spec_fixtures:an_array", "return 0 for a payment of 0"),
    ),
    "a missing parameter": (
        drift("custom", function="spec_fixtures:scaled"),
        ("spec_fixtures:scaled", "index out of range"),
    ),
}
# JSON cannot express these.
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


@pytest.mark.parametrize("case", INVALID)
@pytest.mark.parametrize("route", ROUTES)
def test_invalid_settings_are_rejected_with_name_rule_and_value(route: str, case: str) -> None:
    changes, expected = INVALID[case]
    message = error_message(lambda: ROUTES[route](PLAIN | changes))
    assert [part for part in expected if part not in message] == [], message


@pytest.mark.parametrize("case", NOT_FINITE)
@pytest.mark.parametrize("route", ["python", "toml"])
def test_numbers_that_are_not_finite_are_rejected(route: str, case: str) -> None:
    changes, expected = NOT_FINITE[case]
    message = error_message(lambda: ROUTES[route](PLAIN | changes))
    assert [part for part in expected if part not in message] == [], message


@pytest.mark.parametrize("route", ["toml", "json"])
@pytest.mark.parametrize("case", ["text for horizon", "text for std", "three ends", "text for c"])
def test_an_error_in_a_file_does_not_mention_the_parser(route: str, case: str) -> None:
    message = error_message(lambda: ROUTES[route](PLAIN | INVALID[case][0]))
    assert "$" not in message
    assert "`array`" not in message
    assert "null" not in message


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("case", ["horizon 0", "no policies", "fewer rounds than arms", "c = 0"])
def test_a_sentence_ends_in_one_full_stop(route: str, case: str) -> None:
    message = error_message(lambda: ROUTES[route](PLAIN | INVALID[case][0]))
    assert re.search(r"(?<!\.)\.\.(?!\.)", message) is None, message
    assert message.endswith(".")


@pytest.mark.parametrize("route", ROUTES)
def test_valid_settings_are_accepted_by_every_route(route: str) -> None:
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


# --- Mistakes that only Python can make -----------------------------------------------------------


@pytest.mark.parametrize(
    "policies",
    [None, "ucb", ["ucb"], entice.UCB, [entice.UCB], 3, [entice.LinearDrift(1)]],
    ids=repr,
)
def test_policies_of_another_type_are_rejected_with_the_allowed_kinds(policies: Any) -> None:
    message = error_message(lambda: study(policies=policies))
    assert "policies[0]" in message
    assert "policies[1]" in error_message(lambda: study(policies=[entice.UCB(), None]))
    assert "UCB, EpsilonGreedy, ThompsonSampling, Greedy, CustomPolicy" in message


@pytest.mark.parametrize("drifts", [None, 1.1, [1.1], "linear", [entice.UCB()]], ids=repr)
def test_drifts_of_another_type_are_rejected_with_the_allowed_kinds(drifts: Any) -> None:
    message = error_message(lambda: study(drifts=drifts))
    assert "drifts[0]" in message
    assert "NoDrift, LinearDrift, SaturatingDrift, StepDrift, PowerDrift" in message


@pytest.mark.parametrize("value", [None, [0.9, 0.1], entice.Gaussian, "gaussian"], ids=repr)
def test_arms_of_another_type_are_rejected_with_an_example(value: Any) -> None:
    message = error_message(lambda: study(arms=value))
    assert "arms must be one of Gaussian, Bernoulli, Beta, Empirical" in message
    assert "entice.Gaussian([" in message


@pytest.mark.parametrize("means", [np.array(3.0), b"ab", {0.9: 0.1, 0.5: 0.2}], ids=repr)
def test_means_must_be_a_list_of_numbers(means: Any) -> None:
    assert "means must be a list of numbers" in error_message(lambda: entice.Gaussian(means))


def test_a_callable_that_is_not_a_function_is_rejected() -> None:
    class Half:
        def __call__(self, payment: float, t: int, arm: int, params: Any) -> float:
            return payment / 2

    message = error_message(lambda: entice.CustomDrift(Half()))
    assert "must be a Python function" in message


def test_a_policy_with_too_few_arguments_is_rejected_with_their_names() -> None:
    message = error_message(lambda: entice.CustomPolicy(lambda t: 0))
    assert "6 arguments" in message
    assert "select(t, pulls, means, memory, params, rng)" in message
    assert "<lambda>(t)" in message


def test_an_update_with_too_few_arguments_is_rejected() -> None:
    message = error_message(lambda: entice.CustomPolicy(first, update=of_three))
    assert "update(memory, params, arm, payment, feedback)" in message


def test_a_changed_copy_is_checked_like_a_new_study() -> None:
    assert "horizon" in error_message(lambda: msgspec.structs.replace(study(), horizon=0))


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


# --- Misspelt files ---------------------------------------------------------------------------


MISSPELT: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "a setting, nearly": (
        {"horizn": 10},
        ("the study", "'horizn'", "you mean 'horizon'?", "replications"),
    ),
    "a setting, not at all": (
        {"zzz": 10},
        ("the study", "'zzz'", "Allowed: adversary, arms, checkpoints"),
    ),
    "of arms": (
        arms(mean=[1]),
        ("arms", "'mean'", "you mean 'means'?", "Allowed: means, names, std"),
    ),
    "of a policy": (
        policy("epsilon_greedy", c=5, eps=1),
        ("policies[0]", "'eps'", "Allowed: c"),
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
def test_a_misspelt_name_is_reported_with_the_allowed_names(route: str, case: str) -> None:
    changes, expected = MISSPELT[case]
    message = error_message(lambda: ROUTES[route](PLAIN | changes))
    assert [part for part in expected if part not in message] == [], message
    assert "$" not in message


@pytest.mark.parametrize("missing", ["arms", "policies", "horizon"])
@pytest.mark.parametrize("route", ["toml", "json"])
def test_a_missing_setting_is_named(route: str, missing: str) -> None:
    plain = {name: value for name, value in PLAIN.items() if name != missing}
    assert missing in error_message(lambda: ROUTES[route](plain))


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
def test_a_missing_parameter_is_named_with_its_position(
    route: str, changes: dict[str, Any], expected: tuple[str, ...]
) -> None:
    message = error_message(lambda: ROUTES[route](PLAIN | changes))
    assert [part for part in expected if part not in message] == [], message
    assert "$" not in message


def test_invalid_toml_is_rejected_with_its_line() -> None:
    message = error_message(lambda: Study.from_toml("seed = 1\nhorizon = = 10\n"))
    assert "TOML" in message
    assert "line 2" in message


@pytest.mark.parametrize("text", ["", "{", '{"horizon": NaN}', b"\xff\xfe", '{"seed": 1} x'])
def test_invalid_json_is_rejected(text: str | bytes) -> None:
    assert "JSON" in error_message(lambda: Study.from_json(text))


@pytest.mark.parametrize("text", ["[]", "null", "3", '"horizon"'])
def test_json_must_be_an_object(text: str) -> None:
    assert "table of settings" in error_message(lambda: Study.from_json(text))
