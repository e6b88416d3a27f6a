"""Equal pay: exploration that compares ratings only with ratings given under the same payment.

This policy is not from the paper. A rating of arm i under payment level l is modelled as
μ_i + φ_l + noise, with nothing assumed about φ: two-way fixed effects, with one effect for each
level. Payments are restricted to a few levels that all arms share, and sometimes the leader is paid
too, as a control. Arms are compared by fitted differences μ_g − μ_i, from which φ cancels, so every
decision is the same for every drift that depends on the payment alone
(docs/explanation/equal-pay-theorems.md).

The fit is recursive least squares on contrasts within arms. An arm's ratings have a mean m_i and
shares u_i of the levels; a rating y at level l adds the observation (y − m_i) = (e_l − u_i)·φ of
variance 1 + 1/n_i. So the state is a covariance matrix over the levels in use, whose number does
not grow with the number of arms, and a rating costs O(levels²) plus O(levels²) for each arm.
"""

from __future__ import annotations

import math
from typing import ClassVar

from entice.checks import set_noise, set_number, set_whole
from entice.errors import InputError
from entice.jit.decorators import compiled, compiled_noinline
from entice.model.ledger import Ledger
from entice.model.step import PLAYERS_CHOICE, ROUNDING
from entice.policies.policy import Counts, Floats, PolicyKernel, PolicySpec
from entice.rng import Stream

LEVELS = 26
"""Number of payment levels. Level 0 is no payment."""
_LOWEST, _RATIO = 0.03, 1.25
"""The lowest paid level in units of the noise, and the ratio between neighbouring levels."""
_SPAN = 8
"""Number of levels, from the lowest sufficient one, that are compared. A higher one costs more, but
may have ratings already."""
_COLD = 10.0
"""Number of unpaid ratings of an arm at the start, unless it is clearly worse before."""
_GUESS = 2.0
"""The number of ratings that the initial guess of the noise is worth."""
_TIE = 1e-9
"""Fitted values and indices within this multiple of the noise tie. Ratings on a scale, such as
stars, tie often, and only rounding errors, which depend on the drift, would tell them apart."""
_KNOWN_HORIZON, _ANYTIME = 15.0, 5.0
"""The gate is log(T · V / 15), or log(t · V / 5) without a horizon."""

# Layout of memory: a head, then a block for each arm.
_LEADER, _RESIDUALS, _DEGREES, _IN_USE, _PRICE, _PAIR_LEVEL, _PAIR_ARM = 0, 1, 2, 3, 4, 5, 6
_LIMIT = 7  # the most that may be paid in this round; 0 if there is no limit
_SLOT = 7  # of each level from 1 on: 0, or 1 + its position among the levels in use
_EFFECT = _SLOT + LEVELS + 1  # φ of each level in use
_GAIN = _EFFECT + LEVELS
_COVARIANCE = _GAIN + LEVELS  # of φ, in units of the noise variance
_HEAD = _COVARIANCE + LEVELS * LEVELS
_SEEN, _COUNT, _MEAN, _GAP, _VARIANCE, _OWN, _WARM, _SHARE = 0, 1, 2, 3, 4, 5, 6, 7
_BLOCK = _SHARE + LEVELS

# Layout of params.
_NOISE, _HORIZON, _PRIOR = 0, 1, 2
Params = tuple[float, float, float]


class EqualPay(PolicySpec, frozen=True, tag="equal_pay"):
    """Explore with payments on a few levels, and compare arms by fitted differences only.

    The arm with the best fitted value leads. The other arms first get up to ten unpaid ratings.
    After that, an arm i is explored while it may still be better than the leader g:

        gap_i < sqrt(2 s² V_i max(0.5, log(T V_i / 15))),   or log(t V_i / 5) without a horizon,

    with the fitted gap, its variance V_i in units of the noise, and the estimated noise variance
    s²: the index of MOSS, with fitted differences instead of averages. The payment is the lowest
    level that covers the displayed gap. Of three pulls, the policy takes the one that lowers V_i
    most for its cost: the arm itself, the leader at the same payment (a control), or both in turn
    (a pair); for the first two, also at a somewhat higher level that has ratings already. If no arm
    is worth exploring, the player's own choice is unpaid. In a campaign, arms and levels that cost
    more than the budget, the pace or a cap allows wait, and the others are explored.

    Players see Bayesian averages: the leader's average minus gap_i / (1 + 20 V_i), where 20 is the
    `display_prior`. The path of arms and payments is the same for every drift that depends on the
    payment alone. It is not proved that the regret is logarithmic; `EqualPayElimination` has that
    proof and pays about three times as much.

    Late ratings are counted by the expected number still to come, lost ones are not waited for,
    and a declined offer counts as the unpaid rating that the player gives instead. A rating under
    a payment that is none of the levels is ignored.

    Parameters
    ----------
    horizon
        T, the number of rounds, if known. More rounds may be played.
    noise
        Initial guess of the ratings' standard deviation, worth two ratings. It is also the unit of
        the payment levels, which reach from 0.03 to 7.9 times the noise.
    display_prior
        Displayed gaps are Bayesian averages: a prior of 0 worth this number of ratings makes them,
        and so the payments, smaller. Under a cap c of at least 0.03 times the noise, a
        `display_prior` of noise² log(T) / c² keeps the payments of all arms below it.

    >>> import entice
    >>> entice.EqualPay().label, entice.EqualPay(horizon=20_000, noise=0.5).label
    ('EqualPay', 'EqualPay(horizon=20000, noise=0.5)')
    """

    equal_pay: ClassVar[bool] = True

    horizon: int | None = None
    noise: float = 1.0
    display_prior: float = 20.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.horizon is not None:
            set_whole(self, "horizon", at_least=1)
        set_noise(self)
        if set_number(self, "display_prior") < 0:
            rule = "must not be negative"
            raise InputError("EqualPay: display_prior", rule, given=self.display_prior)

    @property
    def default_label(self) -> str:  # noqa: D102
        settings = [] if self.horizon is None else [f"horizon={self.horizon}"]
        settings += [] if self.noise == 1 else [f"noise={self.noise:g}"]
        settings += [] if self.display_prior == 20 else [f"display_prior={self.display_prior:g}"]
        return "EqualPay" + (f"({', '.join(settings)})" if settings else "")

    def kernel(self, arms: int) -> PolicyKernel:  # noqa: D102
        return PolicyKernel(
            select,
            update,
            params=(self.noise, float(self.horizon or 0), self.display_prior),
            memory=_HEAD + _BLOCK * arms,
            display=display_shrunk_gaps,
            payment_rule=pay_level,
            counts_in_flight=True,
            limit_slot=_LIMIT,
        )


@compiled
def select(
    t: int, pulls: Counts, means: Floats, memory: Floats, params: Params, rng: Stream
) -> int:
    """Choose the least rated arm of the cold start, then by the gate."""
    memory[_PRICE] = 0.0
    cold = -1
    for i in range(pulls.shape[0]):
        is_cold = memory[_HEAD + _BLOCK * i + _WARM] == 0.0 and pulls[i] < _COLD
        if is_cold and means[i] > -math.inf and (cold < 0 or pulls[i] < pulls[cold]):
            cold = i
    if cold >= 0:
        return cold
    return _explore(t, pulls, means, memory, params)


@compiled_noinline
def _explore(t: int, pulls: Counts, means: Floats, memory: Floats, params: Params) -> int:
    """Complete a pair, or explore the arm that passes the gate by most."""
    g = _permitted_leader(means, memory)
    if g < 0:
        return PLAYERS_CHOICE
    highest = affordable_level(memory, params)
    if memory[_PAIR_LEVEL] > 0.0:
        level = int(memory[_PAIR_LEVEL])
        memory[_PAIR_LEVEL] = 0.0
        if memory[_PAIR_ARM] != g and level <= highest:
            memory[_PRICE] = price(level, params)
            return g
    variance = _variance(memory, params)
    horizon = params[_HORIZON] / _KNOWN_HORIZON if params[_HORIZON] > 0.0 else t / _ANYTIME
    best, top, lead = -1, 0.0, memory[_HEAD + _BLOCK * g + _GAP]
    most = price(highest, params) if highest > 0 else -1.0
    shown = _shown(_HEAD + _BLOCK * g, memory, params)
    for i in range(pulls.shape[0]):
        at = _HEAD + _BLOCK * i
        if i != g and memory[at + _WARM] == 1.0 and means[i] > -math.inf:
            # Ratings on their way lower the variance in proportion.
            arrived = memory[at + _SEEN] / max(memory[at + _SEEN], pulls[i])
            v = _gap_variance(g, i, memory) * arrived
            gate = max(0.5, math.log(horizon * min(v, 1.0)))
            index = math.sqrt(2.0 * variance * v * gate) - (memory[at + _GAP] - lead)
            if index > top + _TIE * params[_NOISE] and _shown(at, memory, params) - shown <= most:
                best, top = i, index
    if best < 0:
        return PLAYERS_CHOICE
    return _most_informative(g, best, highest, memory, params)


@compiled
def _permitted_leader(means: Floats, memory: Floats) -> int:
    """Return the best arm that this player may choose; −1 if none has ratings.

    It is the leader, unless that is retired or not eligible.
    """
    leader = int(memory[_LEADER])
    if means[leader] > -math.inf:
        return leader
    best, least = -1, math.inf
    for i in range(means.shape[0]):
        at = _HEAD + _BLOCK * i
        if memory[at + _COUNT] > 0.0 and means[i] > -math.inf and memory[at + _GAP] < least:
            best, least = i, memory[at + _GAP]
    return best


@compiled
def _gap_variance(g: int, i: int, memory: Floats) -> float:
    """Return the variance of the gap between two arms, which is stored if g is the leader."""
    of_g, of_i = _HEAD + _BLOCK * g, _HEAD + _BLOCK * i
    if g == memory[_LEADER]:
        return float(memory[of_i + _VARIANCE])
    v = 1.0 / memory[of_g + _COUNT] + 1.0 / memory[of_i + _COUNT]
    v += memory[of_g + _OWN] + memory[of_i + _OWN]
    for j in range(int(memory[_IN_USE])):
        v -= 2.0 * _times_share(j, of_g, memory) * memory[of_i + _SHARE + j]
    return float(v)


@compiled
def _most_informative(g: int, i: int, highest: int, memory: Floats, params: Params) -> int:
    """Return arm i or, as its control, the leader g: the pull that lowers V_i most for its cost."""
    of_g, of_i = _HEAD + _BLOCK * g, _HEAD + _BLOCK * i
    gap, v = memory[of_i + _GAP] - memory[of_g + _GAP], _gap_variance(g, i, memory)
    shown = _shown(of_i, memory, params) - _shown(of_g, memory, params)
    level = sufficient_level(shown, params)
    arm, paid, pair = i, level, True
    top = v * v / (v + 2.0) / (gap + 2.0 * price(level, params))
    for other in range(level, min(level + _SPAN, highest + 1)):
        if memory[_SLOT + other] > 0.0:
            cost = price(other, params)
            control = information(g, other, g, i, memory) / cost
            challenge = information(i, other, g, i, memory) / (gap + cost)
            if control > max(challenge, top):
                arm, paid, top, pair = g, other, control, False
            elif challenge > top:
                arm, paid, top, pair = i, other, challenge, False
    memory[_PRICE] = price(paid, params)
    if pair:
        memory[_PAIR_LEVEL], memory[_PAIR_ARM] = paid, i
    return arm


@compiled_noinline
def information(arm: int, level: int, g: int, i: int, memory: Floats) -> float:
    """Return by how much a rating of `arm`, g or i, at `level` lowers the variance of gap_i.

    That is cov²/(1 + v): v is the variance of the rating's prediction m + (e_l − u)·φ, and cov its
    covariance with the fitted gap.
    """
    slot = int(memory[_SLOT + level]) - 1
    own, of_i, of_g = _HEAD + _BLOCK * arm, _HEAD + _BLOCK * i, _HEAD + _BLOCK * g
    v = 1.0 / memory[own + _COUNT]
    cov = v if arm == i else -v
    for j in range(int(memory[_IN_USE])):
        row = _times_contrast(j, own, slot, memory)
        v += row * _contrast(j, own, slot, memory)
        cov -= row * (memory[of_i + _SHARE + j] - memory[of_g + _SHARE + j])
    return float(cov * cov / (1.0 + v))


@compiled
def _contrast(j: int, at: int, slot: int, memory: Floats) -> float:
    """Return element j of e_l − u: what a rating at a level tells beyond the arm's average."""
    return float((1.0 if j == slot else 0.0) - memory[at + _SHARE + j])


@compiled
def _times_contrast(j: int, at: int, slot: int, memory: Floats) -> float:
    """Return element j of the covariance matrix times e_l − u."""
    total = 0.0
    for k in range(int(memory[_IN_USE])):
        total += memory[_COVARIANCE + LEVELS * j + k] * _contrast(k, at, slot, memory)
    return total


@compiled
def _times_share(j: int, at: int, memory: Floats) -> float:
    """Return element j of the covariance matrix times u."""
    total = 0.0
    for k in range(int(memory[_IN_USE])):
        total += memory[_COVARIANCE + LEVELS * j + k] * memory[at + _SHARE + k]
    return total


@compiled_noinline
def update(memory: Floats, params: Params, arm: int, payment: float, feedback: float) -> None:
    """Add a rating to the fit, and compare all arms again."""
    at = _HEAD + _BLOCK * arm
    memory[at + _SEEN] += 1.0
    level = level_of(payment, params)
    unpaid_or_in_use = level == 0 or (level > 0 and memory[_SLOT + level] > 0.0)
    # The first rating of an arm cannot be the first of its level too: it would be comparable with
    # no other.
    if unpaid_or_in_use or (level > 0 and memory[at + _COUNT] > 0.0):
        _fit(memory, at, level, feedback)
        _compare(memory, params)


@compiled
def _fit(memory: Floats, at: int, level: int, feedback: float) -> None:
    """Update the levels' effects and their covariance by recursive least squares."""
    n, size = memory[at + _COUNT], int(memory[_IN_USE])
    slot = int(memory[_SLOT + level]) - 1 if level > 0 else -1
    surprise, spread = feedback - memory[at + _MEAN], 1.0 + 1.0 / max(n, 1.0)
    for j in range(size):
        contrast = _contrast(j, at, slot, memory)
        memory[_GAIN + j] = _times_contrast(j, at, slot, memory)
        surprise -= contrast * memory[_EFFECT + j]
        spread += contrast * memory[_GAIN + j]
    if level > 0 and slot < 0:  # the first rating at a level determines its effect
        slot = size
        memory[_IN_USE] = size + 1.0
        memory[_SLOT + level] = slot + 1.0
        memory[_EFFECT + slot] = surprise
        for j in range(size):
            memory[_COVARIANCE + LEVELS * j + slot] = -memory[_GAIN + j]
            memory[_COVARIANCE + LEVELS * slot + j] = -memory[_GAIN + j]
        memory[_COVARIANCE + LEVELS * slot + slot] = spread
    elif n > 0.0:
        memory[_RESIDUALS] += surprise * surprise / spread
        memory[_DEGREES] += 1.0
        for j in range(size):
            step = memory[_GAIN + j] / spread
            memory[_EFFECT + j] += step * surprise
            for k in range(size):
                memory[_COVARIANCE + LEVELS * j + k] -= step * memory[_GAIN + k]
        _lower_own_variances(memory, spread)
    memory[at + _COUNT] = n + 1.0
    memory[at + _MEAN] += (feedback - memory[at + _MEAN]) / (n + 1.0)
    memory[at + _OWN] = 0.0
    for j in range(int(memory[_IN_USE])):
        memory[at + _SHARE + j] += _contrast(j, at, slot, memory) / (n + 1.0)
    for j in range(int(memory[_IN_USE])):
        memory[at + _OWN] += _times_share(j, at, memory) * memory[at + _SHARE + j]


@compiled
def _lower_own_variances(memory: Floats, spread: float) -> None:
    """Update each arm's variance of u·φ for the change of the covariance matrix."""
    size = int(memory[_IN_USE])
    for i in range((memory.shape[0] - _HEAD) // _BLOCK):
        at, along = _HEAD + _BLOCK * i, 0.0
        for j in range(size):
            along += memory[at + _SHARE + j] * memory[_GAIN + j]
        memory[at + _OWN] -= along * along / spread


@compiled
def _compare(memory: Floats, params: Params) -> None:
    """Find the leader, and compute each arm's gap to it and the variance of that gap."""
    arms, size = (memory.shape[0] - _HEAD) // _BLOCK, int(memory[_IN_USE])
    leader, best = -1, -math.inf
    for i in range(arms):
        at = _HEAD + _BLOCK * i
        if memory[at + _COUNT] > 0.0:
            value = memory[at + _MEAN]
            for j in range(size):
                value -= memory[at + _SHARE + j] * memory[_EFFECT + j]
            memory[at + _GAP] = value
            if value > best + _TIE * params[_NOISE]:
                leader, best = i, value
    memory[_LEADER] = leader
    of_g = _HEAD + _BLOCK * leader
    for j in range(size):
        memory[_GAIN + j] = _times_share(j, of_g, memory)
    variance = _variance(memory, params)
    for i in range(arms):
        at = _HEAD + _BLOCK * i
        n = memory[at + _COUNT]
        if n > 0.0:
            gap = max(0.0, best - memory[at + _GAP] - _TIE * params[_NOISE])
            v = 1.0 / n + 1.0 / memory[of_g + _COUNT]
            is_worse = i != leader and gap * gap > 4.0 * variance * v
            if n >= _COLD or (n >= 2.0 and is_worse):
                memory[at + _WARM] = 1.0
            v += memory[at + _OWN] + memory[of_g + _OWN]
            for j in range(size):
                v -= 2.0 * memory[_GAIN + j] * memory[at + _SHARE + j]
            memory[at + _GAP], memory[at + _VARIANCE] = gap, v


@compiled
def display_shrunk_gaps(ledger: Ledger, memory: Floats, params: Params, displayed: Floats) -> int:
    """Display the leader's average minus the gaps, as Bayesian averages."""
    leader = int(memory[_LEADER])
    top = ledger.means[leader]
    for i in range(displayed.shape[0]):
        displayed[i] = top - _shown(_HEAD + _BLOCK * i, memory, params)
    return leader


@compiled
def _shown(at: int, memory: Floats, params: Params) -> float:
    """Return the displayed gap of an arm: 0 during the cold start, so that nobody is paid."""
    if memory[at + _WARM] == 0.0:
        return 0.0
    return float(memory[at + _GAP] / (1.0 + params[_PRIOR] * memory[at + _VARIANCE]))


@compiled
def pay_level(
    t: int, arm: int, greedy: int, required: float, memory: Floats, params: Params, rng: Stream
) -> float:
    """Pay the level that `select` has chosen, to the leader too."""
    return float(memory[_PRICE])


@compiled
def price(level: int, params: Params) -> float:
    """Return the payment of a level."""
    return float(params[_NOISE] * _LOWEST * _RATIO ** (level - 1))


@compiled
def sufficient_level(gap: float, params: Params) -> int:
    """Return the lowest level whose payment covers a gap; at most the highest level."""
    level = 1
    while level < LEVELS and price(level, params) < gap:
        level += 1
    return level


@compiled
def affordable_level(memory: Floats, params: Params) -> int:
    """Return the highest level that may be paid in this round; 0 if there is none."""
    level = LEVELS
    while memory[_LIMIT] > 0.0 and level > 0 and price(level, params) > memory[_LIMIT]:
        level -= 1
    return level


@compiled
def level_of(payment: float, params: Params) -> int:
    """Return the level of a payment; −1 if it has none."""
    if payment == 0.0:
        return 0
    level = 1 + round(math.log(payment / (params[_NOISE] * _LOWEST)) / math.log(_RATIO))
    if level < 1 or level > LEVELS or abs(payment / price(level, params) - 1.0) > ROUNDING:
        return -1
    return int(level)


@compiled
def _variance(memory: Floats, params: Params) -> float:
    """Estimate the variance of the noise from the residuals of the fit and the initial guess."""
    guess = params[_NOISE] * params[_NOISE]
    return float((_GUESS * guess + memory[_RESIDUALS]) / (_GUESS + memory[_DEGREES]))
