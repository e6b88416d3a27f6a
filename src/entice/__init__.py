"""Entice: pay people to explore, and don't be fooled by their gratitude.

Incentivized exploration under reward drift, after Liu, Wang, Shen, Liu and Chen (AAAI 2020).
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from entice import atlas, datasets, estimate, rng, testing, theory
    from entice.errors import EnticeError, InputError, StudyError
    from entice.live import Offer, Principal
    from entice.planner.belief import Spread, StarCounts
    from entice.planner.forecast import Forecast, forecast, plan
    from entice.planner.spec import Plan
    from entice.policies import (
        KLUCB,
        UCB,
        AlternatingThompson,
        BetaThompson,
        CustomPolicy,
        DiscountedUCB,
        DriftCorrectedThompson,
        EliminationRace,
        EpsilonGreedy,
        Greedy,
        RoundRobinEpsilonGreedy,
        SlidingWindowUCB,
        ThompsonSampling,
    )
    from entice.principal.probe import Probe
    from entice.principal.step import PLAYERS_CHOICE
    from entice.specs import Study
    from entice.study.result import Result
    from entice.study.run import run, simulate
    from entice.study.sweep import sweep, sweep_from_file
    from entice.study.trace import trace
    from entice.world.arms import Bernoulli, Beta, Empirical, Gaussian
    from entice.world.delays import ExponentialDelay, LogNormalDelay, TableDelay
    from entice.world.drift import (
        ArmDrift,
        CarriedDrift,
        CompressionDrift,
        CustomDrift,
        FadingDrift,
        LinearDrift,
        NegativeDrift,
        NoDrift,
        PowerDrift,
        RandomDrift,
        SaturatingDrift,
        StepDrift,
    )
    from entice.world.meddler import Attacker, Nobody, StrategicArms
    from entice.world.players import AlwaysAccept, LogisticAcceptance, Players, TableAcceptance

# Names are looked up when first used, so that `entice --help` need not wait for the compiler.
_MODULES = ("atlas", "datasets", "estimate", "rng", "testing", "theory")
_HOMES = {
    **dict.fromkeys(("EnticeError", "InputError", "StudyError"), "entice.errors"),
    **dict.fromkeys(("Offer", "Principal"), "entice.live"),
    **dict.fromkeys(
        (
            "KLUCB",
            "UCB",
            "AlternatingThompson",
            "BetaThompson",
            "CustomPolicy",
            "DiscountedUCB",
            "DriftCorrectedThompson",
            "EliminationRace",
            "EpsilonGreedy",
            "Greedy",
            "RoundRobinEpsilonGreedy",
            "SlidingWindowUCB",
            "ThompsonSampling",
        ),
        "entice.policies",
    ),
    **dict.fromkeys(("Spread", "StarCounts"), "entice.planner.belief"),
    **dict.fromkeys(("Forecast", "forecast", "plan"), "entice.planner.forecast"),
    "Plan": "entice.planner.spec",
    "PLAYERS_CHOICE": "entice.principal.step",
    "Study": "entice.specs",
    "Result": "entice.study.result",
    **dict.fromkeys(("run", "simulate"), "entice.study.run"),
    **dict.fromkeys(("sweep", "sweep_from_file"), "entice.study.sweep"),
    "trace": "entice.study.trace",
    **dict.fromkeys(("Bernoulli", "Beta", "Empirical", "Gaussian"), "entice.world.arms"),
    **dict.fromkeys(("ExponentialDelay", "LogNormalDelay", "TableDelay"), "entice.world.delays"),
    **dict.fromkeys(
        (
            "ArmDrift",
            "CarriedDrift",
            "CompressionDrift",
            "CustomDrift",
            "FadingDrift",
            "LinearDrift",
            "NegativeDrift",
            "NoDrift",
            "PowerDrift",
            "RandomDrift",
            "SaturatingDrift",
            "StepDrift",
        ),
        "entice.world.drift",
    ),
    **dict.fromkeys(("Attacker", "Nobody", "StrategicArms"), "entice.world.meddler"),
    **dict.fromkeys(
        ("AlwaysAccept", "LogisticAcceptance", "Players", "TableAcceptance"),
        "entice.world.players",
    ),
    "Probe": "entice.principal.probe",
}


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"entice.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module 'entice' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return [*_HOMES, *_MODULES, "__version__"]


__all__ = [
    "KLUCB",
    "PLAYERS_CHOICE",
    "UCB",
    "AlternatingThompson",
    "AlwaysAccept",
    "ArmDrift",
    "Attacker",
    "Bernoulli",
    "Beta",
    "BetaThompson",
    "CarriedDrift",
    "CompressionDrift",
    "CustomDrift",
    "CustomPolicy",
    "DiscountedUCB",
    "DriftCorrectedThompson",
    "EliminationRace",
    "Empirical",
    "EnticeError",
    "EpsilonGreedy",
    "ExponentialDelay",
    "FadingDrift",
    "Forecast",
    "Gaussian",
    "Greedy",
    "InputError",
    "LinearDrift",
    "LogNormalDelay",
    "LogisticAcceptance",
    "NegativeDrift",
    "NoDrift",
    "Nobody",
    "Offer",
    "Plan",
    "Players",
    "PowerDrift",
    "Principal",
    "Probe",
    "RandomDrift",
    "Result",
    "RoundRobinEpsilonGreedy",
    "SaturatingDrift",
    "SlidingWindowUCB",
    "Spread",
    "StarCounts",
    "StepDrift",
    "StrategicArms",
    "Study",
    "StudyError",
    "TableAcceptance",
    "TableDelay",
    "ThompsonSampling",
    "atlas",
    "datasets",
    "estimate",
    "forecast",
    "plan",
    "rng",
    "run",
    "simulate",
    "sweep",
    "sweep_from_file",
    "testing",
    "theory",
    "trace",
]
