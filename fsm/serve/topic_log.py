"""The records of topics: made up, so many a second, or appended by Produce; the oldest make room.

A partition keeps whole batches as they came. What is made up fills in when somebody looks, so that nothing runs
meanwhile; it ends for a topic as soon as somebody produces to it.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field
from typing import NamedTuple

from fsm.errors import RemoteProtocolError
from fsm.protocol.error_codes import ErrorCode
from fsm.protocol.record_batches import Batch, LogRecord, check_produced, move_batch, write_batch

KEPT_BYTES = 4 << 20
"""Of one partition; the newest batch is kept however large."""
MADE_AT_ONCE = 500
"""Records of a batch that is made up."""
MOST_MADE = 10_000
"""Records that are made up at once; after a longer pause those before are as good as deleted."""


class Stored(NamedTuple):
    """One batch."""

    base_offset: int
    next_offset: int
    max_timestamp_ms: int
    data: bytes


@dataclass(slots=True)
class PartitionLog:
    """The records of one partition."""

    topic: str
    partition: int
    since_ms: float
    """When records began to be made up."""
    a_second: float = 0.0
    """Records that are made up; 0 for none."""
    batches: list[Stored] = field(default_factory=list)
    start_offset: int = 0
    end_offset: int = 0
    size: int = 0

    def grow(self, now_ms: float) -> None:
        """Makes up what is due by now."""
        due = int((now_ms - self.since_ms) * self.a_second / 1000)
        if due - self.end_offset > MOST_MADE:
            self.batches.clear()
            self.size, self.end_offset = 0, due - MOST_MADE
            self.start_offset = self.end_offset
        while self.end_offset < due:
            offsets = range(self.end_offset, min(due, self.end_offset + MADE_AT_ONCE))
            batch = Batch.of([self._made_up(offset) for offset in offsets], partition_leader_epoch=0)
            self._keep(Stored(offsets[0], offsets[-1] + 1, batch.max_timestamp_ms, write_batch(batch)))

    def _made_up(self, offset: int) -> LogRecord:
        time_ms = int(self.since_ms + (offset + 1) * 1000 / self.a_second)
        return LogRecord(offset, time_ms, None, f"{self.topic}-{self.partition}-{offset}".encode())

    def next_ms(self) -> float | None:
        """When the next record is made up; None where none is."""
        return self.since_ms + (self.end_offset + 1) * 1000 / self.a_second if self.a_second else None

    def append(self, data: bytes) -> tuple[ErrorCode, int]:
        """The batch of a producer: an error, or the offset of its first record."""
        try:
            head = check_produced(data)
        except RemoteProtocolError as problem:
            return ErrorCode(problem.hint), -1
        self.a_second = 0.0
        base = self.end_offset
        self._keep(Stored(base, base + head.record_count, head.max_timestamp_ms, move_batch(data, base, 0)))
        return ErrorCode.NONE, base

    def read(self, offset: int, most_bytes: int) -> bytes:
        """Whole batches from the one that has this offset on: at least one where there is one."""
        at = bisect_right(self.batches, offset, key=lambda one: one.next_offset)
        found: list[bytes] = []
        size = 0
        for batch in self.batches[at:]:
            if found and size + len(batch.data) > most_bytes:
                break
            found.append(batch.data)
            size += len(batch.data)
        return b"".join(found)

    def find_time(self, timestamp_ms: int) -> tuple[int, int]:
        """Offset and time of the first batch that reaches this time; -1, -1 where none does."""
        for batch in self.batches:
            if batch.max_timestamp_ms >= timestamp_ms:
                return batch.base_offset, batch.max_timestamp_ms
        return -1, -1

    def newest(self) -> tuple[int, int]:
        """Offset and time of the record with the newest time; -1, -1 where there is none."""
        if not self.batches:
            return -1, -1
        latest = max(self.batches, key=lambda one: one.max_timestamp_ms)
        return latest.next_offset - 1, latest.max_timestamp_ms

    def delete_before(self, offset: int) -> None:
        """Forgets the batches that end before this offset."""
        at = bisect_left(self.batches, offset + 1, key=lambda one: one.next_offset)
        self.size -= sum(len(one.data) for one in self.batches[:at])
        del self.batches[:at]
        self.start_offset = max(self.start_offset, min(offset, self.end_offset))

    def _keep(self, batch: Stored) -> None:
        self.batches.append(batch)
        self.size += len(batch.data)
        self.end_offset = batch.next_offset
        while self.size > KEPT_BYTES and len(self.batches) > 1:
            gone = self.batches.pop(0)
            self.size -= len(gone.data)
            self.start_offset = gone.next_offset
