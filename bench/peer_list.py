"""The peers of `peers.py`: their rules, Entice's twins, and reasons for different regrets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import twins
from twins import Twin

Kind = Literal["simulator", "online library"]
UCB, EPSILON_GREEDY, THOMPSON = "UCB", "ε-greedy", "Thompson"


@dataclass(frozen=True)
class Line:
    """A policy of a peer."""

    policy: str
    rule: str
    """The peer's name for it, with its parameters."""
    twin: Twin | None
    """None if the peer has no such policy; then `rule` describes what it has."""
    reason: str = ""
    """Why its regret differs from the twin's, according to its source."""


@dataclass(frozen=True)
class Peer:
    """A library; its key in `PEERS` names its driver and its lock file."""

    title: str
    kind: Kind
    lines: dict[str, Line]


PEERS = {
    "river": Peer("river", "online library", {
        "ucb": Line(UCB, "UCB(delta=1): m + √(2 log(t − 1) / n)", twins.UCB),
        "epsilon_greedy": Line(
            EPSILON_GREEDY, "EpsilonGreedy(0.1), fixed ε, burn_in=1", twins.EPSILON_FIXED
        ),
        "thompson": Line(
            THOMPSON, "ThompsonSampling(proba.Gaussian()), burn_in=2", twins.THOMPSON,
            "it samples from the Gaussian fitted to an arm's rewards, not from the posterior of "
            "their mean, so its exploration does not fade with the number of pulls",
        ),
    }),
    "smpybandits": Peer("SMPyBandits", "simulator", {
        "ucb": Line(UCB, "UCB: m + √(2 log(t − 1) / n)", twins.UCB),
        "epsilon_greedy": Line(
            EPSILON_GREEDY, "EpsilonDecreasing(45): ε = min(1, 45 / (t − 1))",
            twins.EPSILON_DECREASING,
            "it exploits the arm with the largest sum of rewards, not the best average, and "
            "its exploration never draws the last arm",
        ),
        "thompson": Line(
            THOMPSON, "Thompson(Gauss), documented as N(m, 1/n)", twins.THOMPSON_FLAT,
            "its Gaussian posterior uses 1/n as the standard deviation, where its "
            "documentation has it as the variance",
        ),
    }),
    "mabwiser": Peer("MABWiser", "online library", {
        "ucb": Line(UCB, "UCB1(alpha=1): m + √(2 log(t − 1) / n)", twins.UCB),
        "epsilon_greedy": Line(
            EPSILON_GREEDY, "EpsilonGreedy(0.1), fixed ε", twins.EPSILON_FIXED
        ),
        "thompson": Line(
            THOMPSON, "LinTS(alpha=1, l2_lambda=1) on a constant: N(S/(n+1), 1/(n+1))",
            twins.THOMPSON_PRIOR_OPENED,
            "fitting copies the generator with each arm's model, so the samples of all arms in a "
            "round come from the same normal draw",
        ),
        "thompson_beta": Line(
            f"{THOMPSON}, Beta", "ThompsonSampling, rewards above 1/2 count as successes",
            twins.THOMPSON,
            "its ThompsonSampling has Beta posteriors for rewards of 0 and 1 and leaves it to the "
            "user to map others to these, which loses information",
        ),
    }),
    "pymab": Peer("PyMAB", "simulator", {
        "ucb": Line(UCB, "UCBPolicy(c=2): m + √(2 log t / n)", twins.UCB),
        "epsilon_greedy": Line(
            EPSILON_GREEDY, "DecayingEpsilonGreedyPolicy: ε = 45 / (44 + t)",
            twins.EPSILON_HYPERBOLIC,
        ),
        "thompson": Line(
            THOMPSON, "GaussianThompsonSamplingPolicy: N(S/(n+1), 1/(n+1))", twins.THOMPSON_PRIOR
        ),
    }),
    "mabby": Peer("mabby", "simulator", {
        "ucb": Line(UCB, "UCB1Strategy(alpha=√2): m + √(2 log(t − 1) / n)", twins.UCB),
        "epsilon_greedy": Line(
            EPSILON_GREEDY, "EpsilonGreedyStrategy(0.1), fixed ε, averages start at 0",
            twins.EPSILON_FIXED_FROM_0,
        ),
        "thompson": Line(
            THOMPSON, "has Beta posteriors only, and rejects rewards outside [0, 1]", None
        ),
    }),
    "bayesianbandits": Peer("bayesianbandits", "online library", {
        "ucb": Line(
            UCB, "UpperConfidenceBound(0.99): a fixed quantile of N(S/(n+1), 1/(n+1))",
            twins.QUANTILE_99, "it estimates the quantile from 1,000 draws",
        ),
        "epsilon_greedy": Line(
            EPSILON_GREEDY, "EpsilonGreedy(0.1), fixed ε, on S/(n+1)", twins.EPSILON_FIXED_SHRUNK,
            "it estimates the posterior's mean from 1,000 draws",
        ),
        "thompson": Line(
            THOMPSON, "ThompsonSampling, NormalRegressor(1, 1): N(S/(n+1), 1/(n+1))",
            twins.THOMPSON_PRIOR,
        ),
    }),
}  # fmt: skip
