"""What a capture tells: news, the table of groups and the summary, from exchanges alone."""

from __future__ import annotations

from typing import Any

import pytest

from fsm.capture.log import CLEAR, Log
from fsm.capture.watch import Watch
from fsm.protocol.consumer_protocol import Assignment, encode_assignment
from fsm.protocol.error_codes import ErrorCode
from fsm.protocol.messages import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    FetchRequest,
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
    SyncGroupRequest,
    SyncGroupResponse,
)
from fsm.wire.exchange import Exchange, Note

TOPIC = "AAAAAAAAAAAAAAAAAAAAAQ"


def exchange(api: str, request: Any, response: Any, at_ms: float = 1_000.0, client: str = "app") -> Exchange:
    return Exchange(at_ms, 1, client, api, 1, request, at_ms + 1, response)


def beat(epoch: int, response: ConsumerGroupHeartbeatResponse, at_ms: float = 1_000.0, member: str = "m-1") -> Exchange:
    request = ConsumerGroupHeartbeatRequest("shop", member, epoch)
    return exchange("ConsumerGroupHeartbeat", request, response, at_ms)


JOINED = beat(0, ConsumerGroupHeartbeatResponse(3, 5_000, ((TOPIC, (0, 1, 2)),), member_id="m-1"))


def refused(code: ErrorCode) -> ConsumerGroupHeartbeatResponse:
    return ConsumerGroupHeartbeatResponse(error_code=code)


def news(*seen: Exchange | Note) -> list[str]:
    watch = Watch()
    return [line for one in seen for line in watch.take(one)]


def test_a_consumer_group_is_told_by_what_changes() -> None:
    assert news(
        JOINED,
        beat(3, ConsumerGroupHeartbeatResponse(3, 5_000), 2_000),
        beat(3, ConsumerGroupHeartbeatResponse(4, 5_000, ((TOPIC, (0,)),)), 3_000),
        beat(4, refused(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS), 4_000),
        beat(4, refused(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS), 5_000),
        beat(4, refused(ErrorCode.FENCED_MEMBER_EPOCH), 6_000),
        beat(0, ConsumerGroupHeartbeatResponse(5, 5_000), 7_000),
        beat(-1, ConsumerGroupHeartbeatResponse(-1, 0), 8_000),
        beat(0, refused(ErrorCode.GROUP_MAX_SIZE_REACHED), 9_000, "m-2"),
        beat(0, refused(ErrorCode.GROUP_MAX_SIZE_REACHED), 9_500, "m-2"),
    ) == [
        "00:00:01.001 shop: app (m-1) joined at epoch 3, 3 assigned",
        "00:00:03.001 shop: app (m-1) is at epoch 4, 1 assigned",
        "00:00:04.001 shop: app (m-1): ConsumerGroupHeartbeat is refused: coordinator_load_in_progress",
        "00:00:06.001 shop: app (m-1) is no member any more: fenced_member_epoch",
        "00:00:07.001 shop: app (m-1) joined at epoch 5",
        "00:00:08.001 shop: app (m-1) left",
        "00:00:09.001 shop: app: ConsumerGroupHeartbeat is refused: group_max_size_reached",
    ]


def test_a_classic_group_is_told_by_generations() -> None:
    """That a rebalance goes on, and that a first join is sent back for its id, is no error."""
    join = JoinGroupRequest("shop", 45_000, member_id="m-1")
    given = encode_assignment(Assignment((("foo", 0), ("foo", 1))))
    wrong = OffsetCommitResponsePartition(0, ErrorCode.ILLEGAL_GENERATION)
    seen = [
        exchange("JoinGroup", join, JoinGroupResponse(error_code=ErrorCode.MEMBER_ID_REQUIRED, member_id="m-1")),
        exchange("JoinGroup", join, JoinGroupResponse(7, member_id="m-1")),
        exchange("SyncGroup", SyncGroupRequest("shop", 7, "m-1"), SyncGroupResponse(assignment=given)),
        exchange("Heartbeat", HeartbeatRequest("shop", 7, "m-1"), HeartbeatResponse()),
        exchange("Heartbeat", HeartbeatRequest("shop", 7, "m-1"), HeartbeatResponse(ErrorCode.REBALANCE_IN_PROGRESS)),
        exchange(
            "OffsetCommit",
            OffsetCommitRequest("shop", 6, "m-1"),
            OffsetCommitResponse((OffsetCommitResponseTopic("foo", partitions=(wrong,)),)),
        ),
        exchange("LeaveGroup", LeaveGroupRequest("shop", (MemberIdentity("m-1"),)), LeaveGroupResponse()),
    ]
    assert [line.removeprefix("00:00:01.001 ") for line in news(*seen)] == [
        "shop: app (m-1) joined at epoch 7",
        "shop: app (m-1) is at epoch 7, 2 assigned",
        "shop: app (m-1): OffsetCommit is refused: illegal_generation",
        "shop: app (m-1) left",
    ]


def test_the_table_has_every_group_with_its_members() -> None:
    watch = Watch()
    for seen in (
        JOINED,
        beat(0, ConsumerGroupHeartbeatResponse(4, 5_000, ()), 2_000, "m-2"),
        beat(4, refused(ErrorCode.NOT_COORDINATOR), 3_000, "m-2"),
        exchange("FetchX", None, None),
        exchange("Heartbeat", HeartbeatRequest("a\x1b[2Jb", 7, "m-1"), HeartbeatResponse()),
    ):
        watch.take(seen)
    assert watch.table(5_000).splitlines() == [
        "00:00:05.000  5 exchanges, 1 opaque, 1 error",
        "",
        "a\\x1b[2Jb  classic  epoch 7  1 member  0 errors",
        "  client                member                     epoch  assigned   heard of  last error",
        "  app                   m-1                            7         ?      4.0 s",
        "",
        "shop  consumer  epoch 4  2 members  1 error",
        "  client                member                     epoch  assigned   heard of  last error",
        "  app                   m-1                            3         3      4.0 s",
        "  app                   m-2                            4         0      2.0 s  not_coordinator (1)",
    ]
    assert max(map(len, watch.table(5_000, 40).splitlines())) == 40


def test_the_summary_counts_what_went_by() -> None:
    watch = Watch()
    for seen in (
        Note(1, "connected", {"connection": 1}),
        Note(1, "connected", {"connection": 2}),
        JOINED,
        JOINED._replace(answered_ms=None, response=None),
        JOINED._replace(version=9, request=None, response=None),
        Exchange(1, 1, "app", "Fetch", 12, FetchRequest(), 2),
        Exchange(1, 1, "app", "77", 1, answered_ms=2),
        Note(2, "broken", {"connection": 2, "why": "a frame of -1 bytes"}),
    ):
        watch.take(seen)
    assert watch.summary().splitlines() == [
        "5 exchanges on 2 connections, 1 without an answer",
        "         3  ConsumerGroupHeartbeat",
        "         1  77",
        "         1  Fetch",
        "3 opaque",
        "         1  77 v1 (not known here)",
        "         1  ConsumerGroupHeartbeat v9 (not known here)",
        "         1  Fetch v12 (too large or not readable)",
        "0 error responses in 1 group",
        "1 broken connection",
    ]


@pytest.mark.parametrize("event", ["broken", "opaque", "unreachable"])
def test_a_connection_in_trouble_is_news(event: str) -> None:
    note = Note(1_000, event, {"connection": 4, "why": "so\nit is"})
    assert news(note, Note(1_000, "disconnected", {"connection": 4})) == [
        f"00:00:01.000 connection 4: {event}: so it is"
    ]


def test_a_terminal_gets_the_table_and_the_last_news() -> None:
    """Drawn anew in place, and not more often than somebody can read."""
    shown: list[str] = []
    log = Log(None, shown.append, 60)
    log.take(JOINED)
    log.tick(10_000)
    log.take(beat(3, ConsumerGroupHeartbeatResponse(4, 5_000)))
    log.tick(10_050)
    log.end(10_060)
    first, last = (text.removeprefix(CLEAR).splitlines() for text in shown)
    assert first[0] == "00:00:10.000  1 exchange, 0 opaque, 0 errors"
    assert first[-1] == "00:00:01.001 shop: app (m-1) joined at epoch 3, 3 assigned"
    assert last[0].startswith("00:00:10.060  2 exchanges")
    assert last[-1] == "00:00:01.001 shop: app (m-1) is at epoch 4, 3 assigned"
    assert max(map(len, last)) == 60
