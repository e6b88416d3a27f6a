"""PostgreSQL restarted under load: requests get 503 in the meantime, and nothing is lost."""

from __future__ import annotations

import random
import time
from contextlib import closing
from typing import NamedTuple

from entice.service.storage.postgres import PostgresStore
from service_faults.clients import Check, LoadClient, check, running_clients
from service_faults.outcome import Outcome
from service_faults.processes import ACK_BEFORE_COMMIT, SERVE, Postgres, Server, folder, postgres
from service_faults.trials.kill import create_campaign

CLIENTS = 8
WORKERS = 2
AGAIN_WITHIN = 15.0
"""Seconds after PostgreSQL's start within which all clients must be served again."""


class Restarted(NamedTuple):
    """The result of restarting the database repeatedly."""

    restarts: int
    unavailable: int
    """Requests that got status 503."""
    slowest: float
    """Seconds until all clients were served again."""
    check: Check


def run_trial(
    server: Postgres, name: str, restarts: int, seed: int, *, ack_before_commit: bool = False
) -> Restarted:
    """Restart PostgreSQL while the service keeps running."""
    rng = random.Random(seed)
    url = server.new_database(name)
    slowest = 0.0
    with closing(PostgresStore(url)) as store:
        campaign = create_campaign(store)
    # The control holds a campaign's lock between requests, so two workers would deadlock.
    workers, kind = (1, ACK_BEFORE_COMMIT) if ack_before_commit else (WORKERS, SERVE)
    with (
        folder() as where,
        Server(url, where, workers, kind=kind) as service,
        running_clients(service.port, campaign, CLIENTS, "client") as clients,
    ):
        for i in range(restarts):
            time.sleep(rng.uniform(0.3, 1.5))
            server.stop("immediate" if i % 2 else "fast")
            time.sleep(rng.choice((0.0, 0.5)))
            server.start()
            slowest = max(slowest, served_again(clients))
        time.sleep(0.3)
    with closing(PostgresStore(url)) as store:
        found = check(store, campaign, clients)
    return Restarted(restarts, sum(client.unavailable for client in clients), slowest, found)


def served_again(clients: list[LoadClient]) -> float:
    """Wait until each client gets a response, and return the seconds that it took."""
    began = time.monotonic()
    before = [len(client.acknowledged) for client in clients]
    while any(len(client.acknowledged) <= had for client, had in zip(clients, before, strict=True)):
        if time.monotonic() - began > AGAIN_WITHIN:
            break
        time.sleep(0.01)
    return time.monotonic() - began


def run(long: bool) -> Outcome:
    """Restart 30 times, or twice in the short version; the control acknowledges before commit."""
    with postgres() as server:
        restarted = run_trial(server, "service", 30 if long else 2, seed=1)
        # Two restarts may find no write that was acknowledged but not committed; several do.
        for seed in range(2, 3 if long else 8):
            restarts = 6 if long else 2
            control = run_trial(
                server, f"control_{seed}", restarts, seed=seed, ack_before_commit=True
            )
            if control.check.lost > 0:
                break
    found = restarted.check
    return Outcome(
        "PostgreSQL stopped and started",
        f"{restarted.restarts} restarts (fast and immediate in turns), {WORKERS} server "
        f"processes, {CLIENTS} clients, {found.acknowledged_writes:,} acknowledged writes",
        f"{found.lost} acknowledged writes lost, {found.duplicated} executed twice, "
        f"{found.without_response} requests without a response, {len(found.problems)} invariants "
        f"violated; {restarted.unavailable:,} responses with status 503; all served "
        f"again within {restarted.slowest:.1f} s"
        + "".join(f"; {what}" for what in found.problems[:3]),
        f"acknowledge before commit: {control.check.lost:,} of "
        f"{control.check.acknowledged_writes:,} lost",
        found.passed
        and restarted.unavailable > 0
        and restarted.slowest < AGAIN_WITHIN
        and control.check.lost > 0,
    )
