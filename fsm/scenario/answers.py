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

from fsm.errors import InputError, LocalProtocolError
from fsm.nodes import Node, nearest
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
from fsm.scenario import words

FAILURES = {"disconnected": DISCONNECTED, "timed_out": TIMED_OUT, "unsupported_version": UNSUPPORTED_VERSION}
INTERVAL_MS = 5_000
"""Heartbeat interval of a coordinator that names none."""
FIRST_NAME = "m-1"
"""Whom a coordinator calls a member of the classic protocol that it does not know."""


def failure_of(node: Node) -> TransportFailure:
    """What went wrong on the way. Raises `InputError` for an unknown word."""
    name = node.text()
    if name not in FAILURES:
        raise InputError(f"{name[:60]!r} is no failure", node.where, nearest(name, tuple(FAILURES)))
    return FAILURES[name]


def number_of(given: Mapping[str, Node], unanswered: Mapping[int, Any]) -> int:
    """Which request is meant: `to`, or the oldest. Raises `LocalProtocolError` where no such request waits."""
    number = given["to"].number() if "to" in given else min(unanswered, default=0)
    if number not in unanswered:
        raise LocalProtocolError("no such request waits for an answer")
    return number


def answer_to(request: object, node: Node) -> object:
    """The response to a request. Raises `InputError` with the line for a field that its response does not have."""
    keys, build = _ANSWERS[type(request)]
    given = {} if node.is_null else node.fields(("to", *keys))
    return build(request, given)


def code_of(given: Mapping[str, Node]) -> ErrorCode:
    """The error of an answer, none where none is named."""
    return _code(given["error_code"]) if "error_code" in given else ErrorCode.NONE


def _code(node: Node) -> ErrorCode:
    name = node.text()
    if name not in ErrorCode.__members__:
        known = tuple(ErrorCode.__members__)
        raise InputError(f"{name[:60]!r} is no error code of Kafka's", node.where, nearest(name, known))
    return ErrorCode[name]


def _number(given: Mapping[str, Node], key: str, otherwise: int) -> int:
    return given[key].number() if key in given else otherwise


def _text(given: Mapping[str, Node], key: str, otherwise: str) -> str:
    return given[key].text() if key in given else otherwise


def _heartbeat_of_consumer(asked: ConsumerGroupHeartbeatRequest, given: Mapping[str, Node]) -> object:
    return ConsumerGroupHeartbeatResponse(
        _number(given, "member_epoch", asked.member_epoch),
        _number(given, "heartbeat_interval_ms", INTERVAL_MS),
        _assignment(given["assignment"]) if "assignment" in given else None,
        error_code=code_of(given),
        error_message=_text(given, "error_message", "") or None,
        member_id=asked.member_id,
    )


def _assignment(node: Node) -> TopicPartitions | None:
    if node.is_null:
        return None
    found: dict[str, list[int]] = {}
    for topic, number in words.partitions_of(node):
        found.setdefault(topic, []).append(number)
    return topic_partitions(found)


def _commit(_: OffsetCommitRequest, given: Mapping[str, Node]) -> object:
    pairs = given["errors"].mapping().values() if "errors" in given else ()
    return OffsetCommitResponse(commit_results((words.partition(key), _code(value)) for key, value in pairs))


def _join(asked: JoinGroupRequest, given: Mapping[str, Node]) -> object:
    members = given["members"].mapping() if "members" in given else {}
    return JoinGroupResponse(
        _number(given, "generation_id", -1),
        "consumer",
        _text(given, "protocol_name", asked.protocols[0].name),
        _text(given, "leader", "another"),
        _text(given, "member_id", asked.member_id or FIRST_NAME),
        tuple(JoinGroupResponseMember(name, metadata=_subscription(value)) for name, (_, value) in members.items()),
        error_code=code_of(given),
    )


def _subscription(node: Node) -> bytes:
    given = node.fields(("topics", "owned_partitions"), ("topics",))
    owned = words.partitions_of(given["owned_partitions"]) if "owned_partitions" in given else ()
    return encode_subscription(Subscription(words.texts(given["topics"]), owned_partitions=owned))


def _sync(asked: SyncGroupRequest, given: Mapping[str, Node]) -> object:
    assigned = words.partitions_of(given["assignment"]) if "assignment" in given else ()
    error = code_of(given)
    data = b"" if error is not ErrorCode.NONE else encode_assignment(Assignment(assigned))
    return SyncGroupResponse(data, protocol_type="consumer", protocol_name=asked.protocol_name, error_code=error)


def _heartbeat(_: HeartbeatRequest, given: Mapping[str, Node]) -> object:
    return HeartbeatResponse(code_of(given))


def _leave(_: LeaveGroupRequest, given: Mapping[str, Node]) -> object:
    return LeaveGroupResponse(code_of(given))


_ANSWERS: Mapping[type, tuple[tuple[str, ...], Callable[[Any, Mapping[str, Node]], object]]] = {
    ConsumerGroupHeartbeatRequest: (
        ("member_epoch", "heartbeat_interval_ms", "assignment", "error_code", "error_message"),
        _heartbeat_of_consumer,
    ),
    OffsetCommitRequest: (("errors",), _commit),
    JoinGroupRequest: (("generation_id", "protocol_name", "leader", "member_id", "members", "error_code"), _join),
    SyncGroupRequest: (("assignment", "error_code"), _sync),
    HeartbeatRequest: (("error_code",), _heartbeat),
    LeaveGroupRequest: (("error_code",), _leave),
}
"""By the request: the keys its answer may have, and how it is made."""
