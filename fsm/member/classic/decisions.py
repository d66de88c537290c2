"""The decisions of a classic member, each named as an event of its table.

The table has no guards: the caller decides which event to take. These pure functions of a member are all the decisions.

Source: the response handlers of `AbstractCoordinator` and `ConsumerCoordinator`; a Connect worker shares the first.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from fsm.member.classic.state import ClassicMember, Generation
from fsm.member.events import GroupMembershipOperation
from fsm.protocol import messages as m
from fsm.protocol.assignment import Partitions, without
from fsm.protocol.error_codes import ErrorCode
from fsm.tables.classic_member import Event, State

C, E = ErrorCode, Event
JOIN_ERRORS: Mapping[ErrorCode, Event] = {
    C.MEMBER_ID_REQUIRED: E.JOIN_MEMBER_ID_REQUIRED,
    C.UNKNOWN_MEMBER_ID: E.JOIN_UNKNOWN_MEMBER_ID,
    C.REBALANCE_IN_PROGRESS: E.JOIN_REBALANCE_IN_PROGRESS,
    C.COORDINATOR_LOAD_IN_PROGRESS: E.JOIN_LOAD_IN_PROGRESS,
    C.NOT_COORDINATOR: E.JOIN_COORDINATOR_LOST,
    C.COORDINATOR_NOT_AVAILABLE: E.JOIN_COORDINATOR_LOST,
    C.FENCED_INSTANCE_ID: E.JOIN_FENCED_INSTANCE_ID,
}
"""Every other error of a join is JOIN_FATAL."""
SYNC_ERRORS: Mapping[ErrorCode, Event] = {
    C.REBALANCE_IN_PROGRESS: E.SYNC_REBALANCE_IN_PROGRESS,
    C.UNKNOWN_MEMBER_ID: E.SYNC_UNKNOWN_MEMBER_ID,
    C.ILLEGAL_GENERATION: E.SYNC_ILLEGAL_GENERATION,
    C.NOT_COORDINATOR: E.SYNC_COORDINATOR_LOST,
    C.COORDINATOR_NOT_AVAILABLE: E.SYNC_COORDINATOR_LOST,
    C.FENCED_INSTANCE_ID: E.SYNC_FENCED_INSTANCE_ID,
}
"""Every other error of a sync is SYNC_FATAL."""
HEARTBEAT_ERRORS: Mapping[ErrorCode, Event] = {
    C.NONE: E.HEARTBEAT_OK,
    C.REBALANCE_IN_PROGRESS: E.HEARTBEAT_REBALANCE_IN_PROGRESS,
    C.UNKNOWN_MEMBER_ID: E.HEARTBEAT_UNKNOWN_MEMBER_ID,
    C.ILLEGAL_GENERATION: E.HEARTBEAT_ILLEGAL_GENERATION,
    C.FENCED_INSTANCE_ID: E.HEARTBEAT_FENCED_INSTANCE_ID,
    C.NOT_COORDINATOR: E.COORDINATOR_LOST,
    C.COORDINATOR_NOT_AVAILABLE: E.COORDINATOR_LOST,
}
"""After every other error the heartbeat is only retried."""
COMMIT_ERRORS: Mapping[ErrorCode, Event] = {
    C.REBALANCE_IN_PROGRESS: E.COMMIT_REBALANCE_IN_PROGRESS,
    C.UNKNOWN_MEMBER_ID: E.COMMIT_UNKNOWN_MEMBER_ID,
    C.ILLEGAL_GENERATION: E.COMMIT_ILLEGAL_GENERATION,
    C.FENCED_INSTANCE_ID: E.COMMIT_FENCED_INSTANCE_ID,
    C.NOT_COORDINATOR: E.COORDINATOR_LOST,
    C.COORDINATOR_NOT_AVAILABLE: E.COORDINATOR_LOST,
    C.REQUEST_TIMED_OUT: E.COORDINATOR_LOST,
}
"""Every other error concerns the commit alone."""
AT_ONCE = frozenset(
    {
        E.JOIN_MEMBER_ID_REQUIRED,
        E.JOIN_UNKNOWN_MEMBER_ID,
        E.JOIN_REBALANCE_IN_PROGRESS,
        E.SYNC_OK,
        E.SYNC_OK_REVOKING,
        E.SYNC_REBALANCE_IN_PROGRESS,
        E.SYNC_UNKNOWN_MEMBER_ID,
        E.SYNC_ILLEGAL_GENERATION,
        E.ANSWER_STALE,
    }
)
"""Answers after which the next join, if any, does not wait for `retry.backoff.ms`."""
REBALANCING = frozenset({State.PREPARING_REBALANCE, State.COMPLETING_REBALANCE})


def decide_join(member: ClassicMember, sent: Generation, answer: m.JoinGroupResponse | m.TransportFailure) -> Event:
    """The event of an answer to a join; UNKNOWN_MEMBER_ID counts only if the member still has the id that it sent."""
    if isinstance(answer, m.TransportFailure):
        return Event.JOIN_COORDINATOR_LOST if answer.retriable else Event.JOIN_FATAL
    if answer.error_code is ErrorCode.NONE:
        if answer.protocol_type not in (None, "consumer"):
            return Event.JOIN_FATAL
        return Event.JOIN_OK_LEADER if answer.leader == answer.member_id else Event.JOIN_OK_FOLLOWER
    event = JOIN_ERRORS.get(answer.error_code, Event.JOIN_FATAL)
    if event is Event.JOIN_UNKNOWN_MEMBER_ID and member.generation != sent:
        return Event.ANSWER_STALE
    return event


def decide_sync(member: ClassicMember, sent: Generation, answer: m.SyncGroupResponse | m.TransportFailure) -> Event:
    """The event of an answer to a sync, apart from the assignment in it."""
    if isinstance(answer, m.TransportFailure):
        return Event.SYNC_COORDINATOR_LOST if answer.retriable else Event.SYNC_FATAL
    if answer.error_code is ErrorCode.NONE:
        return Event.SYNC_FATAL if _is_of_another_protocol(member, answer) else Event.SYNC_OK
    event = SYNC_ERRORS.get(answer.error_code, Event.SYNC_FATAL)
    if event in (Event.SYNC_UNKNOWN_MEMBER_ID, Event.SYNC_ILLEGAL_GENERATION) and member.generation != sent:
        return Event.ANSWER_STALE
    return event


def _is_of_another_protocol(member: ClassicMember, answer: m.SyncGroupResponse) -> bool:
    if answer.protocol_type not in (None, "consumer"):
        return True
    if member.state is not State.COMPLETING_REBALANCE:
        return False  # reset meanwhile; there is no name to compare with
    return answer.protocol_name not in (None, member.generation.protocol_name)


def decide_assigned(member: ClassicMember, assigned: Partitions) -> Event:
    """SYNC_OK_REVOKING if a cooperative member has to revoke partitions first."""
    if not matches_subscription(member, assigned) or not member.config.is_cooperative:
        return Event.SYNC_OK
    return Event.SYNC_OK_REVOKING if without(member.owned, assigned) else Event.SYNC_OK


def matches_subscription(member: ClassicMember, assigned: Partitions) -> bool:
    """Whether every topic is subscribed to; under a pattern the leader may know more topics that it matches."""
    topics = {topic for topic, _ in assigned}
    if member.pattern is not None:
        return all(re.fullmatch(member.pattern, topic) for topic in topics)
    return topics <= {*(member.topics or ())}


def match_topics(pattern: str, metadata: tuple[tuple[str, int], ...]) -> tuple[str, ...]:
    """The topics whose whole name the pattern matches."""
    return tuple(topic for topic, _ in metadata if re.fullmatch(pattern, topic))


def decide_heartbeat(
    member: ClassicMember, sent: Generation, answer: m.HeartbeatResponse | m.TransportFailure
) -> Event | None:
    """The event of an answer to a heartbeat; None if the heartbeat is only retried."""
    if isinstance(answer, m.TransportFailure):
        return Event.COORDINATOR_LOST if answer.disconnected else None
    event = HEARTBEAT_ERRORS.get(answer.error_code)
    if event in _RESETTING and member.generation != sent:
        return Event.ANSWER_STALE
    return event


_RESETTING = frozenset(
    {Event.HEARTBEAT_UNKNOWN_MEMBER_ID, Event.HEARTBEAT_ILLEGAL_GENERATION, Event.HEARTBEAT_FENCED_INSTANCE_ID}
)


def find_commit_error(answer: m.OffsetCommitResponse | m.TransportFailure) -> ErrorCode:
    """The first error of a commit, or NONE; a connection that broke reads as a coordinator that is gone."""
    if isinstance(answer, m.TransportFailure):
        return ErrorCode.COORDINATOR_NOT_AVAILABLE if answer.retriable else ErrorCode.UNSUPPORTED_VERSION
    return next((code for _, code in answer.errors), ErrorCode.NONE)


def decide_commit(member: ClassicMember, sent: Generation, code: ErrorCode) -> Event | None:
    """The event of the error of a commit;

    None if it does not concern the membership. A member that already has a new generation, and is not about to join
    again, is reset all the same.
    """
    event = COMMIT_ERRORS.get(code)
    if member.generation == sent:
        return event
    if event is Event.COMMIT_FENCED_INSTANCE_ID:
        return Event.ANSWER_STALE
    if event in (Event.COMMIT_UNKNOWN_MEMBER_ID, Event.COMMIT_ILLEGAL_GENERATION):
        return Event.ANSWER_STALE if member.state is State.PREPARING_REBALANCE else event
    return event


def decide_prepare(member: ClassicMember) -> Event:
    """The event by which a poll prepares a join: partitions of a generation that is over are lost, others revoked."""
    if member.generation.is_reset:
        return Event.JOIN_PREPARED_LOST
    return Event.JOIN_PREPARED_COOPERATIVE if member.config.is_cooperative else Event.JOIN_PREPARED_EAGER


def gives_up_all(member: ClassicMember) -> bool:
    """Whether the next or current poll revokes everything before it joins."""
    prepares = member.rejoin_needed and member.prepare_needed and member.coordinator_known
    return prepares and decide_prepare(member) is not Event.JOIN_PREPARED_COOPERATIVE


def decide_leave(member: ClassicMember, operation: GroupMembershipOperation) -> Event:
    """The event of a leave: a static member sends no LeaveGroup unless asked to leave."""
    if operation is GroupMembershipOperation.DEFAULT:
        return Event.LEAVE_CALLED_STATIC if member.config.is_static else Event.LEAVE_CALLED
    left = operation is GroupMembershipOperation.LEAVE_GROUP
    return Event.LEAVE_CALLED if left else Event.LEAVE_CALLED_STATIC


def decide_poll_timeout(member: ClassicMember) -> Event:
    """The event of an application that has not polled in time."""
    return Event.POLL_TIMEOUT_STATIC if member.config.is_static else Event.POLL_TIMEOUT


def find_rejoin_cause(member: ClassicMember) -> str | None:
    """The reason why a STABLE member joins again; None if it does not."""
    if member.led_metadata is not None and member.led_metadata != list_watched(member):
        return "cached metadata has changed"
    if member.joined_topics is not None and member.joined_topics != member.topics:
        return "subscription has changed"
    return None


def list_watched(member: ClassicMember) -> tuple[tuple[str, int], ...]:
    """The metadata of the group's topics."""
    return tuple((topic, count) for topic, count in member.metadata if topic in member.group_topics)
