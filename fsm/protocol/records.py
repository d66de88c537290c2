"""Records of `__consumer_offsets` as typed values, encoded to and decoded from their exact bytes.

A record is a key and a value, or a tombstone. The key begins with the record type, the value with its version. `decode`
and `encode` are inverse to each other on Kafka's records.

Source: the message definitions of Kafka's group coordinator
(`group-coordinator/src/main/resources/common/message/*.json`, apache/kafka 4.4). Records of share and streams groups
are recognised but not decoded.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import Annotated, Any, NamedTuple

from fsm.errors import InputError, RemoteProtocolError
from fsm.protocol.assignment import NO_TOPIC_ID, TopicId
from fsm.protocol.consumer_protocol import PROTOCOL_TYPE, ConsumerProtocolAssignment, ConsumerProtocolSubscription, read
from fsm.protocol.encoding import decode_all, encode_as
from fsm.protocol.json_form import from_printed, to_printed
from fsm.protocol.schema import Absent, Int8, Int64, Kind, Wire
from fsm.step import value


class RecordType(IntEnum):
    """The int16 at the beginning of a key."""

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

    type: Annotated[RecordType, Kind.INT16]
    group: str
    topic: str
    partition: int


class ClassicGroupKey(NamedTuple):
    """Type 2."""

    type: Annotated[RecordType, Kind.INT16]
    group: str


class GroupKey(NamedTuple):
    """Types 3, 4 and 6."""

    type: Annotated[RecordType, Kind.INT16]
    group_id: str


class MemberKey(NamedTuple):
    """Types 5, 7 and 8."""

    type: Annotated[RecordType, Kind.INT16]
    group_id: str
    member_id: str


class RegularExpressionKey(NamedTuple):
    """Type 16."""

    type: Annotated[RecordType, Kind.INT16]
    group_id: str
    regular_expression: str


class OtherKey(NamedTuple):
    """The key of a type that is not decoded: its number and remaining bytes."""

    type: int
    rest: bytes


Key = OffsetKey | ClassicGroupKey | GroupKey | MemberKey | RegularExpressionKey | OtherKey


@value
class OffsetCommit:
    """Types 0 and 1: a committed offset."""

    offset: Int64
    leader_epoch: Annotated[int, Wire(since=3)] = -1
    metadata: str = ""
    commit_timestamp: Int64 = 0
    expire_timestamp: Annotated[Int64, Wire(since=1, until=1)] = -1
    topic_id: Annotated[TopicId, Wire(since=4, tag=0)] = NO_TOPIC_ID


@value
class ClassicGroupMember:
    """A member inside the record of its classic group."""

    member_id: str
    group_instance_id: Annotated[str | None, Wire(since=3), Absent(None)]
    client_id: str
    client_host: str
    rebalance_timeout: Annotated[int, Wire(since=1), Absent(-1)]
    session_timeout: int
    subscription: bytes
    assignment: bytes


@value
class ClassicGroup:
    """Type 2: a classic group, as of its last completed generation."""

    protocol_type: str
    generation: int
    protocol: str | None
    leader: str | None
    current_state_timestamp: Annotated[Int64, Wire(since=2)] = -1
    members: tuple[ClassicGroupMember, ...] = ()


@value
class GroupEpoch:
    """Type 3: the group epoch and a hash of the subscribed topics' metadata."""

    epoch: int
    metadata_hash: Annotated[Int64, Wire(tag=0)] = 0


class PartitionRacks(NamedTuple):
    """Racks of one partition's replicas."""

    partition: int
    racks: tuple[str, ...]


class TopicMetadata(NamedTuple):
    """A subscribed topic in records before 4.1."""

    topic_id: TopicId
    topic_name: str
    num_partitions: int
    partition_metadata: tuple[PartitionRacks, ...] = ()


@value
class SubscriptionMetadata:
    """Type 4: metadata of the subscribed topics, before 4.1."""

    topics: tuple[TopicMetadata, ...]


class ClassicProtocol(NamedTuple):
    """One strategy that a classic member offers."""

    name: str
    metadata: bytes


class ClassicMember(NamedTuple):
    """Session timeout and protocols of a classic member in a consumer group."""

    session_timeout_ms: int
    supported_protocols: tuple[ClassicProtocol, ...]


@value
class Member:
    """Type 5: a member's identity and subscription."""

    instance_id: str | None
    rack_id: str | None
    client_id: str
    client_host: str
    subscribed_topic_names: tuple[str, ...]
    subscribed_topic_regex: str | None
    rebalance_timeout_ms: int = -1
    server_assignor: str | None = None
    classic_member_metadata: Annotated[ClassicMember | None, Wire(tag=0), Absent(ClassicMember(0, ()))] = None
    """Always written, also if None: without the tag it is an empty struct."""


@value
class TargetEpoch:
    """Type 6: the epoch of the target assignment, and when it was computed (0: unknown)."""

    assignment_epoch: int
    assignment_timestamp: Annotated[Int64, Wire(tag=0)] = 0


class Topic(NamedTuple):
    """Partitions of one topic in a target."""

    topic_id: TopicId
    partitions: tuple[int, ...]


@value
class Target:
    """Type 7: a member's target assignment."""

    topic_partitions: tuple[Topic, ...]


class HeldTopic(NamedTuple):
    """A member's partitions of one topic, and the epochs at which they were assigned, in the same order."""

    topic_id: TopicId
    partitions: tuple[int, ...]
    assignment_epochs: Annotated[tuple[int, ...] | None, Wire(tag=0)] = None
    """None in records of releases before 4.3."""


@value
class Current:
    """Type 8: a member's current assignment and its partitions pending revocation."""

    member_epoch: int
    previous_member_epoch: int
    state: Int8
    """0 STABLE, 1 UNREVOKED_PARTITIONS, 2 UNRELEASED_PARTITIONS; any other is unknown."""
    assigned_partitions: tuple[HeldTopic, ...]
    partitions_pending_revocation: tuple[HeldTopic, ...] = ()


@value
class ResolvedRegularExpression:
    """Type 16: the topics that a regular expression matched."""

    topics: tuple[str, ...]
    version: Int64
    """Version of the metadata image that the expression was resolved against."""
    timestamp: Int64


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
    key: Key
    value: Value | bytes | None
    """None: a tombstone. Bytes: the value of a type that is not decoded."""
    version: int = 0
    """The version of the value's schema."""


class Format(NamedTuple):
    """Schema of one record type."""

    key: type[Any]
    value: type[Any]
    newest: int = 0
    """The newest known version of the value."""
    flexible_since: int = 0


_OFFSETS, _GROUPS = Format(OffsetKey, OffsetCommit, 4, 4), Format(ClassicGroupKey, ClassicGroup, 4, 4)
FORMATS: Mapping[RecordType, Format] = {
    T.LEGACY_OFFSET_COMMIT: _OFFSETS._replace(newest=0),
    T.OFFSET_COMMIT: _OFFSETS,
    T.GROUP_METADATA: _GROUPS,
    T.CONSUMER_GROUP_METADATA: Format(GroupKey, GroupEpoch),
    T.CONSUMER_GROUP_PARTITION_METADATA: Format(GroupKey, SubscriptionMetadata),
    T.CONSUMER_GROUP_MEMBER_METADATA: Format(MemberKey, Member),
    T.CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA: Format(GroupKey, TargetEpoch),
    T.CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER: Format(MemberKey, Target),
    T.CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT: Format(MemberKey, Current),
    T.CONSUMER_GROUP_REGULAR_EXPRESSION: Format(RegularExpressionKey, ResolvedRegularExpression),
}


def decode(key: bytes, value: bytes | None) -> Record:
    """The record of a key and a value.

    Raises `InputError` for an unknown type, an unknown version of the value, or invalid bytes.
    """
    number = _short(key, "type of a record")
    if number in OTHER_GROUPS:
        return Record(OtherKey(number, key[2:]), value)
    kind = _type(number)
    form = FORMATS[kind]
    found = decode_all(form.key, key, 0, False)._replace(type=kind)
    if value is None:
        return Record(found, None)
    version = _short(value, "version of a record")
    if not 0 <= version <= form.newest:
        raise InputError(f"{kind.name} in version {version}; the newest known is {form.newest}")
    return Record(found, decode_all(form.value, value, version, version >= form.flexible_since, 2), version)


def _short(data: bytes, what: str) -> int:
    if len(data) < 2:
        raise InputError("the bytes end too early", f"{what}, byte 0")
    return int.from_bytes(data[:2], "big", signed=True)


def _type(number: int) -> RecordType:
    try:
        return RecordType(number)
    except ValueError:
        raise InputError(
            f"unknown record type {number}", remedy="skip it, as Kafka does when it loads a group"
        ) from None


def encode(record: Record) -> tuple[bytes, bytes | None]:
    """The bytes of key and value."""
    key, value, version = record
    if isinstance(key, OtherKey):
        return key.type.to_bytes(2, "big") + key.rest, value if isinstance(value, bytes) else None
    head = encode_as(key, 0, False)
    if value is None:
        return head, None
    return head, encode_as(value, version, version >= FORMATS[key.type].flexible_since, version.to_bytes(2, "big"))


def to_json(record: Record) -> dict[str, Any]:
    """The record in the form of Kafka's console formatters: `{"key": {"type", ...}, "value": {"version", ...}}`."""
    key, value, version = record
    if isinstance(key, OtherKey):
        return {"key": {"type": key.type}, "value": None}
    body = None if value is None else {"version": version, **to_printed(value, version)}
    return {"key": {**to_printed(key, 0), "type": int(key.type)}, "value": body}


def from_json(document: Mapping[str, Any]) -> Record:
    """The record that `to_json` printed. Raises `InputError` naming what is missing or unknown."""
    try:
        return _from_json(document["key"], document["value"])
    except (KeyError, TypeError, ValueError) as problem:
        text = f"not a record as Kafka's tools print it: {type(problem).__name__} {problem}"
        raise InputError(text) from None


def _from_json(key: Mapping[str, Any], value: Mapping[str, Any] | None) -> Record:
    kind = _type(int(key["type"]))
    form = FORMATS[kind]
    found = from_printed(form.key, {**key, "type": kind}, 0)
    if value is None:
        return Record(found, None)
    # Type 16 has a field `version`, which the tools print in place of the value's version.
    version = 0 if kind is T.CONSUMER_GROUP_REGULAR_EXPRESSION else int(value["version"])
    return Record(found, from_printed(form.value, value, version), version)


def to_dump_json(record: Record) -> dict[str, Any]:
    """The record as `kafka-dump-log.sh --offsets-decoder` prints it.

    That tool decodes the subscriptions and assignments of a classic group whose protocol type is `consumer`, each in
    its own version, which it does not print. Everything else has the form of the console formatters.

    Source: `DumpLogSegments` of apache/kafka.
    """
    printed = to_json(record)
    if isinstance(record.value, ClassicGroup) and record.value.protocol_type == PROTOCOL_TYPE:
        for shown, member in zip(printed["value"]["members"], record.value.members, strict=True):
            shown["subscription"] = _decode(ConsumerProtocolSubscription, member.subscription, shown["subscription"])
            shown["assignment"] = _decode(ConsumerProtocolAssignment, member.assignment, shown["assignment"])
    return printed


def _decode(cls: type[Any], data: bytes, undecoded: Any) -> Any:
    """The decoded struct, or `undecoded` for bytes of another format."""
    if not data:
        return ""
    try:
        version, found = read(cls, data)
    except RemoteProtocolError:
        return undecoded
    return to_printed(found, version)
