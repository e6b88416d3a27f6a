"""Response: who rates. Every round equals the oracle's; metrics; files; no change without it.

The compiled loop is compared in `test_worlds.py`, with all features.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import algorithm1 as oracle
from oracles.world_comparison import DELAYS, assert_same_world, by_response
from plain_kernel import plain_kernel
from sizes import sized
from spec_fixtures import error_message

import entice
from entice.rng import PLAYER, new_stream

pytestmark = pytest.mark.usefixtures("unmeasured")

RESPONSE = entice.LogisticResponse(base=-0.5, by_reward=1.5, by_payment=2.0)


@settings(max_examples=sized(4, 20), deadline=None, derandomize=True)
@given(data=st.data())
def test_response_with_delay_loss_window_and_probe_equals_the_oracle_s(data: Any) -> None:
    coefficient = st.sampled_from([-3.0, -0.5, 0.0, 1.5])
    response = entice.LogisticResponse(*(data.draw(coefficient) for _ in range(3)))
    late = data.draw(st.sampled_from([None, *DELAYS]), "delay")
    counts = data.draw(st.booleans(), "in flight")
    players = entice.Players(
        response=response,
        delay=DELAYS[late][0] if late else data.draw(st.sampled_from([0, 12])),
        loss=data.draw(st.sampled_from([0.0, 0.3]), "loss"),
        rating_window=data.draw(st.sampled_from([None, 40]), "window"),
    )
    assert_same_world(
        entice.UCB(count_in_flight=counts), oracle.UCB(), players=players,
        delay=DELAYS[late][1] if late else None, responds=by_response(response),
        in_flight_counts=counts, probe=data.draw(st.sampled_from([None, entice.Probe(0.3, 0.2)])),
        seed=data.draw(st.integers(0, 2**32), "seed"),
        horizon=data.draw(st.integers(4, 150), "horizon"), totals=True,
    )  # fmt: skip


@pytest.mark.parametrize(
    "other",
    [
        entice.LogisticResponse(base=-0.5, by_reward=1.5, by_payment=1.0),
        entice.LogisticResponse(base=-0.5, by_reward=0.5, by_payment=2.0),
    ],
)
def test_the_comparison_detects_another_response(other: entice.LogisticResponse) -> None:
    """A control: the oracle's players respond differently to reward or payment."""
    with pytest.raises(AssertionError):
        assert_same_world(
            entice.UCB(), oracle.UCB(), players=entice.Players(response=RESPONSE),
            responds=by_response(other),
        )  # fmt: skip


def study(**given: Any) -> entice.Study:
    defaults: dict[str, Any] = {
        "arms": entice.Gaussian([0.9, 0.5]), "policies": [entice.UCB()], "horizon": 800, "seed": 3,
        "replications": 12,
    }  # fmt: skip
    return entice.Study(**defaults | given)


def test_selection_bias_is_zero_unless_the_response_depends_on_the_reward() -> None:
    """The reward of a rating has expectation 0 above its arm's mean if all rate alike.

    12 runs of 800 rounds hold some 4,800 such ratings with standard deviation 1: 4.5 standard
    errors are 0.065, p < 7e-6. With `by_reward` = 1 and base −1 the bias is E[z σ(z + μ − 1)] over
    E[σ(z + μ − 1)], 0.41 to 0.5 for standard normal z and the means of these arms.
    """
    with plain_kernel():
        alike = entice.run(
            study(players=entice.Players(response=entice.LogisticResponse(0.0))), progress=False
        ).final
        by_reward = entice.run(
            study(players=entice.Players(response=entice.LogisticResponse(-1.0, 1.0))),
            progress=False,
        ).final
    assert abs(np.average(alike["selection_bias"], weights=alike["share_rated"])) < 0.065
    assert abs(alike["share_rated"].mean() - 0.5) < 4.5 * 0.5 / math.sqrt(9600)  # type: ignore[operator]
    bias = float(np.average(by_reward["selection_bias"], weights=by_reward["share_rated"]))
    assert 0.41 - 0.065 < bias < 0.5 + 0.065


def test_the_satisfied_make_a_noisy_arm_look_better_for_ever() -> None:
    """The atlas has such a world. The bias of the noisy arm is about 1, twice the gap of 0.5.

    The control: if every second player rates at random, the better arm gets most pulls. The
    averages are 5 standard errors apart after 400 ratings of the noisy arm.
    """
    arms = entice.Gaussian([0.9, 0.4], std=[0.2, 2.0])
    shares = []
    for response in (entice.LogisticResponse(-0.5, by_reward=1.0), entice.LogisticResponse(0.0)):
        with plain_kernel():
            result = entice.run(
                study(arms=arms, policies=[entice.EpsilonGreedy(c=20)], horizon=1500,
                      replications=8, players=entice.Players(response=response)),
                progress=False,
            )  # fmt: skip
        pulls = np.array(result.final["pulls"].to_list())
        shares.append(pulls[:, 1] / 1500)
    assert (shares[0] > 0.8).all()
    assert (shares[1] < 0.4).all()


def test_studies_without_response_have_the_metrics_and_the_spec_of_before() -> None:
    plain = study()
    assert plain.metrics[-1] == "best_arm_error"
    assert "response" not in plain.to_json()
    assert "response" not in plain.to_toml()
    assert plain.engines() == ("fast",)
    sampler, stream = entice.Players(loss=0.3).response_kernel(), new_stream(1, 0, PLAYER)
    before = stream.copy()
    assert sampler.responds(0.3, 0.1, sampler.params, stream)
    assert (stream == before).all()


def test_response_is_never_run_on_a_fast_path() -> None:
    """Not even one whose players rate with a probability of almost 1."""
    sure = study(players=entice.Players(response=entice.LogisticResponse(base=40.0)))
    assert sure.engines() == ("generic",)
    assert sure.metrics[-2:] == ("share_rated", "selection_bias")


def test_response_survives_a_round_trip_through_files() -> None:
    ours = study(players=entice.Players(response=RESPONSE))
    assert entice.Study.from_toml(ours.to_toml()) == ours
    assert entice.Study.from_json(ours.to_json()) == ours
    other = study(players=entice.Players(response=entice.LogisticResponse(-0.5, 1.5, 2.5)))
    assert len({ours.key(), other.key(), study().key()}) == 3


def test_results_with_and_without_response_can_be_combined_and_drawn() -> None:
    with plain_kernel():
        parts = [
            entice.run(study(replications=2, horizon=50, engine="generic", players=players),
                       progress=False)
            for players in (entice.Players(), entice.Players(response=RESPONSE))
        ]  # fmt: skip
    both = entice.Result.concat(parts).final
    assert both["share_rated"].is_null().to_list() == [True, True, False, False]
    assert parts[1].plot("share_rated").axes
    message = error_message(lambda: parts[0].plot("share_rated"))
    assert "metric is unknown" in message


def test_the_bias_is_measured_against_the_mean_of_the_round() -> None:
    """Against the first means it would be about 4."""
    arms = entice.Changing(entice.Gaussian([0.9, 0.1], std=0.1), at=[50], means=[[5.0, 4.0]])
    with plain_kernel():
        result = entice.simulate(
            arms=arms, policies=[entice.UCB()], horizon=300, replications=2, seed=7,
            players=entice.Players(response=entice.LogisticResponse(0)),
        )  # fmt: skip
    # About 150 ratings with a standard deviation of 0.1: six standard errors.
    assert abs(result.final["selection_bias"].to_numpy()).max() < 0.05


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: entice.LogisticResponse(base="a"), "LogisticResponse: base must be a number"),
        (lambda: entice.LogisticResponse(0, math.inf), "by_reward must be a finite number"),
        (lambda: entice.LogisticResponse(0, 0, math.nan), "by_payment must be a finite number"),
        (lambda: entice.Players(response=0.5), "response must be a LogisticResponse or None"),
    ],
)
def test_invalid_settings_are_rejected(make: Callable[[], object], message: str) -> None:
    assert message in error_message(make)


def test_an_unknown_response_in_a_file_is_reported_with_a_suggestion() -> None:
    text = """
        horizon = 10
        arms = { kind = "gaussian", means = [0.9, 0.1] }
        policies = [{ kind = "ucb" }]
        players = { response = { kind = "logistc", base = 0 } }
    """
    assert "Did you mean 'logistic'?" in error_message(lambda: entice.Study.from_toml(text))
