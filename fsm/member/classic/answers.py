"""What a classic member does with the answers to its requests.

Most are taken at once, as the heartbeat thread of the Java client does; the answer to a join waits for the
application's next poll, since that thread rests meanwhile.

Source: the response handlers of `AbstractCoordinator`, `joinGroupIfNeeded`, and those of `ConsumerCoordinator`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from fsm.errors import RemoteProtocolError
from fsm.member.classic.decisions import (
    AT_ONCE,
    REBALANCING,
    decide_assigned,
    decide_commit,
    decide_heartbeat,
    decide_join,
    decide_sync,
    find_commit_error,
)
from fsm.member.classic.effects import Effects
from fsm.member.classic.state import ClassicAnswered, Commit, Generation, Purpose, Stage
from fsm.member.effects import CallCompleted, Enqueued
from fsm.member.events import ErrorEvent, KafkaError
from fsm.protocol.consumer_protocol import decode_assignment
from fsm.protocol.error_codes import ErrorCode
from fsm.protocol.messages import (
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    OffsetCommitRequest,
    OffsetCommitResponse,
    Offsets,
    SyncGroupRequest,
    SyncGroupResponse,
    TransportFailure,
    commit_topics,
)
from fsm.tables.classic_member import Event, State

JOINED = frozenset({Event.JOIN_OK_LEADER, Event.JOIN_OK_FOLLOWER})
_HEARTBEAT_OK = Event.HEARTBEAT_OK  # in Python 3.11 a member of an enum costs ten times a global
ALIVE = frozenset({Event.HEARTBEAT_OK, Event.HEARTBEAT_REBALANCE_IN_PROGRESS, Event.ANSWER_STALE})
"""What a heartbeat's answer means where it keeps the session alive."""


class Answers(Effects):
    """What becomes of each answer."""

    def receive(self, given: ClassicAnswered) -> None:
        """An answer, or the end of the wait for one. Raises `RemoteProtocolError` where it answers another request."""
        expected, taken_by = ANSWERS[type(given.request.body)]
        if not isinstance(given.answer, expected):
            body = type(given.request.body).__name__
            raise RemoteProtocolError(f"{type(given.answer).__name__} does not answer {body}")
        self.in_flight -= 1
        taken_by(self, given)

    # Join and sync

    def receive_join(self, given: ClassicAnswered) -> None:
        """Only a poll reads it, unless the request got no response at all."""
        answer: Any = given.answer
        if isinstance(answer, JoinGroupResponse) and not self.polling:
            self.unread = given.request.generation, answer
        else:
            self.end_join(given.request.generation, answer)

    def end_join(self, sent: Generation, answer: JoinGroupResponse | TransportFailure) -> None:
        """On success the sync follows at once; else the next poll joins again."""
        self.unread, self.join_out = None, False
        event = decide_join(self, sent, answer)
        if isinstance(answer, JoinGroupResponse):
            self.joined = answer
        self._fails_with(answer, event)
        if event not in JOINED or self.state is State.UNJOINED:
            self._retry_later(event)
        self.happen(event, self._join_reason(event, answer))
        if self.assignor_error is not None:
            self.throw = partial(self.throw_from_poll, self.assignor_error)
            self.happen(Event.SYNC_FATAL, f"rebalance failed due to {self.assignor_error.name}")

    def _join_reason(self, event: Event, answer: JoinGroupResponse | TransportFailure) -> str:
        if event is Event.JOIN_MEMBER_ID_REQUIRED:
            return f"need to re-join with the given member-id: {self.joined.member_id}"
        if event in JOINED:
            return "rebalance failed due to UnjoinedGroupException"
        return f"rebalance failed due to {_exception(answer)}"

    def receive_sync(self, given: ClassicAnswered) -> None:
        """On success the next poll applies the assignment; else the next poll joins again."""
        answer: Any = given.answer
        self.join_out = False
        event = decide_sync(self, given.request.generation, answer)
        if event is Event.SYNC_OK and self.state is State.COMPLETING_REBALANCE:
            event = self._adopt_assignment(answer)
        self._fails_with(answer, event)
        self._retry_later(event)
        reasons = {
            Event.SYNC_OK_REVOKING: "need to revoke partitions and re-join",
            Event.SYNC_OK: "rebalance failed due to IllegalGenerationException",
        }
        self.happen(event, reasons.get(event) or f"rebalance failed due to {_exception(answer)}")

    def _adopt_assignment(self, answer: SyncGroupResponse) -> Event:
        """A leader may have sent bytes that are no assignment: its fault, and fatal here."""
        try:
            self.assigned = decode_assignment(answer.assignment).partitions
        except RemoteProtocolError:
            return Event.SYNC_FATAL
        self.rejoin_reason = self.callback_error = None
        return decide_assigned(self, self.assigned)

    def _retry_later(self, event: Event) -> None:
        if event not in AT_ONCE:
            self.retry_due_ms = self.now_ms + self.config.retry_backoff_ms

    def _fails_with(self, answer: JoinGroupResponse | SyncGroupResponse | TransportFailure, event: Event) -> None:
        if isinstance(answer, TransportFailure):
            name = answer.name
        elif answer.error_code is ErrorCode.NONE and event in (Event.JOIN_FATAL, Event.SYNC_FATAL):
            name = ErrorCode.INCONSISTENT_GROUP_PROTOCOL.name
        else:
            name = answer.error_code.name
        self.throw = partial(self.throw_from_poll, KafkaError(name))

    def throw_from_poll(self, error: KafkaError) -> None:
        """The error of a rebalance is thrown by poll(), which does not wait before it may be called again."""
        self.retry_due_ms = self.now_ms
        self.thrown = True
        self.effects.append(Enqueued(ErrorEvent(error)))

    # Heartbeats

    def receive_heartbeat(self, given: ClassicAnswered) -> None:
        """An answer keeps the session alive, also one that asks to join; after any other error a backoff begins."""
        answer: Any = given.answer
        event = decide_heartbeat(self, given.request.generation, answer)
        if event in ALIVE:
            self.heartbeats = self.heartbeats.answer(self.config, self.now_ms)
        else:
            self.heartbeats = self.heartbeats.fail(self.config, self.now_ms, given.jitter)
        if event is not None:
            self.throw = self._end_heartbeats
            self.happen(event, "" if event is _HEARTBEAT_OK else _heartbeat_reason(event, answer))

    def _end_heartbeats(self) -> None:
        """The next poll throws it; the one after begins anew."""
        self.failure = KafkaError(ErrorCode.FENCED_INSTANCE_ID.name)
        self.heartbeats = self.heartbeats.stop()

    def receive_leave(self, _: ClassicAnswered) -> None:
        """Nobody waits for it but close()."""

    # Commits

    def start_commit(self, offsets: Offsets, purpose: Purpose, call: int = 0) -> None:
        """Commits as a member of the generation; one that is in none is told so without asking the coordinator."""
        if not offsets:
            self.end_commit(purpose, call, None)
        elif self.topics is not None and self.state is not State.STABLE:
            name = "RebalanceInProgressException" if self.state in REBALANCING else "CommitFailedException"
            self.end_commit(purpose, call, KafkaError(name))
        elif not self.coordinator_known:
            self.end_commit(purpose, call, KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE.name), passes=True)
        else:
            place, config = self.generation, self.config
            instance_id = config.group_instance_id if self.topics is not None else None
            topics = commit_topics(offsets)
            body = OffsetCommitRequest(
                config.group_id, place.generation_id, place.member_id, instance_id, topics=topics
            )
            self.send(body, purpose, call)

    def receive_commit(self, given: ClassicAnswered) -> None:
        """The errors that tell of the membership reset it; all of them end the commit."""
        answer: Any = given.answer
        sent = given.request
        code = find_commit_error(answer)
        event = decide_commit(self, sent.generation, code)
        self.throw = _throw_nothing
        if event is not None:
            self.happen(event, _commit_reason(event, code))
        error = None if code is ErrorCode.NONE else KafkaError(self._commit_error_name(event, code))
        self.end_commit(sent.purpose or Purpose.CALL, sent.call, error, passes=code.passes)

    def _commit_error_name(self, event: Event | None, code: ErrorCode) -> str:
        if event is Event.ANSWER_STALE:
            preparing = self.state is State.PREPARING_REBALANCE
            return "RebalanceInProgressException" if preparing else "CommitFailedException"
        if event in (Event.COMMIT_UNKNOWN_MEMBER_ID, Event.COMMIT_ILLEGAL_GENERATION):
            return "CommitFailedException"
        return code.name

    def end_commit(self, purpose: Purpose, call: int, error: KafkaError | None, *, passes: bool = False) -> None:
        """Only a commit that the application called throws; a fenced automatic one makes every poll throw, for good."""
        again_ms = self.now_ms + self.config.retry_backoff_ms if passes else None
        if purpose is Purpose.CALL:
            self.effects.append(CallCompleted(call, error))
        elif purpose is Purpose.PREPARE:
            if error is not None and error.name == ErrorCode.FENCED_INSTANCE_ID.name:
                self.commit_fenced = error
            if self.commit is not None:
                self.commit = Commit(self.commit.due_ms, again_ms, done=again_ms is None)
        elif self.closing is not None:
            stage = Stage.COMMITTING if passes else Stage.LEAVING
            self.closing = replace(self.closing, stage=stage, retry_due_ms=again_ms or 0)


ANSWERS: dict[type, tuple[tuple[type, ...], Callable[[Answers, ClassicAnswered], None]]] = {
    HeartbeatRequest: ((HeartbeatResponse, TransportFailure), Answers.receive_heartbeat),
    JoinGroupRequest: ((JoinGroupResponse, TransportFailure), Answers.receive_join),
    SyncGroupRequest: ((SyncGroupResponse, TransportFailure), Answers.receive_sync),
    OffsetCommitRequest: ((OffsetCommitResponse, TransportFailure), Answers.receive_commit),
    LeaveGroupRequest: ((LeaveGroupResponse, TransportFailure), Answers.receive_leave),
}
"""What answers each request, and who takes the answer."""


def _throw_nothing() -> None:
    """The error of a commit goes to whoever asked for it, as its end."""


def _exception(answer: JoinGroupResponse | SyncGroupResponse | TransportFailure) -> str:
    """Kafka's class for the error: `NotCoordinatorException` for NOT_COORDINATOR."""
    if isinstance(answer, TransportFailure):
        return answer.name
    return answer.error_code.name.title().replace("_", "") + "Exception"


def _heartbeat_reason(event: Event, answer: HeartbeatResponse | TransportFailure) -> str:
    if event is Event.HEARTBEAT_REBALANCE_IN_PROGRESS:
        return "group is already rebalancing"
    name = answer.name if isinstance(answer, TransportFailure) else answer.error_code.name
    return f"encountered {name} from HEARTBEAT response"


def _commit_reason(event: Event, code: ErrorCode) -> str:
    if event is Event.COMMIT_REBALANCE_IN_PROGRESS:
        return "offset commit failed since group is already rebalancing"
    return f"encountered {code.name} from OFFSET_COMMIT response"
