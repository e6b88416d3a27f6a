"""Requests to the service, with retries."""

from __future__ import annotations

import http.client
import random
import re
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, TypeVar
from urllib.parse import urlsplit

import msgspec

from entice.errors import EnticeError, InputError
from entice.local_token import read_token

RETRIED_STATUSES = (429, 502, 503, 504)
CONNECTION_ERRORS = (OSError, http.client.HTTPException)
FIRST_PAUSE, MAX_PAUSE = 0.25, 5.0  # seconds between attempts
T = TypeVar("T")


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


class ServiceConnection:
    """The connections to one service. Threads may share them: each call uses its own."""

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
        self._connect = partial(kind, parts.hostname, parts.port)
        self._prefix = parts.path.rstrip("/")
        self._key = key
        self._address = parts.hostname, parts.port or (443 if secure else 80)
        self._idle: list[http.client.HTTPConnection] = []  # its pop and append are atomic

    def __repr__(self) -> str:
        return f"Client({self.url!r}{', key=…' if self._key else ''})"

    def _authorization(self) -> dict[str, str]:
        # The token is read for each request, since the service may start after this client.
        key = read_token(*self._address) if self._key is None else self._key
        return {} if key is None else {"Authorization": f"Bearer {key}"}

    def _ask(
        self, method: str, path: str, kind: type[T], body: Any = None, once: str | None = None
    ) -> T:
        return decoded(self._call(method, path, body, once), kind)

    def _call(
        self, method: str, path: str, body: Any = None, once: str | None = None, retries: int = -1
    ) -> bytes:
        """Send a request, with retries, and return the body of the response."""
        authorization, headers, sent = self._authorization(), {}, None
        if body is not None:
            sent, key = msgspec.json.encode(body), uuid.uuid4().hex if once is None else once
            headers = {"Content-Type": "application/json", "Idempotency-Key": key}
        left = self.retries if retries < 0 else retries
        deadline, pause = time.monotonic() + (self.timeout + MAX_PAUSE) * left, FIRST_PAUSE
        while True:
            wait = pause * random.uniform(0.5, 1.0)
            try:
                connection, kept = self._idle.pop(), True
            except IndexError:
                connection, kept = self._connect(timeout=self.timeout), False
            try:
                connection.request(method, self._prefix + path, sent, headers | authorization)
                response = connection.getresponse()
                data = response.read()
            except BaseException as error:  # also Ctrl-C, which leaves a response half read
                connection.close()
                if not isinstance(error, CONNECTION_ERRORS):
                    raise
                if kept and not isinstance(error, TimeoutError):  # the service closed it while idle
                    self._close_idle()
                    continue
                problem = self._unreachable(error)
            else:
                self._idle.append(connection)
                if response.status < 300:
                    return data
                problem = _problem(response.status, data)
                # A service that has only just started may have written its token meanwhile.
                if response.status == 401 and authorization != self._authorization():
                    authorization = self._authorization()
                    continue
                if response.status not in RETRIED_STATUSES or problem.kind == "out-of-order":
                    raise problem
                retry_after = response.headers.get("Retry-After", "")
                wait = max(wait, float(retry_after) if retry_after.isdecimal() else 0.0)
            if left == 0 or time.monotonic() + wait > deadline:
                raise problem
            time.sleep(wait)
            left, pause = left - 1, min(2 * pause, MAX_PAUSE)

    @contextmanager
    def _open(self, path: str, timeout: float) -> Iterator[http.client.HTTPResponse]:
        """Send a request once, on a connection of its own, and yield the response to read."""
        connection = self._connect(timeout=timeout)
        try:
            connection.request("GET", self._prefix + path, headers=self._authorization())
            response = connection.getresponse()
            if response.status >= 300:
                raise _problem(response.status, response.read())
            yield response
        except CONNECTION_ERRORS as error:
            raise self._unreachable(error) from error
        finally:
            connection.close()

    def _close_idle(self) -> None:
        with suppress(IndexError):  # another thread may take the last one
            while True:
                self._idle.pop().close()

    def _unreachable(self, error: Exception) -> ServiceError:
        reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
        return ServiceError(0, "unreachable", f"cannot reach {self.url}", reason)


def decoded(body: bytes, kind: type[T]) -> T:
    """Decode the body of a response, or raise `ServiceError`."""
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
