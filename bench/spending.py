"""The cost of a campaign's spending curve after a million offers: `python bench/spending.py`.

Writes an event log as the service would (offers, sales, ratings, some reversals), then requests the
curve as the studio does: repeatedly until the whole history is read, then once more.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from typing import Any

from rich.console import Console

from entice.service.domain import events as log
from entice.service.domain.campaign import Campaign
from entice.service.domain.spec import CampaignSpec
from entice.service.storage.spending import SpendingCache
from entice.service.storage.store import EVENTS, Store, open_store

SECOND = 1_000_000
SPEC = CampaignSpec(
    name="bench", arms=[f"arm {i}".replace(" ", "-") for i in range(8)], budget=10**12,
    price_of_a_star=200, seed=7,
)  # fmt: skip


def history(campaign: Campaign, offers: int) -> Iterator[log.Event]:
    """Yield a log in which 6 of 10 offers are accepted, 4 of 10 rated, and some sales reversed."""
    state, name = campaign.state, campaign.state.campaign
    yield log.Created(name, 1, 0, SPEC.to_plain(), "bench")
    seq = 1
    for n in range(1, offers + 1):
        at, amount = n * 3 * SECOND, (n * 7919) % 400
        seq += 1
        yield log.Offered(
            name, seq, at, n, 1, f"{n:032x}", "arm-1", "arm-2", amount / 200, amount, "explore",
            0.125, (4.1, 4.2, 3.9, 4.0, 4.4, 3.1, 3.3, 4.6), at + 900 * SECOND, 400,
        )  # fmt: skip
        state.decisions = n
        seq += 1
        if n % 10 < 6:
            yield log.Accepted(name, seq, at + 1, n, amount, at + 10**12)
            state.committed += amount
        else:
            yield log.Declined(name, seq, at + 1, n)
        if n % 10 < 4:
            seq += 1
            yield log.Rated(name, seq, at + 2, n, "arm-1", 4, amount / 200)
        if n % 50 == 1:
            seq += 1
            yield log.Reversed(name, seq, at + 3, n, amount)
            state.committed -= amount
    state.seq = seq


def write(store: Store, campaign: Campaign, offers: int) -> int:
    """Fill a database, and return the number of the campaign."""
    head, rows = log.GENESIS, []
    with store.write() as session:
        [[number]] = session.rows(
            "INSERT INTO campaigns (id, seq, head, budget, reserved, committed, state, digest) "
            "VALUES (?, 0, ?, 0, 0, 0, ?, ?) RETURNING number",
            (campaign.state.campaign, b"", b"", b""),
        )
        for event in history(campaign, offers):
            body = log.encode(event)
            head = log.chain_hash(head, body)
            rows.append((number, event.seq, body, head))
            if len(rows) == 20_000:
                session.insert(EVENTS, rows)
                rows = []
        session.insert(EVENTS, rows)
    return int(number)


def measure(store: Store, offers: int, console: Console) -> None:
    """Request the curve until the whole history is read, then by date and by offer."""
    campaign = Campaign.create("c_bench", SPEC, 0)
    number = write(store, campaign, offers)
    spendings, times, cpu = SpendingCache(), [], time.process_time()
    state = campaign.state

    def request(by: Any) -> int:
        start = time.perf_counter()
        with store.read() as session:
            view = spendings.view(session, number, state, by, 200)
        times.append(time.perf_counter() - start)
        return view.through

    while request("date") < state.seq:
        pass
    cpu = time.process_time() - cpu
    worst = max(times)
    console.print(
        f"{offers:,} offers, {state.seq:,} events: read in {len(times)} requests, "
        f"{sum(times):.1f} s in all ({cpu / state.seq * 1e6:.2f} µs of CPU an event), "
        f"the longest {1000 * worst:.0f} ms"
    )
    for by in ("date", "offer"):
        times.clear()
        for _ in range(20):
            request(by)
        console.print(f"  then, by {by}: {1000 * sorted(times)[10]:.2f} ms")


def main() -> None:
    """Measure on SQLite in a temporary folder, or on another database."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--offers", type=int, default=1_000_000, help="number of offers")
    parser.add_argument("--database", help="URL of an empty database, such as postgresql://…")
    options = parser.parse_args()
    console = Console(highlight=False, soft_wrap=True)
    with tempfile.TemporaryDirectory() as folder:
        url = options.database or f"sqlite:///{folder}/entice.db"
        with closing(open_store(url)) as store:
            measure(store, options.offers, console)


if __name__ == "__main__":
    main()
