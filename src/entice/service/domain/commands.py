"""Commands: the changes that can be requested of a campaign, and their handlers.

The writer executes each command in a transaction. The handler loads the campaign, lets
`CampaignRules` append the events, and encodes the response.
"""

from __future__ import annotations

import secrets
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple, Protocol

import msgspec
from msgspec import UNSET, UnsetType

from entice.errors import InputError
from entice.service.domain.campaign import Campaign
from entice.service.domain.campaign_state import missing_offer_error
from entice.service.domain.errors import Refusal, invalid, not_found
from entice.service.domain.offer import OfferRecord, OfferRepository
from entice.service.domain.pending_policies import check_compiled
from entice.service.domain.rules import CampaignRules
from entice.service.domain.spec import CampaignSpec, Status, reject_dots
from entice.service.domain.views import arm_views, campaign_view, encode, offer_view

MORE_DUE = 206
"""The status that `Expire` returns if there are more offers past their deadline."""
MAX_EXPIRED = 100
"""The most offers that one `Expire` processes, because the commands of other campaigns wait for it.
"""


def offer_number(offer: str) -> int:
    """Return the number in an offer's id; 0, which no offer has, if the id is not valid.

    >>> from entice.service.domain.commands import offer_number
    >>> offer_number("c_0123456789abcdef.17"), offer_number("c_0123456789abcdef.017")
    (17, 0)
    """
    number = offer.partition(".")[2]
    plain = number.isascii() and number.isdigit() and len(number) <= 18 and number[0] != "0"
    return int(number) if plain else 0


class CreateCampaign(msgspec.Struct, frozen=True):
    """Create a campaign."""

    spec: CampaignSpec
    by: str | None = None
    """The id of the API key that sent the command, if any."""


class ChangeCampaign(msgspec.Struct, frozen=True, kw_only=True):
    """Change settings of a running campaign. UNSET keeps a setting; None removes a limit."""

    campaign: str
    name: str | UnsetType = UNSET
    status: Status | UnsetType = UNSET
    budget: int | UnsetType = UNSET
    cap_per_offer: int | UnsetType | None = UNSET
    cap_per_player: int | UnsetType | None = UNSET
    pace_over: int | UnsetType | None = UNSET
    overlap: float | UnsetType | None = UNSET
    holdout: float | UnsetType = UNSET
    """Any change of these two is rejected, with the reason."""
    holdout_feeds_averages: bool | UnsetType = UNSET
    by: str | None = None


class AddArms(msgspec.Struct, frozen=True):
    """Add arms to a campaign."""

    campaign: str
    arms: Sequence[str]
    by: str | None = None


class RetireArm(msgspec.Struct, frozen=True):
    """Retire an arm, or reactivate it. Its ratings are kept."""

    campaign: str
    arm: str
    retired: bool
    by: str | None = None


class MakeOffer(msgspec.Struct, frozen=True, gc=False):
    """Decide which arm and payment to offer to one player."""

    campaign: str
    player: bytes
    """A keyed hash of the player's id, which is not stored."""
    eligible: Sequence[str] | None = None
    displayed: dict[str, float] | None = None
    """The ratings that the player sees, in stars, where they differ from the averages."""
    lookup: bytes = b""
    """Finds the player's salt; empty if `player` is to be stored as it is."""
    segment: str | None = None
    """The player's segment. Required if the campaign has segments."""


class MakeOffers(msgspec.Struct, frozen=True):
    """Decide for several players. Each decision takes the ones before it into account."""

    campaign: str
    requests: Sequence[MakeOffer]


class _OfferCommand(msgspec.Struct, frozen=True):
    offer: str

    @property
    def campaign(self) -> str:
        """The campaign of the offer, which is the first part of the offer's id."""
        return self.offer.partition(".")[0]

    @property
    def n(self) -> int:
        """The number of the offer; 0, which no offer has, if the id is not valid."""
        return offer_number(self.offer)


class Accept(_OfferCommand, frozen=True):
    """Accept an offer."""

    amount: int | None = None
    """The amount paid, if less than offered."""


class Decline(_OfferCommand, frozen=True):
    """Decline an offer."""


class Rate(_OfferCommand, frozen=True):
    """Rate an accepted offer, or change its rating."""

    rating: int


class Reverse(_OfferCommand, frozen=True):
    """Reverse a sale: its payment is released and its rating no longer counts."""


class Organic(msgspec.Struct, frozen=True):
    """A rating by someone who received no offer."""

    arm: str
    rating: int
    segment: str | None = None


class EnterRatings(msgspec.Struct, frozen=True):
    """Enter ratings by people who received no offer."""

    campaign: str
    ratings: Sequence[Organic]


class ErasePlayer(msgspec.Struct, frozen=True):
    """Erase the link between a player's id and the offers of a campaign."""

    campaign: str
    player: bytes
    lookup: bytes
    by: str | None = None


class Expire(msgspec.Struct, frozen=True):
    """Expire open offers, and end rating windows, that are past their deadline."""

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
    | ErasePlayer
    | Expire
)


class CommandResult(NamedTuple):
    """The response to a command, ready to be sent."""

    status: int
    body: bytes
    """JSON."""
    replayed: bool = False
    """Whether this is the stored response to an earlier request with the same idempotency key."""


class TakesLong(Exception):
    """A command that has to be executed in steps; it has changed nothing so far."""


class CampaignTransaction(Protocol):
    """The part of `storage.unit_of_work.UnitOfWork` that handlers use."""

    short_only: bool
    """Whether to raise `TakesLong` instead of executing a command that takes long."""

    def campaign(self, name: str) -> Campaign:
        """Lock and return a campaign."""

    def offers(self, campaign: Campaign) -> OfferRepository:
        """Return the offers of a campaign."""

    def insert_campaign(self, campaign: Campaign) -> None:
        """Insert the row of a new campaign."""

    def load_ratings(self, campaign: Campaign) -> Iterator[None]:
        """Read all ratings that count, and pause now and then, because that takes long."""

    def erase_player(self, campaign: Campaign, lookup: bytes) -> None:
        """Delete the salt of a player."""


def execute(transaction: CampaignTransaction, command: Command, now: int) -> CommandResult:
    """Execute a command in a transaction.

    A command that raises `Refusal` has changed nothing, except that it may have expired an offer
    past its deadline.
    """
    if isinstance(command, CreateCampaign):
        return _create_campaign(transaction, command, now)
    if isinstance(command, Accept | Decline | Rate | Reverse):
        return _update_offer(transaction, command, now)
    campaign = transaction.campaign(command.campaign)
    rules = CampaignRules(campaign, transaction.offers(campaign))
    match command:
        case MakeOffer():
            rules.check_request(command.eligible, command.displayed, command.segment)
            offer, is_new = _make_offer(rules, command, now)
            return CommandResult(201 if is_new else 200, encode(offer_view(campaign, offer)))
        case MakeOffers() | EnterRatings():
            return run_to_end(execute_in_steps(transaction, command, now))
        case ChangeCampaign():
            fields = msgspec.structs.asdict(command)
            del fields["campaign"], fields["by"]
            changes = {name: value for name, value in fields.items() if value is not UNSET}
            if changes.get("overlap") == 0:
                changes["overlap"] = None  # a campaign without overlap does not store it
            rules.change(now, changes, command.by)
            return CommandResult(200, encode(campaign_view(campaign.state)))
        case AddArms(arms=arms, by=by):
            _check_new_arms([arm for arm in arms if arm not in campaign.arms])
            rules.add_arms(now, tuple(arms), by)
            return CommandResult(201, encode(arm_views(campaign)))
        case RetireArm(arm=arm, retired=retired, by=by):
            rules.retire(now, arm, retired, by)
            return CommandResult(200, encode(arm_views(campaign)[campaign.arms[arm]]))
        case ErasePlayer(player=player, lookup=lookup, by=by):
            rules.erase_player(now, player, by)
            transaction.erase_player(campaign, lookup)
            return CommandResult(200, b"")
        case Expire():
            due = rules.offers.due(now, MAX_EXPIRED)
            for offer in due:
                rules.expire(now, offer)
            status = MORE_DUE if len(due) == MAX_EXPIRED else 200
            return CommandResult(status, encode({"expired": len(due)}))


Steps = Generator[None, None, CommandResult]
"""The execution of a command, which pauses after each step."""


def execute_in_steps(
    transaction: CampaignTransaction, command: MakeOffers | EnterRatings | Rate | Reverse, now: int
) -> Steps:
    """Execute a command that may take long; the result is that of `execute`.

    Nothing else may change the campaign until the last step. `transaction` may read from another
    session after each step.
    """
    if isinstance(command, Rate | Reverse):
        rules, offer = _load_offer(transaction, command, now)
        yield from transaction.load_ratings(rules.campaign)
        rules.relearn_later = True
        _apply(rules, offer, command, now)
        yield from rules.relearn()
        return CommandResult(200, encode(offer_view(rules.campaign, offer)))
    campaign = transaction.campaign(command.campaign)
    rules = CampaignRules(campaign, transaction.offers(campaign))
    if isinstance(command, EnterRatings):
        for i, organic in enumerate(command.ratings):
            with _prefix_errors(f"ratings[{i}]"):
                rules.check_organic(organic.arm, organic.rating, organic.segment)
        for organic in command.ratings:
            rules.organic(now, organic.arm, organic.rating, organic.segment)
            yield
        return CommandResult(201, encode({"entered": len(command.ratings)}))
    for i, request in enumerate(command.requests):
        with _prefix_errors(f"requests[{i}]"):
            rules.check_request(request.eligible, request.displayed, request.segment)
        yield
    views = []
    for request in command.requests:
        offer, _ = _make_offer(rules, request, now)
        views.append(encode(offer_view(campaign, offer)))
        yield
    return CommandResult(201, b'{"offers":[' + b",".join(views) + b"]}")


def run_to_end(steps: Steps) -> CommandResult:
    """Execute all steps of a command without a pause."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: CommandResult = end.value
            return result


def _create_campaign(
    transaction: CampaignTransaction, command: CreateCampaign, now: int
) -> CommandResult:
    _check_new_arms(command.spec.arms)
    if getattr(command.spec.policy, "count_in_flight", False):
        raise invalid(
            "policy.count_in_flight can't be set in a campaign: campaigns always count the ratings "
            "that are still expected. Leave it out."
        )
    check_compiled(str(type(command.spec.policy).__struct_config__.tag))
    campaign = Campaign.create(f"c_{secrets.token_hex(8)}", command.spec.with_seed(), now)
    transaction.insert_campaign(campaign)
    rules, plan = CampaignRules(campaign, transaction.offers(campaign)), command.spec.plan
    # The plan is in the log alone: the campaign's row is written with every commit.
    rules.create(now, by=command.by, plan=None if plan is None else msgspec.to_builtins(plan))
    return CommandResult(201, encode(campaign_view(campaign.state)))


def _check_new_arms(arms: Sequence[str]) -> None:
    try:
        reject_dots("arms", arms)
    except InputError as error:
        raise invalid(str(error)) from error


def _make_offer(rules: CampaignRules, request: MakeOffer, now: int) -> tuple[OfferRecord, bool]:
    """Return the player's open offer, or a new one if there is none, and whether it is new."""
    live = rules.offers.live(request.player)
    if live is not None and live.due > now:
        return live, False
    if live is not None:
        rules.expire(now, live)
    rules.upgrade(now)
    eligible = None if request.eligible is None else tuple(request.eligible)
    offer = rules.offer(now, request.player, eligible, request.displayed, request.segment)
    return offer, True


@contextmanager
def _prefix_errors(entry: str) -> Iterator[None]:
    """Prefix the detail of a `Refusal` with the list entry that caused it."""
    try:
        yield
    except Refusal as error:
        detail = f"{entry}: {error.detail}"
        raise Refusal(error.status, error.kind, error.title, detail, **error.extra) from None


def _update_offer(
    transaction: CampaignTransaction, command: Accept | Decline | Rate | Reverse, now: int
) -> CommandResult:
    rules, offer = _load_offer(transaction, command, now)
    if transaction.short_only and isinstance(command, Rate | Reverse) and rules.relearns(offer):
        raise TakesLong
    _apply(rules, offer, command, now)
    return CommandResult(200, encode(offer_view(rules.campaign, offer)))


def _load_offer(
    transaction: CampaignTransaction, command: Accept | Decline | Rate | Reverse, now: int
) -> tuple[CampaignRules, OfferRecord]:
    """Load an offer, and expire it if it is past its deadline."""
    try:
        campaign = transaction.campaign(command.campaign)
    except Refusal as error:
        if error.status != 404:
            raise
        raise not_found("offer", command.offer) from None
    rules = CampaignRules(campaign, transaction.offers(campaign))
    offer = rules.offers.get(command.n)
    if offer is None:
        raise missing_offer_error(campaign.state, command.n, command.offer)
    if offer.due <= now:
        # The offer stays expired even if the command is then rejected.
        rules.expire(now, offer)
    return rules, offer


def _apply(
    rules: CampaignRules, offer: OfferRecord, command: Accept | Decline | Rate | Reverse, now: int
) -> None:
    match command:
        case Accept(amount=amount):
            rules.accept(now, offer, amount)
        case Decline():
            rules.decline(now, offer)
        case Rate(rating=rating):
            rules.rate(now, offer, rating)
        case Reverse():
            rules.reverse(now, offer)
