"""Files that are followed as a followed audit does, without waiting."""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import UTC
from pathlib import Path

import memory
import recordings
import transform

from fsm.audit import local
from fsm.audit.coordinator.assignments import add_topic_names
from fsm.audit.findings import Finding, with_ids
from fsm.audit.limits import MIN_UNDERSTOOD, Limits
from fsm.audit.live import blobs
from fsm.audit.live.changes import Change, standing
from fsm.audit.live.group_state import LATE_MS, GroupState
from fsm.audit.live.growth import FileReader, Growth
from fsm.audit.reading import unparsed
from fsm.audit.reading.piece import read_piece
from fsm.audit.reading.routing import Sent
from fsm.logs import formats
from fsm.logs.reading.pieces import WHOLE, Piece

READER = FileReader(tuple(formats()), UTC, MIN_UNDERSTOOD)
LIMITS = Limits()
CLOSE_MS = 60_000
LATER_MS = 4_000_000_000_000
"""After all that is recorded."""
ARCHIVES = ("java", "librdkafka", "client", "old")
EVERY = 24
"""One in so many recordings is read where time is short."""


def found_at_once(paths: list[Path]) -> list[Finding]:
    """What the batch audit finds in files, and about them."""
    pieces = [read_piece(Piece(str(path), 0, WHOLE), READER.formats, UTC).summary for path in paths]
    of_files = with_ids([one for piece in pieces for one in unparsed.report_file([piece])])
    return sorted([*local.audit_files(paths).findings, *of_files], key=repr)


class Nobody:
    """Observes nothing."""

    def see(self, _member: str, _seen: object) -> None:
        pass

    def see_transition(self, _transition: object) -> None:
        pass


class Live:
    """Follows some files as a followed audit does, without waiting, and writes down what changes."""

    def __init__(self, expire_ms: int | None = None, late_ms: int = LATE_MS, settle_ms: int | None = None) -> None:
        self.expire_ms, self.late_ms, self.settle_ms = expire_ms, late_ms, settle_ms
        self.now_ms = LATER_MS
        """The clock of who follows."""
        self.files: dict[str, bytes] = {}
        self.groups: dict[str, bytes] = {}
        self.names: dict[str, str] = {}
        self.changes: list[Change] = []

    def read(self, *growths: Growth) -> None:
        """One batch. Everything that is kept is put away as bytes and fetched again."""
        rows: list[Sent] = []
        for one in growths:
            before = self.files.pop(one.was or one.name, None)
            more = READER.read_new(None if before is None else blobs.unpack(before), one)
            self.files[one.name] = blobs.pack(more.state)
            add_topic_names(self.names, more.names)
            rows += more.sent
        for key in sorted({row.key for row in rows}):
            kept = self.groups.get(key)
            state = GroupState(key) if kept is None else blobs.unpack(kept)
            state.take((row for row in rows if row.key == key), self.now_ms)
            if state.is_file or not state.files:
                self.changes += state.update_findings(
                    state.report_file() if state.is_file else (), CLOSE_MS, self.now_ms
                )
            else:
                audit = state.audit(LIMITS, self.names, Nobody(), self.late_ms)
                self.changes += state.update_findings(audit.findings, CLOSE_MS, self.now_ms)
                if self.expire_ms:
                    state.expire(audit, self.expire_ms, self.now_ms)
                if self.settle_ms:
                    state.settle(audit, self.settle_ms, self.now_ms)
            self.groups[key] = blobs.pack(state)

    @property
    def found(self) -> list[Finding]:
        """What stands, by what changed."""
        return sorted((one.finding for one in standing({}, self.changes).values()), key=repr)


def growth(path: Path, size: int, **values: object) -> Growth:
    """A file read up to a size."""
    modified_ms = path.stat().st_mtime_ns // 1_000_000
    return Growth(str(path), str(path), "", size, size, modified_ms)._replace(**values)


def cut(paths: list[Path], seed: str) -> Iterator[list[Growth]]:
    """Batches in which some of the files have grown, to any byte, until all are read to their ends."""
    chance = random.Random(seed)  # noqa: S311
    sizes = {path: path.stat().st_size for path in paths}
    read = dict.fromkeys(paths, 0)
    while any(read[path] < sizes[path] for path in paths):
        batch = []
        for path in paths:
            if read[path] < sizes[path] and chance.random() < 0.5:
                most = chance.choice((200, 20_000, sizes[path]))
                read[path] = min(sizes[path], read[path] + 1 + int(most * chance.random()))
                batch.append(growth(path, read[path]))
        if batch:
            yield batch


def scenarios(archive: str, work: Path) -> list[recordings.Scenario]:
    """The recordings of an archive."""
    roots = recordings.unpacked(recordings.DATA / f"{archive}-logs.tar.xz", work)
    return list(recordings.scenarios(roots))


def by_time(logs: list[Path], steps: int) -> Iterator[tuple[int, list[Growth]]]:
    """Batches in which all files have grown to the same time, as they do when they are followed; and that time.

    None where no line tells one.
    """
    when: dict[Path, list[tuple[int, int]]] = {}
    for path in logs:
        latest, when[path] = 0, []
        for entry in memory.parsed(path.read_bytes()):
            latest = max(latest, transform.when_ms(entry.data))
            when[path].append((latest, entry.entry.offset))
    times = [ms for own in when.values() for ms, _ in own if ms]
    for step in range(1, steps + 1) if times else ():
        until_ms = min(times) + (max(times) - min(times)) * step // steps
        ends = {path: next((at for ms, at in when[path] if ms > until_ms), path.stat().st_size) for path in logs}
        yield until_ms, [growth(path, end) for path, end in ends.items()]
