"""The decisions of a consumer member, each named as an event of its table, and how long those around it may wait.

The table has no guards: whoever hands it an event has decided before. These functions are pure and look at a member
alone; each says when it gives which event. What an event means is said in `fsm.tables.consumer_member.Event`.

Source: `AbstractMembershipManager`, `ConsumerMembershipManager`, `AbstractHeartbeatRequestManager`,
`ConsumerHeartbeatRequestManager`, `ApplicationEventProcessor`; for the waits `maximumTimeToWait` of the request
managers and `AsyncKafkaConsumer.pollForFetches`, `.collectFetch`.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet

from fsm.member.consumer.state import Failure, Forgets, Member, Origin, Run, StaleRelease
from fsm.member.dialect.choices import Choice
from fsm.member.events import GroupMembershipOperation, KafkaError
from fsm.member.timers import NEVER
from fsm.protocol.assignment import Partitions, among, without
from fsm.protocol.error_codes import ErrorCode
from fsm.protocol.messages import UNSUPPORTED_VERSION, ConsumerGroupHeartbeatResponse, TransportFailure
from fsm.tables.consumer_member import MEMBER, NOT_IN_GROUP, ON_THE_WAY_OUT, Event, State

IN_GROUP = frozenset(MEMBER)
SILENT = frozenset(NOT_IN_GROUP)
"""States that send no heartbeat."""
LEAVING = frozenset(ON_THE_WAY_OUT)
AT_ONCE = frozenset({State.JOINING, State.ACKNOWLEDGING, State.LEAVING})
"""States whose heartbeat does not wait for the interval."""

# What every heartbeat asks for: in Python 3.11 a member of an enum costs ten times a global.
_LEAVING, _ACKNOWLEDGING, _UNSUBSCRIBED = State.LEAVING, State.ACKNOWLEDGING, State.UNSUBSCRIBED
_HB_SENT, _RESP_EPOCH = Event.HB_SENT, Event.RESP_EPOCH


# What is asked of a member


def remains(member: Member) -> bool:
    """Whether a dynamic member was closed with REMAIN_IN_GROUP."""
    asked = member.leaving.operation is GroupMembershipOperation.REMAIN_IN_GROUP
    return asked and not member.settings.is_static


def remains_silent(member: Member) -> bool:
    """Whether such a member tells the coordinator nothing: its session runs out."""
    return remains(member) and Choice.REMAIN_IS_SILENT in member.settings.choices


def is_leaving(member: Member) -> bool:
    """Whether the member is on its way out, and not only closed to remain in the group."""
    if member.state not in LEAVING or Choice.OPERATION not in member.settings.choices:
        return member.state in LEAVING
    if Choice.STATIC_REMAIN_LEAVES in member.settings.choices:
        return not remains(member)
    return member.leaving.operation is not GroupMembershipOperation.REMAIN_IN_GROUP


def leave_epoch(member: Member) -> int:
    """-2 for a static member that keeps its place, else -1."""
    asked = member.leaving.operation is GroupMembershipOperation.LEAVE_GROUP
    if asked and Choice.OPERATION in member.settings.choices:
        return -1
    return -2 if member.settings.is_static else -1


def has_someone_to_tell(member: Member) -> bool:
    """Whether partitions are owned and a listener is registered."""
    return bool(member.ownership.owned) and member.subscription.listener


RELEASES = frozenset({Origin.LEAVE, Origin.FENCE, Origin.FATAL, Origin.STALE})
"""Callbacks of a membership that is over."""


def may_join(member: Member) -> bool:
    """Whether a new membership may begin: not before the callbacks of the last one are back, where that matters."""
    if Choice.JOIN_AFTER_RELEASES not in member.settings.choices:
        return True
    return all(a.origin not in RELEASES for a in member.awaited)


def to_be_removed(member: Member) -> Partitions:
    """What a release calls back for: everything owned, less what an open revoked callback is about already."""
    owned = member.ownership.owned
    if member.run is None or Choice.REMOVED_ONCE not in member.settings.choices:
        return owned
    revoking = any(a.origin is Origin.RUN_REVOKED for a in member.awaited)
    return without(owned, member.run.revoked) if revoking else owned


# Application queue


def decide_flag(member: Member) -> Event | None:
    """POLL_JOIN or POLL_FLAG_LOST by the state, where a poll finds the subscription updated and consumes that."""
    if not member.updated:
        return None
    if member.state is State.UNSUBSCRIBED:
        return Event.POLL_JOIN if may_join(member) else None
    keeps = member.state in LEAVING and Choice.LAST_SUBSCRIPTION_COUNTS in member.settings.choices
    return None if keeps else Event.POLL_FLAG_LOST


def decide_late_poll(member: Member, now_ms: int) -> Event | None:
    """One of the three POLL_LATE events where a poll comes after the poll timer has run out; else None."""
    if now_ms < member.poll_due_ms or Choice.POLL_TIMER not in member.settings.choices:
        return None
    if member.state is not State.STALE:
        return Event.POLL_LATE
    done = member.leaving.stale_release is StaleRelease.DONE
    return Event.POLL_LATE_RELEASED if done else Event.POLL_LATE_PENDING


def decide_unsubscribe(member: Member) -> Event:
    """UNSUBSCRIBE outside the four states of a member; in them by whether somebody has to be told."""
    if member.state not in IN_GROUP:
        return Event.UNSUBSCRIBE
    return Event.UNSUBSCRIBE_CB if has_someone_to_tell(member) else Event.UNSUBSCRIBE_NOCB


def is_outdated(member: Member) -> bool:
    """Whether an assignment that the application is to apply is one of the past, and the dialect looks at that."""
    if Choice.OUTDATED_IS_SKIPPED not in member.settings.choices:
        return False
    return member.run is None or not is_current(member, member.run)


def decide_apply(member: Member) -> Event:
    """APPLY_ASSIGNMENT under a subscription that the group assigns, else APPLY_REJECTED; no release looks further."""
    applies = member.subscription.kind.is_auto and not is_outdated(member)
    return Event.APPLY_ASSIGNMENT if applies else Event.APPLY_REJECTED


# Heartbeat tick


def may_send_now(member: Member, now_ms: int) -> bool:
    """Whether a heartbeat is due whatever the interval says."""
    if member.state is _LEAVING and not remains(member):
        return True
    if member.state not in AT_ONCE or member.heartbeat_in_flight:
        return False
    waits = member.heartbeat_attempts > 0 and Choice.BACKOFF_WHEN_JOINING in member.settings.choices
    return not waits or now_ms >= member.heartbeat_ready_ms


def decide_tick(member: Member, now_ms: int) -> Event:
    """The one event of a heartbeat tick."""
    state = member.state
    if not member.client.coordinator_known:
        return Event.LEAVE_SKIPPED if state is _LEAVING else Event.TICK_SKIP
    if state in SILENT:
        return Event.TICK_SKIP
    if state is _LEAVING and remains_silent(member):
        return Event.LEAVE_SKIPPED
    if now_ms >= member.poll_due_ms and _expires(member):
        return Event.POLL_EXPIRED
    in_time = now_ms < member.heartbeat_due_ms or now_ms < member.heartbeat_ready_ms
    if (in_time or member.heartbeat_in_flight) and (state not in AT_ONCE or not may_send_now(member, now_ms)):
        return Event.HB_IDLE
    if state is _LEAVING:
        return Event.LEAVE_SENT
    if state is not _ACKNOWLEDGING:
        return _HB_SENT
    return Event.ACK_SENT if member.target == member.current else Event.ACK_SENT_TARGET_MOVED


def _expires(member: Member) -> bool:
    """Whether the poll timer means anything: mostly not to a member that is on its way out already."""
    if Choice.POLL_TIMER not in member.settings.choices or (member.state in LEAVING and remains_silent(member)):
        return False
    return not is_leaving(member) or hurries_leave(member)


def hurries_leave(member: Member) -> bool:
    """Whether the poll timer bounds the callback that a leave waits for."""
    is_bounded = Choice.POLL_TIMER_WHILE_LEAVING in member.settings.choices and not remains_silent(member)
    return is_bounded and member.state is State.PREPARE_LEAVING


def decide_close_flush(member: Member) -> Event | None:
    """CLOSE_FLUSH_LEAVE where the background thread stops before a leave was sent; else None."""
    return Event.CLOSE_FLUSH_LEAVE if is_leaving(member) else None


# Responses


def is_awaited(member: Member, number: int) -> bool:
    """Whether the answer to a heartbeat still counts, where answers are numbered."""
    left = member.state is State.UNSUBSCRIBED and member.leaving.calls is None
    return member.heartbeat_in_flight and member.heartbeat_number == number and not left


def decide_response(member: Member, response: ConsumerGroupHeartbeatResponse) -> Event:
    """The RESP event of a response without error."""
    if member.state is _UNSUBSCRIBED or response.member_epoch < 0:
        strict = Choice.LEAVE_ENDED_BY_NEGATIVE_EPOCH in member.settings.choices
        leave_pending = member.state is _UNSUBSCRIBED and member.leaving.calls is not None
        if leave_pending and (response.member_epoch < 0 or not strict):
            return Event.RESP_LEAVE_DONE
        if response.member_epoch < 0 and strict:
            return Event.RESP_NEGATIVE
    if response.assignment is None:
        return _RESP_EPOCH
    moved = member.target.update(response.assignment) != member.current
    return Event.RESP_NEW if moved else Event.RESP_SAME


FENCING = frozenset({ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID})
RETRIED = {
    ErrorCode.NOT_COORDINATOR: Forgets.COORDINATOR,
    ErrorCode.COORDINATOR_NOT_AVAILABLE: Forgets.COORDINATOR,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: Forgets.NOTHING,
}


def decide_error(member: Member, code: ErrorCode) -> Event:
    """The ERR event of an error code."""
    if code in RETRIED:
        return Event.ERR_RETRY
    if code in FENCING:
        return Event.ERR_FENCE
    if code is ErrorCode.TOPIC_AUTHORIZATION_FAILED:
        return Event.ERR_TOPIC_AUTH
    late = member.state is State.UNSUBSCRIBED
    if late and code is ErrorCode.GROUP_ID_NOT_FOUND and Choice.LATE_GROUP_NOT_FOUND in member.settings.choices:
        return Event.ERR_RETRY
    return _fatal(member)


def decide_failure(member: Member, failure: TransportFailure) -> Event:
    """The ERR event of a request that got no response."""
    return Event.ERR_RETRY if failure.retriable else _fatal(member)


def _fatal(member: Member) -> Event:
    if member.state is not State.UNSUBSCRIBED or member.leaving.calls is not None:
        return Event.ERR_FATAL
    return Event.ERR_FATAL_LATE if Choice.FATAL_ENDS_LEAVE in member.settings.choices else Event.ERR_FATAL


NO_PROTOCOL = "the coordinator does not speak the consumer protocol; a member of the classic protocol may join"
"""What is said of a version that the coordinator does not know; its own words, if it has any, stand instead."""
INVALID_PATTERN = "The coordinator cannot read the regular expression given to subscribe(). "


def read_error(code: ErrorCode, message: str | None) -> Failure:
    """What an error code means beside its event: the application's error, and what is known of the coordinator."""
    text = message or (NO_PROTOCOL if code is ErrorCode.UNSUPPORTED_VERSION else "")
    prefix = INVALID_PATTERN if code is ErrorCode.INVALID_REGULAR_EXPRESSION else ""
    return Failure(KafkaError(code.name, prefix + text), RETRIED.get(code, Forgets.NOTHING))


def read_failure(failure: TransportFailure) -> Failure:
    """The same for a request that got no response."""
    text = NO_PROTOCOL if failure.name == UNSUPPORTED_VERSION.name else ""
    return Failure(KafkaError(failure.name, text), Forgets.CONNECTION if failure.disconnected else Forgets.NOTHING)


# Reconciliation


def decide_reconciliation(member: Member, resolved: Run | None, *, can_commit: bool) -> Event:
    """The REC event of RECONCILING; `resolved` is None where it did not come to resolving names."""
    if member.target == member.current:
        return Event.REC_NONE
    if member.run is not None or resolved is None:
        return Event.REC_BUSY
    assignment, choices = resolved.resolved, member.settings.choices
    holds = not member.current.is_none and assignment.partitions == member.current.partitions
    if Choice.HELD_IS_OWNED in choices:
        holds = holds and not resolved.added and not resolved.revoked
    if holds and assignment == member.current and Choice.ONE_PARTIAL_ACK in choices:
        return Event.REC_WAITING
    if holds:
        return Event.REC_PARTIAL_ACK
    revokes = bool(resolved.revoked) and Choice.REVOKE_IN_POLL in choices
    needs_poll = member.settings.config.enable_auto_commit or revokes
    return Event.REC_DEFERRED if needs_poll and not can_commit else Event.REC_START


def is_current(member: Member, run: Run) -> bool:
    """Whether what a run does next still concerns the member."""
    return member.state is State.RECONCILING and not run.rejoined


def decide_commit_done(member: Member, run: Run) -> Event:
    """The event of the end of the commit before a run's changes."""
    if not is_current(member, run):
        return Event.RUN_STEP_STALE
    to_tell = member.subscription.listener and among(run.revoked, member.ownership.owned)
    return Event.COMMIT_DONE_REVOKE if to_tell else Event.COMMIT_DONE_ASSIGN


def decide_run_step(member: Member, run: Run, completed: Event, error: str | None) -> Event:
    """The event of a callback of a run that came back: `completed`, unless it failed or comes too late."""
    if error is not None and not is_done_all_the_same(member, run, completed):
        return Event.RUN_FAILED
    return completed if is_current(member, run) else Event.RUN_STEP_STALE


def is_done_all_the_same(member: Member, run: Run, completed: Event) -> bool:
    """Whether a callback that raised has been called, and what it was called for is so."""
    if Choice.RAISED_IS_CALLED not in member.settings.choices:
        return False
    return completed is Event.REVOKED_OK or member.ownership.owned == run.full


def decide_stale_done(member: Member) -> Event:
    """The event of the end of a stale member's release."""
    rejoin = member.leaving.stale_release is StaleRelease.REJOIN
    return Event.LOST_DONE_STALE_REJOIN if rejoin else Event.LOST_DONE_STALE


# How long others may wait


def next_tick_ms(member: Member, now_ms: int) -> int:
    """The instant of the next tick that would do something, if nothing happens before; `now_ms` for at once."""
    coordinator_known, due = member.client.coordinator_known, [NEVER]
    if member.commit is not None and not member.commit.request.in_flight:
        due.append(member.commit.deadline_ms)
        if coordinator_known:
            due.append(max(now_ms, member.commit.request.ready_ms))
    if member.state is _LEAVING and (remains_silent(member) or not coordinator_known):
        return now_ms
    if coordinator_known and member.state not in SILENT:
        due.append(heartbeat_at_ms(member, now_ms))
        if Choice.POLL_TIMER in member.settings.choices and (member.state in IN_GROUP or hurries_leave(member)):
            due.append(member.poll_due_ms)
    return min(due)


def heartbeat_at_ms(member: Member, now_ms: int) -> int:
    """The instant of the next heartbeat of a member that sends heartbeats."""
    if may_send_now(member, now_ms):
        return now_ms
    return NEVER if member.heartbeat_in_flight else max(member.heartbeat_due_ms, member.heartbeat_ready_ms)


def maximum_time_to_wait_ms(member: Member, now_ms: int) -> int:
    """How long an application's poll() may wait before it looks again, as far as heartbeats are concerned."""
    choices = member.settings.choices
    if member.state is State.UNSUBSCRIBED and Choice.UNSUBSCRIBED_WAITS in choices:
        return NEVER
    if now_ms >= member.poll_due_ms and Choice.POLL_TIMER in choices:
        return 0
    if member.state in SILENT or (not member.client.coordinator_known and Choice.WAIT_GUARD in choices):
        return member.heartbeat_interval_ms
    if may_send_now(member, now_ms):
        return 0
    # Kafka looks at the interval, then at the backoff, never at a heartbeat that is in flight: an overdue one spins.
    due_ms = member.heartbeat_due_ms if now_ms < member.heartbeat_due_ms else member.heartbeat_ready_ms
    return max(0, min((member.poll_due_ms - now_ms) // 2, due_ms - now_ms))


def made_anew(member: Member) -> AbstractSet[str]:
    """Topics that the client by now knows under another id than that of its assignment, where that matters."""
    if Choice.ANOTHER_ID_IS_ANOTHER_TOPIC not in member.settings.choices:
        return frozenset()
    known, names = member.client.metadata, member.names
    old = {names[i] for i, _ in member.current.partitions if i not in known and i in names}
    return old.intersection(known.values()) if old else old


def may_collect(member: Member, *, checked: bool) -> bool:
    """Whether poll() may hand out records; `checked` where this poll has made its attempt to reconcile.

    Since 4.3.1 it may not while a reconciliation is about to decide which partitions go away.
    """
    return checked or Choice.COLLECT_GATE not in member.settings.choices or member.state is not State.RECONCILING
