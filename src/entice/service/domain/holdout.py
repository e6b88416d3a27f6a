"""The holdout: a share of players who are never paid, so that the effect of a campaign is known."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import blake2b
from typing import Literal

import msgspec

Group = Literal["paid", "holdout"]
PAID, HOLDOUT = "paid", "holdout"
"""The groups of a campaign with a holdout: players who may be paid, and players who are not."""


class GroupCounts(msgspec.Struct, array_like=True):
    """The totals of one group, as the campaign's row stores them.

    They are whole numbers, so that changed and reversed ratings leave no rounding error.
    """

    visitors: int = 0
    """The number of offers made while the campaign was live."""
    rated: int = 0
    """The number of those offers that are rated."""
    rating_sum: int = 0
    rating_squares: int = 0
    """The sum of the squares of their ratings."""
    paid: int = 0
    """The total paid for them, in minor units."""
    players: int = 0
    """The number of those offers that were a player's first in the campaign.

    Players are split into groups, not offers, so only their numbers can show that a split is
    broken.
    """
    declined: int | None = None
    """The number of those offers that were declined. Their players took their own choice, whose
    rating belongs to no group. None in a campaign stored by a version that did not count them."""

    def add_rating(self, rating: int) -> None:
        """Add a rating."""
        self.rated += 1
        self.rating_sum += rating
        self.rating_squares += rating * rating

    def remove_rating(self, rating: int) -> None:
        """Remove a rating that was reversed, or that another one replaces."""
        self.rated -= 1
        self.rating_sum -= rating
        self.rating_squares -= rating * rating


def new_groups(holdout: float) -> dict[str, GroupCounts]:
    """Return the totals of a new campaign, by group; empty if it has no holdout."""
    if holdout == 0:
        return {}
    return {PAID: GroupCounts(declined=0), HOLDOUT: GroupCounts(declined=0)}


def assign_groups(seed: int, holdout: float) -> Callable[[bytes], Group | None]:
    """Return the function that assigns players to groups, by the hash that the log stores.

    A player's group follows from that hash and the campaign's seed alone. So a player stays in one
    group for the whole campaign, `entice verify` can repeat the assignment without the secret or
    the ids, and the same player is assigned independently in another campaign, because the hash
    depends on the campaign and on a random salt. It is hashed once more with the seed as the key,
    so that nothing else that depends on the hash can be correlated with the group.

    Erasing a player deletes the salt. If the player returns, the new hash is that of another
    player, who may be in the other group: to remember the group would be to remember the player.

    >>> from entice.service.domain.holdout import assign_groups
    >>> group_of = assign_groups(seed=7, holdout=0.5)
    >>> [group_of(bytes([player]) * 16) for player in range(4)]
    ['paid', 'paid', 'paid', 'holdout']
    """
    if holdout == 0:
        return lambda player: None
    keyed = blake2b(digest_size=8, key=seed.to_bytes(8), person=b"entice holdout")

    def group_of(player: bytes) -> Group:
        hasher = keyed.copy()
        hasher.update(player)
        drawn = (int.from_bytes(hasher.digest()) >> 11) * 2.0**-53  # uniform on [0, 1)
        return "holdout" if drawn < holdout else "paid"

    return group_of
