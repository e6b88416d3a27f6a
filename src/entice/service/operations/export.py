"""Export of a campaign as a table, with a row for each offer and each organic rating.

`entice.estimate` reads these columns. The rows are written page by page, so memory use does not
depend on the size of the campaign. They are written to a file and not streamed to the client: a
slow client would hold a read transaction open, which prevents SQLite from checkpointing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, Literal, cast, get_args

import polars as pl
from polars.io.plugins import register_io_source

from entice.errors import InputError
from entice.service.domain import events as log
from entice.service.domain.campaign import Campaign
from entice.service.domain.offer import RATED, STATES, OfferRecord
from entice.service.storage.queries import load_campaign
from entice.service.storage.store import Session, Store
from entice.service.storage.unit_of_work import OFFER, offer_from_row

Format = Literal["parquet", "csv", "jsonl"]

MEDIA_TYPES: dict[Format, str] = {
    "parquet": "application/vnd.apache.parquet",
    "csv": "text/csv; charset=utf-8",
    "jsonl": "application/jsonl",
}
PAGE = 5000
_TIME = "%Y-%m-%dT%H:%M:%S%.6fZ"

SCHEMA: dict[str, Any] = {
    "t": pl.Int64,  # number of the event
    "at": pl.Datetime("us", "UTC"),
    "kind": pl.String,  # offer, organic
    "offer": pl.String,
    "player": pl.String,  # a keyed hash
    "version": pl.Int64,  # of the settings
    "state": pl.String,
    "arm": pl.String,
    "greedy_arm": pl.String,
    "reason": pl.String,
    "propensity": pl.Float64,
    "payment": pl.Float64,  # in stars: as paid, or as offered if nothing is paid yet
    "amount": pl.Int64,  # in minor units, as is `paid`
    "paid": pl.Int64,
    "currency": pl.String,
    "currency_digits": pl.Int64,
    "probe": pl.Int64,  # 1: the coin added probe_amount; 0: it did not; null: no coin
    "probe_amount": pl.Float64,
    "feedback": pl.Int64,  # the rating that counts, or null
    "incentivised": pl.Boolean,  # whether a payment was offered
}


def format_of(path: Path) -> Format:
    """Return the export format for a file's extension."""
    for file_format in get_args(Format):
        if path.name.lower().endswith(f".{file_format}"):
            return cast(Format, file_format)
    names = ", ".join(f".{name}" for name in get_args(Format))
    raise InputError("--out", f"must end with one of {names}", given=str(path))


def export_campaign(store: Store, campaign: str, file_format: Format, target: Path) -> int:
    """Write a snapshot of a campaign to a file, and return the number of rows."""
    count = 0

    def counted(pages: Iterable[pl.DataFrame]) -> Iterator[pl.DataFrame]:
        nonlocal count
        for page in pages:
            count += page.height
            yield page

    with store.read() as session:
        pages = counted(_pages(session, load_campaign(session, campaign)))
        if file_format == "parquet":
            _write_parquet(pages, target)
        else:
            with target.open("wb") as file:
                _write_text(pages, file_format, file)
    return count


def _write_parquet(pages: Iterator[pl.DataFrame], target: Path) -> None:
    def source(
        columns: list[str] | None, predicate: Any, rows: int | None, batch: int | None
    ) -> Iterator[pl.DataFrame]:
        yield from pages

    register_io_source(source, schema=SCHEMA).sink_parquet(target, row_group_size=20 * PAGE)


def _write_text(pages: Iterator[pl.DataFrame], file_format: Format, file: BinaryIO) -> None:
    first = True
    for page in pages:
        text = page.with_columns(pl.col("at").dt.strftime(_TIME))
        if file_format == "csv":
            text.with_columns(_escape_formulas(pl.col(pl.String))).write_csv(
                file, include_header=first
            )
        else:
            text.write_ndjson(file)
        first = False


def _escape_formulas(cells: pl.Expr) -> pl.Expr:
    """Prefix cells that a spreadsheet would interpret as a formula with an apostrophe."""
    suspicious = cells.str.contains(r"^[=+\-@\t\r]")
    return pl.when(suspicious).then(pl.lit("'") + cells).otherwise(cells).name.keep()


def _pages(session: Session, campaign: Campaign) -> Iterator[pl.DataFrame]:
    """Read the log and the offers side by side; yield at least one page, even if it is empty."""
    after, empty = 0, True
    offers = _offers(session, campaign)
    while True:
        rows = session.rows(
            "SELECT seq, body FROM events WHERE campaign = ? AND seq > ? ORDER BY seq LIMIT ?",
            (campaign.number, after, PAGE),
        )
        table = [row for _, body in rows if (row := _row(campaign, log.decode(body), offers))]
        if table or (empty and len(rows) < PAGE):
            yield pl.DataFrame(table, schema=SCHEMA, orient="row")
            empty = False
        if len(rows) < PAGE:
            return
        after = rows[-1][0]


def _offers(session: Session, campaign: Campaign) -> Iterator[OfferRecord]:
    after = 0
    while rows := session.rows(
        f"{OFFER.select} WHERE campaign = ? AND n > ? ORDER BY n LIMIT ?",
        (campaign.number, after, PAGE),
    ):
        yield from (offer_from_row(campaign.number, row) for row in rows)
        after = rows[-1][0]


def _row(
    campaign: Campaign, event: log.Event, offers: Iterator[OfferRecord]
) -> tuple[Any, ...] | None:
    money = campaign.spec.money
    match event:
        case log.Offered():
            return _row_of_offer(campaign, event, next(offers))
        case log.OrganicRated(seq=seq, at=at, arm=arm, rating=rating):
            return (
                seq, at, "organic", None, None, None, None, arm, None, None, None,
                0.0, 0, 0, money.code, money.digits, None, None, rating, False,
            )  # fmt: skip
    return None


def _row_of_offer(campaign: Campaign, offered: log.Offered, offer: OfferRecord) -> tuple[Any, ...]:
    payment, money = campaign.stars_paid(offer), campaign.spec.money
    # The coin flip is not a valid experiment if less than the offered amount was paid, or nothing
    # because of shadow mode.
    valid_probe = payment == offered.payment and not offer.shadow
    coin = log.COINS[offered.probe if valid_probe else None]
    return (
        offered.seq, offered.at, "offer", f"{offered.campaign}.{offered.n}", offered.player,
        offered.version, STATES[offer.state], offered.arm, offered.greedy_arm, offered.reason,
        offered.propensity, payment, offered.amount, offer.paid, money.code, money.digits, coin,
        offered.probe_amount,
        offer.rating if offer.state == RATED else None,
        offered.amount > 0 and not offer.shadow,
    )  # fmt: skip
