"""The four requests of classic members, by the type of the group they reach.

Source: section 6.1 of the coordinator reference; `classicGroupJoin` and its siblings in apache/kafka 4.4, and
`KafkaApis.handleSyncGroupRequest`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from fsm.coordinator import classic_group_join, classic_group_requests, migration, mixed, mixed_join
from fsm.coordinator.classic_group import ClassicGroup
from fsm.coordinator.consumer_group import ConsumerGroup
from fsm.coordinator.context import Context
from fsm.coordinator.messages import Refused, Request
from fsm.coordinator.migration import Group
from fsm.coordinator.step import Step
from fsm.kafka.error_codes import ErrorCode

NAMES_PROTOCOL_SINCE = 5
"""A SyncGroup of this version or later names its protocol."""

TO_CLASSIC: Mapping[str, Callable[[ClassicGroup | None, Request, Context], Step[ClassicGroup | None]]] = {
    "JoinGroup": classic_group_join.join,
    "SyncGroup": classic_group_requests.sync,
    "Heartbeat": classic_group_requests.heartbeat,
    "LeaveGroup": classic_group_requests.leave,
}


def handle(
    group: Group | None, request: Request, context: Context, *, topics_added_version: int = 0
) -> Step[Group | None]:
    """The outcome of one of the four; None where there is no group afterwards.

    Raises `Refused` where a check of a consumer group fails, or a SyncGroup does not name its protocol.
    """
    _refuse_unnamed_protocol(request)
    if isinstance(group, ConsumerGroup):
        return _to_consumer(group, request, context, topics_added_version)
    step = TO_CLASSIC[request.api](group, request, context)
    return step.leading_to(step.state)


def _refuse_unnamed_protocol(request: Request) -> None:
    """The broker's own check, before any group is looked at."""
    if request.api == "SyncGroup" and request.version >= NAMES_PROTOCOL_SINCE:
        named = (request.body.get("protocol_type"), request.body.get("protocol_name"))
        if None in named:
            raise Refused(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "a SyncGroup must name protocol type and protocol")


def _to_consumer(
    group: ConsumerGroup, request: Request, context: Context, topics_added_version: int
) -> Step[Group | None]:
    if request.api != "JoinGroup":
        step = mixed.handle(group, request, context)
        return step.leading_to(step.state)
    classic_group_join.check_join(request, context)
    if group.is_empty:
        return _to_empty(group, request, context)
    joined = mixed_join.join(group, request, context, topics_added_version=topics_added_version)
    return joined.leading_to(joined.state)


def _to_empty(group: ConsumerGroup, request: Request, context: Context) -> Step[Group | None]:
    """A classic group takes the place of one without members.

    A member that brings an id is refused; Kafka drops the empty group from its memory all the same, not from its log.
    """
    created = classic_group_join.join(None, request, context)
    if created.state is None:
        return created.leading_to(None)
    step = created.after(migration.emptied(group, context))
    return step.leading_to(step.state)
