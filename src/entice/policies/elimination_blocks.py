"""The race of equal-pay elimination, in blocks of pulls that are paid the same.

Rounds form blocks. In a block each arm still in the race is pulled once and the leader k times, in
random order, all for the same payment p: the largest displayed gap at the start of the block.
Displayed gaps are frozen within a block. Then each arm's sum Z_i grows by the mean of its ratings
in the block, and an arm whose Z_i is significantly below the highest is dropped.

If ratings are late or missing, a block goes on with another sweep over its arms, for the same
payment, until each has a rating and half of all pulls are rated. Its mean then counts with a weight
w: the harmonic mean of the arms' numbers of ratings. A rating belongs to the block whose payment it
was given under: the current block, or the one before it, which still collects its late ratings.
"""

from __future__ import annotations

import math

from entice.jit.decorators import compiled, compiled_noinline
from entice.model.ledger import Ledger
from entice.model.step import PLAYERS_CHOICE
from entice.policies.noise_bound import variance_bound
from entice.policies.policy import Counts, Floats, PolicyKernel
from entice.rng import Stream, below, uniform

_PATIENCE = 64.0
"""Number of sweeps after which a block no longer waits for unrated arms. Then sweeps get rarer:
each 64 more halve their rate, so that arms that nobody rates are tried O(log t) times."""
GRID = 4096.0
"""Payments are rounded up to multiples of noise/4096, so that rounding errors in sums of ratings do
not change them."""
_ROUNDING = 1e-10
"""Sums within this multiple of the noise tie, and prices above a multiple of the grid by less than
this share of it are that multiple. Ratings on a scale, such as stars, tie often and lie on the
grid, and only rounding errors, which depend on the drift, would tell them apart."""

_STALLED = 16.0
"""Number of consecutive rounds with a limit below the price after which a block gets a lower price,
without the arms that would cost more."""

WAITING, RACING, DROPPED, EXCLUDED = 0.0, 1.0, 2.0, 3.0
"""The status of an arm. A waiting arm, such as a new one, takes part in the next race, and so does
an arm that costs more than may be paid."""

# Layout of memory: a head, then a block of numbers for each arm.
_PAID, _SWEEP, _BLOCKS = 0, 1, 2  # the payment of this round; sweeps of this block; Σ w
_PRICE, _LEADER, _PLACES = 3, 4, 5  # of the current block; the leader has `_PLACES` a sweep
_OLD_PRICE, _OLD_LEADER, _OLD_PLACES = 6, 7, 8  # of the block before it
_LIMIT, _CAP = 9, 10  # the most that may be paid: in this round; as far as known. 0: no limit
_STALLS, _STALL_LIMIT = 11, 12  # rounds with a limit below the price; the highest limit of these
_NEXT_RACE = 13  # the round in which excluded arms race again; 0 during a race
_SQUARES, _DEGREES, _UPPER = 14, 15, 16  # of prediction errors; upper bound on σ², 0 if unknown
_ERRORS, _MEAN_ERROR, _NEW_SQUARES = 17, 18, 19  # of the current block
_HEAD = 20
_STATUS, _GAP, _ASKED = 0, 1, 2
_SUM, _SPREAD = 3, 4  # Z_i and v_i = Σ w²/n over the blocks that are final
_COUNT, _TOTAL = 5, 6  # ratings in the current block
_OLD_COUNT, _OLD_TOTAL = 7, 8  # ratings in the block before it
_PREDICTED = 9  # value relative to the leader at the start of the block
_BLOCK = 10

# Layout of params.
_NOISE, _HORIZON, _RHO, _PRIOR, _ESTIMATE = 0, 1, 2, 3, 4
Params = tuple[float, float, float, float, float]


def elimination_kernel(
    noise: float, horizon: int, rho: float, display_prior: float, estimate_noise: bool, arms: int
) -> PolicyKernel:
    """Return the policy; see `EqualPayElimination` for its parameters."""
    return PolicyKernel(
        select,
        update,
        params=(noise, float(horizon), rho, display_prior, float(estimate_noise)),
        memory=_HEAD + _BLOCK * arms,
        display=display_gaps,
        payment_rule=pay_block_price,
        reads_counts=False,
        relearns=False,
        limit_slot=_LIMIT,
    )


@compiled
def select(
    t: int, pulls: Counts, means: Floats, memory: Floats, params: Params, rng: Stream
) -> int:
    """Choose among the places of the sweep that are still open; otherwise, the player's choice."""
    memory[_PAID] = 0.0
    arms = pulls.shape[0]
    if not (_is_racing(t, memory, means, params) and _is_affordable(memory, params)):
        return PLAYERS_CHOICE
    places = _open_places(memory, means)
    if places == 0 and uniform(rng) < _sweep_probability(memory):
        _next_sweep(memory, params)
        places = _open_places(memory, means)
    if places == 0:
        return PLAYERS_CHOICE
    place = below(rng, places)
    for i in range(arms):
        place -= _places_of(i, memory, means)
        if place < 0:
            memory[_HEAD + _BLOCK * i + _ASKED] += 1.0
            memory[_PAID] = memory[_PRICE]
            return i
    return PLAYERS_CHOICE


@compiled_noinline
def fill_probabilities(
    t: int, means: Floats, memory: Floats, params: Params, chosen: Floats
) -> float:
    """Fill in the probability with which `select` returns each arm, and return the payment.

    `memory` must be a copy: it changes as in `select`. If the probabilities add up to less than 1,
    the rest is that of the player's own choice, unpaid.
    """
    chosen[:] = 0.0
    if not (_is_racing(t, memory, means, params) and _is_affordable(memory, params)):
        return 0.0
    places, sweeps = _open_places(memory, means), 1.0
    if places == 0:
        sweeps = _sweep_probability(memory)
        _next_sweep(memory, params)
        places = _open_places(memory, means)
    for i in range(means.shape[0] if places > 0 else 0):
        chosen[i] = sweeps * _places_of(i, memory, means) / places
    return float(memory[_PRICE])


@compiled
def _is_racing(t: int, memory: Floats, means: Floats, params: Params) -> bool:
    """Return whether there is a race, after starting one if it is due.

    A race without excluded arms ends in round t, say. With them, the next one starts in round 2t,
    so that excluded arms are tried O(log t) times.
    """
    racing, waiting, excluded = 0, 0, 0
    for i in range(means.shape[0]):
        status = memory[_HEAD + _BLOCK * i + _STATUS]
        racing += status == RACING
        waiting += status == WAITING and means[i] > -math.inf
        excluded += status == EXCLUDED  # not permitted while it shows a gap above the limit
    if racing < 2 and excluded > 0:
        if memory[_NEXT_RACE] == 0.0:
            memory[_NEXT_RACE] = 2.0 * t
        elif t >= memory[_NEXT_RACE]:
            waiting += excluded
    if racing < 2 and waiting > 0:
        _start_race(memory, means, params)
    return racing >= 2 or waiting > 0


@compiled
def _is_affordable(memory: Floats, params: Params) -> bool:
    """Return whether the block's price may be paid in this round.

    A single player's limit may be low, so a block waits for the next players before it is replaced
    by one with a lower price. Its ratings are then lost: they had another payment.
    """
    limit = memory[_LIMIT]
    if limit == 0.0:
        return True
    if memory[_CAP] > 0.0:
        memory[_CAP] = max(memory[_CAP], limit)
    if memory[_PRICE] <= limit:
        memory[_STALLS] = memory[_STALL_LIMIT] = 0.0
        return True
    memory[_STALLS] += 1.0
    memory[_STALL_LIMIT] = max(memory[_STALL_LIMIT], limit)
    if memory[_STALLS] < _STALLED:
        return False
    memory[_CAP] = memory[_STALL_LIMIT]
    memory[_STALLS] = memory[_STALL_LIMIT] = 0.0
    for i in range((memory.shape[0] - _HEAD) // _BLOCK):
        at = _HEAD + _BLOCK * i
        memory[at + _COUNT] = memory[at + _TOTAL] = memory[at + _ASKED] = 0.0
    return _start_block(memory, params) >= 2 and memory[_PRICE] <= limit


@compiled
def _places_of(arm: int, memory: Floats, means: Floats) -> int:
    """Return how often an arm is still to be pulled in this sweep; 0 if it is not permitted."""
    at = _HEAD + _BLOCK * arm
    if memory[at + _STATUS] != RACING or means[arm] == -math.inf:
        return 0
    places = memory[_PLACES] if arm == memory[_LEADER] else 1.0
    return max(0, int(memory[_SWEEP] * places - _pulled(at, memory)))


@compiled
def _pulled(at: int, memory: Floats) -> float:
    """Return an arm's pulls in this block. The rounds of the cold start are not asked for."""
    return float(max(memory[at + _ASKED], memory[at + _COUNT]))


@compiled
def _open_places(memory: Floats, means: Floats) -> int:
    """Return the number of pulls that this sweep still lacks."""
    places = 0
    for i in range(means.shape[0]):
        places += _places_of(i, memory, means)
    return places


@compiled_noinline
def _start_race(memory: Floats, means: Floats, params: Params) -> None:
    """Start a race of the waiting arms and the survivor of the last race.

    Arms that are not permitted in this round join too: they may be in another round of the block.
    """
    for i in range(means.shape[0]):
        at = _HEAD + _BLOCK * i
        if memory[at + _STATUS] == RACING or memory[_PRICE] > 0.0:
            memory[at + _COUNT] = memory[at + _TOTAL] = 0.0
        if memory[at + _STATUS] == WAITING or memory[at + _STATUS] == EXCLUDED:
            memory[at + _STATUS] = RACING
        if memory[at + _STATUS] == RACING:
            memory[at + _GAP] = memory[at + _ASKED] = memory[at + _OLD_COUNT] = 0.0
            memory[at + _SUM] = memory[at + _SPREAD] = memory[at + _OLD_TOTAL] = 0.0
    memory[_BLOCKS] = memory[_PRICE] = memory[_NEXT_RACE] = 0.0
    memory[_OLD_PRICE] = -1.0  # no payment equals it
    memory[_SWEEP] = memory[_PLACES] = 1.0
    _close_if_complete(memory, params)


@compiled
def _sweep_probability(memory: Floats) -> float:
    """Return the probability that a block that waits for ratings starts another sweep."""
    return float(min(1.0, 2.0 ** (1.0 - memory[_SWEEP] / _PATIENCE)))


@compiled_noinline
def _next_sweep(memory: Floats, params: Params) -> None:
    """Start another sweep of a block that waits for ratings."""
    memory[_SWEEP] += 1.0
    if memory[_SWEEP] > _PATIENCE:
        _close_if_complete(memory, params)


@compiled_noinline
def update(memory: Floats, params: Params, arm: int, payment: float, feedback: float) -> None:
    """Add a rating to the block whose payment it was given under, and end a complete block."""
    at = _HEAD + _BLOCK * arm
    rounding = 1e-9 * params[_NOISE]
    if abs(payment - memory[_PRICE]) <= rounding:
        memory[at + _COUNT] += 1.0
        memory[at + _TOTAL] += feedback
        if memory[at + _STATUS] == RACING and memory[at + _OLD_COUNT] > 0.0:
            memory[_ERRORS] += 1.0
            step = feedback - memory[at + _PREDICTED] - memory[_MEAN_ERROR]
            memory[_MEAN_ERROR] += step / memory[_ERRORS]
            memory[_NEW_SQUARES] += step * step * (1.0 - 1.0 / memory[_ERRORS])
        _close_if_complete(memory, params)
    elif abs(payment - memory[_OLD_PRICE]) <= rounding:
        memory[at + _OLD_COUNT] += 1.0
        memory[at + _OLD_TOTAL] += feedback


@compiled
def _close_if_complete(memory: Floats, params: Params) -> None:
    """End the block if its arms have enough ratings: drop arms, and start the next block."""
    arms = (memory.shape[0] - _HEAD) // _BLOCK
    racing, rated, ratings, pulled = 0, 0, 0.0, 0.0
    for i in range(arms):
        at = _HEAD + _BLOCK * i
        if memory[at + _STATUS] == RACING:
            racing += 1
            rated += memory[at + _COUNT] > 0.0
            ratings += memory[at + _COUNT]
            pulled += _pulled(at, memory)
    complete = rated == racing and ratings >= racing - 1 + memory[_PLACES]
    if memory[_SWEEP] <= _PATIENCE and not (complete and ratings >= 0.5 * pulled):
        return
    # A single arm with many ratings has no rivals left, and need not be paid any more.
    if rated >= 2 or (ratings >= _PATIENCE and memory[_PRICE] > 0.0):
        _drop_unrated(memory)
    if rated >= 2:
        _close(memory, params)


@compiled
def _drop_unrated(memory: Floats) -> None:
    """Let arms without a rating in this block wait for the next race."""
    for i in range((memory.shape[0] - _HEAD) // _BLOCK):
        at = _HEAD + _BLOCK * i
        if memory[at + _STATUS] == RACING and memory[at + _COUNT] == 0.0:
            memory[at + _STATUS] = WAITING


@compiled_noinline
def _close(memory: Floats, params: Params) -> None:
    """End the block: compare all arms, drop some, and set the price of the next block."""
    arms = (memory.shape[0] - _HEAD) // _BLOCK
    _settle_old_block(memory)
    weight, reference = _old_weight(memory), _old_reference(memory)
    blocks = memory[_BLOCKS] + weight
    leader, best = -1, -math.inf
    tie = _ROUNDING * params[_NOISE]
    for i in range(arms):
        at = _HEAD + _BLOCK * i
        if memory[at + _STATUS] == RACING:
            mean = memory[at + _OLD_TOTAL] / memory[at + _OLD_COUNT]
            total = memory[at + _SUM] + weight * (mean - reference)
            memory[at + _GAP] = total
            if total > best + tie:
                leader, best = i, total
    g = _HEAD + _BLOCK * leader
    own = memory[g + _SPREAD] + weight * weight / memory[g + _OLD_COUNT]
    variance = _noise_variance(memory, params)
    for i in range(arms):
        at = _HEAD + _BLOCK * i
        if memory[at + _STATUS] == RACING:
            v = own + memory[at + _SPREAD] + weight * weight / memory[at + _OLD_COUNT]
            behind = max(0.0, best - memory[at + _GAP] - tie)
            memory[at + _GAP] = behind / (blocks + params[_PRIOR])
            memory[at + _PREDICTED] = -behind / blocks
            if i != leader and behind > _width(v, variance, params):
                memory[at + _STATUS] = DROPPED
    memory[_LEADER] = leader
    _start_block(memory, params)


@compiled
def _start_block(memory: Floats, params: Params) -> int:
    """Set the price of the next block, and return its number of arms.

    Arms that cost more than may be paid are excluded until the next race.
    """
    racing, price, unit = 0, 0.0, params[_NOISE] / GRID
    for i in range((memory.shape[0] - _HEAD) // _BLOCK):
        at = _HEAD + _BLOCK * i
        if memory[at + _STATUS] == RACING:
            own = unit * math.ceil(memory[at + _GAP] / unit * (1.0 - _ROUNDING))
            if memory[_CAP] > 0.0 and own > memory[_CAP]:
                memory[at + _STATUS] = EXCLUDED
            else:
                racing += 1
                price = max(price, own)
    memory[_ERRORS] = memory[_MEAN_ERROR] = memory[_NEW_SQUARES] = 0.0
    memory[_PRICE] = price
    memory[_PLACES] = leader_places(racing)
    memory[_SWEEP] = 1.0
    return racing


@compiled
def leader_places(arms: int) -> int:
    """Return k, the number of pulls of the leader in each sweep over a number of arms."""
    return math.ceil(math.sqrt(0.5 * (arms - 1)))


@compiled
def _settle_old_block(memory: Floats) -> None:
    """Add the old block to the sums, and make the current block the old one."""
    weight = _old_weight(memory)
    reference = _old_reference(memory) if weight > 0.0 else 0.0
    memory[_BLOCKS] += weight
    for i in range((memory.shape[0] - _HEAD) // _BLOCK):
        at = _HEAD + _BLOCK * i
        if weight > 0.0 and memory[at + _STATUS] == RACING:
            mean = memory[at + _OLD_TOTAL] / memory[at + _OLD_COUNT]
            memory[at + _SUM] += weight * (mean - reference)
            memory[at + _SPREAD] += weight * weight / memory[at + _OLD_COUNT]
        memory[at + _OLD_COUNT], memory[at + _OLD_TOTAL] = memory[at + _COUNT], memory[at + _TOTAL]
        memory[at + _COUNT] = memory[at + _TOTAL] = memory[at + _ASKED] = 0.0
    memory[_OLD_PRICE], memory[_OLD_LEADER] = memory[_PRICE], memory[_LEADER]
    memory[_OLD_PLACES] = memory[_PLACES]


@compiled
def _old_reference(memory: Floats) -> float:
    """Return the old block's mean of the first arm in the race, which is subtracted from all means.

    That changes no comparison, but removes the drift. Otherwise drift would grow in the sums, and
    with it their rounding errors, which exceeded `_ROUNDING` after some 70,000 blocks.
    """
    at = _HEAD
    while memory[at + _STATUS] != RACING:
        at += _BLOCK
    return float(memory[at + _OLD_TOTAL] / memory[at + _OLD_COUNT])


@compiled
def _old_weight(memory: Floats) -> float:
    """Return the harmonic mean of the arms' ratings for each of their places in the old block."""
    arms, total = 0, 0.0
    for i in range((memory.shape[0] - _HEAD) // _BLOCK):
        at = _HEAD + _BLOCK * i
        if memory[at + _STATUS] == RACING:
            if memory[at + _OLD_COUNT] == 0.0:
                return 0.0  # there is no old block
            arms += 1
            places = memory[_OLD_PLACES] if i == memory[_OLD_LEADER] else 1.0
            total += places / memory[at + _OLD_COUNT]
    return arms / total


@compiled
def _noise_variance(memory: Floats, params: Params) -> float:
    """Return σ², or an upper bound from the prediction errors of all blocks; inf if unknown."""
    if params[_ESTIMATE] == 0.0:
        return params[_NOISE] * params[_NOISE]
    if memory[_ERRORS] > 0.0:
        memory[_SQUARES] += memory[_NEW_SQUARES]
        memory[_DEGREES] += memory[_ERRORS] - 1.0
    upper = variance_bound(memory[_SQUARES], memory[_DEGREES], params[_HORIZON])
    if memory[_UPPER] > 0.0:
        upper = min(upper, memory[_UPPER])
    memory[_UPPER] = upper if upper < math.inf else 0.0
    return upper


@compiled
def _width(v: float, variance: float, params: Params) -> float:
    """Return by how much a sum of variance v σ² must be behind for its arm to be dropped."""
    if variance == math.inf:
        return math.inf
    rounds, v = 2.0 * variance * params[_HORIZON], variance * v
    return math.sqrt(2.0 * params[_RHO] * v * max(1.0, math.log(rounds / v)))


@compiled
def display_gaps(ledger: Ledger, memory: Floats, params: Params, displayed: Floats) -> int:
    """Display the leader's average minus the gaps at the start of the block."""
    leader = int(memory[_LEADER])
    top = ledger.means[leader]
    for i in range(displayed.shape[0]):
        displayed[i] = top - memory[_HEAD + _BLOCK * i + _GAP]
    return leader


@compiled
def pay_block_price(
    t: int, arm: int, greedy: int, required: float, memory: Floats, params: Params, rng: Stream
) -> float:
    """Pay each arm of the block the same, the leader too."""
    return float(memory[_PAID])
