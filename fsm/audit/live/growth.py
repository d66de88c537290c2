"""Reads the new part of a growing file, and sends it to its groups.

The state of a file is a function of its bytes up to a size, of that size, and of the size at which its layouts were
learned. So it need not be saved: reading the file again gives the same state.

The last entry may continue when the file grows. It is read and sent, and read again with its continuation: rows of a
file from some offset on are replaced by later ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, tzinfo
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from fsm.audit.coordinator.assignments import add_topic_names
from fsm.audit.hygiene.identity import Facts, by_home, find_homeless, find_homes, merge
from fsm.audit.reading.certainty import FileFacts
from fsm.audit.reading.piece import (
    PieceRecords,
    PieceSummary,
    SourceRecords,
    read_piece,
    signs_of_formats,
    take_scanned,
)
from fsm.audit.reading.records import Chunk, Source
from fsm.audit.reading.routing import COORDINATOR, FACTS, MEMBER, OF_FILE, SUMMARY, Sent, describe_file, row_of
from fsm.audit.reading.scanning import Scanner
from fsm.logs import Format
from fsm.logs.layouts.samples import NOTHING, Learned, learn_beginning
from fsm.logs.reading.entries import ENTRY_LIMIT
from fsm.logs.reading.opening import is_packed
from fsm.logs.reading.pieces import WHOLE, GrowingReader, Piece
from fsm.logs.reading.segments import begins_segment

LOOSE_CHUNKS = 64
"""Limit of the chunks that are kept until their group is known; the oldest are dropped."""
_WHOLE = "whole"
"""The layout of a file that cannot be read in parts."""
_LOOKED_BACK = 1 << 16


class Growth(NamedTuple):
    """A file, and the size up to which it is read."""

    path: str
    name: str
    """Its name in findings."""
    cluster: str
    size: int
    learned_size: int
    """The size at which its layouts are learned, at most `size`."""
    modified_ms: int
    """Its modification time at that size, used for timestamps without a year or a date."""
    was: str = ""
    """Its former name, if it was renamed since it was last read."""
    gone: tuple[int, ...] = ()
    """Numbers of its missing rotations, from `fsm.audit.hygiene.rotation.find_missing`."""
    note: str = ""
    """An event of the file, to be reported as a finding."""
    over: bool = False
    """Nothing more can be read; rows sent before are kept under its name."""


@dataclass(slots=True)
class FileState:
    """The state of a file that was read up to a size."""

    size: int = 0
    settled: int = 0
    """Start of its last entry, which is read again."""
    lines: int = 0
    """Lines before it."""
    layout: str = ""
    """The learned layouts as a text, for comparison."""
    gone: tuple[int, ...] = ()
    summary: PieceSummary = field(default_factory=lambda: PieceSummary("", 0, gzipped=False))
    """Without the last entry, like `facts`."""
    facts: Sequence[Facts] = ()
    names: Mapping[str, str] = field(default_factory=dict)
    loose: Sequence[Chunk] = ()
    """Records of members whose group is not known yet."""
    all_facts: Sequence[Facts] = ()
    """With the last entry."""
    last_summary: list[Any] = field(default_factory=list)
    """The summary with the last entry, as plain values."""
    file_facts: FileFacts = field(default_factory=lambda: FileFacts(0, ()))
    groups: frozenset[str] = frozenset()
    """Groups with rows or facts from the file."""
    open_groups: frozenset[str] = frozenset()
    """Groups with records in the last entry."""


class FileUpdate(NamedTuple):
    """The result of reading the new part of a file."""

    state: FileState
    sent: Sequence[Sent]
    """Rows for groups, and for the file's own key."""
    names: Mapping[str, str]
    """Topic names by topic id, from the whole file."""


@dataclass(frozen=True)
class FileReader:
    """Reads the new parts of growing files."""

    formats: tuple[Format, ...]
    zone: tzinfo
    min_understood: float

    def read_new(self, before: FileState | None, growth: Growth) -> FileUpdate:
        """Reads a file with the state `before` up to its new size. Read errors are in the summary."""
        if growth.over and before is not None:
            return _rename(before, growth)
        if growth.over:
            return FileUpdate(FileState(), [_send_summary(growth, [])], {})
        about = growth.path, growth.learned_size, growth.modified_ms
        learned = None if _is_whole(growth.path) else _learn(*about, self.formats)
        layout = _WHOLE if learned is None or learned.whole else _describe(learned, growth.modified_ms)
        if before is not None and _is_known(before, growth, layout):
            return FileUpdate(before, [], {})
        continues = before is None or (layout == before.layout != _WHOLE and growth.size >= before.size)
        if continues:
            update = self._read(before or FileState(layout=layout), growth, learned)
            if update is not None:
                return update
        # Read the whole file again; it replaces all rows sent before.
        groups = before.groups if before else frozenset()
        update = self._read(FileState(layout=layout, groups=groups, open_groups=groups), growth, learned)
        assert update is not None  # noqa: S101  no row was sent to another group before
        return update

    def _read(self, before: FileState, growth: Growth, learned: Learned | None) -> FileUpdate | None:
        """The update; None if records were sent to a wrong group before."""
        if learned is None or learned.whole:
            tail = read_piece(Piece(growth.path, 0, WHOLE), self.formats, self.zone, growth.cluster, growth.name)
            settled = PieceRecords(tail.summary, (), (), (), {})
            read = replace(before, size=growth.size, gone=growth.gone), settled, tail
        else:
            read = self._read_growing(before, growth, learned)
        return _send(before, read, growth, self.min_understood)

    def _read_growing(
        self, before: FileState, growth: Growth, learned: Learned
    ) -> tuple[FileState, PieceRecords, PieceRecords]:
        """(new state, content of complete entries, content of the last entry)"""
        summary = replace(deepcopy(before.summary), file=growth.name)
        size, end = growth.size, 0
        reader = GrowingReader(Piece(growth.path, before.settled, size), self.formats, learned, before.lines, size)
        if reader.by_streams:
            end = max(before.settled, size - ENTRY_LIMIT)
        else:  # an incomplete line cannot be classified
            end = reader.upto = find_last_end(growth.path, before.settled, size)
        reader.piece = reader.piece._replace(end=end)
        records = _records(growth, reader.piece)
        signs = signs_of_formats(self.formats)
        scanner = Scanner(reader, signs, self.zone, open_end=not reader.by_streams)
        take_scanned(scanner, summary, records)
        if scanner.left_out:
            end, summary.lines = scanner.left_out.offset, scanner.left_out.number - 1
        settled = records.of_piece(summary)
        state = replace(
            before,
            size=size,
            settled=end,
            lines=summary.lines,
            gone=growth.gone,
            summary=summary,
            facts=merge([*_rename_facts(before.facts, growth.name), *settled.facts]),
            names=_with_names(before.names, settled.names),
        )
        rest = GrowingReader(Piece(growth.path, end, size), self.formats, learned, state.lines, size)
        last, whole = _records(growth, rest.piece), deepcopy(summary)
        take_scanned(Scanner(rest, signs, self.zone), whole, last)
        return state, settled, last.of_piece(whole)


def _is_known(before: FileState, growth: Growth, layout: str) -> bool:
    """Whether a file has nothing new, even after its layouts were learned again."""
    same = (growth.size, layout, growth.gone) == (before.size, before.layout, before.gone)
    return same and layout != _WHOLE and not growth.was and not growth.note


def _records(growth: Growth, piece: Piece) -> SourceRecords:
    return SourceRecords(piece._replace(file=growth.name), f"{growth.cluster}:" if growth.cluster else "")


def _send(
    before: FileState, read: tuple[FileState, PieceRecords, PieceRecords], growth: Growth, min_understood: float
) -> FileUpdate | None:
    """The update, with rows for the groups; None if records were sent to a wrong group before."""
    state, settled, tail = read
    facts, facts_before = merge([*state.facts, *tail.facts]), _rename_facts(before.all_facts, growth.name)
    where, was = find_homes(facts), find_homes(facts_before)
    if any(was[source] != where.get(source) for source in {one.source for one in facts_before} & was.keys()):
        return None
    members = [*(one._replace(file=growth.name) for one in before.loose), *settled.members]
    loose = [one for one in members if one.source not in where]
    sent = _send_chunks(members, settled.coordinators, where)
    last = _send_chunks(tail.members, tail.coordinators, where)
    of_group, of_group_before = by_home(facts, where), by_home(facts_before, was)
    file_facts = describe_file([tail.summary], min_understood)
    touched = {one.key for one in (*sent, *last)} | before.open_groups
    touched |= {group for group in of_group if of_group[group] != of_group_before.get(group)}
    groups = before.groups | touched | of_group.keys()
    if growth.was or (file_facts, growth.gone) != (before.file_facts, before.gone):
        touched |= groups
    done = replace(
        state,
        loose=loose[-LOOSE_CHUNKS:],
        all_facts=facts,
        last_summary=tail.summary.values(),
        file_facts=file_facts,
        groups=groups,
        open_groups=frozenset(one.key for one in last),
    )
    about = _send_facts(done, growth, touched, of_group, since=before.settled)
    return FileUpdate(done, [*about, *sent, *last], _with_names(state.names, tail.names))


def _send_chunks(members: Iterable[Chunk], coordinators: Iterable[Chunk], where: Mapping[Source, str]) -> list[Sent]:
    sent = [Sent(where[one.source], MEMBER, one) for one in members if one.source in where]
    return sent + [Sent(one.group, COORDINATOR, one) for one in coordinators]


def _rename(before: FileState, growth: Growth) -> FileUpdate:
    """The state of a file under another name."""
    facts = _rename_facts(before.all_facts, growth.name)
    state = replace(before, all_facts=facts)
    about = _send_facts(state, growth, before.groups, by_home(facts, find_homes(facts)), since=WHOLE)
    return FileUpdate(state, list(about), {})


def _send_facts(
    state: FileState, growth: Growth, touched: Iterable[str], facts: Mapping[str, Sequence[Facts]], *, since: int
) -> Iterator[Sent]:
    """The facts of the file, for itself and for its groups; rows sent earlier are replaced from `since` on."""
    homeless = find_homeless(state.all_facts, find_homes(state.all_facts))
    yield _send_summary(growth, state.last_summary, homeless)
    if growth.was:  # another file may have its former name
        yield row_of(OF_FILE + growth.was, SUMMARY, growth.was, -1, ["", []])
    for group in sorted(touched):
        settled = growth.size if growth.over else state.settled
        own = facts.get(group, ())
        file_facts = state.file_facts.for_clients(one.client_id for one in own)
        values = [growth.was, tuple(file_facts), list(growth.gone), settled, *map(tuple, own)]
        yield row_of(group, FACTS, growth.name, since, values)


def _send_summary(growth: Growth, summary: list[Any], homeless: Iterable[Facts] = ()) -> Sent:
    values = [growth.note, list(map(tuple, homeless)), *summary]
    return row_of(OF_FILE + growth.name, SUMMARY, growth.name, 0, values)


def _with_names(known: Mapping[str, str], new: Mapping[str, str]) -> dict[str, str]:
    names = dict(known)
    add_topic_names(names, new)
    return names


def _rename_facts(facts: Iterable[Facts], name: str) -> list[Facts]:
    return [one._replace(file=name) for one in facts]


def find_last_end(path: str, start: int, size: int) -> int:
    """The end of the last complete line between two offsets of a file; `start` if there is none."""
    with suppress(OSError), Path(path).open("rb", buffering=0) as handle:
        while size > start:
            begin = max(start, size - _LOOKED_BACK)
            handle.seek(begin)
            found = handle.read(size - begin).rfind(b"\n")
            if found >= 0:
                return begin + found + 1
            size = begin
    return start


# -- layouts ------------------------------------------------------------------------------------------------


_HEAD = 512
"""Bytes that tell whether a file is packed."""


def _is_whole(path: str) -> bool:
    """Whether a file cannot be read in parts; a missing file is detected when it is read."""
    try:
        with Path(path).open("rb") as handle:
            start = handle.read(_HEAD)
    except OSError:
        return False
    return is_packed(start) or begins_segment(start)


@lru_cache(maxsize=256)
def _learn(path: str, size: int, modified_ms: int, formats: tuple[Format, ...]) -> Learned:
    return learn_beginning(path, size, modified_ms, formats) if size else NOTHING


def _describe(learned: Learned, modified_ms: int) -> str:
    """The learned layouts as a text; with the modification date of the file, if they depend on it."""
    layouts = [layout.description._replace(share=0.0, example="") for layout in learned.layouts]
    day = any({"date", "year"} & {*one.guessed} for one in layouts)
    when = datetime.fromtimestamp(modified_ms / 1000, UTC).date().isoformat() if day else ""
    clients = sorted(one.name for one in learned.clients)
    understood = [sorted(layout.understood) for layout in learned.layouts]
    return repr((layouts, understood, clients, when))
