"""The member of a classic group, without IO: what it does on each input, and when it wants to be asked again.

`step(member, given, now_ms)` is the whole of it: a frozen member goes in, a frozen member and effects come out. Its
rows are those of `fsm.tables.classic_member`; what decides which row is in `classic_decisions`.

The embedding carries out the effects and gives back what comes of them: the answer to each request as
`ClassicAnswered`, the end of each callback as `ConsumerRebalanceListenerCallbackCompletedEvent`, a coordinator that
was found or lost. It calls `step` with `Tick` at `due_ms`, and with `AsyncPollEvent` at `poll_wanted_ms` while the
application is inside poll(). A commit is tried once: a commitSync() that may be repeated is repeated by its caller.

Source: `AbstractCoordinator` and `ConsumerCoordinator` of apache/kafka at 00b63173cd0a.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeVar

from fsm.errors import LocalProtocolError
from fsm.kafka.classic_messages import HeartbeatRequest
from fsm.kafka.events import (
    ApplicationEvent,
    AsyncPollEvent,
    ConsumerRebalanceListenerCallbackCompletedEvent,
    KafkaError,
    SyncCommitEvent,
    TopicPatternSubscriptionChangeEvent,
    TopicSubscriptionChangeEvent,
    UnsubscribeEvent,
)
from fsm.member.classic_answers import received, start_commit
from fsm.member.classic_application import advance_close, callback_completed, close, poll, unsubscribe
from fsm.member.classic_decisions import matching, poll_timeout_event, rejoin_cause
from fsm.member.classic_effects import decide, send
from fsm.member.classic_state import (
    ClassicAnswered,
    ClassicConfig,
    ClassicEffect,
    ClassicInput,
    ClassicMember,
    Close,
    Draft,
    EnforceRebalance,
    OpenCallback,
    PartitionCountsUpdated,
    Purpose,
    Stage,
)
from fsm.member.effects import CallCompleted
from fsm.member.inputs import CoordinatorFound, CoordinatorLost, Tick
from fsm.member.timers import NEVER
from fsm.tables.classic_member import HEARTBEATING, Event

T = TypeVar("T")


class Step(NamedTuple):
    """A member after an input, and what is to be done about it, in order."""

    member: ClassicMember
    effects: tuple[ClassicEffect, ...]


def new_member(config: ClassicConfig) -> ClassicMember:
    """A member that is in no group and subscribed to nothing."""
    return ClassicMember(config)


def step(member: ClassicMember, given: ClassicInput, now_ms: int) -> Step:
    """The member after `given`.

    Raises `LocalProtocolError` for the end of a callback that is not open, and for what is no input; the member
    given stays as it was.
    """
    handler = HANDLERS.get(type(given))
    if handler is None:
        raise LocalProtocolError(f"{type(given).__name__} is no input of a classic member")
    d = Draft(member, now_ms)
    if member.closed:
        _refuse(d, given)
    elif _is_busy(d, given):
        call = given.call if isinstance(given, ApplicationEvent) else 0
        d.effects.append(CallCompleted(call, KafkaError("ConcurrentModificationException")))
    else:
        handler(d, given)
        advance_close(d)
    return Step(d.frozen(), tuple(d.effects))


def _is_busy(d: Draft, given: ClassicInput) -> bool:
    """A consumer is for one thread, which is in close(), or in a callback where it may do most things but leave."""
    if d.closing is not None:
        return isinstance(given, CALLS)
    if d.awaited is None or not isinstance(given, UnsubscribeEvent | Close):
        return False
    return not isinstance(given, Close) or given.open_callback is OpenCallback.REFUSED


def _refuse(d: Draft, given: ClassicInput) -> None:
    """A closed member answers calls, and hears late answers without listening."""
    if isinstance(given, ClassicAnswered):
        d.in_flight -= 1
    elif call := getattr(given, "call", 0):
        d.effects.append(
            CallCompleted(call, KafkaError("IllegalStateException", "the consumer is closed; make a new one"))
        )


# Inputs


def _subscribe(d: Draft, given: TopicSubscriptionChangeEvent) -> None:
    d.topics, d.pattern = _shared(given.topics, tuple(sorted(set(given.topics)))), None
    d.effects.append(CallCompleted(given.call))


def _subscribe_pattern(d: Draft, given: TopicPatternSubscriptionChangeEvent) -> None:
    d.pattern = given.pattern
    d.topics = matching(given.pattern, d.metadata)
    d.effects.append(CallCompleted(given.call))


def _metadata_updated(d: Draft, given: PartitionCountsUpdated) -> None:
    d.metadata = _shared(given.partitions, tuple(sorted(given.partitions)))
    if d.pattern is not None:
        d.topics = matching(d.pattern, d.metadata)


def _shared(given: tuple[T, ...], ordered: tuple[T, ...]) -> tuple[T, ...]:
    """What was given, if it is in order: members of one process that are told the same hold it once."""
    return given if given == ordered else ordered


def _enforce_rebalance(d: Draft, given: EnforceRebalance) -> None:
    decide(d, Event.REJOIN_REQUESTED, given.reason)
    d.effects.append(CallCompleted(given.call))


def _commit(d: Draft, given: SyncCommitEvent) -> None:
    start_commit(d, given.offsets, Purpose.CALL, given.call)


def _coordinator_found(d: Draft, _: CoordinatorFound) -> None:
    decide(d, Event.COORDINATOR_FOUND)


def _coordinator_disconnected(d: Draft, _: CoordinatorLost) -> None:
    decide(d, Event.COORDINATOR_LOST)


def tick(d: Draft, _: Tick) -> None:
    """One round of the heartbeat thread: a lost session, a poll that does not come, a heartbeat, in this order."""
    timers = d.heartbeats
    if not timers.enabled or not d.coordinator_known:
        return
    if d.state not in HEARTBEATING or d.failure is not None:
        d.heartbeats = timers.stopped()
    elif d.now_ms >= timers.session_due_ms:
        decide(d, Event.COORDINATOR_LOST)
    elif d.now_ms >= timers.poll_due_ms:
        decide(d, poll_timeout_event(d), "consumer pro-actively leaving the group")
    elif d.now_ms >= timers.heartbeat_due_ms:
        d.heartbeats = timers.sent(d.config, d.now_ms)
        place = d.generation
        send(d, HeartbeatRequest(d.config.group_id, place.generation_id, place.member_id, d.config.group_instance_id))


CALLS = (
    TopicSubscriptionChangeEvent,
    TopicPatternSubscriptionChangeEvent,
    UnsubscribeEvent,
    EnforceRebalance,
    Close,
)
"""What an application calls, beside poll() and commitSync(), which a callback of close() may call too."""
HANDLERS: Mapping[type, Callable[[Draft, Any], None]] = {
    AsyncPollEvent: poll,
    TopicSubscriptionChangeEvent: _subscribe,
    TopicPatternSubscriptionChangeEvent: _subscribe_pattern,
    UnsubscribeEvent: unsubscribe,
    SyncCommitEvent: _commit,
    EnforceRebalance: _enforce_rebalance,
    Close: close,
    ConsumerRebalanceListenerCallbackCompletedEvent: callback_completed,
    PartitionCountsUpdated: _metadata_updated,
    ClassicAnswered: received,
    CoordinatorFound: _coordinator_found,
    CoordinatorLost: _coordinator_disconnected,
    Tick: tick,
}


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
    if member.join_out or not (member.rejoin_needed or rejoin_cause(member)):
        return NEVER
    if member.commit is not None and not member.commit.done:
        return min(member.commit.due_ms, NEVER if member.commit.retry_due_ms is None else member.commit.retry_due_ms)
    return member.retry_due_ms
