"""Tails of the normal distribution: their hazards and draws from them; exponential draws."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
from numpy.polynomial import chebyshev

from entice.jit.decorators import compiled_internal, compiled_internal_noinline
from entice.rng import Stream, as_uniform, next_word, normal, uniform

Floats = npt.NDArray[np.float64]

_ROOT_HALF = math.sqrt(0.5)
_HALF_LOG_2PI = 0.5 * math.log(2.0 * math.pi)

# The exponential distribution by a ziggurat of 256 layers, like the normals of entice.rng.
_EXP_TAIL = 7.69711747013104972  # where the lowest layer's rectangle ends (Marsaglia, Tsang 2000)


def _exponential_layers() -> tuple[Floats, Floats]:
    area = (_EXP_TAIL + 1.0) * math.exp(-_EXP_TAIL)
    edges = [area * math.exp(_EXP_TAIL), _EXP_TAIL]
    while len(edges) < 256:
        edges.append(-math.log(area / edges[-1] + math.exp(-edges[-1])))
    edges.append(0.0)
    edge = np.array(edges)
    return edge, np.exp(-edge)


_LAYER = np.uint64(255)
_EXP_EDGE, _EXP_DENSITY = _exponential_layers()


@compiled_internal
def exponential(stream: Stream) -> float:
    """Draw from the exponential distribution with mean 1."""
    bits = next_word(stream)
    # The low byte picks the layer; the top 53 bits place the point across it.
    layer = int(bits & _LAYER)
    x = as_uniform(bits) * float(_EXP_EDGE[layer])
    if x < _EXP_EDGE[layer + 1]:
        return x
    return exponential_at_the_edge(stream, layer, x)


@compiled_internal_noinline
def exponential_at_the_edge(stream: Stream, layer: int, x: float) -> float:
    """Finish the 2 % of draws that fall outside the inner rectangle of their layer."""
    while True:
        if layer == 0:  # beyond the lowest rectangle the distribution is exponential again
            return _EXP_TAIL - math.log(1.0 - uniform(stream))
        low, high = _EXP_DENSITY[layer], _EXP_DENSITY[layer + 1]
        if low + uniform(stream) * (high - low) < math.exp(-x):
            return x
        bits = next_word(stream)
        layer = int(bits & _LAYER)
        x = as_uniform(bits) * float(_EXP_EDGE[layer])
        if x < _EXP_EDGE[layer + 1]:
            return x


# −log Φ(z) = exp(−z²/2) · W(z). W is smooth, its nearest singularities are 2.8 away, so a
# polynomial of degree 7 on each interval of length 1/8 in [_LOW, _HIGH) has full precision.
_LOW, _HIGH, _PIECES_PER_UNIT, _COEFFICIENTS = -1.0, 12.0, 8, 8


def _smooth_part() -> Floats:
    """Fit W by Chebyshev interpolation; each row holds one piece's coefficients, lowest first."""
    exact_hazard = hazard_by_erfc.py_func  # type: ignore[attr-defined]
    nodes = chebyshev.chebpts1(_COEFFICIENTS)
    rows = []
    for piece in range(round((_HIGH - _LOW) * _PIECES_PER_UNIT)):
        z = _LOW + (piece + 0.5 + 0.5 * nodes) / _PIECES_PER_UNIT
        values = [exact_hazard(x) * math.exp(0.5 * x * x) for x in z.tolist()]
        rows.append(chebyshev.chebfit(nodes, values, _COEFFICIENTS - 1))
    return _as_powers(np.array(rows))


def _as_powers(series: Floats) -> Floats:
    """Convert rows of Chebyshev coefficients like `chebyshev.cheb2poly`, all rows at once.

    That function takes one row, and took a tenth of the time to import the package.
    """
    lower, upper = np.zeros_like(series), np.zeros_like(series)
    lower[:, 0], upper[:, 0] = series[:, -2], series[:, -1]
    for i in range(series.shape[1] - 3, -1, -1):
        # c_i T_i + lower T_{i+1} + upper T_{i+2}, with T_{i+2} = 2u T_{i+1} − T_i
        next_upper = lower + 2.0 * np.roll(upper, 1, axis=1)
        lower = -upper
        lower[:, 0] += series[:, i]
        upper = next_upper
    return lower + np.roll(upper, 1, axis=1)


@compiled_internal
def hazard(z: float) -> float:
    """Return −log Φ(z), the hazard of a standard normal variable exceeding z."""
    position = (z - _LOW) * _PIECES_PER_UNIT
    if not 0.0 <= position < _PIECES:
        return hazard_by_erfc(z)
    piece = int(position)
    u = 2.0 * (position - piece) - 1.0
    w = _SMOOTH[piece]
    v = u * u
    even = w[0] + v * (w[2] + v * (w[4] + v * w[6]))
    odd = w[1] + v * (w[3] + v * (w[5] + v * w[7]))
    return float(math.exp(-0.5 * z * z) * (even + u * odd))


@compiled_internal_noinline
def hazard_by_erfc(z: float) -> float:
    """Return the same as `hazard` from the complementary error function, more slowly."""
    if z > 0.0:
        return -math.log1p(-0.5 * math.erfc(z * _ROOT_HALF))
    if z > -30.0:
        return -math.log(0.5 * math.erfc(-z * _ROOT_HALF))
    w = 1.0 / (z * z)
    return 0.5 * z * z + math.log(-z) + _HALF_LOG_2PI - math.log1p(-w * (1.0 - 3.0 * w))


_SMOOTH = _smooth_part()
_PIECES = float(len(_SMOOTH))


@compiled_internal
def normal_above(z: float, stream: Stream) -> float:
    """Draw from the standard normal distribution above z.

    Uses plain rejection where most draws pass, else the exponential proposal of Robert (1995).
    """
    if z < 0.3:
        while True:
            x = normal(stream)
            if x > z:
                return x
    rate = 0.5 * (z + math.sqrt(z * z + 4.0))
    while True:
        x = z + exponential(stream) / rate
        short = 0.5 * (x - rate) * (x - rate)
        u = uniform(stream)
        if u < 1.0 - short or u < math.exp(-short):  # the first implies the second
            return x
