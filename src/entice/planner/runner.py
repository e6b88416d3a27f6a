"""Runs all policies of a plan in the same worlds, one world for each run."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import closing
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from entice.errors import InputError, StudyError
from entice.jit.compile_all import compile_all
from entice.jit.specialize import get_compiled
from entice.model.payment import pay_required
from entice.model.settings import MAX_MONEY
from entice.money import amount_of
from entice.parallel import Stopped, run_in_threads
from entice.planner import campaign_loop
from entice.planner.belief import STARS, DrawnWorld
from entice.planner.campaign_loop import LoopSettings, LoopState, Visits, new_state, new_visits
from entice.planner.outcome import Outcome, measure_outcome
from entice.planner.pointers import visitor_pointers
from entice.planner.spec import Plan
from entice.planner.visitors import SECOND, VisitorModel
from entice.policies import Greedy, Policy
from entice.policies.pointers import Functions, policy_pointer
from entice.policies.policy import PolicyKernel
from entice.progress import Report
from entice.user_functions import ensure_found
from entice.worlds.players import AcceptanceKernel, AlwaysAccept, LogisticAcceptance

_BELIEF, _SEED = 7, 9
"""Stream numbers that keep these draws independent of a user's draws with the same seed."""
_MAX_VISIT_BYTES = 2**30
"""Memory limit for the visitors of all concurrent runs."""


class PlanRun(NamedTuple):
    """One world, and the outcome of each policy in it."""

    world: DrawnWorld
    outcomes: list[Outcome]


class WorldSampler:
    """Draws worlds from a plan's belief; reads star counts once."""

    def __init__(self, plan: Plan) -> None:
        assert plan.seed is not None
        self._seed, self._drift = plan.seed, plan.drift
        self._items = plan.item_sampler()
        self._segments = 1 if plan.segments is None else len(plan.segments.shares)

    def draw(self, run: int) -> DrawnWorld:
        """Draw the world of one run, which depends only on the seed and the run."""
        rng = np.random.default_rng((self._seed, run, _BELIEF))
        low, high = self._drift
        slope = float(rng.uniform(low, high))
        return DrawnWorld(self._items.draw(rng), slope, self._segments)

    def seed(self, run: int) -> int:
        """Draw the seed of one run's campaign and visitors."""
        rng = np.random.default_rng((self._seed, run, _SEED))
        return int(rng.integers(2**63))


class PlanRunner:
    """A plan with a seed, compiled and ready to run."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.worlds = WorldSampler(plan)
        self.stop = np.zeros(1, dtype=np.int64)
        steps: list[Callable[[], Any]] = [partial(_compile_loop, plan)]
        steps += [partial(_link_policy, plan, policy) for policy in plan.policies]
        self.policy_runners = [
            _PolicyRunner(plan, policy, linked, self.worlds, self.stop)
            for policy, linked in zip(plan.policies, compile_all(steps)[1:], strict=True)
        ]

    def run_all(self, threads: int, report: Report) -> list[PlanRun]:
        """Run all worlds."""
        count = self.plan.replications
        run_bytes = self.plan.visitors * 2 * campaign_loop.VISIT_BYTES
        threads = min(threads, max(1, _MAX_VISIT_BYTES // run_bytes))
        report(0, count)
        found: dict[int, PlanRun] = {}
        with closing(run_in_threads(self.run_world, range(count), threads, self.stop)) as finished:
            for run, result in finished:
                found[run] = result
                report(len(found), count)
        return [found[run] for run in range(count)]

    def simulate_run(self, policy: int, run: int) -> tuple[Visits, Visits]:
        """Simulate one run of one policy, and return its visits with and without the budget."""
        return self.policy_runners[policy].run(self.worlds.draw(run), run, explain=True)

    def run_world(self, run: int) -> PlanRun:
        """Run all policies in the world of one run."""
        world = self.worlds.draw(run)
        all_visits = (runner.run(world, run, explain=False) for runner in self.policy_runners)
        return PlanRun(
            world, [measure_outcome(*visits, world.means, self.plan) for visits in all_visits]
        )


class _UnexpectedLimit(Exception):
    """A limit changed an offer although it was larger than twice the rating scale."""


class LoopMode(NamedTuple):
    """Arguments of `campaign_loop.simulate_visits` that control how it ends."""

    ample_amount: int
    stop_when_low: bool
    explain: bool


def loop_settings(plan: Plan, seed: int, policy: Policy, rules: PolicyKernel) -> LoopSettings:
    """Return a plan's settings as numbers for the compiled loop."""
    money, probe = plan.money, plan.probe
    caps = [cap for cap in (plan.cap_per_offer, plan.cap_per_player) if cap is not None]
    stars = plan.policy_sees == "stars"
    return LoopSettings(
        seed=seed,
        budget=MAX_MONEY if plan.budget is None else money.to_minor(plan.budget),
        price_of_a_star=money.to_minor(plan.price_of_a_star),
        margin=money.to_minor(plan.margin),
        cap=min(map(money.to_minor, caps), default=MAX_MONEY),
        pace_over=plan.pace_over or 0,
        window=plan.rating_window * SECOND,
        late_ratings=plan.late_ratings,
        zero=0 if stars else int(STARS[0]),
        steps=1 if stars else int(STARS[-1] - STARS[0]),
        probe_share=probe.share if probe else 0.0,
        probe_amounts=np.array(probe.amounts if probe else (0.0,)),
        overlap=plan.overlap,
        custom_payment_rule=rules.payment_rule is not pay_required,
        limit_slot=rules.limit_slot,
        counts_in_flight=campaign_loop.in_flight_counting(rules, plan.overlap),
        equal_pay=policy.equal_pay,
        holdout=plan.holdout,
        holdout_feeds_averages=plan.holdout_feeds_averages,
        segments=plan.known_segments,
        acceptance=plan.price.acceptance if plan.price else 0.0,
        explore_prices=plan.price.explore if plan.price else 0.0,
    )


def _acceptance_kernel(plan: Plan) -> AcceptanceKernel:
    """Return how visitors accept offers, for a loop that most plans share.

    Visitors who always accept are logistic ones with a midpoint of −∞. They draw one more random
    number, but it is their last one, and nothing else depends on it.
    """
    if plan.acceptance == AlwaysAccept():
        return AcceptanceKernel(LogisticAcceptance(0.0, 1.0).kernel().accept, (-math.inf, 1.0))
    return plan.acceptance.kernel()


def _compile_loop(plan: Plan) -> None:
    """Compile the loop, which all policies share; nothing else is compiled for `Greedy`."""
    linked, stop = _link_policy(plan, Greedy()), np.zeros(1, dtype=np.int64)
    _PolicyRunner(plan, Greedy(), linked, WorldSampler(plan), stop)


def _link_policy(plan: Plan, policy: Policy) -> tuple[Functions, Any]:
    """Compile a policy; return functions for the loop, and the parameters to pass to them."""
    assert plan.arms is not None
    rules = policy.kernel(plan.arms)
    for function in rules.functions:
        ensure_found(function)
    try:
        return policy_pointer(rules)
    except InputError:
        _check_policy(plan, policy)
        raise


def _check_policy(plan: Plan, policy: Policy) -> None:
    """Raise a simpler error if the policy itself is the reason why compilation failed."""
    from entice.testing import CheckFailed, check_policy

    arms = plan.arms or 2
    try:
        check_policy(policy, arms=arms, rounds=2 * arms)
    except CheckFailed as reason:
        raise InputError("the plan", f"cannot be run: {reason}") from None


class _PolicyRunner:
    """One policy of a plan, compiled."""

    def __init__(
        self, plan: Plan, policy: Policy, linked: tuple[Functions, Any], worlds: WorldSampler,
        stop: Any,
    ) -> None:  # fmt: skip
        assert plan.arms is not None
        self._plan, self._policy, self._worlds, self._stop = plan, policy, worlds, stop
        self._shown = plan.unrated_stars
        self._rules = policy.kernel(plan.arms)
        functions, self._policy_params = linked
        visitor_functions, self._visitor_params = visitor_pointers(
            _acceptance_kernel(plan), plan.delay_sampler(), plan.response_kernel()
        )
        settings, mode = loop_settings(plan, 0, policy, self._rules), LoopMode(0, False, False)
        state, no_visits = self._state(settings), new_visits(0)
        arguments = self._arguments(settings, worlds.draw(0), 0, mode, state, no_visits)
        self._compiled = get_compiled(
            campaign_loop.simulate_visits, functions + visitor_functions, arguments
        )

    def run(self, world: DrawnWorld, run: int, explain: bool) -> tuple[Visits, Visits]:
        """Simulate one run with and without the budget.

        The two are identical, and simulated only once, while the remaining budget covers the
        largest possible offer. That offer is taken to be worth twice the rating scale, because
        averages corrected for drift may exceed the scale.
        """
        settings = loop_settings(self._plan, self._worlds.seed(run), self._policy, self._rules)
        ample_amount = amount_of(
            2 * (STARS[-1] - STARS[0]), settings.price_of_a_star, settings.margin
        )
        try:
            return self._run_twice(settings, world, run, ample_amount, explain)
        except _UnexpectedLimit:
            return self._run_twice(settings, world, run, MAX_MONEY + 1, explain)

    def _run_twice(
        self, settings: LoopSettings, world: DrawnWorld, run: int, ample_amount: int, explain: bool
    ) -> tuple[Visits, Visits]:
        visits, state = new_visits(self._plan.visitors), self._state(settings)
        while_ample, to_the_end = (LoopMode(ample_amount, stop, explain) for stop in (True, False))
        begin = 0
        if settings.budget < MAX_MONEY and settings.cap >= ample_amount:
            begin = self._call(settings, world, run, 0, while_ample, state, visits)
        if begin == self._plan.visitors:
            return visits, visits
        unlimited, unlimited_state = visits, state
        if settings.budget < MAX_MONEY:
            unlimited, unlimited_state = visits.copy(), state.copy()
            self._call(settings, world, run, begin, to_the_end, state, visits)
        free = settings._replace(budget=MAX_MONEY, pace_over=0)
        self._call(free, world, run, begin, to_the_end, unlimited_state, unlimited)
        return visits, unlimited

    def _state(self, settings: LoopSettings) -> LoopState:
        assert self._plan.arms is not None
        arms, visitors, scale = self._plan.arms, self._plan.visitors, int(STARS[-1] - STARS[0])
        return new_state(self._rules, settings, arms, visitors, self._shown, scale)

    def _call(
        self, settings: LoopSettings, world: DrawnWorld, run: int, first: int,
        mode: LoopMode, state: LoopState, visits: Visits,
    ) -> int:  # fmt: skip
        """Simulate visitors from index `first` on, and return the index at which the loop ended."""
        arguments = self._arguments(settings, world, first, mode, state, visits)
        try:
            ended, visitor, arm = self._compiled(*arguments)
        except Exception as error:  # raised by a user's function
            raise StudyError(
                f"Policy {self._policy.label} raised {type(error).__name__}: {error}"
            ) from error
        if ended == campaign_loop.STOPPED:
            raise Stopped
        if ended == campaign_loop.UNEXPECTED_LIMIT:
            raise _UnexpectedLimit
        if ended == campaign_loop.BAD_ARM:
            raise StudyError(
                f"Policy {self._policy.label} selected arm {arm} for visitor {visitor + 1} of run "
                f"{run}, but arms are numbered 0 to {len(world.means) - 1}."
            )
        return int(visitor)

    def _arguments(
        self, settings: LoopSettings, world: DrawnWorld, first: int, mode: LoopMode,
        state: LoopState, visits: Visits,
    ) -> Any:  # fmt: skip
        accept_params, delay_params, response = self._visitor_params
        visitor_model = VisitorModel(
            settings.seed,
            np.cumsum(world.shares, axis=1),
            world.slope,
            self._plan.share_who_rate,
            settings.price_of_a_star,
            response,
            self._plan.cumulative_shares,
        )
        params = self._policy_params, accept_params, delay_params
        per_day = self._plan.visitors_a_day
        return *params, settings, visitor_model, per_day, first, *mode, state, visits, self._stop
