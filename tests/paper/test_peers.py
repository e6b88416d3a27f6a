"""Consistency of the benchmark against other libraries, without installing or measuring them."""

from __future__ import annotations

import ast
import importlib.util
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]
BENCH = ROOT / "bench"
LINE = {"policy": "ucb", "ns_per_round": 5000.0, "runs": 100, "regret": 220.0, "stderr": 7.0}


@pytest.fixture(scope="module")
def peers() -> Iterator[ModuleType]:
    """Import `bench/peers.py` with its folder on the path, as for a script."""
    sys.path.insert(0, str(BENCH))
    spec = importlib.util.spec_from_file_location("peers", BENCH / "peers.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["peers"] = module
    spec.loader.exec_module(module)
    yield module
    sys.path.remove(str(BENCH))
    del sys.modules["peers"]


def names(pattern: str) -> set[str]:
    return {path.stem.removeprefix("drive_") for path in (BENCH / "peers").glob(pattern)}


def test_each_peer_has_a_driver_and_a_lock_file(peers: ModuleType) -> None:
    assert set(peers.PEERS) == names("drive_*.py") == names("*.txt") == names("*.in")


def test_drivers_run_the_policies_of_the_list(peers: ModuleType) -> None:
    for name, peer in peers.PEERS.items():
        tree = ast.parse((BENCH / "peers" / f"drive_{name}.py").read_text())
        (plays,) = (
            node.value
            for node in tree.body
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "PLAYS"
        )
        assert isinstance(plays, ast.Dict)
        played = {key.value for key in plays.keys if isinstance(key, ast.Constant)}
        assert played == {key for key, line in peer.lines.items() if line.twin is not None}


def test_drivers_do_not_import_entice() -> None:
    for path in (BENCH / "peers").glob("*.py"):
        assert not re.search(r"^(import|from) entice", path.read_text(), re.MULTILINE)


def test_lock_files_have_hashes_and_no_addresses(peers: ModuleType) -> None:
    for name in peers.PEERS:
        text = peers.lock_file(name).read_text()
        packages = re.findall(r"^\S+==.*?(?=^\S|\Z)", text, re.MULTILINE | re.DOTALL)
        assert packages
        assert all("--hash=sha256:" in package for package in packages)
        assert "://" not in text
        assert re.fullmatch(r"\d+(\.\d+)+", peers.version_of(name))


def test_the_results_page_names_every_peer_and_policy(peers: ModuleType) -> None:
    page = (ROOT / "docs" / "explanation" / "peers.md").read_text()
    for name, peer in peers.PEERS.items():
        assert f"{peer.title} {peers.version_of(name)}" in page
        for line in peer.lines.values():
            assert line.rule in page


def test_the_output_line_of_a_driver_is_parsed(peers: ModuleType) -> None:
    found = peers.parse_line(json.dumps(LINE))
    assert (found.policy, found.runs, found.regret) == ("ucb", 100, 220.0)
    assert found.with_error == "220.0 ± 7.0"


def test_other_output_of_a_library_is_ignored(peers: ModuleType) -> None:
    assert peers.parse_line("Warning: numba is not there\n") is None


@pytest.mark.parametrize(
    "change",
    [
        {"ns_per_round": 0.0},
        {"ns_per_round": "fast"},
        {"runs": 1},
        {"stderr": -1.0},
        {"regret": None},
        {"surprise": 1},
    ],
)
def test_an_implausible_line_is_rejected(peers: ModuleType, change: dict[str, object]) -> None:
    with pytest.raises(peers.PeerFailed, match="cannot be read"):
        peers.parse_line(json.dumps(LINE | change))


def test_a_missing_field_and_invalid_json_are_rejected(peers: ModuleType) -> None:
    for text in (json.dumps({k: v for k, v in LINE.items() if k != "runs"}), '{"policy": "ucb"'):
        with pytest.raises(peers.PeerFailed, match="cannot be read"):
            peers.parse_line(text)


def test_deviations_over_four_standard_errors_are_flagged(peers: ModuleType) -> None:
    truth = peers.Measurement("UCB", 30.0, 100_000, 220.0, 0.1)
    near = peers.Measurement("ucb", 5000.0, 1_000, 220.0 + 3.8 * 2, 2.0)
    far = peers.Measurement("ucb", 5000.0, 1_000, 220.0 + 4.2 * 2, 2.0)
    assert not near.deviates(truth)
    assert far.deviates(truth)
    # Five runs may deviate by five standard errors by chance, which Welch's t-test allows for.
    few = peers.Measurement("ucb", 5000.0, 5, 220.0 + 5 * 2, 2.0)
    assert not few.deviates(truth)


def test_deviating_and_missing_peers_are_explained(peers: ModuleType) -> None:
    truth = peers.Measurement("TS", 50.0, 100_000, 160.0, 0.1)
    deviating = peers.Measurement("thompson", 9000.0, 1_000, 850.0, 5.0)
    river, mabby = peers.PEERS["river"], peers.PEERS["mabby"]
    rows = [
        peers.Row(river, "1.0", river.lines["thompson"], deviating, truth),
        peers.Row(mabby, "1.0", mabby.lines["thompson"]),
    ]
    failed = {"pymab": "cannot be installed: no wheel"}
    first, second, third, *_ = peers.remarks(rows, failed)
    assert "deviates by 138.0 standard errors: it samples from the Gaussian" in first
    assert "Beta posteriors only" in second
    assert third.startswith("PyMAB")
    assert third.endswith("no wheel")
    assert peers.results_table(rows, failed).row_count == 3
    text = json.loads(peers.to_json(rows, failed))
    assert text["failed"] == failed
    assert [row["deviates"] for row in text["rows"]] == [True, False]


def test_an_unknown_peer_is_rejected_with_the_known_ones(
    peers: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["peers.py", "--only", "rivr"])
    with pytest.raises(SystemExit) as left:
        peers.main()
    assert left.value.code == 2
    errors = capsys.readouterr().err
    assert "rivr" in errors
    assert all(name in errors for name in names("*.txt"))
