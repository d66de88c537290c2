"""Requests to the coordinator as a scenario writes them: Kafka's fields, members by their names, partitions as texts.

    ConsumerGroupHeartbeat: {subscribed_topic_names: [foo]}
    JoinGroup: {protocols: {range: {topics: [foo], owned_partitions: []}}}
    SyncGroup: {assignments: {A: [foo-0], B: [foo-1]}}
    Heartbeat:
    LeaveGroup:
    OffsetCommit: {offsets: {foo-0: 17}}

What is left out is what a client would send that has nothing new to say: its id, and the epoch or generation of the
last answer. A consumer member without one joins, and says everything.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from fsm.nodes import Node
from fsm.protocol.assignment import Partitions, TopicPartitions
from fsm.protocol.consumer_protocol import Assignment, Subscription, encode_assignment, encode_subscription
from fsm.protocol.messages import (
    ConsumerGroupHeartbeatRequest,
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    LeaveGroupRequest,
    MemberIdentity,
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
)
from fsm.scenario.texts import read_number, read_offsets, read_partitions, read_texts

Given = Mapping[str, Node]

SESSION_MS, REBALANCE_MS = 45_000, 300_000


class Sender(NamedTuple):
    """Who sends a request, and what is known around it."""

    group_id: str
    member_id: str
    """Empty where the coordinator has not named it yet."""
    topic_ids: Mapping[str, str]
    ids: Mapping[str, str]
    """Member ids by name."""
    epoch: int
    """The epoch or generation of the last answer, 0 before the first."""
    protocol: str
    """The protocol that its last join was answered with, empty before the first."""


class Api(NamedTuple):
    """How a scenario may write one kind of request."""

    version: int
    keys: tuple[str, ...]
    required: tuple[str, ...]
    build: Callable[[Given, Sender], Any]


def _text(given: Given, key: str) -> str | None:
    return given[key].text() if key in given and not given[key].is_null else None


def _by_topic(partitions: Partitions, sender: Sender) -> TopicPartitions:
    """Partitions by topic id; a topic that does not exist has its name for an id."""
    found: dict[str, list[int]] = {}
    for topic, number in partitions:
        found.setdefault(sender.topic_ids.get(topic, topic), []).append(number)
    return tuple((topic_id, tuple(numbers)) for topic_id, numbers in found.items())


def _consumer_heartbeat(given: Given, sender: Sender) -> ConsumerGroupHeartbeatRequest:
    epoch = read_number(given, "member_epoch", sender.epoch)
    owned: Partitions | None = () if epoch == 0 else None
    if "topic_partitions" in given:
        node = given["topic_partitions"]
        owned = None if node.is_null else read_partitions(node)
    names = given.get("subscribed_topic_names")
    return ConsumerGroupHeartbeatRequest(
        sender.group_id,
        _text(given, "member_id") or sender.member_id,
        epoch,
        instance_id=_text(given, "instance_id"),
        rack_id=_text(given, "rack_id"),
        rebalance_timeout_ms=read_number(given, "rebalance_timeout_ms", REBALANCE_MS if epoch == 0 else -1),
        subscribed_topic_names=None if names is None or names.is_null else read_texts(names),
        subscribed_topic_regex=_text(given, "subscribed_topic_regex"),
        server_assignor=_text(given, "server_assignor"),
        topic_partitions=None if owned is None else _by_topic(owned, sender),
    )


def _join(given: Given, sender: Sender) -> JoinGroupRequest:
    protocols = given["protocols"].mapping()
    return JoinGroupRequest(
        sender.group_id,
        read_number(given, "session_timeout_ms", SESSION_MS),
        read_number(given, "rebalance_timeout_ms", REBALANCE_MS),
        *_identity(given, sender),
        "consumer",
        tuple(JoinGroupRequestProtocol(name, _subscription(node)) for name, (_, node) in protocols.items()),
    )


def _identity(given: Given, sender: Sender) -> tuple[str, str | None]:
    member_id = _text(given, "member_id")
    return sender.member_id if member_id is None else member_id, _text(given, "group_instance_id")


def _subscription(node: Node) -> bytes:
    given = node.fields(("topics", "owned_partitions", "generation_id"), ("topics",))
    owned = read_partitions(given["owned_partitions"]) if "owned_partitions" in given else ()
    generation = read_number(given, "generation_id", -1)
    return encode_subscription(
        Subscription(read_texts(given["topics"]), owned_partitions=owned, generation_id=generation)
    )


def _sync(given: Given, sender: Sender) -> SyncGroupRequest:
    assignments = given["assignments"].mapping().values() if "assignments" in given else ()
    return SyncGroupRequest(
        sender.group_id,
        read_number(given, "generation_id", sender.epoch),
        *_identity(given, sender),
        "consumer",
        _text(given, "protocol_name") if "protocol_name" in given else sender.protocol,
        tuple(
            SyncGroupRequestAssignment(
                sender.ids.get(name.text(), name.text()), encode_assignment(Assignment(read_partitions(value)))
            )
            for name, value in assignments
        ),
    )


def _heartbeat(given: Given, sender: Sender) -> HeartbeatRequest:
    generation = read_number(given, "generation_id", sender.epoch)
    return HeartbeatRequest(sender.group_id, generation, *_identity(given, sender))


def _leave(given: Given, sender: Sender) -> LeaveGroupRequest:
    return LeaveGroupRequest(sender.group_id, members=(MemberIdentity(*_identity(given, sender)),))


def _commit(given: Given, sender: Sender) -> OffsetCommitRequest:
    topics: dict[str, list[OffsetCommitRequestPartition]] = {}
    for (topic, number), offset in read_offsets(given["offsets"]):
        topics.setdefault(topic, []).append(OffsetCommitRequestPartition(number, offset))
    return OffsetCommitRequest(
        sender.group_id,
        read_number(given, "generation_id_or_member_epoch", sender.epoch),
        *_identity(given, sender),
        topics=tuple(OffsetCommitRequestTopic(name, partitions=tuple(given)) for name, given in topics.items()),
    )


_IDENTITY = ("member_id", "group_instance_id")

APIS: Mapping[str, Api] = {
    "ConsumerGroupHeartbeat": Api(
        1,
        (
            "member_id",
            "member_epoch",
            "instance_id",
            "rack_id",
            "rebalance_timeout_ms",
            "subscribed_topic_names",
            "subscribed_topic_regex",
            "server_assignor",
            "topic_partitions",
        ),
        (),
        _consumer_heartbeat,
    ),
    "JoinGroup": Api(9, (*_IDENTITY, "session_timeout_ms", "rebalance_timeout_ms", "protocols"), ("protocols",), _join),
    "SyncGroup": Api(5, (*_IDENTITY, "generation_id", "protocol_name", "assignments"), (), _sync),
    "Heartbeat": Api(4, (*_IDENTITY, "generation_id"), (), _heartbeat),
    "LeaveGroup": Api(5, _IDENTITY, (), _leave),
    "OffsetCommit": Api(9, (*_IDENTITY, "generation_id_or_member_epoch", "offsets"), ("offsets",), _commit),
}
"""What a member can send in a scenario."""
