"""Answers with broker addresses, rewritten so that clients stay with the proxy; and the versions that allow it.

An answer without addresses stays the very same object. Share groups are not judged here, so the messages of their
consumers, which have the addresses of new partition leaders, are separate from the others.

Source: `MetadataResponse.json`, `FindCoordinatorResponse.json`, `DescribeClusterResponse.json`, `FetchResponse.json`,
`ProduceResponse.json` (KIP-951: where a new leader is); `ShareFetchResponse.json`, `ShareAcknowledgeResponse.json` of
kafka-clients 4.4.0 (KIP-932, KIP-1206, KIP-1222).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Annotated, Any, NamedTuple

from fsm.protocol import messages as m
from fsm.protocol.assignment import TopicId
from fsm.protocol.codec import ResponseHeader
from fsm.protocol.encoding import decode_all, decode_as, encode_as
from fsm.protocol.error_codes import ErrorCode
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
    current_leader: m.LeaderIdAndEpoch = m.LeaderIdAndEpoch()
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
    node_endpoints: tuple[m.NodeEndpoint, ...] = ()


class AcknowledgedPartition(NamedTuple):
    """The results of acknowledgements in one partition."""

    partition_index: int
    error_code: ErrorCode = ErrorCode.NONE
    error_message: str | None = None
    current_leader: m.LeaderIdAndEpoch = m.LeaderIdAndEpoch()


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
    node_endpoints: tuple[m.NodeEndpoint, ...] = ()


SHARING: dict[int, type[Any]] = {78: ShareFetchResponse, 79: ShareAcknowledgeResponse}
"""The responses by API key."""
SHARING_SINCE, SHARING_UNTIL = 1, 2
"""The versions of both APIs."""


def read_sharing(key: int, version: int, frame: bytes) -> Any:
    """The answer in a frame; None for one of another API or version. Raises `InputError` for invalid bytes."""
    if key not in SHARING or not SHARING_SINCE <= version <= SHARING_UNTIL:
        return None
    _, begin = decode_as(ResponseHeader, frame, 0, flexible=True)
    return decode_all(SHARING[key], frame, version, flexible=True, at=begin)


def write_sharing(answer: Any, version: int, correlation_id: int) -> bytes:
    """The frame of such an answer."""
    return encode_as(answer, version, True, encode_as(ResponseHeader(correlation_id), 0, True))


Place = Callable[[int, str, int], tuple[str, int]]
"""Node id, host and port of a broker to the host and port where clients find it."""

NAMING: Mapping[str, str] = {
    "Metadata": "brokers",
    "FindCoordinator": "coordinators",
    "DescribeCluster": "brokers",
    "Fetch": "node_endpoints",
    "Produce": "node_endpoints",
}
"""APIs whose answers have broker addresses, and their fields."""
READABLE: Mapping[int, tuple[int, int]] = {
    **{m.APIS[name].key: (0, m.APIS[name].newest) for name in (*NAMING, "ApiVersions")},
    **dict.fromkeys(SHARING, (SHARING_SINCE, SHARING_UNTIL)),
}
"""APIs whose responses have to be read, by key, with the versions that clients may use, which are those known here.
Older versions have no broker addresses, except those of ShareFetch and ShareAcknowledge.
"""
_FIELDS: Mapping[type[Any], str] = {
    **{m.APIS[name].response: naming for name, naming in NAMING.items()},
    **dict.fromkeys(SHARING.values(), "node_endpoints"),
}


def with_places(response: Any, place: Place) -> Any:
    """The answer with the brokers' addresses for clients."""
    if isinstance(response, m.ApiVersionsResponse):
        return _with_readable_versions(response)
    naming = _FIELDS.get(type(response))
    if not naming:
        return response
    brokers = getattr(response, naming)
    changed: dict[str, Any] = {naming: tuple(_move(one, place) for one in brokers)} if brokers else {}
    if isinstance(response, m.FindCoordinatorResponse) and _is_address(response.host, response.port):
        changed["host"], changed["port"] = place(response.node_id, response.host, response.port)
    if not changed:
        return response
    if type(response) in SHARING.values():
        return response._replace(**changed)
    return replace(response, **changed)


def _move(broker: Any, place: Place) -> Any:
    if not _is_address(broker.host, broker.port):
        return broker
    node_id = broker.broker_id if hasattr(broker, "broker_id") else broker.node_id
    host, port = place(node_id, broker.host, broker.port)
    return broker._replace(host=host, port=port)


def _is_address(host: str, port: int) -> bool:
    """Whether it is an address; an unavailable coordinator has none."""
    return bool(host) and 0 < port < 1 << 16


def _with_readable_versions(response: m.ApiVersionsResponse) -> m.ApiVersionsResponse:
    offered = []
    for key, oldest, newest in response.api_keys:
        least, most = READABLE.get(key, (oldest, newest))
        offered.append(m.ApiVersion(key, max(oldest, least), min(newest, most)))
    return replace(response, api_keys=tuple(one for one in offered if one.min_version <= one.max_version))
