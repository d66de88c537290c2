"""A consumer of the classic protocol as a value, and the production shell that each step restores from it."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from fsm.check.kafka.application import App, Driven
from fsm.check.kafka.descriptions import Seen
from fsm.check.kafka.targets import EVEN, STICKY, ask_leader
from fsm.member.classic.invariants import INVARIANTS, ObservedStep, find_broken
from fsm.member.classic.state import ClassicEffect, ClassicInput, ClassicMember, RemainingSteps
from fsm.member.events import (
    ApplicationEvent,
    BackgroundEvent,
    KafkaError,
    ListenerMethod,
    PartitionsAssignedEvent,
    PartitionsRemovedEvent,
    UnsubscribeEvent,
)
from fsm.member.runtime.classic_shell import ClassicConsumerMember
from fsm.member.timers import NEVER
from fsm.protocol.assignment import Partitions
from fsm.protocol.messages import SyncGroupRequest
from fsm.tables.classic_member import Effect

ASKED_OF_MEMBERS = (*(sentence for sentence, _ in INVARIANTS), EVEN, STICKY)
"""The invariants that are checked on each step of a member."""


class ClassicConsumer(NamedTuple):
    """A consumer of the classic protocol between two steps."""

    member: ClassicMember
    app: App = App.IDLE
    using: Partitions = ()
    """The partitions in use: from the end of the assigned callback until the end of the revoked or lost callback."""
    events: tuple[BackgroundEvent, ...] = ()
    """The background queue."""
    calling: BackgroundEvent | None = None
    """The event of the running callback."""
    beats: bool = False
    """Whether a heartbeat is in flight."""
    life: int = 0
    """The number of the process."""
    searching: bool = False
    """Whether a FindCoordinator request is in flight."""
    pending: Partitions = ()
    """Owned partitions that an interrupt has left pending revocation."""


class Shell(ClassicConsumerMember, Driven):
    """The production shell, restored from a consumer that is a value."""

    def __init__(self, consumer: ClassicConsumer, *, searches: bool = False) -> None:
        super().__init__(consumer.member.config)
        self.restore(consumer, searches=searches)
        asked_back = (PartitionsAssignedEvent, PartitionsRemovedEvent)
        self._callback_begun = not any(isinstance(event, asked_back) for event in consumer.events)
        if consumer.member.unsubscribing is not None:
            self._calls, self._waiting[1] = 1, (UnsubscribeEvent.__name__, NEVER)

    def _step(self, given: ClassicInput, now_ms: int) -> None:
        """A step of the member; notes the invariants that it breaks."""
        before, self._taken = self.member, list[ClassicEffect]()
        super()._step(given, now_ms)
        at = ObservedStep(before, given, self.member, self._taken, now_ms)
        self.broken += find_broken(at)
        for sent in at.list_sent(SyncGroupRequest):
            self.broken += ask_leader(at.joined, sent, before.metadata)

    def _take(self, effect: ClassicEffect) -> None:
        self._taken.append(effect)
        super()._take(effect)

    def _do(self, event: ApplicationEvent, now_ms: int) -> KafkaError | None:
        """Adds an event of a pass; the application's thread processes it."""
        self.report(event, now_ms)
        self._drain(now_ms)
        return None


def interrupt(member: ClassicMember) -> ClassicMember:
    """The member after an interrupt, or a wakeup, out of the callback of a poll, as the Java client has it.

    poll() throws at once, and gives nothing up. The next one repeats an assignment from its revoked callback on, but no
    callback before a join: with what it owns the member joins. Our own runtimes report the end of such a callback.

    Source: `ConsumerRebalanceListenerInvoker` (WakeupException, InterruptException), `joinGroupIfNeeded`.
    """
    awaited, completion = member.awaited, member.completion
    if awaited is not None and completion is not None:
        steps: tuple[Effect, ...] = (Effect.ASSIGN_PARTITIONS,)
        if awaited.method is ListenerMethod.REVOKED:
            steps = Effect.REVOKE_PARTITIONS, Effect.REQUEST_REJOIN, *steps
        completion = RemainingSteps(steps)
    return replace(member, awaited=None, completion=completion, callback_error=None)


def list_pending(member: ClassicMember) -> Partitions:
    """The partitions that stay pending revocation after an interrupt before a join: they are not fetched any more.

    Source: `maybeMarkPartitionsPendingRevocation` marks them before the automatic commit; only another
    `TopicPartitionState` has no mark.
    """
    marks = member.config.enable_auto_commit and not member.config.is_cooperative and member.completion is None
    return member.owned if marks else ()


def observe(app: App, member: ClassicMember, using: Partitions) -> Seen:
    """The parts of a consumer's state that the model and a live consumer share."""
    if app in (App.DEAD, App.CLOSED):
        return {"application": app}
    return {
        "application": app,
        "state": member.state,
        "generation": member.generation,
        "owned set": member.owned,
        "assignment": member.assigned,
        "wish to rejoin": member.rejoin_needed,
        "open join": member.join_out,
        "open callback": member.awaited is not None,
        "use": using,
    }
