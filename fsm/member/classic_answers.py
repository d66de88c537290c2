"""What a classic member does with the answers to its requests.

Most are taken at once, as the heartbeat thread of the Java client does; the answer to a join waits for the
application's next poll, since that thread rests meanwhile.

Source: the response handlers of `AbstractCoordinator`, `joinGroupIfNeeded`, and those of `ConsumerCoordinator`.
"""

from __future__ import annotations

from collections.abc import Callable

from fsm.errors import RemoteProtocolError
from fsm.kafka.classic_messages import (
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    SyncGroupRequest,
    SyncGroupResponse,
)
from fsm.kafka.consumer_protocol import decode_assignment
from fsm.kafka.error_codes import ErrorCode
from fsm.kafka.events import ErrorEvent, KafkaError
from fsm.kafka.messages import OffsetCommitRequest, OffsetCommitResponse, Offsets, TransportFailure
from fsm.member.classic_decisions import (
    AT_ONCE,
    REBALANCING,
    assigned_event,
    commit_error,
    commit_event,
    heartbeat_event,
    join_event,
    sync_event,
)
from fsm.member.classic_effects import decide, send
from fsm.member.classic_state import ClassicAnswered, Commit, Draft, Purpose, Stage
from fsm.member.effects import CallCompleted, Enqueued
from fsm.tables.classic_member import Event, State


def received(d: Draft, given: ClassicAnswered) -> None:
    """An answer, or the end of the wait for one."""
    d.in_flight -= 1
    match given.request.body:
        case JoinGroupRequest() if isinstance(given.answer, JoinGroupResponse) and not d.polling:
            d.unread = given
        case JoinGroupRequest():
            join_answered(d, given)
        case SyncGroupRequest():
            sync_answered(d, given)
        case OffsetCommitRequest():
            commit_answered(d, given)
        case LeaveGroupRequest():
            pass  # nobody waits for it but close()
        case _:
            heartbeat_answered(d, given)


def read_join(d: Draft) -> None:
    """A poll reads the answer that waited for it."""
    given, d.unread = d.unread, None
    if given is not None:
        join_answered(d, given)


def join_answered(d: Draft, given: ClassicAnswered) -> None:
    """On success the sync follows at once; else the next poll joins again."""
    answer = given.answer
    assert isinstance(answer, JoinGroupResponse | TransportFailure)  # noqa: S101  # the request's own answer
    d.join_out = False
    event = join_event(d, given.request.generation, answer)
    if isinstance(answer, JoinGroupResponse):
        d.joined = answer
    _fails_with(d, answer, event)
    if event not in _JOINED or d.state is State.UNJOINED:
        _retry_later(d, event)
    decide(d, event, _join_reason(d, event, answer))
    if d.assignor_error is not None:
        d.throw = _throw(d.assignor_error)
        decide(d, Event.SYNC_FATAL, f"rebalance failed due to {d.assignor_error.name}")


_JOINED = frozenset({Event.JOIN_OK_LEADER, Event.JOIN_OK_FOLLOWER})


def _join_reason(d: Draft, event: Event, answer: JoinGroupResponse | TransportFailure) -> str:
    if event is Event.JOIN_MEMBER_ID_REQUIRED:
        return f"need to re-join with the given member-id: {d.joined.member_id}"
    if event in _JOINED:
        return "rebalance failed due to UnjoinedGroupException"
    return f"rebalance failed due to {_exception(answer)}"


def sync_answered(d: Draft, given: ClassicAnswered) -> None:
    """On success the next poll applies the assignment; else the next poll joins again."""
    answer = given.answer
    assert isinstance(answer, SyncGroupResponse | TransportFailure)  # noqa: S101  # the request's own answer
    d.join_out = False
    event = sync_event(d, given.request.generation, answer)
    if event is Event.SYNC_OK and isinstance(answer, SyncGroupResponse) and d.state is State.COMPLETING_REBALANCE:
        event = _synced(d, answer)
    _fails_with(d, answer, event)
    _retry_later(d, event)
    decide(d, event, _sync_reason(event, answer))


def _synced(d: Draft, answer: SyncGroupResponse) -> Event:
    """A leader may have sent bytes that are no assignment: its fault, and fatal here."""
    try:
        d.assigned = decode_assignment(answer.assignment).partitions
    except RemoteProtocolError:
        return Event.SYNC_FATAL
    d.rejoin_needed, d.rejoin_reason, d.callback_error = False, "", None
    return assigned_event(d, d.assigned)


def _sync_reason(event: Event, answer: SyncGroupResponse | TransportFailure) -> str:
    if event is Event.SYNC_OK_REVOKING:
        return "need to revoke partitions and re-join"
    if event is Event.SYNC_OK:
        return "rebalance failed due to IllegalGenerationException"
    return f"rebalance failed due to {_exception(answer)}"


def _retry_later(d: Draft, event: Event) -> None:
    if event not in AT_ONCE:
        d.retry_due_ms = d.now_ms + d.config.retry_backoff_ms


def _fails_with(d: Draft, answer: JoinGroupResponse | SyncGroupResponse | TransportFailure, event: Event) -> None:
    d.throw = _throw(KafkaError(_code(answer, event)))


def _throw(error: KafkaError) -> Callable[[Draft], None]:
    """The error of a rebalance is thrown by poll(), which does not wait before it may be called again."""

    def throw(d: Draft) -> None:
        d.retry_due_ms = d.now_ms
        d.thrown = True
        d.effects.append(Enqueued(ErrorEvent(error)))

    return throw


def _code(answer: JoinGroupResponse | SyncGroupResponse | TransportFailure, event: Event) -> str:
    if isinstance(answer, TransportFailure):
        return answer.name
    if answer.error_code is ErrorCode.NONE and event in (Event.JOIN_FATAL, Event.SYNC_FATAL):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL.name
    return answer.error_code.name


def _exception(answer: JoinGroupResponse | SyncGroupResponse | TransportFailure) -> str:
    """Kafka's class for the error: `NotCoordinatorException` for NOT_COORDINATOR."""
    if isinstance(answer, TransportFailure):
        return answer.name
    return answer.error_code.name.title().replace("_", "") + "Exception"


# Heartbeats


def heartbeat_answered(d: Draft, given: ClassicAnswered) -> None:
    """An answer keeps the session alive, also one that asks to join; after any other error a backoff begins."""
    answer = given.answer
    assert isinstance(answer, HeartbeatResponse | TransportFailure)  # noqa: S101  # the request's own answer
    event = heartbeat_event(d, given.request.generation, answer)
    if event in _ALIVE:
        d.heartbeats = d.heartbeats.answered(d.config, d.now_ms)
    else:
        d.heartbeats = d.heartbeats.failed(d.config, d.now_ms, given.jitter)
    d.throw = _end_heartbeats
    if event is not None:
        decide(d, event, _heartbeat_reason(event, answer))


_ALIVE = frozenset({Event.HEARTBEAT_OK, Event.HEARTBEAT_REBALANCE_IN_PROGRESS, Event.ANSWER_STALE})


def _heartbeat_reason(event: Event, answer: HeartbeatResponse | TransportFailure) -> str:
    if event is Event.HEARTBEAT_REBALANCE_IN_PROGRESS:
        return "group is already rebalancing"
    name = answer.name if isinstance(answer, TransportFailure) else answer.error_code.name
    return f"encountered {name} from HEARTBEAT response"


def _end_heartbeats(d: Draft) -> None:
    """The next poll throws it; the one after begins anew."""
    d.failure = KafkaError(ErrorCode.FENCED_INSTANCE_ID.name)
    d.heartbeats = d.heartbeats.stopped()


# Commits


def start_commit(d: Draft, offsets: Offsets, purpose: Purpose, call: int = 0) -> None:
    """Commits as a member of the generation; a member that is in none is told so without asking the coordinator."""
    if not offsets:
        end_commit(d, purpose, call, None)
    elif d.topics is not None and d.state is not State.STABLE:
        name = "RebalanceInProgressException" if d.state in REBALANCING else "CommitFailedException"
        end_commit(d, purpose, call, KafkaError(name))
    elif not d.coordinator_known:
        end_commit(d, purpose, call, KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE.name), passes=True)
    else:
        place = d.generation
        instance_id = d.config.group_instance_id if d.topics is not None else None
        body = OffsetCommitRequest(d.config.group_id, place.generation_id, place.member_id, offsets, instance_id)
        send(d, body, purpose, call)


def commit_answered(d: Draft, given: ClassicAnswered) -> None:
    """The errors that tell of the membership reset it; all of them end the commit."""
    answer, sent = given.answer, given.request
    assert isinstance(answer, OffsetCommitResponse | TransportFailure)  # noqa: S101  # the request's own answer
    code = commit_error(answer)
    event = commit_event(d, sent.generation, code)
    d.throw = _commit_throws_nothing
    if event is not None:
        decide(d, event, _commit_reason(event, code))
    error = None if code is ErrorCode.NONE else KafkaError(_commit_error_name(d, event, code))
    end_commit(d, sent.purpose or Purpose.CALL, sent.call, error, passes=code.passes)


def _commit_throws_nothing(_: Draft) -> None:
    """The error goes to whoever asked for the commit, as its end."""


def _commit_reason(event: Event, code: ErrorCode) -> str:
    if event is Event.COMMIT_REBALANCE_IN_PROGRESS:
        return "offset commit failed since group is already rebalancing"
    return f"encountered {code.name} from OFFSET_COMMIT response"


def _commit_error_name(d: Draft, event: Event | None, code: ErrorCode) -> str:
    if event is Event.ANSWER_STALE:
        return "RebalanceInProgressException" if d.state is State.PREPARING_REBALANCE else "CommitFailedException"
    if event in (Event.COMMIT_UNKNOWN_MEMBER_ID, Event.COMMIT_ILLEGAL_GENERATION):
        return "CommitFailedException"
    return code.name


def end_commit(d: Draft, purpose: Purpose, call: int, error: KafkaError | None, *, passes: bool = False) -> None:
    """Only a commit that the application called throws; a fenced automatic one makes every poll throw, for good."""
    again_ms = d.now_ms + d.config.retry_backoff_ms if passes else None
    if purpose is Purpose.CALL:
        d.effects.append(CallCompleted(call, error))
    elif purpose is Purpose.PREPARE:
        if error is not None and error.name == ErrorCode.FENCED_INSTANCE_ID.name:
            d.commit_fenced = error
        if d.commit is not None:
            d.commit = Commit(d.commit.due_ms, again_ms, done=again_ms is None)
    elif d.closing is not None:
        stage = Stage.COMMITTING if passes else Stage.LEAVING
        d.closing = d.closing._replace(stage=stage, retry_due_ms=again_ms or 0)
