"""PostgreSQL that stays connected but is silent: 503 in time, recovery, and nothing is lost."""

from __future__ import annotations

import random
import time
from contextlib import closing
from typing import NamedTuple

from silent_proxy import SilentProxy

from entice.service.storage.postgres import PostgresStore
from service_faults.clients import Check, check, running_clients
from service_faults.outcome import Outcome
from service_faults.processes import (
    ACK_BEFORE_COMMIT,
    LOST,
    SERVE,
    Postgres,
    Server,
    call,
    folder,
    postgres,
)
from service_faults.trials.kill import create_campaign
from service_faults.trials.postgres_restart import AGAIN_WITHIN, CLIENTS, served_again

ANSWER_WITHIN = 5.0
"""Seconds within which each request must be answered during a silence."""


class Silenced(NamedTuple):
    """The result of silencing the database repeatedly."""

    silences: int
    unavailable: int
    """Requests that got status 503."""
    slowest: float
    """Seconds of the slowest request, `/readyz` included."""
    again: float
    """Seconds after a silence until all clients were served again."""
    check: Check


def run_trial(
    server: Postgres, name: str, silences: int, seed: int, *, ack_before_commit: bool = False
) -> Silenced:
    """Silence PostgreSQL, in both directions or only its answers, while the service runs."""
    rng = random.Random(seed)
    again = slowest = 0.0
    kind = ACK_BEFORE_COMMIT if ack_before_commit else SERVE
    with SilentProxy(server.new_database(name)) as proxy:
        with closing(PostgresStore(proxy.url)) as store:
            campaign = create_campaign(store)
        with (
            folder() as where,
            Server(proxy.url, where, kind=kind) as service,
            running_clients(service.port, campaign, CLIENTS, "client") as clients,
        ):
            for i in range(silences):
                time.sleep(rng.uniform(0.3, 1.5))
                proxy.silence("answers" if i % 2 else "both")
                end = time.monotonic() + rng.uniform(1.0, 8.0)
                while time.monotonic() < end:
                    slowest = max(slowest, _seconds_to_readyz(service.port))
                proxy.silence("none")
                again = max(again, served_again(clients))
            time.sleep(0.3)
        with closing(PostgresStore(proxy.url)) as store:
            found = check(store, campaign, clients)
    slowest = max(slowest, *(client.slowest for client in clients))
    unavailable = sum(client.unavailable for client in clients)
    return Silenced(silences, unavailable, slowest, again, found)


def _seconds_to_readyz(port: int) -> float:
    start = time.monotonic()
    try:
        call(port, "GET", "/readyz")
    except LOST:
        return float("inf")
    time.sleep(0.05)
    return time.monotonic() - start


def run(long: bool) -> Outcome:
    """Silence the database 30 times, or once in the short version."""
    with postgres() as server:
        silenced = run_trial(server, "service", 30 if long else 1, seed=1)
        control = run_trial(server, "control", 6 if long else 1, seed=2, ack_before_commit=True)
    found = silenced.check
    return Outcome(
        "PostgreSQL silent",
        f"{silenced.silences} silences of 1 to 8 s (both directions and answers only in turns), "
        f"{CLIENTS} clients, {found.acknowledged_writes:,} acknowledged writes",
        f"{found.lost} acknowledged writes lost, {found.duplicated} executed twice, "
        f"{found.without_response} requests without a response, {len(found.problems)} invariants "
        f"violated; {silenced.unavailable:,} responses with status 503; slowest response "
        f"{silenced.slowest:.1f} s; all served again within {silenced.again:.1f} s"
        + "".join(f"; {what}" for what in found.problems[:3]),
        f"acknowledge before commit: {control.check.lost:,} of "
        f"{control.check.acknowledged_writes:,} lost",
        found.passed
        and silenced.unavailable > 0
        and silenced.slowest < ANSWER_WITHIN
        and silenced.again < AGAIN_WITHIN
        and control.check.lost > 0,
    )
