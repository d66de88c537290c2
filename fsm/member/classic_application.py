"""What the application's thread does in a classic member: poll, callbacks, unsubscribe, close.

`advance` goes as far as it gets without waiting; where Java's `poll` would block, it returns, and the next poll or
answer goes on from there. Callbacks run in the embedding: the member asks for one, and goes on when it is reported.

Source: `ConsumerCoordinator.poll`, `joinGroupIfNeeded`, `onJoinPrepare`, `onJoinComplete`, `onLeavePrepare`, `close`.
"""

from __future__ import annotations

from fsm.errors import LocalProtocolError
from fsm.kafka.assignment import without
from fsm.kafka.events import (
    AsyncPollEvent,
    ConsumerRebalanceListenerCallbackCompletedEvent,
    ErrorEvent,
    GroupMembershipOperation,
    KafkaError,
    ListenerMethod,
    UnsubscribeEvent,
)
from fsm.kafka.messages import Offsets
from fsm.member.classic_answers import read_join, start_commit
from fsm.member.classic_decisions import leave_event, matches_subscription, prepare_event, rejoin_cause
from fsm.member.classic_effects import decide, perform, send_join_group
from fsm.member.classic_state import Close, Closing, Commit, Draft, OpenCallback, Purpose, Stage, Work
from fsm.member.effects import CallCompleted, Enqueued
from fsm.tables.classic_member import Effect, Event, State

LEAVING = "consumer pro-actively leaving the group"
LISTENER_RAISED = "the rebalance listener raised"


def poll(d: Draft, given: AsyncPollEvent) -> None:
    """poll(): tells that the application is alive, and does what waits for it.

    Inside a callback, in close() and without a subscription it does nothing.
    """
    if d.awaited is not None or d.closing is not None or d.topics is None:
        return
    d.consumed = given.consumed
    error, d.failure = d.failure or d.commit_fenced, None
    if error is not None:
        d.effects.append(Enqueued(ErrorEvent(error)))
        return
    d.heartbeats = d.heartbeats.polled(d.config, d.now_ms)
    advance(d)


def advance(d: Draft) -> None:
    """The rebalance, as far as it goes without waiting."""
    d.polling = True
    while not d.thrown and d.awaited is None and d.topics is not None and d.coordinator_known:
        if not _one_move(d):
            break
    d.polling = False


def _one_move(d: Draft) -> bool:
    """False where there is nothing to do, or something to wait for."""
    if d.unread is not None:
        read_join(d)
    elif d.completion is not None:
        _complete_join(d, d.completion)
    elif d.join_out or d.now_ms < d.retry_due_ms or not _rejoins(d):
        return False
    elif not d.prepare_needed:
        decide(d, Event.JOIN_SENT)
        send_join_group(d)
    elif _committed(d):
        d.prepare_needed = False
        decide(d, prepare_event(d))
    else:
        return False
    return True


def _rejoins(d: Draft) -> bool:
    cause = None if d.rejoin_needed else rejoin_cause(d)
    if cause is not None:
        decide(d, Event.REJOIN_REQUESTED, cause)
    return d.rejoin_needed


def _committed(d: Draft) -> bool:
    """Whether the commit before the join is over: done, failed for good, or out of time."""
    if not d.config.enable_auto_commit:
        return True
    if d.commit is None:
        d.commit = Commit(d.now_ms + d.config.max_poll_interval_ms)
        start_commit(d, positions(d), Purpose.PREPARE)
    elif d.commit.retry_due_ms is not None and d.now_ms >= d.commit.retry_due_ms:
        d.commit = Commit(d.commit.due_ms)
        start_commit(d, positions(d), Purpose.PREPARE)
    if not d.commit.done and d.now_ms < d.commit.due_ms:
        return False
    d.commit = None
    return True


def positions(d: Draft) -> Offsets:
    """Of what is owned."""
    owned = {*d.owned}
    return tuple((p, offset) for p, offset in d.consumed if p in owned)


def _complete_join(d: Draft, completion: Work) -> None:
    """Applies the assignment, unless it is out of date or no more what is subscribed to."""
    if d.state is not State.STABLE or d.generation.is_reset:
        d.completion = None
        reason = "rebalance failed since the generation was reset before the assigned callback"
        decide(d, Event.ASSIGNMENT_OUTDATED, reason)
    elif not matches_subscription(d, d.assigned):
        d.completion, d.prepare_needed = None, True
        decide(d, Event.REJOIN_REQUESTED, "received assignment does not match the current subscription")
    else:
        perform(d, completion)


# Callbacks


def callback_completed(d: Draft, given: ConsumerRebalanceListenerCallbackCompletedEvent) -> None:
    """Goes on where the callback interrupted. Raises `LocalProtocolError` where no callback of that ticket is open."""
    if d.awaited is None or d.awaited.ticket != given.ticket:
        raise LocalProtocolError(f"no callback of ticket {given.ticket} is open; report the end of each callback once")
    error = KafkaError("KafkaException", LISTENER_RAISED) if given.error is not None else None
    awaited, work = d.awaited, d.work
    d.awaited = d.work = None
    if awaited.method is not ListenerMethod.ASSIGNED:
        d.owned = without(d.owned, awaited.partitions)
    if d.closing is not None or d.unsubscribing is not None:
        _left(d, work, error)
    elif d.completion is not None:
        _completed(d, work, error)
    else:
        _prepared(d, error)


def _prepared(d: Draft, error: KafkaError | None) -> None:
    """An error is thrown, and the next poll goes on with the join: what was revoked is gone all the same."""
    if error is not None:
        d.effects.append(Enqueued(ErrorEvent(error)))
        return
    advance(d)


def _completed(d: Draft, work: Work | None, error: KafkaError | None) -> None:
    """The row is done to its end whatever its callbacks raise; then the first error is thrown, and a poll repeats."""
    d.callback_error = d.callback_error or error
    d.polling = True
    if work is not None:
        perform(d, work)
    d.polling = False
    if d.awaited is not None:
        return
    if d.callback_error is not None:
        d.effects.append(Enqueued(ErrorEvent(d.callback_error)))
        d.callback_error, d.completion = None, Work((Effect.ASSIGN_PARTITIONS,))
        return
    d.completion, d.prepare_needed = None, True
    advance(d)


# Unsubscribe and close


def unsubscribe(d: Draft, given: UnsubscribeEvent) -> None:
    """unsubscribe(): the last callback, then the leave."""
    d.unsubscribing = given.call
    _leave(d, GroupMembershipOperation.DEFAULT)


def _leave(d: Draft, operation: GroupMembershipOperation) -> None:
    decide(d, leave_event(d, operation), LEAVING)
    if d.awaited is None:
        _left(d, None, None)


def _left(d: Draft, work: Work | None, error: KafkaError | None) -> None:
    """A callback that raised keeps the leave from being sent: the coordinator learns of it by the session timeout."""
    if work is not None and error is None:
        perform(d, work)
    if d.closing is not None:
        d.closing = d.closing._replace(stage=Stage.DRAINING, error=error)
        return
    if error is None:
        d.topics = d.pattern = None
    call, d.unsubscribing = d.unsubscribing or 0, None
    d.effects.append(CallCompleted(call, error))


def _go_past_callback(d: Draft, open_callback: OpenCallback) -> None:
    """What an open callback is about changes hands as far as the application has heard of it; nothing goes on after it.

    A call of unsubscribe() that waits for it returns: close() leaves in its place.
    """
    awaited = d.awaited
    if awaited is None:
        return
    d.awaited = d.work = d.completion = None
    assigned, heard = awaited.method is ListenerMethod.ASSIGNED, open_callback is OpenCallback.HEARD
    if assigned is not heard:
        d.owned = without(d.owned, awaited.partitions)
    if d.unsubscribing is not None:
        d.effects.append(CallCompleted(d.unsubscribing))
        d.unsubscribing = None


def close(d: Draft, given: Close) -> None:
    """close() begins."""
    _go_past_callback(d, given.open_callback)
    d.consumed = given.consumed or d.consumed
    d.closing = Closing(given.call, d.now_ms + given.timeout_ms, given.operation, Stage.COMMITTING)


def advance_close(d: Draft) -> None:
    """close() as far as it goes: the commit, the last callback and the leave, then the answers still open."""
    closing = d.closing
    if closing is None or d.awaited is not None or d.closed:
        return
    late = d.now_ms >= closing.due_ms
    if closing.stage is Stage.COMMITTING and d.now_ms >= closing.retry_due_ms:
        d.closing = closing._replace(stage=Stage.COMMIT_SENT)
        start_commit(d, positions(d) if d.config.enable_auto_commit else (), Purpose.CLOSE)
    if _stage(d) is Stage.LEAVING or (late and _stage(d) is not Stage.DRAINING):
        _close_membership(d, closing.operation)
    if _stage(d) is Stage.DRAINING and d.awaited is None and (d.in_flight == 0 or late or not d.coordinator_known):
        _closed(d)


def _stage(d: Draft) -> Stage | None:
    return d.closing.stage if d.closing is not None else None


def _close_membership(d: Draft, operation: GroupMembershipOperation) -> None:
    d.heartbeats = d.heartbeats.stopped()
    if d.config.leave_group_on_close:
        _leave(d, operation)
    else:
        _left(d, None, None)


def _closed(d: Draft) -> None:
    d.closed = True
    if d.closing is not None:
        d.effects.append(CallCompleted(d.closing.call, d.closing.error))
