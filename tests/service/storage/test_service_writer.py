"""The writer: group commit, overload, shutdown, and several writers on one database."""

from __future__ import annotations

from concurrent.futures import Future
from pathlib import Path

import pytest
from writer_fixtures import Service, hashed, service

from entice.service.domain.commands import Accept, Command, CommandResult, Expire, MakeOffer, Rate
from entice.service.domain.errors import Unavailable

__all__ = ["service"]


def test_a_rejected_command_does_not_affect_its_group(service: Service) -> None:
    campaign = service.create()
    commands: list[Command] = []
    for player in range(30):
        commands += [MakeOffer(campaign, hashed(player)), Rate(f"{campaign}.{player + 1}", 3)]
    futures = [service.writer.submit(command) for command in commands]
    rejected = [future.exception(timeout=60) is not None for future in futures]
    assert rejected == [False, True] * 30
    assert service.queries.campaign(campaign).decisions == 30
    assert service.faults(campaign) == [None]


def test_an_internal_error_in_one_command_does_not_affect_its_group(service: Service) -> None:
    campaign = service.create()
    broken = MakeOffer(campaign, "not bytes")  # type: ignore[arg-type]
    commands = [MakeOffer(campaign, hashed(1)), broken, MakeOffer(campaign, hashed(2)), broken]
    futures = [service.writer.submit(command) for command in commands]
    failed = [future.exception(timeout=60) is not None for future in futures]
    assert failed == [False, True, False, True]
    assert service.queries.campaign(campaign).decisions == 2
    assert service.faults(campaign) == [None]


def test_an_overloaded_writer_rejects_commands_and_executes_those_accepted(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("entice.service.storage.fair_queue.MAX_WAITING", 50)
    campaign = service.create()
    accepted: list[Future[CommandResult]] = []

    def submit_until_rejected() -> None:
        while len(accepted) < 1000:
            accepted.append(service.writer.submit(MakeOffer(campaign, hashed(len(accepted)))))

    with service.store.write(), pytest.raises(Unavailable, match="queue is full"):
        submit_until_rejected()  # while the database is locked
    assert 50 <= len(accepted) < 1000
    assert all(future.result(timeout=60).status == 201 for future in accepted)
    assert service.queries.campaign(campaign).decisions == len(accepted)


def test_a_stopping_writer_executes_its_queue_and_rejects_new_commands(service: Service) -> None:
    campaign = service.create()
    futures = [service.writer.submit(MakeOffer(campaign, hashed(player))) for player in range(500)]
    service.writer.stop()
    assert all(future.result(timeout=0).status == 201 for future in futures)
    with pytest.raises(Unavailable, match="shutting down"):
        service.writer.submit(Expire(campaign))


def test_two_writers_on_one_database_share_a_campaign(tmp_path: Path) -> None:
    one, two = (Service(tmp_path / "entice.db") for _ in range(2))
    campaign = one.create(budget=10**6)
    for player in range(40):
        mine, other = (one, two) if player % 2 else (two, one)
        offer = mine.offer(campaign, player)
        other.do(Accept(offer["id"]))
        mine.do(Rate(offer["id"], 1 + player % 5))
    futures = [
        service.writer.submit(MakeOffer(campaign, hashed(100 + player)))
        for player in range(200)
        for service in (one, two)
    ]
    for future in futures:
        future.result(timeout=60)
    view = one.queries.campaign(campaign)
    assert (view.decisions, view.ratings) == (240, 40)
    assert two.faults(campaign) == [None]
    one.close()
    two.close()
