"""Security: keys, roles, limits, headers, and hashed player ids."""

from __future__ import annotations

import hmac
import itertools
import re
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from service_fixtures import JSON, TEAS, Service, assert_problem, handlers, service
from service_roles import ALLOWED, PATHS
from studio_worker import ECHO_WORKER

from entice.errors import InputError
from entice.service.operations.verify import verify
from entice.service.storage import api_keys as keys_module
from entice.service.storage.api_keys import Keys
from entice.service.storage.player_hasher import PlayerHasher
from entice.service.storage.player_salts import salted
from entice.studio.jobs import queue


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A service that requires keys, and whose studio runs no job."""
    with (
        mock.patch.object(queue, "_COMMAND", ECHO_WORKER),
        service(tmp_path_factory.mktemp("shop")) as made,
    ):
        made.client.headers.update(made.bearer("admin"))
        yield made


# Keys


def test_a_key_has_256_bits_and_is_stored_as_a_hash(shop: Service) -> None:
    view, secret = shop.keys.create("read", None, "ann")
    found = re.fullmatch(r"entice_([0-9a-f]{8})_([A-Za-z0-9_-]{43})", secret)
    assert found is not None
    assert found[1] == view.id
    with shop.store.read() as session:
        rows = session.rows("SELECT * FROM keys WHERE id = ?", (view.id,))
    assert sha256(found[2].encode()).digest() in rows[0]
    everything = b"".join(path.read_bytes() for path in _files(shop))
    assert view.id.encode() in everything
    assert found[2].encode() not in everything


def test_the_log_names_the_key_that_changed_a_campaign(tmp_path: Path) -> None:
    with service(tmp_path) as shop:
        campaign = shop.campaign()  # before any key exists
        view, secret = shop.keys.create("admin", None, "ann")
        shop.keys.reload()
        key = {"authorization": f"Bearer {secret}"}
        path = f"/v1/campaigns/{campaign}"
        responses = [
            shop.client.patch(path, json={"budget": 60_000}, headers=key),
            shop.client.post(f"{path}/arms", json={"arms": ["gyokuro"]}, headers=key),
            shop.client.patch(f"{path}/arms/gyokuro", json={"retired": True}, headers=key),
            shop.client.post("/v1/campaigns", json=TEAS, headers=key),
        ]
        assert [answer.status_code for answer in responses] == [200, 201, 200, 201]
        events = shop.client.get(f"{path}/events", headers=key).json()["events"]
        changes = [(event["body"]["kind"], event["body"].get("by")) for event in events]
        assert changes == [
            ("created", None),
            ("changed", view.id),
            ("arms_added", view.id),
            ("arm_retired", view.id),
        ]
        other = f"/v1/campaigns/{responses[-1].json()['id']}/events"
        assert shop.client.get(other, headers=key).json()["events"][0]["body"]["by"] == view.id
        assert [verdict.fault for verdict in verify(shop.store)] == [None, None]


def test_two_keys_differ() -> None:
    assert len({keys_module.secrets.token_urlsafe(32) for _ in range(100)}) == 100


def test_keys_are_compared_in_constant_time(shop: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    view, secret = shop.keys.create("read", None, "ann")
    shop.keys.reload()
    compared: list[tuple[bytes, bytes]] = []
    in_constant_time = hmac.compare_digest

    def compare(a: bytes, b: bytes) -> bool:
        compared.append((a, b))
        return in_constant_time(a, b)

    monkeypatch.setattr(keys_module.hmac, "compare_digest", compare)
    assert shop.keys.check(secret) == view
    assert shop.keys.check(secret[:-1] + ("A" if secret[-1] != "A" else "B")) is None
    assert shop.keys.check("entice_00000000_" + "x" * 43) is None
    # Also for an unknown id: its rejection must not be faster.
    assert len(compared) == 3
    assert all(len(a) == len(b) == 32 for a, b in compared)


@pytest.mark.parametrize(
    "sent",
    [
        "",
        "Bearer",
        "Bearer ",
        "Basic entice_x",
        "Bearer entice_",
        "Bearer \xff\xfe",
        "Bearer {bad}",
    ],
)
def test_malformed_keys_are_rejected(shop: Service, sent: str) -> None:
    _, secret = shop.keys.create("admin", None, "ann")
    value = sent.replace("{bad}", secret[:-1]).encode("latin-1")
    answer = shop.client.get("/v1/campaigns", headers={"authorization": value})
    assert_problem(answer, 401, "unauthorized")
    assert answer.headers["www-authenticate"].startswith("Bearer")


def test_a_revoked_key_is_rejected_within_a_second(
    shop: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    view, secret = shop.keys.create("read", None, "ann")
    header = {"authorization": f"Bearer {secret}"}
    shop.keys.reload()
    assert shop.client.get("/v1/campaigns", headers=header).status_code == 200
    Keys(shop.store).revoke(view.id)  # as another process would
    now = keys_module.time.monotonic()
    monkeypatch.setattr(keys_module.time, "monotonic", lambda: now + 1.01)
    assert_problem(shop.client.get("/v1/campaigns", headers=header), 401)


def test_invalid_settings_of_keys_are_rejected(shop: Service) -> None:
    for role, campaign, name in (("boss", None, "x"), ("read", "c_0", "x"), ("read", None, "")):
        with pytest.raises(InputError):
            shop.keys.create(role, campaign, name)
    with pytest.raises(InputError):
        shop.keys.revoke("00000000")


# Roles


def test_every_route_is_in_the_table_with_its_roles(shop: Service) -> None:
    declared = {}
    for handler in handlers(shop):
        [path], [method], roles = handler.paths, handler.http_methods, handler.opt["route"].roles
        name = f"{method} {re.sub(':(str|path)', '', path)}"
        declared[name] = {"public"} if roles is None else set(roles)
    assert declared == {name: set(roles.split()) for name, roles in ALLOWED.items()}


@pytest.mark.parametrize(
    ("operation", "role"),
    list(itertools.product(ALLOWED, ["no key", "decide", "feedback", "read", "admin"])),
)
def test_each_route_accepts_its_roles_only(shop: Service, operation: str, role: str) -> None:
    method, path = operation.split()
    path = path.format(**PATHS)
    headers = {"authorization": ""} if role == "no key" else shop.bearer(role)
    answer = shop.client.request(method, path, headers=headers)
    may = ALLOWED[operation].split()
    if may == ["public"]:
        assert answer.status_code == 200
    elif role == "no key":
        assert_problem(answer, 401)
    elif role == "admin" or role in may:
        assert answer.status_code not in (401, 403)
    else:
        assert role in assert_problem(answer, 403, "forbidden")["detail"]


# Keys limited to one campaign


def test_a_key_of_one_campaign_sees_no_other(shop: Service) -> None:
    own, foreign = shop.campaign(), shop.campaign()
    offer = shop.offer(foreign, "ann")["id"]
    missing, no_offer = "c_ffffffffffffffff", "c_ffffffffffffffff.1"
    for role in ("admin", "decide", "feedback", "read"):
        key = shop.bearer(role, own)
        for operation, roles in ALLOWED.items():
            method, path = operation.split()
            if not re.search("{(campaign|offer)}", path) or (
                role != "admin" and role not in roles.split()
            ):
                continue
            found, lost = (
                shop.client.request(
                    method,
                    path.format(campaign=c, offer=o, arm="oolong", webhook="w_0"),
                    headers=key,
                )
                for c, o in ((foreign, offer), (missing, no_offer))
            )
            assert_problem(found, 404)
            # The two responses differ in the requested id only.
            assert _comparable(found, foreign) == _comparable(lost, missing), operation
    listed = shop.client.get("/v1/campaigns", headers=shop.bearer("read", own)).json()
    assert [campaign["id"] for campaign in listed] == [own]
    bound = shop.bearer("admin", own)
    assert_problem(shop.client.post("/v1/campaigns", json=TEAS, headers=bound), 403)
    assert_problem(shop.client.get("/metrics", headers=bound), 403)
    assert shop.client.get(f"/v1/campaigns/{own}", headers=bound).status_code == 200


def _comparable(answer: Any, name: str) -> tuple[Any, ...]:
    headers = {k: v for k, v in answer.headers.items() if k not in ("x-request-id", "date")}
    return answer.status_code, answer.text.replace(name, "..."), headers


def test_idempotency_keys_are_separate_for_each_api_key(shop: Service) -> None:
    campaign = shop.campaign()
    path, key = f"/v1/campaigns/{campaign}/ratings", {"idempotency-key": "one"}
    body = {"ratings": [{"arm": "oolong", "rating": 5}]}
    for _ in range(2):
        who = shop.bearer("feedback")
        answer = shop.client.post(path, json=body, headers={**key, **who})
        assert "idempotency-replayed" not in answer.headers
    assert shop.client.get(f"/v1/campaigns/{campaign}").json()["ratings"] == 2


# Limits


def test_bodies_are_limited_in_size(shop: Service) -> None:
    path = f"/v1/campaigns/{shop.campaign()}/offers"
    body = b'{"player":"x"}'
    largest = body + b" " * (1024 * 1024 - len(body))
    assert shop.client.post(path, content=largest, headers=JSON).status_code == 201
    assert_problem(shop.client.post(path, content=largest + b" ", headers=JSON), 413)
    assert_problem(shop.client.post(path, content=b" " * 10_000_000, headers=JSON), 413)


# Headers


LINK = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}
"""A link on a page of another site."""


def test_pages_of_other_sites_are_rejected(shop: Service) -> None:
    for method, path, headers in (
        ("GET", "/v1/campaigns", LINK),
        ("POST", "/v1/campaigns", {"sec-fetch-site": "cross-site", "sec-fetch-mode": "cors"}),
        ("GET", "/healthz", {"sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors"}),
        ("GET", "/studio/plotly.min.js", {**LINK, "sec-fetch-dest": "script"}),
        ("GET", "/", {**LINK, "sec-fetch-dest": "iframe"}),
        ("GET", "/nowhere", LINK),
    ):
        assert_problem(shop.client.request(method, path, headers=headers), 403, "cross-site")
        own = {**headers, "sec-fetch-site": "same-origin"}
        assert shop.client.request(method, path, headers=own).status_code != 403
    assert shop.client.get("/", headers=LINK).status_code == 200


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/healthz"),
        ("GET", "/v1/campaigns"),
        ("GET", "/v1/campaigns/c_0"),
        ("GET", "/nowhere"),
        ("DELETE", "/healthz"),
        ("OPTIONS", "/healthz"),
        ("POST", "/v1/campaigns"),
    ],
)
def test_every_response_has_the_security_headers(shop: Service, method: str, path: str) -> None:
    headers = shop.client.request(method, path).headers
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["cache-control"] == "no-store"
    assert headers["x-frame-options"] == "DENY"
    assert "access-control-allow-origin" not in headers


# Player ids


def test_player_ids_are_stored_as_keyed_hashes(shop: Service) -> None:
    campaign, player = shop.campaign(), "ann.unlikely@example.org"
    path = f"/v1/campaigns/{campaign}/offers"
    offer = shop.client.post(
        path, json={"player": player}, headers={"idempotency-key": "once"}
    ).json()
    shop.client.post(path, json={"player": player, "eligible": ["cocoa"]})
    history = shop.client.get(f"/v1/offers/{offer['id']}").json()
    players = PlayerHasher(bytes(32))
    with shop.store.read() as session:
        lookup = players.lookup(campaign, player)
        [[salt]] = session.rows("SELECT salt FROM players WHERE lookup = ?", (lookup,))
    hashed = salted(players.hash(campaign, player), [salt])
    assert history["history"][0]["player"] == hashed.hex()
    assert len(salt) == 16
    assert hashed != salted(PlayerHasher(bytes([1] * 32)).hash(campaign, player), [salt])
    everything = b"".join(path.read_bytes() for path in _files(shop))
    assert hashed in everything
    assert player.encode() not in everything
    # Nor a hash that can be guessed without the key, of the id or of the body.
    body = f'{{"player":"{player}"}}'.encode()
    for guess in (player.encode(), body, f"{campaign}\0{player}".encode()):
        assert sha256(guess).digest() not in everything


def _files(shop: Service) -> list[Path]:
    path = Path(shop.store.url.removeprefix("sqlite:///"))
    return [file for file in path.parent.iterdir() if file.name.startswith(path.name)]
