"""A client of the live service: `entice serve` at the other end, the standard library at this one.

Each write carries an idempotency key of its own, so a call that lost its connection, or was told
to come back later (429, 503), is sent again without harm: the service does it once and gives the
same answer. What can't be mended that way is a `ServiceError`, with what the service said.

    from entice.client import Client

    with Client("http://127.0.0.1:8000", key="entice_…") as shop:
        tea = shop.create_campaign(
            name="tea", arms=["assam", "sencha", "oolong"], budget=100_00, price_of_a_star=2_00
        )
        offer = shop.offer(tea.id, "customer 1")     # show offer.arm, promise offer.amount
        shop.accept(offer.id)                        # or shop.decline(offer.id)
        shop.rate(offer.id, 4)                       # minutes or weeks later, or never

Money is in whole minor units (cents, where the currency has two decimals: `currency_digits`);
ratings and payments are in stars.
"""

from __future__ import annotations

import http.client
import random
import re
import shutil
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeVar
from urllib.parse import quote, urlsplit

import msgspec

from entice.api_types import (
    ArmView,
    CampaignView,
    DriftView,
    EventPage,
    EventView,
    OfferHistory,
    OfferView,
    SpendingView,
)
from entice.errors import EnticeError, InputError

COME_BACK = (429, 502, 503, 504)  # nothing was done, or its answer was lost on the way
LOST = (OSError, http.client.HTTPException)
FIRST_PAUSE, LONGEST_PAUSE = 0.25, 5.0  # seconds between attempts
EXPORTING = 600.0  # seconds that a large export may take before its first byte
SILENCE = 60.0  # seconds without a word after which a stream is taken for lost
T = TypeVar("T")
Ids = Sequence[str] | None
Stars = Mapping[str, float] | None


class ServiceError(EnticeError):
    """The service refused, or could not be reached (then `status` is 0).

    `kind`, `title` and `detail` are those of its problem (RFC 9457), and `problem` is all of it,
    with the ``state`` that an offer is in, for one.
    """

    def __init__(
        self, status: int, kind: str, title: str, detail: str, problem: dict[str, Any] | None = None
    ) -> None:
        told = f"{title}: {detail}" if detail else title
        super().__init__(f"{told} ({status}, {kind})" if status else told)
        self.status, self.kind, self.title, self.detail = status, kind, title, detail
        self.problem = problem or {}


class Client(AbstractContextManager["Client"]):
    """Talks to one service. Threads may share it: each call in progress has its own connection.

    Parameters
    ----------
    url
        Where the service is, as ``http://127.0.0.1:8000`` or ``https://shop.example/entice``.
    key
        An API key, as `entice keys create` showed it.
    timeout
        Seconds to wait for the network in one attempt.
    retries
        Attempts after the first one, after pauses that double from a quarter of a second to five,
        with chance in them so that clients do not come back all at once, and that are no shorter
        than a Retry-After. No attempt begins later than `retries` times (`timeout` + 5) seconds.

    >>> from entice.client import Client
    >>> client = Client("http://127.0.0.1:9", key="entice_0123abcd_secret", retries=0)
    >>> client
    Client('http://127.0.0.1:9', key=…)
    >>> client.campaigns()
    Traceback (most recent call last):
        ...
    entice.client.ServiceError: http://127.0.0.1:9 can't be reached: Connection refused
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
            raise InputError("Client: url", "must be like http://127.0.0.1:8000, with no password")
        if key is not None and not re.fullmatch("[!-~]+", key):
            raise InputError("Client: key", "must be an API key as it was shown, and nothing else")
        self.url, self.timeout, self.retries = url.rstrip("/"), timeout, retries
        secure = parts.scheme == "https"
        kind = http.client.HTTPSConnection if secure else http.client.HTTPConnection
        self._connection = partial(kind, parts.hostname, parts.port)
        self._prefix = parts.path.rstrip("/")
        self._headers = {} if key is None else {"Authorization": f"Bearer {key}"}
        self._idle: list[http.client.HTTPConnection] = []  # its pop and append are atomic

    def __repr__(self) -> str:
        return f"Client({self.url!r}{', key=…' if self._headers else ''})"

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Close idle connections. A later call would open one again."""
        with suppress(IndexError):  # also when another thread takes the last one meanwhile
            while True:
                self._idle.pop().close()

    def create_campaign(self, *, once: str | None = None, **settings: Any) -> CampaignView:
        """Create a campaign from its settings, as a campaign's TOML file has them.

        `once` is an idempotency key of your own: with it, two runs of a program create one.
        """
        return self._ask("POST", "/v1/campaigns", CampaignView, settings, once)

    def campaigns(self) -> list[CampaignView]:
        """List the campaigns that the key may see."""
        return self._ask("GET", "/v1/campaigns", list[CampaignView])

    def campaign(self, campaign: str) -> CampaignView:
        """Show a campaign."""
        return self._ask("GET", _at(campaign), CampaignView)

    def change_campaign(self, campaign: str, **changes: Any) -> CampaignView:
        """Change the status (live, paused, shadow, closed), the budget, a cap (None lifts it)."""
        return self._ask("PATCH", _at(campaign), CampaignView, changes)

    def arms(self, campaign: str) -> list[ArmView]:
        """Show averages, counts and what is in flight."""
        return self._ask("GET", _at(campaign, "/arms"), list[ArmView])

    def add_arms(self, campaign: str, *arms: str) -> list[ArmView]:
        """Add arms to a campaign, which goes on meanwhile."""
        return self._ask("POST", _at(campaign, "/arms"), list[ArmView], {"arms": arms})

    def retire_arm(self, campaign: str, arm: str, retired: bool = True) -> ArmView:
        """Offer an arm no longer, or again."""
        path = _at(campaign, f"/arms/{quote(arm, safe='')}")
        return self._ask("PATCH", path, ArmView, {"retired": retired})

    def offer(
        self, campaign: str, player: str, *, eligible: Ids = None, displayed: Stars = None
    ) -> OfferView:
        """Ask what to offer a player; while that offer is open, asking again gives it again.

        `eligible` are the arms that may be offered to this player, `displayed` the averages in
        stars that this player sees: give them where they are not simply those of the campaign.
        """
        body = {"player": player, "eligible": eligible, "displayed": displayed}
        return self._ask("POST", _at(campaign, "/offers"), OfferView, body)

    def offers(self, campaign: str, players: Iterable[str | Mapping[str, Any]]) -> list[OfferView]:
        """Ask for up to 1,000 players at once: their ids, or tables of what `offer` takes."""
        asked = [{"player": one} if isinstance(one, str) else one for one in players]
        path, kind = _at(campaign, "/offers/batch"), dict[str, list[OfferView]]
        return self._ask("POST", path, kind, {"requests": asked})["offers"]

    def history(self, offer: str) -> OfferHistory:
        """Show everything about an offer: what became of it, the arithmetic of its price."""
        return self._ask("GET", _of(offer), OfferHistory)

    def accept(self, offer: str, amount: int | None = None) -> OfferView:
        """Tell that the player took the offer, for its amount or for less."""
        body = {} if amount is None else {"amount": amount}
        return self._ask("POST", _of(offer, "/accept"), OfferView, body)

    def decline(self, offer: str) -> OfferView:
        """Tell that the player did not take the offer: its money is free again."""
        return self._ask("POST", _of(offer, "/decline"), OfferView, {})

    def rate(self, offer: str, rating: int) -> OfferView:
        """Enter the rating that came of an accepted offer, or another one than before."""
        return self._ask("POST", _of(offer, "/rating"), OfferView, {"rating": rating})

    def reverse(self, offer: str) -> OfferView:
        """Undo an accepted or rated offer: its money is free again, its rating gone."""
        return self._ask("POST", _of(offer, "/reverse"), OfferView, {})

    def enter_ratings(
        self, campaign: str, ratings: Iterable[tuple[str, int]], *, once: str | None = None
    ) -> int:
        """Enter ratings, pairs of arm and stars, of players who came without an offer."""
        body = {"ratings": [{"arm": arm, "rating": stars} for arm, stars in ratings]}
        path, kind = _at(campaign, "/ratings"), dict[str, int]
        return self._ask("POST", path, kind, body, once)["entered"]

    def drift(self, campaign: str) -> DriftView:
        """Estimate the drift of a campaign that has a probe."""
        return self._ask("GET", _at(campaign, "/drift"), DriftView)

    def spending(
        self, campaign: str, by: Literal["date", "offer"] = "date", points: int = 200
    ) -> SpendingView:
        """Return how the spending grew, by date or by number of offers, in at most so many points.

        The service reads a long log in parts. This asks until the whole history has been read.
        """
        path = _at(campaign, f"/spending?by={quote(by)}&points={points}")
        found = self._ask("GET", path, SpendingView)
        while found.through < found.events:
            found = self._ask("GET", path, SpendingView)
        return found

    def events(self, campaign: str, after: int = 0, page: int = 500) -> Iterator[EventView]:
        """Go through the log from behind an event to the end; keep the last `seq` to go on."""
        onward: int | None = after
        while onward is not None:
            query = f"/events?after={onward}&limit={page}"
            found = self._ask("GET", _at(campaign, query), EventPage)
            yield from found.events
            onward = found.next

    def stream(self, campaign: str, after: int = 0) -> Iterator[EventView]:
        """Follow the log as it grows, until the service ends; keep the last `seq` to go on."""
        connection, path = (
            self._connection(timeout=SILENCE),
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
        except LOST as error:
            raise self._unreachable(error) from error
        finally:
            connection.close()

    def export(self, campaign: str, path: str | Path) -> None:
        """Save a campaign's decisions to a file whose name ends in .parquet, .csv or .jsonl."""
        path = Path(path)
        connection = self._connection(timeout=EXPORTING)
        try:
            address = _at(campaign, f"/export?format={quote(path.suffix[1:])}")
            connection.request("GET", self._prefix + address, headers=self._headers)
            response = connection.getresponse()
            if response.status >= 300:
                raise _problem(response.status, response.read())
            beside = path.with_name(f"{path.name}.part")
            with beside.open("wb") as file:
                shutil.copyfileobj(response, file)
            beside.replace(path)
        except LOST as error:
            raise self._unreachable(error) from error
        finally:
            connection.close()

    def ready(self) -> bool:
        """Tell whether the service is up, and its database sound and writable."""
        try:
            return self._call("GET", "/readyz", retries=0) is not None
        except ServiceError:
            return False

    def metrics(self) -> str:
        """Get what Prometheus reads."""
        return self._call("GET", "/metrics").decode()

    def _ask(
        self, method: str, path: str, kind: type[T], body: Any = None, once: str | None = None
    ) -> T:
        return _decoded(self._call(method, path, body, once), kind)

    def _call(
        self, method: str, path: str, body: Any = None, once: str | None = None, retries: int = -1
    ) -> bytes:
        """Send a request until it is answered, and return the answer's body."""
        headers, sent = self._headers, None
        if body is not None:
            sent, key = msgspec.json.encode(body), uuid.uuid4().hex if once is None else once
            headers = headers | {"Content-Type": "application/json", "Idempotency-Key": key}
        left = self.retries if retries < 0 else retries
        last, pause = time.monotonic() + (self.timeout + LONGEST_PAUSE) * left, FIRST_PAUSE
        while True:
            wait = pause * random.uniform(0.5, 1.0)
            try:
                connection, kept = self._idle.pop(), True
            except IndexError:
                connection, kept = self._connection(timeout=self.timeout), False
            try:
                connection.request(method, self._prefix + path, sent, headers)
                response = connection.getresponse()
                answer = response.read()
            except BaseException as error:  # Ctrl-C too: the next call must not read half an answer
                connection.close()
                if not isinstance(error, LOST):
                    raise
                if kept and not isinstance(error, TimeoutError):  # closed while it was idle
                    self.close()
                    continue
                problem = self._unreachable(error)
            else:
                self._idle.append(connection)
                if response.status < 300:
                    return answer
                problem = _problem(response.status, answer)
                if response.status not in COME_BACK or problem.kind == "out-of-order":
                    raise problem
                asked = response.headers.get("Retry-After", "")
                wait = max(wait, float(asked) if asked.isdecimal() else 0.0)
            if left == 0 or time.monotonic() + wait > last:
                raise problem
            time.sleep(wait)
            left, pause = left - 1, min(2 * pause, LONGEST_PAUSE)

    def _unreachable(self, error: Exception) -> ServiceError:
        reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
        return ServiceError(0, "unreachable", f"{self.url} can't be reached", reason)


def _at(campaign: str, rest: str = "") -> str:
    return f"/v1/campaigns/{_id('campaign', campaign)}{rest}"


def _of(offer: str, rest: str = "") -> str:
    return f"/v1/offers/{_id('offer', offer)}{rest}"


def _id(what: str, given: object) -> str:
    if not isinstance(given, str):
        todo = f"Pass {what}.id instead of the {what}."
        raise InputError(what, "must be an id, which is text", given=given, todo=todo)
    return quote(given, safe="")


def _decoded(body: bytes, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.MsgspecError as error:
        raise ServiceError(0, "not-understood", "The answer can't be read", str(error)) from error


def _problem(status: int, body: bytes) -> ServiceError:
    """Read a problem; what is none (a proxy's page, say) is told by its status."""
    try:
        told = msgspec.json.decode(body, type=dict[str, Any])
    except (msgspec.MsgspecError, UnicodeDecodeError):
        told = {}
    kind = str(told.get("type", "unknown")).rpartition(":")[2]
    title = str(told.get("title", http.client.responses.get(status, "Unknown status")))
    return ServiceError(status, kind, title, str(told.get("detail", "")), told)
