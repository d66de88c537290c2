"""W36 on a real Kafka: a coordinator that loads its log anew refuses a SyncGroup as clients do not expect.

While a broker stands still, another one leads its partitions; as it is elected again, it loads them. The connections of
its clients stay. Many offsets make that long enough to be met.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from confluent_kafka import ElectionType, TopicPartition
from confluent_kafka.admin import AdminClient

from fsm.protocol.error_codes import ErrorCode
from fsm.protocol.messages import (
    DescribeGroupsRequest,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
)
from fsm.wire.connection import Connection

SETTINGS = {
    "offsets.topic.num.partitions": "1",
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
    "group.initial.rebalance.delay.ms": "0",
}
STANDS_STILL_S = 6.0
PARTITIONS, COMMITS = 500, 400
"""Of the topic whose offsets are committed, so that there is something to load."""
TIMEOUT_MS, WATCHING_S = 45_000, 30.0
PROTOCOL = JoinGroupRequestProtocol("range", b"")


def confirm_loading(
    member: Connection, other: Connection, group: str, topic: str, take_turns: Callable[[], None]
) -> tuple[bool, list[str]]:
    """Whether a member of a new generation is told COORDINATOR_LOAD_IN_PROGRESS by the broker that it has joined."""
    offsets = tuple(OffsetCommitRequestPartition(number, 1) for number in range(PARTITIONS))
    for _ in range(COMMITS):
        other.call(
            OffsetCommitRequest(f"{group}-others", topics=(OffsetCommitRequestTopic(topic, partitions=offsets),))
        )
    joined = _join(member, group, _join(member, group, "").member_id)
    take_turns()
    until, codes = time.monotonic() + WATCHING_S, [ErrorCode.NONE]
    while codes[-1] is not ErrorCode.COORDINATOR_LOAD_IN_PROGRESS and time.monotonic() < until:
        code = ErrorCode(other.call(DescribeGroupsRequest((group,))).groups[0].error_code)
        codes += [code] if code is not codes[-1] else []
    member_id = joined.member_id
    assigns = (SyncGroupRequestAssignment(member_id, b""),)
    sync = SyncGroupRequest(
        group, joined.generation_id, member_id, protocol_type="consumer", protocol_name="range", assignments=assigns
    )
    refusal = ErrorCode(member.call(sync).error_code)
    seen = ", then ".join(one.name for one in codes[1:])
    lines = [f"it joined; another broker leads for a while; then DescribeGroups is told {seen}"]
    return refusal is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, [*lines, f"the answer to its SyncGroup: {refusal.name}"]


def _join(connection: Connection, group: str, member_id: str) -> JoinGroupResponse:
    request = JoinGroupRequest(
        group, TIMEOUT_MS, TIMEOUT_MS, member_id, protocol_type="consumer", protocols=(PROTOCOL,)
    )
    response: JoinGroupResponse = connection.call(request)
    return response


def elect_preferred(address: tuple[str, int], topic: str) -> None:
    """Makes the first replica of the topic's partition its leader, as soon as it is in sync."""
    admin = AdminClient({"bootstrap.servers": f"{address[0]}:{address[1]}"})
    one, until = TopicPartition(topic, 0), time.monotonic() + WATCHING_S
    while time.monotonic() < until:
        if admin.elect_leaders(ElectionType.PREFERRED, [one]).result(WATCHING_S)[one] is None:
            return
        time.sleep(0.2)
