"""The member of a classic group, without IO: its reaction to each input, and when it must be called again.

`step(member, given, now_ms)` takes a frozen member and returns a frozen member and effects. Its rows are those of
`fsm.tables.classic_member`; `fsm.member.classic.decisions` says which row is taken.

The runtime carries out the effects and passes back the results: the answer to each request as `ClassicAnswered`, the
end of each callback as `ConsumerRebalanceListenerCallbackCompletedEvent`, a coordinator that was found or lost. It
calls `step` with `Tick` at `due_ms`, and with `AsyncPollEvent` at `poll_wanted_ms` while the application is inside
poll(). A commit is tried once: a commitSync() that may be repeated is repeated by its caller.

Source: `AbstractCoordinator` and `ConsumerCoordinator` of apache/kafka at 00b63173cd0a; of the latter `poll`,
`joinGroupIfNeeded`, `onJoinPrepare`, `onJoinComplete`, `onLeavePrepare`, `close`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple, TypeVar

from fsm.errors import LocalProtocolError
from fsm.member import events
from fsm.member.classic import decisions, state
from fsm.member.classic.effects import Effects
from fsm.member.effects import CallCompleted, Enqueued
from fsm.member.inputs import CoordinatorFound, CoordinatorLost, Tick
from fsm.member.timers import NEVER
from fsm.protocol.assignment import without
from fsm.protocol.messages import HeartbeatRequest, Offsets
from fsm.tables.classic_member import HEARTBEATING, Effect, Event, State

T = TypeVar("T")


LEAVING = "consumer pro-actively leaving the group"
LISTENER_RAISED = "the rebalance listener raised"


class Step(NamedTuple):
    """A member after an input, and the effects to carry out, in order."""

    member: state.ClassicMember
    effects: tuple[state.ClassicEffect, ...]


class ClassicMemberDraft(Effects, effects=Effect):
    """A classic member while something happens to it: one method for each input.

    Work of the application's thread runs as far as it can without waiting; where Java's `poll` would block, the step
    returns, and the next poll or answer continues from there. Callbacks run in the runtime: the member requests one,
    and continues when its end is reported.
    """

    # poll()

    def poll(self, given: events.AsyncPollEvent) -> None:
        """poll(): the application is alive; does the work that waits for a poll.

        Does nothing inside a callback, in close() or without a subscription.
        """
        if self.awaited is not None or self.closing is not None or self.topics is None:
            return
        if self.config.enable_auto_commit:
            self.consumed = given.consumed
        error, self.failure = self.failure or self.commit_fenced, None
        if error is not None:
            self.effects.append(Enqueued(events.ErrorEvent(error)))
            return
        self.heartbeats = self.heartbeats.poll(self.config, self.now_ms)
        self.advance()
        self._commit_by_interval()

    def advance(self) -> None:
        """Continues the rebalance as far as possible without waiting."""
        self.polling = True
        while not self.thrown and self.awaited is None and self.topics is not None and self.coordinator_known:
            if not self._one_move():
                break
        self.polling = False

    def _one_move(self) -> bool:
        """Takes one step of the rebalance; False if there is nothing to do, or something to wait for."""
        if self.unread is not None:
            self.end_join(*self.unread)
        elif self.completion is not None:
            self._complete_join(self.completion)
        elif self.join_out or self.now_ms < self.retry_due_ms or not self._rejoins():
            return False
        elif not self.prepare_needed:
            self.happen(Event.JOIN_SENT)
            self.send_join_group()
        elif self._commit_is_over():
            self.prepare_needed = False
            self.happen(decisions.decide_prepare(self))
        else:
            return False
        return True

    def _rejoins(self) -> bool:
        cause = None if self.rejoin_needed else decisions.find_rejoin_cause(self)
        if cause is not None:
            self.happen(Event.REJOIN_REQUESTED, cause)
        return self.rejoin_needed

    def _commit_is_over(self) -> bool:
        """Whether the commit before the join is over: done, failed permanently, or timed out."""
        if not self.config.enable_auto_commit:
            return True
        if self.commit is None:
            self.commit = state.Commit(self.now_ms + self.config.max_poll_interval_ms)
            self.start_commit(self.positions(), state.Purpose.PREPARE)
        elif self.commit.retry_due_ms is not None and self.now_ms >= self.commit.retry_due_ms:
            self.commit = state.Commit(self.commit.due_ms)
            self.start_commit(self.positions(), state.Purpose.PREPARE)
        if not self.commit.done and self.now_ms < self.commit.due_ms:
            return False
        self.commit = None
        return True

    def _commit_by_interval(self) -> None:
        is_settled = self.state is State.STABLE and self.completion is None and self.awaited is None
        if is_settled and not self.rejoin_needed and self.now_ms >= self.commit_due_ms:
            self.reset_commit_timer()
            self.start_commit(self.positions(), state.Purpose.INTERVAL)

    def positions(self) -> Offsets:
        """The consumed positions of owned partitions, if they are committed automatically."""
        owned = {*self.owned}
        return tuple((p, offset) for p, offset in self.consumed if p in owned)

    def _complete_join(self, completion: state.RemainingSteps) -> None:
        """Applies the assignment, unless it is outdated or no longer fits the subscription."""
        if self.state is not State.STABLE or self.generation.is_reset:
            self.completion = None
            reason = "rebalance failed since the generation was reset before the assigned callback"
            self.happen(Event.ASSIGNMENT_OUTDATED, reason)
        elif not decisions.matches_subscription(self, self.assigned):
            self.completion, self.prepare_needed = None, True
            self.happen(Event.REJOIN_REQUESTED, "received assignment does not match the current subscription")
        else:
            self.go_on(completion.steps, completion.reason)

    # Callbacks

    def end_callback(self, given: events.ConsumerRebalanceListenerCallbackCompletedEvent) -> None:
        """Resumes the row that the callback paused. Raises `LocalProtocolError` if no callback has that ticket."""
        awaited = self.awaited
        if awaited is None or awaited.ticket != given.ticket:
            text = f"no callback of ticket {given.ticket} is open; report the end of each callback once"
            raise LocalProtocolError(text)
        error = events.KafkaError("KafkaException", LISTENER_RAISED) if given.error is not None else None
        self.awaited = None
        if awaited.method is not events.ListenerMethod.ASSIGNED:
            self.owned = without(self.owned, awaited.partitions)
        if self.closing is not None or self.unsubscribing is not None:
            self._end_membership(awaited.remaining, error)
        elif self.completion is not None:
            self._end_completion(awaited.remaining, error)
        elif error is not None:  # poll() throws it, and the next one continues: revoked partitions stay gone
            self.effects.append(Enqueued(events.ErrorEvent(error)))
        else:
            self.advance()

    def _end_completion(self, remaining: state.RemainingSteps | None, error: events.KafkaError | None) -> None:
        """Continues the row even if its callbacks raise; throws the first error at its end, and a poll repeats it."""
        self.callback_error = self.callback_error or error
        if remaining is not None:
            self.polling = True
            self.go_on(remaining.steps, remaining.reason)
            self.polling = False
        if self.awaited is not None:
            return
        if self.callback_error is not None:
            self.effects.append(Enqueued(events.ErrorEvent(self.callback_error)))
            self.callback_error, self.completion = None, state.RemainingSteps((Effect.ASSIGN_PARTITIONS,))
            return
        self.completion, self.prepare_needed = None, True
        self.advance()

    # unsubscribe() and close()

    def unsubscribe(self, given: events.UnsubscribeEvent) -> None:
        """unsubscribe(): the last callback, then the leave."""
        self.unsubscribing = given.call
        self._leave(events.GroupMembershipOperation.DEFAULT)

    def _leave(self, operation: events.GroupMembershipOperation) -> None:
        self.happen(decisions.decide_leave(self, operation), LEAVING)
        if self.awaited is None:
            self._end_membership(None, None)

    def _end_membership(self, remaining: state.RemainingSteps | None, error: events.KafkaError | None) -> None:
        """If the callback raised, no leave is sent: the session times out."""
        if remaining is not None and error is None:
            self.go_on(remaining.steps, remaining.reason)
        if self.closing is not None:
            self.closing = replace(self.closing, stage=state.Stage.DRAINING, error=error)
            return
        if error is None:
            self.topics = self.pattern = None
        self.effects.append(CallCompleted(self.unsubscribing or 0, error))
        self.unsubscribing = None

    def begin_close(self, given: state.Close) -> None:
        self._go_past_callback(given.open_callback)
        if self.config.enable_auto_commit:
            self.consumed = given.consumed or self.consumed
        deadline_ms = self.now_ms + given.timeout_ms
        self.closing = state.Closing(given.call, deadline_ms, given.operation, state.Stage.COMMITTING)

    def _go_past_callback(self, open_callback: state.OpenCallback) -> None:
        """Ends the open callback without waiting for it: its partitions change hands only if the application has begun
        it, and the rest of its row is dropped. A call of unsubscribe() that waits for it returns, because close()
        leaves instead.
        """
        awaited = self.awaited
        if awaited is None:
            return
        self.awaited = self.completion = None
        assigned, begun = awaited.method is events.ListenerMethod.ASSIGNED, open_callback is state.OpenCallback.BEGUN
        if assigned is not begun:
            self.owned = without(self.owned, awaited.partitions)
        if self.unsubscribing is not None:
            self.effects.append(CallCompleted(self.unsubscribing))
            self.unsubscribing = None

    def advance_close(self) -> None:
        """Continues close() as far as possible: commit, last callback, leave, then outstanding answers."""
        closing = self.closing
        if closing is None or self.awaited is not None or closing.stage is state.Stage.CLOSED:
            return
        late = self.now_ms >= closing.due_ms
        if closing.stage is state.Stage.COMMITTING and self.now_ms >= closing.retry_due_ms:
            self.closing = replace(closing, stage=state.Stage.COMMIT_SENT)
            self.start_commit(self.positions(), state.Purpose.CLOSE)
        if self._stage() is state.Stage.LEAVING or (late and self._stage() is not state.Stage.DRAINING):
            self._close_membership(closing.operation)
        answered = self.in_flight == 0 or late or not self.coordinator_known
        if self._stage() is state.Stage.DRAINING and self.awaited is None and answered:
            self._end_close()

    def _stage(self) -> state.Stage | None:
        return self.closing.stage if self.closing is not None else None

    def _close_membership(self, operation: events.GroupMembershipOperation) -> None:
        self.heartbeats = self.heartbeats.stop()
        if self.config.leave_group_on_close:
            self._leave(operation)
        else:
            self._end_membership(None, None)

    def _end_close(self) -> None:
        if self.closing is not None:
            self.effects.append(CallCompleted(self.closing.call, self.closing.error))
            self.closing = replace(self.closing, stage=state.Stage.CLOSED)

    # The other inputs

    def subscribe(self, given: events.TopicSubscriptionChangeEvent) -> None:
        self.topics, self.pattern = _share(given.topics, tuple(sorted(set(given.topics)))), None
        self.effects.append(CallCompleted(given.call))

    def subscribe_pattern(self, given: events.TopicPatternSubscriptionChangeEvent) -> None:
        self.pattern = given.pattern
        self.topics = decisions.match_topics(given.pattern, self.metadata)
        self.effects.append(CallCompleted(given.call))

    def enforce_rebalance(self, given: state.EnforceRebalance) -> None:
        self.happen(Event.REJOIN_REQUESTED, given.reason)
        self.effects.append(CallCompleted(given.call))

    def update_metadata(self, given: state.PartitionCountsUpdated) -> None:
        """Matches the pattern against the new metadata."""
        self.metadata = _share(given.partitions, tuple(sorted(given.partitions)))
        if self.pattern is not None:
            self.topics = decisions.match_topics(self.pattern, self.metadata)

    def tick(self, _: Tick) -> None:
        """One round of the heartbeat thread: an expired session, an expired poll timer, a heartbeat, in this order."""
        timers, now_ms = self.heartbeats, self.now_ms
        if not timers.enabled or not self.coordinator_known:
            return
        if self.state not in HEARTBEATING or self.failure is not None:
            self.heartbeats = timers.stop()
        elif now_ms >= timers.session_due_ms:
            self.happen(Event.COORDINATOR_LOST)
        elif now_ms >= timers.poll_due_ms:
            self.happen(decisions.decide_poll_timeout(self), LEAVING)
        elif now_ms >= timers.heartbeat_due_ms:
            self.heartbeats = timers.send(self.config, now_ms)
            place, config = self.generation, self.config
            self.send(HeartbeatRequest(config.group_id, place.generation_id, place.member_id, config.group_instance_id))


def _share(given: tuple[T, ...], ordered: tuple[T, ...]) -> tuple[T, ...]:
    """The given tuple itself if it is in order, so that members given the same one share it; else the ordered one."""
    return given if given == ordered else ordered


CALLS = (
    events.TopicSubscriptionChangeEvent,
    events.TopicPatternSubscriptionChangeEvent,
    events.UnsubscribeEvent,
    state.EnforceRebalance,
    state.Close,
)
"""The calls of an application beside poll() and commitSync(), which a callback of close() may make too."""
INPUTS: Mapping[type, Callable[[ClassicMemberDraft, Any], None]] = {
    events.AsyncPollEvent: ClassicMemberDraft.poll,
    events.TopicSubscriptionChangeEvent: ClassicMemberDraft.subscribe,
    events.TopicPatternSubscriptionChangeEvent: ClassicMemberDraft.subscribe_pattern,
    events.UnsubscribeEvent: ClassicMemberDraft.unsubscribe,
    events.SyncCommitEvent: lambda draft, given: draft.start_commit(given.offsets, state.Purpose.CALL, given.call),
    state.EnforceRebalance: ClassicMemberDraft.enforce_rebalance,
    state.Close: ClassicMemberDraft.begin_close,
    events.ConsumerRebalanceListenerCallbackCompletedEvent: ClassicMemberDraft.end_callback,
    state.PartitionCountsUpdated: ClassicMemberDraft.update_metadata,
    state.ClassicAnswered: ClassicMemberDraft.receive,
    CoordinatorFound: lambda draft, _: draft.happen(Event.COORDINATOR_FOUND),
    CoordinatorLost: lambda draft, _: draft.happen(Event.COORDINATOR_LOST),
    Tick: ClassicMemberDraft.tick,
}


def step(member: state.ClassicMember, given: state.ClassicInput, now_ms: int) -> Step:
    """The member after `given`.

    Raises `LocalProtocolError` for the end of a callback that is not open and for an unknown input,
    `RemoteProtocolError` for an answer to another request; `member` itself never changes.
    """
    handle = INPUTS.get(type(given))
    if handle is None:
        raise LocalProtocolError(f"{type(given).__name__} is not an input of a classic member")
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


def _handle_busy(draft: ClassicMemberDraft, handle: Callable[..., None], given: state.ClassicInput) -> None:
    """Handles a call during close() or a callback: a callback may make most calls, but not leave."""
    if draft.closed:
        if isinstance(given, state.ClassicAnswered):
            draft.in_flight -= 1  # a late answer, which changes nothing
        elif call := getattr(given, "call", 0):
            text = "the consumer is closed; create a new one"
            draft.effects.append(CallCompleted(call, events.KafkaError("IllegalStateException", text)))
    elif _may_not(draft, given):
        call = given.call if isinstance(given, events.ApplicationEvent) else 0
        draft.effects.append(CallCompleted(call, events.KafkaError("ConcurrentModificationException")))
    else:
        handle(draft, given)


def _may_not(draft: ClassicMemberDraft, given: state.ClassicInput) -> bool:
    if draft.closing is not None:
        return isinstance(given, CALLS)
    if isinstance(given, state.Close):
        return given.open_callback is state.OpenCallback.REFUSED
    return isinstance(given, events.UnsubscribeEvent)


# When to call again


def due_ms(member: state.ClassicMember) -> int:
    """The instant from which a `Tick` has an effect; it may be in the past."""
    if member.closed:
        return NEVER
    due = [NEVER]
    if member.coordinator_known and member.state in HEARTBEATING:
        due.append(member.heartbeats.due_ms())
    if member.closing is not None and member.awaited is None:
        due.append(member.closing.due_ms)
        if member.closing.stage is state.Stage.COMMITTING:
            due.append(member.closing.retry_due_ms)
    return min(due)


def poll_wanted_ms(member: state.ClassicMember) -> int:
    """The instant from which a poll does more than show that the application is alive."""
    if member.awaited is not None or member.closing is not None or member.topics is None:
        return NEVER
    if member.failure is not None or member.commit_fenced is not None:
        return 0
    if not member.coordinator_known:
        return NEVER
    if member.unread is not None or member.completion is not None:
        return 0
    if member.join_out:
        return NEVER
    if not (member.rejoin_needed or decisions.find_rejoin_cause(member)):
        return member.commit_due_ms
    if member.commit is not None and not member.commit.done:
        return min(member.commit.due_ms, NEVER if member.commit.retry_due_ms is None else member.commit.retry_due_ms)
    return member.retry_due_ms
