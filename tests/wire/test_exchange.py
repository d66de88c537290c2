"""Exchanges as lines of JSON, and back."""

from __future__ import annotations

import json

import pytest

from fsm.errors import InputError
from fsm.protocol.error_codes import ErrorCode
from fsm.protocol.messages import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from fsm.wire import Exchange, Note, read_lines, to_line

JOIN = ConsumerGroupHeartbeatRequest(
    "g", "m", 0, rebalance_timeout_ms=300_000, subscribed_topic_names=("foo",), topic_partitions=()
)
HELD_BACK = ConsumerGroupHeartbeatResponse(2, 1_000, throttle_time_ms=250)


def test_what_is_written_is_read_again() -> None:
    seen = [
        Note(1.0, "connected", {"connection": 1, "broker": 1, "peer": "127.0.0.1:4"}),
        Exchange(2.5, 1, "A", "ConsumerGroupHeartbeat", 1, JOIN, 3.25, HELD_BACK, broker=1, correlation_id=7),
        Exchange(4.0, 1, None, "ConsumerGroupHeartbeat", 0, JOIN, response=HELD_BACK, fault="lose"),
        Exchange(5.0, 1, "A", "ConsumerGroupHeartbeat", 1, JOIN),
        Exchange(6.0, 1, "A", "999", 3),
    ]
    assert list(read_lines(map(to_line, seen), "trace.jsonl")) == seen
    assert [one.is_answered for one in seen if isinstance(one, Exchange)] == [True, False, False, False]


def test_a_throttled_answer_says_so() -> None:
    assert json.loads(to_line(Exchange(0, 1, "A", "ConsumerGroupHeartbeat", 1, JOIN, 1, HELD_BACK)))["response"] == {
        "error_code": None,
        "error_message": None,
        "member_id": None,
        "member_epoch": 2,
        "heartbeat_interval": 1000,
        "assignment": None,
        "throttle_time": 250,
    }


def test_records_are_left_out() -> None:
    data = PartitionData(0, ErrorCode.NONE, 5, records=b"secret" * 1000)
    response = FetchResponse(responses=(FetchableTopicResponse("foo", partitions=(data,)),))
    line = to_line(Exchange(0, 1, "A", "Fetch", 12, FetchRequest(), 1, response))
    assert len(line) < 1_000
    (read,) = read_lines([line], "t")
    assert isinstance(read, Exchange)
    assert read.response.responses[0].partitions[0].high_watermark == 5


MEMBERS_LINE = '{"v": 1, "kind": "started"}'
FOR_AUDIT = "the trace of a member is for fsm audit --format trace"
WRONG_FIELD = (
    '{"event": "exchange", "at_ms": 1, "api": "Heartbeat", "version": 4, "connection": 1, "client_id": null, '
    '"request": {"group_id": 4}}'
)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("{", "t.jsonl:2: not JSON"),
        ("[]", "t.jsonl:2: not a line of a trace of exchanges"),
        ('{"event": "exchange", "at_ms": "x"}', "t.jsonl:2: not a line"),
        ('{"event": "exchange", "at_ms": 1, "api": "Heartbeat", "version": 4}', "t.jsonl:2: not a line"),
        (MEMBERS_LINE, f"t.jsonl:2: not a line of a trace of exchanges: no 'event'; {FOR_AUDIT}"),
        (WRONG_FIELD, "t.jsonl:2: HeartbeatRequest"),
        ("[" * 100_000, "t.jsonl:2: not JSON"),
    ],
)  # fmt: skip
def test_a_line_that_is_none_is_named(line: str, words: str) -> None:
    with pytest.raises(InputError) as refused:
        list(read_lines(["", line], "t.jsonl"))
    assert str(refused.value).startswith(words)
