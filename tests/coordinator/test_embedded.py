"""What consumers say in bytes, in the terms of the coordinator; and records as the dump tool prints them."""

from __future__ import annotations

import pytest

from fsm.coordinator.migration.conversion import by_id, encode, version_of
from fsm.coordinator.model.context import Image, Topic
from fsm.coordinator.model.persistent import PersistentMap
from fsm.errors import RemoteProtocolError
from fsm.protocol.consumer_protocol import (
    Assignment,
    Subscription,
    decode_assignment,
    encode_assignment,
    encode_subscription,
)
from fsm.protocol.records import ClassicGroup, ClassicGroupKey, ClassicGroupMember, Record, RecordType, to_dump_json

FOO, BAR = "AAAAAAAAAAEAAAAAAAAAAQ", "AAAAAAAAAAEAAAAAAAAAAg"
IMAGE = Image(PersistentMap({"foo": Topic(FOO, 3), "bar": Topic(BAR, 1)}))


def test_an_assignment_is_written_in_the_version_of_the_subscription() -> None:
    """Two bytes of version, then topics, no user data."""
    subscription = encode_subscription(Subscription(("foo",)), 1)
    data = encode(((FOO, (0, 2)),), subscription, IMAGE)
    assert data == b"\x00\x01" + encode_assignment(Assignment((("foo", 0), ("foo", 2))))[2:]


def test_a_version_above_the_known_ones_is_read_as_the_highest() -> None:
    """3, as a Java consumer does; without a version there is nothing to read."""
    assert (version_of(b"\x00\x09"), version_of(b"\x00\x00")) == (3, 0)
    with pytest.raises(RemoteProtocolError):
        version_of(b"\x00")


def test_topics_that_are_gone_are_left_out() -> None:
    """On the way in, where they have no id, and on the way out, where they have no name."""
    assert by_id((("foo", 1), ("baz", 0)), IMAGE) == ((FOO, (1,)),)
    assert encode((("AAAAAAAAAAEAAAAAAAAACQ", (0,)),), b"\x00\x00", IMAGE)[2:6] == b"\x00\x00\x00\x00"


def test_topics_are_written_as_a_broker_walks_their_ids() -> None:
    """Not by name: bar has the higher hash here."""
    data = encode(((BAR, (0,)), (FOO, (0,))), b"\x00\x00", IMAGE)
    assert data.index(b"foo") < data.index(b"bar")
    assert by_id(decode_assignment(data).partitions, IMAGE) == ((FOO, (0,)), (BAR, (0,)))


def _printed(subscription: bytes, assignment: bytes, protocol_type: str = "consumer") -> tuple[object, object]:
    member = ClassicGroupMember("m", None, "c", "/h", 1, 1, subscription, assignment)
    value = ClassicGroup(protocol_type, 1, "range", "m", 1, (member,))
    (shown,) = to_dump_json(Record(ClassicGroupKey(RecordType.GROUP_METADATA, "g"), value, 3))["value"]["members"]
    return shown["subscription"], shown["assignment"]


def test_the_dump_tool_spells_out_what_consumers_say() -> None:
    """Each field in the version that has it; topics in the order they were written; empty bytes as an empty text."""
    owned = ((("foo", 0)), ("foo", 2))
    subscription = encode_subscription(Subscription(("foo", "bar"), b"\x01", owned, 4), 2)
    assert _printed(subscription, b"") == (
        {
            "topics": ["foo", "bar"],
            "userData": "AQ==",
            "ownedPartitions": [{"topic": "foo", "partitions": [0, 2]}],
            "generationId": 4,
        },
        "",
    )
    assignment = encode_assignment(Assignment((("foo", 1),)))
    expected = {"assignedPartitions": [{"topic": "foo", "partitions": [1]}], "userData": None}
    assert _printed(encode_subscription(Subscription(("foo",)), 0), assignment) == (
        {"topics": ["foo"], "userData": None},
        expected,
    )


@pytest.mark.parametrize(("data", "protocol_type"), [(b"\x01\x02", "connect"), (b"\x00", "consumer")])
def test_other_bytes_are_printed_as_they_are(data: bytes, protocol_type: str) -> None:
    """Those of other protocol types, and what no consumer says: base64."""
    assert _printed(data, data, protocol_type) == ({b"\x01\x02": "AQI=", b"\x00": "AA=="}[data],) * 2
