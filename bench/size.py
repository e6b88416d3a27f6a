"""How much disk a campaign takes: the sizes in docs/operations.md. Runs within `make load`."""

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

LIVES = 2000
BATCH = 100


def main() -> None:
    """Let offers live, with few arms and with many, and look at the file."""
    print(
        f"{'arms':>6} {'a life':>8} {'the state':>10} {'an answer':>10} {'of a batch':>11}   bytes"
    )
    for arms in (10, 1000):
        with tempfile.TemporaryDirectory() as folder:
            life, state, answer, batch = sizes(arms, Path(folder) / "entice.db")
        print(f"{arms:>6} {life:>8.0f} {state:>10} {answer:>10} {batch:>11.0f}")


def sizes(arms: int, path: Path) -> tuple[float, int, int, float]:
    """Bytes of an offer with its acceptance and rating, of the books, and of answers kept."""
    store = SqliteStore(path)
    writer = Writer(store, Clock())
    writer.start()
    names = [f"item{i}" for i in range(arms)]
    spec = CampaignSpec(name="size", arms=names, budget=10**9, price_of_a_star=200, seed=7)
    campaign = json.loads(writer.submit(CreateCampaign(spec)).result().body)["id"]
    for first in range(1, LIVES + 1, BATCH):
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
        (answer,) = file.execute(f"SELECT {length} FROM answers").fetchone()
    file.close()
    return path.stat().st_size / LIVES, state, answer, len(batch.body) / BATCH


if __name__ == "__main__":
    main()
