"""Reads the records that a broker appends to a group's partition of `__consumer_offsets` during a walk."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from fsm.coordinator.model.hash_order import string_hash
from fsm.errors import InputError
from fsm.protocol.json_form import error_name
from fsm.protocol.messages import FetchPartition, FetchRequest, FetchTopic, PartitionData
from fsm.protocol.printed_records import to_dump_json
from fsm.protocol.record_batches import LogRecord, read_batches
from fsm.protocol.records import OtherKey, Record
from fsm.wire.connection import Connection
from fsm.wire.dialogue import PeerError

OFFSETS_TOPIC = "__consumer_offsets"
FETCHED_BYTES = 4 << 20
SMALLEST = 1 << 31


def partition_of(group_id: str, partitions: int) -> int:
    """The partition of a group's records.

    >>> partition_of("g1", 4), partition_of("polygenelubricants", 50)
    (2, 0)
    """
    code = string_hash(group_id)
    distance = code if code < SMALLEST else 2 * SMALLEST - code
    return 0 if code == SMALLEST else distance % partitions


class OffsetsLog:
    """The tail of one partition: each `read` returns a group's records since the previous one."""

    def __init__(self, connection: Connection, group_id: str, partitions: int) -> None:
        self.connection = connection
        self.group_id = group_id
        self.partition = partition_of(group_id, partitions)
        self.offset = 0
        self.offset = self._fetch().high_watermark

    def read(self) -> tuple[Mapping[str, Any], ...]:
        """The group's new records in the form of Kafka's tools. Raises `PeerError` if the log cannot be read."""
        found: list[Mapping[str, Any]] = []
        while (fetched := self._fetch()).high_watermark > self.offset:
            entries = list(self._entries(fetched.records or b""))
            if not entries:
                raise PeerError(f"{self.connection.peer}: nothing is read of {OFFSETS_TOPIC} at offset {self.offset}")
            self.offset = entries[-1].offset + 1
            found += [to_dump_json(record) for entry in entries if self._is_ours(record := entry.decode())]
        return tuple(found)

    def _entries(self, data: bytes) -> Iterator[LogRecord]:
        try:
            for batch in read_batches(data):
                yield from (entry for entry in batch.records if entry.offset >= self.offset)
        except InputError as problem:
            raise PeerError(f"{self.connection.peer}: {OFFSETS_TOPIC}: {problem}") from None

    def _is_ours(self, record: Record) -> bool:
        return not isinstance(record.key, OtherKey) and record.key[1] == self.group_id

    def _fetch(self) -> PartitionData:
        wanted = FetchPartition(self.partition, fetch_offset=self.offset, partition_max_bytes=FETCHED_BYTES)
        request = FetchRequest(max_bytes=FETCHED_BYTES, topics=(FetchTopic(OFFSETS_TOPIC, partitions=(wanted,)),))
        found: PartitionData = self.connection.call(request).responses[0].partitions[0]
        if found.error_code:
            raise PeerError(f"{self.connection.peer}: cannot read {OFFSETS_TOPIC}: {error_name(found.error_code)}")
        return found
