"""A client of the service that `entice serve` runs, on the standard library and msgspec.

Every write has an idempotency key, so it is retried safely after a lost connection or a temporary
error (429, 503): the service executes it once and returns the same response. Errors that retries
do not resolve raise `ServiceError`.

    from entice.client import Client

    with Client("http://127.0.0.1:8000") as shop:  # elsewhere also key="entice_…"
        tea = shop.create_campaign(
            name="tea", arms=["assam", "sencha", "oolong"], budget=100_00, price_of_a_star=2_00
        )
        offer = shop.offer(tea.id, "player 1")  # show offer.arm, promise offer.amount
        shop.accept(offer.id)                   # or shop.decline(offer.id)
        shop.rate(offer.id, 4)                  # minutes or weeks later, or never

Amounts of money are whole numbers of the currency's minor unit. Ratings and payments are in stars.
`entice.api_types` has the types of the results.
"""

from __future__ import annotations

import hmac
import http.client
import random
import re
import shutil
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeVar
from urllib.parse import quote, urlencode, urlsplit

import msgspec

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
    WebhookPayload,
    WebhookView,
)
from entice.errors import EnticeError, InputError
from entice.local_token import read_token

RETRIED_STATUSES = (429, 502, 503, 504)
CONNECTION_ERRORS = (OSError, http.client.HTTPException)
FIRST_PAUSE, MAX_PAUSE = 0.25, 5.0  # seconds between attempts
EXPORT_TIMEOUT = 600.0  # seconds until the first byte of a large export
CAMPAIGNS_AT_ONCE = 500  # on a page of the list
STREAM_TIMEOUT = 60.0  # seconds without data after which a stream is considered lost
T = TypeVar("T")
Ids = Sequence[str] | None
Stars = Mapping[str, float] | None


class ServiceError(EnticeError):
    """An error response of the service, or a failed connection (`status` is then 0).

    `kind`, `title` and `detail` are those of the problem details (RFC 9457). `problem` has all
    fields, such as the ``state`` of an offer.
    """

    def __init__(
        self, status: int, kind: str, title: str, detail: str, problem: dict[str, Any] | None = None
    ) -> None:
        message = f"{title}: {detail}" if detail else title
        super().__init__(f"{message} ({status}, {kind})" if status else message)
        self.status, self.kind, self.title, self.detail = status, kind, title, detail
        self.problem = problem or {}


class Client(AbstractContextManager["Client"]):
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
    entice.client.ServiceError: cannot reach http://127.0.0.1:9: Connection refused
    """

    def __init__(
        self,
        url: str = "http://127.0.0.1:8000",
        key: str | None = None,
        timeout: float = 5.0,
        retries: int = 4,
    ) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname or "@" in parts.netloc:
            raise InputError(
                "Client: url", "must be a URL such as http://127.0.0.1:8000, without a password"
            )
        if key is not None and not re.fullmatch("[!-~]+", key):
            raise InputError("Client: key", "must be an API key without spaces")
        self.url, self.timeout, self.retries = url.rstrip("/"), timeout, retries
        secure = parts.scheme == "https"
        kind = http.client.HTTPSConnection if secure else http.client.HTTPConnection
        self._connection = partial(kind, parts.hostname, parts.port)
        self._prefix = parts.path.rstrip("/")
        self._key = key
        self._address = parts.hostname, parts.port or (443 if secure else 80)
        self._idle: list[http.client.HTTPConnection] = []  # its pop and append are atomic

    def __repr__(self) -> str:
        return f"Client({self.url!r}{', key=…' if self._key else ''})"

    @property
    def _headers(self) -> dict[str, str]:
        # The token is read for each request, since the service may start after this client.
        key = read_token(*self._address) if self._key is None else self._key
        return {} if key is None else {"Authorization": f"Bearer {key}"}

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Close idle connections. A later call opens a new one."""
        with suppress(IndexError):  # another thread may take the last one
            while True:
                self._idle.pop().close()

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
        connection, path = (
            self._connection(timeout=STREAM_TIMEOUT),
            _at(campaign, f"/stream?after={after}"),
        )
        try:
            connection.request("GET", self._prefix + path, headers=self._headers)
            response = connection.getresponse()
            if response.status >= 300:
                raise _problem(response.status, response.read())
            for line in response:
                if line.startswith(b"data:"):
                    yield _decoded(line[5:], EventView)
        except CONNECTION_ERRORS as error:
            raise self._unreachable(error) from error
        finally:
            connection.close()

    def export(self, campaign: str, path: str | Path, after: int | None = None) -> int:
        """Export a campaign to a file whose name ends in .parquet, .csv or .jsonl.

        With `after`, export only the rows that changed after that event. Returns the `after` of the
        next export.
        """
        path = Path(path)
        connection = self._connection(timeout=EXPORT_TIMEOUT)
        try:
            address = _at(campaign, f"/export?format={quote(path.suffix[1:])}")
            if after is not None:
                address += f"&after={after}"
            connection.request("GET", self._prefix + address, headers=self._headers)
            response = connection.getresponse()
            if response.status >= 300:
                raise _problem(response.status, response.read())
            beside = path.with_name(f"{path.name}.part")
            with beside.open("wb") as file:
                shutil.copyfileobj(response, file)
            beside.replace(path)
            return int(response.headers["Entice-Last-Event"])
        except CONNECTION_ERRORS as error:
            raise self._unreachable(error) from error
        finally:
            connection.close()

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
        return _decoded(self._call("POST", "/v1/keys", body, retries=0), CreatedApiKey)

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

    def _ask(
        self, method: str, path: str, kind: type[T], body: Any = None, once: str | None = None
    ) -> T:
        return _decoded(self._call(method, path, body, once), kind)

    def _call(
        self, method: str, path: str, body: Any = None, once: str | None = None, retries: int = -1
    ) -> bytes:
        """Send a request, with retries, and return the body of the response."""
        headers, sent = self._headers, None
        if body is not None:
            sent, key = msgspec.json.encode(body), uuid.uuid4().hex if once is None else once
            headers = headers | {"Content-Type": "application/json", "Idempotency-Key": key}
        left = self.retries if retries < 0 else retries
        deadline, pause = time.monotonic() + (self.timeout + MAX_PAUSE) * left, FIRST_PAUSE
        while True:
            wait = pause * random.uniform(0.5, 1.0)
            try:
                connection, kept = self._idle.pop(), True
            except IndexError:
                connection, kept = self._connection(timeout=self.timeout), False
            try:
                connection.request(method, self._prefix + path, sent, headers)
                response = connection.getresponse()
                data = response.read()
            except BaseException as error:  # also Ctrl-C, which leaves a response half read
                connection.close()
                if not isinstance(error, CONNECTION_ERRORS):
                    raise
                if kept and not isinstance(error, TimeoutError):  # the service closed it while idle
                    self.close()
                    continue
                problem = self._unreachable(error)
            else:
                self._idle.append(connection)
                if response.status < 300:
                    return data
                problem = _problem(response.status, data)
                if response.status not in RETRIED_STATUSES or problem.kind == "out-of-order":
                    raise problem
                retry_after = response.headers.get("Retry-After", "")
                wait = max(wait, float(retry_after) if retry_after.isdecimal() else 0.0)
            if left == 0 or time.monotonic() + wait > deadline:
                raise problem
            time.sleep(wait)
            left, pause = left - 1, min(2 * pause, MAX_PAUSE)

    def _unreachable(self, error: Exception) -> ServiceError:
        reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
        return ServiceError(0, "unreachable", f"cannot reach {self.url}", reason)


def read_webhook(
    body: bytes, signature: str, secret: str, tolerance: float = 300.0
) -> WebhookPayload:
    """Check a request that a webhook received, and return its events.

    `body` is the request's body, byte for byte, `signature` its header Entice-Signature. Raises
    `InputError` if the signature is wrong or more than `tolerance` seconds old: then respond with
    status 400, and use nothing of the body.
    """
    found = re.fullmatch("t=([0-9]{1,12}),v1=([0-9a-f]{64})", signature)
    signed = (found[1] if found else "").encode() + b"." + body
    expected = hmac.digest(secret.encode(), signed, "sha256").hex()
    if found is None or not hmac.compare_digest(expected, found[2]):
        raise InputError("Entice-Signature", "must be the signature of the body")
    if abs(time.time() - int(found[1])) > tolerance:
        raise InputError("Entice-Signature", f"must be at most {tolerance:g} s old")
    return _decoded(body, WebhookPayload)


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


def _decoded(body: bytes, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.MsgspecError as error:
        raise ServiceError(0, "not-understood", "Unexpected response", str(error)) from error


def _problem(status: int, body: bytes) -> ServiceError:
    """Return the error for a response. If it is not problem details, only the status is used."""
    try:
        problem = msgspec.json.decode(body, type=dict[str, Any])
    except (msgspec.MsgspecError, UnicodeDecodeError):
        problem = {}
    kind = str(problem.get("type", "unknown")).rpartition(":")[2]
    title = str(problem.get("title", http.client.responses.get(status, "Unknown status")))
    return ServiceError(status, kind, title, str(problem.get("detail", "")), problem)
