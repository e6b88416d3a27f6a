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
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from command_line import without_coverage
from example_runner import ExampleRunner
from forking import ForkedPopen
from sizes import LONG

import entice

ROOT = Path(__file__).parents[1]
MODULES = ["entice", *(m.name for m in pkgutil.walk_packages(entice.__path__, "entice."))]
DOCUMENTS = [
    "README.md",
    "CONTRIBUTING.md",
    "docs/speed.md",
    "docs/peers.md",
    "docs/theory.md",
    "docs/equal_pay.md",
    "docs/beyond.md",
    "docs/studies.md",
    "docs/results.md",
    "docs/reproduction.md",
    "docs/reproduction_pack.md",
    "docs/cluster.md",
    "docs/plan.md",
    "docs/estimate.md",
    "docs/did_it_work.md",
    "docs/off_policy.md",
    "docs/service.md",
    "docs/operations.md",
    "docs/studio.md",
]
WITHOUT_EXAMPLES = ["CHANGELOG.md", "CODE_OF_CONDUCT.md", "SECURITY.md", "docs/findings.md"]
TIMEOUT = 1200
"""Seconds after which an example counts as hanging; the longest takes 20 s on an idle machine."""
SHORTER = {
    "docs/plan.md": {
        "seed = 7": "seed = 7\nreplications = 20",
        "replications=100": "replications=10, policies=[entice.UCB(), entice.Greedy()]",
    },
    "docs/beyond.md": {
        "policies=[entice.UCB(), entice.DriftCorrectedThompson()]": "policies=[entice.UCB()]",
    },
    "docs/cluster.md": {"replications=1_000": "replications=100"},
}
"""Fewer runs and policies in examples whose output is not shown; each policy is compiled.

The long version runs them as they are.
"""
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


@pytest.fixture(scope="module")
def environment() -> dict[str, str]:
    """The environment of the examples: without coverage, since other tests cover the same code."""
    scripts = str(Path(sys.executable).parent)
    return without_coverage() | {"PATH": f"{scripts}{os.pathsep}{os.environ['PATH']}"}


@pytest.fixture(scope="module")
def runner(environment: dict[str, str]) -> Iterator[ExampleRunner]:
    with contextlib.closing(ExampleRunner(environment, TIMEOUT)) as running:
        yield running


@pytest.mark.parametrize("document", DOCUMENTS)
def test_documents_run_block_by_block(
    document: str, tmp_path: Path, runner: ExampleRunner, environment: dict[str, str]
) -> None:
    """Run a document's blocks in order, in an empty folder, as a reader would.

    A block that opens with a comment naming a file is written to that file. `make` lines are
    checked for their target only: they would run these tests again. A line that ends with & runs
    in the background until the document ends. A `text` block is the output of the block before it.
    """
    text = (ROOT / document).read_text()
    shorter = {} if LONG else SHORTER.get(document, {})
    for written, run in shorter.items():
        assert text.count(written) == 1
        text = text.replace(written, run)
    blocks = BLOCK.findall(text)
    assert blocks
    with contextlib.ExitStack() as background:
        _run_blocks(blocks, tmp_path, runner, environment, background)


def _run_blocks(
    blocks: list[tuple[str, str]],
    tmp_path: Path,
    runner: ExampleRunner,
    environment: dict[str, str],
    background: contextlib.ExitStack,
) -> None:
    printed = ""
    for kind, text in blocks:
        named = re.match(r"# (\S+\.(?:py|toml))\n", text)
        if named:
            (tmp_path / named[1]).write_text(text)
        elif kind == "python":
            done = runner.run(text, tmp_path)
            assert done.code == 0, f"{text}\n{done.err}"
            printed = done.out
        elif kind == "text":
            assert _stripped(printed) == _stripped(text)
        elif kind == "bash":
            for line in text.splitlines():
                command = line.split("#")[0].split()
                if command[-1] == "&":
                    background.enter_context(_in_background(command[:-1], tmp_path, environment))
                elif command[0] == "make":
                    dry = ["make", "--dry-run", *command[1:]]
                    subprocess.run(dry, cwd=ROOT, capture_output=True, check=True)
                else:
                    # The same as the script `entice`.
                    assert command[0] == "entice", f"{line} is not executed"
                    done = runner.run("from entice.cli.app import main; main()", tmp_path, command)
                    assert done.code == 0, f"{line}\n{done.err}"
        else:
            assert kind == "", f"blocks of kind {kind!r} are not executed"


def test_a_failing_example_is_reported(tmp_path: Path, runner: ExampleRunner) -> None:
    """Controls: an error, a warning, an import of what only the tests have, and an exit code."""
    assert runner.run("import sys; print(sys.argv); 1 / 0", tmp_path).code == 1
    warned = runner.run("import warnings; warnings.warn('old')", tmp_path)
    assert (warned.code, "UserWarning: old" in warned.err) == (1, True)
    assert "No module named 'command_line'" in runner.run("import command_line", tmp_path).err
    assert runner.run("print(numba)", tmp_path).code == 1  # not imported by the example
    assert runner.run("import sys; sys.exit(3)", tmp_path).code == 3
    assert runner.run("import sys; print('numba' in sys.modules)", tmp_path).out == "True\n"
    assert runner.run("import sys; print('entice' in sys.modules)", tmp_path).out == "False\n"


def _stripped(text: str) -> list[str]:
    return [line.rstrip() for line in text.splitlines()]


@contextlib.contextmanager
def _in_background(
    command: list[str], folder: Path, environment: dict[str, str]
) -> Iterator[subprocess.Popen[str]]:
    with ForkedPopen(
        command, cwd=folder, env=environment, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
    ) as running:  # fmt: skip
        try:
            assert running.stdout is not None
            line = running.stdout.readline()
            assert line, f"{command} ended without output"
            _wait_until_ready(line)
            yield running
        finally:
            running.terminate()
            running.wait(TIMEOUT)


def _wait_until_ready(line: str) -> None:
    """Wait for the server whose address a line contains: a reader types slower than it starts."""
    found = re.search(r"http://[\d.]+:\d+", line)
    assert found is not None, line
    end = time.monotonic() + TIMEOUT
    with httpx.Client() as client:
        while time.monotonic() < end:
            with contextlib.suppress(httpx.TransportError):
                if client.get(f"{found[0]}/readyz").status_code == 200:
                    return
            time.sleep(0.05)
    raise AssertionError(f"{found[0]} does not become ready")


def test_links_between_documents_resolve() -> None:
    for document in [*DOCUMENTS, *WITHOUT_EXAMPLES]:
        for target in re.findall(r"\]\((?!https?:)([^)#]+)\)", (ROOT / document).read_text()):
            found = (ROOT / document).parent / target
            assert found.exists(), f"{document} links to {target}"
