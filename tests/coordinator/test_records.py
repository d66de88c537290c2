"""Records of `__consumer_offsets`: their bytes, their versions, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fsm.errors import InputError
from fsm.protocol.records import (
    ClassicGroup,
    ClassicGroupKey,
    ClassicGroupMember,
    ClassicMember,
    ClassicProtocol,
    Current,
    GroupEpoch,
    GroupKey,
    HeldTopic,
    Member,
    MemberKey,
    OffsetCommit,
    OffsetKey,
    PartitionRacks,
    Record,
    RecordType,
    RegularExpressionKey,
    ResolvedRegularExpression,
    SubscriptionMetadata,
    Target,
    TargetEpoch,
    Topic,
    TopicMetadata,
    decode,
    encode,
    from_json,
    to_json,
)

T = RecordType
FOO = "AAAAAAAAAAEAAAAAAAAAAQ"
MEMBER = MemberKey(T.CONSUMER_GROUP_MEMBER_METADATA, "g", "m")
HELD = (HeldTopic(FOO, (0, 1), (2, 3)),)

numbers = {size: st.integers(-(1 << size - 1), (1 << size - 1) - 1) for size in (8, 32, 64)}
texts = st.text(max_size=5)
ids = st.sampled_from([FOO, "ulJlgWggSXSgNVKMZGN_nQ"])
several = st.lists(numbers[32], max_size=3).map(tuple)
topics = st.lists(st.builds(Topic, ids, several), max_size=2).map(tuple)
held = st.lists(st.builds(HeldTopic, ids, several, st.none() | several), max_size=2).map(tuple)
blobs = st.binary(max_size=5)
protocols = st.lists(st.builds(ClassicProtocol, texts, blobs), max_size=2).map(tuple)
racks = st.lists(st.builds(PartitionRacks, numbers[32], st.lists(texts, max_size=2).map(tuple)), max_size=2).map(tuple)


def of_group(kind: RecordType) -> st.SearchStrategy[GroupKey]:
    return st.builds(GroupKey, st.just(kind), texts)


def of_member(kind: RecordType) -> st.SearchStrategy[MemberKey]:
    return st.builds(MemberKey, st.just(kind), texts, texts)


names = st.lists(texts, max_size=3).map(tuple)
optional = st.none() | texts


def of(key: st.SearchStrategy[Any], value: st.SearchStrategy[Any]) -> st.SearchStrategy[Record]:
    return st.builds(Record, key, value, st.just(0))


records = st.one_of(
    of(of_group(T.CONSUMER_GROUP_METADATA), st.none() | st.builds(GroupEpoch, numbers[32], numbers[64])),
    of(
        of_group(T.CONSUMER_GROUP_PARTITION_METADATA),
        st.builds(
            SubscriptionMetadata,
            st.lists(st.builds(TopicMetadata, ids, texts, numbers[32], racks), max_size=2).map(tuple),
        ),
    ),
    of(
        of_member(T.CONSUMER_GROUP_MEMBER_METADATA),
        st.builds(
            Member,
            optional,
            optional,
            texts,
            texts,
            names,
            optional,
            numbers[32],
            optional,
            st.none() | st.builds(ClassicMember, numbers[32], protocols),
        ),
    ),
    of(
        of_group(T.CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA),
        st.builds(TargetEpoch, numbers[32], numbers[64]),
    ),
    of(of_member(T.CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER), st.none() | st.builds(Target, topics)),
    of(
        of_member(T.CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT),
        st.builds(Current, numbers[32], numbers[32], numbers[8], held, held),
    ),
    of(
        st.builds(RegularExpressionKey, st.just(T.CONSUMER_GROUP_REGULAR_EXPRESSION), texts, texts),
        st.builds(ResolvedRegularExpression, names, numbers[64], numbers[64]),
    ),
)


@given(records)
def test_what_is_encoded_is_decoded(record: Record) -> None:
    """Any record of a consumer group survives its bytes and its JSON."""
    assert decode(*encode(record)) == record
    assert from_json(to_json(record)) == record


@given(st.integers(0, 4), numbers[64], numbers[32], texts, numbers[64])
def test_offsets_survive_in_every_version(version: int, offset: int, epoch: int, metadata: str, at: int) -> None:
    """A version keeps the fields it has; the others come back at their defaults."""
    key = OffsetKey(T.OFFSET_COMMIT, "g", "foo", 0)
    value = OffsetCommit(offset, epoch, metadata, at, 7, FOO)
    defaults = OffsetCommit(offset, metadata=metadata, commit_timestamp=at)
    kept = {
        "leader_epoch": epoch if version >= 3 else defaults.leader_epoch,
        "expire_timestamp": 7 if version == 1 else defaults.expire_timestamp,
        "topic_id": FOO if version == 4 else defaults.topic_id,
    }
    expected = OffsetCommit(offset, metadata=metadata, commit_timestamp=at, **kept)
    assert decode(*encode(Record(key, value, version))) == Record(key, expected, version)


@pytest.mark.parametrize("version", [0, 1, 2, 3, 4])
def test_classic_groups_survive_in_every_version(version: int) -> None:
    """Instance ids come with version 3, the time of the state with 2, the rebalance timeout with 1."""
    member = ClassicGroupMember("m", "i", "c", "/h", 300, 45, b"\x00\x01", b"")
    group = ClassicGroup("consumer", 7, "range", "m", 99, (member,))
    record = Record(ClassicGroupKey(T.GROUP_METADATA, "g"), group, version)
    found = decode(*encode(record)).value
    assert isinstance(found, ClassicGroup)
    assert (found.generation, found.members[0].session_timeout, found.members[0].subscription) == (7, 45, b"\x00\x01")
    assert found.current_state_timestamp == (99 if version >= 2 else -1)
    assert found.members[0].group_instance_id == ("i" if version >= 3 else None)
    assert found.members[0].rebalance_timeout == (300 if version >= 1 else -1)


@pytest.mark.parametrize(
    ("value", "raw"),
    [
        (GroupEpoch(4), "0000 00000004 00"),
        (GroupEpoch(4, -1), "0000 00000004 01 00 08 ffffffffffffffff"),
    ],
)
def test_a_tag_at_its_default_is_not_written(value: GroupEpoch, raw: str) -> None:
    """A group without metadata has no tag, one with it has tag 0 of eight bytes."""
    key = GroupKey(T.CONSUMER_GROUP_METADATA, "g")
    assert encode(Record(key, value)) == (bytes.fromhex("0003 0001 67"), bytes.fromhex(raw))


def test_a_member_of_the_consumer_protocol_says_so_in_a_tag() -> None:
    """Null classic metadata is written: tag 0 of one byte, 0; with metadata that byte is 1."""
    plain = Member(None, None, "c", "/h", ("foo",), "")
    classic = Member(None, None, "c", "/h", ("foo",), "", classic_member_metadata=ClassicMember(1, ()))
    _, without = encode(Record(MEMBER, plain))
    _, with_metadata = encode(Record(MEMBER, classic))
    assert without is not None
    assert with_metadata is not None
    assert without.endswith(bytes.fromhex("01 00 01 00"))
    assert with_metadata.endswith(bytes.fromhex("01 00 07 01 00000001 01 00"))


def test_json_is_what_kafka_s_tools_print() -> None:
    """Lower camel case, tags at their default left out, the version of the value first."""
    key = MemberKey(T.CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT, "g", "m")
    record = Record(key, Current(4, 3, 1, HELD, (HeldTopic(FOO, (2,)),)))
    assert to_json(record) == {
        "key": {"type": 8, "groupId": "g", "memberId": "m"},
        "value": {
            "version": 0,
            "memberEpoch": 4,
            "previousMemberEpoch": 3,
            "state": 1,
            "assignedPartitions": [{"topicId": FOO, "partitions": [0, 1], "assignmentEpochs": [2, 3]}],
            "partitionsPendingRevocation": [{"topicId": FOO, "partitions": [2]}],
        },
    }


def test_numbers_may_be_texts_as_the_dump_tool_prints_them() -> None:
    """kafka-dump-log.sh prints type and version as texts."""
    printed = {"key": {"type": "3", "groupId": "g"}, "value": {"version": "0", "epoch": 4}}
    assert from_json(printed) == Record(GroupKey(T.CONSUMER_GROUP_METADATA, "g"), GroupEpoch(4))


def test_an_unknown_tag_is_skipped() -> None:
    """A newer broker's tag 5 leaves the rest of the value readable."""
    key, value = bytes.fromhex("0003 0001 67"), bytes.fromhex("0000 00000004 02 00 08 0000000000000009 05 02 abcd")
    assert decode(key, value).value == GroupEpoch(4, 9)


def test_records_of_other_groups_pass_through() -> None:
    """A share group's record keeps its bytes, and is not read."""
    key, value = bytes.fromhex("000b 0001 73"), bytes.fromhex("0000 00000001 00")
    record = decode(key, value)
    assert (record.key.type, record.value) == (11, value)
    assert encode(record) == (key, value)
    assert to_json(record) == {"key": {"type": 11}, "value": None}


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("0063 0001 67", "0000", "unknown record type 99; skip it"),
        ("0003 0001 67", "0001 00000004 00", "CONSUMER_GROUP_METADATA in version 1; the newest known is 0"),
        ("0003 0001 67", "0000 000000", "GroupEpoch.epoch, byte 2: the bytes end too early"),
        ("0003 0001 67", "0000 00000004 00 ff", "byte 7: 1 bytes too many"),
        ("0003 0005 67", "0000 00000004 00", "byte 4: 5 bytes wanted, 1 left"),
        ("0003 0001 ff", "0000 00000004 00", "GroupKey.group_id, byte 2: not UTF-8"),
        ("0003 ffff", "0000 00000004 00", "null where a value is needed"),
        ("00", None, "type of a record, byte 0: the bytes end too early"),
        ("0003 0001 67", "0000 00000004 ffffffffffffffffffff01", "does not end"),
    ],
)
def test_other_bytes_are_refused(key: str, value: str | None, message: str) -> None:
    """The error names the byte and what is wrong with it."""
    with pytest.raises(InputError, match=message):
        decode(bytes.fromhex(key), None if value is None else bytes.fromhex(value))


@given(st.binary(max_size=40), st.none() | st.binary(max_size=40))
def test_no_bytes_break_the_decoder(key: bytes, value: bytes | None) -> None:
    """Whatever the bytes, they are a record or an `InputError`."""
    try:
        record = decode(key, value)
    except InputError:
        return
    assert encode(record)[0] == key


@pytest.mark.parametrize(
    "document",
    [
        {},
        {"key": None, "value": None},
        {"key": {"type": "x"}, "value": None},
        {"key": {"type": 3}, "value": None},
        {"key": {"type": 3, "groupId": "g"}, "value": {"version": 0}},
        {"key": {"type": 3, "groupId": "g"}, "value": 5},
        {"key": {"type": 77}, "value": None},
    ],
)
def test_other_json_is_refused(document: dict[str, object]) -> None:
    """What no tool of Kafka prints is no record."""
    with pytest.raises(InputError):
        from_json(document)
