"""Delivery to webhooks: at least once, in order, and without slowing the service."""

from __future__ import annotations

import contextlib
import itertools
import socket
import threading
import time
from collections.abc import Iterator
from ipaddress import ip_address
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
import webhook_receiver
from postgres import both_databases, postgres
from webhook_receiver import FAST, LOOPBACK, Receiver, delivering, receiver
from writer_fixtures import Service

from entice.errors import InputError
from entice.service.domain.commands import EnterRatings, Organic
from entice.service.domain.errors import Unavailable
from entice.service.operations import webhook_delivery
from entice.service.operations.verify import rows_without_events
from entice.service.operations.webhook_request import (
    DeliveryFailed,
    WebhookSender,
    _allowed,
    check_url,
    parse_networks,
)
from entice.service.storage import webhooks as storage
from entice.service.storage.store import Session
from entice.service.storage.webhooks import Lease, Webhook, Webhooks, read_webhooks

__all__ = ["postgres"]


@pytest.fixture
def hook() -> Iterator[Receiver]:
    with receiver() as running:
        yield running


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Service]:
    with contextlib.closing(Service(tmp_path / "entice.db")) as running:
        yield running


def rate(shop: Service, campaign: str, count: int) -> None:
    """Add events to a log."""
    shop.do(EnterRatings(campaign, [Organic("a", 3)] * count))


def stored(shop: Service) -> Webhook:
    with shop.store.read() as session:
        [found] = read_webhooks(session)
    return found


def wait_for(condition: Any, seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "the condition does not become true"
        time.sleep(0.01)


# What is delivered


def test_events_arrive_in_order_as_the_api_returns_them(shop: Service, hook: Receiver) -> None:
    campaign = shop.create()
    rate(shop, campaign, 30)
    made, _ = Webhooks(shop.store).create(campaign, hook.url, after=0)
    with delivering(shop.store):
        hook.wait_for(lambda: len(hook.received()) == 31)
        rate(shop, campaign, 5)
        hook.wait_for(lambda: len(hook.received()) == 36)
        wait_for(lambda: stored(shop).delivered == 36)
    assert hook.received() == list(range(1, 37))
    request = hook.requests[0]
    assert (request["webhook"], request["campaign"]) == (made.id, campaign)
    assert request["events"][0]["body"]["kind"] == "created"
    assert set(request["events"][0]) == {"seq", "at", "hash", "body", "why"}
    assert stored(shop).last_success is not None


def test_a_new_webhook_without_events_gets_one_empty_request(shop: Service, hook: Receiver) -> None:
    Webhooks(shop.store).create(shop.create(), hook.url, after=None)
    with delivering(shop.store):
        hook.wait_for(lambda: len(hook.requests) == 1)
        wait_for(lambda: stored(shop).last_success is not None)
        time.sleep(5 * FAST.poll)
    assert [request["events"] for request in hook.requests] == [[]]


def test_a_request_is_limited_in_size(
    shop: Service, hook: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(webhook_delivery, "MAX_BYTES", 1000)
    campaign = shop.create()
    rate(shop, campaign, 20)
    Webhooks(shop.store).create(campaign, hook.url, after=0)
    with delivering(shop.store):
        hook.wait_for(lambda: len(hook.received()) == 21)
    assert hook.received() == list(range(1, 22))
    assert all(1 <= len(request["events"]) <= 5 for request in hook.requests)
    assert len(hook.requests) > 4


def test_a_busy_webhook_leaves_room_for_later_ones(shop: Service, hook: Receiver) -> None:
    """With one thread. In the order of their creation, the second one would wait for ever."""
    campaign = shop.create()
    webhooks = Webhooks(shop.store)
    webhooks.create(campaign, hook.url, after=0)
    with receiver() as later:

        def rate_again(events: object) -> int:  # each request of the first one has a successor
            rate(shop, campaign, 1)
            return 200

        hook.respond = rate_again
        webhooks.create(campaign, later.url, after=0)
        with delivering(shop.store, msgspec.structs.replace(FAST, threads=1)):
            later.wait_for(lambda: len(later.requests) > 1)
            hook.wait_for(lambda: len(hook.requests) > 3)


# Failures


@pytest.mark.parametrize(
    ("status", "reason"), [(500, "status 500"), (302, "redirects are not followed"), (0, "no resp")]
)
def test_a_failed_request_is_retried_and_nothing_is_skipped(
    shop: Service, hook: Receiver, status: int, reason: str
) -> None:
    campaign = shop.create()
    rate(shop, campaign, 3)
    Webhooks(shop.store).create(campaign, hook.url, after=0)
    hook.respond = lambda events: 200 if len(hook.attempts) > 3 else status
    with delivering(shop.store):
        hook.wait_for(lambda: hook.received() == [1, 2, 3, 4])
        wait_for(lambda: stored(shop).failures == 0)
    assert [events for _, events in hook.attempts] == [[1, 2, 3, 4]] * 4
    assert reason in str(stored(shop).last_error)


def test_pauses_between_attempts_double(shop: Service, hook: Receiver) -> None:
    Webhooks(shop.store).create(shop.create(), hook.url, after=0)
    hook.respond = lambda events: 500
    settings = webhook_delivery.DeliverySettings(poll=0.01, first_pause=0.1, max_pause=0.4)
    with delivering(shop.store, settings):
        hook.wait_for(lambda: len(hook.attempts) == 5)
    at = [time for time, _ in hook.attempts]
    pauses = [later - earlier for earlier, later in itertools.pairwise(at)]
    # Each pause is between half and all of 0.1, 0.2, 0.4 and 0.4 s, plus the time of a poll.
    for pause, least in zip(pauses, (0.05, 0.1, 0.2, 0.2), strict=True):
        assert least <= pause < 2 * least + 5  # on a busy machine
    assert stored(shop).failures >= 4


def test_a_webhook_that_fails_for_long_is_paused_and_can_be_resumed(
    shop: Service, hook: Receiver
) -> None:
    campaign = shop.create()
    made, _ = Webhooks(shop.store).create(campaign, hook.url, after=0)
    hook.respond = lambda events: 410
    settings = webhook_delivery.DeliverySettings(
        poll=0.01, first_pause=0.01, max_pause=0.01, give_up_after=0.1
    )
    with delivering(shop.store, settings):
        wait_for(lambda: stored(shop).paused is not None)
        attempts = len(hook.attempts)
        time.sleep(0.1)
        assert len(hook.attempts) == attempts
        hook.respond = lambda events: 200
        Webhooks(shop.store).set_paused(campaign, made.id, False)
        hook.wait_for(lambda: hook.received() == [1])


def test_a_receiver_that_never_ends_its_response_is_cut_off(shop: Service) -> None:
    """A time-out for each read alone would not end a response of one byte at a time."""
    listening = socket.create_server(("127.0.0.1", 0))
    ended = threading.Event()

    def drip() -> None:
        connection, _ = listening.accept()
        with contextlib.suppress(OSError), connection:
            connection.sendall(b"HTTP/1.1 200 OK\r\nX: ")
            while True:
                connection.sendall(b"x")
                time.sleep(0.01)
        ended.set()

    threading.Thread(target=drip, daemon=True).start()
    started = time.monotonic()
    url = f"http://127.0.0.1:{listening.getsockname()[1]}"
    with contextlib.closing(listening), pytest.raises(DeliveryFailed, match=r"within 0\.3 s"):
        WebhookSender(LOOPBACK, timeout=0.3).post(url, "secret", b"{}")
    assert time.monotonic() - started < 2
    assert ended.wait(2)


def test_a_damaged_webhook_gets_nothing_and_verify_reports_it(
    shop: Service, hook: Receiver
) -> None:
    made, _ = Webhooks(shop.store).create(shop.create(), "https://example.com", after=0)
    with shop.store.write() as session:
        session.run("UPDATE webhooks SET url = ?", (hook.url,))
    with delivering(shop.store):
        time.sleep(5 * FAST.poll)
    assert hook.attempts == []
    altered = list(rows_without_events(shop.store, None))
    assert altered == [f"The row of webhook {made.id} was altered."]


# The service is not slowed down


@pytest.mark.parametrize("in_the_writer", [False, True])
def test_a_receiver_that_hangs_delays_no_write(
    shop: Service, hook: Receiver, in_the_writer: bool
) -> None:
    """The control sends each group's events before the writer goes on."""
    campaign = shop.create()
    Webhooks(shop.store).create(campaign, hook.url, after=0)
    ended = threading.Event()

    def hang(events: list[int]) -> int:
        ended.wait(0.2)
        return 200

    hook.respond = hang
    if in_the_writer:
        webhook, delivery = stored(shop), webhook_receiver.delivery_of(shop.store)
        body = b'{"webhook": "%b", "campaign": "", "events": []}' % webhook.id.encode()
        shop.writer.observe = lambda *_: delivery.send(webhook, body, 1)
    with delivering(shop.store):
        hook.wait_for(lambda: in_the_writer or bool(hook.attempts))
        started = time.monotonic()
        for _ in range(10):
            rate(shop, campaign, 1)
        seconds = time.monotonic() - started
        ended.set()
    assert (seconds > 1.5) == in_the_writer


def test_what_was_delivered_is_stored_once_per_poll(shop: Service, hook: Receiver) -> None:
    """However many requests there are, the writer waits for two transactions per second."""
    writes = 0
    write = shop.store.write

    def counted() -> Any:
        nonlocal writes
        writes += threading.current_thread().name == "entice-webhooks"
        return write()

    campaigns = [shop.create() for _ in range(4)]
    for campaign in campaigns:
        rate(shop, campaign, 40)
        Webhooks(shop.store).create(campaign, hook.url, after=0)
    shop.store.write = counted  # type: ignore[method-assign]
    webhook_delivery.MAX_EVENTS, before = 5, webhook_delivery.MAX_EVENTS
    try:
        with delivering(shop.store, webhook_delivery.DeliverySettings(poll=0.3)):
            hook.wait_for(lambda: len(hook.received()) == 4 * 41)
    finally:
        webhook_delivery.MAX_EVENTS = before
    assert len(hook.requests) >= 36
    assert writes <= 5  # taking, renewing and releasing the lease, and outcomes


def test_what_was_delivered_is_kept_until_it_can_be_stored(shop: Service, hook: Receiver) -> None:
    """Control: if outcomes were dropped with a failed commit, the events would be sent again."""
    Webhooks(shop.store).create(shop.create(), hook.url, after=0)
    failing, failures, write = threading.Event(), [], shop.store.write

    @contextlib.contextmanager
    def failing_commit() -> Iterator[Session]:
        with write() as session:
            yield session
            if failing.is_set() and threading.current_thread().name == "entice-webhooks":
                failures.append(1)
                raise Unavailable("The disk is full.")  # rolls back

    with delivering(shop.store):
        wait_for(lambda: hook.received() == [1] and stored(shop).delivered == 1)
        shop.store.write = failing_commit  # type: ignore[method-assign]
        failing.set()
        rate(shop, stored(shop).campaign, 1)
        wait_for(lambda: len(failures) >= 3)
        assert hook.received() == [1, 2]  # and not again
        assert stored(shop).delivered == 1
        failing.clear()
        wait_for(lambda: stored(shop).delivered == 2)
    assert hook.received() == [1, 2]


def test_stopping_interrupts_a_request_and_releases_the_lease(
    shop: Service, hook: Receiver
) -> None:
    """The time-out of the request, 60 s here, would keep the service from stopping."""
    Webhooks(shop.store).create(shop.create(), hook.url, after=0)
    ended = threading.Event()

    def hang(events: list[int]) -> int:
        ended.wait(30)
        return 200

    hook.respond = hang
    settings = webhook_delivery.DeliverySettings(poll=0.01, timeout=60, lease=120)
    with delivering(shop.store, settings):
        hook.wait_for(lambda: bool(hook.attempts))
        started = time.monotonic()
    assert time.monotonic() - started < 4
    ended.set()
    assert (stored(shop).delivered, stored(shop).failures) == (0, 0)
    with shop.store.read() as session:
        assert session.rows("SELECT holder FROM webhook_lease") == [("",)]


# Several processes


@both_databases
def test_only_one_of_several_processes_delivers(url: str, tmp_path: Path, hook: Receiver) -> None:
    with contextlib.closing(Service(tmp_path, url)) as shop:
        campaign = shop.create()
        rate(shop, campaign, 20)
        Webhooks(shop.store).create(campaign, hook.url, after=0)
        settings = webhook_delivery.DeliverySettings(poll=0.02)
        first, second = (webhook_receiver.delivery_of(shop.store, settings) for _ in range(2))
        first.start()
        hook.wait_for(lambda: len(hook.received()) == 21)
        second.start()
        for _ in range(4):
            rate(shop, campaign, 5)
            time.sleep(0.15)
        hook.wait_for(lambda: len(hook.received()) >= 41)
        assert (first._lease.held, second._lease.held) == (True, False)
        first.stop()  # releases the lease
        rate(shop, campaign, 5)
        hook.wait_for(lambda: len(hook.received()) == 46)
        assert second._lease.held
        second.stop()
        assert hook.received() == list(range(1, 47))


def test_a_lease_is_taken_only_when_its_holder_stops_to_renew_it(
    shop: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 100.0
    monkeypatch.setattr(storage, "time", SimpleNamespace(monotonic=lambda: now))
    first, second = Lease(30), Lease(30)
    first.take(shop.store)
    assert first.held
    for _ in range(8):
        now += 10
        second.take(shop.store)
        assert not second.held
        with shop.store.write() as session:
            assert first.renew(session)
        first.set_renewed(now)
    second.take(shop.store)
    now += 29
    second.take(shop.store)
    assert (second.held, first.age) == (False, 29)
    now += 1
    second.take(shop.store)
    assert second.held
    with shop.store.write() as session:
        assert not first.renew(session)


# Addresses


@pytest.mark.parametrize(
    "url",
    [
        "ftp://example.com", "https://", "example.com", "https://user:word@example.com",
        "https://example.com/#x", "https://example.com/ä", "https://example.com/a b",
        "https://example.com:99999", "https://[::1", f"https://example.com/{2000 * 'x'}",
        "http://example.com",
        "https://127.0.0.1", "https://10.1.2.3", "https://169.254.169.254", "https://[::1]",
        "https://[::ffff:127.0.0.1]", "https://[fd00::1]", "https://[64:ff9b::a00:1]",
        "https://[2002:7f00:1::]", "https://0.0.0.0", "https://224.0.0.1",
    ],
)  # fmt: skip
def test_forbidden_urls_are_rejected(url: str) -> None:
    with pytest.raises(InputError, match=r"^url must"):
        check_url(url, ())


@pytest.mark.parametrize(
    ("address", "scheme", "allowed"),
    [
        ("93.184.215.14", "https", True),
        ("93.184.215.14", "http", False),
        ("2606:2800:21f:cb07:6820:80da:af6b:8b2c", "https", True),
        ("10.1.2.3", "http", True),
        ("10.1.2.3", "https", True),
        ("::ffff:10.1.2.3", "https", True),
        ("10.2.0.0", "https", False),
        ("127.0.0.1", "http", False),
        ("192.0.0.192", "https", False),  # this and the next ones are public to Python 3.11.7
        ("64:ff9b:1::a00:1", "https", False),
        ("fec0::1", "https", False),
        ("::7f00:1", "https", False),
    ],
)
def test_addresses_are_public_or_in_an_allowed_network(
    address: str, scheme: str, allowed: bool
) -> None:
    networks = parse_networks(["10.1.0.0/16", "fd00::/8"])
    assert _allowed(ip_address(address), scheme, networks) is allowed


def test_the_address_is_checked_after_its_name_is_resolved(
    monkeypatch: pytest.MonkeyPatch, hook: Receiver
) -> None:
    """A name may lead to this machine. A check of the url alone, as the control, passes."""
    port = hook.server_address[1]
    internal = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port))]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: internal)
    url = f"https://warehouse.example:{port}"
    check_url(url, ())
    with pytest.raises(DeliveryFailed, match=r"must have a public address.* it is at 127\.0\.0\.1"):
        WebhookSender((), 1).post(url, "secret", b"{}")
    with pytest.raises(DeliveryFailed, match="TLS"):  # the control: allowed, it is connected to
        WebhookSender(LOOPBACK, 1).post(url, "secret", b"{}")
    assert hook.attempts == []


def test_networks_are_checked() -> None:
    with pytest.raises(InputError, match="must be an IP address or a network"):
        parse_networks(["intranet"])
