"""Raw segments of `__consumer_offsets`, read as if they had been printed: each record is an entry, as a JSON line.

A segment is one piece, because batches cannot be found from the middle. The file is mapped, so that memory is bounded
by one batch. The number of an entry counts the records of the file from 1; the record's own offset in the log is in the
text.
"""

from __future__ import annotations

import json
import mmap
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from fsm.errors import InputError
from fsm.logs import Format
from fsm.logs.programs.consumer_offsets import RECORD
from fsm.logs.reading.entries import Entry
from fsm.protocol.record_batches import BEFORE_LENGTH, HEAD, MAGIC, LogRecord, read_batches
from fsm.protocol.records import to_json

_FOLDER = re.compile(r"__consumer_offsets-(\d{1,10})")


def begins_segment(start: bytes) -> bool:
    """Whether a file that begins with these bytes is a segment: its first batch has a plausible head."""
    if len(start) < HEAD.size:
        return False
    offset, length, _, magic, _, attributes, last, first_ms, max_ms, *_, count = HEAD.unpack_from(start)
    sizes = offset >= 0 and length >= HEAD.size - BEFORE_LENGTH and 0 <= count <= last + 1
    return bool(sizes and magic == MAGIC and 0 <= attributes < 0x80 and first_ms <= max_ms)


class SegmentReader:
    """Reads one segment. `lines` counts the records read, complete once `entries` is exhausted."""

    def __init__(self, file: str, formats: Sequence[Format]) -> None:
        self.file = file
        self.formats = (RECORD,) if RECORD in formats else ()
        self.lines = 0

    def entries(self) -> Iterator[Entry]:
        """An entry for each record, except transaction markers.

        Raises OSError where the file cannot be read further, after the entries before that.
        """
        partition = _parse_partition(self.file)
        for record in self._read_records():
            self.lines += 1
            if self.formats:
                yield Entry(record.offset, self.lines, self.formats, _print_record(record, partition), False)

    def _read_records(self) -> Iterator[LogRecord]:
        with Path(self.file).open("rb") as handle:
            # Not closed explicitly: the last records may still reference it.
            data = mmap.mmap(handle.fileno(), 0, access=mmap.ACCESS_READ)
        try:
            for batch in read_batches(memoryview(data)):
                yield from () if batch.is_control else batch.records
        except InputError as problem:
            raise OSError(str(problem)) from None


def _parse_partition(file: str) -> int:
    found = _FOLDER.search(Path(file).parent.name)
    return int(found[1]) if found else 0


def _print_record(record: LogRecord, partition: int) -> bytes:
    """The record in the layout `json`; one that cannot be decoded has neither key nor value."""
    line: dict[str, Any] = {"partition": partition, "offset": record.offset, "timestamp": record.timestamp_ms}
    try:
        document = to_json(record.decode())
        line |= {"type": document["key"].pop("type"), "key": document["key"], "value": document["value"]}
    except InputError as problem:
        line |= {"type": 2, "key": None, "value": None, "problem": str(problem)}
    return json.dumps(line, separators=(",", ":")).encode()
