"""What can go wrong under a running service, in short: `make faults` has the long versions.

Each trial comes with a control, something that is built the wrong way and must fail. Without it
nobody would know whether the trial could find anything.
"""

import pytest
from forking import ForkedPopen
from service_faults import processes
from service_faults.outcome import Outcome
from service_faults.trials import (
    clock_jumps,
    fuzzing,
    kill,
    postgres_restart,
    race,
    reordering,
    replay,
    silent_logs,
    webhooks,
)
from sizes import LONG

pytestmark = pytest.mark.usefixtures("untraced")


@pytest.fixture(autouse=True)
def _forked_servers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fork the servers, which the trials start a dozen times; `make test-long` starts them."""
    if not LONG:
        monkeypatch.setattr(processes, "Popen", ForkedPopen)


def assert_passed(outcome: Outcome) -> None:
    assert outcome.passed, "\n".join(map(str, outcome))


def test_64_concurrent_clients_never_exceed_the_budget_on_sqlite_or_postgresql():
    assert_passed(race.run(long=False))


def test_a_killed_server_loses_no_acknowledged_write_and_executes_none_twice():
    assert_passed(kill.run(long=False))


def test_feedback_in_any_order_and_repeated_leads_to_the_same_state():
    assert_passed(reordering.run(long=False))


def test_the_service_survives_restarts_of_postgresql_without_loss():
    assert_passed(postgres_restart.run(long=False))


def test_wall_clock_jumps_change_neither_the_order_of_events_nor_deadlines():
    assert_passed(clock_jumps.run(long=False))


def test_fuzzed_requests_get_no_5xx_and_errors_are_problem_details():
    assert_passed(fuzzing.run(long=False))


def test_a_replay_equals_the_tables_byte_for_byte_and_finds_a_changed_byte():
    assert_passed(replay.run(long=False))


def test_the_service_answers_and_stops_while_its_log_is_not_read():
    assert_passed(silent_logs.run(long=False))


def test_a_killed_process_loses_no_event_of_a_webhook():
    assert_passed(webhooks.run(long=False))
