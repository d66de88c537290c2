"""Samples the lines from which a file's layouts are learned: its beginning, and the lines around client marks that no
known layout explains.

The result depends only on the file, so that the reader of any piece learns the same. It is cached.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from fsm.logs import LEARNED, Client, Format
from fsm.logs.exports.box_tables import Boxed
from fsm.logs.exports.broken_lines import find_broken
from fsm.logs.exports.tables import Table, find_table, rows_of
from fsm.logs.layouts import stamps
from fsm.logs.layouts.descriptions import add_hours, are_cut, explains
from fsm.logs.layouts.fields import Csv
from fsm.logs.layouts.frames import clean
from fsm.logs.layouts.java_layouts import has_more
from fsm.logs.layouts.layout import Layout, find_families, group_by_client, marks_of
from fsm.logs.layouts.learned import Guess, explain_failure, learn, use_layout
from fsm.logs.layouts.marked_lines import Sample, sample_shapes
from fsm.logs.layouts.pattern import parse_pattern
from fsm.logs.layouts.quotes import FEWEST_PRINTED, find_related
from fsm.logs.layouts.ties import are_ties_in_order, do_fall
from fsm.logs.reading.blocks import Numbers, line_bounds
from fsm.logs.reading.entries import CONTINUES, LINE_LIMIT, Run, find_owners, headers_by_first
from fsm.logs.reading.opening import READ_ERRORS, DamageTolerant, SizeLimited, open_bytes, open_packed

BLOCK = 1 << 20
MOST_BLOCKS = 32
"""How many blocks are searched for marks."""
_PART = 1 << 14
"""Bytes of a block that are sampled together."""
_ENOUGH_MARKED = 40
"""Marked lines of a block, all explained by known layouts, after which the rest of the block is skipped."""
_FEW_OF_CLIENT = 12
"""Lines of a client among many more of others that are sampled at least."""
_FIRST_LINES, _MARKED_LINES, _LINES_BEFORE, _LINES_AFTER = 80, 40, 3, 10
_LONGEST = 1 << 16
_TAIL = 1 << 12
_MOST_MARKED = 100
_LATEST_MS = 253_402_300_799_000
"""The end of the year 9999."""
_LONGEST_ENTRY = 400
"""How many lines before a mark are searched for the first line of its entry."""
_LARGE = 4 << 20
_ENOUGH = 2
"""Blocks with marks, all explained by known layouts, after which no more blocks are read."""


class File(NamedTuple):
    """Parts of a file."""

    head: bytes
    tail: bytes
    modified_ms: int
    pattern: str = LEARNED
    """The layout, if the user specified one."""


class Learned(NamedTuple):
    """What was learned about the layouts of a file."""

    layouts: tuple[Layout, ...]
    guesses: tuple[Guess, ...]
    """The likeliest layouts and why they fail, if there are client messages but no layout could be learned."""
    table: Table | None
    """The table whose rows are the entries. Only quotes and braces delimit rows, so the file cannot be cut."""
    clients: tuple[Client, ...]
    """The clients to look for in learned layouts: in a large file only those understood in the sample."""
    falls: bool = False
    """The newest entry of a known layout comes first."""
    sorted: bool = False
    """The lines are in the order of their texts, as `sort` leaves them, not in that in which they were printed."""

    @property
    def reversed(self) -> bool:
        """The newest entry comes first."""
        return self.falls or any(layout.description.reversed for layout in self.layouts)

    @property
    def whole(self) -> bool:
        """The file cannot be read in pieces; lines without a time are as old as those above them."""
        return self.table is not None or self.reversed or any(layout.is_partly_timed for layout in self.layouts)


NOTHING = Learned((), (), None, ())


def learn_file(file: str, packed: bool, formats: Sequence[Format]) -> Learned:
    """The layouts of the messages of these formats' clients in a file, beyond the known layouts."""
    try:
        status = Path(file).stat()
    except OSError:
        return NOTHING
    key = (file, status.st_size, status.st_mtime_ns, *((one.name, one.layout) for one in formats))
    if key not in _learned:
        if len(_learned) >= _MOST_KEPT:
            del _learned[next(iter(_learned))]
        _learned[key] = _learn_file(file, status.st_size, status.st_mtime_ns // 1_000_000, packed, formats)
    return _learned[key]


_MOST_KEPT = 256
_learned: dict[tuple[object, ...], Learned] = {}


def _learn_file(file: str, size: int, modified_ms: int, packed: bool, formats: Sequence[Format]) -> Learned:
    if not any(one.client for one in formats):
        return NOTHING
    try:
        with open_packed(file) if packed else Path(file).open("rb", buffering=0) as opened:
            handle = DamageTolerant(opened if packed else SizeLimited(opened, size))
            blocks = _trim_lines(_read_in_order(handle) if packed else _read_spread(handle, size))
            tail = b"" if packed else _read_tail(file, size)
            learned = _learn_blocks(blocks, tail, min(max(0, modified_ms), _LATEST_MS), formats)
    except READ_ERRORS:
        return NOTHING
    all_clients = tuple(one.client for one in formats if one.client is not None)
    return learned._replace(clients=all_clients) if size <= _LARGE else learned


def learn_beginning(file: str, size: int, modified_ms: int, formats: Sequence[Format]) -> Learned:
    """`learn_file` for a plain file at an earlier size and modification time."""
    return _learn_file(file, size, modified_ms, False, formats)


def learn_bytes(data: bytes, modified_ms: int, formats: Sequence[Format]) -> Learned:
    """`learn_file` for a text in memory."""
    return _learn_blocks(_trim_lines(_read_in_order(open_bytes(data))), data[-BLOCK:], modified_ms, formats)


def _read_tail(file: str, size: int) -> bytes:
    with Path(file).open("rb") as handle:
        start = max(0, size - _TAIL)
        handle.seek(start)
        return handle.read(size - start)


Block = tuple[int, bytes, bool]
"""The offset of the block, its data, and whether the file ends there."""


def _read_spread(handle: DamageTolerant, size: int) -> Iterator[Block]:
    """Blocks spread over a file: its beginning, its end, its middle and so on."""
    count = -(-size // BLOCK)
    chosen = (
        range(count)
        if count <= MOST_BLOCKS
        else sorted({i * (count - 1) // (MOST_BLOCKS - 1) for i in range(MOST_BLOCKS)})
    )
    for i in sorted(chosen, key=lambda i: (i != 0, i != count - 1, f"{i:b}"[::-1])):
        handle.seek(i * BLOCK)
        yield i * BLOCK, handle.fill(BLOCK), i == count - 1


def _read_in_order(handle: DamageTolerant) -> Iterator[Block]:
    """The first blocks of a file, in order."""
    for i in range(MOST_BLOCKS):
        block = handle.fill(BLOCK)
        if not block:
            return
        yield i * BLOCK, block, len(block) < BLOCK


def _trim_lines(blocks: Iterable[Block]) -> Iterator[bytes]:
    """The blocks without the partial lines at their ends."""
    for offset, block, last in blocks:
        start = block.find(b"\n") + 1 if offset else 0
        end = len(block) if last else block.rfind(b"\n")
        yield block[start : end if end > start else len(block)]


def _learn_blocks(blocks: Iterator[bytes], tail: bytes, modified_ms: int, formats: Sequence[Format]) -> Learned:
    """What is learned from a file of these blocks of whole lines.

    A block that is explained neither by the known layouts nor by those learned from an earlier block is learned from,
    too: a layout may begin in the middle of a file.
    """
    known = tuple(one for one in formats if one.client is None)
    clients = tuple(one.client for one in formats if one.client is not None)
    pattern = next((one.layout for one in formats if one.client is not None), LEARNED)
    learned, seen, head, strange, falls, is_sorted = NOTHING, 0, b"", False, False, False
    lines: list[bytes] = []
    marked: list[int] = []
    for block in blocks:
        head = head or block
        some = _sample(block, clients)
        if not any(found for _, found in some):
            continue
        seen += 1
        broken = seen == 1 and find_broken(head) is not None
        rare = _find_rare(block, some, clients)
        if broken or any(_is_new(part, found, known, clients, learned.layouts) for part, found in (*some, *rare)):
            own, found = _select_lines(block, clients)
            found = sorted({*found, *(i for _, its in rare for i in its)})
            # A partial line may look like one of a known layout.
            open_lines, speaking, is_strange = (
                _Unexplained(found, clients, True) if broken else _find_unexplained(own, found, known, clients)
            )
            marked += [len(lines) + i for i in open_lines]
            lines += own
            if open_lines:
                speaking = tuple(one for one in clients if one in (*learned.clients, *speaking))
                learned = _learn_lines(lines, marked, File(head, tail, modified_ms, pattern), speaking)
                strange = strange or is_strange
                learned = learned if strange else learned._replace(guesses=())
        if seen == 1:
            falls, is_sorted = _falls(block, stamps.Clock(UTC, modified_ms)), _are_sorted(block)
        if seen >= _ENOUGH or learned.table is not None or learned.reversed:
            break
    return learned._replace(falls=falls and not learned.layouts, sorted=is_sorted)


def is_plain(block: bytes, bounds: Numbers, modified_ms: int) -> bool:
    """Whether the lines of a block with these bounds are whole, and in the order in which they were printed."""
    clock = stamps.Clock(UTC, modified_ms)
    return find_broken(block, bounds) is None and not _falls(block, clock) and not _are_sorted(block)


def _are_sorted(block: bytes) -> bool:
    """Whether the lines are in the order of their texts, also those of one time, of which some are."""
    lines = block.removesuffix(b"\n").split(b"\n")
    if any(below < above for above, below in pairwise(lines)):
        return False
    texts = (line[: stamps.WITHIN].decode("utf-8", "replace") for line in lines)
    found = [time and time[0] for time in (next(stamps.find(text), None) for text in texts)]
    return sum(above is not None and above == below for above, below in pairwise(found)) >= _FEWEST_TIES


_FEWEST_TIES = 5
"""Of a thousand recorded logs none had more than two lines of one time, all of them in the order of their texts."""


def _falls(block: bytes, clock: stamps.Clock) -> bool:
    """Whether most lines spread over a block are older than those above them."""
    starts = sorted({0, *(block.find(b"\n", i * len(block) // _MOST_TIMES) + 1 for i in range(_MOST_TIMES))})
    first, last = (next(_read_times(block, some, clock), 0) for some in (starts, starts[::-1]))
    if last >= first:
        return False
    falls = do_fall(list(_read_times(block, starts, clock)))
    return falls and not are_ties_in_order(block.decode("utf-8", "replace").split("\n"))


def _read_times(block: bytes, starts: Sequence[int], clock: stamps.Clock) -> Iterator[int]:
    """The times of the lines that begin there, without those that have none."""
    for start in starts:
        text = block[start : start + stamps.WITHIN].partition(b"\n")[0].decode("utf-8", "replace")
        found = next(stamps.find(text), None)
        read = None if found is None else stamps.read(found[0], clock, (found.lastgroup or "",))
        if read is not None:
            yield read.ms


_MOST_TIMES = 24


def _is_new(
    lines: Sequence[bytes],
    marked: Sequence[int],
    known: tuple[Format, ...],
    clients: tuple[Client, ...],
    layouts: Sequence[Layout],
) -> bool:
    """Whether marked lines have none of the known layouts, and most of them none of the learned ones."""
    open_lines = _find_unexplained(lines, marked, known, clients).lines
    texts = [clean(lines[i][:LINE_LIMIT].decode("utf-8", "replace")).removesuffix("\r") for i in open_lines]
    return 2 * sum(not any(explains(layout, text) for layout in layouts) for text in texts) > len(texts)


_Lines = tuple[list[bytes], list[int]]
"""Lines, and the indices of those with client marks."""


def _sample(block: bytes, clients: tuple[Client, ...]) -> list[_Lines]:
    """Parts of a block, spread over it until they contain enough marks; the whole block if few lines have marks."""
    if len(block) <= 2 * _PART:
        return [_select_lines(block, clients)]
    count = -(-len(block) // _PART)
    out: list[_Lines] = []
    found = 0
    for i in sorted(range(count), key=lambda i: f"{i:b}"[::-1]):
        start = block.find(b"\n", i * _PART) + 1 if i else 0
        end = block.find(b"\n", min(len(block), (i + 1) * _PART)) + 1 or len(block)
        out.append(_select_lines(block[start:end], clients))
        found += len(out[-1][1])
        if found >= _ENOUGH_MARKED:
            break
    return out


def _find_rare(block: bytes, some: Sequence[_Lines], clients: tuple[Client, ...]) -> list[_Lines]:
    """Some lines of each client that has few of the lines sampled from a block, or none."""
    sampled = [lines[i] for lines, found in some for i in found]
    if len(block) <= 2 * _PART and len(sampled) < _MOST_MARKED:
        return []  # these are all
    rare = find_families(block, line_bounds(block), *_split_clients(sampled, clients)).values()
    lines = block.split(b"\n") if rare else []
    return [(lines, sample_shapes(lines, its, _FEW_OF_CLIENT)) for its in rare]


def _split_clients(
    sampled: Sequence[bytes], clients: tuple[Client, ...]
) -> tuple[tuple[Client, ...], tuple[Client, ...]]:
    """The clients with few of the sampled lines or none, and the others."""
    found = group_by_client(sampled, range(len(sampled)), clients)
    often = tuple(one for one in clients if len(found.get(one, ())) >= _FEW_OF_CLIENT)
    return tuple(one for one in clients if one not in often), often


def _list_owners(
    lines: Sequence[bytes], marked: Sequence[int], known: tuple[Format, ...]
) -> dict[int, tuple[Format, ...]]:
    """The known layouts of the entries to which the marked lines (ascending indices) belong."""
    by_first = headers_by_first(known)
    out: dict[int, tuple[Format, ...]] = {}
    for at in marked:
        out[at] = ()
        for i in range(at, max(-1, at - _LONGEST_ENTRY), -1):
            found = find_owners(lines[i], by_first)
            if found or not CONTINUES(lines[i]):
                out[at] = found
                break
            if i != at and i in out:
                out[at] = out[i]
                break
    return out


class _Unexplained(NamedTuple):
    """The marked lines that no known layout explains."""

    lines: Sequence[int]
    clients: tuple[Client, ...]
    """The clients of their marks."""
    strange: bool
    """Whether some of them do not have a known layout of these clients."""


def _find_unexplained(
    lines: Sequence[bytes], marked: Sequence[int], known: tuple[Format, ...], clients: tuple[Client, ...]
) -> _Unexplained:
    """The marked lines that no known layout explains.

    Marks may also be words of other programs: a line in a known layout can only be of clients that print in that layout
    elsewhere, or of another one if these lines are too many for quotes. A JSON object may begin like that of a known
    layout and have other names for the rest.
    """
    out: list[int] = []
    speaking: set[str] = set()
    names = frozenset(client.name for client in clients)
    others: dict[frozenset[str], tuple[Client, ...]] = {}  # the clients that may print in these layouts
    owned = _list_owners(lines, marked, known)
    hits = {i: [one for one in its if one.candidate.search(lines[i][:LINE_LIMIT])] for i, its in owned.items()}
    explained = {i: its for i, its in hits.items() if its}
    misread = _find_misread(lines, explained)
    printed_by_others = not explained and len(owned) >= FEWEST_PRINTED
    rest = [i for i in marked if i not in explained]
    families = group_by_client(lines, rest, clients) if len(rest) >= FEWEST_PRINTED else {}
    printing = {client.name for client, its in families.items() if len(its) >= FEWEST_PRINTED}
    strange = bool(misread)
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
            related = find_related(matching, known) if matching and explained else names
            others[matching] = tuple(
                one
                for one in clients
                if one.name in related | printing and (printed_by_others or one.name not in matching)
            )
        if others[matching] and marks_of(others[matching]).search(line):
            silent = (one for one in others[matching] if one.name not in speaking)
            speaking |= {one.name for one in silent if marks_of((one,)).search(line)}
            foreign = tuple(one for one in others[matching] if one.name not in matching)
            strange = strange or (bool(foreign) and marks_of(foreign).search(line))
            out.append(i)
    return _Unexplained(out, tuple(client for client in clients if client.name in speaking), strange)


def _find_misread(lines: Sequence[bytes], explained: Mapping[int, Sequence[Format]]) -> frozenset[int]:
    """The lines that look like a known layout but cannot be read in it. If only the client's words can be the cause, a
    small number of them is ignored."""
    understood, not_understood, other_layout = 0, set[int](), set[int]()
    for i, its in explained.items():
        line = lines[i][:LINE_LIMIT]
        asked = [one for one in its if one.header.match(line)]
        several = line.startswith(b"{") and b"}{" in line  # objects, one behind the other
        if not asked or (line.startswith(b"{") and not several):
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
            (other_layout if several or has_more(entry) else not_understood).add(i)
    few = len(not_understood) < _FEWEST_MISREAD or len(not_understood) < understood / 4
    return frozenset(other_layout if few else other_layout | not_understood)


_FEWEST_MISREAD = 3


def _find_below(lines: Sequence[bytes], first: int, owners: Iterable[Format]) -> Iterator[bytes]:
    """The continuation lines of an entry of these formats that begins at line `first`."""
    for line in lines[first + 1 : first + _LONGEST_ENTRY]:
        if not CONTINUES(line) or any(one.header.match(line) for one in owners):
            return
        yield line


def _select_lines(block: bytes, clients: tuple[Client, ...]) -> _Lines:
    """The lines of a block, and some of the marked ones."""
    marked = marks_of(clients).lines(block, line_bounds(block)).tolist()
    if not marked:
        return [], []
    lines = block.split(b"\n")
    return lines, sample_shapes(lines, marked, _MOST_MARKED)


def _learn_lines(lines: Sequence[bytes], marked: Sequence[int], file: File, clients: tuple[Client, ...]) -> Learned:
    texts = _choose(lines, marked, clients)
    clock = stamps.Clock(UTC, file.modified_ms)
    stated = None if file.pattern == LEARNED else parse_pattern(file.pattern)
    table = find_table(file.head)
    for of_rows in (True, False) if table is not None else (False,):
        if of_rows:
            rows = [row.removesuffix(b"\r") for _, _, row, _ in rows_of([Run(0, 1, file.head.split(b"\n"))], table)]
            some_texts = tuple(row.decode("utf-8", "replace") for row in rows[:_MOST_ROWS])
            if len(rows) > _MOST_ROWS:
                has_marks = [i for i, row in enumerate(rows) if marks_of(clients).search(row)]
                some_texts = _choose(rows, has_marks, clients)
        else:
            some_texts = texts
        sample = Sample(some_texts, clock, table if of_rows else None, not isinstance(table, Boxed) and are_cut(lines))
        layouts = use_layout(sample, clients, stated) if stated else learn(sample, clients)
        if layouts:
            break
    layouts = add_hours(layouts, some_texts, file.tail[-_TAIL:].decode("utf-8", "replace").split("\n"))
    guesses = () if layouts else explain_failure(sample, clients)
    in_rows = of_rows and (
        not isinstance(table, Csv) or any(frame.name == "csv" for layout in layouts for frame in layout.frames)
    )
    speaking = tuple(one for one in clients if any(one.name in layout.understood for layout in layouts))
    return Learned(layouts, guesses, table if layouts and in_rows else None, speaking)


def _choose(lines: Sequence[bytes], marked: Sequence[int], clients: tuple[Client, ...]) -> tuple[str, ...]:
    """The first lines, and the lines around marks: at most `_MARKED_LINES`, and a few of each client with hardly any of
    these."""
    wanted = set(range(min(_FIRST_LINES, len(lines))))
    chosen = sample_shapes(lines, marked, _MARKED_LINES)
    for its in group_by_client(lines, marked, *_split_clients([lines[i] for i in chosen], clients)).values():
        chosen += sample_shapes(lines, its, _FEW_OF_CLIENT)
    for i in chosen:
        wanted.update(range(max(0, i - _LINES_BEFORE), min(len(lines), i + _LINES_AFTER)))
    texts = (lines[i].removesuffix(b"\r") for i in sorted(wanted) if len(lines[i]) <= _LONGEST)
    return tuple(text.decode("utf-8", "replace") for text in texts)


_MOST_ROWS = 1000
