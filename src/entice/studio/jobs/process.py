"""The simulation process: one job at a time, from a pipe; it is patient, and ends with its parent.

Apart from the service, so that no decision ever waits for a simulation. A line on standard input is
a job; what is found goes to standard output, one line each (see `jobs`).
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
from entice.planner.belief import Spread
from entice.planner.runs import PlanRunner
from entice.planner.spec import Plan
from entice.policies import UCB, EpsilonGreedy, Greedy, ThompsonSampling
from entice.studio.jobs.job import (
    CANCEL,
    LAST,
    NOTE,
    Job,
    MakePlan,
    Replay,
    Reproduce,
    Simulate,
    Task,
    Trace,
)
from entice.study.running.cell import Cell, Stopped
from entice.study.spec import Study
from entice.worlds.arms import Gaussian
from entice.worlds.drifts import LinearDrift
from entice.worlds.players import Players

PATIENT = 10
"""By how much the process is nicer than others: whoever decides goes first."""
IDLE = 0.5
"""Seconds without a job after which something more is made ready: a job would wait for that."""

read_job = msgspec.json.Decoder(Job).decode


def main() -> None:
    """Do what comes in, until nothing can come in any more."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which ends us
    os.nice(PATIENT)
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever prints must not print into the answers
    stop = np.zeros(1, dtype=np.int64)
    jobs: queue.SimpleQueue[Job] = queue.SimpleQueue()
    task, warming = Task(out, stop), threading.Event()
    listening = threading.Thread(target=_listen, args=(jobs, task, warming), daemon=True)
    listening.start()
    to_warm = list(usual())
    while True:
        try:
            job = jobs.get(timeout=IDLE if to_warm else None)
        except queue.Empty:
            warming.set()
            to_warm.pop(0)()
            warming.clear()
        else:
            carry_out(job, task)


def _listen(jobs: queue.SimpleQueue[Job], task: Task, warming: threading.Event) -> None:
    """Take jobs and cancellations in; end everything when the parent is gone."""
    for line in sys.stdin.buffer:
        if line == CANCEL:
            task.stop[0] = 1
        else:
            task.stop[0] = 0  # the parent sends a job only after the last one has ended
            if warming.is_set():
                task.tell("compiling")  # it has to wait for that
            jobs.put(read_job(line))
    os._exit(0)


def carry_out(job: Job, task: Task) -> None:
    """Do a job and tell its end, whatever that is."""
    try:
        last = work(job, task)
    except Stopped:
        last = {"kind": "cancelled"}
    except EnticeError as error:
        last = _failed(422, "It can't be run", str(error))
    except MemoryError:
        last = _failed(422, "Out of memory", "It needs more memory than there is. Ask for less.")
    except Exception as error:
        frames = traceback.extract_tb(error.__traceback__)
        lines = [f"{frame.filename}:{frame.lineno} {frame.name}" for frame in frames]
        task.write(NOTE, {"error": type(error).__qualname__, "lines": lines})
        detail = "Something unforeseen happened. Whoever runs the service finds it in its log."
        last = _failed(500, "Internal error", detail)
    task.write(LAST, last)


def _failed(status: int, title: str, detail: str) -> dict[str, Any]:
    return {"kind": "failed", "status": status, "title": title, "detail": detail}


def work(job: Job, task: Task) -> dict[str, Any]:
    """Do a job, and return the last line of its answer. What it needs is imported when it is."""
    began = time.perf_counter()
    match job:
        case Simulate(study=plain):
            from entice.studio.jobs.simulate import simulate

            study = study_of(plain)
            simulate(study, task)
            seconds = round(time.perf_counter() - began, 3)
            toml = study.to_toml()
            return {"kind": "done", "seconds": seconds, "seed": study.seed, "toml": toml}
        case Trace(study=plain):
            from entice.studio.jobs.trace_frames import race

            return race(study_of(plain), job.policy_index, job.drift_index, job.replication, task)
        case MakePlan(plan=plain):
            from entice.studio.jobs.plan import make_plan

            return make_plan(Plan.from_plain(plain), task)
        case Reproduce():
            from entice.studio.jobs.paper_data import paper

            return paper(task)
        case Replay(db=db, campaign=campaign):
            from entice.studio.jobs.replay import replay

            return replay(db, campaign, task)


def study_of(plain: dict[str, Any]) -> Study:
    """Read a study that was checked before it was sent here."""
    return Study.from_json(msgspec.json.encode(plain))


def usual() -> Iterator[Callable[[], object]]:
    """What nearly every page asks for, to be made ready between jobs."""
    for module in ("entice.studio.jobs.simulate", "entice.studio.jobs.trace_frames"):
        yield partial(import_module, module)
    stop = np.zeros(1, dtype=np.int64)
    for players in (Players(), Players(delay=1)):
        study = Study(
            arms=Gaussian([0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1]),
            policies=[UCB(), EpsilonGreedy(c=5), ThompsonSampling(), Greedy()],
            drifts=[LinearDrift(1.0)],
            horizon=100,
            replications=1,
            seed=1,
            players=players,
        )
        for traced in (False, True):
            for _, _, policy, drift in study.cells():
                yield partial(Cell, study, policy, drift, stop, traced)
    for policy in study.policies:
        yield partial(PlanRunner, Plan(**_A_PLAN, policies=[policy]))


_A_PLAN: dict[str, Any] = {
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
