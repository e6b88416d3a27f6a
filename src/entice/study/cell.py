"""One cell of a study, policy × drift, ready to run any of its replications."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from entice.engine import kernel
from entice.engine.apart import apart
from entice.engine.specialize import ready
from entice.errors import InputError, StudyError
from entice.functions import ensure_found
from entice.policies import Policy
from entice.principal.ledger import new_ledger
from entice.specs import Study
from entice.world.drift import Drift

Floats = npt.NDArray[np.float64]
Counts = npt.NDArray[np.int64]

_NO_TRACE = np.empty((0, 5))


class Stopped(Exception):
    """The run was told to stop before it was done."""


class Cell:
    """A policy and a drift bound to the compiled kernel of their combination.

    Parameters
    ----------
    study
        Everything but the policy and the drift. It must have a seed.
    stop
        One element; any thread that sets it to 1 makes all runs end soon, with `Stopped`.
    traced
        Write every round down, for a run of a single replication.
    """

    def __init__(
        self, study: Study, policy: Policy, drift: Drift, stop: Counts, traced: bool = False
    ) -> None:
        means = study.arms.true_means()
        self.arms = len(means)
        self._study, self._policy, self._drift, self._stop = study, policy, drift, stop
        self._rounds = study.checkpoint_rounds()
        self._rules, self._bend = policy.rules(self.arms), drift.bend()
        self._sampler = study.arms.sampler()
        self._truth = kernel.truth_of(means)
        # A trace has every round in it.
        self._fast = None if traced else study.fast_path(policy)
        observe = kernel.traced if traced else kernel.unobserved
        rules, bend, sampler = self._rules, self._bend, self._sampler
        entry: Any = kernel.replicate
        parts: Any = (rules.select, rules.update, bend.function, sampler.sample, observe)
        if self._fast is not None:
            entry, parts = self._fast.replicate, (bend.function,)
        for part in parts:
            ensure_found(part)
        metrics, pulls = self.room_for(0)
        arguments = self._arguments(0, _NO_TRACE, metrics, pulls)
        try:
            self._compiled = ready(entry, parts, arguments)
        except InputError:
            self._explain()
            raise

    def _explain(self) -> None:
        """Find the simpler reason why something can't be compiled, if there is one.

        The checks try one function at a time; the compiler's own words speak of the kernel.
        """
        from entice.testing import CheckFailed, check_drift, check_policy

        try:
            check_policy(self._policy, arms=self.arms, rounds=2 * self.arms)
            check_drift(self._drift, arms=self.arms)
        except CheckFailed as reason:
            raise InputError("the study", f"can't be run: {reason}") from None

    @property
    def work(self) -> int:
        """How many rounds × arms of the kernel one replication amounts to, roughly."""
        rounds = self._study.horizon * self.arms
        return rounds if self._fast is None else -(-rounds // self._fast.speedup)

    def room_for(self, replications: int) -> tuple[Floats, Counts]:
        """Make the arrays that so many replications fill: metrics, and pulls per arm."""
        return (
            np.empty((replications, len(self._rounds), len(kernel.METRICS))),
            np.empty((replications, self.arms), dtype=np.int64),
        )

    def run(self, first: int, metrics: Floats, pulls: Counts, trace: Floats = _NO_TRACE) -> None:
        """Run the replications first, first + 1, …, one for each row of the arrays."""
        arguments = self._arguments(first, trace, metrics, pulls)
        try:
            code, replication, t, arm = self._compiled(*arguments)
        except Exception as error:  # whatever a user's function may raise
            hint = ""
            if isinstance(error, IndexError):
                hint = ". Are memory, memory_per_arm and params long enough?"
            raise StudyError(
                f"Policy {self._policy.label} or drift {self._drift.label} raised "
                f"{type(error).__name__}: {error}{hint}"
            ) from error
        if code == kernel.STOPPED:
            raise Stopped
        where = f"in round {t} of replication {replication} (drift {self._drift.label})"
        if code == kernel.BAD_ARM:
            raise StudyError(
                f"Policy {self._policy.label} selected arm {arm} {where}, "
                f"but arms are numbered 0 to {self.arms - 1}."
            )
        if code == kernel.TAMPERED:
            raise StudyError(
                f"Policy {self._policy.label} changed the counts or averages that it is shown: "
                "pulls and means are to be read, not written."
            )
        if code == kernel.NOT_FINITE:
            raise StudyError(
                f"The feedback on arm {arm} is not a finite number {where}, "
                f"policy {self._policy.label}. Payments that feed on the drift they cause can grow "
                "without bound: take a feedback_range or a weaker drift."
            )

    def _arguments(self, first: int, trace: Floats, metrics: Floats, pulls: Counts) -> Any:
        study, fast = self._study, self._fast
        assert study.seed is not None
        params = fast.params if fast is not None else self._rules.params
        world = params, self._bend.params, self._sampler.params, self._truth
        beginning = study.cold_start == "each_arm_once", study.prior
        which = study.seed, first, self._rounds
        if fast is not None:
            scratch = apart(fast.make_scratch(self.arms, study.horizon))
            return *world, *beginning, *which, scratch, self._stop, metrics, pulls
        workspace = apart(
            kernel.Workspace(
                new_ledger(self.arms, study.prior),
                np.zeros(self._rules.memory),
                np.zeros(4, dtype=np.uint64),
                np.zeros(4, dtype=np.uint64),
            )
        )
        limits = study.feedback_limits
        return *world, *beginning, *limits, *which, workspace, self._stop, trace, metrics, pulls
