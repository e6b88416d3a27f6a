"""Long commands are executed in slices, so that they do not delay other campaigns."""

from __future__ import annotations

import itertools
import json
import threading
import time
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from writer_fixtures import Service, hashed, service

from entice import DriftCorrectedThompson
from entice.service.domain import rules
from entice.service.domain.campaign import RULES, Campaign
from entice.service.domain.commands import (
    Accept,
    CommandResult,
    EnterRatings,
    MakeOffer,
    MakeOffers,
    Organic,
    Rate,
    Reverse,
)
from entice.service.domain.errors import Unavailable
from entice.service.storage import (
    fair_queue,
    group_commit,
    slices,
    stored_hashes,
    unit_of_work,
    writer,
)
from entice.service.storage.fair_queue import FairQueue, PendingCommand
from entice.service.storage.group_commit import GroupCommit
from entice.service.storage.unit_of_work import Part, UnitOfWork

__all__ = ["service"]


def batch(campaign: str, numbers: range) -> MakeOffers:
    return MakeOffers(campaign, [MakeOffer(campaign, hashed(player)) for player in numbers])


@pytest.fixture(params=["in slices", "in one transaction"])
def in_slices(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Execute long commands in slices or, as a control, in a single transaction as before."""
    slices: bool = request.param == "in slices"
    if not slices:
        monkeypatch.setattr(fair_queue, "MAX_SECONDS", 1e9)
        monkeypatch.setattr(fair_queue, "MAX_SECONDS_SHARED", 1e9)
        monkeypatch.setattr(writer, "MAX_GROUP_SECONDS", float("inf"))
    return slices


@pytest.fixture
def slow_offers(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Let each offer of campaigns with a cap per offer take 2 ms; the event is set at the first."""
    begun, decide = threading.Event(), Campaign.decide

    def decide_slowly(self: Campaign, *arguments: Any) -> Any:
        if self.spec.cap_per_offer is not None:
            begun.set()
            time.sleep(0.002)
        return decide(self, *arguments)

    monkeypatch.setattr(Campaign, "decide", decide_slowly)
    return begun


def finished_first(one: Future[CommandResult], other: Future[CommandResult]) -> bool:
    """Return whether one command is done when the other is."""
    done: list[bool] = []
    other.add_done_callback(lambda _: done.append(one.done()))
    other.result(60)
    one.result(60)
    return done[0]


def test_a_batch_does_not_delay_another_campaign(
    service: Service, in_slices: bool, slow_offers: threading.Event
) -> None:
    """In the control, which executes a batch in one transaction, the other campaign waits."""
    slow, quick = service.create(cap_per_offer=300), service.create()
    service.offer(quick, 0)
    long = service.writer.submit(batch(slow, range(100)))
    assert slow_offers.wait(10)
    assert finished_first(service.writer.submit(MakeOffer(quick, hashed(1))), long) == in_slices
    assert len(json.loads(long.result().body)["offers"]) == 100
    assert service.faults(slow) == service.faults(quick) == [None]


def test_changed_ratings_do_not_delay_another_campaign(
    service: Service, in_slices: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The policy relearns all ratings. In the control it does so in one transaction."""
    learning, quick = service.create(policy=DriftCorrectedThompson()), service.create()
    service.rated(learning, 1, 3)
    service.rate_organic(learning, a=[3, 4] * 100)
    service.offer(quick, 0)
    relearning, update_arm = threading.Event(), Campaign.update_arm

    def update_slowly(self: Campaign, arm: int, new: bool = False, *rating: Any) -> None:
        if new and self.state.campaign == learning:
            relearning.set()
            time.sleep(0.001)
        update_arm(self, arm, new, *rating)

    monkeypatch.setattr(Campaign, "update_arm", update_slowly)
    changed = service.writer.submit(Rate(f"{learning}.1", 5))
    assert relearning.wait(10)
    assert finished_first(service.writer.submit(MakeOffer(quick, hashed(1))), changed) == in_slices
    monkeypatch.setattr(Campaign, "update_arm", update_arm)
    assert service.faults(learning) == [None]


@pytest.mark.parametrize("options", [{}, {"cap_per_player": 300}, {"status": "shadow"}], ids=str)
def test_slices_make_the_same_offers_as_one_transaction(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: dict[str, Any]
) -> None:
    """Also for players with an open offer, an expired one, and two requests in the batch."""
    made = []
    monkeypatch.setattr(slices, "SLICE", 1e-9)  # one step in each slice
    monkeypatch.setattr(slices, "MAX_WRITTEN", 4)
    monkeypatch.setattr(FairQueue, "shared", property(lambda _: True))
    for cost in (1.0, 0.0):
        monkeypatch.setattr(fair_queue, "UNKNOWN_COST", cost)
        service = Service(tmp_path / f"{cost}.db")
        campaign = service.create(offer_expires_after=60, **options)
        service.rate_organic(campaign, a=[5, 5], b=[1, 2], c=[3])
        service.offer(campaign, 1)
        service.later(61)
        service.offer(campaign, 2)
        requests = [*batch(campaign, range(30)).requests, *batch(campaign, range(20, 25)).requests]
        # Forget the measured costs, so that each time is as long as the test says.
        service.writer._queue._costs.clear()
        answer = service.do(MakeOffers(campaign, requests), key="k", request=b"r")
        again = service.answer(MakeOffers(campaign, requests), key="k", request=b"r")
        assert again.replayed
        assert json.loads(again.body) == answer
        assert service.refusal(batch(campaign, range(9)), key="k", request=b"x").status == 422
        made.append([{**each, "id": 0, "campaign": 0} for each in answer["offers"]])
        assert service.faults(campaign) == [None]
        service.close()
    assert made[0] == made[1]
    assert len(made[0]) == 35


def test_a_batch_that_fails_in_the_middle_makes_no_offer(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    campaign = service.create()
    service.offer(campaign, 1000)
    decide, decisions = Campaign.decide, 0

    def decide_or_fail(self: Campaign, *arguments: Any) -> Any:
        nonlocal decisions
        decisions += 1
        if decisions == 300:
            raise FloatingPointError("a decision fails")
        return decide(self, *arguments)

    monkeypatch.setattr(Campaign, "decide", decide_or_fail)
    with pytest.raises(FloatingPointError):
        service.answer(batch(campaign, range(500)))
    assert service.queries.campaign(campaign).decisions == 1
    service.offer(campaign, 1001)
    assert service.queries.campaign(campaign).decisions == 2
    invalid = MakeOffers(
        campaign, [*batch(campaign, range(500)).requests, MakeOffer(campaign, hashed(1), ["x"])]
    )
    assert service.refusal(invalid).detail.startswith("requests[500]: ")
    assert service.queries.campaign(campaign).decisions == 2
    assert service.faults(campaign) == [None]


def known(campaign: str, numbers: range) -> MakeOffers:
    """Return a batch for players who get salts, as those of the HTTP API do."""
    return MakeOffers(campaign, [MakeOffer(campaign, hashed(n), lookup=hashed(n)) for n in numbers])


@pytest.fixture(params=[True, False], ids=["in parts", "control: alone"])
def shared(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether other campaigns use the writer; otherwise a batch is written at once."""
    monkeypatch.setattr(FairQueue, "shared", property(lambda _: request.param))
    monkeypatch.setattr(fair_queue, "UNKNOWN_COST", 1.0)
    return bool(request.param)


def test_other_campaigns_commit_between_the_parts_of_a_batch(
    service: Service, shared: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each part that is written is followed by an offer of the other campaign."""
    large, quick = service.create(), service.create()
    service.writer._queue._costs.clear()
    order: list[int] = []
    others = itertools.count()
    write, submit = Part.write, service.writer.submit

    def write_and_submit(part: Part, session: Any) -> None:
        order.append(len(part.offers))
        write(part, session)
        future = submit(MakeOffer(quick, hashed(next(others))))
        future.add_done_callback(lambda _: order.append(0))

    monkeypatch.setattr(Part, "write", write_and_submit)
    answer = service.do(known(large, range(250)))
    assert len(answer["offers"]) == 250
    expected = [32, 0] * 6 + [32] if shared else [32] * 7
    assert order[: len(expected)] == expected
    assert order.count(32) == 7
    assert service.faults(large) == service.faults(quick) == [None]


@pytest.mark.parametrize("status", ["live", "shadow"])
def test_a_batch_that_was_written_in_part_is_completed_by_a_retry(
    service: Service, shared: bool, status: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No offer is made twice, and no player has a salt without an offer.

    In shadow mode no offer is open, so a batch is written at once.
    """
    campaign = service.create(status=status)
    write, store, parts = Part.write, slices.store_response, itertools.count(1)
    failures = iter([Unavailable("the disk is full")])

    def write_or_fail(part: Part, session: Any) -> None:
        if next(parts) == 3:
            raise next(failures)
        write(part, session)

    def store_or_fail(*arguments: Any) -> None:
        for failure in failures:
            raise failure
        store(*arguments)

    def rows(table: str) -> int:
        with service.store.read() as session:
            return int(session.rows(f"SELECT count(*) FROM {table}")[0][0])

    monkeypatch.setattr(Part, "write", write_or_fail)
    monkeypatch.setattr(slices, "store_response", store_or_fail)
    with pytest.raises(Unavailable):
        service.answer(known(campaign, range(300)), key="k", request=b"r")
    written = 64 if shared and status == "live" else 0
    assert rows("offers") == rows("players") == written
    assert rows("answers") == 0
    assert service.queries.campaign(campaign).decisions == written
    assert service.faults(campaign) == [None]
    answer = service.answer(known(campaign, range(300)), key="k", request=b"r")
    ids = [offer["id"] for offer in json.loads(answer.body)["offers"]]
    assert ids == [f"{campaign}.{n}" for n in range(1, 301)]
    assert rows("offers") == rows("players") == 300
    again = service.answer(known(campaign, range(300)), key="k", request=b"r")
    assert again.replayed
    assert again.body == answer.body
    assert service.faults(campaign) == [None]


def test_a_batch_that_another_process_interrupts_between_its_parts_is_completed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FairQueue, "shared", property(lambda _: True))
    one, two = (Service(tmp_path / "entice.db") for _ in range(2))
    campaign = one.create()
    write, writes = one.store.write, itertools.count(1)

    def write_after_the_other() -> Any:
        if one.writer._groups.busy and next(writes) == 3:
            two.offer(campaign, 1000)
        return write()

    monkeypatch.setattr(one.store, "write", write_after_the_other)
    answer = one.do(known(campaign, range(300)))
    numbers = [int(offer["id"].partition(".")[2]) for offer in answer["offers"]]
    assert numbers == [*range(1, 65), *range(66, 302)]
    assert two.faults(campaign) == [None]
    one.close()
    two.close()


@pytest.mark.parametrize("shared_store", [True, False], ids=["", "control: alone"])
def test_a_commit_copies_few_pages_of_the_log_while_the_store_is_shared(
    service: Service, shared_store: bool
) -> None:
    """SQLite starts its log again after it was copied, so the file stays short."""
    service.store.set_shared(shared_store)
    with service.store.write() as session:
        session.run("CREATE TABLE filling (page BLOB)")
    for _ in range(200):
        with service.store.write() as session:
            session.run("INSERT INTO filling VALUES (zeroblob(40000))")
    size = service.path.with_name(service.path.name + "-wal").stat().st_size
    assert (size < 4 * 4096 * 500) == shared_store


def test_a_campaigns_commands_keep_their_order_around_a_long_one(service: Service) -> None:
    campaign = service.create(policy=DriftCorrectedThompson())
    service.rated(campaign, 1, 3)
    commands = [
        batch(campaign, range(10, 210)), Accept(f"{campaign}.3"), Rate(f"{campaign}.3", 2),
        Rate(f"{campaign}.1", 5), MakeOffer(campaign, hashed(2)), Rate(f"{campaign}.3", 4),
        EnterRatings(campaign, [Organic("a", 1)] * 300), Reverse(f"{campaign}.3"),
        Reverse(f"{campaign}.1"),
    ]  # fmt: skip
    for future in [service.writer.submit(command) for command in commands]:
        future.result(60)
    kinds = [json.loads(bytes(e.body))["kind"] for e in service.queries.events(campaign, 4, 1000)]
    others = [kind for kind in kinds if kind != "organic"]
    assert others[-8:] == [
        "offered", "accepted", "rated", "revised", "offered", "revised", "reversed", "reversed",
    ]  # fmt: skip
    assert service.faults(campaign) == [None]


def test_a_second_change_of_a_rating_does_not_read_the_log_again(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    campaign = service.create(policy=DriftCorrectedThompson())
    service.rated(campaign, 1, 3)
    service.rate_organic(campaign, a=[3] * 200)
    read, decode = [], unit_of_work.log.decode

    def count(body: bytes) -> Any:
        read.append(body)
        return decode(body)

    monkeypatch.setattr(unit_of_work.log, "decode", count)
    counts = []
    for rating in (4, 5, 1):
        read.clear()
        service.do(Rate(f"{campaign}.1", rating))
        counts.append(len(read))
    assert counts[0] > 200
    assert max(counts[1:]) < 5
    monkeypatch.setattr(unit_of_work.log, "decode", decode)
    assert service.faults(campaign) == [None]


def test_a_log_that_is_too_long_is_not_relearned(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rules, "MAX_EVENTS_TO_RELEARN", 10)
    monkeypatch.setattr("entice.service.operations.verify.MAX_EVENTS_TO_RELEARN", 10)
    campaign = service.create(policy=DriftCorrectedThompson())
    for player in range(4):
        service.rated(campaign, player, 3)
    service.do(Rate(f"{campaign}.1", 5))
    assert service.faults(campaign) == [None]


@pytest.mark.parametrize("version", [1, RULES])
def test_a_long_command_is_not_repeated_in_slices_if_its_campaign_must_be_upgraded_first(
    service: Service, monkeypatch: pytest.MonkeyPatch, version: int
) -> None:
    """The control is a campaign with the current rules, which loads the players once."""
    monkeypatch.setattr(Campaign, "create", partial(Campaign.create, rules=version))
    monkeypatch.setattr(fair_queue, "UNKNOWN_COST", 1.0)
    loads: list[int] = []
    load = stored_hashes.prefetch_players

    def count(work: UnitOfWork, campaign: Campaign, requests: Any) -> None:
        loads.append(campaign.state.rules)
        load(work, campaign, requests)

    monkeypatch.setattr(stored_hashes, "prefetch_players", count)
    campaign = service.create()
    assert len(service.do(batch(campaign, range(20)))["offers"]) == 20
    assert loads == [version]
    monkeypatch.undo()
    assert service.faults(campaign) == [None]


@pytest.mark.parametrize(
    ("conflicts", "attempts", "locked"),
    [(1, 4, False), (9, 2, True), (1, 1, True)],
    ids=["one conflict", "conflicts without end", "control: lock after the first conflict"],
)
def test_a_long_command_that_conflicts_is_executed_once_and_locks_its_campaign_last(
    tmp_path: Path,
    slow_offers: threading.Event,
    monkeypatch: pytest.MonkeyPatch,
    conflicts: int,
    attempts: int,
    locked: bool,
) -> None:
    """A locked command is executed in one transaction, for which all other campaigns wait."""
    monkeypatch.setattr(group_commit, "MAX_ATTEMPTS_IN_SLICES", attempts)
    one, two = (Service(tmp_path / "entice.db") for _ in range(2))
    campaign, others = one.create(cap_per_offer=300), iter(range(1000, 1000 + conflicts))
    runs: list[str] = []
    begin_write, commit_alone = UnitOfWork.begin_write, GroupCommit._commit_alone

    def conflicting(self: UnitOfWork, *arguments: Any) -> None:
        runs.append("in slices")
        begin_write(self, *arguments)

    def alone(self: GroupCommit, pending: PendingCommand) -> Any:
        if isinstance(pending.command, MakeOffers):
            runs.append("locked")
        return commit_alone(self, pending)

    write = one.store.write

    def write_after_the_other() -> Any:
        if one.writer._groups.busy and "locked" not in runs:
            for player in itertools.islice(others, 1):
                two.offer(campaign, player)
        return write()

    monkeypatch.setattr(UnitOfWork, "begin_write", conflicting)
    monkeypatch.setattr(GroupCommit, "_commit_alone", alone)
    monkeypatch.setattr(one.store, "write", write_after_the_other)
    long = one.writer.submit(batch(campaign, range(20)))
    assert len(json.loads(long.result(60).body)["offers"]) == 20
    in_slices = min(conflicts + 1, attempts)
    assert runs == ["in slices"] * in_slices + ["locked"] * locked
    assert one.queries.campaign(campaign).decisions == 20 + min(conflicts, attempts)
    assert two.faults(campaign) == [None]
    one.close()
    two.close()
