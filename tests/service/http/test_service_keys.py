"""API keys over HTTP: created, listed and revoked by administrators."""

from __future__ import annotations

from pathlib import Path

import pytest
from service_fixtures import Service, assert_problem, service

from entice.service.storage.api_keys import Keys


def header(key: str) -> dict[str, str]:
    return {"authorization": f"Bearer {key}"}


def test_a_list_of_keys_reads_them_once(shop: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    reads: list[Keys] = []
    reload = Keys.reload

    def count(keys: Keys) -> None:
        reads.append(keys)
        reload(keys)

    assert shop.client.get("/v1/keys").status_code == 200  # the cache of keys is up to date
    monkeypatch.setattr(Keys, "reload", count)
    assert shop.client.get("/v1/keys").status_code == 200
    assert len(reads) == 1


def test_keys_are_created_listed_and_revoked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("entice.service.http.authentication.NEW_KEY_SECONDS", 0.0)
    with service(tmp_path) as shop:
        campaign, client = shop.campaign(), shop.client
        # The first key replaces the token, so it must be able to create others.
        for first in (
            {"name": "shop", "roles": ["decide"]},
            {"name": "me", "roles": ["admin"], "campaign": campaign},
        ):
            problem = assert_problem(client.post("/v1/keys", json=first), 409, "conflict")
            assert "admin" in problem["detail"]
        assert client.get("/v1/keys").json() == []
        made = client.post("/v1/keys", json={"name": "me", "roles": ["admin", "read"]})
        assert made.status_code == 201
        me = made.json()
        assert_problem(client.get("/v1/keys"), 401)
        admin = header(me["key"])
        limited = {"name": "Shop", "roles": ["feedback", "decide"], "campaign": campaign}
        shop_key = client.post("/v1/keys", json=limited, headers=admin).json()
        assert shop_key["roles"] == ["decide", "feedback"]
        listed = client.get("/v1/keys", headers=admin).json()
        assert [(k["name"], k["current"], k["campaign"]) for k in listed] == [
            ("me", True, None),
            ("Shop", False, campaign),
        ]
        assert me["key"] not in client.get("/v1/keys", headers=admin).text
        offers = f"/v1/campaigns/{campaign}/offers"
        for status in (201, 401):
            answer = client.post(offers, json={"player": "ann"}, headers=header(shop_key["key"]))
            assert answer.status_code == status
            gone = client.delete(f"/v1/keys/{shop_key['id']}", headers=admin)
            assert gone.json()["revoked_at"] is not None
        # The last administrator's key stays.
        own = f"/v1/keys/{me['id']}"
        problem = assert_problem(client.delete(own, headers=admin), 409, "conflict")
        assert f"entice keys revoke {me['id']}" in problem["detail"]
        other = client.post("/v1/keys", json={"name": "you", "roles": ["admin"]}, headers=admin)
        assert client.delete(own, headers=header(other.json()["key"])).status_code == 200
        assert_problem(client.get("/v1/keys", headers=admin), 401)


@pytest.mark.parametrize("role", ["read", "decide", "feedback", "admin of one campaign"])
def test_only_administrators_of_all_campaigns_see_keys(own_shop: Service, role: str) -> None:
    campaign = own_shop.campaign()
    own_shop.bearer("admin")
    of_one = role.startswith("admin")
    headers = own_shop.bearer(role.partition(" ")[0], campaign if of_one else None)
    body = {"name": "more", "roles": ["admin"]}
    [first, *_] = own_shop.keys.list()
    for answer in (
        own_shop.client.get("/v1/keys", headers=headers),
        own_shop.client.post("/v1/keys", json=body, headers=headers),
        own_shop.client.delete(f"/v1/keys/{first.id}", headers=headers),
    ):
        assert_problem(answer, 403, "forbidden")
    assert len(own_shop.keys.list()) == 2
    assert all(key.revoked is None for key in own_shop.keys.list())


def test_invalid_keys_are_rejected_before_one_is_created(own_shop: Service) -> None:
    client = own_shop.client
    for body in (
        {"name": "", "roles": ["admin"]},
        {"name": "two\nlines", "roles": ["admin"]},
        {"name": "me", "roles": []},
        {"name": "me", "roles": ["owner"]},
        {"name": "me", "roles": ["admin"], "campaign": "c_0"},
        {"name": "me", "roles": ["admin"], "expires": 5},
    ):
        assert_problem(client.post("/v1/keys", json=body), 422)
    assert_problem(client.delete("/v1/keys/0123abcd"), 404)
    assert client.get("/v1/keys").json() == []


def test_an_altered_key_is_marked_and_does_not_count_as_an_administrator(
    own_shop: Service,
) -> None:
    admin, _ = own_shop.bearer("admin"), own_shop.bearer("read")
    with own_shop.store.write() as session:
        session.run("UPDATE keys SET role = 'admin' WHERE role = 'read'")
    listed = own_shop.client.get("/v1/keys", headers=admin).json()
    assert [(key["altered"], key["roles"]) for key in listed] == [
        (False, ["admin"]),
        (True, ["admin"]),
    ]
    own = own_shop.client.delete(f"/v1/keys/{listed[0]['id']}", headers=admin)
    assert_problem(own, 409)
