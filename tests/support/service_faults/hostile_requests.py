"""Hostile requests: malformed, oversized or out of range in every way."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

JSON = {"Content-Type": "application/json"}


class HostileRequest(NamedTuple):
    """A request, byte for byte."""

    name: str
    method: str
    path: str
    headers: dict[str, str]
    body: bytes | None = None


NUMBERS = (
    "NaN", "Infinity", "-Infinity", "nan", "1e400", "-1e400", "1e308", "1e-400", "5e-324",
    "1e-308", "1e-9", "1e9", "-0", "-0.0",
    "0.5",
    str(2**31), str(2**53 + 1), str(2**63 - 1), str(2**63), str(-(2**63)), str(-(2**63) - 1),
    str(2**64), str(10**400), str(-(10**400)), "1" * 5000, "1." + "0" * 5000, "01", "+1", "0x10",
    "1_000", "1e", ".5", "--1", "null", "true", "[]", "{}", '"1"', '""',
)  # fmt: skip
TEXTS = (
    '""', '" "', r'"\u0000"', r'"a\u0000b"', r'"\ud800"', r'"\udfff\ud800"', r'"x\uD83D"', '"\\x"',
    '"a\nb"', '"\t"', '"' + "a" * 257 + '"', '"' + "a" * 100_000 + '"', '"' + "é" * 256 + '"',
    '"\u202e"', '"../../etc/passwd"', '"\'; DROP TABLE offers; --"', '"=1+1"', '"<script>"',
    '"%s%n{0}"', "5", "null", "[]", "{}", "NaN", "'a'",
)  # fmt: skip
BODIES = (
    b"", b" ", b"null", b"true", b"[]", b'"a"', b"1", b"{", b"}", b"{}{}", b"{} x", b"{}\x00",
    b"\x00",
    b"\xff\xfe{}", b"\xef\xbb\xbf{}", b'{"\xff": 1}', b'{"player": "\xff\xff"}',
    b'{"player": "\xed\xa0\x80"}', b'{"player": "\xc0\x80"}', b'{"player": "a", "player": "b"}',
    b'{"player": "a", "extra": 1}', b'{"PLAYER": "a"}', b"{'player': 'a'}", b'{"player": "a",}',
    b'// no\n{"player": "a"}', "{}".encode("utf-16"), "{}".encode("utf-32"), b"<a/>", b"a=b&c=d",
    b"[" * 100_000, b"[" * 100_000 + b"]" * 100_000, b'{"a":' * 100_000,
    b'{"a":' * 100_000 + b"1" + b"}" * 100_000, b'{"player":' + b"[" * 40 + b"]" * 40 + b"}",
    b'{"displayed":' + b'{"a":' * 40 + b"1" + b"}" * 41, b" " * 10_000_000,
    b'{"player": "' + b"a" * 10_000_000 + b'"}', b"[" + b"0," * 5_000_000 + b"0]",
    b'{"player": "a", "eligible": [' + b'"a",' * 100_000 + b'"a"]}',
)  # fmt: skip
CONTENT_TYPES = (
    "", "text/plain", "application/xml", "application/x-www-form-urlencoded", "application/jsonx",
    "application/problem+json", "multipart/form-data", "multipart/form-data; boundary=x",
    "application/json; charset=utf-16", "application/json; charset=nonsense", "application/msgpack",
    "APPLICATION/JSON", "application/json;", ";", "/", "a" * 5000, "application/json, text/plain",
)  # fmt: skip
KEYS = ("", " ", "a b", "é", "\t", "a" * 201, "a" * 5000, "'", "%00", "a,b", "\x7f")
SEGMENTS = (
    "..", ".", "%2e%2e", "%2E%2E%2F", "%2f", "%5c", "%00", "a%00b", "%ff", "%c0%80", "%ed%a0%80",
    "%", "%zz", "%u0041", "%25", ";a=b", "a;b", "*", "$", "{campaign}", "%7B%7D", "~", "-", "_",
    "0",
    "c_", "c_0000000000000000", "%20", "+", "a" * 101, "a" * 5000, "%F0%9F%92%A9", "null",
    "undefined",
    "%0d%0aX-Injected:%201", "%0a", "'", '%22', "|", "^", "`", "@", ":", ",", "!", "(", ")", "[",
    "]",
)  # fmt: skip
PATHS = (
    "/", "//", "///", "/v1", "/v1/", "//v1//campaigns", "/v1/campaigns/", "/V1/campaigns",
    "/v1/../v1/campaigns", "/v1/./campaigns", "/v1/%2e%2e/healthz", "/v1%2fcampaigns",
    "/%76%31/campaigns",
    "/v1/campaigns?", "/v1/campaigns?a", "/v1/campaigns?a=1", "/v1/campaigns?%ff=1",
    "/v1/campaigns?a=%ff",
    "/v1/campaigns?" + "a=1&" * 3000, "/v1/campaigns#x", "/healthz?x=1", "/healthz/", "/healthz/..",
    "/openapi.json?x", "/openapi.json/", "/metrics/..;/", "/.git/config", "/etc/passwd",
    "/favicon.ico",
    "/" + "a" * 20_000, "/" + "a/" * 5_000, "/v1/offers", "/v1/offers/",
)  # fmt: skip
QUERIES = (
    "after=-1", "after=NaN", "after=1e3", f"after={2**63}", f"after={10**400}", "after=", "after",
    "after=0&after=1", "after=%00", "after=%ff", "after=1%20", "after=+1", "after=0x1", "after=١",
    "limit=0", "limit=-1", "limit=1000000000", f"limit={2**64}", "limit=1.5", "limit=null",
    "limit[]=1",
    "format=exe", "format=", "format=../x", "format=%00", "format=csv&format=jsonl", "level=0",
    "level=1", "level=NaN", "level=Infinity", "level=-1", "level=1e-400", "level=0.95&x", "a[b]=1",
)  # fmt: skip
OFFERS = (
    ".0", ".-1", ".1.2", ".01", ".1e3", "." + "9" * 18, "." + "9" * 19, "." + "9" * 400, ".",
    "..1", "",
    ".%D9%A1", ".1%00", ".1%20", ".%2B1", ".0x1", ".NaN", "%2e1", "/1", ".1/../.1", ".1;",
)  # fmt: skip
METHODS = (
    "TRACE",
    "OPTIONS",
    "HEAD",
    "PUT",
    "DELETE",
    "PATCH",
    "BREW",
    "get",
    "CONNECT",
    "PROPFIND",
)
HEADERS = (
    {"X-Big": "a" * 100_000}, {f"X-{i}": "a" for i in range(500)}, {"Accept": "text/html"},
    {"Accept": "\x01"}, {"Accept-Encoding": "nonsense;q=9"}, {"Range": "bytes=0-1"},
    {"Authorization": "Bearer"}, {"Authorization": "Bearer " + "a" * 9000},
    {"Authorization": "Basic YTpi"}, {"Authorization": "Bearer entice_00000000_" + "a" * 43},
    {"Authorization": "Bearer é"}, {"Cookie": "a=" + "b" * 9000}, {"Expect": "200-nonsense"},
    {"Origin": "https://evil.example"}, {"Origin": "null"}, {"Host": "evil.example"}, {"Host": ""},
    {"Host": "127.0.0.1:1@evil.example"}, {"Host": "é"}, {"X-HTTP-Method-Override": "DELETE"},
    {"X-Forwarded-For": "127.0.0.1"}, {"X-Forwarded-Host": "evil.example"},
    {"Upgrade": "websocket"},
    {"Content-Encoding": "gzip"}, {"If-Match": "*"}, {"Connection": "close, X-Big"},
)  # fmt: skip


def hostile_requests(campaign: str, offer: str) -> Iterator[HostileRequest]:
    """Yield all hostile requests to an existing campaign and offer."""
    at = f"/v1/campaigns/{campaign}"
    writes = (
        "/v1/campaigns", f"{at}/arms", f"{at}/offers", f"{at}/offers/batch", f"{at}/ratings",
        f"/v1/offers/{offer}/accept", f"/v1/offers/{offer}/decline", f"/v1/offers/{offer}/rating",
    )  # fmt: skip
    queries = (
        "/v1/campaigns",
        at,
        f"{at}/arms",
        f"{at}/events",
        f"{at}/drift",
        f"{at}/effect",
        f"{at}/acceptance",
        f"{at}/export",
    )
    yield from _fields(at, offer)
    for path in writes:
        for body in BODIES:
            yield HostileRequest("body", "POST", path, JSON, body)
        for kind in CONTENT_TYPES:
            yield HostileRequest(
                "content type", "POST", path, {"Content-Type": kind}, b'{"player": "a"}'
            )
        for key in KEYS:
            yield HostileRequest(
                "key", "POST", path, JSON | {"Idempotency-Key": key}, b'{"player": "a"}'
            )
        for query in QUERIES[:6]:
            yield HostileRequest("query", "POST", f"{path}?{query}", JSON, b'{"player": "a"}')
    for path in queries:
        for query in QUERIES:
            yield HostileRequest("query", "GET", f"{path}?{query}", {})
        yield HostileRequest("body", "GET", path, JSON, b"[" * 1000)
    for path in (*writes, *queries, *PATHS):
        for method in METHODS:
            yield HostileRequest("method", method, path, JSON, b"{}")
    yield from _paths(at, campaign, offer)
    for headers in HEADERS:
        yield HostileRequest("headers", "GET", at, headers)
        yield HostileRequest("headers", "POST", f"{at}/offers", JSON | headers, b'{"player": "a"}')


def _paths(at: str, campaign: str, offer: str) -> Iterator[HostileRequest]:
    for segment in SEGMENTS:
        for path in (f"/v1/campaigns/{segment}", f"{at}/{segment}", f"{at}/arms/{segment}"):
            yield HostileRequest("path", "GET", path, {})
            yield HostileRequest("path", "PATCH", path, JSON, b'{"retired": true}')
        yield HostileRequest("path", "GET", f"/v1/offers/{segment}", {})
        yield HostileRequest("path", "POST", f"/v1/offers/{segment}/accept", JSON, b"{}")
    for end in OFFERS:
        yield HostileRequest("path", "GET", f"/v1/offers/{campaign}{end}", {})
        yield HostileRequest(
            "path", "POST", f"/v1/offers/{campaign}{end}/rating", JSON, b'{"rating": 3}'
        )
    for path in PATHS:
        yield HostileRequest("path", "GET", path, {})
        yield HostileRequest("path", "POST", path, JSON, b"{}")
    yield HostileRequest("path", "POST", f"/v1/offers/{offer}/nonsense", JSON, b"{}")


CAMPAIGN: dict[str, Any] = {
    "name": "Hostile", "arms": ["a", "b"], "budget": 1000, "price_of_a_star": 10, "margin": 1,
    "lowest_rating": 1, "highest_rating": 5, "unrated_shows": 3.0, "currency": "EUR",
    "cap_per_offer": 5, "cap_per_player": 50, "pace_over": 100, "offer_expires_after": 60,
    "rating_window": 60, "late_ratings": True, "status": "live", "seed": 1, "policy_sees": "stars",
    "policy": {"kind": "ucb"}, "probe": {"share": 1.0, "amount": 1.0},
    "holdout": 0.3, "holdout_feeds_averages": False, "segments": ["new", "regular"],
    "overlap": 0.1, "price": {"kind": "learned"},
}  # fmt: skip
POLICIES: tuple[Any, ...] = (
    {"kind": "epsilon_greedy", "c": 5.0}, {"kind": "thompson_sampling"}, {"kind": "greedy"},
    {"kind": "drift_corrected_thompson"}, {"kind": "custom"}, {"kind": "elimination_race"},
    {"kind": 1},
    {"kind": "ucb", "bonus": "os.system"}, {}, [], "ucb",
)  # fmt: skip


PARAMETERS = (
    ("epsilon_greedy", "c"),
    ("round_robin_epsilon_greedy", "c"),
    ("drift_corrected_thompson", "noise"),
    ("drift_corrected_thompson", "thrift"),
    ("thompson_sampling", "scale"),
    ("ucb", "count_in_flight"),
)


def _fields(at: str, offer: str) -> Iterator[HostileRequest]:
    """Yield every field of every body with every invalid value."""
    everything = (*NUMBERS, *TEXTS)
    for field in CAMPAIGN:
        for value in everything:
            yield HostileRequest(
                field, "POST", "/v1/campaigns", JSON, _with(CAMPAIGN, field, value)
            )
    for value in NUMBERS:
        for kind, field in PARAMETERS:
            policy = _with({"kind": kind}, field, value).decode()
            yield HostileRequest(
                "policy", "POST", "/v1/campaigns", JSON, _with(CAMPAIGN, "policy", policy)
            )
        for field in ("share", "amount", "amounts"):
            probe = _with({"share": 1.0, "amount": 1.0}, field, value).decode()
            yield HostileRequest(
                "probe", "POST", "/v1/campaigns", JSON, _with(CAMPAIGN, "probe", probe)
            )
    for policy in POLICIES:
        body = json.dumps({**CAMPAIGN, "policy": policy}).encode()
        yield HostileRequest("policy", "POST", "/v1/campaigns", JSON, body)
    change = (
        "name", "status", "budget", "cap_per_offer", "cap_per_player", "pace_over", "seed",
        "segments", "overlap", "holdout",
    )  # fmt: skip
    for value in everything:
        for field in change:
            yield HostileRequest(field, "PATCH", at, JSON, _with({}, field, value))
        yield HostileRequest("retired", "PATCH", f"{at}/arms/a", JSON, _with({}, "retired", value))
        yield HostileRequest("arms", "POST", f"{at}/arms", JSON, b'{"arms": [%s]}' % _bytes(value))
        yield HostileRequest("player", "POST", f"{at}/offers", JSON, _with({}, "player", value))
        some = _with({"player": "w"}, "segment", value)
        yield HostileRequest("segment", "POST", f"{at}/offers", JSON, some)
        some = _with({"player": "x"}, "eligible", f"[{value}]")
        yield HostileRequest("eligible", "POST", f"{at}/offers", JSON, some)
        for shown in (
            f'{{"a": {value}}}',
            f"{{{value if value[0] == chr(34) else '1'}: 1}}",
            value,
        ):
            some = _with({"player": f"y{len(shown)}"}, "displayed", shown)
            yield HostileRequest("displayed", "POST", f"{at}/offers", JSON, some)
        some = b'{"requests": [{"player": "z"}, {"player": %s}]}' % _bytes(value)
        yield HostileRequest("batch", "POST", f"{at}/offers/batch", JSON, some)
        yield HostileRequest(
            "amount", "POST", f"/v1/offers/{offer}/accept", JSON, _with({}, "amount", value)
        )
        rating = _with({}, "rating", value)
        yield HostileRequest("rating", "POST", f"/v1/offers/{offer}/rating", JSON, rating)
        some = b'{"ratings": [{"arm": "a", "rating": %s}]}' % _bytes(value)
        yield HostileRequest("ratings", "POST", f"{at}/ratings", JSON, some)
        some = b'{"ratings": [{"arm": %s, "rating": 3}]}' % _bytes(value)
        yield HostileRequest("ratings", "POST", f"{at}/ratings", JSON, some)


def lifecycle(campaign: Any) -> Iterator[HostileRequest]:
    """Yield requests that an accepted campaign must handle, however odd its settings are."""
    at, spec = f"/v1/campaigns/{campaign['id']}", campaign["spec"]
    low, high = spec["lowest_rating"], spec["highest_rating"]
    segment = {"segment": spec["segments"][0]} if spec.get("segments") else {}

    def post(path: str, sent: Any) -> HostileRequest:
        return HostileRequest("lifecycle", "POST", path, JSON, json.dumps(sent).encode())

    for n in (1, 2):
        yield post(f"{at}/offers", {"player": f"early player {n}", **segment})
    pairs = [(arm, rating) for arm in spec["arms"] for rating in (low, high)]
    ratings = [{"arm": arm, "rating": rating, **segment} for arm, rating in pairs]
    yield post(f"{at}/ratings", {"ratings": ratings[:100]})
    for n in (3, 4, 5):
        yield post(f"{at}/offers", {"player": f"player {n}", **segment})
        yield post(f"/v1/offers/{campaign['id']}.{n}/accept", {})
        yield post(f"/v1/offers/{campaign['id']}.{n}/rating", {"rating": (low, high, low)[n - 3]})
    yield post(f"{at}/arms", {"arms": ["late"]})
    shown = dict.fromkeys(spec["arms"][:2], 1e6)
    yield post(f"{at}/offers", {"player": "player 6", "displayed": shown, **segment})
    reads = ("", "/arms", "/drift", "/effect", "/acceptance", "/spending", "/settings", "/plan")
    for read in (*reads, "/events", "/export"):
        yield HostileRequest("lifecycle", "GET", at + read, {})


def _bytes(value: str) -> bytes:
    return value.encode("utf-8", "surrogatepass")


def _with(plain: dict[str, Any], field: str, value: str) -> bytes:
    """Return a JSON object with the raw text of one field."""
    rest = {k: v for k, v in plain.items() if k != field}
    start = json.dumps(rest)[:-1]
    return f"{start}{', ' if rest else ''}{json.dumps(field)}: {value}}}".encode()
