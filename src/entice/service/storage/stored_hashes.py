"""The hashes of players in commands, with their salts: as they are stored."""

from __future__ import annotations

from collections.abc import Generator, Sequence

from msgspec.structs import replace

from entice.service.domain.campaign import Campaign
from entice.service.domain.commands import ErasePlayer, MakeOffer, MakeOffers
from entice.service.domain.errors import not_found
from entice.service.storage.fair_queue import PendingCommand
from entice.service.storage.player_salts import salted
from entice.service.storage.unit_of_work import UnitOfWork

PREFETCHED = 100
"""Number of players of a batch that one query loads."""


def prefetch_players(work: UnitOfWork, campaign: Campaign, requests: Sequence[MakeOffer]) -> None:
    """Load the salts and the open offers of several players with two queries."""
    find = work.players.find
    work.players.prefetch(campaign.number, [one.lookup for one in requests if one.lookup])
    salts = [find(campaign.number, one.lookup) if one.lookup else b"" for one in requests]
    # A player without a salt has no offers.
    known = [(o.player, s) for o, s in zip(requests, salts, strict=True) if s is not None]
    work.offers(campaign).prefetch_live([salted(player, [salt]) for player, salt in known])


def with_stored_hashes(work: UnitOfWork, pending: PendingCommand) -> PendingCommand:
    """Replace the hashes of players in a command by those that are stored.

    The digest of the request, which contains a player's id, then depends on the salt too.
    """
    match command := pending.command:
        case MakeOffer() if command.lookup:
            stored, salt = _with_stored_hash(work, command)
            return pending._replace(command=stored, digest=salted(pending.digest, [salt]))
        case MakeOffers(requests=requests):
            return _with_pairs(pending, command, [_with_stored_hash(work, r) for r in requests])
        case ErasePlayer(player=player, lookup=lookup):
            found = work.players.find(work.campaign(command.campaign).number, lookup)
            if found is None:
                raise not_found("player", lookup.hex())
            return pending._replace(command=replace(command, player=salted(player, [found])))
    return pending


def with_stored_hashes_in_steps(
    work: UnitOfWork, pending: PendingCommand
) -> Generator[None, None, PendingCommand]:
    """Replace the hashes as `with_stored_hashes` does, and pause between players of a batch."""
    command = pending.command
    if not isinstance(command, MakeOffers):
        return with_stored_hashes(work, pending)
    campaign = work.campaign(command.campaign)
    pairs = []
    for first in range(0, len(command.requests), PREFETCHED):
        requests = command.requests[first : first + PREFETCHED]
        prefetch_players(work, campaign, requests)
        yield
        for request in requests:
            pairs.append(_with_stored_hash(work, request))
            yield
    return _with_pairs(pending, command, pairs)


def _with_pairs(
    pending: PendingCommand, batch: MakeOffers, pairs: list[tuple[MakeOffer, bytes]]
) -> PendingCommand:
    """Return a batch with requests and salts that `_with_stored_hash` returned."""
    command = replace(batch, requests=[request for request, _ in pairs])
    digest = salted(pending.digest, [salt for _, salt in pairs])
    return pending._replace(command=command, digest=digest)


def _with_stored_hash(work: UnitOfWork, request: MakeOffer) -> tuple[MakeOffer, bytes]:
    """Return a request with the player's hash that is stored, and the salt."""
    if not request.lookup:
        return request, b""
    campaign = work.campaign(request.campaign)
    salt = work.players.find(campaign.number, request.lookup)
    is_new = salt is None
    if salt is None:
        salt = work.players.draw(campaign.number, request.lookup)
    player = salted(request.player, [salt])
    work.offers(campaign).add_player(player, request.lookup, is_new)
    return replace(request, player=player, lookup=b""), salt
