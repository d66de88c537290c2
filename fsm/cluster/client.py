"""One consumer of a cluster: a member, the loop around it, and an application that polls and uses partitions."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from fsm.member.events import AsyncPollEvent, GroupMembershipOperation, KafkaError, ListenerMethod
from fsm.member.events import TopicSubscriptionChangeEvent as Subscribed
from fsm.member.runtime.background import Background
from fsm.member.runtime.embedding import EmbeddedMember
from fsm.member.runtime.queues import InvokeListener, Pass, process
from fsm.protocol.assignment import Partitions, TopicPartition, partitions, without
from fsm.protocol.messages import Offsets

POLL_MS = 100

PASSES = frozenset({"RebalanceInProgressException", "TimeoutException"})
"""Errors of a poll after which an application polls again; any other one ends its process."""


@dataclass
class Client:
    """A consumer with its application; everything happens on the clock of the cluster."""

    name: str
    spoken: str
    member: EmbeddedMember
    background: Background
    using: Partitions = ()
    """What the application takes records from, from the end of its assigned callback to the end of the removing one."""
    next_poll_ms: int = 0
    thawed_ms: int = 0
    """The process does not run before."""
    slow_ms: int = 0
    """How long the next removing callback takes."""
    callback_ends_ms: int = 0
    running: Pass | None = None
    asked: Any = None
    errors: list[KafkaError] = field(default_factory=list)
    topics: tuple[str, ...] = ()
    """What the application subscribes to."""
    closing: bool = False
    consumed: dict[TopicPartition, int] = field(default_factory=dict)
    """Positions, where the application commits them; it consumes one record of each partition a poll."""
    note: Callable[[str], None] = lambda _: None
    """Told what happens, for those who look on."""
    identity: str = ""
    """Its member id; the last one where it has lost it."""

    @property
    def is_over(self) -> bool:
        """Whether the process ends: closed, or an error that its application does not go on after."""
        return self.member.closed or any(error.name not in PASSES for error in self.errors)

    @property
    def in_callback(self) -> bool:
        """Whether its application is inside a callback that takes time."""
        return isinstance(self.asked, InvokeListener)

    @property
    def next_ms(self) -> int:
        """When it does something by itself."""
        own = self.callback_ends_ms if self.in_callback else self.next_poll_ms
        return max(self.thawed_ms, min(own, self.background.next_turn_ms))

    def subscribe(self, topics: Iterable[str]) -> None:
        """The application subscribes to these topics."""
        self.topics = tuple(sorted(topics))
        self.note(f"subscribes to {', '.join(self.topics)}")
        self.member.submit(Subscribed(self.topics, listener=True))
        self.background.next_turn_ms = 0

    def freeze(self, until_ms: int) -> None:
        """The process stands still."""
        self.thawed_ms = until_ms
        self.note(f"is frozen until {until_ms} ms")

    def close(self, now_ms: int) -> None:
        """The application closes its consumer and uses nothing any more."""
        self.using, self.running, self.asked, self.closing = (), None, None, True
        self.note("closes")
        self.member.close(now_ms, operation=GroupMembershipOperation.DEFAULT, timeout_ms=2_000, consumed=None)
        self.background.next_turn_ms = now_ms

    def act(self, now_ms: int) -> None:
        """Whatever is due: the background's turn, then the application's."""
        if now_ms < self.thawed_ms:
            return
        self._turn(now_ms)
        self._do(now_ms)
        self.identity = self.member.member_id or self.identity

    def _do(self, now_ms: int) -> None:
        if self.in_callback:
            if now_ms >= self.callback_ends_ms:
                self._called()
                self._go_on(None, now_ms)
        elif now_ms >= self.next_poll_ms:
            self._poll(now_ms)

    def _turn(self, now_ms: int) -> None:
        self.background.turn(now_ms)
        self.background.take_off()

    def _poll(self, now_ms: int) -> None:
        self.next_poll_ms = now_ms + POLL_MS
        if not self.member.closed and self.member.is_subscribed:
            self.member.submit(AsyncPollEvent(self._positions()))
            self._turn(now_ms)
        self.running = process(iter(self.member.next_background_event, None), listener=True)
        self._go_on(None, now_ms)

    def _positions(self) -> Offsets:
        if not self.member.config.enable_auto_commit:
            return ()
        self.consumed = {one: self.consumed.get(one, 0) + 1 for one in self.using}
        return tuple(self.consumed.items())

    def _go_on(self, answer: KafkaError | None, now_ms: int) -> None:
        """The application's pass over its events, up to its end or to a callback that takes time."""
        while self.running is not None:
            try:
                self.asked = self.running.send(answer)
            except StopIteration as done:
                self._raised(done.value.first)
                self.running, self.asked = None, None
                return
            if isinstance(self.asked, InvokeListener):
                if self.asked.method is not ListenerMethod.ASSIGNED and self.slow_ms:
                    self.note(f"begins on_partitions_{self.asked.method.name.lower()} {self.asked.partitions}")
                    self.callback_ends_ms, self.slow_ms = now_ms + self.slow_ms, 0
                    return
                self._called()
                answer = None
            else:
                answer = self._reported(now_ms)

    def _raised(self, error: KafkaError | None) -> None:
        if error is not None:
            self.errors.append(error)
            self.note(f"poll() raises {error.name}")

    def _called(self) -> None:
        """The end of a callback."""
        over = self.asked.partitions
        self.note(f"has ended on_partitions_{self.asked.method.name.lower()} {over}")
        if self.closing:
            pass  # it uses nothing any more
        elif self.asked.method is ListenerMethod.ASSIGNED:
            self.using = partitions((*self.using, *over))
        else:
            self.using = without(self.using, over)
        self.asked = None

    def _reported(self, now_ms: int) -> KafkaError | None:
        """An event of the pass is added; for an assignment to be applied, its end is waited for."""
        call = self.member.report(self.asked, now_ms)
        self.asked = None
        if call:
            self.background.awaited.add(call)
        self._turn(now_ms)
        self.background.awaited.discard(call)
        done = self.background.completed.pop(call, None)
        return None if done is None else done.error


@dataclass
class Wire:
    """The network of one client: a `Transport` that hands what it is given to the cluster."""

    find: Callable[[Callable[[Any], None]], None]
    learn: Callable[[Callable[[Any], None]], None]
    carry: Callable[[Any, Callable[[Any], None]], None]

    def find_coordinator(self, found: Callable[[Any], None]) -> None:
        self.find(found)

    def update_metadata(self, learnt: Callable[[Any], None]) -> None:
        self.learn(learnt)

    def send(self, request: Any, answered: Callable[[Any], None]) -> None:
        self.carry(request, answered)
