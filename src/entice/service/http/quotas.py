"""Limits on work in progress, such as open streams: per key, per campaign and in total."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator

from entice.service.domain.errors import Refusal


class Quota:
    """The work in progress of one kind.

    One key, or all keys of one campaign, can not use up what is there for all.
    """

    def __init__(self, what: str, *, per_key: int, per_campaign: int, total: int) -> None:
        self.open = 0
        """Number in progress."""
        self._what = what
        self._per_key, self._per_campaign, self._total = per_key, per_campaign, total
        self._of: Counter[tuple[str, str]] = Counter()

    @contextlib.contextmanager
    def take(self, key: str, campaign: str) -> Iterator[None]:
        """Count one for a key and a campaign until the end; raise `Refusal` if there are too many.

        `key` and `campaign` are ids.
        """
        owners = (("key", key), ("campaign", campaign))
        for (owner, name), most in zip(owners, (self._per_key, self._per_campaign), strict=True):
            if self._of[owner, name] >= most:
                raise self._refusal(f" for this {owner}", most)
        if self.open >= self._total:
            raise self._refusal("", self._total)
        self.open += 1
        self._of.update(owners)
        try:
            yield
        finally:
            self.open -= 1
            self._of.subtract(owners)
            self._of = +self._of  # without those that have none

    def _refusal(self, whose: str, most: int) -> Refusal:
        detail = (
            f"{most} {self._what} are in progress{whose}, which is the maximum. Close one, or try "
            "again soon."
        )
        return Refusal(429, f"too-many-{self._what}", f"Too many {self._what}", detail)
