"""Without keys: a token, on loopback only."""

from __future__ import annotations

import re
import stat
from pathlib import Path
from unittest import mock

import pytest
from command_line import RunEntice, assert_error
from service_fixtures import TEAS, assert_problem, service
from service_roles import ALLOWED, PATHS

from entice.errors import InputError
from entice.local_token import create_token, read_token, remove_token, token_file
from entice.service.http import authentication
from entice.service.storage.api_keys import Keys


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


def test_a_state_folder_that_cannot_be_entered_does_not_stop_a_service_with_keys(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("ENTICE_STATE_DIR", str(tmp_path / "file" / "state"))
    with pytest.raises(NotADirectoryError):  # the control
        token_file("127.0.0.1", 8000).unlink(missing_ok=True)
    remove_token("127.0.0.1", 8000)
