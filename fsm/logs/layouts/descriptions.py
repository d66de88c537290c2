"""Tries a learned layout on lines: drops the parts with which fewer of them are understood, and describes what it
explains, what it loses, whether the file is reversed, and at which times of day it begins and ends."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC
from itertools import pairwise

from fsm.logs import Client
from fsm.logs.exports.broken_lines import Side, find_blocks
from fsm.logs.layouts import stamps
from fsm.logs.layouts.frames import Found, Named
from fsm.logs.layouts.headers import Header
from fsm.logs.layouts.layout import ENDS, GAPS, Description, Layout
from fsm.logs.layouts.marked_lines import ENOUGH_SAMPLES, MOST_SAMPLES, find_marked, sample_shapes
from fsm.logs.layouts.ties import are_ties_in_order, do_fall
from fsm.logs.reading.entries import CONTINUES


def are_cut(lines: Sequence[bytes]) -> bool:
    """Whether several lines are as long as the longest one and have different ends, none of them closing; lines in a
    box all do."""
    longest = max(map(len, lines), default=0)
    ends = {line[-_END:] for line in lines if len(line) == longest and not line.endswith(_CLOSERS)}
    return longest >= _SHORTEST_CUT and len(ends) >= _FEWEST_CUT


_SHORTEST_CUT, _FEWEST_CUT, _END = 500, 4, 20
_CLOSERS = (b")", b"]", b"}", b'"')


def explains(layout: Layout, line: str) -> bool:
    """Whether a line begins an entry of the layout."""
    peeled = layout.look(line)
    if layout.second is not None:
        return peeled is not None and layout.second.match(peeled.text) is not None
    return peeled is not None and (not layout.headers or layout.split_header(peeled.text) is not None)


def drop_false_parts(layout: Layout, lines: Sequence[str], clients: tuple[Client, ...]) -> Layout:
    """The layout, without its logger if that is another word, and without its common end if that is part of the
    messages, if clients are understood better then."""
    some = [lines[i] for i in sample_shapes(lines, find_marked(lines, clients), ENOUGH_SAMPLES)]
    if layout.second is not None:
        some = [f"{above}\n{line}" for above, line in pairwise(lines) if line in some]

    def count(tried: Layout) -> tuple[int, int]:
        """How many are understood; and that less those that a client refuses."""
        messages = (tried.message(line, tried.clock.zone) for line in some)
        found = [[one.understand(message[0]) for one in clients] for message in messages if message is not None]
        understood = sum(map(any, found))
        return understood, understood - sum(None in its and not any(its) for its in found)

    most, best = count(layout)
    if most == len(some):
        return layout
    frames = tuple(
        replace(frame, roles=frame.roles._replace(logger=""))
        if isinstance(frame, Named) and frame.roles.logger
        else frame
        for frame in layout.frames
    )
    headers = tuple(map(_drop_logger, layout.headers))
    after = _drop_logger(layout.after) if layout.after is not None else None
    has_logger = (frames, headers, after) != (layout.frames, layout.headers, layout.after)
    others = [replace(layout, frames=frames, headers=headers, after=after)] if has_logger else []
    if layout.after is not None or layout.ends:
        others.append(replace(layout, after=None, line_end=None, ends=()))
    for other in others:
        understood, left = count(other)
        if understood > most and left > best:
            layout, most, best = other, understood, left
    return layout


def _drop_logger(header: Header) -> Header:
    return Header(header.tokens, tuple("word" if role == "logger" else role for role in header.roles))


_MOST_LOOKS = 200
_MOST_FRACTIONS = 0.9
"""Share of the times of a layout that have a fraction of a second, if those in whole seconds are exact."""


def describe(layout: Layout, lines: Sequence[str], clients: tuple[Client, ...], cut: bool) -> Layout:
    """The layout with its description."""
    some = [line for line in lines if line.strip()]
    if layout.second is not None:
        some = [f"{above}\n{line}" for above, line in pairwise(some) if layout.second.match(line)] or some
    looks = [layout.look(line) for line in some[:: max(1, len(some) // _MOST_LOOKS)]]
    good = [
        peeled is not None and (layout.begins(peeled.text) or bool(CONTINUES(peeled.text.encode("utf-8", "replace"))))
        for peeled in looks
    ]
    marked = find_marked(some, clients)
    tried = [some[i] for i in marked[:: max(1, len(marked) // MOST_SAMPLES)]]
    read = [(line, *found) for line in tried if (found := layout.message(line, layout.clock.zone)) is not None]
    messages = [message for _, message, _ in read]
    understood = frozenset(one.name for one in clients if any(map(one.understand, messages)))
    order = [message.ts_ms for message in messages]
    example = next((line for line, _, _ in read), "")
    lost = set[str]().union(*(missing for _, _, missing in read))
    if layout.frames:
        inner = (layout.look(line) for line in some)
        cut = cut or are_cut([peeled.text.encode("utf-8", "replace") for peeled in inner if peeled is not None])
    has = {
        "thread": any(message.thread for message in messages),
        "logger": any(message.logger for message in messages),
        ENDS: not cut,
        GAPS: not any(isinstance(frame, Found) for frame in layout.frames),
    }
    lost |= {name for name in has if not has[name]}
    if sum(map(bool, order)) > len(order) / 2:  # the first line of a message may precede the one with its time
        lost -= {"time"}
    if sum(bool(ms % 1000) for ms in order) > _MOST_FRACTIONS * len(order):  # a time may end in a whole second
        lost -= {"milliseconds"}
    pattern = " > ".join([frame.name for frame in layout.frames] + [_format_pattern(layout)])
    is_reversed = do_fall(order) and do_fall(_read_times(layout, some))
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
        understood=understood,
    )


def _read_times(layout: Layout, lines: Sequence[str]) -> list[int]:
    """The times of some of these lines: of a file with few lines of clients other programs' lines tell its order."""
    read = (layout.message(line, layout.clock.zone) for line in lines[:: max(1, len(lines) // _MOST_LOOKS)])
    return [found[0].ts_ms for found in read if found is not None and found[0].ts_ms]


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
