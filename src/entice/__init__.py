"""Entice: pay people to explore, and don't be fooled by their gratitude.

Incentivized exploration under reward drift, after Liu, Wang, Shen, Liu and Chen (AAAI 2020).
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from entice import rng, testing, theory
    from entice.errors import EnticeError, InputError, StudyError
    from entice.live import Offer, Principal
    from entice.policies import UCB, CustomPolicy, EpsilonGreedy, Greedy, ThompsonSampling
    from entice.principal.step import PLAYERS_CHOICE
    from entice.specs import Study
    from entice.study.result import Result
    from entice.study.run import run, simulate
    from entice.study.trace import trace
    from entice.world.arms import Bernoulli, Beta, Empirical, Gaussian
    from entice.world.drift import (
        CustomDrift,
        LinearDrift,
        NoDrift,
        SaturatingDrift,
        StepDrift,
    )

# Names are looked up when first used, so that `entice --help` need not wait for the compiler.
_MODULES = ("rng", "testing", "theory")
_HOMES = {
    **dict.fromkeys(("EnticeError", "InputError", "StudyError"), "entice.errors"),
    **dict.fromkeys(("Offer", "Principal"), "entice.live"),
    **dict.fromkeys(
        ("UCB", "CustomPolicy", "EpsilonGreedy", "Greedy", "ThompsonSampling"), "entice.policies"
    ),
    "PLAYERS_CHOICE": "entice.principal.step",
    "Study": "entice.specs",
    "Result": "entice.study.result",
    **dict.fromkeys(("run", "simulate"), "entice.study.run"),
    "trace": "entice.study.trace",
    **dict.fromkeys(("Bernoulli", "Beta", "Empirical", "Gaussian"), "entice.world.arms"),
    **dict.fromkeys(
        ("CustomDrift", "LinearDrift", "NoDrift", "SaturatingDrift", "StepDrift"),
        "entice.world.drift",
    ),
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
    "PLAYERS_CHOICE",
    "UCB",
    "Bernoulli",
    "Beta",
    "CustomDrift",
    "CustomPolicy",
    "Empirical",
    "EnticeError",
    "EpsilonGreedy",
    "Gaussian",
    "Greedy",
    "InputError",
    "LinearDrift",
    "NoDrift",
    "Offer",
    "Principal",
    "Result",
    "SaturatingDrift",
    "StepDrift",
    "Study",
    "StudyError",
    "ThompsonSampling",
    "rng",
    "run",
    "simulate",
    "testing",
    "theory",
    "trace",
]
