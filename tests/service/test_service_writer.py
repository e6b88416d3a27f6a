"""The desk: many commands in one transaction, too many, none any more, two desks at once."""

from __future__ import annotations

from concurrent.futures import Future
from pathlib import Path

import pytest
from writer_fixtures import Service, hashed, service

from entice.service.domain.commands import Accept, Command, CommandResult, Expire, MakeOffer, Rate
from entice.service.domain.errors import Unavailable

__all__ = ["service"]


def test_a_refusal_leaves_the_others_of_its_group_alone(service: Service) -> None:
    campaign = service.create()
    commands: list[Command] = []
    for player in range(30):
        commands += [MakeOffer(campaign, hashed(player)), Rate(f"{campaign}.{player + 1}", 3)]
    futures = [service.writer.submit(command) for command in commands]
    refused = [future.exception(timeout=60) is not None for future in futures]
    assert refused == [False, True] * 30
    assert service.queries.campaign(campaign).decisions == 30
    assert service.faults(campaign) == [None]


def test_a_fault_of_ours_in_one_request_leaves_the_others_alone(service: Service) -> None:
    campaign = service.create()
    broken = MakeOffer(campaign, "no bytes")  # type: ignore[arg-type]
    commands = [MakeOffer(campaign, hashed(1)), broken, MakeOffer(campaign, hashed(2)), broken]
    futures = [service.writer.submit(command) for command in commands]
    failed = [future.exception(timeout=60) is not None for future in futures]
    assert failed == [False, True, False, True]
    assert service.queries.campaign(campaign).decisions == 2
    assert service.faults(campaign) == [None]


def test_a_desk_that_is_overwhelmed_says_so_and_does_what_it_took(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("entice.service.storage.writer.MAX_WAITING", 50)
    campaign = service.create()
    taken: list[Future[CommandResult]] = []

    def ask_until_refused() -> None:
        while len(taken) < 1000:
            taken.append(service.writer.submit(MakeOffer(campaign, hashed(len(taken)))))

    with service.store.write(), pytest.raises(Unavailable, match="waiting"):
        ask_until_refused()  # while nobody else can write
    assert 50 <= len(taken) < 1000
    assert all(future.result(timeout=60).status == 201 for future in taken)
    assert service.queries.campaign(campaign).decisions == len(taken)


def test_a_desk_that_stops_does_what_it_took_and_takes_nothing_more(service: Service) -> None:
    campaign = service.create()
    futures = [service.writer.submit(MakeOffer(campaign, hashed(player))) for player in range(500)]
    service.writer.stop()
    assert all(future.result(timeout=0).status == 201 for future in futures)
    with pytest.raises(Unavailable, match="shutting down"):
        service.writer.submit(Expire(campaign))


def test_two_desks_on_one_database_share_a_campaign(tmp_path: Path) -> None:
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
