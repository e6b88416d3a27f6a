"""Players: what is kept, erasure, and hashes that cannot be linked any more."""

from __future__ import annotations

import io
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import polars as pl
import pytest
from service_fixtures import TEAS, Service, assert_problem, service

from entice.service.domain.campaign_state import CampaignState
from entice.service.operations.verify import rows_without_events, verify
from entice.service.storage import player_salts, unit_of_work
from entice.service.storage.group_commit import GroupCommit
from entice.service.storage.player_hasher import PlayerHasher, player_hasher_for
from entice.service.storage.player_salts import salted
from entice.service.storage.queries import Queries
from entice.service.storage.sqlite import SqliteStore
from entice.service.storage.store import Store

ASSETS = Path(__file__).parents[2] / "support" / "assets"
SECRET = bytes(32)
"""The secret of `service`."""
EXPLORE = {"displayed": {"oolong": 5.0, "sencha": 4.0}, "eligible": ["oolong", "sencha"]}
"""For the first player of `explored`: sencha, for the price of one star."""


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Service]:
    with service(tmp_path) as running:
        yield running


def explored(shop: Service, **changes: Any) -> str:
    """Create a campaign in which oolong has a rating and sencha has none."""
    campaign = shop.campaign(**changes)
    rating = {"ratings": [{"arm": "oolong", "rating": 4}]}
    shop.client.post(f"/v1/campaigns/{campaign}/ratings", json=rating)
    return campaign


def links(store: Store, player: str) -> set[str]:
    """Link a player's id to whatever the database holds, knowing the secret.

    Tries every salt that is stored, and none, and returns the tables with a match.
    """
    hasher, found = PlayerHasher(SECRET), set()
    with store.read() as session:
        campaigns = [name for (name,) in session.rows("SELECT id FROM campaigns")]
        salts = [b"", *(bytes(row[0]) for row in session.rows("SELECT salt FROM players"))]
        hashes = {salted(hasher.hash(c, player), [s]) for c in campaigns for s in salts}
        if hashes & {bytes(row[0]) for row in session.rows("SELECT player FROM offers")}:
            found.add("offers")
        bodies = b"".join(bytes(row[0]) for row in session.rows("SELECT body FROM events"))
        if any(hashed.hex().encode() in bodies for hashed in hashes):
            found.add("events")
        lookups = {hasher.lookup(c, player) for c in campaigns}
        if lookups & {bytes(row[0]) for row in session.rows("SELECT lookup FROM players")}:
            found.add("players")
        body = httpx.Request("POST", "http://x", json={"player": player, **EXPLORE}).content
        sent = [hasher.digest("POST", f"/v1/campaigns/{c}/offers", body) for c in campaigns]
        requests = {salted(digest, [salt]) for digest in sent for salt in salts}
        if requests & {bytes(row[0]) for row in session.rows("SELECT request FROM answers")}:
            found.add("answers")
    return found


def faults(store: Store) -> list[str]:
    found = [v.fault for v in verify(store) if v.fault is not None]
    return found + list(rows_without_events(store, player_hasher_for(store)))


def test_an_erased_player_cannot_be_linked_even_with_the_secret(shop: Service) -> None:
    """Controls: before the erasure the secret links the id in every table, and so it does for
    another player afterwards."""
    first, second = explored(shop), explored(shop, cap_per_player=1000)
    offers: dict[str, Any] = {}
    for campaign in (first, second):
        for player in ("ann", "bob"):
            offers[campaign, player] = shop.client.post(
                f"/v1/campaigns/{campaign}/offers",
                json={"player": player, **EXPLORE},
                headers={"idempotency-key": f"{campaign}-{player}"},
            ).json()
    rated = offers[first, "ann"]["id"]
    shop.client.post(f"/v1/offers/{rated}/accept")
    everything = {"offers", "events", "players", "answers"}
    assert links(shop.store, "ann") == links(shop.store, "bob") == everything
    with shop.store.read() as session:
        lookup = PlayerHasher(SECRET).lookup(second, "ann")
        salts = session.rows("SELECT salt FROM players WHERE lookup = ?", (lookup,))
        assert len(salts) == 1
    kept = shop.client.get("/v1/players/ann").json()["campaigns"]
    assert [one["campaign"] for one in kept] == [first, second]
    assert [[o["state"] for o in one["offers"]] for one in kept] == [["accepted"], ["offered"]]
    before = shop.client.get(f"/v1/campaigns/{second}").json()
    assert before["reserved"] == offers[second, "ann"]["amount"] == 200

    answer = shop.client.delete("/v1/players/ann")
    unlinked = [{"campaign": name, "unlinked": True} for name in (first, second)]
    assert (answer.status_code, answer.json()) == (200, {"campaigns": unlinked, "damaged": []})
    assert links(shop.store, "ann") == set()
    assert links(shop.store, "bob") == everything
    assert shop.client.get("/v1/players/ann").json() == {"campaigns": [], "damaged": []}
    listed = shop.client.get(f"/v1/campaigns/{first}/offers", params={"player": "ann"}).json()
    assert listed["offers"] == []
    # The open offer is withdrawn and its amount released; the accepted one can still be rated.
    after = shop.client.get(f"/v1/campaigns/{second}").json()
    assert after["reserved"] == 0
    history = shop.client.get(f"/v1/offers/{offers[second, 'ann']['id']}").json()
    assert history["offer"]["state"] == "voided"
    assert shop.client.post(f"/v1/offers/{rated}/rating", json={"rating": 4}).status_code == 200
    events = shop.client.get(f"/v1/campaigns/{second}/events").json()["events"]
    tombstone = next(e["body"] for e in events if e["body"]["kind"] == "player_erased")
    assert tombstone["player"] == kept[1]["player"] == history["history"][0]["player"]
    assert faults(shop.store) == []
    # The player is new from now on, also for a request that was answered before.
    again = shop.client.post(
        f"/v1/campaigns/{second}/offers",
        json={"player": "ann", **EXPLORE},
        headers={"idempotency-key": f"{second}-ann"},
    )
    assert_problem(again, 422, "idempotency-key-reused")
    assert shop.offer(second, "ann")["id"] != offers[second, "ann"]["id"]
    new = shop.client.get("/v1/players/ann").json()["campaigns"]
    assert new[0]["player"] != kept[1]["player"]
    assert faults(shop.store) == []
    path = Path(shop.store.url.removeprefix("sqlite:///"))
    shop.store.close()
    # Closing the last connection has emptied the write-ahead log.
    data = path.read_bytes()
    assert kept[1]["player"].encode() in data
    assert not any(bytes(salt) in data for (salt,) in salts)


def test_a_rejected_request_leaves_no_trace_of_its_player(shop: Service) -> None:
    campaign = shop.campaign()
    path = f"/v1/campaigns/{campaign}/offers"
    for player, arm in (("ann", "cocoa"), ("bob", "oolong")):
        shop.client.post(path, json={"player": player, "eligible": [arm]})
    assert links(shop.store, "ann") == set()
    assert "players" in links(shop.store, "bob")  # the control


def test_ids_have_a_limited_length(shop: Service) -> None:
    assert shop.client.get(f"/v1/players/{'x' * 256}").status_code == 200
    assert_problem(shop.client.get(f"/v1/players/{'x' * 257}"), 422, "invalid")


def test_a_key_of_one_campaign_reads_its_own_and_erases_nothing(shop: Service) -> None:
    own, other = shop.campaign(), shop.campaign()
    for campaign in (own, other):
        shop.offer(campaign, "ann")
    reader, admin = shop.bearer("read", own), shop.bearer("admin", own)
    kept = shop.client.get("/v1/players/ann", headers=reader).json()["campaigns"]
    assert [one["campaign"] for one in kept] == [own]
    assert_problem(shop.client.delete("/v1/players/ann", headers=reader), 403)
    assert_problem(shop.client.delete("/v1/players/ann", headers=admin), 403)
    assert "players" in links(shop.store, "ann")
    view, secret = shop.keys.create("admin", None, "operations")
    everywhere = {"authorization": f"Bearer {secret}"}
    erased = shop.client.delete("/v1/players/ann", headers=everywhere).json()["campaigns"]
    assert [one["campaign"] for one in erased] == [own, other]
    path = f"/v1/campaigns/{own}/events"
    events = shop.client.get(path, headers=everywhere).json()["events"]
    [by] = [e["body"]["by"] for e in events if e["body"]["kind"] == "player_erased"]
    assert by == view.id


def test_only_campaigns_that_know_the_player_are_decoded(
    shop: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    campaigns = [shop.campaign() for _ in range(3)]
    shop.offer(campaigns[1], "ann")
    decode, decoded = unit_of_work.decode_state, []

    def count(encoded: bytes) -> CampaignState:
        state = decode(encoded)
        decoded.append(state.campaign)
        return state

    monkeypatch.setattr(unit_of_work, "decode_state", count)
    for player, known in (("ann", [campaigns[1]]), ("bob", [])):
        decoded.clear()
        view = shop.client.get(f"/v1/players/{player}").json()
        assert [one["campaign"] for one in view["campaigns"]] == known == decoded
        assert view["damaged"] == []


def test_an_altered_salt_is_detected(shop: Service) -> None:
    campaign = shop.campaign()
    shop.offer(campaign, "ann")
    assert faults(shop.store) == []
    with shop.store.write() as session:
        session.run("UPDATE players SET salt = ?", (bytes(16),))
    assert [fault[:18] for fault in faults(shop.store)] == ["The salt of player"]
    path = f"/v1/campaigns/{campaign}/offers"
    assert_problem(shop.client.post(path, json={"player": "ann"}), 503)


def test_salts_are_verified_in_pages(shop: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    """Salts on either side of the end of a page, and the last one, are all verified once."""
    campaign = shop.campaign()
    for number in range(7):
        shop.offer(campaign, f"player-{number}")
    monkeypatch.setattr(player_salts, "_PAGE", 3)
    assert list(player_salts.damaged_salts(shop.store)) == []
    with shop.store.write() as session:
        lookups = [row[0] for row in session.rows("SELECT lookup FROM players ORDER BY lookup")]
        wanted = [lookups[n] for n in (0, 2, 3, 6)]
        for lookup in wanted:
            session.run("UPDATE players SET salt = ? WHERE lookup = ?", (bytes(16), lookup))
    assert list(player_salts.damaged_salts(shop.store)) == [lookup.hex() for lookup in wanted]


def test_players_of_campaigns_from_before_salts_keep_their_hashes(tmp_path: Path) -> None:
    """The database of the first schema: its players are recognised, but cannot be unlinked."""
    shutil.copyfile(ASSETS / "service_v1.db", tmp_path / "entice.db")
    store = SqliteStore(tmp_path / "entice.db")
    with store.write() as session:
        session.run("DELETE FROM keys")  # so that the token counts
    old = Queries(store).campaigns()[0].id
    store.close()
    with service(tmp_path) as shop:
        shop.client.patch(f"/v1/campaigns/{old}", json={"status": "live"})
        offer, new = shop.offer(old, "ann"), shop.campaign()
        again = shop.client.post(f"/v1/campaigns/{old}/offers", json={"player": "ann"})
        assert (again.status_code, again.json()) == (200, offer)
        shop.offer(new, "ann")
        kept = shop.client.get("/v1/players/ann").json()["campaigns"]
        assert [(one["campaign"], one["salted"]) for one in kept] == [(old, False), (new, True)]
        assert kept[0]["player"] == PlayerHasher(SECRET).hash(old, "ann").hex()
        erased = shop.client.delete("/v1/players/ann").json()["campaigns"]
        assert [(one["campaign"], one["unlinked"]) for one in erased] == [(old, False), (new, True)]
        history = shop.client.get(f"/v1/offers/{offer['id']}").json()
        assert history["offer"]["state"] == "voided"
        assert links(shop.store, "ann") == {"offers", "events"}
        assert faults(shop.store) == []


# Disclosure


def test_paid_offers_carry_the_disclosure(shop: Service) -> None:
    text = "You get a discount for trying this tea, whatever you think of it."
    campaign = explored(shop, disclosure=text)
    paid, unpaid = (shop.offer(campaign, player, **EXPLORE) for player in ("ann", "bob"))
    assert (paid["amount"], paid["disclosure"]) == (200, text)
    assert (unpaid["amount"], unpaid["disclosure"]) == (0, None)
    without = shop.offer(explored(shop), "ann", **EXPLORE)
    assert (without["amount"], without["disclosure"]) == (200, None)
    shadow = shop.offer(explored(shop, disclosure=text, status="shadow"), "ann", **EXPLORE)
    assert (shadow["would_pay"], shadow["disclosure"]) == (200, None)
    rows = pl.read_parquet(io.BytesIO(shop.client.get(f"/v1/campaigns/{campaign}/export").content))
    assert rows["incentivised"].to_list() == [False, True, False]  # the first is organic
    for wrong in ("", "two\nlines", "x" * 1001):
        assert_problem(shop.client.post("/v1/campaigns", json={**TEAS, "disclosure": wrong}), 422)
    assert faults(shop.store) == []


@pytest.mark.parametrize("in_slices", [True, False], ids=["in slices", "in one transaction"])
def test_a_long_batch_stores_the_salts_of_its_players(
    shop: Service, monkeypatch: pytest.MonkeyPatch, in_slices: bool
) -> None:
    """A batch in slices loads and writes in different transactions; the other is the control."""
    monkeypatch.setattr("entice.service.storage.slices.SLICE", 0.0)
    cost = 1.0 if in_slices else 1e-6
    monkeypatch.setattr("entice.service.storage.fair_queue.UNKNOWN_COST", cost)
    begun: list[str] = []
    begin = GroupCommit.begin
    monkeypatch.setattr(
        GroupCommit, "begin", lambda self, one: (begun.append(one.campaign), begin(self, one))[1]
    )
    campaign = shop.campaign()
    path = f"/v1/campaigns/{campaign}/offers/batch"
    body = {"requests": [{"player": name} for name in ("ann", "bob", "eve", "ann")]}
    headers = {"idempotency-key": "batch"}
    first = shop.client.post(path, json=body, headers=headers)
    assert first.status_code == 201, first.text
    assert bool(begun) == in_slices
    again = shop.client.post(path, json=body, headers=headers)
    assert again.json() == first.json()  # the digest of the request depends on the salts
    another = {"requests": [{"player": "mallory"}]}
    assert_problem(shop.client.post(path, json=another, headers=headers), 422)
    offers = [one["id"] for one in first.json()["offers"]]
    assert offers[0] == offers[3]

    def offer_of(player: str) -> str:
        answer = shop.client.post(f"/v1/campaigns/{campaign}/offers", json={"player": player})
        return str(answer.json()["id"])

    assert offer_of("bob") == offers[1]
    assert shop.client.delete("/v1/players/bob").status_code == 200
    assert offer_of("bob") not in offers
    assert offer_of("eve") == offers[2]
    assert faults(shop.store) == []
