"""The coordinator in a scenario: the syntax of requests, and answers and groups as text fields.

    ConsumerGroupHeartbeat: {subscribed_topic_names: [foo]}
    JoinGroup: {protocols: {range: {topics: [foo], owned_partitions: []}}}
    SyncGroup: {assignments: {A: [foo-0], B: [foo-1]}}
    Heartbeat:
    LeaveGroup:
    OffsetCommit: {offsets: {foo-0: 17}}

Fields are Kafka's, members have their names in the scenario. Omitted fields are those of a client without changes: its
id, and the epoch or generation of the last answer. A consumer member without an epoch joins, with all fields. A classic
group shows its generation instead of epochs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import fields
from typing import Any, NamedTuple

from fsm.coordinator.classic.responses import PRINTED
from fsm.coordinator.migration import classic_members
from fsm.coordinator.model.classic_group import ClassicGroup
from fsm.coordinator.model.consumer_group import ConsumerGroup, GroupMember
from fsm.coordinator.model.dialect import Dialect
from fsm.nodes import Node
from fsm.protocol import messages
from fsm.protocol.assignment import Partitions, TopicPartitions, flatten, numbers_by_topic, partitions
from fsm.protocol.consumer_protocol import Assignment, Subscription, encode_assignment, encode_subscription
from fsm.protocol.error_codes import ErrorCode
from fsm.protocol.json_form import error_name
from fsm.protocol.records import Record, RecordType
from fsm.scenario import texts

Given = Mapping[str, Node]

SESSION_MS, REBALANCE_MS = 45_000, 300_000


class Sender(NamedTuple):
    """The sender of a request, and its context."""

    group_id: str
    member_id: str
    """Empty if the coordinator has not created it yet."""
    topic_ids: Mapping[str, str]
    ids: Mapping[str, str]
    """Member ids by name."""
    epoch: int
    """The epoch or generation of the last answer, 0 before the first."""
    protocol: str
    """The protocol in the answer to its last join, empty before the first."""


class Api(NamedTuple):
    """The syntax of one kind of request."""

    version: int
    keys: tuple[str, ...]
    required: tuple[str, ...]
    build: Callable[[Given, Sender], Any]


def _text(given: Given, key: str) -> str | None:
    return given[key].text() if key in given and not given[key].is_null else None


def _by_topic(partitions: Partitions, sender: Sender) -> TopicPartitions:
    """Partitions by topic id; the id of an unknown topic is its name."""
    found = numbers_by_topic((sender.topic_ids.get(topic, topic), number) for topic, number in partitions)
    return tuple((topic_id, tuple(numbers)) for topic_id, numbers in found.items())


def _consumer_heartbeat(given: Given, sender: Sender) -> messages.ConsumerGroupHeartbeatRequest:
    epoch = texts.read_number(given, "member_epoch", sender.epoch)
    owned: Partitions | None = () if epoch == 0 else None
    if "topic_partitions" in given:
        node = given["topic_partitions"]
        owned = None if node.is_null else texts.read_partitions(node)
    names = given.get("subscribed_topic_names")
    return messages.ConsumerGroupHeartbeatRequest(
        sender.group_id,
        _text(given, "member_id") or sender.member_id,
        epoch,
        instance_id=_text(given, "instance_id"),
        rack_id=_text(given, "rack_id"),
        rebalance_timeout_ms=texts.read_number(given, "rebalance_timeout_ms", REBALANCE_MS if epoch == 0 else -1),
        subscribed_topic_names=None if names is None or names.is_null else texts.read_texts(names),
        subscribed_topic_regex=_text(given, "subscribed_topic_regex"),
        server_assignor=_text(given, "server_assignor"),
        topic_partitions=None if owned is None else _by_topic(owned, sender),
    )


def _join(given: Given, sender: Sender) -> messages.JoinGroupRequest:
    protocols = given["protocols"].mapping()
    return messages.JoinGroupRequest(
        sender.group_id,
        texts.read_number(given, "session_timeout_ms", SESSION_MS),
        texts.read_number(given, "rebalance_timeout_ms", REBALANCE_MS),
        *_identity(given, sender),
        "consumer",
        tuple(messages.JoinGroupRequestProtocol(name, _subscription(node)) for name, (_, node) in protocols.items()),
    )


def _identity(given: Given, sender: Sender) -> tuple[str, str | None]:
    member_id = _text(given, "member_id")
    return sender.member_id if member_id is None else member_id, _text(given, "group_instance_id")


def _subscription(node: Node) -> bytes:
    given = node.fields(("topics", "owned_partitions", "generation_id"), ("topics",))
    owned = texts.read_partitions(given["owned_partitions"]) if "owned_partitions" in given else ()
    generation = texts.read_number(given, "generation_id", -1)
    return encode_subscription(
        Subscription(texts.read_texts(given["topics"]), owned_partitions=owned, generation_id=generation)
    )


def _sync(given: Given, sender: Sender) -> messages.SyncGroupRequest:
    assignments = given["assignments"].mapping().values() if "assignments" in given else ()
    return messages.SyncGroupRequest(
        sender.group_id,
        texts.read_number(given, "generation_id", sender.epoch),
        *_identity(given, sender),
        "consumer",
        _text(given, "protocol_name") if "protocol_name" in given else sender.protocol,
        tuple(
            messages.SyncGroupRequestAssignment(
                sender.ids.get(name.text(), name.text()), encode_assignment(Assignment(texts.read_partitions(value)))
            )
            for name, value in assignments
        ),
    )


def _heartbeat(given: Given, sender: Sender) -> messages.HeartbeatRequest:
    generation = texts.read_number(given, "generation_id", sender.epoch)
    return messages.HeartbeatRequest(sender.group_id, generation, *_identity(given, sender))


def _leave(given: Given, sender: Sender) -> messages.LeaveGroupRequest:
    return messages.LeaveGroupRequest(sender.group_id, members=(messages.MemberIdentity(*_identity(given, sender)),))


def _commit(given: Given, sender: Sender) -> messages.OffsetCommitRequest:
    return messages.OffsetCommitRequest(
        sender.group_id,
        texts.read_number(given, "generation_id_or_member_epoch", sender.epoch),
        *_identity(given, sender),
        topics=messages.commit_topics(texts.read_offsets(given["offsets"])),
    )


_IDENTITY = ("member_id", "group_instance_id")

APIS: Mapping[str, Api] = {
    "ConsumerGroupHeartbeat": Api(
        1,
        tuple(f.name for f in fields(messages.ConsumerGroupHeartbeatRequest) if f.name != "group_id"),
        (),
        _consumer_heartbeat,
    ),
    "JoinGroup": Api(9, (*_IDENTITY, "session_timeout_ms", "rebalance_timeout_ms", "protocols"), ("protocols",), _join),
    "SyncGroup": Api(5, (*_IDENTITY, "generation_id", "protocol_name", "assignments"), (), _sync),
    "Heartbeat": Api(4, (*_IDENTITY, "generation_id"), (), _heartbeat),
    "LeaveGroup": Api(5, _IDENTITY, (), _leave),
    "OffsetCommit": Api(9, (*_IDENTITY, "generation_id_or_member_epoch", "offsets"), ("offsets",), _commit),
}
"""The requests of members in a scenario."""


# Results

ANSWER_FIELDS = (
    "error_code",
    "member_id",
    "member_epoch",
    "heartbeat_interval",
    "generation_id",
    "protocol_name",
    "leader",
    "members",
    "assignment",
    "errors",
)
GROUP_FIELDS = ("type", "state", "epoch", "target_epoch", "generation", "protocol", "leader", "members")
MEMBER_FIELDS = ("protocol", "state", "epoch", "previous_epoch", "assigned", "revoking", "target", "phase", "waits")


class Names:
    """Names of members by their ids, and of topics by theirs."""

    def __init__(self, ids: Mapping[str, str], topics: Mapping[str, str]) -> None:
        self.members = {member_id: name for name, member_id in ids.items()}
        self.topics = topics

    def show_member(self, member_id: str | None) -> str:
        """The name of a member, or its id if the scenario has no name for it."""
        return texts.NOTHING if member_id is None else self.members.get(member_id, member_id)

    def show_members(self, member_ids: Iterable[str]) -> str:
        """The names of several."""
        return texts.show_list(sorted(map(self.show_member, member_ids)))

    def show_partitions(self, given: Iterable[tuple[str, int]]) -> str:
        """Partitions of topic ids as text."""
        return texts.show_partitions(partitions((self.topics.get(t, t), n) for t, n in given))


def show_answer(body: Any, names: Names) -> dict[str, str]:
    """The fields of an answer for expectations."""
    if isinstance(body, messages.OffsetCommitResponse):
        return {"errors": texts.show_list(_commit_errors(body))}
    found = {name: getattr(body, _FIELDS.get(name, name), body) for name in ANSWER_FIELDS}
    return {name: _show_field(name, value, names) for name, value in found.items() if value is not body}


_FIELDS = {"heartbeat_interval": "heartbeat_interval_ms"}
"""Other names for fields of messages in scenarios."""


def _commit_errors(body: messages.OffsetCommitResponse) -> Iterator[str]:
    for topic in body.topics:
        for partition in topic.partitions:
            if partition.error_code is not ErrorCode.NONE:
                yield f"{topic.name}-{partition.partition_index}: {error_name(partition.error_code)}"


def _show_field(name: str, value: Any, names: Names) -> str:
    match name:
        case "error_code":
            return texts.show(error_name(value))
        case "member_id" | "leader":
            return names.show_member(value)
        case "members":
            return names.show_members(member.member_id for member in value)
        case "assignment" if isinstance(value, bytes):
            return texts.show_assignment(value)
        case "assignment" if value is not None:
            return names.show_partitions(flatten(value))
    return texts.show(value)


def show_group(group: ConsumerGroup | ClassicGroup | None, names: Names, dialect: Dialect) -> dict[str, str]:
    """The group and its members."""
    if group is None:
        return {"group type": texts.NOTHING, "group members": texts.show_list(())}
    if isinstance(group, ClassicGroup):
        return dict(_show_classic_group(group, names))
    return dict(_show_consumer_group(group, names, dialect))


def _show_classic_group(group: ClassicGroup, names: Names) -> Iterator[tuple[str, str]]:
    yield "group type", "classic"
    yield "group state", PRINTED[group.state]
    yield "group generation", str(group.generation)
    yield "group protocol", texts.show(group.protocol_name)
    yield "group leader", names.show_member(group.leader)
    yield "group members", names.show_members(group.members)
    delayed = {"join": group.delayed_joins, "sync": group.delayed_syncs}
    for member_id in sorted(group.members, key=names.show_member):
        name = names.show_member(member_id)
        yield f"{name} assigned", texts.show_assignment(group.members[member_id].assignment)
        yield f"{name} waits", texts.show_list(what for what, ids in delayed.items() if member_id in ids)


def _show_consumer_group(group: ConsumerGroup, names: Names, dialect: Dialect) -> Iterator[tuple[str, str]]:
    yield "group type", "consumer"
    yield "group state", group.state.name
    yield "group epoch", str(group.epoch)
    yield "group target_epoch", str(group.target_epoch)
    yield "group members", names.show_members(group.members)
    for member_id in sorted(group.members, key=names.show_member):
        for field, value in _show_member(group, group.members[member_id], names, dialect):
            yield f"{names.show_member(member_id)} {field}", value


def _show_member(
    group: ConsumerGroup, member: GroupMember, names: Names, dialect: Dialect
) -> Iterator[tuple[str, str]]:
    current, target = member.current, group.target_of(member.member_id, member.instance_id)
    yield "protocol", "classic" if member.is_classic else "consumer"
    yield "state", current.state.name
    yield "epoch", str(current.epoch)
    yield "previous_epoch", str(current.previous_epoch)
    yield "assigned", names.show_partitions(partition for partition, _ in current.assigned)
    yield "revoking", names.show_partitions(partition for partition, _ in current.pending)
    yield "target", names.show_partitions(flatten(target))
    if member.is_classic:
        yield "phase", classic_members.phase(group, member, dialect).value


def show_records(records: Iterable[Record]) -> str:
    """Records by their types, in order; a tombstone has a minus."""
    return texts.show_list(("-" if r.value is None else "") + RecordType(r.key.type).name for r in records)
