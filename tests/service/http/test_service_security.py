"""Security: the token, keys, roles, limits, headers, and hashed player ids."""

from __future__ import annotations

import hmac
import itertools
import re
import stat
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from command_line import RunEntice, assert_error
from service_fixtures import JSON, TEAS, Service, assert_problem, handlers, service
from studio_worker import ECHO_WORKER

from entice.errors import InputError
from entice.local_token import create_token, read_token, remove_token, token_file
from entice.service.http import authentication
from entice.service.operations.verify import verify
from entice.service.storage import api_keys as keys_module
from entice.service.storage.api_keys import Keys
from entice.service.storage.player_hasher import PlayerHasher, WrongSecret, player_hasher_for
from entice.service.storage.player_salts import salted
from entice.service.storage.store import open_store
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


# Without keys: a token, on loopback only


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1"])
def test_without_a_key_the_service_binds_to_loopback_only(run_entice: RunEntice, host: str) -> None:
    ran = run_entice("serve", "--host", host)
    assert_error(ran, "host must be a loopback address", "as long as no key exists", "keys create")


NGINX = {"host": "127.0.0.1:8000", "connection": "close"}
"""What nginx changes by default: the target's host name, and no header that names the client."""


def test_without_keys_every_request_but_health_and_the_page_needs_the_token(tmp_path: Path) -> None:
    """Control: with the token, a campaign is created."""
    public = {"GET /", "GET /studio/{file}", "GET /healthz", "GET /readyz"}
    with service(tmp_path) as shop:
        for operation in ALLOWED:
            method, path = operation.split()
            path = path.format(**PATHS)
            for token in ("", "Bearer entice_local_wrong", "Bearer entice_00000000_wrong"):
                sent = {**NGINX, "authorization": token}
                answer = shop.client.request(method, path, headers=sent)
                if operation in public:
                    assert answer.status_code == 200
                else:
                    assert "entice serve" in assert_problem(answer, 401)["detail"]
        answer = shop.client.post("/v1/campaigns", json=TEAS, headers=NGINX)
        assert answer.status_code == 201


def test_a_revoked_key_does_not_bring_the_token_back(tmp_path: Path) -> None:
    with service(tmp_path) as shop:
        assert shop.client.get("/v1/campaigns").status_code == 200
        view, _ = shop.keys.create("admin", None, "me")
        shop.keys.revoke(view.id)
        assert_problem(shop.client.get("/v1/campaigns"), 401)


def test_a_service_without_a_token_always_requires_a_key(tmp_path: Path) -> None:
    with service(tmp_path, token=None) as shop:
        assert_problem(shop.client.get("/v1/campaigns"), 401)
        assert_problem(shop.client.get("/v1/campaigns", headers={"authorization": "Bearer "}), 401)


@pytest.mark.parametrize(
    "headers",
    [
        {"host": "entice.example"},
        {"host": "", "x-forwarded-for": "192.0.2.1", "via": "1.1 proxy", "forwarded": "for=x"},
        {"host": "entice.example", "origin": "https://entice.example"},
    ],
)
def test_the_first_key_is_accepted_at_once_through_any_proxy(
    tmp_path: Path, headers: dict[str, str]
) -> None:
    """Another process creates it while the service has read that there is none.

    Control: without a new read of the keys, the service rejects it for up to a second.
    """
    with service(tmp_path) as shop:
        assert shop.client.get("/v1/campaigns", headers=headers).status_code == 200
        _, secret = Keys(shop.store).create("admin", None, "me")
        sent = {**headers, "authorization": f"Bearer {secret}"}
        with mock.patch.object(authentication, "NEW_KEY_SECONDS", 60.0):
            assert_problem(shop.client.get("/v1/campaigns", headers=sent), 401)
        with mock.patch.object(authentication, "NEW_KEY_SECONDS", 0.0):
            assert shop.client.get("/v1/campaigns", headers=sent).status_code == 200
        assert_problem(shop.client.get("/v1/campaigns"), 401)  # the token counts no more


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


def test_the_token_is_in_a_file_that_only_its_user_can_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ENTICE_STATE_DIR", str(tmp_path / "state"))
    token, file = create_token("127.0.0.1", 8000), token_file("localhost", 8000)
    assert re.fullmatch(r"entice_local_[\w-]{43}", token)
    assert file.read_text() == f"Authorization: Bearer {token}\n"  # as `curl -H @FILE` reads it
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    assert create_token("127.0.0.1", 8000) == token  # after a restart
    assert create_token("127.0.0.1", 8001) != token
    assert read_token("localhost", 8000) == token
    assert read_token("entice.example", 8000) is None
    file.chmod(0o640)  # others may have read it: it counts no more
    assert read_token("127.0.0.1", 8000) is None
    assert create_token("127.0.0.1", 8000) != token
    remove_token("127.0.0.1", 8000)
    assert read_token("127.0.0.1", 8000) is None
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("ENTICE_STATE_DIR", str(tmp_path / "file"))
    with pytest.raises(InputError, match=r"the token file cannot be written.*keys create"):
        create_token("127.0.0.1", 8000)


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

PATHS = {
    "campaign": "c_0", "offer": "c_0.1", "arm": "oolong", "file": "plotly.min.js", "player": "ann",
    "webhook": "w_0", "key": "0123abcd",
}  # fmt: skip
ALLOWED = {
    "POST /v1/campaigns": "",
    "GET /v1/campaigns": "read",
    "GET /v1/campaigns/{campaign}": "read",
    "PATCH /v1/campaigns/{campaign}": "",
    "POST /v1/campaigns/{campaign}/arms": "",
    "PATCH /v1/campaigns/{campaign}/arms/{arm}": "",
    "GET /v1/campaigns/{campaign}/arms": "read",
    "POST /v1/campaigns/{campaign}/offers": "decide",
    "POST /v1/campaigns/{campaign}/offers/batch": "decide",
    "GET /v1/campaigns/{campaign}/offers": "read",
    "GET /v1/offers/{offer}": "read decide",
    "POST /v1/offers/{offer}/accept": "feedback",
    "POST /v1/offers/{offer}/decline": "feedback",
    "POST /v1/offers/{offer}/rating": "feedback",
    "POST /v1/offers/{offer}/reverse": "feedback",
    "POST /v1/campaigns/{campaign}/ratings": "feedback",
    "GET /v1/players/{player}": "read",
    "DELETE /v1/players/{player}": "",
    "GET /v1/campaigns/{campaign}/events": "read",
    "GET /v1/campaigns/{campaign}/stream": "read",
    "GET /v1/campaigns/{campaign}/export": "read",
    "GET /v1/campaigns/{campaign}/drift": "read",
    "GET /v1/campaigns/{campaign}/effect": "read",
    "GET /v1/campaigns/{campaign}/acceptance": "read",
    "GET /v1/campaigns/{campaign}/spending": "read",
    "GET /v1/campaigns/{campaign}/settings": "read",
    "GET /v1/campaigns/{campaign}/plan": "read",
    "POST /v1/campaigns/{campaign}/evaluation": "read",
    "POST /v1/campaigns/{campaign}/webhooks": "",
    "GET /v1/campaigns/{campaign}/webhooks": "",
    "PATCH /v1/campaigns/{campaign}/webhooks/{webhook}": "",
    "DELETE /v1/campaigns/{campaign}/webhooks/{webhook}": "",
    "POST /v1/keys": "",
    "GET /v1/keys": "",
    "DELETE /v1/keys/{key}": "",
    "GET /v1/studio": "read decide feedback",
    "POST /v1/simulations": "read",
    "POST /v1/traces": "read",
    "POST /v1/plans": "read",
    "GET /v1/paper": "read",
    "GET /v1/trust": "read",
    "POST /v1/campaigns/{campaign}/replay": "read",
    "GET /": "public",
    "GET /studio/{file}": "public",
    "GET /metrics": "read",
    "GET /healthz": "public",
    "GET /readyz": "public",
    "GET /openapi.json": "read decide feedback",
}


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


def test_the_secret_is_created_once_with_private_permissions(tmp_path: Path) -> None:
    store = open_store(f"sqlite:///{tmp_path / 'e.db'}")
    players = player_hasher_for(store)
    file = tmp_path / "e.db.secret"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert re.fullmatch("[0-9a-f]{64}", file.read_text().strip())
    assert player_hasher_for(store).hash("c", "p") == players.hash("c", "p")
    assert file.read_text().strip().encode() not in (tmp_path / "e.db").read_bytes()
    kept = file.read_text()
    file.unlink()
    with pytest.raises(WrongSecret, match="missing"):
        player_hasher_for(store)
    file.write_text("ab" * 32)
    with pytest.raises(WrongSecret, match="not the one"):
        player_hasher_for(store)
    file.write_text("too short")
    with pytest.raises(InputError, match="64 hexadecimal digits"):
        player_hasher_for(store)
    other = tmp_path / "elsewhere"
    other.write_text(kept)
    assert player_hasher_for(store, other).hash("c", "p") == players.hash("c", "p")
    store.close()


def test_postgresql_requires_a_secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = open_store(f"sqlite:///{tmp_path / 'e.db'}")
    monkeypatch.setattr(store, "url", "postgresql://somewhere/entice")
    with pytest.raises(InputError, match="ENTICE_SECRET"):
        player_hasher_for(store)
    monkeypatch.setenv("ENTICE_SECRET", "12" * 32)
    player_hasher_for(store)
    monkeypatch.setenv("ENTICE_SECRET", "34" * 32)
    with pytest.raises(WrongSecret):
        player_hasher_for(store)
    store.close()


def _files(shop: Service) -> list[Path]:
    path = Path(shop.store.url.removeprefix("sqlite:///"))
    return [file for file in path.parent.iterdir() if file.name.startswith(path.name)]


def test_a_state_folder_that_cannot_be_entered_does_not_stop_a_service_with_keys(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("ENTICE_STATE_DIR", str(tmp_path / "file" / "state"))
    with pytest.raises(NotADirectoryError):  # the control
        token_file("127.0.0.1", 8000).unlink(missing_ok=True)
    remove_token("127.0.0.1", 8000)
