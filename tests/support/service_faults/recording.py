"""What a power cut leaves of a folder, worked out from a record of all that happened to it.

Rules: a sync of a file makes its earlier writes and truncations last, a sync of the folder the
names in it. All else may have happened or not, each for itself. Two things are taken for granted,
as SQLite takes them: a sector is written whole or not at all, and a write leaves its neighbours be.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple, TypeAlias

SECTOR = 512  # a disk writes whole sectors or none


class Write(NamedTuple):
    """Some bytes at a place in a file."""

    file: int
    offset: int
    data: bytes


class Truncate(NamedTuple):
    """A new length of a file."""

    file: int
    size: int


class Sync(NamedTuple):
    """What was done to the file before is on the disk for good."""

    file: int


class Create(NamedTuple):
    """A name in the folder that now means a new, empty file."""

    name: str
    file: int


class Delete(NamedTuple):
    """A name that is gone from the folder."""

    name: str


class SyncFolder(NamedTuple):
    """The names in the folder are on the disk for good."""


class Marker(NamedTuple):
    """What the test wants to remember here, such as an answer that was given."""

    text: str


Operation: TypeAlias = Write | Truncate | Sync | Create | Delete | SyncFolder | Marker


class Recording:
    """All that happened to a folder, and what a power cut would have left of it.

    Parameters
    ----------
    found
        The files that were there at the start, for good.
    """

    def __init__(self, found: dict[str, bytes]) -> None:
        self.found = found
        self.operations: list[Operation] = []

    def places(self) -> list[int]:
        """Every place for a cut: at the start, and after each operation.

        Also after a marker: an answer that goes out before the sync is found only there.
        """
        return list(range(len(self.operations) + 1))

    def markers(self, cut: int) -> list[str]:
        """The markers among the first ``cut`` operations."""
        return [op.text for op in self.operations[:cut] if isinstance(op, Marker)]

    def after_power_loss(self, cut: int, seed: int) -> dict[str, bytes]:
        """What the disk may hold when the power fails after the first ``cut`` operations."""
        return next(self.power_losses([cut], seed))[1]

    def power_losses(
        self, cuts: Iterable[int], seed: int
    ) -> Iterator[tuple[int, dict[str, bytes]]]:
        """Many cuts in one pass, in ascending order; one that is named twice gets two outcomes."""
        platter = _Platter(self.found)
        done, repeat, last = 0, 0, -1
        for cut in sorted(cuts):
            for operation in self.operations[done:cut]:
                platter.carry_out(operation)
            done = cut
            repeat = repeat + 1 if cut == last else 0
            last = cut
            yield cut, platter.survivors(random.Random(f"{seed} {cut} {repeat}"))


def lay_out(files: dict[str, bytes], folder: Path) -> None:
    """Make a folder hold these files and nothing else."""
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.iterdir():
        old.unlink()
    for name, content in files.items():
        (folder / name).write_bytes(content)


class _File:
    """What of a file is on the disk for good, and what may be."""

    def __init__(self, durable: bytes = b"") -> None:
        self.durable = bytearray(durable)
        self.pending: list[Write | Truncate] = []

    def sync(self) -> None:
        for change in self.pending:
            _apply(change, self.durable)
        self.pending.clear()

    def survivor(self, rng: random.Random) -> bytes:
        """What is left: of each unsynced change all, nothing or a part, each for itself.

        Changes that a disk carries out in another order need no case of their own: where two
        overlap and the older one came last, it looks as if the newer one had been dropped.
        The share that is kept differs from cut to cut; else long runs of changes would never be
        lost or kept together.
        """
        content = bytearray(self.durable)
        keep = rng.choice((0.0, 0.0, 0.5, 0.9, 1.0))
        drop = rng.choice((0.0, 0.5, 1.0))
        for change in self.pending:
            if rng.random() < keep:
                _apply(change, content)
            elif rng.random() >= drop and isinstance(change, Write):
                _spoil(change, content, rng)
        return bytes(content)


class _Platter:
    """The files of a folder, with all that is not yet for good."""

    def __init__(self, found: dict[str, bytes]) -> None:
        self.files = {-number: _File(found[name]) for number, name in enumerate(found, 1)}
        # Per name: the file it means for good, then what it came to mean since, in order.
        self.names: dict[str, list[int | None]] = {
            name: [-number] for number, name in enumerate(found, 1)
        }

    def carry_out(self, operation: Operation) -> None:
        match operation:
            case Write(file=file) | Truncate(file=file):
                self.files[file].pending.append(operation)
            case Sync(file=file):
                self.files[file].sync()
            case Create(name=name, file=file):
                self.files[file] = _File()
                self.names.setdefault(name, [None]).append(file)
            case Delete(name=name):
                self.names[name].append(None)
            case SyncFolder():
                for meanings in self.names.values():
                    del meanings[:-1]
            case Marker():
                pass

    def survivors(self, rng: random.Random) -> dict[str, bytes]:
        left = {}
        for name, meanings in sorted(self.names.items()):
            file = rng.choice(meanings)
            if file is not None:
                left[name] = self.files[file].survivor(rng)
        return left


def _apply(change: Write | Truncate, content: bytearray) -> None:
    if isinstance(change, Truncate):
        del content[change.size :]
        content.extend(bytes(change.size - len(content)))
    else:
        content.extend(bytes(max(0, change.offset - len(content))))
        content[change.offset : change.offset + len(change.data)] = change.data


def _spoil(write: Write, content: bytearray, rng: random.Random) -> None:
    """Carry out a part of a write: its first sectors, any of its sectors, or the length alone."""
    end = write.offset + len(write.data)
    edges = [write.offset, *range((write.offset // SECTOR + 1) * SECTOR, end, SECTOR), end]
    sectors = list(itertools.pairwise(edges))
    match rng.choice(("first", "any", "length")):
        case "first":
            kept = sectors[: rng.randrange(len(sectors))]
        case "any":
            kept = [sector for sector in sectors if rng.random() < 0.5]
        case _:
            kept = []
            _apply(Truncate(write.file, max(len(content), end)), content)
    for start, stop in kept:
        piece = write.data[start - write.offset : stop - write.offset]
        _apply(Write(write.file, start, piece), content)
