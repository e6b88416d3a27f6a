"""Rejected requests: problem details say what is wrong."""

from __future__ import annotations

import json
from typing import Any

import pytest
from service_fixtures import JSON, TEAS, Service, assert_problem

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


SHARES = {
    "overlap": "overlap must be a share of decisions: at least 0 and less than 1; got {}. "
    "Use 0 for no overlap, or a share such as 0.05.",
    "holdout": "holdout must be a share of players: at least 0 and less than 1; got {}. "
    "Use 0 for no holdout, or a share such as 0.1.",
    "explore": "LearnedPrice: explore must be a share of offers: at least 0 and less than 1; "
    "got {}. Use 0 for no random prices, or a share such as 0.05.",
}


@pytest.mark.parametrize("share", [1.0, -0.1, 1e300])
@pytest.mark.parametrize("name", SHARES)
def test_shares_outside_their_range_are_rejected_with_the_value_and_the_remedy(
    shop: Service, name: str, share: float
) -> None:
    settings = {"price": {"kind": "learned", name: share}} if name == "explore" else {name: share}
    answer = shop.client.post("/v1/campaigns", json={**TEAS, **settings})
    assert assert_problem(answer, 422)["detail"] == SHARES[name].format(share)


def test_a_change_to_a_share_outside_its_range_is_rejected_as_for_a_new_campaign(
    shop: Service,
) -> None:
    campaign = shop.campaign(overlap=0.5)
    path = f"/v1/campaigns/{campaign}"
    for share in (1.0, -0.1, 1e300):
        problem = assert_problem(shop.client.patch(path, json={"overlap": share}), 422)
        assert problem["detail"] == SHARES["overlap"].format(share)
    # A holdout is fixed, whatever the new share.
    problem = assert_problem(shop.client.patch(path, json={"holdout": 1.0}), 409)
    assert "it is 0.0, and 1.0 was given" in problem["detail"]
    kept = shop.client.get(path).json()
    assert (kept["spec"]["overlap"], kept["version"]) == (0.5, 1)
    # The control: shares within the range are accepted.
    assert shop.client.patch(path, json={"overlap": 0.999}).json()["spec"]["overlap"] == 0.999
    assert "overlap" not in shop.client.patch(path, json={"overlap": 0}).json()["spec"]


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b'{"rating":9223372036854775808}', "rating"),
        (b'{"rating":6}', "from 1 to 5; got 6"),
        (b'{"rating":4.5}', "rating must be a whole number, such as 4 or 4.0; got 4.5."),
        (b'{"rating":4.000001}', "rating must be a whole number"),
        (b'{"rating":6.0}', "from 1 to 5; got 6"),
        (b'{"rating":1e300}', "rating: expected a number <= 1000000.0; got 1e300."),
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


@pytest.mark.parametrize(
    ("path", "body", "detail"),
    [
        ("", {"budget": -1}, "budget: expected a whole number >= 0; got -1."),
        ("", {"pace_over": 0}, "pace_over: expected a whole number >= 1; got 0."),
        ("", {"name": ""}, 'name: expected text of length >= 1; got "".'),
        ("", {"name": "x" * 201}, f'name: expected text of length <= 200; got "{"x" * 78}….'),
        ("", {"budget": "5"}, "budget: expected a whole number, got text."),
        ("/arms", {"arms": []}, "arms: expected a list of length >= 1; got []."),
        pytest.param(
            "/offers/batch",
            {"requests": [{"player": "ann"}] * 1001},
            "requests: expected a list of length <= 1000; got a list of length 1001.",
            id="batch of 1001",
        ),
        (
            "/ratings",
            {"ratings": [{"arm": "oolong", "rating": 4}, {"arm": "oolong", "rating": 4.5}]},
            "ratings[1].rating must be a whole number, such as 4 or 4.0; got 4.5.",
        ),
    ],
    ids=str,
)
def test_a_value_outside_its_range_is_in_the_error(
    shop: Service, path: str, body: dict[str, Any], detail: str
) -> None:
    method, path = "POST" if path else "PATCH", f"/v1/campaigns/{shop.campaign()}{path}"
    problem = assert_problem(shop.client.request(method, path, json=body), 422)
    assert problem["detail"] == problem["errors"][0]["detail"] == detail


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
    assert "Did you mean 'rating'? Allowed: arm, rating, segment." in problem["detail"]
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
    def broken(*_: object) -> None:
        raise KeyError("the inside")

    monkeypatch.setattr("entice.service.http.campaigns.ServiceQueries.campaign", broken)
    answer = shop.client.get("/v1/campaigns/c_0")
    problem = assert_problem(answer, 500, "internal")
    assert problem["instance"] == f"urn:entice:request:{answer.headers['x-request-id']}"
    assert "inside" not in answer.text
