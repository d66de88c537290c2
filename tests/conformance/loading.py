"""W36 on a real Kafka: a coordinator that loads its log anew refuses a SyncGroup as clients do not expect.

While a broker stands still, another one leads its partitions; as it is elected again, it loads them. The connections of
its clients stay. Many offsets make that long enough to be met.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from confluent_kafka import ElectionType, TopicPartition
from confluent_kafka.admin import AdminClient
from full_group import join, sync

from fsm.protocol.error_codes import ErrorCode
from fsm.protocol.messages import (
    DescribeGroupsRequest,
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
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
WATCHING_S = 30.0


def confirm_loading(
    member: Connection, other: Connection, group: str, take_turns: Callable[[], None]
) -> tuple[bool, list[str]]:
    """Whether a member of a new generation is told COORDINATOR_LOAD_IN_PROGRESS by the broker that it has joined.

    There is a topic of the group's name; another group commits the offsets.
    """
    offsets = tuple(OffsetCommitRequestPartition(number, 1) for number in range(PARTITIONS))
    commit = OffsetCommitRequest(f"{group}-others", topics=(OffsetCommitRequestTopic(group, partitions=offsets),))
    for _ in range(COMMITS):
        other.call(commit)
    joined = join(member, group, join(member, group, "").member_id)
    take_turns()
    until, codes = time.monotonic() + WATCHING_S, [ErrorCode.NONE]
    while codes[-1] is not ErrorCode.COORDINATOR_LOAD_IN_PROGRESS and time.monotonic() < until:
        code = ErrorCode(other.call(DescribeGroupsRequest((group,))).groups[0].error_code)
        codes += [code] if code is not codes[-1] else []
    refusal = sync(member, group, joined.generation_id, joined.member_id)
    seen = ", then ".join(one.name for one in codes[1:]) or "nothing new"
    return refusal is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, [
        f"it joined; another broker leads for a while; then DescribeGroups is told {seen}",
        f"the answer to its SyncGroup: {refusal.name}",
    ]


def elect_preferred(address: tuple[str, int], topic: str) -> None:
    """Makes the first replica of the topic's partition its leader, as soon as it is in sync. Raises `TimeoutError`."""
    admin = AdminClient({"bootstrap.servers": f"{address[0]}:{address[1]}"})
    one, until = TopicPartition(topic, 0), time.monotonic() + WATCHING_S
    while admin.elect_leaders(ElectionType.PREFERRED, [one]).result(WATCHING_S)[one] is not None:
        if time.monotonic() > until:
            raise TimeoutError(f"{topic} has no preferred leader after {WATCHING_S:.0f} s")
        time.sleep(0.2)
