"""What the application's thread does in a classic member: poll, callbacks, unsubscribe, close.

`advance` goes as far as it gets without waiting; where Java's `poll` would block, it returns, and the next poll or
answer goes on from there. Callbacks run in the runtime: the member asks for one, and goes on when it is reported.

Source: `ConsumerCoordinator.poll`, `joinGroupIfNeeded`, `onJoinPrepare`, `onJoinComplete`, `onLeavePrepare`, `close`.
"""

from __future__ import annotations

from dataclasses import replace

from fsm.errors import LocalProtocolError
from fsm.member.classic.answers import Answers
from fsm.member.classic.decisions import decide_leave, decide_prepare, find_rejoin_cause, matches_subscription
from fsm.member.classic.state import Close, Closing, Commit, OpenCallback, Purpose, Rest, Stage
from fsm.member.effects import CallCompleted, Enqueued
from fsm.member.events import (
    AsyncPollEvent,
    ConsumerRebalanceListenerCallbackCompletedEvent,
    ErrorEvent,
    GroupMembershipOperation,
    KafkaError,
    ListenerMethod,
    UnsubscribeEvent,
)
from fsm.protocol.assignment import without
from fsm.protocol.messages import Offsets
from fsm.tables.classic_member import Effect, Event, State

LEAVING = "consumer pro-actively leaving the group"
LISTENER_RAISED = "the rebalance listener raised"


class Application(Answers):
    """The calls of the application."""

    # poll()

    def poll(self, given: AsyncPollEvent) -> None:
        """poll(): tells that the application is alive, and does what waits for it.

        Inside a callback, in close() and without a subscription it does nothing.
        """
        if self.awaited is not None or self.closing is not None or self.topics is None:
            return
        if self.config.enable_auto_commit:
            self.consumed = given.consumed
        error, self.failure = self.failure or self.commit_fenced, None
        if error is not None:
            self.effects.append(Enqueued(ErrorEvent(error)))
            return
        self.heartbeats = self.heartbeats.poll(self.config, self.now_ms)
        self.advance()

    def advance(self) -> None:
        """The rebalance, as far as it goes without waiting."""
        self.polling = True
        while not self.thrown and self.awaited is None and self.topics is not None and self.coordinator_known:
            if not self._one_move():
                break
        self.polling = False

    def _one_move(self) -> bool:
        """False where there is nothing to do, or something to wait for."""
        if self.unread is not None:
            self.end_join(*self.unread)
        elif self.completion is not None:
            self._complete_join(self.completion)
        elif self.join_out or self.now_ms < self.retry_due_ms or not self._rejoins():
            return False
        elif not self.prepare_needed:
            self.happen(Event.JOIN_SENT)
            self.send_join_group()
        elif self._committed():
            self.prepare_needed = False
            self.happen(decide_prepare(self))
        else:
            return False
        return True

    def _rejoins(self) -> bool:
        cause = None if self.rejoin_needed else find_rejoin_cause(self)
        if cause is not None:
            self.happen(Event.REJOIN_REQUESTED, cause)
        return self.rejoin_needed

    def _committed(self) -> bool:
        """Whether the commit before the join is over: done, failed for good, or out of time."""
        if not self.config.enable_auto_commit:
            return True
        if self.commit is None:
            self.commit = Commit(self.now_ms + self.config.max_poll_interval_ms)
            self.start_commit(self.positions(), Purpose.PREPARE)
        elif self.commit.retry_due_ms is not None and self.now_ms >= self.commit.retry_due_ms:
            self.commit = Commit(self.commit.due_ms)
            self.start_commit(self.positions(), Purpose.PREPARE)
        if not self.commit.done and self.now_ms < self.commit.due_ms:
            return False
        self.commit = None
        return True

    def positions(self) -> Offsets:
        """What the application has consumed of what it owns, where that is committed automatically."""
        owned = {*self.owned}
        return tuple((p, offset) for p, offset in self.consumed if p in owned)

    def _complete_join(self, completion: Rest) -> None:
        """Applies the assignment, unless it is out of date or no more what is subscribed to."""
        if self.state is not State.STABLE or self.generation.is_reset:
            self.completion = None
            reason = "rebalance failed since the generation was reset before the assigned callback"
            self.happen(Event.ASSIGNMENT_OUTDATED, reason)
        elif not matches_subscription(self, self.assigned):
            self.completion, self.prepare_needed = None, True
            self.happen(Event.REJOIN_REQUESTED, "received assignment does not match the current subscription")
        else:
            self.go_on(completion.steps, completion.reason)

    # Callbacks

    def end_callback(self, given: ConsumerRebalanceListenerCallbackCompletedEvent) -> None:
        """Goes on where the callback paused a row. Raises `LocalProtocolError` where none of that ticket is open."""
        awaited = self.awaited
        if awaited is None or awaited.ticket != given.ticket:
            text = f"no callback of ticket {given.ticket} is open; report the end of each callback once"
            raise LocalProtocolError(text)
        error = KafkaError("KafkaException", LISTENER_RAISED) if given.error is not None else None
        self.awaited = None
        if awaited.method is not ListenerMethod.ASSIGNED:
            self.owned = without(self.owned, awaited.partitions)
        if self.closing is not None or self.unsubscribing is not None:
            self._end_membership(awaited.rest, error)
        elif self.completion is not None:
            self._end_completion(awaited.rest, error)
        elif error is not None:  # poll() throws it, and the next one goes on: what was revoked is gone all the same
            self.effects.append(Enqueued(ErrorEvent(error)))
        else:
            self.advance()

    def _end_completion(self, rest: Rest | None, error: KafkaError | None) -> None:
        """The row goes on whatever its callbacks raise; at its end the first error is thrown, and a poll repeats it."""
        self.callback_error = self.callback_error or error
        if rest is not None:
            self.polling = True
            self.go_on(rest.steps, rest.reason)
            self.polling = False
        if self.awaited is not None:
            return
        if self.callback_error is not None:
            self.effects.append(Enqueued(ErrorEvent(self.callback_error)))
            self.callback_error, self.completion = None, Rest((Effect.ASSIGN_PARTITIONS,))
            return
        self.completion, self.prepare_needed = None, True
        self.advance()

    # unsubscribe() and close()

    def unsubscribe(self, given: UnsubscribeEvent) -> None:
        """unsubscribe(): the last callback, then the leave."""
        self.unsubscribing = given.call
        self._leave(GroupMembershipOperation.DEFAULT)

    def _leave(self, operation: GroupMembershipOperation) -> None:
        self.happen(decide_leave(self, operation), LEAVING)
        if self.awaited is None:
            self._end_membership(None, None)

    def _end_membership(self, rest: Rest | None, error: KafkaError | None) -> None:
        """A callback that raised keeps the leave from being sent: the session timeout tells the coordinator."""
        if rest is not None and error is None:
            self.go_on(rest.steps, rest.reason)
        if self.closing is not None:
            self.closing = replace(self.closing, stage=Stage.DRAINING, error=error)
            return
        if error is None:
            self.topics = self.pattern = None
        self.effects.append(CallCompleted(self.unsubscribing or 0, error))
        self.unsubscribing = None

    def begin_close(self, given: Close) -> None:
        """close() begins."""
        self._go_past_callback(given.open_callback)
        if self.config.enable_auto_commit:
            self.consumed = given.consumed or self.consumed
        self.closing = Closing(given.call, self.now_ms + given.timeout_ms, given.operation, Stage.COMMITTING)

    def _go_past_callback(self, open_callback: OpenCallback) -> None:
        """What an open callback is about changes hands as far as the application has begun it; nothing follows it.

        A call of unsubscribe() that waits for it returns: close() leaves in its place.
        """
        awaited = self.awaited
        if awaited is None:
            return
        self.awaited = self.completion = None
        assigned, begun = awaited.method is ListenerMethod.ASSIGNED, open_callback is OpenCallback.BEGUN
        if assigned is not begun:
            self.owned = without(self.owned, awaited.partitions)
        if self.unsubscribing is not None:
            self.effects.append(CallCompleted(self.unsubscribing))
            self.unsubscribing = None

    def advance_close(self) -> None:
        """close() as far as it goes: the commit, the last callback and the leave, then the answers still open."""
        closing = self.closing
        if closing is None or self.awaited is not None or closing.stage is Stage.CLOSED:
            return
        late = self.now_ms >= closing.due_ms
        if closing.stage is Stage.COMMITTING and self.now_ms >= closing.retry_due_ms:
            self.closing = replace(closing, stage=Stage.COMMIT_SENT)
            self.start_commit(self.positions(), Purpose.CLOSE)
        if self._stage() is Stage.LEAVING or (late and self._stage() is not Stage.DRAINING):
            self._close_membership(closing.operation)
        answered = self.in_flight == 0 or late or not self.coordinator_known
        if self._stage() is Stage.DRAINING and self.awaited is None and answered:
            self._end_close()

    def _stage(self) -> Stage | None:
        return self.closing.stage if self.closing is not None else None

    def _close_membership(self, operation: GroupMembershipOperation) -> None:
        self.heartbeats = self.heartbeats.stop()
        if self.config.leave_group_on_close:
            self._leave(operation)
        else:
            self._end_membership(None, None)

    def _end_close(self) -> None:
        if self.closing is not None:
            self.effects.append(CallCompleted(self.closing.call, self.closing.error))
            self.closing = replace(self.closing, stage=Stage.CLOSED)
