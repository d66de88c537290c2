"""The coordinator's answers in a conversation, as the scenario writes them: Kafka's fields, most of them left out.

    answer: {member_epoch: 1, assignment: [orders-0, orders-1]}        # to the oldest request without an answer
    answer: {to: 4, error_code: FENCED_MEMBER_EPOCH}                   # to the fourth request of the conversation
    answer: {generation_id: 1, leader: m-2}                            # to a JoinGroup
    fail: disconnected                                                 # no answer: disconnected, timed_out, ...

What is left out is what a coordinator that is content answers: no error, the epoch of the request, no new assignment.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from fsm.errors import LocalProtocolError
from fsm.nodes import Node
from fsm.protocol.assignment import TopicPartitions, topic_partitions
from fsm.protocol.consumer_protocol import Assignment, Subscription, encode_assignment, encode_subscription
from fsm.protocol.error_codes import ErrorCode
from fsm.protocol.messages import (
    DISCONNECTED,
    TIMED_OUT,
    UNSUPPORTED_VERSION,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    JoinGroupResponseMember,
    LeaveGroupRequest,
    LeaveGroupResponse,
    OffsetCommitRequest,
    OffsetCommitResponse,
    SyncGroupRequest,
    SyncGroupResponse,
    TransportFailure,
    commit_results,
)
from fsm.scenario.texts import read_known, read_number, read_partition, read_partitions, read_text, read_texts

FAILURES = {"disconnected": DISCONNECTED, "timed_out": TIMED_OUT, "unsupported_version": UNSUPPORTED_VERSION}
INTERVAL_MS = 5_000
"""Heartbeat interval of a coordinator that names none."""
FIRST_NAME = "m-1"
"""Whom a coordinator calls a member of the classic protocol that it does not know."""


def read_failure(node: Node) -> TransportFailure:
    """What went wrong on the way. Raises `InputError` for an unknown word."""
    return FAILURES[read_known(node, tuple(FAILURES), "failure")]


def choose_request(given: Mapping[str, Node], unanswered: Mapping[int, Any]) -> int:
    """Which request is meant: `to`, or the oldest. Raises `LocalProtocolError` where no such request waits."""
    number = read_number(given, "to", min(unanswered, default=0))
    if number not in unanswered:
        raise LocalProtocolError("no such request waits for an answer")
    return number


def read_answer(request: object, node: Node) -> object:
    """The response to a request. Raises `InputError` with the line for a field that its response does not have."""
    keys, build = _ANSWERS[type(request)]
    given = {} if node.is_null else node.fields(("to", *keys))
    return build(request, given)


def _read_error(given: Mapping[str, Node]) -> ErrorCode:
    """The error of an answer, none where none is named."""
    return _read_code(given["error_code"]) if "error_code" in given else ErrorCode.NONE


def _read_code(node: Node) -> ErrorCode:
    return ErrorCode[read_known(node, tuple(ErrorCode.__members__), "error code of Kafka's")]


def _heartbeat_of_consumer(asked: ConsumerGroupHeartbeatRequest, given: Mapping[str, Node]) -> object:
    return ConsumerGroupHeartbeatResponse(
        read_number(given, "member_epoch", asked.member_epoch),
        read_number(given, "heartbeat_interval_ms", INTERVAL_MS),
        _read_target(given["assignment"]) if "assignment" in given else None,
        error_code=_read_error(given),
        error_message=read_text(given, "error_message", "") or None,
        member_id=asked.member_id,
    )


def _read_target(node: Node) -> TopicPartitions | None:
    if node.is_null:
        return None
    found: dict[str, list[int]] = {}
    for topic, number in read_partitions(node):
        found.setdefault(topic, []).append(number)
    return topic_partitions(found)


def _commit(_: OffsetCommitRequest, given: Mapping[str, Node]) -> object:
    pairs = given["errors"].mapping().values() if "errors" in given else ()
    return OffsetCommitResponse(commit_results((read_partition(key), _read_code(value)) for key, value in pairs))


def _join(asked: JoinGroupRequest, given: Mapping[str, Node]) -> object:
    members = given["members"].mapping() if "members" in given else {}
    return JoinGroupResponse(
        read_number(given, "generation_id", -1),
        "consumer",
        read_text(given, "protocol_name", asked.protocols[0].name),
        read_text(given, "leader", "another"),
        read_text(given, "member_id", asked.member_id or FIRST_NAME),
        tuple(JoinGroupResponseMember(n, metadata=_read_subscription(value)) for n, (_, value) in members.items()),
        error_code=_read_error(given),
    )


def _read_subscription(node: Node) -> bytes:
    given = node.fields(("topics", "owned_partitions"), ("topics",))
    owned = read_partitions(given["owned_partitions"]) if "owned_partitions" in given else ()
    return encode_subscription(Subscription(read_texts(given["topics"]), owned_partitions=owned))


def _sync(asked: SyncGroupRequest, given: Mapping[str, Node]) -> object:
    assigned = read_partitions(given["assignment"]) if "assignment" in given else ()
    error = _read_error(given)
    data = b"" if error is not ErrorCode.NONE else encode_assignment(Assignment(assigned))
    return SyncGroupResponse(data, protocol_type="consumer", protocol_name=asked.protocol_name, error_code=error)


_ANSWERS: Mapping[type, tuple[tuple[str, ...], Callable[[Any, Mapping[str, Node]], object]]] = {
    ConsumerGroupHeartbeatRequest: (
        ("member_epoch", "heartbeat_interval_ms", "assignment", "error_code", "error_message"),
        _heartbeat_of_consumer,
    ),
    OffsetCommitRequest: (("errors",), _commit),
    JoinGroupRequest: (("generation_id", "protocol_name", "leader", "member_id", "members", "error_code"), _join),
    SyncGroupRequest: (("assignment", "error_code"), _sync),
    HeartbeatRequest: (("error_code",), lambda _, given: HeartbeatResponse(_read_error(given))),
    LeaveGroupRequest: (("error_code",), lambda _, given: LeaveGroupResponse(_read_error(given))),
}
"""By the request: the keys its answer may have, and how it is made."""
