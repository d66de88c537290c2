"""W33 on a real Kafka: a classic join that is refused makes an empty consumer group disappear until a broker loads it.

The path of the checker ends as the group is gone. That it comes back is seen here.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from itertools import count

from fsm.conformance.broker_peer import OFFSETS_TOPIC, Topics
from fsm.coordinator.model.hash_order import partition_of
from fsm.protocol.error_codes import ErrorCode
from fsm.protocol.messages import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupHeartbeatRequest,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
)
from fsm.wire.connection import Connection

JOIN_EPOCH, LEAVE_EPOCH = 0, -1
TIMEOUT_MS = 45_000


def confirm_forgotten(
    connection: Connection, group: str, topic: str, restart: Callable[[], Connection]
) -> tuple[bool, list[str]]:
    """Whether the group is gone after a stranger's JoinGroup, and is back after the broker has started again."""
    _join_and_leave(connection, group, topic)
    before = _describe(connection, group)
    protocols = (JoinGroupRequestProtocol("range", b""),)
    join = JoinGroupRequest(group, TIMEOUT_MS, TIMEOUT_MS, "nobody", protocol_type="consumer", protocols=protocols)
    refusal = ErrorCode(connection.call(join).error_code)
    other = _beside(group, Topics(connection).partitions(OFFSETS_TOPIC))
    _join_and_leave(connection, other, topic)  # what that stores shows what the broker knows
    after = _describe(connection, group)
    again = _describe(restart(), group)
    lines = [f"{before}; a stranger joins: {refusal.name}; then {after}; after the broker has started again {again}"]
    is_refused = refusal is ErrorCode.UNKNOWN_MEMBER_ID
    return is_refused and after == ErrorCode.GROUP_ID_NOT_FOUND.name and before == again != after, lines


def _beside(group: str, partitions: int) -> str:
    """Another group of the same partition of `__consumer_offsets`."""
    at = partition_of(group, partitions)
    return next(name for i in count() if partition_of(name := f"{group}-{i}", partitions) == at)


def _join_and_leave(connection: Connection, group: str, topic: str) -> None:
    member_id = uuid.uuid4().hex
    connection.call(
        ConsumerGroupHeartbeatRequest(
            group, member_id, JOIN_EPOCH, None, None, TIMEOUT_MS, (topic,), topic_partitions=()
        )
    )
    connection.call(ConsumerGroupHeartbeatRequest(group, member_id, LEAVE_EPOCH))


def _describe(connection: Connection, group: str) -> str:
    (found,) = connection.call(ConsumerGroupDescribeRequest((group,))).groups
    if found.error_code:
        return ErrorCode(found.error_code).name
    return f"{found.group_state} at epoch {found.group_epoch}"
