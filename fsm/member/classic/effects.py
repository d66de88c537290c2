"""The effects of a classic member's table, each the method of its name, and what it does with answers.

An effect that requests a callback pauses its row until the application reports the end of the callback. An effect that
only a poll may begin pauses its row before it does anything. `fsm.tables.classic_member.Effect` says what each effect
is.

Most answers are handled at once, as by the heartbeat thread of the Java client. The answer to a join waits for the
application's next poll, because that thread is disabled meanwhile.

Source: `AbstractCoordinator` with its response handlers and `joinGroupIfNeeded`, `ConsumerCoordinator`,
`ConsumerRebalanceListenerInvoker`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from fsm.errors import RemoteProtocolError
from fsm.member import events
from fsm.member.classic import decisions
from fsm.member.classic.assignors import Candidate, ClientAssignor
from fsm.member.classic.state import Awaited, ClassicAnswered, ClassicStep, Commit, Generation, Purpose, Reported, Stage
from fsm.member.effects import CallCompleted, CoordinatorForgotten, Enqueued
from fsm.protocol import messages
from fsm.protocol.assignment import Partitions, among, partitions, without
from fsm.protocol.consumer_protocol import (
    PROTOCOL_TYPE,
    Assignment,
    Subscription,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from fsm.protocol.error_codes import ErrorCode
from fsm.step import Pause
from fsm.tables.classic_member import Effect, Event, State

JOINED = frozenset({Event.JOIN_OK_LEADER, Event.JOIN_OK_FOLLOWER})
_HEARTBEAT_OK = Event.HEARTBEAT_OK  # in Python 3.11 a member of an enum costs ten times a global
ALIVE = frozenset({Event.HEARTBEAT_OK, Event.HEARTBEAT_REBALANCE_IN_PROGRESS, Event.ANSWER_STALE})
"""The events of those answers to a heartbeat that keep the session alive."""


class Effects(ClassicStep):
    """The methods of the effects, and what becomes of each answer."""

    # Requests

    def send_join_group(self) -> None:
        """The join, with what the member owns by now. It is no effect of a row: a poll sends it."""
        config = self.config
        self.joined_topics, self.join_out = self.topics, True
        self.send(
            messages.JoinGroupRequest(
                config.group_id,
                config.session_timeout_ms,
                config.max_poll_interval_ms,
                self.generation.member_id,
                config.group_instance_id,
                PROTOCOL_TYPE,
                tuple(messages.JoinGroupRequestProtocol(a.name, self._subscription(a)) for a in config.assignors),
                self.rejoin_reason,
            )
        )

    def _subscription(self, assignor: ClientAssignor) -> bytes:
        user_data = assignor.user_data(self.assignor_generation) if assignor.user_data else None
        generation_id, rack = self.generation.generation_id, self.config.client_rack
        return encode_subscription(Subscription(self.topics or (), user_data, self.owned, generation_id, rack))

    def send_sync_group(self, _: str) -> None:
        if self.assignor_error is not None:
            return
        self.join_out = True
        self.send(
            messages.SyncGroupRequest(
                self.config.group_id,
                self.generation.generation_id,
                self.generation.member_id,
                self.config.group_instance_id,
                PROTOCOL_TYPE,
                self.generation.protocol_name,
                self.computed,
            )
        )

    def send_leave_group(self, _: str) -> None:
        if self.coordinator_known and self.generation.member_id != messages.UNKNOWN_MEMBER_ID:
            identity = messages.MemberIdentity(self.generation.member_id, reason=self._leave_reason())
            self.send(messages.LeaveGroupRequest(self.config.group_id, (identity,)))

    def _leave_reason(self) -> str:
        if self.closing:
            return "the consumer is being closed"
        if self.unsubscribing is not None:
            return "the consumer unsubscribed from all topics"
        return "consumer poll timeout has expired."

    # Generation

    def adopt_generation(self, _: str) -> None:
        self.generation = Generation(self.joined.generation_id, self.joined.member_id, self.joined.protocol_name)
        self.led_metadata, self.computed = None, ()

    def adopt_member_id(self, _: str) -> None:
        self.generation = Generation(member_id=self.joined.member_id)

    def reset_generation(self, reason: str) -> None:
        self.generation = Generation(member_id=self.generation.member_id)
        self.prepare_needed = True
        self.effects.append(Reported(Effect.RESET_GENERATION, reason))

    def reset_member_id(self, reason: str) -> None:
        self.generation = self.generation._replace(member_id=messages.UNKNOWN_MEMBER_ID)
        self.effects.append(Reported(Effect.RESET_MEMBER_ID, reason))

    def request_rejoin(self, reason: str) -> None:
        self.rejoin_reason = reason
        self.effects.append(Reported(Effect.REQUEST_REJOIN, reason))

    def run_assignor(self, _: str) -> None:
        """An assignor that raises, or members that write no subscription, end the rebalance in place of the sync."""
        try:
            found = {
                Candidate.of(m.member_id, m.group_instance_id): decode_subscription(m.metadata)
                for m in self.joined.members
            }
            self.group_topics = tuple(sorted({topic for wants in found.values() for topic in wants.topics}))
            self.led_metadata = decisions.list_watched(self)
            if not self.joined.skip_assignment:
                self.computed = self._assignments(found)
        except Exception as error:  # the assignor is the application's
            self.assignor_error = events.KafkaError(type(error).__name__, str(error))

    def _assignments(
        self, members: Mapping[Candidate, Subscription]
    ) -> tuple[messages.SyncGroupRequestAssignment, ...]:
        assignor = {a.name: a for a in self.config.assignors}[self.joined.protocol_name or ""]
        given = assignor.assign(members, self.led_metadata or ())
        return tuple(
            messages.SyncGroupRequestAssignment(member_id, encode_assignment(Assignment(partitions(given[member_id]))))
            for member_id in sorted(given)
        )

    # Partitions and callbacks

    def revoke_all_partitions(self, _: str) -> Pause | None:
        """Before a join an eager member calls the listener even for an empty set; on leaving it does not."""
        if self.owned or not (self.closing or self.unsubscribing is not None):
            return self._remove(events.ListenerMethod.REVOKED, self.owned)
        return None

    def revoke_unsubscribed_topics(self, _: str) -> Pause | None:
        dropped = tuple(p for p in self.owned if p[0] not in (self.topics or ()))
        return self._remove(events.ListenerMethod.REVOKED, dropped) if dropped else None

    def revoke_partitions(self, _: str) -> Pause:
        if not self.polling:
            return Pause.BEFORE
        return self._remove(events.ListenerMethod.REVOKED, without(self.owned, self.assigned))

    def lose_all_partitions(self, _: str) -> Pause | None:
        return self._remove(events.ListenerMethod.LOST, self.owned) if self.owned else None

    def assign_partitions(self, _: str) -> Pause:
        if not self.polling:
            return Pause.BEFORE
        added = without(self.assigned, self.owned)
        self.owned = self.assigned
        self.assignor_generation = self.generation.generation_id
        self.reset_commit_timer()
        if self.pattern is not None:
            topics = {topic for topic, _ in self.assigned}
            self.topics = tuple(sorted({*(self.topics or ()), *topics}))
            self.joined_topics = tuple(sorted({*(self.joined_topics or ()), *topics}))
        awaited = Awaited(self._ticket(), events.ListenerMethod.ASSIGNED, added)
        return self._call_back(awaited, events.PartitionsAssignedEvent(awaited.ticket, self.owned, added, apply=False))

    def _remove(self, method: events.ListenerMethod, given: Partitions) -> Pause:
        awaited = Awaited(self._ticket(), method, among(self.owned, given))
        return self._call_back(awaited, events.PartitionsRemovedEvent(awaited.ticket, method, awaited.partitions))

    def _ticket(self) -> int:
        return 1 if self.closing is None else 2

    def _call_back(self, awaited: Awaited, event: events.BackgroundEvent) -> Pause:
        self.awaited = awaited
        self.effects.append(Enqueued(event))
        return Pause.AFTER

    # Heartbeats and coordinator

    def start_heartbeats(self, _: str) -> None:
        self.heartbeats = self.heartbeats.start(self.config, self.now_ms)

    def stop_heartbeats(self, _: str) -> None:
        self.heartbeats = self.heartbeats.stop()

    def forget_coordinator(self, _: str) -> None:
        if self.coordinator_known:
            self.coordinator_known = False
            self.effects.append(CoordinatorForgotten())

    def reset_session_timer(self, _: str) -> None:
        self.coordinator_known = True
        self.heartbeats = self.heartbeats.find_coordinator(self.config, self.now_ms)

    def raise_error(self, _: str) -> None:
        """Passes the error to `throw`, which the caller of the row has set."""
        self.throw()

    # Answers

    def receive(self, given: ClassicAnswered) -> None:
        """Handles an answer, or a failed request. Raises `RemoteProtocolError` if it answers another request."""
        expected, taken_by = ANSWERS[type(given.request.body)]
        if not (type(given.answer) is expected or isinstance(given.answer, messages.TransportFailure)):
            body = type(given.request.body).__name__
            raise RemoteProtocolError(f"{type(given.answer).__name__} does not answer {body}")
        self.in_flight -= 1
        taken_by(self, given)

    # Join and sync

    def receive_join(self, given: ClassicAnswered) -> None:
        """Only a poll reads it, unless the request got no response at all."""
        answer: Any = given.answer
        if isinstance(answer, messages.JoinGroupResponse) and not self.polling:
            self.unread = given.request.generation, answer
        else:
            self.end_join(given.request.generation, answer)

    def end_join(self, sent: Generation, answer: messages.JoinGroupResponse | messages.TransportFailure) -> None:
        """On success the sync follows at once; else the next poll joins again."""
        self.unread, self.join_out = None, False
        event = decisions.decide_join(self, sent, answer)
        if isinstance(answer, messages.JoinGroupResponse):
            self.joined = answer
        self._fails_with(answer, event)
        if event not in JOINED or self.state is State.UNJOINED:
            self._retry_later(event)
        self.happen(event, self._join_reason(event, answer))
        if self.assignor_error is not None:
            self.throw = partial(self.throw_from_poll, self.assignor_error)
            self.happen(Event.SYNC_FATAL, f"rebalance failed due to {self.assignor_error.name}")

    def _join_reason(self, event: Event, answer: messages.JoinGroupResponse | messages.TransportFailure) -> str:
        if event is Event.JOIN_MEMBER_ID_REQUIRED:
            return f"need to re-join with the given member-id: {self.joined.member_id}"
        if event in JOINED:
            return "rebalance failed due to UnjoinedGroupException"
        return f"rebalance failed due to {_exception(answer)}"

    def receive_sync(self, given: ClassicAnswered) -> None:
        """On success the next poll applies the assignment; else the next poll joins again."""
        answer: Any = given.answer
        self.join_out = False
        event = decisions.decide_sync(self, given.request.generation, answer)
        if event is Event.SYNC_OK and self.state is State.COMPLETING_REBALANCE:
            event = self._adopt_assignment(answer)
        self._fails_with(answer, event)
        self._retry_later(event)
        reasons = {
            Event.SYNC_OK_REVOKING: "need to revoke partitions and re-join",
            Event.SYNC_OK: "rebalance failed due to IllegalGenerationException",
        }
        self.happen(event, reasons.get(event) or f"rebalance failed due to {_exception(answer)}")

    def _adopt_assignment(self, answer: messages.SyncGroupResponse) -> Event:
        """An assignment that cannot be decoded is the leader's fault, and fatal here."""
        try:
            self.assigned = decode_assignment(answer.assignment).partitions
        except RemoteProtocolError:
            return Event.SYNC_FATAL
        self.rejoin_reason = self.callback_error = None
        return decisions.decide_assigned(self, self.assigned)

    def _retry_later(self, event: Event) -> None:
        if event not in decisions.AT_ONCE:
            self.retry_due_ms = self.now_ms + self.config.retry_backoff_ms

    def _fails_with(
        self, answer: messages.JoinGroupResponse | messages.SyncGroupResponse | messages.TransportFailure, event: Event
    ) -> None:
        if isinstance(answer, messages.TransportFailure):
            name = answer.name
        elif answer.error_code is ErrorCode.NONE and event in (Event.JOIN_FATAL, Event.SYNC_FATAL):
            name = ErrorCode.INCONSISTENT_GROUP_PROTOCOL.name
        else:
            name = answer.error_code.name
        self.throw = partial(self.throw_from_poll, events.KafkaError(name))

    def throw_from_poll(self, error: events.KafkaError) -> None:
        """The error of a rebalance is thrown by poll(), which does not wait before it may be called again."""
        self.retry_due_ms = self.now_ms
        self.thrown = True
        self.effects.append(Enqueued(events.ErrorEvent(error)))

    # Heartbeats

    def receive_heartbeat(self, given: ClassicAnswered) -> None:
        """An answer keeps the session alive, also one that asks to join; after any other error a backoff begins."""
        answer: Any = given.answer
        event = decisions.decide_heartbeat(self, given.request.generation, answer)
        if event in ALIVE:
            self.heartbeats = self.heartbeats.answer(self.config, self.now_ms)
        else:
            self.heartbeats = self.heartbeats.fail(self.config, self.now_ms, given.jitter)
        if event is not None:
            self.throw = self._end_heartbeats
            self.happen(event, "" if event is _HEARTBEAT_OK else _heartbeat_reason(event, answer))

    def _end_heartbeats(self) -> None:
        """Disables heartbeats; the next poll throws the error, the one after it joins again."""
        self.failure = events.KafkaError(ErrorCode.FENCED_INSTANCE_ID.name)
        self.heartbeats = self.heartbeats.stop()

    def receive_leave(self, _: ClassicAnswered) -> None:
        """Ends a leave, for which only close() waits."""

    # Commits

    def reset_commit_timer(self) -> None:
        """Restarts the auto-commit interval."""
        if self.config.enable_auto_commit:
            self.commit_due_ms = self.now_ms + self.config.auto_commit_interval_ms

    def start_commit(self, offsets: messages.Offsets, purpose: Purpose, call: int = 0) -> None:
        """Commits as a member of the generation; without a generation the commit fails without a request."""
        if not offsets:
            self.end_commit(purpose, call, None)
        elif self.topics is not None and self.state is not State.STABLE:
            name = "RebalanceInProgressException" if self.state in decisions.REBALANCING else "CommitFailedException"
            self.end_commit(purpose, call, events.KafkaError(name))
        elif not self.coordinator_known:
            self.end_commit(purpose, call, events.KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE.name), passes=True)
        else:
            place, config = self.generation, self.config
            instance_id = config.group_instance_id if self.topics is not None else None
            topics = messages.commit_topics(offsets)
            body = messages.OffsetCommitRequest(
                config.group_id, place.generation_id, place.member_id, instance_id, topics=topics
            )
            self.send(body, purpose, call)

    def receive_commit(self, given: ClassicAnswered) -> None:
        """Ends the commit; an error that concerns the membership also resets it."""
        answer: Any = given.answer
        sent = given.request
        code = decisions.find_commit_error(answer)
        event = decisions.decide_commit(self, sent.generation, code)
        self.throw = _throw_nothing
        if event is not None:
            self.happen(event, _commit_reason(event, code))
        error = None if code is ErrorCode.NONE else events.KafkaError(self._commit_error_name(event, code))
        self.end_commit(sent.purpose or Purpose.CALL, sent.call, error, passes=code.passes)

    def _commit_error_name(self, event: Event | None, code: ErrorCode) -> str:
        if event is Event.ANSWER_STALE:
            preparing = self.state is State.PREPARING_REBALANCE
            return "RebalanceInProgressException" if preparing else "CommitFailedException"
        if event in (Event.COMMIT_UNKNOWN_MEMBER_ID, Event.COMMIT_ILLEGAL_GENERATION):
            return "CommitFailedException"
        return code.name

    def end_commit(self, purpose: Purpose, call: int, error: events.KafkaError | None, *, passes: bool = False) -> None:
        """Only a commit that the application called throws; a fenced automatic one makes every poll throw, for good."""
        again_ms = self.now_ms + self.config.retry_backoff_ms if passes else None
        if purpose is Purpose.CALL:
            self.effects.append(CallCompleted(call, error))
        elif purpose in (Purpose.INTERVAL, Purpose.PREPARE):
            if error is not None and error.name == ErrorCode.FENCED_INSTANCE_ID.name:
                self.commit_fenced = error
            if purpose is Purpose.INTERVAL:
                self.commit_due_ms = self.commit_due_ms if again_ms is None else again_ms
            elif self.commit is not None:
                self.commit = Commit(self.commit.due_ms, again_ms, done=again_ms is None)
        elif self.closing is not None:
            stage = Stage.COMMITTING if passes else Stage.LEAVING
            self.closing = replace(self.closing, stage=stage, retry_due_ms=again_ms or 0)


ANSWERS: dict[type, tuple[type, Callable[[Effects, ClassicAnswered], None]]] = {
    messages.HeartbeatRequest: (messages.HeartbeatResponse, Effects.receive_heartbeat),
    messages.JoinGroupRequest: (messages.JoinGroupResponse, Effects.receive_join),
    messages.SyncGroupRequest: (messages.SyncGroupResponse, Effects.receive_sync),
    messages.OffsetCommitRequest: (messages.OffsetCommitResponse, Effects.receive_commit),
    messages.LeaveGroupRequest: (messages.LeaveGroupResponse, Effects.receive_leave),
}
"""The type of the answer to each request, if it does not fail, and its handler."""


def _throw_nothing() -> None:
    """Throws nothing: the error of a commit goes to its caller."""


def _exception(answer: messages.JoinGroupResponse | messages.SyncGroupResponse | messages.TransportFailure) -> str:
    """Kafka's class for the error: `NotCoordinatorException` for NOT_COORDINATOR."""
    if isinstance(answer, messages.TransportFailure):
        return answer.name
    return answer.error_code.name.title().replace("_", "") + "Exception"


def _heartbeat_reason(event: Event, answer: messages.HeartbeatResponse | messages.TransportFailure) -> str:
    if event is Event.HEARTBEAT_REBALANCE_IN_PROGRESS:
        return "group is already rebalancing"
    name = answer.name if isinstance(answer, messages.TransportFailure) else answer.error_code.name
    return f"encountered {name} from HEARTBEAT response"


def _commit_reason(event: Event, code: ErrorCode) -> str:
    if event is Event.COMMIT_REBALANCE_IN_PROGRESS:
        return "offset commit failed since group is already rebalancing"
    return f"encountered {code.name} from OFFSET_COMMIT response"
