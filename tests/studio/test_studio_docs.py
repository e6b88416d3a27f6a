"""The studio serves the documentation if it is built, and names its pages if not."""

from __future__ import annotations

from pathlib import Path

import pytest

from entice.studio import page_bundle

PAGE = b"<html><script>a()</script><script src=x.js></script></html>"


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ENTICE_DOCS", str(tmp_path / "site"))
    return tmp_path / "site"


def _build(site: Path) -> None:
    (site / "how-to").mkdir(parents=True)
    (site / ".doctrees").mkdir()
    for name in ("index.html", "how-to/plan.html", ".doctrees/plan.html", "entice.Study.html"):
        (site / name).write_bytes(PAGE)
    (site / "plot.ipynb").write_text("{}")
    (site.parent / "secret.html").write_text("not of the site")


def test_pages_of_the_site_are_found_and_no_other_files(site: Path) -> None:
    _build(site)
    for name in ("index.html", "how-to/plan.html", "entice.Study.html"):
        found = page_bundle.find_file(f"docs/{name}")
        assert found is not None
        assert (found.body, found.media_type) == (PAGE, b"text/html; charset=utf-8")
    notebook = page_bundle.find_file("docs/plot.ipynb")
    assert notebook is not None
    assert notebook.media_type == b"application/x-ipynb+json"
    hidden = ("../secret.html", "how-to/../../secret.html", ".doctrees/plan.html", "/index.html")
    for name in (*hidden, "", "how-to", "how-to/", "missing.html", "a" * 300):
        assert page_bundle.find_file(f"docs/{name}") is None


def test_inline_scripts_of_a_page_are_allowed_by_their_hash_alone(site: Path) -> None:
    _build(site)
    found = page_bundle.find_file("docs/index.html")
    assert found is not None
    # printf 'a()' | openssl dgst -sha256 -binary | base64
    assert b"script-src 'self' 'sha256-qVpDBgj7bpq5hMAcGp3AOc79J3Y1Z4HvySTwKrWDoy4=';" in found.csp
    assert b"default-src 'none'" in found.csp
    assert b"http" not in found.csp


def test_the_page_knows_whether_the_site_is_built(site: Path) -> None:
    without = page_bundle.find_file("js/site.js")
    assert without is not None
    assert without.body == b'export const SITE = "";\n'
    assert page_bundle.find_file("docs/index.html") is None
    _build(site)
    built = page_bundle.find_file("js/site.js")
    assert built is not None
    assert built.body == b'export const SITE = "/studio/docs/";\n'
