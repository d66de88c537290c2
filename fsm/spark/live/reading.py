"""A batch's part of a file, read: what was known of the file is fetched, and what is known by now put away.

What is known of a file is kept below the checkpoint and can be made again of the file, so it needs no other care than
that it is there whole or not at all.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from fsm.audit.coordinator.assignments import add_topic_names
from fsm.audit.live import blobs
from fsm.audit.live.growth import FileReader, FileState, FileUpdate
from fsm.audit.reading.piece import PieceSummary
from fsm.audit.reading.routing import OF_FILE, Sent
from fsm.spark import collecting
from fsm.spark.live.files import write
from fsm.spark.live.known_files import Offsets, is_file
from fsm.spark.live.plan import Part, key
from fsm.spark.options import Options
from fsm.spark.sources import list_formats


@dataclass(frozen=True, slots=True)
class Kept:
    """What is known of files and of topics, in a folder that all tasks reach."""

    folder: Path

    @collecting.seldom()
    def read(self, part: Part, reader: FileReader) -> FileUpdate:
        """What a part of a file tells. The same whenever it is read, as long as the file is there."""
        before = self._load(part.before) if part.before else None
        update = _read_there(before, part, reader)
        write(self._path(part.after), blobs.pack(update.state))
        if update.names:
            name = f"{part.after.partition('-')[0]}.json"
            write(self.folder / "names" / name, json.dumps(update.names, sort_keys=True).encode())
        return update

    def names(self) -> Mapping[str, str]:
        """The names of topics by their ids, as all files tell them so far."""
        names: dict[str, str] = {}
        for path in sorted((self.folder / "names").glob("*.json")):
            add_topic_names(names, json.loads(path.read_bytes()))
        return names

    def summaries(self, offsets: Offsets) -> Iterator[PieceSummary]:
        """What was read of each file, as far as that is known."""
        for name, one in offsets.items():
            state = self._load(key(name, one))
            if state is not None and state.last_summary:
                yield PieceSummary(*state.last_summary)

    def forget(self, offsets: Offsets) -> None:
        """Lets go what is known of files as they were before these offsets, to which all was done."""
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
    """What the file tells that was meant, wherever it is by now: it may be rotated between planning and reading."""
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
    """Who reads files as the options ask."""
    return FileReader(tuple(list_formats(options)), options.zone, options.min_understood)


def choose(update: FileUpdate, options: Options) -> Iterator[Sent]:
    """What a file tells of the groups that were chosen, and of itself."""
    return (row for row in update.sent if row.key.startswith(OF_FILE) or options.judges(row.key))
