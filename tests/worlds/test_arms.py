"""Arms: draws follow the stated distribution, and invalid input is reported.

All seeds are fixed, so a test that passes once passes always. The error probabilities stated here
are those of a correct sampler failing under a seed chosen at random.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import entice
from entice.jit.decorators import compiled_noinline
from entice.rng import REWARD, Stream, new_stream

SEED = 20_200_207
DRAWS = 200_000
ALPHA = 1e-6  # the error probability of each assertion that compares with it
Z = 5.0  # beyond it a normal deviate falls with probability 5.7e-7

Floats = npt.NDArray[np.float64]
Arms = entice.Gaussian | entice.Bernoulli | entice.Beta | entice.Empirical


@compiled_noinline
def fill(
    out: Floats, sample: Callable[..., float], arm: int, params: tuple[Any, ...], stream: Stream
) -> None:
    for i in range(out.shape[0]):
        out[i] = sample(arm, params, stream)


def draws(arms: Arms, arm: int, count: int = DRAWS) -> Floats:
    sampler = arms.sampler()
    out = np.empty(count)
    fill(out, sampler.sample, arm, sampler.params, new_stream(SEED, arm, REWARD))
    return out


def assert_mean(drawn: Floats, mean: float, std: float) -> None:
    assert abs(drawn.mean() - mean) < Z * std / math.sqrt(len(drawn))


# Draws.

GAUSSIAN = entice.Gaussian([0.9, -3.0, 1e6], std=[1.0, 0.01, 250.0])


@pytest.mark.parametrize("arm", range(3))
def test_gaussian_arms_draw_from_a_normal_distribution_of_their_own_std(arm: int) -> None:
    drawn = draws(GAUSSIAN, arm)
    mean, std = GAUSSIAN.means[arm], GAUSSIAN.std[arm]  # type: ignore[index]
    assert stats.kstest(drawn, stats.norm(mean, std).cdf).pvalue > ALPHA
    assert_mean(drawn, GAUSSIAN.true_means()[arm], std)


def test_gaussian_arms_may_share_a_std() -> None:
    arms = entice.Gaussian([0.0, 5.0], std=2)
    for arm, mean in enumerate(arms.means):
        assert stats.kstest(draws(arms, arm), stats.norm(mean, 2).cdf).pvalue > ALPHA


def test_gaussian_arms_have_std_1_by_default() -> None:
    assert entice.Gaussian([0, 1]) == entice.Gaussian([0, 1], std=1.0)


def test_gaussian_arms_of_std_0_always_draw_their_mean() -> None:
    arms = entice.Gaussian([0.3, 0.7], std=[0, 1])
    assert (draws(arms, 0) == 0.3).all()
    assert draws(arms, 1).std() > 0.9


BERNOULLI = entice.Bernoulli([0.0, 1.0, 0.5, 0.9, 1e-4])


@pytest.mark.parametrize("arm", range(5))
def test_bernoulli_arms_draw_1_as_often_as_their_mean_says(arm: int) -> None:
    drawn = draws(BERNOULLI, arm)
    ones = int(np.count_nonzero(drawn == 1.0))
    assert ones + np.count_nonzero(drawn == 0.0) == len(drawn)
    assert stats.binomtest(ones, len(drawn), BERNOULLI.true_means()[arm]).pvalue > ALPHA


def test_bernoulli_arms_of_mean_0_and_1_are_certain() -> None:
    assert draws(BERNOULLI, 0).max() == 0.0
    assert draws(BERNOULLI, 1).min() == 1.0


BETA = [(3.0, 1.0), (0.5, 0.5), (0.05, 2.0), (30.0, 50.0), (1.0, 1.0), (0.7, 40.0)]


@pytest.mark.parametrize(("a", "b"), BETA)
def test_beta_arms_draw_from_a_beta_distribution(a: float, b: float) -> None:
    arms = entice.Beta(a=[1, a], b=[1, b])
    drawn = draws(arms, 1)
    assert stats.kstest(drawn, stats.beta(a, b).cdf).pvalue > ALPHA
    assert_mean(drawn, arms.true_means()[1], stats.beta(a, b).std())


BOTH_ENDS = [1e-200, 1e-50, 1e-6, 0.5, 1 - 1e-6]
TINY = [
    (1e-3, 1e-3, BOTH_ENDS),
    (1e-3, 3e-3, BOTH_ENDS),
    (1e-4, 3e-4, BOTH_ENDS),
    (1e-3, 5.0, [1e-200, 1e-50, 1e-6]),
    (2.0, 1e-3, [1 - 1e-6, 1 - 1e-12]),
    (2.0, 0.05, [0.5, 0.9, 1 - 1e-6, 1 - 1e-12]),
]


@pytest.mark.parametrize(("a", "b", "cuts"), TINY)
def test_beta_arms_of_tiny_shapes_have_the_right_mass_in_each_interval(
    a: float, b: float, cuts: list[float]
) -> None:
    # Much of the mass is closer to 0 and 1 than floats can represent, so compare the mass in
    # intervals, of which the outermost include 0 and 1.
    arms = entice.Beta(a=[1, a], b=[1, b])
    drawn = draws(arms, 1)
    assert drawn.min() >= 0.0
    assert drawn.max() <= 1.0
    counts = np.bincount(np.searchsorted(cuts, drawn), minlength=len(cuts) + 1)
    mass = np.diff(np.concatenate([[0.0], stats.beta(a, b).cdf(cuts), [1.0]]))
    assert stats.chisquare(counts, mass * len(drawn)).pvalue > ALPHA


@pytest.mark.parametrize(("a", "b"), [(a, b) for a, b, _ in TINY])
def test_beta_arms_of_tiny_shapes_have_their_mean(a: float, b: float) -> None:
    arms = entice.Beta(a=[1, a], b=[1, b])
    assert_mean(draws(arms, 1), arms.true_means()[1], stats.beta(a, b).std())


def test_empirical_arms_draw_values_as_often_as_their_weights_say() -> None:
    values = [5.0, -1.0, 3.5, 0.0]  # in no order
    weights = [[1, 2, 3, 4], [0.7, 0.1, 0.1, 0.1], [0, 5, 0, 5]]
    arms = entice.Empirical(values, weights)
    for arm, row in enumerate(np.array(weights)):
        drawn = draws(arms, arm)
        counts = np.array([np.count_nonzero(drawn == value) for value in values])
        assert counts.sum() == len(drawn)
        assert (counts[row == 0] == 0).all()
        expected = row[row > 0] / row.sum() * len(drawn)
        assert stats.chisquare(counts[row > 0], expected).pvalue > ALPHA
        spread = np.repeat(values, (10 * row).astype(int)).std()
        assert_mean(drawn, arms.true_means()[arm], spread)


def test_empirical_arms_may_have_a_thousand_values() -> None:
    chance = np.random.default_rng(SEED)
    values = chance.permutation(1000) / 7.0
    weights = chance.uniform(1.0, 3.0, (2, 1000))
    weights[:, chance.permutation(1000)[:300]] = 0.0
    weights[0, -1] = weights[0, 0] = 0.0
    arms = entice.Empirical(values, weights)
    order = np.argsort(values)
    for arm in range(2):
        drawn = draws(arms, arm, 1_000_000)
        places = order[np.searchsorted(values[order], drawn)]
        assert (values[places] == drawn).all()
        counts = np.bincount(places, minlength=1000)
        possible = weights[arm] > 0
        assert counts[~possible].sum() == 0
        expected = weights[arm] / weights[arm].sum() * len(drawn)
        assert stats.chisquare(counts[possible], expected[possible]).pvalue > ALPHA
        assert_mean(drawn, arms.true_means()[arm], values.std() * 1.1)


def test_empirical_arms_may_have_a_single_value() -> None:
    arms = entice.Empirical([4.5], [[2], [0.1]])
    assert (draws(arms, 0) == 4.5).all()
    assert arms.true_means().tolist() == [4.5, 4.5]


def test_empirical_arms_may_repeat_a_value() -> None:
    arms = entice.Empirical([1, 0, 1], [[1, 2, 1], [1, 1, 0]])
    ones = int(draws(arms, 0).sum())
    assert stats.binomtest(ones, DRAWS, 0.5).pvalue > ALPHA


# States of the generator whose next uniform number is the lowest, the highest, and one between.
ENDS = ([0, 1, 2, 0], [0, 1, 2, 2**64 - 1], [1, 2, 3, 2**62])

weight = st.one_of(st.just(0.0), st.floats(0.0, 1e300), st.sampled_from([5e-324, 0.1, 1 / 3]))
row = st.lists(weight, min_size=6, max_size=6).filter(lambda weights: sum(weights) > 0)


@pytest.mark.usefixtures("untraced")
@settings(deadline=None, max_examples=300)
@given(weights=st.lists(row, min_size=2, max_size=3))
def test_empirical_arms_never_draw_a_value_without_weight(weights: list[list[float]]) -> None:
    sampler = entice.Empirical(range(6), weights).sampler()
    for arm, own in enumerate(weights):
        for state in ENDS:
            drawn = sampler.sample(arm, sampler.params, np.array(state, dtype=np.uint64))
            assert own[int(drawn)] > 0


@pytest.mark.parametrize("count", [3, 7, 10, 49, 1000])
def test_rounding_of_cumulative_weights_makes_no_value_possible(count: int) -> None:
    # Equal parts of 1 add up to a little less than 1 here, or to a little more.
    sampler = entice.Empirical(range(count + 2), [[0, *[1 / count] * count, 0]] * 2).sampler()
    lowest, highest = (np.array(state, dtype=np.uint64) for state in ENDS[:2])
    assert sampler.sample(0, sampler.params, lowest) == 1
    assert sampler.sample(0, sampler.params, highest) == count


def test_bernoulli_arms_of_mean_0_and_1_are_certain_for_every_uniform_number() -> None:
    sampler = BERNOULLI.sampler()
    for arm in 0, 1:
        for state in ENDS:
            stream = np.array(state, dtype=np.uint64)
            assert sampler.sample(arm, sampler.params, stream) == arm


# True means.


@pytest.mark.parametrize(
    ("arms", "means"),
    [
        (entice.Gaussian([0.9, -2], std=3), [0.9, -2.0]),
        (entice.Bernoulli([0, 0.25, 1]), [0.0, 0.25, 1.0]),
        (entice.Beta(a=[3, 1e-3], b=[1, 3e-3]), [0.75, 0.25]),
        (entice.Empirical([5, 1, 3], [[1, 1, 2], [0, 0, 9]]), [3.0, 3.0]),
        (entice.Empirical([0, 1], [[0.25, 0.75], [1, 3]]), [0.75, 0.75]),
    ],
)
def test_true_means_are_those_of_the_stated_distribution(arms: Arms, means: list[float]) -> None:
    assert arms.true_means().dtype == np.float64
    assert arms.true_means().tolist() == pytest.approx(means, rel=1e-12)


def test_changing_returned_arrays_does_not_change_the_arms() -> None:
    for arms in (
        GAUSSIAN,
        BERNOULLI,
        entice.Beta([1, 2], [1, 2]),
        entice.Empirical([1], [[1]] * 2),
    ):
        means = arms.true_means().tolist()
        arms.true_means()[:] = 99.0
        for array in arms.sampler().params:
            array[:] = 0.5
        assert arms.true_means().tolist() == means


def test_numbers_may_be_lists_tuples_arrays_and_ranges() -> None:
    expected = entice.Gaussian((0.5, 1.0), std=(1.0, 2.0))
    assert entice.Gaussian([0.5, 1], std=[1, 2]) == expected
    assert entice.Gaussian(np.array([0.5, 1]), std=np.array([1, 2])) == expected
    assert entice.Gaussian([0.5, np.float32(1)], std=(np.int8(1), 2)) == expected
    weights = entice.Empirical((0.0, 1.0), ((1.0, 2.0), (3.0, 4.0)))
    assert entice.Empirical(np.arange(2), np.array([[1, 2], [3, 4]])) == weights
    assert entice.Empirical(range(2), [range(1, 3), range(3, 5)]) == weights


# Invalid input: the message contains the field and the value.

NAN, INF = math.nan, math.inf

BAD = [
    *(
        (lambda x, kind=kind: kind(x), f"{kind.__name__}: {field}", given, shown)
        for kind in (entice.Gaussian, entice.Bernoulli)
        for field, given, shown in [
            ("means", [], "()"),
            ("means", [0.5], "(0.5,)"),
            ("means", "0.5", "'0.5'"),
            ("means", 0.5, "0.5"),
            ("means", None, "None"),
            ("means[1]", [0.5, NAN], "nan"),
            ("means[0]", [-INF, 0.5], "-inf"),
            ("means[0]", ["0.5", "0.6"], "'0.5'"),
            ("means[1]", [0.5, None], "None"),
            ("means[0]", [True, False], "True"),
            ("means[0]", [[0.1, 0.2], [0.3, 0.4]], "[0.1, 0.2]"),
            ("means[1]", [0.5, 10**400], "1000000"),
        ]
    ),
    (entice.Bernoulli, "Bernoulli: means", [0.5, 1.1], "(0.5, 1.1)"),
    (entice.Bernoulli, "Bernoulli: means", [-0.1, 0.5], "(-0.1, 0.5)"),
    *(
        (lambda x: entice.Gaussian([1, 2], std=x), f"Gaussian: {field}", given, shown)
        for field, given, shown in [
            ("std", -1, "-1"),
            ("std", [1, -0.5], "(1.0, -0.5)"),
            ("std", NAN, "nan"),
            ("std", INF, "inf"),
            ("std", "1", "'1'"),
            ("std", None, "None"),
            ("std", [], "()"),
            ("std", [1], "(1.0,)"),
            ("std", [1, 2, 3], "(1.0, 2.0, 3.0)"),
            ("std[1]", [1, NAN], "nan"),
            ("std[0]", ["a", "b"], "'a'"),
            ("std[0]", [[1, 2], [3, 4]], "[1, 2]"),
            ("std[0]", [[1, 2], [3]], "[1, 2]"),
        ]
    ),
    *(
        (lambda x: entice.Beta(*x), f"Beta: {field}", given, shown)
        for field, given, shown in [
            ("a", ([], []), "()"),
            ("a", ([1], [1]), "(1.0,)"),
            ("a", ("12", [1, 2]), "'12'"),
            ("b", ([1, 2], "12"), "'12'"),
            ("b", ([1, 2], [1]), "(1.0,)"),
            ("b", ([1, 2], [1, 2, 3]), "(1.0, 2.0, 3.0)"),
            ("b", ([1, 2], 3), "3"),
            ("a", ([0, 1], [1, 1]), "(0.0, 1.0)"),
            ("b", ([1, 1], [1, -2]), "(1.0, -2.0)"),
            ("a[1]", ([1, NAN], [1, 1]), "nan"),
            ("b[0]", ([1, 1], [INF, 1]), "inf"),
            ("a[0]", (["x", 1], [1, 1]), "'x'"),
        ]
    ),
    *(
        (lambda x: entice.Empirical(*x), f"Empirical: {field}", given, shown)
        for field, given, shown in [
            ("values", ([], [[], []]), "[]"),
            ("values", ("01", [[1, 1], [1, 1]]), "'01'"),
            ("values[1]", ([0, NAN], [[1, 1], [1, 1]]), "nan"),
            ("values[0]", ([INF, 1], [[1, 1], [1, 1]]), "inf"),
            ("values[0]", (["a", 1], [[1, 1], [1, 1]]), "'a'"),
            ("weights", ([0, 1], []), "[]"),
            ("weights", ([0, 1], None), "None"),
            ("weights", ([0, 1], "ab"), "'ab'"),
            ("weights", ([0, 1], [1, 2]), "[1, 2]"),
            ("weights", ([0, 1], [[1, 1]]), "[[1, 1]]"),
            ("weights[0][0]", ([0, 1], [[[1, 1], [1, 1]]]), "[1, 1]"),
            ("weights[0]", ([0, 1], [[], []]), "()"),
            ("weights[0]", ([0, 1], [[1], [1]]), "(1.0,)"),
            ("weights[1]", ([0, 1], [[1, 1], [1]]), "(1.0,)"),
            ("weights[1]", ([0, 1], [[1, 1], [1, 1, 1]]), "(1.0, 1.0, 1.0)"),
            ("weights[1]", ([0, 1], [[1, 1], [2, -1]]), "(2.0, -1.0)"),
            ("weights[0]", ([0, 1], [[0, 0], [1, 1]]), "(0.0, 0.0)"),
            ("weights[0][1]", ([0, 1], [[1, NAN], [1, 1]]), "nan"),
            ("weights[1][0]", ([0, 1], [[1, 1], [INF, 1]]), "inf"),
            ("weights[0][0]", ([0, 1], [["a", "b"], ["c", "d"]]), "'a'"),
            ("weights[1][0]", ([0, 1], [[1, 1], [None, 1]]), "None"),
        ]
    ),
]


@pytest.mark.parametrize(
    ("make", "name", "given", "shown"), BAD, ids=[f"{b[1]} {b[2]}"[:60] for b in BAD]
)
def test_invalid_input_is_reported_with_field_and_value(
    make: Callable[[Any], Arms], name: str, given: Any, shown: str
) -> None:
    with pytest.raises(entice.InputError) as caught:
        make(given)
    assert caught.value.name == name
    assert str(caught.value).startswith(f"{name} must ")
    assert f"; got {shown}" in str(caught.value)
