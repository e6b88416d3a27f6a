"""Worlds beyond the paper: every round equals the oracle's, and their effects on policies.

Each feature of a world is compared with the oracle by itself, in plain Python. `COMPILED` has
combinations in which each of their functions is compiled.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import polars as pl
import pytest
from oracles import algorithm1 as oracle
from oracles import worlds as oracle_world
from oracles.world_comparison import DELAYS, DRIFTS, SHORT, Draws, assert_same_world, by_response
from plain_kernel import plain_kernel
from sizes import sized

import entice
from entice.paper.setups import MEANS
from entice.testing import check_drift


def logistic(x: float, draws: Draws) -> bool:
    return draws.uniform("player") * (1 + math.exp(-(x - 0.1) / 0.05)) < 1


def table(x: float, draws: Draws) -> bool:
    return draws.uniform("player") < float(np.interp(x, [0.0, 0.1, 0.4], [0.3, 0.7, 0.9]))


@pytest.mark.parametrize("drift", DRIFTS)
def test_each_drift_equals_the_oracle_s_in_every_round(drift: str) -> None:
    assert_same_world(entice.UCB(), oracle.UCB(), drift=drift, totals=drift == "carried")


@pytest.mark.parametrize("delay", [0, 1, 7, 400])
@pytest.mark.parametrize("loss", [0.0, 0.3])
def test_late_and_lost_ratings_equal_the_oracle_s(delay: int, loss: float) -> None:
    players = entice.Players(delay=delay, loss=loss)
    assert_same_world(
        entice.ThompsonSampling(), oracle.Thompson("variance"), players=players, totals=True
    )


def test_declined_offers_equal_the_oracle_s() -> None:
    players = entice.Players(acceptance=entice.LogisticAcceptance(midpoint=0.1, width=0.05))
    assert_same_world(entice.UCB(), oracle.UCB(), players=players, accepts=logistic)
    shares = entice.TableAcceptance(payments=[0.0, 0.1, 0.4], shares=[0.3, 0.7, 0.9])
    players = entice.Players(acceptance=shares)
    assert_same_world(entice.UCB(), oracle.UCB(), players=players, accepts=table)


def test_probes_equal_the_oracle_s() -> None:
    probe = entice.Probe(share=0.4, amount=0.3)
    assert_same_world(entice.EpsilonGreedy(c=5), oracle.EpsilonGreedy(5.0), probe=probe)


def test_strategic_arms_equal_the_oracle_s() -> None:
    adversary = entice.StrategicArms(budget=7.5, at_most=0.6)
    assert_same_world(
        entice.UCB(),
        oracle.UCB(),
        adversary=adversary,
        manipulate=oracle_world.strategic(7.5, 0.6, 0),
    )


def test_the_attacker_equals_the_oracle_s() -> None:
    attack = oracle_world.attack(3, 0.5, 0.1, 0.05)
    adversary = entice.Attacker(target=3, sigma=0.5, delta=0.1, margin=0.05)
    assert_same_world(entice.UCB(), oracle.UCB(), adversary=adversary, manipulate=attack)


def all_features() -> dict[str, Any]:
    shares = entice.TableAcceptance(payments=[0.0, 0.1, 0.4], shares=[0.3, 0.7, 0.9])
    response = entice.LogisticResponse(base=0.5, by_reward=1.0, by_payment=2.0)
    return {
        "drift": "random",
        "players": entice.Players(delay=5, loss=0.2, acceptance=shares, response=response),
        "accepts": table,
        "responds": by_response(response),
        "probe": entice.Probe(share=0.2, amount=0.1),
        "adversary": entice.StrategicArms(budget=5, at_most=0.5),
        "manipulate": oracle_world.strategic(5, 0.5, 0),
    }


def test_all_features_together_equal_the_oracle_s() -> None:
    assert_same_world(
        entice.ThompsonSampling(), oracle.Thompson("variance"), **all_features(), totals=True
    )


COMPILED: dict[str, Callable[[], dict[str, Any]]] = {
    "power, logistic acceptance": lambda: {
        "drift": "power", "accepts": logistic,
        "players": entice.Players(acceptance=entice.LogisticAcceptance(midpoint=0.1, width=0.05)),
    },
    "negative, attacker": lambda: {
        "drift": "negative",
        "adversary": entice.Attacker(target=3, sigma=0.5, delta=0.1, margin=0.05),
        "manipulate": oracle_world.attack(3, 0.5, 0.1, 0.05),
    },
    "fading, probe": lambda: {"drift": "fading", "probe": entice.Probe(share=0.4, amount=0.3)},
    "carried, exponential delay": lambda: {
        "drift": "carried", "delay": DELAYS["exponential"][1],
        "players": entice.Players(delay=DELAYS["exponential"][0], loss=0.3),
    },
    "compression, table of delays": lambda: {
        "drift": "compression", "delay": DELAYS["table"][1],
        "players": entice.Players(delay=DELAYS["table"][0]),
    },
    "per arm, log-normal delay, in flight": lambda: {
        "policy": entice.UCB(count_in_flight=True), "in_flight_counts": True,
        "players": entice.Players(delay=DELAYS["log-normal"][0], rating_window=90),
        "delay": DELAYS["log-normal"][1],
    },
    "all features": all_features,
}  # fmt: skip


@pytest.mark.parametrize(
    ("features", "totals"),
    [
        *((features, True) for features in sized(["all features"], [*COMPILED])),
        ("all features", False),
    ],
)
def test_compiled_combinations_equal_the_oracle_s(features: str, totals: bool) -> None:
    """All features in the loops of a study and of a trace; long: each function by itself too.

    `make test` compares each of them in plain Python.
    """
    world = {"policy": entice.UCB()} | COMPILED[features]()
    assert_same_world(world.pop("policy"), oracle.UCB(), **world, totals=totals, compiled=True)


# --- Effects of worlds on policies ------------------------------------------------------------


def paper(**settings: Any) -> entice.Result:
    defaults: dict[str, Any] = {
        "arms": entice.Gaussian(MEANS),
        "policies": [entice.UCB()],
        "drifts": [entice.LinearDrift(0.4)],
        "horizon": 20_000,
        "replications": 40,
        "seed": 7,
        "checkpoints": 1,
    }
    return entice.simulate(**defaults | settings, progress=False)


def mean(result: entice.Result, metric: str = "regret") -> tuple[float, float]:
    (row,) = result.summary().filter(metric=metric).iter_rows(named=True)
    return row["mean"], row["stderr"]


def test_late_and_missing_ratings_cost_regret() -> None:
    """The best arm is last: unrated arms are selected first, in the order of their index."""
    arms = entice.Gaussian(MEANS[::-1])
    at_once, late, missing = (
        mean(paper(arms=arms, drifts=[entice.LinearDrift(1.1)], players=players))
        for players in (entice.Players(), entice.Players(delay=500), entice.Players(loss=0.7))
    )
    for worse in (late, missing):  # by five standard errors, and by half
        assert worse[0] - 5 * worse[1] > 1.5 * (at_once[0] + 5 * at_once[1])


@pytest.mark.usefixtures("plain")
def test_an_attacker_gets_its_target_pulled() -> None:
    settings: Any = {"drifts": [entice.LinearDrift(0)], "horizon": 1_000, "replications": 5}
    attacked, usual = (
        np.array(paper(**settings, adversary=adversary).final["pulls"].to_list())[:, 8]
        for adversary in (entice.Attacker(target=8), entice.NoAdversary())
    )
    assert (attacked > 0.8 * 1_000).all()
    assert (usual < 0.2 * 1_000).all()


def test_players_who_decline_are_not_paid() -> None:
    short: Any = {"horizon": 500, "replications": 4, "engine": "generic"}
    never = entice.TableAcceptance(payments=[0, 1], shares=[0, 0])
    always = entice.TableAcceptance(payments=[0, 1], shares=[1, 1])
    with plain_kernel():
        result, taken = (
            paper(**short, players=entice.Players(acceptance=shares)) for shares in (never, always)
        )
    assert mean(result, "compensation")[0] == 0.0
    plain = paper(**short)
    assert mean(plain, "compensation")[0] > 0.0
    assert taken.final.equals(plain.final)


# --- Diverging payments -----------------------------------------------------------------------


@pytest.mark.parametrize("engine", ["auto", "generic"])
def test_a_run_with_diverging_payments_is_stopped_and_marked(
    engine: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    result = paper(
        policies=[entice.EpsilonGreedy(c=5)], drifts=[entice.LinearDrift(5.0)], engine=engine,
        checkpoints=[100, 20_000],
    )  # fmt: skip
    final = result.final
    ran_away = final["stopped"].is_not_null()
    assert 0 < ran_away.sum() < 40
    assert final.filter(ran_away)["regret"].is_nan().all()
    assert final.filter(ran_away)["compensated_pulls"].is_null().all()
    assert not final.filter(~ran_away)["regret"].is_nan().any()
    assert np.isfinite(final.filter(~ran_away)["compensation"].to_numpy()).all()
    message = capsys.readouterr().err
    assert message.startswith("entice: payments grow without bound in runs of EpsilonGreedy(c=5)")
    assert f"payments grew without bound in {ran_away.sum()} of 40 runs" in message
    first = int(final["stopped"].drop_nulls().to_numpy().min())
    assert f"first in round {first:,}" in message
    summary = result.summary().filter(metric="compensation").row(0, named=True)
    assert math.isnan(summary["mean"])
    assert math.isfinite(summary["q05"])  # most runs' quantiles are known


@pytest.mark.parametrize("policy", [entice.UCB(), entice.ThompsonSampling()])
def test_fast_paths_stop_runs_where_the_kernel_does(policy: Any) -> None:
    """The drift has to be extreme: these two policies pay a few widths at most."""
    stopped = []
    for engine in ("auto", "generic"):
        result = paper(
            policies=[policy], drifts=[entice.LinearDrift(1e7)], engine=engine, horizon=2_000
        )
        rounds = result.final["stopped"]
        stopped.append(rounds.len() - rounds.null_count())
    # Both shares from 40 runs: a difference of 20 has a probability below 1e-5.
    assert abs(stopped[0] - stopped[1]) < 20
    assert min(stopped) > 0


def test_stopped_runs_do_not_affect_the_others() -> None:
    settings: Any = {"policies": [entice.EpsilonGreedy(c=5)], "drifts": [entice.LinearDrift(5.0)]}
    whole = paper(**settings).final
    part = paper(**settings, replications=20).final
    assert part.equals(whole.head(20))


def test_a_trace_ends_where_payments_diverge() -> None:
    settings: Any = {
        "arms": entice.Gaussian(MEANS), "policies": [entice.EpsilonGreedy(c=5)], "seed": 7,
        "drifts": [entice.LinearDrift(5.0)], "horizon": 20_000,
    }  # fmt: skip
    stopped = entice.simulate(
        **settings, replications=40, engine="generic", progress=False
    ).final.filter(pl.col("stopped").is_not_null())
    which, t = stopped["replication"][0], stopped["stopped"][0]
    with plain_kernel():
        rounds = entice.trace(**settings, replication=which)
    assert rounds["t"].to_list()[-1] == t - 1
    assert np.isfinite(rounds["feedback"].to_numpy()).all()


def test_an_unrated_arm_displays_the_prior_if_ratings_are_missing() -> None:
    settings: Any = {
        "arms": entice.Gaussian([4.1, 4.0, 3.9]), "policies": [entice.UCB()], "seed": 7,
        "players": entice.Players(loss=0.7), "horizon": 200,
    }  # fmt: skip
    with plain_kernel():
        without, with_prior = (entice.trace(**settings, prior=prior) for prior in (0.0, 4.0))
    assert without["payment"].to_numpy().max() > 3
    assert with_prior["payment"].to_numpy().max() < 3
    with pytest.raises(entice.InputError, match="ratings that are late or missing"):
        entice.trace(**settings | {"players": entice.Players()}, prior=4.0)


# --- Specs ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: entice.NegativeDrift(-1), "NegativeDrift: l must not be negative"),
        (lambda: entice.PowerDrift(1, 0), "exponent must be greater than 0"),
        (lambda: entice.RandomDrift(1, 0.5), "highest must not be below the lowest slope, 1"),
        (lambda: entice.ArmDrift([1]), "slopes must have at least 2 numbers"),
        (lambda: entice.ArmDrift([1, -1]), "slopes must not be negative"),
        (lambda: entice.FadingDrift(1, 0), "half_life must be greater than 0"),
        (lambda: entice.CarriedDrift(1, 1), "keep must be at least 0 and less than 1"),
        (lambda: entice.CompressionDrift(0.5, 1.5), "strength must be from 0 to 1"),
        (lambda: entice.Players(delay=-1), "delay must be a whole number of at least 0"),
        (lambda: entice.Players(loss=1), "loss must be at least 0 and less than 1"),
        (lambda: entice.Players(acceptance=0.5), "acceptance must be one of AlwaysAccept"),
        (lambda: entice.LogisticAcceptance(0, 0), "width must be greater than 0"),
        (lambda: entice.TableAcceptance([0, 0], [0, 1]), "payments must increase"),
        (lambda: entice.TableAcceptance([0, 1], [0, 1, 1]), "as many entries as payments, 2"),
        (lambda: entice.TableAcceptance([0, 1], [0, 2]), "shares must lie between 0 and 1"),
        (lambda: entice.StrategicArms(0), "budget must be greater than 0"),
        (lambda: entice.Attacker(delta=1), "delta must lie between 0 and 1"),
        (lambda: entice.Attacker(sigma=-1), "sigma must not be negative"),
        (lambda: entice.Attacker(margin=-1), "margin must not be negative"),
        (lambda: entice.Probe(share=0), "share must be greater than 0 and at most 1"),
        (lambda: entice.Probe(amount=0), "amount must be greater than 0"),
        (lambda: paper(drifts=[entice.ArmDrift([1, 2])]), "one slope for each of the 9 arms"),
        (lambda: paper(adversary=entice.Attacker(target=9)), "must be an arm from 0 to 8"),
        (lambda: paper(players=3), "players must be one of Players"),
        (lambda: paper(adversary="x"), "must be one of NoAdversary, StrategicArms, Attacker"),
        (lambda: paper(probe=0.1), "probe must be a Probe or None"),
    ],
)
def test_invalid_settings_are_rejected(make: Callable[[], Any], words: str) -> None:
    with pytest.raises(entice.InputError, match=words):
        make()


def test_a_world_survives_a_round_trip_through_toml_and_json() -> None:
    study = entice.Study(
        arms=entice.Gaussian(SHORT),
        policies=[entice.UCB()],
        drifts=[drift for drift, _ in DRIFTS.values()],
        horizon=100,
        players=entice.Players(
            acceptance=entice.TableAcceptance([0, 1], [0.2, 0.8]), delay=3, loss=0.1
        ),
        adversary=entice.Attacker(target=1),
        probe=entice.Probe(share=0.1, amount=0.2),
    )
    assert entice.Study.from_toml(study.to_toml()) == study
    assert entice.Study.from_json(study.to_json()) == study


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("players = 3", "players must be a table of settings"),
        ("players = { delays = 3 }", "Did you mean 'delay'"),
        ('players = { acceptance = { kind = "tables" } }', "Did you mean 'table'"),
        ('adversary = { kind = "attackers" }', "Did you mean 'attacker'"),
        ("probe = { share = 2 }", "share must be greater than 0 and at most 1"),
    ],
)
def test_misspelt_settings_are_reported_with_a_suggestion(text: str, words: str) -> None:
    study = (
        'horizon = 100\narms = { kind = "bernoulli", means = [0.9, 0.5] }\n'
        'policies = [{ kind = "ucb" }]\n'
    )
    with pytest.raises(entice.InputError, match=words):
        entice.Study.from_toml(study + text)


@pytest.mark.parametrize("drift", [drift for drift, _ in DRIFTS.values()], ids=lambda d: d.label)
def test_each_drift_declares_correctly_whether_assumption_1_holds(drift: Any) -> None:
    assert check_drift(drift) is None
    assert (drift.lipschitz == math.inf) == bool(drift.outside)
    study = entice.Study(
        arms=entice.Bernoulli(SHORT), policies=[entice.UCB()], drifts=[drift], horizon=100
    )
    answer = entice.theory.theorem1.regret.applies(study)
    assert bool(answer) == (not drift.outside)
    if drift.outside:
        assert any(drift.outside in reason for reason in answer.reasons)


def test_only_the_papers_world_has_fast_paths() -> None:
    def engine(**world: Any) -> str:
        settings: Any = {"arms": entice.Gaussian(SHORT), "policies": [entice.UCB()], "horizon": 100}
        return entice.Study(**settings | world).engines()[0]

    assert engine() == engine(drifts=[entice.PowerDrift(5, 2)]) == "fast"
    for world in (
        {"players": entice.Players(delay=1)},
        {"adversary": entice.StrategicArms(budget=1)},
        {"probe": entice.Probe()},
        {"drifts": [entice.CarriedDrift(1, 0.5)]},
    ):
        assert engine(**world) == "generic"
