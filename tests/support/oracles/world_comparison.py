"""Comparison of a world in the package with the plain-Python oracle."""

from __future__ import annotations

import bisect
import contextlib
import math
from collections.abc import Callable
from typing import Any

import pytest
from plain_kernel import plain_kernel
from sizes import LONG
from tracing import untraced

import entice
from entice.rng import PLAYER, POLICY, PROBE, REWARD, new_stream, normal, uniform
from entice.worlds.delays import Delay
from oracles import algorithm1 as oracle
from oracles import worlds as oracle_world

SHORT = [0.9, 0.6, 0.5, 0.1]
SEED, REPLICATION = 11, 2


class Draws:
    """The random streams of a replication."""

    def __init__(self, seed: int) -> None:
        purposes = {"policy": POLICY, "reward": REWARD, "player": PLAYER, "probe": PROBE}
        self.of = {name: new_stream(seed, REPLICATION, p) for name, p in purposes.items()}

    def uniform(self, name: str) -> float:
        return float(uniform(self.of[name]))

    def normal(self, name: str) -> float:
        return float(normal(self.of[name]))


def carried(l: float, keep: float) -> Callable[..., float]:
    carried_over: dict[int, float] = {}

    def drift(r: float, x: float, t: int, arm: int) -> float:
        carried_over[arm] = keep * carried_over.get(arm, 0.0) + l * x
        return carried_over[arm]

    return drift


def by_response(response: entice.LogisticResponse) -> Callable[[float, float, Draws], bool]:
    def responds(reward: float, payment: float, draws: Draws) -> bool:
        odds = math.exp(response.base + response.by_reward * reward + response.by_payment * payment)
        return draws.uniform("player") < odds / (1 + odds)

    return responds


def by_player(draws: Draws) -> Callable[..., float]:
    return lambda r, x, t, arm: (0.2 + 1.3 * draws.uniform("player")) * x if x > 0 else 0.0


DRIFTS: dict[str, tuple[Any, Callable[[Draws], Callable[..., float]]]] = {
    "power": (
        entice.PowerDrift(5, 2),
        lambda _: lambda r, x, t, arm: 5 * x**2.0 if x > 0 else 0.0,
    ),
    "negative": (
        entice.NegativeDrift(1.1),
        lambda _: lambda r, x, t, arm: -1.1 * x if x > 0 else 0.0,
    ),
    "per arm": (
        entice.ArmDrift([0.1, 0.5, 1.0, 2.0]),
        lambda _: lambda r, x, t, arm: [0.1, 0.5, 1.0, 2.0][arm] * x if x > 0 else 0.0,
    ),
    "fading": (
        entice.FadingDrift(l=1.1, half_life=50),
        lambda _: lambda r, x, t, arm: 1.1 * x * math.exp(-math.log(2) / 50 * t) if x > 0 else 0.0,
    ),
    "random": (entice.RandomDrift(0.2, 1.5), by_player),
    "carried": (entice.CarriedDrift(l=0.5, keep=0.8), lambda _: carried(0.5, 0.8)),
    "compression": (
        entice.CompressionDrift(target=0.75, strength=0.4),
        lambda _: lambda r, x, t, arm: 0.4 * (0.75 - r) if x > 0 else 0.0,
    ),
}


ROUNDS = [0.0, 2.0, 10.5, 40.0]
SHARES = [0.1, 0.1, 0.6, 1.0]


def by_table(draws: Draws) -> float:
    u = draws.uniform("player")
    i = bisect.bisect_right(SHARES, u)
    if i == 0:
        return ROUNDS[0]
    part = (u - SHARES[i - 1]) / (SHARES[i] - SHARES[i - 1])
    return ROUNDS[i - 1] + part * (ROUNDS[i] - ROUNDS[i - 1])


DELAYS: dict[str, tuple[Delay, Callable[[Draws], float]]] = {
    "exponential": (
        entice.ExponentialDelay(mean=25),
        lambda draws: -25 * math.log(1 - draws.uniform("player")),
    ),
    "log-normal": (
        entice.LogNormalDelay(median=15, sigma=1.5),
        lambda draws: 15 * math.exp(1.5 * draws.normal("player")),
    ),
    "table": (entice.TableDelay(ages=ROUNDS, shares=SHARES), by_table),
}


@untraced  # most of it is the oracle
def assert_same_world(
    policy: Any,
    plain_policy: oracle.Policy,
    *,
    drift: str = "per arm",
    accepts: Callable[[float, Draws], bool] | None = None,
    delay: Callable[[Draws], float] | None = None,
    manipulate: Callable[..., float] | None = None,
    in_flight_counts: bool = False,
    responds: Callable[[float, float, Draws], bool] | None = None,
    horizon: int = 250,
    totals: bool = False,
    exact: bool = False,
    compiled: bool = False,
    seed: int = SEED,
    **world: Any,
) -> None:
    """Run the package and the oracle on the same draws, and compare all rounds.

    `accepts`, `responds` and `delay` define the players in plain Python; a constant delay needs no
    function.
    `totals` also compares the metrics of a study, whose loop is compiled separately from that of a
    trace. `exact` compares bit for bit. `compiled` compiles the loop of the study if there are
    totals, and otherwise that of the trace; other loops run in plain Python. `make test-long`
    compiles all loops.
    """
    ours_drift, plain_drift = DRIFTS[drift]
    settings: dict[str, Any] = {
        "arms": entice.Gaussian(SHORT, std=0.5),
        "policies": [policy],
        "drifts": [ours_drift],
        "horizon": horizon,
        "seed": seed,
        "engine": "generic",
        **world,
    }
    with _loop(compiled and not totals):
        rounds = entice.trace(**settings, replication=REPLICATION)
    players, probe = world.get("players", entice.Players()), world.get("probe")
    draws = Draws(seed)

    def coin() -> int | None:
        if probe is None:
            return None
        u = draws.uniform("probe")
        return None if u >= probe.share else int(u < probe.share / 2)

    plain = oracle_world.play(
        policy=plain_policy,
        arms=len(SHORT),
        horizon=horizon,
        reward=lambda arm: SHORT[arm] + 0.5 * draws.normal("reward"),
        drift=plain_drift(draws),
        accepts=(lambda x: accepts(x, draws)) if accepts else lambda x: True,
        coin=coin,
        probe_amount=probe.amount if probe else 0.0,
        is_lost=lambda: players.loss > 0 and draws.uniform("player") < players.loss,
        delay=(lambda: delay(draws)) if delay else lambda: players.delay,
        rating_window=players.rating_window,
        manipulate=manipulate or (lambda feedback, arm, ratings: 0.0),
        uniform=lambda: draws.uniform("policy"),
        normal=lambda: draws.normal("policy"),
        in_flight_counts=in_flight_counts,
        responds=(lambda r, x: responds(r, x, draws)) if responds else lambda r, x: True,
    )
    shown = ["t", "arm", "greedy", "payment", "drift", "feedback"]
    shown += ["offered"] if accepts else []
    shown += ["seen_from"] if players.delay != 0 else []
    shown += ["probe"] if probe else []
    theirs = [tuple(getattr(r, name) for name in shown) for r in plain]
    names = {"greedy": "greedy_arm", "offered": "offered_arm"}
    ours = rounds.select([names.get(name, name) for name in shown]).rows()
    assert len(ours) == len(theirs)
    for mine, expected in zip(ours, theirs, strict=True):
        for value, other in zip(mine, expected, strict=True):
            is_same = value == other or (
                not exact
                and None not in (value, other)
                and math.isclose(value, other, abs_tol=1e-12)
            )
            assert is_same, (mine, expected)
    if not totals:
        return
    with _loop(compiled):
        final = entice.simulate(**settings, replications=REPLICATION + 1, progress=False).final
    row = final.row(REPLICATION, named=True)
    assert row["compensation"] == pytest.approx(sum(r.payment for r in plain))
    assert row["compensated_pulls"] == sum(r.payment > 0 for r in plain)
    assert row["total_drift"] == pytest.approx(sum(r.drift for r in plain))
    assert row["regret"] == pytest.approx(sum(0.9 - SHORT[r.arm] for r in plain))
    assert list(row["pulls"]) == [sum(r.arm == i for r in plain) for i in range(len(SHORT))]
    if responds:
        rated = [r.reward - SHORT[r.arm] for r in plain if r.feedback is not None]
        assert row["share_rated"] == len(rated) / horizon
        bias = sum(rated) / len(rated) if rated else math.nan
        assert row["selection_bias"] == pytest.approx(bias, nan_ok=True)


def _loop(compiled: bool) -> contextlib.AbstractContextManager[None]:
    return contextlib.nullcontext() if compiled or LONG else plain_kernel()
