"""A member of the classic protocol in a conversation: one thread, on a clock that the scenario turns.

The classic consumer does everything but heartbeats inside the application's calls: an answer that came in waits for
the next poll(). A call that has to wait stays open, and goes on when an answer, time or the end of a callback lets it.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace
from typing import Any

from fsm.errors import LocalProtocolError
from fsm.member.classic.assignors import PartitionCounts
from fsm.member.classic.state import (
    ClassicAnswered,
    ClassicConfig,
    ClassicEffect,
    ClassicInput,
    Close,
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
    ListenerMethod,
    PartitionsAssignedEvent,
    PartitionsRemovedEvent,
    TopicPatternSubscriptionChangeEvent,
    TopicSubscriptionChangeEvent,
    UnsubscribeEvent,
)
from fsm.member.inputs import CoordinatorFound, Tick
from fsm.member.runtime.consumer_api import SubscriptionPattern
from fsm.member.runtime.queues import InvokeListener
from fsm.member.timers import NEVER
from fsm.protocol.messages import OffsetCommitRequest, OffsetCommitResponse, Offsets
from fsm.scenario import words
from fsm.scenario.listener import Behaviour, Listener
from fsm.scenario.record import APPLICATION, Record
from fsm.scenario.rest import Turned


@dataclass(slots=True)
class _Open:
    """A call of the application that has not returned."""

    name: str
    call: int
    until_ms: int
    """Of poll(): when it returns; the others return when the member says so."""
    consumed: Offsets = ()


@dataclass(slots=True)
class _Callback:
    """A callback that is under way."""

    ticket: int
    asked: InvokeListener
    due_ms: int


class ClassicSide(Turned):
    """The member, its application, and the requests that are not answered, by their numbers."""

    def __init__(self, config: ClassicConfig, listener: Listener | None, topics: PartitionCounts) -> None:
        self.listener = listener
        self.record = Record(APPLICATION)
        self.unanswered: dict[int, tuple[object, UnsentClassicRequest]] = {}
        self.reachable = True
        """Whether the search for the coordinator finds it."""
        self.commits_answered = True
        self._member = new_member(config)
        self._open: _Open | None = None
        self._callback: _Callback | None = None
        self._completed: dict[int, KafkaError | None] = {}
        self._thrown: list[KafkaError] = []
        self._answers: deque[ClassicAnswered] = deque()
        self._calls = self._numbers = 0
        self._give(PartitionCountsUpdated(topics))

    @property
    def inside(self) -> str | None:
        """The call that the application is in; None where it is in none."""
        return None if self._open is None else self._open.name

    @property
    def closed(self) -> bool:
        """Whether close() has done its work."""
        return self._member.closed

    def seen(self) -> dict[str, str]:
        """The member as it is now."""
        member = self._member
        return {
            "state": member.state.name,
            "generation": str(member.generation.generation_id),
            "member_id": member.generation.member_id or "none",
            "owned": words.named(member.owned),
            "inside": words.plain(self.inside),
            "closed": words.plain(self.closed),
        }

    # The application's calls

    def subscribe(self, to: Any) -> None:
        """subscribe() to topics, or to a pattern that the client matches. Raises `LocalProtocolError` for others."""
        event: ApplicationEvent
        if isinstance(to, SubscriptionPattern):
            raise LocalProtocolError("a pattern that the coordinator matches needs the consumer protocol")
        if hasattr(to, "search"):
            event = TopicPatternSubscriptionChangeEvent(to.pattern, self.listener is not None)
        else:
            event = TopicSubscriptionChangeEvent(tuple(to), self.listener is not None)
        self._call("subscribe", event)

    def poll(self, timeout_ms: int | None, consumed: Offsets) -> None:
        """poll(); without a timeout it returns as soon as nothing more happens at this instant."""
        if self._member.topics is None:
            raise LocalProtocolError("nothing is subscribed to; call subscribe() before poll()")
        self.record.called("poll()")
        self._open = _Open("poll", 0, self.now_ms + (timeout_ms or 0), consumed)
        self._give(AsyncPollEvent(consumed))
        self.settle()

    def unsubscribe(self) -> None:
        """unsubscribe()"""
        self._call("unsubscribe", UnsubscribeEvent())

    def close(self, timeout_ms: int, operation: GroupMembershipOperation) -> None:
        """close()"""
        self._call("close", Close(timeout_ms, operation))

    def callback_returns(self, raises: str | None) -> None:
        """The callback that is held ends. Raises `LocalProtocolError` where none is."""
        if self._callback is None:
            raise LocalProtocolError("no callback is under way")
        self._end_callback(raises)
        self.settle()

    def _call(self, name: str, event: ApplicationEvent) -> None:
        self.record.called(f"{name}()")
        self._calls += 1
        self._open = _Open(name, self._calls, NEVER)
        self._give(_numbered(event, self._calls))
        self.settle()

    # The network

    def answer(self, number: int, response: Any) -> None:
        """The answer to a request, or the failure of it. Raises `KeyError` for one that is not open."""
        _, request = self.unanswered.pop(number)
        self._answers.append(ClassicAnswered(request, response))
        self.settle()

    def topics_are(self, topics: PartitionCounts) -> None:
        """The client's metadata names these topics, with so many partitions, from now on."""
        self._give(PartitionCountsUpdated(topics))
        self.settle()

    # Time

    def _next_ms(self) -> int:
        due = [due_ms(self._member)]
        if self._callback is not None:
            due.append(self._callback.due_ms)
        if self._open is not None and self._open.name == "poll":
            due += [self._open.until_ms, poll_wanted_ms(self._member)]
        return min(due)

    def _turn(self) -> bool:
        if self.reachable and not self._member.coordinator_known and not self._member.closed:
            self._give(CoordinatorFound())
        elif self._answers:
            answered = self._answers.popleft()
            self.record.received(words.answer_line(answered.answer))
            self._give(answered)
        elif self._callback is not None and self.now_ms >= self._callback.due_ms:
            self._end_callback(self._behaviour(self._callback.asked).raises)
        elif due_ms(self._member) <= self.now_ms:
            self._give(Tick())
        else:
            return self._go_on()
        return True

    def _go_on(self) -> bool:
        """The open call, as far as it gets; whether it got anywhere."""
        call = self._open
        if call is None or self._callback is not None:
            return False
        if self._thrown or call.call in self._completed:
            self._return(call)
        elif call.name != "poll":
            return False
        elif poll_wanted_ms(self._member) <= self.now_ms:
            self._give(AsyncPollEvent(call.consumed))
        elif self.now_ms >= call.until_ms:
            self._return(call)
        else:
            return False
        return True

    def _return(self, call: _Open) -> None:
        error = self._thrown[0] if self._thrown else self._completed.get(call.call)
        self._thrown.clear()
        self._open = None
        text = None if error is None else ": ".join(part for part in (error.name, error.message) if part)
        self.record.returns(call.name, text)

    # Callbacks

    def _behaviour(self, asked: InvokeListener) -> Behaviour:
        return (self.listener or Listener()).of(asked.method)

    def _begin_callback(self, event: PartitionsRemovedEvent | PartitionsAssignedEvent) -> None:
        if isinstance(event, PartitionsRemovedEvent):
            asked = InvokeListener(event.method, event.partitions)
        else:
            asked = InvokeListener(ListenerMethod.ASSIGNED, event.added)
        behaviour = self._behaviour(asked)
        due = NEVER if behaviour.held else self.now_ms + behaviour.takes_ms
        self._callback = _Callback(event.ticket, asked, due)
        if self.listener is not None:
            self.record.invoked(asked)

    def _end_callback(self, raises: str | None) -> None:
        callback, self._callback = self._callback, None
        if callback is None:
            return
        if raises is not None:
            self.record.callback_raised(raises)
        self._give(ConsumerRebalanceListenerCallbackCompletedEvent(callback.ticket, raises))

    # The member

    def _give(self, given: ClassicInput) -> None:
        taken = step(self._member, given, self.now_ms)
        self._member = taken.member
        for effect in taken.effects:
            self._note(effect)

    def _note(self, effect: ClassicEffect) -> None:
        match effect:
            case UnsentClassicRequest():
                self._send(effect)
            case Enqueued(event=event):
                self._told(event)
            case CallCompleted(call=call, error=error):
                self._completed[call] = error
            case Taken(source=source, target=target, event=event):
                if source is not target:
                    self.record.moved(source.name, target.name, event.name)
            case Reported(effect=reported, reason=reason):
                self.record.effect(reported.name, f"{reported.name}: {reason}" if reason else reported.name)
            case CoordinatorForgotten():
                self.record.effect("CoordinatorForgotten", "CoordinatorForgotten")

    def _send(self, request: UnsentClassicRequest) -> None:
        self._numbers += 1
        self.record.sent(request.body, self._numbers)
        if isinstance(request.body, OffsetCommitRequest) and self.commits_answered:
            self._answers.append(ClassicAnswered(request, OffsetCommitResponse()))
        else:
            self.unanswered[self._numbers] = (request.body, request)

    def _told(self, event: BackgroundEvent) -> None:
        if isinstance(event, ErrorEvent):
            self._thrown.append(event.error)
        elif isinstance(event, PartitionsRemovedEvent | PartitionsAssignedEvent):
            self._begin_callback(event)


def _numbered(event: ApplicationEvent, call: int) -> Any:
    return replace(event, call=call)
