"""Shops that call a server all the time, note what they were told, and repeat what was not told.

Each write has an idempotency key. A shop sends it until it is answered, whatever happens to the
server meanwhile, and never two at a time: so it knows exactly what must be in the database.
"""

from __future__ import annotations

import http.client
import json
import random
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from entice.service.storage.store import Store
from service_faults.audit import audit, bodies, faults
from service_faults.processes import LOST

PATIENCE = 20.0
"""Seconds after which a request that is neither answered nor broken off counts as forgotten."""
PAUSE = 0.02


class Told(NamedTuple):
    """An answer, as a shop noted it."""

    key: str
    path: str
    sent: Any
    status: int
    body: bytes


class Shop(threading.Thread):
    """One client: offers, acceptances, ratings, one after the other."""

    def __init__(self, port: int, campaign: str, name: str, seed: int) -> None:
        super().__init__(name=name, daemon=True)
        self.told: list[Told] = []
        self.first_try = 0
        self.lost = 0
        """Times that the connection broke, so that it was plain that no answer would come …"""
        self.later = 0
        """… or that it was told to come back (503) …"""
        self.forgotten = 0
        """… or that it waited in vain, which must not happen."""
        self.wrong: Counter[int] = Counter()
        """Answers that say that the server is broken: 5xx apart from 503."""
        self.error: BaseException | None = None
        self._port = port
        self._campaign = campaign
        self._rng = random.Random(seed)
        self._ending = threading.Event()
        self._connection: http.client.HTTPConnection | None = None
        self._open: list[str] = []
        """Offers that this shop has not answered yet."""
        self._sold: list[str] = []
        self._asked = 0

    def run(self) -> None:
        """Call until told to end; the last request is answered too."""
        try:
            while not self._ending.is_set():
                self._next()
        except BaseException as error:
            self.error = error
        finally:
            self._hang_up()

    def end(self) -> None:
        """Let it finish its request, and end."""
        self._ending.set()

    def _next(self) -> None:
        rng, luck = self._rng, self._rng.random()
        offers = f"/v1/campaigns/{self._campaign}/offers"
        if luck < 0.05:
            arms = [{"arm": f"item-{rng.randrange(5)}", "rating": rng.randint(1, 5)}] * 2
            self._write(f"/v1/campaigns/{self._campaign}/ratings", {"ratings": arms})
        elif luck < 0.10:
            players = [{"player": self._player()} for _ in range(rng.randint(1, 8))]
            answer = self._write(f"{offers}/batch", {"requests": players})
            self._open += [offer["id"] for offer in answer.get("offers", [])]
        elif self._open and luck < 0.55:
            offer = self._open.pop(rng.randrange(len(self._open)))
            if rng.random() < 0.2:
                self._write(f"/v1/offers/{offer}/decline", {})
            else:
                self._write(f"/v1/offers/{offer}/accept", {})
                self._sold.append(offer)
        elif self._sold and luck < 0.75:
            offer = self._sold.pop(rng.randrange(len(self._sold)))
            if rng.random() < 0.9:
                self._write(f"/v1/offers/{offer}/rating", {"rating": rng.randint(1, 5)})
            else:
                self._write(f"/v1/offers/{offer}/reverse", {})
        else:
            answer = self._write(offers, {"player": self._player()})
            self._open += [answer["id"]] if "id" in answer else []

    def _player(self) -> str:
        """A new one each time, so that each offer is one of its own."""
        self._asked += 1
        return f"{self.name} player {self._asked}"

    def _write(self, path: str, sent: Any) -> Any:
        """Send until answered."""
        key = f"{self.name}-{len(self.told) + 1}"
        body = json.dumps(sent).encode()
        tries = 0
        while True:
            tries += 1
            try:
                status, answer = self._send(path, body, key)
            except TimeoutError:
                self.forgotten += 1
            except LOST:
                self.lost += 1
            else:
                if status < 500:
                    self.told.append(Told(key, path, sent, status, answer))
                    self.first_try += tries == 1
                    return json.loads(answer)
                if status == 503:
                    self.later += 1
                else:
                    self.wrong[status] += 1
            self._hang_up()
            if tries > 10_000:
                raise RuntimeError(f"{path} was never answered")
            time.sleep(PAUSE)

    def _send(self, path: str, body: bytes, key: str) -> tuple[int, bytes]:
        if self._connection is None:
            self._connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=PATIENCE)
        headers = {"Content-Type": "application/json", "Idempotency-Key": key}
        self._connection.request("POST", path, body, headers)
        response = self._connection.getresponse()
        return response.status, response.read()

    def _hang_up(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


@contextmanager
def shops_at_work(port: int, campaign: str, number: int, name: str) -> Iterator[list[Shop]]:
    """So many shops, which end with the block; all their requests have been answered by then."""
    shops = [Shop(port, campaign, f"{name}-{i}", seed=i) for i in range(number)]
    for shop in shops:
        shop.start()
    try:
        yield shops
    finally:
        for shop in shops:
            shop.end()
        for shop in shops:
            shop.join(2 * PATIENCE)


class Check(NamedTuple):
    """What the shops were told, against what is there."""

    answered: int
    lost: int
    """Answers that the database knows nothing of, or otherwise."""
    twice: int
    """Effects in the log that nobody was told of, or more often than they were asked for."""
    unanswered: int
    """Requests that were forgotten, or answered with a server's error."""
    broken: list[str]
    """What verification, the audit and the shops have to complain about."""
    decisions: int
    events: int

    @property
    def passed(self) -> bool:
        """Whether all is as it must be."""
        return self.lost == self.twice == self.unanswered == 0 and not self.broken


def check(store: Store, campaign: str, shops: list[Shop]) -> Check:
    """Compare, when all is quiet."""
    told = [answer for shop in shops for answer in shop.told]
    done = [answer for answer in told if answer.status < 300]
    with store.read() as session:
        kept = {
            str(key): (status, bytes(body))
            for key, status, body in session.rows("SELECT key, status, body FROM answers")
        }
    lost = sum(kept.get(answer.key) != (answer.status, answer.body) for answer in done)
    found, states = _effects(store, campaign)
    lost += sum(states.get(offer) != state for offer, state in _last_states(done).items())
    asked = _asked(done)
    kinds = asked.keys() | found.keys()
    twice = sum(abs(found[kind] - asked[kind]) for kind in kinds)
    seen = audit(store, campaign)
    broken = faults(store)
    if not seen.sound:
        broken.append(f"the audit: {seen}")
    broken += [f"{shop.name}: {shop.error!r}" for shop in shops if shop.error is not None]
    broken += [f"{shop.name} does not end" for shop in shops if shop.is_alive()]
    refused = [answer for answer in told if answer.status >= 300]
    broken += [f"{a.path}: {a.status} {a.body.decode()[:200]}" for a in refused[:5]]
    unanswered = sum(shop.forgotten + shop.wrong.total() for shop in shops)
    return Check(len(done), lost, twice, unanswered, broken, seen.decisions, seen.events)


def _effects(store: Store, campaign: str) -> tuple[Counter[str], dict[str, str]]:
    """Count what has happened by the log, and say where each offer stands."""
    found: Counter[str] = Counter()
    states: dict[str, str] = {}
    for _, body, _ in bodies(store, campaign):
        event = json.loads(body)
        found[event["kind"]] += 1
        if "n" in event:
            states[f"{campaign}.{event['n']}"] = event["kind"]
    del found["created"]
    return found, states


_EFFECT = {
    "accept": "accepted",
    "decline": "declined",
    "rating": "rated",
    "reverse": "reversed",
}


def _asked(done: list[Told]) -> Counter[str]:
    """Count what must have happened, by the answers."""
    asked: Counter[str] = Counter()
    for answer in done:
        end = answer.path.rpartition("/")[2]
        match end:
            case "ratings":
                asked["organic"] += len(answer.sent["ratings"])
            case "batch":
                asked["offered"] += len(answer.sent["requests"])
            case "offers":
                asked["offered"] += 1
            case _:
                asked[_EFFECT[end]] += 1
    return asked


def _last_states(done: list[Told]) -> dict[str, str]:
    """Where each offer stands, by the last answer about it."""
    states: dict[str, str] = {}
    for answer in done:
        body = json.loads(answer.body)
        for offer in body.get("offers", [body] if "state" in body else []):
            states[offer["id"]] = offer["state"]
    return states
