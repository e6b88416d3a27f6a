"""The API: offers, lists, exports and streams."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import polars as pl
import pytest
from service_fixtures import TEAS, TOKEN, Service, assert_problem, service

from entice.estimate.ratings import read_probed_ratings
from entice.service.domain.errors import Refusal
from entice.service.http import exports, offers
from entice.service.http.quotas import Quota
from entice.service.operations.campaign_list import CampaignList, CampaignPage
from entice.service.operations.export import MEDIA_TYPES, SCHEMA
from entice.service.storage import queries
from entice.service.storage.player_hasher import PlayerHasher

NONE = {"per_key": 0, "per_campaign": 0, "total": 0}


def test_the_life_of_an_offer(shop: Service) -> None:
    campaign = shop.campaign()
    shop.client.post(
        f"/v1/campaigns/{campaign}/ratings", json={"ratings": [{"arm": "oolong", "rating": 5}]}
    )
    offer = shop.offer(campaign, "ann")
    assert (offer["state"], offer["greedy_arm"], offer["currency"]) == ("offered", "oolong", "EUR")
    assert offer["amount"] == 400
    assert offer["arm"] != "oolong"
    path = f"/v1/offers/{offer['id']}"
    money = shop.client.get(f"/v1/campaigns/{campaign}").json()
    assert (money["reserved"], money["committed"], money["free"]) == (400, 0, 49_600)

    again = shop.client.post(f"/v1/campaigns/{campaign}/offers", json={"player": "ann"})
    assert (again.status_code, again.json()) == (200, offer)

    accepted = shop.client.post(f"{path}/accept", json={"amount": 300}).json()
    assert (accepted["state"], accepted["paid"]) == ("accepted", 300)
    rated = shop.client.post(f"{path}/rating", json={"rating": 4}).json()
    assert (rated["state"], rated["rating"]) == ("rated", 4)
    arms = {arm["id"]: arm for arm in shop.client.get(f"/v1/campaigns/{campaign}/arms").json()}
    assert arms[offer["arm"]]["average"] == 4
    assert shop.client.post(f"{path}/reverse").json()["state"] == "reversed"
    money = shop.client.get(f"/v1/campaigns/{campaign}").json()
    assert (money["reserved"], money["committed"]) == (0, 0)

    history = shop.client.get(path).json()
    assert [event["kind"] for event in history["history"]] == [
        "offered", "accepted", "rated", "reversed",
    ]  # fmt: skip
    assert history["arithmetic"]["amount"] == 400
    problem = assert_problem(shop.client.post(f"{path}/accept"), 409, "conflict")
    assert problem["state"] == "reversed"


def test_an_offer_is_declined_without_a_body(shop: Service) -> None:
    offer = shop.offer(shop.campaign(), "ann")
    answer = shop.client.post(f"/v1/offers/{offer['id']}/decline")
    assert (answer.status_code, answer.json()["state"]) == (200, "declined")


def test_a_campaign_changes(shop: Service) -> None:
    campaign = shop.campaign()
    path = f"/v1/campaigns/{campaign}"
    changed = shop.client.patch(path, json={"status": "paused", "cap_per_offer": None}).json()
    assert changed["status"] == "paused"
    assert "cap_per_offer" not in changed["spec"]
    assert shop.offer(campaign, "ann")["reason"] == "paused"
    arms = shop.client.post(f"{path}/arms", json={"arms": ["hojicha"]}).json()
    assert [arm["id"] for arm in arms] == [*TEAS["arms"], "hojicha"]
    retired = shop.client.patch(f"{path}/arms/hojicha", json={"retired": True}).json()
    assert (retired["id"], retired["retired"]) == ("hojicha", True)
    assert_problem(shop.client.patch(f"{path}/arms/cocoa", json={"retired": True}), 404)
    assert shop.client.patch(path, json={"status": "closed"}).json()["status"] == "closed"
    problem = assert_problem(shop.client.post(f"{path}/offers", json={"player": "bob"}), 409)
    assert problem["state"] == "closed"


def test_overlap_can_be_switched_on_and_off(shop: Service) -> None:
    campaign = shop.campaign()
    path = f"/v1/campaigns/{campaign}"
    assert shop.client.patch(path, json={"overlap": 0.9}).json()["spec"]["overlap"] == 0.9
    reasons = {shop.offer(campaign, f"player {i}")["reason"] for i in range(30)}
    assert "overlap" in reasons
    offers = shop.client.get(f"{path}/offers", params={"reason": "overlap"}).json()["offers"]
    assert {offer["reason"] for offer in offers} == {"overlap"}
    for share in (1, -0.1, "much"):
        assert_problem(shop.client.patch(path, json={"overlap": share}), 422)
    for off in (0, None):
        changed = shop.client.patch(path, json={"overlap": off}).json()
        assert "overlap" not in changed["spec"]
    assert changed["version"] == 3


def test_a_budget_below_the_sum_spent_is_rejected(shop: Service) -> None:
    campaign = shop.campaign()
    shop.client.post(
        f"/v1/campaigns/{campaign}/ratings", json={"ratings": [{"arm": "oolong", "rating": 5}]}
    )
    shop.offer(campaign, "ann")
    answer = shop.client.patch(f"/v1/campaigns/{campaign}", json={"budget": 399})
    assert assert_problem(answer, 409)["least"] == 400


def test_the_amount_of_a_payment_cannot_be_changed(shop: Service) -> None:
    """Players of one block of an equal-pay policy must get the same amount."""
    policy = {"kind": "equal_pay_elimination", "horizon": 1000}
    campaign = shop.campaign(policy=policy, margin=3)
    for change in ({"price_of_a_star": 300}, {"margin": 0}, {"policy": {"kind": "ucb"}}):
        answer = shop.client.patch(f"/v1/campaigns/{campaign}", json=change)
        assert next(iter(change)) in assert_problem(answer, 409)["detail"]
    settings = shop.client.get(f"/v1/campaigns/{campaign}").json()["spec"]
    assert (settings["price_of_a_star"], settings["margin"]) == (200, 3)


def test_a_probe_with_an_equal_pay_policy_is_rejected(shop: Service) -> None:
    probe = {"share": 0.1, "amount": 0.5}
    settings = {**TEAS, "policy": {"kind": "equal_pay"}, "probe": probe}
    problem = assert_problem(shop.client.post("/v1/campaigns", json=settings), 422)
    assert "Remove the probe, or choose another policy." in problem["detail"]


def test_a_batch_is_made_completely_or_not_at_all(shop: Service) -> None:
    campaign = shop.campaign()
    path = f"/v1/campaigns/{campaign}/offers/batch"
    requests = [{"player": f"player {i}"} for i in range(50)]
    offers = shop.client.post(path, json={"requests": requests}).json()["offers"]
    assert [offer["decision"] for offer in offers] == list(range(1, 51))
    bad = [{"player": "new"}, {"player": "newer", "eligible": ["cocoa"]}]
    assert_problem(shop.client.post(path, json={"requests": bad}), 422)
    assert shop.client.get(f"/v1/campaigns/{campaign}").json()["decisions"] == 50
    many = [{"player": str(i)} for i in range(1001)]
    problem = assert_problem(shop.client.post(path, json={"requests": many}), 422)
    assert problem["errors"][0]["pointer"] == "/requests"


def test_a_request_with_an_idempotency_key_is_executed_once(shop: Service) -> None:
    campaign = shop.campaign()
    path, key = f"/v1/campaigns/{campaign}/ratings", {"idempotency-key": "monday-1"}
    body = {"ratings": [{"arm": "oolong", "rating": 5}]}
    first = shop.client.post(path, json=body, headers=key)
    again = shop.client.post(path, json=body, headers=key)
    assert (first.status_code, again.status_code) == (201, 201)
    assert (first.content, again.headers["idempotency-replayed"]) == (again.content, "true")
    assert "idempotency-replayed" not in first.headers
    assert shop.client.get(f"/v1/campaigns/{campaign}").json()["ratings"] == 1
    other = {"ratings": [{"arm": "oolong", "rating": 4}]}
    assert_problem(shop.client.post(path, json=other, headers=key), 422, "idempotency-key-reused")
    for bad in ("", "x" * 201, "with space"):
        answer = shop.client.post(path, json=body, headers={"idempotency-key": bad})
        assert_problem(answer, 400)


def test_events_come_in_pages(shop: Service) -> None:
    campaign = shop.campaign()
    for i in range(6):
        shop.offer(campaign, str(i))
    path, seen, after = f"/v1/campaigns/{campaign}/events", [], 0
    while after is not None:
        page = shop.client.get(path, params={"after": after, "limit": 3}).json()
        seen += [event["seq"] for event in page["events"]]
        after = page["next"]
    assert seen == [1, 2, 3, 4, 5, 6, 7]
    for bad in ("limit=0", "limit=1001", "limit=x", "after=-1", "after=1e3", f"after={2**63}",
                "limit=٣", "limt=3", "after=%ff"):  # fmt: skip
        assert_problem(shop.client.get(f"{path}?{bad}"), 422)
    assert shop.client.get(f"{path}?after={2**63 - 1}").json() == {"events": [], "next": None}


def test_offers_are_listed_newest_first_in_pages(shop: Service) -> None:
    campaign = shop.campaign()
    made = [shop.offer(campaign, f"player {i}") for i in range(7)]
    path, seen, before = f"/v1/campaigns/{campaign}/offers", [], {}
    while before is not None:
        page = shop.client.get(path, params={"limit": 3, **before}).json()
        seen += page["offers"]
        before = {"before": page["next"]} if page["next"] else None
    assert seen == made[::-1]
    assert shop.client.get(path, params={"before": 1}).json() == {"offers": [], "next": None}


def test_lists_of_offers_are_filtered(shop: Service) -> None:
    campaign = shop.campaign()
    path = f"/v1/campaigns/{campaign}/offers"

    def listed(**filters: str) -> list[int]:
        return [o["decision"] for o in shop.client.get(path, params=filters).json()["offers"]]

    for player in ("ann", "bob", "ann", "cy"):
        offer = shop.offer(campaign, player)
        if player == "ann":
            shop.client.post(f"/v1/offers/{offer['id']}/accept")
    offers = shop.client.get(path).json()["offers"]
    assert listed(player="ann") == [3, 1]
    assert listed(player="dan") == []
    assert listed(state="accepted") == [3, 1]
    assert listed(state="offered", player="cy") == [4]
    for field in ("arm", "reason"):
        for value in {offer[field] for offer in offers}:
            expected = [offer["decision"] for offer in offers if offer[field] == value]
            assert listed(**{field: value}) == expected
    assert_problem(shop.client.get(path, params={"arm": "cocoa"}), 404)
    for bad in ("state=lost", "reason=x", "limit=0", "before=0", "player=", "arm=", "players=ann"):
        assert_problem(shop.client.get(f"{path}?{bad}"), 422)
    detail = assert_problem(shop.client.get(f"{path}?state=offerd"), 422)["detail"]
    assert "Did you mean 'offered'?" in detail
    detail = assert_problem(shop.client.get(f"{path}?limit=1001"), 422)["detail"]
    assert detail == "limit must be a whole number from 1 to 1000; got '1001'."


def test_a_filtered_list_searches_a_bounded_number_of_offers(
    shop: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queries, "MAX_SEARCHED", 4)
    monkeypatch.setattr(queries, "_SEARCHED_AT_ONCE", 3)
    campaign = shop.campaign()
    for i in range(9):
        shop.offer(campaign, f"player {i}")
    path, pages, before = f"/v1/campaigns/{campaign}/offers", [], {}
    while before is not None:
        page = shop.client.get(path, params={"player": "player 0", **before}).json()
        pages.append([offer["decision"] for offer in page["offers"]])
        before = {"before": page["next"]} if page["next"] else None
    assert pages == [[], [], [1]]


@pytest.mark.parametrize(("at_once", "turns"), [(2, [2, 4, 5]), (9, [5])], ids=["", "control"])
def test_other_requests_get_turns_while_the_players_of_a_batch_are_hashed(
    shop: Service, monkeypatch: pytest.MonkeyPatch, at_once: int, turns: list[int]
) -> None:
    hashed, seen, hash_player = 0, [], PlayerHasher.hash

    def count(self: PlayerHasher, campaign: str, player: str) -> bytes:
        nonlocal hashed
        hashed += 1
        return hash_player(self, campaign, player)

    async def give_turn(seconds: float) -> None:
        seen.append(hashed)

    monkeypatch.setattr(PlayerHasher, "hash", count)
    monkeypatch.setattr(offers, "HASHED_AT_ONCE", at_once)
    monkeypatch.setattr(offers, "asyncio", SimpleNamespace(sleep=give_turn))
    path = f"/v1/campaigns/{shop.campaign()}/offers/batch"
    made = shop.client.post(path, json={"requests": [{"player": f"p{i}"} for i in range(5)]})
    assert (made.status_code, len(made.json()["offers"]), seen) == (201, 5, turns)


def test_campaigns_are_listed_in_pages(tmp_path: Path) -> None:
    with service(tmp_path, wait=False) as shop:
        names = [shop.campaign(name=f"Teas {i}") for i in range(5)]
        shop.client.patch(f"/v1/campaigns/{names[1]}", json={"status": "paused"})
        assert [one["id"] for one in shop.client.get("/v1/campaigns").json()] == names
        seen, path = [], "/v1/campaigns?limit=2"
        while path:
            answer = shop.client.get(path)
            seen.append([one["id"] for one in answer.json()])
            path = answer.links.get("next", {}).get("url", "")
        assert seen == [names[:2], names[2:4], names[4:]]
        live = shop.client.get("/v1/campaigns", params={"status": "live", "limit": 3})
        assert [one["id"] for one in live.json()] == [names[0], *names[2:4]]
        last = shop.client.get(live.links["next"]["url"])
        assert ([one["id"] for one in last.json()], last.links) == ([names[4]], {})
        assert_problem(shop.client.get("/v1/campaigns?status=open"), 422)
        assert_problem(shop.client.get("/v1/campaigns?after=c_0"), 404)


def test_a_list_of_campaigns_is_bounded_without_a_limit_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The pages here have two campaigns instead of a thousand."""
    page = CampaignList.page
    asked: list[int] = []

    def two(self: CampaignList, *arguments: Any, limit: int, **options: Any) -> CampaignPage:
        asked.append(limit)
        return page(self, *arguments, limit=min(limit, 2), **options)

    with service(tmp_path, wait=False) as shop:
        names = [shop.campaign(name=f"Teas {i}") for i in range(3)]
        monkeypatch.setattr(CampaignList, "page", two)
        first = shop.client.get("/v1/campaigns")
        last = shop.client.get(first.links["next"]["url"])
    assert [one["id"] for answer in (first, last) for one in answer.json()] == names
    assert (asked, first.headers["entice-total"], last.links) == ([1000, 1000], "3", {})


def test_seeds_of_new_campaigns_fit_a_double(shop: Service) -> None:
    largest = 2**53 - 1
    campaign = shop.client.post("/v1/campaigns", json={**TEAS, "seed": largest}).json()
    assert campaign["spec"]["seed"] == largest
    answer = shop.client.post("/v1/campaigns", json={**TEAS, "seed": largest + 1})
    assert "seed must be at most" in assert_problem(answer, 422)["detail"]
    drawn = shop.client.post("/v1/campaigns", json={k: v for k, v in TEAS.items() if k != "seed"})
    assert 0 <= drawn.json()["spec"]["seed"] <= largest


def test_without_a_probe_there_is_no_drift_estimate(shop: Service) -> None:
    drift = shop.client.get(f"/v1/campaigns/{shop.campaign()}/drift").json()
    assert (drift["probed"], drift["slope"]) == (False, None)


def test_all_export_formats_have_the_same_rows(shop: Service, tmp_path: Path) -> None:
    campaign = shop.campaign(arms=["-1x", "sencha"], probe={"share": 1.0, "amount": 0.5})
    for i in range(30):
        offer = shop.offer(campaign, f"player {i}")
        if i % 3:
            shop.client.post(f"/v1/offers/{offer['id']}/accept")
            shop.client.post(f"/v1/offers/{offer['id']}/rating", json={"rating": 1 + i % 5})
    shop.client.post(
        f"/v1/campaigns/{campaign}/ratings", json={"ratings": [{"arm": "-1x", "rating": 2}]}
    )
    path = f"/v1/campaigns/{campaign}/export"
    for format_, media_type in MEDIA_TYPES.items():
        headers = shop.client.get(path, params={"format": format_}).headers
        assert headers["content-type"] == media_type
        assert headers["content-disposition"].endswith(f'{campaign}.{format_}"')
    whole = pl.read_parquet(shop.client.get(path).content)
    assert whole.schema == pl.Schema(SCHEMA)
    assert whole.height == 31
    assert whole["kind"].to_list() == ["offer"] * 30 + ["organic"]
    assert whole["feedback"].count() == 21
    lines = shop.client.get(path, params={"format": "jsonl"}).text.splitlines()
    assert [json.loads(line)["feedback"] for line in lines] == whole["feedback"].to_list()
    text = shop.client.get(path, params={"format": "csv"}).text
    cells = pl.read_csv(io.StringIO(text), infer_schema_length=None)
    assert cells["t"].to_list() == whole["t"].to_list()
    assert set(cells["arm"]) <= {"'-1x", "sencha"}
    assert "'-1x" in set(cells["arm"])
    whole.write_parquet(tmp_path / "taken.parquet")
    assert read_probed_ratings(tmp_path / "taken.parquet", None)["coin"].count() > 0
    assert_problem(shop.client.get(path, params={"format": "xlsx"}), 422)


@pytest.mark.parametrize("file_format", ["parquet", "csv"])
def test_exports_that_cannot_be_written_return_507_and_are_not_counted(
    shop: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file_format: str
) -> None:
    """Before, each such request was counted as an export in progress for ever."""
    path = f"/v1/campaigns/{shop.campaign()}/export?format={file_format}"
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "missing"))
    for _ in range(5):
        problem = assert_problem(shop.client.get(path), 507, "no-temporary-space")
        assert "temporary folder" in problem["detail"]
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    # Every write to this device fails as on a full disk.
    monkeypatch.setattr(exports, "Path", lambda _: _FullDisk())
    for _ in range(5):
        assert_problem(shop.client.get(path), 507, "no-temporary-space")
    monkeypatch.undo()
    assert shop.context.exports.open == 0
    assert shop.client.get(path).status_code == 200


def test_exports_that_stay_counted_would_use_up_the_limit(
    shop: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The control of the test above: a quota that is not released after an error."""
    path, take = f"/v1/campaigns/{shop.campaign()}/export", Quota.take
    held: list[contextlib.AbstractContextManager[None]] = []

    @contextlib.contextmanager
    def take_for_ever(self: Quota, key: str, campaign: str) -> Iterator[None]:
        held.append(take(self, key, campaign))
        held[-1].__enter__()
        yield
        held.pop().__exit__(None, None, None)  # not after an error

    own = Quota("exports", per_key=2, per_campaign=2, total=4)
    monkeypatch.setattr(shop.context, "exports", own)
    monkeypatch.setattr(Quota, "take", take_for_ever)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "missing"))
    assert [shop.client.get(path).status_code for _ in range(3)] == [507, 507, 429]


class _FullDisk:
    """A folder in which every file is /dev/full."""

    def __truediv__(self, _: str) -> Path:
        return Path("/dev/full")


def test_the_number_of_exports_is_limited(shop: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    path = f"/v1/campaigns/{shop.campaign()}/export"
    monkeypatch.setattr(shop.context, "exports", Quota("exports", **NONE))
    assert_problem(shop.client.get(path), 429, "too-many-exports")
    monkeypatch.undo()
    for _ in range(5):
        assert shop.client.get(path, params={"format": "csv"}).status_code == 200
    assert shop.context.exports.open == 0


def test_a_quota_leaves_room_for_other_keys_and_campaigns() -> None:
    quota = Quota("exports", per_key=2, per_campaign=3, total=5)
    with contextlib.ExitStack() as held:

        def take(key: str, campaign: str) -> None:
            held.enter_context(quota.take(key, campaign))

        take("a", "A")
        take("a", "A")
        with pytest.raises(Refusal, match="2 exports are in progress for this key"):
            take("a", "B")
        take("b", "A")
        with pytest.raises(Refusal, match="3 exports are in progress for this campaign"):
            take("c", "A")
        take("b", "B")
        take("c", "B")
        with pytest.raises(Refusal, match="5 exports are in progress, which"):
            take("d", "D")
    assert (quota.open, quota._of) == (0, {})


def test_a_stream_resumes_after_the_last_event(tmp_path: Path) -> None:
    with service(tmp_path) as shop:
        campaign = shop.campaign()
        shop.offer(campaign, "ann")

    async def follow(headers: list[tuple[bytes, bytes]], until: int) -> str:
        parts: list[bytes] = []
        enough = asyncio.Event()

        async def receive() -> dict[str, Any]:
            await enough.wait()
            return {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            parts.append(message.get("body", b""))
            if b"".join(parts).count(b"id: ") >= until:
                enough.set()

        own = (b"host", b"localhost"), (b"authorization", f"Bearer {TOKEN}".encode())
        scope = {
            "type": "http", "http_version": "1.1", "method": "GET", "query_string": b"",
            "path": f"/v1/campaigns/{campaign}/stream", "headers": [*own, *headers],
            "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 1), "scheme": "http",
        }  # fmt: skip
        asking = asyncio.create_task(app(scope, receive, send))  # type: ignore[arg-type]
        while b"retry" not in b"".join(parts):  # from then on, the first event is fixed
            await asyncio.sleep(0.01)
        await asyncio.to_thread(offer, until)
        await asyncio.wait_for(asking, 20)
        return b"".join(parts).decode()

    with service(tmp_path) as shop:
        # In the event loop of the service: it supports one only.
        app, portal = shop.client.app, shop.client.blocking_portal

        def offer(player: int) -> None:
            shop.offer(campaign, f"player {player}")

        from_now = portal.call(follow, [], 1)
        assert "id: 3\nevent: offered\ndata: {" in from_now
        assert "id: 2\n" not in from_now
        from_then = portal.call(follow, [(b"last-event-id", b"1")], 2)
        assert "id: 2\nevent: offered" in from_then
        assert "id: 1\n" not in from_then
        assert shop.context.streams.quota.open == 0
        path = f"/v1/campaigns/{campaign}/stream"
        assert_problem(shop.client.get(path, headers={"last-event-id": "x"}), 400)


def test_the_number_of_streams_is_limited(shop: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shop.context.streams, "quota", Quota("streams", **NONE))
    answer = shop.client.get(f"/v1/campaigns/{shop.campaign()}/stream")
    assert_problem(answer, 429, "too-many-streams")
    assert answer.headers["retry-after"] == "1"
