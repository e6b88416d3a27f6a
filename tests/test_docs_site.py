"""The sources of the documentation: complete, short and linked. `make docs` builds the site."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import pytest

import entice
import entice.cli.pages
import entice.client
import entice.study.results.comparison

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
SECTIONS = ("tutorials", "how-to", "reference", "explanation")
PAGES = [DOCS / "index.md", *sorted(p for name in SECTIONS for p in (DOCS / name).glob("*.md"))]
ALSO = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"]
GALLERY = sorted((DOCS / "gallery_sources").glob("plot_*.py"))
MAX_WORDS = 1_500
FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
GENERATED = ("cli", "http", "metrics", "settings-campaign", "settings-plan", "settings-study")
"""Generated pages that others link to."""


def _title(page: Path) -> str:
    return page.read_text().partition("\n")[0]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(DOCS)))
def test_a_page_is_short_and_says_for_whom_it_is(page: Path) -> None:
    text = page.read_text()
    assert len(re.findall(r"\S*\w\S*", text)) <= MAX_WORDS
    assert re.match(r"# [^\n]+\n\n(?:\*\*[^\n]+\*\*\n\n)?\*For ", text)


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text().splitlines()) <= 150


def test_every_page_is_in_the_contents() -> None:
    """Sphinx warns too, but `make test` does not run it."""
    for section in SECTIONS:
        [tree] = re.findall(r"^```{toctree}\n(.*?)^```$", (DOCS / section / "index.md").read_text(),
                            re.MULTILINE | re.DOTALL)  # fmt: skip
        listed = {line for line in tree.splitlines() if line and not line.startswith(":")}
        pages = {page.stem for page in (DOCS / section).glob("*.md")} - {"index"}
        generated = {f"generated/{name}" for name in GENERATED} if section == "reference" else set()
        assert listed == pages | generated
    assert not list(DOCS.glob("*.md"))[1:], "pages belong into a folder"


def _slug(heading: str) -> str:
    """Return GitHub's name of a heading's anchor, which MyST uses too."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def _anchors(page: Path) -> set[str]:
    return {
        _slug(h) for h in re.findall(r"^#+ (.*)$", FENCE.sub("", page.read_text()), re.MULTILINE)
    }


@pytest.mark.parametrize("page", [*PAGES, *ALSO], ids=lambda page: str(page.relative_to(ROOT)))
def test_links_resolve(page: Path) -> None:
    for target in re.findall(r"\]\((?!\w+:)([^)\s]+)\)", FENCE.sub("", page.read_text())):
        path, _, anchor = target.partition("#")
        found = (page.parent / path).resolve() if path else page
        if found.parent == DOCS / "reference" / "generated":
            assert found.stem in GENERATED, target
        elif found.parent == DOCS / "gallery":
            assert found.stem in {"index", *(example.stem for example in GALLERY)}, target
            assert not anchor
        elif found.parent == DOCS / "reference" / "python":
            assert found.name in {f"{name}.rst" for name in _listed_names()}, target
            assert not anchor
        else:
            assert found.exists(), target
            assert not anchor or anchor in _anchors(found), target


def test_links_in_the_code_resolve() -> None:
    """Comments, docstrings, help texts and the studio name pages by their path."""
    files = [
        file
        for folder in ("src", "tests", "bench", "deploy", "examples", "docs")
        for suffix in ("py", "js", "toml", "service", "conf")
        for file in (ROOT / folder).rglob(f"*.{suffix}")
        if not {"node_modules", "_build", "gallery"} & set(file.parts)
    ]
    named = {
        (file, path)
        for file in [*files, ROOT / "Makefile"]
        for path in re.findall(r"docs/[\w/-]+\.md", file.read_text(errors="ignore"))
    }
    assert len(named) > 20
    missing = {f"{file.name}: {path}" for file, path in named if not (ROOT / path).exists()}
    assert not missing


def test_links_of_the_studio_and_the_command_line_resolve() -> None:
    scripts = ROOT / "src" / "entice" / "studio" / "page" / "js"
    texts = [file.read_text() for file in scripts.rglob("*.js") if file.name != "docs-link.js"]
    linked = {
        page for text in texts for page in re.findall(r'(?:docsLink\(|\bdocs: )"([^"]+)"', text)
    }
    assert len(linked) > 10
    for target in linked | set(entice.cli.pages.PAGES.values()):
        path, _, anchor = target.partition("#")
        assert (DOCS / path).is_file(), target
        assert not anchor or anchor in _anchors(DOCS / path), target


def test_every_block_is_executed_or_output() -> None:
    """`tests/test_docs.py` sees no block that is indented, unclosed, or of another kind."""
    known = {"python", "bash", "toml", "text", "console", "", "{toctree}", "{eval-rst}"}
    for page in [*PAGES, *ALSO]:
        text = page.read_text()
        fences = re.findall(r"^ *(?:```|~~~)", text, re.MULTILINE)
        kinds = re.findall(r"^```(\S*)\n.*?^```$", text, re.MULTILINE | re.DOTALL)
        assert len(fences) == 2 * len(kinds), page
        assert set(kinds) <= known, page


def test_lines_of_examples_fit_the_page() -> None:
    """The site shows 100 characters of code without scrolling. `console` has longer commands."""
    long = [
        f"{page.relative_to(ROOT)}: {line}"
        for page in PAGES
        for kind, text in re.findall(r"^```(\S*)\n(.*?)^```$", page.read_text(), re.M | re.S)
        if kind != "console"
        for line in text.splitlines()
        if len(line) > 100
    ]
    assert not long


def test_a_broken_link_of_the_site_is_found(tmp_path: Path) -> None:
    """The control of `make docs-check`, for a file and for an anchor."""
    from browser.site_checks import broken_links

    (tmp_path / "a.html").write_text('<a href="b.html#x">1</a> <a href="#y">2</a> <p id="y">')
    (tmp_path / "b.html").write_text('<a class="c" href="a.html#x">3</a> <a href="c.html">4</a>')
    assert sorted(broken_links(tmp_path)) == [
        "a.html: b.html#x does not exist",
        "b.html: a.html#x does not exist",
        "b.html: c.html does not exist",
    ]


def _unknown_words(command: Any, words: list[str]) -> list[str]:
    """Return the words of a command line that are not commands or options of Entice."""
    while words and hasattr(command, "commands"):
        if words[0] not in command.commands:
            return words[:1]
        command, words = command.commands[words[0]], words[1:]
    options = {name for option in command.params for name in (*option.opts, *option.secondary_opts)}
    named = [word.partition("=")[0] for word in words if word.startswith("--")]
    return [word for word in named if word not in options | {"--help"}]


def test_commands_in_the_text_exist() -> None:
    """Commands that the tests do not execute: those in sentences and in `console` blocks."""
    import typer.main

    from entice.cli.app import app

    command = typer.main.get_command(app)
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    checked = 0
    for page in [*PAGES, *ALSO]:
        text = page.read_text()
        for line in re.findall(r"(?:`|^\$ )entice ([a-z][^`\n#]*)", text, re.MULTILINE):
            assert not _unknown_words(command, line.split()), f"{page.name}: entice {line}"
            checked += 1
        made = set(re.findall(r"(?:`|^\$ )make ([\w-]+)", text, re.MULTILINE))
        assert made <= targets, page.name
    assert checked > 50
    assert _unknown_words(command, ["keys", "crate"]) == ["crate"]
    assert _unknown_words(command, ["run", "study.toml", "--seeds=7"]) == ["--seeds"]


def _listed_names() -> set[str]:
    """Return the names that have a generated page."""
    text = "".join(
        (DOCS / "reference" / f"{name}.md").read_text() for name in ("python", "python-tools")
    )
    return set(re.findall(r"^   (entice\.[\w.]+)$", text, re.MULTILINE))


def test_every_public_name_is_in_the_reference() -> None:
    listed = _listed_names()
    modules = {"atlas", "datasets", "estimate", "rng", "testing", "theory"}
    public = {f"entice.{name}" for name in entice.__all__ if name not in modules}
    for module in ("atlas", "client", "estimate", "theory"):
        public |= {f"entice.{module}.{name}" for name in getattr(entice, module).__all__}
    for module, owned in ((entice.testing, ""), (entice.datasets, "")):
        public |= {
            f"{module.__name__}.{name}{owned}"
            for name, value in vars(module).items()
            if getattr(value, "__module__", "") == module.__name__ and not name.startswith("_")
            and callable(value)
        }  # fmt: skip
    assert public - listed == set()
    for name in listed:  # and no other: a page of a name that does not exist
        parts = name.split(".")
        value: object = sys.modules["entice"]
        for part in parts[1:]:
            value = getattr(value, part)


def test_gallery_examples_are_short_and_say_what_they_show() -> None:
    assert len(GALLERY) >= 10
    for example in GALLERY:
        text = example.read_text()
        assert len(text.splitlines()) < 40, example
        assert re.match(r'"""\n[^\n]+\n=+\n\n\S', text), example


def test_pages_are_generated_from_the_code(
    monkeypatch: pytest.MonkeyPatch, unmeasured: None
) -> None:
    monkeypatch.syspath_prepend(str(DOCS / "_ext"))
    import generated_pages

    pages = generated_pages.generate_all()
    assert set(GENERATED) < set(pages)
    assert "`--cluster`" in pages["cli-entice-run"]
    assert "| `ENTICE_DB`" not in pages["cli-entice-serve"]
    assert "Environment variable: `ENTICE_DB`." in pages["cli-entice-serve"]
    assert "[OfferRequest](type-offerrequest.md)" in pages["http-make-offer"]
    assert not re.search("body|Idempotency-Key", pages["http-delete-webhook"], re.IGNORECASE)
    assert "| `holdout` | `0.0` |" in pages["settings-campaign"]
    assert "| `entice_queue_depth` | gauge |" in pages["metrics"]
    targets = {t for text in pages.values() for t in re.findall(r"\]\(([\w-]+)\.md\)", text)}
    assert targets <= set(pages)
    assert all(len(text.split()) <= MAX_WORDS for text in pages.values())


def test_the_settings_that_can_be_changed_are_marked() -> None:
    """An asterisk that is not escaped is lost: two of them in a cell are emphasis in Markdown."""
    from entice.service.domain.commands import ChangeCampaign

    marked = re.findall(r"`(\w+)`\\\*", (DOCS / "reference" / "campaign.md").read_text())
    never = {"campaign", "by", "name", "holdout", "holdout_feeds_averages"}
    assert set(marked) == set(ChangeCampaign.__struct_fields__) - never
