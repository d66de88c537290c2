"""Answers to share consumers, which have the addresses of new partition leaders.

Share groups are not judged here, so these messages are separate from the others.

Source: `ShareFetchResponse.json`, `ShareAcknowledgeResponse.json` of kafka-clients 4.4.0 (KIP-932, KIP-1206, KIP-1222).
"""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple

from fsm.protocol.assignment import TopicId
from fsm.protocol.codec import ResponseHeader
from fsm.protocol.encoding import decode_all, decode_as, encode_as
from fsm.protocol.error_codes import ErrorCode
from fsm.protocol.messages import LeaderIdAndEpoch, NodeEndpoint
from fsm.protocol.schema import Int16, Int64, Wire


class AcquiredRecords(NamedTuple):
    """Records that the member may read, and how often they were delivered."""

    first_offset: Int64
    last_offset: Int64
    delivery_count: Int16


class SharePartitionData(NamedTuple):
    """Records of one partition."""

    partition_index: int
    error_code: ErrorCode = ErrorCode.NONE
    error_message: str | None = None
    acknowledge_error_code: ErrorCode = ErrorCode.NONE
    acknowledge_error_message: str | None = None
    current_leader: LeaderIdAndEpoch = LeaderIdAndEpoch()
    records: bytes | None = None
    acquired_records: tuple[AcquiredRecords, ...] = ()


class ShareFetchableTopicResponse(NamedTuple):
    """Records of one topic."""

    topic_id: TopicId
    partitions: tuple[SharePartitionData, ...] = ()


class ShareFetchResponse(NamedTuple):
    """Records for a share consumer."""

    throttle_time_ms: int = 0
    error_code: ErrorCode = ErrorCode.NONE
    error_message: str | None = None
    acquisition_lock_timeout_ms: int = 0
    responses: tuple[ShareFetchableTopicResponse, ...] = ()
    node_endpoints: tuple[NodeEndpoint, ...] = ()


class AcknowledgedPartition(NamedTuple):
    """The results of acknowledgements in one partition."""

    partition_index: int
    error_code: ErrorCode = ErrorCode.NONE
    error_message: str | None = None
    current_leader: LeaderIdAndEpoch = LeaderIdAndEpoch()


class AcknowledgedTopic(NamedTuple):
    """The results of acknowledgements in one topic."""

    topic_id: TopicId
    partitions: tuple[AcknowledgedPartition, ...] = ()


class ShareAcknowledgeResponse(NamedTuple):
    """The results of acknowledgements."""

    throttle_time_ms: int = 0
    error_code: ErrorCode = ErrorCode.NONE
    error_message: str | None = None
    acquisition_lock_timeout_ms: Annotated[int, Wire(since=2)] = 0
    responses: tuple[AcknowledgedTopic, ...] = ()
    node_endpoints: tuple[NodeEndpoint, ...] = ()


SHARING: dict[int, type[Any]] = {78: ShareFetchResponse, 79: ShareAcknowledgeResponse}
"""The responses by API key."""
OLDEST, NEWEST = 1, 2
"""The versions of both APIs."""


def read_sharing(key: int, version: int, frame: bytes) -> Any:
    """The answer in a frame; None for one of another API or version. Raises `InputError` for invalid bytes."""
    if key not in SHARING or not OLDEST <= version <= NEWEST:
        return None
    _, begin = decode_as(ResponseHeader, frame, 0, flexible=True)
    return decode_all(SHARING[key], frame, version, flexible=True, at=begin)


def write_sharing(answer: Any, version: int, correlation_id: int) -> bytes:
    """The frame of such an answer."""
    return encode_as(answer, version, True, encode_as(ResponseHeader(correlation_id), 0, True))
