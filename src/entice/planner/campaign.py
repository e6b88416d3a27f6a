"""Runs a plan: each run in a world of its own, all policies in the same worlds."""

from __future__ import annotations

from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import NamedTuple

import msgspec
import numpy as np

from entice.engine.kernel import TRACED
from entice.planner.belief import STARS, World
from entice.planner.outcome import Outcome, Rounds, budget_ends, outcome_of
from entice.planner.spec import Plan
from entice.planner.unpaid import Unpaid
from entice.specs import Study
from entice.study.cell import Cell
from entice.study.progress import Report
from entice.world.arms import Empirical
from entice.world.drift import LinearDrift
from entice.world.players import Acceptance, AlwaysAccept, LogisticAcceptance, Players

_BELIEF = 7
"""Keeps what is drawn of the worlds apart from what a user draws with the same seed."""
_MOST_TRACES = 2**30
"""Bytes that the visitors of all runs under way may take."""


class Run(NamedTuple):
    """One world, and what came of each policy in it."""

    world: World
    outcomes: list[Outcome]


class Worlds:
    """What is believed, ready to be drawn from; star counts are read once."""

    def __init__(self, plan: Plan) -> None:
        assert plan.seed is not None
        self._seed, self._drift = plan.seed, plan.drift
        self._items = plan.drawing()
        self.centre = self._items.centre

    def draw(self, run: int) -> World:
        """Draw the world of one run; it depends on the seed and on the run alone."""
        rng = np.random.default_rng((self._seed, run, _BELIEF))
        low, high = self._drift
        slope = float(rng.uniform(low, high))
        return World(self._items.draw(rng), slope)


class Campaign:
    """A plan with a seed, compiled and ready to go."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.worlds = Worlds(plan)
        self.stop = np.zeros(1, dtype=np.int64)
        # One star in the units that policies see; the lowest rating in them.
        self.star, lowest = (1.0, 1.0) if plan.policy_sees == "stars" else (0.25, 0.0)
        self.values = lowest + self.star * (STARS - STARS[0])
        arms, drift = self._parts(self.worlds.draw(0))
        shown = plan.unrated_shows if plan.unrated_shows is not None else self.worlds.centre
        study = Study(
            arms=arms,
            policies=plan.policies,
            drifts=[drift],
            horizon=plan.visitors,
            replications=plan.replications,
            seed=plan.seed,
            checkpoints=1,
            cold_start="prior",
            prior=lowest + self.star * (shown - STARS[0]),
            feedback_range=(self.values[0], self.values[-1]),
            players=Players(
                acceptance=_scaled(plan.acceptance, self.star), loss=1 - plan.share_who_rate
            ),
        )
        self.cells = [
            Cell(study, policy, drift, self.stop, traced=True) for policy in plan.policies
        ]
        self.unpaid = Unpaid(study)

    def go(self, threads: int, report: Report) -> list[Run]:
        """Run all worlds."""
        count = self.plan.replications
        threads = min(threads, max(1, _MOST_TRACES // (self.plan.visitors * TRACED * 8)))
        report(0, count)
        found: dict[int, Run] = {}
        pool = ThreadPoolExecutor(threads)
        try:
            runs = {pool.submit(self._run, run): run for run in range(count)}
            waiting: set[Future[Run]] = set(runs)
            while waiting:
                # Not for ever: some libraries keep a signal from interrupting a wait.
                finished, waiting = wait(waiting, timeout=0.2, return_when=FIRST_COMPLETED)
                for future in finished:
                    found[runs[future]] = future.result()
                report(count - len(waiting), count)
        finally:
            self.stop[0] = 1  # on errors and Ctrl-C: threads look at it now and then
            pool.shutdown(wait=True, cancel_futures=True)
        return [found[run] for run in range(count)]

    def rounds(self, policy: int, run: int) -> tuple[Rounds, Rounds]:
        """Play one run of one policy, with the budget and without; return every visitor."""
        arms, drift = self._parts(self.worlds.draw(run))
        return self._play(self.cells[policy].in_world(arms, drift), arms, run)

    def _run(self, run: int) -> Run:
        world = self.worlds.draw(run)
        arms, drift = self._parts(world)
        played = (self._play(cell.in_world(arms, drift), arms, run) for cell in self.cells)
        return Run(world, [outcome_of(*rounds, world.means, self.plan) for rounds in played])

    def _parts(self, world: World) -> tuple[Empirical, LinearDrift]:
        arms = Empirical(values=self.values.tolist(), weights=world.shares.tolist())
        return arms, LinearDrift(world.slope)

    def _play(self, cell: Cell, arms: Empirical, run: int) -> tuple[Rounds, Rounds]:
        trace = np.empty((self.plan.visitors, TRACED))
        cell.run(run, cell.room_for(1), trace)
        arm, leader, payment, _, feedback = trace[:, :5].T
        counted = arm.astype(np.int64), leader.astype(np.int64)
        unlimited = Rounds(*counted, payment / self.star, feedback)
        return self.unpaid.after(unlimited, budget_ends(unlimited, self.plan), arms, run), unlimited


def _scaled(acceptance: Acceptance, star: float) -> Acceptance:
    """Say of payments in the policy's units what was said of payments in stars."""
    if isinstance(acceptance, AlwaysAccept):
        return acceptance
    if isinstance(acceptance, LogisticAcceptance):
        return msgspec.structs.replace(
            acceptance, midpoint=acceptance.midpoint * star, width=acceptance.width * star
        )
    return msgspec.structs.replace(acceptance, payments=[x * star for x in acceptance.payments])
