"""A campaign's log as arrays, one row for each decision that off-policy estimates can use."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from entice.errors import InputError
from entice.estimate.ratings import Rounds, scan_rounds

Floats = npt.NDArray[np.float64]
Counts = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

NEEDED = (
    "t", "decision", "kind", "state", "reason", "arm", "greedy_arm", "payment", "amount", "paid",
    "feedback", "currency", "currency_digits", "arms", "shown", "propensities", "amounts",
    "policy_averages", "policy_counts",
)  # fmt: skip
_LISTS: dict[str, Any] = {
    "arms": pl.String, "shown": pl.Float64, "propensities": pl.Float64, "amounts": pl.Int64,
    "policy_averages": pl.Float64, "policy_counts": pl.Float64,
}  # fmt: skip
MAX_PROBABILITIES = 20_000_000
"""The most propensities of a log. The estimates take about 200 bytes of memory for each: 4 GB."""
UNANSWERED = ("offered", "voided")
"""The states of offers that were not answered, and never will be or not yet."""
REVERSED = "reversed"
"""The state of a sale that was reversed: its payment was released, and its rating removed."""


class Decisions(NamedTuple):
    """The decisions of a log in order of time. Matrices have a column for each arm."""

    rows: pl.DataFrame
    arms: tuple[str, ...]
    arms_so_far: Counts
    """The number of arms that the campaign had. Arms are added at the end."""
    number: Counts
    """The number of each decision in its campaign, from 1."""
    arm: Counts
    """The arm offered."""
    own: Counts
    """The player's own choice; of arms that tie for the best, the first, as in `own_choice`. The
    log's `greedy_arm` is not used: it is the arm offered if that ties for the best, and a policy's
    choice must not depend on the draw that it is weighted by."""
    propensities: Floats
    """The probability of each arm; 0 if it could not be offered."""
    amounts: Floats
    """The cost of each arm's gap, in units of the currency."""
    averages: Floats
    """The averages and the counts that the policy saw, on its scale."""
    counts: Floats
    rated: Bools
    rating: Floats
    """0 if there is none."""
    stars: Floats
    """The payment in stars."""
    paid: Floats
    """The payment for another arm than the player's own choice, in units of the currency. What a
    probe adds to the player's own choice is left out: it is not the policy's payment. A reversed
    sale has the payment 0: the payment was released."""
    currency: str
    left_out: dict[str, int]
    """The number of decisions that cannot be used, by reason."""

    @property
    def permitted(self) -> Bools:
        """Which arms could be offered."""
        return self.propensities > 0

    def __len__(self) -> int:
        return len(self.arm)


def read_decisions(log: Rounds) -> Decisions:
    """Read the export of one campaign; raise `InputError` if none of its decisions can be used."""
    frame, left_out = _usable(_load(log))
    arms = _arms_of(frame)
    index = {arm: i for i, arm in enumerate(arms)}
    propensities = _matrix(frame["propensities"], len(arms))
    shown = _matrix(frame["shown"], len(arms))
    scale = 10.0 ** -int(frame["currency_digits"][0])
    arm = np.array([index[name] for name in frame["arm"]])
    other = frame["arm"].to_numpy() != frame["greedy_arm"].to_numpy()
    kept = (frame["state"] != REVERSED).to_numpy()
    paid = frame["paid"].fill_null(0).to_numpy() * scale
    decisions = Decisions(
        rows=frame,
        arms=arms,
        arms_so_far=frame["arms"].list.len().to_numpy().astype(np.int64),
        number=frame["decision"].to_numpy(),
        arm=arm,
        own=np.argmax(np.where(propensities > 0, shown, -np.inf), axis=1),
        propensities=propensities,
        amounts=_matrix(frame["amounts"], len(arms)) * scale,
        averages=_matrix(frame["policy_averages"], len(arms)),
        counts=_matrix(frame["policy_counts"], len(arms)),
        rated=frame["feedback"].is_not_null().to_numpy(),
        rating=frame["feedback"].cast(pl.Float64).fill_null(0.0).to_numpy(),
        stars=frame["payment"].to_numpy(),
        paid=np.where(other & kept, paid, 0.0),
        currency=str(frame["currency"][0]),
        left_out=left_out,
    )
    if not (decisions.propensities[np.arange(len(arm)), arm] > 0).all():
        raise InputError("log: propensities", "must be greater than 0 for the arm offered")
    return decisions


def _load(log: Rounds) -> pl.DataFrame:
    """Return the rows of all offers."""
    lazy = scan_rounds("log", log)
    try:
        columns = lazy.collect_schema().names()
        missing = [name for name in NEEDED if name not in columns]
        if missing:
            raise InputError(
                "log",
                f"must be a campaign as `entice export` writes it; {', '.join(missing)} is missing",
                given=columns,
                todo="Export the campaign again, with this version of Entice.",
            )
        # JSON has no types: a column without a value could be of any.
        schema = lazy.collect_schema()
        untyped = [name for name in _LISTS if schema[name] == pl.Null]
        lazy = lazy.with_columns(pl.col(name).cast(pl.List(_LISTS[name])) for name in untyped)
        offers = lazy.filter(pl.col("kind") == "offer")
        _check_size(offers)
        frame = offers.sort("t").collect()
    except (pl.exceptions.PolarsError, OSError) as error:
        raise InputError("log", f"cannot be read ({error})", given=log) from error
    return frame.with_columns(
        *(_as_list(frame, name, inner) for name, inner in _LISTS.items()),
        # A CSV file has an apostrophe before a cell that looks like a formula. Ids never have one.
        pl.col("arm", "greedy_arm").str.strip_prefix("'"),
        pl.col("payment").cast(pl.Float64),
    )


def _check_size(offers: pl.LazyFrame) -> None:
    """Reject a log whose matrices are too large, before they are read."""
    arms = pl.col("arms")
    is_text = offers.collect_schema()["arms"] == pl.String
    length = arms.str.count_matches(";", literal=True) + 1 if is_text else arms.list.len()
    with_overlap = arms.is_not_null()
    size = offers.select(length.cast(pl.Int64).sum(), with_overlap.sum().alias("rows")).collect()
    probabilities, rows = size.row(0)
    if probabilities > MAX_PROBABILITIES:
        raise InputError(
            "log",
            f"must have at most {MAX_PROBABILITIES:,} propensities: decisions times arms",
            given=f"{probabilities:,} in {rows:,} decisions",
            todo="Evaluate a part of the log: read the file with polars, filter its rows by "
            "`decision`, and pass the frame to entice.estimate.evaluate.",
        )


def _as_list(frame: pl.DataFrame, name: str, inner: Any) -> pl.Series:
    """Return a column of lists; a CSV file has their elements separated by semicolons."""
    column = frame[name]
    if column.dtype == pl.String:
        column = column.str.strip_prefix("'").str.split(";")
    return column.cast(pl.List(inner))


def _usable(frame: pl.DataFrame) -> tuple[pl.DataFrame, dict[str, int]]:
    """Leave out decisions that were not made by the mixture, or have no outcome."""
    left_out = {}
    for why, bad in (
        ("of players in the holdout", pl.col("reason") == "holdout"),
        ("while the campaign was paused", pl.col("reason") == "paused"),
        ("without overlap, or in shadow mode", pl.col("propensities").is_null()),
        ("not answered", pl.col("state").is_in(UNANSWERED)),
    ):
        kept = frame.filter(~bad)
        left_out[why] = frame.height - kept.height
        frame = kept
    left_out = {why: count for why, count in left_out.items() if count}
    if frame.height == 0:
        raise InputError(
            "log",
            "must have decisions in which every arm had a chance of being offered",
            given=", ".join(f"{n:,} {why}" for why, n in left_out.items()) or "no decision",
            todo="Set overlap = 0.02 in the campaign: it can be changed while the campaign runs. "
            "Then evaluate the decisions made since.",
        )
    return frame, left_out


def _arms_of(frame: pl.DataFrame) -> tuple[str, ...]:
    """Return all arms. Arms are added at the end of the list, and never removed."""
    lists = [tuple(arms) for arms in frame["arms"].unique().to_list()]
    longest = max(lists, key=len)
    if any(arms != longest[: len(arms)] for arms in lists):
        raise InputError("log", "must be the log of one campaign", given="different lists of arms")
    return longest


def _matrix(column: pl.Series, arms: int) -> Floats:
    """Return a column of lists as a matrix; arms that were added later have 0."""
    lengths = column.list.len().to_numpy().astype(np.int64)
    rows = np.repeat(np.arange(len(lengths)), lengths)
    first = np.repeat(np.cumsum(lengths) - lengths, lengths)
    matrix = np.zeros((len(lengths), arms))
    matrix[rows, np.arange(len(rows)) - first] = column.explode().cast(pl.Float64).to_numpy()
    return matrix
