"""The possible contents of a folder after a power cut, derived from a record of all operations.

A sync of a file makes its earlier writes and truncations durable; a sync of the folder, its names.
Every other operation may be lost independently. As SQLite does, this assumes that a sector is
written completely or not at all, and that a write does not change other sectors.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple, TypeAlias

SECTOR = 512  # bytes


class Write(NamedTuple):
    """A write to a file."""

    file: int
    offset: int
    data: bytes


class Truncate(NamedTuple):
    """A change of a file's length."""

    file: int
    size: int


class Sync(NamedTuple):
    """A sync of a file: earlier changes are durable."""

    file: int


class Create(NamedTuple):
    """The creation of an empty file."""

    name: str
    file: int


class Delete(NamedTuple):
    """The deletion of a name."""

    name: str


class SyncFolder(NamedTuple):
    """A sync of the folder: its names are durable."""


class Marker(NamedTuple):
    """A marker of the test, such as an acknowledgement."""

    text: str


Operation: TypeAlias = Write | Truncate | Sync | Create | Delete | SyncFolder | Marker


class Recording:
    """The operations on a folder, and the possible outcomes of a power cut.

    Parameters
    ----------
    found
        The files at the start, which are durable.
    """

    def __init__(self, found: dict[str, bytes]) -> None:
        self.found = found
        self.operations: list[Operation] = []

    def places(self) -> list[int]:
        """Return every point for a power cut: the start, and after each operation.

        This includes markers: an acknowledgement before its sync is detected only there.
        """
        return list(range(len(self.operations) + 1))

    def markers(self, cut: int) -> list[str]:
        """Return the markers among the first ``cut`` operations."""
        return [op.text for op in self.operations[:cut] if isinstance(op, Marker)]

    def after_power_loss(self, cut: int, seed: int) -> dict[str, bytes]:
        """Return a possible content of the disk after a power cut at an operation."""
        return next(self.power_losses([cut], seed))[1]

    def power_losses(
        self, cuts: Iterable[int], seed: int
    ) -> Iterator[tuple[int, dict[str, bytes]]]:
        """Yield outcomes of many cuts, in ascending order; repeated cuts get different outcomes."""
        state = _FolderState(self.found)
        done, repeat, last = 0, 0, -1
        for cut in sorted(cuts):
            for operation in self.operations[done:cut]:
                state.apply(operation)
            done = cut
            repeat = repeat + 1 if cut == last else 0
            last = cut
            yield cut, state.survivors(random.Random(f"{seed} {cut} {repeat}"))


def replace_files(files: dict[str, bytes], folder: Path) -> None:
    """Replace the contents of a folder by these files."""
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.iterdir():
        old.unlink()
    for name, content in files.items():
        (folder / name).write_bytes(content)


class _File:
    """The durable content of a file, and its pending changes."""

    def __init__(self, durable: bytes = b"") -> None:
        self.durable = bytearray(durable)
        self.pending: list[Write | Truncate] = []

    def sync(self) -> None:
        for change in self.pending:
            _apply(change, self.durable)
        self.pending.clear()

    def survivor(self, rng: random.Random) -> bytes:
        """Return a possible content: each unsynced change is kept, lost or torn independently.

        Reordering by the disk needs no separate case: if two changes overlap and the older one is
        written last, the newer one appears lost. The share of kept changes varies from cut to cut,
        so that long runs of changes are sometimes kept or lost together.
        """
        content = bytearray(self.durable)
        keep = rng.choice((0.0, 0.0, 0.5, 0.9, 1.0))
        drop = rng.choice((0.0, 0.5, 1.0))
        for change in self.pending:
            if rng.random() < keep:
                _apply(change, content)
            elif rng.random() >= drop and isinstance(change, Write):
                _apply_partly(change, content, rng)
        return bytes(content)


class _FolderState:
    """The files and names of a folder, with their pending changes."""

    def __init__(self, found: dict[str, bytes]) -> None:
        self.files = {-number: _File(found[name]) for number, name in enumerate(found, 1)}
        # For each name: the file that it durably refers to, then later ones in order.
        self.names: dict[str, list[int | None]] = {
            name: [-number] for number, name in enumerate(found, 1)
        }

    def apply(self, operation: Operation) -> None:
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


def _apply_partly(write: Write, content: bytearray, rng: random.Random) -> None:
    """Apply a part of a write: its first sectors, any of its sectors, or only the length."""
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
