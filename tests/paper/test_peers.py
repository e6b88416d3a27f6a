"""The bench against other libraries: its parts agree. Nothing is installed or measured here."""

from __future__ import annotations

import ast
import importlib.util
import json
import re
import subprocess
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
    """`bench/peers.py`, which finds its neighbours as a script does."""
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


def test_each_peer_has_a_driver_and_a_pinned_file(peers: ModuleType) -> None:
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


def test_drivers_know_nothing_of_entice() -> None:
    for path in (BENCH / "peers").glob("*.py"):
        assert not re.search(r"^(import|from) entice", path.read_text(), re.MULTILINE)


def test_pinned_files_have_hashes_and_no_addresses(peers: ModuleType) -> None:
    for name in peers.PEERS:
        text = peers.pinned(name).read_text()
        packages = re.findall(r"^\S+==.*?(?=^\S|\Z)", text, re.MULTILINE | re.DOTALL)
        assert packages
        assert all("--hash=sha256:" in package for package in packages)
        assert "://" not in text
        assert re.fullmatch(r"\d+(\.\d+)+", peers.version_of(name))


def test_the_results_page_names_every_peer_and_policy(peers: ModuleType) -> None:
    page = (ROOT / "docs" / "peers.md").read_text()
    for name, peer in peers.PEERS.items():
        assert f"{peer.title} {peers.version_of(name)}" in page
        for line in peer.lines.values():
            assert line.rule in page


def test_a_line_of_a_driver_is_read(peers: ModuleType) -> None:
    found = peers.parsed(json.dumps(LINE))
    assert (found.policy, found.runs, found.regret) == ("ucb", 100, 220.0)
    assert found.with_error == "220.0 ± 7.0"


def test_what_a_library_prints_on_its_own_account_is_passed_over(peers: ModuleType) -> None:
    assert peers.parsed("Warning: numba is not there\n") is None


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
def test_a_line_that_makes_no_sense_is_refused(
    peers: ModuleType, change: dict[str, object]
) -> None:
    with pytest.raises(peers.PeerFailed, match="can't be read"):
        peers.parsed(json.dumps(LINE | change))


def test_a_missing_field_and_broken_json_are_refused(peers: ModuleType) -> None:
    for text in (json.dumps({k: v for k, v in LINE.items() if k != "runs"}), '{"policy": "ucb"'):
        with pytest.raises(peers.PeerFailed, match="can't be read"):
            peers.parsed(text)


def test_more_than_four_standard_errors_are_flagged(peers: ModuleType) -> None:
    truth = peers.Found("UCB", 30.0, 100_000, 220.0, 0.1)
    near = peers.Found("ucb", 5000.0, 1_000, 220.0 + 3.8 * 2, 2.0)
    far = peers.Found("ucb", 5000.0, 1_000, 220.0 + 4.2 * 2, 2.0)
    assert not near.is_off(truth)
    assert far.is_off(truth)
    # Five runs may be five standard errors away by chance: Welch's t knows that.
    few = peers.Found("ucb", 5000.0, 5, 220.0 + 5 * 2, 2.0)
    assert not few.is_off(truth)


def test_a_peer_that_is_off_says_why_and_one_that_is_missing_too(peers: ModuleType) -> None:
    truth = peers.Found("TS", 50.0, 100_000, 160.0, 0.1)
    off = peers.Found("thompson", 9000.0, 1_000, 850.0, 5.0)
    river, mabby = peers.PEERS["river"], peers.PEERS["mabby"]
    rows = [
        peers.Row(river, "1.0", river.lines["thompson"], off, truth),
        peers.Row(mabby, "1.0", mabby.lines["thompson"]),
    ]
    failed = {"pymab": "can't be installed: no wheel"}
    first, second, third, *_ = peers.remarks(rows, failed)
    assert "off by 138.0 standard errors: it samples from the Gaussian" in first
    assert "Beta posteriors only" in second
    assert third.startswith("PyMAB")
    assert third.endswith("no wheel")
    assert peers.table_of(rows, failed).row_count == 3
    text = json.loads(peers.as_json(rows, failed))
    assert text["failed"] == failed
    assert [row["off"] for row in text["rows"]] == [True, False]


def test_an_unknown_peer_is_refused_with_the_known_ones() -> None:
    done = subprocess.run(
        [sys.executable, BENCH / "peers.py", "--only", "rivr"], capture_output=True, text=True
    )
    assert done.returncode == 2
    assert "rivr" in done.stderr
    assert all(name in done.stderr for name in names("*.txt"))
