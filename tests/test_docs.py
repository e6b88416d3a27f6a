"""Every example runs: docstrings, and the Python, TOML and shell blocks of the documents."""

from __future__ import annotations

import contextlib
import doctest
import importlib
import os
import pkgutil
import re
import shlex
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import httpx
import pytest
from command_line import without_coverage
from example_runner import ExampleRunner, Finished
from forking import ForkedPopen
from plain_kernel import plain_kernel
from service_faults.processes import free_port
from sizes import LONG

import entice

ROOT = Path(__file__).parents[1]
MODULES = ["entice", *(m.name for m in pkgutil.walk_packages(entice.__path__, "entice."))]
BLOCK = re.compile(r"^```(\S*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
RUN = ("python", "bash")
"""Kinds of blocks that are executed. `toml` blocks are files, `text` blocks are output, which is
compared, and blocks without a kind are other output. `console` blocks are commands for other
machines, or start what does not end, and `json` blocks are generated from OpenAPI. The requests of
curl in `console` blocks are sent by `tests/studio/test_studio_simulations.py`."""
PLAIN = (
    "docs/explanation/changing-items.md",
    "docs/explanation/equal-pay-theorems.md",
    "docs/explanation/segments.md",
    "docs/how-to/drift-estimate.md",
    "docs/how-to/studies.md",
    "docs/how-to/worlds.md",
    "plot_07_estimate_drift_from_a_log.py",
    "plot_10_star_counts.py",
)
"""Examples that would be compiled for themselves alone; short runs of them need no compilation."""
PLAIN_DOCSTRINGS = (
    "entice.estimate.curve", "entice.estimate.probe", "entice.theory.theorem3",
    "entice.theory.ucb_proof",
)  # fmt: skip
"""The same of docstrings: one run each, of up to 5,000 rounds."""
GALLERY = sorted((ROOT / "docs" / "gallery_sources").glob("plot_*.py"))


def _blocks(document: str) -> list[tuple[str, str]]:
    found = BLOCK.findall((ROOT / document).read_text())
    return [(kind, text) for kind, text in found if not kind.startswith("{")]


PAGES = sorted(
    str(path.relative_to(ROOT))
    for folder in ("tutorials", "how-to", "reference", "explanation")
    for path in (ROOT / "docs" / folder).glob("*.md")
)
DOCUMENTS = [
    document
    for document in ("README.md", "CONTRIBUTING.md", "docs/index.md", *PAGES)
    if any(kind in RUN for kind, _ in _blocks(document))
]
TIMEOUT = 1200
"""Seconds after which an example counts as hanging; the longest takes 20 s on an idle machine."""
SHORTER = {
    "docs/how-to/plan.md": {
        "seed = 7": "seed = 7\nreplications = 20",
        "replications=100": "replications=10, policies=[entice.UCB(), entice.Greedy()]",
    },
    "docs/how-to/studies.md": {"5000\nreplications = 400": "200\nreplications = 5"},
    "docs/how-to/worlds.md": {
        "horizon=5_000, replications=20": "horizon=500, replications=2",
        "horizon=1_000, replications=10": "horizon=1_000, replications=2",
        "2000\nreplications = 20": "500\nreplications = 2",
    },
    "docs/how-to/drift-estimate.md": {
        "drifts=[drift], horizon=20_000": "drifts=[drift], horizon=2_000"
    },
    "docs/explanation/changing-items.md": {"2_000, replications=20": "1_100, replications=2"},
    "docs/explanation/equal-pay-theorems.md": {
        "20000\nreplications = 50": "300\nreplications = 2",
        "horizon = 20000, noise": "horizon = 300, noise",
    },
    "docs/explanation/reproduction.md": {"--replications 20": "--replications 4"},
    "docs/explanation/segments.md": {"1_000, replications=20": "200, replications=2"},
    "docs/how-to/cluster.md": {
        "replications=1_000": "replications=100",
        "n_workers=2": "n_workers=1",
    },
    "docs/tutorials/own-policy.md": {
        "check_arms(arms) ": "check_policy(turns)\ncheck_arms(arms) ",
        "[policy, turns, entice.UCB()]": "[policy, entice.UCB()]",
    },
    "docs/tutorials/plan-live-effect.md": {
        "replications = 100": "replications = 10",
        "range(400)": "range(20)",
    },
    "plot_01_reproduce_a_table.py": {"replications=200": "replications=20"},
    "plot_05_a_drift_that_breaks_policies.py": {"replications=100": "replications=5"},
    "plot_06_plan_a_budget.py": {"replications=100": "replications=10"},
    "plot_07_estimate_drift_from_a_log.py": {"horizon=20_000": "horizon=2_000"},
    "plot_10_star_counts.py": {"replications=50": "replications=2", "horizon=5_000": "horizon=200"},
    "plot_12_live_principal.py": {"range(2_000)": "range(100)"},
}
"""Fewer runs and policies in examples whose output is not shown; each policy is compiled.

The long version runs them as they are.
"""


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
    with plain_kernel() if name in PLAIN_DOCSTRINGS and not LONG else contextlib.nullcontext():
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
    in the background until the document ends. A `text` block is the output of the block before it:
    of curl the last response, in lines of 100 characters.
    A Python block that starts with a comment about what it needs is only compiled.
    """
    blocks = _blocks(document)
    shorter = {} if LONG else SHORTER.get(document, {})
    for written, run in shorter.items():
        assert sum(text.count(written) for _, text in blocks) == 1
        blocks = [(kind, text.replace(written, run)) for kind, text in blocks]
    # Several pages use the same port, and another worker may run one of them.
    port = str(free_port())
    blocks = [(kind, re.sub(r"\b843\d\b", port, text)) for kind, text in blocks]
    run = partial(runner.run, plain=document in PLAIN and not LONG)
    with contextlib.ExitStack() as background:
        _run_blocks(blocks, tmp_path, run, environment, background)


def _run_blocks(
    blocks: list[tuple[str, str]],
    tmp_path: Path,
    run: Callable[..., Finished],
    environment: dict[str, str],
    background: contextlib.ExitStack,
) -> None:
    printed = created = ""
    for kind, text in blocks:
        named = re.match(r"# (\S+\.(?:py|toml))\n", text)
        if named:
            (tmp_path / named[1]).write_text(text)
        elif kind == "python" and text.startswith("# Needs "):
            compile(text, "<string>", "exec")
        elif kind == "python":
            done = run(text, tmp_path)
            assert done.code == 0, f"{text}\n{done.err}"
            printed = done.out
        elif kind == "text":
            assert _stripped(printed) == _stripped(text)
        elif kind == "bash":
            for line in _command_lines(text):
                command = line.split("#")[0].split()
                if command[-1] == "&":
                    background.enter_context(_in_background(command[:-1], tmp_path, environment))
                elif command[0].startswith("TOKEN="):
                    token = Path(environment["ENTICE_STATE_DIR"]) / Path(command[0]).name
                elif command[0] == "curl" and "/readyz" in line:
                    address, *silent = command[-3:]
                    assert silent == [">", "/dev/null"], f"{line} prints each response"
                    assert httpx.get(address).status_code == 200
                elif command[0] == "curl":
                    response = _send(line, token, created)
                    printed = textwrap.fill(response.text, 100)
                    if response.request.url.path == "/v1/campaigns":
                        created = response.json()["id"]
                elif command[0] == "make":
                    dry = ["make", "--dry-run", *command[1:]]
                    subprocess.run(dry, cwd=ROOT, capture_output=True, check=True)
                else:
                    # The same as the script `entice`.
                    assert command[0] == "entice", f"{line} is not executed"
                    done = run("from entice.cli.app import main; main()", tmp_path, command)
                    assert done.code == 0, f"{line}\n{done.err}"
                    if command[1:3] == ["campaign", "create"]:
                        [created] = re.findall(r"c_[0-9a-f]{16}", done.out)
        elif kind == "console":
            assert all(line.startswith(("$ ", "  ")) for line in text.splitlines()), text
        else:
            assert kind == "", f"blocks of kind {kind!r} are not executed"


def _command_lines(text: str) -> list[str]:
    """Return the commands of a block. A quoted body may have several lines."""
    commands: list[str] = []
    for line in text.splitlines():
        if commands and commands[-1].split("#")[0].count("'") % 2:
            commands[-1] += f"\n{line}"
        else:
            commands.append(line)
    return commands


def _send(line: str, token: Path, campaign: str) -> httpx.Response:
    """Send the request of a curl command, for the campaign that was created last.

    It must succeed, or have the status that its comment begins with.
    """
    words = shlex.split(line.replace("c_…", campaign), comments=True)
    assert words[:3] == ["curl", "-H", "@$TOKEN"], line
    name, _, value = token.read_text().strip().partition(": ")
    headers = {name: value, "content-type": "application/json"}
    body = words[words.index("--json") + 1] if "--json" in words else None
    method = "GET" if body is None else "POST"
    response = httpx.request(method, words[3], headers=headers, content=body)
    expected = re.search(r"# (4\d\d)\b", line)
    allowed = response.status_code == int(expected[1]) if expected else response.is_success
    assert allowed, f"{line}\n{response.text}"
    return response


@pytest.mark.parametrize("example", GALLERY, ids=lambda path: path.stem)
def test_gallery_examples_run(
    example: Path,
    tmp_path: Path,
    runner: ExampleRunner,
    unmeasured: None,
) -> None:
    """Run an example; its last line must return a figure, which the gallery shows."""
    text = example.read_text()
    for written, run in ({} if LONG else SHORTER.get(example.name, {})).items():
        assert text.count(written) == 1
        text = text.replace(written, run)
    code, _, last = text.rstrip().rpartition("\n")
    code = f"{code}\n({last}).savefig('picture.png')"
    done = runner.run(code, tmp_path, plain=example.name in PLAIN and not LONG)
    assert done.code == 0, f"{text}\n{done.err}"
    assert (tmp_path / "picture.png").stat().st_size > 5_000


def test_a_failing_example_is_reported(tmp_path: Path, runner: ExampleRunner) -> None:
    """Controls: an error, a warning, an import of what only the tests have, and an exit code."""
    assert runner.run("import sys; print(sys.argv); 1 / 0", tmp_path).code == 1
    assert runner.run("1 / 0", tmp_path, plain=True).code == 1
    warned = runner.run("import warnings; warnings.warn('old')", tmp_path)
    assert (warned.code, "UserWarning: old" in warned.err) == (1, True)
    for plain in (False, True):
        imported = runner.run("import command_line", tmp_path, plain=plain)
        assert "No module named 'command_line'" in imported.err
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
