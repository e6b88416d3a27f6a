# The public names of Entice. `__init__.py` reads this file and loads each name when first used,
# so that `entice --help` does not wait for Numba.

from . import atlas, datasets, estimate, rng, testing, theory
from .errors import EnticeError, InputError, StudyError
from .live import Offer, Principal
from .model.learned_price import LearnedPrice
from .model.probe import Probe
from .model.step import PLAYERS_CHOICE
from .planner.belief import Spread, StarCounts
from .planner.forecast import Forecast, forecast, plan
from .planner.segments import PlanSegments
from .planner.spec import Plan
from .policies import (
    KLUCB,
    MOSS,
    UCB,
    AlternatingThompson,
    BetaThompson,
    CustomPolicy,
    DiscountedUCB,
    DriftCorrectedThompson,
    EliminationRace,
    EpsilonGreedy,
    EqualPay,
    EqualPayElimination,
    Greedy,
    RoundRobinEpsilonGreedy,
    SlidingWindowUCB,
    ThompsonSampling,
)
from .study.results.result import Result
from .study.running.run import run, simulate
from .study.spec import Study
from .study.sweep import sweep, sweep_from_file
from .study.trace import trace
from .worlds.adversaries import Attacker, NoAdversary, StrategicArms
from .worlds.arms import Bernoulli, Beta, CustomArms, Empirical, Gaussian
from .worlds.changing_arms import Changing, Wandering
from .worlds.delays import ExponentialDelay, LogNormalDelay, TableDelay
from .worlds.drifts import (
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
from .worlds.players import AlwaysAccept, LogisticAcceptance, Players, TableAcceptance
from .worlds.response import LogisticResponse
from .worlds.segments import Segments

__version__: str

__all__ = [
    "KLUCB",
    "MOSS",
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
    "Changing",
    "CompressionDrift",
    "CustomArms",
    "CustomDrift",
    "CustomPolicy",
    "DiscountedUCB",
    "DriftCorrectedThompson",
    "EliminationRace",
    "Empirical",
    "EnticeError",
    "EpsilonGreedy",
    "EqualPay",
    "EqualPayElimination",
    "ExponentialDelay",
    "FadingDrift",
    "Forecast",
    "Gaussian",
    "Greedy",
    "InputError",
    "LearnedPrice",
    "LinearDrift",
    "LogNormalDelay",
    "LogisticAcceptance",
    "LogisticResponse",
    "NegativeDrift",
    "NoAdversary",
    "NoDrift",
    "Offer",
    "Plan",
    "PlanSegments",
    "Players",
    "PowerDrift",
    "Principal",
    "Probe",
    "RandomDrift",
    "Result",
    "RoundRobinEpsilonGreedy",
    "SaturatingDrift",
    "Segments",
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
    "Wandering",
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
