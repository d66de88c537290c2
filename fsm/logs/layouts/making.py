"""Makes a layout of frames and headers: which headers belong together, the order of day and month in their dates, the
part of them that continuation lines have too, and the ends of messages behind them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import takewhile

from fsm.logs.layouts import stamps
from fsm.logs.layouts.ends import find_end, find_line_end, have_end_fields
from fsm.logs.layouts.frames import Frame, Named
from fsm.logs.layouts.headers import (
    SLOTS,
    Header,
    Token,
    find_commonest,
    find_program_end,
    find_program_slots,
    split,
)
from fsm.logs.layouts.layout import Layout
from fsm.logs.layouts.marked_lines import MarkedLines, Sample
from fsm.logs.reading.entries import PART_SIZES, SMALLEST_PART


def make_layout(frames: tuple[Frame, ...], headers: Sequence[Header], lines: Sequence[str], sample: Sample) -> Layout:
    """The layout with these frames and headers; the lines are unframed."""
    headers = [_choose_date_order(_find_repetition(header, lines), lines, sample.clock) for header in headers]
    headers = _choose_alike(headers, lines)
    programs = tuple(find_program_slots(header, lines) for header in headers)
    repeated, length, stream_groups = _find_repeated(lines, headers, programs)
    after = find_end(lines, headers)
    ends = _find_ends(lines, headers, after) if len(headers) > 1 else ()
    return Layout(
        _set_framing(frames, lines, bool(headers)),
        tuple(headers),
        after,
        have_end_fields(lines, headers, after),
        tuple(header.begins(length) for header in headers),
        repeated,
        stream_groups,
        sample.clock._replace(unpadded=_are_unpadded(headers, lines)),
        indent=_find_indent(lines, headers),
        programs=programs,
        ends=ends,
        line_end=find_line_end(lines, headers, after, repeated),
    )


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


def _find_ends(lines: Sequence[str], headers: Sequence[Header], after: Header | None) -> tuple[Header | None, ...]:
    """The end of messages behind each header; nothing if all have the common one, or none has any.

    A program whose messages have none by themselves does not have that of the others, though some may look like it.
    """
    own: list[list[str]] = [[] for _ in headers]
    for line in lines:
        number = next((i for i, header in enumerate(headers) if header.pattern.match(line)), None)
        if number is not None:
            own[number].append(line)
    found = [find_end(its, [header]) for its, header in zip(own, headers, strict=True)]
    if after is not None:
        found = [after if one or len(its) < _FEWEST_ENDED else None for one, its in zip(found, own, strict=True)]
    return tuple(found) if any(found) and any(one != after for one in found) else ()


_FEWEST_ENDED = 5


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


def _choose_date_order(header: Header, lines: Sequence[str], clock: stamps.Clock) -> Header:
    """The header with the order of day and month that all of its dates allow; if both are possible, the one whose last
    date is closer to the end of the file."""
    first = Header(header.lines[0], header.roles)
    if not set(_DATES).intersection(first.rows):
        return header
    matches = [match for line in lines if (match := first.pattern.match(line)) is not None]
    texts = [text for match in matches for text, row in zip(match.groups(), first.rows, strict=True) if row in _DATES]
    read = {row: [stamps.read(text, clock, (row,)) for text in texts] for row in _DATES}
    late = clock.now_ms + stamps.DAY_MS
    far = {
        row: max((late if one is None else abs(late - one.ms) for one in its), default=0) for row, its in read.items()
    }
    wrong = {row: sum(one is None or one.ms > late for one in its) for row, its in read.items()}
    best = min(_DATES, key=lambda row: (wrong[row], far[row]))
    tokens = tuple(Token("time", best) if token.what in _DATES else token for token in header.tokens)
    return Header(tokens, header.roles)


_DATES = ("month_day_year", "day_month_year")


def _are_unpadded(headers: Sequence[Header], lines: Sequence[str]) -> bool:
    """Whether the last time of the headers has milliseconds without leading zeros."""
    texts: list[str] = []
    for line in lines:
        found = next(((one, match) for one in headers if (match := one.pattern.match(line))), None)
        if found is not None:
            header, match = found
            times = [text for text, role in zip(match.groups(), header.roles, strict=True) if role == "time"]
            texts += times[-1:]
    return stamps.are_unpadded(texts)


def find_two_line_headers(
    seen: MarkedLines, hits: Sequence[tuple[int, str]], headers: Sequence[Header]
) -> Sequence[Header]:
    """The header whose first part is on a separate line above the message, if that tells a time or logger which these
    headers of one line do not; else these."""
    marked = frozenset(seen.marked)
    complete = [header for header in headers if {"level", "logger", "thread"} & set(header.roles)]
    both = [
        f"{seen.lines[i - 1]}\n{before}"
        for i, before in hits
        if i and i - 1 not in marked and not any(one.pattern.match(seen.lines[i - 1]) for one in complete)
    ]
    found = find_commonest(map(split, both)) if both else []
    fits = sum(any(one.pattern.match(text) for one in found) for text in both)
    known = {role for header in headers for role in header.roles}
    # In a sample the line above may have been left out, so that another message stands there.
    are_most = fits > 0.6 * len(both) and len(both) > 0.5 * len(hits)
    return found if are_most and {"time", "logger"} & (set(found[0].roles) - known) else headers


_INDENTED = re.compile(r"[ \t]+\S|Caused by: |Suppressed: |[\w$]{1,100}\.[\w$.]{1,200}(?:Exception|Error)(?::|\s*\Z)")


def _find_repeated(
    lines: Sequence[str], headers: Sequence[Header], programs: Sequence[tuple[tuple[int, bool], ...]]
) -> tuple[re.Pattern[str] | None, int, tuple[int, ...]]:
    """The part of the header that continuation lines have, too, its number of tokens, and its slots that distinguish
    programs. What a collector prints to name a program is before every line, even if no line shows it here."""
    first: list[str] = []
    others: list[str] = []
    rests: dict[str, str] = {}
    own, above = False, ""  # whether the entry above has the first header; the line above
    for line in filter(str.strip, lines):
        number = next((i for i, header in enumerate(headers) if header.pattern.match(line)), None)
        own = own if number is None else number == 0
        if number is not None:
            first.append(line)
        elif own:
            others.append(line)
            rests |= {line: above} if len(above) >= SMALLEST_PART else {}
        above = line
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
            values = {_without_numbers(match.groups()[-words:]) for line in first if (match := part.match(line))}
            found = [(line, match) for line, match in found if _without_numbers(match.groups()[-words:]) in values]
        goes_on = sum(
            _INDENTED.match(line[match.end() :]) is not None or _is_rest(rests.get(line, ""), match.end())
            for line, match in found
        )
        if goes_on > 1 and len(found) > 0.6 * len(others):
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


def _is_rest(above: str, header: int) -> bool:
    """Whether the line above has the length after which collectors cut, with a header of this length or without it."""
    size = len(above.encode("utf-8", "replace"))
    return size in PART_SIZES or size - header in PART_SIZES


def _without_numbers(words: Iterable[str]) -> tuple[str, ...]:
    """The words; one that counts lines is the same in all of them."""
    return tuple("#" if word.isdigit() else word for word in words)


def _compile_part(tokens: tuple[Token, ...], end: int, lines: Iterable[str]) -> re.Pattern[str]:
    """The first tokens of a header, with at most as many blanks behind them as each of the lines has."""
    pattern = Header(tokens[:end], ()).regex
    if tokens[end].kind == "blank":
        blank = re.compile(f"{pattern}([ \t]+)", re.ASCII)
        blanks = [len(match[match.lastindex or 0]) for line in lines if (match := blank.match(line))]
        most = int(tokens[end].what) if tokens[end].what.isdigit() else min(blanks, default=1)
        pattern += f"[ \t]{{0,{most}}}"
    return re.compile(pattern, re.ASCII)
