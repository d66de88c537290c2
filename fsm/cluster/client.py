"""One consumer of a cluster: a member, the loop around it, and an application that polls and uses partitions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from fsm.cluster.idle_members import poll_idly, polls_idly
from fsm.member.classic.assignors import COOPERATIVE_STICKY, RANGE, ClientAssignor
from fsm.member.classic.state import ClassicConfig
from fsm.member.events import AsyncPollEvent, GroupMembershipOperation, KafkaError, ListenerMethod
from fsm.member.events import TopicSubscriptionChangeEvent as Subscribed
from fsm.member.runtime.background import Background
from fsm.member.runtime.classic_shell import ClassicConsumerMember
from fsm.member.runtime.consumer_shell import ConsumerMember
from fsm.member.runtime.queues import InvokeListener, Pass, process
from fsm.member.runtime.shell import MemberShell
from fsm.member.timers import NEVER
from fsm.protocol.assignment import Partitions, TopicPartition, partitions, without
from fsm.protocol.config import INT_MAX, ConsumerConfig
from fsm.protocol.messages import Offsets

GROUP = "g"
POLL_MS = 100
MAX_POLL_INTERVAL_MS, REQUEST_TIMEOUT_MS = 4_000, 1_000
SESSION_TIMEOUT_MS, HEARTBEAT_INTERVAL_MS = 3_000, 500

EAGER, COOPERATIVE, BOTH = "range", "cooperative-sticky", "range,cooperative-sticky"
CLASSIC: Mapping[str, tuple[ClientAssignor, ...]] = {
    EAGER: (RANGE,),
    COOPERATIVE: (COOPERATIVE_STICKY,),
    BOTH: (RANGE, COOPERATIVE_STICKY),
}
"""The classic protocol, by the members' `partition.assignment.strategy`.

The last one, Kafka's default, is eager, and has a protocol in common with either of the others.
"""

RETRIABLE = frozenset({"RebalanceInProgressException", "TimeoutException"})
"""Errors of a poll after which an application polls again; any other one ends its process."""


def new_member(
    dialect: str, member_id: str, instance_id: str | None, now_ms: int, *, commits: bool
) -> ConsumerMember | ClassicConsumerMember:
    """A member of a dialect of KIP-848, or of the classic protocol: a key of `CLASSIC`. Its coordinator creates the
    member id of the latter.
    """
    common: dict[str, Any] = {
        "group_instance_id": instance_id,
        "max_poll_interval_ms": MAX_POLL_INTERVAL_MS,
        "request_timeout_ms": REQUEST_TIMEOUT_MS,
        "enable_auto_commit": commits,
    }
    if dialect not in CLASSIC:
        config = ConsumerConfig(GROUP, **common)
        return ConsumerMember(config, member_id=member_id, now_ms=now_ms, dialect=dialect)
    common |= {"session_timeout_ms": SESSION_TIMEOUT_MS, "heartbeat_interval_ms": HEARTBEAT_INTERVAL_MS}
    common |= {"auto_commit_interval_ms": INT_MAX}  # it commits when that matters to others: before a revocation
    return ClassicConsumerMember(ClassicConfig(GROUP, assignors=CLASSIC[dialect], **common))


@dataclass
class Client:
    """A consumer with its application, on the clock of the cluster."""

    name: str
    dialect: str
    """A dialect of the consumer member, or a key of `CLASSIC`."""
    member: MemberShell[Any, Any]
    background: Background
    using: Partitions = ()
    """The partitions in use, from the end of the assigned callback until the end of the revoked or lost callback."""
    next_poll_ms: int = 0
    poll_ms: int = POLL_MS
    """The interval of polls."""
    skips: bool = False
    """Whether polls that would only restart the poll timer are skipped; the last of them is caught up on."""
    is_idle: bool = False
    """Whether its next poll would only restart the poll timer."""
    frozen_until_ms: int = 0
    """The time until which the process does not run."""
    slow_ms: int = 0
    """How long the next revoked or lost callback takes."""
    callback_ends_ms: int = 0
    processing: Pass | None = None
    """The application's current pass over background events."""
    event: Any = None
    """The event that the pass waits for: a callback, or one that is reported."""
    errors: list[KafkaError] = field(default_factory=list)
    topics: tuple[str, ...] = ()
    """The subscribed topics."""
    closing: bool = False
    consumed: dict[TopicPartition, int] = field(default_factory=dict)
    """Positions, if the application commits them; it consumes one record of each partition per poll."""
    note: Callable[[str], None] = lambda _: None
    """Called with a text for each event."""
    member_id: str = ""
    """The member id; the last one after it was lost."""

    @property
    def is_classic(self) -> bool:
        """Whether its member belongs to the classic protocol."""
        return self.dialect in CLASSIC

    @property
    def is_over(self) -> bool:
        """Whether the process ends: closed, or an error that ends its application."""
        return self.member.closed or any(error.name not in RETRIABLE for error in self.errors)

    @property
    def in_callback(self) -> bool:
        """Whether its application is inside a callback that takes time."""
        return isinstance(self.event, InvokeListener)

    @property
    def next_ms(self) -> int:
        """When it acts next without an input."""
        own = self.callback_ends_ms if self.in_callback else NEVER if self.is_idle else self.next_poll_ms
        return max(self.frozen_until_ms, min(own, self.background.next_turn_ms))

    def subscribe(self, topics: Iterable[str]) -> None:
        """The application subscribes to these topics."""
        self.topics = tuple(sorted(topics))
        self.note(f"subscribes to {', '.join(self.topics)}")
        self.member.submit(Subscribed(self.topics, listener=True))
        self.background.next_turn_ms = 0

    def freeze(self, until_ms: int) -> None:
        """Freezes the process."""
        self.frozen_until_ms = until_ms
        self.note(f"is frozen until {until_ms} ms")

    def close(self, now_ms: int) -> None:
        """The application closes its consumer and uses nothing any more."""
        self.using, self.processing, self.event, self.closing = (), None, None, True
        self.note("closes")
        self.member.close(now_ms, operation=GroupMembershipOperation.DEFAULT, timeout_ms=2_000, consumed=None)
        self.background.next_turn_ms = now_ms

    def act(self, now_ms: int) -> None:
        """Does everything that is due: the background's turn, then the application's."""
        if now_ms < self.frozen_until_ms:
            return
        self.catch_up(now_ms)
        self._turn(now_ms)
        if self.in_callback:
            if now_ms >= self.callback_ends_ms:
                self._end_callback(now_ms)
                self._process(None, now_ms)
        elif now_ms >= self.next_poll_ms:
            self._poll(now_ms)
        self.member_id = self.member.member_id or self.member_id
        if self.skips:
            may_wait = self.processing is None and not self.closing and now_ms < self.next_poll_ms
            self.is_idle = may_wait and polls_idly(self.member, now_ms)

    def catch_up(self, now_ms: int) -> None:
        """Catches up on the last poll before that instant if polls were skipped."""
        if self.is_idle and self.next_poll_ms < now_ms:
            last_ms = now_ms - 1 - (now_ms - 1 - self.next_poll_ms) % self.poll_ms
            poll_idly(self.member, last_ms)
            self.next_poll_ms = last_ms + self.poll_ms

    def _turn(self, now_ms: int) -> None:
        self.background.turn(now_ms)
        self.background.send_outbox()

    def _poll(self, now_ms: int) -> None:
        self.next_poll_ms = now_ms + self.poll_ms
        if not self.member.closed and self.member.is_subscribed:
            self.member.submit(AsyncPollEvent(self._consume()))
            self._turn(now_ms)
        self.processing = process(iter(self.member.next_background_event, None), listener=True)
        self._process(None, now_ms)

    def _consume(self) -> Offsets:
        """The positions after one more record of each partition."""
        if not self.member.config.enable_auto_commit:
            return ()
        self.consumed = {one: self.consumed.get(one, 0) + 1 for one in self.using}
        return tuple(self.consumed.items())

    def _process(self, answer: KafkaError | None, now_ms: int) -> None:
        """The application's pass over its events, up to its end or to a callback that takes time."""
        while self.processing is not None:
            try:
                self.event = self.processing.send(answer)
            except StopIteration as done:
                self.processing, self.event = None, None
                if done.value.first is not None:
                    self.errors.append(done.value.first)
                    self.note(f"poll() raises {done.value.first.name}")
                return
            if not isinstance(self.event, InvokeListener):
                answer = self._report(now_ms)
                continue
            if self.member.trace is not None:
                self.member.trace.begin_callback(self.event, now_ms)
            if self.event.method is not ListenerMethod.ASSIGNED and self.slow_ms:
                self.note(f"begins on_partitions_{self.event.method.name.lower()} {self.event.partitions}")
                self.callback_ends_ms, self.slow_ms = now_ms + self.slow_ms, 0
                return
            self._end_callback(now_ms)
            answer = None

    def _end_callback(self, now_ms: int) -> None:
        method, over = self.event.method, self.event.partitions
        if self.member.trace is not None:
            self.member.trace.end_callback(self.event, None, now_ms)
        self.note(f"has ended on_partitions_{method.name.lower()} {over}")
        if not self.closing:  # else it uses nothing any more
            assigned = method is ListenerMethod.ASSIGNED
            self.using = partitions((*self.using, *over)) if assigned else without(self.using, over)
        self.event = None

    def _report(self, now_ms: int) -> KafkaError | None:
        call = self.member.report(self.event, now_ms)
        self.event = None
        if call:
            self.background.awaited.add(call)
        self._turn(now_ms)
        self.background.awaited.discard(call)
        done = self.background.completed.pop(call, None)
        return None if done is None else done.error
