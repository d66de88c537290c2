"""A client of KIP-848 in a conversation: the embedded member on the scenario's clock.

It is the code of the runtimes (`ConsumerApi` for the application's thread, `Background` for the other) on one thread.
The transport records requests, and answers by the steps of the scenario.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from fsm.errors import FsmError
from fsm.member.classic.assignors import PartitionCounts
from fsm.member.dialect.dialect import Dialect
from fsm.member.effects import (
    AssignmentUpdated,
    CallCompleted,
    Enqueued,
    EpochUpdated,
    HeartbeatFailed,
    Marked,
    MemberEffect,
    PolledLate,
    PollTimerExpired,
    RunEnded,
    RunStarted,
    Transition,
    UnsentRequest,
)
from fsm.member.events import ApplicationEvent, BackgroundEvent, GroupMembershipOperation
from fsm.member.inputs import Answered, MemberInput
from fsm.member.runtime.background import Background
from fsm.member.runtime.consumer_api import ConsumerApi, Wait
from fsm.member.runtime.consumer_shell import ConsumerMember
from fsm.member.runtime.queues import InvokeListener
from fsm.member.timers import NEVER
from fsm.protocol.assignment import TopicNames
from fsm.protocol.config import ConsumerConfig
from fsm.protocol.messages import DISCONNECTED, ConsumerRequest, OffsetCommitRequest, OffsetCommitResponse, Offsets
from fsm.scenario.conversation.client import Client, Listener
from fsm.scenario.conversation.record import BACKGROUND, Record
from fsm.scenario.texts import show, show_answer, show_effect, show_partitions

DRAWN = (RunStarted, Marked, AssignmentUpdated, EpochUpdated, RunEnded)
"""Effects shown in pictures, beside queues, requests and states."""


class _Watched(ConsumerMember):
    """A member whose two queues are recorded."""

    record: Record

    def submit(self, event: ApplicationEvent, deadline_ms: int = NEVER) -> int:
        call = super().submit(event, deadline_ms)
        self.record.note_added(event)
        return call

    def next_background_event(self) -> BackgroundEvent | None:
        event = super().next_background_event()
        if event is not None:
            self.record.note_taken(event)
        return event


@dataclass(slots=True)
class _Open:
    """A call of the application that has not returned."""

    name: str
    running: Any
    brief: bool
    """Returns as soon as there is nothing more to do at the instant."""
    wait: Wait | None = None


class ConsumerClient(Client):
    """A client whose member follows KIP-848."""

    def __init__(
        self,
        config: ConsumerConfig,
        member_id: str,
        dialect: Dialect,
        listener: Listener | None,
        topics: PartitionCounts,
    ) -> None:
        super().__init__(BACKGROUND, listener)
        self._member = _Watched(config, member_id=member_id, now_ms=0, dialect=dialect)
        self._member.record = self.record
        self._member.observe = self._observe
        self._topics = topics
        self._learn: Callable[[Any], None] | None = None
        self._background = Background(self._member, self, jitter=lambda: 0.0, wake=self._wake)
        self._calls = ConsumerApi(self._background, self._clock, self._wake)
        self._hurry_ms = 0
        self._woken = self._moved = self._stepped = False
        self._outgoing: deque[int] = deque()
        """Numbers of requests for `send`."""

    def show(self) -> dict[str, str]:
        member = self._member.member
        return {
            "state": member.state.name,
            "epoch": str(member.epoch),
            "owned": show_partitions(member.ownership.owned),
            "fetchable": show_partitions(member.ownership.fetchable(member.subscription)),
            "inside": show(self.inside),
            "closed": show(self._member.closed),
        }

    # The application's calls

    def subscribe(self, to: Any) -> None:
        self._call("subscribe", self._calls.subscribe(to, self.listener))

    def poll(self, timeout_ms: int | None, consumed: Offsets) -> None:
        brief = timeout_ms is None
        self._call("poll", self._calls.poll(1 if timeout_ms is None else timeout_ms, consumed), brief=brief)

    def unsubscribe(self) -> None:
        self._call("unsubscribe", self._calls.unsubscribe())

    def close(self, timeout_ms: int, operation: GroupMembershipOperation) -> None:
        self._call("close", self._calls.close(timeout_ms, operation, None))

    def _call(self, name: str, running: Any, *, brief: bool = False) -> None:
        self.record.note_call(f"{name}()")
        self._open = _Open(name, running, brief)
        self._resume(None)
        self.settle()

    def _resume(self, raised: BaseException | None) -> None:
        """Continues the open call until it has to wait, enters a callback, or returns."""
        call = self._open
        if call is None:
            return
        try:
            asked = call.running.send(raised)
        except StopIteration:
            self._return(None)
        except FsmError as error:
            self._return(str(error))
        else:
            call.wait = asked if isinstance(asked, Wait) else None
            if isinstance(asked, InvokeListener):
                self.record.note_callback(asked)
                self._moved = True
                self._begin_callback(asked)

    def _return(self, error: str | None) -> None:
        if self._open is not None:
            self.record.note_return(self._open.name, error)
        self._open, self._moved = None, True

    def _report_callback(self, raises: str | None) -> None:
        self._moved = True
        self._resume(None if raises is None else RuntimeError(raises))

    # The methods of `Transport`

    def find_coordinator(self, on_coordinator_found: Callable[[Any], None]) -> None:
        """Finds the coordinator at once, or fails."""
        on_coordinator_found(None if self.reachable else DISCONNECTED)

    def update_metadata(self, on_metadata: Callable[[Any], None]) -> None:
        """Returns the scenario's topics."""
        self._learn = on_metadata
        on_metadata(self._names())

    def send(self, request: ConsumerRequest, on_response: Callable[[Any], None]) -> None:
        """Leaves the answer to the scenario; answers commits at once unless the scenario does that, too."""
        number = self._outgoing.popleft()
        if isinstance(request, OffsetCommitRequest) and self.commits_answered:
            on_response(OffsetCommitResponse())
        else:
            self.unanswered[number] = (request, on_response)

    def _take_answer(self, target: Any, response: Any) -> None:
        target(response)

    def change_topics(self, topics: PartitionCounts) -> None:
        self._topics = topics
        if self._learn is not None:
            self._learn(self._names())
        self.settle()

    def _names(self) -> TopicNames:
        return TopicNames({topic: topic for topic, _ in self._topics})

    # Time

    def _next_ms(self) -> int:
        due = [NEVER if self._background.ended else self._background.next_turn_ms]
        if self._callback is not None:
            due.append(self._callback_due_ms)
        elif self._open is not None and self._open.wait is not None:
            due.append(self._open.wait.until_ms)
        return min(due)

    def _clock(self) -> int:
        return self.now_ms + self._hurry_ms

    def _wake(self) -> None:
        self._woken = True

    def _turn(self) -> bool:
        return self._turn_loop() or self._hurry()

    def _turn_loop(self) -> bool:
        """One turn of the background, then of the application; returns whether anything happened."""
        self._woken = self._moved = self._stepped = False
        if not self._background.ended:
            self._background.turn(self.now_ms)
            self._background.ended = self._member.closed
            self._background.send_outbox()
        if self._callback is None:
            self._resume(None)
        else:
            self._end_due_callback()
        turns = self._stepped and not self._background.ended and self._background.next_turn_ms <= self.now_ms
        return self._woken or self._moved or turns

    def _hurry(self) -> bool:
        """Ends a brief poll() that has nothing to wait for."""
        if self._open is None or not self._open.brief or self._open.wait is None:
            return False
        self._hurry_ms = 1
        self._resume(None)
        self._hurry_ms = 0
        return True

    # The member's state

    def _observe(self, given: MemberInput, effects: tuple[MemberEffect, ...]) -> None:
        self._stepped |= bool(effects)
        if isinstance(given, ApplicationEvent):
            self.record.note_taken(given)
        elif isinstance(given, Answered):
            self.record.note_answer(show_answer(given.answer))
        for effect in effects:
            self._note(effect)

    def _note(self, effect: MemberEffect) -> None:
        match effect:
            case Enqueued(event=event):
                self.record.note_added(event)
            case Transition(source=source, target=target, event=event):
                self.record.note_transition(source.name, target.name, event.name)
            case UnsentRequest(body=body):
                self._requests += 1
                self._outgoing.append(self._requests)
                self.record.note_request(body, self._requests)
            case CallCompleted() | HeartbeatFailed() | PolledLate() | PollTimerExpired():
                return
            case _:
                drawn = isinstance(effect, DRAWN)
                self.record.note_effect(type(effect).__name__, show_effect(effect), drawn=drawn)
