"""Faults on the way: what a script does to one connection, without sockets."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from fsm.capture.real_brokers import ON_THE_WAY, FaultyLink, Script
from fsm.errors import RemoteProtocolError
from fsm.protocol.codec import decode_response, encode_request, encode_response
from fsm.protocol.error_codes import ErrorCode
from fsm.protocol.messages import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    OffsetCommitRequest,
    OffsetCommitResponse,
    commit_topics,
)
from fsm.serve.faults import Do, Rule
from fsm.wire.exchange import Exchange

API = "ConsumerGroupHeartbeat"
BEAT = ConsumerGroupHeartbeatRequest("g", "m", 0, subscribed_topic_names=("foo",), topic_partitions=())
BEATEN = ConsumerGroupHeartbeatResponse(3, 5_000, member_id="m")


def asks(request: Any, version: int, correlation_id: int = 1) -> bytes:
    frame = encode_request(request, version, correlation_id, "A")
    return len(frame).to_bytes(4, "big") + frame


def answers(response: Any, version: int, correlation_id: int = 1) -> bytes:
    frame = encode_response(response, version, correlation_id)
    return len(frame).to_bytes(4, "big") + frame


def behind(_node_id: int, host: str, port: int) -> tuple[str, int]:
    return host, port


def link(do: Do, **fields: Any) -> FaultyLink:
    """A link on which this happens to the first heartbeat."""
    return FaultyLink(7, behind, 2, Script("B", [Rule(do, api=API, client="B", **fields)], dict))


def decode_answer(frame: bytes, kind: type[Any] = ConsumerGroupHeartbeatResponse, version: int = 1) -> Any:
    return decode_response(kind, frame[4:], version)[1]


def ended(one: FaultyLink) -> list[Exchange]:
    one.end()
    return one.take_exchanges()


def test_what_no_rule_meets_goes_on() -> None:
    """Under the name of the client, whatever it calls itself."""
    one = link(Do.REFUSE, epoch=9)
    assert one.from_client(asks(BEAT, 1), 1.0).to_broker == asks(BEAT, 1)
    assert one.from_broker(answers(BEATEN, 1), 2.0).to_client == answers(BEATEN, 1)
    (seen,) = one.take_exchanges()
    assert (seen.client_id, seen.fault, seen.answered_ms, seen.response) == ("B", "", 2.0, BEATEN)


def test_a_refusal_is_answered_in_its_turn() -> None:
    """The broker never hears of the request; the one after it goes on."""
    one = link(Do.REFUSE, code=ErrorCode.FENCED_MEMBER_EPOCH, nth=2)
    assert one.from_client(asks(BEAT, 1, 1) + asks(BEAT, 1, 2) + asks(BEAT, 1, 3), 1.0).to_broker == (
        asks(BEAT, 1, 1) + asks(BEAT, 1, 3)
    )
    came = one.from_broker(answers(BEATEN, 1, 1), 2.0).to_client
    first = answers(BEATEN, 1, 1)
    assert came.startswith(first)
    assert decode_answer(came[len(first) :]).error_code is ErrorCode.FENCED_MEMBER_EPOCH
    assert [seen.fault for seen in one.take_exchanges()] == ["", "refuse"]


def test_a_commit_is_refused_for_each_partition() -> None:
    """As a broker refuses it as a whole."""
    one = FaultyLink(7, behind, 2, Script("B", [Rule(Do.REFUSE, ErrorCode.STALE_MEMBER_EPOCH)], dict))
    request = OffsetCommitRequest("g", 3, "m", topics=commit_topics(((("foo", 0), 1), (("foo", 1), 2))))
    passed = one.from_client(asks(request, 9), 1.0)
    assert passed.to_broker == b""
    errors = decode_answer(passed.to_client, OffsetCommitResponse, 9).errors
    assert errors == ((("foo", 0), ErrorCode.STALE_MEMBER_EPOCH), (("foo", 1), ErrorCode.STALE_MEMBER_EPOCH))


@pytest.mark.parametrize("do", [Do.LOSE, Do.CLOSE])
def test_connections_that_end(do: Do) -> None:
    """With the answer, or before the broker has heard of the request."""
    one = link(do)
    if do is Do.LOSE:
        assert one.from_client(asks(BEAT, 1), 1.0).to_broker == asks(BEAT, 1)
        with pytest.raises(RemoteProtocolError, match="scripted: the answer is lost"):
            one.from_broker(answers(BEATEN, 1), 2.0)
    else:
        with pytest.raises(RemoteProtocolError, match="scripted: the connection is closed"):
            one.from_client(asks(BEAT, 1), 1.0)
    (seen,) = ended(one)
    assert (seen.answered_ms, seen.fault, seen.response is None) == (None, do.value, do is Do.CLOSE)


@pytest.mark.parametrize("do", [Do.MUTE, Do.SWALLOW])
def test_connections_that_answer_nothing_more(do: Do) -> None:
    """Whether or not the broker was told, nothing goes either way from then on."""
    one = link(do)
    assert one.from_client(asks(BEAT, 1), 1.0).to_broker == (asks(BEAT, 1) if do is Do.MUTE else b"")
    assert one.from_broker(answers(BEATEN, 1), 2.0).to_client == b""
    assert one.from_client(asks(BEAT, 1, 2), 3.0).to_broker == b""
    assert one.from_broker(answers(BEATEN, 1, 2), 4.0).to_client == b""
    (seen,) = ended(one)
    assert (seen.answered_ms, seen.fault) == (None, do.value)


def test_what_is_late() -> None:
    """Requests or answers are held back, and the exchange says when the answer was sent."""
    one = link(Do.DELAY, ms=300)
    assert one.from_client(asks(BEAT, 1), 1.0).to_broker
    assert one.wait_s == 0.3
    one.from_broker(answers(BEATEN, 1), 2.0)
    assert one.wait_s == 0.0
    one = link(Do.DELAY_ANSWER, ms=300)
    one.from_client(asks(BEAT, 1), 1.0)
    assert one.wait_s == 0.0
    one.from_broker(answers(BEATEN, 1), 2.0)
    assert one.wait_s == 0.3
    assert [seen.answered_ms for seen in one.take_exchanges()] == [302.0]


def test_answers_that_say_something_else() -> None:
    """A field is another one; a client that is told to wait is not heard for so long."""
    one = link(Do.REWRITE, fields={"heartbeat_interval_ms": 9})
    one.from_client(asks(BEAT, 1), 1.0)
    other = replace(BEATEN, heartbeat_interval_ms=9)
    assert decode_answer(one.from_broker(answers(BEATEN, 1), 2.0).to_client) == other
    assert one.take_exchanges()[0].response == other
    one = link(Do.THROTTLE, ms=300)
    one.from_client(asks(BEAT, 1), 1.0)
    assert decode_answer(one.from_broker(answers(BEATEN, 1), 2.0).to_client).throttle_time_ms == 300
    assert one.paused_until_ms == 302.0


def test_what_only_our_own_brokers_can_do() -> None:
    """They stand still, lose a session, move a group, or handle a request twice."""
    assert {*Do} - ON_THE_WAY == {Do.DUPLICATE, Do.EXPIRE, Do.MOVE, Do.PAUSE}
