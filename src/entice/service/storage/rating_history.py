"""The ratings in an event log that count in the averages."""

from __future__ import annotations

from entice.service.domain import events as log
from entice.service.domain.events import Event
from entice.service.domain.offer import CountedRating


class RatingHistory:
    """The ratings in a log that count, up to event `seq`."""

    def __init__(self) -> None:
        self.seq = 0
        self.counting: dict[int, CountedRating] = {}
        """In the order in which they arrived. By seq if organic, by −n if of an offer."""

    def add(self, event: Event) -> None:
        """Add the next event: a changed rating counts once, a reversed one not at all."""
        self.seq, counting = event.seq, self.counting
        match event:
            case log.Rated(in_averages=False) | log.Revised(in_averages=False):
                pass
            case log.Rated(n=n, arm=arm, rating=rating, payment=payment):
                counting[-n] = CountedRating(arm, payment, rating)
            case log.Revised(n=n, rating=rating):
                counting[-n] = counting[-n]._replace(rating=rating)
            case log.Reversed(n=n):
                counting.pop(-n, None)
            case log.OrganicRated(seq=seq, arm=arm, rating=rating):
                counting[seq] = CountedRating(arm, 0.0, rating)
            case _:
                pass
