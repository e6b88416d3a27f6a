"""Fuzzing: no request causes a 5xx, and every error has problem details (RFC 9457)."""

from __future__ import annotations

import contextlib
import http.client
import itertools
import json
import random
import re
from collections import Counter
from collections.abc import Mapping
from contextlib import closing
from typing import Any

import hypothesis
from sizes import sized
from tracing import untraced

from entice.service.storage.sqlite import SqliteStore
from service_faults.audit import faults
from service_faults.hostile_requests import CAMPAIGN, HostileRequest, hostile_requests, lifecycle
from service_faults.outcome import Outcome
from service_faults.processes import BROKEN, LOST, Server, call, folder, token_header

STEPS, SCENARIOS = 12, sized(6, 20)
"""Requests in a row that build on each other, and rows with the same seed."""

EXCLUDED = "/stream$|/openapi.json$|/v1/keys"
"""Paths of streams, which do not end, of the document itself, and of keys: the first key would
replace the token."""

TIMEOUT = 120.0
"""Seconds without data: the first request for the paper waits for compilation."""


class ResponseChecker:
    """Checks and counts responses."""

    def __init__(self) -> None:
        self.seen: Counter[int] = Counter()
        self.bad: list[str] = []
        self.no_http = 0
        """Requests that were not HTTP: the server's parser refused them before the service saw
        them, with a status alone."""
        self.succeeded: set[str] = set()
        """Operations that have done what they are for."""

    def check(self, what: str, status: int, headers: Mapping[str, str], body: bytes) -> None:
        """Count a response, and record it if it is wrong."""
        self.seen[status] += 1
        if status < 300:
            self.succeeded.add(" ".join(what.split()[:2]))
        if status >= 500:
            self.bad.append(f"{what}: {status} {body[:200]!r}")
        elif status in (400, 431) and not body and "x-request-id" not in headers:
            self.no_http += 1
        elif status >= 400 and not what.startswith("HEAD") and (fault := _fault(headers, body)):
            self.bad.append(f"{what}: {status}, {fault}")

    def check_case(self, case: Any, response: Any) -> None:
        """Check the response to a case of schemathesis."""
        headers = {name.lower(): values[0] for name, values in response.headers.items()}
        what = f"{case.method} {case.operation.path} {case.body!r:.300}"
        self.check(what, response.status_code, headers, response.content or b"")

    @property
    def cases(self) -> int:
        """Number of responses."""
        return self.seen.total()

    def summary(self) -> str:
        """Return the number of responses of each kind."""
        kinds = Counter({f"{k}xx": 0 for k in (2, 4, 5)})
        for status, number in self.seen.items():
            kinds[f"{status // 100}xx"] += number
        return ", ".join(f"{number:,} {kind}" for kind, number in sorted(kinds.items()))


def _fault(headers: Mapping[str, str], body: bytes) -> str | None:
    """Return what is wrong with an error response, if anything."""
    kind = headers.get("content-type", "none")
    if kind != "application/problem+json":
        return f"of type {kind}: {body[:200]!r}"
    try:
        problem = json.loads(body)
    except ValueError:
        return f"not JSON: {body[:200]!r}"
    wrong = [name for name in ("type", "title", "status", "detail") if name not in problem]
    return f"without {', '.join(wrong)}" if wrong else None


@untraced  # the service is in another process
def explore(port: int, cases: int, checker: ResponseChecker) -> None:
    """Let schemathesis follow the links of the OpenAPI document, with valid and invalid data."""
    described, token = _description(port), token_header(port)
    _each_operation(described, cases // 5, checker, token)
    _use_existing(port, described, checker, token)
    everything = _machine(described, checker, token)
    # At random, most requests are reads. Without them, a sequence reaches an offer's rating.
    writes = _machine(described.exclude(method="GET"), checker, token)
    for seed in itertools.count():
        if checker.cases >= cases:
            return
        machine = writes if seed % 2 else everything
        hypothesis.seed(seed)(machine)
        settings = _settings(max_examples=SCENARIOS, stateful_step_count=STEPS)
        # Each sequence changes the database for the next one, which Hypothesis calls flaky.
        # The next sequences have another seed.
        with contextlib.suppress(
            hypothesis.errors.Flaky, hypothesis.errors.FlakyStrategyDefinition
        ):
            machine.run(settings=settings)


@untraced
def explore_path(port: int, path: str, cases: int, checker: ResponseChecker) -> None:
    """Let schemathesis call the operations of a single path, with valid and invalid data."""
    described = _description(port).include(path=path)
    _each_operation(described, cases, checker, token_header(port))


def _description(port: int) -> Any:
    """Load the OpenAPI document, without the operations that are excluded."""
    import schemathesis

    url = f"http://127.0.0.1:{port}/openapi.json"
    described: Any = schemathesis.openapi.from_url(url, headers=token_header(port))
    return described.exclude(path_regex=EXCLUDED)


def _settings(**more: Any) -> hypothesis.settings:
    return hypothesis.settings(
        deadline=None,
        database=None,
        phases=[hypothesis.Phase.generate],
        suppress_health_check=list(hypothesis.HealthCheck),
        **more,
    )


def _each_operation(
    described: Any, cases: int, checker: ResponseChecker, token: dict[str, str]
) -> None:
    """Call each operation by itself: links do not lead to all of them."""
    from schemathesis import GenerationMode

    operations = [result.ok() for result in described.get_all_operations()]
    for operation, mode in itertools.product(operations, GenerationMode):
        settings = _settings(max_examples=max(sized(1, 3), cases // len(operations) // 2))

        @hypothesis.seed(1)
        @settings
        @hypothesis.given(case=operation.as_strategy(generation_mode=mode))
        def try_one(case: Any) -> None:
            checker.check_case(case, case.call(timeout=TIMEOUT, headers=token))

        # Some operations have no input that could be invalid.
        with contextlib.suppress(hypothesis.errors.Unsatisfiable):
            try_one()


def _use_existing(
    port: int, described: Any, checker: ResponseChecker, token: dict[str, str]
) -> None:
    """Rate an accepted offer, and change and delete a webhook: links rarely lead to them."""
    sent = json.dumps({**CAMPAIGN, "segments": []}).encode()
    campaign = _created(port, "/v1/campaigns", sent)
    webhooks, numbers = f"/v1/campaigns/{campaign}/webhooks", itertools.count()
    offer = _created(port, f"/v1/campaigns/{campaign}/offers", b'{"player": "existing"}')
    call(port, "POST", f"/v1/offers/{offer}/accept", b"")
    for path in "/v1/offers/{offer}/rating", "/v1/campaigns/{campaign}/webhooks/{webhook}":
        for operation in described.include(path=path).get_all_operations():
            url = f"https://example.com/{next(numbers)}"
            webhook = _created(port, webhooks, json.dumps({"url": url}).encode())
            names = {"campaign": campaign, "webhook": webhook, "offer": offer}
            used = {name: names[name] for name in re.findall(r"{(\w+)}", path)}

            @hypothesis.seed(1)
            @_settings(max_examples=5)
            @hypothesis.given(case=operation.ok().as_strategy())
            def try_one(case: Any) -> None:
                case.path_parameters = used  # noqa: B023
                checker.check_case(case, case.call(timeout=TIMEOUT, headers=token))

            try_one()


def _created(port: int, path: str, body: bytes) -> str:
    """Create something, and return its id."""
    identifier: str = json.loads(call(port, "POST", path, body, timeout=60)[1])["id"]
    return identifier


def _machine(described: Any, checker: ResponseChecker, token: dict[str, str]) -> Any:
    base: Any = described.as_state_machine()

    class Machine(base):  # type: ignore[misc]
        def get_call_kwargs(self, case: Any) -> dict[str, Any]:
            return {"timeout": TIMEOUT, "headers": token}

        def validate_response(self, response: Any, case: Any, *_: Any, **__: Any) -> None:
            checker.check_case(case, response)

    return Machine


@untraced
def send_hostile_requests(port: int, checker: ResponseChecker, share: float = 1.0) -> None:
    """Send the hostile requests, or a random share of them."""
    rng = random.Random(1)
    # Without segments: otherwise most requests are rejected because they name none.
    sent = json.dumps({**CAMPAIGN, "segments": []}).encode()
    _, body = call(port, "POST", "/v1/campaigns", sent, timeout=60)
    campaign = json.loads(body)["id"]
    _, body = call(port, "POST", f"/v1/campaigns/{campaign}/offers", b'{"player": "first"}')
    offer = json.loads(body)["id"]
    with closing(Wire(port, checker)) as wire:
        for request in hostile_requests(campaign, offer):
            if rng.random() > share:
                continue
            reply = wire.send(request)
            if (request.method, request.path) == ("POST", "/v1/campaigns") and "id" in reply:
                for step in lifecycle(reply):
                    wire.send(step)


class Wire:
    """A connection that sends requests byte for byte, which http.client does not."""

    def __init__(self, port: int, checker: ResponseChecker) -> None:
        self._checker = checker
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        self._token = token_header(port)

    def send(self, request: HostileRequest) -> dict[str, Any]:
        """Send a request, check the response, and return its body if it is a 201."""
        try:
            status, headers, body = _send(self._connection, request, self._token)
        except LOST as error:
            self._checker.bad.append(f"{_name(request)}: {error!r}")
            self._connection.close()
            return {}
        self._checker.check(_name(request), status, headers, body)
        if headers.get("connection") == "close":
            self._connection.close()
        reply = json.loads(body) if status == 201 else {}
        return reply if isinstance(reply, dict) else {}

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


def _name(request: HostileRequest) -> str:
    body = "" if request.body is None else repr(request.body[:80])
    headers = str(request.headers)[:80]
    return f"{request.method} {request.path[:80]} ({request.name}) {headers} {body}"


def _send(
    connection: http.client.HTTPConnection, request: HostileRequest, token: dict[str, str]
) -> tuple[int, dict[str, str], bytes]:
    lines = [f"{request.method} {request.path} HTTP/1.1"]
    if "Host" not in request.headers:
        lines.append(f"Host: 127.0.0.1:{connection.port}")
    lines += [f"{name}: {value}" for name, value in (token | request.headers).items()]
    if request.body is not None:
        lines.append(f"Content-Length: {len(request.body)}")
    head = "\r\n".join([*lines, "", ""]).encode("utf-8", "surrogateescape")
    if connection.sock is None:
        connection.connect()
    connection.sock.sendall(head + (request.body or b""))
    response = http.client.HTTPResponse(connection.sock, method=request.method)
    try:
        response.begin()
        body = response.read()
    finally:
        response.close()
    return response.status, {k.lower(): v for k, v in response.getheaders()}, body


def run(long: bool) -> Outcome:
    """Run 20,000 cases and all hostile requests; the control is broken.

    The short version runs 150 cases, and a sixth of the requests in `make test`.
    """
    cases, share = (20_000, 1.0) if long else (150, sized(1 / 6, 1.0))
    found, sent, control = ResponseChecker(), ResponseChecker(), ResponseChecker()
    with folder() as where:
        path = where / "entice.db"
        with Server(f"sqlite:///{path}", where) as server:
            explore(server.port, cases, found)
            missed = _operations(server.port) - found.succeeded
            send_hostile_requests(server.port, sent, share)
            server.stop()
        with closing(SqliteStore(path)) as store:
            broken = faults(store)
    with folder() as where, Server(f"sqlite:///{where}/entice.db", where, kind=BROKEN) as server:
        if long:
            explore(server.port, cases // 5, control)
        else:
            explore_path(server.port, "/v1/divide", cases // 5, control)
    caught = [what for what in control.bad if "/v1/divide" in what]
    bad = [*broken, *found.bad, *sent.bad]
    return Outcome(
        "schemathesis and hostile requests",
        f"{found.cases:,} cases, most of them stateful ({found.summary()}; "
        f"{len(found.succeeded)} operations have succeeded), "
        f"{sent.cases:,} hostile requests ({sent.summary()}; {sent.no_http} of them were not HTTP "
        "and were rejected by the parser)",
        f"{len(found.bad) + len(sent.bad)} responses with 5xx or without problem details; "
        f"{len(broken)} faults in the logs afterwards"
        + "".join(f"; {what}" for what in bad[:3])
        + "".join(f"; {what} has never succeeded" for what in sorted(missed) if long),
        f"a broken route: found in {len(caught)} of {control.cases:,} cases",
        not bad and bool(caught) and not (long and missed),
    )


def _operations(port: int) -> set[str]:
    """Return the operations, without streams, the document itself, and keys."""
    paths = json.loads(call(port, "GET", "/openapi.json")[1])["paths"]
    return {
        f"{method.upper()} {path}"
        for path, methods in paths.items()
        for method in methods
        if not re.search(EXCLUDED, path)
    }
