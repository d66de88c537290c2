"""What a file's layout is learned from: its beginning and lines around marks of clients that no known layout explains.

Whoever reads any piece of a file learns the same, for only the file decides. The result is kept for a while.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from fsm.logs import LEARNED, Client, Format, Header
from fsm.logs.exports.box_tables import Boxed
from fsm.logs.exports.broken_lines import find_broken
from fsm.logs.exports.tables import Table, find_table, rows_of
from fsm.logs.layouts import stamps
from fsm.logs.layouts.fields import Csv
from fsm.logs.layouts.frames import clean
from fsm.logs.layouts.java_layouts import has_more
from fsm.logs.layouts.layout import Layout, marks_of
from fsm.logs.layouts.learned import (
    Guess,
    Sample,
    are_cut,
    explain_failure,
    explains,
    learn,
    of_each_shape,
    state,
    with_hours,
)
from fsm.logs.layouts.pattern import parse_pattern
from fsm.logs.reading.blocks import line_bounds
from fsm.logs.reading.entries import CONTINUES, LINE_LIMIT, Run
from fsm.logs.reading.opening import READ_ERRORS, UntilBroken, UpTo, in_memory, open_packed

BLOCK = 1 << 20
MOST_BLOCKS = 32
"""How far a mark is looked for, in blocks."""
_PART = 1 << 14
"""Bytes of a block that are looked at together."""
_ENOUGH_MARKED = 40
"""Lines with marks in a block, all explained by known layouts, after which no more of it is looked at."""
_FIRST_LINES, _MARKED_LINES, _BEFORE, _BEHIND = 80, 40, 3, 10
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
            handle = UntilBroken(opened if packed else UpTo(opened, size))
            blocks = _whole_lines(_in_turn(handle) if packed else _spread(handle, size))
            tail = b"" if packed else _tail(file, size)
            learned = _learn_blocks(blocks, tail, modified_ms, formats)
    except READ_ERRORS:
        return NOTHING
    everybody = tuple(one.client for one in formats if one.client is not None)
    return learned._replace(clients=everybody) if size <= _LARGE else learned


def learn_beginning(file: str, size: int, modified_ms: int, formats: Sequence[Format]) -> Learned:
    """`learn_file` of a plain file as it was when it had a size, and was changed last at a time."""
    if not any(one.client for one in formats):
        return NOTHING
    return _learn_file(file, size, min(max(0, modified_ms), _LATEST_MS), False, formats)


def learn_bytes(data: bytes, modified_ms: int, formats: Sequence[Format]) -> Learned:
    """`learn_file` of a text in memory."""
    if not any(one.client for one in formats):
        return NOTHING
    return _learn_blocks(_whole_lines(_in_turn(in_memory(data))), data[-BLOCK:], modified_ms, formats)


def _tail(file: str, size: int) -> bytes:
    with Path(file).open("rb") as handle:
        start = max(0, size - _TAIL)
        handle.seek(start)
        return handle.read(size - start)


Block = tuple[int, bytes, bool]
"""Where it stands in its file, and whether the file ends there."""


def _spread(handle: UntilBroken, size: int) -> Iterator[Block]:
    """Blocks spread over a file: its beginning, its end, its middle and so on."""
    count = -(-size // BLOCK)
    chosen = (
        range(count)
        if count <= MOST_BLOCKS
        else sorted({i * (count - 1) // (MOST_BLOCKS - 1) for i in range(MOST_BLOCKS)})
    )
    for i in sorted(chosen, key=lambda i: (i != 0, i != count - 1, f"{i:b}"[::-1])):
        handle.seek(i * BLOCK)
        yield i * BLOCK, _fill(handle), i == count - 1


def _in_turn(handle: UntilBroken) -> Iterator[Block]:
    """The first blocks of a file."""
    for i in range(MOST_BLOCKS):
        block = _fill(handle)
        if not block:
            return
        yield i * BLOCK, block, len(block) < BLOCK


def _fill(handle: UntilBroken) -> bytes:
    parts: list[bytes] = []
    have = 0
    while have < BLOCK and (part := handle.read(BLOCK - have)):
        parts.append(part)
        have += len(part)
    return b"".join(parts)


def _whole_lines(blocks: Iterable[Block]) -> Iterator[bytes]:
    """The blocks without the parts of lines at their ends."""
    for offset, block, last in blocks:
        start = block.find(b"\n") + 1 if offset else 0
        end = len(block) if last else block.rfind(b"\n")
        yield block[start : end if end > start else len(block)]


def _learn_blocks(blocks: Iterator[bytes], tail: bytes, modified_ms: int, formats: Sequence[Format]) -> Learned:
    """What a file tells that consists of these blocks of whole lines.

    A block whose lines neither the known layouts explain nor those learned from an earlier block is learned from, too:
    a layout may begin in the middle of a file.
    """
    known = _known(tuple(one for one in formats if one.client is None))
    clients = tuple(one.client for one in formats if one.client is not None)
    pattern = next((one.layout for one in formats if one.client is not None), LEARNED)
    learned, seen, head = NOTHING, 0, b""
    lines: list[bytes] = []
    marked: list[int] = []
    for block in blocks:
        head = head or block
        some = _sample(block, clients)
        if not any(found for _, found in some):
            continue
        seen += 1
        broken = seen == 1 and find_broken(head) is not None
        if broken or any(_is_new(part, found, known, clients, learned.layouts) for part, found in some):
            own, found = _lines_of(block, clients)
            # The first part of a line may look like one of a known layout.
            open_lines, speaking = (found, clients) if broken else _find_unexplained(own, found, known, clients)
            marked += [len(lines) + i for i in open_lines]
            lines += own
            if open_lines:
                speaking = tuple(one for one in clients if one in (*learned.clients, *speaking))
                learned = _learn_lines(lines, marked, File(head, tail, modified_ms, pattern), speaking)
        if seen >= _ENOUGH or learned.whole:
            break
    return learned


def _is_new(
    lines: Sequence[bytes],
    marked: Sequence[int],
    known: _Known,
    clients: tuple[Client, ...],
    layouts: Sequence[Layout],
) -> bool:
    """Whether lines with marks stand in none of the known layouts, and most of those in none of the learned ones."""
    open_lines, _ = _find_unexplained(lines, marked, known, clients)
    texts = [clean(lines[i][:LINE_LIMIT].decode("utf-8", "replace")).removesuffix("\r") for i in open_lines]
    return 2 * sum(not any(explains(layout, text) for layout in layouts) for text in texts) > len(texts)


_Lines = tuple[list[bytes], list[int]]
"""Lines, and which of them hold marks of clients."""


def _sample(block: bytes, clients: tuple[Client, ...]) -> list[_Lines]:
    """Parts of a block, spread over all of it until they have marks enough; all of it where few lines have marks."""
    if len(block) <= 2 * _PART:
        return [_lines_of(block, clients)]
    count = -(-len(block) // _PART)
    out: list[_Lines] = []
    found = 0
    for i in sorted(range(count), key=lambda i: f"{i:b}"[::-1]):
        start = block.find(b"\n", i * _PART) + 1 if i else 0
        end = block.find(b"\n", min(len(block), (i + 1) * _PART)) + 1 or len(block)
        out.append(_lines_of(block[start:end], clients))
        found += len(out[-1][1])
        if found >= _ENOUGH_MARKED:
            break
    return out


class _Known:
    """Which layouts are known of an entry whose first line this is."""

    def __init__(self, formats: Sequence[Format]) -> None:
        self.formats = formats
        self._headers: dict[int, dict[Header, list[Format]]] = {}
        for one in formats:
            for byte in one.first:
                self._headers.setdefault(byte, {}).setdefault(one.header, []).append(one)

    def owners(self, lines: Sequence[bytes], marked: Sequence[int]) -> dict[int, list[Format]]:
        """The known layouts of the entries to which some lines belong, whose numbers rise."""
        out: dict[int, list[Format]] = {}
        for at in marked:
            out[at] = []
            for i in range(at, max(-1, at - _LONGEST_ENTRY), -1):
                line = lines[i]
                headers = self._headers.get(line[0], {}) if line else {}
                found = [one for header, its in headers.items() if header.match(line) for one in its]
                if found or not CONTINUES(line) or line.startswith(b'{"'):
                    out[at] = found
                    break
                if i != at and i in out:
                    out[at] = out[i]
                    break
        return out


_known = lru_cache(maxsize=16)(_Known)


def _find_unexplained(
    lines: Sequence[bytes], marked: Sequence[int], known: _Known, clients: tuple[Client, ...]
) -> tuple[list[int], tuple[Client, ...]]:
    """The lines with marks that no known layout explains, and the clients of those marks.

    Marks may be words of other programs, too: a line in a known layout can be of those alone who print in that layout
    elsewhere, or of anybody where nobody does. An object may begin like that of a known layout and have other names for
    the rest.
    """
    out: list[int] = []
    speaking: set[str] = set()
    names = frozenset(client.name for client in clients)
    others: dict[frozenset[str], tuple[Client, ...]] = {}  # who may print in the layouts of these
    owned = known.owners(lines, marked)
    explained = {i: hits for i, its in owned.items() if (hits := _candidates(lines[i][:LINE_LIMIT], its))}
    misread = _misread(lines, explained)
    for i, its in owned.items():
        if i in misread:
            named = frozenset(one.name for one in its)
            speaking |= {one.name for one in clients if one.name in named and marks_of((one,)).search(lines[i])}
            out.append(i)
        if i in explained:
            continue
        line = lines[i][:LINE_LIMIT]
        text = line.decode("utf-8", "replace") if line.startswith(b"{") else ""
        matching = frozenset(one.name for one in its if not text or one.parse(text, UTC) is not None)
        if matching not in others:
            kin = _kin(matching, known.formats) if matching and explained else names
            others[matching] = tuple(one for one in clients if one.name in kin and one.name not in matching)
        if others[matching] and marks_of(others[matching]).search(line):
            silent = (one for one in others[matching] if one.name not in speaking)
            speaking |= {one.name for one in silent if marks_of((one,)).search(line)}
            out.append(i)
    return out, tuple(client for client in clients if client.name in speaking)


def _candidates(line: bytes, owners: Iterable[Format]) -> list[Format]:
    return [one for one in owners if one.candidate.search(line)]


def _misread(lines: Sequence[bytes], explained: Mapping[int, Sequence[Format]]) -> frozenset[int]:
    """The lines that look like those of known layouts and cannot be read so; where only what the client says may be the
    cause, none where that are few."""
    understood, not_understood, other_layout = 0, set[int](), set[int]()
    for i, its in explained.items():
        line = lines[i][:LINE_LIMIT]
        asked = [one for one in its if one.header.match(line)]
        if not asked or line.startswith(b"{"):
            continue
        entry = b"\n".join([line, *_find_below(lines, i, asked)]).decode("utf-8", "replace")
        silent = True
        for one in asked:
            found = one.parse(entry, UTC)
            silent = silent and found is None
            if found:
                understood += 1
                break
        if silent:
            (other_layout if has_more(entry) else not_understood).add(i)
    few = len(not_understood) < _FEWEST_MISREAD or len(not_understood) < understood / 4
    return frozenset(other_layout if few else other_layout | not_understood)


_FEWEST_MISREAD = 3


def _find_below(lines: Sequence[bytes], first: int, owners: Iterable[Format]) -> Iterator[bytes]:
    """The lines that continue an entry of these formats which begins with a line."""
    for line in lines[first + 1 : first + _LONGEST_ENTRY]:
        if not CONTINUES(line) or any(one.header.match(line) for one in owners):
            return
        yield line


def _kin(names: frozenset[str], known: Sequence[Format]) -> frozenset[str]:
    """Who may print in a layout of these: those who share another layout with them."""
    shared = {one.header for one in known if one.name in names}
    return frozenset(one.name for one in known if one.header in shared)


def _lines_of(block: bytes, clients: tuple[Client, ...]) -> _Lines:
    """The lines of a block, and some of those with marks."""
    marked = marks_of(clients).lines(block, line_bounds(block)).tolist()
    if not marked:
        return [], []
    lines = block.split(b"\n")
    return lines, of_each_shape(lines, marked, _MOST_MARKED)


def _learn_lines(lines: Sequence[bytes], marked: Sequence[int], file: File, clients: tuple[Client, ...]) -> Learned:
    texts = _choose(lines, marked)
    clock = stamps.Clock(UTC, file.modified_ms)
    stated = None if file.pattern == LEARNED else parse_pattern(file.pattern)
    table = find_table(file.head)
    for of_rows in (True, False) if table is not None else (False,):
        if of_rows:
            rows = [row.removesuffix(b"\r") for _, _, row, _ in rows_of([Run(0, 1, file.head.split(b"\n"))], table)]
            some_texts = tuple(row.decode("utf-8", "replace") for row in rows[:_MOST_ROWS])
            if len(rows) > _MOST_ROWS:
                some_texts = _choose(rows, [i for i, row in enumerate(rows) if marks_of(clients).search(row)])
        else:
            some_texts = texts
        sample = Sample(some_texts, clock, table if of_rows else None, not isinstance(table, Boxed) and are_cut(lines))
        layouts = state(sample, clients, stated) if stated else learn(sample, clients)
        if layouts:
            break
    layouts = with_hours(layouts, some_texts, file.tail[-_TAIL:].decode("utf-8", "replace").split("\n"))
    guesses = () if layouts else explain_failure(sample, clients)
    in_rows = of_rows and (
        not isinstance(table, Csv) or any(frame.name == "csv" for layout in layouts for frame in layout.frames)
    )
    speaking = tuple(one for one in clients if any(one.name in layout.speaking for layout in layouts))
    return Learned(layouts, guesses, table if layouts and in_rows else None, speaking)


def _choose(lines: Sequence[bytes], marked: Sequence[int]) -> tuple[str, ...]:
    """The first lines, and those around marks."""
    wanted = set(range(min(_FIRST_LINES, len(lines))))
    for i in of_each_shape(lines, marked, _MARKED_LINES):
        wanted.update(range(max(0, i - _BEFORE), min(len(lines), i + _BEHIND)))
    chosen = (lines[i].removesuffix(b"\r") for i in sorted(wanted) if len(lines[i]) <= _LONGEST)
    return tuple(line.decode("utf-8", "replace") for line in chosen)


_MOST_ROWS = 1000
