"""The arrays of UCB's fast path, for a few replications that alternate."""

from __future__ import annotations

import functools
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from entice.engine.fast.simd import WIDTH
from entice.jit.decorators import compiled_internal, compiled_noinline
from entice.policies.ucb import exploration_factor
from entice.rng import Stream

Floats = npt.NDArray[np.float64]
Counts = npt.NDArray[np.int64]

LANES = 2
"""The number of replications that alternate."""
BATCH = 256
"""The number of normal variables drawn at a time."""
IDLE = -1
"""The row of a lane without a replication."""

_TABLE_ROUNDS = 1 << 20
"""The number of rounds for which g_t is tabulated (8 MB); for later rounds it is computed."""


class UCBWorkspace(NamedTuple):
    """The arrays of one thread: all but the last two have one row per lane.

    `means`, `roots` and the arrays over blocks of arms are padded; `pulls` and `sums` are not.
    """

    pulls: Counts
    """n_i."""
    sums: Floats
    """S_i."""
    means: Floats
    """m_i = S_i/n_i, the displayed average; −inf in unused entries."""
    roots: Floats
    """1/sqrt(n_i); 0 in unused entries."""
    levels: Floats
    """With `slopes`, a line in g above the bounds of each block of arms: level + g · slope."""
    slopes: Floats
    rest_levels: Floats
    """With `rest_slopes`, a line above the bounds of all arms of a block but its top arm."""
    rest_slopes: Floats
    exact_at: Counts
    """For each block, the round at which its line passes through its highest bound."""
    top_arms: Counts
    """For each block, the arm with that bound."""
    greedy: Counts
    """One element: the arm with the highest average."""
    rival: Floats
    """One element: an upper bound on all other averages."""
    totals: Floats
    """Compensation, compensated pulls, total drift, regret."""
    progress: Counts
    """The next row (or `IDLE`), checkpoint, round and arm, and `until` of its rival bound."""
    rival_bound: Floats
    """Level and slope of that rival bound."""
    noise: Floats
    """A batch of standard normal variables."""
    noise_used: Counts
    """One element: how many of them have been used."""
    noise_stream: Stream
    bridge_stream: Stream
    factors: Floats
    """g_t = noise · sqrt(2 log t) for t below its length."""
    policy_noise: Floats
    """One element: the noise assumed by the policy, for g_t beyond the table."""


def new_workspace(arms: int, horizon: int, noise: float = 1.0) -> UCBWorkspace:
    """Allocate the arrays of `replicate` for one thread.

    `noise` is the policy's parameter. It enters the bounds only through g_t.
    """
    places = _padded(arms)
    blocks = _padded(places // WIDTH)
    return UCBWorkspace(
        pulls=np.zeros((LANES, arms), np.int64),
        sums=np.zeros((LANES, arms)),
        means=_aligned(places, -np.inf),
        roots=_aligned(places, 0.0),
        levels=_aligned(blocks, -np.inf),
        slopes=_aligned(blocks, 0.0),
        rest_levels=np.zeros((LANES, blocks)),
        rest_slopes=np.zeros((LANES, blocks)),
        exact_at=np.zeros((LANES, blocks), np.int64),
        top_arms=np.zeros((LANES, blocks), np.int64),
        greedy=np.zeros((LANES, 1), np.int64),
        rival=np.zeros((LANES, 1)),
        totals=np.zeros((LANES, 4)),
        progress=np.full((LANES, 5), IDLE, np.int64),
        rival_bound=np.zeros((LANES, 2)),
        noise=np.zeros((LANES, BATCH)),
        noise_used=np.zeros((LANES, 1), np.int64),
        noise_stream=np.zeros((LANES, 4), np.uint64),
        bridge_stream=np.zeros((LANES, 4), np.uint64),
        factors=_factor_table(min(horizon + 2, _TABLE_ROUNDS), noise),
        policy_noise=np.full(1, noise),
    )


@functools.lru_cache(maxsize=4)
def _factor_table(length: int, noise: float) -> Floats:
    """Compute the table of g once for all threads and blocks, which only read it."""
    table = np.zeros(length)
    _fill(table, noise)
    return table


@compiled_noinline
def _fill(table: Floats, noise: float) -> None:
    for t in range(1, table.shape[0]):  # there is no round 0
        table[t] = noise * exploration_factor(t)


def _padded(count: int) -> int:
    return -(-count // WIDTH) * WIDTH


def _aligned(count: int, value: float) -> Floats:
    """Allocate rows aligned to cache lines: vectors that cross a line take longer to load."""
    line, size = 64, LANES * count * 8
    room = np.empty(size + line, np.uint8)
    skipped = -room.ctypes.data % line
    rows = room[skipped : skipped + size].view(np.float64).reshape(LANES, count)
    rows[:] = value
    return rows


@compiled_internal
def lane_view(s: UCBWorkspace, lane: int) -> UCBWorkspace:
    """Return the rows of one lane."""
    return UCBWorkspace(
        s.pulls[lane], s.sums[lane], s.means[lane], s.roots[lane], s.levels[lane], s.slopes[lane],
        s.rest_levels[lane], s.rest_slopes[lane], s.exact_at[lane], s.top_arms[lane],
        s.greedy[lane], s.rival[lane], s.totals[lane], s.progress[lane], s.rival_bound[lane],
        s.noise[lane], s.noise_used[lane], s.noise_stream[lane], s.bridge_stream[lane], s.factors,
        s.policy_noise,
    )  # fmt: skip
