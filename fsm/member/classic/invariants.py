"""The invariants of a step of a classic member, each as a sentence.

A generation is a promise of the coordinator: a member gives it up only on its word, on its own way out, or when nobody
polls; and then it does. The leader gives nobody more than its share.

Source: `AbstractCoordinator` and `ConsumerCoordinator` of apache/kafka at 00b63173cd0a, by reading; KIP-62, KIP-429.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from fsm.member.classic.decisions import find_commit_error
from fsm.member.classic.state import ClassicAnswered, ClassicEffect, ClassicMember, Close, UnsentClassicRequest
from fsm.member.effects import Enqueued
from fsm.member.events import (
    GroupMembershipOperation,
    ListenerMethod,
    PartitionsAssignedEvent,
    PartitionsRemovedEvent,
    UnsubscribeEvent,
)
from fsm.member.inputs import Tick
from fsm.protocol.error_codes import ErrorCode
from fsm.protocol.messages import (
    UNKNOWN_MEMBER_ID,
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    OffsetCommitRequest,
    OffsetCommitResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)
from fsm.tables.classic_member import State

OUTCAST = frozenset({ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION, ErrorCode.FENCED_INSTANCE_ID})
"""The errors by which the coordinator ends a generation."""
NAMING = (JoinGroupRequest, SyncGroupRequest, HeartbeatRequest, OffsetCommitRequest)
"""The requests of one member beside its leave."""


class ObservedStep(NamedTuple):
    """A step of a member: before, input, after, effects, instant."""

    before: ClassicMember
    given: Any
    after: ClassicMember
    effects: Sequence[ClassicEffect]
    now_ms: int

    def list_sent(self, body: type) -> list[Any]:
        """The requests of this type that it sends."""
        orders = (one.body for one in self.effects if isinstance(one, UnsentClassicRequest))
        return [one for one in orders if isinstance(one, body)]

    @property
    def answer(self) -> Any:
        """The answer that is handled; that to a join waits for a poll."""
        if self.before.unread is not None and self.after.unread is None:
            return self.before.unread[1]
        return self.given.answer if isinstance(self.given, ClassicAnswered) else None

    @property
    def joined(self) -> JoinGroupResponse | None:
        """The answer to a join that is handled."""
        return self.answer if isinstance(self.answer, JoinGroupResponse) else None

    @property
    def error(self) -> ErrorCode:
        """The error of the answer that is handled."""
        if isinstance(self.answer, OffsetCommitResponse):
            return find_commit_error(self.answer)
        known = isinstance(self.answer, HeartbeatResponse | JoinGroupResponse | SyncGroupResponse)
        return self.answer.error_code if known else ErrorCode.NONE

    @property
    def is_told(self) -> bool:
        """Whether the coordinator ends the member's own generation.

        A commit of an earlier one counts, too, as in Kafka, unless the member is about to get another one.
        """
        if self.error not in OUTCAST:
            return False
        if isinstance(self.answer, OffsetCommitResponse) and self.before.state is not State.PREPARING_REBALANCE:
            return True
        sent = self.before.unread[0] if self.joined and self.before.unread else self.given.request.generation
        return bool(sent == self.before.generation)

    @property
    def goes(self) -> bool:
        """Whether the member is on its way out, or out for want of a poll, which only a tick notices."""
        was, now, given = self.before, self.after, self.given
        leaves = was.unsubscribing is not None or isinstance(given, UnsubscribeEvent) or now.closing is not None
        return leaves or (isinstance(given, Tick) and self.now_ms >= was.heartbeats.poll_due_ms)


def _keeps_its_generation(at: ObservedStep) -> bool:
    """A join that begins another generation replaces it; an assignment that came too late ends it, too."""
    was, now = at.before.generation, at.after.generation
    if was.is_reset or not now.is_reset or at.goes or at.before.completion is not None:
        return True
    return at.is_told


def _keeps_its_id(at: ObservedStep) -> bool:
    was, now = at.before.generation.member_id, at.after.generation.member_id
    if was == UNKNOWN_MEMBER_ID or now != UNKNOWN_MEMBER_ID or at.goes or at.before.completion is not None:
        return True
    return at.is_told and at.error is not ErrorCode.ILLEGAL_GENERATION


def _believes_the_coordinator(at: ObservedStep) -> bool:
    """A commit or sync that is told of another holder of its instance id only throws: the next heartbeat hears it."""
    given, was = at.given, at.before.generation
    if not isinstance(given, ClassicAnswered) or at.joined or given.request.generation != was or was.is_reset:
        return True
    throws = at.error is ErrorCode.FENCED_INSTANCE_ID and not isinstance(given.answer, HeartbeatResponse)
    return at.error not in OUTCAST or throws or at.after.generation != was


def _forgets_its_id(at: ObservedStep) -> bool:
    """The id that the coordinator does not know; the answer to a join waits for a poll."""
    was, now = at.before.generation.member_id, at.after.generation.member_id
    is_unknown = at.error is ErrorCode.UNKNOWN_MEMBER_ID and at.is_told and at.after.unread is None
    return not is_unknown or was == UNKNOWN_MEMBER_ID or now != was


def _takes_its_id(at: ObservedStep) -> bool:
    """The id that a join has to be repeated with: the group waits for it."""
    if at.joined is None or at.error is not ErrorCode.MEMBER_ID_REQUIRED or at.after.unread is not None:
        return True
    return at.after.generation.member_id == at.joined.member_id


def _names_itself(at: ObservedStep) -> bool:
    """Under the id from before the step or from after it, and its instance id if it is in its group."""
    known = {at.before.generation.member_id, at.after.generation.member_id}
    leaving = [who for one in at.list_sent(LeaveGroupRequest) for who in one.members]
    sent = [one for kind in NAMING for one in at.list_sent(kind)]
    instances = {one.group_instance_id for one in sent if at.before.topics is not None}
    return {one.member_id for one in (*sent, *leaving)} <= known and instances <= {at.before.config.group_instance_id}


def _says_that_it_leaves(at: ObservedStep) -> bool:
    """A dynamic member whose coordinator is known, in the step in which it gives up its id on its way out."""
    was, now = at.before, at.after
    if not at.goes or was.config.is_static or was.state is State.UNJOINED or now.state is not State.UNJOINED:
        return True
    may_say = was.coordinator_known and was.generation.member_id != UNKNOWN_MEMBER_ID and at.error not in OUTCAST
    return not may_say or bool(at.list_sent(LeaveGroupRequest))


def _stays_if_static(at: ObservedStep) -> bool:
    """A static member keeps its place as it goes, unless close() is asked to leave."""
    closing = at.after.closing or at.before.closing
    asked = closing is not None and closing.operation is GroupMembershipOperation.LEAVE_GROUP
    return asked or not at.before.config.is_static or not at.list_sent(LeaveGroupRequest)


def _has_no_id_once_it_has_left(at: ObservedStep) -> bool:
    return not at.list_sent(LeaveGroupRequest) or at.after.generation.member_id == UNKNOWN_MEMBER_ID


def _commits_first(at: ObservedStep) -> bool:
    """A stable member that commits automatically has done so before it joins again, or does as it closes."""
    was, now = at.before, at.after
    consumed = {one for one, _ in now.consumed}.intersection(was.owned, now.owned)
    if was.state is not State.STABLE or not was.config.enable_auto_commit or not was.coordinator_known or not consumed:
        return True
    if isinstance(at.given, Close):
        return bool(at.list_sent(OffsetCommitRequest))
    return was.commit is not None or now.prepare_needed or not was.prepare_needed


def _closes_with_a_leave(at: ObservedStep) -> bool:
    """A dynamic member whose coordinator is known has left as close() ends, unless its last callback raised."""
    closing, now = at.after.closing, at.after
    if closing is None or not now.closed or at.before.closed or now.config.is_static or closing.error is not None:
        return True
    return now.state is State.UNJOINED or not (now.coordinator_known and now.config.leave_group_on_close)


def _asks_one_thing_at_a_time(at: ObservedStep) -> bool:
    asked = len(at.list_sent(JoinGroupRequest)) + len(at.list_sent(SyncGroupRequest))
    return asked <= (1 if not at.before.join_out or _ends_join(at) else 0)


def _ends_join(at: ObservedStep) -> bool:
    """Whether the join or sync that was out is over."""
    asked = at.given.request.body if isinstance(at.given, ClassicAnswered) else None
    return isinstance(asked, JoinGroupRequest | SyncGroupRequest) or at.before.unread is not None


def _assigns(at: ObservedStep) -> bool:
    """Whether the member takes over an assignment."""
    return any(isinstance(one, Enqueued) and isinstance(one.event, PartitionsAssignedEvent) for one in at.effects)


def _assigns_in_a_generation(at: ObservedStep) -> bool:
    """Behind its revoked callback a member assigns all the same: the next poll takes the partitions back."""
    return not _assigns(at) or not at.after.generation.is_reset or at.before.awaited is not None


def _assigns_what_is_subscribed(at: ObservedStep) -> bool:
    """A pattern may match more topics on the leader."""
    wanted = at.after.topics
    if not _assigns(at) or wanted is None or at.after.pattern is not None:
        return True
    return all(topic in wanted for topic, _ in at.after.owned)


def _list_removed(at: ObservedStep) -> list[PartitionsRemovedEvent]:
    """The callbacks that a step asks for to take partitions away."""
    events = (one.event for one in at.effects if isinstance(one, Enqueued))
    return [one for one in events if isinstance(one, PartitionsRemovedEvent)]


def _takes_what_is_owned(at: ObservedStep) -> bool:
    return all({*one.partitions} <= {*at.before.owned} for one in _list_removed(at))


def _loses_unless_stable(at: ObservedStep) -> bool:
    """Who leaves during a rebalance loses, too, though it has a generation (`ConsumerCoordinator.onLeavePrepare`)."""
    method = ListenerMethod.REVOKED if at.before.state is State.STABLE else ListenerMethod.LOST
    return all(one.method is method for one in _list_removed(at))


def _calls_back(at: ObservedStep) -> bool:
    """An eager member that has revoked nothing, as it was interrupted, is assigned others in their place (W27)."""
    awaited = at.before.awaited
    gone = {*at.before.owned}.difference(at.after.owned, () if awaited is None else awaited.partitions)
    return not gone or (_assigns(at) and not at.after.config.is_cooperative)


INVARIANTS: tuple[tuple[str, Callable[[ObservedStep], bool]], ...] = (
    ("a generation is given up only at the coordinator's word or on the way out", _keeps_its_generation),
    ("a member id is given up only at the coordinator's word or on the way out", _keeps_its_id),
    ("who is told that its generation is over gives it up", _believes_the_coordinator),
    ("a member forgets an id that the coordinator does not know", _forgets_its_id),
    ("a member takes the id that it is given", _takes_its_id),
    ("a request names its member", _names_itself),
    ("a dynamic member says that it leaves", _says_that_it_leaves),
    ("a dynamic member has left as its close ends", _closes_with_a_leave),
    ("a static member keeps its place unless it is asked to leave", _stays_if_static),
    ("who has left has no member id", _has_no_id_once_it_has_left),
    ("an automatic commit comes before partitions are given up", _commits_first),
    ("a member asks to join or to sync and not both", _asks_one_thing_at_a_time),
    ("what is assigned belongs to a generation", _assigns_in_a_generation),
    ("what is assigned is subscribed to", _assigns_what_is_subscribed),
    ("nothing is given up without a callback", _calls_back),
    ("a callback takes only what is owned", _takes_what_is_owned),
    ("a stable member revokes and any other loses", _loses_unless_stable),
)


def find_broken(at: ObservedStep) -> Iterator[str]:
    """The invariants that a step breaks."""
    return (sentence for sentence, holds in INVARIANTS if not holds(at))
