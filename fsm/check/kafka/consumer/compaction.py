"""A compacted log: the last record of each key stays at its place; in the end tombstones are removed as well.

A broker may also read it while it is compacted: first old records, then a part that lacks those that superseded them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from fsm.coordinator.coordinator import Coordinator
from fsm.coordinator.model.consumer_group import ConsumerGroup, Members
from fsm.coordinator.model.context import Context
from fsm.coordinator.model.dialect import Dialect
from fsm.coordinator.model.groups import Group
from fsm.coordinator.model.step import Step
from fsm.coordinator.storage.load import keep_stored, load
from fsm.coordinator.storage.replay import replay
from fsm.protocol.consumer_protocol import PROTOCOL_TYPE
from fsm.protocol.records import ClassicGroup, ClassicGroupKey, Current, HeldTopic, Record, RecordType

FROM_COMPACTED = "fails over, to one that reads a compacted log"
FROM_CLEANED = "fails over, to one that reads a compacted log without tombstones"
SAYS_THE_SAME = "a compacted log gives the same group"
TELLS = "the records of a step tell what it changed"
CURRENT = RecordType.CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT
Log = tuple[Record, ...]


def append(log: Log, records: Iterable[Record]) -> Log:
    """The log after these records."""
    found = {record.key: record for record in log}
    for record in records:
        found.pop(record.key, None)
        found[record.key] = record
    return tuple(found.values())


def say_the_same(one: Group | None, other: Group | None) -> bool:
    """Whether two loaded groups have the same content; the order of members is that of their records."""
    return _list_content(one) == _list_content(other)


def _list_content(group: Group | None) -> tuple[object, ...]:
    if not isinstance(group, ConsumerGroup):
        return (group,)
    members = Members.of(group.members[who] for who in sorted(group.members))
    return replace(group, members=members), dict(group.members.holders)


def tell(before: Coordinator, done: Step[Coordinator], group_id: str, dialect: Dialect) -> bool:
    """Whether the records of a step lead from what was stored to what is stored after it."""
    found = replay(done.records, dialect, keep_stored(before)).state
    return say_the_same(found.groups.get(group_id), keep_stored(done.state).groups.get(group_id))


def tell_offsets(done: Step[Coordinator], dialect: Dialect) -> bool:
    """Whether the records of a step tell the offsets that it commits; no state of a model has any."""
    offsets = done.state.offsets
    return not offsets or replay(done.records, dialect).state.offsets == offsets


def load_from(log: Log, what: str, context: Context) -> Coordinator:
    """The coordinator that loads this log."""
    left = log if what == FROM_COMPACTED else [record for record in log if record.value is not None]
    return load(replay(left, context.dialect).state, context).state


def list_loaded(log: Log, what: str, context: Context) -> list[Coordinator]:
    """The coordinator that loads this log, and those that load it while it is being compacted."""
    before = _with_old_records(log, context) if what == FROM_COMPACTED else ()
    return [load_from(one, what, context) for one in (log, *before)]


def _with_old_records(log: Log, context: Context) -> Iterator[Log]:
    """The log behind an old record of a member that held everything, for each member; or of the group, once classic.

    The tombstone of that classic group is gone.
    """
    topics = context.image.topics.values()
    everything = tuple(HeldTopic(topic.topic_id, tuple(range(topic.partitions))) for topic in topics)
    for record in log:
        if record.key.type is CURRENT:
            yield (Record(record.key, Current(0, 0, 0, everything)), *log)
        elif isinstance(record.key, ClassicGroupKey) and record.value is None:
            old = Record(record.key, ClassicGroup(PROTOCOL_TYPE, 1, None, None, 0, ()))
            yield (old, *(one for one in log if one is not record))
