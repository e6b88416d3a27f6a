"""The task that wakes streams survives errors, and ends the streams of revoked keys."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from entice.api_types import EventView
from entice.errors import EnticeError
from entice.service.domain.errors import Refusal, Unavailable
from entice.service.http import event_streams
from entice.service.http.event_streams import EventStreams


class Log:
    """A campaign's log and the keys, which fail as the test says."""

    def __init__(self) -> None:
        self.seq = 0
        self.errors: dict[str, Exception] = {}
        self.failed: list[str] = []

    def _fail(self, method: str) -> None:
        if method in self.errors:
            self.failed.append(method)
            raise self.errors[method]

    def head(self, campaign: str) -> int:
        self._fail("head")
        return self.seq

    def events(self, campaign: str, after: int, *_: int) -> list[EventView]:
        views = range(after + 1, self.seq + 1)
        return [EventView(n, "", "", cast(Any, {}), None) for n in views]

    def age(self) -> float:
        return 1e9

    def reload(self) -> None:
        self._fail("reload")


def allow() -> None:
    """Accept the key of a stream."""


@pytest.mark.parametrize(
    ("method", "error"),
    [
        ("head", Unavailable("The database cannot be used.")),
        ("head", OSError(24, "Too many open files")),
        ("reload", Unavailable("The database cannot be used.")),
        ("reload", OSError(24, "Too many open files")),
    ],
)
def test_a_stream_continues_after_an_error(
    method: str, error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_streams, "POLL_INTERVAL", 0.001)
    monkeypatch.setattr(event_streams, "HEARTBEAT", 60.0)
    log, logged = Log(), []
    monkeypatch.setattr(event_streams.logs, "unexpected", logged.append)

    async def run() -> None:
        streams = EventStreams(cast(Any, log), cast(Any, log), cast(Any, None))
        following = streams.follow("c", 0, cast(Any, None), allow)
        waiting = asyncio.ensure_future(anext(following))
        await asyncio.sleep(0.02)
        log.errors[method] = error
        while len(log.failed) < 3:  # the task goes on: it tries again
            await asyncio.sleep(0.001)
        assert not waiting.done()
        log.errors.clear()
        log.seq = 1
        # Without the task, the stream would wait for its heartbeat.
        assert [event.seq for event in await asyncio.wait_for(waiting, 20)] == [1]
        streams.end()
        await following.aclose()

    asyncio.run(run())
    assert bool(logged) == (method == "reload" and not isinstance(error, EnticeError))


@pytest.mark.parametrize("checked", [True, False], ids=["", "control: keys are not checked"])
def test_a_stream_ends_within_a_second_after_its_key_is_revoked(
    checked: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Streams that have nothing to send end too; without the check, they would continue."""
    assert event_streams.POLL_INTERVAL <= 0.5
    monkeypatch.setattr(event_streams, "POLL_INTERVAL", 0.001)
    monkeypatch.setattr(event_streams, "HEARTBEAT", 0.2 if not checked else 60.0)
    revoked = Refusal(401, "unauthorized", "Revoked", "The key was revoked.")

    async def check_nothing(_: EventStreams) -> None:
        pass

    if not checked:
        monkeypatch.setattr(EventStreams, "_check_keys", check_nothing)

    def refuse() -> None:
        raise revoked

    async def run() -> object:
        log = Log()
        streams = EventStreams(cast(Any, log), cast(Any, log), cast(Any, None))
        following = streams.follow("c", 0, cast(Any, None), refuse)
        try:
            return await asyncio.wait_for(anext(following), 20)
        except Refusal as error:
            return error
        finally:
            streams.end()
            await following.aclose()

    assert asyncio.run(run()) == (revoked if checked else [])
