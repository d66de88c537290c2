"""The state of an application according to notes of a trace: events from its client, and commands to it.

Notes of the event `application` have `client`, `ev` and `partitions`, where `ev` is what an adapter prints: `assign`
and `assigned` (a callback begins and ends), `revoke` and `revoked`, `lost`, `error`, `close_end`. Notes of the event
`command` have `client` and `line`: the command. `started` and `exited` are notes about its process.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from fsm.protocol.assignment import TopicPartition

Held = frozenset[TopicPartition]
CALLBACKS = ("assign", "assigned", "revoke", "revoked", "lost")
UNSUPPORTED = "unsupported"
"""The prefix of an adapter's error for a command that its client does not support."""
NEVER_MS = float("-inf")


class Callback(NamedTuple):
    """A callback that runs."""

    name: str
    partitions: Held
    since_ms: float


@dataclass(slots=True)
class Application:
    """The known state of a client's application."""

    reports_callbacks: bool = False
    """Whether its adapter reports callbacks; otherwise nothing follows from their absence."""
    holding: Held = frozenset()
    """The partitions that it was assigned and that were not revoked."""
    lost_by_fence: Held = frozenset()
    """The partitions it held when its client was fenced or met a fatal error, until its next assignment."""
    unreleased: Held = frozenset()
    """The partitions among these that were not reported as lost."""
    callback: Callback | None = None
    changed_ms: float = NEVER_MS
    """When the last callback began or ended."""
    error_ms: float = NEVER_MS
    paused_ms: float | None = None
    closing_ms: float | None = None
    closed_ms: float | None = None
    exited_ms: float | None = None
    unsubscribed_ms: float | None = None
    wanted: frozenset[str] = frozenset()
    """The topics that it subscribed to last."""
    wanted_ms: float | None = None
    """When it subscribed; None once the client has sent the subscription."""
    noted_ms: float = NEVER_MS
    """The time of its last note."""

    def apply_event(self, at_ms: float, about: Mapping[str, Any]) -> None:
        """Takes a note from the client to the application."""
        self.noted_ms = at_ms
        self.reports_callbacks |= about.get("ev") in CALLBACKS
        event, partitions = about.get("ev"), partitions_of(about)
        if event == "revoked" and self.callback is not None:
            partitions |= self.callback.partitions
        match event:
            case "assign":
                self.holding |= partitions
            case "revoked" | "lost":
                self.holding -= partitions
                self.unreleased -= partitions
            case "error" if str(about.get("error", "")).startswith(UNSUPPORTED):
                self.wanted_ms = self.unsubscribed_ms = None
            case "error":
                self.error_ms = at_ms
            case "close_end":
                self.closed_ms = at_ms
        if event in ("assign", "revoke"):
            self.callback = Callback(event, partitions, at_ms)
        elif event in ("assigned", "revoked"):
            self.callback = None
        if event in CALLBACKS:
            self.changed_ms = at_ms

    def last_change_before(self, until_ms: float) -> float:
        """When the last callback began or ended before the present moment."""
        return self.changed_ms if self.changed_ms < until_ms else NEVER_MS

    def lose(self) -> None:
        """Notes that its client lost its membership without leaving."""
        self.lost_by_fence = self.unreleased = self.holding

    def apply_command(self, at_ms: float, line: str) -> None:
        """Takes a command to the application."""
        self.noted_ms = at_ms
        verb, _, rest = line.partition(" ")
        match verb:
            case "close":
                self.closing_ms = at_ms
            case "pause":
                self.paused_ms = at_ms
            case "resume":
                self.paused_ms = None
            case "subscribe":
                self.wanted, self.wanted_ms, self.unsubscribed_ms = frozenset(rest.split(",")), at_ms, None
            case "unsubscribe":
                self.unsubscribed_ms, self.wanted_ms = at_ms, None

    def note_sent(self, topics: frozenset[str], *, leaves: bool) -> None:
        """Notes that the client sent the subscription to the group."""
        if leaves:
            self.unsubscribed_ms = None
        elif topics == self.wanted:
            self.wanted_ms = None


def partitions_of(about: Mapping[str, Any]) -> Held:
    """The partitions of an application's note; invalid pairs are ignored."""
    pairs = about.get("partitions") or ()
    return frozenset((str(pair[0]), int(pair[1])) for pair in pairs if len(pair) == 2)
