"""Carries out one command, and words the answer."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import msgspec
from msgspec import UNSET

from entice.errors import InputError
from entice.service.domain.campaign import Campaign
from entice.service.domain.commands import (
    Accept,
    AddArms,
    ChangeCampaign,
    Command,
    CreateCampaign,
    Decline,
    EnterRatings,
    Expire,
    MakeOffer,
    MakeOffers,
    Rate,
    RetireArm,
    Reverse,
)
from entice.service.domain.errors import Refusal, invalid, not_found
from entice.service.domain.offer import OfferRecord
from entice.service.domain.pending_policies import check_compiled
from entice.service.domain.rules import CampaignRules
from entice.service.domain.spec import reject_dots
from entice.service.domain.views import arm_views, campaign_view, encode, offer_view
from entice.service.storage.unit_of_work import UnitOfWork, missing_offer_error

FULL = 206
"""The status of a tick that has left some for the next."""
MOST_OVERDUE = 1000
"""How many overdue offers one tick lets pass in a campaign; more wait for the next."""


class CommandResult(NamedTuple):
    """What is told to whoever asked, ready to be sent."""

    status: int
    body: bytes
    """JSON."""
    replayed: bool = False
    """Whether it was given before, under the same key."""


def handle(work: UnitOfWork, command: Command, now: int) -> CommandResult:
    """Carry out a command within a transaction; a `Refusal` has changed nothing."""
    if isinstance(command, MakeOffer):
        return _make_offer(work, command, now)
    if isinstance(command, CreateCampaign):
        return _create(work, command, now)
    if isinstance(command, Accept | Decline | Rate | Reverse):
        return _answer_offer(work, command, now)
    campaign = work.campaign(command.campaign)
    rules = CampaignRules(campaign, work.offers(campaign))
    match command:
        case MakeOffers(requests=requests):
            work.offers(campaign).prefetch_live([request.player for request in requests])
            for i, request in enumerate(requests):
                with _named(f"requests[{i}]"):
                    rules.check_request(request.eligible, request.displayed)
            offers = [_checked_offer(rules, request, now)[0] for request in requests]
            return CommandResult(201, encode({"offers": [offer_view(campaign, o) for o in offers]}))
        case EnterRatings(ratings=ratings):
            for i, organic in enumerate(ratings):
                with _named(f"ratings[{i}]"):
                    rules.check_organic(organic.arm, organic.rating)
            for organic in ratings:
                rules.organic(now, organic.arm, organic.rating)
            return CommandResult(201, encode({"entered": len(ratings)}))
        case ChangeCampaign():
            given = msgspec.structs.asdict(command)
            del given["campaign"], given["by"]
            changes = {name: v for name, v in given.items() if v is not UNSET}
            rules.change(now, changes, command.by)
            return CommandResult(200, encode(campaign_view(campaign.state)))
        case AddArms(arms=arms, by=by):
            _check_new_arms([arm for arm in arms if arm not in campaign.arms])
            rules.add_arms(now, tuple(arms), by)
            return CommandResult(201, encode(arm_views(campaign)))
        case RetireArm(arm=arm, retired=retired, by=by):
            rules.retire(now, arm, retired, by)
            return CommandResult(200, encode(arm_views(campaign)[campaign.arms[arm]]))
        case Expire():
            due = rules.offers.due(now, MOST_OVERDUE)
            for offer in due:
                rules.expire(now, offer)
            full = len(due) == MOST_OVERDUE
            return CommandResult(FULL if full else 200, encode({"expired": len(due)}))


def _create(work: UnitOfWork, command: CreateCampaign, now: int) -> CommandResult:
    _check_new_arms(command.spec.arms)
    if getattr(command.spec.policy, "count_in_flight", False):
        raise invalid(
            "policy.count_in_flight can't be set in a campaign: campaigns always count the ratings "
            "that are still expected. Leave it out."
        )
    name = f"c_{secrets.token_hex(8)}"
    check_compiled(str(type(command.spec.policy).__struct_config__.tag))
    campaign = Campaign.create(name, command.spec.with_seed(), now)
    work.insert_campaign(campaign)
    CampaignRules(campaign, work.offers(campaign)).create(now, by=command.by)
    return CommandResult(201, encode(campaign_view(campaign.state)))


def _check_new_arms(arms: Sequence[str]) -> None:
    try:
        reject_dots("arms", arms)
    except InputError as error:
        raise invalid(str(error)) from error


def _make_offer(work: UnitOfWork, command: MakeOffer, now: int) -> CommandResult:
    campaign = work.campaign(command.campaign)
    rules = CampaignRules(campaign, work.offers(campaign))
    offer, fresh = _offer(rules, command, now)
    return CommandResult(201 if fresh else 200, encode(offer_view(campaign, offer)))


def _offer(rules: CampaignRules, request: MakeOffer, now: int) -> tuple[OfferRecord, bool]:
    """Make an offer, or find the one that the player has already."""
    rules.check_request(request.eligible, request.displayed)
    return _checked_offer(rules, request, now)


def _checked_offer(rules: CampaignRules, request: MakeOffer, now: int) -> tuple[OfferRecord, bool]:
    live = rules.offers.live(request.player)
    if live is not None and live.due > now:
        return live, False
    if live is not None:
        rules.expire(now, live)
    rules.upgrade(now)
    eligible = None if request.eligible is None else tuple(request.eligible)
    return rules.offer(now, request.player, eligible, request.displayed), True


@contextmanager
def _named(entry: str) -> Iterator[None]:
    """Say which entry of a list a refusal is about."""
    try:
        yield
    except Refusal as refusal:
        detail = f"{entry}: {refusal.detail}"
        told = Refusal(refusal.status, refusal.kind, refusal.title, detail, **refusal.extra)
        raise told from None


def _answer_offer(
    work: UnitOfWork, command: Accept | Decline | Rate | Reverse, now: int
) -> CommandResult:
    try:
        campaign = work.campaign(command.campaign)
    except Refusal as refusal:
        if refusal.status != 404:
            raise
        raise not_found("offer", command.offer) from None
    rules = CampaignRules(campaign, work.offers(campaign))
    offer = rules.offers.get(command.n)
    if offer is None:
        raise missing_offer_error(rules.campaign.state, command.n, command.offer)
    if offer.due <= now:
        # Also a refusal below leaves the offer as it is by now: expired.
        rules.expire(now, offer)
    match command:
        case Accept(amount=amount):
            rules.accept(now, offer, amount)
        case Decline():
            rules.decline(now, offer)
        case Rate(rating=rating):
            rules.rate(now, offer, rating)
        case Reverse():
            rules.reverse(now, offer)
    return CommandResult(200, encode(offer_view(rules.campaign, offer)))
