"""Learns layouts from the lines of a file: the framing and headers that collectors and loggers put around a client's
messages.

A client's messages are recognised by its words (`Client.marks`, `Client.understand`). The rest of such lines is
compared: frames are removed one after another (fields of JSON, logfmt or a table; the parts into which container
runtimes split long lines), then the header is found. A learned layout becomes a `Format` for each client, so that known
and learned layouts share one reader.

`marked_lines` finds the messages, `framing` the frames, `making` makes the layout, `descriptions` tries it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

from fsm.logs import Client
from fsm.logs.layouts import fields as structured
from fsm.logs.layouts.descriptions import describe, drop_false_parts, explains
from fsm.logs.layouts.frames import Named, clean
from fsm.logs.layouts.framing import find_frames, join_parts
from fsm.logs.layouts.headers import HEADER_LIMIT, Header, find_commonest, split
from fsm.logs.layouts.layout import Layout, group_by_client, signs_of
from fsm.logs.layouts.making import find_two_line_headers, make_layout
from fsm.logs.layouts.marked_lines import MarkedLines, Sample, encode, find_hits, find_marked, find_marks
from fsm.logs.layouts.regions import find_parts
from fsm.trace import TraceRecord

MOST_LAYOUTS = 4
"""Per file."""
MOST_FRAMES = 4
MOST_GUESSES = 3


class Guess(NamedTuple):
    """A layout that failed, and why."""

    pattern: str
    why: str


def learn(sample: Sample, clients: tuple[Client, ...]) -> tuple[Layout, ...]:
    """The layouts of the messages of these clients."""
    lines = [clean(line) for line in sample.lines]
    marked = find_marked(lines, clients)
    objects = {i for i, line in enumerate(lines) if (read := structured.json_object(line)) is not None and read[1]}
    families = group_by_client(encode(lines), marked, clients).values()
    found: list[Layout] = []
    every = range(len(lines))
    for left in ([i for i in marked if i in objects], [i for i in marked if i not in objects]):
        around = every if objects.issuperset(left) else [i for i in every if i not in objects]
        while left and len(found) < MOST_LAYOUTS:
            layouts = _learn(MarkedLines(lines, left, clients, sample).choose(around))
            rest = [i for i in left if not any(explains(layout, lines[i]) for layout in layouts)]
            if len(rest) == len(left):
                break
            found += [
                describe(drop_false_parts(layout, own, clients), own, clients, sample.cut)
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


def _learn(seen: MarkedLines, divided: int = 0) -> Sequence[Layout]:
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


def _read(layouts: Sequence[Layout], seen: MarkedLines) -> _Content:
    """What is read from lines in the first of these layouts in which they are understood."""
    inner = [replace(layout, frames=layout.frames[len(seen.frames) :]) for layout in layouts]
    strange = sum(all(layout.look(line) is None for layout in inner) for line in seen.lines)
    return _Content([_read_message(inner, seen, i) for i in seen.some], strange)


def _read_message(layouts: Sequence[Layout], seen: MarkedLines, i: int) -> tuple[int, Sequence[TraceRecord]]:
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


def _learn_alike(seen: MarkedLines, divided: int) -> Sequence[Layout]:
    """The layout of lines that begin alike, or those of the parts of what its frames contain. A table or pairs without
    a time count only if the lines themselves have none, either."""
    timeless: Sequence[Layout] = ()
    if len(seen.frames) < MOST_FRAMES:
        for frame in find_frames(seen):
            inner = join_parts(frame, seen.lines)
            still = find_marked(inner, seen.clients)
            if len(inner) == len(seen.lines):  # no parts were joined: these are the same lines
                still = sorted({*still}.intersection(seen.marked))
            layouts = _learn(replace(seen, lines=inner, marked=still, frames=(*seen.frames, frame)), divided)
            if layouts and (layouts[0].has_time or frame.name not in _DOUBTFUL):
                return layouts
            timeless = timeless or layouts
    hits = find_hits(seen)
    if not hits:
        return timeless
    befores = [before for _, before in hits]
    bare = sum(not before for before in befores)
    headers: Sequence[Header] = [] if bare > len(hits) // 2 else find_commonest(map(split, filter(None, befores)))
    timed = any(isinstance(frame, Named) and frame.roles.time for frame in seen.frames)
    if not timed and not any("time" in header.roles for header in headers):
        headers = find_two_line_headers(seen, hits, headers)
    layout = make_layout(seen.frames, headers, seen.lines, seen.sample)
    return [layout] if not timeless or layout.has_time else timeless


_DOUBTFUL = ("csv", "logfmt")
"""Frames that some lines only seem to have."""


def use_layout(sample: Sample, clients: tuple[Client, ...], stated: tuple[Header, Header | None]) -> tuple[Layout, ...]:
    """The layout that the user specified, behind the frames that lines have."""
    before, after = stated
    lines = [clean(line) for line in sample.lines]
    marked = find_marked(lines, clients)
    seen = MarkedLines(lines, marked, clients, sample)
    while seen.marked:
        if any(before.pattern.match(seen.lines[i]) for i in seen.marked):
            headers = (before,) if before.tokens else ()
            layout = make_layout(seen.frames, headers, seen.lines, sample)
            return (describe(replace(layout, after=after), lines, clients, sample.cut),)
        frame = next(find_frames(seen, stated=True), None)
        if frame is None or len(seen.frames) == MOST_FRAMES:
            break
        inner = join_parts(frame, seen.lines)
        still = find_marked(inner, clients)
        seen = replace(seen, lines=inner, marked=still, frames=(*seen.frames, frame))
    return ()


def explain_failure(sample: Sample, clients: tuple[Client, ...]) -> tuple[Guess, ...]:
    """The likeliest layouts of lines from which none could be learned, at most `MOST_GUESSES`, and why they fail."""
    lines, signs = [clean(line) for line in sample.lines], signs_of(clients)
    befores: dict[str, list[str]] = {}
    for line in lines:
        for client, mark in find_marks(line, clients)[:1] if signs.search(line.encode("utf-8", "replace")) else ():
            befores.setdefault(client.name, []).append(line[max(0, mark - HEADER_LIMIT) : mark])
    out: list[Guess] = []
    for name, texts in befores.items():
        for header in find_commonest(map(split, texts), most=MOST_GUESSES):
            why = f"the words behind it are not understood as those of {name}"
            if "time" not in header.roles:
                why += ", and no time stamp was found"
            out.append(Guess(header.describe() + "%{message}", why))
    return tuple(out[:MOST_GUESSES])
