"""One cell of a study: a policy and a drift, compiled to run any of its replications."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from entice.engine import delivery, kernel, segments
from entice.engine.fast.drift_pointer import DriftPointer, drift_pointer
from entice.engine.pending_ratings import new_pending_ratings
from entice.errors import InputError, StudyError
from entice.jit.cache_aligned import cache_aligned
from entice.jit.interpret import Fault
from entice.jit.specialize import get_compiled
from entice.model.display import display_averages
from entice.model.in_flight import new_in_flight
from entice.model.ledger import new_ledger
from entice.parallel import StopFlag, Stopped
from entice.policies import Policy
from entice.rng import ARMS, PURPOSES
from entice.study.run_arrays import RunArrays
from entice.study.running.python_replay import find_fault_in_run
from entice.study.spec import Study
from entice.user_functions import ensure_found
from entice.worlds.arms import CustomArms
from entice.worlds.changing_arms import Changing, Wandering, fixed_arms
from entice.worlds.drifts import Drift
from entice.worlds.segments import Segments

Floats = npt.NDArray[np.float64]
Counts = npt.NDArray[np.int64]

_NO_TRACE = np.empty((0, kernel.TRACE_COLUMNS))


class _UserFunctionError(Exception):
    """A user's function raised an error."""

    def __init__(self, error: Exception) -> None:
        self.error = error


def work_of(study: Study, policy: Policy) -> int:
    """Estimate the work of one replication, in rounds × arms of the generic kernel."""
    rounds, fast = study.horizon * len(study.arms.true_means()), study.fast_path(policy)
    return rounds if fast is None else -(-rounds // fast.speedup)


class Cell:
    """A policy and a drift, with the kernel compiled for them.

    Parameters
    ----------
    study
        All other settings. Must have a seed.
    stop
        The stop flag. Once any thread has set it, all runs soon raise `Stopped`.
    traced
        Whether to record every round, for a run of a single replication.
    """

    def __init__(
        self, study: Study, policy: Policy, drift: Drift, stop: StopFlag, traced: bool = False
    ) -> None:
        means = study.arms.true_means()
        self.arms = len(means)
        self._study, self._policy, self._drift, self._stop = study, policy, drift, stop
        self._rounds = study.checkpoint_rounds()
        self._policy_kernel, self._drift_kernel = policy.kernel(self.arms), drift.kernel()
        self._sampler = study.arms.sampler()
        self._acceptance = study.players.acceptance.kernel()
        self._delays, self._response = (
            study.players.delay_sampler(),
            study.players.response_kernel(),
        )
        self._adversary = study.adversary.kernel(means)
        self._instance = kernel.bandit_instance(means, study.arms.scale())
        self._segments = study.arms if isinstance(study.arms, Segments) else None
        if self._segments is not None:
            self._instance = self._instance._replace(gaps=self._segments.gaps().ravel())
        self._late = not study.players.rates_immediately
        self._counting = self._late and self._policy_kernel.counts_in_flight
        # A trace needs every round; fast paths skip rounds.
        self._fast = None if traced else study.fast_path(policy)
        self._drift_function = DriftPointer()  # has the type of all others
        self._functions: Any = (
            segments.offer_function(study.arms),
            *self._policy_kernel.functions,
            self._drift_kernel.function,
            self._drift_kernel.apply_drift,
            self._sampler.sample,
            self._sampler.draw,
            self._acceptance.accept,
            self._adversary.manipulate,
            self._response.responds,
            self._count_rated(),
            self._delays.draw,
            *self._delivery(),
            kernel.probe_coin if study.probe is not None else kernel.no_coin,
            kernel.trace_display if traced else kernel.ignore_display,
            kernel.trace_round if traced else kernel.ignore_round,
        )
        for function in self._functions:
            ensure_found(function)
        metrics, pulls, _ = self.allocate(0)
        arguments = self._arguments(0, _NO_TRACE, metrics, pulls)
        try:
            if self._fast is None:
                self._compiled = get_compiled(kernel.replicate, self._functions, arguments)
            else:
                self._compiled = get_compiled(self._fast.replicate, (), arguments)
                self._drift_function = drift_pointer(self._drift_kernel)
        except InputError:
            self._explain()
            raise

    def _count_rated(self) -> Any:
        if self._study.players.response is None:
            return kernel.ignore_rated
        known_means = segments.count_if_rated_in_segment
        return kernel.count_if_rated if self._segments is None else known_means

    def _delivery(self) -> delivery.Delivery:
        known = self._segments is not None and self._segments.known
        ways = segments.FOR_SEGMENTS if known else delivery.FOR_ALL_VISITORS
        if self._counting:
            return ways.late_counted
        return ways.late if self._late else ways.immediate

    def _explain(self) -> None:
        """Raise a simpler error if the checks of single functions find why compilation failed.

        The compiler's own message refers to the kernel, not to the user's function.
        """
        from entice.testing import CheckFailed, check_arms, check_drift, check_policy

        policy = partial(check_policy, self._policy, arms=self.arms, rounds=2 * self.arms)
        drift = partial(check_drift, self._drift, arms=self.arms)
        for check in (policy, drift, partial(check_arms, self._study.arms, draws=10)):
            try:
                check()
            except CheckFailed as reason:
                if not isinstance(reason.__cause__, (ArithmeticError, ValueError)):  # it compiles
                    raise InputError("the study", f"cannot be run: {reason}") from None

    @property
    def work(self) -> int:
        """The estimated work of one replication, in rounds × arms of the generic kernel."""
        return work_of(self._study, self._policy)

    def allocate(self, replications: int) -> RunArrays:
        """Allocate the arrays that `run` fills, with a row for each replication."""
        return RunArrays(
            np.empty((replications, len(self._rounds), len(self._study.metrics))),
            np.empty((replications, self.arms), dtype=np.int64),
            np.empty(replications, dtype=np.int64),
        )

    def run(self, first: int, arrays: RunArrays, trace: Floats = _NO_TRACE) -> None:
        """Run the replications first, first + 1, …, one for each row of the arrays.

        A replication whose payments grow without bound is stopped: `stopped` holds the round (0 for
        the others), and its metrics are nan from that round on.
        """
        arrays.stopped[:] = 0
        pending = [(0, len(arrays.stopped))]
        while pending:
            begin, end = pending.pop()
            rows = arrays.rows(begin, end - begin)
            try:
                found = self._call(self._arguments(first + begin, trace, rows.metrics, rows.pulls))
            except _UserFunctionError as raised:
                raise self._user_error(raised.error, first + begin, rows) from raised.error
            if found is not None:
                row, t = found[0] - first, found[1]
                arrays.metrics[row, self._rounds >= t] = np.nan
                arrays.pulls[row] = 0
                arrays.stopped[row] = t
                pending.append((row + 1, end))
                if self._fast is not None and self._fast.interleaved:
                    pending.append((begin, row))  # some of these may be unfinished

    def _call(self, arguments: Any) -> tuple[int, int] | None:
        """Run the kernel. Return the replication and round where payments grew without bound."""
        try:
            code, replication, t, arm = self._compiled(*arguments)
        except Exception as error:  # a user's function can raise anything
            raise _UserFunctionError(error) from error
        if code == kernel.STOPPED:
            raise Stopped
        if code == kernel.BAD_ARM:
            raise StudyError(
                f"Policy {self._policy.label} selected arm {arm} in round {t} of replication "
                f"{replication} (drift {self._drift.label}), "
                f"but arms are numbered 0 to {self.arms - 1}."
            )
        if code == kernel.TAMPERED:
            raise StudyError(
                f"Policy {self._policy.label} modified `pulls` or `means`, which are read-only. "
                "Use `memory` for its own numbers."
            )
        return (replication, t) if code == kernel.NOT_FINITE else None

    def _user_error(self, error: Exception, first: int, rows: RunArrays) -> StudyError:
        """Describe the error that a user's function raised, with its line if that can be found."""
        fault = self._find_fault(first, rows) if isinstance(error, IndexError) else None
        hint = ""
        if isinstance(error, IndexError):
            hint = ". Are memory, memory_per_arm and params long enough?"
        sources = [f"Policy {self._policy.label}", f"drift {self._drift.label}"]
        arms = fixed_arms(self._study.arms)
        if isinstance(arms, CustomArms):
            sources.append(f"arms {arms.label}")
        source = " or ".join(sources)
        if fault is not None and type(fault.error) is type(error):
            return StudyError(f"{source} failed in {fault}{hint}")
        # Compiled code continues after 1/0, and may fail later because of it.
        before = f" Before that: {fault}." if fault is not None else ""
        return StudyError(f"{source} raised {type(error).__name__}: {error}{hint}{before}")

    def _find_fault(self, first: int, rows: RunArrays) -> Fault | None:
        """Find the replication that fails, and replay it in plain Python."""
        for i in range(len(rows.stopped)):
            one = rows.rows(i, 1)
            try:
                self._call(self._arguments(first + i, _NO_TRACE, one.metrics, one.pulls))
            except _UserFunctionError:
                arguments = self._kernel_arguments(first + i, _NO_TRACE, one.metrics, one.pulls)
                return find_fault_in_run(self._functions, arguments, self._study.horizon)
        return None

    def _arguments(self, first: int, trace: Floats, metrics: Floats, pulls: Counts) -> Any:
        study, fast = self._study, self._fast
        assert study.seed is not None
        run = study.seed, first, self._rounds
        if fast is not None:
            world = fast.params, self._drift_function, self._sampler.params, self._instance
            cold_start = study.cold_start == "each_arm_once", study.prior
            workspace = cache_aligned(fast.new_workspace(self.arms, study.horizon))
            return *world, *cold_start, *run, workspace, self._stop, metrics, pulls
        return self._kernel_arguments(first, trace, metrics, pulls)

    def _kernel_arguments(self, first: int, trace: Floats, metrics: Floats, pulls: Counts) -> Any:
        run = self._study.seed, first, self._rounds
        return (
            self._params(), self._instance, self._run_settings(), *run,
            self._workspace(trace), self._stop, metrics, pulls,
        )  # fmt: skip

    def _params(self) -> kernel.Parameters:
        players, probe = self._study.players, self._study.probe
        late = delivery.DeliveryParams(
            players.loss, float(players.rating_window or np.inf), self._delays.params
        )
        return kernel.Parameters(
            policy=self._policy_kernel.params,
            drift=self._drift_kernel.params,
            arms=self._sampler.params,
            acceptance=self._acceptance.params,
            delivery=late if self._late else (),
            adversary=self._adversary.params,
            probe=(probe.share, np.array(probe.amounts)) if probe else (),
            response=self._response.params,
        )

    def _run_settings(self) -> kernel.RunSettings:
        study = self._study
        each_arm_once = study.cold_start == "each_arm_once"
        by_round = isinstance(study.arms, Changing | Wandering)
        return kernel.RunSettings(each_arm_once, study.prior, *study.feedback_limits, by_round)

    def _workspace(self, trace: Floats) -> kernel.KernelWorkspace:
        policy, averages = self._policy_kernel, self._policy_kernel.display is display_averages
        workspace: kernel.KernelWorkspace = cache_aligned(
            kernel.KernelWorkspace(
                ledger=new_ledger(self.arms, self._study.prior),
                memory=np.zeros(policy.memory),
                effective_pulls=np.zeros(self.arms),
                displayed=np.zeros(self.arms),
                all_pulls=np.zeros(self.arms, dtype=np.int64),
                drift_memory=np.zeros(self._drift_kernel.memory_per_arm * self.arms),
                adversary_memory=np.zeros(self._adversary.memory_per_arm * self.arms),
                arms_memory=np.zeros(self._sampler.memory),
                counted_pulls=np.zeros(0),
                streams=np.zeros((len(PURPOSES), 4), dtype=np.uint64),
                undelivered=self._undelivered(),
                rated=np.zeros(2),
                paid=np.zeros(3),
                trace=np.zeros((0, 0)),
            )
        )
        ledger = workspace.ledger
        all_pulls = workspace.all_pulls if self._late else ledger.pulls
        workspace = workspace._replace(
            effective_pulls=workspace.effective_pulls if self._counting else ledger.pulls,
            displayed=ledger.means if averages else workspace.displayed,
            all_pulls=all_pulls,
            counted_pulls=all_pulls,
            trace=trace,
        )
        return self._in_segments(workspace) if self._segments is not None else workspace

    def _in_segments(self, workspace: kernel.KernelWorkspace) -> kernel.KernelWorkspace:
        """Add the arrays of the segments."""
        assert self._segments is not None
        workspace = workspace._replace(counted_pulls=workspace.arms_memory[:-2])
        if not self._segments.known:
            return workspace
        own = segments.new_segment_workspace(
            self._segments, workspace.ledger, workspace.streams[ARMS], workspace.arms_memory,
            counting=self._counting,
        )  # fmt: skip
        averages = workspace.displayed is workspace.ledger.means
        return workspace._replace(
            effective_pulls=own,
            displayed=own.seen.means if averages else workspace.displayed,
            undelivered=workspace.undelivered._replace(records=own),
        )

    def _undelivered(self) -> delivery.Undelivered:
        """Allocate the arrays for ratings that reach the principal late."""
        nothing = delivery.Undelivered((), (), ())
        if not self._late:
            return nothing
        players, horizon = self._study.players, self._study.horizon
        late = nothing._replace(pending=new_pending_ratings(players.longest_wait(horizon)))
        if not self._counting:
            return late
        known = self._segments is not None and self._segments.known
        cells = len(self._instance.gaps) if known else self.arms
        return late._replace(flight=new_in_flight(cells, players.rating_window or horizon))
