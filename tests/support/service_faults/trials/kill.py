"""Kill −9 under load: no acknowledged write is lost, and none is executed twice."""

from __future__ import annotations

import random
import time
from contextlib import closing
from pathlib import Path
from typing import Literal, NamedTuple

import entice
from entice.service.domain.spec import CampaignSpec
from entice.service.storage.sqlite import SqliteStore
from entice.service.storage.store import Store
from service_faults.clients import SEGMENTS, Check, check, running_clients
from service_faults.outcome import Outcome
from service_faults.processes import ACK_BEFORE_COMMIT, SERVE, Server, folder
from service_faults.writers import create, running_writer

CLIENTS = 8
Victim = Literal["all", "worker", "parent"]
SPEC = CampaignSpec(
    name="Kill",
    arms=[f"item-{i}" for i in range(5)],
    budget=2_000_000,
    price_of_a_star=200,
    offer_expires_after=86_400,
    holdout=0.2,
    overlap=0.1,
    segments=SEGMENTS,
    price=entice.LearnedPrice(explore=0.2),
    seed=3,
)


class Killed(NamedTuple):
    """The result of killing a server repeatedly."""

    kills: int
    lost_connections: int
    slowest_start: float
    check: Check


def create_campaign(store: Store) -> str:
    """Create the campaign that all clients share, before the server starts."""
    with running_writer(store) as writer:
        return create(writer, SPEC)


def victims(kills: int, rng: random.Random) -> list[Victim]:
    """Return which processes to kill first: each kind once, then at random, mostly all at once."""
    kinds: tuple[Victim, ...] = ("all", "worker", "parent")
    return [*kinds[:kills], *rng.choices(kinds, (6, 1, 1), k=max(0, kills - len(kinds)))]


def run_trial(where: Path, kills: int, seed: int, *, ack_before_commit: bool = False) -> Killed:
    """Kill a server under load at random times, and restart it each time."""
    rng = random.Random(seed)
    path = where / "entice.db"
    with closing(SqliteStore(path)) as store:
        campaign = create_campaign(store)
    server = Server(
        f"sqlite:///{path}", where, kind=ACK_BEFORE_COMMIT if ack_before_commit else SERVE
    )
    slowest = 0.0
    with server, running_clients(server.port, campaign, CLIENTS, "client") as clients:
        for victim in victims(kills, rng):
            # Often immediately, to cover opening, compiling and the first commits.
            time.sleep(rng.choice((0.0, rng.uniform(0, 0.2), rng.uniform(0, 1.5))))
            server.kill(victim)
            slowest = max(slowest, server.start())
        time.sleep(0.3)
    with closing(SqliteStore(path)) as store:
        found = check(store, campaign, clients)
    return Killed(kills, sum(client.lost for client in clients), slowest, found)


def run(long: bool) -> Outcome:
    """Kill 200 times, or 3 in the short version; the control acknowledges before it commits."""
    with folder() as where:
        killed = run_trial(where, 200 if long else 3, seed=1)
    # A single kill may find no write that was acknowledged but not committed; several do.
    for seed in range(2, 3 if long else 8):
        with folder() as where:
            control = run_trial(where, 20 if long else 1, seed=seed, ack_before_commit=True)
        if control.check.lost > 0:
            break
    found = killed.check
    return Outcome(
        "kill −9 under load",
        f"{killed.kills} kills, {CLIENTS} clients, {found.acknowledged_writes:,} acknowledged "
        f"writes, {killed.lost_connections:,} broken connections",
        f"{found.lost} acknowledged writes lost, {found.duplicated} executed twice, "
        f"{found.without_response} requests without a response, {len(found.problems)} invariants "
        f"violated; "
        f"ready again within {killed.slowest_start:.1f} s"
        + "".join(f"; {what}" for what in found.problems[:3]),
        f"acknowledge before commit: {control.check.lost:,} of "
        f"{control.check.acknowledged_writes:,} lost in {control.kills} kills",
        found.passed and control.check.lost > 0,
    )
