"""`ClassicConsumerMember`: a member of a classic group in its shell (`fsm.member.runtime.shell`).

In Kafka a classic consumer does on the application's thread what here the background does after each poll; its
heartbeat thread is the background's tick. What the application sees is the same: callbacks inside its calls, one at a
time.

Source: `ClassicKafkaConsumer`, `ConsumerCoordinator`, `AbstractCoordinator.HeartbeatThread`.
"""

from __future__ import annotations

from fsm.errors import LocalProtocolError
from fsm.member.classic.assignors import PartitionCounts
from fsm.member.classic.decisions import gives_up_all
from fsm.member.classic.heartbeat import backoff_ms
from fsm.member.classic.state import (
    ClassicAnswered,
    ClassicConfig,
    ClassicEffect,
    ClassicInput,
    ClassicMember,
    Close,
    OpenCallback,
    PartitionCountsUpdated,
    Reported,
    Taken,
    UnsentClassicRequest,
    new_member,
)
from fsm.member.classic.step import LISTENER_RAISED, due_ms, poll_wanted_ms, step
from fsm.member.effects import CallCompleted, CoordinatorForgotten, Enqueued
from fsm.member.events import (
    ApplicationEvent,
    AsyncPollEvent,
    BackgroundEvent,
    ConsumerRebalanceListenerCallbackCompletedEvent,
    ErrorEvent,
    GroupMembershipOperation,
    KafkaError,
    PartitionsAssignedEvent,
    PartitionsRemovedEvent,
)
from fsm.member.inputs import Tick
from fsm.member.runtime.shell import MemberShell
from fsm.member.runtime.trace import ClassicTrace, TraceTo
from fsm.protocol.assignment import Partitions, TopicNames, without
from fsm.protocol.messages import ClassicResponse, JoinGroupRequest, OffsetCommitResponse, Offsets, TransportFailure
from fsm.trace import Kind

JOIN_GRACE_MS = 5_000
"""How much longer than the rebalance timeout a join's answer may take."""


class ClassicConsumerMember(MemberShell[UnsentClassicRequest, PartitionCounts]):
    """A consumer's membership in a classic group; embed one per consumer, never shared between threads unlocked."""

    config: ClassicConfig

    def __init__(
        self, config: ClassicConfig, *, trace: TraceTo | None = None, trace_offset_ms: int = 0, now_ms: int = 0
    ) -> None:
        self.member: ClassicMember = new_member(config)
        super().__init__(config, None if trace is None else ClassicTrace(trace, self.member, trace_offset_ms, now_ms))
        self._callback_begun = True
        """Whether the application has begun the callback that is open."""

    @property
    def member_id(self) -> str:
        """The id that the coordinator gave; empty before and after."""
        return self.member.generation.member_id

    @property
    def member_epoch(self) -> int:
        return self.member.generation.generation_id

    @property
    def seeks_coordinator(self) -> bool:
        """Whether no coordinator is known and close() has not begun."""
        return not self.member.coordinator_known and self.member.closing is None and not self.closed

    @property
    def is_subscribed(self) -> bool:
        return self.member.topics is not None

    @property
    def owned(self) -> Partitions:
        return self.member.owned

    def fetchable(self, *, checked: bool) -> Partitions:  # noqa: ARG002  # no poll of a classic member is gated
        """What is owned, less what an open callback is about; nothing where all of it is given up before a join."""
        if gives_up_all(self.member):
            return ()
        open_ones = () if self.member.awaited is None else self.member.awaited.partitions
        return without(self.member.owned, open_ones)

    @property
    def poll_wanted_ms(self) -> int:
        """A rebalance goes on in polls alone."""
        return poll_wanted_ms(self.member)

    @property
    def throws_next(self) -> bool:
        """Its poll() would have thrown already where the application waits for all that a poll does."""
        return any(isinstance(event, ErrorEvent) for event in self._background)

    def backoff_ms(self, attempts: int, jitter: float) -> int:
        return backoff_ms(self.config, attempts, jitter)

    def timeout_ms(self, request: object) -> int:
        """A join is answered when everybody has joined, so it may take as long as they are given."""
        if not isinstance(request, JoinGroupRequest):
            return self.config.request_timeout_ms
        return max(self.config.request_timeout_ms, request.rebalance_timeout_ms + JOIN_GRACE_MS)

    # What the application does

    def report(self, event: ApplicationEvent, now_ms: int) -> int:  # noqa: ARG002  # it waits for the loop
        """Adds the end of a callback, for which nobody waits; of one that close() has gone past, nothing."""
        open_one = self.member.awaited
        if isinstance(event, ConsumerRebalanceListenerCallbackCompletedEvent) and (
            open_one is None or open_one.ticket != event.ticket
        ):
            return 0
        del self._waiting[self.submit(event)]
        return 0

    def next_background_event(self) -> BackgroundEvent | None:
        event = super().next_background_event()
        begins = isinstance(event, PartitionsAssignedEvent | PartitionsRemovedEvent)
        self._callback_begun = self._callback_begun or begins
        return event

    def close(
        self,
        now_ms: int,
        *,
        operation: GroupMembershipOperation = GroupMembershipOperation.DEFAULT,
        timeout_ms: int = 30_000,
        consumed: Offsets | None = None,
    ) -> None:
        """Begins to close: commit, the last callback, leave. Turn the loop and run callbacks until `closed`.

        From inside a callback, that callback counts as over; one that was asked for and has not begun is not run.
        """
        if self.closed or self.member.closing is not None:
            return
        self._drain(now_ms)
        self._background.clear()
        open_one = OpenCallback.BEGUN if self._callback_begun else OpenCallback.NOT_BEGUN
        positions = self.member.consumed if consumed is None else consumed
        self._note(now_ms, Kind.CLOSE_BEGIN)
        self.submit(Close(timeout_ms, operation, positions, open_one))
        self._drain(now_ms)

    # What the background does

    def receive_answer(
        self,
        order: UnsentClassicRequest,
        answer: ClassicResponse | OffsetCommitResponse | TransportFailure,
        jitter: float,
        now_ms: int,
    ) -> None:
        self._step(ClassicAnswered(order, answer, jitter), now_ms)

    def lose_coordinator(self, error: KafkaError, now_ms: int) -> None:
        super().lose_coordinator(error, now_ms)
        self._background.append(ErrorEvent(error))

    def learn(self, metadata: PartitionCounts | TopicNames, now_ms: int) -> bool:
        """How many partitions each topic has; whether that is news. Raises `LocalProtocolError` for names by id."""
        if isinstance(metadata, TopicNames):
            raise LocalProtocolError("a classic member learns partition counts, not names by id: (('topic', 3),)")
        counts = tuple(sorted(metadata))
        if counts == self.member.metadata:
            return False
        self._step(PartitionCountsUpdated(counts), now_ms)
        return True

    def fail_metadata(self, error: KafkaError, now_ms: int) -> None:  # noqa: ARG002  # no step of the member
        self._background.append(ErrorEvent(error))

    def _step(self, given: ClassicInput, now_ms: int) -> None:
        before = self.member
        self.member, effects = step(before, given, now_ms)
        if self.trace is not None:
            self.trace.step(before, given, effects, self.member, now_ms)
        for effect in effects:
            self._take(effect)
        if self.member.closed and not self.closed:
            self.closed = True
            self._note(now_ms, Kind.CLOSE_END)
        if isinstance(given, AsyncPollEvent):
            self._complete(CallCompleted(given.call))

    def _take(self, effect: ClassicEffect) -> None:
        match effect:
            case Enqueued(event=ErrorEvent()) if self.member.closing is not None:
                pass  # close() does not look at what comes once it has begun
            case Enqueued(event=ErrorEvent(error=KafkaError(message=text))) if text == LISTENER_RAISED:
                pass  # thrown by the pass that ran the callback, which knows the exception itself
            case Enqueued(event=event):
                self._callback_begun = self._callback_begun and isinstance(event, ErrorEvent)
                self._background.append(event)
            case CallCompleted():
                self._complete(effect)
            case UnsentClassicRequest():
                self._requests.append(effect)
            case CoordinatorForgotten():
                self._coordinator_needed = True
            case Taken() | Reported():
                self._notices.append(effect)

    def _next_ms(self, now_ms: int) -> int:  # noqa: ARG002  # its timers are instants
        return due_ms(self.member)

    def _turn(self, now_ms: int, tick: Tick) -> None:
        super()._turn(now_ms, tick)
        self._metadata_needed = not {*(self.member.topics or ())} <= {topic for topic, _ in self.member.metadata}
