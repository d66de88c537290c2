"""The KIP-848 consumer member without IO: `step(member, input, now_ms) -> Step(member, effects)`.

A step has an input (an application event, a tick of the background loop, an answer). A function of
`fsm.member.consumer.decisions` names it as an event of the table; the table's cell gives the states to go through and
the effects to carry out, in order; each effect is the method of its name. The effects for the runtime are returned. The
table is the one that is drawn, checked and audited: `fsm.tables.consumer_member`, or its edition of the dialect.

A step is a function of its arguments. It raises `LocalProtocolError` or `RemoteProtocolError` for what the protocol
does not allow, and then changes nothing.

Source: client classes of Apache Kafka, branch 4.4 at 87943b2ff874; the dialects say where other releases differ.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

from fsm.errors import IllegalTransition, LocalProtocolError, RemoteProtocolError
from fsm.member import events, inputs
from fsm.member.consumer import decisions as decide
from fsm.member.consumer.effects import Effects
from fsm.member.consumer.state import Awaited, Member, Origin
from fsm.member.consumer.subscription import Subscribe, SubscriptionType, fits, match_pattern, subscribe
from fsm.member.dialect.choices import Choice
from fsm.member.effects import CallCompleted, CoordinatorSearchStopped, Enqueued, MemberEffect, PolledLate, Purpose
from fsm.protocol import messages as m
from fsm.protocol.assignment import partitions
from fsm.protocol.error_codes import ErrorCode
from fsm.table import Symbol
from fsm.tables.consumer_member import Effect, Event, State


class Step(NamedTuple):
    """The member after a step, and the effects and notices of the step, in order."""

    member: Member
    effects: tuple[MemberEffect, ...]


# Needed by every heartbeat: in Python 3.11 access to a member of an enum costs ten times that to a global.
_RECONCILING, _AUTO_PATTERN, _NO_ERROR = State.RECONCILING, SubscriptionType.AUTO_PATTERN, ErrorCode.NONE
_HEARTBEAT, _NUMBERED = Purpose.HEARTBEAT, Choice.ANSWERS_NUMBERED


class MemberDraft(Effects, effects=Effect):
    """A member during a step: one method for each input."""

    def enter(self, state: Symbol) -> None:
        """Goes to a state; where the dialect says so, leaving and being fenced cancel the open run."""
        super().enter(state)
        if state in (State.PREPARE_LEAVING, State.FENCED) and Choice.CANCEL_RUN in self.settings.choices:
            self.cancel_run()

    def happen_if(self, event: Event | None) -> None:
        """Takes the row of an event, if there is one."""
        if event is not None:
            self.happen(event)

    # Application events

    def poll(self, asked: events.AsyncPollEvent) -> None:
        """A poll: reconcile, commit, match the pattern, join, renew the poll timer, in this order."""
        if self.client.metadata_error is not None:
            self.effects.append(CallCompleted(self.call, self.client.metadata_error))
            self.learn(metadata_error=None)
            return
        config = self.settings.config
        if config.enable_auto_commit and asked.consumed != self.auto_commit.consumed:
            self.auto_commit = replace(self.auto_commit, consumed=asked.consumed)
        if self.state is _RECONCILING:
            self.reconcile_now(can_commit=True)
        if self.now_ms >= self.auto_commit.due_ms:
            self.commit_interval()
        if self.subscription.kind is _AUTO_PATTERN:
            self.update_pattern(asked)
        if self.updated:
            self.consume_flag()
        if self.now_ms >= self.poll_due_ms:
            self.poll_late()
        self.poll_due_ms = self.now_ms + config.max_poll_interval_ms
        if self.call:
            self.effects.append(CallCompleted(self.call))

    def poll_late(self) -> None:
        """The poll timer has run out before this poll."""
        late = decide.decide_late_poll(self, self.now_ms)
        if late is not None:
            self.effects.append(PolledLate())
            self.happen(late)

    def consume_flag(self) -> None:
        """Joins with an updated subscription, or clears its flag."""
        flag = decide.decide_flag(self)
        if flag is not None:
            self.updated = False
            self.happen(flag)

    def update_pattern(self, _: events.ApplicationEvent) -> None:
        """Matches the client's pattern again if the metadata has changed, and subscribes to the result."""
        if self.subscription.kind is not SubscriptionType.AUTO_PATTERN or not self.client.metadata_moved:
            return
        if self.state is State.FATAL and Choice.SUBSCRIBE_ENDS_FATAL in self.settings.choices:
            return  # only a call of the application ends it
        call, self.call = self.call, 0
        self.learn(metadata_moved=False)
        self.subscription_asked = match_pattern(self.subscription, self.client.metadata.values())
        self.happen(Event.SUBSCRIBE)
        self.call = call

    def subscribe(self, asked: Any) -> None:
        """subscribe(); fails under another type of subscription."""
        if not self._fits(asked):
            return
        self.subscription_asked = subscribe(self.subscription, asked, self.client.metadata.values())
        choices, changed = self.settings.choices, self.subscription_asked != self.subscription
        if self.state is State.FATAL and not changed and Choice.SUBSCRIBE_ENDS_FATAL in choices:
            self.complete_call()
            return
        self.happen(Event.SUBSCRIBE)
        if changed and self.state in decide.IN_GROUP and Choice.HEARTBEAT_ON_CHANGE in choices:
            self.heartbeat_due_ms = self.now_ms
        if self.state is State.UNSUBSCRIBED and Choice.JOIN_ON_SUBSCRIBE in choices:
            self.consume_flag()

    def assign(self, asked: events.AssignmentChangeEvent) -> None:
        """assign(): no event of the membership; as in a poll, the automatic commit comes first."""
        self.commit_interval()
        if self._fits(asked):
            self.subscription = subscribe(self.subscription, asked, ())
            self.ownership = self.ownership.own(partitions(asked.partitions))
            self.complete_call()

    def _fits(self, asked: Subscribe) -> bool:
        if fits(self.subscription, asked):
            return True
        text = "it is subscribed in another way; unsubscribe() before subscribing in this one"
        self.effects.append(CallCompleted(self.call, events.KafkaError("IllegalStateException", text)))
        return False

    def unsubscribe(self, _: events.UnsubscribeEvent) -> None:
        self.take_back()
        if Choice.POLL_TIMER_WHILE_LEAVING in self.settings.choices:
            self.poll_due_ms = self.now_ms + self.settings.config.max_poll_interval_ms
        if Choice.COMMIT_ON_UNSUBSCRIBE in self.settings.choices:
            self.commit_before_leave()
        self.happen(decide.decide_unsubscribe(self))

    def take_back(self) -> None:
        """In dialects where the last call counts, withdraws a subscription that no poll has seen."""
        if Choice.LAST_SUBSCRIPTION_COUNTS in self.settings.choices:
            self.updated = False

    def leave_on_close(self, asked: events.LeaveGroupOnCloseEvent) -> None:
        """close(), after its callback."""
        self.take_back()
        self.operation_asked = asked.operation
        self.happen(Event.CLOSE_LEAVE)

    def apply_assignment(self, asked: events.ApplyAssignmentEvent) -> None:
        """The application applies the assignment from the background queue."""
        origin = next((a.origin for a in self.awaited if a.ticket == asked.ticket), None)
        if origin is Origin.CANCELLED:
            self.effects.append(CallCompleted(self.call, events.OUTDATED))
            return
        if origin is not Origin.RUN_ASSIGNED:
            raise LocalProtocolError(f"no assignment is pending under ticket {asked.ticket}")
        self.applied = asked
        self.happen(decide.decide_apply(self))

    def end_callback(self, asked: events.ConsumerRebalanceListenerCallbackCompletedEvent) -> None:
        """Handles the end of a callback, by its origin."""
        awaited = next((a for a in self.awaited if a.ticket == asked.ticket), None)
        if awaited is None:
            raise LocalProtocolError(f"no callback is pending under ticket {asked.ticket}; each is completed once")
        self.awaited = tuple(a for a in self.awaited if a is not awaited)
        self.callback_error = asked.error
        if awaited.origin is not Origin.CANCELLED:
            self.happen(self._callback_event(awaited, asked.error))

    def _callback_event(self, awaited: Awaited, error: str | None) -> Event:
        if awaited.origin in _RELEASED:
            return _RELEASED[awaited.origin]
        if awaited.origin is Origin.STALE:
            return decide.decide_stale_done(self)
        self.run_in_hand = run = self._run()
        completed = Event.REVOKED_OK if awaited.origin is Origin.RUN_REVOKED else Event.ASSIGNED_OK
        event = decide.decide_run_step(self, run, completed, error)
        called = completed is Event.REVOKED_OK and event is not Event.RUN_FAILED
        if called and Choice.REMOVED_ONCE in self.settings.choices:
            self.give_up_revoked(run)
        return event

    def stop_find_coordinator(self, _: events.StopFindCoordinatorOnCloseEvent) -> None:
        """Stops the search for a coordinator."""
        self.leaving = replace(self.leaving, closing=True)
        self.effects.append(CoordinatorSearchStopped())

    def commit_on_close(self, _: events.CommitOnCloseEvent) -> None:
        self.leaving = replace(self.leaving, closing=True)

    # Background loop

    def tick(self, event: Event | None) -> None:
        """Commits, then one heartbeat event, then one attempt to reconcile; `event` as it is without a commit."""
        if self.commit is not None or event is None:
            self.happen_if(self.commit_tick())
            event = decide.decide_tick(self, self.now_ms)
        error = self.client.coordinator_error
        if error is not None and event in (Event.TICK_SKIP, Event.LEAVE_SKIPPED):
            self.effects.append(Enqueued(events.ErrorEvent(error)))
            self.learn(coordinator_error=None)
        self.happen(event)
        if self.state is _RECONCILING:
            self.reconcile_now(can_commit=False)

    def reconcile_now(self, *, can_commit: bool) -> None:
        """One attempt to reconcile; only RECONCILING has something to reconcile."""
        self.happen(self.reconcile(can_commit=can_commit))
        self.run_in_hand = None

    def close_flush(self, _: inputs.CloseFlush) -> None:
        """The last heartbeat of a background thread that stops."""
        self.happen_if(decide.decide_close_flush(self))

    # Answers

    def receive(self, given: inputs.Answered) -> None:
        """Handles an answer by the purpose of its request."""
        answer, purpose = given.answer, given.request.purpose
        if purpose is _HEARTBEAT and not isinstance(answer, m.OffsetCommitResponse):
            body = given.request.body
            if isinstance(answer, m.TransportFailure) and isinstance(body, m.ConsumerGroupHeartbeatRequest):
                self.give_up(body.member_epoch)
            numbered = _NUMBERED in self.settings.choices
            if numbered and not decide.is_awaited(self, given.request.number):
                self.pass_over(given.request.number)
            else:
                self._receive_heartbeat(answer)
            return
        if purpose is Purpose.UNWATCHED:
            return
        if isinstance(answer, m.ConsumerGroupHeartbeatResponse) or purpose is Purpose.HEARTBEAT:
            raise RemoteProtocolError(f"{type(answer).__name__} does not answer {type(given.request.body).__name__}")
        if purpose is Purpose.RUN_COMMIT:
            self.happen_if(self.run_commit_answered(given.request.number, answer))
        elif purpose is Purpose.INTERVAL_COMMIT:
            self.interval_commit_answered(answer)
        else:
            self.call = given.request.call
            self.call_commit_answered(answer)

    def _receive_heartbeat(self, answer: m.ConsumerGroupHeartbeatResponse | m.TransportFailure) -> None:
        if isinstance(answer, m.TransportFailure):
            self.failure = decide.read_failure(answer)
            self.happen(decide.decide_failure(self, answer))
        elif answer.error_code is not _NO_ERROR:
            self.failure = decide.read_error(answer.error_code, answer.error_message)
            self.happen(decide.decide_error(self, answer.error_code))
        else:
            self.response = answer
            self.end_request(answer)
            self.happen(decide.decide_response(self, answer))

    # What the client learns of its cluster

    def lose_coordinator(self, given: inputs.CoordinatorLost) -> None:
        """There is no coordinator; a fatal error of the lookup waits for the next tick."""
        error = given.error or self.client.coordinator_error
        self.learn(coordinator_known=False, coordinator_error=error)


_RELEASED = {
    Origin.LEAVE: Event.LEAVE_CB_DONE,
    Origin.FENCE: Event.LOST_DONE_FENCE,
    Origin.FATAL: Event.LOST_DONE_FATAL,
}

INPUTS: Mapping[type[Any], Callable[[MemberDraft, Any], None]] = {
    events.AsyncPollEvent: MemberDraft.poll,
    events.TopicSubscriptionChangeEvent: MemberDraft.subscribe,
    events.TopicPatternSubscriptionChangeEvent: MemberDraft.subscribe,
    events.TopicRe2JPatternSubscriptionChangeEvent: MemberDraft.subscribe,
    events.UpdatePatternSubscriptionEvent: MemberDraft.update_pattern,
    events.AssignmentChangeEvent: MemberDraft.assign,
    events.UnsubscribeEvent: MemberDraft.unsubscribe,
    events.LeaveGroupOnCloseEvent: MemberDraft.leave_on_close,
    events.ApplyAssignmentEvent: MemberDraft.apply_assignment,
    events.ConsumerRebalanceListenerCallbackCompletedEvent: MemberDraft.end_callback,
    events.StopFindCoordinatorOnCloseEvent: MemberDraft.stop_find_coordinator,
    events.CommitOnCloseEvent: MemberDraft.commit_on_close,
    events.SyncCommitEvent: lambda draft, asked: draft.commit_called(asked.offsets),
    inputs.CoordinatorFound: lambda draft, _: draft.learn(coordinator_known=True),
    inputs.CoordinatorLost: MemberDraft.lose_coordinator,
    inputs.MetadataUpdated: lambda draft, given: draft.learn(metadata=given.names, metadata_moved=True),
    inputs.MetadataFailed: lambda draft, given: draft.learn(metadata_error=given.error),
    inputs.CloseFlush: MemberDraft.close_flush,
}
"""What each input does, beside a tick and an answer."""


def step(member: Member, given: inputs.MemberInput, now_ms: int) -> Step:
    """The member after `given` at `now_ms`, and its effects.

    Raises `LocalProtocolError` for an illegal call, `RemoteProtocolError` for an illegal answer; `member` itself never
    changes.
    """
    event = None
    if type(given) is inputs.Tick:
        event = decide.decide_tick(member, now_ms)
        quiet = member.commit is None and member.client.coordinator_error is None
        if event in _IGNORED and quiet and member.state is not State.RECONCILING:
            return _made((member, ()))  # by far the most frequent ticks
    draft: MemberDraft = MemberDraft.of(member)
    draft.now_ms, draft.effects = now_ms, []
    try:
        if type(given) is inputs.Tick:
            draft.jitter = given.jitter
            draft.tick(event)
        elif type(given) is inputs.Answered:
            draft.jitter = given.jitter
            draft.receive(given)
        else:
            if isinstance(given, events.ApplicationEvent):
                draft.call = given.call
            INPUTS[type(given)](draft, given)
    except IllegalTransition as illegal:
        whose = RemoteProtocolError if type(given) is inputs.Answered else LocalProtocolError
        raise whose(str(illegal)) from illegal
    return _made((draft.close(), tuple(draft.effects)))


_made = partial(tuple.__new__, Step)
"""Makes a `Step`, at half the price."""
_IGNORED: frozenset[Event | None] = frozenset({Event.HB_IDLE, Event.TICK_SKIP})
