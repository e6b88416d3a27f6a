"""The fast paths have the kernel's distribution, and the comparison has the power to detect faults.

Seeds are fixed. With random seeds, an exact path would fail the comparison over its grid with
probability `ALPHA`, 0.1 %, at most; the same holds for each aggressive setting. Planted faults have
to fail the same comparison.
"""

from __future__ import annotations

import pytest
from exactness import (
    BERNOULLI,
    BERNOULLI_UCBS,
    EPSILONS,
    GREEDY,
    OTHER_NOISE,
    PROJECTED,
    STDS,
    THOMPSONS,
    UCBS,
    Case,
    compare,
    differs,
    grid,
    is_exact,
)
from planted_faults import Change, changed
from sizes import sized

import entice
from entice.policies import Policy

pytestmark = pytest.mark.usefixtures("unmeasured")

ONCE, PRIOR = "each_arm_once", "prior"
EPS, TS, UCB = entice.EpsilonGreedy(c=1), entice.ThompsonSampling(), entice.UCB()


@pytest.mark.parametrize(
    ("policies", "cases", "noise"),
    [
        pytest.param(UCBS, 16, STDS, id="UCB"),
        pytest.param(EPSILONS, 20, STDS, id="ε-greedy"),
        pytest.param(THOMPSONS, 20, STDS, id="Thompson sampling"),
        pytest.param(GREEDY, 16, STDS, id="greedy"),
        pytest.param(OTHER_NOISE, 20, STDS, id="another noise"),
        pytest.param(EPSILONS, 20, BERNOULLI, id="ε-greedy, Bernoulli arms"),
        pytest.param(GREEDY, 16, BERNOULLI, id="greedy, Bernoulli arms"),
        pytest.param(BERNOULLI_UCBS, 20, BERNOULLI, id="UCB, Bernoulli arms"),
    ],
)
def test_fast_and_generic_agree_in_distribution(
    policies: tuple[Policy, ...], cases: int, noise: tuple[str, ...]
) -> None:
    chosen = grid(policies, cases, noise)
    # Those with 20,000 rounds take most of the time.
    short, long = ([c for c in chosen if (c.horizon > 3_000) == is_long] for is_long in (0, 1))
    found = compare(short, sized(300, 2_000), seed=100)
    found += compare(long, sized(100, 2_000), seed=200)
    found.sort(key=lambda f: f.p)
    assert is_exact(found), found[:3]


AGGRESSIVE = {
    # Jumps so long that the lead is mostly lost on the way, even where they do not pay.
    "epsilon_greedy": (
        Change("epsilon_greedy", "_MIN_JUMP = 2 ", "_MIN_JUMP = 1 "),
        Change("epsilon_greedy", "_MIN_LEAD_STDS = 2.0 ", "_MIN_LEAD_STDS = 0.01 "),
        Change("epsilon_greedy", "_MIN_LEAD_ROUNDS = 8.0 ", "_MIN_LEAD_ROUNDS = 0.0 "),
    ),
    "thompson_sampling": (
        Change("thompson_sampling.leader_run", "_JUMP_SAFETY = 3.5 ", "_JUMP_SAFETY = 0.1 "),
        Change("thompson_sampling.leader_run", "_FLOOR_DEPTH = 0.75 ", "_FLOOR_DEPTH = 0.1 "),
        Change("thompson_sampling.leader_run", "_MAX_HAZARD = 0.45 ", "_MAX_HAZARD = 2.5 "),
        Change("thompson_sampling.leader_run", "_FLOOR_SLACK = 0.75 ", "_FLOOR_SLACK = 0.1 "),
        Change("thompson_sampling", "_RETRY_AFTER = 128 ", "_RETRY_AFTER = 8 "),
        # More than nine arms by the method for many arms.
        Change("thompson_sampling", "_FEW_ARMS = 64 ", "_FEW_ARMS = 9 "),
    ),
    # Jumps of which most hit their line, and factors beyond the table from round 256 on.
    "ucb": (
        Change("ucb.leader_run", "SHORTEST_JUMP = 5\n", "SHORTEST_JUMP = 2\n"),
        Change("ucb.leader_run", "SAFETY = 4.0\n", "SAFETY = 0.3\n"),
        Change("ucb.workspace", "_TABLE_ROUNDS = 1 << 20\n", "_TABLE_ROUNDS = 1 << 8\n"),
    ),
    # Jumps of as few pulls as are certain.
    "bernoulli": (Change("bernoulli.walk", "certain >= min(pulls, WORD)", "certain >= 1.0"),),
    "bernoulli_ucb": (
        Change("bernoulli.walk", "certain >= min(pulls, WORD)", "certain >= 1.0"),
        Change("bernoulli.ucb", "above > WORD * rise", "above > 2.0 * rise"),
        Change("bernoulli.ucb", "int(min(above / rise, 1e15))", "int(min(4 * above / rise, 1e15))"),
    ),
}
CASES = {
    "epsilon_greedy": [
        Case(EPS, 2, 3_000, 0.5, "1", ONCE),
        Case(EPS, 9, 3_000, 0.5, "1", PRIOR),
        Case(EPS, 9, 1_000, 1.1, "unequal", ONCE),
    ],
    "thompson_sampling": [
        Case(TS, 2, 2_000, 0.5, "1", ONCE),
        Case(TS, 3, 2_000, 0.0, "1", PRIOR),
        Case(TS, 9, 1_000, 1.1, "unequal", ONCE),
        Case(TS, 10, 1_000, 0.5, "1", ONCE),
        Case(TS, 12, 1_000, 0.5, "0.1", PRIOR),
    ],
    "ucb": [
        Case(UCB, 2, 5_000, 3.0, "1", ONCE, spread=0.0),
        Case(UCB, 3, 2_000, 0.5, "0.1", ONCE),
        Case(UCB, 9, 1_000, 1.1, "unequal", PRIOR),
        Case(entice.UCB(noise=0.3), 3, 2_000, 0.5, "1", ONCE),
        Case(entice.UCB(noise=3.0), 9, 1_000, 1.1, "unequal", PRIOR),
    ],
    "bernoulli": [
        Case(EPS, 2, 3_000, 0.5, "Bernoulli", ONCE, spread=0.1),
        Case(EPS, 9, 3_000, 1.1, PROJECTED, PRIOR),
        # Averages of few ratings of equal arms: most comparisons are ties.
        Case(EPS, 2, 40, 0.0, "Bernoulli", ONCE, spread=0.0, best=0.5),
        Case(entice.Greedy(), 3, 40, 0.0, "Bernoulli", ONCE, spread=0.0, best=0.5),
    ],
    "bernoulli_ucb": [
        Case(UCB, 2, 3_000, 3.0, "Bernoulli", ONCE, spread=0.0, best=0.5),
        Case(entice.UCB(noise=0.5), 9, 3_000, 0.5, PROJECTED, PRIOR),
        # Averages of few ratings of equal arms: most comparisons are ties.
        Case(UCB, 12, 28, 0.0, "Bernoulli", ONCE, spread=0.0, best=0.5),
        Case(UCB, 40, 60, 0.5, PROJECTED, ONCE, spread=0.0, best=0.5),
    ],
}


_FOUND = "        if sample > top:\n            top = sample\n            best = arm"
FAULTS = {
    "epsilon_greedy": {
        "a bridge that hits zero is ignored": Change(
            "random_walk", "bridge_hits_zero(lead, end, variance, stream)", "False"
        ),
        "a hit counts as a lost lead": Change(
            "random_walk",
            "        if lead <= 0.0:\n            return passed, lead",
            "        if True:\n            return passed, -abs(lead)",
        ),
        "candidates are not thinned": Change("epsilon_greedy", "max(spread * t, arms)", "arms"),
        "an explored arm that overtakes is missed": Change(
            "epsilon_greedy", "            return arm, top", "            pass"
        ),
    },
    "ucb": {
        "a hit of the line is ignored": Change(
            "ucb.leader_run", "bridge_hits_zero(above, above_ahead, variance, stream)", "False"
        ),
        "the first point below the line is forgotten": Change(
            "ucb.leader_run", "done < length", "False"
        ),
        "a leader that is no longer greedy goes unpaid": Change(
            "ucb.leader_run",
            "max(rival * pulls, height * pulls - factor * math.sqrt(pulls))",
            "height * pulls - factor * math.sqrt(pulls)",
        ),
        "the rival bound does not rise": Change(
            "ucb.bounds", "    return height - slope * now, slope", "    return height, 0.0"
        ),
        "the noise is forgotten beyond the table": Change(
            "ucb.bounds",
            "workspace.policy_noise[0] * exploration_factor(t)",
            "exploration_factor(t)",
        ),
    },
    "bernoulli": {
        "a lost lead within a word is ignored": Change("bernoulli.walk", "total <= line", "False"),
        "too many pulls count as certain": Change(
            "bernoulli.walk", "above / slope - 1.0", "above / slope + 2.0"
        ),
        "a sum on the line is above it": Change(
            "bernoulli.walk",
            "_ROUNDING * (abs(total) + abs(line) + abs(slope) * pulls)",
            "-_ROUNDING * (abs(total) + abs(line) + abs(slope) * pulls)",
        ),
        "paid feedback is not projected": Change(
            "bernoulli.epsilon_greedy",
            "min(max(feedback + drift, lowest), highest)",
            "feedback + drift",
        ),
        "an explored arm wins all ties": Change("epsilon_greedy", "arm < leader", "True"),
    },
    "bernoulli_ucb": {
        "rewards of a jump are a fiftieth too rare": Change(
            "bernoulli.ucb",
            "take_pulls(total, line, slope, length, mean, workspace.bridge_stream)",
            "take_pulls(total, line, slope, length, 0.98 * mean, workspace.bridge_stream)",
        ),
        "a sum below the line is ignored": Change("bernoulli.ucb", "total <= line", "False"),
        "the leader wins all ties": Change(
            "bernoulli.ucb",
            "level - width + ROUNDING * (abs(level) + width)",
            "level - width - ROUNDING * (abs(level) + width)",
        ),
        "a leader that is no longer greedy goes unpaid": Change(
            "bernoulli.ucb",
            "max(line + ROUNDING * abs(line), _leading_floor(height, factor, pulls))",
            "_leading_floor(height, factor, pulls)",
        ),
        "paid feedback is not projected": Change(
            "bernoulli.ucb",
            "min(max(reward + drift, feedback_limits[0]), feedback_limits[1])",
            "reward + drift",
        ),
        "ties between blocks go to any block": Change(
            "ucb.bounds", "_first_highest(workspace, factor)", "int(workspace.top_arms[block])"
        ),
    },
    "thompson_sampling": {
        "a hit of the floor is ignored": Change(
            "random_walk", "bridge_hits_zero(lead, end, variance, stream)", "False"
        ),
        "the leader's dips are ignored": Change(
            "thompson_sampling.leader_run", "position < hazard(-z)", "False"
        ),
        "the leader's dips are not thinned": Change(
            "thompson_sampling.leader_run", "position < hazard(-z)", "True"
        ),
        "rivals' hazards are a tenth too small": Change(
            "thompson_sampling.hazards",
            "hazard((level - means[i]) / spreads[i])",
            "0.9 * hazard((level - means[i]) / spreads[i])",
        ),
        "a second sample above the level is forgotten": Change(
            "thompson_sampling.hazards", _FOUND, _FOUND.replace("sample > top", "top < level")
        ),
    },
}


@pytest.mark.parametrize("setting", AGGRESSIVE)
def test_jumps_of_any_length_are_exact_and_planted_faults_are_detected(setting: str) -> None:
    """The length of jumps does not change the distribution; every fault does.

    Most faults are detected with a tenth of the replications. The short version plants the first
    of each setting only, and compares as many replications as that one takes.
    """
    faults = dict(list(FAULTS[setting].items())[: sized(1, None)])
    sizes = sized((1_000,), (1_000, 10_000))
    with changed(AGGRESSIVE[setting], faults) as plant:
        found = compare(CASES[setting], sizes[-1], seed=500)
        assert is_exact(found), found[:3]
        for fault in faults:
            plant(fault)
            assert any(differs(CASES[setting], size, seed=500) for size in sizes), fault
