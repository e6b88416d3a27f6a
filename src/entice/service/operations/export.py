"""Export of a campaign as a table, with a row for each offer and each organic rating.

An incremental export has only the rows that changed after an event, so that a copy elsewhere can be
updated at the cost of the change.

`entice.estimate` reads these columns. The rows are written page by page, so memory use does not
depend on the size of the campaign. They are written to a file and not streamed to the client: a
slow client would hold a read transaction open, which prevents SQLite from checkpointing.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, Literal, NamedTuple, cast, get_args

import polars as pl
from polars.io.plugins import register_io_source

from entice.errors import InputError
from entice.money import amount_of
from entice.service.domain import events as log
from entice.service.domain.campaign import Campaign
from entice.service.domain.offer import RATED, STATES, OfferRecord
from entice.service.storage.queries import load_campaign
from entice.service.storage.store import EVENTS, Columns, Session, Store
from entice.service.storage.unit_of_work import OFFER, offer_from_row

Format = Literal["parquet", "csv", "jsonl"]

MEDIA_TYPES: dict[Format, str] = {
    "parquet": "application/vnd.apache.parquet",
    "csv": "text/csv; charset=utf-8",
    "jsonl": "application/jsonl",
}
PAGE = 5000
_EVENT = Columns(EVENTS, ("seq", "body"))
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
    "last_event": pl.Int64,  # number of the event that changed the row last
    "group": pl.String,  # paid, holdout; null without a holdout
    "segment": pl.String,  # null without segments
    "decision": pl.Int64,  # number of the decision in the campaign
    # For offers with overlap, except in shadow mode: lists with an element for each arm.
    "arms": pl.List(pl.String),
    "shown": pl.List(pl.Float64),  # displayed ratings, in stars
    "propensities": pl.List(pl.Float64),  # 0: the arm could not be offered
    "amounts": pl.List(pl.Int64),  # what the arm's gap, or the learned price, costs
    "policy_averages": pl.List(pl.Float64),  # as the policy saw them, on its scale
    "policy_counts": pl.List(pl.Float64),  # with the ratings expected from offers in flight
    "price_propensity": pl.Float64,  # of a learned price, given the arm
}
_NO_OVERLAP = (None,) * 6


class Exported(NamedTuple):
    """What was exported."""

    rows: int
    last_event: int
    """The campaign's last event: the `after` of the next incremental export."""


def format_of(path: Path) -> Format:
    """Return the export format for a file's extension."""
    for file_format in get_args(Format):
        if path.name.lower().endswith(f".{file_format}"):
            return cast(Format, file_format)
    names = ", ".join(f".{name}" for name in get_args(Format))
    raise InputError("--out", f"must end with one of {names}", given=str(path))


def export_campaign(
    store: Store, campaign: str, file_format: Format, target: Path, after: int | None = None
) -> Exported:
    """Write a snapshot of a campaign to a file: all rows, or those changed after an event."""
    count = 0

    def counted(pages: Iterable[pl.DataFrame]) -> Iterator[pl.DataFrame]:
        nonlocal count
        for page in pages:
            count += page.height
            yield page

    with store.read() as session:
        loaded = load_campaign(session, campaign)
        found = _pages(session, loaded) if after is None else _changed(session, loaded, after)
        pages = counted(found)
        if file_format == "parquet":
            _write_parquet(pages, target)
        else:
            with target.open("wb") as file:
                _write_text(pages, file_format, file)
    return Exported(count, loaded.state.seq)


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
            lists = [name for name, kind in SCHEMA.items() if isinstance(kind, pl.List)]
            text = text.with_columns(pl.col(lists).cast(pl.List(pl.String)).list.join(";"))
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
        events = [log.decode(body) for _, body in rows]
        with_offers = (
            (event, (event, next(offers)) if isinstance(event, log.Offered) else None)
            for event in events
        )
        table = [row for pair in with_offers if (row := _row(campaign, *pair))]
        if table or (empty and len(rows) < PAGE):
            yield pl.DataFrame(table, schema=SCHEMA, orient="row")
            empty = False
        if len(rows) < PAGE:
            return
        after = rows[-1][0]


def _changed(session: Session, campaign: Campaign, after: int) -> Iterator[pl.DataFrame]:
    """Read the log after an event; yield each row at its last change, in the order of these.

    The offers are as of now, so an offer that changes several times has one row, and memory use
    does not depend on the number of changes.
    """
    empty = True
    while True:
        rows = session.rows(
            "SELECT seq, body FROM events WHERE campaign = ? AND seq > ? ORDER BY seq LIMIT ?",
            (campaign.number, after, PAGE),
        )
        events = [log.decode(body) for _, body in rows]
        changed = _offers_at_last_change(session, campaign, events)
        table = [row for event in events if (row := _row(campaign, event, changed.get(event.seq)))]
        if table or (empty and len(rows) < PAGE):
            yield pl.DataFrame(table, schema=SCHEMA, orient="row")
            empty = False
        if len(rows) < PAGE:
            return
        after = rows[-1][0]


def _offers_at_last_change(
    session: Session, campaign: Campaign, events: list[log.Event]
) -> dict[int, tuple[log.Offered, OfferRecord]]:
    """Return the offers that changed last in these events, by the number of that event."""
    numbers = list({event.n for event in events if hasattr(event, "n")})
    if not numbers:
        return {}
    where, params = "campaign = ?", (campaign.number,)
    found = session.rows_where_in(OFFER, where, params, "n", numbers)
    offers = [offer_from_row(campaign.number, row) for row in found]
    last = {offer.events[-1]: offer for offer in offers}
    last = {event.seq: last[event.seq] for event in events if event.seq in last}
    firsts = [offer.events[0] for offer in last.values()]
    if not firsts:
        return {}
    bodies: dict[int, bytes] = dict(session.rows_where_in(_EVENT, where, params, "seq", firsts))
    return {seq: (_offered(bodies[offer.events[0]]), offer) for seq, offer in last.items()}


def _offered(body: bytes) -> log.Offered:
    event = log.decode(body)
    assert isinstance(event, log.Offered)
    return event


def _offers(session: Session, campaign: Campaign) -> Iterator[OfferRecord]:
    after = 0
    while rows := session.rows(
        f"{OFFER.select} WHERE campaign = ? AND n > ? ORDER BY n LIMIT ?",
        (campaign.number, after, PAGE),
    ):
        yield from (offer_from_row(campaign.number, row) for row in rows)
        after = rows[-1][0]


def _row(
    campaign: Campaign, event: log.Event, offer: tuple[log.Offered, OfferRecord] | None
) -> tuple[Any, ...] | None:
    """Return the row of an offer, or of an organic rating."""
    if offer is not None:
        return _row_of_offer(campaign, *offer)
    if isinstance(event, log.OrganicRated):
        money = campaign.spec.money
        return (
            event.seq, event.at, "organic", None, None, None, None, event.arm, None, None, None,
            0.0, 0, 0, money.code, money.digits, None, None, event.rating, False, event.seq,
            None, event.segment, None, *_NO_OVERLAP, None,
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
        offered.amount > 0 and not offer.shadow, offer.events[-1], offered.group,
        offered.segment, offered.n,
        *(_NO_OVERLAP if offer.shadow else _overlap_columns(campaign, offered)),
        offered.price_propensity,
    )  # fmt: skip


def _overlap_columns(campaign: Campaign, offered: log.Offered) -> tuple[Any, ...]:
    """Return the lists that `entice.estimate.evaluate` reads. Arms are never removed."""
    if offered.propensities is None:
        return _NO_OVERLAP
    spec, shown = campaign.spec, offered.shown
    best = shown[campaign.arms[offered.greedy_arm]]
    highest = math.inf if offered.learned_price is None else offered.learned_price
    payments = [min(best - stars, highest) for stars in shown]
    return (
        campaign.state.arms[: len(shown)], shown, offered.propensities,
        [amount_of(payment, spec.price_of_a_star, spec.margin) for payment in payments],
        [campaign.to_policy_scale(stars) for stars in offered.averages or shown],
        offered.counts,
    )  # fmt: skip
