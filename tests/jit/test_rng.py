"""Random numbers: the published algorithms bit for bit, the distributions by statistics.

All seeds are fixed, so a test that passes once passes always. The error probabilities stated here
are those of a correct generator failing under a seed chosen at random.
"""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats
from sizes import sized

from entice import rng
from entice.jit.decorators import compiled_noinline
from entice.rng import Stream

pytestmark = pytest.mark.usefixtures("unmeasured")

Floats = NDArray[np.float64]
Words = NDArray[np.uint64]

SEED = 20_201_115
TAIL_DRAWS = 20_000_000
LOWEST_LAYER = np.uint64(0)
ALPHA = 1e-6  # the error probability of each test, on either side of a two-sided one
Z = 5.0  # beyond it a normal deviate falls with probability 5.7e-7
WORD = 2**64 - 1
HIGHEST = 1.0 - 2.0**-53


# Loops that draw many numbers at once.


@compiled_noinline
def fill_words(out: Words, stream: Stream) -> None:
    for i in range(out.shape[0]):
        out[i] = rng.next_word(stream)


@compiled_noinline
def fill_uniform(out: Floats, stream: Stream) -> None:
    for i in range(out.shape[0]):
        out[i] = rng.uniform(stream)


@compiled_noinline
def fill_below(out: NDArray[np.int64], stream: Stream, count: int) -> None:
    for i in range(out.shape[0]):
        out[i] = rng.below(stream, count)


@compiled_noinline
def fill_normal(out: Floats, stream: Stream) -> None:
    for i in range(out.shape[0]):
        out[i] = rng.normal(stream)


@compiled_noinline
def fill_beyond(out: Floats, stream: Stream, draws: int, edge: float) -> int:
    """Keep the draws of N(0, 1) beyond ± edge, and return their number."""
    found = 0
    for _ in range(draws):
        x = rng.normal(stream)
        if abs(x) > edge:
            out[found] = x
            found += 1
    return found


@compiled_noinline
def fill_tail(out: Floats, stream: Stream, side: float) -> None:
    """Draw from the lowest layer alone, beyond its rectangle."""
    for i in range(out.shape[0]):
        out[i] = rng._normal_at_the_edge(stream, LOWEST_LAYER, side)


@compiled_noinline
def fill_gamma(out: Floats, stream: Stream, shape: float) -> None:
    for i in range(out.shape[0]):
        out[i] = rng.gamma(stream, shape)


@compiled_noinline
def fill_states(out: Words, seed: int, purposes: int) -> None:
    """Fill out[replication, purpose] with the states in which streams start."""
    for replication in range(out.shape[0]):
        for purpose in range(purposes):
            rng.seed_stream(out[replication, purpose], seed, replication, purpose)


def words(count: int, seed: int = SEED, replication: int = 0, purpose: int = 0) -> Words:
    out = np.empty(count, dtype=np.uint64)
    fill_words(out, rng.new_stream(seed, replication, purpose))
    return out


def uniforms(count: int, seed: int = SEED, replication: int = 0, purpose: int = 0) -> Floats:
    out = np.empty(count)
    fill_uniform(out, rng.new_stream(seed, replication, purpose))
    return out


@pytest.fixture(scope="module")
def normals() -> Floats:
    out = np.empty(4_000_000)
    fill_normal(out, rng.new_stream(SEED, 1, 0))
    return out


@pytest.fixture(scope="module")
def tail() -> Floats:
    """All draws beyond ± 3 among 20 million draws."""
    out = np.empty(100_000)
    found = fill_beyond(out, rng.new_stream(SEED, 2, 0), TAIL_DRAWS, 3.0)
    return out[:found]


def assert_fits(counts: NDArray[np.int64], expected: Floats | None = None) -> None:
    """Chi-square test: neither a misfit nor a fit too good for chance (2 · ALPHA in all)."""
    p = stats.chisquare(counts, expected).pvalue
    assert ALPHA < p < 1 - ALPHA


# The algorithms, against independent implementations in plain Python integers.


def rotated(word: int, bits: int) -> int:
    return ((word << bits) | (word >> (64 - bits))) & WORD


def xoshiro256plusplus(state: list[int]) -> int:
    """next() of Blackman and Vigna's xoshiro256plusplus.c, line by line; changes the list."""
    result = (rotated((state[0] + state[3]) & WORD, 23) + state[0]) & WORD
    t = (state[1] << 17) & WORD
    state[2] ^= state[0]
    state[3] ^= state[1]
    state[1] ^= state[2]
    state[0] ^= state[3]
    state[2] ^= t
    state[3] = rotated(state[3], 45)
    return result


def finalised(z: int) -> int:
    """Apply the finaliser of SplitMix64, as in Vigna's splitmix64.c."""
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & WORD
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & WORD
    return z ^ (z >> 31)


GOLDEN, MIX_1, MIX_2 = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB


def initial_state(seed: int, replication: int, purpose: int) -> list[int]:
    """Return the initial state of a stream, as documented by `seed_stream`."""
    first = finalised((seed + GOLDEN) & WORD)
    second = finalised(first ^ finalised((replication + MIX_1) & WORD))
    third = finalised(second ^ finalised((purpose + MIX_2) & WORD))
    state = [first, second, third, finalised((third + GOLDEN) & WORD)]
    for _ in range(8):
        xoshiro256plusplus(state)
    return state


def a_state(*state: int) -> Stream:
    return np.array(state, dtype=np.uint64)


def test_next_word_is_xoshiro256plusplus() -> None:
    state = [1, 2, 3, 4]
    expected = [xoshiro256plusplus(state) for _ in range(1000)]
    # The test vector that other implementations publish for this state.
    assert expected[:4] == [41943041, 58720359, 3588806011781223, 3591011842654386]
    out, stream = np.empty(1000, dtype=np.uint64), a_state(1, 2, 3, 4)
    fill_words(out, stream)
    assert out.tolist() == expected
    assert stream.tolist() == state


def test_the_finaliser_is_that_of_splitmix64() -> None:
    # The first five words that SplitMix64 gives for the seed 1234567.
    published = [
        6457827717110365317,
        3203168211198807973,
        9817491932198370423,
        4593380528125082431,
        16408922859458223821,
    ]
    steps = [(1234567 + i * GOLDEN) & WORD for i in range(1, 6)]
    assert [finalised(step) for step in steps] == published
    assert [int(rng._mix(np.uint64(step))) for step in steps] == published


@settings(deadline=None)
@given(
    seed=st.integers(0, 2**63 - 1),
    replication=st.integers(0, 2**40),
    purpose=st.sampled_from([rng.POLICY, rng.REWARD, rng.PLAYER]),
)
def test_a_stream_starts_in_the_documented_state(seed: int, replication: int, purpose: int) -> None:
    expected = initial_state(seed, replication, purpose)
    assert rng.new_stream(seed, replication, purpose).tolist() == expected


@settings(deadline=None)
@given(state=st.lists(st.integers(0, WORD), min_size=4, max_size=4))
def test_uniform_is_the_top_53_bits_of_a_word(state: list[int]) -> None:
    expected = (xoshiro256plusplus(list(state)) >> 11) / 2**53
    assert rng.uniform(a_state(*state)) == expected


def test_a_draw_changes_its_own_stream_only() -> None:
    one, other = rng.new_stream(1, 0, 0), rng.new_stream(1, 1, 0)
    before = other.copy()
    first = [rng.normal(one), rng.uniform(one), rng.gamma(one, 0.5)]
    assert (other == before).all()
    again = rng.new_stream(1, 0, 0)
    assert [rng.normal(again), rng.uniform(again), rng.gamma(again, 0.5)] == first
    assert (one == again).all()


# Words and uniform numbers.

LOWEST_WORD = (0, 1, 2, 0)  # s0 = 0 and s3 = 0 give the word 0
HIGHEST_WORD = (0, 1, 2, WORD)  # s0 = 0 and s3 of ones only give the highest word


def test_uniform_reaches_0_and_never_1() -> None:
    assert rng.uniform(a_state(*LOWEST_WORD)) == 0.0
    assert rng.uniform(a_state(*HIGHEST_WORD)) == HIGHEST < 1.0


def test_uniform_fills_its_range_evenly() -> None:
    drawn = uniforms(2_000_000)
    assert drawn.min() >= 0.0
    assert drawn.max() < 1.0
    assert_fits(np.bincount((drawn * 1000).astype(int), minlength=1000))


def test_uniform_follows_the_uniform_distribution() -> None:
    assert stats.kstest(uniforms(1_000_000, replication=1), "uniform").pvalue > ALPHA


@pytest.mark.parametrize("bits", [1, 3, 8, 16])
def test_low_bits_of_words_are_even(bits: int) -> None:
    low = words(2_000_000) & np.uint64(2**bits - 1)
    assert_fits(np.bincount(low.astype(int), minlength=2**bits))


def test_every_bit_of_a_word_is_one_half_of_the_time() -> None:
    drawn = words(1_000_000, replication=3)
    ones = np.array([np.count_nonzero(drawn & np.uint64(1 << bit)) for bit in range(64)])
    # 64 deviates: one beyond Z with probability 4e-5, so this asks for 5.5 (2.4e-6 in all).
    assert np.abs(ones - 500_000).max() / 500 < 5.5


def test_low_bytes_of_successive_words_are_independent() -> None:
    low = (words(4_000_000, replication=4) & np.uint64(255)).astype(int)
    assert_fits(np.bincount(low[0::2] * 256 + low[1::2], minlength=65536))


@pytest.mark.parametrize("count", [2, 3, 7, 10, 1000])
def test_below_is_even_over_its_range(count: int) -> None:
    out = np.empty(1_000_000, dtype=np.int64)
    fill_below(out, rng.new_stream(SEED, count, 0), count)
    assert out.min() == 0
    assert out.max() == count - 1
    assert_fits(np.bincount(out, minlength=count))


@pytest.mark.parametrize("count", [1, 2, 3, 10, 2**31, 2**53, 2**53 + 1, 2**62])
def test_below_stays_in_its_range_at_the_ends(count: int) -> None:
    assert rng.below(a_state(*LOWEST_WORD), count) == 0
    highest = rng.below(a_state(*HIGHEST_WORD), count)
    assert highest == min(int(HIGHEST * count), count - 1)
    assert highest >= (count - 1) * HIGHEST - 1


# Normal numbers.


def test_normal_has_the_moments_of_the_standard_normal(normals: Floats) -> None:
    n = len(normals)
    assert abs(normals.mean()) * math.sqrt(n) < Z
    assert abs(normals.var() - 1.0) * math.sqrt(n / 2) < Z
    assert abs(stats.skew(normals)) * math.sqrt(n / 6) < Z
    assert abs(stats.kurtosis(normals)) * math.sqrt(n / 24) < Z


def test_normal_follows_the_normal_distribution(normals: Floats) -> None:
    assert stats.kstest(normals[:1_000_000], "norm").pvalue > ALPHA


def test_normal_has_the_right_mass_between_all_edges_of_the_ziggurat(normals: Floats) -> None:
    edges = rng._EDGE[1:]  # the outermost one is no edge, it only scales the lowest layer
    assert len(edges) == 256
    cuts = np.concatenate([-edges, edges[-2::-1]])
    counts = np.bincount(np.searchsorted(cuts, normals), minlength=len(cuts) + 1)
    expected = np.diff(stats.norm.cdf(np.concatenate([[-np.inf], cuts, [np.inf]])))
    assert_fits(counts, expected * len(normals))


def test_layers_of_the_ziggurat_have_equal_areas() -> None:
    edge, density = rng._EDGE, np.exp(-0.5 * rng._EDGE**2)
    areas = edge[1:256] * (density[2:] - density[1:256])
    beyond = math.sqrt(math.pi / 2) * math.erfc(edge[1] / math.sqrt(2))
    assert areas == pytest.approx(edge[1] * density[1] + beyond, rel=1e-9)


@pytest.mark.parametrize("edge", [3.0, rng._TAIL, 4.5])
@pytest.mark.parametrize("side", [-1, 1])
def test_tails_of_normal_have_the_right_frequency(tail: Floats, edge: float, side: int) -> None:
    beyond = np.count_nonzero(side * tail > edge)
    assert stats.binomtest(beyond, TAIL_DRAWS, stats.norm.sf(edge)).pvalue > ALPHA


def test_normal_has_the_right_shape_beyond_3(tail: Floats) -> None:
    assert len(tail) > 50_000
    # Given that x is beyond 3, sf(x) / sf(3) is uniform.
    share = stats.norm.sf(np.abs(tail)) / stats.norm.sf(3.0)
    assert stats.kstest(share, "uniform").pvalue > ALPHA


@pytest.mark.parametrize("side", [-1.0, 1.0])
def test_the_tail_beyond_the_ziggurat_has_the_right_shape_and_sign(side: float) -> None:
    out = np.empty(1_000_000)
    fill_tail(out, rng.new_stream(SEED, 7, 0), side)
    assert (side * out).min() > rng._TAIL
    share = stats.norm.sf(side * out) / stats.norm.sf(rng._TAIL)
    assert stats.kstest(share, "uniform").pvalue > ALPHA
    mean = stats.norm.pdf(rng._TAIL) / stats.norm.sf(rng._TAIL)
    std = math.sqrt(1.0 + rng._TAIL * mean - mean**2)
    assert abs((side * out).mean() - mean) < Z * std / math.sqrt(len(out))


def test_normal_is_positive_half_of_the_time_at_every_distance(normals: Floats) -> None:
    positive = np.count_nonzero(normals > 0)
    assert abs(2 * positive - len(normals)) / math.sqrt(len(normals)) < Z
    cuts = np.array([0.25, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 3.5, rng._TAIL])
    distance = np.searchsorted(cuts, np.abs(normals))
    table = np.array([np.bincount(distance[normals > 0]), np.bincount(distance[normals < 0])])
    assert stats.chi2_contingency(table).pvalue > ALPHA


def test_normal_at_the_middle_word_is_0() -> None:
    assert rng.normal(a_state(*LOWEST_WORD)) == 0.0


# Gamma numbers.


@pytest.mark.parametrize("shape", [0.05, 0.5, 1.0, 3.7, 50.0])
def test_gamma_follows_the_gamma_distribution(shape: float) -> None:
    out = np.empty(sized(250_000, 1_000_000))
    fill_gamma(out, rng.new_stream(SEED, 5, 0), shape)
    assert out.min() > 0.0
    assert stats.kstest(out, stats.gamma(shape).cdf).pvalue > ALPHA
    assert abs(out.mean() - shape) / math.sqrt(shape / len(out)) < Z


# Dependence within a stream.


@pytest.mark.parametrize("lag", [1, 2, 3])
def test_successive_numbers_are_uncorrelated(normals: Floats, lag: int) -> None:
    for drawn in (uniforms(1_000_000, replication=6), normals, normals**2):
        correlation = np.corrcoef(drawn[:-lag], drawn[lag:])[0, 1]
        assert abs(correlation) * math.sqrt(len(drawn) - lag) < Z


# Streams among each other.


def test_no_two_streams_of_a_seed_start_in_the_same_state() -> None:
    states = np.empty((100_000, 3, 4), dtype=np.uint64)
    fill_states(states, SEED, 3)
    # Not even one word in common: 1.2 million words, by chance with probability 4e-8.
    assert len(np.unique(states)) == states.size


def test_streams_of_different_seeds_start_in_different_states() -> None:
    states = np.empty((1000, 100, 3, 4), dtype=np.uint64)
    for seed in range(1000):
        fill_states(states[seed], seed, 3)
    # 1.2 million words, two of which are equal by chance with probability 4e-8.
    assert len(np.unique(states)) == states.size


def test_the_coordinates_of_a_stream_are_not_interchangeable() -> None:
    small = range(6)
    states = [tuple(rng.new_stream(*c).tolist()) for c in itertools.product(small, repeat=3)]
    assert len(set(states)) == 6**3


def test_streams_do_not_overlap() -> None:
    coordinates = [(r, p) for r in range(7) for p in range(3)][:20]
    drawn = np.array([words(10_000, replication=r, purpose=p) for r, p in coordinates])
    # 200,000 words of 64 bits: two are equal by chance with probability 1.1e-9.
    assert len(np.unique(drawn)) == drawn.size


NEIGHBOURS = [
    *(((SEED, r, 0), (SEED, r + 1, 0)) for r in range(8)),
    ((SEED, 0, 0), (SEED, 0, 1)),
    ((SEED, 0, 1), (SEED, 0, 2)),
    ((SEED, 0, 0), (SEED, 0, 2)),
    ((SEED, 0, 1), (SEED, 1, 0)),
    ((SEED, 0, 0), (SEED + 1, 0, 0)),
]


@pytest.mark.parametrize(("one", "other"), NEIGHBOURS)
def test_neighbouring_streams_are_uncorrelated(
    one: tuple[int, int, int], other: tuple[int, int, int]
) -> None:
    x, y = uniforms(100_000, *one), uniforms(100_000, *other)
    for shift in range(3):
        correlation = np.corrcoef(x[: len(x) - shift], y[shift:])[0, 1]
        assert abs(correlation) * math.sqrt(len(x) - shift) < Z


@pytest.mark.parametrize("axis", ["replication", "purpose", "seed"])
def test_a_step_to_the_next_stream_flips_half_of_the_bits_of_its_first_word(axis: str) -> None:
    states = np.empty((20_000, 3, 4), dtype=np.uint64)
    fill_states(states, SEED, 3)
    if axis == "replication":
        one, other = states[:-1, 0], states[1:, 0]
    elif axis == "purpose":
        one, other = states[:, 0], states[:, 1]
    else:
        one, other = states[:, 0], np.empty_like(states)
        fill_states(other, SEED + 1, 3)
        other = other[:, 0]
    flipped = first_words(one) ^ first_words(other)
    rates = [np.count_nonzero(flipped & np.uint64(1 << bit)) for bit in range(64)]
    # 64 deviates beyond 5.5: 2.4e-6 in all.
    assert np.abs(np.array(rates) - len(flipped) / 2).max() / math.sqrt(len(flipped) / 4) < 5.5


def first_words(states: Words) -> Words:
    total = states[:, 0] + states[:, 3]
    return ((total << np.uint64(23)) | (total >> np.uint64(41))) + states[:, 0]
