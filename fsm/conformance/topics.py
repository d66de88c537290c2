"""The topics of a broker: creates, grows and deletes them, and waits until its metadata shows the change; reads the
records that it appends to a group's partition of `__consumer_offsets` during a walk.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any

from fsm.conformance.steps import TopicChange
from fsm.coordinator.model.hash_order import string_hash
from fsm.errors import InputError
from fsm.protocol import messages as m
from fsm.protocol.json_form import error_name
from fsm.protocol.printed_records import to_dump_json
from fsm.protocol.record_batches import LogRecord, read_batches
from fsm.protocol.records import OtherKey, Record
from fsm.wire.connection import Connection
from fsm.wire.dialogue import PeerError

READY_S, TIMEOUT_MS = 60.0, 10_000


class Topics:
    """The topics of one broker."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.made: list[str] = []
        """Topics that walks created and did not delete."""

    def all(self) -> dict[str, TopicChange]:
        """Every topic by name: a regular expression may match any of them."""
        found = [topic for topic in metadata(self.connection).topics if not topic.error_code]
        return {t.name: TopicChange("create", t.name, t.topic_id, len(t.partitions)) for t in found if t.name}

    def partitions(self, name: str) -> int:
        """The number of partitions of the topic; 0 if there is no such topic."""
        found = self._find(name)
        return len(found.partitions) if found else 0

    def ensure(self, name: str, partitions: int) -> None:
        """Creates the topic if it is missing.

        Raises `PeerError` if the broker refuses, `InputError` if the topic has another number of partitions.
        """
        found = self.partitions(name)
        if not found:
            self._ask("create", name, partitions)
            self._wait_until_settled("create", name, partitions)
        elif found != partitions:
            what = f"topic {name} has {found} partitions, a walk needs {partitions}"
            raise InputError(what, self.connection.peer, "delete it; it is recreated")

    def change(self, action: str, name: str, partitions: int) -> TopicChange:
        """Creates, grows or deletes a topic. Raises `PeerError` if the broker refuses."""
        self._ask(action, name, partitions)
        if action == "create":
            self.made.append(name)
        elif action == "delete":
            self.made.remove(name)
        return self._wait_until_settled(action, name, partitions)

    def remove_made(self) -> None:
        """Deletes the topics left by walks. Raises `PeerError` if the broker refuses."""
        for name in list(self.made):
            self.change("delete", name, 0)

    def _find(self, name: str) -> m.MetadataResponseTopic | None:
        return next((topic for topic in metadata(self.connection, name).topics if not topic.error_code), None)

    def _wait_until_settled(self, action: str, name: str, partitions: int) -> TopicChange:
        """The topic, when the broker's metadata shows the change. Raises `PeerError` after `READY_S`."""
        until = time.monotonic() + READY_S
        while time.monotonic() < until:
            found = self._find(name)
            if len(found.partitions) == partitions if found else action == "delete":
                return TopicChange(action, name, found.topic_id if found else "", partitions)
            time.sleep(0.05)
        raise PeerError(f"{self.connection.peer}: topic {name} is not ready {READY_S:g} s after: {action}")

    def _ask(self, action: str, name: str, partitions: int) -> None:
        call = self.connection.call
        if action == "create":
            results = call(m.CreateTopicsRequest((m.CreatableTopic(name, partitions, 1),), TIMEOUT_MS)).topics
        elif action == "grow":
            results = call(m.CreatePartitionsRequest((m.CreatePartitionsTopic(name, partitions),), TIMEOUT_MS)).results
        else:
            results = call(m.DeleteTopicsRequest(topic_names=(name,), timeout_ms=TIMEOUT_MS)).responses
        if error := results[0].error_code:
            raise PeerError(f"{self.connection.peer}: cannot {action} topic {name}: {error_name(error)}")


def metadata(connection: Connection, *names: str) -> m.MetadataResponse:
    """The Metadata response for these topics, or for all."""
    topics = tuple(m.MetadataRequestTopic(name=name) for name in names) if names else None
    found: m.MetadataResponse = connection.call(m.MetadataRequest(topics, allow_auto_topic_creation=False))
    return found


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

    def _fetch(self) -> m.PartitionData:
        wanted = m.FetchPartition(self.partition, fetch_offset=self.offset, partition_max_bytes=FETCHED_BYTES)
        request = m.FetchRequest(max_bytes=FETCHED_BYTES, topics=(m.FetchTopic(OFFSETS_TOPIC, partitions=(wanted,)),))
        found: m.PartitionData = self.connection.call(request).responses[0].partitions[0]
        if found.error_code:
            raise PeerError(f"{self.connection.peer}: cannot read {OFFSETS_TOPIC}: {error_name(found.error_code)}")
        return found
