"""The application around a member, whichever protocol that speaks: what it does, and its pass over its events.

A step of a model thaws a member's shell, hands something in, and turns it until it waits.
"""

from __future__ import annotations

from abc import abstractmethod
from enum import Enum
from typing import Any

from fsm.coordinator.model.timers import TimerKind
from fsm.member.events import ApplicationEvent, BackgroundEvent, ErrorEvent, KafkaError, ListenerMethod
from fsm.member.runtime.queues import InvokeListener, process
from fsm.member.runtime.shell import MemberShell
from fsm.member.runtime.trace import MemberTrace
from fsm.protocol.assignment import Partitions, partitions, without
from fsm.protocol.config import ConsumerConfig

NOW = 1_700_000_000_000
FAR = NOW + 10_000_000_000
"""The deadline of a timer that runs."""
GROUP = "g"
BROKER = "broker"
RAISED = KafkaError("KafkaException", "the rebalance listener raised")
"""What a poll throws where a callback raised: the application knows why, and polls again."""
GOES_ON_AFTER = frozenset({"RebalanceInProgressException", "TimeoutException", RAISED.name})
"""Errors of a poll after which an application polls again; any other one ends its process."""
TURNS = 8
"""So many turns of the background in a row, with nothing from outside, are a busy loop."""

TIMERS = {
    TimerKind.SESSION: ("expire", "session of {} expires"),
    TimerKind.REBALANCE: ("rebalance_timeout", "rebalance timeout of {} is over"),
}
"""Of a coordinator: which disturbance it is when one runs out, and how that is told."""


class App(Enum):
    """What the application does."""

    IDLE = "has not subscribed"
    RUNNING = "polls"
    LEAVING = "unsubscribes"
    LEFT = "has unsubscribed"
    CRASHED = "was ended by an error"
    DEAD = "is killed"
    HUNG = "hangs in its callback"
    CLOSING = "closes"
    CLOSED = "is closed"

    __hash__ = object.__hash__


ENDED = (App.CRASHED, App.DEAD, App.CLOSED)
PASSES = ("polls", "unsubscribes", "closes", "goes on", "returns from its callback", "raises from its callback")
"""After these the application looks at its background queue."""


class Driven(MemberShell[Any, Any]):
    """What a model has of a production shell: a base behind the shell's own class."""

    def __init__(self, config: ConsumerConfig, trace: MemberTrace | None) -> None:
        super().__init__(config, trace)
        self.sent: list[Any] = []
        self.broken: list[str] = []
        self.searches = False
        """Whether a search for the coordinator takes its time: another request answers it."""

    @abstractmethod
    def _do(self, event: ApplicationEvent, now_ms: int) -> KafkaError | None:
        """Adds an event of a pass, and waits for its end where a pass does."""

    @property
    def waiting_events(self) -> tuple[BackgroundEvent, ...]:
        """The background queue."""
        return tuple(self._background)

    def turn(self) -> None:
        """Turns the background until it waits for something."""
        for _ in range(TURNS):
            result = self.poll(NOW)
            self.sent += result.unsent_requests
            if self.seeks_coordinator:
                if self.searches:
                    return
                self.find_coordinator(NOW)
            elif result.time_until_next_poll_ms > 0:
                return
        self.broken.append("the background waits for something")

    def take_events(self, app: App) -> tuple[BackgroundEvent | None, str]:
        """The application's pass over its queue: the event of a callback that begins, or the first error at its end."""
        first: KafkaError | None = None
        while (event := self.next_background_event()) is not None:
            running, answer = process(iter((event,)), listener=True, unsubscribing=app is App.LEAVING), None
            while True:
                try:
                    asked = running.send(answer)
                except StopIteration as over:
                    first = first or over.value.first
                    break
                if isinstance(asked, InvokeListener):
                    if first is not None:  # thrown once everything was processed
                        self._background.append(ErrorEvent(first))
                    return event, ""
                answer = self._do(asked, NOW)
        return None, "" if first is None else first.name

    def end_callback(
        self, app: App, using: Partitions, calling: BackgroundEvent, raised: KafkaError | None = None
    ) -> Partitions:
        """The callback under way returns, or raises; what the application uses from then on."""
        running = process(iter((calling,)), listener=True, unsubscribing=app is App.LEAVING)
        asked = next(running)
        while not isinstance(asked, InvokeListener):  # the assignment was applied before the callback began
            asked = running.send(None)
        using, answer = used_after(asked, using, raised), raised
        try:
            while True:
                asked = running.send(answer)
                answer = None if isinstance(asked, InvokeListener) else self._do(asked, NOW)
        except StopIteration:
            return using


def used_after(over: InvokeListener, using: Partitions, raised: KafkaError | None = None) -> Partitions:
    """What an application uses once a callback has returned, or raised: then it may fetch no more than before."""
    if over.method is ListenerMethod.ASSIGNED:
        return using if raised else partitions((*using, *over.partitions))
    return without(using, over.partitions)
