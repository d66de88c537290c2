"""A group and an answer as fields of text: what a scenario expects of them, and what two releases are compared by.

A classic group shows its generation where a consumer group shows its epochs. Members have their names in the story.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from fsm.coordinator.classic.responses import PRINTED
from fsm.coordinator.migration import classic_members
from fsm.coordinator.model.classic_group import ClassicGroup
from fsm.coordinator.model.consumer_group import ConsumerGroup, GroupMember
from fsm.coordinator.model.dialect import Dialect
from fsm.protocol.assignment import partitions
from fsm.protocol.error_codes import ErrorCode
from fsm.protocol.json_form import error_name
from fsm.protocol.messages import OffsetCommitResponse
from fsm.protocol.records import Record, RecordType
from fsm.scenario.texts import NOTHING, show, show_assignment, show_list, show_partitions

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
        """The name of a member, or its id where the story has none for it."""
        return NOTHING if member_id is None else self.members.get(member_id, member_id)

    def show_members(self, member_ids: Iterable[str]) -> str:
        """The names of several."""
        return show_list(sorted(map(self.show_member, member_ids)))

    def show_partitions(self, given: Iterable[tuple[str, int]]) -> str:
        """Partitions of topic ids as text."""
        return show_partitions(partitions((self.topics.get(t, t), n) for t, n in given))


def show_answer(body: Any, names: Names) -> dict[str, str]:
    """The fields of an answer that a scenario can speak of."""
    if isinstance(body, OffsetCommitResponse):
        return {"errors": show_list(_commit_errors(body))}
    found = {name: getattr(body, _FIELDS.get(name, name), body) for name in ANSWER_FIELDS}
    return {name: _show_field(name, value, names) for name, value in found.items() if value is not body}


_FIELDS = {"heartbeat_interval": "heartbeat_interval_ms"}
"""Names of a scenario that are other words for a message's field."""


def _commit_errors(body: OffsetCommitResponse) -> Iterator[str]:
    """Partitions whose offset was not committed, and why."""
    for topic in body.topics:
        for partition in topic.partitions:
            if partition.error_code is not ErrorCode.NONE:
                yield f"{topic.name}-{partition.partition_index}: {error_name(partition.error_code)}"


def _show_field(name: str, value: Any, names: Names) -> str:
    match name:
        case "error_code":
            return show(error_name(value))
        case "member_id" | "leader":
            return names.show_member(value)
        case "members":
            return names.show_members(member.member_id for member in value)
        case "assignment" if isinstance(value, bytes):
            return show_assignment(value)
        case "assignment" if value is not None:
            return names.show_partitions((topic, n) for topic, numbers in value for n in numbers)
    return show(value)


def show_group(group: ConsumerGroup | ClassicGroup | None, names: Names, dialect: Dialect) -> dict[str, str]:
    """The group and its members."""
    if group is None:
        return {"group type": NOTHING, "group members": show_list(())}
    if isinstance(group, ClassicGroup):
        return dict(_show_classic_group(group, names))
    return dict(_show_consumer_group(group, names, dialect))


def _show_classic_group(group: ClassicGroup, names: Names) -> Iterator[tuple[str, str]]:
    yield "group type", "classic"
    yield "group state", PRINTED[group.state]
    yield "group generation", str(group.generation)
    yield "group protocol", show(group.protocol_name)
    yield "group leader", names.show_member(group.leader)
    yield "group members", names.show_members(group.members)
    delayed = {"join": group.delayed_joins, "sync": group.delayed_syncs}
    for member_id in sorted(group.members, key=names.show_member):
        name = names.show_member(member_id)
        yield f"{name} assigned", show_assignment(group.members[member_id].assignment)
        yield f"{name} waits", show_list(what for what, ids in delayed.items() if member_id in ids)


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
    yield "target", names.show_partitions((topic, n) for topic, numbers in target for n in numbers)
    if member.is_classic:
        yield "phase", classic_members.phase(group, member, dialect).value


def show_records(records: Iterable[Record]) -> str:
    """Records by their types, in order; one that deletes its key has a minus."""
    return show_list(("-" if r.value is None else "") + RecordType(r.key.type).name for r in records)
