"""A client of the classic protocol in a conversation: one thread, on the scenario's clock.

The classic consumer does everything except heartbeats inside the application's calls: an answer waits for the next
poll().
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace
from typing import Any

from fsm.errors import LocalProtocolError
from fsm.member import events
from fsm.member.classic import state
from fsm.member.classic.assignors import PartitionCounts
from fsm.member.classic.step import due_ms, poll_wanted_ms, step
from fsm.member.effects import CallCompleted, CoordinatorForgotten, Enqueued
from fsm.member.inputs import CoordinatorFound, Tick
from fsm.member.runtime.consumer_api import SubscriptionPattern
from fsm.member.runtime.queues import InvokeListener
from fsm.member.timers import NEVER
from fsm.protocol.messages import OffsetCommitRequest, OffsetCommitResponse, Offsets
from fsm.scenario.conversation.client import Client, Listener
from fsm.scenario.conversation.record import APPLICATION
from fsm.scenario.texts import show, show_answer, show_partitions


@dataclass(slots=True)
class _Open:
    """A call of the application that has not returned."""

    name: str
    call: int
    until_ms: int
    """When poll() returns; other calls return when the member completes them."""
    consumed: Offsets = ()


class ClassicClient(Client):
    """A client whose member follows the classic protocol."""

    def __init__(self, config: state.ClassicConfig, listener: Listener | None, topics: PartitionCounts) -> None:
        super().__init__(APPLICATION, listener)
        self._member = state.new_member(config)
        self._ticket = 0
        """The ticket of the running callback."""
        self._completed: dict[int, events.KafkaError | None] = {}
        self._thrown: list[events.KafkaError] = []
        self._answers: deque[state.ClassicAnswered] = deque()
        self._calls = 0
        self._give(state.PartitionCountsUpdated(topics))

    def show(self) -> dict[str, str]:
        member = self._member
        return {
            "state": member.state.name,
            "generation": str(member.generation.generation_id),
            "member_id": member.generation.member_id or "none",
            "owned": show_partitions(member.owned),
            "inside": show(self.inside),
            "closed": show(member.closed),
        }

    # The application's calls

    def subscribe(self, to: Any) -> None:
        """Raises `LocalProtocolError` for a pattern that the coordinator would match."""
        event: events.ApplicationEvent
        if isinstance(to, SubscriptionPattern):
            raise LocalProtocolError("a pattern that the coordinator matches needs the consumer protocol")
        if hasattr(to, "search"):
            event = events.TopicPatternSubscriptionChangeEvent(to.pattern, self.listener is not None)
        else:
            event = events.TopicSubscriptionChangeEvent(tuple(to), self.listener is not None)
        self._call("subscribe", event)

    def poll(self, timeout_ms: int | None, consumed: Offsets) -> None:
        if self._member.topics is None:
            raise LocalProtocolError("the consumer is not subscribed; call subscribe() before poll()")
        self.record.note_call("poll()")
        self._open = _Open("poll", 0, self.now_ms + (timeout_ms or 0), consumed)
        self._give(events.AsyncPollEvent(consumed))
        self.settle()

    def unsubscribe(self) -> None:
        self._call("unsubscribe", events.UnsubscribeEvent())

    def close(self, timeout_ms: int, operation: events.GroupMembershipOperation) -> None:
        self._call("close", state.Close(timeout_ms, operation))

    def _call(self, name: str, event: events.ApplicationEvent) -> None:
        self.record.note_call(f"{name}()")
        self._calls += 1
        self._open = _Open(name, self._calls, NEVER)
        numbered: Any = replace(event, call=self._calls)
        self._give(numbered)
        self.settle()

    # The network

    def _take_answer(self, target: Any, response: Any) -> None:
        self._answers.append(state.ClassicAnswered(target, response))

    def change_topics(self, topics: PartitionCounts) -> None:
        self._give(state.PartitionCountsUpdated(topics))
        self.settle()

    # Time

    def _next_ms(self) -> int:
        due = [due_ms(self._member)]
        if self._callback is not None:
            due.append(self._callback_due_ms)
        if self._open is not None and self._open.name == "poll":
            due += [self._open.until_ms, poll_wanted_ms(self._member)]
        return min(due)

    def _turn(self) -> bool:
        if self.reachable and not self._member.coordinator_known and not self._member.closed:
            self._give(CoordinatorFound())
        elif self._answers:
            answered = self._answers.popleft()
            self.record.note_answer(show_answer(answered.answer))
            self._give(answered)
        elif self._end_due_callback():
            pass
        elif due_ms(self._member) <= self.now_ms:
            self._give(Tick())
        else:
            return self._continue_call()
        return True

    def _continue_call(self) -> bool:
        """Continues the open call as far as possible; returns whether it made progress."""
        call: _Open | None = self._open
        if call is None or self._callback is not None:
            return False
        if self._thrown or call.call in self._completed:
            self._return(call)
        elif call.name != "poll":
            return False
        elif poll_wanted_ms(self._member) <= self.now_ms:
            self._give(events.AsyncPollEvent(call.consumed))
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
        self.record.note_return(call.name, text)

    # Callbacks

    def _ask_callback(self, event: events.PartitionsRemovedEvent | events.PartitionsAssignedEvent) -> None:
        if isinstance(event, events.PartitionsRemovedEvent):
            asked = InvokeListener(event.method, event.partitions)
        else:
            asked = InvokeListener(events.ListenerMethod.ASSIGNED, event.added)
        self._ticket = event.ticket
        self._begin_callback(asked)
        if self.listener is not None:
            self.record.note_callback(asked)

    def _report_callback(self, raises: str | None) -> None:
        self._give(events.ConsumerRebalanceListenerCallbackCompletedEvent(self._ticket, raises))

    # The member

    def _give(self, given: state.ClassicInput) -> None:
        taken = step(self._member, given, self.now_ms)
        self._member = taken.member
        for effect in taken.effects:
            self._note(effect)

    def _note(self, effect: state.ClassicEffect) -> None:
        match effect:
            case state.UnsentClassicRequest():
                self._send(effect)
            case Enqueued(event=event):
                self._receive(event)
            case CallCompleted(call=call, error=error):
                self._completed[call] = error
            case state.Taken(source=source, target=target, event=event):
                if source is not target:
                    self.record.note_transition(source.name, target.name, event.name)
            case state.Reported(effect=reported, reason=reason):
                self.record.note_effect(reported.name, f"{reported.name}: {reason}" if reason else reported.name)
            case CoordinatorForgotten():
                self.record.note_effect("CoordinatorForgotten", "CoordinatorForgotten")

    def _send(self, request: state.UnsentClassicRequest) -> None:
        self._requests += 1
        self.record.note_request(request.body, self._requests)
        if isinstance(request.body, OffsetCommitRequest) and self.commits_answered:
            self._answers.append(state.ClassicAnswered(request, OffsetCommitResponse()))
        else:
            self.unanswered[self._requests] = (request.body, request)

    def _receive(self, event: events.BackgroundEvent) -> None:
        if isinstance(event, events.ErrorEvent):
            self._thrown.append(event.error)
        elif isinstance(event, events.PartitionsRemovedEvent | events.PartitionsAssignedEvent):
            self._ask_callback(event)
