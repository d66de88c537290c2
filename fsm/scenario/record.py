"""What is seen of a member in one step of a conversation: told in order, taken out at the step's end.

The same record serves three readers: the fields that expectations and other dialects are compared with, the lines
that are printed, and the arrows of a picture.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby

from fsm.member.events import ApplicationEvent, BackgroundEvent
from fsm.member.runtime.queues import InvokeListener
from fsm.render.sequence import Arrow, Look
from fsm.scenario import words
from fsm.scenario.steps import NOTHING

APPLICATION = "application thread"
APPLICATION_QUEUE = "application event queue"
BACKGROUND = "background thread"
BACKGROUND_QUEUE = "background event queue"
COORDINATOR = "coordinator"


class Record:
    """What happened since the last `take`; `lane` is where a member of this protocol does its work."""

    def __init__(self, lane: str) -> None:
        self.lane = lane
        self._clear()

    def _clear(self) -> None:
        self.requests: list[object] = []
        self.callbacks: list[str] = []
        self.raised: list[str] = []
        self.returned: list[str] = []
        self.events: list[str] = []
        self.effects: list[str] = []
        self.transitions: list[str] = []
        self.lines: list[str] = []
        self.arrows: list[Arrow] = []

    # The application

    def called(self, text: str) -> None:
        """The application calls its consumer."""
        self.arrows.append(Arrow(APPLICATION, APPLICATION, text, Look.NOTE))

    def returns(self, name: str, error: str | None) -> None:
        """A call ended; with `error`, it raised."""
        self.returned.append(name)
        if error is not None:
            self.raised.append(error)
        look = Look.NOTE if error is None else Look.RAISE
        text = f"{name}() returns" if error is None else f"{name}() raises {error}"
        self.lines.append(text)
        self.arrows.append(Arrow(APPLICATION, APPLICATION, text, look))

    def invoked(self, asked: InvokeListener) -> None:
        """A callback begins."""
        text = f"{asked.method.value} {words.named(asked.partitions)}"
        self.callbacks.append(text)
        self.lines.append(f"callback {text}")
        self.arrows.append(Arrow(APPLICATION, APPLICATION, text, Look.NOTE))

    def callback_raised(self, text: str) -> None:
        """A callback ended with an exception."""
        self.lines.append(f"the callback raises {text!r}")
        self.arrows.append(Arrow(APPLICATION, APPLICATION, f"raises {text!r}", Look.RAISE))

    # The queues

    def submitted(self, event: ApplicationEvent) -> None:
        """The application adds to its queue."""
        self._queued(event, APPLICATION, APPLICATION_QUEUE, Look.CALL)

    def taken_in(self, event: ApplicationEvent) -> None:
        """The background takes it out."""
        self._queued(event, APPLICATION_QUEUE, BACKGROUND, Look.TAKE)

    def enqueued(self, event: BackgroundEvent) -> None:
        """The background adds to its queue."""
        self._queued(event, BACKGROUND, BACKGROUND_QUEUE, Look.CALL)

    def taken_out(self, event: BackgroundEvent) -> None:
        """The application takes it out."""
        self._queued(event, BACKGROUND_QUEUE, APPLICATION, Look.TAKE)

    def _queued(self, event: ApplicationEvent | BackgroundEvent, source: str, target: str, look: Look) -> None:
        self.arrows.append(Arrow(source, target, words.event_line(event), look))
        if look is Look.CALL:
            self.events.append(f"{target.split(maxsplit=1)[0]}: {type(event).__name__}")
            self.lines.append(f"{target} + {words.event_line(event)}")

    # The coordinator

    def sent(self, request: object, number: int) -> None:
        """A request goes out."""
        self.requests.append(request)
        text = words.request_line(request)
        self.lines.append(f"sends {number}: {text}")
        self.arrows.append(Arrow(self.lane, COORDINATOR, text))

    def received(self, text: str) -> None:
        """An answer comes in."""
        self.arrows.append(Arrow(COORDINATOR, self.lane, text))

    # The member

    def moved(self, source: str, target: str, event: str) -> None:
        """A state is left for another."""
        self.transitions.append(f"{source} to {target}")
        self.lines.append(f"{source} to {target} ({event})")
        self.arrows.append(Arrow(self.lane, self.lane, target, Look.STATE))

    def effect(self, name: str, text: str, *, drawn: bool = False) -> None:
        """Something else the member did or told."""
        self.effects.append(name)
        self.lines.append(text)
        if drawn:
            self.arrows.append(Arrow(self.lane, self.lane, text, Look.NOTE))

    def take(self) -> tuple[dict[str, str], tuple[str, ...], tuple[Arrow, ...]]:
        """Fields, lines and arrows since the last time; what happens again and again is told once."""
        seen = {
            "transitions": words.listed(self.transitions),
            "sent": words.listed(map(words.api, self.requests)),
            **self._requests(),
            "committed": words.committed(self.requests),
            "callbacks": words.listed(self.callbacks),
            "events": words.listed(event for event, _ in groupby(self.events)),
            "effects": words.listed(effect for effect, _ in groupby(self.effects)),
            "returned": words.listed(self.returned),
            "raised": ", ".join(self.raised) or NOTHING,
        }
        taken = seen, tuple(_counted(self.lines)), tuple(self.arrows)
        self._clear()
        return taken

    def _requests(self) -> dict[str, str]:
        fields: dict[str, str] = {}
        for number, request in enumerate(self.requests, 1):
            for name, value in words.request_fields(request).items():
                fields[f"sent {number} {name}"] = value
        return fields


def _counted(lines: Iterable[str]) -> Iterator[str]:
    """Lines that follow each other and are the same, as one."""
    for line, same in groupby(lines):
        count = len(list(same))
        yield line if count == 1 else f"{line} ({count} times)"
