"""Measure variants of the equal-pay policies: tables of docs/explanation/equal-pay-variants.md.

- Elimination that estimates the noise, in the library: `EqualPayElimination(estimate_noise=True)`.
- A hybrid: the drift-corrected estimate proposes an arm, and equal-pay comparisons overrule it.
- The provable relative of EqualPay: arms in pairs, against a leader.
- EqualPay with unpaid controls: the leader is also tried unpaid, before an arm is paid for.
"""

from __future__ import annotations

import argparse
import math
from typing import Any

import numba
import numpy as np
import polars as pl
from corrected import print_table, with_lock_ins
from equal_pay import DRIFTS, INSTANCES, SEED_OF_INSTANCES, T, simulate

import entice
from entice.model.ledger import Ledger
from entice.model.step import PLAYERS_CHOICE
from entice.paper.setups import MEANS
from entice.policies import drift_corrected_thompson as dc
from entice.policies import equal_pay as ep
from entice.policies.policy import Counts, Floats
from entice.rng import Stream

# Parameters of the hybrid: three of EqualPay, three of the drift-corrected policy, the size of
# EqualPay's memory, and whether equal pay also explores if the estimate proposes nothing.
_SIZE, _REFEREE = 6, 7


def select(t: int, pulls: Counts, means: Floats, memory: Floats, params: Any, rng: Stream) -> int:
    """Follow the drift-corrected estimate while both estimates have the same leader."""
    size = int(params[_SIZE])
    equal, corrected = memory[:size], memory[size:]
    of_equal, of_corrected = (params[0], params[1], params[2]), (params[3], params[4], params[5])
    equal[ep._PRICE] = 0.0
    cold = -1
    for i in range(pulls.shape[0]):
        is_cold = equal[ep._HEAD + ep._BLOCK * i + ep._WARM] == 0.0 and pulls[i] < 10
        if is_cold and (cold < 0 or pulls[i] < pulls[cold]):
            cold = i
    if cold >= 0:
        return cold
    variance = dc._variance(corrected, of_corrected)
    arm, top, best, highest = 0, -math.inf, 0, -math.inf
    for i in range(pulls.shape[0]):
        value = means[i]
        for j in range(3):
            value -= corrected[dc._BETA + j] * corrected[dc._HEAD + dc._BLOCK * i + dc._PHI + j]
        if value > highest:
            best, highest = i, value
        value += math.sqrt(2.0 * variance * max(0.5, math.log(T / (15.0 * pulls[i]))) / pulls[i])
        if value > top:
            arm, top = i, value
    leader = int(equal[ep._LEADER])
    overrules = best != leader or equal[ep._PAIR_LEVEL] > 0.0
    if overrules or (arm == leader and params[_REFEREE] > 0.0):
        return ep._explore(t, pulls, means, equal, of_equal)
    if arm == leader:
        return PLAYERS_CHOICE
    shown = ep._shown(ep._HEAD + ep._BLOCK * arm, equal, of_equal)
    equal[ep._PRICE] = ep.price(ep.sufficient_level(shown, of_equal), of_equal)
    return arm


def update(memory: Floats, params: Any, arm: int, payment: float, feedback: float) -> None:
    size = int(params[_SIZE])
    ep.update(memory[:size], (params[0], params[1], params[2]), arm, payment, feedback)
    dc.update(memory[size:], (params[3], params[4], params[5]), arm, payment, feedback)


def display(ledger: Ledger, memory: Floats, params: Any, displayed: Floats) -> int:
    of_equal = params[0], params[1], params[2]
    return ep.display_shrunk_gaps(ledger, memory[: int(params[_SIZE])], of_equal, displayed)


def price(
    t: int, arm: int, greedy: int, required: float, memory: Floats, params: Any, rng: Stream
) -> float:
    return float(memory[ep._PRICE])


def hybrid(referee: bool) -> entice.CustomPolicy:
    equal = entice.EqualPay(horizon=T).kernel(len(MEANS))
    corrected = entice.DriftCorrectedThompson().kernel(len(MEANS))
    params = (*equal.params, *corrected.params, float(equal.memory), float(referee))
    return entice.CustomPolicy(
        select, update, params=params, memory=equal.memory + corrected.memory, display=display,
        price=price, name="equal pay also explores" if referee else "the estimate explores",
    )  # fmt: skip


def hybrids(replications: int, seed: int) -> None:
    drifts = [drift for drift in DRIFTS if drift.label != "LinearDrift(3)"]
    result = simulate([hybrid(False), hybrid(True)], drifts, replications=replications, seed=seed)
    print_table(f"Hybrids, {replications} runs", with_lock_ins(result))


def estimated_noise(replications: int, seed: int) -> None:
    kind = entice.EqualPayElimination
    worlds: tuple[tuple[str, Any, float], ...] = (
        ("Gaussian arms", entice.Gaussian(MEANS), 1.0),
        ("Gaussian arms with noise 0.25", entice.Gaussian(MEANS, std=0.25), 0.25),
        ("Bernoulli arms", entice.Bernoulli(MEANS), 0.5),
    )
    for title, arms, noise in worlds:
        policies = [
            kind(horizon=T, noise=noise, name=f"noise={noise:g}"),
            kind(horizon=T, estimate_noise=True, name="estimated"),
            kind(horizon=T, name="assumed to be 1"),
        ]
        result = simulate(policies, DRIFTS[:1], arms, replications=replications, seed=seed)
        print_table(f"{title}, {replications} runs", with_lock_ins(result))


@numba.njit  # type: ignore[untyped-decorator]
def run_pairs(
    means: Floats, rounds: int, rho: float, prior: float, by_index: bool, seed: int
) -> tuple[float, float]:
    """Return regret and compensation of the relative of EqualPay, for unit noise without drift.

    Challengers take turns or, `by_index`, the one with the highest upper bound is next, and the
    better arm of a pair leads.
    """
    np.random.seed(seed)
    arms, leader, t, turn = means.shape[0], 0, 0, 0
    sums, pairs = np.zeros((arms, arms)), np.zeros((arms, arms))
    beaten = np.zeros(arms, np.bool_)
    regret, paid = 0.0, 0.0
    while t < rounds:
        if beaten.sum() == arms - 1:
            return regret + (rounds - t) * (means.max() - means[leader]), paid
        challenger, top = -1, -np.inf
        for s in range(arms):
            i = (turn + s) % arms
            if i != leader and not beaten[i]:
                n = max(pairs[i, leader], 1e-9)
                width = math.sqrt(4.0 * rho * n * max(1.0, math.log(rounds / max(n, 1.0))))
                index = (sums[i, leader] + width) / n if by_index else -float(s)
                if index > top:
                    challenger, top = i, index
        turn = challenger + 1
        n = pairs[challenger, leader]
        payment = abs(sums[challenger, leader]) / (n + prior)
        ahead = means[challenger] - means[leader] + math.sqrt(2.0) * np.random.normal()
        sums[challenger, leader] += ahead
        sums[leader, challenger] -= ahead
        pairs[challenger, leader] = pairs[leader, challenger] = n + 1.0
        regret += 2.0 * means.max() - means[challenger] - means[leader]
        paid += 2.0 * payment
        t += 2
        width = math.sqrt(4.0 * rho * (n + 1.0) * max(1.0, math.log(rounds / (n + 1.0))))
        if sums[leader, challenger] > width:
            beaten[challenger] = True
        elif sums[challenger, leader] > width:
            beaten[leader] = True
            leader = challenger
        elif by_index and sums[challenger, leader] > 0.0 and n >= 3.0:
            leader = challenger
    return regret, paid


def in_pairs(replications: int, seed: int) -> None:
    print(f"\nPairs, {replications} runs")
    print("| order of the challengers | regret, mean ± error | median | 95 % | compensation |")
    print("|---|---:|---:|---:|---:|")
    for title, by_index in (("in turn", False), ("by index", True)):
        runs = [
            run_pairs(np.array(MEANS), T, 1.1, 20.0, by_index, seed + r)
            for r in range(replications)
        ]
        regret, paid = np.array(runs).T
        error = regret.std() / math.sqrt(replications)
        print(
            f"| {title} | {regret.mean():,.0f} ± {error:,.0f} | {np.median(regret):,.0f} "
            f"| {np.quantile(regret, 0.95):,.0f} | {paid.mean():,.0f} |"
        )


# Parameters of EqualPay with unpaid controls, after the three of EqualPay.
_DIVISOR, _NOMINAL = 3, 4


def select_with_unpaid_controls(
    t: int, pulls: Counts, means: Floats, memory: Floats, params: Any, rng: Stream
) -> int:
    """Choose as EqualPay, but take an unpaid rating of the leader first if it informs enough."""
    of_equal = params[0], params[1], params[2]
    memory[ep._PRICE] = 0.0
    cold = -1
    for i in range(pulls.shape[0]):
        is_cold = memory[ep._HEAD + ep._BLOCK * i + ep._WARM] == 0.0 and pulls[i] < 10
        if is_cold and (cold < 0 or pulls[i] < pulls[cold]):
            cold = i
    if cold >= 0:
        return cold
    g = int(memory[ep._LEADER])
    if memory[ep._PAIR_LEVEL] > 0.0:
        level = int(memory[ep._PAIR_LEVEL])
        memory[ep._PAIR_LEVEL] = 0.0
        if memory[ep._PAIR_ARM] != g:
            memory[ep._PRICE] = ep.price(level, of_equal)
            return g
    variance, best, top = ep._variance(memory, of_equal), -1, ep._TIE
    horizon = params[1] / params[_DIVISOR] if params[1] > 0.0 else t / params[_DIVISOR]
    for i in range(pulls.shape[0]):
        at = ep._HEAD + ep._BLOCK * i
        v = memory[at + ep._VARIANCE]
        gate = max(0.5, math.log(horizon * min(v, 1.0)))
        index = math.sqrt(2.0 * variance * v * gate) - memory[at + ep._GAP]
        if i != g and index > top:
            best, top = i, index
    if best < 0:
        return PLAYERS_CHOICE
    arm = ep._most_informative(g, best, ep.LEVELS, memory, of_equal)
    if params[_NOMINAL] > 0.0:
        at, paid = ep._HEAD + ep._BLOCK * best, memory[ep._PRICE]
        v, gap = memory[at + ep._VARIANCE], memory[at + ep._GAP]
        if memory[ep._PAIR_LEVEL] > 0.0:
            worth = v * v / (v + 2.0) / (gap + 2.0 * paid)
        else:
            lowered = ep.information(arm, ep.level_of(paid, of_equal), g, best, memory)
            worth = lowered / (paid if arm == g else gap + paid)
        if ep.information(g, 0, g, best, memory) / (params[_NOMINAL] * params[0]) > worth:
            memory[ep._PAIR_LEVEL] = memory[ep._PRICE] = 0.0
            return g
    return arm


def with_unpaid_controls(horizon: int, divisor: float, nominal: float) -> entice.CustomPolicy:
    equal = entice.EqualPay().kernel(0)
    return entice.CustomPolicy(
        select_with_unpaid_controls, ep.update, memory=equal.memory, memory_per_arm=ep._BLOCK,
        params=(1.0, float(horizon), 20.0, divisor, nominal), display=ep.display_shrunk_gaps,
        price=ep.pay_level, name=f"horizon {horizon}, divisor {divisor:g}, nominal {nominal:g}",
    )  # fmt: skip


def unpaid_controls(replications: int, seed: int) -> None:
    """Run five seeds of the paper's instance, and instances that no constant was tuned on."""
    policies = [
        with_unpaid_controls(T, 15.0, 0.0),  # EqualPay(horizon=T)
        with_unpaid_controls(T, 12.0, 0.02),
        with_unpaid_controls(0, 5.0, 0.0),  # EqualPay()
    ]
    runs = 10 * replications // 3
    frames = [
        with_lock_ins(simulate(policies, DRIFTS[:1], replications=runs, seed=s, threads=1))
        for s in range(1, 6)
    ]
    print_table(f"Unpaid controls, the paper's instance, 5 x {runs:,} runs", pl.concat(frames))
    rng, frames, runs = np.random.default_rng(SEED_OF_INSTANCES), [], max(1, replications // 30)
    for k in range(INSTANCES):
        arms = entice.Gaussian(rng.uniform(0, 1, (5, 10, 20)[k % 3]).tolist())
        result = simulate(policies, DRIFTS[:1], arms, replications=runs, seed=seed + k, threads=1)
        frames.append(with_lock_ins(result))
    print_table(f"{INSTANCES} random instances, {runs} runs of each", pl.concat(frames))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--replications", type=int, default=300)
    parser.add_argument("--seed", type=int, default=2026)
    tables = {
        "noise": estimated_noise,
        "hybrid": hybrids,
        "pairs": in_pairs,
        "unpaid": unpaid_controls,
    }
    parser.add_argument("--only", choices=list(tables), help="one of the tables")
    options = parser.parse_args()
    for name, table in tables.items():
        if options.only in (None, name):
            table(options.replications, options.seed)


if __name__ == "__main__":
    main()
