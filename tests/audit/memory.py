"""Audits of logs in memory, as `fsm.audit.local.audit_files` makes them of files.

No entry is parsed twice, and no file of a scenario read twice.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC
from functools import lru_cache
from typing import NamedTuple

from fsm.audit.limits import Limits
from fsm.audit.local import Audit, audit_pieces
from fsm.audit.reading import scanning
from fsm.audit.reading.piece import PieceRecords, PieceSummary, SourceRecords
from fsm.logs import Format, formats
from fsm.logs.reading.entries import Entry, parse_entry
from fsm.logs.reading.pieces import WHOLE, Piece, from_bytes
from fsm.trace import TraceRecord


class Parsed(NamedTuple):
    """An entry, and what the parsers say of it."""

    entry: Entry
    format: Format | None
    records: Sequence[TraceRecord] | None

    @property
    def data(self) -> bytes:
        return self.entry.data


Said = tuple[Format | None, Sequence[TraceRecord] | None]
_records: dict[tuple[bytes, bool, *tuple[int, ...]], tuple[tuple[Format, ...], Said]] = {}
"""What each entry says, by the ids of its formats, which are kept beside it: to hash what they hold takes longer."""
_DEFAULTS = Limits()


@lru_cache(maxsize=512)
def parsed(data: bytes) -> tuple[Parsed, ...]:
    """The entries of a file."""
    found = []
    for entry in from_bytes(data, formats()):
        key = entry.data, entry.cut, *map(id, entry.formats)
        if key not in _records:
            _records[key] = entry.formats, parse_entry(entry, UTC)
        found.append(Parsed(entry, *_records[key][1]))
    return tuple(found)


def audit(files: Mapping[str, bytes], limits: Limits = _DEFAULTS) -> Audit:
    """What is wrong in these files."""
    return audit_pieces((_piece(name, files[name]) for name in sorted(files)), limits)


@lru_cache(maxsize=64)
def _piece(name: str, data: bytes) -> PieceRecords:
    found = SourceRecords(Piece(name, 0, WHOLE, False))
    for entry in parsed(data):
        found.take(scanning.Parsed(*entry))
    return found.of_piece(PieceSummary(name, 0, False))
