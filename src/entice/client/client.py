"""The client: a method for each request of the HTTP API."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal
from urllib.parse import quote, urlencode

from entice.api_types import (
    AcceptanceView,
    ApiKeyView,
    ArmView,
    CampaignPlan,
    CampaignPlanView,
    CampaignView,
    CampaignWithAlerts,
    CreatedApiKey,
    CreatedWebhook,
    DriftView,
    EffectView,
    ErasureView,
    EventPage,
    EventView,
    OfferHistory,
    OfferPage,
    OfferView,
    PlayerView,
    SettingsHistory,
    SpendingView,
    WebhookView,
)
from entice.atomic_file import atomic_file
from entice.client.connection import ServiceConnection, ServiceError, decoded
from entice.errors import InputError

EXPORT_TIMEOUT = 600.0  # seconds until the first byte of a large export
CAMPAIGNS_AT_ONCE = 500  # on a page of the list
STREAM_TIMEOUT = 60.0  # seconds without data after which a stream is considered lost
Ids = Sequence[str] | None
Stars = Mapping[str, float] | None


class Client(ServiceConnection, AbstractContextManager["Client"]):
    """A client of one service. Threads may share it: each call uses its own connection.

    Parameters
    ----------
    url
        Address of the service, such as ``http://127.0.0.1:8000``.
    key
        API key from `entice keys create`. If omitted, the token of a service without keys is used,
        which a service that the same user started on this machine keeps in a file.
    timeout
        Network timeout of one attempt, in seconds.
    retries
        Number of attempts after the first. The pauses between them double from 0.25 to 5 seconds,
        with jitter, and are at least as long as the response's Retry-After. No attempt starts more
        than `retries` × (`timeout` + 5) seconds after the call.

    >>> from entice.client import Client
    >>> client = Client("http://127.0.0.1:9", key="entice_0123abcd_secret", retries=0)
    >>> client
    Client('http://127.0.0.1:9', key=…)
    >>> client.campaigns()
    Traceback (most recent call last):
        ...
    entice.client.connection.ServiceError: cannot reach http://127.0.0.1:9: Connection refused
    """

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Close idle connections. A later call opens a new one."""
        self._close_idle()

    def create_campaign(self, *, once: str | None = None, **settings: Any) -> CampaignView:
        """Create a campaign from its settings, which are those of a campaign's TOML file.

        `once` is an idempotency key of your own: two runs with the same key create one campaign.
        """
        return self._ask("POST", "/v1/campaigns", CampaignView, settings, once)

    def campaigns(
        self, *, search: str = "", status: str | None = None, sort: str = "created"
    ) -> list[CampaignWithAlerts]:
        """Return all campaigns that the key has access to, oldest first, with their alerts.

        `search` has words that all occur in the name or id. `sort` is one of created, changed,
        name, status, used, share_who_rate and alerts, with a minus sign for the reverse order.
        """
        given = {"search": search, "status": status, "sort": sort if sort != "created" else ""}
        query: dict[str, Any] = {name: value for name, value in given.items() if value}
        found: list[CampaignWithAlerts] = []
        while True:
            path = f"/v1/campaigns?{urlencode(query | {'limit': CAMPAIGNS_AT_ONCE})}"
            page = self._ask("GET", path, list[CampaignWithAlerts])
            found += page
            if len(page) < CAMPAIGNS_AT_ONCE:
                return found
            query["after"] = page[-1].id

    def campaign(self, campaign: str) -> CampaignWithAlerts:
        """Return a campaign, with its alerts."""
        return self._ask("GET", _at(campaign), CampaignWithAlerts)

    def change_campaign(self, campaign: str, **changes: Any) -> CampaignView:
        """Change the name, the status, the budget, the pace or a cap. None removes a limit."""
        return self._ask("PATCH", _at(campaign), CampaignView, changes)

    def arms(self, campaign: str) -> list[ArmView]:
        """Return the arms of a campaign with their averages and counts."""
        return self._ask("GET", _at(campaign, "/arms"), list[ArmView])

    def add_arms(self, campaign: str, *arms: str) -> list[ArmView]:
        """Add arms to a campaign."""
        return self._ask("POST", _at(campaign, "/arms"), list[ArmView], {"arms": arms})

    def retire_arm(self, campaign: str, arm: str, retired: bool = True) -> ArmView:
        """Retire an arm, or offer it again."""
        path = _at(campaign, f"/arms/{quote(arm, safe='')}")
        return self._ask("PATCH", path, ArmView, {"retired": retired})

    def offer(
        self,
        campaign: str,
        player: str,
        *,
        eligible: Ids = None,
        displayed: Stars = None,
        segment: str | None = None,
    ) -> OfferView:
        """Make an offer to a player, or return the player's open offer.

        `eligible` are the arms that may be offered to this player (default: all), and `displayed`
        the values that this player sees, in stars (default: the averages). `segment` is the
        player's segment; a campaign with segments requires it.
        """
        body = {"player": player, "eligible": eligible, "displayed": displayed}
        if segment is not None:
            body["segment"] = segment
        return self._ask("POST", _at(campaign, "/offers"), OfferView, body)

    def offers(self, campaign: str, players: Iterable[str | Mapping[str, Any]]) -> list[OfferView]:
        """Make offers to up to 1,000 players: ids, or dicts of the arguments of `offer`."""
        requests = [{"player": one} if isinstance(one, str) else one for one in players]
        path, kind = _at(campaign, "/offers/batch"), dict[str, list[OfferView]]
        return self._ask("POST", path, kind, {"requests": requests})["offers"]

    def list_offers(
        self,
        campaign: str,
        *,
        state: str | None = None,
        reason: str | None = None,
        arm: str | None = None,
        player: str | None = None,
        payment: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
    ) -> Iterator[OfferView]:
        """Iterate over the offers of a campaign, newest first, optionally filtered.

        `payment` is "paid" for offers with a payment only, "unpaid" for those without.
        """
        filters = {"state": state, "reason": reason, "arm": arm, "player": player}
        filters["payment"] = payment
        filters |= _period(since, until)
        query: dict[str, Any] = {name: value for name, value in filters.items() if value}
        while True:
            path = _at(campaign, f"/offers?{urlencode(query | {'limit': 500})}")
            page = self._ask("GET", path, OfferPage)
            yield from page.offers
            if page.next is None:
                return
            query["before"] = page.next

    def history(self, offer: str) -> OfferHistory:
        """Return an offer with its events and the calculation of its amount."""
        return self._ask("GET", _of(offer), OfferHistory)

    def accept(self, offer: str, amount: int | None = None) -> OfferView:
        """Accept an offer, for its amount or for less."""
        body = {} if amount is None else {"amount": amount}
        return self._ask("POST", _of(offer, "/accept"), OfferView, body)

    def decline(self, offer: str) -> OfferView:
        """Decline an offer. Its amount returns to the budget."""
        return self._ask("POST", _of(offer, "/decline"), OfferView, {})

    def rate(self, offer: str, rating: int) -> OfferView:
        """Rate an accepted offer, or replace its rating."""
        return self._ask("POST", _of(offer, "/rating"), OfferView, {"rating": rating})

    def reverse(self, offer: str) -> OfferView:
        """Reverse an accepted or rated offer. Its amount returns to the budget."""
        return self._ask("POST", _of(offer, "/reverse"), OfferView, {})

    def enter_ratings(
        self,
        campaign: str,
        ratings: Iterable[tuple[str, int] | tuple[str, int, str]],
        *,
        once: str | None = None,
    ) -> int:
        """Enter ratings by players who had no offer, as pairs (arm, stars); return their number.

        In a campaign with segments: (arm, stars, segment).
        """
        names = ("arm", "rating", "segment")
        body = {"ratings": [dict(zip(names, one, strict=False)) for one in ratings]}
        path, kind = _at(campaign, "/ratings"), dict[str, int]
        return self._ask("POST", path, kind, body, once)["entered"]

    def player(self, player: str) -> PlayerView:
        """Return what is kept about a player: all offers, with ratings and payments."""
        return self._ask("GET", f"/v1/players/{_id('player', player)}", PlayerView)

    def erase_player(self, player: str) -> ErasureView:
        """Erase the link between a player's id and all offers; withdraw open offers."""
        return self._ask("DELETE", f"/v1/players/{_id('player', player)}", ErasureView)

    def drift(self, campaign: str) -> DriftView:
        """Return the drift estimate of a campaign with a probe."""
        return self._ask("GET", _at(campaign, "/drift"), DriftView)

    def effect(self, campaign: str) -> EffectView:
        """Return the effect of a campaign with a holdout: both groups and their difference."""
        return self._ask("GET", _at(campaign, "/effect"), EffectView)

    def acceptance(self, campaign: str) -> AcceptanceView:
        """Return the acceptance curve of a campaign with a learned price, with its counts."""
        return self._ask("GET", _at(campaign, "/acceptance"), AcceptanceView)

    def spending(
        self,
        campaign: str,
        by: Literal["date", "offer"] = "date",
        points: int = 200,
        since: datetime | None = None,
        until: datetime | None = None,
    ) -> SpendingView:
        """Return the spending history by date or by number of offers, with at most `points` points.

        The service reads a long log in parts. This method repeats the request until the whole log
        is read.
        """
        query = {"by": by, "points": str(points), **_period(since, until)}
        path = _at(campaign, f"/spending?{urlencode(query)}")
        found = self._ask("GET", path, SpendingView)
        while found.through < found.events:
            found = self._ask("GET", path, SpendingView)
        return found

    def settings_history(self, campaign: str) -> SettingsHistory:
        """Return who changed which setting, newest first. Repeats the request like `spending`."""
        path = _at(campaign, "/settings")
        found = self._ask("GET", path, SettingsHistory)
        while found.through < found.events:
            found = self._ask("GET", path, SettingsHistory)
        return found

    def plan(self, campaign: str) -> CampaignPlan | None:
        """Return the plan that a campaign was created from; None if there is none."""
        return self._ask("GET", _at(campaign, "/plan"), CampaignPlanView).plan

    def events(self, campaign: str, after: int = 0, page: int = 500) -> Iterator[EventView]:
        """Iterate over the events after a sequence number. Keep the last `seq` to resume."""
        onward: int | None = after
        while onward is not None:
            query = f"/events?after={onward}&limit={page}"
            found = self._ask("GET", _at(campaign, query), EventPage)
            yield from found.events
            onward = found.next

    def stream(self, campaign: str, after: int = 0) -> Iterator[EventView]:
        """Iterate over events as they occur, until the service stops. Keep `seq` to resume."""
        with self._open(_at(campaign, f"/stream?after={after}"), STREAM_TIMEOUT) as response:
            for line in response:
                if line.startswith(b"data:"):
                    yield decoded(line[5:], EventView)

    def export(self, campaign: str, path: str | Path, after: int | None = None) -> int:
        """Export a campaign to a file whose name ends in .parquet, .csv or .jsonl.

        With `after`, export only the rows that changed after that event. Returns the `after` of the
        next export.
        """
        path = Path(path)
        address = _at(campaign, f"/export?format={quote(path.suffix[1:])}")
        if after is not None:
            address += f"&after={after}"
        with atomic_file(path) as beside, beside.open("wb") as file:
            with self._open(address, EXPORT_TIMEOUT) as response:
                shutil.copyfileobj(response, file)
            return int(response.headers["Entice-Last-Event"])

    def create_webhook(self, campaign: str, url: str, after: int | None = None) -> CreatedWebhook:
        """Send the events after a number (default: new events) to a URL. Keep the `secret`."""
        body = {"url": url} if after is None else {"url": url, "after": after}
        return self._ask("POST", _at(campaign, "/webhooks"), CreatedWebhook, body)

    def webhooks(self, campaign: str) -> list[WebhookView]:
        """Return the webhooks of a campaign, with the outcome of their last attempts."""
        return self._ask("GET", _at(campaign, "/webhooks"), list[WebhookView])

    def pause_webhook(self, campaign: str, webhook: str, paused: bool = True) -> WebhookView:
        """Pause a webhook or, with `paused=False`, resume it at once."""
        path = _at(campaign, f"/webhooks/{_id('webhook', webhook)}")
        return self._ask("PATCH", path, WebhookView, {"paused": paused})

    def delete_webhook(self, campaign: str, webhook: str) -> WebhookView:
        """Delete a webhook."""
        path = _at(campaign, f"/webhooks/{_id('webhook', webhook)}")
        return self._ask("DELETE", path, WebhookView)

    def list_keys(self) -> list[ApiKeyView]:
        """Return all API keys, oldest first, including revoked ones."""
        return self._ask("GET", "/v1/keys", list[ApiKeyView])

    def create_key(self, name: str, *roles: str, campaign: str | None = None) -> CreatedApiKey:
        """Create an API key for all campaigns, or for one. Its `key` is not returned again.

        Not retried, since a repeat would create another key.
        """
        body = {"name": name, "roles": roles, "campaign": campaign}
        return decoded(self._call("POST", "/v1/keys", body, retries=0), CreatedApiKey)

    def revoke_key(self, key: str) -> ApiKeyView:
        """Revoke an API key, given its id. The last administrator's key is kept (409)."""
        return self._ask("DELETE", f"/v1/keys/{_id('key', key)}", ApiKeyView)

    def ready(self) -> bool:
        """Return whether the service is ready and its database usable."""
        try:
            return self._call("GET", "/readyz", retries=0) is not None
        except ServiceError:
            return False

    def metrics(self) -> str:
        """Return the metrics in Prometheus' text format."""
        return self._call("GET", "/metrics").decode()


def _at(campaign: str, rest: str = "") -> str:
    return f"/v1/campaigns/{_id('campaign', campaign)}{rest}"


def _period(since: datetime | None, until: datetime | None) -> dict[str, str]:
    """Return the query parameters of a period. A time without a zone is local."""
    times = {"since": since, "until": until}
    return {name: time.astimezone(UTC).isoformat() for name, time in times.items() if time}


def _of(offer: str, rest: str = "") -> str:
    return f"/v1/offers/{_id('offer', offer)}{rest}"


def _id(what: str, given: object) -> str:
    if not isinstance(given, str):
        todo = f"Pass {what}.id instead of the {what}."
        raise InputError(what, "must be an id, a string", given=given, todo=todo)
    return quote(given, safe="")
