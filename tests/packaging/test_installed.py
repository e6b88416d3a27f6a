"""The built distributions work where only the declared packages are installed."""

from __future__ import annotations

import re
import signal
from pathlib import Path

import httpx
import pytest
from command_line import plain
from installed import ROOT, Environment, build_sdist, build_wheel, files_of

SIMULATE = """
import entice, entice.client
from entice.extras import MissingExtra
result = entice.simulate(
    arms=entice.Gaussian([0.9, 0.1]), policies=[entice.Greedy()], horizon=100, replications=5,
    seed=7)
print(entice.__file__, result.final.height)
print(result)
try:
    result.plot()
except MissingExtra as error:
    print(error)
try:
    entice.client.Client("http://127.0.0.1:9", retries=0).campaigns()
except entice.client.ServiceError as error:
    print(error)
"""
"""Everything that the core offers, and an error where an extra is needed."""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the wheel, built from the source distribution."""
    folder = tmp_path_factory.mktemp("dist")
    return build_wheel(build_sdist(folder), folder)


def test_the_core_simulates(wheel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = ROOT / "src"
    files = {p for p in (package / "entice").rglob("*") if p.is_file() and p.suffix != ".pyc"}
    assert files_of(wheel) == {str(path.relative_to(package)) for path in files}

    core = Environment(tmp_path / "core", "core.txt", wheel)
    assert set(core.packages()) == core.declared()
    monkeypatch.setenv("ENTICE_CACHE_DIR", str(tmp_path / "kernels"))
    code, out, err = core.run("python", "-c", SIMULATE, cwd=tmp_path)
    assert (code, err) == (0, "")
    assert out.startswith(f"{tmp_path}/core/lib")
    assert "entice/__init__.py 5\n" in out
    install = f"uv pip install --python {core.folder}/bin/python"  # this environment has no pip
    assert f"Figures require the extra entice[plot]. Run: {install} matplotlib\n" in out
    assert "cannot reach http://127.0.0.1:9" in out
    code, _, err = core.run("entice", "serve", cwd=tmp_path)
    assert code == 2
    assert plain(err).startswith("Error: The service requires the extra entice[service]. Run: uv")


def test_the_wheel_reproduces_the_paper_and_runs_the_demo(wheel: Path, tmp_path: Path) -> None:
    demo = Environment(tmp_path / "demo", "demo.txt", wheel)
    assert set(demo.packages()) == demo.declared("plot", "studio") | {"flit-core"}
    arguments = ("reproduce", "--replications", "20", "--seed", "7", "--out", "out")
    code, out, err = demo.run("entice", *arguments, cwd=tmp_path)
    assert code == 0, err
    assert "report.html" in out
    written = {path.name for path in (tmp_path / "out").iterdir()}
    assert written >= {"table1.csv", "table2.csv", "fig3.png", "fig3.svg", "report.html"}

    process = demo.popen("entice", "demo", cwd=tmp_path)
    try:
        assert process.stdout is not None
        output = ""
        while "campaign is live" not in output:
            line = process.stdout.readline()
            assert line, process.communicate()[1]
            output += line
        found = re.search(r"(http://127\.0\.0\.1:\d+)/#key=(entice_\S+)", output)
        assert found is not None, output
        page = httpx.get(found[1])
        assert (page.status_code, "Entice" in page.text) == (200, True)
        assert httpx.get(f"{found[1]}/studio/plotly.min.js").status_code == 200
        key = {"authorization": f"Bearer {found[2]}"}
        [campaign] = httpx.get(f"{found[1]}/v1/campaigns", headers=key).json()
        assert campaign["decisions"] > 0
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
        assert (process.returncode, err) == (0, "")
        assert "Stopped." in out
    finally:
        process.kill()
        process.communicate()
