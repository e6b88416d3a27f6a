"""Arms that change: every round as in plain Python, and regret against the best arm of the round.

Unless a test says otherwise, the kernel runs in plain Python.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np
import pytest
from oracles import algorithm1 as oracle
from oracles import worlds
from plain_kernel import plain_kernel
from scipy import stats

import entice
from entice.jit.decorators import plain_python
from entice.rng import ARMS, POLICY, REWARD, new_stream, normal, uniform
from entice.studio.jobs.trace_frames import trace_frames
from entice.testing import check_arms
from entice.theory import lower, theorem1
from entice.worlds.changing_arms import fixed_arms, means_by_round

pytestmark = pytest.mark.usefixtures("unmeasured")

T, SEED, REPLICATION = 160, 11, 2
GAUSSIAN = entice.Gaussian([0.9, 0.5, 0.1], std=0.5)
BERNOULLI = entice.Bernoulli([0.8, 0.5, 0.2])
BETA = entice.Beta(a=[3, 1, 0.5], b=[1, 1, 2])
STARS = entice.Empirical(values=[1, 2, 5], weights=[[1, 1, 2], [4, 1, 0], [0, 2, 2]])


def pareto(arm, params, rng):
    return (arm + 1) / 3 / (1 - entice.rng.uniform(rng)) ** (1 / params[0])


CUSTOM = entice.CustomArms(pareto, means=[0.5, 1, 1.5], params=[3])
AT = [51, 52, 120]
ROWS = {
    "gaussian": [[0.1, 0.5, 0.9], [-2, 0, 3], [0.9, 0.5, 0.1]],
    "bernoulli": [[0.2, 0.5, 0.8], [0, 1, 0.5], [0.8, 0.5, 0.2]],
    "beta": [[0.2, 0.5, 0.8], [0, 1, 0.5], [0.75, 0.5, 0.2]],
    "stars": [[1.5, 3, 4], [1, 5, 2], [3.25, 3, 2]],
    "custom": [[2, 1, 0], [0.5, 1, 1.5], [-1, 1, 0]],
}
KINDS: dict[str, Any] = {
    "gaussian": GAUSSIAN, "bernoulli": BERNOULLI, "beta": BETA, "stars": STARS, "custom": CUSTOM,
}  # fmt: skip
BOUNDS = {"bernoulli": (0.0, 1.0), "beta": (0.0, 1.0), "stars": (1.0, 5.0)}
RATES = {"gaussian": 0.05, "bernoulli": 0.1, "beta": 0.1, "stars": 3.0, "custom": 0.1}
WORLDS = [(kind, world) for kind in KINDS for world in ("changing", "wandering")]
POLICIES = [
    (entice.UCB(), oracle.UCB()),
    (entice.ThompsonSampling(), oracle.Thompson("variance")),
]


def arms_of(kind: str, world: str) -> Any:
    if world == "changing":
        return entice.Changing(KINDS[kind], at=AT, means=ROWS[kind])
    return entice.Wandering(KINDS[kind], rate=RATES[kind])


def study(arms: Any, **changes: Any) -> entice.Study:
    settings: dict[str, Any] = {
        "policies": [entice.UCB()], "drifts": [entice.LinearDrift(1.1)], "horizon": T,
        "replications": 3, "seed": SEED, "checkpoints": [80],
    }  # fmt: skip
    return entice.Study(arms=arms, **settings | changes)


@pytest.mark.usefixtures("plain")
@pytest.mark.parametrize(("kind", "world"), WORLDS)
def test_every_round_equals_that_of_the_reference(kind: str, world: str) -> None:
    """Both policies meet the same path of means, which the reference draws without a policy."""
    arms, base, bounds = arms_of(kind, world), KINDS[kind], BOUNDS.get(kind)
    start, sampler = base.true_means().tolist(), base.sampler()
    walk = new_stream(SEED, REPLICATION, ARMS)
    path, draws = worlds.wandering(
        start, RATES[kind], bounds, T, lambda: normal(walk), lambda: uniform(walk)
    )
    if world == "changing":
        path, walk = worlds.jumping(start, AT, ROWS[kind], T), new_stream(SEED, REPLICATION, ARMS)
        draws = [uniform(walk) if bounds else 0.0 for _ in range(T)]
    assert means_by_round(arms, T, SEED, REPLICATION) == pytest.approx(np.array(path), abs=1e-12)
    for ours, plain in POLICIES:
        rewards, policy = (
            new_stream(SEED, REPLICATION, REWARD),
            new_stream(SEED, REPLICATION, POLICY),
        )
        rounds = iter(range(T))

        def reward(arm: int) -> float:
            t = next(rounds)  # noqa: B023
            drawn = sampler.sample(arm, sampler.params, rewards)  # noqa: B023
            return worlds.moved(float(drawn), start[arm], path[t][arm], bounds, draws[t])

        played = oracle.play(
            policy=plain, arms=3, horizon=T, reward=reward, drift=lambda x, t, arm: 1.1 * x,
            uniform=lambda: uniform(policy), normal=lambda: normal(policy), prior=None,  # noqa: B023
            feedback_range=None,
        )  # fmt: skip
        made = study(arms, policies=[ours])
        trace = entice.trace(made, replication=REPLICATION, displayed=False)
        assert trace["arm"].to_list() == [r.arm for r in played]
        assert trace["feedback"].to_list() == pytest.approx([r.feedback for r in played], abs=1e-9)
        row = entice.run(made, progress=False).final.row(REPLICATION, named=True)
        expected = worlds.regret_by_round([r.arm for r in played], path)
        assert row["regret"] == pytest.approx(expected, abs=1e-9)
        assert row["regret"] != pytest.approx(oracle.regret(played, start), rel=0.01)  # the control
        best = oracle.argmax(path[-1])
        average = oracle.average([r.feedback for r in played if r.arm == best], 0.0)
        error = abs(average - path[-1][best]) / abs(path[-1][best])
        assert row["best_arm_error"] == pytest.approx(error, rel=1e-6, abs=1e-9)


@pytest.mark.parametrize(
    "arms",
    [arms_of("gaussian", "changing"), arms_of("bernoulli", "wandering")],
    ids=["changing", "wandering"],
)
def test_compiled_runs_equal_those_in_plain_python(arms: Any) -> None:
    made = study(arms)
    compiled = entice.run(made, progress=False)
    with plain_kernel():
        plain = entice.run(made, progress=False)
    assert compiled.final.equals(plain.final)
    assert compiled.curves.equals(plain.curves)


@pytest.mark.usefixtures("plain")
@pytest.mark.parametrize("kind", KINDS)
def test_a_change_to_the_same_means_changes_nothing(kind: str) -> None:
    """The same rewards, and regret that differs by rounding only."""
    means = [KINDS[kind].true_means().tolist()]
    changed = entice.run(study(entice.Changing(KINDS[kind], [50], means)), progress=False).final
    fixed = entice.run(study(KINDS[kind], engine="generic"), progress=False).final
    assert changed.drop("regret").equals(fixed.drop("regret"))
    assert changed["regret"].to_list() == pytest.approx(fixed["regret"].to_list(), abs=1e-9)


@pytest.mark.parametrize("kind", KINDS)
def test_rewards_have_the_means_of_their_round(kind: str) -> None:
    """The error probability of each of the 15 averages is 1e-6."""
    sampler, low, high = arms_of(kind, "changing").sampler(), *fixed_arms(KINDS[kind]).support()
    stream, rewards = new_stream(1, 0, ARMS), new_stream(1, 0, REWARD)
    draw = partial(plain_python(sampler.draw), sampler.sample)
    for arm in range(3):
        for change, row in enumerate(ROWS[kind]):
            memory = np.zeros(sampler.memory)
            draw(1, arm, sampler.params, memory, stream, rewards)
            for t in AT[: change + 1]:
                draw(t, arm, sampler.params, memory, stream, rewards)
            drawn = np.array(
                [draw(999, arm, sampler.params, memory, stream, rewards) for _ in range(1_000)]
            )
            errors = max(drawn.std() / math.sqrt(len(drawn)), 1e-12)
            assert abs(drawn.mean() - row[arm]) < 4.9 * errors
            if kind in BOUNDS:
                assert low <= drawn.min() <= drawn.max() <= high


def test_walks_have_the_stated_rate_and_stay_in_their_range() -> None:
    """The error probability of the interval for the rate is 1e-6."""
    path = means_by_round(entice.Wandering(GAUSSIAN, rate=0.02), 5_000, SEED, 0)
    steps = np.diff(path, axis=0).ravel()
    low, high = stats.chi2(len(steps)).ppf([5e-7, 1 - 5e-7])
    assert low < (steps**2).sum() / 0.02**2 < high
    assert not np.allclose(path, means_by_round(entice.Wandering(GAUSSIAN, 0.02), 5_000, SEED, 1))
    for rate in (0.1, 30.0):  # steps of more than the width of the range are reflected repeatedly
        inside = means_by_round(entice.Wandering(STARS, rate), 2_000, SEED, 0)
        assert inside.min() >= 1
        assert inside.max() <= 5
        assert np.ptp(inside) > 3.9


@pytest.mark.parametrize(("kind", "world"), [w for w in WORLDS if w[0] != "custom"])
def test_a_study_with_them_survives_files(kind: str, world: str) -> None:
    made = study(arms_of(kind, world))
    assert entice.Study.from_toml(made.to_toml()) == made
    again = entice.Study.from_json(made.to_json())
    assert again == made
    assert again.key() == made.key()
    assert made.key() != study(KINDS[kind]).key()
    assert made.engines() == ("generic",)


def test_they_have_the_names_of_their_arms() -> None:
    tea = entice.Gaussian([0.9, 0.1], names=["tea", "water"])
    assert entice.Wandering(tea, 0.1).names == ("tea", "water")
    assert entice.Wandering(tea, 0.1, names=["a", "b"]).names == ("a", "b")


@pytest.mark.usefixtures("plain")
def test_what_needs_fixed_means_is_left_out_or_refused() -> None:
    arms = entice.Changing(BERNOULLI, at=[80], means=[[0.1, 0.2, 0.9]])
    made = study(arms)
    result = entice.run(made, progress=False)
    assert result.pulls_per_arm()["true_mean"].to_list() == [None] * 3
    reasons = theorem1.regret.applies(made).reasons
    assert "the arms' means change, which the model excludes" in reasons
    with pytest.raises(entice.InputError, match="arms must be arms with fixed means"):
        lower.divergences(arms)  # type: ignore[arg-type]
    for adversary in (entice.Attacker(), entice.StrategicArms(5)):
        with pytest.raises(entice.InputError, match="adversary must be NoAdversary if means"):
            study(arms, adversary=adversary)
    check_arms(arms)  # those of round 1
    frames = trace_frames(made, 0, 0, REPLICATION)
    assert frames["regret"][-1] == pytest.approx(result.final["regret"][REPLICATION])
    assert frames["true_means"] == [0.1, 0.2, 0.9]


def test_no_run_can_exceed_the_largest_regret_that_bounds_are_compared_with() -> None:
    assert entice.Changing(GAUSSIAN, [9], [[0, 0, 4]]).largest_gap() == 4
    assert entice.Changing(GAUSSIAN, [9], [[0, 0, 0]]).largest_gap() == pytest.approx(0.8)
    assert entice.Wandering(BERNOULLI, 0.1).largest_gap() == 1
    assert entice.Wandering(GAUSSIAN, 0.1).largest_gap() == math.inf


def test_supports() -> None:
    """Policies for ratings between 0 and 1 are accepted where rewards stay there."""
    assert study(entice.Wandering(BETA, 0.1), policies=[entice.KLUCB()])
    with pytest.raises(entice.InputError, match="needs ratings between 0 and 1"):
        study(entice.Wandering(GAUSSIAN, 0.1), policies=[entice.KLUCB()])
    still = entice.Gaussian([0.5, 0.2], std=0)
    assert study(entice.Changing(still, [9], [[0.1, 0.9]]), policies=[entice.KLUCB()])
    with pytest.raises(entice.InputError, match="needs ratings between 0 and 1"):
        study(entice.Changing(still, [9], [[0.1, 1.9]]), policies=[entice.KLUCB()])


CHANGING, WANDERING = entice.Changing, entice.Wandering


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: CHANGING([0.9, 0.1], [5], [[0, 1]]), "arms must be arms with fixed means, one of"),
        (
            lambda: WANDERING(entice.Wandering(GAUSSIAN, 0.1), 0.1),
            "Wandering: arms must be arms with fixed means, one of Gaussian, Bernoulli, Beta",
        ),
        (lambda: CHANGING(GAUSSIAN, 5, [[0, 0, 1]]), "at must be a list of at least one round"),
        (lambda: CHANGING(GAUSSIAN, [], []), "at must be a list of at least one round"),
        (lambda: CHANGING(GAUSSIAN, [1.5], [[0, 0, 1]]), r"at\[0\] must be a whole number"),
        (lambda: CHANGING(GAUSSIAN, [1], [[0, 0, 1]]), "increasing order, the first at least 2"),
        (lambda: CHANGING(GAUSSIAN, [9, 9], [[0, 0, 1]] * 2), "rounds in increasing order"),
        (lambda: CHANGING(GAUSSIAN, [9, 10], [[0, 0, 1]]), "a list of 2 lists of means"),
        (lambda: CHANGING(GAUSSIAN, [9], [0, 0, 1]), "must be a list of 1 lists of means"),
        (lambda: CHANGING(GAUSSIAN, [9], [[0, 1]]), r"means\[0\] must have one mean for each of"),
        (lambda: CHANGING(GAUSSIAN, [9], [[0, 1, math.nan]]), r"means\[0\]\[2\] must be a finite"),
        (lambda: CHANGING(BERNOULLI, [9], [[0, 0, 1.1]]), "must lie between 0 and 1, the range"),
        (lambda: CHANGING(STARS, [9], [[0.5, 2, 3]]), "must lie between 1 and 5, the range of"),
        (lambda: WANDERING(GAUSSIAN, 0), "Wandering: rate must be greater than 0; got 0"),
        (lambda: WANDERING(GAUSSIAN, "x"), "Wandering: rate must be a number"),
        (lambda: WANDERING(GAUSSIAN, 1, names=["a"]), "names must have one for each of the 3"),
        (
            lambda: entice.Study.from_toml(
                'arms = { kind = "wandering", arms = { kind = "gausian" }, rate = 1 }'
            ),
            "arms: arms: kind is unknown; got 'gausian'. Did you mean 'gaussian'",
        ),
    ],
)  # fmt: skip
def test_bad_settings_are_rejected(make: Any, message: str) -> None:
    with pytest.raises(entice.InputError, match=message):
        make()
