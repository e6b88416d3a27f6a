"""What happens once the money is gone: visitors go on, each to the item that leads, unpaid."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from entice.engine.jit import compiled_apart
from entice.engine.specialize import specialize
from entice.planner.outcome import Counts, Rounds
from entice.principal.ledger import Ledger, find_greedy, new_ledger, record
from entice.rng import Stream, start, uniform
from entice.specs import Study
from entice.world.arms import Arms

AFTER = 8
"""Purpose of a stream: the visitors who come after the money is gone."""


class Unpaid:
    """The rest of a run, from the visitor on for whom the budget does not suffice.

    No payment, no drift and no offer to decline: each takes the item with the best plain average
    and rates it, or does not. The ratings so far, drifted ones among them, stay in the averages.
    """

    def __init__(self, study: Study) -> None:
        assert study.seed is not None
        self._seed, self._prior, self._loss = study.seed, study.prior, study.players.loss
        self._go_on = specialize(go_on, study.arms.sampler().sample)
        nobody = Rounds(*(np.empty(0, dtype=np.int64),) * 2, *(np.empty(0),) * 2)
        self._call(nobody, study.arms, 0, np.empty(0, dtype=np.int64))  # compiles

    def after(self, rounds: Rounds, end: int, arms: Arms, run: int) -> Rounds:
        """Replace the visitors from number `end` on by such who are not paid."""
        visitors = len(rounds.arm)
        if end >= visitors:
            return rounds
        taken = np.empty(visitors - end, dtype=np.int64)
        self._call(Rounds._make(column[:end] for column in rounds), arms, run, taken)
        return Rounds(
            np.concatenate([rounds.arm[:end], taken]),
            np.concatenate([rounds.leader[:end], taken]),
            np.concatenate([rounds.payment[:end], np.zeros(len(taken))]),
            np.concatenate([rounds.feedback[:end], np.full(len(taken), np.nan)]),
        )

    def _call(self, before: Rounds, arms: Arms, run: int, taken: Counts) -> None:
        count = len(arms.true_means())
        rated = ~np.isnan(before.feedback)
        ledger = new_ledger(count, self._prior)
        ledger.pulls[:] = np.bincount(before.arm[rated], minlength=count)
        ledger.sums[:] = np.bincount(
            before.arm[rated], weights=before.feedback[rated], minlength=count
        )
        some = ledger.pulls > 0
        ledger.means[some] = ledger.sums[some] / ledger.pulls[some]
        stream = np.empty(4, dtype=np.uint64)
        params = arms.sampler().params
        self._go_on(params, ledger, self._loss, self._seed, run, stream, taken)


@compiled_apart
def go_on(
    sample: Callable[..., float],
    arm_params: tuple[Any, ...],
    ledger: Ledger,
    loss: float,
    seed: int,
    run: int,
    stream: Stream,
    taken: Counts,
) -> None:
    """Let visitors follow the averages, and write down what each takes."""
    start(stream, seed, run, AFTER)
    find_greedy(ledger)
    for i in range(taken.shape[0]):
        arm = ledger.greedy[0]
        taken[i] = arm
        reward = sample(arm, arm_params, stream)
        if uniform(stream) >= loss:
            record(ledger, arm, reward)
