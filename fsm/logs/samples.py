"""What a file's layout is learned from: its beginning and lines around marks of clients that no known layout explains.

Whoever reads any piece of a file learns the same, for only the file decides. The result is kept for a while.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from datetime import UTC
from itertools import accumulate
from pathlib import Path
from typing import NamedTuple

from fsm.logs import LEARNED, Client, Format, stamps
from fsm.logs.blocks import places
from fsm.logs.entries import CONTINUES, LINE_LIMIT
from fsm.logs.fields import Pretty, Table, find_csv, find_pretty
from fsm.logs.learned import Guess, Layout, Sample, explain_failure, learn, marks_of, state, with_hours
from fsm.logs.opening import READ_ERRORS, UntilBroken, open_packed
from fsm.logs.pattern import parse_pattern

BLOCK = 1 << 20
MOST_BLOCKS = 32
"""How far a mark is looked for, in blocks."""
_FIRST_LINES, _MARKED_LINES, _BEFORE, _BEHIND = 150, 150, 3, 40
_LONGEST = 1 << 16
_TAIL = 1 << 12
_MOST_MARKED = 100
_LATEST_MS = 253_402_300_799_000
"""The end of the year 9999."""
_LONGEST_ENTRY = 400
"""Lines above a mark among which the first one of its entry is looked for."""
_LARGE = 4 << 20
_ENOUGH = 2
"""Blocks with marks, all explained by known layouts, after which no more are read."""


class File(NamedTuple):
    """Parts of a file."""

    head: bytes
    tail: bytes
    modified_ms: int
    pattern: str = LEARNED
    """The layout, where somebody stated it."""


class Learned(NamedTuple):
    """What a file told of its layouts."""

    layouts: tuple[Layout, ...]
    guesses: tuple[Guess, ...]
    """Where clients speak and no layout was found: the likeliest ones, and why they fail."""
    table: Table | None
    """Entries are its rows, which only quotes and braces tell apart: the file cannot be cut."""
    clients: tuple[Client, ...]
    """Those to look for in learned layouts: in a large file only those understood in the lines learned from."""

    @property
    def reversed(self) -> bool:
        """The newest entry stands first."""
        return any(layout.description.reversed for layout in self.layouts)

    @property
    def whole(self) -> bool:
        """The file cannot be read in pieces."""
        return self.table is not None or self.reversed


NOTHING = Learned((), (), None, ())


def learn_file(file: str, packed: bool, formats: Sequence[Format]) -> Learned:
    """The layouts of a file in which clients of these formats speak, beside the layouts that are known."""
    if not any(one.client for one in formats):
        return NOTHING
    try:
        status = Path(file).stat()
    except OSError:
        return NOTHING
    key = (file, status.st_size, status.st_mtime_ns, *((one.name, one.layout) for one in formats))
    if key not in _learned:
        if len(_learned) >= _MOST_KEPT:
            del _learned[next(iter(_learned))]
        _learned[key] = _learn_file(
            file, status.st_size, min(max(0, status.st_mtime_ns // 1_000_000), _LATEST_MS), packed, formats
        )
    return _learned[key]


_MOST_KEPT = 256
_learned: dict[tuple[object, ...], Learned] = {}


def _learn_file(file: str, size: int, modified_ms: int, packed: bool, formats: Sequence[Format]) -> Learned:
    try:
        with open_packed(file) if packed else Path(file).open("rb", buffering=0) as opened:
            blocks = _blocks(UntilBroken(opened))
            tail = b"" if packed else _tail(file, size)
            learned = learn_blocks(blocks, tail, modified_ms, formats)
    except READ_ERRORS:
        return NOTHING
    everybody = tuple(one.client for one in formats if one.client is not None)
    return learned._replace(clients=everybody) if size <= _LARGE else learned


def _tail(file: str, size: int) -> bytes:
    with Path(file).open("rb") as handle:
        handle.seek(max(0, size - _TAIL))
        return handle.read(_TAIL)


def _blocks(handle: UntilBroken) -> Iterator[bytes]:
    for _ in range(MOST_BLOCKS):
        parts: list[bytes] = []
        have = 0
        while have < BLOCK and (part := handle.read(BLOCK - have)):
            parts.append(part)
            have += len(part)
        if not have:
            return
        yield b"".join(parts)


def learn_blocks(blocks: Iterator[bytes], tail: bytes, modified_ms: int, formats: Sequence[Format]) -> Learned:
    """What a file tells that consists of these blocks."""
    known = [one for one in formats if one.client is None]
    clients = tuple(one.client for one in formats if one.client is not None)
    marks, seen = sorted({mark for client in clients for mark in client.marks}), 0
    head = b""
    for block in blocks:
        head = head or block
        lines, marked = _lines_of(block, marks)
        if not marked:
            continue
        seen += 1
        open_lines, speaking = _unexplained(lines, marked, known, clients)
        if open_lines:
            pattern = next((one.layout for one in formats if one.client is not None), LEARNED)
            return _learn_lines(lines, open_lines, File(head, tail, modified_ms, pattern), speaking)
        if seen >= _ENOUGH:
            break
    return NOTHING


def _unexplained(
    lines: Sequence[bytes], marked: Sequence[int], known: Sequence[Format], clients: Sequence[Client]
) -> tuple[list[int], tuple[Client, ...]]:
    """The lines with marks that no known layout explains, and the clients of those marks.

    Marks may be words of other programs, too: a line in a known layout can be of those alone who print in that layout
    elsewhere, or of anybody where nobody does. An object may begin like that of a known layout and have other names for
    the rest.
    """
    out: list[int] = []
    speaking: set[str] = set()
    own = {client.name: marks_of((client,)) for client in clients}
    owned = {i: _owners(lines, i, known) for i in marked}
    speaks = any(one.candidate.search(lines[i][:LINE_LIMIT]) for i in marked for one in owned[i])
    for i in marked:
        line = lines[i][:LINE_LIMIT]
        if any(one.candidate.search(line) for one in owned[i]):
            continue
        text = line.decode("utf-8", "replace") if line.startswith(b"{") else ""
        told = frozenset(one.name for one in owned[i] if not text or one.parse(text, UTC) is not None)
        kin = _kin(told, known) if told and speaks else own.keys()
        strange = {name for name in sorted(kin - told) if name in own and own[name].search(line)}
        if strange:
            speaking |= strange
            out.append(i)
    return out, tuple(client for client in clients if client.name in speaking)


def _kin(names: frozenset[str], known: Sequence[Format]) -> frozenset[str]:
    """Who may print in a layout of these: those who share another layout with them."""
    shared = {one.header for one in known if one.name in names}
    return frozenset(one.name for one in known if one.header in shared)


def _owners(lines: Sequence[bytes], at: int, known: Sequence[Format]) -> list[Format]:
    """The known layouts of the entry to which a line belongs."""
    for i in range(at, max(-1, at - _LONGEST_ENTRY), -1):
        line = lines[i]
        found = [one for one in known if line[:1] and line[0] in one.first and one.header.match(line)]
        if found or not CONTINUES(line):
            return found
    return []


def _lines_of(block: bytes, marks: Sequence[bytes]) -> tuple[list[bytes], list[int]]:
    """The lines of a block, and some of those with marks."""
    found = places(block, marks)
    if not found:
        return [], []
    lines = block.split(b"\n")
    starts = list(accumulate((len(line) + 1 for line in lines), initial=0))
    marked = sorted({bisect_right(starts, place) - 1 for place in found})
    return lines, marked[:: max(1, len(marked) // _MOST_MARKED)]


def _learn_lines(lines: Sequence[bytes], marked: Sequence[int], file: File, clients: Sequence[Client]) -> Learned:
    some = marked[:: max(1, len(marked) // _MARKED_LINES)]
    wanted = set(range(min(_FIRST_LINES, len(lines))))
    for i in some:
        wanted.update(range(max(0, i - _BEFORE), min(len(lines), i + _BEHIND)))
    chosen = [lines[i].removesuffix(b"\r") for i in sorted(wanted) if len(lines[i]) <= _LONGEST]
    texts = tuple(line.decode("utf-8", "replace") for line in chosen)
    table: Table | None = find_pretty(file.head) or find_csv(file.head.decode("utf-8", "replace"))
    if table is not None:
        texts = tuple(_rows(file.head, table))
    sample = Sample(texts, stamps.Clock(UTC, file.modified_ms), table)
    stated = None if file.pattern == LEARNED else parse_pattern(file.pattern)
    layouts = state(sample, clients, stated) if stated else learn(sample, clients)
    layouts = with_hours(layouts, texts, file.tail[-_TAIL:].decode("utf-8", "replace").split("\n"))
    guesses = () if layouts else explain_failure(sample, clients)
    rows = isinstance(table, Pretty) or any(frame.name == "csv" for layout in layouts for frame in layout.frames)
    speaking = tuple(one for one in clients if any(one.name in layout.speaking for layout in layouts))
    return Learned(layouts, guesses, table if layouts and rows else None, speaking)


def _rows(data: bytes, table: Table) -> Iterator[str]:
    """The first rows of a table, those of several lines as they stand."""
    row: list[bytes] = []
    closed, count = table.closer(), 0
    for line in data.split(b"\n"):
        row.append(line.removesuffix(b"\r"))
        if closed(row):
            yield b"\n".join(row).decode("utf-8", "replace")
            row, count = [], count + 1
            if count >= _MOST_ROWS:
                return


_MOST_ROWS = 3000
