"""Compare the equal-pay policies with others: the tables of docs/explanation/equal-pay.md.

The constants of `EqualPay` were tuned on the paper's instance without drift. The random instances
are new to it.
"""

from __future__ import annotations

import argparse
import math
import time
from typing import Any

import numpy as np
import polars as pl
from corrected import print_table, with_lock_ins

import entice
from entice.jit.specialize import specialize
from entice.model.ledger import new_ledger
from entice.model.step import constrained_offer, settle
from entice.paper.setups import MEANS
from entice.policies import Policy, equal_pay
from entice.policies import drift_corrected_thompson as corrected
from entice.policies.policy import Counts, Floats
from entice.rng import POLICY, Stream, new_stream
from entice.worlds.drifts import Drift

T = 20_000
INSTANCES, SEED_OF_INSTANCES = 60, 18_181
DRIFTS: tuple[Drift, ...] = (
    *(entice.LinearDrift(l) for l in (0.0, 1.1, 3.0, 5.0)),
    entice.StepDrift(0.3),
    entice.NegativeDrift(1.1),
)
EQUAL_PAY = (
    entice.EqualPay(horizon=T),
    entice.EqualPay(),
    entice.EqualPayElimination(horizon=T),
)
POLICIES: tuple[Policy, ...] = (*EQUAL_PAY, entice.UCB())
OTHERS = (entice.DriftCorrectedThompson(), entice.ThompsonSampling(), entice.UCB())


def gated_select(
    t: int, pulls: Counts, means: Floats, memory: Floats, params: Any, rng: Stream
) -> int:
    """Choose by the gate of EqualPay, with the estimates of the drift-corrected policy."""
    variance = corrected._variance(memory, params)
    arm, top = 0, -math.inf
    for i in range(pulls.shape[0]):
        index = means[i]
        for j in range(3):
            phi = memory[corrected._HEAD + corrected._BLOCK * i + corrected._PHI + j]
            index -= memory[corrected._BETA + j] * phi
        gate = max(0.5, math.log(20_000.0 / (15.0 * pulls[i])))
        index += math.sqrt(2.0 * variance * gate / pulls[i])
        if index > top:
            arm, top = i, index
    return arm


def gated_drift_corrected() -> entice.CustomPolicy:
    """Return the drift-corrected policy with the gate of EqualPay instead of Thompson sampling."""
    kernel = entice.DriftCorrectedThompson().kernel(9)
    return entice.CustomPolicy(
        gated_select, corrected.update, params=kernel.params, memory=corrected._HEAD,
        memory_per_arm=corrected._BLOCK, display=corrected.display_corrected,
        price=corrected.pay_required_and_probe, name="drift-corrected, gate",
    )  # fmt: skip


def simulate(policies: Any, drifts: Any = DRIFTS, arms: Any = None, **settings: Any) -> Any:
    """Run a study with one checkpoint, by default on the paper's instance."""
    defaults = {"horizon": T, "checkpoints": 1, "progress": False}
    return entice.simulate(
        arms=arms or entice.Gaussian(MEANS), policies=policies, drifts=drifts,
        **{**defaults, **settings},
    )  # fmt: skip


def on_the_papers_instance(replications: int, seed: int) -> None:
    result = simulate((*EQUAL_PAY, *OTHERS), replications=replications, seed=seed)
    print_table(f"The paper's instance, {replications:,} runs", with_lock_ins(result))
    gate = simulate(
        [entice.MOSS(horizon=T), gated_drift_corrected()], replications=replications, seed=seed
    )
    print_table(f"Is it the gate? {replications:,} runs", with_lock_ins(gate))


def on_random_instances(replications: int, seed: int) -> None:
    for kind in (entice.Gaussian, entice.Bernoulli):
        rng = np.random.default_rng(SEED_OF_INSTANCES)
        noise: dict[str, Any] = {} if kind is entice.Gaussian else {"noise": 0.5}
        policies = (
            entice.EqualPay(horizon=T, **noise),
            entice.EqualPay(**noise),
            entice.EqualPayElimination(horizon=T, **noise),
            entice.DriftCorrectedThompson(**noise),
            entice.ThompsonSampling(**noise),
            entice.UCB(**noise),
        )
        frames = []
        for k in range(INSTANCES):
            arms = kind(rng.uniform(0, 1, (5, 10, 20)[k % 3]).tolist())
            runs = {"replications": replications, "seed": seed + k}
            frames.append(with_lock_ins(simulate(policies, arms=arms, **runs)))
        title = f"{INSTANCES} random instances, {kind.__name__}, K = 5, 10, 20, {replications} runs"
        print_table(title, pl.concat(frames))


def with_other_players(replications: int, seed: int) -> None:
    players = {
        "immediate ratings": entice.Players(),
        "ratings 50 rounds late": entice.Players(delay=50),
        "delays of 50 rounds on average": entice.Players(delay=entice.ExponentialDelay(50.0)),
        "30 % of ratings lost": entice.Players(loss=0.3),
        "late and lost": entice.Players(delay=entice.ExponentialDelay(50.0), loss=0.3),
        "players who decline": entice.Players(
            acceptance=entice.LogisticAcceptance(midpoint=0.05, width=0.05)
        ),
    }
    for title, kind in players.items():
        result = simulate(
            EQUAL_PAY, DRIFTS[1:2], players=kind, replications=replications, seed=seed
        )
        print_table(f"{title}, {replications} runs", with_lock_ins(result))


def leave_one_control_unpaid(
    t: int, arm: int, greedy: int, required: float, memory: Floats, params: Any, rng: Stream
) -> float:
    """Pay as EqualPay does, but not the first control of a run: memory[-1] counts them."""
    payment = equal_pay.pay_level(t, arm, greedy, required, memory, params, rng)
    if arm == greedy and payment > 0.0:
        memory[-1] += 1.0
        if memory[-1] == 1.0:
            return 0.0
    return payment


def update_as_if_paid(
    memory: Floats, params: Any, arm: int, payment: float, feedback: float
) -> None:
    equal_pay.update(memory, params, arm, memory[equal_pay._PRICE], feedback)


def unequal_pay() -> entice.CustomPolicy:
    """Return EqualPay with one unequal payment, whose rating is compared as if it were equal."""
    kernel = entice.EqualPay(horizon=T).kernel(len(MEANS))
    return entice.CustomPolicy(
        equal_pay.select, update_as_if_paid, params=kernel.params, memory=kernel.memory + 1,
        display=equal_pay.display_shrunk_gaps, price=leave_one_control_unpaid,
        name="EqualPay with one unequal payment",
    )  # fmt: skip


def invariance(replications: int, seed: int) -> None:
    """Compare the arms and payments of all rounds, run by run, with those without drift.

    UCB and a single unequal payment are the controls.
    """
    print("\n| policy | drift | runs | runs that differ |\n|---|---|---:|---:|")
    drifts = [*DRIFTS[1:], entice.PowerDrift(5, 2)]
    for policy in (*POLICIES, unequal_pay()):
        paths: dict[str, list[pl.DataFrame]] = {}
        for drift in (DRIFTS[0], *drifts):
            study = entice.Study(
                arms=entice.Gaussian(MEANS), policies=[policy], drifts=[drift], horizon=T, seed=seed
            )
            paths[drift.label] = [
                entice.trace(study, replication=r, displayed=False).select("arm", "payment")
                for r in range(replications)
            ]
        for drift in drifts:
            pairs = zip(paths[drift.label], paths[DRIFTS[0].label], strict=True)
            different = sum(not one.equals(other) for one, other in pairs)
            print(f"| {policy.label} | {drift.label} | {replications} | {different} |")


def under_caps(replications: int, seed: int) -> None:
    """Compare policies that know the cap of each offer with the same ones that do not."""
    print(f"\nA cap per offer, {replications} runs")
    print("| policy | cap | | regret, mean ± error | median | compensation | wrong |")
    print("|---|---:|---|---:|---:|---:|---:|")
    for kind, factor in ((entice.EqualPay, 1.0), (entice.EqualPayElimination, 1.1)):
        for cap in (0.3, 0.2, 0.1):
            prior = round(factor * math.log(T) / (cap - 1 / 4096) ** 2) + 1
            default, fitted = kind(horizon=T), kind(horizon=T, display_prior=prior)
            cases = (
                ("unknown", default, False),
                ("known", default, True),
                (f"`display_prior={prior}`", fitted, True),
            )
            for title, policy, knows_cap in cases:
                runs = [run_with_cap(policy, cap, knows_cap, seed + r) for r in range(replications)]
                regret, paid, wrong = np.array(runs).T
                error = regret.std() / math.sqrt(replications)
                print(
                    f"| `{kind.__name__}` | {cap} | {title} | {regret.mean():,.0f} ± {error:,.0f} "
                    f"| {np.median(regret):,.0f} | {paid.mean():,.0f} | {wrong.mean():.0%} |"
                )


def run_with_cap(
    policy: Policy, cap: float, knows_cap: bool, seed: int
) -> tuple[float, float, bool]:
    """Return regret, compensation, and whether a wrong arm was pulled most."""
    means, arms = MEANS[::-1], len(MEANS)
    kernel = policy.kernel(arms)
    decide = specialize(constrained_offer, kernel.select, kernel.display, kernel.payment_rule)
    rate = specialize(settle, kernel.update)
    ledger, memory = new_ledger(arms, 0.0), np.zeros(kernel.memory)
    stream, noise = new_stream(seed, 0, POLICY), np.random.default_rng(seed).normal(size=T)
    nobody, everybody = np.zeros(arms, np.bool_), np.ones(arms, np.bool_)
    as_it_is, slot = np.full(arms, math.nan), kernel.limit_slot if knows_cap else -1
    outputs = np.zeros(arms), np.zeros(arms, np.bool_), np.zeros(arms), np.zeros(arms)
    paid = 0.0
    for t in range(1, T + 1):
        arm, _, payment, _, _ = decide(
            t, ledger, ledger.pulls.astype(np.float64), nobody, memory, kernel.params, stream,
            cap, slot, everybody, as_it_is, *outputs,
        )  # fmt: skip
        rate(ledger, memory, kernel.params, arm, payment, means[arm] + noise[t - 1])
        paid += payment
    regret = float(ledger.pulls @ (max(means) - np.array(means)))
    return regret, paid, bool(np.argmax(ledger.pulls) != arms - 1)


def cost_per_round(seed: int) -> None:
    """Measure the CPU time of a round against the number of arms, with UCB in the same run."""
    print("\n| K | policy | ns per round | UCB, generic kernel |\n|---:|---|---:|---:|")
    for K in (3, 10, 30, 100, 300, 1_000):
        runs = max(1, 100 // K)
        arms = entice.Gaussian(np.linspace(0, 1, K).tolist())
        spent = []
        for kind in POLICIES:
            for _ in range(2):  # the first call compiles
                start = time.process_time()
                simulate(
                    [kind], DRIFTS[1:2], arms, replications=runs, seed=seed, threads=1,
                    engine="generic",
                )  # fmt: skip
                cpu = time.process_time() - start
            spent.append(cpu / (runs * T) * 1e9)
        for policy, cost in zip(EQUAL_PAY, spent, strict=False):
            print(f"| {K:,} | {policy.label} | {cost:,.0f} | {spent[-1]:,.0f} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--replications", type=int, default=1_000)
    parser.add_argument("--seed", type=int, default=2026)
    tables = ["paper", "random", "players", "invariance", "caps", "cost"]
    parser.add_argument("--only", choices=tables, help="one of the tables")
    options = parser.parse_args()
    print('"Locked in": regret above a tenth of that of uniform play.')
    runs, seed, only = options.replications, options.seed, options.only
    if only in (None, "paper"):
        on_the_papers_instance(runs, seed)
    if only in (None, "random"):
        on_random_instances(max(1, runs // 100), seed)
    if only in (None, "players"):
        with_other_players(max(1, runs // 2), seed)
    if only in (None, "invariance"):
        invariance(max(1, runs // 5), seed)
    if only in (None, "caps"):
        under_caps(max(1, runs // 10), seed)
    if only in (None, "cost"):
        cost_per_round(seed)


if __name__ == "__main__":
    main()
