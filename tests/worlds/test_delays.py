"""Late ratings: every round equals the oracle's, and delays have the stated distributions."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import algorithm1 as oracle
from oracles.world_comparison import DELAYS, ROUNDS, SEED, SHARES, assert_same_world
from plain_kernel import plain_kernel
from sizes import sized
from spec_fixtures import error_message

import entice
from entice.policies.policy import update_inverse_roots
from entice.rng import PLAYER, new_stream
from entice.worlds.delays import Delay

pytestmark = pytest.mark.usefixtures("unmeasured")

POLICIES: dict[str, tuple[Any, oracle.Policy, bool]] = {
    "ucb": (entice.UCB(), oracle.UCB(), False),
    "ucb in flight": (entice.UCB(count_in_flight=True), oracle.UCB(), True),
    "thompson": (entice.ThompsonSampling(), oracle.Thompson("variance"), False),
}


@pytest.mark.parametrize(
    ("delay", "policy"),
    [*((delay, "ucb in flight") for delay in DELAYS), ("log-normal", "ucb"), ("table", "thompson")],
)
@settings(max_examples=sized(4, 8), deadline=None, derandomize=True)
@given(data=st.data())
def test_random_delays_equal_the_oracle_s(delay: str, policy: str, data: Any) -> None:
    ours, plain, counts = POLICIES[policy]
    drawn, plainly = DELAYS[delay]
    players = entice.Players(
        delay=drawn,
        loss=data.draw(st.sampled_from([0.0, 0.3, 0.9]), "loss"),
        rating_window=data.draw(st.sampled_from([None, 1, 7, 40, 90, 5000]), "window"),
    )
    assert_same_world(
        ours, plain, players=players, delay=plainly, in_flight_counts=counts,
        seed=data.draw(st.integers(0, 2**32), "seed"),
        horizon=data.draw(st.integers(4, 300), "horizon"), totals=delay == "exponential",
        exact=True,
    )  # fmt: skip


@pytest.mark.parametrize("delay", [0, 1, 12, 400])
@settings(max_examples=sized(2, 4), deadline=None, derandomize=True)
@given(data=st.data())
def test_constant_delays_equal_the_oracle_s(delay: int, data: Any) -> None:
    """Loss is never 0 with delay 0, because then nothing is in flight."""
    losses = [0.3, 0.9] if delay == 0 else [0.0, 0.3, 0.9]
    players = entice.Players(
        delay=delay,
        loss=data.draw(st.sampled_from(losses), "loss"),
        rating_window=data.draw(st.sampled_from([None, delay + 1, delay + 60]), "window"),
    )
    assert_same_world(
        entice.UCB(count_in_flight=True), oracle.UCB(), players=players, in_flight_counts=True,
        seed=data.draw(st.integers(0, 2**32), "seed"), horizon=500, totals=True, exact=True,
    )  # fmt: skip


def test_the_comparison_detects_a_different_counting_rule() -> None:
    """A control: either side counts no pulls in flight."""
    players = entice.Players(delay=DELAYS["exponential"][0])
    for ours, counts in ((entice.UCB(), True), (entice.UCB(count_in_flight=True), False)):
        with pytest.raises(AssertionError):
            assert_same_world(
                ours, oracle.UCB(), players=players, delay=DELAYS["exponential"][1],
                in_flight_counts=counts,
            )  # fmt: skip


def test_expected_ratings_too_small_to_change_a_sum_with_1_are_distinguished() -> None:
    """Late ratings are hardly expected at first: few pulls of the same age were rated."""
    roots, taken = np.zeros(3), np.zeros(3)
    for counts in ([1e-20, 1e-22, 0.0], [1e-22, 1e-20, 0.0], [1e-22, 0.0, 2.0], [0.0, 1e-24, 2.0]):
        pulls = np.array(counts)
        update_inverse_roots(roots, taken, pulls, 0, 0)
        with np.errstate(divide="ignore"):
            assert (roots == 1 / np.sqrt(pulls)).all()


# --- The distributions ------------------------------------------------------------------------


def draws_of(delay: Delay, count: int = 100_000) -> Any:
    sampler, stream = delay.sampler(), new_stream(SEED, 0, PLAYER)
    return np.array([sampler.draw(sampler.params, stream) for _ in range(count)])


CUMULATIVE: dict[str, Callable[[Any], Any]] = {
    "exponential": lambda x: 1 - np.exp(-x / 25),
    "log-normal": lambda x: (
        0.5 + 0.5 * np.vectorize(math.erf)(np.log(np.maximum(x, 1e-300) / 15) / 1.5 / math.sqrt(2))
    ),
    "table": lambda x: np.interp(x, ROUNDS, SHARES),
}


@pytest.mark.parametrize("delay", DELAYS)
def test_delays_have_the_stated_distribution(delay: str) -> None:
    """Dvoretzky, Kiefer and Wolfowitz: P(sup |F_n − F| > 0.0084) < 2 exp(−2 n 0.0084²) = 2e-6."""
    drawn = draws_of(DELAYS[delay][0])
    ages = np.linspace(0, 200, 400)
    shares = np.searchsorted(np.sort(drawn), ages, side="right") / len(drawn)
    distance = np.abs(shares - CUMULATIVE[delay](ages)).max()
    assert distance < 0.0084
    others = [name for name in DELAYS if name != delay]
    for other in others:  # a control: the distributions differ
        assert np.abs(shares - CUMULATIVE[other](ages)).max() > 0.05


def test_a_table_may_have_immediate_ratings_and_ages_without_ratings() -> None:
    drawn = draws_of(DELAYS["table"][0], 10_000)
    assert ((drawn == 0) | ((drawn >= 2) & (drawn <= 40))).all()
    # 10 % are immediate: 4.5 standard deviations of 10,000 draws are 0.0135, p < 7e-6.
    assert abs((drawn == 0).mean() - 0.1) < 0.0135


def test_a_constant_delay_draws_nothing() -> None:
    sampler, stream = entice.Players(delay=3).delay_sampler(), new_stream(SEED, 0, PLAYER)
    before = stream.copy()
    assert sampler.draw(sampler.params, stream) == 3.0
    assert (stream == before).all()


# --- The rating window ------------------------------------------------------------------------


def traced(players: entice.Players, policy: Any = None, **world: Any) -> Any:
    given: dict[str, Any] = {
        "arms": entice.Gaussian([0.9, 0.6, 0.5, 0.1]), "policies": [policy or entice.UCB()],
        "drifts": [entice.LinearDrift(0.5)], "horizon": 400, "seed": SEED,
    }  # fmt: skip
    with plain_kernel():
        return entice.trace(**given | world, players=players)


def test_no_rating_arrives_after_the_window() -> None:
    late = entice.ExponentialDelay(mean=25)
    rounds = traced(entice.Players(delay=late, rating_window=10))
    waits = (rounds["seen_from"] - rounds["t"]).drop_nulls()
    assert (waits.min(), waits.max()) == (1, 10)
    # A share exp(−10/25) of exponential delays is too long: 268 of 400; 4.5 standard deviations are
    # 43, p < 7e-6.
    assert abs(rounds["feedback"].null_count() - 400 * math.exp(-0.4)) < 43
    whole = traced(entice.Players(delay=late))
    assert whole["feedback"].null_count() == 0  # ratings after the end are not lost
    assert whole["seen_from"].null_count() > 0


def test_a_window_that_no_rating_exceeds_changes_nothing() -> None:
    delay = entice.TableDelay(ages=[0, 50], shares=[0, 1])
    whole = traced(entice.Players(delay=delay))
    assert whole.equals(traced(entice.Players(delay=delay, rating_window=51)))
    assert not whole.equals(traced(entice.Players(delay=delay, rating_window=40)))


def test_the_longest_wait_is_limited_by_delay_window_and_horizon() -> None:
    waits = {
        entice.Players(delay=7): 8,
        entice.Players(loss=0.5): 1,
        entice.Players(delay=5_000): 1_000,
        entice.Players(delay=entice.ExponentialDelay(mean=3)): 1_000,
        entice.Players(delay=entice.ExponentialDelay(mean=3), rating_window=50): 50,
        entice.Players(delay=entice.TableDelay([0, 20.5], [0, 1])): 21,
        entice.Players(delay=entice.TableDelay([0, 20.5], [0, 1]), rating_window=10): 10,
    }
    assert [players.longest_wait(1_000) for players in waits] == list(waits.values())


def test_a_long_study_needs_a_window_that_fits_into_memory() -> None:
    def study(**players: Any) -> entice.Study:
        return entice.Study(
            arms=entice.Gaussian([0.9, 0.1]), policies=[entice.UCB()], horizon=10**9,
            players=entice.Players(**players),
        )  # fmt: skip

    late = entice.ExponentialDelay(mean=300)
    study(delay=late, rating_window=10**7)
    study(delay=10**7)
    for window in (None, 10**8):
        message = error_message(lambda window=window: study(delay=late, rating_window=window))
        assert "rating_window must be set, to at most 10,000,000" in message


# --- Files and validation ---------------------------------------------------------------------


@pytest.mark.parametrize("delay", [7, *(drawn for drawn, _ in DELAYS.values())])
def test_delays_survive_a_round_trip_through_files(delay: Any) -> None:
    study = entice.Study(
        arms=entice.Gaussian([0.9, 0.1]), policies=[entice.UCB()], horizon=10, seed=1,
        players=entice.Players(delay=delay, rating_window=60),
    )  # fmt: skip
    assert entice.Study.from_toml(study.to_toml()) == study
    assert entice.Study.from_json(study.to_json()) == study
    other = entice.Study(
        arms=entice.Gaussian([0.9, 0.1]), policies=[entice.UCB()], horizon=10, seed=1,
        players=entice.Players(delay=delay),
    )  # fmt: skip
    assert study.key() != other.key()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: entice.ExponentialDelay(mean=0), "ExponentialDelay: mean must be greater than 0"),
        (lambda: entice.ExponentialDelay(mean="a"), "ExponentialDelay: mean must be a number"),
        (lambda: entice.LogNormalDelay(median=-1, sigma=1), "median must be greater than 0"),
        (lambda: entice.LogNormalDelay(median=1, sigma=0), "sigma must be greater than 0"),
        (lambda: entice.TableDelay([0, 0], [0, 1]), "ages must increase"),
        (lambda: entice.TableDelay([-1, 1], [0, 1]), "ages must not be negative"),
        (lambda: entice.TableDelay([0, 1], [0, 0.5, 1]), "as many entries as ages, 2"),
        (lambda: entice.TableDelay([0, 1, 2], [0.5, 0.4, 1]), "nor decrease"),
        (lambda: entice.TableDelay([0, 1], [0, 0.8]), "shares must end with 1"),
        (lambda: entice.Players(delay="late"), "delay must be a number"),
        (lambda: entice.Players(delay=2.5), "delay must be a whole number"),
        (lambda: entice.Players(rating_window=0), "rating_window must be a whole number of at le"),
        (lambda: entice.Players(delay=7, rating_window=7), "must be greater than the delay, 7"),
    ],
)
def test_invalid_settings_are_rejected(make: Callable[[], object], message: str) -> None:
    assert message in error_message(make)


def test_an_unknown_delay_in_a_file_is_reported_with_a_suggestion() -> None:
    text = """
        horizon = 10
        arms = { kind = "gaussian", means = [0.9, 0.1] }
        policies = [{ kind = "ucb" }]
        players = { delay = { kind = "exponentail", mean = 3 } }
    """
    assert "Did you mean 'exponential'?" in error_message(lambda: entice.Study.from_toml(text))
