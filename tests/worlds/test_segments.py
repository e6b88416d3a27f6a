"""Segments of visitors: every round as in plain Python, and one segment as if there were none.

Unless a test says otherwise, the kernel runs in plain Python.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from oracles import algorithm1 as oracle
from oracles import segments as reference
from plain_kernel import plain_kernel
from segment_worlds import with_budget, world
from sizes import sized
from tracing import untraced

import entice
from entice.rng import PLAYER, POLICY, REWARD, new_stream, normal, uniform
from entice.testing import check_arms
from entice.theory import lower, theorem1
from entice.worlds.changing_arms import means_by_round
from entice.worlds.segments import segments_by_round

pytestmark = pytest.mark.usefixtures("unmeasured")

T, SEED, REPLICATION = 160, 11, 2
SHARES = [0.5, 0.3, 0.2]
GAUSSIAN = [
    entice.Gaussian([0.9, 0.5, 0.1], std=0.5),
    entice.Gaussian([0.1, 0.5, 1.2], std=[0.5, 0.2, 0.4]),
    entice.Gaussian([0.3, 0.9, 0.1], std=0.5),
]
BETA = [
    entice.Beta(a=[3, 1, 0.5], b=[1, 1, 2]),
    entice.Beta(a=[1, 1, 5], b=[3, 1, 1]),
    entice.Beta(a=[1, 4, 1], b=[1, 1, 3]),
]
STARS = [
    entice.Empirical(values=[1, 2, 5], weights=[[1, 1, 2], [4, 1, 0], [0, 2, 2]]),
    entice.Empirical(values=[1, 2, 5], weights=[[4, 1, 0], [1, 1, 2], [0, 2, 2]]),
]
BERNOULLI = [entice.Bernoulli([0.8, 0.5, 0.2]), entice.Bernoulli([0.2, 0.5, 0.8])]
KINDS: dict[str, list[Any]] = {
    "gaussian": GAUSSIAN[:2], "bernoulli": BERNOULLI, "beta": BETA[:2], "stars": STARS,
}  # fmt: skip
LATE = entice.Players(delay=7, loss=0.2)
CASES = [
    (GAUSSIAN, entice.UCB(), oracle.UCB(), entice.Players()),
    (GAUSSIAN, entice.ThompsonSampling(noise=0.5), oracle.Thompson("variance", 0.5), LATE),
    (GAUSSIAN, entice.UCB(count_in_flight=True), oracle.UCB(), LATE),
    (GAUSSIAN, entice.UCB(noise=0.5), oracle.UCB(0.5), LATE),
    (GAUSSIAN, entice.EpsilonGreedy(5), oracle.EpsilonGreedy(5), entice.Players()),
    (BETA, entice.KLUCB(), oracle.KLUCB(), entice.Players()),
][: sized(3, 6)]


def segments(arms: Any = GAUSSIAN, **changes: Any) -> entice.Segments:
    shares = SHARES if arms is GAUSSIAN or arms is BETA else [1 / len(arms)] * len(arms)
    return entice.Segments(**{"shares": shares, "arms": arms} | changes)


def study(arms: Any, **changes: Any) -> entice.Study:
    settings: dict[str, Any] = {
        "policies": [entice.UCB()], "drifts": [entice.LinearDrift(1.1)], "horizon": T,
        "replications": 3, "seed": SEED, "checkpoints": [80], "engine": "generic",
    }  # fmt: skip
    return entice.Study(arms=arms, **settings | changes)


def final(made: entice.Study) -> Any:
    return entice.run(made, progress=False).final


@pytest.mark.usefixtures("plain")
@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize(("arms", "ours", "plain_policy", "players"), CASES)
@untraced
def test_every_round_equals_that_of_the_reference(
    arms: Any, ours: Any, plain_policy: Any, players: entice.Players, known: bool
) -> None:
    made = study(segments(arms, known=known), policies=[ours], players=players)
    who = segments_by_round(made.arms, T, SEED, REPLICATION)  # type: ignore[arg-type]
    rewards, policy, player = (
        new_stream(SEED, REPLICATION, purpose) for purpose in (REWARD, POLICY, PLAYER)
    )

    def reward(segment: int, arm: int) -> float:
        sampler = arms[segment].sampler()
        return float(sampler.sample(arm, sampler.params, rewards))

    played = reference.play(
        policy=plain_policy, segments=who.tolist(), count=3, known=known, arms=3, reward=reward,
        slope=1.1, delay=int(players.delay),  # type: ignore[arg-type]
        is_lost=lambda: players.loss > 0 and uniform(player) < players.loss,
        uniform=lambda: uniform(policy), normal=lambda: normal(policy),
        in_flight_counts=getattr(ours, "count_in_flight", False),
    )  # fmt: skip
    trace = entice.trace(made, replication=REPLICATION)
    for column, expected in (
        ("segment", [r.segment for r in played]),
        ("arm", [r.arm for r in played]),
        ("greedy_arm", [r.greedy for r in played]),
        ("payment", pytest.approx([r.payment for r in played], abs=1e-9)),
    ):
        assert trace[column].to_list() == expected, column
    shown = trace.select("^displayed.*$").to_numpy()[3:]
    assert shown == pytest.approx(np.array([r.displayed for r in played[3:]]), abs=1e-9)
    row = final(made).row(REPLICATION, named=True)
    means = [each.true_means() for each in arms]
    regret = math.fsum(means[r.segment].max() - means[r.segment][r.arm] for r in played)
    assert row["regret"] == pytest.approx(regret, abs=1e-9)
    assert list(row["pulls"]) == [sum(r.arm == i for r in played) for i in range(3)]
    overall = made.arms.true_means()
    one_population = math.fsum(overall.max() - overall[r.arm] for r in played)
    assert row["regret"] != pytest.approx(one_population, rel=0.01)  # the control


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"players": LATE, "policies": [entice.UCB(count_in_flight=True)]},
        {"players": LATE},
        {"arms": segments(BETA, known=False), "policies": [entice.KLUCB()]},
    ][: sized(1, 4)],
)
def test_compiled_runs_equal_those_in_plain_python(settings: dict[str, Any]) -> None:
    made = study(**{"arms": segments()} | settings)
    compiled = entice.run(made, progress=False)
    with plain_kernel():
        plain = entice.run(made, progress=False)
    assert compiled.final.equals(plain.final)
    assert compiled.curves.equals(plain.curves)


ALLOWED = [
    entice.UCB(), entice.UCB(count_in_flight=True), entice.ThompsonSampling(),
    entice.ThompsonSampling(scale="std"), entice.EpsilonGreedy(5), entice.Greedy(),
    entice.KLUCB(), entice.BetaThompson(), entice.MOSS(horizon=T), entice.AlternatingThompson(),
    entice.RoundRobinEpsilonGreedy(c=5), with_budget("UCB", 1),
][:: sized(4, 1)]  # fmt: skip


@pytest.mark.usefixtures("plain")
@pytest.mark.parametrize(
    ("kind", "known"), [("gaussian", True), ("bernoulli", False), ("beta", True), ("stars", True)]
)
def test_one_segment_is_as_if_there_were_none(kind: str, known: bool) -> None:
    """Bit for bit, all metrics included."""
    arms, settings = KINDS[kind][0], {"players": LATE} if kind == "beta" else {}
    one = final(study(segments([arms], known=known), **settings))
    assert one.equals(final(study(arms, **settings)))
    assert not one.equals(final(study(arms, **settings | {"seed": SEED + 1})))  # the control


@pytest.mark.usefixtures("plain")
def test_one_segment_counts_pulls_in_flight_as_if_there_were_none() -> None:
    settings: dict[str, Any] = {
        "policies": [entice.UCB(count_in_flight=True)], "players": LATE, "replications": 1,
    }  # fmt: skip
    one = final(study(segments(GAUSSIAN[:1]), **settings))
    assert one.equals(final(study(GAUSSIAN[0], **settings)))
    assert not one.equals(final(study(GAUSSIAN[0], **settings | {"policies": [entice.UCB()]})))


@pytest.mark.usefixtures("plain")
def test_players_who_choose_whether_to_rate() -> None:
    """Metrics of response are those of the visitor's segment: here rewards have no noise."""
    players = entice.Players(response=entice.LogisticResponse(base=0.2, by_reward=2))
    one, none = (
        final(study(arms, players=players)) for arms in (segments(GAUSSIAN[:1]), GAUSSIAN[0])
    )
    assert one.equals(none)
    assert none["selection_bias"].abs().min() > 0.01  # the control
    still = [entice.Gaussian(row, std=0) for row in ([0.9, 0.5, 0.1], [0.1, 0.5, 0.9])]
    for known in (True, False):
        found = final(study(segments(still, known=known), players=players))
        assert found["selection_bias"].to_list() == pytest.approx([0, 0, 0], abs=1e-12)
        assert 0.4 < found["share_rated"].mean() < 0.9


@pytest.mark.usefixtures("plain")
@pytest.mark.parametrize("policy", ALLOWED, ids=lambda policy: policy.label)
def test_one_segment_is_as_if_there_were_none_for_every_policy(policy: Any) -> None:
    settings: dict[str, Any] = {"policies": [policy], "replications": 1, "horizon": 100}
    settings |= {"feedback_range": (0, 1), "cold_start": "prior", "prior": 0.5}
    one = final(study(segments([BETA[0]]), **settings))
    assert one.equals(final(study(BETA[0], **settings)))


@pytest.mark.usefixtures("plain")
def test_unknown_segments_that_agree_are_one_population() -> None:
    """Regret differs by rounding only: it is a sum over segments and arms."""
    fixed = final(study(GAUSSIAN[0]))
    unknown = final(study(segments([GAUSSIAN[0]] * 4, known=False)))
    assert unknown.drop("regret").equals(fixed.drop("regret"))
    assert unknown["regret"].to_list() == pytest.approx(fixed["regret"].to_list(), abs=1e-9)
    assert not final(study(segments([GAUSSIAN[0]] * 4))).drop("regret").equals(unknown)


@pytest.mark.usefixtures("plain")
def test_segments_do_not_depend_on_what_the_principal_knows_or_decides() -> None:
    """Both see the same visitors, and the same rewards where they pull the same arms."""
    traces = [
        entice.trace(study(segments(known=known), policies=[policy]), replication=1)
        for known in (True, False)
        for policy in (entice.UCB(), entice.Greedy())
    ]
    for trace in traces[1:]:
        assert trace["segment"].equals(traces[0]["segment"])
    assert traces[0]["arm"].to_list() != traces[2]["arm"].to_list()
    first = [trace["feedback"][:3].to_list() for trace in traces]  # each arm once
    assert first == first[:1] * 4


def test_shares() -> None:
    """Each of the 32 counts is within 5.5 standard deviations: error probability 2e-6 for all."""
    shares = np.arange(1, 33) / 528
    many = entice.Segments(shares.tolist(), GAUSSIAN[:1] * 32)
    counts = np.bincount(segments_by_round(many, 100_000, SEED, 0), minlength=32)
    errors = (counts - 100_000 * shares) / np.sqrt(100_000 * shares * (1 - shares))
    assert np.abs(errors).max() < 5.5
    assert np.abs(counts - 100_000 / 32).max() > 1_000  # the control: they are not equal
    means = means_by_round(segments(), 50, SEED, 0)
    who = segments_by_round(segments(), 50, SEED, 0)
    assert means.tolist() == [list(GAUSSIAN[s].means) for s in who]


@pytest.mark.usefixtures("plain")
def test_at_equal_budget_knowing_segments_pays_where_they_disagree() -> None:
    """Short version of bench/segments.py: 4 runs of 500 rounds, with a budget of 20.

    The seed is fixed. In bench/segments.py the difference is more than 1,000 standard errors.
    """
    runs = {}
    for name in ("2 segments, opposite order", "2 segments that agree"):
        for known in (True, False):
            made = study(
                world(name, known=known), policies=[with_budget("UCB", 20)], horizon=500,
                replications=4, checkpoints=1,
            )  # fmt: skip
            runs[name, known] = final(made)
            assert runs[name, known]["compensation"].max() <= 20
    disagree, agree = (
        {known: runs[name, known]["regret"].mean() for known in (True, False)}
        for name in ("2 segments, opposite order", "2 segments that agree")
    )
    assert disagree[True] < 0.6 * disagree[False]
    assert agree[True] < 1.25 * agree[False]


@pytest.mark.parametrize("kind", KINDS)
def test_a_study_with_them_survives_files(kind: str) -> None:
    made = study(segments(KINDS[kind], known=kind != "beta"), engine="auto")
    assert entice.Study.from_toml(made.to_toml()) == made
    again = entice.Study.from_json(made.to_json())
    assert again == made
    assert again.key() == made.key()
    assert made.key() != study(segments(KINDS[kind], known=kind == "beta"), engine="auto").key()
    assert made.engines() == ("generic",)
    check_arms(made.arms, draws=2_000)


def test_what_needs_one_population_is_refused() -> None:
    for policy in (
        entice.DriftCorrectedThompson(), entice.DiscountedUCB(gamma=0.99), entice.EqualPay(),
        entice.SlidingWindowUCB(window=50), entice.EliminationRace(horizon=T),
        entice.EqualPayElimination(horizon=T),
    ):  # fmt: skip
        with pytest.raises(entice.InputError, match="which remembers ratings that may be from"):
            study(segments(), policies=[entice.UCB(), policy])
        assert study(segments(known=False), policies=[policy])
    with pytest.raises(entice.InputError, match="adversary must be NoAdversary if means"):
        study(segments(), adversary=entice.Attacker())
    with pytest.raises(entice.InputError, match="needs ratings between 0 and 1"):
        study(segments(STARS), policies=[entice.KLUCB()])
    reasons = theorem1.regret.applies(study(segments())).reasons
    assert "visitors belong to segments, which the model excludes" in reasons
    tied = segments([entice.Gaussian([0.5, 0.5]), entice.Gaussian([0.2, 0.5])])
    assert not lower.regret.applies(study(tied))
    assert "the largest possible value, 48" in lower.regret.vacuous(study(tied)).reasons[0]
    assert segments().largest_gap() == pytest.approx(1.1)
    assert segments().scale() == 1.7
    assert segments(STARS).support() == (1, 5)


def test_names() -> None:
    tea = entice.Gaussian([0.9, 0.1], names=["tea", "water"])
    assert segments([tea, tea]).names == ("tea", "water")
    assert segments([tea, tea], names=["a", "b"]).names == ("a", "b")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"shares": [0.5, 0.3, 0.3]}, "shares must be greater than 0, and their sum must be 1"),
        ({"shares": [0.5, 0.7, -0.2]}, "shares must be greater than 0, and their sum must be 1"),
        ({"shares": [0.5, 0.5, 0]}, "shares must be greater than 0, and their sum must be 1"),
        ({"shares": [0.5, 0.5, math.nan]}, r"shares\[2\] must be a finite number"),
        ({"shares": []}, "shares must have at least 1 numbers"),
        ({"shares": 1}, "shares must be a list of numbers"),
        ({"shares": [1 / 33] * 33}, "shares must describe at most 32 segments; got '33 segments'"),
        ({"shares": [0.5, 0.5]}, "arms must be a list of 2 entries, one for each of `shares`"),
        ({"arms": GAUSSIAN[0]}, "arms must be a list of 3 entries, one for each of `shares`"),
        ({"arms": [*GAUSSIAN[:2], BETA[0]]}, r"arms\[2\] must be Gaussian arms, like those"),
        (
            {"arms": [*GAUSSIAN[:2], entice.Gaussian([0.9, 0.1])]},
            r"arms\[2\] must have 3 arms, like the first segment",
        ),
        (
            {"arms": [entice.Wandering(GAUSSIAN[0], 0.1)] * 3},
            r"arms\[0\] must be one of Gaussian, Bernoulli, Beta, Empirical",
        ),
        (
            {"shares": [0.5, 0.5], "arms": [
                STARS[0], entice.Empirical(values=[0, 2, 5], weights=STARS[0].weights)]},
            r"arms\[1\]: values must be the same in all segments",
        ),
        (
            {"arms": [*GAUSSIAN[:2], entice.Gaussian([1, 2, 3], names=["a", "b", "c"])]},
            r"arms\[2\]: names must be the same in all segments",
        ),
        ({"names": ["a"]}, "names must have one for each of the 3 arms"),
        ({"known": 1}, "known must be true or false"),
    ],
)  # fmt: skip
def test_bad_input(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(entice.InputError, match=f"Segments: {message}"):
        entice.Segments(**{"shares": SHARES, "arms": GAUSSIAN} | changes)
