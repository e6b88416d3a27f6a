"""The script that created the database of schema 1 in this folder. Do not run it again.

Run with the code of schema 1, it wrote service_v1.db and service_v1.json, which describes its
contents. Later versions must open the database.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import msgspec

import entice
from entice.service.domain.clock import Clock
from entice.service.domain.commands import (
    Accept,
    AddArms,
    ChangeCampaign,
    CreateCampaign,
    Decline,
    EnterRatings,
    MakeOffer,
    Organic,
    Rate,
    RetireArm,
    Reverse,
)
from entice.service.domain.spec import CampaignSpec
from entice.service.storage.api_keys import Keys
from entice.service.storage.queries import Queries
from entice.service.storage.store import Store, open_store
from entice.service.storage.writer import Writer

HERE = Path(__file__).parent


def fill(store: Store) -> None:
    """Fill the database with rows of every kind."""
    writer = Writer(store, Clock())
    writer.start()

    def do(command: Any, key: str | None = None) -> Any:
        result = writer.submit(command, scope="asset", key=key, request=b"asset").result()
        return msgspec.json.decode(result.body)

    for number, policy in enumerate([entice.UCB(), entice.DriftCorrectedThompson()]):
        probe = entice.Probe(share=0.5, amount=0.5) if number % 2 == 0 else None
        spec = CampaignSpec(
            name=f"campaign {number}", arms=["a", "b", "c"], budget=3_000, price_of_a_star=100,
            margin=5, cap_per_player=300, pace_over=100, policy=policy, probe=probe, seed=number,
        )  # fmt: skip
        campaign = do(CreateCampaign(spec), key=f"create {number}")["id"]
        do(EnterRatings(campaign, [Organic("a", 5), Organic("b", 4)]))
        for n in range(1, 16):
            player = n.to_bytes(16, "big")
            eligible = ["a", "b"] if n % 7 == 0 else None
            displayed = {"a": 3.5} if n % 11 == 0 else None
            offer = do(MakeOffer(campaign, player, eligible, displayed), key=f"{number} {n}")["id"]
            if n % 5 == 4:
                do(Decline(offer))
            elif n % 5 < 3:
                do(Accept(offer, None))
                if n % 5 < 2:
                    do(Rate(offer, 1 + n % 5))
                if n % 10 == 1:
                    do(Rate(offer, 5))
                if n % 10 == 2:
                    do(Reverse(offer))
        do(AddArms(campaign, ["d"]))
        do(RetireArm(campaign, "b", True))
        do(ChangeCampaign(campaign=campaign, budget=4_000, status=("shadow", "closed")[number % 2]))
        if number % 2 == 0:
            do(MakeOffer(campaign, b"shadow player..."))
    writer.stop()
    Keys(store).create("admin", None, "asset")


def describe(store: Store) -> dict[str, Any]:
    """Describe the contents of the database independently of the schema."""
    queries = Queries(store)
    return {
        view.id: {
            "money": [view.budget, view.reserved, view.committed],
            "events": view.events,
            "averages": [arm.average for arm in queries.arms(view.id)],
            "offers": [
                [offer.state, offer.arm, offer.amount, offer.paid, offer.rating]
                for n in range(view.decisions)
                for offer in [queries.offer(f"{view.id}.{n + 1}").offer]
            ],
        }
        for view in queries.campaigns()
    }


def main() -> None:
    """Write the files."""
    path = HERE / "service_v1.db"
    path.unlink(missing_ok=True)
    store = open_store(f"sqlite:///{path}")
    fill(store)
    contents = describe(store)
    (HERE / "service_v1.json").write_bytes(msgspec.json.encode(contents) + b"\n")
    store.close()
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA journal_mode = DELETE")


def copy_rows(path: Path, store: Store) -> None:
    """Copy the rows of a SQLite file into another database, byte for byte."""
    with sqlite3.connect(path) as connection, store.write() as session:
        for table in ("campaigns", "events", "offers", "answers", "keys", "meta"):
            found = connection.execute(f"SELECT * FROM {table}")
            names = ", ".join(column[0] for column in found.description)
            marks = ", ".join("?" * len(found.description))
            override = " OVERRIDING SYSTEM VALUE" if table == "campaigns" else ""
            for row in found:
                session.run(f"INSERT INTO {table} ({names}){override} VALUES ({marks})", row)


if __name__ == "__main__":
    main()
