"""Extras: a missing one is reported in one sentence, before any work, with the command to run."""

from __future__ import annotations

import ast
import os
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import httpx
import pytest
from command_line import RunEntice, assert_error, without_coverage
from forking import ForkedPopen
from packaging.requirements import Requirement
from studio_fixtures import wait_until

import entice
from entice.extras import PACKAGES, Extra, MissingExtra, missing_extra, require

ROOT = Path(__file__).parents[2]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
UNDECLARED = {"llvmlite", "IPython"}
"""numba pins the version of llvmlite. IPython is used only where it is loaded already."""
COMMANDS = {
    "plot": "pip install matplotlib",
    "plotly": "pip install matplotlib plotly",
    "service": "pip install granian litestar prometheus-client structlog",
    "postgres": 'pip install "psycopg[binary]"',
    "studio": "pip install granian litestar prometheus-client structlog plotly",
    "cluster": "pip install cloudpickle distributed",
}
"""The commands that the messages contain if all packages of an extra are missing."""
STUDY = """
horizon = 50
replications = 2
seed = 7
arms = { kind = "gaussian", means = [0.9, 0.1] }
policies = [{ kind = "ucb" }]
"""
PLAN = (ROOT / "examples" / "marketplace.toml").read_text()


@pytest.fixture(autouse=True)
def activated(monkeypatch: pytest.MonkeyPatch) -> None:
    """Find this environment's commands first, as if it were activated."""
    scripts = str(Path(sys.executable).parent)
    monkeypatch.setenv("PATH", f"{scripts}{os.pathsep}{os.environ['PATH']}")


@pytest.fixture
def without(monkeypatch: pytest.MonkeyPatch) -> Callable[[Extra], None]:
    """Make the packages of an extra appear as not installed."""

    def hide(extra: Extra) -> None:
        for name in PACKAGES[extra]:
            monkeypatch.setitem(sys.modules, name, None)

    return hide


def packages_of(requirements: list[str]) -> set[str]:
    """Return the packages of some requirements, those of our own extras included."""
    found = set()
    for requirement in map(Requirement, requirements):
        if requirement.name == "entice":
            for extra in requirement.extras:
                found |= packages_of(PROJECT["optional-dependencies"][extra])
        else:
            extras = ",".join(requirement.extras)
            found.add(requirement.name + (f"[{extras}]" if extras else ""))
    return found


def test_the_packages_are_those_of_the_project_file() -> None:
    extras = PROJECT["optional-dependencies"]
    assert set(PACKAGES) == set(get_args(Extra)) == set(extras) - {"client", "all", "dev", "docs"}
    for extra, modules in PACKAGES.items():
        assert set(modules.values()) == packages_of(extras[extra]), extra
    assert packages_of(extras["client"]) == set()
    everything = {package for modules in PACKAGES.values() for package in modules.values()}
    assert packages_of(extras["all"]) == everything


def test_every_imported_package_is_declared() -> None:
    imported = set()
    for path in ROOT.glob("src/entice/**/*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                imported |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.level == 0:
                imported.add(str(node.module).partition(".")[0])
    imported -= {*sys.stdlib_module_names, "entice", *UNDECLARED}
    core = {name.replace("-", "_") for name in packages_of(PROJECT["dependencies"])}
    optional = {name for modules in PACKAGES.values() for name in modules}
    assert core.isdisjoint(optional)
    assert imported == core | optional


@pytest.mark.parametrize("extra", PACKAGES)
def test_a_missing_extra_is_named_with_the_command_to_run(
    extra: Extra, without: Callable[[Extra], None]
) -> None:
    require(extra)
    assert missing_extra(extra) == ""
    without(extra)
    with pytest.raises(MissingExtra) as raised:
        require(extra)
    message, command = str(raised.value).split(" Run: ")
    assert message.endswith(f" the extra entice[{extra}].")
    assert command == COMMANDS[extra]
    assert shlex.split(command)[2:] == list(PACKAGES[extra].values())
    assert isinstance(raised.value, entice.EnticeError)
    assert isinstance(raised.value, ImportError)


def test_the_command_installs_into_this_environment_also_if_it_is_not_activated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the module pip, as in an environment of uv, uv installs."""
    monkeypatch.setitem(sys.modules, "plotly", None)
    other = tmp_path / "pip"
    other.write_text("")
    other.chmod(0o755)
    for path in (str(tmp_path), ""):
        monkeypatch.setenv("PATH", path)
        command = missing_extra("studio").partition(" Run: ")[2]
        assert shlex.split(command) == [sys.executable, "-m", "pip", "install", "plotly"]
    monkeypatch.setitem(sys.modules, "pip", None)
    command = missing_extra("studio").partition(" Run: ")[2]
    assert shlex.split(command) == ["uv", "pip", "install", "--python", sys.executable, "plotly"]


def test_only_missing_packages_are_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "plotly", None)
    assert missing_extra("service") == ""
    expected = "The studio requires the extra entice[studio]. Run: pip install plotly"
    assert missing_extra("studio") == expected


def test_figures_require_plot(without: Callable[[Extra], None]) -> None:
    result = entice.simulate(
        arms=entice.Gaussian([0.9, 0.1]), policies=[entice.UCB()], horizon=100, replications=5,
        seed=7,
    )  # fmt: skip
    growth = entice.theory.Growth(table=result.summary(), points=result.summary())
    atlas = entice.atlas.Atlas(table=result.summary(), seed=7)
    without("plot")
    for draw in (result.plot, growth.plot, atlas.plot, lambda: entice.theory.plot_bounds(result)):
        with pytest.raises(MissingExtra, match="Figures require the extra") as raised:
            draw()
        assert str(raised.value).endswith(COMMANDS["plot"])


@pytest.mark.parametrize(
    "arguments",
    [
        ("reproduce", "--replications", "20", "--out", "out"),
        ("bounds", "study.toml", "--out", "out"),
        ("growth", "study.toml", "--out", "out"),
        ("atlas", "--out", "out"),
        ("plan", "plan.toml", "--out", "out"),
    ],
    ids=lambda arguments: arguments[0],
)
def test_commands_that_draw_require_plot_before_they_run(
    arguments: tuple[str, ...],
    without: Callable[[Extra], None],
    run_entice: RunEntice,
    tmp_path: Path,
) -> None:
    (tmp_path / "study.toml").write_text(STUDY)
    (tmp_path / "plan.toml").write_text(PLAN)
    without("plot")
    assert_error(run_entice(*arguments), "Figures require the extra", COMMANDS["plot"])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["plan.toml", "study.toml"]


@pytest.mark.parametrize(
    ("extra", "arguments"),
    [
        ("service", ("serve",)),
        ("service", ("campaign", "create", "study.toml")),
        ("service", ("campaign", "list")),
        ("service", ("keys", "create", "--role", "admin", "--name", "me")),
        ("service", ("keys", "list")),
        ("service", ("keys", "revoke", "k_1")),
        ("service", ("export", "c_1", "--out", "offers.csv")),
        ("service", ("verify",)),
        ("service", ("head",)),
        ("service", ("backup", "copy.db")),
        ("service", ("restore", "copy.db")),
        ("studio", ("demo",)),
        ("postgres", ("serve", "--db", "postgresql://nobody@127.0.0.1:9/none")),
        ("postgres", ("keys", "list", "--db", "postgresql://nobody@127.0.0.1:9/none")),
        ("cluster", ("run", "study.toml", "--out", "out", "--cluster", "tcp://127.0.0.1:9")),
    ],
)
def test_a_missing_extra_is_one_sentence_on_the_command_line(
    extra: Extra,
    arguments: tuple[str, ...],
    without: Callable[[Extra], None],
    run_entice: RunEntice,
    tmp_path: Path,
) -> None:
    (tmp_path / "study.toml").write_text(STUDY)
    without(extra)
    assert_error(run_entice(*arguments), f"the extra entice[{extra}]. Run: {COMMANDS[extra]}")


def test_without_the_studio_the_api_is_served(tmp_path: Path) -> None:
    script = "import sys; sys.modules['plotly'] = None; from entice.cli.app import main; main()"
    process = ForkedPopen(
        [sys.executable, "-c", script, "serve", "--port", "0"],
        cwd=tmp_path, env=without_coverage(), text=True, stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        assert process.stdout is not None
        address, *how, note = (process.stdout.readline().strip() for _ in range(4))
        assert how[0].startswith("Try: curl -H @")  # nothing to open in a browser
        assert note == "The studio requires the extra entice[studio]. Run: pip install plotly"
        url = address.removeprefix("Entice is at ")
        wait_until(lambda: is_served(f"{url}/healthz"))
        assert not is_served(url)
        process.terminate()
        assert process.wait(60) == 0
    finally:
        process.kill()
        process.communicate()


def is_served(url: str) -> bool:
    try:
        return httpx.get(url).status_code == 200
    except httpx.TransportError:
        return False
