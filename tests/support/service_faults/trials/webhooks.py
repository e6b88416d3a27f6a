"""Kill −9 of the process that delivers to a webhook: no event is lost, and their order is kept."""

from __future__ import annotations

import os
import random
import signal
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import webhook_receiver
from webhook_receiver import EVENTS_AT_ONCE, receiver

from entice.service.domain.commands import EnterRatings, Organic
from entice.service.storage.sqlite import SqliteStore
from entice.service.storage.webhooks import Webhooks
from service_faults.outcome import Outcome
from service_faults.processes import folder
from service_faults.trials.kill import SPEC
from service_faults.writers import create, execute, running_writer

REQUESTS_PER_KILL = 3
"""Requests that arrive for each kill, on average."""


class Delivered(NamedTuple):
    """The result of killing the process repeatedly."""

    kills: int
    events: int
    lost: int
    """Events that the receiver never confirmed."""
    repeated: int
    """Events that it confirmed more than once: those of requests whose sender was killed."""
    out_of_order: int
    """Events that arrived before an earlier one."""


def run_trial(where: Path, kills: int, seed: int, *, cursor_first: bool = False) -> Delivered:
    """Kill the process whenever chosen requests have arrived and are not answered yet.

    The receiver has recorded every other one of these requests, and knows nothing of the rest.
    """
    rng = random.Random(seed)
    with closing(SqliteStore(where / "entice.db")) as store, receiver() as hook:
        with running_writer(store) as writer:
            campaign = create(writer, SPEC)
            events = 1 + kills * REQUESTS_PER_KILL * EVENTS_AT_ONCE
            for first in range(1, events, 1000):
                organic = Organic(SPEC.arms[0], 3, SPEC.segments[0])
                execute(writer, EnterRatings(campaign, [organic] * min(1000, events - first)))
        Webhooks(store).create(campaign, hook.url, after=0)
        # A request that is not recorded comes again, so there are more than these.
        numbers = rng.sample(range(2, kills * REQUESTS_PER_KILL), kills)
        statuses = {number: (0, 200)[i % 2] for i, number in enumerate(sorted(numbers))}
        running = webhook_receiver.process(store.url, cursor_first=cursor_first)

        def respond(_: list[int]) -> int:
            nonlocal running
            status = statuses.pop(len(hook.attempts), None)
            if status is None:
                return 200
            os.kill(running.pid, signal.SIGKILL)
            running.wait(30)
            with store.write() as session:
                session.run("UPDATE webhook_lease SET holder = ''")  # instead of waiting for it
            running = webhook_receiver.process(store.url, cursor_first=cursor_first)
            return status

        hook.respond = respond
        try:
            hook.wait_for(lambda: events in hook.received(), seconds=600)
        finally:
            running.kill()
            running.wait(30)
        found = hook.received()
    highest = out_of_order = 0
    for seq in found:  # each event follows all earlier ones
        out_of_order += seq > highest + 1
        highest = max(highest, seq)
    different = len(set(found))
    return Delivered(
        kills - len(statuses), events, events - different, len(found) - different, out_of_order
    )


def run(long: bool) -> Outcome:
    """Kill 200 times, or 3 in the short version; the control stores the last event too early."""
    with folder() as where:
        found = run_trial(where, 200 if long else 3, seed=1)
    with folder() as where:
        control = run_trial(where, 20 if long else 2, seed=2, cursor_first=True)
    return Outcome(
        "kill −9 of webhook delivery",
        f"{found.kills} kills during a request, {found.events:,} events",
        f"{found.lost} lost, {found.out_of_order} out of order, {found.repeated:,} repeated",
        f"cursor stored before the request: {control.lost:,} of {control.events:,} lost in "
        f"{control.kills} kills",
        found.kills == (200 if long else 3)
        and found.lost == found.out_of_order == 0 < found.repeated
        and control.lost > 0,
    )
