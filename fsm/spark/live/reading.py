"""Reads the part of a file in a batch: loads the state of the file, and stores the new one.

The states are below the checkpoint. They can be rebuilt from the files, so it is enough that they are written
atomically.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from fsm.audit.live import blobs
from fsm.audit.live.growth import FileReader, FileState, FileUpdate
from fsm.audit.reading.piece import PieceSummary
from fsm.audit.reading.routing import OF_FILE, Sent
from fsm.spark import collecting
from fsm.spark.files import write
from fsm.spark.live.known_files import Offsets, is_file
from fsm.spark.live.plan import Part, key
from fsm.spark.options import Options
from fsm.spark.sources import list_formats


@dataclass(frozen=True, slots=True)
class Kept:
    """The states of files, and topic names, in a folder that all tasks reach."""

    folder: Path

    @property
    def names(self) -> Path:
        """The folder of topic names, from all files so far."""
        return self.folder / "names"

    @collecting.collect_rarely()
    def read(self, part: Part, reader: FileReader) -> FileUpdate:
        """Reads a part of a file. Repeatable as long as the file exists."""
        before = self._load(part.before) if part.before else None
        update = _read_there(before, part, reader)
        write(self._path(part.after), blobs.pack(update.state))
        if update.names:
            name = f"{part.after.partition('-')[0]}.json"
            write(self.names / name, json.dumps(update.names, sort_keys=True).encode())
        return update

    def summaries(self, offsets: Offsets) -> Iterator[PieceSummary]:
        """The summary of each file whose state exists."""
        for name, one in offsets.items():
            state = self._load(key(name, one))
            if state is not None and state.last_summary:
                yield PieceSummary(*state.last_summary)

    def forget(self, offsets: Offsets) -> None:
        """Removes the states of files before these offsets, up to which all batches are complete."""
        wanted = {self._path(key(name, one)) for name, one in offsets.items()}
        for path in (self.folder / "files").glob("[!.]*"):
            if path not in wanted:
                path.unlink(missing_ok=True)

    def _path(self, key: str) -> Path:
        return self.folder / "files" / key

    def _load(self, key: str) -> FileState | None:
        try:
            known: FileState = blobs.unpack(self._path(key).read_bytes())
        except FileNotFoundError:
            return None
        return known


_TRIES = 3


def _read_there(before: FileState | None, part: Part, reader: FileReader) -> FileUpdate:
    """Reads the planned file under its current path, because it may be rotated between planning and reading."""
    growth = part.growth
    for _ in range(0 if growth.over else _TRIES):
        path = _find(part)
        if path is None:
            break
        update = reader.read_new(before, growth._replace(path=str(path)))
        if is_file(path, part.offset):
            return update
    if not growth.over:
        read = before.size if before is not None else 0
        note = f"{growth.name} went while it was followed: bytes {read} to {growth.size} were not read"
        growth = growth._replace(over=True, note=note)
    return reader.read_new(before, growth)


def _find(part: Part) -> Path | None:
    path = Path(part.growth.path)
    if is_file(path, part.offset):
        return path
    beside = sorted(path.parent.iterdir()) if path.parent.is_dir() else []
    return next((other for other in beside if is_file(other, part.offset)), None)


def reader_of(options: Options) -> FileReader:
    return FileReader(tuple(list_formats(options)), options.zone, options.min_understood)


def choose(update: FileUpdate, options: Options) -> Iterator[Sent]:
    """The rows of selected groups, and of the file itself."""
    return (row for row in update.sent if row.key.startswith(OF_FILE) or options.judges(row.key))
