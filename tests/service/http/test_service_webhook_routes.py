"""Routes of webhooks, and their documented signature."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from service_fixtures import Service, assert_problem, service
from webhook_receiver import FAST, LOOPBACK, Receiver, receiver

from entice.client import Client, read_webhook
from entice.errors import InputError
from entice.service.operations import webhook_delivery
from entice.service.operations.webhook_request import signature
from entice.service.storage import webhooks

DOCUMENT = Path(__file__).parents[3] / "docs" / "how-to" / "webhooks.md"


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(webhook_delivery, "DEFAULTS", FAST)
        with service(tmp_path_factory.mktemp("shop"), webhook_networks=LOOPBACK) as running:
            yield running


@pytest.fixture
def hook() -> Iterator[Receiver]:
    with receiver() as running:
        yield running


def test_a_webhook_is_created_listed_paused_resumed_and_deleted(
    shop: Service, hook: Receiver
) -> None:
    campaign = shop.campaign()
    path = f"/v1/campaigns/{campaign}/webhooks"
    answer = shop.client.post(path, json={"url": hook.url, "after": 0})
    assert answer.status_code == 201
    made = answer.json()
    assert re.fullmatch("whsec_[0-9a-f]{64}", made["secret"])
    hook.wait_for(lambda: hook.received() == [1])
    for _ in range(500):
        [listed] = shop.client.get(path).json()
        if listed["last_success_at"] is not None:
            break
        time.sleep(0.01)
    assert "secret" not in listed
    assert {**listed, "last_success_at": None} == {
        **{name: made[name] for name in ("id", "campaign", "url", "created_at")},
        "paused": False, "delivered": 1, "lag": 0, "failures": 0, "last_success_at": None,
        "last_error": None, "last_error_at": None, "next_attempt_at": None,
    }  # fmt: skip
    own = f"{path}/{made['id']}"
    assert shop.client.patch(own, json={"paused": True}).json()["paused"] is True
    shop.client.post(
        f"/v1/campaigns/{campaign}/ratings", json={"ratings": [{"arm": "oolong", "rating": 5}]}
    )
    time.sleep(5 * FAST.poll)
    assert shop.client.get(path).json()[0]["lag"] == 1
    assert shop.client.patch(own, json={"paused": False}).json()["paused"] is False
    hook.wait_for(lambda: hook.received() == [1, 2])
    shop.context.metrics._gauges._read_at -= 10
    text = shop.client.get("/metrics").text
    labels = f'{{campaign="{campaign}",webhook="{made["id"]}"}}'
    assert f"entice_webhook_failures{labels} 0.0" in text
    assert f"entice_webhook_lag{labels}" in text
    assert re.search(r'entice_webhook_requests_total{result="delivered"} [1-9]', text)
    assert re.search(r"entice_webhook_events_total [1-9]", text)
    assert shop.client.delete(own).json()["id"] == made["id"]
    assert shop.client.get(path).json() == []
    assert_problem(shop.client.delete(own), 404)


def test_the_secret_is_not_in_the_database(shop: Service) -> None:
    path = f"/v1/campaigns/{shop.campaign()}/webhooks"
    secret = shop.client.post(path, json={"url": "https://203.0.113.1/"})
    assert_problem(secret, 422)  # not a public address
    made = shop.client.post(path, json={"url": "https://warehouse.invalid/"}).json()
    shop.client.patch(f"{path}/{made['id']}", json={"paused": True})
    with shop.store.read() as session:
        rows = session.rows("SELECT * FROM webhooks")
    assert made["id"] in str(rows)
    assert made["secret"].removeprefix("whsec_") not in str(rows)


@pytest.mark.parametrize(
    ("body", "status", "reason"),
    [
        ({"url": "http://example.com/"}, None, ""),  # its address is checked later
        ({"url": "ftp://example.com/"}, 422, "must be a URL"),
        ({"url": "https://10.0.0.1/"}, 422, "public address"),
        ({"url": "http://8.8.8.8/"}, 422, "must use https"),
        ({"url": "https://example.com/", "after": 99}, 422, "after must be at most 1"),
        ({"url": "https://example.com/", "secret": "x"}, 422, "secret"),
        ({}, 422, "url"),
    ],
)
def test_invalid_webhooks_are_rejected(
    shop: Service, body: dict[str, Any], status: int | None, reason: str
) -> None:
    path = f"/v1/campaigns/{shop.campaign()}/webhooks"
    answer = shop.client.post(path, json=body)
    if status is None:
        assert answer.status_code == 201
        shop.client.delete(f"{path}/{answer.json()['id']}")
    else:
        assert reason in assert_problem(answer, status)["detail"]


def test_a_repeat_with_the_same_idempotency_key_returns_the_secret_again(tmp_path: Path) -> None:
    """Control: without the key, a repeat cannot return a secret whose response was lost."""
    with service(tmp_path) as shop:
        check_repeats(shop)


def check_repeats(shop: Service) -> None:
    path, other = (f"/v1/campaigns/{shop.campaign()}/webhooks" for _ in range(2))
    body = {"url": "https://warehouse.invalid/a", "after": 0}

    def create(key: str | None, body: dict[str, Any] = body, path: str = path) -> Any:
        headers = {} if key is None else {"Idempotency-Key": key}
        return shop.client.post(path, json=body, headers=headers)

    first, again = create("k1"), create("k1")
    assert (first.status_code, again.status_code) == (201, 201)
    assert "idempotency-replayed" not in first.headers
    assert again.headers["idempotency-replayed"] == "true"
    assert (again.json()["id"], again.json()["secret"]) == (
        first.json()["id"], first.json()["secret"],
    )  # fmt: skip
    assert re.fullmatch("w_[0-9a-f]{16}", first.json()["id"])
    assert len(shop.client.get(path).json()) == 1
    for key in (None, "k2"):
        assert "has a webhook with this url" in assert_problem(create(key), 409)["detail"]
    for changed in ({**body, "after": 1}, {**body, "url": "https://warehouse.invalid/b"}):
        assert_problem(create("k1", changed), 422, "idempotency-key-reused")
    assert create("k1", path=other).json()["id"] != first.json()["id"]
    # Another API key has idempotency keys of its own.
    mine = shop.bearer("admin")
    separate = shop.client.post(path, json=body, headers={**mine, "Idempotency-Key": "k1"})
    assert_problem(separate, 409)


def test_the_number_of_webhooks_is_limited(shop: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webhooks, "MAX_WEBHOOKS", 7)
    with shop.store.write() as session:
        session.run("DELETE FROM webhooks")
    paths = [f"/v1/campaigns/{shop.campaign()}/webhooks" for _ in range(2)]

    def create(path: str, n: int) -> Any:
        made = shop.client.post(path, json={"url": f"https://warehouse.invalid/{n}"})
        if made.status_code == 201:
            shop.client.patch(f"{path}/{made.json()['id']}", json={"paused": True})
        return made

    assert [create(paths[0], n).status_code for n in range(5)] == [201] * 5
    assert "The campaign has 5" in assert_problem(create(paths[0], 5), 409)["detail"]
    assert "has a webhook with this url" in assert_problem(create(paths[0], 1), 409)["detail"]
    assert [create(paths[1], n).status_code for n in range(2)] == [201] * 2
    assert "The service has 7" in assert_problem(create(paths[1], 2), 409)["detail"]
    with shop.store.write() as session:
        session.run("DELETE FROM webhooks")


def test_the_documented_check_accepts_genuine_requests_only() -> None:
    """The function of the document, and `read_webhook`, on requests as the service signs them."""
    [code] = re.findall(
        r"```python\n(import hashlib.*?)\n\nbody, secret", DOCUMENT.read_text(), re.S
    )
    functions: dict[str, Any] = {}
    exec(code, functions)
    is_genuine, now = functions["is_genuine"], int(time.time())
    body = b'{"webhook":"w_1","campaign":"c_1","events":[]}'
    good = signature("secret", now, body)
    assert is_genuine(body, good, "secret")
    assert read_webhook(body, good, "secret").campaign == "c_1"
    for text, header, secret in [
        (body + b" ", good, "secret"),
        (body, good, "another"),
        (body, signature("secret", now - 301, body), "secret"),
        (body, signature("secret", now + 301, body), "secret"),
        (body, good.replace(f"t={now}", f"t={now + 1}"), "secret"),
        (body, "", "secret"),
        (body, f"t={now}", "secret"),
        (body, "v1=ä", "secret"),
    ]:
        assert not is_genuine(text, header, secret)
        with pytest.raises(InputError, match="Entice-Signature must be"):
            read_webhook(text, header, secret)


def test_the_client_has_the_same_methods(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[tuple[str, str, Any]] = []
    view = {
        "id": "w_1", "campaign": "c_1", "url": "https://a.example", "paused": False, "lag": 0,
        "created_at": "2026-11-17T09:00:00Z", "delivered": 0, "failures": 0, "last_error": None,
        "last_success_at": None, "last_error_at": None, "next_attempt_at": None,
    }  # fmt: skip

    def call(self: Client, method: str, path: str, body: Any = None, *_: Any) -> bytes:
        calls.append((method, path, body))
        if method == "GET":
            return json.dumps([view]).encode()
        return json.dumps({**view, "secret": "whsec_1"} if method == "POST" else view).encode()

    monkeypatch.setattr(Client, "_call", call)
    client = Client()
    assert client.create_webhook("c_1", "https://a.example").secret == "whsec_1"
    assert client.create_webhook("c_1", "https://a.example", after=0).id == "w_1"
    assert [webhook.id for webhook in client.webhooks("c_1")] == ["w_1"]
    client.pause_webhook("c_1", "w_1")
    client.pause_webhook("c_1", "w_1", paused=False)
    client.delete_webhook("c_1", "w_1")
    own = "/v1/campaigns/c_1/webhooks/w_1"
    assert calls == [
        ("POST", "/v1/campaigns/c_1/webhooks", {"url": "https://a.example"}),
        ("POST", "/v1/campaigns/c_1/webhooks", {"url": "https://a.example", "after": 0}),
        ("GET", "/v1/campaigns/c_1/webhooks", None),
        ("PATCH", own, {"paused": True}),
        ("PATCH", own, {"paused": False}),
        ("DELETE", own, None),
    ]
