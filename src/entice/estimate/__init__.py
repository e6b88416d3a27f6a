"""Estimates from the data that the principal sees: arms, payments, feedback, propensities.

The drift: `probe_slope` and `probe_curve` use the offers of a randomised `Probe` and are reliable;
`DriftEstimator` computes `probe_slope` one rating at a time. Where payment changes who rates, only
the `ResponseBounds` of an estimate hold. `regression` needs no probe but is
biased: payments depend on past feedback, so it finds a drift where there is none.

Other policies: `evaluate` estimates what another policy would have achieved, from the log of a
campaign with overlap.

The campaign: `measure_effect` compares the ratings of a campaign's players with those of a holdout.
"""

from entice.estimate.curve import DriftCurve, probe_curve
from entice.estimate.effect import Effect, GroupResult, GroupTotals, measure_effect
from entice.estimate.interval import Estimate
from entice.estimate.off_policy import Evaluation, PolicyEstimate, evaluate
from entice.estimate.probe import DriftEstimator, probe_slope
from entice.estimate.regression import regression
from entice.estimate.response import ResponseBounds
from entice.estimate.split import SplitCheck
from entice.estimate.targets import Always, Uniform

__all__ = [
    "Always",
    "DriftCurve",
    "DriftEstimator",
    "Effect",
    "Estimate",
    "Evaluation",
    "GroupResult",
    "GroupTotals",
    "PolicyEstimate",
    "ResponseBounds",
    "SplitCheck",
    "Uniform",
    "evaluate",
    "measure_effect",
    "probe_curve",
    "probe_slope",
    "regression",
]
