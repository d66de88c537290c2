"""The decisions of a consumer member, each an event of its table, and the deadlines of its callers.

The table has no guards: the caller decides which event to take. These pure functions of a member are the decisions. The
meaning of the events is in `fsm.tables.consumer_member.Event`.

Source: `AbstractMembershipManager`, `ConsumerMembershipManager`, `AbstractHeartbeatRequestManager`,
`ConsumerHeartbeatRequestManager`, `ApplicationEventProcessor`; for the waits `maximumTimeToWait` of the request
managers and `AsyncKafkaConsumer.pollForFetches`, `.collectFetch`.
"""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet

from fsm.member.consumer.state import Failure, Forgets, Member, Origin, Run, StaleRelease
from fsm.member.dialect.choices import Choice
from fsm.member.events import GroupMembershipOperation, KafkaError
from fsm.member.timers import NEVER
from fsm.protocol.assignment import Partitions, TopicId, among, without
from fsm.protocol.error_codes import ErrorCode
from fsm.protocol.messages import UNSUPPORTED_VERSION, ConsumerGroupHeartbeatResponse, TransportFailure
from fsm.tables.consumer_member import MEMBER, NOT_IN_GROUP, ON_THE_WAY_OUT, Event, State

IN_GROUP = frozenset(MEMBER)
SILENT = frozenset(NOT_IN_GROUP)
"""States that send no heartbeat."""
LEAVING = frozenset(ON_THE_WAY_OUT)
AT_ONCE = frozenset({State.JOINING, State.ACKNOWLEDGING, State.LEAVING})
"""States whose heartbeat does not wait for the interval."""

# Needed by every heartbeat: in Python 3.11 access to a member of an enum costs ten times that to a global.
_LEAVING, _ACKNOWLEDGING, _UNSUBSCRIBED = State.LEAVING, State.ACKNOWLEDGING, State.UNSUBSCRIBED
_HB_SENT, _RESP_EPOCH = Event.HB_SENT, Event.RESP_EPOCH


# Predicates


def remains(member: Member) -> bool:
    """Whether a dynamic member was closed with REMAIN_IN_GROUP."""
    asked = member.leaving.operation is GroupMembershipOperation.REMAIN_IN_GROUP
    return asked and not member.settings.is_static


def remains_silent(member: Member) -> bool:
    """Whether such a member sends no leave, so that its session expires."""
    return remains(member) and Choice.REMAIN_IS_SILENT in member.settings.choices


def is_leaving(member: Member) -> bool:
    """Whether the member leaves, and was not closed to remain in the group."""
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


def needs_callback(member: Member) -> bool:
    """Whether partitions are owned and a listener is registered."""
    return bool(member.ownership.owned) and member.subscription.listener


RELEASES = frozenset({Origin.LEAVE, Origin.FENCE, Origin.FATAL, Origin.STALE})
"""Origins of the callbacks of an ended membership."""


def may_join(member: Member) -> bool:
    """Whether a new membership may begin: in some dialects not before the callbacks of the last one have ended."""
    if Choice.JOIN_AFTER_RELEASES not in member.settings.choices:
        return True
    return all(a.origin not in RELEASES for a in member.awaited)


def list_removed(member: Member) -> Partitions:
    """The partitions of a release's callback: all owned ones except those of an open revoked callback."""
    owned = member.ownership.owned
    if member.run is None or Choice.REMOVED_ONCE not in member.settings.choices:
        return owned
    revoking = any(a.origin is Origin.RUN_REVOKED for a in member.awaited)
    return without(owned, member.run.revoked) if revoking else owned


# Application queue


def decide_flag(member: Member) -> Event | None:
    """POLL_JOIN or POLL_FLAG_LOST by the state, for a poll that consumes an updated subscription; else None."""
    if not member.updated:
        return None
    if member.state is State.UNSUBSCRIBED:
        return Event.POLL_JOIN if may_join(member) else None
    keeps = member.state in LEAVING and Choice.LAST_SUBSCRIPTION_COUNTS in member.settings.choices
    return None if keeps else Event.POLL_FLAG_LOST


def decide_late_poll(member: Member, now_ms: int) -> Event | None:
    """One of the three POLL_LATE events for a poll after the poll timer has expired; else None."""
    if now_ms < member.poll_due_ms or Choice.POLL_TIMER not in member.settings.choices:
        return None
    if member.state is not State.STALE:
        return Event.POLL_LATE
    done = member.leaving.stale_release is StaleRelease.DONE
    return Event.POLL_LATE_RELEASED if done else Event.POLL_LATE_PENDING


def decide_unsubscribe(member: Member) -> Event:
    """UNSUBSCRIBE outside the four states of a member; in them UNSUBSCRIBE_CB or _NOCB, by `needs_callback`."""
    if member.state not in IN_GROUP:
        return Event.UNSUBSCRIBE
    return Event.UNSUBSCRIBE_CB if needs_callback(member) else Event.UNSUBSCRIBE_NOCB


def is_outdated(member: Member) -> bool:
    """Whether the assignment to be applied is outdated, in dialects that check it."""
    if Choice.OUTDATED_IS_SKIPPED not in member.settings.choices:
        return False
    return member.run is None or not is_current(member, member.run)


def decide_apply(member: Member) -> Event:
    """APPLY_ASSIGNMENT under a subscription that the group assigns, else APPLY_REJECTED; releases check only that."""
    applies = member.subscription.kind.is_auto and not is_outdated(member)
    return Event.APPLY_ASSIGNMENT if applies else Event.APPLY_REJECTED


# Heartbeat tick


def may_send_now(member: Member, now_ms: int) -> bool:
    """Whether a heartbeat is due regardless of the interval."""
    if member.state is _LEAVING and not remains(member):
        return True
    if member.state not in AT_ONCE or member.heartbeat_in_flight:
        return False
    waits = member.heartbeat_attempts > 0 and Choice.BACKOFF_WHEN_JOINING in member.settings.choices
    return not waits or now_ms >= member.heartbeat_ready_ms


def decide_tick(member: Member, now_ms: int) -> Event:
    """The event of a heartbeat tick."""
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
    """Whether the poll timer has an effect; mostly not for a member that is already leaving."""
    if Choice.POLL_TIMER not in member.settings.choices or (member.state in LEAVING and remains_silent(member)):
        return False
    return not is_leaving(member) or hurries_leave(member)


def hurries_leave(member: Member) -> bool:
    """Whether the poll timer bounds the callback that a leave waits for."""
    is_bounded = Choice.POLL_TIMER_WHILE_LEAVING in member.settings.choices and not remains_silent(member)
    return is_bounded and member.state is State.PREPARE_LEAVING


def decide_close_flush(member: Member) -> Event | None:
    """CLOSE_FLUSH_LEAVE if the background thread stops before a leave was sent; else None."""
    return Event.CLOSE_FLUSH_LEAVE if is_leaving(member) else None


# Responses


def is_awaited(member: Member, number: int) -> bool:
    """Whether the answer to a heartbeat is still awaited, in dialects that number them."""
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
"""Error text for a version that the coordinator does not support, unless it sends its own."""
INVALID_PATTERN = "The coordinator cannot read the regular expression given to subscribe(). "


def read_error(code: ErrorCode, message: str | None) -> Failure:
    """The failure of an error code: the application's error, and what to forget of the coordinator."""
    text = message or (NO_PROTOCOL if code is ErrorCode.UNSUPPORTED_VERSION else "")
    prefix = INVALID_PATTERN if code is ErrorCode.INVALID_REGULAR_EXPRESSION else ""
    return Failure(KafkaError(code.name, prefix + text), RETRIED.get(code, Forgets.NOTHING))


def read_failure(failure: TransportFailure) -> Failure:
    """The failure of a request that got no response."""
    text = NO_PROTOCOL if failure.name == UNSUPPORTED_VERSION.name else ""
    return Failure(KafkaError(failure.name, text), Forgets.CONNECTION if failure.disconnected else Forgets.NOTHING)


# Reconciliation


def decide_reconciliation(member: Member, resolved: Run | None, *, can_commit: bool) -> Event:
    """The REC event of RECONCILING; `resolved` is None if names were not resolved."""
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
    """Whether a run may continue: the member is reconciling and has not rejoined."""
    return member.state is State.RECONCILING and not run.rejoined


def decide_commit_done(member: Member, run: Run) -> Event:
    """The event of the end of the commit before a run's changes."""
    if not is_current(member, run):
        return Event.RUN_STEP_STALE
    calls_back = member.subscription.listener and among(run.revoked, member.ownership.owned)
    return Event.COMMIT_DONE_REVOKE if calls_back else Event.COMMIT_DONE_ASSIGN


def decide_run_step(member: Member, run: Run, completed: Event, error: str | None) -> Event:
    """The event of the end of a run's callback: `completed`, unless it failed or is too late."""
    if error is not None and not is_done_all_the_same(member, run, completed):
        return Event.RUN_FAILED
    return completed if is_current(member, run) else Event.RUN_STEP_STALE


def is_done_all_the_same(member: Member, run: Run, completed: Event) -> bool:
    """Whether a callback that raised counts as called: the partitions were revoked or assigned."""
    if Choice.RAISED_IS_CALLED not in member.settings.choices:
        return False
    return completed is Event.REVOKED_OK or member.ownership.owned == run.full


def decide_stale_done(member: Member) -> Event:
    """The event of the end of a stale member's release."""
    rejoin = member.leaving.stale_release is StaleRelease.REJOIN
    return Event.LOST_DONE_STALE_REJOIN if rejoin else Event.LOST_DONE_STALE


# Deadlines


def next_tick_ms(member: Member, now_ms: int) -> int:
    """The instant of the next tick that has an effect, without other inputs; `now_ms` for at once."""
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
    """The longest wait of an application's poll(), as far as heartbeats are concerned."""
    choices = member.settings.choices
    if member.state is State.UNSUBSCRIBED and Choice.UNSUBSCRIBED_WAITS in choices:
        return NEVER
    if now_ms >= member.poll_due_ms and Choice.POLL_TIMER in choices:
        return 0
    if member.state in SILENT or (not member.client.coordinator_known and Choice.WAIT_GUARD in choices):
        return member.heartbeat_interval_ms
    if may_send_now(member, now_ms):
        return 0
    # Kafka considers the interval, then the backoff, but not a heartbeat in flight: an overdue one busy-waits.
    due_ms = member.heartbeat_due_ms if now_ms < member.heartbeat_due_ms else member.heartbeat_ready_ms
    return max(0, min((member.poll_due_ms - now_ms) // 2, due_ms - now_ms))


def list_recreated(member: Member) -> AbstractSet[str]:
    """Assigned topics that have another id in the client's metadata, in dialects that check it."""
    if Choice.ANOTHER_ID_IS_ANOTHER_TOPIC not in member.settings.choices:
        return frozenset()
    known, names = member.client.metadata, member.names
    old = {names[i] for i, _ in member.current.partitions if i not in known and i in names}
    return old.intersection(known.values()) if old else old


def list_ids(member: Member) -> Mapping[str, TopicId]:
    """The ids under which topics were assigned, by name, in dialects that commit under these."""
    if Choice.ANOTHER_ID_IS_ANOTHER_TOPIC not in member.settings.choices:
        return {}
    return {member.names[i]: i for i, _ in member.current.partitions if i in member.names}


def may_collect(member: Member, *, checked: bool) -> bool:
    """Whether poll() may return records; `checked` if this poll has made its attempt to reconcile.

    Since 4.3.1 it may not while a reconciliation is about to decide which partitions are revoked.
    """
    return checked or Choice.COLLECT_GATE not in member.settings.choices or member.state is not State.RECONCILING
