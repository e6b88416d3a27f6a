"""The API follows its OpenAPI document, and its errors say what is wrong."""

from __future__ import annotations

import asyncio
import io
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import polars as pl
import pytest
from service_fixtures import HERE, JSON, TEAS, Service, assert_problem, handlers, service

from entice.estimate.ratings import read_probed_ratings
from entice.service.http import events as event_api
from entice.service.http import exports
from entice.service.operations.export import MEDIA_TYPES, SCHEMA
from entice.service.storage import queries


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with service(tmp_path_factory.mktemp("shop")) as made:
        yield made


@pytest.fixture(scope="module")
def document(shop: Service) -> dict[str, Any]:
    found: dict[str, Any] = shop.client.get("/openapi.json").json()
    return found


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


def test_a_budget_below_the_sum_spent_is_rejected(shop: Service) -> None:
    campaign = shop.campaign()
    shop.client.post(
        f"/v1/campaigns/{campaign}/ratings", json={"ratings": [{"arm": "oolong", "rating": 5}]}
    )
    shop.offer(campaign, "ann")
    answer = shop.client.patch(f"/v1/campaigns/{campaign}", json={"budget": 399})
    assert assert_problem(answer, 409)["least"] == 400


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


# Export


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


def test_the_number_of_exports_is_limited(shop: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    path = f"/v1/campaigns/{shop.campaign()}/export"
    monkeypatch.setattr(exports, "MAX_EXPORTS", 0)
    assert_problem(shop.client.get(path), 429)
    monkeypatch.undo()
    for _ in range(4):
        assert shop.client.get(path, params={"format": "csv"}).status_code == 200
    assert shop.context.exports == 0


# Streams


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

        host = (b"host", b"localhost")
        scope = {
            "type": "http", "http_version": "1.1", "method": "GET", "query_string": b"",
            "path": f"/v1/campaigns/{campaign}/stream", "headers": [host, *headers],
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
        assert shop.context.streams.open == 0
        path = f"/v1/campaigns/{campaign}/stream"
        assert_problem(shop.client.get(path, headers={"last-event-id": "x"}), 400)


def test_the_number_of_streams_is_limited(shop: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_api, "MAX_STREAMS", 0)
    answer = shop.client.get(f"/v1/campaigns/{shop.campaign()}/stream")
    assert_problem(answer, 429, "too-many-streams")
    assert answer.headers["retry-after"] == "1"


# Errors

DEEP = b'{"name":' + b"[" * 40 + b"]" * 40 + b"}"
BODIES = {
    "nothing": (b"", 400),
    "half": (b'{"player":', 400),
    "nan": (b'{"player":"x","displayed":{"oolong":NaN}}', 400),
    "infinity": (b'{"player":"x","displayed":{"oolong":Infinity}}', 400),
    "1e999": (b'{"player":"x","displayed":{"oolong":1e999}}', 422),
    "lone surrogate": (rb'{"player":"\ud800"}', 400),
    "lone low surrogate": (rb'{"player":"\udc00 and more text"}', 400),
    "half a pair, then text": (rb'{"player":"\ud800 and more text behind it"}', 400),
    "surrogate in UTF-8": (b'{"player":"\xed\xa0\x80"}', 400),
    "latin-1": (b'{"player":"\xff"}', 400),
    "byte order mark": (b'\xef\xbb\xbf{"player":"x"}', 400),
    "deep": (b'{"player":' + b"[" * 100_000, 422),
    "a list": (b"[]", 422),
    "null": (b"null", 422),
    "empty": (b'{"player":""}', 422),
    "long": (b'{"player":"' + b"x" * 257 + b'"}', 422),
    "number": (b'{"player":1}', 422),
    "unknown field": (b'{"player":"x","playr":1}', 422),
    "no arm": (b'{"player":"x","eligible":[]}', 422),
    "unknown arm": (b'{"player":"x","eligible":["cocoa"]}', 422),
    "unknown display": (b'{"player":"x","displayed":{"cocoa":1}}', 422),
    "huge display": (b'{"player":"x","displayed":{"oolong":1e308}}', 422),
    "too large": (b'{"player":"' + b"x" * 1_048_576 + b'"}', 413),
}


@pytest.mark.parametrize("name", BODIES)
def test_hostile_offer_requests_are_rejected(shop: Service, name: str) -> None:
    body, status = BODIES[name]
    path = f"/v1/campaigns/{shop.campaign()}/offers"
    assert_problem(shop.client.post(path, content=body, headers=JSON), status)


CAMPAIGNS: dict[str, tuple[dict[str, Any] | bytes, str]] = {
    "deep": (DEEP, "32 deep"),
    "deeper": (b'{"name":' + b"[" * 5000 + b"]" * 5000 + b"}", "32 deep"),
    "budget": ({**TEAS, "budget": 2**63}, "budget must be at most"),
    "digits": (b'{"budget":' + b"9" * 5000 + b"}", "out of range"),
    "negative": ({**TEAS, "budget": -1}, "budget must be a whole number of at least 0"),
    "fraction": ({**TEAS, "budget": 0.5}, "must be a whole number"),
    "null": ({**TEAS, "budget": None}, "budget must be a number"),
    "true": ({**TEAS, "budget": True}, "budget must be a number"),
    "policy": ({**TEAS, "policy": {"kind": "uct"}}, "Did you mean 'ucb'?"),
    "code": ({**TEAS, "policy": {"kind": "custom", "select": "os:system"}}, "service can run"),
    "policy setting": ({**TEAS, "policy": {"kind": "ucb", "c": 1}}, "unknown setting"),
    "typo": ({**TEAS, "bugdet": 1}, "Did you mean 'budget'?"),
    "arms": ({**TEAS, "arms": ["a", "a"]}, "must not contain an id twice"),
    "arm": ({**TEAS, "arms": ["a", "=1+1"]}, "letters, digits"),
    "newline": ({**TEAS, "arms": ["a", "b\n"]}, "letters, digits"),
    "name": ({**TEAS, "name": "x\x00"}, "control characters"),
    "closed": ({**TEAS, "status": "closed"}, "in a new campaign"),
    "missing": ({"name": "x"}, "must have the setting"),
}


@pytest.mark.parametrize("name", CAMPAIGNS)
def test_hostile_campaign_requests_are_rejected(shop: Service, name: str) -> None:
    body, words = CAMPAIGNS[name]
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    answer = shop.client.post("/v1/campaigns", content=content, headers=JSON)
    problem = assert_problem(answer, 400 if name in ("deep", "deeper") else 422)
    assert words in problem["detail"]


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b'{"rating":9223372036854775808}', "rating"),
        (b'{"rating":6}', "from 1 to 5; got 6"),
        (b'{"rating":4.5}', "rating must be a whole number, such as 4 or 4.0; got one with"),
        (b'{"rating":4.000001}', "rating must be a whole number"),
        (b'{"rating":6.0}', "from 1 to 5; got 6"),
        (b'{"rating":1e300}', "rating: expected a number <="),
        (b'{"rating":"5"}', "expected a number, got text"),
        (b'{"rating":true}', "expected a number, got"),
        (b"{}", "must have the field 'rating'"),
    ],
)
def test_hostile_ratings_are_rejected(shop: Service, body: bytes, words: str) -> None:
    offer = shop.offer(shop.campaign(), "ann")
    path = f"/v1/offers/{offer['id']}"
    shop.client.post(f"{path}/accept")
    problem = assert_problem(shop.client.post(f"{path}/rating", content=body, headers=JSON), 422)
    assert words in problem["detail"]


@pytest.mark.parametrize("body", [b"4", b"4.0", b"4e0", b"40e-1", b"4.000"])
def test_a_whole_rating_may_be_written_as_a_float(shop: Service, body: bytes) -> None:
    campaign = shop.campaign()
    offer = shop.offer(campaign, "ann")
    path = f"/v1/offers/{offer['id']}"
    shop.client.post(f"{path}/accept")
    rated = shop.client.post(f"{path}/rating", content=b'{"rating":%b}' % body, headers=JSON)
    assert (rated.status_code, rated.json()["rating"]) == (200, 4)
    organic = b'{"ratings":[{"arm":"oolong","rating":%b}]}' % body
    path = f"/v1/campaigns/{campaign}/ratings"
    assert shop.client.post(path, content=organic, headers=JSON).status_code == 201
    events = shop.client.get(f"/v1/campaigns/{campaign}/events").json()["events"]
    written = [event["body"]["rating"] for event in events if "rating" in event["body"]]
    assert [(rating, type(rating)) for rating in written] == [(4, int), (4, int)]


@pytest.mark.parametrize("arm", [".", ".."])
def test_arm_ids_that_no_url_can_hold_are_rejected(shop: Service, arm: str) -> None:
    answer = shop.client.post("/v1/campaigns", json={**TEAS, "arms": ["oolong", arm]})
    assert "must not be '.' or '..'" in assert_problem(answer, 422)["detail"]
    path = f"/v1/campaigns/{shop.campaign(arms=['...', '.a', 'a..'])}/arms"
    answer = shop.client.post(path, json={"arms": ["matcha", arm]})
    assert "must not be '.' or '..'" in assert_problem(answer, 422)["detail"]
    assert [found["id"] for found in shop.client.get(path).json()] == ["...", ".a", "a.."]


def test_errors_in_nested_fields_have_a_pointer(shop: Service) -> None:
    path = f"/v1/campaigns/{shop.campaign()}/ratings"
    problem = assert_problem(
        shop.client.post(path, json={"ratings": [{"arm": "oolong", "ratng": 1}]}), 422
    )
    assert "Did you mean 'rating'? Allowed: arm, rating." in problem["detail"]
    problem = assert_problem(
        shop.client.post(path, json={"ratings": [{"arm": "oolong", "rating": "x"}]}), 422
    )
    assert problem["errors"][0]["pointer"] == "/ratings/0/rating"


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/v1", 404),
        ("GET", "/v1/campaigns/c_0/nothing", 404),
        ("GET", "/v1/campaigns/c_0000000000000000", 404),
        ("GET", "/v1/campaigns/%ff%fe", 404),
        ("GET", "/v1/campaigns/%00", 404),
        ("GET", "/v1/campaigns/" + "x" * 3000, 404),
        ("GET", "/v1/offers/c_0000000000000000.1", 404),
        ("GET", "/v1/offers/.", 404),
        ("GET", "/v1/offers/c_0.99999999999999999999", 404),
        ("POST", "/v1/offers/c_0000000000000000.1/decline", 404),
        ("DELETE", "/v1/campaigns", 405),
        ("PUT", "/healthz", 405),
        ("HEAD", "/v1/campaigns", 405),
    ],
)
def test_unknown_paths_and_methods_are_rejected(
    shop: Service, method: str, path: str, status: int
) -> None:
    answer = shop.client.request(method, path)
    assert answer.status_code == status
    if method != "HEAD":
        assert_problem(answer, status)
    if status == 405:
        assert set(answer.headers["allow"].replace(" ", "").split(",")) >= {"GET", "OPTIONS"}


def test_offers_are_found_by_their_exact_id_only(shop: Service) -> None:
    offer = shop.offer(shop.campaign(), "ann")["id"]
    campaign = offer.partition(".")[0]
    for name in (f"{campaign}.01", f"{campaign}.+1", f"{campaign}.1.0", f"{campaign}.", campaign):
        assert_problem(shop.client.get(f"/v1/offers/{name}"), 404)
        assert_problem(shop.client.post(f"/v1/offers/{name}/accept"), 404)


@pytest.mark.parametrize("media_type", [None, "text/plain", "application/x-www-form-urlencoded"])
def test_bodies_must_be_json(shop: Service, media_type: str | None) -> None:
    headers = {} if media_type is None else {"content-type": media_type}
    path = f"/v1/campaigns/{shop.campaign()}/offers"
    assert_problem(shop.client.post(path, content=b'{"player":"x"}', headers=headers), 415)
    loose = {"content-type": "Application/JSON; charset=utf-8"}
    assert shop.client.post(path, content=b'{"player":"x"}', headers=loose).status_code == 201


def test_an_unexpected_error_returns_the_request_id_only(
    shop: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(_: str) -> None:
        raise KeyError("the inside")

    monkeypatch.setattr(shop.context.queries, "campaign", broken)
    answer = shop.client.get("/v1/campaigns/c_0")
    problem = assert_problem(answer, 500, "internal")
    assert problem["instance"] == f"urn:entice:request:{answer.headers['x-request-id']}"
    assert "inside" not in answer.text


# The OpenAPI document


def test_the_document_has_every_route(shop: Service, document: dict[str, Any]) -> None:
    documented = {
        (path, method.upper()) for path, methods in document["paths"].items() for method in methods
    }
    assert documented == {
        (re.sub(":(str|path)", "", path), method)
        for handler in handlers(shop)
        for path in handler.paths
        for method in handler.http_methods
    }


def test_every_operation_has_a_description_and_examples(document: dict[str, Any]) -> None:
    assert document["openapi"] == "3.1.0"
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            assert operation["summary"], path
            assert len(operation["description"]) > 20, path
            for status, answer in operation["responses"].items():
                for media in answer["content"].values():
                    has_example = "examples" in media or "example" in media
                    assert has_example or path in _WITHOUT_EXAMPLES, (path, status)
            if method in ("post", "patch"):
                assert operation["requestBody"]["content"]["application/json"]["examples"]


_WITHOUT_EXAMPLES = (
    "/v1/campaigns/{campaign}/export",
    "/v1/campaigns/{campaign}/stream",
    "/metrics",
    "/openapi.json",
    "/",
    "/studio/{file}",
    "/v1/simulations",
    "/v1/plans",
    "/v1/paper",
    "/v1/campaigns/{campaign}/replay",
)


def test_the_document_is_fit_for_generators(document: dict[str, Any]) -> None:
    schemas = document["components"]["schemas"]
    text = json.dumps(document)
    assert set(re.findall(r'"\$ref": "#/components/schemas/(\w+)"', text)) <= set(schemas)
    for name, field in (
        ("OfferView", "state"),
        ("OfferView", "reason"),
        ("CampaignView", "status"),
    ):
        reference = schemas[name]["properties"][field]["$ref"].rpartition("/")[2]
        assert len(schemas[reference]["enum"]) >= 4
    assert not re.search(r'"default": [{\[]', text)
    for path in document["paths"].values():
        for operation in path.values():
            content = operation["responses"]["200" if "200" in operation["responses"] else "201"]
            for media_type, media in content["content"].items():
                if media_type in ("application/x-ndjson", "text/event-stream"):
                    assert "discriminator" in media["schema"] or "$ref" in media["schema"]
    [seed, _] = schemas["CampaignSpec"]["properties"]["seed"]["anyOf"]
    assert seed["maximum"] == 2**53 - 1
    assert schemas["OfferView"]["properties"]["offered_at"]["format"] == "date-time"


def test_examples_fit_their_types(shop: Service) -> None:
    for handler in handlers(shop):
        route = handler.opt["route"]
        for example in route.request_examples.values():
            msgspec.json.decode(msgspec.json.encode(example), type=route.body)
        for example in route.response_examples.values():
            decoded = msgspec.json.decode(msgspec.json.encode(example), type=route.response)
            # No field is missing from the type, and none from the example.
            assert json.loads(msgspec.json.encode(decoded)) == example, handler


def test_options_lists_all_methods(shop: Service) -> None:
    answer = shop.client.options(f"{HERE}/v1/campaigns")
    assert (answer.status_code, answer.headers["allow"]) == (204, "GET, OPTIONS, POST")
