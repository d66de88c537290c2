"""One connection through the proxy, without sockets: what goes on, what is rewritten, what is seen."""

from __future__ import annotations

from collections.abc import Iterable
from random import Random
from typing import Any

import pytest

from fsm.capture.addresses import NAMING
from fsm.capture.frames import HEAD
from fsm.capture.link import OLD_SASL, TLS, Link
from fsm.errors import InputError, RemoteProtocolError
from fsm.protocol.codec import decode_response, encode_request, encode_response
from fsm.protocol.error_codes import ErrorCode
from fsm.protocol.messages import (
    APIS,
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    Coordinator,
    DescribeClusterBroker,
    DescribeClusterResponse,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    FindCoordinatorResponse,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponseTopic,
    NodeEndpoint,
    PartitionData,
    ProduceRequest,
    ProduceResponse,
)
from fsm.protocol.schema import struct_of
from fsm.wire.exchange import Exchange

BEAT = ConsumerGroupHeartbeatRequest("g", "m", 0, subscribed_topic_names=("foo",), topic_partitions=())
BEATEN = ConsumerGroupHeartbeatResponse(3, 5_000, member_id="m")


def framed(frame: bytes) -> bytes:
    return len(frame).to_bytes(4, "big") + frame


def asks(request: Any, version: int, correlation_id: int = 1) -> bytes:
    return framed(encode_request(request, version, correlation_id, "A"))


def answers(response: Any, version: int, correlation_id: int = 1) -> bytes:
    return framed(encode_response(response, version, correlation_id))


def empty(api: str, version: int, correlation_id: int = 1) -> bytes:
    """The header of a request of this version; its body cannot be read."""
    head = b"".join(number.to_bytes(2, "big") for number in (APIS[api].key, version))
    return framed(head + correlation_id.to_bytes(4, "big") + b"\0\1A")


def behind(node_id: int, host: str, port: int) -> tuple[str, int]:
    return "127.0.0.1", port + 10_000 + node_id + len(host)


def link(**fields: Any) -> Link:
    return Link(7, behind, 2, **fields)


def cut(data: bytes, sizes: Iterable[int]) -> list[bytes]:
    pieces = []
    for size in sizes:
        pieces.append(data[:size])
        data = data[size:]
    return [*pieces, data]


def through(one: Link, requests: bytes, data: bytes = b"") -> bytes:
    """What the client gets; the broker gets what the client has sent."""
    assert one.from_client(requests, 1.0).to_broker == requests
    return one.from_broker(data, 2.0).to_client


@pytest.mark.parametrize("size", [1, 3, 4, 5, 50, 1_000])
def test_bytes_go_on_as_they_came_however_they_are_cut(size: int) -> None:
    requests = b"".join(asks(BEAT, 1, number) for number in range(5))
    data = b"".join(answers(BEATEN, 1, number) for number in range(5))
    one = link()
    sent = b"".join(one.from_client(part, 1.0).to_broker for part in cut(requests, [size] * (len(requests) // size)))
    got = b"".join(one.from_broker(part, 2.0).to_client for part in cut(data, [size] * (len(data) // size)))
    assert (sent, got) == (requests, data)
    assert one.take_exchanges() == [
        Exchange(1.0, 7, "A", "ConsumerGroupHeartbeat", 1, BEAT, 2.0, BEATEN, 2, number) for number in range(5)
    ]
    assert one.take_exchanges() == []


FOO = (MetadataResponseTopic(ErrorCode.NONE, "foo"),)
NOBODY = Coordinator("h", -1, "", -1, ErrorCode.COORDINATOR_NOT_AVAILABLE)
HERE = "127.0.0.1"
NAMED: dict[str, tuple[Any, Any]] = {
    "Metadata": (
        MetadataResponse(
            brokers=(MetadataResponseBroker(1, "one", 9092), MetadataResponseBroker(2, "two", 9093)), topics=FOO
        ),
        MetadataResponse(
            brokers=(MetadataResponseBroker(1, HERE, 19096), MetadataResponseBroker(2, HERE, 19098)), topics=FOO
        ),
    ),
    "FindCoordinator": (
        FindCoordinatorResponse(
            node_id=1, host="one", port=9092, coordinators=(Coordinator("g", 1, "one", 9092), NOBODY)
        ),
        FindCoordinatorResponse(
            node_id=1, host=HERE, port=19096, coordinators=(Coordinator("g", 1, HERE, 19096), NOBODY)
        ),
    ),
    "DescribeCluster": (
        DescribeClusterResponse(cluster_id="c", brokers=(DescribeClusterBroker(1, "one", 9092),)),
        DescribeClusterResponse(cluster_id="c", brokers=(DescribeClusterBroker(1, HERE, 19096),)),
    ),
    "Fetch": (
        FetchResponse(node_endpoints=(NodeEndpoint(1, "one", 9092),)),
        FetchResponse(node_endpoints=(NodeEndpoint(1, HERE, 19096),)),
    ),
    "Produce": (
        ProduceResponse(node_endpoints=(NodeEndpoint(1, "one", 9092),)),
        ProduceResponse(node_endpoints=(NodeEndpoint(1, HERE, 19096),)),
    ),
}


@pytest.mark.parametrize(
    ("api", "version"), [(api, version) for api in NAMING for version in range(APIS[api].oldest, APIS[api].newest + 1)]
)
def test_brokers_are_named_where_clients_find_them(api: str, version: int) -> None:
    """In every version that clients may use. What was said remains in the exchange."""
    response, wanted = NAMED[api]
    one = link()
    got = through(one, empty(api, version), answers(response, version))
    assert got == answers(wanted, version)
    (seen,) = one.take_exchanges()
    assert seen.response == decode_response(APIS[api].response, encode_response(response, version, 1), version)[1]


# As a broker of 4.4 has them: a topic with a partition that has moved to broker 2, at host `two`.
MOVED = (
    "00000000 0000 00 {locked} 02 000102030405060708090a0b0c0d0e0f 02 00000000 0006 00 {acknowledged} 00000002 00000007"
    " 00 {records} 00 00 02 00000002 {place} 00 00 00"
)
THERE, NEAR = "0474776f 00002385", "0a3132372e302e302e31 00004a9a"
SHARE = {"locked": "00007530", "acknowledged": "0000 00", "records": "0574657374 01"}


@pytest.mark.parametrize(
    ("key", "version", "body"),
    [
        (78, 1, SHARE),
        (78, 2, SHARE),
        (79, 1, {"locked": "", "acknowledged": "", "records": ""}),
        (79, 2, {"locked": "00007530", "acknowledged": "", "records": ""}),
    ],
)
def test_answers_to_share_consumers_name_brokers_where_clients_find_them(
    key: int, version: int, body: dict[str, str]
) -> None:
    def answer(place: str) -> bytes:
        return framed(b"\0\0\0\1\0" + bytes.fromhex(MOVED.format(place=place, **body)))

    request = framed(key.to_bytes(2, "big") + version.to_bytes(2, "big") + b"\0\0\0\1\xff\xff\0")
    one = link()
    assert through(one, request, answer(THERE)) == answer(NEAR)
    assert not one.unread
    (seen,) = one.take_exchanges()
    assert (seen.api, seen.response) == (str(key), None)
    other, cut = link(), framed(answer(THERE)[4:-3])
    assert through(other, request, cut) == cut
    assert other.unread == [f"an answer to API {key} in version {version}, which may name brokers"]


def test_every_answer_that_names_brokers_is_rewritten() -> None:
    """A message with a host in it is one of these, or tells where a client is."""
    with_host = {api.name for api in APIS.values() if {"host", "client_host"} & _fields(api.response)}
    assert with_host == {*NAMING, "DescribeGroups", "ConsumerGroupDescribe"}


def _fields(message: type[Any]) -> set[str]:
    found: set[str] = set()
    waiting = [struct_of(message)]
    while waiting:
        for field in waiting.pop().fields:
            found.add(field.name)
            inner = field.type.element or field.type
            if inner.struct:
                waiting.append(inner.struct)
    return found


@pytest.mark.parametrize("version", range(6))
def test_clients_are_told_of_versions_that_can_be_read(version: int) -> None:
    """Those of answers that name brokers are bounded by what is known, all others are not."""
    newest = dict.fromkeys(range(100), 99)
    response = ApiVersionsResponse(api_keys=tuple(ApiVersion(key, 0, last) for key, last in newest.items()))
    got = through(link(), asks(ApiVersionsRequest(), version), answers(response, version))
    rewritten = decode_response(ApiVersionsResponse, got[4:], version)[1]
    bounded = {APIS[api].key: APIS[api].newest for api in (*NAMING, "ApiVersions")} | {78: 2, 79: 2}
    assert {one.api_key: one.max_version for one in rewritten.api_keys} == newest | bounded


def test_an_api_of_which_no_version_can_be_read_is_not_told() -> None:
    response = ApiVersionsResponse(api_keys=(ApiVersion(3, 50, 60), ApiVersion(77, 50, 60)))
    got = through(link(), asks(ApiVersionsRequest(), 0), answers(response, 0))
    assert decode_response(ApiVersionsResponse, got[4:], 0)[1].api_keys == (ApiVersion(77, 50, 60),)


def test_a_broker_too_old_for_the_version_of_apiversions_answers_in_version_0() -> None:
    response = ApiVersionsResponse(ErrorCode.UNSUPPORTED_VERSION, (ApiVersion(18, 0, 2),))
    one = link()
    assert through(one, asks(ApiVersionsRequest("x", "1"), 4), answers(response, 0)) == answers(response, 0)
    assert one.take_exchanges()[0].response == response


def test_apiversions_too_new_to_be_read_is_refused_in_its_turn() -> None:
    """The client asks again with a version that is known; the broker never hears of the first."""
    newest = APIS["ApiVersions"].newest
    request = empty("ApiVersions", newest + 1, 2)
    refused = ApiVersionsResponse(ErrorCode.UNSUPPORTED_VERSION, (ApiVersion(18, 0, newest),))
    one = link()
    assert one.from_client(asks(BEAT, 1, 1) + request, 1.0) == (asks(BEAT, 1, 1), b"")
    assert one.from_broker(answers(BEATEN, 1, 1), 2.0).to_client == answers(BEATEN, 1, 1) + answers(refused, 0, 2)
    assert link().from_client(request, 1.0) == (b"", answers(refused, 0, 2))


def test_a_request_that_is_passed_over_has_no_answer() -> None:
    """A Produce with acks 0 has none; nor has what still waits in the end."""
    one = link()
    through(one, asks(ProduceRequest(0), 9, 1) + asks(BEAT, 1, 2) + asks(BEAT, 1, 3), answers(BEATEN, 1, 2))
    one.end()
    assert [(seen.api, seen.correlation_id, seen.is_answered) for seen in one.take_exchanges()] == [
        ("Produce", 1, False),
        ("ConsumerGroupHeartbeat", 2, True),
        ("ConsumerGroupHeartbeat", 3, False),
    ]


@pytest.mark.parametrize(
    ("key", "api", "version"),
    [
        (b"\3\xe7\0\2", "999", 2),
        (b"\0\x44\0\x63", "ConsumerGroupHeartbeat", 99),
        (b"\0\x44\0\1", "ConsumerGroupHeartbeat", 1),
    ],
)
def test_what_is_not_known_or_not_readable_goes_on_as_it_is(key: bytes, api: str, version: int) -> None:
    one = link()
    answer = framed(b"\0\0\0\1no idea")
    assert through(one, framed(key + b"\0\0\0\1\xff\xff\0whatever"), answer) == answer
    (seen,) = one.take_exchanges()
    assert (seen.api, seen.version, seen.request, seen.response, seen.is_answered) == (api, version, None, None, True)


def test_a_large_frame_goes_on_before_it_is_whole() -> None:
    """It is opaque; the frames around it are not."""
    data = PartitionData(0, records=bytes(3 * HEAD))
    large = answers(FetchResponse(responses=(FetchableTopicResponse("foo", partitions=(data,)),)), 12, 1)
    one = link(held=HEAD)
    one.from_client(asks(FetchRequest(), 12, 1) + asks(BEAT, 1, 2), 1.0)
    parts = [one.from_broker(part, 2.0).to_client for part in cut(large + answers(BEATEN, 1, 2), [HEAD + 4, 10, HEAD])]
    assert [len(part) for part in parts[:3]] == [HEAD + 4, 10, HEAD]
    assert b"".join(parts) == large + answers(BEATEN, 1, 2)
    assert [(seen.api, seen.response) for seen in one.take_exchanges()] == [
        ("Fetch", None),
        ("ConsumerGroupHeartbeat", BEATEN),
    ]


def test_records_are_not_kept() -> None:
    data = PartitionData(0, ErrorCode.NONE, 5, records=b"secret")
    response = FetchResponse(responses=(FetchableTopicResponse("foo", partitions=(data,)),))
    one = link()
    assert through(one, asks(FetchRequest(), 12), answers(response, 12)) == answers(response, 12)
    kept = one.take_exchanges()[0].response.responses[0].partitions[0]
    assert kept == data._replace(records=None)


@pytest.mark.parametrize(
    ("requests", "data", "words"),
    [
        (b"\xff\xff\xff\xff", b"", "a frame of -1 bytes"),
        (framed(b"short"), b"", "a frame of 5 bytes"),
        (framed(b"\0\x44\0\1\0\0\0\1\0\x40A"), b"", "not a request"),
        (asks(BEAT, 1), b"\0\0\0\2\0\0", "a frame of 2 bytes"),
        (asks(BEAT, 1), answers(BEATEN, 1, 2), "a response to request 2"),
        (b"", answers(BEATEN, 1, 2), "a response to request 2"),
    ],
)
def test_what_is_no_frame_ends_the_connection(requests: bytes, data: bytes, words: str) -> None:
    one = link()
    with pytest.raises(RemoteProtocolError, match=words):
        through(one, requests, data)


def test_a_client_that_speaks_tls_is_opaque() -> None:
    one = link()
    hello = b"\x16\x03\x01\x02\0\1\0\1\xfc\3\3"
    assert through(one, hello, b"\x16\x03\3\0zz") == b"\x16\x03\3\0zz"
    assert (one.opaque, one.take_exchanges()) == (TLS, [])


def test_sasl_with_tokens_outside_frames_is_opaque_from_there_on() -> None:
    one = link()
    handshake, answer = framed(b"\0\x11\0\0\0\0\0\1\0\1A\0\5PLAIN"), framed(b"\0\0\0\1\0\0\0\0\0\0")
    assert through(one, handshake, answer) == answer
    assert through(one, b"\0\0\0\3a\0b", b"\0\0\0\0") == b"\0\0\0\0"
    assert one.opaque == OLD_SASL


def test_hostile_bytes_end_at_most_their_own_connection() -> None:
    """Frames with bytes changed, put in, left out or cut, on both sides: they go on, or the connection ends."""
    random = Random(4)  # noqa: S311
    requests = [asks(BEAT, 1), asks(ApiVersionsRequest(), 4), *(empty(api, APIS[api].newest) for api in NAMED)]
    answer = [answers(BEATEN, 1), answers(ApiVersionsResponse(api_keys=(ApiVersion(3, 0, 99),)), 4)]
    answer += [answers(response, APIS[api].newest) for api, (response, _) in NAMED.items()]
    ended = 0
    for _ in range(10_000):
        which = random.randrange(len(requests))
        one = link(held=HEAD)
        try:
            one.from_client(_mutate(random, requests[which], random.randrange(2)), 1.0)
            one.from_broker(_mutate(random, answer[which], random.randrange(4)), 2.0)
        except (RemoteProtocolError, InputError):
            ended += 1
        one.end()
        one.take_exchanges()
    assert 500 < ended < 9_500


def _mutate(random: Random, data: bytes, times: int) -> bytes:
    changed = bytearray(data)
    for _ in range(times):
        at = random.randrange(len(changed)) if changed else 0
        match random.randrange(4):
            case 0:
                changed[at : at + 1] = bytes([random.randrange(256)])
            case 1:
                changed[at:at] = random.randbytes(random.randrange(1, 5))
            case 2:
                del changed[at : at + random.randrange(1, 5)]
            case _:
                changed[at : at + 4] = random.choice((b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"\0\0\0\0"))
    return bytes(changed)
