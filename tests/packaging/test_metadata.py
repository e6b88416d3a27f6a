"""Metadata of the project: versions agree, hooks and lock files are complete, no made-up links."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import yaml

import entice

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
PAPER = "https://ojs.aaai.org/index.php/AAAI/article/view/5937"


def test_the_citation_has_the_version_and_the_paper() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert citation["version"] == PROJECT["version"] == entice.__version__
    assert citation["license"] == PROJECT["license"]
    assert citation["authors"] == PROJECT["authors"]
    (paper,) = citation["references"]
    assert [author["family-names"] for author in paper["authors"]] == [
        "Liu", "Wang", "Shen", "Liu", "Chen",
    ]  # fmt: skip
    assert paper["url"] == PAPER
    assert PAPER in (ROOT / "README.md").read_text()


def test_the_only_link_is_that_of_the_paper() -> None:
    assert PROJECT["urls"] == {"Paper": PAPER}
    for name in ("CITATION.cff", "SECURITY.md", "CODE_OF_CONDUCT.md"):
        found = re.findall(r"https?://\S+|[\w.]+@[\w.]+", (ROOT / name).read_text())
        assert set(found) <= {PAPER}


def test_python_versions_start_with_the_required_one() -> None:
    prefix = "Programming Language :: Python :: 3."
    minors = [int(c.removeprefix(prefix)) for c in PROJECT["classifiers"] if c.startswith(prefix)]
    assert minors == list(range(minors[0], minors[-1] + 1))
    assert PROJECT["requires-python"] == f">=3.{minors[0]}"


def test_the_commit_hook_runs_the_linters_of_make() -> None:
    (repo,) = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
    (hook,) = repo["hooks"]
    assert (repo["repo"], hook["entry"], hook["language"]) == ("local", "make lint", "system")
    assert hook["pass_filenames"] is False


def test_the_tool_for_the_bill_of_materials_is_locked() -> None:
    text = (ROOT / "requirements" / "sbom.txt").read_text()
    packages = re.findall(r"^\S+==.*?(?=^\S|\Z)", text, re.MULTILINE | re.DOTALL)
    assert any(package.startswith("cyclonedx-bom==") for package in packages)
    assert all("--hash=sha256:" in package for package in packages)
    assert "://" not in text
