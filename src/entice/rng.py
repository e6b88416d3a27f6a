"""Random numbers: one stream for each (seed, replication, purpose).

A stream is four 64-bit words, the state of xoshiro256++ (Blackman and Vigna 2021). Every function
here changes only the stream that is passed to it; there is no global generator. So the numbers of a
replication depend on its own coordinates, never on threads, blocks or machines. All cells of a
study use the same streams, so adding or removing cells does not change the others.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from entice.jit.decorators import compiled, compiled_noinline
from entice.jit.likely import likely

Stream = npt.NDArray[np.uint64]
State = tuple[np.uint64, np.uint64, np.uint64, np.uint64]
"""The words of a stream as a tuple, so that they stay in registers for several draws."""

POLICY = 0
"""Purpose: the policy's draws."""
REWARD = 1
"""Purpose: the true rewards."""
PLAYER = 2
"""Purpose: the random decisions of players."""
PROBE = 3
"""Purpose: which offers are probed, and the coin tosses."""
ARMS = 4
"""Purpose: the true means of arms that change, in a simulation."""
PURPOSES = (POLICY, REWARD, PLAYER, PROBE, ARMS)
"""The purposes of a simulation's streams, counted from 0."""
REDRAW = 4
"""Purpose: repetitions of a decision that estimate its propensity. Campaigns have no `ARMS`."""
OVERLAP = 5
"""Purpose: which arms of a campaign are drawn for overlap."""
HOLDOUT = 6
"""Purpose: which visitors of a plan are held out."""
PRICE = 7
"""Purpose: which prices of a campaign with a learned price are drawn."""

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)
_11, _17, _19, _23 = np.uint64(11), np.uint64(17), np.uint64(19), np.uint64(23)
_27, _30, _31, _41 = np.uint64(27), np.uint64(30), np.uint64(31), np.uint64(41)
_45, _LAYER, _1 = np.uint64(45), np.uint64(255), np.uint64(1)


def new_stream(seed: int, replication: int, purpose: int) -> Stream:
    """Return the stream of one replication and purpose."""
    stream = np.empty(4, dtype=np.uint64)
    seed_stream(stream, seed, replication, purpose)
    return stream


@compiled
def _mix(word: np.uint64) -> np.uint64:
    """Apply the finaliser of SplitMix64 (Steele, Lea and Flood 2014), a bijection."""
    word = (word ^ (word >> _30)) * _MIX_1
    word = (word ^ (word >> _27)) * _MIX_2
    return word ^ (word >> _31)


@compiled_noinline
def seed_stream(stream: Stream, seed: int, replication: int, purpose: int) -> None:
    """Seed a stream from (seed, replication, purpose).

    Each word is a bijection of one coordinate, chained with the words before it. Two streams of
    one seed therefore never share their state: a different replication changes the second word,
    a different purpose the third.
    """
    first = _mix(np.uint64(seed) + _GOLDEN)
    second = _mix(first ^ _mix(np.uint64(replication) + _MIX_1))
    third = _mix(second ^ _mix(np.uint64(purpose) + _MIX_2))
    stream[0] = first
    stream[1] = second
    stream[2] = third
    stream[3] = _mix(third + _GOLDEN)
    for _ in range(8):  # afterwards all words of the state depend on all coordinates
        next_word(stream)


@compiled
def advance(state: State) -> tuple[np.uint64, State]:
    """Return 64 random bits and the next state (xoshiro256++)."""
    s0, s1, s2, s3 = state
    total = s0 + s3
    bits = ((total << _23) | (total >> _41)) + s0
    s2 ^= s0
    s3 ^= s1
    return bits, (s0 ^ s3, s1 ^ s2, s2 ^ (s1 << _17), (s3 << _45) | (s3 >> _19))


@compiled
def get_state(stream: Stream) -> State:
    """Return the state of a stream; after drawing from it, store it with `set_state`."""
    return stream[0], stream[1], stream[2], stream[3]


@compiled
def set_state(stream: Stream, state: State) -> None:
    """Store a state in its stream."""
    stream[0], stream[1], stream[2], stream[3] = state


@compiled
def next_word(stream: Stream) -> np.uint64:
    """Draw 64 random bits."""
    bits, state = advance(get_state(stream))
    set_state(stream, state)
    return bits


@compiled
def uniform(stream: Stream) -> float:
    """Draw from the uniform distribution on [0, 1), a multiple of 2⁻⁵³."""
    return as_uniform(next_word(stream))


@compiled
def as_uniform(word: np.uint64) -> float:
    """Convert 64 random bits to a uniform draw."""
    return float(np.int64(word >> _11)) * 2.0**-53


@compiled
def below(stream: Stream, count: int) -> int:
    """Draw a whole number from 0 to count − 1, each equally likely.

    >>> from entice.rng import below, new_stream
    >>> below(new_stream(seed=7, replication=0, purpose=0), 10) in range(10)
    True
    """
    return min(int(uniform(stream) * count), count - 1)


# The ziggurat (Marsaglia and Tsang 2000): 256 layers of equal area cover half of the density.
_TAIL = 3.6541528853610088  # where the lowest layer's rectangle ends, for 256 layers


def _layers() -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    def density(x: float) -> float:
        return math.exp(-0.5 * x * x)

    area = _TAIL * density(_TAIL) + math.sqrt(math.pi / 2) * math.erfc(_TAIL / math.sqrt(2))
    edges = [area / density(_TAIL), _TAIL]
    while len(edges) < 256:
        edges.append(math.sqrt(-2.0 * math.log(area / edges[-1] + density(edges[-1]))))
    edges.append(0.0)
    edge = np.array(edges)
    return edge, edge[:256] * 2.0**-52, np.exp(-0.5 * edge * edge)


_EDGE, _SCALE, _DENSITY = _layers()


@compiled
def normal(stream: Stream) -> float:
    """Draw from the standard normal distribution, N(0, 1)."""
    x, state = normal_from(get_state(stream), stream)
    set_state(stream, state)
    return x


@compiled
def normal_from(state: State, stream: Stream) -> tuple[float, State]:
    """Draw from N(0, 1) with the state of a stream; return the draw and the next state."""
    bits, state = advance(state)
    layer, x = _point(bits)
    if likely(abs(x) < _EDGE[layer + _1]):
        return x, state
    set_state(stream, state)
    x = _normal_at_the_edge(stream, layer, x)
    return x, get_state(stream)


@compiled_noinline
def fill_normals(stream: Stream, draws: npt.NDArray[np.float64]) -> None:
    """Fill an array with the same draws as repeated calls of `normal`, but faster."""
    state = get_state(stream)
    for i in range(draws.shape[0]):
        draws[i], state = normal_from(state, stream)
    set_state(stream, state)


@compiled_noinline
def fill_uniforms(stream: Stream, draws: npt.NDArray[np.float64]) -> None:
    """Fill an array with the same draws as repeated calls of `uniform`, but faster."""
    state = get_state(stream)
    for i in range(draws.shape[0]):
        word, state = advance(state)
        draws[i] = as_uniform(word)
    set_state(stream, state)


@compiled
def _point(bits: np.uint64) -> tuple[np.uint64, float]:
    """Return a layer, from the low byte, and a point in it, from the top 53 bits (signed)."""
    layer = bits & _LAYER
    return layer, float(np.int64(bits) >> np.int64(11)) * float(_SCALE[layer])


@compiled_noinline
def _normal_at_the_edge(stream: Stream, layer: np.uint64, x: float) -> float:
    """Finish the few draws that fall outside the inner rectangle of their layer."""
    while True:
        if layer == 0:
            while True:  # beyond the lowest rectangle: Marsaglia's exact tail
                beyond = -math.log(1.0 - uniform(stream)) / _TAIL
                if -2.0 * math.log(1.0 - uniform(stream)) > beyond * beyond:
                    return math.copysign(_TAIL + beyond, x)
        low, high = _DENSITY[layer], _DENSITY[layer + _1]
        if low + uniform(stream) * (high - low) < math.exp(-0.5 * x * x):
            return x
        layer, x = _point(next_word(stream))
        if abs(x) < _EDGE[layer + _1]:
            return x


@compiled_noinline
def log_gamma(stream: Stream, shape: float) -> float:
    """Draw the logarithm of a Gamma(shape, 1) variable, which itself may underflow.

    Uses the method of Marsaglia and Tsang (2000); below shape 1, G(a) = G(a + 1) · U^(1/a).
    """
    boost = 0.0
    if shape < 1.0:
        boost = math.log(1.0 - uniform(stream)) / shape
        shape += 1.0
    d = shape - 1.0 / 3.0
    c = 1.0 / math.sqrt(9.0 * d)
    while True:
        x = normal(stream)
        v = (1.0 + c * x) ** 3
        if v > 0.0:
            u = 1.0 - uniform(stream)
            if math.log(u) < 0.5 * x * x + d - d * v + d * math.log(v):
                return boost + math.log(d * v)


@compiled
def gamma(stream: Stream, shape: float) -> float:
    """Draw from the gamma distribution of the given shape, with scale 1."""
    return math.exp(log_gamma(stream, shape))


@compiled
def beta(stream: Stream, a: float, b: float) -> float:
    """Draw from the beta distribution: G(a) / (G(a) + G(b)), by logarithms."""
    return 1.0 / (1.0 + math.exp(log_gamma(stream, b) - log_gamma(stream, a)))
