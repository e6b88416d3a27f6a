"""What the principal can learn of the drift from what it sees: arms, payments, feedback.

`probe_slope` and `probe_curve` compare the offers of a randomised `Probe`, and may be believed;
`DriftEstimator` is `probe_slope` one rating at a time. `regression` needs no probe and must not be
believed: payments depend on past feedback, so it finds a drift where there is none.
"""

from entice.estimate.curve import DriftCurve, probe_curve
from entice.estimate.interval import Estimate
from entice.estimate.probe import DriftEstimator, probe_slope
from entice.estimate.regression import regression

__all__ = ["DriftCurve", "DriftEstimator", "Estimate", "probe_curve", "probe_slope", "regression"]
