"""The application around a member of either protocol: its actions, and its processing of background events.

A step of a model restores a member's shell, passes an input to it, and runs it until it waits.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from enum import Enum
from typing import Any

from fsm.check.model import Choice
from fsm.member.consumer.effects import FATAL_WITH_IDS
from fsm.member.effects import CallCompleted
from fsm.member.events import (
    ApplicationEvent,
    ApplyAssignmentEvent,
    AsyncPollEvent,
    BackgroundEvent,
    ErrorEvent,
    KafkaError,
    ListenerMethod,
    SyncCommitEvent,
    UnsubscribeEvent,
)
from fsm.member.runtime.queues import InvokeListener, process
from fsm.member.runtime.shell import MemberShell
from fsm.member.runtime.trace import MemberTrace
from fsm.member.timers import NEVER
from fsm.protocol.assignment import Partitions, partitions, without
from fsm.protocol.config import ConsumerConfig
from fsm.protocol.error_codes import ErrorCode
from fsm.protocol.messages import DISCONNECTED, TIMED_OUT, Offsets

NOW = 1_700_000_000_000
FAR = NOW + 10_000_000_000
"""The deadline of a timer that runs."""
GROUP = "g"
BROKER = "broker"
RAISED = KafkaError("KafkaException", "the rebalance listener raised")
"""The error that a poll raises after a callback raised: the application knows the reason and polls again."""
GOES_ON_AFTER = frozenset({"InterruptException", "RebalanceInProgressException", "TimeoutException", RAISED.name})
"""Errors of a poll after which an application polls again; any other one ends its process."""
PASSING = frozenset(
    {
        TIMED_OUT.name,
        DISCONNECTED.name,
        *(code.name for code in ErrorCode if code.passes and code not in FATAL_WITH_IDS),
    }
)
"""Errors of a commit that may succeed later."""
ASYNC_CALL, SYNC_CALL = 100, 101
"""Call numbers: of an asynchronous commit, and of a synchronous one."""
OTHERWISE = "subscribes otherwise"
"""An application changes its subscription to fewer topics."""
ASSIGNS_NEW = "no callback assigns a partition in use"
THROWS = "what a callback raises is thrown"
CLOSES_EMPTY = "who has closed had a callback for every partition that it used"
OF_APPLICATIONS = (ASSIGNS_NEW, THROWS, CLOSES_EMPTY)
"""The invariants that are checked on each step of an application."""
TURNS = 8
"""This many turns of the background thread in a row, without any input, are a busy loop."""


class App(Enum):
    """The state of the application."""

    IDLE = "has not subscribed"
    RUNNING = "polls"
    LEAVING = "unsubscribes"
    LEFT = "has unsubscribed"
    CRASHED = "was ended by an error"
    DEAD = "is killed"
    HUNG = "hangs in its callback"
    CLOSING = "closes"
    CLOSED = "is closed"
    COMMITTING = "waits for its commit"
    RETRYING = "is to commit again"

    __hash__ = object.__hash__


ENDED = (App.CRASHED, App.DEAD, App.CLOSED)
SUBSCRIBED = (App.RUNNING, App.COMMITTING, App.RETRYING)
"""States in which it stays in its group; in the second and third it does not poll until its commit has ended."""
CLOSE_NOW = "closes without waiting"
CLOSE_OVER = "deadline of close() is over"
RAISES = "raises from its callback"
INTERRUPTED = "polls, and is interrupted as it applies an assignment"
INTERRUPT = KafkaError("InterruptException", "the thread of the application was interrupted")
PASSES = (
    *("polls", INTERRUPTED, "unsubscribes", "closes", CLOSE_NOW, "goes on"),
    *("returns from its callback", RAISES),
)
"""Choices after which the application processes its background events."""


class Driven(MemberShell[Any, Any]):
    """A production shell as a model drives it: a base class behind the shell's own class."""

    def __init__(self, config: ConsumerConfig, trace: MemberTrace | None) -> None:
        super().__init__(config, trace)
        self.member: Any
        self.sent: list[Any] = []
        self.broken: list[str] = []
        self.completed: list[CallCompleted] = []
        self.searches = False
        """Whether FindCoordinator is a separate request in the model; otherwise it succeeds at once."""

    def restore(self, consumer: Any, *, searches: bool) -> None:
        """Restores the member, its background queue and the commit that its application waits for."""
        self.member, self.searches = consumer.member, searches
        self._background.extend(consumer.events)
        if consumer.app is App.COMMITTING:
            self._waiting[SYNC_CALL] = SyncCommitEvent.__name__, NEVER

    @abstractmethod
    def _do(self, event: ApplicationEvent, now_ms: int) -> KafkaError | None:
        """Enqueues an application event while background events are processed, and waits for it if Kafka does."""

    @property
    def waiting_events(self) -> tuple[BackgroundEvent, ...]:
        return tuple(self._background)

    def do(
        self,
        what: str,
        doing: tuple[App, Partitions, BackgroundEvent | None],
        subscribe: ApplicationEvent,
        poll: AsyncPollEvent,
    ) -> tuple[App, Partitions, BackgroundEvent | None]:
        """Carries out an action; returns the application's state, the partitions it uses and the running callback."""
        app, using, calling = doing
        match what:
            case "subscribes" | "subscribes otherwise":
                app = App.RUNNING
                self.submit(subscribe)
            case str() if what in ("polls", INTERRUPTED):
                self.submit(poll)
            case "commits" | "commits and waits" | "commits again":
                app = app if what == "commits" else App.COMMITTING
                self.commit(using, wait=app is App.COMMITTING)
            case "unsubscribes":
                app = App.LEAVING
                self.submit(UnsubscribeEvent())
            case str() if what in ("closes", CLOSE_NOW):
                app = App.CLOSING
                self.close(NOW, timeout_ms=0 if what == CLOSE_NOW else FAR)
            case str() if what in ("returns from its callback", RAISES) and calling is not None:
                using = self.end_callback(app, using, calling, RAISED if what == RAISES else None)
                calling = None
        return app, using, calling

    def commit(self, using: Partitions, *, wait: bool) -> None:
        """The application commits the partitions that it uses, under a unique call number."""
        self._calls = (SYNC_CALL if wait else ASYNC_CALL) - 1
        call = self.submit(SyncCommitEvent(positions(using)))
        if not wait:
            del self._waiting[call]

    def after_commit(self, app: App, *, is_member: bool) -> App:
        """The state of the application once its commit has succeeded or failed: unchanged, running, or retrying."""
        ended = next((one for one in self.completed if one.call == SYNC_CALL), None)
        if app is not App.COMMITTING or ended is None:
            return app
        return App.RETRYING if is_tried_again(ended.error, is_member=is_member) else App.RUNNING

    def turn(self) -> None:
        """Runs the background thread until it waits for something."""
        for _ in range(TURNS):
            result = self.poll(NOW)
            self.sent += result.unsent_requests
            self.completed += result.completed_calls
            if self.seeks_coordinator:
                if self.searches:
                    return
                self.find_coordinator(NOW)
            elif result.time_until_next_poll_ms > 0:
                return
        self.broken.append("the background waits for something")

    def take_events(self, app: App, *, interrupted: bool = False) -> tuple[BackgroundEvent | None, str]:
        """Processes background events; returns the event of a callback that begins, or the first error at the end.

        An application that is `interrupted` while it waits for an assignment to be applied does not see the end of
        that.
        """
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
                    if first is not None:  # thrown after all events are processed
                        self._background.append(ErrorEvent(first))
                    return event, ""
                answer = self._do(asked, NOW)
                if interrupted and isinstance(asked, ApplyAssignmentEvent):
                    answer = INTERRUPT
        return None, "" if first is None else first.name

    def end_callback(
        self, app: App, using: Partitions, calling: BackgroundEvent, raised: KafkaError | None = None
    ) -> Partitions:
        """Ends the running callback, by a return or an exception; returns the partitions used from then on."""
        running = process(iter((calling,)), listener=True, unsubscribing=app is App.LEAVING)
        asked = next(running)
        while not isinstance(asked, InvokeListener):  # the assignment was applied before the callback began
            asked = running.send(None)
        if asked.method is ListenerMethod.ASSIGNED and not set(using).isdisjoint(asked.partitions):
            self.broken.append(ASSIGNS_NEW)
        using, answer = list_used_after(asked, using, raised), raised
        try:
            while True:
                asked = running.send(answer)
                answer = None if isinstance(asked, InvokeListener) else self._do(asked, NOW)
        except StopIteration as over:
            self.broken += [THROWS] if raised is not None and over.value.first is None else []
            return using


def positions(using: Partitions) -> Offsets:
    """The positions of an application in the partitions that it uses."""
    return tuple((one, 1) for one in using)


def is_tried_again(error: KafkaError | None, *, is_member: bool) -> bool:
    """Whether the application commits again: after a stale epoch, too, for which commitSync() fails, if a newer one is
    known; not if the topic is gone."""
    return error is not None and (error.name in PASSING or (error.name == "STALE_MEMBER_EPOCH" and is_member))


def choices_of_application(
    app: App, calling: BackgroundEvent | None, using: Partitions, *, waits: bool, otherwise: bool = False
) -> Iterable[Choice]:
    """The choices of an application.

    `waits` if its queue is not empty; it may change its subscription if `otherwise`.
    """
    if otherwise and calling is None and app in (App.IDLE, App.LEFT, App.RUNNING):
        yield Choice(OTHERWISE, disturbance="resubscribe")
    match app:
        case App.IDLE:
            yield Choice("subscribes")
        case App.LEFT:
            yield Choice("subscribes", disturbance="rejoin")
        case App.RETRYING:
            yield Choice("commits again")
        case App.RUNNING if calling is None:
            yield Choice("polls")
            yield Choice("unsubscribes", disturbance="leave")
            yield Choice("closes", disturbance="close")
            yield Choice(CLOSE_NOW, disturbance="close_timeout")
            yield Choice(INTERRUPTED, disturbance="interrupted")
            if using:
                yield Choice("commits and waits", disturbance="commit_sync")
                yield Choice("commits", disturbance="commit_async")
        case App.LEAVING | App.CLOSING if calling is None and waits:
            yield Choice("goes on")
    if calling is not None and app is not App.HUNG:
        yield Choice("returns from its callback")
        yield Choice(RAISES, disturbance="raising")
        yield Choice("hangs in its callback", disturbance="hanging")


def choices_of_process(app: App, *, again: bool) -> Iterable[Choice]:
    """The choices of a process: it ends, and another one starts if there may be one `again`."""
    if app in (*SUBSCRIBED, App.HUNG):
        yield Choice("is killed", disturbance="crash")
        if again:
            yield Choice("is killed and starts again", disturbance="restart")
    if again and app in (App.DEAD, App.CLOSED):
        yield Choice("starts again", disturbance="restart")


def list_used_after(over: InvokeListener, using: Partitions, raised: KafkaError | None = None) -> Partitions:
    """The partitions that an application uses after a callback; a callback that raised adds none."""
    if over.method is ListenerMethod.ASSIGNED:
        return using if raised else partitions((*using, *over.partitions))
    return without(using, over.partitions)
