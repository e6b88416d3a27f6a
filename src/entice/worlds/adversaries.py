"""Adversaries: deliberate manipulation of feedback by dishonest arms or an attacker."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from entice.checks import set_number, set_whole
from entice.errors import InputError
from entice.jit.decorators import compiled
from entice.model.ledger import Ledger

Floats = npt.NDArray[np.float64]


class AdversaryKernel(NamedTuple):
    """An adversary in the form that the engine runs."""

    manipulate: Callable[..., float]
    """`manipulate(feedback, t, arm, ledger, params, memory) -> feedback`, called in each round."""
    params: tuple[Any, ...] = ()
    memory_per_arm: int = 0


class AdversarySpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind"):
    """Base of all adversaries."""


class NoAdversary(AdversarySpec, frozen=True, tag="none"):
    """No adversary: feedback is not manipulated.

    >>> import entice
    >>> entice.NoAdversary().label
    'NoAdversary'
    """

    @property
    def label(self) -> str:  # noqa: D102
        return "NoAdversary"

    def kernel(self, means: Floats) -> AdversaryKernel:  # noqa: D102
        return AdversaryKernel(_no_manipulation)


@compiled
def _no_manipulation(
    feedback: float, t: int, arm: int, ledger: Ledger, params: tuple[()], memory: Floats
) -> float:
    return feedback


class StrategicArms(AdversarySpec, frozen=True, tag="strategic_arms"):
    """Every arm but the best raises its own feedback as much as allowed until its budget is spent.

    This is lump-sum investing: early ratings count most. Feng, Parkes and Xu, "The Intrinsic
    Robustness of Stochastic Bandits to Strategic Manipulation" (2019), show regret of
    O(max(B, log T)) for UCB, ε-greedy and Thompson sampling, where B is the largest budget.

    Parameters
    ----------
    budget
        The total amount that each of these arms may add.
    at_most
        The largest amount that an arm may add to one rating.

    >>> import entice
    >>> entice.StrategicArms(budget=50).label
    'StrategicArms(budget=50)'
    """

    budget: float
    at_most: float = 1.0

    def __post_init__(self) -> None:
        for field in ("budget", "at_most"):
            if set_number(self, field) <= 0:
                rule, given = "must be greater than 0", getattr(self, field)
                raise InputError(f"StrategicArms: {field}", rule, given=given)

    @property
    def label(self) -> str:  # noqa: D102
        return f"StrategicArms(budget={self.budget:g})"

    def kernel(self, means: Floats) -> AdversaryKernel:  # noqa: D102
        best = int(means.argmax())
        return AdversaryKernel(
            _promote_own_arm, (self.budget, self.at_most, best), memory_per_arm=1
        )


@compiled
def _promote_own_arm(
    feedback: float,
    t: int,
    arm: int,
    ledger: Ledger,
    params: tuple[float, float, int],
    memory: Floats,
) -> float:
    budget, at_most, best = params
    if arm == best:
        return feedback
    added = min(at_most, budget - memory[arm])
    memory[arm] += added
    return float(feedback + added)


class Attacker(AdversarySpec, frozen=True, tag="attacker"):
    """An attacker that pushes all other arms below a target arm, which is then pulled most often.

    Jun, Li, Ma and Zhu, "Adversarial Attacks on Stochastic Bandits" (2018): whenever another arm is
    rated, its feedback is lowered by just enough for its average to fall to
    mean_target − 2β(n_target) − margin, with β(n) = sqrt(2σ²/n · log(π²Kn²/(3δ))).

    Parameters
    ----------
    target
        The arm to promote; by default the worst one.
    sigma
        The noise assumed by the attacker.
    delta
        The accepted probability of failure.
    margin
        Additional distance below the bound.

    >>> import entice
    >>> entice.Attacker(target=8).label
    'Attacker(target=8)'
    """

    target: int | None = None
    sigma: float = 1.0
    delta: float = 0.05
    margin: float = 0.0

    def __post_init__(self) -> None:
        if self.target is not None:
            set_whole(self, "target", at_least=0)
        if set_number(self, "sigma") < 0:
            raise InputError("Attacker: sigma", "must not be negative", given=self.sigma)
        if not 0 < set_number(self, "delta") < 1:
            raise InputError("Attacker: delta", "must lie between 0 and 1", given=self.delta)
        if set_number(self, "margin") < 0:
            raise InputError("Attacker: margin", "must not be negative", given=self.margin)

    @property
    def label(self) -> str:  # noqa: D102
        return "Attacker" if self.target is None else f"Attacker(target={self.target})"

    def kernel(self, means: Floats) -> AdversaryKernel:  # noqa: D102
        target = int(means.argmin()) if self.target is None else self.target
        if target >= len(means):
            rule = f"must be an arm from 0 to {len(means) - 1}"
            raise InputError("Attacker: target", rule, given=target)
        return AdversaryKernel(_push_below, (target, self.sigma, self.delta, self.margin))


@compiled
def _push_below(
    feedback: float,
    t: int,
    arm: int,
    ledger: Ledger,
    params: tuple[int, float, float, float],
    memory: Floats,
) -> float:
    target, sigma, delta, margin = params
    n = ledger.pulls[target]
    if arm == target or n == 0:
        return feedback
    arms = ledger.pulls.shape[0]
    beta = math.sqrt(2 * sigma**2 / n * math.log(math.pi**2 * arms * n**2 / (3 * delta)))
    ceiling = ledger.means[target] - 2 * beta - margin
    # The feedback that brings the arm's average to the ceiling.
    needed = ceiling * (ledger.pulls[arm] + 1) - ledger.sums[arm]
    return float(feedback + min(0.0, needed - feedback))


Adversary = NoAdversary | StrategicArms | Attacker
