"""The worlds and policies of the atlas."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any, NamedTuple

from entice.policies import (
    MOSS,
    UCB,
    AlternatingThompson,
    DiscountedUCB,
    DriftCorrectedThompson,
    EpsilonGreedy,
    EqualPay,
    EqualPayElimination,
    Policy,
    SlidingWindowUCB,
    ThompsonSampling,
)
from entice.worlds.adversaries import Attacker, StrategicArms
from entice.worlds.arms import Bernoulli, Gaussian
from entice.worlds.changing_arms import Changing, Wandering
from entice.worlds.drifts import (
    ArmDrift,
    CarriedDrift,
    CompressionDrift,
    FadingDrift,
    LinearDrift,
    NegativeDrift,
    NoDrift,
    PowerDrift,
    RandomDrift,
    SaturatingDrift,
    StepDrift,
)
from entice.worlds.players import Players, TableAcceptance
from entice.worlds.response import LogisticResponse

SHUFFLED = (0.5, 0.1, 0.7, 0.3, 0.9, 0.2, 0.8, 0.4, 0.6)
"""The paper's means in a different order: ties go to the first arm, so it must not be the best."""


class AtlasWorld(NamedTuple):
    """A row of the atlas: a name and the settings of a study. Default arms: the paper's nine."""

    name: str
    settings: MappingProxyType[str, Any]


def _world(name: str, drift: Any, **settings: Any) -> AtlasWorld:
    defaults = {"arms": Gaussian(SHUFFLED), "drifts": (drift,)} | settings
    return AtlasWorld(name, MappingProxyType(defaults))


_L = LinearDrift(1.1)
# Uptake by incentive in Thornton's randomised experiment (American Economic Review 98, 2008),
# rescaled to our payments.
_UPTAKE = TableAcceptance(
    payments=(0.0, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3),
    shares=(0.34, 0.67, 0.77, 0.84, 0.87, 0.86, 0.85),
)
_ARMS = Gaussian(SHUFFLED)
_REVERSED = tuple(round(1.0 - mean, 1) for mean in SHUFFLED)
# At each change, every mean moves on by four arms.
_ROTATED = tuple(SHUFFLED[-4 * k % 9 :] + SHUFFLED[: -4 * k % 9] for k in range(1, 10))
_SATISFIED = LogisticResponse(base=-0.5, by_reward=1.0)
_OR_PAID = LogisticResponse(base=-0.5, by_reward=1.0, by_payment=3.0)

WORLDS = (
    _world("no drift", NoDrift()),
    _world("linear, l = 0.4", LinearDrift(0.4)),
    _world("linear, l = 1.1", _L),
    _world("linear, l = 3", LinearDrift(3.0)),
    _world("linear, l = 5", LinearDrift(5.0)),
    _world("linear, l = 10", LinearDrift(10.0)),
    _world("saturating at 0.2", SaturatingDrift(l=1.1, cap=0.2)),
    _world("step of 0.3", StepDrift(0.3)),
    _world("quadratic, 5x²", PowerDrift(5.0, 2.0)),
    _world("root, 0.5√x", PowerDrift(0.5, 0.5)),
    _world("negative, −1.1x", NegativeDrift(1.1)),
    _world("random by player, l ≤ 2.2", RandomDrift(0.0, 2.2)),
    _world("by arm, l ≤ 2.2", ArmDrift((1.1, 2.2, 0.3, 1.6, 0.0, 0.8, 1.9, 0.5, 1.4))),
    _world("fading, half-life 5,000", FadingDrift(1.1, 5_000.0)),
    _world("carried over, 80 %", CarriedDrift(0.3, 0.8)),
    _world("compression to 0.75", CompressionDrift(0.75, 0.4)),
    _world("ratings 500 rounds late", _L, players=Players(delay=500)),
    _world("70 % of ratings missing", _L, players=Players(loss=0.7)),
    _world("players who decline", _L, players=Players(acceptance=_UPTAKE)),
    _world("the satisfied rate", _L, players=Players(response=_SATISFIED)),
    _world("the satisfied and the paid rate", _L, players=Players(response=_OR_PAID)),
    _world(
        "the satisfied rate, unequal noise",
        _L,
        players=Players(response=_SATISFIED),
        arms=Gaussian(SHUFFLED, std=(1.0, 1.0, 1.0, 1.0, 0.5, 1.0, 2.0, 1.0, 1.0)),
    ),
    _world("arms that cheat, budget 50", _L, adversary=StrategicArms(50.0)),
    _world("an attacker", NoDrift(), adversary=Attacker()),
    _world("means reversed at 10,000", _L, arms=Changing(_ARMS, (10_001,), (_REVERSED,))),
    _world(
        "means rotate every 2,000", _L, arms=Changing(_ARMS, range(2_001, 20_000, 2_000), _ROTATED)
    ),
    _world("means wander, 0.01", _L, arms=Wandering(_ARMS, 0.01)),
    _world("noise 0.25", _L, arms=Gaussian(SHUFFLED, std=0.25)),
    _world("noise 2", _L, arms=Gaussian(SHUFFLED, std=2.0)),
    _world("Bernoulli, projected", _L, arms=Bernoulli(SHUFFLED), feedback_range=(0.0, 1.0)),
)
"""The default worlds of the atlas: 30 `AtlasWorld`, by drift, players, adversary and arms."""


def default_policies(horizon: int) -> tuple[Policy, ...]:
    """Return the default policies. Some of them know the number of rounds.

    About the last tenth of the ratings counts for discounted and sliding-window UCB. Their ξ was
    chosen in the worlds whose means change: with ξ = 2, their regret is larger there.
    """
    return (
        UCB(),
        UCB(count_in_flight=True),
        DiscountedUCB(gamma=max(0.5, 1 - 10 / horizon), xi=0.5),
        SlidingWindowUCB(window=max(1, horizon // 10), xi=0.5),
        MOSS(horizon=horizon),
        EpsilonGreedy(c=5),
        ThompsonSampling(),
        AlternatingThompson(),
        DriftCorrectedThompson(),
        EqualPay(horizon=horizon),
        EqualPay(),
        EqualPayElimination(horizon=horizon),
    )
