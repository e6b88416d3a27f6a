"""Disk faults under the service: the short versions of the trials in `make faults`."""

from pathlib import Path

import pytest
from service_faults.adapter import connector
from service_faults.disk import Disk
from service_faults.recording import Marker
from service_faults.scenario import open_as_service, run_all_queries, run_scenario
from service_faults.trials import bit_flips, io_errors, power_loss
from sizes import sized

from entice.service.storage.sqlite import SqliteStore

pytestmark = pytest.mark.usefixtures("untraced")


def test_a_power_cut_loses_no_acknowledged_write() -> None:
    row = power_loss.run(long=False)
    assert row.passed, row


def test_an_acknowledgement_before_the_sync_would_be_detected(tmp_path: Path) -> None:
    """Power cuts right after an acknowledgement matter, before any other disk operation."""
    recording = power_loss.record_scenario(tmp_path, 40, seed=2)
    markers = [i for i, op in enumerate(recording.operations) if isinstance(op, Marker)]
    for i in markers:  # each acknowledgement is two disk operations too early
        recording.operations.insert(i - 2, recording.operations.pop(i))
    assert power_loss.cut(recording, sized(60, 200), seed=2).lost > 0


def test_a_full_or_failing_disk_leaves_no_partial_writes() -> None:
    row = io_errors.run(long=False)
    assert row.passed, row


def test_a_flipped_bit_is_never_served_undetected() -> None:
    row = bit_flips.run(long=False)
    assert row.passed, row


def test_the_scenario_is_deterministic_with_and_without_the_shim(tmp_path: Path) -> None:
    served = []
    for name in ("shim", "again", "plain"):
        folder = tmp_path / name
        folder.mkdir()
        disk = Disk(folder)
        connect = {} if name == "plain" else {"connect": connector(disk)}
        store = SqliteStore(folder / "entice.db", **connect)
        run_scenario(store, 60, seed=9)
        store.close()
        disk.close()
        with open_as_service(folder / "entice.db") as store:
            served.append(run_all_queries(store))
    assert served[0] == served[1] == served[2]
    assert len(served[0]) > 20
