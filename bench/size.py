"""Disk usage of a campaign: the sizes in docs/reference/limits.md. Part of `make load`."""

from __future__ import annotations

import json
import os
import sqlite3
import tempfile
from pathlib import Path

from entice.service.domain.clock import Clock
from entice.service.domain.commands import Accept, CreateCampaign, MakeOffer, MakeOffers, Rate
from entice.service.domain.spec import CampaignSpec
from entice.service.storage.sqlite import SqliteStore
from entice.service.storage.writer import Writer

OFFERS = 2000
BATCH = 100


def main() -> None:
    """Make, accept and rate offers, with few arms and with many, and measure the file."""
    print(
        f"{'arms':>6} {'an offer':>8} {'the state':>10} {'a response':>10} {'in a batch':>11}"
        "   bytes"
    )
    for arms in (10, 1000):
        with tempfile.TemporaryDirectory() as folder:
            offer, state, response, batch = sizes(arms, Path(folder) / "entice.db")
        print(f"{arms:>6} {offer:>8.0f} {state:>10} {response:>10} {batch:>11.0f}")


def sizes(arms: int, path: Path) -> tuple[float, int, int, float]:
    """Return the bytes of a rated offer, of the state, and of saved responses."""
    store = SqliteStore(path)
    writer = Writer(store, Clock())
    writer.start()
    names = [f"item{i}" for i in range(arms)]
    spec = CampaignSpec(name="size", arms=names, budget=10**9, price_of_a_star=200, seed=7)
    campaign = json.loads(writer.submit(CreateCampaign(spec)).result().body)["id"]
    for first in range(1, OFFERS + 1, BATCH):
        offers = [MakeOffer(campaign, os.urandom(16)) for _ in range(BATCH)]
        batch = writer.submit(MakeOffers(campaign, offers)).result()
        for n in range(first, first + BATCH):
            writer.submit(Accept(f"{campaign}.{n}"))
            writer.submit(Rate(f"{campaign}.{n}", 1 + n % 5))
    writer.submit(Rate(f"{campaign}.1", 5), scope="shop", key="k" * 32, request=bytes(16)).result()
    writer.stop()
    store.close()
    with sqlite3.connect(path) as file:
        (state,) = file.execute("SELECT length(state) FROM campaigns").fetchone()
        columns = ("scope", "key", "request", "body", "digest")
        length = " + ".join(f"length({column})" for column in columns)
        (response,) = file.execute(f"SELECT {length} FROM answers").fetchone()
    file.close()
    return path.stat().st_size / OFFERS, state, response, len(batch.body) / BATCH


if __name__ == "__main__":
    main()
