"""`Mailbox`: both queues of an embedded member, the numbers of its calls, and which of them have come to their end."""

from __future__ import annotations

from dataclasses import replace

from fsm.member.effects import CallCompleted
from fsm.member.events import ApplicationEvent, BackgroundEvent
from fsm.member.runtime.queues import CompletableEventReaper, EventQueue
from fsm.member.timers import NEVER


class Mailbox:
    """What lies between the application of a member and its background loop."""

    __slots__ = ("_completed", "_next_call", "application", "background", "reaper")

    def __init__(self) -> None:
        self.application: EventQueue[ApplicationEvent] = EventQueue()
        self.background: EventQueue[BackgroundEvent] = EventQueue()
        self.reaper = CompletableEventReaper()
        self._next_call = 1
        self._completed: dict[int, CallCompleted] = {}

    def submit(self, event: ApplicationEvent, deadline_ms: int = NEVER) -> int:
        """Adds to the application queue; gives the number under which the call will be reported as completed."""
        call, self._next_call = self._next_call, self._next_call + 1
        self.reaper.add(call, type(event).__name__, deadline_ms)
        self.application.add(replace(event, call=call))
        return call

    def forget(self, call: int) -> None:
        """Nobody waits for the call."""
        self.reaper.complete(call)

    def finish(self, done: CallCompleted) -> None:
        """A call has come to its end; one that nobody waited for any more is told of only if it failed."""
        if self.reaper.complete(done.call) or done.error is not None:
            self._completed[done.call] = done

    def end_of(self, call: int) -> CallCompleted | None:
        """The end of a call that was not taken yet; None where it goes on."""
        return self._completed.get(call)

    def take_completed(self) -> tuple[CallCompleted, ...]:
        """The calls that came to their end since this was asked last."""
        taken, self._completed = tuple(self._completed.values()), {}
        return taken

    def wait_ms(self, next_tick_ms: int, now_ms: int) -> int:
        """How long the loop may rest if its next tick is at that instant."""
        if self.application:
            return 0
        return max(0, min(next_tick_ms, self.reaper.next_deadline_ms) - now_ms)
