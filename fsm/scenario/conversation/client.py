"""The client process of a conversation: an application, its consumer and its listener, on the scenario's clock.

listener: yes                                        # callbacks return at once
listener: no                                         # subscribe() without one
listener:
  on_partitions_revoked: {raises: disk full}
  on_partitions_assigned: {takes_ms: 4000}           # time passes in `wait` only
  on_partitions_lost: {held: yes}                    # until the step `callback_returns`
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fsm.errors import FsmError, LocalProtocolError
from fsm.member.events import ListenerMethod
from fsm.member.runtime.queues import InvokeListener
from fsm.member.timers import NEVER
from fsm.nodes import Node
from fsm.scenario.conversation.record import Record

TURNS_AT_ONCE = 1_000
"""The maximum number of turns of a member's loop at one instant; more are a busy loop."""
TURNS_IN_ALL = 10_000
"""The maximum number of turns in one wait."""


class Restless(FsmError):  # noqa: N818  # what the member is
    """The member is not idle after this many turns."""


@dataclass(frozen=True, slots=True)
class Behaviour:
    """The behaviour of one callback."""

    raises: str | None = None
    takes_ms: int = 0
    held: bool = False


Listener = Mapping[ListenerMethod, Behaviour]
"""The behaviour of callbacks; others return at once."""


def read_listener(node: Node | None) -> Listener | None:
    """Reads the setting; by default a listener that returns at once. Raises `InputError` with the line."""
    if node is None:
        return {}
    if isinstance(node.value, str):
        return {} if node.flag() else None
    methods = {method.value: method for method in ListenerMethod}
    return {methods[name]: _read_behaviour(value) for name, value in node.fields(tuple(methods)).items()}


def _read_behaviour(node: Node) -> Behaviour:
    given = node.fields(("raises", "takes_ms", "held"))
    return Behaviour(
        raises=given["raises"].text() if "raises" in given else None,
        takes_ms=given["takes_ms"].number() if "takes_ms" in given else 0,
        held="held" in given and given["held"].flag(),
    )


class Client(ABC):
    """The common part of clients of both protocols: their time, open call, callbacks and requests.

    Each has the application's calls subscribe(), poll(), unsubscribe() and close(); a poll() without a timeout returns
    as soon as there is nothing more to do at the instant. A call that has to wait stays open, and continues after an
    answer, the passage of time or the end of a callback. `show` returns the member's current state; `change_topics`
    sets the topics of the client's metadata, with their partition counts.
    """

    def __init__(self, lane: str, listener: Listener | None) -> None:
        self.now_ms = 0
        """The time of the conversation."""
        self.listener = listener
        self.record = Record(lane)
        self.reachable = True
        """Whether the search for the coordinator finds it."""
        self.commits_answered = True
        self.unanswered: dict[int, tuple[object, Any]] = {}
        """Requests without an answer, by number, each with the receiver of the answer."""
        self._requests = 0
        self._open: Any = None
        """The call of the application that has not returned."""
        self._callback: InvokeListener | None = None
        """The running callback."""
        self._callback_due_ms = 0

    @property
    def inside(self) -> str | None:
        """The name of the application's open call, or None."""
        return None if self._open is None else str(self._open.name)

    def end_callback(self, raises: str | None) -> None:
        """Ends the held callback. Raises `LocalProtocolError` without one."""
        if self._callback is None:
            raise LocalProtocolError("no callback is under way")
        self._end_callback(raises)
        self.settle()

    def answer(self, number: int, response: Any) -> None:
        """Answers a request, or fails it. Raises `KeyError` for one that is not open."""
        _, target = self.unanswered.pop(number)
        self._take_answer(target, response)
        self.settle()

    # Time

    def settle(self) -> None:
        """Does everything due at this instant; first the look-up of the coordinator and the topics."""
        for _ in range(TURNS_AT_ONCE):
            if not self._turn():
                return
        raise Restless(f"{TURNS_AT_ONCE} turns of the loop at {self.now_ms} ms, and no rest")

    def wait(self, ms: int) -> None:
        """Lets time pass. Raises `Restless` after too many turns."""
        end_ms = self.now_ms + ms
        for _ in range(TURNS_IN_ALL):
            self.settle()
            next_ms = max(self.now_ms + 1, self._next_ms())
            self.now_ms = min(next_ms, end_ms)
            if next_ms > end_ms:
                self.settle()
                return
        raise Restless(f"{TURNS_IN_ALL} turns by {self.now_ms} ms; wait for less")

    # Methods of each protocol

    @abstractmethod
    def _report_callback(self, raises: str | None) -> None:
        """Reports the end of a callback to the member."""

    @abstractmethod
    def _take_answer(self, target: Any, response: Any) -> None:
        """Passes an answer to its receiver."""

    @abstractmethod
    def _turn(self) -> bool:
        """Does one thing that is due now; returns False if there is none."""

    @abstractmethod
    def _next_ms(self) -> int:
        """When the next thing is due; it may be in the past."""

    # Callbacks

    def _begin_callback(self, asked: InvokeListener) -> None:
        behaviour = self._behaviour(asked)
        self._callback = asked
        self._callback_due_ms = NEVER if behaviour.held else self.now_ms + behaviour.takes_ms

    def _end_due_callback(self) -> bool:
        """Ends a callback whose time is over; returns False if there is none."""
        if self._callback is None or self.now_ms < self._callback_due_ms:
            return False
        self._end_callback(self._behaviour(self._callback).raises)
        return True

    def _end_callback(self, raises: str | None) -> None:
        self._callback = None
        if raises is not None:
            self.record.note_callback_error(raises)
        self._report_callback(raises)

    def _behaviour(self, asked: InvokeListener) -> Behaviour:
        return (self.listener or {}).get(asked.method, Behaviour())
