"""A member led through a recording: the world at one moment, and what does not fit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from fsm.member.consumer.state import Member
from fsm.member.consumer.subscription import SubscriptionType
from fsm.member.effects import UnsentRequest
from fsm.member.events import ErrorEvent
from fsm.protocol.assignment import Partitions
from fsm.protocol.messages import Offsets


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
    partitions: Partitions


class GroupMetadata(NamedTuple):
    """What groupMetadata() tells the application, and since when."""

    epoch: int = -1
    member_id: str = ""
    since_ms: float = 0.0


class World(NamedTuple):
    """The member, the application around it, and how far each lane has been read."""

    member: Member
    at: tuple[tuple[str, int], ...] = ()
    background: tuple[tuple[float, Any], ...] = ()
    """The background events that are queued for the application, and since when."""
    callback: Callback | None = None
    finished: tuple[tuple[Callback, str | None], ...] = ()
    """Callbacks that returned, and whose end the background has not heard of."""
    asked: tuple[UnsentRequest, ...] = ()
    """Heartbeats in the order of their requests."""
    lost: tuple[int, ...] = ()
    """Places of heartbeats that got no response and have failed by now."""
    unsent: UnsentRequest | None = None
    """A heartbeat that never reached the wire."""
    due_ms: float | None = None
    """Since when a heartbeat could be generated."""
    slack_ms: float = 0.0
    """By so much earlier the last heartbeat may have been generated."""
    commits: tuple[int, ...] = ()
    """Places in the recording of the commits of the run that is open, the one under way first."""
    commit: UnsentRequest | None = None
    """The one of ours that waits for its answer."""
    consumed: Offsets = ()
    assignment: Partitions = ()
    metadata: GroupMetadata = GroupMetadata()
    metadata_before: GroupMetadata = GroupMetadata()
    held: Partitions | None = ()
    """What the callbacks have given the application; None where a listener that raised leaves it open."""
    raised: bool = False
    """A listener raised, and poll() has not thrown yet."""
    phase: str = "running"
    """running, unsubscribing, closing (commit and callback), ready to leave, leaving, closed."""
    polls: bool = True
    """The application polls, when nothing else keeps it from that."""
    polled_ms: float = 0.0
    """Since when the next poll may come."""

    def read(self, lane: str) -> int:
        return dict(self.at).get(lane, 0)

    def past(self, lane: str) -> World:
        return self._replace(at=tuple(sorted({**dict(self.at), lane: self.read(lane) + 1}.items())))

    def may_poll(self, now: float) -> bool:
        free = self.callback is None and self.polls and not self.raised and self.phase == "running"
        return free and now >= self.polled_ms and self.member.subscription.kind is not SubscriptionType.NONE

    @property
    def errors(self) -> list[tuple[float, Any]]:
        """What is queued for poll() to throw."""
        return [queued for queued in self.background if isinstance(queued[1], ErrorEvent)]


class Mismatch(Exception):  # noqa: N818  # a thing found, not an error of the program
    """A choice that does not fit: which field, what is recorded, what the member does."""

    def __init__(self, field: str, expected: Any, got: Any) -> None:
        self.field, self.expected, self.got = field, expected, got
        super().__init__(field)


def must_be(field: str, expected: Any, got: Any) -> None:
    """Raises `Mismatch` where they differ."""
    if expected != got:
        raise Mismatch(field, expected, got)
