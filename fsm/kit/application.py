"""What an application heard of its client, and what it told the client to do, as notes of a trace say it.

Notes of the event `application` have `client`, `ev` and `partitions`, where `ev` is what an adapter prints: `assign`
and `assigned` (a callback begins and ends), `revoke` and `revoked`, `lost`, `error`, `close_end`. Notes of the event
`command` have `client` and `line`: what the adapter was told. `started` and `exited` are its process's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from fsm.protocol.assignment import TopicPartition

Held = frozenset[TopicPartition]
CALLBACKS = ("assign", "assigned", "revoke", "revoked", "lost")
UNSUPPORTED = "unsupported"
"""How an adapter begins to say that its client cannot do what it was told."""
NEVER_MS = float("-inf")


class Callback(NamedTuple):
    """A callback that runs."""

    name: str
    partitions: Held
    since_ms: float


@dataclass(slots=True)
class Application:
    """What is known of the application of one client."""

    speaks: bool = False
    """Whether anything was heard of its callbacks; otherwise nothing follows from silence."""
    holding: Held = frozenset()
    """What it was given and not told to give back."""
    lost_by_fence: Held = frozenset()
    """What it held when its client was fenced or met a fatal error, until it is given something again."""
    unreleased: Held = frozenset()
    """What of that it was not told to be gone."""
    callback: Callback | None = None
    changed_ms: float = NEVER_MS
    """When it was last told something about partitions, or a callback ended."""
    error_ms: float = NEVER_MS
    paused_ms: float | None = None
    closing_ms: float | None = None
    closed_ms: float | None = None
    exited_ms: float | None = None
    unsubscribed_ms: float | None = None
    wanted: frozenset[str] = frozenset()
    """The topics that it subscribed to last."""
    wanted_ms: float | None = None
    """When it did so; None once the group was told."""
    heard_ms: float = NEVER_MS
    """The last sign of life."""

    def hear(self, at_ms: float, about: Mapping[str, Any]) -> None:
        """The client told it something."""
        self.heard_ms = at_ms
        self.speaks |= about.get("ev") in CALLBACKS
        event, partitions = about.get("ev"), partitions_of(about)
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
        """When it was last told something about partitions, as far as that was before."""
        return self.changed_ms if self.changed_ms < until_ms else NEVER_MS

    def lose(self) -> None:
        """Its client is no member any more, though nobody asked it to leave."""
        self.lost_by_fence = self.unreleased = self.holding

    def obey(self, at_ms: float, line: str) -> None:
        """It was told to do something."""
        self.heard_ms = at_ms
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

    def tell(self, topics: frozenset[str], *, leaves: bool) -> None:
        """The client told the group what its application wants."""
        if leaves:
            self.unsubscribed_ms = None
        elif topics == self.wanted:
            self.wanted_ms = None


def partitions_of(about: Mapping[str, Any]) -> Held:
    """The partitions of an application's note; pairs that are none are passed over."""
    pairs = about.get("partitions") or ()
    return frozenset((str(pair[0]), int(pair[1])) for pair in pairs if len(pair) == 2)
