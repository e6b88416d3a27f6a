"""What the desk may be asked to do."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec import UNSET, UnsetType

from entice.service.domain.spec import CampaignSpec, Status


def offer_number(offer: str) -> int:
    """Read the number off an offer's id; 0, which no offer has, if there is none.

    >>> from entice.service.domain.commands import offer_number
    >>> offer_number("c_0123456789abcdef.17"), offer_number("c_0123456789abcdef.017")
    (17, 0)
    """
    number = offer.partition(".")[2]
    plain = number.isascii() and number.isdigit() and len(number) <= 18 and number[0] != "0"
    return int(number) if plain else 0


class CreateCampaign(msgspec.Struct, frozen=True):
    """Begin a campaign."""

    spec: CampaignSpec
    by: str | None = None
    """The id of the key that asks, if there is one."""


class ChangeCampaign(msgspec.Struct, frozen=True, kw_only=True):
    """Change what may change while a campaign runs. Unset: leave it; None: lift the limit."""

    campaign: str
    name: str | UnsetType = UNSET
    status: Status | UnsetType = UNSET
    budget: int | UnsetType = UNSET
    cap_per_offer: int | UnsetType | None = UNSET
    cap_per_player: int | UnsetType | None = UNSET
    pace_over: int | UnsetType | None = UNSET
    by: str | None = None


class AddArms(msgspec.Struct, frozen=True):
    """Let further arms join."""

    campaign: str
    arms: Sequence[str]
    by: str | None = None


class RetireArm(msgspec.Struct, frozen=True):
    """Offer an arm no more, or offer it again. Its ratings stay."""

    campaign: str
    arm: str
    retired: bool
    by: str | None = None


class MakeOffer(msgspec.Struct, frozen=True, gc=False):
    """Decide what one player is offered."""

    campaign: str
    player: bytes
    """A keyed hash; the id itself is not kept."""
    eligible: Sequence[str] | None = None
    displayed: dict[str, float] | None = None
    """What the player sees, in stars, where the shop knows better than the averages."""


class MakeOffers(msgspec.Struct, frozen=True):
    """Decide for several players at once, each decision knowing of those before."""

    campaign: str
    requests: Sequence[MakeOffer]


class _OfferCommand(msgspec.Struct, frozen=True):
    offer: str

    @property
    def campaign(self) -> str:
        """The campaign that the offer belongs to: its id begins with it."""
        return self.offer.partition(".")[0]

    @property
    def n(self) -> int:
        """Its number in the campaign; 0, which no offer has, if the id is none of ours."""
        return offer_number(self.offer)


class Accept(_OfferCommand, frozen=True):
    """The player takes the offer."""

    amount: int | None = None
    """What was paid in the end, if less than offered."""


class Decline(_OfferCommand, frozen=True):
    """The player does not take it."""


class Rate(_OfferCommand, frozen=True):
    """The player's rating, or another one than before."""

    rating: int


class Reverse(_OfferCommand, frozen=True):
    """The sale is undone: the money comes back, the rating does not count."""


class Organic(msgspec.Struct, frozen=True):
    """A rating by somebody who was offered nothing."""

    arm: str
    rating: int


class EnterRatings(msgspec.Struct, frozen=True):
    """Enter ratings by people who were offered nothing."""

    campaign: str
    ratings: Sequence[Organic]


class Expire(msgspec.Struct, frozen=True):
    """Let pass what is overdue: offers nobody took, ratings that never came."""

    campaign: str


Command = (
    CreateCampaign
    | ChangeCampaign
    | AddArms
    | RetireArm
    | MakeOffer
    | MakeOffers
    | Accept
    | Decline
    | Rate
    | Reverse
    | EnterRatings
    | Expire
)
