"""Equal-pay elimination: successive elimination in which compared ratings got the same payment.

This policy is not from the paper. docs/explanation/equal-pay-theorems.md has its theorems: every
decision is the same for every drift that does not depend on the arm, and regret and compensation
are O(Σ log T / Δ_i) with constants that do not depend on the drift.
"""

from __future__ import annotations

from typing import ClassVar

from entice.checks import set_noise, set_number, set_whole
from entice.errors import InputError
from entice.policies.elimination_blocks import elimination_kernel
from entice.policies.policy import PolicyKernel, PolicySpec


class EqualPayElimination(PolicySpec, frozen=True, tag="equal_pay_elimination"):
    """Drop arms that are significantly worse, by ratings under equal payments only.

    After b blocks, an arm i with Z_g − Z_i > sqrt(2ρ V log⁺(2σ²T / V)) is dropped. Z_g is the
    highest sum, V the variance of the difference (2σ²b if both have one rating a block), σ the
    noise, and log⁺ the logarithm, but at least 1. The last remaining arm is the players' own
    choice, unpaid.

    The leader is paid like the other arms of its block, so each difference within a block is free
    of drift. Players see the leader's average minus (Z_g − Z_i) / (b + `display_prior`); a dropped
    arm keeps the gap that it had when it was dropped, so it never looks best again.

    Late, lost and declined offers make blocks longer; docs/explanation/equal-pay-limits.md states
    what then remains of the theorems. After 64 sweeps a block ends without the arms that have
    no rating, and they wait for the next race. Arms that are added later also start a new race
    with the last survivor. If the budget, the pace or a cap allows less than the price for 16
    rounds, the race goes on without the arms that cost more. When it has ended in round t, they
    race again in round 2t.

    Parameters
    ----------
    horizon
        T, the number of rounds. More may be played, but the term of the bounds for runs that drop
        the best arm grows with them.
    noise
        σ: the ratings' standard deviation, or more generally their sub-Gaussian parameter, which is
        0.5 for ratings between 0 and 1. The guarantee needs a value that is not too small.
    rho
        ρ > 1. A smaller ρ drops arms earlier; the probability to drop the best arm has a factor of
        about 1/log ρ.
    display_prior
        Displayed gaps are Bayesian averages: a prior of 0 worth this number of blocks makes them,
        and so the payments, smaller at first.
    estimate_noise
        Whether to use an upper bound on the noise, from the ratings, instead of `noise`, which is
        then only the unit of payments. Proved for Gaussian noise that is the same for all arms.
        No arm is dropped before some 20 ratings after the first block.

    >>> import entice
    >>> entice.EqualPayElimination(horizon=20_000).label
    'EqualPayElimination(horizon=20000)'
    """

    equal_pay: ClassVar[bool] = True

    horizon: int
    noise: float = 1.0
    rho: float = 1.1
    display_prior: float = 20.0
    estimate_noise: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        set_whole(self, "horizon", at_least=3)
        set_noise(self)
        if set_number(self, "rho") <= 1:
            rule = "must be greater than 1"
            raise InputError("EqualPayElimination: rho", rule, given=self.rho)
        if set_number(self, "display_prior") < 0:
            rule = "must not be negative"
            raise InputError("EqualPayElimination: display_prior", rule, given=self.display_prior)
        if not isinstance(self.estimate_noise, bool):
            rule = "must be true or false"
            raise InputError("EqualPayElimination: estimate_noise", rule, given=self.estimate_noise)

    @property
    def default_label(self) -> str:  # noqa: D102
        settings = [f"horizon={self.horizon}"]
        settings += [] if self.noise == 1 else [f"noise={self.noise:g}"]
        settings += [] if self.rho == 1.1 else [f"rho={self.rho:g}"]
        settings += [] if self.display_prior == 20 else [f"display_prior={self.display_prior:g}"]
        settings += ["estimated noise"] if self.estimate_noise else []
        return f"EqualPayElimination({', '.join(settings)})"

    def kernel(self, arms: int) -> PolicyKernel:  # noqa: D102
        return elimination_kernel(
            self.noise, self.horizon, self.rho, self.display_prior, self.estimate_noise, arms
        )
