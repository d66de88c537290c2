"""`ClassicConsumerMember`: a member of a classic group, its two queues, and the loop that a runtime turns.

The same to a runtime as `fsm.member.runtime.consumer_shell.ConsumerMember` is
(`fsm.member.runtime.embedding.EmbeddedMember`). In Kafka a
classic consumer does on the application's thread what here the background does after each poll; its heartbeat thread is
the background's tick. What the application sees is the same: callbacks inside its calls, one at a time.

Source: `ClassicKafkaConsumer`, `ConsumerCoordinator`, `AbstractCoordinator.HeartbeatThread`.
"""

from __future__ import annotations

from fsm.errors import LocalProtocolError
from fsm.member.classic.application import LISTENER_RAISED
from fsm.member.classic.assignors import PartitionCounts
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
from fsm.member.classic.step import due_ms, poll_wanted_ms, step
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
from fsm.member.inputs import CoordinatorFound, CoordinatorLost, Tick
from fsm.member.runtime.embedding import PollResult, Request
from fsm.member.runtime.mailbox import Mailbox
from fsm.member.timers import NEVER
from fsm.protocol.assignment import Partitions, TopicNames, without
from fsm.protocol.messages import ClassicResponse, JoinGroupRequest, OffsetCommitResponse, Offsets, TransportFailure

JOIN_GRACE_MS = 5_000
"""How much longer than the rebalance timeout a join's answer may take."""


class ClassicConsumerMember:
    """A consumer's membership in a classic group; embed one per consumer, never shared between threads unlocked."""

    def __init__(self, config: ClassicConfig) -> None:
        self.member: ClassicMember = new_member(config)
        self._mail = Mailbox()
        self._out: list[ClassicEffect] = []
        self._heard = True
        """Whether the callback that is open has begun."""

    # What a runtime has to know

    @property
    def config(self) -> ClassicConfig:
        """The settings."""
        return self.member.config

    @property
    def member_id(self) -> str:
        """As the coordinator named the member; empty before and after."""
        return self.member.generation.member_id

    @property
    def closed(self) -> bool:
        """Whether close() is over."""
        return self.member.closed

    @property
    def seeks_coordinator(self) -> bool:
        """As long as none is known and close() has not begun."""
        return not self.member.coordinator_known and self.member.closing is None and not self.closed

    @property
    def is_subscribed(self) -> bool:
        """Whether topics or a pattern are."""
        return self.member.topics is not None

    @property
    def owned(self) -> Partitions:
        """What the member owns now."""
        return self.member.owned

    def fetchable(self, *, checked: bool) -> Partitions:  # noqa: ARG002  # no poll of a classic member is gated
        """What is owned, less what an open callback is about."""
        open_ones = () if self.member.awaited is None else self.member.awaited.partitions
        return without(self.member.owned, open_ones)

    @property
    def poll_wanted_ms(self) -> int:
        """A rebalance goes on in polls alone."""
        return poll_wanted_ms(self.member)

    @property
    def pending_background_events(self) -> int:
        """How many events wait for the application."""
        return len(self._mail.background)

    def backoff_ms(self, attempts: int, jitter: float) -> int:
        """Doubling from the first to the cap."""
        return backoff_ms(self.config, attempts, jitter)

    def timeout_ms(self, request: Request) -> int:
        """A join is answered when everybody has joined, so it may take as long as they are given."""
        if not isinstance(request, JoinGroupRequest):
            return self.config.request_timeout_ms
        return max(self.config.request_timeout_ms, request.rebalance_timeout_ms + JOIN_GRACE_MS)

    # What the application does

    def submit(self, event: ApplicationEvent, deadline_ms: int = NEVER) -> int:
        """Adds to the application queue; gives the number of the call. Raises `LocalProtocolError` once closed."""
        if self.closed:
            raise LocalProtocolError("the consumer is closed; make a new one")
        return self._mail.submit(event, deadline_ms)

    def report(self, event: ApplicationEvent, _now_ms: int) -> int:
        """Adds the end of a callback, for which nobody waits; of one that close() has gone past, nothing."""
        open_one = self.member.awaited
        if isinstance(event, ConsumerRebalanceListenerCallbackCompletedEvent) and (
            open_one is None or open_one.ticket != event.ticket
        ):
            return 0
        self._mail.forget(self.submit(event))
        return 0

    def next_background_event(self) -> BackgroundEvent | None:
        """The next event for the application, None where there is none."""
        event = self._mail.background.take()
        self._heard = self._heard or isinstance(event, PartitionsAssignedEvent | PartitionsRemovedEvent)
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
        self._mail.background.clear()
        open_one = OpenCallback.HEARD if self._heard else OpenCallback.UNHEARD
        positions = self.member.consumed if consumed is None else consumed
        self._mail.submit(Close(timeout_ms, operation, positions, open_one))
        self._drain(now_ms)

    # What the background does

    def answered(
        self,
        order: UnsentClassicRequest,
        answer: ClassicResponse | OffsetCommitResponse | TransportFailure,
        jitter: float,
        now_ms: int,
    ) -> None:
        """The answer to a request, or why there is none. Raises `RemoteProtocolError` where it answers nothing."""
        self._step(ClassicAnswered(order, answer, jitter), now_ms)

    def found_coordinator(self, now_ms: int) -> None:
        """Requests may be sent."""
        self._step(CoordinatorFound(), now_ms)

    def lost_coordinator(self, error: KafkaError, now_ms: int) -> None:
        """The application is to see why the search failed."""
        self._step(CoordinatorLost(error), now_ms)
        self._mail.background.add(ErrorEvent(error))

    def learn(self, metadata: PartitionCounts | TopicNames, now_ms: int) -> bool:
        """How many partitions each topic has; whether that is news. Raises `LocalProtocolError` for names by id."""
        if isinstance(metadata, TopicNames):
            raise LocalProtocolError("a classic member learns partition counts, not names by id: (('topic', 3),)")
        counts = tuple(sorted(metadata))
        if counts == self.member.metadata:
            return False
        self._step(PartitionCountsUpdated(counts), now_ms)
        return True

    def fail_metadata(self, error: KafkaError, _now_ms: int) -> None:
        """The next poll throws it."""
        self._mail.background.add(ErrorEvent(error))

    def poll(self, now_ms: int, jitter: float = 0.0) -> PollResult:
        """One turn of the loop: the application queue, then the heartbeat thread's round, then overdue calls."""
        if not self.closed:
            self._drain(now_ms)
            self._step(Tick(jitter), now_ms)
        for overdue in self._mail.reaper.close() if self.closed else self._mail.reaper.reap(now_ms):
            self._mail.finish(overdue)
        return self._result(now_ms)

    def _drain(self, now_ms: int) -> None:
        for event in self._mail.application.drain():
            try:
                self._step(event, now_ms)
            except LocalProtocolError as refused:
                self._mail.finish(CallCompleted(event.call, KafkaError("IllegalStateException", str(refused))))
            if isinstance(event, AsyncPollEvent):
                self._mail.finish(CallCompleted(event.call))

    def _step(self, given: ClassicInput, now_ms: int) -> None:
        self.member, effects = step(self.member, given, now_ms)
        for effect in effects:
            match effect:
                case Enqueued(event=ErrorEvent()) if self.member.closing is not None:
                    pass  # close() does not look at what comes once it has begun
                case Enqueued(event=ErrorEvent(error=KafkaError(message=text))) if text == LISTENER_RAISED:
                    pass  # thrown by the pass that ran the callback, which knows the exception itself
                case Enqueued(event=event):
                    self._heard = self._heard and isinstance(event, ErrorEvent)
                    self._mail.background.add(event)
                case CallCompleted():
                    self._mail.finish(effect)
                case _:
                    self._out.append(effect)

    def _result(self, now_ms: int) -> PollResult:
        out, self._out = self._out, []
        unknown = {*(self.member.topics or ())} - {topic for topic, _ in self.member.metadata}
        return PollResult(
            unsent_requests=tuple(e for e in out if isinstance(e, UnsentClassicRequest)),
            time_until_next_poll_ms=self._mail.wait_ms(due_ms(self.member), now_ms),
            completed_calls=self._mail.take_completed(),
            coordinator_needed=any(isinstance(e, CoordinatorForgotten) for e in out),
            metadata_needed=bool(unknown),
            notices=tuple(e for e in out if isinstance(e, Taken | Reported)),
        )
