"""Users' own arms run like the built-in ones, and their check names the fault of others."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import entice
from entice.testing import CheckFailed, check_arms

MEANS = [0.7, 0.4, 0.1]


def coin(arm, params, rng):
    return 1.0 if entice.rng.uniform(rng) < params[arm] else 0.0


def study(arms: Any, **changes: Any) -> entice.Study:
    settings = {"policies": [entice.UCB()], "horizon": 200, "replications": 4, "seed": 7}
    return entice.Study(arms=arms, engine="generic", **(settings | changes))


def test_they_play_like_built_in_arms_with_the_same_draws(plain: None) -> None:
    own = entice.run(study(entice.CustomArms(coin, means=MEANS, params=MEANS)), progress=False)
    built_in = entice.run(study(entice.Bernoulli(MEANS)), progress=False)
    assert own.final.equals(built_in.final)
    assert own.curves.equals(built_in.curves)


def test_no_lower_bound_applies_to_an_unknown_distribution() -> None:
    arms = entice.CustomArms(coin, means=MEANS, params=MEANS)
    table = entice.theory.bounds(study(arms, drifts=[entice.NoDrift()]))
    [row] = table.filter(bound="Lai and Robbins 1985").rows(named=True)
    assert (row["applies"], row["value"]) == (False, 0.0)
    assert "the distribution of custom arms is not known" in row["doubts"]


def test_they_are_compiled_with_the_kernel() -> None:
    arms = entice.CustomArms(coin, means=MEANS, params=MEANS)
    result = entice.run(study(arms, policies=[entice.Greedy()]), progress=False)
    expected = entice.run(
        study(entice.Bernoulli(MEANS), policies=[entice.Greedy()]), progress=False
    )
    assert result.final.equals(expected.final)


def test_a_study_with_them_survives_a_round_trip() -> None:
    arms = entice.CustomArms("test_custom_arms:coin", means=MEANS, params=MEANS, names=list("abc"))
    first = study(arms)
    again = entice.Study.from_json(first.to_json())
    assert again == first
    assert again.key() == first.key()
    assert arms.label == "coin(0.7, 0.4, 0.1)"


def test_the_key_depends_on_the_function() -> None:
    def other(arm, params, rng):
        return 1.0 if entice.rng.uniform(rng) <= params[arm] else 0.0

    one, two = (study(entice.CustomArms(f, means=MEANS, params=MEANS)) for f in (coin, other))
    assert one.key() != two.key()


@pytest.mark.parametrize(
    ("arms", "message"),
    [
        (lambda: entice.CustomArms(coin, means=[0.5]), "must describe at least 2 arms"),
        (lambda: entice.CustomArms(coin, means=[0.5, math.nan]), "CustomArms: means"),
        (lambda: entice.CustomArms(lambda arm: 0.0, means=MEANS), "must take the 3 arguments"),
        (lambda: entice.CustomArms("nowhere:f", means=MEANS), "can't be imported"),
    ],
)
def test_bad_settings_are_rejected(arms: Any, message: str) -> None:
    with pytest.raises(entice.InputError, match=message):
        arms()


def too_long(arm, params, rng):
    return params[arm + 2]


def divided(arm, params, rng):
    return 1.0 / (entice.rng.uniform(rng) * params[0])


def remembered(arm, params, rng):
    return np.random.normal() + params[0]


def text(arm, params, rng):
    return "good"


@pytest.mark.parametrize(
    ("function", "params", "message"),
    [
        (coin, [0.7, 0.4, 0.2], "arm 2 averages 0.2"),
        (too_long, MEANS, "too_long"),
        (divided, [0.0], "line"),
        (text, [], "must return a finite number"),
    ],
)
def test_a_fault_is_named(function: Any, params: list[float], message: str) -> None:
    with pytest.raises(CheckFailed, match=message):
        check_arms(entice.CustomArms(function, means=MEANS, params=params), draws=2_000)


def test_draws_from_elsewhere_are_rejected() -> None:
    with pytest.raises(entice.InputError, match="random"):
        check_arms(entice.CustomArms(remembered, means=MEANS, params=[0.0]))


@pytest.mark.parametrize(
    "arms",
    [
        entice.Gaussian(MEANS),
        entice.Bernoulli(MEANS),
        entice.Beta(a=[3, 1], b=[1, 2]),
        entice.Empirical(values=[1, 2, 5], weights=[[1, 0, 3], [0.2, 0.5, 0.3]]),
    ],
    ids=lambda arms: type(arms).__name__,
)
def test_built_in_arms_have_the_means_that_they_state(arms: Any) -> None:
    assert check_arms(arms, draws=2_000) is None


def test_a_study_names_arms_that_fail() -> None:
    arms = entice.CustomArms(too_long, means=MEANS, params=MEANS)
    with pytest.raises(entice.StudyError, match=r"arms too_long.* failed in"):
        entice.run(study(arms, policies=[entice.Greedy()]), progress=False)


def test_a_function_that_numba_cannot_compile_is_named_before_the_study_runs() -> None:
    def opens(arm, params, rng):
        return float(open("x").read())

    with pytest.raises(entice.InputError, match="opens"):
        entice.run(study(entice.CustomArms(opens, means=MEANS)), progress=False)
