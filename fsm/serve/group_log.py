"""One partition of `__consumer_offsets`: the records of a coordinator, compacted.

Source: the log of a compacted topic: the last record of a key counts, and a null value deletes the key.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field, replace

from fsm.errors import InputError
from fsm.protocol.record_batches import (
    BEFORE_LENGTH,
    HEAD,
    MAGIC,
    Batch,
    LogRecord,
    batch_of,
    read_batches,
    write_batch,
)
from fsm.protocol.records import Record

COMPACTED_FROM = 1 << 20
"""The size below which a log is never compacted."""
GROWTH, GROWTH_WHEN_FULL = 2.0, 1.1
"""The growth since the last compaction at which a log is compacted."""
IN_ONE_BATCH = 1_000
"""Records of a batch that compaction writes."""


@dataclass(slots=True)
class GroupLog:
    """Batches in their order, and the next offset."""

    batches: list[tuple[int, bytes]] = field(default_factory=list)
    """First offset and bytes."""
    start_offset: int = 0
    end_offset: int = 0
    size: int = 0
    compacted_size: int = COMPACTED_FROM // 2

    @classmethod
    def of(cls, data: bytes) -> tuple[GroupLog, int]:
        """The log in these bytes up to a torn batch, and the number of valid bytes.

        Raises `InputError` if valid batches follow unreadable bytes, which are then no torn end.
        """
        log, at = cls(), 0
        try:
            for batch in read_batches(data):
                length = BEFORE_LENGTH + int.from_bytes(data[at + 8 : at + BEFORE_LENGTH], "big")
                log._keep(batch.base_offset, batch.base_offset + batch.last_offset_delta + 1, data[at : at + length])
                at += length
        except InputError as problem:  # an incomplete batch was never acknowledged
            if _has_batch(data, at + 1):
                raise InputError(f"damaged at byte {at}: {problem.what}") from None
        return log, at

    def append(self, records: Iterable[Record], now_ms: int) -> bytes:
        """Adds the records of a step; returns the bytes of their batch."""
        batch = batch_of(self.end_offset, records, now_ms)
        data = write_batch(batch)
        self._keep(self.end_offset, self.end_offset + len(batch.records), data)
        return data

    def compact(self, growth: float = GROWTH) -> bool:
        """Compacts the log if it has grown enough; returns whether it did."""
        if self.size < growth * self.compacted_size:
            return False
        last: dict[bytes | None, LogRecord] = {}
        for batch in read_batches(self.segment()):
            for record in batch.records:
                last.pop(record.key, None)
                if record.value is not None:
                    last[record.key] = record
        kept = list(last.values())
        self.batches, self.size = [], 0
        end_offset = self.end_offset
        batches = [
            Batch.of(kept[at : at + IN_ONE_BATCH], partition_leader_epoch=0) for at in range(0, len(kept), IN_ONE_BATCH)
        ] or [Batch(end_offset - 1, (), partition_leader_epoch=0)]
        # The last batch reaches to the end, so that no offset is used twice when the log is read again.
        batches[-1] = replace(batches[-1], last_offset_delta=end_offset - 1 - batches[-1].base_offset)
        for batch in batches:
            self._keep(batch.base_offset, batch.base_offset + batch.last_offset_delta + 1, write_batch(batch))
        self.compacted_size = max(self.size, COMPACTED_FROM // 2)
        return True

    def segment(self) -> bytes:
        """The whole log."""
        return b"".join(data for _, data in self.batches)

    def read(self, offset: int, most_bytes: int, at_least_one: bool = True) -> bytes:
        """Batches from this offset on: at least one if there is one, even if it is larger."""
        at = bisect_left(self.batches, (offset + 1,))
        if at and self.batches[at - 1][0] <= offset:
            at -= 1
        found: list[bytes] = []
        size = 0
        for _, data in self.batches[at:]:
            if size + len(data) > most_bytes and (found or not at_least_one):
                break
            found.append(data)
            size += len(data)
        return b"".join(found)

    def _keep(self, base_offset: int, end_offset: int, data: bytes) -> None:
        self.batches.append((base_offset, data))
        self.end_offset = end_offset
        self.size += len(data)


def _has_batch(data: bytes, begin: int) -> bool:
    """Whether there is a valid batch anywhere from there on."""
    at = begin - 1
    while (at := data.find(MAGIC_BYTE, at + 1 + MAGIC_AT)) >= 0:
        at -= MAGIC_AT
        length = int.from_bytes(data[at + 8 : at + BEFORE_LENGTH], "big")
        end = at + BEFORE_LENGTH + length
        if HEAD.size <= BEFORE_LENGTH + length and end <= len(data):
            with suppress(InputError):
                if next(read_batches(data[at:end]), None) is not None:
                    return True
    return False


MAGIC_AT, MAGIC_BYTE = 16, bytes([MAGIC])
"""The position of the format in a batch, and its value."""
