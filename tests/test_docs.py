"""Every example runs: docstrings, and the Python, TOML and shell blocks of the documents."""

from __future__ import annotations

import contextlib
import doctest
import importlib
import os
import pkgutil
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from command_line import without_coverage

import entice

ROOT = Path(__file__).parents[1]
MODULES = ["entice", *(m.name for m in pkgutil.walk_packages(entice.__path__, "entice."))]
DOCUMENTS = [
    "README.md",
    "CONTRIBUTING.md",
    "docs/speed.md",
    "docs/peers.md",
    "docs/theory.md",
    "docs/beyond.md",
    "docs/studies.md",
    "docs/results.md",
    "docs/reproduction.md",
    "docs/cluster.md",
    "docs/plan.md",
    "docs/estimate.md",
    "docs/service.md",
    "docs/operations.md",
    "docs/studio.md",
]
TIMEOUT = 1200
"""Seconds after which an example counts as hanging; the longest takes 20 s on an idle machine."""
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("name", MODULES)
def test_docstring_examples_run(name: str) -> None:
    module = importlib.import_module(name)
    finder = doctest.DocTestFinder(exclude_empty=True)
    runner = doctest.DocTestRunner()
    # The finder does not see docstrings of compiled functions: pass it their Python functions.
    found = finder.find(module) + [
        test
        for value in vars(module).values()
        if getattr(value, "py_func", None) is not None and value.__module__ == name
        for test in finder.find(value.py_func, f"{name}.{value.__name__}", globs={})
    ]
    for test in found:
        runner.run(test)
    assert runner.failures == 0


def test_docstring_examples_are_found() -> None:
    text = "".join(p.read_text() for p in (ROOT / "src").rglob("*.py"))
    assert text.count(">>> import entice") >= 15


@pytest.mark.parametrize("document", DOCUMENTS)
def test_documents_run_block_by_block(document: str, tmp_path: Path) -> None:
    """Run a document's blocks in order, in an empty folder, as a reader would.

    A block that opens with a comment naming a file is written to that file. `make` lines are
    checked for their target only: they would run these tests again. A line that ends with & runs
    in the background until the document ends. A `text` block is the output of the block before it.
    """
    blocks = BLOCK.findall((ROOT / document).read_text())
    assert blocks
    scripts = str(Path(sys.executable).parent)
    # Without coverage: other tests cover the same code.
    environment = without_coverage() | {"PATH": f"{scripts}{os.pathsep}{os.environ['PATH']}"}
    with contextlib.ExitStack() as background:
        _run_blocks(blocks, tmp_path, environment, background)


def _run_blocks(
    blocks: list[tuple[str, str]],
    tmp_path: Path,
    environment: dict[str, str],
    background: contextlib.ExitStack,
) -> None:
    printed = ""
    for kind, text in blocks:
        named = re.match(r"# (\S+\.(?:py|toml))\n", text)
        if named:
            (tmp_path / named[1]).write_text(text)
        elif kind == "python":
            done = subprocess.run(
                [sys.executable, "-W", "error", "-c", text], cwd=tmp_path, env=environment,
                capture_output=True, text=True, timeout=TIMEOUT,
            )  # fmt: skip
            assert done.returncode == 0, f"{text}\n{done.stderr}"
            printed = done.stdout
        elif kind == "text":
            assert _stripped(printed) == _stripped(text)
        elif kind == "bash":
            for line in text.splitlines():
                command = line.split("#")[0].split()
                folder = tmp_path
                if command[0] == "make":
                    command, folder = ["make", "--dry-run", *command[1:]], ROOT
                if command[-1] == "&":
                    background.enter_context(_in_background(command[:-1], folder, environment))
                    continue
                done = subprocess.run(
                    command,
                    cwd=folder,
                    env=environment,
                    capture_output=True,
                    text=True,
                    timeout=TIMEOUT,
                )
                assert done.returncode == 0, f"{line}\n{done.stderr}"
        else:
            assert kind == "", f"blocks of kind {kind!r} are not executed"


def _stripped(text: str) -> list[str]:
    return [line.rstrip() for line in text.splitlines()]


@contextlib.contextmanager
def _in_background(
    command: list[str], folder: Path, environment: dict[str, str]
) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        command, cwd=folder, env=environment, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
    ) as running:  # fmt: skip
        try:
            assert running.stdout is not None
            assert running.stdout.readline(), f"{command} ended without output"
            yield running
        finally:
            running.terminate()
            running.wait(TIMEOUT)


def test_links_between_documents_resolve() -> None:
    for document in DOCUMENTS:
        for target in re.findall(r"\]\((?!https?:)([^)#]+)\)", (ROOT / document).read_text()):
            found = (ROOT / document).parent / target
            assert found.exists(), f"{document} links to {target}"
