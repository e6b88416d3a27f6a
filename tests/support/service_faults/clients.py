"""Clients that put load on a server, record its responses, and retry until they get one.

Each write has an idempotency key and is sent until it is acknowledged, whatever happens to the
server. A client sends one write at a time, so it knows exactly what must be in the database.
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
from service_faults.processes import LOST, token_header

SEGMENTS = ["new", "regular"]
TIMEOUT = 20.0
"""Seconds after which a request without a response or a broken connection counts as timed out."""
PAUSE = 0.02


class Acknowledged(NamedTuple):
    """A response, as a client recorded it."""

    key: str
    path: str
    sent: Any
    status: int
    body: bytes


class LoadClient(threading.Thread):
    """A client that makes offers, accepts and rates them, one write at a time."""

    def __init__(self, port: int, campaign: str, name: str, seed: int) -> None:
        super().__init__(name=name, daemon=True)
        self.acknowledged: list[Acknowledged] = []
        self.first_try = 0
        self.lost = 0
        """Requests whose connection broke …"""
        self.unavailable = 0
        """… that got status 503 …"""
        self.timed_out = 0
        """… or that timed out, which must not happen."""
        self.slowest = 0.0
        """Seconds of the slowest response."""
        self.server_errors: Counter[int] = Counter()
        """Responses with 5xx other than 503."""
        self.error: BaseException | None = None
        self._port = port
        self._token = token_header(port)
        self._campaign = campaign
        self._rng = random.Random(seed)
        self._ending = threading.Event()
        self._connection: http.client.HTTPConnection | None = None
        self._open: list[str] = []
        """Offers that are neither accepted nor declined yet."""
        self._sold: list[str] = []
        self._expected_effects = 0

    def run(self) -> None:
        """Send requests until `end` is called; the last request is completed."""
        try:
            while not self._ending.is_set():
                self._next()
        except BaseException as error:
            self.error = error
        finally:
            self._disconnect()

    def end(self) -> None:
        """Stop after the current request."""
        self._ending.set()

    def _next(self) -> None:
        rng, luck = self._rng, self._rng.random()
        offers = f"/v1/campaigns/{self._campaign}/offers"
        if luck < 0.05:
            rated = {"arm": f"item-{rng.randrange(5)}", "rating": rng.randint(1, 5)}
            arms = [{**rated, "segment": segment} for segment in SEGMENTS]
            self._write(f"/v1/campaigns/{self._campaign}/ratings", {"ratings": arms})
        elif luck < 0.10:
            players = [self._player() for _ in range(rng.randint(1, 8))]
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
            answer = self._write(offers, self._player())
            self._open += [answer["id"]] if "id" in answer else []

    def _player(self) -> dict[str, str]:
        """Return a request for a new player, so that every request makes a new offer."""
        self._expected_effects += 1
        number = self._expected_effects
        return {"player": f"{self.name} player {number}", "segment": SEGMENTS[number % 2]}

    def _write(self, path: str, sent: Any) -> Any:
        """Send a write until it is acknowledged."""
        key = f"{self.name}-{len(self.acknowledged) + 1}"
        body = json.dumps(sent).encode()
        tries = 0
        while True:
            tries += 1
            try:
                status, answer = self._send(path, body, key)
            except TimeoutError:
                self.timed_out += 1
            except LOST:
                self.lost += 1
            else:
                if status < 500:
                    self.acknowledged.append(Acknowledged(key, path, sent, status, answer))
                    self.first_try += tries == 1
                    return json.loads(answer)
                if status == 503:
                    self.unavailable += 1
                else:
                    self.server_errors[status] += 1
            self._disconnect()
            if tries > 10_000:
                raise RuntimeError(f"{path} was never acknowledged")
            time.sleep(PAUSE)

    def _send(self, path: str, body: bytes, key: str) -> tuple[int, bytes]:
        if self._connection is None:
            self._connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=TIMEOUT)
        headers = {"Content-Type": "application/json", "Idempotency-Key": key, **self._token}
        start = time.monotonic()
        self._connection.request("POST", path, body, headers)
        response = self._connection.getresponse()
        answer = response.read()
        self.slowest = max(self.slowest, time.monotonic() - start)
        return response.status, answer

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


@contextmanager
def running_clients(port: int, campaign: str, number: int, name: str) -> Iterator[list[LoadClient]]:
    """Run clients during a block; at its end all their requests are completed."""
    clients = [LoadClient(port, campaign, f"{name}-{i}", seed=i) for i in range(number)]
    for client in clients:
        client.start()
    try:
        yield clients
    finally:
        for client in clients:
            client.end()
        for client in clients:
            client.join(2 * TIMEOUT)


class Check(NamedTuple):
    """A comparison of the acknowledged writes with the database."""

    acknowledged_writes: int
    lost: int
    """Acknowledged writes that are missing from the database, or differ."""
    duplicated: int
    """Events in the log without an acknowledged request, or more than requested."""
    without_response: int
    """Requests that timed out or got a server error."""
    problems: list[str]
    """Findings of verification, of the audit and of the clients."""
    decisions: int
    events: int

    @property
    def passed(self) -> bool:
        """Whether nothing is wrong."""
        return self.lost == self.duplicated == self.without_response == 0 and not self.problems


def check(store: Store, campaign: str, clients: list[LoadClient]) -> Check:
    """Compare the acknowledged writes with the database, after all clients have stopped."""
    acknowledged = [answer for client in clients for answer in client.acknowledged]
    done = [answer for answer in acknowledged if answer.status < 300]
    with store.read() as session:
        stored = {
            str(key): (status, bytes(body))
            for key, status, body in session.rows("SELECT key, status, body FROM answers")
        }
    lost = sum(stored.get(answer.key) != (answer.status, answer.body) for answer in done)
    found, states = _effects(store, campaign)
    lost += sum(states.get(offer) != state for offer, state in _last_states(done).items())
    expected = _expected_effects(done)
    kinds = expected.keys() | found.keys()
    duplicated = sum(abs(found[kind] - expected[kind]) for kind in kinds)
    seen = audit(store, campaign)
    problems = faults(store)
    if not seen.passed:
        problems.append(f"the audit: {seen}")
    problems += [
        f"{client.name}: {client.error!r}" for client in clients if client.error is not None
    ]
    problems += [f"{client.name} does not stop" for client in clients if client.is_alive()]
    rejected = [answer for answer in acknowledged if answer.status >= 300]
    problems += [f"{a.path}: {a.status} {a.body.decode()[:200]}" for a in rejected[:5]]
    without_response = sum(client.timed_out + client.server_errors.total() for client in clients)
    return Check(
        len(done), lost, duplicated, without_response, problems, seen.decisions, seen.events
    )


def _effects(store: Store, campaign: str) -> tuple[Counter[str], dict[str, str]]:
    """Count the events in the log, and return the state of each offer."""
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


def _expected_effects(done: list[Acknowledged]) -> Counter[str]:
    """Count the events that the acknowledged writes imply."""
    expected: Counter[str] = Counter()
    for answer in done:
        end = answer.path.rpartition("/")[2]
        match end:
            case "ratings":
                expected["organic"] += len(answer.sent["ratings"])
            case "batch":
                expected["offered"] += len(answer.sent["requests"])
            case "offers":
                expected["offered"] += 1
            case _:
                expected[_EFFECT[end]] += 1
    return expected


def _last_states(done: list[Acknowledged]) -> dict[str, str]:
    """Return the state of each offer by its last acknowledged write."""
    states: dict[str, str] = {}
    for answer in done:
        body = json.loads(answer.body)
        for offer in body.get("offers", [body] if "state" in body else []):
            states[offer["id"]] = offer["state"]
    return states
