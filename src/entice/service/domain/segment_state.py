"""The segments of a campaign: their ratings as its row stores them, and the ledgers they fill."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from entice.api_types import SegmentArmView, SegmentView
from entice.model import segments
from entice.model.ledger import Ledger
from entice.model.segments import CampaignSegments, new_campaign_segments
from entice.service.domain.errors import invalid


class SegmentCounts(msgspec.Struct, array_like=True):
    """The ratings of each arm and segment, with a row for each arm.

    They are whole numbers, so that changed and reversed ratings leave no rounding error.
    """

    pulls: list[list[int]]
    """The number of ratings."""
    totals: list[list[int]]
    """The sum of the ratings."""
    squares: list[int]
    """For each arm, the sum of the squares of its ratings."""

    def add_arms(self, arms: int) -> None:
        """Append the rows of new arms."""
        segments = len(self.pulls[0])
        self.pulls += [[0] * segments for _ in range(arms)]
        self.totals += [[0] * segments for _ in range(arms)]
        self.squares += [0] * arms


def new_segment_counts(segments: int, arms: int) -> SegmentCounts | None:
    """Return the counts of a new campaign; None if it has no segments."""
    if segments == 0:
        return None
    cells = [[0] * segments for _ in range(arms)]
    return SegmentCounts(cells, [list(row) for row in cells], [0] * arms)


def segment_index(segments: Sequence[str], segment: str | None) -> int | None:
    """Return the number of a segment that a request names; None if the campaign has none.

    Reject a segment that is unknown, missing, or given to a campaign without segments.
    """
    if not segments:
        if segment is not None:
            raise invalid(
                f"segment can't be given: the campaign has no segments; got {segment!r}. "
                "Leave it out, or create a campaign that declares segments."
            )
        return None
    if segment is None or segment not in segments:
        given = "none was given" if segment is None else f"got {segment!r}"
        raise invalid(
            f"segment must be one of the campaign's segments, {', '.join(segments)}; {given}."
        )
    return list(segments).index(segment)


def cells_per_arm(segments: Sequence[str]) -> int:
    """Return the number of cells of each arm, by which pulls in flight are counted."""
    return max(1, len(segments))


class LiveSegments:
    """The ledgers of a campaign's segments, kept equal to their counts."""

    def __init__(self, counts: SegmentCounts | None, names: Sequence[str], arms: int) -> None:
        self.names = names
        self.arrays: CampaignSegments = new_campaign_segments(len(names), arms)
        self._counts = counts
        self.per_arm = cells_per_arm(names)

    def cell(self, arm: int, segment: int | None) -> int:
        """Return the cell of an arm and a segment."""
        return arm * self.per_arm + (segment or 0)

    def set_current(self, segment: int | None) -> None:
        """Choose the segment for which decisions are made."""
        self.arrays.current[0] = segments.NO_SEGMENT if segment is None else segment

    def count(self, arm: int, segment: int | None, rating: int, more: int) -> None:
        """Add a rating, or remove it with `more` = −1."""
        if self._counts is not None and segment is not None:
            self._counts.pulls[arm][segment] += more
            self._counts.totals[arm][segment] += more * rating
            self._counts.squares[arm] += more * rating * rating

    def update_arm(self, arm: int, pulls: int, total: int, scale: tuple[int, int]) -> None:
        """Recalculate an arm's ledgers from its counts, and from the ratings of all players.

        `scale` is (zero, steps): the policy sees a rating r as (r − zero) / steps.
        """
        if (counts := self._counts) is None:
            return
        ledgers = self.arrays.ledgers
        for segment, n in enumerate(counts.pulls[arm]):
            if n > 0 or ledgers.pulls[arm, segment] > 0:
                sum_, squares = counts.totals[arm][segment], counts.squares[arm]
                segments.set_cell_ratings(
                    ledgers, arm, segment, n, sum_, pulls, total, squares, *scale
                )

    def views(
        self, arms: Sequence[str], ledger: Ledger, scale: tuple[int, int]
    ) -> list[SegmentView]:
        """Return the averages of each segment, and those that its players see."""
        counts = self._counts
        if counts is None:
            return []
        zero, steps = scale
        # The uncompiled functions: views are too rare for their compilation to pay off.
        strength = segments.shrinkage.py_func(self.arrays.ledgers, ledger)  # type: ignore[attr-defined]
        shrunk = segments.shrunk_average.py_func  # type: ignore[attr-defined]
        found = []
        for s, name in enumerate(self.names):
            rows = []
            for i, arm in enumerate(arms):
                n, total = counts.pulls[i][s], counts.totals[i][s]
                own = float(self.arrays.ledgers.sums[i, s])
                shown = shrunk(float(n), own, float(ledger.means[i]), strength) * steps + zero
                rows.append(SegmentArmView(arm, n, total / n if n else None, float(shown)))
            found.append(SegmentView(name, sum(row.rated for row in rows), rows))
        return found
