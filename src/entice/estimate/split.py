"""A test, valid at every look, of whether players were split as intended.

A split that differs from the intended one, a sample ratio mismatch, means that players were lost or
counted twice in one of the groups, and then the groups can't be compared. Under the intended split
each new player is held out with probability p. The ratio of the beta-binomial probability of the
counts to their binomial one is then a martingale that starts at 1, so it ever reaches 1,000 with
probability at most 0.001 (Ville). Its inverse is an anytime-valid p-value.

References
----------
- Lindon, Malek (2022), Anytime-valid inference for multinomial count data. NeurIPS 35.
  https://arxiv.org/abs/2011.03567
- Fabijan, Gupchup, Gupta, Omhover, Qin, Vermeer, Dmitriev (2019), Diagnosing sample ratio mismatch
  in online controlled experiments. KDD. https://doi.org/10.1145/3292500.3330722
"""

from __future__ import annotations

import math

import msgspec

THRESHOLD = 0.001
"""The p-value below which a split counts as broken: one false alarm in 1,000 campaigns.

A false alarm makes a manager distrust a sound campaign, and real faults, such as a group whose
players are not recorded, soon reach far smaller values. The same holds for the usual test.
"""
PRIOR_PLAYERS = 10.0
"""The weight of the beta prior, in players: small, so that gross faults show after about 100."""


class SplitCheck(msgspec.Struct, frozen=True):
    """Whether the observed share of held-out players is compatible with the intended one."""

    intended: float
    """The share of players that were to be held out."""
    observed: float | None
    """The share of players that were held out; None without players."""
    p_value: float
    """An anytime-valid p-value: the probability that it is ever below p is at most p."""
    broken: bool
    """Whether `p_value` is below `THRESHOLD`: then do not compare the groups."""


def check_split(paid: int, held_out: int, share: float) -> SplitCheck:
    """Test the numbers of players in the two groups against the intended share.

    >>> from entice.estimate.split import check_split
    >>> check_split(9_020, 980, 0.1).broken, check_split(9_500, 500, 0.1).broken
    (False, True)
    """
    p_value = math.exp(min(0.0, -log_evidence(paid, held_out, share)))
    players = paid + held_out
    observed = held_out / players if players else None
    return SplitCheck(share, observed, p_value, p_value < THRESHOLD)


def log_evidence(paid: int, held_out: int, share: float) -> float:
    """Return the logarithm of the martingale: the beta-binomial over the binomial probability."""
    a, b = PRIOR_PLAYERS * share, PRIOR_PLAYERS * (1 - share)
    intended = held_out * math.log(share) + paid * math.log1p(-share)
    return _log_beta(a + held_out, b + paid) - _log_beta(a, b) - intended


def _log_beta(a: float, b: float) -> float:
    return math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)
