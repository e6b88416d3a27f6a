"""The client and a real service: campaigns, offers, exports, and a service that restarts."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from datetime import UTC
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from command_line import without_coverage
from forking import ForkedPopen, run_forked
from service_faults.processes import free_port
from sizes import sized

from entice.client import Client, ServiceError

TEA: dict[str, Any] = {
    "name": "tea", "arms": ["assam", "oolong", "sencha"], "budget": 100_00,
    "price_of_a_star": 2_00, "seed": 7,
}  # fmt: skip


class Service:
    """`entice serve` in a process of its own, that may be killed and started again."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.process: subprocess.Popen[bytes] | None = None

    def entice(self, *arguments: str) -> list[str]:
        call = [sys.executable, "-c", "from entice.cli.app import main; main()"]
        return [*call, *arguments, "--db", f"sqlite:///{self.folder}/entice.db"]

    def start(self) -> None:
        log = (self.folder / "log").open("ab")
        with log:
            self.process = ForkedPopen(
                self.entice("serve", "--port", str(self.port)), stdout=log, stderr=log,
                env=without_coverage(), start_new_session=True,
            )  # fmt: skip

    def wait(self) -> None:
        client, end = Client(self.url), time.monotonic() + 600
        while not client.ready():
            log = (self.folder / "log").read_text()
            assert self.process is not None
            assert self.process.poll() is None, log
            assert time.monotonic() < end, log
            time.sleep(0.02)
        client.close()

    def stop(self, how: signal.Signals = signal.SIGTERM) -> None:
        if self.process is None:
            return
        if how == signal.SIGKILL:  # its workers too
            os.killpg(self.process.pid, how)
        else:
            self.process.send_signal(how)
        self.process.wait(120)
        self.process = None


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    service = Service(tmp_path_factory.mktemp("service"))
    service.start()
    try:
        service.wait()
        yield service
    finally:
        service.stop()


@pytest.fixture
def shop(service: Service) -> Iterator[Client]:
    with Client(service.url) as client:
        yield client


def test_the_life_of_an_offer(shop: Client) -> None:
    tea = shop.create_campaign(**TEA, policy={"kind": "ucb"})
    assert (tea.name, tea.status, tea.budget, tea.free) == ("tea", "live", 100_00, 100_00)
    assert (tea.created_at.tzinfo, tea.decisions) == (UTC, 0)
    first = shop.offer(tea.id, "ann")
    assert (first.state, first.campaign, first.arm) == ("offered", tea.id, first.greedy_arm)
    assert shop.offer(tea.id, "ann") == first
    assert shop.accept(first.id).state == "accepted"
    assert shop.rate(first.id, 5).state == "rated"
    second = shop.offer(tea.id, "bob", eligible=["sencha"])
    assert (second.arm, second.greedy_arm) == ("sencha", "sencha")
    third = shop.offer(tea.id, "eve", displayed={"assam": 1.0, "oolong": 1.5, "sencha": 5.0})
    assert third.greedy_arm == "sencha"
    assert third.amount == round(third.payment * 200)
    assert shop.campaign(tea.id).reserved == third.amount > 0
    assert shop.accept(third.id, amount=1).state == "accepted"
    assert shop.campaign(tea.id).committed == 1
    assert shop.reverse(third.id).state == "reversed"
    assert shop.decline(second.id).state == "declined"
    assert shop.campaign(tea.id).free == tea.budget
    with pytest.raises(ServiceError) as raised:
        shop.accept(second.id)
    assert (raised.value.status, raised.value.kind) == (409, "conflict")
    assert raised.value.problem["state"] == "declined"
    assert shop.history(first.id).offer.id == first.id
    assert [one.id for one in shop.list_offers(tea.id)] == [third.id, second.id, first.id]
    assert [one.id for one in shop.list_offers(tea.id, state="declined")] == [second.id]
    assert [one.id for one in shop.list_offers(tea.id, payment="paid")] == [third.id]
    assert [one.id for one in shop.list_offers(tea.id, payment="unpaid")] == [second.id, first.id]
    # All items show the middle of the scale at first; to the second visitor there is one item.
    tie = "which shows the same rating as 2 other items, 3.00 stars."
    assert tie in shop.history(first.id).why
    whys = [event.why for event in shop.events(tea.id) if event.body["kind"] == "offered"]
    assert ["same rating" in (why or "") for why in whys] == [True, False, False]
    (arm,) = (arm for arm in shop.arms(tea.id) if arm.id == first.arm)
    assert (arm.rated, arm.average, arm.shown, arm.in_flight, arm.greedy) == (1, 5.0, 5.0, 0, True)


def test_campaigns_are_changed(shop: Client) -> None:
    tea = shop.create_campaign(**TEA)
    assert tea.id in {campaign.id for campaign in shop.campaigns()}
    assert shop.change_campaign(tea.id, status="paused").status == "paused"
    assert shop.offer(tea.id, "ann").reason == "paused"
    assert shop.change_campaign(tea.id, status="live", budget=5, cap_per_offer=3).free == 5
    assert shop.change_campaign(tea.id, cap_per_offer=None).budget == 5
    assert [arm.id for arm in shop.add_arms(tea.id, "gyokuro", "pu-erh")][3:] == [
        "gyokuro",
        "pu-erh",
    ]
    assert shop.retire_arm(tea.id, "gyokuro").retired
    assert not shop.retire_arm(tea.id, "gyokuro", retired=False).retired
    assert shop.change_campaign(tea.id, status="closed").status == "closed"
    with pytest.raises(ServiceError, match="closed"):
        shop.offer(tea.id, "bob")
    with pytest.raises(ServiceError) as raised:
        shop.campaign("c_nosuchthing")
    assert (raised.value.status, raised.value.kind) == (404, "not-found")
    with pytest.raises(ServiceError, match="budgett") as raised:
        shop.create_campaign(**TEA, budgett=1)
    assert raised.value.status == 422


def test_batches_organic_ratings_and_drift(shop: Client) -> None:
    tea = shop.create_campaign(**TEA, probe={"share": 1.0, "amount": 0.5})
    offers = shop.offers(tea.id, ["ann", {"player": "bob", "eligible": ["assam"]}, "ann"])
    assert len({offer.id for offer in offers}) == 2
    assert offers[1].arm == "assam"
    assert shop.enter_ratings(tea.id, [("assam", 3), ("sencha", 5)]) == 2
    again = [shop.enter_ratings(tea.id, [("assam", 3)], once="once") for _ in range(3)]
    assert again == [1] * 3
    assert sum(arm.rated for arm in shop.arms(tea.id)) == 3
    with pytest.raises(ServiceError) as raised:
        shop.enter_ratings(tea.id, [("assam", 4)], once="once")
    assert (raised.value.status, raised.value.kind) == (422, "idempotency-key-reused")
    assert shop.drift(tea.id).slope is None
    assert shop.effect(tea.id).verdict == "no_holdout"
    assert shop.acceptance(tea.id).acceptance is None
    spent = shop.spending(tea.id, "offer", points=10)
    assert (spent.offers[0], spent.offers[-1]) == (0, 2)
    assert spent.reserved[-1] == shop.campaign(tea.id).reserved
    for number in range(60):
        offer = shop.offer(tea.id, f"player {number}", eligible=["sencha"])
        shop.accept(offer.id)
        shop.rate(offer.id, 5 if offer.probe == "heads" else 3 + number % 2)
    drift = shop.drift(tea.id)
    assert drift.slope is not None
    assert drift.low is not None
    assert 0 < drift.low < drift.slope


def test_events_in_pages_as_a_stream_and_as_a_file(shop: Client, tmp_path: Path) -> None:
    tea = shop.create_campaign(**TEA)
    for number in range(25):
        shop.offers(tea.id, [f"player {number}"])
    everything = list(shop.events(tea.id))
    assert [event.seq for event in everything] == list(range(1, 27))
    assert Counter(event.body["kind"] for event in everything) == {"created": 1, "offered": 25}
    assert list(shop.events(tea.id, page=7)) == everything
    assert list(shop.events(tea.id, after=20, page=6)) == everything[20:]
    assert list(shop.events(tea.id, after=26)) == []
    following = shop.stream(tea.id, after=24)
    assert [next(following), next(following)] == everything[24:]
    shop.offer(tea.id, "late")
    assert next(following).seq == 27
    following.close()
    with pytest.raises(ServiceError):
        next(shop.stream("c_nosuchthing"))
    for name in ("tea.parquet", "tea.csv", "tea.jsonl"):
        assert shop.export(tea.id, tmp_path / name) == shop.campaign(tea.id).events
    assert (
        pl.read_parquet(tmp_path / "tea.parquet").height == pl.read_csv(tmp_path / "tea.csv").height
    )
    with pytest.raises(ServiceError):
        shop.export(tea.id, tmp_path / "tea.xlsx")
    with pytest.raises(FileNotFoundError, match="missing"):
        shop.export(tea.id, tmp_path / "missing" / "tea.csv")
    assert sorted(path.name for path in tmp_path.glob("*tea*")) == [
        "tea.csv", "tea.jsonl", "tea.parquet",
    ]  # fmt: skip
    assert list(tmp_path.glob(".writing-*")) == []
    assert "entice" in shop.metrics()


def test_a_player_with_any_id_is_read_and_erased(service: Service, shop: Client) -> None:
    tea = shop.create_campaign(**TEA)
    for player in ("visitor 17", "ann@unlikely.org", "a/b", "/x//", "ä%2F?#", "."):
        offer = shop.offer(tea.id, player)
        [kept] = shop.player(player).campaigns
        assert (kept.campaign, kept.salted, kept.offers) == (tea.id, True, [offer])
        assert [one.unlinked for one in shop.erase_player(player).campaigns] == [True]
        assert shop.player(player).campaigns == []
        assert shop.erase_player(player).campaigns == []
    assert shop.history(offer.id).offer.state == "voided"
    assert "unlikely" not in (service.folder / "log").read_text()


def test_a_key_allows_what_its_role_allows(tmp_path: Path) -> None:
    service = Service(tmp_path)
    made = run_forked(*service.entice("keys", "create", "--role", "read", "--name", "reader"))
    (key,) = re.findall(r"entice_[0-9a-f]{8}_[\w-]{43}", made.out)
    service.start()
    try:
        service.wait()
        with Client(service.url) as stranger, pytest.raises(ServiceError) as raised:
            stranger.campaigns()
        assert raised.value.status == 401
        with Client(service.url, key=key) as reader:
            assert reader.campaigns() == []
            with pytest.raises(ServiceError) as raised:
                reader.create_campaign(**TEA)
        assert raised.value.status == 403
    finally:
        service.stop()


def test_a_killed_and_restarted_server_loses_and_repeats_nothing(tmp_path: Path) -> None:
    """Four threads send offers and organic ratings while the server is killed three times."""
    service = Service(tmp_path)
    service.start()
    service.wait()
    done = threading.Event()
    offers: list[str] = []
    entered: list[int] = []
    failures: list[BaseException] = []
    client = Client(service.url, retries=12)
    tea = client.create_campaign(**TEA)

    def work(name: int) -> None:
        try:
            number = 0
            while not done.is_set():
                number += 1
                offer = client.offer(tea.id, f"player {number} of {name}")
                client.accept(offer.id)
                client.rate(offer.id, 4)
                offers.append(offer.id)
                client.enter_ratings(tea.id, [("assam", 2)])
                entered.append(number)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(name,)) for name in range(4)]
    try:
        for thread in threads:
            thread.start()
        for how in (signal.SIGKILL, signal.SIGTERM, signal.SIGKILL):
            before = len(offers)
            while len(offers) < before + 40 and not failures:
                time.sleep(0.01)
            service.stop(how)
            time.sleep(0.2)
            service.start()
            service.wait()
        done.set()
        for thread in threads:
            thread.join()
        assert failures == []
        assert len(set(offers)) == len(offers) >= 120
        assert sum(arm.rated for arm in client.arms(tea.id)) == len(offers) + len(entered)
        campaign = client.campaign(tea.id)
        assert (campaign.decisions, campaign.reserved) == (len(offers), 0)
        kinds = Counter(event.body["kind"] for event in client.events(tea.id))
        each = dict.fromkeys(("offered", "accepted", "rated"), len(offers))
        assert kinds == {"created": 1, "organic": len(entered), **each}
    finally:
        done.set()
        service.stop(signal.SIGKILL)
        client.close()


def test_the_example_runs() -> None:
    visitors = sized(100, 300)
    shop = Path(__file__).parents[3] / "examples" / "simulated_visitors.py"
    done = subprocess.run(
        [sys.executable, "-W", "error", shop, "--visitors", str(visitors), "--seed", "7"],
        capture_output=True, text=True, timeout=300, env=without_coverage(),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    output = " ".join(done.stdout.split())
    assert f"{visitors} of {visitors}" in output
    assert f"{visitors} visitors, of whom" in output
    assert "cannot exceed" in output


def test_the_example_completes_open_offers_on_interrupt(service: Service, shop: Client) -> None:
    before = {campaign.id for campaign in shop.campaigns()}
    example = Path(__file__).parents[3] / "examples" / "simulated_visitors.py"
    command = [sys.executable, example, "--visitors", "1000000", "--url", service.url]
    pipe = subprocess.PIPE
    with ForkedPopen(command, stdout=pipe, text=True, env=without_coverage()) as running:
        end = time.monotonic() + 600
        while not any(c.decisions > 100 for c in shop.campaigns() if c.id not in before):
            assert time.monotonic() < end
            time.sleep(0.05)
        running.send_signal(signal.SIGINT)
        output, _ = running.communicate(timeout=300)
    assert running.returncode == 0
    assert "visitors, of whom" in output
    (tea,) = (campaign for campaign in shop.campaigns() if campaign.id not in before)
    assert tea.reserved == 0 < tea.committed  # undecided visitors have decided


def test_the_example_reports_errors(service: Service, shop: Client) -> None:
    other = shop.create_campaign(**TEA).id
    example = Path(__file__).parents[3] / "examples" / "simulated_visitors.py"
    for campaign, code, expected in (("c_nosuchthing", 1, "404"), (other, 2, "must have the arms")):
        command = sys.executable, example, "--url", service.url, "--campaign", campaign
        done = run_forked(*command, code=code)
        assert expected in done.out + done.err
        assert "Traceback" not in done.err
