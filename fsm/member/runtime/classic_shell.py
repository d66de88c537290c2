"""`ClassicConsumerMember`: a member of a classic group in its shell (`fsm.member.runtime.shell`).

A classic consumer of Kafka rebalances on the application's thread; here the background does so after each poll, and its
tick is Kafka's heartbeat thread. The application sees the same: callbacks inside its calls, one at a time.

Source: `ClassicKafkaConsumer`, `ConsumerCoordinator`, `AbstractCoordinator.HeartbeatThread`.
"""

from __future__ import annotations

from fsm.errors import LocalProtocolError
from fsm.member import events
from fsm.member.classic import state
from fsm.member.classic.assignors import PartitionCounts
from fsm.member.classic.decisions import gives_up_all
from fsm.member.classic.heartbeat import backoff_ms
from fsm.member.classic.step import LISTENER_RAISED, due_ms, poll_wanted_ms, step
from fsm.member.effects import CallCompleted, CoordinatorForgotten, Enqueued
from fsm.member.inputs import Tick
from fsm.member.runtime.answers import check_counts
from fsm.member.runtime.shell import MemberShell
from fsm.member.runtime.trace import ClassicTrace, TraceTo
from fsm.protocol.assignment import Partitions, TopicNames, without
from fsm.protocol.messages import JoinGroupRequest, Offsets
from fsm.trace import Kind

JOIN_GRACE_MS = 5_000
"""How much longer than the rebalance timeout a join's answer may take."""


class ClassicConsumerMember(MemberShell[state.UnsentClassicRequest, PartitionCounts]):
    """A consumer's membership in a classic group; embed one per consumer, never shared between threads unlocked."""

    answered = state.ClassicAnswered
    config: state.ClassicConfig

    def __init__(
        self, config: state.ClassicConfig, *, trace: TraceTo | None = None, trace_offset_ms: int = 0, now_ms: int = 0
    ) -> None:
        self.member: state.ClassicMember = state.new_member(config)
        super().__init__(config, None if trace is None else ClassicTrace(trace, self.member, trace_offset_ms, now_ms))
        self._callback_begun = True
        """Whether the application has begun the callback that is open."""

    @property
    def member_id(self) -> str:
        """The id from the coordinator; empty outside the group."""
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
        """Owned partitions without those of an open callback; empty if all are revoked before a join."""
        if gives_up_all(self.member):
            return ()
        open_ones = () if self.member.awaited is None else self.member.awaited.partitions
        return without(self.member.owned, open_ones)

    @property
    def poll_wanted_ms(self) -> int:
        """The instant from which a poll continues a rebalance: only polls do."""
        return poll_wanted_ms(self.member)

    @property
    def throws_next(self) -> bool:
        """Whether an error waits: Kafka's poll() does all of its work itself, and would have thrown it already."""
        return any(isinstance(event, events.ErrorEvent) for event in self._background)

    def backoff_ms(self, attempts: int, jitter: float) -> int:
        return backoff_ms(self.config, attempts, jitter)

    def timeout_ms(self, request: object) -> int:
        """The request timeout; a join may take the whole rebalance timeout, because it is answered when all members
        have joined.
        """
        if not isinstance(request, JoinGroupRequest):
            return self.config.request_timeout_ms
        return max(self.config.request_timeout_ms, request.rebalance_timeout_ms + JOIN_GRACE_MS)

    # What the application does

    def report(self, event: events.ApplicationEvent, now_ms: int) -> int:  # noqa: ARG002  # it waits for the loop
        """Adds the end of a callback, unless close() has abandoned it; no call waits for it."""
        open_one = self.member.awaited
        if isinstance(event, events.ConsumerRebalanceListenerCallbackCompletedEvent) and (
            open_one is None or open_one.ticket != event.ticket
        ):
            return 0
        del self._waiting[self.submit(event)]
        return 0

    def next_background_event(self) -> events.BackgroundEvent | None:
        event = super().next_background_event()
        begins = isinstance(event, events.PartitionsAssignedEvent | events.PartitionsRemovedEvent)
        self._callback_begun = self._callback_begun or begins
        return event

    @property
    def _is_closing(self) -> bool:
        return self.member.closing is not None

    def _begin_close(
        self, now_ms: int, operation: events.GroupMembershipOperation, timeout_ms: int, consumed: Offsets | None
    ) -> None:
        """Begins close(): a callback that calls it counts as over, and a requested one that has not begun is
        not run.
        """
        self._drain(now_ms)
        self._background.clear()
        open_one = state.OpenCallback.BEGUN if self._callback_begun else state.OpenCallback.NOT_BEGUN
        positions = self.member.consumed if consumed is None else consumed
        self._note(now_ms, Kind.CLOSE_BEGIN)
        self.submit(state.Close(timeout_ms, operation, positions, open_one))
        self._drain(now_ms)

    # What the background does

    def lose_coordinator(self, error: events.KafkaError, now_ms: int) -> None:
        super().lose_coordinator(error, now_ms)
        self._background.append(events.ErrorEvent(error))

    def learn(self, metadata: PartitionCounts | TopicNames, now_ms: int) -> bool:
        """Takes partition counts by topic; returns whether they are new.

        Raises `LocalProtocolError` for topic names by id, `RemoteProtocolError` for anything else.
        """
        if isinstance(metadata, TopicNames):
            raise LocalProtocolError("a classic member learns partition counts, not names by id: (('topic', 3),)")
        check_counts(metadata)
        counts = tuple(sorted(metadata))
        if counts == self.member.metadata:
            return False
        self._step(state.PartitionCountsUpdated(counts), now_ms)
        return True

    def fail_metadata(self, error: events.KafkaError, now_ms: int) -> None:  # noqa: ARG002  # no step of the member
        self._background.append(events.ErrorEvent(error))

    def _step(self, given: state.ClassicInput, now_ms: int) -> None:
        before = self.member
        self.member, effects = step(before, given, now_ms)
        if self.trace is not None:
            self.trace.step(before, given, effects, self.member, now_ms)
        for effect in effects:
            self._take(effect)
        if self.member.closed and not self.closed:
            self.closed = True
            self._note(now_ms, Kind.CLOSE_END)
        if isinstance(given, events.AsyncPollEvent):
            self._complete(CallCompleted(given.call))

    def _take(self, effect: state.ClassicEffect) -> None:
        match effect:
            case Enqueued(event=events.ErrorEvent()) if self.member.closing is not None:
                pass  # close() ignores answers once it has begun
            case Enqueued(event=events.ErrorEvent(error=events.KafkaError(message=text))) if text == LISTENER_RAISED:
                pass  # the pass that ran the callback throws it, because it has the exception itself
            case Enqueued(event=event):
                self._callback_begun = self._callback_begun and isinstance(event, events.ErrorEvent)
                self._background.append(event)
            case CallCompleted():
                self._complete(effect)
            case state.UnsentClassicRequest():
                self._requests.append(effect)
            case CoordinatorForgotten():
                self._coordinator_needed = True
            case state.Taken() | state.Reported():
                self._notices.append(effect)

    def _next_ms(self, now_ms: int) -> int:  # noqa: ARG002  # its timers are instants
        return due_ms(self.member)

    def _turn(self, now_ms: int, tick: Tick) -> None:
        super()._turn(now_ms, tick)
        self._metadata_needed = not {*(self.member.topics or ())} <= {topic for topic, _ in self.member.metadata}
