"""The trace of an embedded member: the records that a parser would return for the log of Kafka's consumer.

A shell calls `MemberTrace` for every step of its member and every callback; only this module defines the resulting
trace records. A prototype's run is audited like a fleet's logs: `fsm audit --format trace run.jsonl`.

Source: the log lines that `fsm.logs.programs.java_consumer_member`, `java_classic_member` and `java_client` read.
"""

from __future__ import annotations

import logging
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from io import FileIO
from itertools import count
from pathlib import Path
from typing import Any

from fsm.member.classic.state import ClassicAnswered, ClassicMember, Reported, Taken, UnsentClassicRequest
from fsm.member.classic.step import LEAVING
from fsm.member.consumer.decisions import FENCING, IN_GROUP, RETRIED
from fsm.member.consumer.effects import error_of
from fsm.member.consumer.state import Member
from fsm.member.effects import (
    CommitEnded,
    CoordinatorForgotten,
    Enqueued,
    PolledLate,
    PollTimerExpired,
    Purpose,
    RunEnded,
    RunStarted,
    TargetUpdated,
    Transition,
    UnsentRequest,
)
from fsm.member.events import (
    KafkaError,
    ListenerMethod,
    PartitionsRemovedEvent,
    TopicPatternSubscriptionChangeEvent,
    TopicRe2JPatternSubscriptionChangeEvent,
    TopicSubscriptionChangeEvent,
)
from fsm.member.inputs import Answered, CoordinatorFound, CoordinatorLost
from fsm.member.runtime.queues import InvokeListener
from fsm.protocol import messages
from fsm.protocol.assignment import LocalAssignment, Partitions, TopicNames
from fsm.protocol.config import ConsumerConfig
from fsm.protocol.error_codes import ErrorCode
from fsm.tables.classic_member import TABLE as CLASSIC_TABLE
from fsm.tables.classic_member import Effect as ClassicEffect
from fsm.tables.classic_member import Event as ClassicEvent
from fsm.tables.classic_member import State as ClassicState
from fsm.tables.consumer_member import TABLE as CONSUMER_TABLE
from fsm.tables.consumer_member import State
from fsm.trace import DETAIL_LIMIT, Kind, TraceRecord

TraceTo = str | os.PathLike[str] | Callable[[TraceRecord], None]
"""Where a trace goes: a file that lines are added to, or a function that takes each record."""
Partial = Iterator[tuple[Kind, dict[str, Any]]]
"""Records without their common fields: the time and the member."""

_NUMBERS = count(1)
_CALLBACKS = {
    ListenerMethod.ASSIGNED: ("assigned", Kind.ASSIGN_BEGIN, Kind.ASSIGN_END),
    ListenerMethod.REVOKED: ("revoked", Kind.REVOKE_BEGIN, Kind.REVOKE_END),
    ListenerMethod.LOST: ("lost", Kind.LOST_BEGIN, Kind.LOST_END),
}
_APP, _BACKGROUND = {"thread": "app"}, {"thread": "background"}
LOST_MEMBERSHIP = frozenset({ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION, ErrorCode.FENCED_INSTANCE_ID})
"""Answers after which the coordinator no longer knows a classic member or its generation."""


def client_id_of(config: ConsumerConfig) -> str:
    """The default client id of a Kafka consumer; source: `ConsumerConfig.maybeOverrideClientId`."""
    named = config.client_id or f"consumer-{config.group_id}-{config.group_instance_id or ''}"
    return named if config.client_id or config.group_instance_id else f"{named}{next(_NUMBERS)}"


def warn(what: str, **fields: str) -> None:
    """Logs a warning through structlog if it is configured, else through logging."""
    import structlog  # noqa: PLC0415

    if structlog.is_configured():
        structlog.get_logger().warning(what, **fields)
    else:
        text = ", ".join(f"{name}: {value}" for name, value in fields.items())
        logging.getLogger("fsm.member").warning("%s (%s)", what, text)


class MemberTrace(ABC):
    """Writes the trace of a member and its application, one record a line, each line with one write.

    `offset_ms` converts the member's clock to epoch milliseconds. Raises `OSError` if the file cannot be opened. If a
    later write fails, the trace ends there, and a warning is logged.
    """

    protocol: str
    _member_id = ""

    def __init__(self, to: TraceTo, config: ConsumerConfig, offset_ms: int, now_ms: int, **settings: object) -> None:
        self._take = to if callable(to) else None
        self._file = None if callable(to) else Path(to).open("ab", buffering=0)  # noqa: SIM115  # closed with close()
        self._offset_ms = offset_ms
        self._now_ms = now_ms
        self._client_id = client_id_of(config)
        self._config = config
        printed = {
            "client.id": self._client_id,
            "group.id": config.group_id,
            "group.instance.id": config.group_instance_id,
            "group.protocol": self.protocol,
            "max.poll.interval.ms": config.max_poll_interval_ms,
            **settings,
        }
        kept = {key: str(value) for key, value in sorted(printed.items()) if value is not None}
        self.write(now_ms, Kind.STARTED, settings=kept, **_APP)

    def write(self, now_ms: int | None, kind: Kind, **fields: Any) -> None:
        """Writes a record, by default with the time of the last one; closes the file after CLOSE_END."""
        self._now_ms = now_ms = self._now_ms if now_ms is None else now_ms
        fields["detail"] = fields.get("detail", "")[:DETAIL_LIMIT]
        fields.setdefault("member_id", self._member_id)
        config, ts_ms = self._config, now_ms + self._offset_ms
        record = TraceRecord(
            ts_ms, kind, config.group_id, self._client_id, instance_id=config.group_instance_id or "", **fields
        )
        if self._take is not None:
            self._take(record)
        elif self._file is not None and not self._file.closed:
            _write_line(self._file, record)

    def begin_callback(self, asked: InvokeListener, now_ms: int) -> None:
        """The listener is about to be called."""
        _, begin, _ = _CALLBACKS[asked.method]
        self.write(now_ms, begin, partitions=asked.partitions, **_APP)

    def end_callback(self, asked: InvokeListener, error: KafkaError | None, now_ms: int) -> None:
        """The listener has returned, or raised an exception that the application sees as `error`."""
        name, _, end = _CALLBACKS[asked.method]
        if error is None:
            self.write(now_ms, end, partitions=asked.partitions, **_APP)
        else:
            failed = {"event": name, "detail": error.message or error.name}
            self.write(now_ms, Kind.CALLBACK_FAILED, partitions=asked.partitions, **failed, **_APP)

    def step(self, before: Any, given: object, effects: tuple[Any, ...], after: Any, now_ms: int) -> None:
        """Writes the records of a step of the member."""
        for kind, fields in (*_trace_input(given), *self._trace_step(before, given, effects, after)):
            self.write(now_ms, kind, **fields)

    @abstractmethod
    def _trace_step(self, before: Any, given: object, effects: tuple[Any, ...], after: Any) -> Partial: ...


def _write_line(file: FileIO, record: TraceRecord) -> None:
    line = record.to_json().encode() + b"\n"
    try:
        whole = file.write(line) == len(line)  # one write: no other process can write within it
    except OSError:
        whole = False
    if record.kind is Kind.CLOSE_END or not whole:
        file.close()
    if not whole:
        warn("the trace could not be written and ends here", path=str(file.name))


def _trace_input(given: object) -> Partial:
    """The records of an input, common to both protocols."""
    match given:
        case CoordinatorFound():
            yield Kind.COORDINATOR_FOUND, {}
        case CoordinatorLost(error=error):
            yield Kind.COORDINATOR_LOST, {"detail": "" if error is None else error.name}
        case Answered(answer=answer) | ClassicAnswered(answer=answer):
            purpose = given.request.purpose
            if purpose is not None and purpose not in (Purpose.HEARTBEAT, Purpose.UNWATCHED):
                assert isinstance(answer, messages.OffsetCommitResponse | messages.TransportFailure)  # noqa: S101  # else the step raises
                error = error_of(answer)
                if error is not None:
                    yield Kind.COMMIT_FAILED, {"detail": error.name}


def _trace_subscription(given: object, topics: tuple[str, ...]) -> Partial:
    match given:
        case TopicSubscriptionChangeEvent():
            yield Kind.SUBSCRIBED, {"topics": topics, **_APP}
        case TopicPatternSubscriptionChangeEvent(pattern=p) | TopicRe2JPatternSubscriptionChangeEvent(pattern=p):
            yield Kind.SUBSCRIBED, {"detail": p, **_APP}


def _trace_owned(before: Partitions, after: Partitions, *, listener: bool) -> Partial:
    """Without a listener there are no callbacks that record the application's ownership."""
    if not listener and before != after:
        yield Kind.OWNED, {"full": after, **_APP}


class ConsumerTrace(MemberTrace):
    """The trace of a consumer-protocol member (KIP-848)."""

    protocol = "consumer"

    def __init__(self, to: TraceTo, member: Member, offset_ms: int, now_ms: int) -> None:
        dialect = member.settings.dialect
        self._member_id = member.member_id
        super().__init__(to, member.settings.config, offset_ms, now_ms, version=dialect.name)
        same_rows = dialect.table.rows == CONSUMER_TABLE.rows
        self._machine = CONSUMER_TABLE.name if same_rows else f"{CONSUMER_TABLE.name}/{dialect.name}"
        """A dialect with other rows has another table name, so that its steps are not judged by the release's table."""

    def _trace_step(self, before: Member, given: object, effects: tuple[Any, ...], after: Member) -> Partial:
        if isinstance(given, Answered):
            yield from self._trace_answer(before.state, given, effects)
        for effect in effects:
            yield from self._trace_effect(effect, after)
            if isinstance(effect, CommitEnded) and effect.error is not None and not isinstance(given, Answered):
                yield Kind.COMMIT_FAILED, {"detail": effect.error.name}
        if before.subscription != after.subscription:
            yield from _trace_subscription(given, after.subscription.topics)
        yield from _trace_owned(before.ownership.owned, after.ownership.owned, listener=after.subscription.listener)

    def _trace_answer(self, state: State, given: Answered, effects: tuple[Any, ...]) -> Partial:
        """An answer to a heartbeat, unless a member that leaves passes over it."""
        answer = given.answer
        if given.request.purpose not in (Purpose.HEARTBEAT, Purpose.UNWATCHED):
            return
        fatal = any(isinstance(effect, Transition) and effect.target is State.FATAL for effect in effects)
        if isinstance(answer, messages.TransportFailure):
            if fatal:
                yield Kind.FATAL, {"detail": answer.name}
            elif given.request.purpose is Purpose.HEARTBEAT:
                yield Kind.HEARTBEAT_GIVEN_UP, _BACKGROUND
        elif isinstance(answer, messages.ConsumerGroupHeartbeatResponse):
            code, epoch = answer.error_code, answer.member_epoch
            if code is ErrorCode.NONE:
                if epoch < 0 or state in IN_GROUP:
                    yield (Kind.LEFT if epoch < 0 else Kind.HEARTBEAT_OK), {"epoch": epoch, **_BACKGROUND}
            elif code in FENCING:
                yield Kind.FENCED, {"detail": code.name, **_BACKGROUND}
            elif code not in RETRIED:
                yield (Kind.FATAL if fatal else Kind.ERROR), {"detail": code.name, **_BACKGROUND}

    def _trace_effect(self, effect: object, after: Member) -> Partial:
        match effect:
            case Transition():
                yield from self._trace_transition(effect)
            case UnsentRequest(body=messages.ConsumerGroupHeartbeatRequest(member_epoch=epoch)):
                yield (Kind.LEAVE_SENT if epoch < 0 else Kind.HEARTBEAT_SENT), {"epoch": epoch, **_BACKGROUND}
            case TargetUpdated(target=target):
                yield Kind.TARGET, {"full": _name_partitions(after, target), **_BACKGROUND}
            case RunStarted(resolved=resolved, added=added, revoked=revoked):
                full = _name_partitions(after, resolved)
                yield Kind.RECONCILING, {"full": full, "partitions": added, "revoked": revoked, **_BACKGROUND}
            case RunEnded(error=error):
                yield Kind.ERROR, {"detail": f"reconciliation ended early: {error or 'it is of the past'}"}
            case Enqueued(event=PartitionsRemovedEvent(method=ListenerMethod.REVOKED, partitions=revoked)):
                yield Kind.REVOKE_DECIDED, {"partitions": revoked, **_BACKGROUND}
            case CoordinatorForgotten():
                yield Kind.COORDINATOR_LOST, _BACKGROUND
            case PollTimerExpired():
                yield Kind.POLL_EXPIRED, _BACKGROUND
            case PolledLate():
                yield Kind.POLL_LATE, _BACKGROUND

    def _trace_transition(self, made: Transition) -> Partial:
        """The transition, and records that follow from it."""
        source, target, epoch = made.source, made.target, {"epoch": made.epoch, **_BACKGROUND}
        hop = {"machine": self._machine, "state": source.name, "next_state": target.name}
        yield Kind.TRANSITION, {**hop, **epoch}
        if target is State.JOINING:
            yield Kind.JOINING, _BACKGROUND
        elif source is State.JOINING and target in (State.RECONCILING, State.STABLE):
            yield Kind.JOINED, epoch
        elif target is State.PREPARE_LEAVING:
            yield Kind.LEAVE_BEGIN, epoch
        elif source is State.LEAVING and target in (State.UNSUBSCRIBED, State.STALE):
            yield Kind.LEFT, epoch


def _name_partitions(member: Member, assignment: LocalAssignment) -> Partitions | None:
    """An assignment by topic names; None if one is unknown."""
    names = TopicNames({**member.client.metadata, **member.names})
    if any(topic_id not in names for topic_id, _ in assignment.partitions):
        return None
    return names.name(assignment.partitions)


class ClassicTrace(MemberTrace):
    """The trace of a classic member."""

    protocol = "classic"

    def __init__(self, to: TraceTo, member: ClassicMember, offset_ms: int, now_ms: int) -> None:
        config, self._listens = member.config, False
        intervals = {
            "heartbeat.interval.ms": config.heartbeat_interval_ms,
            "session.timeout.ms": config.session_timeout_ms,
            "internal.leave.group.on.close": str(config.leave_group_on_close).lower(),
        }
        super().__init__(to, config, offset_ms, now_ms, **intervals)

    def _trace_step(
        self, before: ClassicMember, given: object, effects: tuple[Any, ...], after: ClassicMember
    ) -> Partial:
        if isinstance(given, ClassicAnswered):
            yield from self._trace_answer(given)
        if after.generation.member_id and after.generation.member_id != self._member_id:
            self._member_id = after.generation.member_id
            yield Kind.MEMBER_ID, {}
        yield from self._trace_rows(before.state, [e for e in effects if isinstance(e, Taken)], after)
        if after.assigned is not before.assigned:
            yield Kind.TARGET, {"full": after.assigned, **_BACKGROUND}
        for effect in effects:
            yield from self._trace_effect(effect)
        if isinstance(given, TopicSubscriptionChangeEvent | TopicPatternSubscriptionChangeEvent):
            self._listens = given.listener
            yield from _trace_subscription(given, after.topics or ())
        if before.topics is not None and after.topics is None:
            yield Kind.UNSUBSCRIBED, _APP
        yield from _trace_owned(before.owned, after.owned, listener=self._listens)

    def _trace_answer(self, given: ClassicAnswered) -> Partial:
        """An answer to anything but a commit."""
        match given.answer:
            case messages.HeartbeatResponse(error_code=ErrorCode.NONE):
                yield Kind.HEARTBEAT_OK, {"epoch": given.request.generation.generation_id, **_BACKGROUND}
            case messages.LeaveGroupResponse():
                yield Kind.LEFT, _BACKGROUND
            case (
                messages.JoinGroupResponse(error_code=code)
                | messages.SyncGroupResponse(error_code=code)
                | messages.HeartbeatResponse(error_code=code)
            ) if code not in (ErrorCode.NONE, ErrorCode.MEMBER_ID_REQUIRED):
                yield (Kind.FENCED if code in LOST_MEMBERSHIP else Kind.ERROR), {"detail": code.name, **_BACKGROUND}

    def _trace_rows(self, state: ClassicState, rows: list[Taken], after: ClassicMember) -> Partial:
        """The changes of state; a row that waits for a callback changes the state when the callback has ended."""
        taken = {row.source: row for row in rows}
        for reached in (*(row.source for row in rows), after.state):
            if reached is not state:
                row = taken.get(state)
                event = row.event.name if row is not None and row.target is reached else ""
                hop = {"machine": CLASSIC_TABLE.name, "state": state.name, "event": event, "next_state": reached.name}
                yield Kind.TRANSITION, hop
                place = {"epoch": after.generation.generation_id}
                if reached is ClassicState.COMPLETING_REBALANCE:
                    yield Kind.JOINED, place
                elif reached is ClassicState.STABLE:
                    yield Kind.SYNCED, place
            state = reached

    def _trace_effect(self, effect: object) -> Partial:
        match effect:
            case Taken(event=ClassicEvent.POLL_TIMEOUT | ClassicEvent.POLL_TIMEOUT_STATIC):
                yield Kind.POLL_EXPIRED, _BACKGROUND
            case Reported(effect=ClassicEffect.RESET_GENERATION, reason=reason):
                yield Kind.GENERATION_RESET, {"detail": reason}
            case Reported(effect=ClassicEffect.REQUEST_REJOIN, reason=reason) if reason != LEAVING:
                yield Kind.JOINING, {"detail": reason}
            case CoordinatorForgotten():
                yield Kind.COORDINATOR_LOST, {}
            case UnsentClassicRequest(body=messages.JoinGroupRequest()):
                yield Kind.JOINING, _APP
            case UnsentClassicRequest(body=messages.HeartbeatRequest(generation_id=generation)):
                yield Kind.HEARTBEAT_SENT, {"epoch": generation, **_BACKGROUND}
            case UnsentClassicRequest(body=messages.LeaveGroupRequest(members=(leaving,))):
                leave = {"member_id": leaving.member_id, "detail": leaving.reason or ""}
                yield Kind.LEAVE_BEGIN, leave
                yield Kind.LEAVE_SENT, leave
