"""What can go wrong under a running service, in short: `make faults` has the long versions.

Each trial comes with a control, something that is built the wrong way and must fail. Without it
nobody would know whether the trial could find anything.
"""

import re
from pathlib import Path

import pytest
from service_faults import __main__ as runner
from service_faults import clock_jumps, fuzzing, kill, postgres_restart, race, reordering, replay
from service_faults.outcome import Outcome


def assert_passed(outcome: Outcome) -> None:
    assert outcome.passed, "\n".join(map(str, outcome))


def test_64_clients_at_once_never_overspend_on_sqlite_and_on_four_processes_with_postgresql():
    assert_passed(race.run(long=False))


def test_nothing_that_was_answered_is_lost_and_nothing_is_done_twice_when_the_server_is_killed():
    assert_passed(kill.run(long=False))


def test_feedback_in_any_order_and_any_number_of_times_adds_up_alike():
    assert_passed(reordering.run(long=False))


def test_the_service_outlives_restarts_of_postgresql_and_loses_nothing():
    assert_passed(postgres_restart.run(long=False))


def test_jumps_of_the_wall_clock_change_neither_the_order_nor_what_was_promised():
    assert_passed(clock_jumps.run(long=False))


def test_whatever_is_sent_is_answered_without_5xx_and_errors_are_problems():
    assert_passed(fuzzing.run(long=False))


def test_a_replayed_log_is_byte_for_byte_what_the_tables_hold_and_a_changed_byte_is_named():
    assert_passed(replay.run(long=False))


def test_the_table_of_make_faults_tells_failures_and_ends_with_1(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    def broken(long: bool) -> Outcome:
        raise RuntimeError("no luck")

    monkeypatch.setattr(replay, "run", lambda long: Outcome("replay", "1 | 2", "[ok]", "x", True))
    monkeypatch.setattr(kill, "run", broken)
    out = tmp_path / "faults.md"
    arguments = ["service_faults", "--only", "replay", "--only", "kill", "--out", str(out)]
    monkeypatch.setattr("sys.argv", arguments)
    assert runner.main() == 1
    told = out.read_text(encoding="utf-8")
    assert re.search(r"^\| replay \| 1 \\\| 2 \| \[ok\] \| x \| yes \| 0 \|$", told, re.MULTILINE)
    assert "| kill |  | broke off: RuntimeError('no luck') |  | **no** |" in told
    assert "no luck" in capsys.readouterr().out
