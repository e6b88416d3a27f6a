"""Routes of players: what is kept about one, and its erasure."""

from __future__ import annotations

from functools import partial
from typing import Annotated
from urllib.parse import unquote

from litestar.openapi.spec import Example
from litestar.params import PathParameter

from entice.api_types import ErasedCampaign, ErasureView, PlayerView
from entice.service.domain.commands import ErasePlayer
from entice.service.domain.errors import Corrupt, Refusal, invalid
from entice.service.http import examples
from entice.service.http.authentication import require_all_campaigns
from entice.service.http.requests import ServiceRequest
from entice.service.http.routes import ADMIN_ONLY, READ, route

PREFIX = "/v1/players/"
PlayerId = Annotated[
    str,
    PathParameter(
        description="Your id for the player, percent-encoded.",
        examples=[Example(value="player-4711")],
    ),
]


@route(
    "GET",
    f"{PREFIX}{{player:path}}",
    roles=READ,
    responses={200: "What is kept."},
    examples={
        "one campaign": {
            "campaigns": [
                {
                    "campaign": examples.CAMPAIGN_ID,
                    "name": "Teas of the month",
                    "player": "6b" * 16,
                    "salted": True,
                    "offers": [examples.OFFER],
                }
            ],
            "damaged": [],
        },
    },
)
async def get_player(request: ServiceRequest, player: PlayerId) -> PlayerView:
    """Retrieve what is kept about a player.

    Returns all offers to the player, with their ratings and payments, by campaign. Empty if nothing
    is kept, or nothing can be linked to the player any more. `damaged` names campaigns that cannot
    be read until a backup is restored.
    """
    hashes = partial(_hashes, request, _player_id(request))
    only = request.auth.campaign
    return await request.read(request.context.queries.player, hashes, only, slow=True)


@route(
    "DELETE",
    f"{PREFIX}{{player:path}}",
    roles=ADMIN_ONLY,
    responses={200: "The campaigns in which the player was erased."},
    examples={
        "one campaign": {
            "campaigns": [{"campaign": examples.CAMPAIGN_ID, "unlinked": True}],
            "damaged": [],
        }
    },
)
async def erase_player(request: ServiceRequest, player: PlayerId) -> ErasureView:
    """Erase a player.

    Deletes the player's salts, so that nobody can link the id to offers, events and exports any
    more. Open offers are withdrawn, and their amounts return to the budget. Ratings and payments
    are kept without a link. If the same id is sent again, it is a new player's. A repeated request
    finds nothing more to erase. `damaged` names campaigns that cannot be changed until a backup is
    restored: repeat the request then.
    """
    require_all_campaigns(request.auth)
    kept, player_id = await get_player.fn(request, player), _player_id(request)
    erased, damaged = [], list(kept.damaged)
    for one in kept.campaigns:
        hashed, lookup = _hashes(request, player_id, one.campaign)
        command = ErasePlayer(one.campaign, hashed, lookup, request.key_id)
        try:
            await request.context.writer.execute(command)
        except Refusal as refusal:
            if refusal.status != 404:  # another request has erased the player in the meantime
                raise
        except Corrupt:
            damaged.append(one.campaign)
        else:
            erased.append(ErasedCampaign(one.campaign, one.salted))
    return ErasureView(erased, damaged)


def _player_id(request: ServiceRequest) -> str:
    """Return the id in the path. Litestar's own parameter lacks some slashes."""
    found = unquote(request.scope["raw_path"].decode("latin-1")).removeprefix(PREFIX)
    if not 1 <= len(found) <= 256:
        raise invalid(f"The player's id must have 1 to 256 characters; got {len(found)}.")
    return found


def _hashes(request: ServiceRequest, player_id: str, campaign: str) -> tuple[bytes, bytes]:
    players = request.context.players
    return players.hash(campaign, player_id), players.lookup(campaign, player_id)


ROUTES = (get_player, erase_player)
