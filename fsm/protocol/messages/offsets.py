"""Messages about committed offsets: OffsetCommit, OffsetFetch, OffsetDelete, TxnOffsetCommit.

Source: `OffsetCommitRequest.json`, `OffsetFetchRequest.json`, `OffsetDeleteRequest.json`,
`TxnOffsetCommitRequest.json` and their responses. Since version 10 a topic is named by its id (KIP-848),
in TxnOffsetCommit since version 6 (KIP-1319).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field
from itertools import groupby
from typing import Annotated, NamedTuple

from fsm.protocol.assignment import NO_TOPIC_ID, TopicId, TopicPartition
from fsm.protocol.error_codes import ErrorCode
from fsm.protocol.schema import Int16, Int64, Wire
from fsm.step import value

Offsets = tuple[tuple[TopicPartition, int], ...]
"""The offset of each partition, sorted by partition."""


class OffsetCommitRequestPartition(NamedTuple):
    """One partition's offset."""

    partition_index: int
    committed_offset: Int64
    committed_leader_epoch: Annotated[int, Wire(since=6)] = -1
    committed_metadata: str | None = ""


class OffsetCommitRequestTopic(NamedTuple):
    """Offsets of one topic's partitions."""

    name: Annotated[str, Wire(until=9)] = ""
    topic_id: Annotated[TopicId, Wire(since=10)] = NO_TOPIC_ID
    partitions: tuple[OffsetCommitRequestPartition, ...] = ()


@value
class OffsetCommitRequest:
    """Commits a member's offsets at its epoch; without membership the epoch is -1."""

    group_id: str
    generation_id_or_member_epoch: int = -1
    member_id: str = ""
    group_instance_id: Annotated[str | None, Wire(since=7)] = None
    retention_time_ms: Annotated[Int64, Wire(until=4)] = field(default=-1, kw_only=True)
    topics: tuple[OffsetCommitRequestTopic, ...] = ()

    @property
    def offsets(self) -> Offsets:
        """The offset of each partition."""
        return tuple(((t.name, p.partition_index), p.committed_offset) for t in self.topics for p in t.partitions)


def commit_topics(offsets: Offsets) -> tuple[OffsetCommitRequestTopic, ...]:
    """The offsets in a request's form: by topic."""
    return tuple(
        OffsetCommitRequestTopic(
            topic, partitions=tuple(OffsetCommitRequestPartition(p, offset) for (_, p), offset in found)
        )
        for topic, found in groupby(offsets, key=lambda one: one[0][0])
    )


class OffsetCommitResponsePartition(NamedTuple):
    """Result for one partition's offset."""

    partition_index: int
    error_code: ErrorCode = ErrorCode.NONE


class OffsetCommitResponseTopic(NamedTuple):
    """Results of one topic's partitions."""

    name: Annotated[str, Wire(until=9)] = ""
    topic_id: Annotated[TopicId, Wire(since=10)] = NO_TOPIC_ID
    partitions: tuple[OffsetCommitResponsePartition, ...] = ()


@value
class OffsetCommitResponse:
    """Result for each partition's offset."""

    throttle_time_ms: Annotated[int, Wire(since=3)] = field(default=0, kw_only=True)
    topics: tuple[OffsetCommitResponseTopic, ...] = ()

    @property
    def errors(self) -> tuple[tuple[TopicPartition, ErrorCode], ...]:
        """Partitions whose offset was not committed, with the error."""
        return tuple(
            ((topic.name, partition), code)
            for topic in self.topics
            for partition, code in topic.partitions
            if code is not ErrorCode.NONE
        )


def commit_results(codes: Iterable[tuple[TopicPartition, ErrorCode]]) -> tuple[OffsetCommitResponseTopic, ...]:
    """The partitions' error codes in a response's form: by topic."""
    return tuple(
        OffsetCommitResponseTopic(
            topic, partitions=tuple(OffsetCommitResponsePartition(p, code) for (_, p), code in found)
        )
        for topic, found in groupby(codes, key=lambda one: one[0][0])
    )


class OffsetFetchRequestTopics(NamedTuple):
    """Partitions of one topic; `OffsetFetchRequestTopic` up to version 7."""

    name: Annotated[str, Wire(until=9)] = ""
    topic_id: Annotated[TopicId, Wire(since=10)] = NO_TOPIC_ID
    partition_indexes: tuple[int, ...] = ()


class OffsetFetchRequestGroup(NamedTuple):
    """A group whose offsets are requested, and the requesting member."""

    group_id: str
    member_id: Annotated[str | None, Wire(since=9)] = None
    member_epoch: Annotated[int, Wire(since=9)] = -1
    topics: tuple[OffsetFetchRequestTopics, ...] | None = None
    """None: all."""


@value
class OffsetFetchRequest:
    """Asks for committed offsets; up to version 7 for a single group."""

    group_id: Annotated[str, Wire(until=7)] = ""
    topics: Annotated[tuple[OffsetFetchRequestTopics, ...] | None, Wire(until=7, null_since=2)] = None
    groups: Annotated[tuple[OffsetFetchRequestGroup, ...], Wire(since=8)] = ()
    require_stable: Annotated[bool, Wire(since=7)] = False


class OffsetFetchResponsePartitions(NamedTuple):
    """One partition's offset, -1 if none is committed; `OffsetFetchResponsePartition` up to version 7."""

    partition_index: int
    committed_offset: Int64 = -1
    committed_leader_epoch: Annotated[int, Wire(since=5)] = -1
    metadata: str | None = ""
    error_code: ErrorCode = ErrorCode.NONE


class OffsetFetchResponseTopics(NamedTuple):
    """Offsets of one topic's partitions; `OffsetFetchResponseTopic` up to version 7."""

    name: Annotated[str, Wire(until=9)] = ""
    topic_id: Annotated[TopicId, Wire(since=10)] = NO_TOPIC_ID
    partitions: tuple[OffsetFetchResponsePartitions, ...] = ()


class OffsetFetchResponseGroup(NamedTuple):
    """Offsets of one group."""

    group_id: str
    topics: tuple[OffsetFetchResponseTopics, ...] = ()
    error_code: ErrorCode = ErrorCode.NONE


@value
class OffsetFetchResponse:
    """The committed offsets; up to version 7 of one group."""

    throttle_time_ms: Annotated[int, Wire(since=3)] = field(default=0, kw_only=True)
    topics: Annotated[tuple[OffsetFetchResponseTopics, ...], Wire(until=7)] = ()
    error_code: Annotated[ErrorCode, Wire(since=2, until=7)] = ErrorCode.NONE
    groups: Annotated[tuple[OffsetFetchResponseGroup, ...], Wire(since=8)] = ()


class OffsetDeleteRequestPartition(NamedTuple):
    partition_index: int


class OffsetDeleteRequestTopic(NamedTuple):
    """Partitions of one topic."""

    name: str
    partitions: tuple[OffsetDeleteRequestPartition, ...]


@value
class OffsetDeleteRequest:
    """Deletes committed offsets."""

    group_id: str
    topics: tuple[OffsetDeleteRequestTopic, ...]


@value
class OffsetDeleteResponse:
    """Result for each partition's offset."""

    error_code: ErrorCode = ErrorCode.NONE
    throttle_time_ms: int = field(default=0, kw_only=True)
    topics: tuple[OffsetCommitResponseTopic, ...] = ()


class TxnOffsetCommitRequestPartition(NamedTuple):
    """One partition's offset."""

    partition_index: int
    committed_offset: Int64
    committed_leader_epoch: Annotated[int, Wire(since=2)] = -1
    committed_metadata: str | None = ""


class TxnOffsetCommitRequestTopic(NamedTuple):
    """Offsets of one topic's partitions."""

    name: Annotated[str, Wire(until=5)] = ""
    topic_id: Annotated[TopicId, Wire(since=6)] = NO_TOPIC_ID
    partitions: tuple[TxnOffsetCommitRequestPartition, ...] = ()


@value
class TxnOffsetCommitRequest:
    """Commits offsets as part of a transaction."""

    transactional_id: str
    group_id: str
    producer_id: Int64
    producer_epoch: Int16
    generation_id: Annotated[int, Wire(since=3)] = -1
    member_id: Annotated[str, Wire(since=3)] = ""
    group_instance_id: Annotated[str | None, Wire(since=3)] = None
    topics: tuple[TxnOffsetCommitRequestTopic, ...] = ()


class TxnOffsetCommitResponseTopic(NamedTuple):
    """Results of one topic's partitions."""

    name: Annotated[str, Wire(until=5)] = ""
    topic_id: Annotated[TopicId, Wire(since=6)] = NO_TOPIC_ID
    partitions: tuple[OffsetCommitResponsePartition, ...] = ()


@value
class TxnOffsetCommitResponse:
    """Result for each partition's offset."""

    throttle_time_ms: int = field(default=0, kw_only=True)
    topics: tuple[TxnOffsetCommitResponseTopic, ...] = ()
