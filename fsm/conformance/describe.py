"""What a broker says about a group, in the shape that recorded walks have.

ConsumerGroupDescribe is asked first; a group that it does not know may be a classic one, which DescribeGroups knows.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from fsm.conformance.recording import recorded_group
from fsm.protocol.error_codes import ErrorCode
from fsm.protocol.messages import ConsumerGroupDescribeRequest, DescribedGroup, DescribeGroupsRequest
from fsm.wire.connection import Connection

PASSING = frozenset(
    {ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR}
)


def describe(connection: Connection, group_id: str, unspoken: Collection[str]) -> Mapping[str, Any] | None:
    """The group as the broker describes it; None where it knows none."""
    if "ConsumerGroupDescribe" not in unspoken:
        described = connection.call(ConsumerGroupDescribeRequest((group_id,))).groups[0]
        if not described.error_code:
            return recorded_group(described)
    if "DescribeGroups" in unspoken:
        return None
    group = classic(connection, group_id)
    return None if group.error_code or group.group_state == "Dead" else recorded_group(group)


def classic(connection: Connection, group_id: str) -> DescribedGroup:
    """The answer of DescribeGroups."""
    found: DescribedGroup = connection.call(DescribeGroupsRequest((group_id,))).groups[0]
    return found
