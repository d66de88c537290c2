"""A group and an answer as fields of text: what a scenario expects of them, and what two releases are compared by.

A classic group shows its generation where a consumer group shows its epochs. Members have their names in the story.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from fsm.coordinator.classic.responses import PRINTED
from fsm.coordinator.migration import classic_members
from fsm.coordinator.model.classic_group import ClassicGroup, ClassicGroupMember
from fsm.coordinator.model.consumer_group import ConsumerGroup, GroupMember
from fsm.coordinator.model.dialect import Dialect
from fsm.protocol.assignment import TopicPartitions, partitions
from fsm.protocol.consumer_protocol import decode_assignment
from fsm.protocol.records import Record, RecordType
from fsm.scenario.steps import NOTHING
from fsm.scenario.words import listed, named, plain

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

    def member(self, member_id: str | None) -> str:
        """The name of a member, or its id where the story has none for it."""
        return NOTHING if member_id is None else self.members.get(member_id, member_id)

    def partitions(self, given: TopicPartitions) -> str:
        """Partitions as text."""
        return named(partitions((self.topics.get(t, t), n) for t, numbers in given for n in numbers))

    def held(self, given: Iterable[tuple[tuple[str, int], int]]) -> str:
        """The same of partitions with epochs."""
        return named(partitions((self.topics.get(t, t), n) for (t, n), _ in given))


def answer_fields(body: Mapping[str, Any], names: Names) -> Iterator[tuple[str, str]]:
    """The fields of an answer that a scenario can speak of."""
    for field in ANSWER_FIELDS:
        if field in body:
            yield field, _answer_value(field, body[field], names)
    if "topics" in body:
        yield "errors", listed(_errors(body["topics"]))


def _errors(topics: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """Partitions whose offset was not committed, and why."""
    for topic in topics:
        for partition in topic["partitions"]:
            if partition["error_code"] is not None:
                yield f"{topic['name']}-{partition['partition_index']}: {partition['error_code']}"


def _answer_value(field: str, value: Any, names: Names) -> str:
    if field in {"member_id", "leader"}:
        return names.member(value)
    if field == "members":
        return listed(sorted(names.member(member["member_id"]) for member in value))
    if field == "assignment" and isinstance(value, str):
        data = base64.b64decode(value)
        return named(decode_assignment(data).partitions) if data else listed(())
    if field == "assignment" and value is not None:
        return names.partitions(tuple((t["topic_id"], tuple(t["partitions"])) for t in value["topic_partitions"]))
    return plain(value)


def group_fields(group: ConsumerGroup | ClassicGroup | None, names: Names, dialect: Dialect) -> dict[str, str]:
    """The group and its members."""
    if group is None:
        return {"group type": NOTHING, "group members": listed(())}
    if isinstance(group, ClassicGroup):
        return dict(_classic_group(group, names))
    return dict(_consumer_group(group, names, dialect))


def _classic_group(group: ClassicGroup, names: Names) -> Iterator[tuple[str, str]]:
    yield "group type", "classic"
    yield "group state", PRINTED[group.state]
    yield "group generation", str(group.generation)
    yield "group protocol", plain(group.protocol_name)
    yield "group leader", names.member(group.leader)
    yield "group members", listed(sorted(map(names.member, group.members)))
    for member in sorted(group.members.values(), key=lambda m: names.member(m.member_id)):
        yield f"{names.member(member.member_id)} assigned", _assigned(member)
        delayed = {"join": group.delayed_joins, "sync": group.delayed_syncs}
        yield (
            f"{names.member(member.member_id)} waits",
            listed(n for n, ids in delayed.items() if member.member_id in ids),
        )


def _assigned(member: ClassicGroupMember) -> str:
    return named(decode_assignment(member.assignment).partitions) if member.assignment else listed(())


def _consumer_group(group: ConsumerGroup, names: Names, dialect: Dialect) -> Iterator[tuple[str, str]]:
    yield "group type", "consumer"
    yield "group state", group.state.name
    yield "group epoch", str(group.epoch)
    yield "group target_epoch", str(group.target_epoch)
    yield "group members", listed(sorted(names.member(member_id) for member_id, _ in group.members.items()))
    for member in sorted((m for _, m in group.members.items()), key=lambda m: names.member(m.member_id)):
        for field, value in _member(group, member, names, dialect):
            yield f"{names.member(member.member_id)} {field}", value


def _member(group: ConsumerGroup, member: GroupMember, names: Names, dialect: Dialect) -> Iterator[tuple[str, str]]:
    current = member.current
    yield "protocol", "classic" if member.is_classic else "consumer"
    yield "state", current.state.name
    yield "epoch", str(current.epoch)
    yield "previous_epoch", str(current.previous_epoch)
    yield "assigned", names.held(current.assigned)
    yield "revoking", names.held(current.pending)
    yield "target", names.partitions(group.target_of(member.member_id, member.instance_id))
    if member.is_classic:
        yield "phase", classic_members.phase(group, member, dialect).value


def record_names(records: Iterable[Record]) -> str:
    """Records by their types, in order; one that deletes its key has a minus."""
    return listed(("-" if record.value is None else "") + _type(record).name for record in records)


def _type(record: Record) -> RecordType:
    return RecordType(record.key.type)
