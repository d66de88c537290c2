"""The member of a classic group, without IO: what it does on each input, and when it wants to be asked again.

`step(member, given, now_ms)` is the whole of it: a frozen member goes in, a frozen member and effects come out. Its
rows are those of `fsm.tables.classic_member`; `fsm.member.classic.decisions` says which row is taken.

The runtime carries out the effects and gives back what comes of them: the answer to each request as
`ClassicAnswered`, the end of each callback as `ConsumerRebalanceListenerCallbackCompletedEvent`, a coordinator that
was found or lost. It calls `step` with `Tick` at `due_ms`, and with `AsyncPollEvent` at `poll_wanted_ms` while the
application is inside poll(). A commit is tried once: a commitSync() that may be repeated is repeated by its caller.

Source: `AbstractCoordinator` and `ConsumerCoordinator` of apache/kafka at 00b63173cd0a.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple, TypeVar

from fsm.errors import LocalProtocolError
from fsm.member.classic.application import LEAVING, Application
from fsm.member.classic.decisions import decide_poll_timeout, find_rejoin_cause, match_topics
from fsm.member.classic.state import (
    ClassicAnswered,
    ClassicEffect,
    ClassicInput,
    ClassicMember,
    Close,
    EnforceRebalance,
    OpenCallback,
    PartitionCountsUpdated,
    Purpose,
    Stage,
)
from fsm.member.effects import CallCompleted
from fsm.member.events import (
    ApplicationEvent,
    AsyncPollEvent,
    ConsumerRebalanceListenerCallbackCompletedEvent,
    KafkaError,
    SyncCommitEvent,
    TopicPatternSubscriptionChangeEvent,
    TopicSubscriptionChangeEvent,
    UnsubscribeEvent,
)
from fsm.member.inputs import CoordinatorFound, CoordinatorLost, Tick
from fsm.member.timers import NEVER
from fsm.protocol.messages import HeartbeatRequest
from fsm.tables.classic_member import HEARTBEATING, Effect, Event

T = TypeVar("T")


class Step(NamedTuple):
    """A member after an input, and what is to be done about it, in order."""

    member: ClassicMember
    effects: tuple[ClassicEffect, ...]


class ClassicMemberDraft(Application, effects=Effect):
    """A classic member while something happens to it."""

    def subscribe(self, given: TopicSubscriptionChangeEvent) -> None:
        """subscribe(topics)."""
        self.topics, self.pattern = _share(given.topics, tuple(sorted(set(given.topics)))), None
        self.effects.append(CallCompleted(given.call))

    def subscribe_pattern(self, given: TopicPatternSubscriptionChangeEvent) -> None:
        """subscribe(pattern)."""
        self.pattern = given.pattern
        self.topics = match_topics(given.pattern, self.metadata)
        self.effects.append(CallCompleted(given.call))

    def enforce_rebalance(self, given: EnforceRebalance) -> None:
        """enforceRebalance()."""
        self.happen(Event.REJOIN_REQUESTED, given.reason)
        self.effects.append(CallCompleted(given.call))

    def commit_sync(self, given: SyncCommitEvent) -> None:
        """commitSync()."""
        self.start_commit(given.offsets, Purpose.CALL, given.call)

    def update_metadata(self, given: PartitionCountsUpdated) -> None:
        """The topics that a pattern matches may be others now."""
        self.metadata = _share(given.partitions, tuple(sorted(given.partitions)))
        if self.pattern is not None:
            self.topics = match_topics(self.pattern, self.metadata)

    def find_coordinator(self, _: CoordinatorFound) -> None:
        """Requests may be sent."""
        self.happen(Event.COORDINATOR_FOUND)

    def lose_coordinator(self, _: CoordinatorLost) -> None:
        """Requests may not be sent."""
        self.happen(Event.COORDINATOR_LOST)

    def tick(self, _: Tick) -> None:
        """One round of the heartbeat thread: a lost session, a poll that does not come, a heartbeat, in this order."""
        timers, now_ms = self.heartbeats, self.now_ms
        if not timers.enabled or not self.coordinator_known:
            return
        if self.state not in HEARTBEATING or self.failure is not None:
            self.heartbeats = timers.stop()
        elif now_ms >= timers.session_due_ms:
            self.happen(Event.COORDINATOR_LOST)
        elif now_ms >= timers.poll_due_ms:
            self.happen(decide_poll_timeout(self), LEAVING)
        elif now_ms >= timers.heartbeat_due_ms:
            self.heartbeats = timers.send(self.config, now_ms)
            place, config = self.generation, self.config
            self.send(HeartbeatRequest(config.group_id, place.generation_id, place.member_id, config.group_instance_id))


def _share(given: tuple[T, ...], ordered: tuple[T, ...]) -> tuple[T, ...]:
    """What was given, if it is in order: members of one process that are told the same hold it once."""
    return given if given == ordered else ordered


CALLS = (
    TopicSubscriptionChangeEvent,
    TopicPatternSubscriptionChangeEvent,
    UnsubscribeEvent,
    EnforceRebalance,
    Close,
)
"""What an application calls, beside poll() and commitSync(), which a callback of close() may call too."""
INPUTS: Mapping[type, Callable[[ClassicMemberDraft, Any], None]] = {
    AsyncPollEvent: ClassicMemberDraft.poll,
    TopicSubscriptionChangeEvent: ClassicMemberDraft.subscribe,
    TopicPatternSubscriptionChangeEvent: ClassicMemberDraft.subscribe_pattern,
    UnsubscribeEvent: ClassicMemberDraft.unsubscribe,
    SyncCommitEvent: ClassicMemberDraft.commit_sync,
    EnforceRebalance: ClassicMemberDraft.enforce_rebalance,
    Close: ClassicMemberDraft.begin_close,
    ConsumerRebalanceListenerCallbackCompletedEvent: ClassicMemberDraft.end_callback,
    PartitionCountsUpdated: ClassicMemberDraft.update_metadata,
    ClassicAnswered: ClassicMemberDraft.receive,
    CoordinatorFound: ClassicMemberDraft.find_coordinator,
    CoordinatorLost: ClassicMemberDraft.lose_coordinator,
    Tick: ClassicMemberDraft.tick,
}


def step(member: ClassicMember, given: ClassicInput, now_ms: int) -> Step:
    """The member after `given`.

    Raises `LocalProtocolError` for the end of a callback that is not open and for what is no input,
    `RemoteProtocolError` for an answer that answers another request; the member given stays as it was.
    """
    handle = INPUTS.get(type(given))
    if handle is None:
        raise LocalProtocolError(f"{type(given).__name__} is no input of a classic member")
    draft = ClassicMemberDraft.of(member)
    draft.now_ms, draft.effects = now_ms, []
    if member.closing is not None or member.awaited is not None:
        _handle_busy(draft, handle, given)
    else:
        handle(draft, given)
    if draft.closing is not None:
        draft.advance_close()
    return _made((draft.close(), tuple(draft.effects)))


_made = partial(tuple.__new__, Step)
"""Makes a `Step`, at half the price."""


def _handle_busy(draft: ClassicMemberDraft, handle: Callable[..., None], given: ClassicInput) -> None:
    """A consumer is for one thread, which is in close(), or in a callback where it may do most things but leave."""
    if draft.closed:
        if isinstance(given, ClassicAnswered):
            draft.in_flight -= 1  # a late answer, which changes nothing
        elif call := getattr(given, "call", 0):
            text = "the consumer is closed; make a new one"
            draft.effects.append(CallCompleted(call, KafkaError("IllegalStateException", text)))
    elif _may_not(draft, given):
        call = given.call if isinstance(given, ApplicationEvent) else 0
        draft.effects.append(CallCompleted(call, KafkaError("ConcurrentModificationException")))
    else:
        handle(draft, given)


def _may_not(draft: ClassicMemberDraft, given: ClassicInput) -> bool:
    if draft.closing is not None:
        return isinstance(given, CALLS)
    if isinstance(given, Close):
        return given.open_callback is OpenCallback.REFUSED
    return isinstance(given, UnsubscribeEvent)


# When to ask again


def due_ms(member: ClassicMember) -> int:
    """When the next `Tick` does something; it may lie in the past."""
    if member.closed:
        return NEVER
    due = [NEVER]
    if member.coordinator_known and member.state in HEARTBEATING:
        due.append(member.heartbeats.due_ms())
    if member.closing is not None and member.awaited is None:
        due.append(member.closing.due_ms)
        if member.closing.stage is Stage.COMMITTING:
            due.append(member.closing.retry_due_ms)
    return min(due)


def poll_wanted_ms(member: ClassicMember) -> int:
    """From when on a poll would do more than show that the application is alive."""
    if member.awaited is not None or member.closing is not None or member.topics is None:
        return NEVER
    if member.failure is not None or member.commit_fenced is not None:
        return 0
    if not member.coordinator_known:
        return NEVER
    if member.unread is not None or member.completion is not None:
        return 0
    if member.join_out or not (member.rejoin_needed or find_rejoin_cause(member)):
        return NEVER
    if member.commit is not None and not member.commit.done:
        return min(member.commit.due_ms, NEVER if member.commit.retry_due_ms is None else member.commit.retry_due_ms)
    return member.retry_due_ms
