"""Findings for what could not be read or understood."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

from fsm.audit.findings import Evidence, Finding, FindingKind, finding
from fsm.audit.hygiene.identity import Facts
from fsm.audit.reading.certainty import TooLittle, Understood
from fsm.audit.reading.piece import OWNERSHIP, PieceSummary
from fsm.logs.layouts.layout import ORDER, TIMES
from fsm.logs.reading.pieces import Unreadable
from fsm.render.wording import many

SHAPES = 5
"""Shapes in the summary of one file."""


def report_file(pieces: Sequence[PieceSummary], homeless: Sequence[Facts] = ()) -> Iterator[Finding]:
    """A finding if a file was damaged, cut, or has lines that were not understood, or whose group is not known.

    `pieces` are all, in order; `homeless` are its facts of no group.
    """
    file, lines = pieces[0].file, sum(one.orphans + one.not_understood for one in pieces)
    cut, error = sum(one.cut_lines for one in pieces), max(one.error for one in pieces)
    tried, some_times = pieces[0].not_learned, any(TIMES in one.lost for one in pieces)
    no_time = has_no_time(pieces) or ("time" in pieces[0].lost and not some_times)
    is_sorted = ORDER in pieces[0].lost
    if not (lines or cut or error or tried or no_time or some_times or is_sorted or homeless):
        return
    shapes: Counter[str] = Counter()
    for one in pieces:
        shapes.update(one.shapes)
    sentences = []
    if error:
        how_far = " to its end" if any(one.lines for one in pieces) else ""
        sentences.append(f"{file} was not read{how_far}: {error}")
    if lines:
        top = sorted(shapes.items(), key=lambda shape: (-shape[1], shape[0]))[:SHAPES]
        shown = " | ".join(f"{count} x {shape or 'others'}" for shape, count in top)
        sentences.append(f"not understood in {file}: {many(lines, 'line')}, the commonest: {shown}")
    if missed := find_missed_ownership(pieces):
        sentences.append(f"no line of {file} was understood that tells what was {' or '.join(missed)}")
    if tried:
        sentences.append(f"no layout could be learned from {file}, --layout states it; tried: {' | '.join(tried)}")
    if no_time:
        sentences.append(f"{file} tells no time: what was owned at one time, and for how long, is not known")
    if some_times:
        unknown = "what was owned then, and for how long, is not known"
        sentences.append(f"some lines of {file} tell no time and are taken to be as old as those above them: {unknown}")
    if is_sorted:
        lost = "those of one time are not in the order in which they were printed, and equal ones may be missing"
        sentences.append(f"the lines of {file} are sorted: {lost}")
    if homeless:
        sentences.append(_tell_homeless(file, homeless))
    if cut:
        sentences.append(f"too long and cut in {file}: {many(cut, 'line')}")
    start_ms = min((one.first_ms for one in pieces if one.first_ms is not None), default=0)
    end_ms = max((one.last_ms for one in pieces if one.last_ms is not None), default=0)
    yield _finding(start_ms, end_ms, "; ".join(sentences), _first_bad_line(pieces))


def _tell_homeless(file: str, homeless: Sequence[Facts]) -> str:
    """What was read and not judged."""
    names = sorted({one.client_id for one in homeless} - {""})
    shown = ", ".join(names[:SHAPES]) + (f" and {len(names) - SHAPES} more" if names[SHAPES:] else "")
    changes = many(sum(one.changes for one in homeless), "record")
    return f"{changes} of {shown or 'a client'} in {file} were not judged: no line tells the group they belong to"


def find_too_little(pieces: Sequence[PieceSummary], least: float) -> list[TooLittle]:
    """The file, or else the clients in it, of whose lines less than the share `least` was understood.

    Also the file if several of its lines report a change of ownership and none of that kind was understood.
    """
    file = pieces[0].file
    whole = Understood(sum(one.understood for one in pieces), sum(one.missed for one in pieces))
    lost = sum(one.missed_ownership.get(name, 0) for name in find_missed_ownership(pieces) for one in pieces)
    if whole.missed and (not whole.is_enough(least) or (least and lost >= _FEWEST_LOST)):
        return [TooLittle(file, "", *whole)]
    entries, missed = Counter[str](), Counter[str]()
    for one in pieces:
        entries.update(one.understood_of)
        missed.update(one.missed_of)
    clients = [TooLittle(file, client, entries[client], missed[client]) for client in sorted(missed)]
    return [one for one in clients if not one.understood.is_enough(least)]


_FEWEST_LOST = 2
"""A single line may be another message with such a word."""


def has_no_time(pieces: Sequence[PieceSummary]) -> bool:
    """Whether records were read from a file, and none has a timestamp."""
    return any(one.records for one in pieces) and not any(one.last_ms for one in pieces)


def find_missed_ownership(pieces: Sequence[PieceSummary]) -> list[str]:
    """The names of `OWNERSHIP` that lines of a file report, if not one of those lines was understood."""
    missed = {name for one in pieces for name in one.missed_ownership}
    understood = {kind for one in pieces for kind in one.kinds}
    return [name for name, (_, kinds) in OWNERSHIP.items() if name in missed and understood.isdisjoint(kinds)]


def report_unreadable(file: Unreadable) -> Finding:
    """The finding for a file that could not be read, or not to its end."""
    how_far = " to its end" if file.begun else ""
    return _finding(0, 0, f"{file.file} was not read{how_far}: {file.reason}", Evidence(file.file, -1))


def report_event(file: str, at_ms: int, note: str) -> Finding:
    """The finding for an event of a followed file, such as its truncation."""
    return _finding(at_ms, at_ms, note, Evidence(file, -1))


def _first_bad_line(pieces: Sequence[PieceSummary]) -> Evidence:
    before = 0
    for one in pieces:
        if one.bad_line:
            return Evidence(one.file, -1, before + one.bad_line, one.bad_text)
        before += one.lines
    return Evidence(pieces[0].file, -1)


def _finding(start_ms: int, end_ms: int, summary: str, shown: Evidence) -> Finding:
    bare = finding(FindingKind.UNPARSED_LINES, "", "", start_ms, end_ms, summary=summary)
    return replace(bare, evidence=(shown,))
