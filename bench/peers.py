"""How fast other bandit libraries are, and whether they agree: `make bench-peers`.

The same bandit without payment everywhere: nine Gaussian arms of unit noise, means 0.9, 0.8, …,
0.1, T = 3,000. Each peer lives in an environment of its own under `bench/.peers/`, made from its
pinned file, and is run by its driver; `peer_list.py` says what it runs. Entice runs the same rule,
and accounts for payments besides, which the others don't have.

One thread, CPU time; of several turns the fastest counts. The same runs give the regret (the sum of
the pulled arms' gaps), flagged when it is off from Entice's by more than four standard errors. This
needs the network, once, and takes minutes.
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
ODDS = 2 * float(stats.norm.sf(4))
"""Chance that a peer with Entice's regret is flagged all the same: four standard errors."""


class PeerFailed(Exception):
    """A peer can't be installed or can't be run; says why."""


class Found(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a driver prints of each policy, and what we measure of Entice."""

    policy: str
    ns_per_round: Annotated[float, Meta(gt=0)]
    runs: Annotated[int, Meta(ge=2)]
    regret: Annotated[float, Meta(ge=0)]
    stderr: Annotated[float, Meta(ge=0)]

    @property
    def with_error(self) -> str:
        """The regret for a table."""
        return f"{self.regret:.1f} ± {self.stderr:.1f}"

    def is_off(self, truth: Found) -> bool:
        """Whether the means differ by more than four standard errors; Welch's t for few runs."""
        test = stats.ttest_ind_from_stats(
            self.regret, self.stderr * math.sqrt(self.runs), self.runs,
            truth.regret, truth.stderr * math.sqrt(truth.runs), truth.runs, equal_var=False,
        )  # fmt: skip
        return bool(test.pvalue < ODDS)


@dataclass(frozen=True)
class Row:
    """A policy of a peer, and Entice's twin of it; neither where the peer has no such policy."""

    peer: Peer
    version: str
    line: Line
    theirs: Found | None = None
    ours: Found | None = None

    @property
    def errors(self) -> float:
        """How many standard errors lie between the two regrets."""
        assert self.theirs is not None
        assert self.ours is not None
        spread = math.hypot(self.theirs.stderr, self.ours.stderr)
        return abs(self.theirs.regret - self.ours.regret) / spread

    @property
    def is_off(self) -> bool:
        """Whether the peer's regret is another than Entice's."""
        return self.theirs is not None and self.ours is not None and self.theirs.is_off(self.ours)


def parsed(line: str) -> Found | None:
    """Read a line of a driver's output; None for what a library prints on its own account."""
    if not line.startswith("{"):
        return None
    try:
        return msgspec.json.decode(line, type=Found)
    except msgspec.MsgspecError as error:
        raise PeerFailed(f"its driver printed what can't be read: {error}") from error


def pinned(name: str) -> Path:
    """Find a peer's locked requirements."""
    return DRIVERS / f"{name}.txt"


def version_of(name: str) -> str:
    """Read off a peer's pinned version."""
    found = re.search(rf"^{name}==(\S+)", pinned(name).read_text(encoding="utf-8"), re.MULTILINE)
    assert found is not None, f"{pinned(name)} does not pin {name}"
    return found[1]


def environment(name: str) -> Path:
    """Make a peer's environment, unless it is there already, and return its Python.

    A stamp is written last, so that what was interrupted is made anew.
    """
    folder = ENVIRONMENTS / name
    python, stamp = folder / "bin" / "python", folder / "ready"
    wanted = hashlib.sha256(pinned(name).read_bytes()).hexdigest() + sys.version
    if stamp.is_file() and stamp.read_text(encoding="utf-8") == wanted:
        return python
    subprocess.run([sys.executable, "-m", "venv", "--clear", folder], check=True)
    done = subprocess.run(
        [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check",
         "--require-hashes", "--only-binary", ":all:", "-r", pinned(name)],
        capture_output=True, text=True,
    )  # fmt: skip
    if done.returncode != 0:
        reasons = [line for line in done.stderr.splitlines() if line.startswith("ERROR: ")]
        reason = reasons[-1].removeprefix("ERROR: ") if reasons else "pip failed"
        raise PeerFailed(f"can't be installed on Python {sys.version.split()[0]}: {reason}")
    stamp.write_text(wanted, encoding="utf-8")
    return python


def driven(name: str, seconds: float, fewest: int) -> Iterator[Found]:
    """Run a peer's driver and hand out what it finds, as it finds it."""
    python = environment(name)
    log = ENVIRONMENTS / f"{name}.log"
    command = [python, "-E", DRIVERS / f"drive_{name}.py"]  # -E: our PYTHONPATH is not theirs
    options = {"--rounds": HORIZON, "--seconds": seconds, "--fewest": fewest}
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
                if (found := parsed(line)) is not None:
                    yield found
            if child.wait() != 0:
                errors.seek(0)
                last = (errors.read().strip().splitlines() or ["it said nothing"])[-1]
                raise PeerFailed(f"its driver failed: {last}")
        finally:
            child.kill()  # after Ctrl-C, or when we give up on it; else it has ended by itself


class Ours:
    """Entice's side: each twin is measured once."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._known: dict[Twin, Found] = {}

    def of(self, twin: Twin) -> Found:
        """Measure a twin, or remember it."""
        if twin not in self._known:
            self._known[twin] = self._measured(twin)
        return self._known[twin]

    def _measured(self, twin: Twin, turn: int = 250) -> Found:
        drift = entice.NoDrift()
        study = entice.Study(
            arms=entice.Gaussian(MEANS), policies=[twin.policy], drifts=[drift],
            horizon=HORIZON, seed=SEED, checkpoints=1, cold_start=twin.cold_start, engine="generic",
        )  # fmt: skip
        cell = Cell(study, twin.policy, drift, stop=np.zeros(1, dtype=np.int64))
        room = cell.allocate(turn)
        regrets, times = [], []
        while len(times) < 5 or sum(times) < self._seconds:
            start = time.process_time()
            cell.run(turn * len(times), room)
            times.append(time.process_time() - start)
            regrets.append(room.metrics[:, -1, 0].copy())
        all_regrets = np.concatenate(regrets)
        return Found(
            policy=twin.policy.label,
            ns_per_round=min(times) / (turn * HORIZON) * 1e9,
            runs=all_regrets.size,
            regret=float(all_regrets.mean()),
            stderr=float(all_regrets.std(ddof=1) / math.sqrt(all_regrets.size)),
        )


def rows_of(
    name: str, ours: Ours, seconds: float, fewest: int, say: Callable[[str], None]
) -> Iterator[Row]:
    """Measure a peer, policy by policy; in the end name what it does not have."""
    peer, version = PEERS[name], version_of(name)
    say(f"{peer.title} {version}: getting ready")
    keys = [key for key, line in peer.lines.items() if line.twin is not None]
    for number, theirs in enumerate(driven(name, seconds, fewest), start=1):
        if theirs.policy not in keys:
            raise PeerFailed(f"its driver ran {theirs.policy!r}, which is not in the list")
        line = peer.lines[theirs.policy]
        assert line.twin is not None
        yield Row(peer, version, line, theirs, ours.of(line.twin))
        say(f"{peer.title} {version}: {number} of {len(keys)} policies measured")
    for line in peer.lines.values():
        if line.twin is None:
            yield Row(peer, version, line)


def table_of(rows: list[Row], failed: dict[str, str]) -> Table:
    """Make the table."""
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
            f"{theirs.runs:,}", "off" if row.is_off else "", style="red" if row.is_off else "",
        )  # fmt: skip
    for name in failed:
        table.add_row(f"{PEERS[name].title} {version_of(name)}", "see below", "failed", style="red")
    return table


def remarks(rows: list[Row], failed: dict[str, str]) -> Iterator[str]:
    """Say what the table can't: why a regret is off, what is missing, who was made for what."""
    for row in rows:
        what = f"{row.peer.title}, {row.line.policy}"
        if row.theirs is None:
            yield f"{what}: {row.line.rule}."
        elif row.is_off:
            reason = row.line.reason or "we don't know why"
            yield f"{what} is off by {row.errors:.1f} standard errors: {reason}."
        elif row.line.reason:  # so few runs can't tell, but the source can
            yield f"{what} is not off by more than four standard errors, though {row.line.reason}."
    for name, reason in failed.items():
        yield f"{PEERS[name].title} {version_of(name)} {reason}"
    online = [peer.title for peer in PEERS.values() if peer.kind == "online library"]
    yield (
        f"{', '.join(online)} are made for one decision at a time in production: time per "
        "round in a simulation is not what they were made for, and the loop around them is ours. "
        "Entice's time includes payments, which nobody else accounts for."
    )


def as_json(rows: list[Row], failed: dict[str, str]) -> str:
    """Write the same down for programs."""
    measured = [
        {
            "peer": row.peer.title, "version": row.version, "kind": row.peer.kind,
            "policy": row.line.policy, "rule": row.line.rule,
            "peer_found": msgspec.to_builtins(row.theirs),
            "entice_found": msgspec.to_builtins(row.ours),
            "off": row.is_off, "reason": row.line.reason,
        }
        for row in rows
    ]  # fmt: skip
    return json.dumps({"rows": measured, "failed": failed}, indent=1, ensure_ascii=False) + "\n"


def main() -> int:
    """Measure, print, write down; 130 after Ctrl-C, with what there was until then."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="a rough look: few runs of each")
    parser.add_argument(
        "--only", action="append", choices=sorted(PEERS), help="this peer; may be repeated"
    )
    parser.add_argument(
        "--json", type=Path, default=HERE / "peers.json", help="where the same goes as JSON"
    )
    options = parser.parse_args()
    seconds, fewest = (1.0, 3) if options.quick else (12.0, 10)
    console = Console()
    console.width = max(console.width, 112)  # the table is as wide as that
    rows: list[Row] = []
    failed: dict[str, str] = {}
    stopped = False
    ours = Ours(seconds / 4)
    with console.status("Getting ready") as status:
        try:
            for name in options.only or PEERS:
                try:
                    for row in rows_of(name, ours, seconds, fewest, status.update):
                        rows.append(row)
                        if row.theirs is not None:
                            spent = f"{row.theirs.ns_per_round:,.0f} ns"
                            console.print(f"{row.peer.title}, {row.line.policy}: {spent}")
                except PeerFailed as error:
                    failed[name] = str(error)
        except KeyboardInterrupt:
            stopped = True
    console.print(table_of(rows, failed))
    for remark in remarks(rows, failed):
        console.print(remark, highlight=False)
    if stopped:
        console.print(f"Stopped before the end; {options.json} is left as it was.")
        return 130
    options.json.write_text(as_json(rows, failed), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
