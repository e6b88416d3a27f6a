"""The studio's page: its files, their headers, and access without a key."""

from __future__ import annotations

import gzip
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from service_fixtures import TEAS, Service, assert_problem, service
from studio_fixtures import BROWSER, SMALL

import entice
from entice.studio import page_bundle as page

FOLDER = Path(page.__file__).parent / "page"
FILES = sorted(path.relative_to(FOLDER).as_posix() for path in FOLDER.rglob("*") if path.is_file())


@pytest.fixture(scope="module")
def shared_api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A service for tests that change nothing."""
    with service(tmp_path_factory.mktemp("studio")) as made:
        yield made


@pytest.fixture
def api(tmp_path: Path) -> Iterator[Service]:
    with service(tmp_path) as made:
        yield made


@pytest.mark.parametrize("path", ["/", "/studio/plotly.min.js", *(f"/studio/{f}" for f in FILES)])
def test_every_file_of_the_page_has_strict_headers(shared_api: Service, path: str) -> None:
    response = shared_api.client.get(path)
    assert response.status_code == 200
    rules = dict(
        rule.strip().split(" ", 1)
        for rule in response.headers["content-security-policy"].split(";")
    )
    assert rules["default-src"] == "'none'"
    assert rules["script-src"] == "'self'"
    assert rules["style-src"] == "'self'"
    assert rules["connect-src"] == "'self'"
    assert rules["img-src"] == "'self' data: blob:"
    assert rules["frame-ancestors"] == rules["base-uri"] == rules["form-action"] == "'none'"
    assert response.headers["x-content-type-options"] == "nosniff"
    assert response.headers["x-frame-options"] == "DENY"
    assert response.headers["cache-control"] == "no-cache"
    for name in ("content-security-policy", "cache-control", "x-request-id"):
        assert len(response.headers.get_list(name)) == 1


def test_the_api_allows_no_scripts_and_no_caching(shared_api: Service) -> None:
    response = shared_api.client.get("/v1/studio")
    assert "script-src" not in response.headers["content-security-policy"]
    assert response.headers["cache-control"] == "no-store"


def test_files_are_compressed_and_cached_by_etag(shared_api: Service) -> None:
    plain = shared_api.client.get("/studio/plotly.min.js", headers={"accept-encoding": "identity"})
    assert "content-encoding" not in plain.headers
    assert plain.headers["content-type"].startswith("text/javascript")
    assert b"plotly" in plain.content[:200]
    with shared_api.client.stream("GET", "/studio/plotly.min.js") as small:
        sent = b"".join(small.iter_raw())
    assert small.headers["content-encoding"] == "gzip"
    assert len(sent) < len(plain.content) / 2
    assert gzip.decompress(sent) == plain.content
    same = shared_api.client.get(
        "/studio/plotly.min.js", headers={"if-none-match": plain.headers["etag"]}
    )
    assert (same.status_code, same.content) == (304, b"")
    other = shared_api.client.get("/studio/plotly.min.js", headers={"if-none-match": '"other"'})
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
def test_no_other_files_can_be_read(shared_api: Service, path: str) -> None:
    response = shared_api.client.get(f"/studio/{path}")
    assert response.status_code == 404
    assert response.headers["content-type"] == "application/problem+json"
    assert "import annotations" not in response.text


def test_the_page_has_nothing_inline() -> None:
    """The content security policy would block it."""
    for file in FILES:
        if file.endswith(".html"):
            text = (FOLDER / file).read_text()
            assert not re.search(r"<script(?![^>]*\bsrc=)", text), file
            assert not re.search(r"\son\w+=|<style|\sstyle=|javascript:", text), file
            assert not re.search(r"(src|href)=[\"'](https?:)?//", text), file


def test_every_term_has_its_place_in_the_docs() -> None:
    places = re.findall(r'docs: "([^"]+)"', (FOLDER / "js/glossary.js").read_text())
    assert len(places) > 20
    for place in places:
        file, _, anchor = place.partition("#")
        text = (Path(__file__).parents[2] / "docs" / file).read_text(encoding="utf-8")
        titles = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
        assert not anchor or anchor in {title.lower().replace(" ", "-") for title in titles}, place


# Access


def test_the_token_allows_everything_until_a_key_exists(api: Service) -> None:
    campaign = api.campaign()
    for headers in (BROWSER, {}):
        info = api.client.get("/v1/studio", headers=headers).json()
        assert info["version"] == entice.__version__
        assert (info["role"], info["campaign"]) == ("admin", None)
        assert set(info["may"]) == {"admin", "decide", "feedback", "read"}
        assert info["limits"]["most_work"] > 0
        assert api.client.post("/v1/campaigns", json=TEAS, headers=headers).status_code == 201
    key = api.bearer("decide,read", campaign)
    for headers in ({}, BROWSER):
        assert_problem(api.client.get("/v1/studio", headers=headers), 401, "unauthorized")
        assert_problem(api.client.post("/v1/simulations", json=SMALL, headers=headers), 401)
        info = api.client.get("/v1/studio", headers={**headers, **key}).json()
        assert (info["role"], info["may"]) == ("decide,read", ["decide", "read"])
        assert info["campaign"] == campaign
    assert api.client.get("/").status_code == 200
    admin = {**BROWSER, **api.bearer("admin")}
    assert api.client.post("/v1/campaigns", json=TEAS, headers=admin).status_code == 201
    feedback = api.client.get("/v1/studio", headers=api.bearer("feedback"))
    assert feedback.json()["may"] == ["feedback"]


@pytest.mark.parametrize(
    "words",
    [r"fuel", r"(?-i:Hold)", r"vacuous here", r"thanks for nothing", r"a coin", r"in the books"],
)
def test_texts_do_not_use_words_that_a_newcomer_has_to_guess(words: str) -> None:
    """Quoted texts of the scripts, and what the page shows without them."""
    pattern = re.compile(rf"\b{words}\b", re.IGNORECASE)
    for name in FILES:
        text = (FOLDER / name).read_text("utf-8")
        if name.endswith(".js"):
            quoted = re.findall(r'"[^"\n]*"|`[^`]*`', text)
            assert [found for found in quoted if pattern.search(found)] == [], name
        elif name.endswith(".html"):
            assert not pattern.search(text), name


def test_every_term_is_explained_in_the_docs() -> None:
    glossary = (FOLDER / "js/glossary.js").read_text("utf-8")
    pages = re.findall(r'docs: "([^"]+)"', glossary)
    ids = re.findall(r"^  (\w+): \{$", glossary, re.MULTILINE)
    docs = Path(entice.__file__).parents[2] / "docs"
    assert len(pages) == len(ids) > 15
    assert [page for page in pages if not (docs / page.partition("#")[0]).is_file()] == []
    scripts = "".join((FOLDER / name).read_text("utf-8") for name in FILES if name.endswith(".js"))
    used = set(re.findall(r'(?<![.\w])defined\("(\w+)"', scripts))
    used |= set(re.findall(r'term: "(\w+)"', scripts))
    assert len(used) > 15
    assert used <= set(ids)
