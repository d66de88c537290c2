"""Traces and logs of clients as recordings: all inputs of `fsm audit`, one lane a member, each record a step."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC
from itertools import islice
from operator import attrgetter
from pathlib import Path

from fsm.audit.reading.piece import signs_of_formats
from fsm.audit.reading.scanning import Scanner, parse_all
from fsm.errors import InputError
from fsm.explore.captures import is_capture, open_capture
from fsm.explore.findings import Missing, mark
from fsm.explore.lanes import COORDINATOR, Lanes, make_moment
from fsm.explore.recording import MOST_MOMENTS, Recording, check_size
from fsm.logs import formats
from fsm.logs.reading.entries import LINE_LIMIT
from fsm.logs.reading.pieces import READ_ERRORS, WHOLE, Piece, PieceReader, is_gzip, reader_of
from fsm.render.wording import many
from fsm.trace import TraceRecord

PACKETS = (b"\xd4\xc3\xb2\xa1", b"\xa1\xb2\xc3\xd4", b"\x4d\x3c\xb2\xa1", b"\xa1\xb2\x3c\x4d", b"\x0a\x0d\x0d\x0a")
"""The first bytes of packet captures."""


def open_log(file: Path, group: str = "") -> Recording:
    """The recording of a file, or of one group in it. Raises `InputError` for a file of another type."""
    try:
        with file.open("rb") as opened:
            first = opened.readline(1 << 16)
        if first.startswith(PACKETS):
            what = f"fsm capture --read {file} -o trace.jsonl makes a trace of it"
            raise InputError("holds packets", str(file), what)
        if is_capture(first):
            return open_capture(file, group)
        records, missing = _read(file)
    except OSError as problem:
        raise InputError(f"cannot be read: {problem.strerror or problem}", str(file), "give a file") from None
    found = record(records, file.name, str(file), group, file)
    found.missing = missing
    return found


def _read(file: Path) -> tuple[list[TraceRecord], list[str]]:
    """The records of a log as far as it can be read, and its missing parts. Raises OSError if it cannot be read."""
    records: list[TraceRecord] = []
    missing = Missing()
    try:
        records.extend(islice(_records(file), MOST_MOMENTS + 1))  # one more shows that there are too many
    except READ_ERRORS as problem:
        if not records:
            raise OSError(str(problem)) from None
        return records, [f"it cannot be read on after {many(len(records), 'record')}: {str(problem).rstrip('.')}"]
    with file.open("rb") as opened:
        opened.seek(max(0, file.stat().st_size - LINE_LIMIT))
        missing.take(opened.read().rpartition(b"\n")[2].decode(errors="surrogateescape"))
    return records, missing.describe()


def record(
    records: Iterable[TraceRecord], title: str, source: str, group: str = "", file: Path | None = None
) -> Recording:
    """The recording of records sorted by time, with the findings of an audit of their file.

    Raises `InputError` if none is of a member of the group.
    """
    held = list(records)
    check_size(len(held), source)
    attributed = (one for one in held if one.client_id or one.member_id or one.thread == COORDINATOR)
    chosen = _of_group(sorted(attributed, key=attrgetter("ts_ms")), group)
    if not chosen:
        what = f"holds nothing of a group {group!r}" if group else "holds no model, scenario, trace, capture or log"
        raise InputError(what, source, "see fsm explore --help")
    lanes = Lanes(chosen)
    moments = []
    for one in chosen:
        lane = lanes.of(one)
        lane.take(one)
        moments.append(make_moment(one, lane))
    found = Recording(title, source, lanes.parts(), moments)
    return found if file is None else mark(found, file, group)


def _records(file: Path) -> Iterator[TraceRecord]:
    """The records of a log in any layout."""
    known = formats()
    reader = reader_of(Piece(str(file), 0, WHOLE, is_gzip(file)), known)
    if isinstance(reader, PieceReader):
        found = Scanner(reader, signs_of_formats(known), UTC).scan()
    else:
        found = parse_all(reader.entries(), UTC)
    for parsed in found:
        yield from parsed.records or ()


def _of_group(held: list[TraceRecord], group: str) -> list[TraceRecord]:
    """The records of a group, and those of its clients without a group; all if no group is named."""
    if not group:
        return held
    clients = {one.client_id for one in held if one.group == group}
    return [one for one in held if one.group == group or (not one.group and one.client_id in clients)]
