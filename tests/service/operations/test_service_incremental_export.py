"""Incremental export: the rows that changed after an event."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pytest
from command_line import plain
from postgres import both_databases, postgres
from service_fixtures import Service as HttpService
from service_fixtures import service as http_service
from typer.testing import CliRunner
from writer_fixtures import Service

from entice.cli.app import app
from entice.service.domain.commands import (
    Accept,
    ChangeCampaign,
    Decline,
    Expire,
    Rate,
    Reverse,
)
from entice.service.domain.errors import Refusal
from entice.service.operations import export
from entice.service.operations.export import Exported, Format, export_campaign

__all__ = ["postgres"]


@pytest.fixture(autouse=True)
def _small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(export, "PAGE", 7)


def act(shop: Service, campaign: str, offers: list[str], rng: random.Random) -> None:
    """Change the campaign at random."""
    match rng.randrange(8):
        case 0 | 1:
            made = shop.offer(campaign, rng.randrange(10))["id"]
            offers.extend({made} - set(offers))
        case 2:
            shop.rate_organic(campaign, a=[rng.randint(1, 5)])
        case 3:
            shop.do(ChangeCampaign(campaign=campaign, budget=100_000 + rng.randrange(100)))
        case 4:
            shop.later(40_000)
            shop.answer(Expire(campaign))
        case _ if offers:
            offer = rng.choice(offers)
            command = rng.choice([Accept(offer), Decline(offer), Rate(offer, 4), Reverse(offer)])
            with contextlib.suppress(Refusal):
                shop.do(command)


def export_to(
    shop: Service, campaign: str, path: Path, after: int | None, file_format: Format = "parquet"
) -> tuple[pl.DataFrame, Exported]:
    done = export_campaign(shop.store, campaign, file_format, path, after)
    frame = pl.read_parquet(path)
    assert frame.height == done.rows
    return frame, done


@both_databases
def test_increments_add_up_to_the_full_export(url: str, tmp_path: Path) -> None:
    """The union with the last row of each `t`. Control: new rows alone miss the changed ones."""
    with contextlib.closing(Service(tmp_path, url)) as shop:
        rng, offers = random.Random(4), list[str]()
        campaign = shop.create(offer_expires_after=86_400)
        increments, after = [], 0
        for _ in range(12):
            for _ in range(rng.randrange(25)):
                act(shop, campaign, offers, rng)
            part, done = export_to(shop, campaign, tmp_path / "part.parquet", after)
            assert part["last_event"].is_sorted()
            assert part.filter(pl.col("last_event") <= after).is_empty()
            assert part["t"].is_unique().all()
            increments.append((after, part))
            after = done.last_event
        full, done = export_to(shop, campaign, tmp_path / "full.parquet", None)
        nothing, _ = export_to(shop, campaign, tmp_path / "part.parquet", after)
    assert nothing.is_empty()
    assert done.last_event == after
    union = pl.concat([part for _, part in increments]).unique(
        "t", keep="last", maintain_order=True
    )
    assert union.sort("t").equals(full)
    new_only = pl.concat([part.filter(pl.col("t") > start) for start, part in increments])
    assert not new_only.unique("t", keep="last").sort("t").equals(full)
    assert full["state"].n_unique() > 4


def test_all_rows_changed_after_0_are_the_full_export(tmp_path: Path) -> None:
    with contextlib.closing(Service(tmp_path / "entice.db")) as shop:
        rng, offers = random.Random(5), list[str]()
        campaign = shop.create()
        for _ in range(60):
            act(shop, campaign, offers, rng)
        full, _ = export_to(shop, campaign, tmp_path / "full.parquet", None)
        changed, done = export_to(shop, campaign, tmp_path / "changed.parquet", 0)
        assert changed.sort("t").equals(full)
        result = CliRunner().invoke(
            app,
            ["export", campaign, "--db", shop.store.url, "--after", "0", "--out",
             str(tmp_path / "rows.csv")],
        )  # fmt: skip
    assert result.exit_code == 0, result.output
    assert f"--after {done.last_event}" in plain(result.output)


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[HttpService]:
    with http_service(tmp_path) as running:
        yield running


def test_the_header_says_where_to_continue(shop: HttpService) -> None:
    campaign = shop.campaign()
    path = f"/v1/campaigns/{campaign}/export?format=jsonl"
    shop.offer(campaign, "ann")
    first = shop.client.get(f"{path}&after=0")
    assert (first.headers["entice-last-event"], len(first.text.splitlines())) == ("2", 1)
    shop.offer(campaign, "bob")
    second = shop.client.get(f"{path}&after=2")
    assert second.headers["entice-last-event"] == "3"
    [row] = second.text.splitlines()
    assert f'"{campaign}.2"' in row
    assert shop.client.get(f"{path}&after=3").text == ""
    assert len(shop.client.get(path).text.splitlines()) == 2
    assert shop.client.get(f"{path}&after=x").status_code == 422
