"""The arrays in which UCB's fast path works, for a few replications that take turns."""

from __future__ import annotations

import functools
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from entice.engine.fast.ucb.simd import WIDTH
from entice.jit.decorators import compiled_internal, compiled_noinline
from entice.policies.ucb import growth
from entice.rng import Stream

Floats = npt.NDArray[np.float64]
Counts = npt.NDArray[np.int64]

SEATS = 2
"""How many replications take turns."""
BATCH = 256
"""How many normal variables are drawn at a time."""
NOBODY = -1
"""The row of a seat that is free."""

_TABLE = 1 << 20
"""For how many rounds g_t is kept in a table: 8 MB; beyond, it is computed."""


class Scratch(NamedTuple):
    """What one thread needs: in each array but the last two, one row for each seat.

    The first K places of the arrays over arms are in use.
    """

    pulls: Counts
    """n_i."""
    sums: Floats
    """S_i."""
    means: Floats
    """m_i = S_i/n_i: what is displayed; −inf in unused places."""
    roots: Floats
    """1/sqrt(n_i); 0 in unused places."""
    levels: Floats
    """With `slopes`, one line in g for each block of arms: level + g · slope, above its bounds."""
    slopes: Floats
    rest_levels: Floats
    """With `rest_slopes`, a line above the bounds of all arms of a block but its top arm."""
    rest_slopes: Floats
    known: Counts
    """For each block, the round at which its line passes through its highest bound."""
    tops: Counts
    """For each block, the arm whose bound that is."""
    greedy: Counts
    """One element: the arm with the highest average."""
    rival: Floats
    """One element: no other arm's average is above it."""
    tally: Floats
    """Compensation, compensated pulls, total drift."""
    turn: Counts
    """What comes next: row (or `NOBODY`), checkpoint, round, arm, `until` of its ceiling."""
    ceiling: Floats
    """Level and slope of that ceiling."""
    noise: Floats
    """A batch of standard normal variables."""
    used: Counts
    """One element: how many of them are used up."""
    noise_stream: Stream
    bridge_stream: Stream
    growth: Floats
    """g_t = noise · sqrt(2 log t) for t below its length."""
    policy_noise: Floats
    """One element: the noise that the policy assumes, for g_t beyond the table."""


def new_workspace(arms: int, horizon: int, noise: float = 1.0) -> Scratch:
    """Allocate what `replicate` works in; one for each thread.

    `noise` is the policy's. It enters the bounds through g_t alone.
    """
    places = _padded(arms)
    blocks = _padded(places // WIDTH)
    return Scratch(
        pulls=np.zeros((SEATS, places), np.int64),
        sums=np.zeros((SEATS, places)),
        means=_aligned(places, -np.inf),
        roots=_aligned(places, 0.0),
        levels=_aligned(blocks, -np.inf),
        slopes=_aligned(blocks, 0.0),
        rest_levels=np.zeros((SEATS, blocks)),
        rest_slopes=np.zeros((SEATS, blocks)),
        known=np.zeros((SEATS, blocks), np.int64),
        tops=np.zeros((SEATS, blocks), np.int64),
        greedy=np.zeros((SEATS, 1), np.int64),
        rival=np.zeros((SEATS, 1)),
        tally=np.zeros((SEATS, 3)),
        turn=np.full((SEATS, 5), NOBODY, np.int64),
        ceiling=np.zeros((SEATS, 2)),
        noise=np.zeros((SEATS, BATCH)),
        used=np.zeros((SEATS, 1), np.int64),
        noise_stream=np.zeros((SEATS, 4), np.uint64),
        bridge_stream=np.zeros((SEATS, 4), np.uint64),
        growth=_growth(min(horizon + 2, _TABLE), noise),
        policy_noise=np.full(1, noise),
    )


@functools.lru_cache(maxsize=4)
def _growth(length: int, noise: float) -> Floats:
    """Make the table of g once for all threads and blocks, which only read it."""
    table = np.zeros(length)
    _fill(table, noise)
    return table


@compiled_noinline
def _fill(table: Floats, noise: float) -> None:
    for t in range(1, table.shape[0]):  # there is no round 0
        table[t] = noise * growth(t)


def _padded(count: int) -> int:
    return -(-count // WIDTH) * WIDTH


def _aligned(count: int, value: float) -> Floats:
    """Make rows that begin with a cache line: vectors across two lines take longer to load."""
    line, size = 64, SEATS * count * 8
    room = np.empty(size + line, np.uint8)
    skipped = -room.ctypes.data % line
    rows = room[skipped : skipped + size].view(np.float64).reshape(SEATS, count)
    rows[:] = value
    return rows


@compiled_internal
def seated(s: Scratch, seat: int) -> Scratch:
    """One seat's rows."""
    return Scratch(
        s.pulls[seat], s.sums[seat], s.means[seat], s.roots[seat], s.levels[seat], s.slopes[seat],
        s.rest_levels[seat], s.rest_slopes[seat], s.known[seat], s.tops[seat], s.greedy[seat],
        s.rival[seat], s.tally[seat], s.turn[seat], s.ceiling[seat], s.noise[seat], s.used[seat],
        s.noise_stream[seat], s.bridge_stream[seat], s.growth, s.policy_noise,
    )  # fmt: skip
