"""Full or failing disk: the request gets an error, no write is partial, the service recovers."""

from __future__ import annotations

import itertools
import shutil
import tempfile
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sizes import sized

from entice.service.domain.commands import CommandResult, Expire, MakeOffer
from entice.service.domain.errors import Refusal, Unavailable
from entice.service.storage.queries import Queries
from entice.service.storage.sqlite import SqliteStore
from entice.service.storage.store import Store
from service_faults.adapter import COMMIT_EACH_STATEMENT, Connection, connector
from service_faults.disk import Disk, Kind
from service_faults.outcome import Outcome
from service_faults.recording import replace_files
from service_faults.scenario import (
    SECOND,
    SPECS,
    Request,
    Scenario,
    TestClock,
    deterministic_ids,
    faults_in,
    idle_writer,
    open_as_service,
    run_all_queries,
    run_scenario,
    segment_of,
)

FILE = "entice.db"
TABLES = ("meta", "campaigns", "events", "offers", "answers", "keys")
State = dict[str, list[Any]]


def state_of(store: Store) -> State:
    """Return every row of every table."""
    with store.read() as session:
        return {table: session.rows(f"SELECT * FROM {table}") for table in TABLES}


class Trial:
    """A service on a disk that fails, with the result of each failure."""

    def __init__(self, folder: Path, replacements: Mapping[str, str] | None = None) -> None:
        self.folder, self.replacements = folder, replacements
        self.clock = TestClock()
        self.count: Counter[str] = Counter()
        self.problems: list[str] = []
        self.start()

    def start(self) -> None:
        self.disk = Disk(self.folder)
        connect = connector(self.disk, self.replacements, checkpoint_at=30)
        self.store = SqliteStore(self.folder / FILE, connect)
        self.writer = idle_writer(self.store, self.clock)
        self.writer.start()
        self.execute(
            Request(Expire("nothing"), None)
        )  # waits until the writer's start-up work is done

    def close(self) -> None:
        self.writer.stop()
        self.store.close()
        self.disk.close()

    def files(self) -> dict[str, bytes]:
        """Return the files on the disk, without the -shm file, which is shared memory."""
        found = (path for path in self.folder.iterdir() if not path.name.endswith("-shm"))
        return {path.name: path.read_bytes() for path in found}

    def restore(self, files: dict[str, bytes]) -> None:
        """Restart on these files."""
        self.close()
        replace_files(files, self.folder)
        self.start()

    def execute(self, request: Request) -> CommandResult | Exception:
        future = self.writer.submit(
            request.command, scope="test", key=request.key, request=request.digest
        )
        error = future.exception(timeout=30)
        assert error is None or isinstance(error, Exception)
        return error or future.result()

    def fail_at_each_call(
        self, request: Request, every: int, *kinds: Kind
    ) -> CommandResult | Refusal:
        """Make each disk call of a request fail in turn, each time from the same state."""
        before, moment, files = state_of(self.store), self.clock.time, self.files()
        found: list[tuple[str, State, list[State]]] = []
        for k in itertools.count(moment // SECOND % every, every):
            self.clock.time = moment
            self.disk.fail(k, *kinds, full=k % 2 == 0)
            answer = self.execute(request)
            self.disk.repair()
            state = state_of(self.store)
            if not self.disk.failed:
                break
            self.count["failures"] += 1
            where = f"failure {k} in {request.command}"
            if isinstance(answer, Unavailable):
                self.count["unavailable"] += 1
                if state != before:
                    self.problems.append(f"{where}: it is partly written")
                # If a sync failed, the commit may exist after a restart, but only completely.
                found.append((f"{where}, restarted", self.after_restart(), [before]))
                self.clock.time = moment
                self.execute(request)
                found.append((f"{where}, retried", state_of(self.store), []))
            elif isinstance(answer, CommandResult | Refusal):
                # The checkpoint failed. The commit was complete by then, and SQLite repeats the
                # checkpoint after the next commit.
                self.count["answered"] += 1
                found += [(where, state, []), (f"{where}, restarted", self.after_restart(), [])]
                name = state["campaigns"][0][1]
                if not isinstance(self.execute(offers([name], 4000)[0]), CommandResult):
                    self.problems.append(f"{where}: later commands fail")
            else:
                self.problems.append(f"{where}: {answer!r}")
            self.problems += faults_in(self.store)
            self.restore(files)
        if not isinstance(answer, CommandResult | Refusal):
            raise AssertionError(f"{request.command} on a disk without a failure: {answer!r}")
        self.problems += [where for where, then, also in found if then not in (state, *also)]
        return answer

    def after_restart(self) -> State:
        """Return the state that a restarted server would find."""
        with tempfile.TemporaryDirectory() as name:
            replace_files(self.files(), Path(name))
            with open_as_service(Path(name) / FILE) as store:
                self.problems += [f"after a restart: {fault}" for fault in faults_in(store)]
                return state_of(store)

    def check_broken_disk(self, requests: list[Request], *, full: bool) -> None:
        """Make all calls fail: writes must get an error, and reads must still work."""
        before = run_all_queries(self.store)
        self.disk.fail(0, full=full, permanent=True)
        results = [self.execute(request) for request in requests]
        if not all(isinstance(result, Unavailable) for result in results):
            self.problems.append(f"while the disk is broken: {results}")
        if run_all_queries(self.store) != before:
            self.problems.append("while the disk is broken, reads differ")
        self.disk.repair()
        results = [self.execute(request) for request in requests]
        if not all(isinstance(result, CommandResult) for result in results):
            self.problems.append(f"after the disk was repaired: {results}")
        self.problems += faults_in(self.store)


def fail_throughout(folder: Path, length: int, every: int, seed: int) -> Trial:
    """Run a scenario with a failure at every disk call, or every n-th one."""
    trial, scenario = Trial(folder), Scenario(seed)
    with deterministic_ids(trial.clock):
        for _ in range(length):
            trial.clock.time += SECOND
            request = scenario.next()
            scenario.record_response(request, trial.fail_at_each_call(request, every))
            if scenario.count % 5 == 0:
                trial.close()  # otherwise the log would be checkpointed at each request
                trial.start()
        trial.check_broken_disk(offers(scenario.campaigns, 1000), full=True)
        trial.check_broken_disk(offers(scenario.campaigns, 2000), full=False)
        trial.fail_at_each_call(offers(scenario.campaigns, 3000)[0], every, "read")
    trial.close()
    return trial


def offers(campaigns: list[str], first: int) -> list[Request]:
    """Return requests for players without an open offer, which require a write."""
    return [
        Request(MakeOffer(name, n.to_bytes(16), segment=segment_of(spec.segments, n)), None)
        for n in range(first, first + 3)
        for name, spec in zip(campaigns, SPECS, strict=False)
    ]


def fail_at_the_start(every: int) -> tuple[int, list[str]]:
    """Open a new database with a failure at every disk call, then without one."""
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
            disk.repair()
            open_on(disk, opened).check_integrity()
            for connection in opened:
                connection.close()
            disk.close()
        if not failed:
            return failures, problems
    raise AssertionError("the number of disk calls is not finite")


def open_on(disk: Disk, opened: list[Connection]) -> SqliteStore:
    connect = connector(disk)

    def tracked(path: str) -> Connection:
        opened.append(connect(path))
        return opened[-1]

    return SqliteStore(disk.folder / FILE, tracked)


def control(folder: Path, seed: int) -> tuple[int, int]:
    """Return the failures that left partial writes in a store that commits each statement."""
    with open_as_service(folder / FILE) as store:
        run_scenario(store, 30, seed)
        campaigns = [view.id for view in Queries(store).campaigns()]
    partial = 0
    for k in range(20):
        with tempfile.TemporaryDirectory() as name:
            shutil.copy(folder / FILE, name)
            trial = Trial(Path(name), COMMIT_EACH_STATEMENT)
            trial.disk.fail(k)
            answer = trial.execute(offers(campaigns, 1000)[0])
            trial.disk.repair()
            partial += isinstance(answer, Unavailable) and bool(faults_in(trial.store))
            trial.close()
    return partial, 20


def run(long: bool) -> Outcome:
    """Fail at each disk call of 80 requests; in the short version, at every 17th of 30."""
    length, every = (80, 1) if long else (30, sized(17, 7))
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as other:
        trial = fail_throughout(Path(folder), length, every, seed=3)
        at_start, problems = fail_at_the_start(every)
        partial, tried = control(Path(other), seed=3)
    problems += trial.problems
    count = trial.count
    return Outcome(
        "disk full, I/O error",
        f"{count['failures'] + at_start:,} failures, "
        f"at {'every' if every == 1 else f'every {every}th'} write, sync and truncation",
        f"{count['unavailable'] + at_start:,} responses with 503, {count['answered']} failed "
        f"checkpoints after the commit, {len(problems)} partial writes or other problems",
        f"a commit after each statement: {partial} of {tried} partly written",
        not problems and count["unavailable"] > 0 and partial > 0,
    )
