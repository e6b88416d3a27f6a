"""Speed and regret of other bandit libraries, compared with Entice: `make bench-peers`.

All libraries run the same bandit without payment: nine Gaussian arms of unit noise, means 0.9,
0.8, …, 0.1, T = 3,000. Each peer has its own environment under `bench/.peers/`, made from its lock
file, and a driver; `peer_list.py` lists the policies. Entice runs the same rule and also accounts
for payments, which the others do not have.

CPU time on one thread; the fastest of several repetitions counts. The same runs give the regret
(the sum of the pulled arms' gaps), flagged if it deviates from Entice's by more than four standard
errors. Needs the network once, and takes minutes.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import msgspec
import numpy as np
from msgspec import Meta
from peer_list import PEERS, Line, Peer
from rich import box
from rich.console import Console
from rich.table import Table
from scipy import stats  # type: ignore[import-untyped]
from twins import Twin

import entice
from entice.study.running.cell import Cell

HERE = Path(__file__).parent
DRIVERS = HERE / "peers"
ENVIRONMENTS = HERE / ".peers"
MEANS = [0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1]
HORIZON = 3_000
ONE_THREAD = {f"{name}_NUM_THREADS": "1" for name in ("OMP", "OPENBLAS", "MKL", "NUMEXPR", "RAYON")}
SEED = 7
FALSE_ALARM = 2 * float(stats.norm.sf(4))
"""Probability that a peer with Entice's regret is flagged: four standard errors."""


class PeerFailed(Exception):
    """A peer cannot be installed or run; the message says why."""


class Measurement(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A measurement of one policy, of a peer or of Entice."""

    policy: str
    ns_per_round: Annotated[float, Meta(gt=0)]
    runs: Annotated[int, Meta(ge=2)]
    regret: Annotated[float, Meta(ge=0)]
    stderr: Annotated[float, Meta(ge=0)]

    @property
    def with_error(self) -> str:
        """The regret with its standard error, for a table."""
        return f"{self.regret:.1f} ± {self.stderr:.1f}"

    def deviates(self, truth: Measurement) -> bool:
        """Return whether the means differ by more than four standard errors (Welch's t-test)."""
        test = stats.ttest_ind_from_stats(
            self.regret, self.stderr * math.sqrt(self.runs), self.runs,
            truth.regret, truth.stderr * math.sqrt(truth.runs), truth.runs, equal_var=False,
        )  # fmt: skip
        return bool(test.pvalue < FALSE_ALARM)


@dataclass(frozen=True)
class Row:
    """A policy of a peer, and Entice's twin of it; None if the peer has no such policy."""

    peer: Peer
    version: str
    line: Line
    theirs: Measurement | None = None
    ours: Measurement | None = None

    @property
    def errors(self) -> float:
        """The difference of the two regrets, in standard errors."""
        assert self.theirs is not None
        assert self.ours is not None
        spread = math.hypot(self.theirs.stderr, self.ours.stderr)
        return abs(self.theirs.regret - self.ours.regret) / spread

    @property
    def deviates(self) -> bool:
        """Whether the peer's regret differs from Entice's."""
        return self.theirs is not None and self.ours is not None and self.theirs.deviates(self.ours)


def parse_line(line: str) -> Measurement | None:
    """Parse a line of a driver's output. Return None for other output of a library."""
    if not line.startswith("{"):
        return None
    try:
        return msgspec.json.decode(line, type=Measurement)
    except msgspec.MsgspecError as error:
        raise PeerFailed(f"its driver printed a line that cannot be read: {error}") from error


def lock_file(name: str) -> Path:
    """Return the path of a peer's locked requirements."""
    return DRIVERS / f"{name}.txt"


def version_of(name: str) -> str:
    """Return the locked version of a peer."""
    found = re.search(rf"^{name}==(\S+)", lock_file(name).read_text(encoding="utf-8"), re.MULTILINE)
    assert found is not None, f"{lock_file(name)} does not pin {name}"
    return found[1]


def environment(name: str) -> Path:
    """Create a peer's environment if necessary, and return its Python.

    A stamp is written last, so that an interrupted installation is repeated.
    """
    folder = ENVIRONMENTS / name
    python, stamp = folder / "bin" / "python", folder / "ready"
    wanted = hashlib.sha256(lock_file(name).read_bytes()).hexdigest() + sys.version
    if stamp.is_file() and stamp.read_text(encoding="utf-8") == wanted:
        return python
    subprocess.run([sys.executable, "-m", "venv", "--clear", folder], check=True)
    done = subprocess.run(
        [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check",
         "--require-hashes", "--only-binary", ":all:", "-r", lock_file(name)],
        capture_output=True, text=True,
    )  # fmt: skip
    if done.returncode != 0:
        reasons = [line for line in done.stderr.splitlines() if line.startswith("ERROR: ")]
        reason = reasons[-1].removeprefix("ERROR: ") if reasons else "pip failed"
        raise PeerFailed(f"cannot be installed on Python {sys.version.split()[0]}: {reason}")
    stamp.write_text(wanted, encoding="utf-8")
    return python


def run_driver(name: str, seconds: float, min_runs: int) -> Iterator[Measurement]:
    """Run a peer's driver and yield its measurements as they arrive."""
    python = environment(name)
    log = ENVIRONMENTS / f"{name}.log"
    command = [python, "-E", DRIVERS / f"drive_{name}.py"]  # -E: ignore our PYTHONPATH
    options = {"--rounds": HORIZON, "--seconds": seconds, "--min-runs": min_runs}
    for option, value in options.items():
        command += [option, str(value)]
    with (
        log.open("w+", encoding="utf-8") as errors,
        subprocess.Popen(
            command, env=os.environ | ONE_THREAD, stdout=subprocess.PIPE, stderr=errors, text=True
        ) as child,
    ):
        try:
            assert child.stdout is not None
            for line in child.stdout:
                if (found := parse_line(line)) is not None:
                    yield found
            if child.wait() != 0:
                errors.seek(0)
                last = (errors.read().strip().splitlines() or ["no output"])[-1]
                raise PeerFailed(f"its driver failed: {last}")
        finally:
            child.kill()  # no effect if it has ended by itself


class EnticeMeasurements:
    """Entice's measurements; each twin is measured once."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._measured: dict[Twin, Measurement] = {}

    def measure(self, twin: Twin) -> Measurement:
        """Measure a twin, or return the earlier measurement."""
        if twin not in self._measured:
            self._measured[twin] = self._measure(twin)
        return self._measured[twin]

    def _measure(self, twin: Twin, turn: int = 250) -> Measurement:
        drift = entice.NoDrift()
        study = entice.Study(
            arms=entice.Gaussian(MEANS), policies=[twin.policy], drifts=[drift],
            horizon=HORIZON, seed=SEED, checkpoints=1, cold_start=twin.cold_start, engine="generic",
        )  # fmt: skip
        cell = Cell(study, twin.policy, drift, stop=np.zeros(1, dtype=np.int64))
        arrays = cell.allocate(turn)
        regrets, times = [], []
        while len(times) < 5 or sum(times) < self._seconds:
            start = time.process_time()
            cell.run(turn * len(times), arrays)
            times.append(time.process_time() - start)
            regrets.append(arrays.metrics[:, -1, 0].copy())
        all_regrets = np.concatenate(regrets)
        return Measurement(
            policy=twin.policy.label,
            ns_per_round=min(times) / (turn * HORIZON) * 1e9,
            runs=all_regrets.size,
            regret=float(all_regrets.mean()),
            stderr=float(all_regrets.std(ddof=1) / math.sqrt(all_regrets.size)),
        )


def rows_of(
    name: str,
    ours: EnticeMeasurements,
    seconds: float,
    min_runs: int,
    report: Callable[[str], None],
) -> Iterator[Row]:
    """Measure a peer, policy by policy, and add rows for policies that it does not have."""
    peer, version = PEERS[name], version_of(name)
    report(f"{peer.title} {version}: preparing")
    keys = [key for key, line in peer.lines.items() if line.twin is not None]
    for number, theirs in enumerate(run_driver(name, seconds, min_runs), start=1):
        if theirs.policy not in keys:
            raise PeerFailed(f"its driver ran {theirs.policy!r}, which is not in the list")
        line = peer.lines[theirs.policy]
        assert line.twin is not None
        yield Row(peer, version, line, theirs, ours.measure(line.twin))
        report(f"{peer.title} {version}: {number} of {len(keys)} policies measured")
    for line in peer.lines.values():
        if line.twin is None:
            yield Row(peer, version, line)


def results_table(rows: list[Row], failed: dict[str, str]) -> Table:
    """Return the table of results."""
    title = f"The bandit without payment, K = 9, T = {HORIZON:,}; CPU ns per round, one thread"
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for heading in ("library", "policy"):
        table.add_column(heading, no_wrap=True)
    for heading in ("ns per\nround", "Entice's", "times\nEntice's", "regret", "Entice's", "runs"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("")
    before = None
    for row in rows:
        library = "" if row.peer is before else f"{row.peer.title} {row.version}"
        before = row.peer
        if row.theirs is None or row.ours is None:
            table.add_row(library, row.line.policy, "none")
            continue
        theirs, ours = row.theirs, row.ours
        table.add_row(
            library, row.line.policy, f"{theirs.ns_per_round:,.0f}", f"{ours.ns_per_round:.0f}",
            f"{theirs.ns_per_round / ours.ns_per_round:,.0f}", theirs.with_error, ours.with_error,
            f"{theirs.runs:,}", "deviates" if row.deviates else "",
            style="red" if row.deviates else "",
        )  # fmt: skip
    for name in failed:
        table.add_row(f"{PEERS[name].title} {version_of(name)}", "see below", "failed", style="red")
    return table


def remarks(rows: list[Row], failed: dict[str, str]) -> Iterator[str]:
    """Explain the table: why a regret deviates, and which policies or peers are missing."""
    for row in rows:
        policy = f"{row.peer.title}, {row.line.policy}"
        if row.theirs is None:
            yield f"{policy}: {row.line.rule}."
        elif row.deviates:
            reason = row.line.reason or "for an unknown reason"
            yield f"{policy} deviates by {row.errors:.1f} standard errors: {reason}."
        elif row.line.reason:  # known from the source; too few runs to measure it
            yield (
                f"{policy} does not deviate by more than four standard errors, although "
                f"{row.line.reason}."
            )
    for name, reason in failed.items():
        yield f"{PEERS[name].title} {version_of(name)} {reason}"
    online = [peer.title for peer in PEERS.values() if peer.kind == "online library"]
    yield (
        f"{', '.join(online)} are designed for single decisions in production, not for "
        "simulations, and the loop around them is ours. Entice's time includes payments, which the "
        "other libraries do not have."
    )


def to_json(rows: list[Row], failed: dict[str, str]) -> str:
    """Return the results as JSON."""
    measured = [
        {
            "peer": row.peer.title, "version": row.version, "kind": row.peer.kind,
            "policy": row.line.policy, "rule": row.line.rule,
            "peer_found": msgspec.to_builtins(row.theirs),
            "entice_found": msgspec.to_builtins(row.ours),
            "deviates": row.deviates, "reason": row.line.reason,
        }
        for row in rows
    ]  # fmt: skip
    return json.dumps({"rows": measured, "failed": failed}, indent=1, ensure_ascii=False) + "\n"


def main() -> int:
    """Measure and print; return 130 after Ctrl-C, with the results so far."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="few runs of each policy")
    parser.add_argument(
        "--only", action="append", choices=sorted(PEERS), help="peer to measure; can be repeated"
    )
    parser.add_argument(
        "--json", type=Path, default=HERE / "peers.json", help="output file for the results as JSON"
    )
    options = parser.parse_args()
    seconds, min_runs = (1.0, 3) if options.quick else (12.0, 10)
    console = Console()
    console.width = max(console.width, 112)  # the width of the table
    rows: list[Row] = []
    failed: dict[str, str] = {}
    stopped = False
    ours = EnticeMeasurements(seconds / 4)
    with console.status("Preparing") as status:
        try:
            for name in options.only or PEERS:
                try:
                    for row in rows_of(name, ours, seconds, min_runs, status.update):
                        rows.append(row)
                        if row.theirs is not None:
                            cost = f"{row.theirs.ns_per_round:,.0f} ns"
                            console.print(f"{row.peer.title}, {row.line.policy}: {cost}")
                except PeerFailed as error:
                    failed[name] = str(error)
        except KeyboardInterrupt:
            stopped = True
    console.print(results_table(rows, failed))
    for remark in remarks(rows, failed):
        console.print(remark, highlight=False)
    if stopped:
        console.print(f"Interrupted; {options.json} is unchanged.")
        return 130
    options.json.write_text(to_json(rows, failed), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
