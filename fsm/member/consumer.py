"""The KIP-848 consumer member without IO: `step(member, input, now_ms) -> Step(member, effects)`.

How a step goes. Something happened (an application event, a tick of the background loop, an answer). A function of
`fsm.member.decisions` names it as an event of the table; the table's cell gives the states to go through and the
effects to carry out, in order; each effect is one short function of `EFFECTS`. What the embedding has to do is
returned. The table is the one that is drawn, checked and audited: `fsm.tables.consumer_member`, or its edition of
the member's dialect.

A step is a function of its arguments. It raises `LocalProtocolError` or `RemoteProtocolError` for what the protocol
does not allow, and then changes nothing.

Source: client classes of Apache Kafka, branch 4.4 at 87943b2ff874; the dialects say where other releases differ.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from fsm.errors import IllegalTransition, LocalProtocolError, RemoteProtocolError
from fsm.kafka.assignment import partitions
from fsm.kafka.error_codes import ErrorCode
from fsm.kafka.events import (
    OUTDATED,
    ApplicationEvent,
    ApplyAssignmentEvent,
    AssignmentChangeEvent,
    AsyncPollEvent,
    CommitOnCloseEvent,
    ConsumerRebalanceListenerCallbackCompletedEvent,
    ErrorEvent,
    KafkaError,
    LeaveGroupOnCloseEvent,
    StopFindCoordinatorOnCloseEvent,
    SyncCommitEvent,
    TopicPatternSubscriptionChangeEvent,
    TopicRe2JPatternSubscriptionChangeEvent,
    TopicSubscriptionChangeEvent,
    UnsubscribeEvent,
    UpdatePatternSubscriptionEvent,
)
from fsm.kafka.messages import ConsumerGroupHeartbeatResponse, OffsetCommitResponse, TransportFailure
from fsm.member import decisions as decide
from fsm.member import heartbeat, membership, reconciliation
from fsm.member.choices import Choice
from fsm.member.effects import (
    CallCompleted,
    CoordinatorSearchStopped,
    Enqueued,
    MemberEffect,
    Purpose,
    ReconciliationChecked,
    Transition,
)
from fsm.member.inputs import (
    Answered,
    CloseFlush,
    CoordinatorFound,
    CoordinatorLost,
    MemberInput,
    MetadataFailed,
    MetadataUpdated,
    Tick,
)
from fsm.member.state import Awaited, Draft, Member, Origin
from fsm.member.subscription import SubscriptionType, fits, matched, subscribed
from fsm.table import Symbol
from fsm.tables.consumer_member import Effect, Event, State


class Step(NamedTuple):
    """The member after a step, and what the step orders and tells, in order."""

    member: Member
    effects: tuple[MemberEffect, ...]


EFFECTS: Mapping[Effect, Callable[[Draft], Event | None]] = {
    # Epoch
    Effect.ADOPT_EPOCH: membership.adopt_epoch,
    Effect.RESET_EPOCH: membership.reset_epoch,
    Effect.SET_LEAVE_EPOCH: membership.set_leave_epoch,
    Effect.NOTIFY_NO_EPOCH: membership.notify_no_epoch,
    # Subscription and assignment
    Effect.STORE_SUBSCRIPTION: membership.store_subscription,
    Effect.FLAG_SUBSCRIPTION: membership.flag_subscription,
    Effect.UNSUBSCRIBE_ALL: membership.unsubscribe_all,
    Effect.CLEAR_ASSIGNMENT: membership.clear_assignment,
    Effect.NOTIFY_EMPTY_ASSIGNMENT: membership.notify_empty_assignment,
    Effect.BUMP_TARGET: membership.bump_target,
    Effect.DROP_TARGET: membership.drop_target,
    Effect.ADOPT_CURRENT: reconciliation.adopt_current,
    Effect.DROP_CURRENT: membership.drop_current,
    Effect.PRUNE_NAMES: reconciliation.prune_names,
    Effect.SET_OWNED: reconciliation.set_owned,
    Effect.MARK_ADDED: reconciliation.mark_added,
    Effect.NOTIFY_ASSIGNMENT: reconciliation.notify_assignment,
    Effect.REJECT_ASSIGNMENT: reconciliation.reject_assignment,
    Effect.ENABLE_ASSIGNED: reconciliation.enable_assigned,
    # A reconciliation run
    Effect.OPEN_RUN: reconciliation.open_run,
    Effect.MARK_REVOKED: reconciliation.mark_revoked,
    Effect.COMMIT_CONSUMED: reconciliation.commit_consumed,
    Effect.ENQUEUE_REVOKED: reconciliation.enqueue_revoked,
    Effect.ENQUEUE_ASSIGNED: reconciliation.enqueue_assigned,
    Effect.RESET_AUTO_COMMIT: reconciliation.reset_auto_commit,
    Effect.END_RUN: reconciliation.end_run,
    Effect.MARK_REJOINED: membership.mark_rejoined,
    # Releases
    Effect.MARK_OWNED: membership.mark_owned,
    Effect.ENQUEUE_REMOVED_LEAVE: membership.enqueue_removed_leave,
    Effect.RELEASE_LOST_FENCE: membership.release_lost_fence,
    Effect.RELEASE_LOST_FATAL: membership.release_lost_fatal,
    Effect.RELEASE_LOST_STALE: membership.release_lost_stale,
    Effect.REGISTER_REJOIN: membership.register_rejoin,
    Effect.COMPLETE_STALE_RELEASE: membership.complete_stale_release,
    # Leaving
    Effect.STORE_OPERATION: membership.store_operation,
    Effect.CREATE_LEAVE: membership.create_leave,
    Effect.AWAIT_LEAVE: membership.await_leave,
    Effect.COMPLETE_LEAVE: membership.complete_leave,
    Effect.COMPLETE_CALL: membership.complete_call,
    Effect.NOTE_POLL_EXPIRED: membership.note_poll_expired,
    # Heartbeats
    Effect.SEND_FULL_HEARTBEAT: heartbeat.send,
    Effect.SEND_DELTA_HEARTBEAT: heartbeat.send,
    Effect.SEND_ACK_HEARTBEAT: heartbeat.send,
    Effect.SEND_LEAVE_HEARTBEAT: heartbeat.send,
    Effect.SEND_LEAVE_HEARTBEAT_UNWATCHED: heartbeat.send_unwatched,
    Effect.SEND_HEARTBEAT_UNWATCHED: heartbeat.send_unwatched,
    Effect.WIPE_SENT: heartbeat.wipe_sent,
    Effect.FAIL_REQUEST: heartbeat.fail_request,
    Effect.RESET_REQUEST: heartbeat.reset_request,
    Effect.FORGET_COORDINATOR: heartbeat.forget_coordinator,
    Effect.ENQUEUE_ERROR: membership.enqueue_error,
    Effect.RUN_FAILURE_HOOK: heartbeat.run_failure_hook,
}
"""One function for each effect of the table. It returns the event that is due before the row's next step, if any."""


def happen(d: Draft, event: Event) -> None:
    """Carries out the row of an event: its states and effects in order, and what falls due among them."""
    around = getattr(d, "event", event)
    d.event = event
    for step in d.settings.dialect.cells[d.state][event].steps:
        if isinstance(step, State):
            enter(d, step)
        elif (due := EFFECTS[step](d)) is not None:  # type: ignore[index]  # a step is a State or an Effect
            happen(d, due)
    d.event = around


def enter(d: Draft, target: State) -> None:
    """Goes to a state; the log line shows the epoch of this moment."""
    d.effects.append(Transition(d.state, target, d.epoch, d.event))
    if target is State.RECONCILING:
        d.rebalance_open = d.rebalance_open or d.state is not target
    elif d.state is State.RECONCILING and target in (State.STABLE, State.ACKNOWLEDGING):
        d.rebalance_open = False
    d.state = target
    if target in (State.PREPARE_LEAVING, State.FENCED) and Choice.CANCEL_RUN in d.settings.dialect:
        reconciliation.cancel_run(d)


def _happen_if(d: Draft, event: Event | None) -> None:
    if event is not None:
        happen(d, event)


# Application events


def poll(d: Draft, asked: AsyncPollEvent) -> None:
    """A poll: reconcile, commit, match the pattern, join, renew the poll timer, in this order."""
    if d.metadata_error is not None:
        error, d.metadata_error = d.metadata_error, None
        d.effects.append(CallCompleted(d.call, error))
        return
    d.consumed = asked.consumed
    attempt(d, can_commit=True)
    d.effects.append(ReconciliationChecked(d.call))
    reconciliation.interval_commit(d)
    update_pattern(d, asked)
    consume_flag(d)
    late = decide.decide_late_poll(d, d.now_ms)
    if late is not None:
        d.poll_expired = False
        happen(d, late)
    d.poll_due_ms = d.now_ms + d.settings.config.max_poll_interval_ms
    membership.complete_call(d)


def consume_flag(d: Draft) -> None:
    """Joins with an updated subscription, or takes note that one has been seen."""
    flag = decide.decide_flag(d)
    if flag is not None:
        d.updated = False
        happen(d, flag)


def update_pattern(d: Draft, _asked: ApplicationEvent) -> None:
    """Matches the client's pattern anew where the metadata has changed; a subscription like any other."""
    if d.subscription.kind is not SubscriptionType.AUTO_PATTERN or not d.metadata_moved:
        return
    if d.state is State.FATAL and Choice.SUBSCRIBE_ENDS_FATAL in d.settings.dialect:
        return  # only the application's own word ends it
    call, d.call, d.metadata_moved = d.call, 0, False
    d.subscription_asked = matched(d.subscription, d.metadata.values())
    happen(d, Event.SUBSCRIBE)
    d.call = call


def subscribe(d: Draft, asked: Any) -> None:
    """subscribe(); fails where partitions are got in another way already."""
    if not _fits(d, asked):
        return
    d.subscription_asked = subscribed(d.subscription, asked, d.metadata.values())
    rules, changed = d.settings.dialect, d.subscription_asked != d.subscription
    if d.state is State.FATAL and not changed and Choice.SUBSCRIBE_ENDS_FATAL in rules:
        membership.complete_call(d)
        return
    happen(d, Event.SUBSCRIBE)
    if changed and d.state in decide.IN_GROUP and Choice.HEARTBEAT_ON_CHANGE in rules:
        d.heartbeat_due_ms = d.now_ms
    if d.state is State.UNSUBSCRIBED and Choice.JOIN_ON_SUBSCRIBE in rules:
        consume_flag(d)


def assign(d: Draft, asked: AssignmentChangeEvent) -> None:
    """assign(): no event of the membership; as in a poll, the automatic commit comes first."""
    reconciliation.interval_commit(d)
    if _fits(d, asked):
        d.subscription = subscribed(d.subscription, asked, ())
        d.ownership = d.ownership.own(partitions(asked.partitions))
        membership.complete_call(d)


def _fits(d: Draft, asked: Any) -> bool:
    if fits(d.subscription, asked):
        return True
    text = "it is subscribed in another way; unsubscribe() before subscribing in this one"
    d.effects.append(CallCompleted(d.call, KafkaError("IllegalStateException", text)))
    return False


def unsubscribe(d: Draft, _asked: UnsubscribeEvent) -> None:
    """unsubscribe()."""
    take_back(d)
    if d.settings.config.enable_auto_commit and Choice.COMMIT_ON_UNSUBSCRIBE in d.settings.dialect:
        reconciliation.commit_and_forget(d)
    happen(d, decide.decide_unsubscribe(d))


def take_back(d: Draft) -> None:
    """A subscription that no poll has seen is none any more, where the last word counts."""
    if Choice.LAST_SUBSCRIPTION_COUNTS in d.settings.dialect:
        d.updated = False


def leave_on_close(d: Draft, asked: LeaveGroupOnCloseEvent) -> None:
    """close(), after its callback."""
    take_back(d)
    d.operation_asked = asked.operation
    happen(d, Event.CLOSE_LEAVE)


def apply(d: Draft, asked: ApplyAssignmentEvent) -> None:
    """The application applies what it was sent."""
    origin = next((a.origin for a in d.awaited if a.ticket == asked.ticket), None)
    if origin is Origin.CANCELLED:
        d.effects.append(CallCompleted(d.call, OUTDATED))
        return
    if origin is not Origin.RUN_ASSIGNED:
        raise LocalProtocolError(f"no assignment waits under ticket {asked.ticket}")
    d.full, d.added = asked.full, asked.added
    happen(d, decide.decide_apply(d))


def callback_completed(d: Draft, asked: ConsumerRebalanceListenerCallbackCompletedEvent) -> None:
    """A callback came back; what that means is decided by what it was asked for."""
    awaited = next((a for a in d.awaited if a.ticket == asked.ticket), None)
    if awaited is None:
        raise LocalProtocolError(f"no callback waits under ticket {asked.ticket}; each is completed once")
    d.awaited = tuple(a for a in d.awaited if a is not awaited)
    d.callback_error = asked.error
    _happen_if(d, _completed(d, awaited, asked.error))


_RELEASED = {
    Origin.LEAVE: Event.LEAVE_CB_DONE,
    Origin.FENCE: Event.LOST_DONE_FENCE,
    Origin.FATAL: Event.LOST_DONE_FATAL,
}


def _completed(d: Draft, awaited: Awaited, error: str | None) -> Event | None:
    if awaited.origin is Origin.CANCELLED:
        return None
    if awaited.origin in _RELEASED:
        return _RELEASED[awaited.origin]
    if awaited.origin is Origin.STALE:
        return decide.decide_stale_done(d)
    d.run_in_hand = run = d.run
    if run is None:
        raise LookupError("a callback of a run came back, but none is open")
    completed = Event.REVOKED_OK if awaited.origin is Origin.RUN_REVOKED else Event.ASSIGNED_OK
    event = decide.decide_run_step(d, run, completed, error)
    called = completed is Event.REVOKED_OK and event is not Event.RUN_FAILED
    if called and Choice.REMOVED_ONCE in d.settings.dialect:
        reconciliation.give_up_revoked(d, run)
    return event


def stop_find_coordinator(d: Draft, _asked: StopFindCoordinatorOnCloseEvent) -> None:
    """A coordinator unknown from here on stays unknown."""
    d.closing = True
    d.effects.append(CoordinatorSearchStopped())


def commit_on_close(d: Draft, _asked: CommitOnCloseEvent) -> None:
    """No automatic commit any more."""
    d.closing = True


def sync_commit(d: Draft, asked: SyncCommitEvent) -> None:
    """commitSync()."""
    reconciliation.commit_called(d, asked.offsets)


# Background loop


def tick(d: Draft, _asked: Tick) -> None:
    """Commits, then one heartbeat event, then one attempt to reconcile."""
    _happen_if(d, reconciliation.commit_tick(d))
    event = decide.decide_tick(d, d.now_ms)
    if d.coordinator_error is not None and event in (Event.TICK_SKIP, Event.LEAVE_SKIPPED):
        d.effects.append(Enqueued(ErrorEvent(d.coordinator_error)))
        d.coordinator_error = None
    happen(d, event)
    attempt(d, can_commit=False)


def attempt(d: Draft, *, can_commit: bool) -> None:
    """One attempt to reconcile, in the one state that has something to reconcile."""
    if d.state is State.RECONCILING:
        event = reconciliation.attempt(d, can_commit=can_commit)
        happen(d, event)
        d.run_in_hand = None


def close_flush(d: Draft, _asked: CloseFlush) -> None:
    """The last heartbeat of a background thread that stops."""
    _happen_if(d, decide.decide_close_flush(d))


# Answers


def answered(d: Draft, given: Answered) -> None:
    """An answer means what its request was sent for."""
    answer = given.answer
    match given.request.purpose:
        case Purpose.UNWATCHED:
            return
        case Purpose.HEARTBEAT if not isinstance(answer, OffsetCommitResponse):
            if decide.counts(d, given.request.number):
                heartbeat_answered(d, answer)
        case _ if isinstance(answer, ConsumerGroupHeartbeatResponse) or given.request.purpose is Purpose.HEARTBEAT:
            raise RemoteProtocolError(f"{type(answer).__name__} does not answer {type(given.request.body).__name__}")
        case Purpose.RUN_COMMIT:
            _happen_if(d, reconciliation.run_commit_answered(d, given.request.number, answer))
        case Purpose.INTERVAL_COMMIT:
            reconciliation.interval_commit_answered(d, answer)
        case Purpose.CALL_COMMIT:
            d.call = given.request.call
            reconciliation.call_commit_answered(d, answer)


def heartbeat_answered(d: Draft, answer: ConsumerGroupHeartbeatResponse | TransportFailure) -> None:
    """A response or its lack, as an event."""
    if isinstance(answer, TransportFailure):
        d.failure = decide.failure_of_transport(answer)
        happen(d, decide.decide_failure(d, answer))
    elif answer.error_code is not ErrorCode.NONE:
        d.failure = decide.failure_of(answer.error_code, answer.error_message)
        happen(d, decide.decide_error(d, answer.error_code))
    else:
        d.response = answer
        heartbeat.adopt(d, answer)
        happen(d, decide.decide_response(d, answer))


# What the client learns of its cluster


def coordinator_found(d: Draft, _given: CoordinatorFound) -> None:
    """Requests may be sent."""
    d.coordinator_known = True


def coordinator_lost(d: Draft, given: CoordinatorLost) -> None:
    """Requests may not be sent; a fatal error of the search waits for the next tick."""
    d.coordinator_known = False
    d.coordinator_error = given.error or d.coordinator_error


def metadata_updated(d: Draft, given: MetadataUpdated) -> None:
    """Names are there for the next attempt, topics for the next match."""
    d.metadata, d.metadata_moved = given.names, True


def metadata_failed(d: Draft, given: MetadataFailed) -> None:
    """The next poll fails."""
    d.metadata_error = given.error


INPUTS: Mapping[type[Any], Callable[[Draft, Any], None]] = {
    Tick: tick,
    Answered: answered,
    AsyncPollEvent: poll,
    TopicSubscriptionChangeEvent: subscribe,
    TopicPatternSubscriptionChangeEvent: subscribe,
    TopicRe2JPatternSubscriptionChangeEvent: subscribe,
    UpdatePatternSubscriptionEvent: update_pattern,
    AssignmentChangeEvent: assign,
    UnsubscribeEvent: unsubscribe,
    LeaveGroupOnCloseEvent: leave_on_close,
    ApplyAssignmentEvent: apply,
    ConsumerRebalanceListenerCallbackCompletedEvent: callback_completed,
    StopFindCoordinatorOnCloseEvent: stop_find_coordinator,
    CommitOnCloseEvent: commit_on_close,
    SyncCommitEvent: sync_commit,
    CoordinatorFound: coordinator_found,
    CoordinatorLost: coordinator_lost,
    MetadataUpdated: metadata_updated,
    MetadataFailed: metadata_failed,
    CloseFlush: close_flush,
}
"""What each input does to a draft."""


def step(member: Member, given: MemberInput, now_ms: int) -> Step:
    """The member after `given` happened at `now_ms`, and what follows from it.

    Raises `LocalProtocolError` where the application asked for what it may not, `RemoteProtocolError` where the
    coordinator answered so; the member is then as it was.
    """
    if type(given) is Tick and _nothing_to_do(member, now_ms):
        return Step(member, ())
    draft = Draft(member, now_ms, getattr(given, "jitter", 0.0))
    if isinstance(given, ApplicationEvent):
        draft.call = given.call
    try:
        INPUTS[type(given)](draft, given)
    except IllegalTransition as illegal:
        whose = RemoteProtocolError if isinstance(given, Answered) else LocalProtocolError
        raise whose(str(illegal)) from illegal
    return Step(draft.frozen(), tuple(draft.effects))


_QUIET: frozenset[Symbol] = frozenset({Event.HB_IDLE, Event.TICK_SKIP})


def _nothing_to_do(member: Member, now_ms: int) -> bool:
    """Whether a tick would meet nothing but events that the table ignores: by far the most ticks of a life."""
    return (
        member.state is not State.RECONCILING
        and member.commit is None
        and member.coordinator_error is None
        and decide.decide_tick(member, now_ms) in _QUIET
    )
