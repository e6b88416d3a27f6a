"""The components of the fast paths, their edge cases, and their selection.

`test_exactness.py` tests that whole paths are exact in distribution. Probabilities of a false alarm
are stated for random seeds; the seeds here are fixed.
"""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import msgspec
import numba
import numpy as np
import pytest
from exactness import p_values, sample
from scipy import special, stats
from sizes import sized

import entice
from entice.engine.fast import epsilon_greedy, random_walk
from entice.engine.fast.simd import HALF_WIDTH, WIDTH
from entice.engine.fast.thompson_sampling import normal_tails
from entice.jit.cache_aligned import cache_aligned
from entice.parallel import Stopped
from entice.rng import new_stream, normal, seed_stream
from entice.study.running.cell import Cell
from entice.study.running.run import StudyRun
from entice.study.running.threads import ThreadExecutor

pytestmark = pytest.mark.usefixtures("unmeasured")

POLICIES = [
    entice.UCB(),
    entice.EpsilonGreedy(c=1),
    entice.Greedy(),
    entice.ThompsonSampling(),
    entice.ThompsonSampling(scale="std"),
]
by_policy = pytest.mark.parametrize("policy", POLICIES, ids=lambda p: p.label)


def study(policy: Any, **changes: Any) -> entice.Study:
    settings: dict[str, Any] = {
        "arms": entice.Gaussian([0.9, 0.5, 0.1]),
        "drifts": [entice.LinearDrift(0.5)],
        "horizon": 1_000,
        "replications": 20,
        "seed": 7,
    }
    return entice.Study(policies=[policy], **settings | changes)


# Walks and bridges


@numba.njit
def _walk_by_jumps(lead, slope, std, steps, replications, out):  # type: ignore[no-untyped-def]
    """Run walks by jumps until their lead is lost, or for all steps."""
    stream = np.empty(4, np.uint64)
    for i in range(replications):
        seed_stream(stream, 11, i, 40)
        out[i, 0], out[i, 1] = random_walk.take_steps(
            lead, slope, std, steps, normal(stream), stream
        )


@numba.njit
def _walk_by_steps(lead, slope, std, steps, replications, out):  # type: ignore[no-untyped-def]
    """Run the same walks step by step."""
    stream = np.empty(4, np.uint64)
    for i in range(replications):
        seed_stream(stream, 12, i, 40)
        done, end = 0, lead
        while done < steps and end > 0.0:
            done += 1
            end += slope + std * normal(stream)
        out[i, 0], out[i, 1] = done, end


@pytest.mark.parametrize("lead", [0.02, 1.0, 4.0])
@pytest.mark.parametrize("slope", [-0.3, 0.0, 0.1])
@pytest.mark.parametrize(("std", "steps"), [(1.0, 1), (1.0, 3), (0.5, 7), (1.0, 40), (2.0, 500)])
def test_a_jump_ends_when_and_where_a_walk_does(
    lead: float, slope: float, std: float, steps: int
) -> None:
    """45 cases of 4 tests: a false alarm with probability 2e-5, whatever the number of walks."""
    one, other = np.empty((2, sized(50_000, 200_000), 2))
    _walk_by_jumps(lead, slope, std, steps, len(one), one)
    _walk_by_steps(lead, slope, std, steps, len(other), other)
    kept = [x[x[:, 0] == steps, 1] for x in (one, other)]
    lost = [x[x[:, 1] <= 0, 1] for x in (one, other)]
    found = [stats.ks_2samp(one[:, j], other[:, j], method="asymp").pvalue for j in (0, 1)]
    for ends in (kept, lost):
        if min(map(len, ends)) > 100:  # otherwise the asymptotic law does not apply
            found.append(stats.ks_2samp(*ends, method="asymp").pvalue)
    assert min(found) > 1e-7


# ε-greedy's rounds of exploration


@numba.njit
def _draw_explorations(workspace, rate, cold, explores, tried):  # type: ignore[no-untyped-def]
    horizon = explores.shape[1] - 1
    for i in range(explores.shape[0]):
        seed_stream(workspace.exploration_stream, 5, i, epsilon_greedy.EXPLORATION)
        t = 0
        while t < horizon:
            epsilon_greedy.draw_explorations(workspace, rate, cold, t, horizon)
            for j in range(workspace.rounds.shape[0]):
                t = workspace.rounds[j]
                if t > horizon:
                    break
                explores[i, t] = True
                tried[t, workspace.arms[j]] += 1


@pytest.mark.parametrize(("arms", "c", "cold"), [(3, 5.0, 0), (9, 0.05, 0), (2, 0.7, 2)])
def test_each_round_explores_with_its_own_probability(arms: int, c: float, cold: int) -> None:
    """150 rounds at 5.5 standard errors, and pairs of neighbours: a false alarm in 1e-5."""
    horizon, replications = 150, sized(50_000, 200_000)
    workspace = epsilon_greedy.new_workspace(arms, horizon)
    explores = np.zeros((replications, horizon + 1), dtype=bool)
    tried = np.zeros((horizon + 1, arms))
    _draw_explorations(workspace, c * arms, cold, explores, tried)
    expected = np.minimum(1.0, c * arms / np.arange(1, horizon + 1))
    expected[:cold] = 1.0
    by_chance = expected < 1
    assert explores[:, 1:][:, ~by_chance].all()
    e, hits = expected[by_chance], explores[:, 1:][:, by_chance]
    deviation = (hits.mean(axis=0) - e) / np.sqrt(e * (1 - e) / replications)
    assert abs(deviation).max() < 5.5
    pairs = ((hits[:, 1:] - e[1:]) * (hits[:, :-1] - e[:-1])).mean(axis=0)
    pairs /= np.sqrt(e[1:] * (1 - e[1:]) * e[:-1] * (1 - e[:-1]) / replications)
    assert abs(pairs.mean()) * np.sqrt(len(pairs)) < 5.5
    assert stats.chisquare(tried[1 + cold :].sum(axis=0)).pvalue > 1e-6
    assert (tried[1 : 1 + cold].argmax(axis=1) == np.arange(cold)).all()


# Thompson sampling's tails


def test_hazards_are_those_of_the_normal_distribution() -> None:
    z = np.linspace(-60, 37.5, 200_003)

    @numba.njit(error_model="numpy")
    def hazards(z):  # type: ignore[no-untyped-def]
        return np.array([normal_tails.hazard(x) for x in z])

    error = np.abs(hazards(z) / -special.log_ndtr(z) - 1)
    assert error[z > -30].max() < 1e-12
    assert error.max() < 1e-10


@numba.njit
def _draws_above(z, stream):  # type: ignore[no-untyped-def]
    return np.array([normal_tails.normal_above(z, stream) for _ in range(100_000)])


@pytest.mark.parametrize("z", [-8.0, 0.0, 0.29, 0.31, 2.0, 6.0, 20.0])
def test_draws_above_a_level_have_the_tail_s_distribution(z: float) -> None:
    x = _draws_above(z, new_stream(3, 0, 40))
    assert x.min() > z
    # log-survival is exponential beyond z, also where the survival function underflows
    beyond = stats.norm.logsf(z) - stats.norm.logsf(x)
    assert stats.kstest(beyond, "expon").pvalue > 1e-6


def test_exponential_draws_are_exponential() -> None:
    @numba.njit
    def draws(stream):  # type: ignore[no-untyped-def]
        return np.array([normal_tails.exponential(stream) for _ in range(400_000)])

    x = draws(new_stream(3, 1, 40))
    assert stats.kstest(x, "expon").pvalue > 1e-6
    tail = x[x > 7.7] - 7.7
    assert stats.kstest(tail, "expon").pvalue > 1e-6


# Edge cases


@by_policy
@pytest.mark.parametrize("arms", [3, 40])
def test_results_do_not_depend_on_blocks_and_threads(policy: Any, arms: int) -> None:
    means = np.linspace(0, 1, arms).tolist()
    spec = study(policy, arms=entice.Gaussian(means), checkpoints=[3, 100], replications=41)
    results = [
        StudyRun(spec, ThreadExecutor(threads), block_size=size).run(lambda done, total: None)
        for size, threads in ((41, 1), (1, 2), (7, 2))
    ]
    for other in results[1:]:
        assert other.final.equals(results[0].final)
        assert other.curves.equals(results[0].curves)


@by_policy
@pytest.mark.parametrize("cold_start", ["each_arm_once", "prior"])
@pytest.mark.parametrize("arms", [2, 40, 300])
def test_checkpoints_within_the_cold_start(policy: Any, cold_start: str, arms: int) -> None:
    """30 comparisons, each with a false alarm with probability 1e-5."""
    changes: dict[str, Any] = {
        "arms": entice.Gaussian(np.linspace(-1, 1, arms).tolist(), std=1.5),
        "horizon": arms + 3,
        "checkpoints": sorted({1, arms // 2, arms, arms + 1}),
        "cold_start": cold_start,
        "prior": 0.3 if cold_start == "prior" else 0.0,
    }
    fast = sample(study(policy, **changes), 1_000)
    kernel = sample(study(policy, **changes, engine="generic", seed=8), 1_000)
    found = p_values(fast, kernel)
    assert min(found)[0] > 1e-5 / len(found), min(found)


@pytest.mark.parametrize("arms", [HALF_WIDTH, HALF_WIDTH + 1, WIDTH, WIDTH + 1])
@pytest.mark.parametrize("last", [False, True], ids=["the first", "the last"])
def test_ucb_finds_the_best_arm_at_each_end_of_a_vector(arms: int, last: bool) -> None:
    """An arm is three standard deviations better than the others.

    In 4,000 runs of either engine, the others were pulled 2.7 times each on average, with a
    standard deviation of 0.4 between runs: the limit of 10 is 18 of them away.
    """
    means = np.zeros(arms)
    means[-last] = 3.0
    spec = study(entice.UCB(), arms=entice.Gaussian(means.tolist()))
    _, pulls = sample(spec, 20)
    assert (pulls[:, -last] > 1_000 - 10 * arms).all()


@by_policy
def test_a_single_round(policy: Any) -> None:
    changes: dict[str, Any] = {"horizon": 1, "checkpoints": 1, "cold_start": "prior"}
    fast = sample(study(policy, **changes), 4_000)
    kernel = sample(study(policy, **changes, engine="generic", seed=8), 4_000)
    found = p_values(fast, kernel)
    assert min(found)[0] > 1e-5 / len(found), min(found)


@by_policy
@pytest.mark.parametrize(
    "arms",
    [
        entice.Gaussian([0.0] * 50, std=1e-3),
        entice.Gaussian([1e150, -1e150, 0.0]),
        entice.Gaussian([1e9, 1e9 + 1e-3], std=1e-6),
        entice.Gaussian([0.0, 1.0], std=1e-300),
        entice.Gaussian([0.0, 1.0], std=1e150),
        entice.Gaussian(np.linspace(0, 1e6, 257).tolist(), std=1e3),
    ],
    ids=lambda arms: f"{len(arms.means)} arms {arms.means[-1]:g} ± {arms.std:g}",
)
def test_extreme_arms_finish_with_all_rounds_accounted_for(policy: Any, arms: Any) -> None:
    for cold in ({}, {"cold_start": "prior"}):
        spec = study(policy, arms=arms, horizon=3_000, checkpoints=50, **cold)
        assert (spec.engines() == ("fast",)) == (1e-140 < arms.std < 1e140)
        metrics, pulls = sample(spec, 10)
        assert (pulls >= 0).all()
        assert np.isfinite(metrics[..., :4]).all()
        assert (np.diff(metrics[..., 1:3], axis=1) >= 0).all()


def explode(payment: float, t: int, arm: int, params: tuple[float]) -> float:
    """A drift that is infinite from round params[0] on."""
    return payment * 1e308 * 1e308 if t >= params[0] else 0.5 * payment


@pytest.mark.parametrize("policy", [p for p in POLICIES if p != entice.Greedy()])
@pytest.mark.parametrize("arms", [3, 90])
def test_a_run_whose_feedback_is_not_finite_is_stopped(policy: Any, arms: int) -> None:
    """The other replications are not affected, even if several run at a time."""
    spec = study(
        policy, drifts=[entice.CustomDrift(explode, [100])], horizon=20_000, replications=12,
        arms=entice.Gaussian(np.linspace(0, 1, arms).tolist()), checkpoints=[50, 20_000],
    )  # fmt: skip
    result = entice.run(spec, progress=False)
    stopped = result.final["stopped"]
    assert stopped.null_count() < 12
    assert stopped.drop_nulls().to_numpy().min() >= 100
    early = entice.run(msgspec.structs.replace(spec, checkpoints=[50, 90], horizon=90)).final
    one = entice.run(msgspec.structs.replace(spec, replications=1), progress=False).final
    assert one.equals(result.final.head(1))
    assert early["stopped"].null_count() == 12
    curve = result.curves.filter(metric="regret", t=50)
    assert np.isfinite(curve["mean"].to_numpy()).all()  # earlier rounds are not affected


@pytest.mark.parametrize("engine", ["auto", "generic"])
@by_policy
def test_a_run_stops_when_the_flag_is_set_in_the_middle(policy: Any, engine: str) -> None:
    """Also if drift has raised averages so far that hardly any round can be skipped."""
    for drift in (entice.LinearDrift(0.5), entice.LinearDrift(1e6)):
        spec = study(
            policy, drifts=[drift], horizon=10**10, checkpoints=1, engine=engine,
            replications=10**6,
        )  # fmt: skip
        stop = np.zeros(1, dtype=np.int64)
        cell = Cell(spec, policy, drift, stop)
        threading.Timer(0.05, lambda stop=stop: stop.fill(1)).start()
        before = time.monotonic()
        with pytest.raises(Stopped):
            cell.run(0, cell.allocate(10**6))
        assert time.monotonic() - before < 30


# Selection


def test_a_fast_path_is_used_where_it_is_exact_and_the_kernel_elsewhere() -> None:
    assert entice.Study(
        arms=entice.Gaussian([0.9, 0.5]), policies=POLICIES, horizon=10
    ).engines() == ("fast",) * len(POLICIES)  # fmt: skip
    for changes in (
        {"engine": "generic"},
        {"feedback_range": (0, 1)},
        {"arms": entice.Beta(a=[1, 2], b=[1, 1])},
        {"arms": entice.Gaussian([0.9, 0.5], std=[1, 0])},
        {"arms": entice.Gaussian([0.9, 0.5], std=1e-200)},
        {"arms": entice.Gaussian([0.9, 0.5], std=1e200)},
    ):
        assert study(entice.UCB(), **changes).engines() == ("generic",)


def second(t: int, pulls: Any, means: Any, memory: Any, params: Any, rng: Any) -> int:
    return 1


def test_a_user_s_policy_runs_on_the_kernel_and_a_user_s_drift_on_either() -> None:
    assert study(entice.CustomPolicy(second)).engines() == ("generic",)
    drifting = study(entice.UCB(), drifts=[entice.CustomDrift(explode, [10**9])])
    assert drifting.engines() == ("fast",)
    plain = entice.run(study(entice.UCB()), progress=False)
    assert entice.run(drifting, progress=False).final["regret"].equals(plain.final["regret"])


def test_the_result_records_the_engine(tmp_path: Path) -> None:
    result = entice.run(study(entice.UCB()), progress=False)
    assert result.engines == ("fast",)
    assert entice.Result.load(result.save(tmp_path)).engines == ("fast",)
    assert entice.run(study(entice.UCB(), engine="generic")).engines == ("generic",)


def test_the_engine_is_part_of_the_spec_and_of_its_key() -> None:
    fast, generic = study(entice.UCB()), study(entice.UCB(), engine="generic")
    assert fast.key() != generic.key()
    assert entice.Study.from_toml(generic.to_toml()) == generic
    with pytest.raises(entice.InputError, match='engine must be "auto" or "generic"; got'):
        study(entice.UCB(), engine="warp")


# Cache lines


def test_small_arrays_are_copied_unchanged_to_cache_lines_of_their_own() -> None:
    workspace = epsilon_greedy.new_workspace(arms=300, horizon=10)
    moved = cache_aligned(workspace)
    assert type(moved) is type(workspace)
    for before, after in zip(workspace, moved, strict=True):
        assert numba.typeof(after) == numba.typeof(before)
        assert after.tobytes() == before.tobytes()
    small = [array for array in moved if array.nbytes <= 4096]
    assert len(small) > 3
    for array in small:
        assert array.ctypes.data % 64 == 0
        end, room = array.ctypes.data + array.nbytes, array.base
        assert -(-end // 64) * 64 <= room.ctypes.data + room.nbytes  # the last line is all its own
