"""Finds the frame around most lines: file names and numbers of `grep`, partial lines, rows of a table, objects, arrays,
strings or pairs of which one contains the clients' messages; and joins what is in the frames."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Any

from fsm.logs import Client
from fsm.logs.exports.documents import AROUND
from fsm.logs.exports.xml_events import XmlEvents
from fsm.logs.layouts import fields as structured
from fsm.logs.layouts.frames import GAP, NUMBERS, Found, Frame, Named, Numbered, Parts
from fsm.logs.layouts.headers import find_commonest, find_program_slots, split
from fsm.logs.layouts.marked_lines import MarkedLines, find_begin, find_marks
from fsm.logs.layouts.security_events import cef, leef
from fsm.logs.reading.entries import LINE_LIMIT


def find_frames(seen: MarkedLines, *, stated: bool = False) -> Iterator[Frame]:
    """The frames that most lines have, in the order in which they are tried; with a stated layout only partial
    lines, objects, pairs and strings."""
    for find in _BEFORE_STATED if stated else _FRAMES:
        if (frame := find(seen)) is not None:
            yield frame


def _find_grep(seen: MarkedLines) -> Frame | None:
    """Only if `grep` printed context lines, which have a hyphen after the file name."""
    lines = [line for line in seen.lines if line and line != GAP.decode()]
    files = {match[1] for line in lines if (match := _FILE.match(line))} if not seen.frames else set()
    beside = [match[0] for line in lines if (match := _BESIDE.match(line))]
    files &= {begin[:at] for begin in set(beside) for at, char in enumerate(begin) if char == "-"}
    for numbered in (True, False):
        frame = Found(tuple(sorted(files, key=len, reverse=True)), numbered)
        if files and sum(frame.peel(line) is not None for line in lines) > 0.9 * len(lines):
            return frame
    return None


_FILE, _BESIDE = re.compile(r"([^\s:]{1,200}):"), re.compile(r"[^\s:]{1,200}-")


def _find_numbers(seen: MarkedLines) -> Frame | None:
    for pattern in NUMBERS:
        found = [match for line in seen.lines if (match := pattern.match(line))]
        numbers = [int(match[1] or match[2]) for match in found]
        columns = sum(match[2] is not None for match in found) > len(found) / 2
        rising = sum(a + 1 == b if columns else a < b for a, b in pairwise(numbers))
        if len(numbers) > 0.9 * len(seen.lines) and rising > 0.9 * len(numbers) - 1:
            return Numbered(pattern)
    return None


def _find_parts(seen: MarkedLines) -> Frame | None:
    frame = Parts()
    some = seen.some
    return frame if sum(frame.peel(seen.lines[i]) is not None for i in some) > 0.6 * len(some) else None


def _find_table(seen: MarkedLines) -> Frame | None:
    table = seen.sample.table
    if isinstance(table, XmlEvents) and not seen.frames:
        return _find_named("xml", table.read, seen)
    if not isinstance(table, structured.Csv) or seen.frames:
        return None
    found = _find_named("csv", table.read, seen)
    return None if found is None else replace(found, head=seen.lines[0] if table.named else "")


def _find_logfmt(seen: MarkedLines) -> Frame | None:
    """Messages may contain pairs, too: a client has to understand one of the values."""
    return _find_named("logfmt", structured.logfmt, seen, sure=True) if _has_quotes(seen) else None


def _has_quotes(seen: MarkedLines) -> bool:
    """Whether some of the values are quoted, as texts of several words are."""
    first = seen.some[:20]
    return sum('="' in seen.lines[i] or "='" in seen.lines[i] for i in first) > len(first) // 5


def _find_named(name: str, read: structured.Reader, seen: MarkedLines, *, sure: bool = False) -> Named | None:
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
            marks = find_marks(value, clients) if isinstance(value, str) else []
            if not marks or path.startswith(f"{AROUND}."):
                continue
            first = value.partition("\n")[0]
            probed[path] += 1
            known = probed[path] <= _PROBES and any(
                find_begin(first, min(mark, len(first)), client) is not None for client, mark in marks
            )
            ever = ever or known
            scores[path] += 1 + 10 * known + 5 * (path.lower() in _TEXT_NAMES) + 6 * (_WHOLE.search(path) is not None)
    return scores.most_common(1)[0][0] if scores else "", ever


_TEXT_NAMES = ("message", "msg", "log")
_WHOLE = re.compile("full|(?i:formatted|rendered)")
"""Beside a text that is the beginning of the message, or a template for it."""
_PROBES = 12


def _contain_line_feeds(read: structured.Reader, path: str, lines: Sequence[str]) -> bool:
    """Whether the field's lines include their line feeds, as in Docker's json-file logs, and only one each."""
    rows = [found for line in lines[:400] if (found := read(line)) is not None]
    texts = [text for _, values in rows if isinstance(text := structured.value_at(values, path), str)]
    several = sum("\n" in text[:-1] for text in texts)  # messages, of which some end with a line feed, too
    return sum(text.endswith("\n") for text in texts) > max(several, 0.2 * len(texts))


_find_json = partial(_find_named, "json", structured.json_object)
_find_string = partial(_find_named, "string", structured.json_string)
_FRAMES = (
    _find_table,
    _find_grep,
    _find_numbers,
    _find_parts,
    _find_json,
    partial(_find_named, "array", structured.json_array),
    partial(_find_named, "teamcity", structured.service_message),
    partial(_find_named, "cef", cef),
    partial(_find_named, "leef", leef),
    _find_logfmt,
    _find_string,
)
_BEFORE_STATED = (_find_parts, _find_json, _find_logfmt, _find_string)


def join_parts(frame: Frame, lines: Sequence[str]) -> list[str]:
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
