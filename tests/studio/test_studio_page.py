"""The studio's page: its files and their headers, and what a browser may do without a key."""

from __future__ import annotations

import gzip
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from service_fixtures import HERE, TEAS, Service, assert_problem, service
from studio_fixtures import BROWSER, SMALL, parse_lines

import entice
from entice.studio import page_bundle as page

FOLDER = Path(page.__file__).parent / "page"
FILES = sorted(path.relative_to(FOLDER).as_posix() for path in FOLDER.rglob("*") if path.is_file())


@pytest.fixture(scope="module")
def open_shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A service for all that change nothing."""
    with service(tmp_path_factory.mktemp("studio")) as made:
        yield made


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Service]:
    with service(tmp_path) as made:
        yield made


@pytest.mark.parametrize("path", ["/", "/studio/plotly.min.js", *(f"/studio/{f}" for f in FILES)])
def test_every_file_of_the_page_keeps_to_itself(open_shop: Service, path: str) -> None:
    answer = open_shop.client.get(path)
    assert answer.status_code == 200
    rules = dict(
        rule.strip().split(" ", 1) for rule in answer.headers["content-security-policy"].split(";")
    )
    assert rules["default-src"] == "'none'"
    assert rules["script-src"] == "'self'"
    assert rules["style-src"] == "'self'"
    assert rules["connect-src"] == "'self'"
    assert rules["img-src"] == "'self' data: blob:"
    assert rules["frame-ancestors"] == rules["base-uri"] == rules["form-action"] == "'none'"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["x-frame-options"] == "DENY"
    assert answer.headers["cache-control"] == "no-cache"
    for name in ("content-security-policy", "cache-control", "x-request-id"):
        assert len(answer.headers.get_list(name)) == 1


def test_all_else_has_the_strict_headers_still(open_shop: Service) -> None:
    answer = open_shop.client.get("/v1/studio")
    assert "script-src" not in answer.headers["content-security-policy"]
    assert answer.headers["cache-control"] == "no-store"


def test_a_file_is_sent_once_and_small(open_shop: Service) -> None:
    plain = open_shop.client.get("/studio/plotly.min.js", headers={"accept-encoding": "identity"})
    assert "content-encoding" not in plain.headers
    assert plain.headers["content-type"].startswith("text/javascript")
    assert b"plotly" in plain.content[:200]
    with open_shop.client.stream("GET", "/studio/plotly.min.js") as small:
        sent = b"".join(small.iter_raw())
    assert small.headers["content-encoding"] == "gzip"
    assert len(sent) < len(plain.content) / 2
    assert gzip.decompress(sent) == plain.content
    same = open_shop.client.get(
        "/studio/plotly.min.js", headers={"if-none-match": plain.headers["etag"]}
    )
    assert (same.status_code, same.content) == (304, b"")
    other = open_shop.client.get("/studio/plotly.min.js", headers={"if-none-match": '"other"'})
    assert other.status_code == 200


@pytest.mark.parametrize(
    "path",
    [
        "page.py",
        "../page.py",
        "js/../../page.py",
        "%2e%2e/page.py",
        "..%2fpage.py",
        "js/%2e%2e/%2e%2e/page.py",
        "/etc/passwd",
        "//etc/passwd",
        "%2fetc%2fpasswd",
        "js",
        "js/",
        "",
        "js\\main.js",
        "js/main.js%00",
        "JS/main.js",
        "faults.json",
        "nothing.js",
        "a" * 3000 + ".js",
    ],
)
def test_nothing_but_the_page_can_be_read(open_shop: Service, path: str) -> None:
    answer = open_shop.client.get(f"/studio/{path}")
    assert answer.status_code == 404
    assert answer.headers["content-type"] == "application/problem+json"
    assert "import annotations" not in answer.text


def test_the_page_has_nothing_inline() -> None:
    """The policy would keep it from running."""
    for file in FILES:
        if file.endswith(".html"):
            text = (FOLDER / file).read_text()
            assert not re.search(r"<script(?![^>]*\bsrc=)", text), file
            assert not re.search(r"\son\w+=|<style|\sstyle=|javascript:", text), file
            assert not re.search(r"(src|href)=[\"'](https?:)?//", text), file


# Who may do what


def test_a_browser_without_keys_looks_and_simulates(shop: Service) -> None:
    campaign = shop.campaign()
    client = shop.client
    about = client.get("/v1/studio", headers=BROWSER).json()
    assert about["version"] == entice.__version__
    assert (about["role"], about["may"], about["keyless"]) == ("read", ["read"], True)
    assert about["limits"]["most_work"] > 0
    assert client.get(f"/v1/campaigns/{campaign}/arms", headers=BROWSER).status_code == 200
    answer = client.post("/v1/simulations", json=SMALL, headers=BROWSER)
    assert parse_lines(answer.text)[-1]["kind"] == "done"
    for marks in (BROWSER, {"origin": HERE}, {"sec-fetch-mode": "navigate"}):
        refused = client.post("/v1/campaigns", json=TEAS, headers=marks)
        assert "keys create" in assert_problem(refused, 403, "read-only")["detail"]
        change = {"status": "paused"}
        refused = client.patch(f"/v1/campaigns/{campaign}", json=change, headers=marks)
        assert_problem(refused, 403, "read-only")
        url = f"/v1/campaigns/{campaign}/offers"
        assert_problem(client.post(url, json={"player": "ann"}, headers=marks), 403, "read-only")


def test_other_programs_keep_their_rights_without_keys(shop: Service) -> None:
    about = shop.client.get("/v1/studio").json()
    assert (about["role"], about["keyless"]) == ("admin", True)
    assert set(about["may"]) == {"admin", "decide", "feedback", "read"}
    campaign = shop.campaign()
    assert shop.offer(campaign, "ann")["state"] == "offered"


def test_with_keys_everybody_needs_one(shop: Service) -> None:
    campaign = shop.campaign()
    key = shop.bearer("decide,read", campaign)
    for marks in ({}, BROWSER):
        assert_problem(shop.client.get("/v1/studio", headers=marks), 401, "unauthorized")
        assert_problem(shop.client.post("/v1/simulations", json=SMALL, headers=marks), 401)
        about = shop.client.get("/v1/studio", headers={**marks, **key}).json()
        assert (about["role"], about["may"]) == ("decide,read", ["decide", "read"])
        assert (about["keyless"], about["campaign"]) == (False, campaign)
    assert shop.client.get("/").status_code == 200
    admin = {**BROWSER, **shop.bearer("admin")}
    assert shop.client.post("/v1/campaigns", json=TEAS, headers=admin).status_code == 201
    feedback = shop.client.get("/v1/studio", headers=shop.bearer("feedback"))
    assert feedback.json()["may"] == ["feedback"]
