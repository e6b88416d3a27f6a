"""The worker process of the studio: runs one job at a time, at low priority, for its parent.

It is a separate process, so that no decision of the service waits for a simulation. Each line on
standard input is a job. Results are written to standard output, line by line (see `job`).
"""

from __future__ import annotations

import os
import queue
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from typing import Any

import msgspec
import numpy as np

from entice.errors import EnticeError
from entice.parallel import Stopped
from entice.planner.belief import Spread
from entice.planner.runner import PlanRunner
from entice.planner.spec import Plan
from entice.policies import UCB, EpsilonGreedy, EqualPay, Greedy, Policy, ThompsonSampling
from entice.progress import reporting_compilation
from entice.studio.jobs.job import (
    BACKGROUND,
    CANCEL,
    END,
    LOG,
    Evaluate,
    Job,
    JobContext,
    MakePlan,
    Replay,
    Reproduce,
    Simulate,
    Trace,
)
from entice.study.running.cell import Cell
from entice.study.spec import Study
from entice.worlds.arms import Gaussian
from entice.worlds.drifts import LinearDrift
from entice.worlds.players import Players

NICENESS, BACKGROUND_NICENESS = 10, 19
"""Added to the process's niceness, so that decisions of the service have priority."""
IDLE = 0.5
"""Seconds without a job before the next warm-up step, since a new job waits for that step."""

decode_job = msgspec.json.Decoder(Job).decode


def main() -> None:
    """Run jobs until standard input is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # on Ctrl-C the parent ends this process
    in_background = BACKGROUND in sys.argv
    os.nice(BACKGROUND_NICENESS if in_background else NICENESS)
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # so that `print` anywhere does not corrupt the results
    stop = np.zeros(1, dtype=np.int64)
    jobs: queue.SimpleQueue[Job] = queue.SimpleQueue()
    context, warming = JobContext(out, stop), threading.Event()
    threading.Thread(target=_read_jobs, args=(jobs, context, warming), daemon=True).start()
    steps = [] if in_background else list(warm_up_steps())
    while True:
        try:
            job = jobs.get(timeout=IDLE if steps else None)
        except queue.Empty:
            warming.set()
            steps.pop(0)()
            warming.clear()
        else:
            run_job(job, context)


def _read_jobs(jobs: queue.SimpleQueue[Job], context: JobContext, warming: threading.Event) -> None:
    """Read jobs and cancellations; exit when the parent has closed the pipe."""
    for line in sys.stdin.buffer:
        if line == CANCEL:
            context.stop[0] = 1
        else:
            context.stop[0] = 0  # the parent sends a job only after the last one has ended
            if warming.is_set():
                context.send("compiling")  # the job waits for the warm-up step
            jobs.put(decode_job(line))
    os._exit(0)


def run_job(job: Job, context: JobContext) -> None:
    """Run a job and write the last line of its result, even if it fails."""
    try:
        with reporting_compilation(context.compilation):
            last = _result(job, context)
    except Stopped:
        last = {"kind": "cancelled"}
    except EnticeError as error:
        last = _failed(422, "The job cannot run", str(error))
    except MemoryError:
        last = _failed(422, "Out of memory", "Request a smaller simulation.")
    except Exception as error:
        frames = traceback.extract_tb(error.__traceback__)
        lines = [f"{frame.filename}:{frame.lineno} {frame.name}" for frame in frames]
        context.write(LOG, {"error": type(error).__qualname__, "lines": lines})
        last = _failed(500, "Internal error", "The service's log has the details.")
    context.write(END, last)


def _failed(status: int, title: str, detail: str) -> dict[str, Any]:
    return {"kind": "failed", "status": status, "title": title, "detail": detail}


def _result(job: Job, context: JobContext) -> dict[str, Any]:
    """Run a job and return the last line of its result. Modules are imported on first use."""
    started = time.perf_counter()
    match job:
        case Simulate(study=plain):
            from entice.studio.jobs.simulate import simulate

            study = _study(plain)
            simulate(study, context)
            seconds = round(time.perf_counter() - started, 3)
            toml = study.to_toml()
            return {"kind": "done", "seconds": seconds, "seed": study.seed, "toml": toml}
        case Trace(study=plain):
            from entice.studio.jobs.trace_frames import trace_frames

            where = job.policy_index, job.drift_index, job.replication
            return trace_frames(_study(plain), *where)
        case MakePlan(plan=plain):
            from entice.studio.jobs.plan import make_plan

            return make_plan(Plan.from_plain(plain), context)
        case Reproduce():
            from entice.studio.jobs.paper_data import paper

            return paper(context)
        case Replay(db=db, campaign=campaign):
            from entice.studio.jobs.replay import replay

            return replay(db, campaign, context)
        case Evaluate(db=db, campaign=campaign, policy=policy):
            from entice.studio.jobs.evaluate import evaluate_campaign

            return evaluate_campaign(db, campaign, policy)


def _study(plain: dict[str, Any]) -> Study:
    """Decode a study. The parent has checked it."""
    return Study.from_json(msgspec.json.encode(plain))


def warm_up_steps() -> Iterator[Callable[[], object]]:
    """Yield the imports and compilations that most pages need, to run between jobs."""
    for module in ("entice.studio.jobs.simulate", "entice.studio.jobs.trace_frames"):
        yield partial(import_module, module)
    stop = np.zeros(1, dtype=np.int64)
    first: list[Policy] = [UCB(), EpsilonGreedy(c=5), ThompsonSampling(), Greedy()]
    equal_pay: list[Policy] = [EqualPay(horizon=100)]
    for policies, players in (
        (first, Players()),
        (equal_pay, Players()),
        (first, Players(delay=1)),
    ):
        study = Study(
            arms=Gaussian([0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1]),
            policies=policies,
            drifts=[LinearDrift(1.0)],
            horizon=100,
            replications=1,
            seed=1,
            players=players,
        )
        for traced in (False, True):
            for _, _, policy, drift in study.cells():
                yield partial(Cell, study, policy, drift, stop, traced)
    for policy in first + equal_pay:
        yield partial(PlanRunner, Plan(**_WARM_UP_PLAN, policies=[policy]))


_WARM_UP_PLAN: dict[str, Any] = {
    "arms": 2,
    "spread": Spread(centre=4.1, width=0.45),
    "visitors_a_day": 10,
    "days": 1,
    "price_of_a_star": 2.0,
    "share_who_rate": 0.5,
    "drift": 0.5,
    "seed": 1,
}


if __name__ == "__main__":
    main()
