"""A file that grows, read on from where it was read last, and what is new in it for its groups.

What is known of a file is a function of its bytes up to a size, of that size, and of the size at which its layouts were
learned. So it need not be kept safe: who lost it reads the file again and has the same.

The last entry may go on in what the file does not hold yet. It is read and sent, and read again with what follows it:
what was sent of a file from some offset on is replaced by what is sent later.
"""

from __future__ import annotations

import marshal
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, datetime, tzinfo
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from fsm.audit.certainty import FileFacts
from fsm.audit.coordinator.assignments import add_topic_names
from fsm.audit.hygiene.identity import Facts, homes, merge
from fsm.audit.reading import PieceRecords, PieceSummary, SourceRecords, read_piece, signs_of_formats, take_scanned
from fsm.audit.records import Chunk
from fsm.audit.routing import COORDINATOR, FACTS, MEMBER, OF_FILE, SUMMARY, Sent, to_file, worth_of
from fsm.audit.scanning import Scanner
from fsm.logs import Format
from fsm.logs.entries import ENTRY_LIMIT
from fsm.logs.opening import is_packed
from fsm.logs.pieces import WHOLE, GrowingReader, Piece
from fsm.logs.samples import NOTHING, Learned, learn_beginning
from fsm.logs.segments import begins_segment

LOOSE_CHUNKS = 64
"""Chunks of records that are kept until their group is known; the oldest are let go."""
_LOOKED_BACK = 1 << 16
_COUNTERS = ("layouts", "levels", "shapes", "understood_of", "missed_of")


class Growth(NamedTuple):
    """A file, and how far it is to be read."""

    path: str
    name: str
    """As findings name it."""
    cluster: str
    size: int
    learned_size: int
    """The size at which its layouts are learned, which is no larger."""
    modified_ms: int
    """When it was changed last, at that size: stamps without a year or a date are of that time."""
    was: str = ""
    """Its name when it was read last, if it had another one."""
    gone: tuple[int, ...] = ()
    """Numbers of its rotations that are missing, as `fsm.audit.hygiene.rotation.missing` has them."""


@dataclass(slots=True)
class FileState:
    """What is known of a file that was read up to a size."""

    size: int = 0
    settled: int = 0
    """Where its last entry begins, which is read again."""
    lines: int = 0
    """Those before."""
    layout: str = ""
    """What was learned, as a text that tells one from another."""
    gone: tuple[int, ...] = ()
    summary: PieceSummary = field(default_factory=lambda: PieceSummary("", 0, gzipped=False))
    """Of what is settled, like `facts`."""
    facts: Sequence[Facts] = ()
    names: Mapping[str, str] = field(default_factory=dict)
    loose: Sequence[Chunk] = ()
    """Records of members whose group is not known yet."""
    all_facts: Sequence[Facts] = ()
    """With those of the last entry."""
    worth: FileFacts = FileFacts(0, ())
    groups: frozenset[str] = frozenset()
    """Whom it tells anything of."""
    open_groups: frozenset[str] = frozenset()
    """Whom the last entry tells of."""

    def dump(self) -> bytes:
        """As plain values."""
        told = {f.name: getattr(self, f.name) for f in fields(self)}
        told |= {
            "summary": _values_of(self.summary),
            "facts": list(map(tuple, self.facts)),
            "all_facts": list(map(tuple, self.all_facts)),
            "loose": list(map(tuple, self.loose)),
            "worth": tuple(self.worth),
            "groups": sorted(self.groups),
            "open_groups": sorted(self.open_groups),
        }
        return marshal.dumps(told)

    @classmethod
    def load(cls, data: bytes) -> FileState:
        """What `dump` wrote."""
        told: dict[str, Any] = marshal.loads(data)  # noqa: S302  written by `dump` of this audit
        return cls(
            **told
            | {
                "summary": PieceSummary(*told["summary"]),
                "facts": [Facts(*one) for one in told["facts"]],
                "all_facts": [Facts(*one) for one in told["all_facts"]],
                "loose": [Chunk(*one) for one in told["loose"]],
                "worth": FileFacts(*told["worth"]),
                "groups": frozenset(told["groups"]),
                "open_groups": frozenset(told["open_groups"]),
            }
        )


class More(NamedTuple):
    """What was read on."""

    state: FileState
    sent: Sequence[Sent]
    """To groups, and to the file's own key."""
    names: Mapping[str, str]
    """Of topics by their ids, as the whole file tells them."""


def read_on(
    before: FileState | None, growth: Growth, formats: Sequence[Format], zone: tzinfo, min_understood: float
) -> More:
    """What a file tells that was known as `before` and has grown. What cannot be read is said by its summary."""
    learned = None if _is_whole(growth.path) else _learned(growth, tuple(formats))
    layout = "whole" if learned is None or learned.whole else _told(learned, growth.modified_ms)
    if before is not None and not (layout == before.layout != "whole" and growth.size >= before.size):
        return _replaced(before, growth, formats, zone, min_understood, layout, learned)
    start = FileState(layout=layout) if before is None else before
    more = _read(start, growth, formats, zone, min_understood, learned)
    if before is not None and more is None:
        return _replaced(before, growth, formats, zone, min_understood, layout, learned)
    assert more is not None  # noqa: S101  what was never read cannot have been of another group
    return more


def _replaced(
    before: FileState,
    growth: Growth,
    formats: Sequence[Format],
    zone: tzinfo,
    min_understood: float,
    layout: str,
    learned: Learned | None,
) -> More:
    """The whole file read anew, in place of what was sent of it."""
    more = _read(FileState(layout=layout, groups=before.groups), growth, formats, zone, min_understood, learned)
    assert more is not None  # noqa: S101
    return more


def _read(
    before: FileState,
    growth: Growth,
    formats: Sequence[Format],
    zone: tzinfo,
    min_understood: float,
    learned: Learned | None,
) -> More | None:
    """What was read on; None where records that were sent to a group were not its."""
    if learned is None or learned.whole:
        piece = Piece(growth.path, 0, WHOLE, _is_packed(growth.path))
        settled, tail = None, read_piece(piece, formats, zone, growth.cluster, growth.name)
        state = replace(before, size=growth.size, gone=growth.gone)
    else:
        state, settled, tail = _read_growing(before, growth, formats, zone, learned)
    return _send(before, state, growth, settled, tail, min_understood)


def _read_growing(
    before: FileState, growth: Growth, formats: Sequence[Format], zone: tzinfo, learned: Learned
) -> tuple[FileState, PieceRecords, PieceRecords]:
    """What is settled by now, and what the last entry says."""
    summary = _copy(before.summary, growth.name)
    start, size = before.settled, growth.size
    records = SourceRecords(Piece(growth.name, start, size), f"{growth.cluster}:" if growth.cluster else "")
    reader = GrowingReader(Piece(growth.path, start, size), formats, learned, before.lines, size)
    if reader.by_streams:
        end = max(start, size - ENTRY_LIMIT)
        reader.piece = Piece(growth.path, start, end)
    else:  # what a line is that is not complete yet is not known
        end = reader.upto = _whole_lines(growth.path, start, size)
        reader.piece = Piece(growth.path, start, end)
    signs = signs_of_formats(formats)
    scanner = Scanner(reader, signs, zone, open_end=not reader.by_streams)
    take_scanned(scanner, summary, records)
    lines = reader.lines
    if not reader.by_streams:
        left = scanner.left_out
        end, lines = (left.offset, left.number - 1) if left else (end, lines)
        summary.lines = lines
    settled = records.of_piece(summary)
    rest = GrowingReader(Piece(growth.path, end, size), formats, learned, lines, size)
    last = SourceRecords(Piece(growth.name, end, size), f"{growth.cluster}:" if growth.cluster else "")
    whole = _copy(summary, growth.name)
    take_scanned(Scanner(rest, signs, zone), whole, last)
    state = replace(
        before,
        size=size,
        settled=end,
        lines=lines,
        gone=growth.gone,
        summary=summary,
        facts=merge([*_renamed(before.facts, growth.name), *settled.facts]),
        names=_with_names(before.names, settled.names),
    )
    return state, settled, last.of_piece(whole)


def _send(
    before: FileState,
    state: FileState,
    growth: Growth,
    settled: PieceRecords | None,
    tail: PieceRecords,
    min_understood: float,
) -> More | None:
    facts = merge([*state.facts, *tail.facts])
    where, was = homes(facts), homes(_renamed(before.all_facts, growth.name))
    known = {one[:3] for one in _renamed(before.all_facts, growth.name)}
    if any(was.get(source) != where.get(source) for source in known if source in was):
        return None
    sent: list[tuple[str, int, Chunk]] = []
    loose: list[Chunk] = []
    for one in (*before.loose, *(settled.members if settled else ())):
        home = where.get((one.group, one.client_id, growth.name), ("", ""))[0]
        if home:
            sent.append((home, MEMBER, one._replace(file=growth.name)))
        else:
            loose.append(one._replace(file=growth.name))
    sent += [(one.group, COORDINATOR, one) for one in (settled.coordinators if settled else ())]
    last = [(where.get(one.source, ("", ""))[0], MEMBER, one) for one in tail.members]
    last += [(one.group, COORDINATOR, one) for one in tail.coordinators]
    last = [one for one in last if one[0]]
    by_group: dict[str, list[Facts]] = {}
    for fact in facts:
        home = where.get(fact[:3])
        if home is not None:
            by_group.setdefault(home[0], []).append(fact)
    worth = worth_of([tail.summary], min_understood)
    open_groups = frozenset(group for group, *_ in last)
    groups = frozenset(by_group).union((group for group, *_ in sent), open_groups)
    told_before = _by_group(before.all_facts, was, growth.name)
    touched = {group for group, *_ in (*sent, *last)} | before.open_groups
    touched |= {group for group in by_group if by_group[group] != told_before.get(group)}
    if worth != before.worth or growth.was or growth.gone != before.gone or not before.size:
        touched |= groups | before.groups
    rows = [to_file(SUMMARY, growth.name, 0, _values_of(tail.summary))._replace(key=OF_FILE + growth.name)]
    if growth.was:
        rows.append(to_file(SUMMARY, growth.was, 0, [])._replace(key=OF_FILE + growth.was))
    for group in sorted(touched):
        about = [growth.was, tuple(worth), list(growth.gone), *map(tuple, by_group.get(group, ()))]
        rows.append(to_file(FACTS, growth.name, before.settled, about)._replace(key=group))
    rows += [Sent(group, kind, chunk) for group, kind, chunk in (*sent, *last)]
    done = replace(
        state,
        loose=loose[-LOOSE_CHUNKS:],
        all_facts=facts,
        worth=worth,
        groups=groups | (before.groups if before.size else frozenset()),
        open_groups=open_groups,
    )
    return More(done, rows, _with_names(state.names, tail.names))


def _with_names(known: Mapping[str, str], told: Mapping[str, str]) -> dict[str, str]:
    names = dict(known)
    add_topic_names(names, told)
    return names


def _by_group(
    facts: Iterable[Facts], where: Mapping[tuple[str, str, str], tuple[str, str]], name: str
) -> Mapping[str, list[Facts]]:
    found: dict[str, list[Facts]] = {}
    for fact in _renamed(facts, name):
        home = where.get(fact[:3])
        if home is not None:
            found.setdefault(home[0], []).append(fact)
    return found


def _renamed(facts: Iterable[Facts], name: str) -> list[Facts]:
    return [one._replace(file=name) for one in facts]


def _copy(summary: PieceSummary, name: str) -> PieceSummary:
    return replace(summary, file=name, **{key: Counter(getattr(summary, key)) for key in _COUNTERS})


def _values_of(summary: PieceSummary) -> list[Any]:
    values = (getattr(summary, f.name) for f in fields(PieceSummary))
    return [dict(value) if isinstance(value, dict) else value for value in values]


def _whole_lines(path: str, start: int, size: int) -> int:
    """Where the last whole line ends in a part of a file; `start` where there is none."""
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


def _is_whole(path: str) -> bool:
    """Whether a file cannot be read in parts; one that is gone is found out when it is read."""
    try:
        with Path(path).open("rb") as handle:
            start = handle.read(64)
    except OSError:
        return False
    return is_packed(start) or begins_segment(start)


def _is_packed(path: str) -> bool:
    try:
        with Path(path).open("rb") as handle:
            return is_packed(handle.read(8))
    except OSError:
        return False


@lru_cache(maxsize=256)
def _learn(path: str, size: int, modified_ms: int, formats: tuple[Format, ...]) -> Learned:
    return learn_beginning(path, size, modified_ms, formats) if size else NOTHING


def _learned(growth: Growth, formats: tuple[Format, ...]) -> Learned:
    return _learn(growth.path, growth.learned_size, growth.modified_ms, formats)


def _told(learned: Learned, modified_ms: int) -> str:
    """What was learned as a text; where it leans on the day on which the file was changed, that is part of it."""
    told = [layout.description._replace(share=0.0, example="") for layout in learned.layouts]
    day = any({"date", "year"} & {*one.guessed} for one in told)
    when = datetime.fromtimestamp(modified_ms / 1000, UTC).date().isoformat() if day else ""
    clients = sorted(one.name for one in learned.clients)
    speaking = [sorted(layout.speaking) for layout in learned.layouts]
    return repr((told, speaking, clients, when))
