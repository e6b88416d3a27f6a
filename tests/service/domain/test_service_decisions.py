"""Decisions of the service equal those of the simulator, and their propensities are right."""

from __future__ import annotations

import json
import math
import random
from collections import Counter
from concurrent.futures import Future
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt
import polars as pl
import pytest
from scipy import stats
from sizes import sized
from writer_fixtures import Service, hashed, service

import entice
from entice.jit.specialize import specialize
from entice.model.display import display_averages
from entice.model.ledger import Ledger, new_ledger, record
from entice.model.step import TRIES, constrained_offer, offer
from entice.policies import propensity
from entice.policies.pointers import CALLERS, policy_pointer
from entice.policies.propensity import probability_of_highest, propensity_function
from entice.rng import POLICY, seed_stream
from entice.service.domain.campaign import Campaign
from entice.service.domain.commands import Accept, CommandResult, MakeOffer, Rate
from entice.service.domain.spec import CampaignSpec

__all__ = ["service"]

pytestmark = pytest.mark.usefixtures("unmeasured")

SERVED = [
    entice.UCB(),
    entice.EpsilonGreedy(c=0.5),
    entice.ThompsonSampling(),
    entice.ThompsonSampling(scale="std"),
    entice.ThompsonSampling(noise=0.4),
    entice.UCB(noise=0.4),
    entice.Greedy(),
    entice.DriftCorrectedThompson(),
    entice.DriftCorrectedThompson(display="corrected", thrift=0.0),
    entice.DriftCorrectedThompson(display="raw"),
    entice.RoundRobinEpsilonGreedy(c=0.5),
    entice.AlternatingThompson(),
    entice.MOSS(horizon=500, noise=0.4),
    entice.EqualPay(noise=0.4),
    entice.EqualPayElimination(horizon=500, noise=0.4),
    entice.DiscountedUCB(gamma=0.9),
    entice.SlidingWindowUCB(window=20),
]
served = pytest.mark.parametrize("policy", SERVED, ids=lambda policy: policy.label)
Floats = npt.NDArray[np.float64]
SELECT, _, DISPLAY, PAYMENT_RULE = CALLERS
within = specialize(constrained_offer, SELECT, DISPLAY, PAYMENT_RULE)
"""Decides by any policy, as the service does."""


class State(NamedTuple):
    """The inputs of a decision."""

    t: int
    ledger: Ledger
    counted: Floats
    memory: Floats


def random_state(policy: Any, draw: random.Random) -> State:
    """Draw random ratings: usually of all arms, often with ties, and with some in flight."""
    arms = draw.randint(2, 40) if draw.random() < 0.2 else draw.randint(2, 6)
    rules = policy.kernel(arms)
    ledger, memory = new_ledger(arms, 0.5), np.zeros(rules.memory)
    coarse = draw.random() < 0.5
    counted = np.zeros(arms)
    for arm in range(arms):
        for _ in range(draw.choice([0, 1, 2, 5, 30])):
            payment = draw.choice([0.0, 0.0, 0.25])
            rating = draw.choice([0.25, 0.5, 0.75]) if coarse else draw.gauss(0.5, 0.2)
            record(ledger, arm, rating)
            rules.update(memory, rules.params, arm, payment, rating)
        if ledger.pulls[arm]:
            counted[arm] = ledger.pulls[arm] + draw.choice([0, 0, 1, 7])
    return State(draw.choice([1, 2, 3, 10, 500, 10**6]), ledger, counted, memory)


def stream_of(seed: int) -> npt.NDArray[np.uint64]:
    stream = np.zeros(4, np.uint64)
    seed_stream(stream, seed, 1, POLICY)
    return stream


@served
def test_with_every_arm_permitted_a_decision_equals_the_simulators_bit_for_bit(policy: Any) -> None:
    parts = policy.kernel(2)
    whole = specialize(offer, parts.select, parts.display, parts.payment_rule)
    draw = random.Random(1)
    for seed in range(sized(100, 400)):
        state = random_state(policy, draw)
        rules, arms = policy.kernel(len(state.counted)), len(state.counted)
        ends = []
        for live in (False, True):
            memory, stream = state.memory.copy(), stream_of(seed)
            if live:
                decision = within(
                    state.t, state.ledger, state.counted, np.zeros(arms, np.bool_), memory,
                    policy_pointer(rules)[1], stream, math.inf, rules.limit_slot,
                    np.ones(arms, np.bool_), np.full(arms, math.nan), np.zeros(arms),
                    np.zeros(arms, np.bool_), np.zeros(arms), np.zeros(arms),
                )[:3]  # fmt: skip
            else:
                shown = state.ledger.means if rules.display is display_averages else np.zeros(arms)
                decision = whole(
                    state.t, state.ledger, state.counted, shown, memory, rules.params, stream, False
                )
            ends.append((decision, memory.tobytes(), stream.tobytes()))
        if isinstance(policy, entice.EqualPayElimination):
            # Its `select` may start a block. A campaign displays values from before the decision.
            ends = [((arm, payment), *rest) for (arm, _, payment), *rest in ends]
        assert ends[0] == ends[1]


@served
def test_within_limits_only_permitted_arms_are_picked(policy: Any) -> None:
    draw = random.Random(2)
    limited = 0
    for seed in range(sized(150, 600)):
        state = random_state(policy, draw)
        rules, arms = policy.kernel(len(state.counted)), len(state.counted)
        eligible = np.array([draw.random() < 0.6 for _ in range(arms)])
        eligible[draw.randrange(arms)] = True
        displayed = np.array(
            [draw.choice([0.25, 0.5, 0.9]) if draw.random() < 0.2 else math.nan for _ in eligible]
        )
        counted = state.counted.copy()
        for arm in range(arms):
            counted[arm] += draw.choice([0, 0, 0.25, 1])
        awaited = np.array([draw.random() < 0.3 for _ in range(arms)]) & (state.ledger.pulls == 0)
        most = draw.choice([0.0, 0.1, 0.25, math.inf])
        shown = np.zeros(arms)
        arm, own, payment, unaffordable, first = within(
            state.t, state.ledger, counted, awaited, state.memory.copy(),
            policy_pointer(rules)[1], stream_of(seed), most, rules.limit_slot, eligible,
            displayed, shown, np.zeros(arms, np.bool_), np.zeros(arms), np.zeros(arms),
        )  # fmt: skip
        top = max(shown[eligible])
        gaps = [top - shown[i] for i in range(arms)]
        permitted = [
            i
            for i in range(arms)
            if eligible[i] and (gaps[i] == 0 or (gaps[i] <= most and not awaited[i]))
        ]
        assert arm in permitted
        tied = [i for i in range(arms) if eligible[i] and gaps[i] == 0]
        assert first in tied
        assert first == tied[0] or policy.equal_pay
        assert own == (arm if gaps[arm] == 0 else first)
        assert payment <= most
        assert payment == gaps[arm] or (gaps[arm] == 0 and payment >= 0) or policy.equal_pay
        assert payment >= gaps[arm] * (1 - 1e-9)
        assert unaffordable == sum(eligible[i] and gaps[i] > most for i in range(arms))
        limited += len(permitted) < arms
        if isinstance(policy, entice.UCB):
            assert arm == highest_bound(state, counted, permitted, policy.noise)
        if isinstance(policy, entice.Greedy):
            assert arm == first
        if rules.display is display_averages:
            known = np.where(np.isnan(displayed), state.ledger.means, displayed).tolist()
            assert shown.tolist() == known
    assert limited > sized(75, 300)


def highest_bound(
    state: State, counted: npt.NDArray[np.float64], among: list[int], noise: float
) -> int:
    """Return UCB's arm by the paper's formula, in plain Python; ties to the lowest arm."""

    def bound(arm: int) -> float:
        if counted[arm] == 0:
            return math.inf
        width = noise * math.sqrt(2 * math.log(state.t)) * (1 / math.sqrt(counted[arm]))
        return float(state.ledger.means[arm]) + width

    return max(among, key=lambda arm: (bound(arm), -arm))


# Propensities

FALSE_ALARM = 1e-6
"""The false-alarm probability of each comparison for a random seed; the seeds are fixed."""
TIMES = sized(500, 1500)
"""How often each decision is repeated."""

SITUATIONS: dict[str, dict[str, Any]] = {
    "free": {},
    "in even rounds": {"t": 40},
    "tied": {"ratings": {"a": [3], "b": [3, 3], "c": [3]}},
    "unrated": {"ratings": {}},
    "with few eligible": {"eligible": ("b", "d")},
    "with one eligible": {"eligible": ("c",)},
    "with limits": {"most": 100},
    "with nothing to spend": {"most": 0},
    "with an unrated arm in flight": {"in_flight": {"e": 2}, "ratings": {"a": [4, 5], "b": [4]}},
    "with another display": {"displayed": {"d": 4.9, "a": 1.0}},
}


def campaign_in(policy: Any, situation: dict[str, Any], arms: str = "abcde") -> Campaign:
    spec = CampaignSpec(
        name="Tea", arms=list(arms), policy=policy, budget=10**9, price_of_a_star=200, seed=1
    )
    campaign = Campaign.create("c_1", spec, 0)
    state = campaign.state
    state.decisions = situation.get("t", 41) - 1
    ratings = situation.get(
        "ratings", {"a": [5, 4, 4], "b": [4, 4, 4], "c": [3, 5], "d": [3], "e": [2]}
    )
    for arm, several in ratings.items():
        for rating in several:
            index = campaign.arms[arm]
            state.pulls[index] += 1
            state.totals[index] += rating
            campaign.update_arm(index, True, 0.25 * (rating % 2), rating)
    for arm, number in situation.get("in_flight", {"b": 3}).items():
        for _ in range(number):
            campaign.begin_pull(1, 0, campaign.arms[arm])
    return campaign


def repeat_decision(
    campaign: Campaign, situation: dict[str, Any], times: int
) -> dict[str, list[float]]:
    """Repeat a decision with many seeds; return the propensities of each arm."""
    limit = campaign.limit(0)._replace(amount=situation.get("most", 10**6))
    memory = campaign.memory.copy()
    propensities: dict[str, list[float]] = {}
    for seed in range(times):
        msgspec.structs.force_setattr(campaign.spec, "seed", seed)
        campaign.memory[:] = memory
        campaign._propensity = propensity_function(campaign.spec.policy, campaign.kernel, seed)
        made = campaign.decide(0, limit, situation.get("eligible"), situation.get("displayed"))
        propensities.setdefault(campaign.state.arms[made.arm], []).append(made.propensity)
    return propensities


@pytest.fixture(autouse=True)
def compile_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cache the lookup of compiled code, which is slower than running it."""
    monkeypatch.setattr(propensity, "specialize", lru_cache(specialize))


def agrees(seen: dict[str, int], expected: dict[str, float]) -> bool:
    """Compare frequencies with probabilities by Pearson's test; rare arms are pooled."""
    times = sum(seen.values())
    classes, rare = [], [0.0, 0.0]
    for arm, probability in expected.items():
        pair = [float(seen.get(arm, 0)), probability * times]
        if pair[1] < 10:
            rare = [rare[0] + pair[0], rare[1] + pair[1]]
        else:
            classes.append(pair)
    rest = times * max(0.0, 1 - sum(expected.values()))  # for arms that were never drawn
    rare[1] += rest
    if rare[1] >= 10:
        classes.append(rare)
    elif rare[0] > stats.poisson.isf(FALSE_ALARM, max(rare[1], 1e-3)):
        return False
    statistic = sum((count - mean) ** 2 / mean for count, mean in classes)
    return len(classes) < 2 or bool(statistic < stats.chi2.isf(FALSE_ALARM, len(classes) - 1))


FIXED = (
    entice.UCB | entice.Greedy | entice.MOSS | entice.EqualPay | entice.DiscountedUCB
    | entice.SlidingWindowUCB
)  # fmt: skip
RANDOM = [policy for policy in SERVED if not isinstance(policy, FIXED)]


@pytest.mark.parametrize("situation", SITUATIONS.values(), ids=SITUATIONS.keys())
@served
def test_arms_are_chosen_as_often_as_their_propensity_says(
    policy: Any, situation: dict[str, Any]
) -> None:
    campaign = campaign_in(policy, situation)
    propensities = repeat_decision(campaign, situation, times=TIMES)
    expected = {}
    for arm, several in propensities.items():
        if len(set(several)) > 1:  # estimated from 200 repetitions and the decision itself
            assert isinstance(policy, entice.DriftCorrectedThompson) or policy.label.endswith(
                "std)"
            )
            expected[arm] = (201 * sum(several) / len(several) - 1) / 200
        else:
            expected[arm] = several[0]
    assert sum(expected.values()) < 1 + sized(2e-2, 1e-2)  # 4.4 standard deviations of estimates
    if policy not in RANDOM:
        assert expected == {next(iter(propensities)): 1.0}
    assert agrees({arm: len(several) for arm, several in propensities.items()}, expected)


@pytest.mark.parametrize(
    "policy",
    [entice.EpsilonGreedy(c=100), entice.EpsilonGreedy(c=0.4), entice.RoundRobinEpsilonGreedy(c=2)],
    ids=lambda policy: policy.label,
)
def test_propensities_are_right_if_most_arms_are_not_permitted(policy: Any) -> None:
    """A policy that draws arms that are not permitted is redrawn a limited number of times."""
    situation = {"eligible": ("a", "b"), "ratings": {"a": [5]}, "in_flight": {}}
    arms = [chr(ord("a") + i) for i in range(26)] + [chr(ord("A") + i) for i in range(26)]
    arms += [str(i) for i in range(10)] + [f"x{i}" for i in range(40)]
    assert len(arms) > TRIES
    campaign = campaign_in(policy, situation)
    spec = {**campaign.state.spec, "arms": arms}
    campaign = Campaign.create("c_1", CampaignSpec.from_plain(spec), 0)
    campaign.state.decisions = 40
    campaign.state.pulls[0], campaign.state.totals[0] = 1, 5
    campaign.update_arm(0)
    propensities = repeat_decision(campaign, situation, times=TIMES)
    expected = {arm: several[0] for arm, several in propensities.items()}
    assert sum(expected.values()) == pytest.approx(1, abs=1e-6)
    assert agrees({arm: len(several) for arm, several in propensities.items()}, expected)


def test_the_comparison_detects_a_wrong_propensity() -> None:
    """The control: the comparisons above fail for propensities that are wrong by a few percent.

    An even chance has to be wrong by 12 % in the short version, and by 7 % in the long one.
    """
    wrong, rare = round(sized(0.38, 0.43) * TIMES), TIMES // 75
    assert agrees({"a": round(0.46 * TIMES), "b": round(0.54 * TIMES)}, {"a": 0.5, "b": 0.5})
    assert not agrees({"a": wrong, "b": TIMES - wrong}, {"a": 0.5, "b": 0.5})
    assert not agrees({"a": TIMES - rare, "b": rare}, {"a": 0.9999, "b": 0.0001})
    assert not agrees({"a": TIMES}, {"a": 0.95})


@pytest.mark.parametrize("permitted", [2, 3, 9])
def test_the_propensities_of_all_arms_add_up_to_1(permitted: int) -> None:
    """Thompson sampling's propensities by quadrature, with rivals of small variance."""
    draw = random.Random(permitted)
    for _ in range(60):
        means = np.array([draw.gauss(0, 0.3) for _ in range(9)])
        if draw.random() < 0.3:
            means = np.round(means, 1)
        counts = np.array([draw.choice([0, 1, 10, 1000, 10**6]) for _ in range(9)])
        allowed = np.arange(9) < permitted
        room, noise = np.empty(26), draw.choice([0.1, 1.0, 3.0])
        total = sum(
            probability_of_highest(means, counts, allowed, arm, noise, room)
            for arm in range(9)
            if allowed[arm]
        )
        assert total == pytest.approx(1, abs=2e-3)


# The service against the simulator

MEANS = [0.85, 0.6, 0.35, 0.1]
STD, SLOPE, STEPS, PRICE = 0.05, 1.1, 1000, 1000


def world(service: Service, seed: int, **changes: Any) -> str:
    return service.create(
        arms=list("abcd"), lowest_rating=0, highest_rating=STEPS, policy_sees="zero_to_one",
        price_of_a_star=PRICE, budget=10**14, seed=seed, **changes,
    )  # fmt: skip


def rating_of(noise: random.Random, arm: str, payment: float) -> int:
    """Return the rating of a simulated player, on the campaign's scale."""
    reward = noise.gauss(MEANS["abcd".index(arm)], STD) + SLOPE * payment / STEPS
    return round(STEPS * min(1.0, max(0.0, reward)))


def live_in(service: Service, rounds: int, delay: int, seeds: range) -> list[tuple[float, float]]:
    """Run a campaign for each seed; return the regret and compensation of each."""
    campaigns = [(world(service, seed), random.Random(seed)) for seed in seeds]
    waiting: list[list[Future[CommandResult]]] = [[] for _ in campaigns]
    regret = [0.0] * len(campaigns)
    for t in range(rounds):
        for i, (campaign, noise) in enumerate(campaigns):
            if t > delay:
                made = json.loads(waiting[i][t - 1 - delay].result(timeout=60).body)
                rating = rating_of(noise, made["arm"], made["payment"])
                service.writer.submit(Rate(made["id"], rating))
            waiting[i].append(service.writer.submit(MakeOffer(campaign, hashed(t))))
            service.writer.submit(Accept(f"{campaign}.{t + 1}"))
    for i, futures in enumerate(waiting):
        for future in futures:
            arm = json.loads(future.result(timeout=60).body)["arm"]
            regret[i] += max(MEANS) - MEANS["abcd".index(arm)]
    spent = [service.money(campaign)[2] / (PRICE * STEPS) for campaign, _ in campaigns]
    return list(zip(regret, spent, strict=True))


@pytest.mark.parametrize("in_flight", [1, 100])
def test_regret_and_compensation_equal_the_simulators(service: Service, in_flight: int) -> None:
    rounds, seeds = sized(200, 500), range(20)
    live = np.array(live_in(service, rounds, in_flight - 1, seeds))
    simulated = entice.simulate(
        arms=entice.Gaussian(MEANS, std=STD), policies=[entice.UCB(count_in_flight=True)],
        drifts=[entice.LinearDrift(SLOPE)], horizon=rounds, replications=2000, seed=3,
        cold_start="prior", prior=0.5, feedback_range=(0.0, 1.0), engine="generic",
        players=entice.Players(delay=in_flight - 1), checkpoints=[rounds], threads=1,
        progress=False,
    ).final.select(pl.col("regret"), pl.col("compensation")).to_numpy()  # fmt: skip
    for column in range(2):
        difference = live[:, column].mean() - simulated[:, column].mean()
        error = math.hypot(
            live[:, column].std(ddof=1) / math.sqrt(len(live)),
            simulated[:, column].std(ddof=1) / math.sqrt(len(simulated)),
        )
        # By chance, Student's t with 19 degrees of freedom exceeds 4 in 8 of 10,000 cases.
        assert abs(difference) < 4 * error
        # The test has power: the mean is known to within a few percent.
        assert error < 0.1 * simulated[:, column].mean()
    assert live[:, 1].min() > 0


@pytest.mark.parametrize("policy", [entice.UCB(), entice.Greedy()], ids=lambda p: p.label)
def test_with_the_same_ratings_decisions_equal_the_simulators_arm_for_arm(
    service: Service, policy: Any
) -> None:
    campaign, noise = world(service, 5, policy=policy), random.Random(5)
    principal = entice.Principal(policy, arms=4, seed=5, cold_start="prior", prior=0.5)
    for t in range(400):
        expected = principal.offer()
        made = service.offer(campaign, t)
        assert "abcd".index(made["arm"]) == expected.arm
        assert "abcd".index(made["greedy_arm"]) == expected.greedy_arm
        assert made["payment"] / STEPS == pytest.approx(expected.payment, abs=1e-12)
        assert made["amount"] == math.ceil(round(expected.payment * PRICE * STEPS, 6))
        rating = rating_of(noise, made["arm"], made["payment"])
        for future in [
            service.writer.submit(Accept(made["id"])),
            service.writer.submit(Rate(made["id"], rating)),
        ]:  # fmt: skip
            future.result(timeout=60)
        principal.settle(expected, rating / STEPS)
    counts = Counter({arm.id: arm.rated for arm in service.queries.arms(campaign)})
    assert counts == dict(zip("abcd", principal.ledger.pulls.tolist(), strict=True))
    assert service.faults(campaign) == [None]
