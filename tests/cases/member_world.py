"""A member led through a recording: the world at one moment, and what does not fit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from fsm.kafka.assignment import Partitions
from fsm.kafka.events import BackgroundEvent
from fsm.member.effects import UnsentRequest
from fsm.member.state import Member
from fsm.member.subscription import SubscriptionType


@dataclass(frozen=True)
class Difference:
    """The first place where the member does otherwise."""

    scenario: str
    member: str
    t_ms: float
    field: str
    expected: Any
    got: Any
    sought: str = ""
    """What was to come next in the recording, by its lane; no way led there, and this is what came nearest."""

    def __str__(self) -> str:
        where = f"{self.scenario}/{self.member} at {self.t_ms} ms" + (f" ({self.sought})" if self.sought else "")
        return f"{where}, {self.field}: expected {self.expected}, got {self.got}"


class Callback(NamedTuple):
    """A callback that the application runs; `ticket` is None for the one that close() runs by itself."""

    ticket: int | None
    method: str


class World(NamedTuple):
    """The member, the application around it, and how far each lane has been read."""

    member: Member
    at: tuple[tuple[str, int], ...] = ()
    background: tuple[BackgroundEvent, ...] = ()
    callback: Callback | None = None
    finished: tuple[tuple[Callback, str | None], ...] = ()
    """Callbacks that returned, and whose end the background has not heard of."""
    asked: tuple[UnsentRequest, ...] = ()
    """Heartbeats in the order of their requests."""
    lost: tuple[int, ...] = ()
    """Places of heartbeats that got no response and have failed by now."""
    commit: tuple[int, ...] = ()
    """Places in the recording of the commits of the run that is open."""
    assignment: Partitions = ()
    generation: int = -1
    phase: str = "running"
    """running, unsubscribing, closing (commit and callback), ready to leave, leaving, closed."""
    stopped: bool = False
    """The application does not poll."""
    lateness: tuple[tuple[float, float], ...] = ()
    """When a plain heartbeat was sent, and how long after it was due."""

    def read(self, lane: str) -> int:
        return dict(self.at).get(lane, 0)

    def past(self, lane: str) -> World:
        return self._replace(at=tuple(sorted({**dict(self.at), lane: self.read(lane) + 1}.items())))

    @property
    def may_poll(self) -> bool:
        free = self.callback is None and not self.stopped and self.phase == "running"
        return free and self.member.subscription.kind is not SubscriptionType.NONE


class Mismatch(Exception):  # noqa: N818  # a thing found, not an error of the program
    """A choice that does not fit: which field, what is recorded, what the member does."""

    def __init__(self, field: str, expected: Any, got: Any) -> None:
        self.field, self.expected, self.got = field, expected, got
        super().__init__(field)
