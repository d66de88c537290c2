"""Learns layouts from the lines of a file: the framing and headers that collectors and loggers put around a client's
messages.

A client's messages are recognised by its words (`Client.marks`, `Client.understand`). The rest of such lines is
compared: frames are removed one after another (fields of JSON, logfmt or a table; the parts into which container
runtimes split long lines), then the header is found. A learned layout becomes a `Format` for each client, so that known
and learned layouts share one reader.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC
from functools import cached_property
from itertools import pairwise, takewhile
from typing import Any, NamedTuple

from fsm.logs import Client, Message
from fsm.logs.exports.broken_lines import Side, find_blocks
from fsm.logs.exports.documents import AROUND
from fsm.logs.exports.tables import Table
from fsm.logs.exports.xml_events import XmlEvents
from fsm.logs.layouts import fields as structured
from fsm.logs.layouts import stamps
from fsm.logs.layouts.ends import find_end, find_line_end, find_tail, have_end_fields, strip_end, words_of
from fsm.logs.layouts.frames import GAP, Found, Frame, Named, Numbered, Parts, clean
from fsm.logs.layouts.headers import (
    HEADER_LIMIT,
    SLOTS,
    Header,
    Token,
    find_commonest,
    find_program_end,
    find_program_slots,
    split,
)
from fsm.logs.layouts.layout import ENDS, GAPS, Description, Layout, group_by_client, marks_of, signs_of, unescape
from fsm.logs.layouts.regions import find_parts
from fsm.logs.layouts.ties import are_ties_in_order
from fsm.logs.reading.blocks import join
from fsm.logs.reading.entries import CONTINUES, LINE_LIMIT
from fsm.trace import TraceRecord

MOST_LAYOUTS = 4
"""Per file."""
MOST_FRAMES = 4
MOST_GUESSES = 3
MOST_SAMPLES = 120
"""Lines with a client's message from which a layout is learned."""
ENOUGH_SAMPLES = 40


class Guess(NamedTuple):
    """A layout that failed, and why."""

    pattern: str
    why: str


class Sample(NamedTuple):
    """Lines of a file, in order, and properties of the file."""

    lines: tuple[str, ...]
    clock: stamps.Clock
    table: Table | None = None
    """The table whose rows, rather than lines, are the entries."""
    cut: bool = False
    """Long lines are truncated at a fixed number of bytes."""


def are_cut(lines: Sequence[bytes]) -> bool:
    """Whether several lines are as long as the longest one and have different ends, none of them closing; lines in a
    box all do."""
    longest = max(map(len, lines), default=0)
    ends = {line[-_END:] for line in lines if len(line) == longest and not line.endswith(_CLOSERS)}
    return longest >= _SHORTEST_CUT and len(ends) >= _FEWEST_CUT


_SHORTEST_CUT, _FEWEST_CUT, _END = 500, 4, 20
_CLOSERS = (b")", b"]", b"}", b'"')


def learn(sample: Sample, clients: tuple[Client, ...]) -> tuple[Layout, ...]:
    """The layouts of the messages of these clients."""
    lines = [clean(line) for line in sample.lines]
    marked = _find_marked(lines, clients)
    objects = {i for i, line in enumerate(lines) if (read := structured.json_object(line)) is not None and read[1]}
    families = group_by_client(_encode(lines), marked, clients).values()
    found: list[Layout] = []
    every = range(len(lines))
    for left in ([i for i in marked if i in objects], [i for i in marked if i not in objects]):
        around = every if objects.issuperset(left) else [i for i in every if i not in objects]
        while left and len(found) < MOST_LAYOUTS:
            layouts = _learn(_Lines(lines, left, clients, sample).choose(around))
            rest = [i for i in left if not any(explains(layout, lines[i]) for layout in layouts)]
            if len(rest) == len(left):
                break
            found += [
                _describe(_drop_false_parts(layout, own, clients), own, clients, sample.cut)
                for layout, own in zip(layouts, _divide(lines, layouts), strict=True)
            ]
            is_enough = len(rest) > 0.02 * len(marked) or _has_client(rest, families)
            left = rest if is_enough else []  # noqa: PLW2901
    return tuple(found)


_FEWEST_LINES = 3
"""Lines of a client from which another layout is learned, if most of its lines have none of those learned so far."""


def _has_client(rest: Iterable[int], families: Iterable[Sequence[int]]) -> bool:
    """Whether most lines of a client are among the rest."""
    left = set(rest)
    return any(len(left.intersection(its)) >= max(_FEWEST_LINES, len(its) / 2) for its in families)


def _find_marks(line: str, clients: tuple[Client, ...]) -> list[tuple[Client, int]]:
    """The clients that have a mark in a line, with the position of the first one."""
    if not marks_of(clients).search(line.encode("utf-8", "replace")):
        return []
    out = []
    for client in clients:
        places = [place for mark in words_of(client) if (place := line.find(mark)) >= 0]
        if places:
            out.append((client, min(places)))
    return out


def _find_marked(lines: Sequence[str], clients: tuple[Client, ...]) -> list[int]:
    """The indices of the lines with marks."""
    marked: list[int] = marks_of(clients).lines(*join(_encode(lines))).tolist()
    return marked


def _encode(lines: Sequence[str]) -> list[bytes]:
    return [line.encode("utf-8", "replace") for line in lines]


def sample_shapes(lines: Sequence[str] | Sequence[bytes], chosen: Sequence[int], most: int) -> list[int]:
    """Some of the chosen lines, in order: the first ones of each shape. The shape of a line is its text without the
    values of digits."""
    if len(chosen) <= most:
        return list(chosen)
    seen: Counter[str | bytes] = Counter()
    ranks: list[tuple[int, int]] = []
    for i in chosen:
        line = lines[i][:_SHAPE]
        shape = line.translate(_TEXT_DIGITS) if isinstance(line, str) else line.translate(_DIGITS)
        seen[shape] += 1
        ranks.append((seen[shape], i))
    firsts = [i for rank, i in ranks if rank == 1]
    return firsts[:: -(-len(firsts) // most)] if len(firsts) > most else sorted(i for _, i in sorted(ranks)[:most])


_SHAPE = 300
_DIGITS = bytes(48 if 48 <= i < 58 else i for i in range(256))
_TEXT_DIGITS = str.maketrans("123456789", "000000000")


@dataclass(frozen=True)
class _Lines:
    """Lines behind some frames, and the indices of those with client messages."""

    lines: Sequence[str]
    marked: Sequence[int]
    clients: tuple[Client, ...]
    sample: Sample
    frames: tuple[Frame, ...] = ()

    @cached_property
    def some(self) -> Sequence[int]:
        return sample_shapes(self.lines, self.marked, MOST_SAMPLES)

    def choose(self, part: Sequence[int]) -> _Lines:
        """Only these lines."""
        marked = frozenset(self.marked)
        places = [place for place, i in enumerate(part) if i in marked]
        return replace(self, lines=[self.lines[i] for i in part], marked=places)


def _divide(lines: Sequence[str], layouts: Sequence[Layout]) -> list[Sequence[str]]:
    """The lines of each layout, with what stands below them; all of them if there is only one."""
    if len(layouts) == 1:
        return [lines]
    out: list[list[str]] = [[] for _ in layouts]
    at = 0
    for line in lines:
        at = next((i for i, layout in enumerate(layouts) if explains(layout, line)), at)
        out[at].append(line)
    return [*out]


def _learn(seen: _Lines, divided: int = 0) -> Sequence[Layout]:
    """The layouts of these lines: that of all of them, or those of the parts of the file, if at least as many lines are
    understood in these, and not all of them alike."""
    whole = _learn_alike(seen, divided)
    parts = [seen.choose(part) for part in find_parts(seen.lines, seen.marked)] if divided < _MOST_DIVISIONS else []
    own = [_learn_alike(part, divided + 1) for part in parts]
    if not all(own):
        return whole
    in_whole = [_read(whole, part) for part in parts]
    in_own = [_read(layouts, part) for layouts, part in zip(own, parts, strict=True)]
    if in_own == in_whole or _count_understood(in_own) < _count_understood(in_whole):
        return whole
    return [layout for layouts in own for layout in layouts]


_MOST_DIVISIONS = 2


class _Content(NamedTuple):
    """What is read from the lines of a part."""

    messages: list[tuple[int, Sequence[TraceRecord]]]
    """The time and the records of lines with marks."""
    strange: int
    """Lines that have none of the layouts."""


def _read(layouts: Sequence[Layout], seen: _Lines) -> _Content:
    """What is read from lines in the first of these layouts in which they are understood."""
    inner = [replace(layout, frames=layout.frames[len(seen.frames) :]) for layout in layouts]
    strange = sum(all(layout.look(line) is None for layout in inner) for line in seen.lines)
    return _Content([_read_message(inner, seen, i) for i in seen.some], strange)


def _read_message(layouts: Sequence[Layout], seen: _Lines, i: int) -> tuple[int, Sequence[TraceRecord]]:
    for layout in layouts:
        first = max(0, i - 1) if layout.second is not None else i
        found = layout.message("\n".join(seen.lines[first : i + 1]), layout.clock.zone)
        records = next(filter(None, (one.understand(found[0]) for one in seen.clients)), ()) if found else ()
        if found and records:
            return found[0].ts_ms, records
    return 0, ()


def _count_understood(parts: Sequence[_Content]) -> int:
    """The lines that are understood, and those of them that have a time."""
    return sum(bool(records) + (bool(records) and ms > 0) for part in parts for ms, records in part.messages)


def _learn_alike(seen: _Lines, divided: int) -> Sequence[Layout]:
    """The layout of lines that begin alike, or those of the parts of what its frames contain. A table or pairs without
    a time count only if the lines themselves have none, either."""
    timeless: Sequence[Layout] = ()
    if len(seen.frames) < MOST_FRAMES:
        for find_frame in (
            _find_table,
            _find_grep,
            _find_numbers,
            _find_parts,
            _find_json,
            _find_array,
            _find_service,
            _find_logfmt,
            _find_string,
        ):
            frame = find_frame(seen)
            if frame is None:
                continue
            inner = _join_parts(frame, seen.lines)
            still = _find_marked(inner, seen.clients)
            if len(inner) == len(seen.lines):  # no parts were joined: these are the same lines
                still = sorted({*still}.intersection(seen.marked))
            layouts = _learn(replace(seen, lines=inner, marked=still, frames=(*seen.frames, frame)), divided)
            if layouts and (layouts[0].has_time or frame.name not in _DOUBTFUL):
                return layouts
            timeless = timeless or layouts
    hits = _find_hits(seen)
    if not hits:
        return timeless
    befores = [before for _, before in hits]
    bare = sum(not before for before in befores)
    headers = [] if bare > len(hits) // 2 else find_commonest(map(split, filter(None, befores)))
    timed = any(isinstance(frame, Named) and frame.roles.time for frame in seen.frames)
    if not timed and not any("time" in header.roles for header in headers):
        headers = _find_two_line_headers(seen, hits) or headers
    layout = _make_layout(seen.frames, headers, seen.lines, seen.sample)
    return [layout] if not timeless or layout.has_time else timeless


_DOUBTFUL = ("csv", "logfmt")
"""Frames that some lines only seem to have."""


def _make_layout(frames: tuple[Frame, ...], headers: Sequence[Header], lines: Sequence[str], sample: Sample) -> Layout:
    """The layout with these frames and headers; the lines are unframed."""
    headers = [_choose_date_order(_find_repetition(header, lines), lines, sample.clock) for header in headers]
    headers = _choose_alike(headers, lines)
    programs = tuple(find_program_slots(header, lines) for header in headers)
    repeated, length, stream_groups = _find_repeated(lines, headers, programs)
    after = find_end(lines, headers)
    ends = _find_ends(lines, headers) if after is None and len(headers) > 1 else ()
    return Layout(
        _set_framing(frames, lines, bool(headers)),
        tuple(headers),
        after,
        have_end_fields(lines, headers, after),
        tuple(header.begins(length) for header in headers),
        repeated,
        stream_groups,
        sample.clock,
        indent=_find_indent(lines, headers),
        programs=programs,
        ends=ends,
        line_end=find_line_end(lines, headers, after, repeated),
    )


def _choose_alike(headers: Sequence[Header], lines: Sequence[str]) -> Sequence[Header]:
    """The first header and those with the same prefix before continuation lines. The others are another layout's: what
    collects a file's lines may change in its middle."""
    if len(headers) < 2:
        return headers
    first, *others = headers
    repeated = _find_repeated(lines, headers, ())[0]
    if repeated is not None:
        return [
            first,
            *(one for one in others if any(one.pattern.match(line) and repeated.match(line) for line in lines)),
        ]
    rests = ([one, *(other for other in headers if other is not one)] for one in others)
    return [first, *(rest[0] for rest in rests if _find_repeated(lines, rest, ())[0] is None)]


def _find_ends(lines: Sequence[str], headers: Sequence[Header]) -> tuple[Header | None, ...]:
    """The end of messages behind each header; nothing if none has an end."""
    own: list[list[str]] = [[] for _ in headers]
    for line in lines:
        number = next((i for i, header in enumerate(headers) if header.pattern.match(line)), None)
        if number is not None:
            own[number].append(line)
    found = tuple(find_end(its, [header]) for its, header in zip(own, headers, strict=True))
    return found if any(found) else ()


def _find_indent(lines: Sequence[str], headers: Sequence[Header]) -> str:
    """The blanks before the first line of every entry."""
    found = {
        line[: len(line) - len(line.lstrip(" \t"))] for line in lines if any(h.pattern.match(line) for h in headers)
    }
    return found.pop() if len(found) == 1 else ""


def _find_repetition(header: Header, lines: Sequence[str]) -> Header:
    """The header as it precedes each line of a message, if it does: a collector's header with only a time, after which
    continuation lines are indented."""
    if not header.tokens or {"logger", "thread"} & set(header.roles):
        return header
    tokens = header.tokens[:-1] if header.tokens[-1].kind == "blank" else header.tokens
    before = Header(tokens, header.roles).pattern
    matches = [match for line in lines if (match := before.match(line)) and line[match.end() :].strip()]
    levels = {match[i + 1] for match in matches for i, role in enumerate(header.roles) if role == "level"}
    rests = [match.string[match.end() :] for match in matches]
    blanks = [len(rest) - len(rest.lstrip(" \t")) for rest in rests]
    least = min(blanks, default=0)
    if len(levels) > 1 or sum(count > least for count in blanks) < _FEWEST_INDENTED:
        return header
    return Header((*tokens, Token("blank", str(least))), header.roles)


_FEWEST_INDENTED = 2


_DATES = ("month_day_year", "day_month_year")


def _choose_date_order(header: Header, lines: Sequence[str], clock: stamps.Clock) -> Header:
    """The header with the order of day and month that all of its dates allow; if both are possible, the one whose last
    date is closer to the end of the file."""
    slots = [row for row in header.rows if row in _DATES]
    if not slots:
        return header
    matches = [match for line in lines if (match := header.pattern.match(line)) is not None]
    texts = [text for match in matches for text, row in zip(match.groups(), header.rows, strict=True) if row in _DATES]
    read = {row: [stamps.read(text, clock, (row,)) for text in texts] for row in _DATES}
    late = clock.now_ms + stamps.DAY_MS
    far = {
        row: max((late if one is None else abs(late - one.ms) for one in its), default=0) for row, its in read.items()
    }
    wrong = {row: sum(one is None or one.ms > late for one in its) for row, its in read.items()}
    best = min(_DATES, key=lambda row: (wrong[row], far[row]))
    tokens = tuple(Token("time", best) if token.what in _DATES else token for token in header.tokens)
    return Header(tokens, header.roles)


def _join_parts(frame: Frame, lines: Sequence[str]) -> list[str]:
    """The contents of the frames, with partial lines joined."""
    out: list[str] = []
    goes_on: dict[str, int] = {}
    for line in lines:
        peeled = frame.peel(line)
        if peeled is None:
            out.append("")
            continue
        first = goes_on.pop(peeled.stream, None)
        if first is None:
            first = len(out)
            out.append(peeled.text)
        else:
            out[first] += peeled.text
        if peeled.partial and len(out[first]) < LINE_LIMIT:
            goes_on[peeled.stream] = first
    return out


def _set_framing(frames: tuple[Frame, ...], lines: Sequence[str], headed: bool) -> tuple[Frame, ...]:
    """Frames contain lines of a program, not messages, if those have headers or continuation lines."""
    goes_on = sum(line[:1] in (" ", "\t") and bool(line.strip()) for line in lines) > 0
    return tuple(
        replace(
            frame,
            framing=goes_on
            if frame.name == "csv"
            else frame.name != "xml" and (frame.whole_lines or headed or goes_on),
        )
        if isinstance(frame, Named)
        else frame
        for frame in frames
    )


def _find_two_line_headers(seen: _Lines, hits: Sequence[tuple[int, str]]) -> list[Header]:
    """The header, if its first part is on a separate line above the message."""
    marked = frozenset(seen.marked)
    both = [f"{seen.lines[i - 1]}\n{before}" for i, before in hits if i and i - 1 not in marked]
    found = find_commonest(map(split, both), most=1) if both else []
    fits = sum(found[0].pattern.match(text) is not None for text in both) if found else 0
    return found if fits > 0.6 * len(hits) and {"time", "logger"} & set(found[0].roles) else []


def _find_hits(seen: _Lines) -> list[tuple[int, str]]:
    """Lines with messages, and the text before those. A message begins at the last boundary from which a client
    understands the rest."""
    out: list[tuple[int, str]] = []
    found = {i: _find_marks(seen.lines[i], seen.clients) for i in seen.some}
    tail = find_tail([seen.lines[i][min(mark for _, mark in marks) :] for i, marks in found.items() if marks])
    for i, marks in found.items():
        if len(out) == ENOUGH_SAMPLES:
            break
        for text in dict.fromkeys((strip_end(tail, seen.lines[i]), seen.lines[i])):
            begins = [_find_begin(text, mark, client) for client, mark in marks if mark < len(text)]
            places = [place for place in begins if place is not None and place <= HEADER_LIMIT]
            if places:  # the client that understands more: its message may contain words of another client
                out.append((i, text[: min(places)]))
                break
    return out


_TAIL = re.compile(r"(?:\s*(?:\([^()\s]*\)|\[[^\[\]]*\]|[\"'}>]|\]\]|,|\+\d+(?:ms|[smhd])))[ \t]*\Z")


_ELAPSED = re.compile(r" \+\d+(?:ms|[smhd])[ \t]*\Z", re.ASCII)
_BEFORE_MESSAGES = frozenset("#< \t\n\"':|,;>)]}[({=")


def _find_begin(line: str, mark: int, client: Client) -> int | None:
    tail = structured.end_fields(_ELAPSED.sub("", line))
    fields = tail[1] if tail is not None else {}
    ends = [line if tail is None or len(tail[0]) <= mark else tail[0]]
    for _ in range(2):
        end = _TAIL.search(ends[-1], max(0, len(ends[-1]) - HEADER_LIMIT))
        if end is None or end.start() <= mark:
            break
        ends.append(line[: end.start()])
    for text in ends:
        for place in range(mark, max(-1, mark - HEADER_LIMIT), -1):
            if place and text[place - 1] not in _BEFORE_MESSAGES:
                continue
            message = Message(1, text[place:], fields=fields)
            if client.understand(message) or (
                "\\" in text and client.understand(message._replace(text=unescape(message.text)))
            ):
                return place
    return None


_INDENTED = re.compile(r"[ \t]+\S|Caused by: |Suppressed: |[\w$]{1,100}\.[\w$.]{1,200}(?:Exception|Error)(?::|\s*\Z)")


def _find_repeated(
    lines: Sequence[str], headers: Sequence[Header], programs: Sequence[tuple[tuple[int, bool], ...]]
) -> tuple[re.Pattern[str] | None, int, tuple[int, ...]]:
    """The part of the header that continuation lines have, too, its number of tokens, and its slots that distinguish
    programs. What a collector prints to name a program is before every line, even if no line shows it here."""
    first: list[str] = []
    others: list[str] = []
    own = False  # whether the entry above has the first header
    for line in filter(str.strip, lines):
        number = next((i for i, header in enumerate(headers) if header.pattern.match(line)), None)
        own = own if number is None else number == 0
        if number is not None:
            first.append(line)
        elif own:
            others.append(line)
    tokens = headers[0].tokens if headers else ()
    fits: list[tuple[int, re.Pattern[str], int]] = []
    for end in range(1, len(tokens) if len(others) > 1 else 0):
        if tokens[end - 1].kind == "blank":
            continue
        pattern = Header(tokens[:end], ()).regex
        goes_far = re.compile(pattern, re.ASCII)
        if not any(goes_far.match(line) for line in others):
            break  # no line has a longer part of the header, either
        part = _compile_part(tokens, end, first)
        found = [(line, match) for line in others if (match := part.match(line))]
        last = takewhile(lambda token: token.kind in ("word", "blank"), reversed(tokens[:end]))
        if words := sum(token.kind == "word" for token in last):  # setting names are words, too
            values = {match.groups()[-words:] for line in first if (match := part.match(line))}
            found = [(line, match) for line, match in found if match.groups()[-words:] in values]
        rests = [line[match.end() :] for line, match in found]
        goes_on = sum(_INDENTED.match(rest) is not None for rest in rests)
        if goes_on > 1 and len(rests) > 0.6 * len(others):
            fits.append((goes_on, part, end))
    best = max((goes_on for goes_on, _, _ in fits), default=0)
    longest = [(part, end) for goes_on, part, end in fits if goes_on >= best / 5]
    if not longest and programs and (end := find_program_end(headers[0], programs[0])):
        part = _compile_part(tokens, end, first)
        kept = sum(part.match(line) is not None for line in others)
        longest = [(part, end)] if all(map(part.match, first)) and kept >= len(others) / 2 else []
    if not longest:
        return None, 0, ()
    part, end = longest[-1]
    rows = [match.groups() for line in lines if (match := part.match(line))]
    slots = [token for token in tokens[:end] if token.kind in SLOTS]
    few = [len(set(column)) <= max(3, len(rows) // 8) for column in zip(*rows, strict=True)]  # others are counters
    return part, end, tuple(i for i, slot in enumerate(slots) if slot.kind != "time" and few[i])


def _compile_part(tokens: tuple[Token, ...], end: int, lines: Iterable[str]) -> re.Pattern[str]:
    """The first tokens of a header, with at most as many blanks behind them as each of the lines has."""
    pattern = Header(tokens[:end], ()).regex
    if tokens[end].kind == "blank":
        blank = re.compile(f"{pattern}([ \t]+)", re.ASCII)
        blanks = [len(match[match.lastindex or 0]) for line in lines if (match := blank.match(line))]
        most = int(tokens[end].what) if tokens[end].what.isdigit() else min(blanks, default=1)
        pattern += f"[ \t]{{0,{most}}}"
    return re.compile(pattern, re.ASCII)


def _find_grep(seen: _Lines) -> Frame | None:
    """Only if `grep` printed context lines, which have a hyphen after the file name."""
    lines = [line for line in seen.lines if line and line != GAP.decode()]
    files = {match[1] for line in lines if (match := _FILE.match(line))} if not seen.frames else set()
    beside = [line for line in lines if _BESIDE.match(line)]
    files = {file for file in files if any(line.startswith(f"{file}-") for line in beside)}
    for numbered in (True, False):
        frame = Found(tuple(sorted(files, key=len, reverse=True)), numbered)
        if files and sum(frame.peel(line) is not None for line in lines) > 0.9 * len(lines):
            return frame
    return None


_FILE, _BESIDE = re.compile(r"([^\s:]{1,200}):"), re.compile(r"[^\s:]{1,200}-")


def _find_numbers(seen: _Lines) -> Frame | None:
    for frame in (Numbered(), Numbered(glued=True)):
        found = [match for line in seen.lines if (match := frame.pattern.match(line))]
        numbers = [int(match[1] or match[2]) for match in found]
        columns = sum(match[2] is not None for match in found) > len(found) / 2
        rising = sum(a + 1 == b if columns else a < b for a, b in pairwise(numbers))
        if len(numbers) > 0.9 * len(seen.lines) and rising > 0.9 * len(numbers) - 1:
            return frame
    return None


def _find_parts(seen: _Lines) -> Frame | None:
    frame = Parts()
    some = seen.some
    return frame if sum(frame.peel(seen.lines[i]) is not None for i in some) > 0.6 * len(some) else None


def _find_table(seen: _Lines) -> Frame | None:
    table = seen.sample.table
    if isinstance(table, XmlEvents) and not seen.frames:
        return _find_named("xml", table.read, seen)
    if not isinstance(table, structured.Csv) or seen.frames:
        return None
    found = _find_named("csv", table.read, seen)
    return None if found is None else replace(found, head=seen.lines[0] if table.named else "")


def _find_json(seen: _Lines) -> Frame | None:
    return _find_named("json", structured.json_object, seen)


def _find_array(seen: _Lines) -> Frame | None:
    return _find_named("array", structured.json_array, seen)


def _find_service(seen: _Lines) -> Frame | None:
    return _find_named("teamcity", structured.service_message, seen)


def _find_string(seen: _Lines) -> Frame | None:
    return _find_named("string", structured.json_string, seen)


def _find_logfmt(seen: _Lines) -> Frame | None:
    """Messages may contain pairs, too: a client has to understand one of the values."""
    return _find_named("logfmt", structured.logfmt, seen, sure=True) if _has_quotes(seen) else None


def _has_quotes(seen: _Lines) -> bool:
    """Whether some of the values are quoted, as texts of several words are."""
    first = seen.some[:20]
    return sum('="' in seen.lines[i] or "='" in seen.lines[i] for i in first) > len(first) // 5


def _find_named(name: str, read: structured.Reader, seen: _Lines, *, sure: bool = False) -> Named | None:
    """The frame whose named field contains the clients' messages, if most lines have it; `sure` requires that a client
    understands one of them."""
    some = seen.some
    rows = [found for i in some if (found := read(seen.lines[i])) is not None]
    if len(rows) <= 0.5 * len(some):
        return None
    flat = [structured.flatten(values) for _, values in rows]
    text, known = _find_text_path(flat, seen.clients)
    if not text or (sure and not known):
        return None
    befores = [before for before, _ in rows if before]
    header = find_commonest(map(split, befores), most=1)[0] if len(befores) > len(rows) // 2 else None
    return Named(
        name,
        read,
        structured.roles_of(flat, text, seen.sample.clock),
        header,
        whole_lines=_contain_line_feeds(read, text, seen.lines),
        framing=False,
        programs=find_program_slots(header, befores, timed=True) if header is not None else (),
    )


def _find_text_path(rows: Sequence[Mapping[str, Any]], clients: tuple[Client, ...]) -> tuple[str, bool]:
    """The field with client messages, the fullest if there are several, empty if there is none; and whether any of them
    is understood."""
    scores: Counter[str] = Counter()
    probed: Counter[str] = Counter()
    ever = False
    for row in rows:
        for path, value in row.items():
            marks = _find_marks(value, clients) if isinstance(value, str) else []
            if not marks or path.startswith(f"{AROUND}."):
                continue
            first = value.partition("\n")[0]
            probed[path] += 1
            known = probed[path] <= _PROBES and any(
                _find_begin(first, min(mark, len(first)), client) is not None for client, mark in marks
            )
            ever = ever or known
            scores[path] += 1 + 10 * known + 5 * (path.lower() in _TEXT_NAMES) + 5 * ("full" in path)
    return scores.most_common(1)[0][0] if scores else "", ever


_TEXT_NAMES = ("message", "msg", "log")
_PROBES = 12


def _contain_line_feeds(read: structured.Reader, path: str, lines: Sequence[str]) -> bool:
    """Whether the field's lines include their line feeds, as in Docker's json-file logs, and only one each."""
    rows = [found for line in lines[:400] if (found := read(line)) is not None]
    texts = [text for _, values in rows if isinstance(text := structured.value_at(values, path), str)]
    several = sum("\n" in text[:-1] for text in texts)  # messages, of which some end with a line feed, too
    return sum(text.endswith("\n") for text in texts) > max(several, 0.2 * len(texts))


def explains(layout: Layout, line: str) -> bool:
    """Whether a line begins an entry of the layout."""
    peeled = layout.look(line)
    if layout.second is not None:
        return peeled is not None and layout.second.match(peeled.text) is not None
    return peeled is not None and (not layout.headers or layout.split_header(peeled.text) is not None)


_MOST_LOOKS = 200


def _drop_false_parts(layout: Layout, lines: Sequence[str], clients: tuple[Client, ...]) -> Layout:
    """The layout, without its logger if that is another word, and without its common end if that is part of the
    messages, if clients are understood better then."""
    some = [lines[i] for i in sample_shapes(lines, _find_marked(lines, clients), ENOUGH_SAMPLES)]
    if layout.second is not None:
        some = [f"{above}\n{line}" for above, line in pairwise(lines) if line in some]

    def count_understood(tried: Layout) -> int:
        messages = (tried.message(line, tried.clock.zone) for line in some)
        return sum(found is not None and any(one.understand(found[0]) for one in clients) for found in messages)

    most = count_understood(layout)
    if most == len(some):
        return layout
    frames = tuple(
        replace(frame, roles=frame.roles._replace(logger="")) if isinstance(frame, Named) else frame
        for frame in layout.frames
    )
    after = _drop_logger(layout.after) if layout.after is not None else None
    nameless = replace(layout, frames=frames, headers=tuple(map(_drop_logger, layout.headers)), after=after)
    others = [nameless]
    if layout.after is not None or layout.ends:
        others.append(replace(layout, after=None, line_end=None, ends=()))
    for other in others:
        if (count := count_understood(other)) > most:
            layout, most = other, count
    return layout


def _drop_logger(header: Header) -> Header:
    return Header(header.tokens, tuple("word" if role == "logger" else role for role in header.roles))


def _describe(layout: Layout, lines: Sequence[str], clients: tuple[Client, ...], cut: bool) -> Layout:
    """The layout with its description."""
    some = [line for line in lines if line.strip()]
    if layout.second is not None:
        some = [f"{above}\n{line}" for above, line in pairwise(some) if layout.second.match(line)] or some
    looks = [layout.look(line) for line in some[:: max(1, len(some) // _MOST_LOOKS)]]
    good = [
        peeled is not None and (layout.begins(peeled.text) or bool(CONTINUES(peeled.text.encode("utf-8", "replace"))))
        for peeled in looks
    ]
    example, lost, understood = "", set[str](), set[str]()
    order: list[int] = []
    thread = logger = False
    marked = _find_marked(some, clients)
    for line in map(some.__getitem__, marked[:: max(1, len(marked) // MOST_SAMPLES)]):
        found = layout.message(line, layout.clock.zone)
        if found is None:
            continue
        message, missing = found
        understood |= {one.name for one in clients if one.name not in understood and one.understand(message)}
        example = example or line
        lost |= missing
        thread, logger = thread or bool(message.thread), logger or bool(message.logger)
        order.append(message.ts_ms)
    if layout.frames:
        inner = (layout.look(line) for line in some)
        cut = cut or are_cut([peeled.text.encode("utf-8", "replace") for peeled in inner if peeled is not None])
    whole = not any(isinstance(frame, Found) for frame in layout.frames)
    lost |= {n for n, has in (("thread", thread), ("logger", logger), (ENDS, not cut), (GAPS, whole)) if not has}
    if sum(map(bool, order)) > len(order) / 2:  # the first line of a message may precede the one with its time
        lost -= {"time"}
    if lost >= {"milliseconds"} and any(ms % 1000 for ms in order):
        lost -= {"milliseconds"}
    backwards = sum(b < a for a, b in pairwise(order))
    forwards = sum(b > a for a, b in pairwise(order))
    pattern = " > ".join([frame.name for frame in layout.frames] + [_format_pattern(layout)])
    is_reversed = backwards > 2 * forwards + 2
    if is_reversed:
        # A store that sorts lines by time alone leaves those of one millisecond, as of one entry, in their order.
        side = _find_side(layout, some) if layout.by_lines else None
        is_reversed = not are_ties_in_order(some) if side is None else side is not Side.BELOW
    return replace(
        layout,
        upside_down=is_reversed and layout.by_lines,
        description=Description(
            pattern,
            sum(good) / max(1, len(good)),
            example[:400],
            tuple(sorted(lost & {"zone", "year", "date"})),
            tuple(sorted(lost)),
            is_reversed,
        ),
        understood=frozenset(understood),
    )


def _find_side(layout: Layout, lines: Sequence[str]) -> Side | None:
    """On which side of the first line the other lines of entries are."""
    texts = [peeled.text.encode("utf-8", "replace") for line in lines if (peeled := layout.look(line)) is not None]
    return find_blocks(texts.__getitem__, range(len(texts)), len(texts))


def _format_pattern(layout: Layout) -> str:
    before = layout.headers[0].describe() if layout.headers else ""
    return f"{before}%{{message}}{layout.after.describe() if layout.after else ''}"


def add_hours(layouts: Sequence[Layout], head: Sequence[str], tail: Sequence[str]) -> tuple[Layout, ...]:
    """The layouts, with the times of day at which the file begins and ends if timestamps have no date."""
    return tuple(_add_hours(layout, head, tail) if "date" in layout.description.lost else layout for layout in layouts)


def _add_hours(layout: Layout, head: Sequence[str], tail: Sequence[str]) -> Layout:
    first, last = (next(_read_hours(layout, lines), None) for lines in (head, reversed(tail)))
    return replace(layout, clock=layout.clock._replace(first_ms=first, last_ms=last))


def _read_hours(layout: Layout, lines: Iterable[str]) -> Iterator[int]:
    for line in lines:
        found = layout.message(line, UTC)
        if found is not None and found[0].ts_ms:
            yield found[0].ts_ms % stamps.DAY_MS


def use_layout(sample: Sample, clients: tuple[Client, ...], stated: tuple[Header, Header | None]) -> tuple[Layout, ...]:
    """The layout that the user specified, behind the frames that lines have."""
    before, after = stated
    lines = [clean(line) for line in sample.lines]
    marked = _find_marked(lines, clients)
    seen = _Lines(lines, marked, clients, sample)
    while seen.marked:
        if any(before.pattern.match(seen.lines[i]) for i in seen.marked):
            headers = (before,) if before.tokens else ()
            layout = _make_layout(seen.frames, headers, seen.lines, sample)
            return (_describe(replace(layout, after=after), lines, clients, sample.cut),)
        frame = next(
            (
                found
                for find in (_find_parts, _find_json, _find_logfmt, _find_string)
                if (found := find(seen)) is not None
            ),
            None,
        )
        if frame is None or len(seen.frames) == MOST_FRAMES:
            break
        inner = _join_parts(frame, seen.lines)
        still = _find_marked(inner, clients)
        seen = replace(seen, lines=inner, marked=still, frames=(*seen.frames, frame))
    return ()


def explain_failure(sample: Sample, clients: tuple[Client, ...]) -> tuple[Guess, ...]:
    """The likeliest layouts of lines from which none could be learned, at most `MOST_GUESSES`, and why they fail."""
    lines, signs = [clean(line) for line in sample.lines], signs_of(clients)
    befores: dict[str, list[str]] = {}
    for line in lines:
        for client, mark in _find_marks(line, clients)[:1] if signs.search(line.encode("utf-8", "replace")) else ():
            befores.setdefault(client.name, []).append(line[max(0, mark - HEADER_LIMIT) : mark])
    out: list[Guess] = []
    for name, texts in befores.items():
        for header in find_commonest(map(split, texts), most=MOST_GUESSES):
            why = f"the words behind it are not understood as those of {name}"
            if "time" not in header.roles:
                why += ", and no time stamp was found"
            out.append(Guess(header.describe() + "%{message}", why))
    return tuple(out[:MOST_GUESSES])
