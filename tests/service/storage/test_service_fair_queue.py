"""Campaigns take turns in the writer, so that none delays the others."""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path

import pytest
from writer_fixtures import Service, hashed, service

from entice.service.domain.commands import CommandResult, MakeOffer
from entice.service.domain.errors import Refusal, Unavailable
from entice.service.storage import fair_queue, writer
from entice.service.storage.fair_queue import FairQueue, PendingCommand
from entice.service.thread_switching import INTERVAL

__all__ = ["service"]


def pending(campaign: str, player: int = 0) -> PendingCommand:
    command = MakeOffer(campaign, hashed(player))
    return PendingCommand(command, "", None, b"", lambda _: None, None)


def players(group: list[PendingCommand], campaign: str) -> list[int]:
    commands = [each.command for each in group if each.campaign == campaign]
    return [int.from_bytes(c.player) for c in commands if isinstance(c, MakeOffer)]


def test_campaigns_take_turns() -> None:
    queue = FairQueue()
    for player in range(100):
        queue.put(pending("flooding", player))
    queue.put(pending("quiet"))
    group, _ = queue.take(())
    assert players(group, "quiet") == [0]
    assert players(group, "flooding") == list(range(len(group) - 1))


def test_a_campaign_with_slow_commands_gets_the_same_time_not_the_same_number() -> None:
    queue = FairQueue()
    queue.record(pending("slow"), 1e-3)
    queue.record(pending("fast"), 1e-5)
    for player in range(200):
        queue.put(pending("slow", player))
        queue.put(pending("fast", player))
    group, _ = queue.take(())
    assert len(players(group, "fast")) > 20 * len(players(group, "slow")) > 0


def test_commands_that_were_not_executed_keep_their_order() -> None:
    queue = FairQueue()
    for player in range(20):
        queue.put(pending("a", player))
    first, _ = queue.take(())
    queue.put_back(first[2:])
    taken = first[:2]
    while queue.depth:
        taken += queue.take(())[0]
    assert players(taken, "a") == list(range(20))


def test_only_the_flooding_campaign_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fair_queue, "MAX_WAITING_PER_CAMPAIGN", 10)
    queue = FairQueue()
    for player in range(10):
        queue.put(pending("flooding", player))
    with pytest.raises(Refusal, match="of this campaign wait") as rejected:
        queue.put(pending("flooding"))
    assert rejected.value.status == 429
    queue.put(pending("quiet"))
    monkeypatch.setattr(fair_queue, "MAX_WAITING", 11)
    with pytest.raises(Unavailable, match="queue is full"):
        queue.put(pending("other"))


@pytest.mark.parametrize(("most", "with_it"), [(0.002, False), (1e9, True)], ids=["", "control"])
def test_a_command_is_not_committed_with_one_that_takes_longer(
    monkeypatch: pytest.MonkeyPatch, most: float, with_it: bool
) -> None:
    """In the control, the quick campaign would get its response after the slow command."""
    monkeypatch.setattr(fair_queue, "MAX_SECONDS_SHARED", most)
    queue = FairQueue()
    queue.record(pending("slow"), 0.05)
    queue.record(pending("quick"), 1e-4)
    queue.put(pending("slow"))
    queue.put(pending("quick"))
    queue.put(pending("quick", 1))
    groups = []
    while queue.depth:
        groups.append({each.campaign for each in queue.take(())[0]})
    assert ({"slow", "quick"} in groups) == with_it


def test_the_writer_is_shared_while_commands_of_several_campaigns_arrive(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    queue = FairQueue()
    assert not queue.is_used_by_others("a")
    queue.put(pending("a"))
    assert not queue.shared
    assert [queue.is_used_by_others(each) for each in ("a", "b", None)] == [False, True, False]
    queue.put(pending("b"))
    assert queue.shared
    assert [queue.is_used_by_others(each) for each in ("a", "b", None)] == [True, True, True]
    monkeypatch.setattr(fair_queue, "SHARED_FOR", -1.0)
    queue.put(pending("a"))
    assert not queue.shared
    assert not queue.is_used_by_others("b")


@pytest.mark.parametrize(("shared", "most"), [(True, 4), (False, 40)], ids=["", "control: alone"])
def test_few_commands_of_a_campaign_are_in_progress_while_the_writer_is_shared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shared: bool, most: int
) -> None:
    monkeypatch.setattr(FairQueue, "shared", shared)
    one = Service(tmp_path / "entice.db")
    busy, quiet = one.create(), one.create()
    later = writer.Writer(one.store, one.clock, tick=1e6)

    async def run() -> None:
        commands = [MakeOffer(busy, hashed(player)) for player in range(40)]
        waiting = [asyncio.create_task(later.execute(command)) for command in commands]
        await asyncio.sleep(0)
        assert later.depth == most
        waiting.append(asyncio.create_task(later.execute(MakeOffer(quiet, hashed(0)))))
        await asyncio.sleep(0)
        assert later.depth == most + 1
        later.start()
        assert {result.status for result in await asyncio.gather(*waiting)} == {201}
        assert not later._turns

    asyncio.run(run())
    later.stop()
    one.close()


def test_commands_that_wait_for_a_turn_count_as_waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FairQueue, "shared", True)
    monkeypatch.setattr(fair_queue, "MAX_WAITING_PER_CAMPAIGN", 20)
    one = Service(tmp_path / "entice.db")
    busy, quiet = one.create(), one.create()
    later = writer.Writer(one.store, one.clock, tick=1e6)

    async def run() -> None:
        commands = [MakeOffer(busy, hashed(player)) for player in range(25)]
        commands.append(MakeOffer(quiet, hashed(0)))
        waiting = [asyncio.create_task(later.execute(command)) for command in commands]
        await asyncio.sleep(0)
        later.start()
        results = await asyncio.gather(*waiting, return_exceptions=True)
        assert [getattr(result, "status", result) for result in results] == (
            [201] * 20 + [429] * 5 + [201]
        )
        assert not later._turns

    asyncio.run(run())
    later.stop()
    one.close()


def test_campaigns_with_few_results_get_them_first() -> None:
    order: list[str] = []
    names = ["busy"] * 3 + ["quiet"] + ["busy"] * 2
    group = [pending(name)._replace(done=lambda _, name=name: order.append(name)) for name in names]
    writer._respond(group, [CommandResult(200, b"")] * len(group))
    assert order == ["quiet"] + ["busy"] * 5


def test_python_switches_threads_more_often_while_the_writer_is_shared(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interval_becomes(seconds: float) -> bool:
        end = time.monotonic() + 10
        while sys.getswitchinterval() != pytest.approx(seconds) and time.monotonic() < end:
            time.sleep(0.001)
        return sys.getswitchinterval() == pytest.approx(seconds)

    before = sys.getswitchinterval()
    monkeypatch.setattr(fair_queue, "SHARED_FOR", 1e6)
    one, other = service.create(), service.create()  # two commands of "no campaign"
    assert sys.getswitchinterval() == pytest.approx(before)
    service.offer(one, 1)
    service.offer(other, 1)
    assert interval_becomes(INTERVAL)
    monkeypatch.setattr(fair_queue, "SHARED_FOR", -1.0)
    service.offer(one, 2)
    assert interval_becomes(before)
    assert pytest.approx(before) != INTERVAL
