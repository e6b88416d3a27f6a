"""Fuzzing: whatever is sent, no 5xx, and every error is a problem in the form of RFC 9457."""

from __future__ import annotations

import contextlib
import http.client
import itertools
import json
from collections import Counter
from collections.abc import Mapping
from contextlib import closing
from typing import Any

import hypothesis
from tracing import untraced

from entice.service.storage.sqlite import SqliteStore
from service_faults.audit import faults
from service_faults.hostile_requests import CAMPAIGN, Monster, life, monsters
from service_faults.outcome import Outcome
from service_faults.processes import BROKEN, LOST, Server, call, folder

STEPS, SCENARIOS = 12, 20
"""Requests in a row that build on each other, and rows with the same seed."""

PATIENCE = 120.0
"""Seconds without a word: who asks for the paper first waits until it is compiled."""


class Judge:
    """Looks at answers."""

    def __init__(self) -> None:
        self.seen: Counter[int] = Counter()
        self.bad: list[str] = []
        self.no_http = 0
        """Requests that were not HTTP: the server's parser refused them before the service saw
        them, with a status alone."""
        self.succeeded: set[str] = set()
        """Operations that have done what they are for."""

    def look(self, what: str, status: int, headers: Mapping[str, str], body: bytes) -> None:
        """Note an answer; complain if it breaks a promise."""
        self.seen[status] += 1
        if status < 300:
            self.succeeded.add(" ".join(what.split()[:2]))
        if status >= 500:
            self.bad.append(f"{what}: {status} {body[:200]!r}")
        elif status in (400, 431) and not body and "x-request-id" not in headers:
            self.no_http += 1
        elif status >= 400 and not what.startswith("HEAD") and (fault := _fault(headers, body)):
            self.bad.append(f"{what}: {status}, {fault}")

    def look_at(self, case: Any, response: Any) -> None:
        """Look at the answer to a case of schemathesis."""
        headers = {name.lower(): values[0] for name, values in response.headers.items()}
        what = f"{case.method} {case.operation.path} {case.body!r:.300}"
        self.look(what, response.status_code, headers, response.content or b"")

    @property
    def cases(self) -> int:
        """How many there were."""
        return self.seen.total()

    def told(self) -> str:
        """How many answers of each kind."""
        kinds = Counter({f"{k}xx": 0 for k in (2, 4, 5)})
        for status, number in self.seen.items():
            kinds[f"{status // 100}xx"] += number
        return ", ".join(f"{number:,} {kind}" for kind, number in sorted(kinds.items()))


def _fault(headers: Mapping[str, str], body: bytes) -> str | None:
    """Say what keeps an error from being a problem by RFC 9457."""
    kind = headers.get("content-type", "none")
    if kind != "application/problem+json":
        return f"of type {kind}: {body[:200]!r}"
    try:
        told = json.loads(body)
    except ValueError:
        return f"not JSON: {body[:200]!r}"
    wrong = [name for name in ("type", "title", "status", "detail") if name not in told]
    return f"without {', '.join(wrong)}" if wrong else None


@untraced  # the service is in another process
def explore(port: int, cases: int, judge: Judge) -> None:
    """Let schemathesis follow the links in the description, with data that fit and that do not."""
    import schemathesis

    described: Any = schemathesis.openapi.from_url(f"http://127.0.0.1:{port}/openapi.json")
    # Streams have no end; they are tested apart, and so is the description.
    described = described.exclude(path_regex="/stream$|/openapi.json$")
    _alone(described, cases // 5, judge)
    everything = _machine(described, judge)
    # Left to chance, most of a row are reads. Without them it gets to the end of an offer's life.
    writes = _machine(described.exclude(method="GET"), judge)
    for seed in itertools.count():
        if judge.cases >= cases:
            return
        machine = writes if seed % 2 else everything
        hypothesis.seed(seed)(machine)
        settings = _settings(max_examples=SCENARIOS, stateful_step_count=STEPS)
        # What one row leaves is there for the next, so that the same answers never come again:
        # Hypothesis calls this flaky. The next rows have another seed.
        with contextlib.suppress(
            hypothesis.errors.Flaky, hypothesis.errors.FlakyStrategyDefinition
        ):
            machine.run(settings=settings)


def _settings(**more: Any) -> hypothesis.settings:
    return hypothesis.settings(
        deadline=None,
        database=None,
        phases=[hypothesis.Phase.generate],
        suppress_health_check=list(hypothesis.HealthCheck),
        **more,
    )


def _alone(described: Any, cases: int, judge: Judge) -> None:
    """Call each operation by itself: not all of them are at the end of a link."""
    from schemathesis import GenerationMode

    operations = [result.ok() for result in described.get_all_operations()]
    for operation, mode in itertools.product(operations, GenerationMode):
        settings = _settings(max_examples=max(3, cases // len(operations) // 2))

        @hypothesis.seed(1)
        @settings
        @hypothesis.given(case=operation.as_strategy(generation_mode=mode))
        def try_one(case: Any) -> None:
            judge.look_at(case, case.call(timeout=PATIENCE))

        # Some operations take nothing that could be wrong.
        with contextlib.suppress(hypothesis.errors.Unsatisfiable):
            try_one()


def _machine(described: Any, judge: Judge) -> Any:
    base: Any = described.as_state_machine()

    class Machine(base):  # type: ignore[misc]
        def get_call_kwargs(self, case: Any) -> dict[str, Any]:
            return {"timeout": PATIENCE}

        def validate_response(self, response: Any, case: Any, *_: Any, **__: Any) -> None:
            judge.look_at(case, response)

    return Machine


@untraced
def release(port: int, judge: Judge) -> None:
    """Send the monsters."""
    _, body = call(port, "POST", "/v1/campaigns", json.dumps(CAMPAIGN).encode(), timeout=60)
    campaign = json.loads(body)["id"]
    _, body = call(port, "POST", f"/v1/campaigns/{campaign}/offers", b'{"player": "first"}')
    offer = json.loads(body)["id"]
    with closing(Wire(port, judge)) as wire:
        for monster in monsters(campaign, offer):
            told = wire.send(monster)
            if (monster.method, monster.path) == ("POST", "/v1/campaigns") and "id" in told:
                for step in life(told):
                    wire.send(step)


class Wire:
    """A connection that sends requests as they are: http.client has opinions of its own."""

    def __init__(self, port: int, judge: Judge) -> None:
        self._judge = judge
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)

    def send(self, monster: Monster) -> dict[str, Any]:
        """Send a request, have the answer judged, and return what it says if all went well."""
        try:
            status, headers, body = _send(self._connection, monster)
        except LOST as error:
            self._judge.bad.append(f"{_name(monster)}: {error!r}")
            self._connection.close()
            return {}
        self._judge.look(_name(monster), status, headers, body)
        if headers.get("connection") == "close":
            self._connection.close()
        told = json.loads(body) if status == 201 else {}
        return told if isinstance(told, dict) else {}

    def close(self) -> None:
        """Hang up."""
        self._connection.close()


def _name(monster: Monster) -> str:
    body = "" if monster.body is None else repr(monster.body[:80])
    headers = str(monster.headers)[:80]
    return f"{monster.method} {monster.path[:80]} ({monster.name}) {headers} {body}"


def _send(
    connection: http.client.HTTPConnection, monster: Monster
) -> tuple[int, dict[str, str], bytes]:
    lines = [f"{monster.method} {monster.path} HTTP/1.1"]
    if "Host" not in monster.headers:
        lines.append(f"Host: 127.0.0.1:{connection.port}")
    lines += [f"{name}: {value}" for name, value in monster.headers.items()]
    if monster.body is not None:
        lines.append(f"Content-Length: {len(monster.body)}")
    head = "\r\n".join([*lines, "", ""]).encode("utf-8", "surrogateescape")
    if connection.sock is None:
        connection.connect()
    connection.sock.sendall(head + (monster.body or b""))
    response = http.client.HTTPResponse(connection.sock, method=monster.method)
    try:
        response.begin()
        body = response.read()
    finally:
        response.close()
    return response.status, {k.lower(): v for k, v in response.getheaders()}, body


def run(long: bool) -> Outcome:
    """Try 20,000 cases, or 150 in short, and all monsters; the control has a route that breaks."""
    cases = 20_000 if long else 150
    found, sent, control = Judge(), Judge(), Judge()
    with folder() as where:
        path = where / "entice.db"
        with Server(f"sqlite:///{path}", where) as server:
            explore(server.port, cases, found)
            operations = _operations(server.port)
            release(server.port, sent)
            server.stop()
        with closing(SqliteStore(path)) as store:
            broken = faults(store)
    with folder() as where, Server(f"sqlite:///{where}/entice.db", where, kind=BROKEN) as server:
        explore(server.port, cases // 5, control)
    caught = [what for what in control.bad if "/v1/divide" in what]
    bad = [*broken, *found.bad, *sent.bad]
    return Outcome(
        "schemathesis and monsters",
        f"{found.cases:,} cases, most of them stateful ({found.told()}; {len(found.succeeded)} of "
        f"{operations} operations have succeeded), {sent.cases:,} hand-made monsters "
        f"({sent.told()}; of these {sent.no_http} were no HTTP and ended at the parser)",
        f"{len(found.bad) + len(sent.bad)} answers with 5xx or not in the form of RFC 9457; "
        f"{len(broken)} faults in the logs afterwards" + "".join(f"; {what}" for what in bad[:3]),
        f"a route that breaks: found in {len(caught)} of {control.cases:,} cases",
        not bad and bool(caught) and (not long or len(found.succeeded) == operations),
    )


def _operations(port: int) -> int:
    """How many operations the description has, apart from the stream and itself."""
    paths = json.loads(call(port, "GET", "/openapi.json")[1])["paths"]
    cache_aligned = ("/stream", "/openapi.json")
    return sum(len(methods) for path, methods in paths.items() if not path.endswith(cache_aligned))
