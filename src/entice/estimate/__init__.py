"""Estimates of the drift from the data that the principal sees: arms, payments, feedback.

`probe_slope` and `probe_curve` use the offers of a randomised `Probe` and are reliable;
`DriftEstimator` computes `probe_slope` one rating at a time. Where payment changes who rates, only
the `ResponseBounds` of an estimate hold. `regression` needs no probe but is
biased: payments depend on past feedback, so it finds a drift where there is none.
"""

from entice.estimate.curve import DriftCurve, probe_curve
from entice.estimate.interval import Estimate
from entice.estimate.probe import DriftEstimator, probe_slope
from entice.estimate.regression import regression
from entice.estimate.response import ResponseBounds

__all__ = [
    "DriftCurve",
    "DriftEstimator",
    "Estimate",
    "ResponseBounds",
    "probe_curve",
    "probe_slope",
    "regression",
]
