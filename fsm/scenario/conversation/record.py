"""The observed events of a member in one step of a conversation: noted in order, read at the step's end.

The same record serves three readers: the fields for comparisons with expectations and other dialects, the printed
lines, and the arrows of a picture.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby

from fsm.member.events import ApplicationEvent, BackgroundEvent
from fsm.member.runtime.queues import InvokeListener
from fsm.render.sequence import Arrow, Look
from fsm.scenario import texts
from fsm.scenario.story import Seen

APPLICATION = "application thread"
APPLICATION_QUEUE = "application event queue"
BACKGROUND = "background thread"
BACKGROUND_QUEUE = "background event queue"
COORDINATOR = "coordinator"


class Record:
    """The events since the last `take`; `lane` is the lane in which a member of this protocol works."""

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

    def note_call(self, text: str) -> None:
        """The application calls its consumer."""
        self._draw(APPLICATION, text)

    def note_return(self, name: str, error: str | None) -> None:
        """A call ended; with `error`, it raised."""
        self.returned.append(name)
        if error is not None:
            self.raised.append(error)
        text = f"{name}() returns" if error is None else f"{name}() raises {error}"
        self.lines.append(text)
        self._draw(APPLICATION, text, Look.NOTE if error is None else Look.RAISE)

    def note_callback(self, asked: InvokeListener) -> None:
        """A callback begins."""
        text = f"{asked.method.value} {texts.show_partitions(asked.partitions)}"
        self.callbacks.append(text)
        self.lines.append(f"callback {text}")
        self._draw(APPLICATION, text)

    def note_callback_error(self, text: str) -> None:
        """A callback ended with an exception."""
        self.lines.append(f"the callback raises {text!r}")
        self._draw(APPLICATION, f"raises {text!r}", Look.RAISE)

    def note_added(self, event: ApplicationEvent | BackgroundEvent) -> None:
        """A thread adds an event to its queue."""
        mine = isinstance(event, ApplicationEvent)
        source, queue = (APPLICATION, APPLICATION_QUEUE) if mine else (BACKGROUND, BACKGROUND_QUEUE)
        text = texts.show_event(event)
        self.arrows.append(Arrow(source, queue, text))
        self.events.append(f"{'application' if mine else 'background'}: {type(event).__name__}")
        self.lines.append(f"{queue} + {text}")

    def note_taken(self, event: ApplicationEvent | BackgroundEvent) -> None:
        """The other thread takes an event out of the queue."""
        mine = isinstance(event, ApplicationEvent)
        queue, target = (APPLICATION_QUEUE, BACKGROUND) if mine else (BACKGROUND_QUEUE, APPLICATION)
        self.arrows.append(Arrow(queue, target, texts.show_event(event), Look.TAKE))

    # The coordinator

    def note_request(self, request: object, number: int) -> None:
        """A request is sent."""
        self.requests.append(request)
        text = texts.show_request(request)
        self.lines.append(f"sends {number}: {text}")
        self.arrows.append(Arrow(self.lane, COORDINATOR, text))

    def note_answer(self, text: str) -> None:
        """An answer arrives."""
        self.arrows.append(Arrow(COORDINATOR, self.lane, text))

    # The member

    def note_transition(self, source: str, target: str, event: str) -> None:
        """A transition of states."""
        self.transitions.append(f"{source} to {target}")
        self.lines.append(f"{source} to {target} ({event})")
        self._draw(self.lane, target, Look.STATE)

    def note_effect(self, name: str, text: str, *, drawn: bool = False) -> None:
        """Another effect of the member."""
        self.effects.append(name)
        self.lines.append(text)
        if drawn:
            self._draw(self.lane, text)

    def _draw(self, lane: str, text: str, look: Look = Look.NOTE) -> None:
        self.arrows.append(Arrow(lane, lane, text, look))

    def take(self) -> Seen:
        """Fields, lines and arrows since the last call; repeated events appear once."""
        fields = {
            "transitions": texts.show_list(self.transitions),
            "sent": texts.show_list(texts.show_api(type(request)) for request in self.requests),
            **dict(self._request_fields()),
            "committed": texts.show_commits(self.requests),
            "callbacks": texts.show_list(self.callbacks),
            "events": texts.show_list(event for event, _ in groupby(self.events)),
            "effects": texts.show_list(effect for effect, _ in groupby(self.effects)),
            "returned": texts.show_list(self.returned),
            "raised": ", ".join(self.raised) or texts.NOTHING,
        }
        seen = Seen(fields, tuple(_count(self.lines)), tuple(self.arrows))
        self._clear()
        return seen

    def _request_fields(self) -> Iterator[tuple[str, str]]:
        for number, request in enumerate(self.requests, 1):
            yield from ((f"sent {number} {name}", value) for name, value in texts.show_fields(request).items())


def _count(lines: Iterable[str]) -> Iterator[str]:
    for line, same in groupby(lines):
        count = len(list(same))
        yield line if count == 1 else f"{line} ({count} times)"
