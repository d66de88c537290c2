"""The topics of the brokers, and their records: Fetch, Produce, ListOffsets, OffsetForLeaderEpoch.

Partition p of a topic is led by broker 1 + p modulo their number. `__consumer_offsets` has the coordinators' logs.
"""

from __future__ import annotations

from base64 import urlsafe_b64encode
from collections.abc import Callable, Mapping
from random import Random
from typing import Any

from fsm.coordinator.model.context import Topic
from fsm.errors import InputError
from fsm.protocol import messages as m
from fsm.protocol.assignment import NO_TOPIC_ID, TopicId, TopicPartition
from fsm.protocol.config import LEGAL_NAME
from fsm.protocol.error_codes import ErrorCode
from fsm.serve.partition_logs import KEPT_BYTES, GroupLog, PartitionLog

OFFSETS_TOPIC = "__consumer_offsets"
MOST_FETCHED = 1 << 20
"""The bytes of records in one answer, since many may wait for clients that do not read; a first batch may be larger."""
KEPT_IN_ALL = 256 << 20
"""The bytes of produced records, of which each partition has its share. Batches are refused only if partitions were
added after others had filled their shares, or if batches are larger than a share.
"""
LATEST, EARLIEST, NEWEST, EARLIEST_LOCAL = -1, -2, -3, -4
"""Special timestamps for the ends of the log, and for its newest record; smaller ones are for tiered storage."""


MOST_PARTITIONS = 10_000
"""The maximal partition count of one topic."""
MOST_PARTITIONS_IN_ALL = 20_000
"""The maximal partition count of all topics: the metadata of all takes some tenths of a second."""


class TooManyError(InputError):
    """More partitions than all topics may have."""


class Topics:
    """Topics by name, and the records of their partitions."""

    def __init__(self, brokers: int, records_a_second: float) -> None:
        self.by_name: dict[str, Topic] = {}
        self.names: dict[TopicId, str] = {}
        self.brokers = brokers
        self.records_a_second = records_a_second
        self.offsets: Callable[[int], tuple[int, GroupLog] | None] = lambda _: None
        """Leader and log of a partition of `__consumer_offsets`; None for an unknown partition."""
        self._logs: dict[TopicPartition, PartitionLog] = {}
        self._kept = 0
        """The bytes of produced records."""

    def set(self, name: str, topic: Topic, now_ms: float) -> None:
        """Adds or extends a topic."""
        self.by_name[name] = topic
        self.names[topic.topic_id] = name
        for partition in range(topic.partitions):
            if (name, partition) not in self._logs:
                self._logs[name, partition] = PartitionLog(name, partition, now_ms, self.records_a_second)

    def change(self, name: str, partitions: int, now_ms: float, random: Random) -> None:
        """Creates or extends a topic, or deletes it for 0 partitions. Raises `InputError` for an impossible change."""
        check_name(name)
        if not 0 <= partitions <= MOST_PARTITIONS:
            raise InputError(f"a topic has 1 to {MOST_PARTITIONS} partitions, not {partitions}", name)
        topic = self.by_name.get(name)
        if partitions == 0:
            if topic is None:
                raise InputError("there is no such topic", name)
            self.delete(name)
        elif partitions - (topic.partitions if topic else 0) > MOST_PARTITIONS_IN_ALL - self.partitions:
            raise TooManyError(f"all topics have at most {MOST_PARTITIONS_IN_ALL} partitions", name)
        elif topic is None:
            made = urlsafe_b64encode(random.randbytes(16)).decode().rstrip("=")
            self.set(name, Topic(made, partitions), int(now_ms))
        elif partitions <= topic.partitions:
            raise InputError(f"it has {topic.partitions} partitions; it can only get more", name)
        else:
            self.set(name, Topic(topic.topic_id, partitions), int(now_ms))

    def delete(self, name: str) -> None:
        """Deletes the topic with its records."""
        topic = self.by_name.pop(name)
        del self.names[topic.topic_id]
        for partition in range(topic.partitions):
            self._kept -= self._logs.pop((name, partition)).size

    @property
    def partitions(self) -> int:
        """The partition count of all topics."""
        return len(self._logs)

    def _kept_bytes(self) -> int:
        """The size limit of one partition."""
        return min(KEPT_BYTES, KEPT_IN_ALL // max(1, len(self._logs)))

    def since_ms(self, name: str) -> float:
        """When the generation of the topic's records began."""
        return self._logs[name, 0].since_ms

    def leader(self, partition: int) -> int:
        """The broker that leads this partition of any topic."""
        return 1 + partition % self.brokers

    def fetch(self, request: m.FetchRequest, broker: int, now_ms: float) -> tuple[m.FetchResponse, bool, float | None]:
        """The requested records; whether they suffice for an answer; when more are generated."""
        topics, size, failed = [], 0, False
        next_ms: float | None = None
        for topic in request.topics:
            name = topic.topic or self.names.get(topic.topic_id, "")
            found = []
            for wanted in topic.partitions:
                most = min(wanted.partition_max_bytes, request.max_bytes - size, MOST_FETCHED - size)
                log = self._find_any(name, wanted.partition, now_ms)
                data = self._read(wanted, log, broker, most, not size)
                if data.error_code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and not name:
                    data = data._replace(error_code=ErrorCode.UNKNOWN_TOPIC_ID)
                failed = failed or data.error_code is not ErrorCode.NONE
                size += len(data.records or b"")
                found.append(data)
                due_ms = log.next_ms() if isinstance(log, PartitionLog) else None
                if due_ms is not None:
                    next_ms = due_ms if next_ms is None else min(next_ms, due_ms)
            topics.append(m.FetchableTopicResponse(topic.topic, topic.topic_id, tuple(found)))
        is_due = failed or not request.topics or size >= request.min_bytes or not request.max_wait_ms
        return m.FetchResponse(responses=tuple(topics)), is_due, next_ms

    def _find_any(self, name: str, partition: int, now_ms: float) -> PartitionLog | GroupLog | None:
        """The partition's log, also of `__consumer_offsets`."""
        if name != OFFSETS_TOPIC:
            return self._find(name, partition, now_ms)
        found = self.offsets(partition)
        return found[1] if found else None

    def _read(
        self, wanted: m.FetchPartition, log: PartitionLog | GroupLog | None, broker: int, most: int, at_least_one: bool
    ) -> m.PartitionData:
        number, offset = wanted.partition, wanted.fetch_offset
        if log is None:
            return m.PartitionData(number, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1, records=b"")
        led = self.offsets(number) if isinstance(log, GroupLog) else None
        if (led[0] if led else self.leader(number)) != broker:
            return m.PartitionData(number, ErrorCode.NOT_LEADER_OR_FOLLOWER, -1, records=b"")
        if wanted.current_leader_epoch > 0:
            return m.PartitionData(number, ErrorCode.UNKNOWN_LEADER_EPOCH, -1, records=b"")
        if not log.start_offset <= offset <= log.end_offset:
            return m.PartitionData(number, ErrorCode.OFFSET_OUT_OF_RANGE, -1, records=b"")
        end, records = log.end_offset, log.read(offset, most, at_least_one)
        return m.PartitionData(number, ErrorCode.NONE, end, end, log.start_offset, records=records)

    def produce(self, request: m.ProduceRequest, broker: int, now_ms: float) -> m.ProduceResponse:
        """Appends the valid batches."""

        def one(name: str, topic_id: TopicId, data: m.PartitionProduceData) -> m.PartitionProduceResponse:
            if request.acks not in (-1, 0, 1):
                return m.PartitionProduceResponse(data.index, ErrorCode.INVALID_REQUIRED_ACKS)
            if name == OFFSETS_TOPIC:
                return m.PartitionProduceResponse(data.index, ErrorCode.INVALID_TOPIC_EXCEPTION)
            log = self._find(name, data.index, now_ms)
            if self._kept > 2 * KEPT_IN_ALL:
                return m.PartitionProduceResponse(data.index, ErrorCode.KAFKA_STORAGE_ERROR)
            if log is None:
                by_id = not name and topic_id != NO_TOPIC_ID
                code = ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                return m.PartitionProduceResponse(data.index, code)
            if self.leader(data.index) != broker:
                return m.PartitionProduceResponse(data.index, ErrorCode.NOT_LEADER_OR_FOLLOWER)
            partitions = range(self.by_name[name].partitions)
            if not self._logs[name, partitions[-1]].has_ended:  # the last one is the newest
                for partition in partitions:
                    self._logs[name, partition].end(now_ms)
            before = log.size
            code, offset = log.append(data.records or b"", self._kept_bytes())
            self._kept += log.size - before
            return m.PartitionProduceResponse(data.index, code, offset, -1, log.start_offset)

        found = []
        for topic in request.topic_data:
            name = topic.name or self.names.get(topic.topic_id, "")
            made = tuple(one(name, topic.topic_id, data) for data in topic.partition_data)
            found.append(m.TopicProduceResponse(topic.name, topic.topic_id, made))
        return m.ProduceResponse(tuple(found))

    def list_offsets(self, request: m.ListOffsetsRequest, broker: int, now_ms: float) -> m.ListOffsetsResponse:
        """Offsets by time."""

        def one(name: str, wanted: m.ListOffsetsPartition) -> m.ListOffsetsPartitionResponse:
            number, time_ms = wanted.partition_index, wanted.timestamp
            group_log = self.offsets(number) if name == OFFSETS_TOPIC else None
            if group_log is not None:
                offset = group_log[1].end_offset if time_ms == LATEST else 0
                return m.ListOffsetsPartitionResponse(number, offset=offset, leader_epoch=0)
            log = self._find(name, number, now_ms)
            if log is None:
                return m.ListOffsetsPartitionResponse(number, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            if self.leader(number) != broker:
                return m.ListOffsetsPartitionResponse(number, ErrorCode.NOT_LEADER_OR_FOLLOWER)
            if wanted.current_leader_epoch > 0:
                return m.ListOffsetsPartitionResponse(number, ErrorCode.UNKNOWN_LEADER_EPOCH)
            offset, found_ms = _find_offset(log, time_ms)
            epoch = 0 if offset >= 0 else -1
            return m.ListOffsetsPartitionResponse(number, ErrorCode.NONE, found_ms, offset, epoch)

        topics = tuple(
            m.ListOffsetsTopicResponse(topic.name, tuple(one(topic.name, wanted) for wanted in topic.partitions))
            for topic in request.topics
        )
        return m.ListOffsetsResponse(topics=topics)

    def end_of_epoch(
        self, request: m.OffsetForLeaderEpochRequest, broker: int, now_ms: float
    ) -> m.OffsetForLeaderEpochResponse:
        """The end offset of the leader epoch of each partition: there is one epoch, 0."""

        def one(name: str, wanted: m.OffsetForLeaderPartition) -> m.EndOfLeaderEpoch:
            log = self._find(name, wanted.partition, now_ms)
            if log is None:
                return m.EndOfLeaderEpoch(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, wanted.partition)
            if self.leader(wanted.partition) != broker:
                return m.EndOfLeaderEpoch(ErrorCode.NOT_LEADER_OR_FOLLOWER, wanted.partition)
            if wanted.leader_epoch:
                return m.EndOfLeaderEpoch(ErrorCode.NONE, wanted.partition)
            return m.EndOfLeaderEpoch(ErrorCode.NONE, wanted.partition, 0, log.end_offset)

        topics = tuple(
            m.OffsetForLeaderTopicResult(topic.topic, tuple(one(topic.topic, wanted) for wanted in topic.partitions))
            for topic in request.topics
        )
        return m.OffsetForLeaderEpochResponse(topics=topics)

    def _find(self, name: str, partition: int, now_ms: float) -> PartitionLog | None:
        log = self._logs.get((name, partition))
        if log is not None:
            log.grow(now_ms)
        return log

    def describe(self) -> list[list[Any]]:
        """Name, id and number of partitions of each topic, sorted."""
        return [[name, topic.topic_id, topic.partitions] for name, topic in sorted(self.by_name.items())]


def check_name(name: str) -> None:
    """Raises `InputError` for an invalid topic name."""
    if not LEGAL_NAME.fullmatch(name) or name == OFFSETS_TOPIC:
        raise InputError(f"{name!r} cannot be the name of a topic", "topic")


def _find_offset(log: PartitionLog, time_ms: int) -> tuple[int, int]:
    if time_ms == LATEST:
        return log.end_offset, -1
    if time_ms in (EARLIEST, EARLIEST_LOCAL):
        return log.start_offset, -1
    if time_ms < NEWEST:
        return -1, -1
    return log.newest() if time_ms == NEWEST else log.find_time(time_ms)


ANSWERED: Mapping[type[Any], Callable[[Topics, Any, int, float], Any]] = {
    m.ProduceRequest: Topics.produce,
    m.ListOffsetsRequest: Topics.list_offsets,
    m.OffsetForLeaderEpochRequest: Topics.end_of_epoch,
}
"""Requests that are answered at once."""
