"""A full disk, a broken disk: the request is told, nothing is half done, and work goes on."""

from __future__ import annotations

import itertools
import shutil
import tempfile
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from entice.service.domain.commands import CommandResult, Expire, MakeOffer
from entice.service.domain.errors import Refusal, Unavailable
from entice.service.storage.queries import Queries
from entice.service.storage.sqlite import SqliteStore
from entice.service.storage.store import Store
from service_faults.adapter import COMMITS_PIECEMEAL, Connection, connector
from service_faults.disk import Disk, Kind
from service_faults.outcome import Outcome
from service_faults.recording import lay_out
from service_faults.scenario import (
    SECOND,
    Request,
    Scenario,
    TestClock,
    all_reads,
    as_the_service_opens,
    faults_in,
    ids_from,
    play,
    quiet_desk,
)

FILE = "entice.db"
TABLES = ("meta", "campaigns", "events", "offers", "answers", "keys")
State = dict[str, list[Any]]


def state_of(store: Store) -> State:
    """Every row of every table."""
    with store.read() as session:
        return {table: session.rows(f"SELECT * FROM {table}") for table in TABLES}


class Trial:
    """A service on a disk that fails, and what came of each failure."""

    def __init__(self, folder: Path, instead: Mapping[str, str] | None = None) -> None:
        self.folder, self.instead = folder, instead
        self.clock = TestClock()
        self.count: Counter[str] = Counter()
        self.problems: list[str] = []
        self.start()

    def start(self) -> None:
        self.disk = Disk(self.folder)
        connect = connector(self.disk, self.instead, checkpoint_at=30)
        self.store = SqliteStore(self.folder / FILE, connect)
        self.writer = quiet_desk(self.store, self.clock)
        self.writer.start()
        self.ask(Request(Expire("nothing"), None))  # what a desk does at its start is done

    def close(self) -> None:
        self.writer.stop()
        self.store.close()
        self.disk.close()

    def files(self) -> dict[str, bytes]:
        """What the disk holds. The -shm file is none of it: it is memory that processes share."""
        found = (path for path in self.folder.iterdir() if not path.name.endswith("-shm"))
        return {path.name: path.read_bytes() for path in found}

    def go_back(self, files: dict[str, bytes]) -> None:
        """Start again on these files."""
        self.close()
        lay_out(files, self.folder)
        self.start()

    def ask(self, request: Request) -> CommandResult | Exception:
        future = self.writer.submit(
            request.command, scope="test", key=request.key, request=request.digest
        )
        error = future.exception(timeout=30)
        assert error is None or isinstance(error, Exception)
        return error or future.result()

    def everywhere(self, request: Request, every: int, *kinds: Kind) -> CommandResult | Refusal:
        """Let each call to the disk fail under one request, each time from the same state."""
        before, moment, files = state_of(self.store), self.clock.time, self.files()
        found: list[tuple[str, State, list[State]]] = []
        for k in itertools.count(moment // SECOND % every, every):
            self.clock.time = moment
            self.disk.fail(k, *kinds, full=k % 2 == 0)
            answer = self.ask(request)
            self.disk.heal()
            state = state_of(self.store)
            if not self.disk.failed:
                break
            self.count["failures"] += 1
            where = f"failure {k} in {request.command}"
            if isinstance(answer, Unavailable):
                self.count["unavailable"] += 1
                if state != before:
                    self.problems.append(f"{where}: half of it is there")
                # Where a sync failed, the commit may be there after a restart, but whole.
                found.append((f"{where}, restarted", self.after_restart(), [before]))
                self.clock.time = moment
                self.ask(request)
                found.append((f"{where}, asked again", state_of(self.store), []))
            elif isinstance(answer, CommandResult | Refusal):
                # What failed was to move the log into the database. The commit was done by then,
                # and SQLite tries the move again after the next one.
                self.count["answered"] += 1
                found += [(where, state, []), (f"{where}, restarted", self.after_restart(), [])]
                name = state["campaigns"][0][1]
                if not isinstance(self.ask(offers([name], 4000)[0]), CommandResult):
                    self.problems.append(f"{where}: no more after it")
            else:
                self.problems.append(f"{where}: {answer!r}")
            self.problems += faults_in(self.store)
            self.go_back(files)
        if not isinstance(answer, CommandResult | Refusal):
            raise AssertionError(f"{request.command} on a disk without a failure: {answer!r}")
        self.problems += [where for where, then, also in found if then not in (state, *also)]
        return answer

    def after_restart(self) -> State:
        """What a server finds that starts now, on the files as they are."""
        with tempfile.TemporaryDirectory() as name:
            lay_out(self.files(), Path(name))
            with as_the_service_opens(Path(name) / FILE) as store:
                self.problems += [f"after a restart: {fault}" for fault in faults_in(store)]
                return state_of(store)

    def stays_broken(self, requests: list[Request], *, full: bool) -> None:
        """Let all calls fail from now on: writers are told so, readers notice nothing."""
        before = all_reads(self.store)
        self.disk.fail(0, full=full, stays=True)
        told = [self.ask(request) for request in requests]
        if not all(isinstance(answer, Unavailable) for answer in told):
            self.problems.append(f"while the disk stays broken: {told}")
        if all_reads(self.store) != before:
            self.problems.append("while the disk stays broken, reads differ")
        self.disk.heal()
        told = [self.ask(request) for request in requests]
        if not all(isinstance(answer, CommandResult) for answer in told):
            self.problems.append(f"after the disk was mended: {told}")
        self.problems += faults_in(self.store)


def fail_throughout(folder: Path, length: int, every: int, seed: int) -> Trial:
    """Put a scenario through, with a failure at every call to the disk, or every so many."""
    trial, scenario = Trial(folder), Scenario(seed)
    with ids_from(trial.clock):
        for _ in range(length):
            trial.clock.time += SECOND
            request = scenario.next()
            scenario.told(request, trial.everywhere(request, every))
            if scenario.asked % 5 == 0:
                trial.close()  # else the log would be long enough to be moved at each request
                trial.start()
        trial.stays_broken(offers(scenario.campaigns, 1000), full=True)
        trial.stays_broken(offers(scenario.campaigns, 2000), full=False)
        trial.everywhere(offers(scenario.campaigns, 3000)[0], every, "read")
    trial.close()
    return trial


def offers(campaigns: list[str], first: int) -> list[Request]:
    """Offers to players who have none, which can't be answered without a write."""
    players = (n.to_bytes(16) for n in range(first, first + 3))
    return [Request(MakeOffer(c, player), None) for player in players for c in campaigns]


def fail_at_the_start(every: int) -> tuple[int, list[str]]:
    """Open a new database, with a failure at every call to the disk, and then without one."""
    problems, failures = [], 0
    for k in itertools.count(0, every):
        with tempfile.TemporaryDirectory() as name:
            disk = Disk(Path(name))
            disk.fail(k, full=k % 2 == 0)
            opened: list[Connection] = []
            try:
                open_on(disk, opened)
            except Unavailable:
                failures += 1
            except Exception as error:
                problems.append(f"call {k} of the start: {error!r}")
            failed = disk.failed
            disk.heal()
            open_on(disk, opened).check_integrity()
            for connection in opened:
                connection.close()
            disk.close()
        if not failed:
            return failures, problems
    raise AssertionError("the calls to the disk never end")


def open_on(disk: Disk, opened: list[Connection]) -> SqliteStore:
    connect = connector(disk)

    def kept(path: str) -> Connection:
        opened.append(connect(path))
        return opened[-1]

    return SqliteStore(disk.folder / FILE, kept)


def control(folder: Path, seed: int) -> tuple[int, int]:
    """A store that commits each statement by itself: how many failures left a half?"""
    with as_the_service_opens(folder / FILE) as store:
        play(store, 30, seed)
        campaigns = [view.id for view in Queries(store).campaigns()]
    halves = 0
    for k in range(20):
        with tempfile.TemporaryDirectory() as name:
            shutil.copy(folder / FILE, name)
            trial = Trial(Path(name), COMMITS_PIECEMEAL)
            trial.disk.fail(k)
            answer = trial.ask(offers(campaigns, 1000)[0])
            trial.disk.heal()
            halves += isinstance(answer, Unavailable) and bool(faults_in(trial.store))
            trial.close()
    return halves, 20


def run(long: bool) -> Outcome:
    """Fail at each call to the disk in 80 requests; in short, at every 7th in 30."""
    length, every = (80, 1) if long else (30, 7)
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as other:
        trial = fail_throughout(Path(folder), length, every, seed=3)
        at_start, problems = fail_at_the_start(every)
        halves, tried = control(Path(other), seed=3)
    problems += trial.problems
    count = trial.count
    return Outcome(
        "disk full, I/O error",
        f"{count['failures'] + at_start:,} failures, "
        f"at {'every' if every == 1 else f'every {every}th'} write, sync and truncation",
        f"{count['unavailable'] + at_start:,} told 503, {count['answered']} not "
        f"needed for the answer, {len(problems)} half done or not mended",
        f"a commit for each statement: {halves} of {tried} half done",
        not problems and count["unavailable"] > 0 and halves > 0,
    )
