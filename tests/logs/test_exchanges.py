"""Exchanges as a log: what each request and answer tells of a member."""

from __future__ import annotations

from datetime import UTC
from typing import Any

import pytest

from fsm.logs import facts_of, formats
from fsm.protocol.consumer_protocol import Assignment, Subscription, encode_assignment, encode_subscription
from fsm.protocol.error_codes import ErrorCode
from fsm.protocol.messages import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    FetchRequest,
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    MetadataRequest,
    MetadataResponse,
    MetadataResponseTopic,
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
    SyncGroupRequest,
    SyncGroupResponse,
)
from fsm.trace import TraceRecord, to_dict
from fsm.wire.exchange import Exchange, Note, to_line

BEAT = (
    '{"event": "exchange", "at_ms": %s, "api": "Heartbeat", "version": 4, "client_id": "a", "answered_ms": 2, '
    '"request": {"group_id": "%s", "generation_id": %d, "member_id": "m"}, "response": {"error_code": null}}'
)
(FORMAT,) = [one for one in formats() if one.name == "exchanges"]
TOPIC = "AAAAAAAAAAAAAAAAAAAAAQ"
NEWEST = {"ConsumerGroupHeartbeat": 1, "JoinGroup": 9, "SyncGroup": 5, "Heartbeat": 4, "LeaveGroup": 5, "Metadata": 12}


def records(line: str) -> list[dict[str, Any]] | None:
    """What a line tells, without what every record of it has."""
    assert FORMAT.header.match(line.encode())
    found = FORMAT.parse(line, UTC)
    return None if found is None else [_short(one) for one in found]


def _short(record: TraceRecord) -> dict[str, Any]:
    told = to_dict(record)
    for name, usual in (("group", "g"), ("client_id", "app@wire"), ("member_id", "m")):
        if told.get(name) == usual:
            del told[name]
    return told


def tell(api: str, request: Any, response: Any = None, *, is_answered: bool = True) -> list[dict[str, Any]] | None:
    answered_ms = 20.4 if is_answered else None
    version = NEWEST.get(api, 9)
    return records(to_line(Exchange(10.2, 1, "app", api, version, request, answered_ms, response)))


def beat(epoch: int, **told: Any) -> ConsumerGroupHeartbeatRequest:
    return ConsumerGroupHeartbeatRequest("g", "m", epoch, **told)


def test_a_join_tells_what_is_wanted_and_what_was_given() -> None:
    request = beat(0, subscribed_topic_names=("foo", "bar"), topic_partitions=(), instance_id="i")
    response = ConsumerGroupHeartbeatResponse(3, 5_000, ((TOPIC, (0, 1)),), member_id="m")
    own = {"instance_id": "i"}
    assert tell("ConsumerGroupHeartbeat", request, response) == [
        {"ts_ms": 10, "kind": "joining", **own},
        {"ts_ms": 10, "kind": "subscribed", "topics": ("bar", "foo"), **own},
        {"ts_ms": 10, "kind": "owned", "full": [], **own},
        {"ts_ms": 20, "kind": "joined", "epoch": 3, **own},
        {"ts_ms": 20, "kind": "target", "epoch": 3, "full": [[f"id:{TOPIC}", 0], [f"id:{TOPIC}", 1]], **own},
    ]


def test_a_member_owns_what_it_acknowledges() -> None:
    request = beat(3, topic_partitions=((TOPIC, (1,)),))
    owned = {"ts_ms": 10, "kind": "owned", "full": [[f"id:{TOPIC}", 1]]}
    assert tell("ConsumerGroupHeartbeat", request, ConsumerGroupHeartbeatResponse(4, 5_000)) == [
        owned,
        {"ts_ms": 20, "kind": "heartbeat_ok", "epoch": 4},
    ]
    assert tell("ConsumerGroupHeartbeat", request, is_answered=False) == [owned]


def test_an_answer_that_was_not_sent_tells_nothing() -> None:
    response = ConsumerGroupHeartbeatResponse(4, 5_000)
    assert tell("ConsumerGroupHeartbeat", beat(3), response, is_answered=False) == []


@pytest.mark.parametrize("epoch", [-1, -2])
def test_who_leaves_owns_nothing(epoch: int) -> None:
    assert tell("ConsumerGroupHeartbeat", beat(epoch), ConsumerGroupHeartbeatResponse(epoch, 0)) == [
        {"ts_ms": 10, "kind": "owned", "full": []},
        {"ts_ms": 10, "kind": "leave_sent"},
        {"ts_ms": 20, "kind": "left"},
    ]


@pytest.mark.parametrize(
    ("code", "kinds"),
    [
        (ErrorCode.FENCED_MEMBER_EPOCH, ["fenced", "owned"]),
        (ErrorCode.UNKNOWN_MEMBER_ID, ["fenced", "owned"]),
        (ErrorCode.UNSUPPORTED_ASSIGNOR, ["fatal"]),
        (ErrorCode.UNRELEASED_INSTANCE_ID, ["fatal"]),
        (ErrorCode.NOT_COORDINATOR, ["error"]),
    ],
)
def test_a_refusal_tells_what_is_left_of_the_membership(code: ErrorCode, kinds: list[str]) -> None:
    told = tell("ConsumerGroupHeartbeat", beat(3), ConsumerGroupHeartbeatResponse(error_code=code))
    assert told is not None
    assert [one["kind"] for one in told] == kinds
    assert told[0]["detail"] == code.name


def test_a_classic_member_owns_what_it_was_given_until_it_joins_again() -> None:
    subscription = encode_subscription(Subscription(("foo",), owned_partitions=(("foo", 2),)))
    join = JoinGroupRequest("g", 45_000, 1, "m", protocols=(JoinGroupRequestProtocol("range", subscription),))
    assert tell("JoinGroup", join, JoinGroupResponse(7, member_id="m2")) == [
        {"ts_ms": 10, "kind": "joining"},
        {"ts_ms": 10, "kind": "subscribed", "topics": ("foo",)},
        {"ts_ms": 10, "kind": "owned", "full": [["foo", 2]]},
        {"ts_ms": 20, "kind": "joined", "member_id": "m2", "epoch": 7},
    ]
    given = SyncGroupResponse(assignment=encode_assignment(Assignment((("foo", 1),))))
    assert tell("SyncGroup", SyncGroupRequest("g", 7, "m"), given) == [
        {"ts_ms": 20, "kind": "synced", "epoch": 7},
        {"ts_ms": 20, "kind": "owned", "full": [["foo", 1]]},
    ]


@pytest.mark.parametrize(
    ("code", "kinds"),
    [
        (ErrorCode.NONE, ["heartbeat_ok"]),
        (ErrorCode.REBALANCE_IN_PROGRESS, []),
        (ErrorCode.ILLEGAL_GENERATION, ["fenced", "owned"]),
        (ErrorCode.FENCED_INSTANCE_ID, ["fatal"]),
    ],
)
def test_a_classic_heartbeat_tells_whether_the_member_is_one(code: ErrorCode, kinds: list[str]) -> None:
    told = tell("Heartbeat", HeartbeatRequest("g", 7, "m"), HeartbeatResponse(code))
    assert told is not None
    assert [one["kind"] for one in told] == kinds


def test_members_leave_or_are_removed() -> None:
    """Who removes members by their instances is none of them."""
    request = LeaveGroupRequest("g", (MemberIdentity("m", None, "closed"), MemberIdentity("", "i", "removed")))
    assert tell("LeaveGroup", request, LeaveGroupResponse()) == [
        {"ts_ms": 10, "kind": "owned", "full": [], "detail": "closed"},
        {"ts_ms": 10, "kind": "leave_sent", "detail": "closed"},
        {"ts_ms": 20, "kind": "left", "detail": "closed"},
        {"ts_ms": 20, "kind": "left", "instance_id": "i", "thread": "coordinator", "detail": "removed"},
    ]


def test_a_commit_tells_its_refusal() -> None:
    def told(code: ErrorCode) -> Any:
        topic = OffsetCommitResponseTopic("foo", partitions=(OffsetCommitResponsePartition(0, code),))
        return tell("OffsetCommit", OffsetCommitRequest("g", 3, "m"), OffsetCommitResponse((topic,)))

    assert told(ErrorCode.NONE) == []
    assert told(ErrorCode.STALE_MEMBER_EPOCH) == [
        {"ts_ms": 20, "kind": "commit_failed", "detail": "STALE_MEMBER_EPOCH"},
    ]


def test_topics_are_named_by_metadata_and_by_notes() -> None:
    named = {"ts_ms": 10, "kind": "topic_names", "thread": "coordinator", "settings": {TOPIC: "foo"}}
    metadata = MetadataResponse(topics=(MetadataResponseTopic(ErrorCode.NONE, "foo", TOPIC),))
    assert tell("Metadata", MetadataRequest(), metadata) == [named]
    assert tell("Metadata", MetadataRequest(), MetadataResponse()) == []
    assert records(to_line(Note(10.0, "topics", {"topics": [["foo", TOPIC, 4]]}))) == [named]


def test_what_tells_nothing_of_a_membership_is_passed_over() -> None:
    assert tell("Fetch", FetchRequest()) == []
    assert tell("ConsumerGroupHeartbeat", None) == []


@pytest.mark.parametrize(
    "line",
    [
        '{"event": "exchange", "at_ms": 1, "api": "Heartbeat", "version": 4',
        '{"event": "exchange", "at_ms": 1, "api": "Heartbeat", "version": 99, "request": {}, "client_id": "a"}',
        BEAT % ("1e999", "g", 7),
        BEAT % ("1", "\\ud800", 7),
        BEAT % ("1", "g", 1 << 40),
        '{"event": "topics", "at_ms": 1, "topics": [["foo"]]}',
        '{"event": "topics", "at_ms": 1, "topics": [["f o", "x"]]}',
    ],
)
def test_a_line_that_is_damaged_is_not_understood(line: str) -> None:
    assert records(BEAT % ("1", "g", 7)) is not None
    assert records(line) is None


def test_lines_of_other_programs_are_none_of_these() -> None:
    """structlog begins its JSON lines with `event`, too."""
    assert not FORMAT.header.match(b'{"event": "exchange", "level": "info"}')
    assert not FORMAT.header.match(b'{"event": "exchange rate", "at_ms": 1}')
    assert FORMAT.header.match(b'{"event": "connected", "at_ms": 1.5, "connection": 1}')


def test_a_member_of_the_wire_is_known_as_such() -> None:
    assert facts_of("app@wire").name == "wire"
    assert facts_of("app").name == "java"
