"""Messages as bytes, in all versions: beside what kio wrote, and against bytes that nobody wrote."""

from __future__ import annotations

import json
import lzma
from base64 import b64decode
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fsm.errors import InputError, LocalProtocolError
from fsm.protocol.assignment import NO_TOPIC_ID
from fsm.protocol.codec import (
    RequestHeader,
    decode,
    decode_header,
    decode_request,
    decode_response,
    encode,
    encode_request,
    encode_response,
)
from fsm.protocol.encoding import codec_of, struct_codec
from fsm.protocol.error_codes import RETRIABLE, ErrorCode
from fsm.protocol.json_form import THROTTLE, from_recorded, to_recorded
from fsm.protocol.messages import (
    APIS,
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    FetchPartition,
    FetchRequest,
    FetchTopic,
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
    MetadataRequest,
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponsePartition,
    SyncGroupResponse,
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponseTopic,
)
from fsm.protocol.primitives import Unreadable
from fsm.protocol.schema import struct_of

FOO = "AAAAAAAAAAAAAAAAAAAAAQ"
HEARTBEAT = ConsumerGroupHeartbeatRequest(
    "g", "m", 2, subscribed_topic_names=("foo",), topic_partitions=((FOO, (0, 1)),)
)


@pytest.fixture(scope="module")
def vectors() -> list[dict[str, Any]]:
    """`make_vectors.py` made them with kio and Kafka's own classes, which know nothing of our declarations."""
    lines = lzma.decompress(Path(__file__).with_name("vectors.jsonl.xz").read_bytes()).decode().splitlines()
    return [json.loads(line) for line in lines]


def pairs(vectors: list[dict[str, Any]], api: str) -> Iterator[tuple[type[Any], int, bytes, dict[str, Any]]]:
    """Type, version, bytes and fields of each message of an API."""
    for one in vectors:
        if one["api"] == api:
            for data, body in one["messages"]:
                yield getattr(APIS[api], one["kind"]), one["version"], b64decode(data), body


def test_every_version_of_every_message_has_vectors(vectors: list[dict[str, Any]]) -> None:
    """None is left out."""
    known = {(a.name, kind, v) for a in APIS.values() for kind in ("request", "response") for v in versions(a.name)}
    assert {(one["api"], one["kind"], one["version"]) for one in vectors} == known


def versions(api: str) -> range:
    """All of them."""
    return range(APIS[api].oldest, APIS[api].newest + 1)


def test_a_transaction_names_topics_by_id_since_version_6() -> None:
    """KIP-1319: version 6 is version 5 with the id in place of the name, in request and response."""
    partition = TxnOffsetCommitRequestPartition(1, 5, 2, "x")
    request = TxnOffsetCommitRequest("t", "g", 7, 3, 4, "m", None)
    head, tail = b"\x02t\x02g" + bytes(7) + b"\7\0\3\0\0\0\4\2m\0\2", b"\2\0\0\0\1" + bytes(7) + b"\5\0\0\0\2\2x\0\0\0"
    result = (OffsetCommitResponsePartition(1, ErrorCode.UNKNOWN_TOPIC_ID),)
    answered = b"\2\0\0\0\1\0\x64\0\0\0"
    for version, name, topic_id, raw in ((5, "foo", NO_TOPIC_ID, b"\4foo"), (6, "", FOO, bytes(15) + b"\1")):
        sent = replace(request, topics=(TxnOffsetCommitRequestTopic(name, topic_id, (partition,)),))
        assert encode(sent, version) == head + raw + tail
        assert decode(TxnOffsetCommitRequest, head + raw + tail, version) == sent
        answer = TxnOffsetCommitResponse(topics=(TxnOffsetCommitResponseTopic(name, topic_id, result),))
        assert encode(answer, version) == bytes(4) + b"\2" + raw + answered
        assert decode(TxnOffsetCommitResponse, bytes(4) + b"\2" + raw + answered, version) == answer


@pytest.mark.parametrize("api", list(APIS))
def test_others_write_the_same_bytes(vectors: list[dict[str, Any]], api: str) -> None:
    """The fields as others had them give their bytes, and their bytes give the fields, in every version."""
    for cls, version, data, body in pairs(vectors, api):
        message = from_recorded(cls, body, version)
        assert decode(cls, data, version) == message, version
        assert encode(message, version) == data, version
        assert to_recorded(message, version) == {name: value for name, value in body.items() if name != THROTTLE}


@pytest.mark.parametrize("api", list(APIS))
def test_vectors_notice_a_version_that_is_wrong(vectors: list[dict[str, Any]], api: str) -> None:
    """A field that is declared a version too late, or ends one too early or too late, is read as something else."""
    for cls in (APIS[api].request, APIS[api].response):
        whole = struct_of(cls)
        found = [one[1:3] for one in pairs(vectors, api) if one[0] is cls]
        for i, field in enumerate(whole.fields):
            since, until = field.wire.since, min(field.wire.until, versions(api)[-1])
            wrong = [field.wire._replace(since=since + 1)] if since in versions(api) else []
            wrong += [field.wire._replace(until=until - 1)] if until - 1 in versions(api) else []
            wrong += [field.wire._replace(until=until + 1)] if until + 1 in versions(api) else []
            for wire in wrong:
                declared = whole._replace(fields=(*whole.fields[:i], field._replace(wire=wire), *whole.fields[i + 1 :]))
                differs = [one for one in found if is_in(field.wire, one[0]) != is_in(wire, one[0])]
                assert not all(reads_alike(cls, declared, version, data) for version, data in differs), field.name


def is_in(wire: Any, version: int) -> bool:
    """Whether a version has a field that is declared so."""
    has: bool = wire.since <= version <= wire.until
    return has


def reads_alike(cls: type[Any], declared: Any, version: int, data: bytes) -> bool:
    """Whether another declaration reads these bytes as the right one does."""
    api = next(one for one in APIS.values() if cls in one)
    try:
        found, end = struct_codec(declared, version, version >= api.flexible_since).read(data, 0)
    except Unreadable:
        return False
    return end == len(data) and found == decode(cls, data, version)


def test_a_heartbeat_is_written_as_its_schema_says() -> None:
    """Compact strings and arrays with lengths plus one, null as 0, tags after every struct."""
    data = bytes.fromhex(
        "02 67 02 6d 00 00 00 02 00 00 ff ff ff ff 02 04 66 6f 6f 00 00 "
        "02 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 01 03 00 00 00 00 00 00 00 01 00 00"
    )
    assert encode(HEARTBEAT, 1) == data
    assert decode(ConsumerGroupHeartbeatRequest, data, 1) == HEARTBEAT


def test_what_is_read_is_a_value() -> None:
    """A message that was read is as good as one that was made: equal, hashable, frozen, partitions as plain tuples."""
    found = decode(ConsumerGroupHeartbeatRequest, encode(HEARTBEAT, 1), 1)
    assert hash(found) == hash(HEARTBEAT)
    assert found.topic_partitions is not None
    assert type(found.topic_partitions[0]) is tuple
    with pytest.raises(AttributeError):
        found.member_id = "other"  # type: ignore[misc]


def test_what_is_no_message_is_refused_by_its_type() -> None:
    """Arguments in the wrong order, for example; not by all of its bytes."""
    with pytest.raises(LocalProtocolError, match=r"^a value of type bytes is no type of messages; fsm\.protocol\.mess"):
        decode_response(b"\0" * 999, HeartbeatResponse, 4)  # type: ignore[arg-type, type-var]
    with pytest.raises(LocalProtocolError, match=r"^dict is no type of messages"):
        encode_request({}, 1, 1, None)


def test_an_older_version_leaves_out_what_it_does_not_know() -> None:
    """JoinGroup 0 has neither a rebalance timeout nor an instance id nor a reason: they read as the defaults."""
    request = JoinGroupRequest("g", 10, 20, "m", "i", "consumer", (JoinGroupRequestProtocol("range", b"x"),), "why")
    found = decode(JoinGroupRequest, encode(request, 0), 0)
    assert found == JoinGroupRequest("g", 10, -1, "m", None, "consumer", request.protocols, None)


def test_the_older_kind_has_no_tags() -> None:
    """Fetch 4: lengths of two and four bytes, nothing behind a struct."""
    wanted = FetchTopic("t", partitions=(FetchPartition(2, fetch_offset=7, partition_max_bytes=9),))
    assert encode(FetchRequest(max_bytes=8, topics=(wanted,)), 4).hex() == (
        "ffffffff00000000000000000000000800000000010001740000000100000002000000000000000700000009"
    )


def test_frames_have_their_headers() -> None:
    """Key, version, id and client id, which is never compact; tags only where the body is flexible."""
    old, new = (encode_request(HeartbeatRequest("g", 1, "m"), version, 7, "c") for version in (3, 4))
    assert old == bytes.fromhex("000c 0003 00000007 0001 63") + encode(HeartbeatRequest("g", 1, "m"), 3)
    assert new == bytes.fromhex("000c 0004 00000007 0001 63 00") + encode(HeartbeatRequest("g", 1, "m"), 4)
    assert decode_request(old) == (RequestHeader(12, 3, 7, "c"), HeartbeatRequest("g", 1, "m"))
    assert decode_request(new) == (RequestHeader(12, 4, 7, "c"), HeartbeatRequest("g", 1, "m"))
    assert encode_response(HeartbeatResponse(), 4, 7).hex() == "00000007" + "00" + "00000000" + "0000" + "00"
    for version in versions("Heartbeat"):
        frame = encode_response(HeartbeatResponse(ErrorCode.UNKNOWN_MEMBER_ID), version, 7)
        assert decode_response(HeartbeatResponse, frame, version) == (7, HeartbeatResponse(ErrorCode.UNKNOWN_MEMBER_ID))


def test_a_client_that_is_too_new_can_read_the_versions() -> None:
    """KIP-511: the header of an ApiVersions response is never flexible, though its body is."""
    response = ApiVersionsResponse(ErrorCode.UNSUPPORTED_VERSION, (ApiVersion(18, 0, 4),))
    frame = encode_response(response, 3, 9)
    assert frame[:6] == bytes.fromhex("00000009 0023")
    assert decode_response(ApiVersionsResponse, frame, 3) == (9, response)
    assert encode_request(ApiVersionsRequest("c", "1"), 3, 9, None)[8:11] == b"\xff\xff\x00"


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        ("0063 0000 00000001 ffff", "RequestHeader.api_key: no request with the key 99 is known here"),
        ("000c 0005 00000001 ffff", "Heartbeat: no version 5; known versions are 0 to 4"),
        ("000c 0004 00000001", "RequestHeader.client_id, byte 8: the bytes end too early"),
        ("000c 0004 00000001 ffff 00 02 67", "HeartbeatRequest.generation_id, byte 13: the bytes end too early"),
        ("", "RequestHeader.api_key, byte 0: the bytes end too early"),
    ],
)
def test_frames_that_cannot_be_read(frame: str, message: str) -> None:
    """The error names the field, the place and what is wrong."""
    with pytest.raises(InputError, match=f"^{message}$"):
        decode_request(bytes.fromhex(frame))


@pytest.mark.parametrize("api", list(APIS))
def test_every_cut_is_refused(vectors: list[dict[str, Any]], api: str) -> None:
    """A message that ends too early, or goes on, is an `InputError`, whatever is missing."""
    cls, version, data, _ = max(pairs(vectors, api), key=lambda one: (one[1], len(one[2]) % 500))
    for end in range(len(data)):
        with pytest.raises(InputError):
            decode(cls, data[:end], version)
    with pytest.raises(InputError, match="1 bytes too many"):
        decode(cls, data + b"\0", version)


@given(st.binary(max_size=60), st.sampled_from(list(APIS)), st.booleans(), st.integers(0, 20))
def test_any_bytes_are_read_or_refused(data: bytes, api: str, is_request: bool, version: int) -> None:
    """Nothing else than `InputError` is raised, and what is read is written again."""
    cls = APIS[api].request if is_request else APIS[api].response
    try:
        found = decode(cls, data, version)
    except InputError:
        return
    assert decode(cls, encode(found, version), version) == found


@pytest.mark.parametrize(
    ("data", "version", "message"),
    [
        ("7fffffff", 0, "MetadataRequest.topics, byte 4: an array of 2147483647, 0 bytes left"),
        ("ffffffff0f 00", 12, "MetadataRequest.topics, byte 5: an array of 4294967294, 1 bytes left"),
        ("ffffffffffffffffffff7f", 12, "MetadataRequest.topics, byte 0: a number of variable length does not end"),
        ("00000001 7fff 61", 0, "MetadataRequest.topics.name, byte 6: 32767 bytes wanted, 1 left"),
        ("ffffffff", 0, "MetadataRequest.topics, byte 4: null where a value is needed"),
        ("00000001 0001 ff", 0, "MetadataRequest.topics.name, byte 4: not UTF-8"),
        ("01 01 00 01 00 05 61", 12, "MetadataRequest.include_topic_authorized_operations, byte 6: 5 bytes wanted"),
    ],
)
def test_a_claimed_length_takes_no_memory(data: str, version: int, message: str) -> None:
    """It is held against what is left, and refused with its place."""
    with pytest.raises(InputError, match=f"^{message}"):
        decode(MetadataRequest, bytes.fromhex(data), version)


def test_unknown_tags_are_skipped() -> None:
    """A newer broker may add tagged fields: here tag 9 with two bytes behind a Heartbeat response."""
    assert decode(HeartbeatResponse, bytes.fromhex("00000000 0000 01 09 02 abcd"), 4) == HeartbeatResponse()


def test_a_tag_stays_within_its_bytes() -> None:
    """A tagged field that is longer than its length says is refused."""
    with pytest.raises(InputError, match="tag 1 is longer than its 4 bytes"):
        decode(ApiVersionsResponse, bytes.fromhex("0000 01 00000000 01 01 04 00000000 00000000"), 3)


def test_an_unknown_error_keeps_its_number() -> None:
    """A code of a later release is read, written again, and equal to itself."""
    data = bytes.fromhex("00000000 7fff 00 00 00000000 00000000 ff 00")
    found = decode(ConsumerGroupHeartbeatResponse, data, 1)
    assert (int(found.error_code), found.error_code.name) == (32767, "ERROR_32767")
    assert found.error_code == ErrorCode(32767)
    assert encode(found, 1) == data
    assert not found.error_code.passes
    with pytest.raises(ValueError, match="not a valid ErrorCode"):
        ErrorCode(1 << 15)


def test_error_codes_are_kafkas() -> None:
    """All of 4.4, without a gap; those whose exception is retriable count as passing."""
    assert [int(code) for code in ErrorCode] == list(range(-1, 134))
    assert len(RETRIABLE) == 32
    assert ErrorCode.COORDINATOR_LOAD_IN_PROGRESS.passes
    assert not ErrorCode.FENCED_MEMBER_EPOCH.passes


PARTITION = OffsetCommitRequestPartition(0, 5)


@pytest.mark.parametrize(
    ("message", "version", "expected"),
    [
        (HeartbeatRequest("g", 1 << 31, "m"), 4, "HeartbeatRequest.generation_id: this cannot be written"),
        (HeartbeatRequest(None, 1, "m"), 4, "HeartbeatRequest.group_id: this cannot be written"),
        (HeartbeatRequest("\ud800", 1, "m"), 4, "HeartbeatRequest.group_id: this cannot be written"),
        (HeartbeatRequest("g" * 40_000, 1, "m"), 3, "HeartbeatRequest.group_id: this cannot be written"),
        (JoinGroupResponse(1, None, None), 6, "JoinGroupResponse.protocol_name: this cannot be written"),
        (
            OffsetCommitRequest("g", topics=(OffsetCommitRequestTopic("t", partitions=(PARTITION, (0,))),)),
            9,
            "OffsetCommitRequest.topics.partitions.partition_index: this cannot be written",
        ),
        (
            OffsetCommitRequest("g", topics=(OffsetCommitRequestTopic(topic_id="foo"),)),
            10,
            "OffsetCommitRequest.topics.topic_id: this cannot be written: 'foo' is no topic id",
        ),
    ],
)
def test_a_value_that_cannot_be_written(message: Any, version: int, expected: str) -> None:
    """The error names the field."""
    with pytest.raises(InputError, match=f"^{expected}"):
        encode(message, version)


def test_a_number_is_no_bytes() -> None:
    """`bytes(5)` would be five zeros."""
    for version in (3, 4):
        with pytest.raises(InputError, match=r"^SyncGroupResponse.assignment: this cannot be written"):
            encode(SyncGroupResponse(assignment=5), version)


def test_some_names_no_field_can_have() -> None:
    """Those that the reader and the writer of a struct use themselves."""

    class Taken(NamedTuple):
        out: int

    with pytest.raises(TypeError, match="a field cannot be called out"):
        codec_of(Taken, 0, False)


@pytest.mark.parametrize("flexible", [b"", b"\0", b"\1\5\2ab"])
@pytest.mark.parametrize(("key", "version"), [(12, 4), (12, 999), (99, 7), (-5, -1)])
def test_any_request_has_a_header_that_can_be_read(key: int, version: int, flexible: bytes) -> None:
    """Whatever its API and version, and whatever follows: a proxy passes it on, a broker says UNSUPPORTED_VERSION."""
    head = b"".join(number.to_bytes(2, "big", signed=True) for number in (key, version))
    frame = head + bytes.fromhex("00000007 0001 63") + flexible + b"anything"
    assert decode_header(frame) == RequestHeader(key, version, 7, "c")
    assert decode_header(head + bytes.fromhex("80000000 ffff")) == RequestHeader(key, version, -(1 << 31), None)
    for end in range(10):
        with pytest.raises(InputError, match=r"^RequestHeader"):
            decode_header(frame[:end])
