"""The four requests of classic members, by the type of the group they reach.

Source: section 6.1 of the coordinator reference; `classicGroupJoin` and its siblings of apache/kafka 4.4.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from fsm.coordinator import classic_group_join, classic_group_requests
from fsm.coordinator.classic_group import ClassicGroup
from fsm.coordinator.consumer_group import ConsumerGroup
from fsm.coordinator.context import Context
from fsm.coordinator.messages import Refused, Request
from fsm.coordinator.step import Step
from fsm.kafka.error_codes import ErrorCode

Group = ConsumerGroup | ClassicGroup

TO_CLASSIC: Mapping[str, Callable[[ClassicGroup | None, Request, Context], Step[ClassicGroup | None]]] = {
    "JoinGroup": classic_group_join.join,
    "SyncGroup": classic_group_requests.sync,
    "Heartbeat": classic_group_requests.heartbeat,
    "LeaveGroup": classic_group_requests.leave,
}


def handle(group: Group | None, request: Request, context: Context) -> Step[Group | None]:
    """The outcome of one of the four; None where there was no group and there is none now."""
    if isinstance(group, ConsumerGroup):
        raise Refused(ErrorCode.UNKNOWN_MEMBER_ID)
    step = TO_CLASSIC[request.api](group, request, context)
    return step.leading_to(step.state)
