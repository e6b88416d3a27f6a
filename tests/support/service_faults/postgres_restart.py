"""PostgreSQL stopped and started under load: told to come back meanwhile, and nothing is lost."""

from __future__ import annotations

import random
import time
from contextlib import closing
from typing import NamedTuple

from entice.service.storage.postgres import PostgresStore
from service_faults.clients import Check, Shop, check, shops_at_work
from service_faults.kill import begin
from service_faults.outcome import Outcome
from service_faults.processes import CARELESS, SERVE, Postgres, Server, folder, postgres

SHOPS = 8
WORKERS = 2
AGAIN_WITHIN = 15.0
"""Seconds after PostgreSQL's start within which all shops must be served again."""


class Restarted(NamedTuple):
    """What became of a service whose database went away again and again."""

    restarts: int
    later: int
    """Requests that were told to come back."""
    slowest: float
    """Seconds until all shops were served again."""
    check: Check


def torture(
    server: Postgres, name: str, restarts: int, seed: int, *, careless: bool = False
) -> Restarted:
    """Stop and start PostgreSQL under a service that is left alone."""
    rng = random.Random(seed)
    url = server.new_database(name)
    slowest = 0.0
    with closing(PostgresStore(url)) as store:
        campaign = begin(store)
    # A careless one holds a campaign's lock between requests: two would wait for each other.
    workers, kind = (1, CARELESS) if careless else (WORKERS, SERVE)
    with (
        folder() as where,
        Server(url, where, workers, kind=kind) as service,
        shops_at_work(service.port, campaign, SHOPS, "shop") as shops,
    ):
        for i in range(restarts):
            time.sleep(rng.uniform(0.3, 1.5))
            server.stop("immediate" if i % 2 else "fast")
            time.sleep(rng.choice((0.0, 0.5)))
            server.start()
            slowest = max(slowest, _served_again(shops))
        time.sleep(0.3)
    with closing(PostgresStore(url)) as store:
        found = check(store, campaign, shops)
    return Restarted(restarts, sum(shop.later for shop in shops), slowest, found)


def _served_again(shops: list[Shop]) -> float:
    """Wait until each shop has had an answer, and return how many seconds that took."""
    began = time.monotonic()
    before = [len(shop.told) for shop in shops]
    while any(len(shop.told) <= had for shop, had in zip(shops, before, strict=True)):
        if time.monotonic() - began > AGAIN_WITHIN:
            break
        time.sleep(0.01)
    return time.monotonic() - began


def run(long: bool) -> Outcome:
    """Restart 30 times, or twice in short; the control answers before it commits."""
    with postgres() as server:
        restarted = torture(server, "careful", 30 if long else 2, seed=1)
        control = torture(server, "careless", 6 if long else 2, seed=2, careless=True)
    found = restarted.check
    return Outcome(
        "PostgreSQL stopped and started",
        f"{restarted.restarts} restarts (fast and immediate in turns), {WORKERS} server "
        f"processes, {SHOPS} clients, {found.answered:,} writes answered",
        f"{found.lost} answered writes lost, {found.twice} done twice, {found.unanswered} requests "
        f"without an answer, {len(found.broken)} invariants broken; {restarted.later:,} times 503; "
        f"all served again within {restarted.slowest:.1f} s"
        + "".join(f"; {what}" for what in found.broken[:3]),
        f"answers before the commit: {control.check.lost:,} of {control.check.answered:,} lost",
        found.passed
        and restarted.later > 0
        and restarted.slowest < AGAIN_WITHIN
        and control.check.lost > 0,
    )
