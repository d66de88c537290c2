"""Audits of logs in memory, as `fsm.audit.local.audit_files` makes them of files; no entry is parsed twice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC
from functools import lru_cache
from typing import NamedTuple

from fsm.audit.limits import Limits
from fsm.audit.local import Audit, Line, Read, audit_records
from fsm.audit.rows import Place, Seen
from fsm.logs import formats
from fsm.logs.entries import first_line, records_of
from fsm.logs.pieces import from_bytes
from fsm.trace import TraceRecord


class Parsed(NamedTuple):
    """An entry, where it stands, and what the parsers say of it."""

    offset: int
    number: int
    data: bytes
    records: Sequence[TraceRecord] | None


_records: dict[tuple[bytes, bool], Sequence[TraceRecord] | None] = {}
_DEFAULTS = Limits()


@lru_cache(maxsize=512)
def parsed(data: bytes) -> tuple[Parsed, ...]:
    """The entries of a file."""
    found = []
    for entry in from_bytes(data, formats()):
        key = entry.data, entry.cut
        if key not in _records:
            _records[key] = records_of(entry, UTC)
        found.append(Parsed(entry.offset, entry.number, entry.data, _records[key]))
    return tuple(found)


def audit(files: Mapping[str, bytes], limits: Limits = _DEFAULTS) -> Audit:
    """What is wrong in these files."""
    read = Read()
    for name in sorted(files):
        read.files.append(name)
        for offset, number, data, records in parsed(files[name]):
            read.entries += 1
            if records is None:
                read.not_understood[name] += 1
            elif records:
                place = Place(name, offset)
                read.seen.extend(Seen(record, place) for record in records)
                read.lines[place] = Line(number, first_line(data))
    return audit_records(read, limits)
