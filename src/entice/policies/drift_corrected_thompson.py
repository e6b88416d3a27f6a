"""Thompson sampling that estimates the drift and subtracts it from the averages.

This policy is not from the paper. A rating of arm i under payment x is modelled as
μ_i + f(x) + noise with f(x) = β·φ(x) and φ(x) = (x, [x > 0], x²): a slope, a jump and a curve, to
cover linear, step and convex drifts. β is the ridge regression of ratings on φ, both centred within
each arm. Arms are compared by a joint posterior sample: one draw of β for all of them, and one draw
of each arm's own mean.

The noise is estimated from unpaid ratings only. An estimate that drift could inflate would inflate
samples and probes, hence payments, hence drift, and under a convex drift that loop diverges.

Payments depend on past ratings, so regression alone would be biased. Probes, random payments for
the greedy arm, keep β identifiable: rarely a large one (for slope and curve), often at first a tiny
one (for the jump). Both rates decay like 1/t.

The constants were tuned on the paper's instance; there is no proof.
"""

from __future__ import annotations

import math
from typing import Literal, get_args

from entice.checks import set_number
from entice.errors import InputError
from entice.jit.decorators import compiled
from entice.model.ledger import Ledger, argmax
from entice.policies.policy import Counts, Floats, PolicyKernel, PolicySpec
from entice.rng import Stream, normal, uniform

Display = Literal["raw", "corrected", "tempered"]

_FEATURES = 3
_RIDGE = (1.0, 30.0, 1.0)
"""Prior weights of slope, jump and curve: standard deviations of 1, 0.18 noise and 1/noise."""
_LARGE_RATE, _LARGE_SIZE = 5.0, 0.5
"""With probability 5/t the greedy arm is paid half a standard deviation of the noise."""
_SMALL_RATE, _SMALL_SIZE = 400.0, 0.005
"""Otherwise, with probability 400/t, it is paid a tiny amount, enough to detect a jump."""
_GUESS = 2.0
"""The number of ratings that the initial guess of the noise is worth."""

# Layout of memory: a head, then a block for each arm.
_SQUARES, _DEGREES = 0, 1  # sum of squares and degrees of freedom of unpaid ratings, within arms
_BETA = 2
_DRAWN = _BETA + _FEATURES  # a draw of β, minus β
_FACTOR = _DRAWN + _FEATURES  # the Cholesky factor of the Gram matrix plus ridge
_GRAM = _FACTOR + _FEATURES**2  # Σ φφ', centred within arms
_CROSS = _GRAM + _FEATURES**2  # Σ φ · rating, centred within arms
_HEAD = _CROSS + _FEATURES
_COUNT, _MEAN, _UNPAID, _UNPAID_MEAN, _PHI = 0, 1, 2, 3, 4
_BLOCK = _PHI + _FEATURES

# Layout of params.
_DISPLAY, _NOISE, _THRIFT = 0, 1, 2


class DriftCorrectedThompson(PolicySpec, frozen=True, tag="drift_corrected_thompson"):
    """Thompson sampling on averages from which the estimated drift is subtracted.

    Parameters
    ----------
    display
        The values that players see. ``"raw"``: unchanged averages. ``"corrected"``: averages minus
        all estimated drift. ``"tempered"``: the part of the estimated drift between 0 and the
        average payment stays, because there it only makes exploration cheaper; the rest is
        subtracted.
    noise
        Initial guess of the ratings' standard deviation, worth two ratings.
    thrift
        Weight of the payment in the choice of the arm: the policy selects the arm with the highest
        sample minus `thrift` times its payment.

    >>> import entice
    >>> entice.DriftCorrectedThompson().label
    'DriftCorrectedThompson'
    >>> entice.DriftCorrectedThompson(display="raw").label
    'DriftCorrectedThompson(raw)'
    """

    display: Display = "tempered"
    noise: float = 1.0
    thrift: float = 0.1

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.display not in get_args(Display):
            rule = f"must be one of {', '.join(get_args(Display))}"
            raise InputError("DriftCorrectedThompson: display", rule, given=self.display)
        if set_number(self, "noise") <= 0:
            rule = "must be greater than 0"
            raise InputError("DriftCorrectedThompson: noise", rule, given=self.noise)
        if not 0 <= set_number(self, "thrift") < 1:
            rule = "must be at least 0 and less than 1"
            raise InputError("DriftCorrectedThompson: thrift", rule, given=self.thrift)

    @property
    def default_label(self) -> str:  # noqa: D102
        settings: list[str] = [] if self.display == "tempered" else [self.display]
        settings += [] if self.noise == 1 else [f"noise={self.noise:g}"]
        settings += [] if self.thrift == 0.1 else [f"thrift={self.thrift:g}"]
        return "DriftCorrectedThompson" + (f"({', '.join(settings)})" if settings else "")

    def kernel(self, arms: int) -> PolicyKernel:  # noqa: D102
        display_index = float(get_args(Display).index(self.display))
        return PolicyKernel(
            select,
            update,
            params=(display_index, self.noise, self.thrift),
            memory=_HEAD + _BLOCK * arms,
            display=display_corrected,
            payment_rule=pay_required_and_probe,
        )


Params = tuple[float, float, float]


@compiled
def select(
    t: int, pulls: Counts, means: Floats, memory: Floats, params: Params, rng: Stream
) -> int:
    """Choose the arm with the highest sample, minus the weighted payment."""
    if memory[_FACTOR] == 0.0:  # no rating yet
        _fit(memory, params)
    noise = math.sqrt(_variance(memory, params))
    for j in range(_FEATURES - 1, -1, -1):  # a draw from N(0, noise² · (Gram + ridge)⁻¹)
        rest = noise * normal(rng)
        for k in range(j + 1, _FEATURES):
            rest -= memory[_FACTOR + _FEATURES * k + j] * memory[_DRAWN + k]
        memory[_DRAWN + j] = rest / memory[_FACTOR + _FEATURES * j + j]
    best, top = 0, -math.inf
    for i in range(pulls.shape[0]):
        sample = means[i] + noise * normal(rng) / math.sqrt(max(1.0, pulls[i]))
        for j in range(_FEATURES):
            beta = memory[_BETA + j] + memory[_DRAWN + j]
            sample -= beta * memory[_HEAD + _BLOCK * i + _PHI + j]
        # A payment is the greedy arm's displayed value minus this arm's. The former is the same for
        # all arms, so it is left out.
        value = sample + params[_THRIFT] * _displayed(means[i], i, memory, params)
        if value > top:
            best, top = i, value
    return best


@compiled
def update(memory: Floats, params: Params, arm: int, payment: float, feedback: float) -> None:
    """Add a rating to the regression and, if unpaid, to the noise estimate (Welford's updates)."""
    at = _HEAD + _BLOCK * arm
    if payment == 0.0:
        if memory[at + _UNPAID] > 0.0:
            memory[_DEGREES] += 1.0
        memory[at + _UNPAID] += 1.0
        step = feedback - memory[at + _UNPAID_MEAN]
        memory[at + _UNPAID_MEAN] += step / memory[at + _UNPAID]
        memory[_SQUARES] += step * (feedback - memory[at + _UNPAID_MEAN])
    memory[at + _COUNT] += 1.0
    n = memory[at + _COUNT]
    memory[at + _MEAN] += (feedback - memory[at + _MEAN]) / n
    residual = feedback - memory[at + _MEAN]
    phi = (payment, 1.0 if payment > 0.0 else 0.0, payment * payment)
    steps = (
        phi[0] - memory[at + _PHI],
        phi[1] - memory[at + _PHI + 1],
        phi[2] - memory[at + _PHI + 2],
    )
    for j in range(_FEATURES):
        memory[at + _PHI + j] += steps[j] / n
    for j in range(_FEATURES):
        for k in range(_FEATURES):
            memory[_GRAM + _FEATURES * j + k] += steps[j] * (phi[k] - memory[at + _PHI + k])
        memory[_CROSS + j] += steps[j] * residual
    _fit(memory, params)


@compiled
def display_corrected(ledger: Ledger, memory: Floats, params: Params, displayed: Floats) -> int:
    """Fill `displayed` with the values that players see, and return the arm they would pick."""
    for i in range(displayed.shape[0]):
        displayed[i] = _displayed(ledger.means[i], i, memory, params)
    return argmax(displayed)


@compiled
def pay_required_and_probe(
    t: int,
    arm: int,
    greedy: int,
    required: float,
    memory: Floats,
    params: Params,
    rng: Stream,
) -> float:
    """Pay the required payment, and sometimes, at random, pay for the greedy arm."""
    if arm != greedy:
        return required
    noise = math.sqrt(_variance(memory, params))
    if uniform(rng) < min(0.5, _LARGE_RATE / t):
        return _LARGE_SIZE * noise
    if uniform(rng) < min(0.5, _SMALL_RATE / t):
        return _SMALL_SIZE * noise
    return 0.0


@compiled
def _variance(memory: Floats, params: Params) -> float:
    """Estimate the variance of the noise from unpaid ratings and the initial guess."""
    return float(
        (_GUESS * params[_NOISE] * params[_NOISE] + memory[_SQUARES]) / (_GUESS + memory[_DEGREES])
    )


@compiled
def _displayed(mean: float, arm: int, memory: Floats, params: Params) -> float:
    if params[_DISPLAY] == 0.0:
        return mean
    at = _HEAD + _BLOCK * arm + _PHI
    drift = 0.0
    for j in range(_FEATURES):
        drift += memory[_BETA + j] * memory[at + j]
    if params[_DISPLAY] == 1.0:
        return mean - drift
    return float(mean - drift + min(max(drift, 0.0), memory[at]))


@compiled
def _fit(memory: Floats, params: Params) -> None:
    """Factor the Gram matrix plus ridge (Cholesky), and solve for β."""
    variance = _variance(memory, params)
    # In these units, the policy is invariant to the scale of ratings.
    ridge = (_RIDGE[0] * variance, _RIDGE[1], _RIDGE[2] * variance * variance)
    for j in range(_FEATURES):
        for i in range(j, _FEATURES):
            rest = memory[_GRAM + _FEATURES * i + j]
            if i == j:
                rest += ridge[j]
            for k in range(j):
                rest -= memory[_FACTOR + _FEATURES * i + k] * memory[_FACTOR + _FEATURES * j + k]
            if i == j:
                memory[_FACTOR + _FEATURES * j + j] = math.sqrt(max(rest, 1e-12 * ridge[j]))
            else:
                memory[_FACTOR + _FEATURES * i + j] = rest / memory[_FACTOR + _FEATURES * j + j]
    for j in range(_FEATURES):
        rest = memory[_CROSS + j]
        for k in range(j):
            rest -= memory[_FACTOR + _FEATURES * j + k] * memory[_BETA + k]
        memory[_BETA + j] = rest / memory[_FACTOR + _FEATURES * j + j]
    for j in range(_FEATURES - 1, -1, -1):
        rest = memory[_BETA + j]
        for k in range(j + 1, _FEATURES):
            rest -= memory[_FACTOR + _FEATURES * k + j] * memory[_BETA + k]
        memory[_BETA + j] = rest / memory[_FACTOR + _FEATURES * j + j]
