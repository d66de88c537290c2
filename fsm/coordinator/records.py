"""What the group coordinator writes to `__consumer_offsets`: every record as a typed value, with its exact bytes.

A record is a key and a value, or a tombstone. The key begins with the record type, the value with its version; the
tables `KEYS` and `VALUES` hold the fields of each. `decode` and `encode` are each other's inverse on what Kafka wrote.

Source: section 8 of the coordinator reference; the message definitions of the group coordinator of apache/kafka 4.4.
Records of share and streams groups are named, not read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, NamedTuple

from fsm.coordinator.encoding import (
    BLOB,
    INT8,
    INT32,
    INT64,
    OPTIONAL_TEXT,
    TEXT,
    UUID,
    Array,
    Bytes,
    Field,
    OptionalStruct,
    Reader,
    Struct,
)
from fsm.errors import InputError
from fsm.kafka.assignment import TopicId

NO_TOPIC_ID: TopicId = "AAAAAAAAAAAAAAAAAAAAAA"


class RecordType(IntEnum):
    """The number that a key begins with."""

    LEGACY_OFFSET_COMMIT = 0
    OFFSET_COMMIT = 1
    GROUP_METADATA = 2
    CONSUMER_GROUP_METADATA = 3
    CONSUMER_GROUP_PARTITION_METADATA = 4
    CONSUMER_GROUP_MEMBER_METADATA = 5
    CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA = 6
    CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER = 7
    CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT = 8
    CONSUMER_GROUP_REGULAR_EXPRESSION = 16


T = RecordType

OTHER_GROUPS = frozenset({*range(9, 16), *range(17, 24)})
"""Types of share and streams groups, and two that are no longer used."""


class OffsetKey(NamedTuple):
    """Types 0 and 1."""

    type: RecordType
    group: str
    topic: str
    partition: int


class ClassicGroupKey(NamedTuple):
    """Type 2."""

    type: RecordType
    group: str


class GroupKey(NamedTuple):
    """Types 3, 4 and 6."""

    type: RecordType
    group_id: str


class MemberKey(NamedTuple):
    """Types 5, 7 and 8."""

    type: RecordType
    group_id: str
    member_id: str


class RegularExpressionKey(NamedTuple):
    """Type 16."""

    type: RecordType
    group_id: str
    regular_expression: str


class OtherKey(NamedTuple):
    """A type that is not read here: its number, and the key's other bytes."""

    type: int
    rest: bytes


Key = OffsetKey | ClassicGroupKey | GroupKey | MemberKey | RegularExpressionKey | OtherKey


@dataclass(frozen=True, slots=True)
class OffsetCommit:
    """Types 0 and 1: a committed offset."""

    offset: int
    leader_epoch: int = -1
    metadata: str = ""
    commit_timestamp: int = 0
    expire_timestamp: int = -1
    topic_id: TopicId = NO_TOPIC_ID


@dataclass(frozen=True, slots=True)
class ClassicGroupMember:
    """A member inside the record of its classic group."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout: int
    session_timeout: int
    subscription: bytes
    assignment: bytes


@dataclass(frozen=True, slots=True)
class ClassicGroup:
    """Type 2: a classic group, as of its last completed generation."""

    protocol_type: str
    generation: int
    protocol: str | None
    leader: str | None
    current_state_timestamp: int = -1
    members: tuple[ClassicGroupMember, ...] = ()


@dataclass(frozen=True, slots=True)
class GroupEpoch:
    """Type 3: the group epoch and what the subscribed topics looked like."""

    epoch: int
    metadata_hash: int = 0


class PartitionRacks(NamedTuple):
    """Racks of one partition's replicas."""

    partition: int
    racks: tuple[str, ...]


class TopicMetadata(NamedTuple):
    """A subscribed topic, as releases before 4.1 kept it."""

    topic_id: TopicId
    topic_name: str
    num_partitions: int
    partition_metadata: tuple[PartitionRacks, ...] = ()


@dataclass(frozen=True, slots=True)
class SubscriptionMetadata:
    """Type 4: what the subscribed topics looked like, before 4.1."""

    topics: tuple[TopicMetadata, ...]


class ClassicProtocol(NamedTuple):
    """One strategy that a classic member offers."""

    name: str
    metadata: bytes


class ClassicMember(NamedTuple):
    """What makes a member of a consumer group a classic one."""

    session_timeout_ms: int
    supported_protocols: tuple[ClassicProtocol, ...]


@dataclass(frozen=True, slots=True)
class Member:
    """Type 5: who a member is and what it subscribes to."""

    instance_id: str | None
    rack_id: str | None
    client_id: str
    client_host: str
    subscribed_topic_names: tuple[str, ...]
    subscribed_topic_regex: str | None
    rebalance_timeout_ms: int = -1
    server_assignor: str | None = None
    classic_member_metadata: ClassicMember | None = None


@dataclass(frozen=True, slots=True)
class TargetEpoch:
    """Type 6: the epoch of the target, and when it was computed (0: unknown)."""

    assignment_epoch: int
    assignment_timestamp: int = 0


class Topic(NamedTuple):
    """Partitions of one topic in a target."""

    topic_id: TopicId
    partitions: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Target:
    """Type 7: a member's part of the target."""

    topic_partitions: tuple[Topic, ...]


class HeldTopic(NamedTuple):
    """Partitions of one topic that a member holds, and the epochs they were assigned at, in the same order."""

    topic_id: TopicId
    partitions: tuple[int, ...]
    assignment_epochs: tuple[int, ...] | None = None
    """None in records of releases before 4.3."""


@dataclass(frozen=True, slots=True)
class Current:
    """Type 8: what a member was handed and must give up."""

    member_epoch: int
    previous_member_epoch: int
    state: int
    """0 STABLE, 1 UNREVOKED_PARTITIONS, 2 UNRELEASED_PARTITIONS; any other is unknown."""
    assigned_partitions: tuple[HeldTopic, ...]
    partitions_pending_revocation: tuple[HeldTopic, ...] = ()


@dataclass(frozen=True, slots=True)
class ResolvedRegularExpression:
    """Type 16: the topics that a regular expression matched."""

    topics: tuple[str, ...]
    version: int
    """Of the metadata image that was searched."""
    timestamp: int


Value = (
    OffsetCommit
    | ClassicGroup
    | GroupEpoch
    | SubscriptionMetadata
    | Member
    | TargetEpoch
    | Target
    | Current
    | ResolvedRegularExpression
)


class Record(NamedTuple):
    """A key with its value, or its tombstone."""

    key: Key
    value: Value | bytes | None
    """None: a tombstone. Bytes: the value of a type that is not read here."""
    version: int = 0
    """Of the value."""


_OFFSET_KEY = (Field("group", TEXT), Field("topic", TEXT), Field("partition", INT32))
_GROUP_KEY = (Field("group_id", TEXT),)
_MEMBER_KEY = (*_GROUP_KEY, Field("member_id", TEXT))

KEYS: Mapping[RecordType, tuple[type[Any], tuple[Field, ...]]] = {
    T.LEGACY_OFFSET_COMMIT: (OffsetKey, _OFFSET_KEY),
    T.OFFSET_COMMIT: (OffsetKey, _OFFSET_KEY),
    T.GROUP_METADATA: (ClassicGroupKey, (Field("group", TEXT),)),
    T.CONSUMER_GROUP_METADATA: (GroupKey, _GROUP_KEY),
    T.CONSUMER_GROUP_PARTITION_METADATA: (GroupKey, _GROUP_KEY),
    T.CONSUMER_GROUP_MEMBER_METADATA: (MemberKey, _MEMBER_KEY),
    T.CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA: (GroupKey, _GROUP_KEY),
    T.CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER: (MemberKey, _MEMBER_KEY),
    T.CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT: (MemberKey, _MEMBER_KEY),
    T.CONSUMER_GROUP_REGULAR_EXPRESSION: (RegularExpressionKey, (*_GROUP_KEY, Field("regular_expression", TEXT))),
}
"""What a key is, and its fields after the type."""

_OFFSET_VALUE = Struct(
    OffsetCommit,
    (
        Field("offset", INT64),
        Field("leader_epoch", INT32, since=3, default=-1),
        Field("metadata", TEXT),
        Field("commit_timestamp", INT64),
        Field("expire_timestamp", INT64, since=1, until=1, default=-1),
        Field("topic_id", UUID, since=4, tag=0, default=NO_TOPIC_ID),
    ),
    flexible_since=4,
)
_CLASSIC_GROUP_MEMBER = Struct(
    ClassicGroupMember,
    (
        Field("member_id", TEXT),
        Field("group_instance_id", OPTIONAL_TEXT, since=3),
        Field("client_id", TEXT),
        Field("client_host", TEXT),
        Field("rebalance_timeout", INT32, since=1, default=-1),
        Field("session_timeout", INT32),
        Field("subscription", BLOB),
        Field("assignment", BLOB),
    ),
    flexible_since=4,
)
_CLASSIC_GROUP = Struct(
    ClassicGroup,
    (
        Field("protocol_type", TEXT),
        Field("generation", INT32),
        Field("protocol", OPTIONAL_TEXT),
        Field("leader", OPTIONAL_TEXT),
        Field("current_state_timestamp", INT64, since=2, default=-1),
        Field("members", Array(of=_CLASSIC_GROUP_MEMBER)),
    ),
    flexible_since=4,
)
_PARTITION_RACKS = Struct(PartitionRacks, (Field("partition", INT32), Field("racks", Array(of=TEXT))))
_TOPIC_METADATA = Struct(
    TopicMetadata,
    (
        Field("topic_id", UUID),
        Field("topic_name", TEXT),
        Field("num_partitions", INT32),
        Field("partition_metadata", Array(of=_PARTITION_RACKS)),
    ),
)
_CLASSIC_PROTOCOL = Struct(ClassicProtocol, (Field("name", TEXT), Field("metadata", BLOB)))
_CLASSIC_MEMBER = Struct(
    ClassicMember, (Field("session_timeout_ms", INT32), Field("supported_protocols", Array(of=_CLASSIC_PROTOCOL)))
)
_MEMBER = Struct(
    Member,
    (
        Field("instance_id", OPTIONAL_TEXT),
        Field("rack_id", OPTIONAL_TEXT),
        Field("client_id", TEXT),
        Field("client_host", TEXT),
        Field("subscribed_topic_names", Array(of=TEXT)),
        Field("subscribed_topic_regex", OPTIONAL_TEXT),
        Field("rebalance_timeout_ms", INT32),
        Field("server_assignor", OPTIONAL_TEXT),
        # The tag is always written, also for null: what its absence means is an empty struct.
        Field("classic_member_metadata", OptionalStruct(_CLASSIC_MEMBER), tag=0, default=ClassicMember(0, ())),
    ),
)
_TOPIC = Struct(Topic, (Field("topic_id", UUID), Field("partitions", Array(of=INT32))))
_HELD_TOPIC = Struct(
    HeldTopic,
    (
        Field("topic_id", UUID),
        Field("partitions", Array(of=INT32)),
        Field("assignment_epochs", Array(nullable=True, of=INT32), tag=0),
    ),
)
_CURRENT = Struct(
    Current,
    (
        Field("member_epoch", INT32),
        Field("previous_member_epoch", INT32),
        Field("state", INT8),
        Field("assigned_partitions", Array(of=_HELD_TOPIC)),
        Field("partitions_pending_revocation", Array(of=_HELD_TOPIC)),
    ),
)
_REGULAR_EXPRESSION = Struct(
    ResolvedRegularExpression,
    (Field("topics", Array(of=TEXT)), Field("version", INT64), Field("timestamp", INT64)),
)

VALUES: Mapping[RecordType, tuple[Struct, int]] = {
    T.LEGACY_OFFSET_COMMIT: (_OFFSET_VALUE, 0),
    T.OFFSET_COMMIT: (_OFFSET_VALUE, 4),
    T.GROUP_METADATA: (_CLASSIC_GROUP, 4),
    T.CONSUMER_GROUP_METADATA: (
        Struct(GroupEpoch, (Field("epoch", INT32), Field("metadata_hash", INT64, tag=0, default=0))),
        0,
    ),
    T.CONSUMER_GROUP_PARTITION_METADATA: (
        Struct(SubscriptionMetadata, (Field("topics", Array(of=_TOPIC_METADATA)),)),
        0,
    ),
    T.CONSUMER_GROUP_MEMBER_METADATA: (_MEMBER, 0),
    T.CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA: (
        Struct(TargetEpoch, (Field("assignment_epoch", INT32), Field("assignment_timestamp", INT64, tag=0, default=0))),
        0,
    ),
    T.CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER: (Struct(Target, (Field("topic_partitions", Array(of=_TOPIC)),)), 0),
    T.CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT: (_CURRENT, 0),
    T.CONSUMER_GROUP_REGULAR_EXPRESSION: (_REGULAR_EXPRESSION, 0),
}
"""How a value is laid out, and the newest version that is read."""


def decode(key: Bytes, value: Bytes | None) -> Record:
    """The record of these bytes.

    Raises `InputError` for a type that Kafka 4.4 does not have, a version newer than the type has, or other bytes.
    """
    reader = Reader(key)
    number = reader.number(2)
    if number in OTHER_GROUPS:
        return Record(OtherKey(number, bytes(reader.data[2:])), None if value is None else bytes(value))
    found = _read_key(_type(number), reader)
    if value is None:
        return Record(found, None)
    return Record(found, *_read_value(_type(number), Reader(value)))


def _type(number: int) -> RecordType:
    try:
        return RecordType(number)
    except ValueError:
        raise InputError(f"no record type {number}", remedy="skip it, as Kafka does when it loads a group") from None


def _read_key(kind: RecordType, reader: Reader) -> Key:
    make, fields = KEYS[kind]
    found: Key = make(kind, *(f.kind.read(reader, 0, False) for f in fields))
    reader.end()
    return found


def _read_value(kind: RecordType, reader: Reader) -> tuple[Value, int]:
    layout, newest = VALUES[kind]
    version = reader.number(2)
    if not 0 <= version <= newest:
        raise InputError(f"{kind.name} in version {version}; the newest known is {newest}")
    found: Value = layout.read(reader, version)
    reader.end()
    return found, version


def encode(record: Record) -> tuple[bytes, bytes | None]:
    """The bytes of key and value."""
    key, value, version = record
    if isinstance(key, OtherKey):
        return key.type.to_bytes(2, "big") + key.rest, value if isinstance(value, bytes) else None
    out = bytearray(key.type.to_bytes(2, "big"))
    for f, part in zip(KEYS[key.type][1], key[1:], strict=True):
        f.kind.write(out, part, 0, False)
    if value is None:
        return bytes(out), None
    body = bytearray(version.to_bytes(2, "big"))
    VALUES[key.type][0].write(body, value, version)
    return bytes(out), bytes(body)


def to_json(record: Record) -> dict[str, Any]:
    """The record as Kafka's console formatters print it: `{"key": {"type", ...}, "value": {"version", ...}}`."""
    key, value, version = record
    if isinstance(key, OtherKey):
        return {"key": {"type": key.type}, "value": None}
    printed = {f.label: part for f, part in zip(KEYS[key.type][1], key[1:], strict=True)}
    body = None if value is None else {"version": version, **VALUES[key.type][0].to_json(value, version)}
    return {"key": {"type": int(key.type), **printed}, "value": body}


def from_json(document: Mapping[str, Any]) -> Record:
    """The record that was printed so. Raises `InputError` naming what is missing or unknown."""
    try:
        return _from_json(document["key"], document["value"])
    except (KeyError, TypeError, ValueError) as problem:
        text = f"not a record as Kafka's tools print it: {type(problem).__name__} {problem}"
        raise InputError(text) from None


def _from_json(key: Mapping[str, Any], value: Mapping[str, Any] | None) -> Record:
    kind = _type(int(key["type"]))
    make, fields = KEYS[kind]
    found: Key = make(kind, *(f.kind.from_json(key[f.label], 0) for f in fields))
    if value is None:
        return Record(found, None)
    # The tools print a field `version` over the version of the value.
    version = 0 if kind is T.CONSUMER_GROUP_REGULAR_EXPRESSION else int(value["version"])
    return Record(found, VALUES[kind][0].from_json(value, version), version)
