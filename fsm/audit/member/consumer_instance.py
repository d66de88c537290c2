"""One consumer instance: what the followers of its records need to know about it."""

from __future__ import annotations

import re
from dataclasses import dataclass

from fsm.audit.follower import Process
from fsm.audit.limits import (
    CLASSIC_HEARTBEAT_INTERVAL_MS,
    CONSUMER_HEARTBEAT_INTERVAL_MS,
    DEFAULT_MAX_POLL_INTERVAL_MS,
    DEFAULT_SESSION_TIMEOUT_MS,
)
from fsm.audit.rows import At, End, Ended, Known, Order
from fsm.logs import ClientFacts, facts_of
from fsm.trace import Kind, Partition

LEAVES_ON_CLOSE = "internal.leave.group.on.close"
"""Kafka Streams sets it to false: its classic consumers close without leaving, and without a callback."""
_SETTINGS = (
    "group.protocol",
    "session.timeout.ms",
    "heartbeat.interval.ms",
    "max.poll.interval.ms",
    "request.timeout.ms",
    "group.remote.assignor",
    LEAVES_ON_CLOSE,
)
_LEAVES_OR_STAYS = frozenset(
    {
        Kind.LEFT,
        Kind.POLL_EXPIRED,
        Kind.SUBSCRIBED,
        Kind.JOINING,
        Kind.JOINED,
        Kind.ASSIGN_BEGIN,
        Kind.REVOKE_BEGIN,
        Kind.LOST_BEGIN,
        Kind.ADDED,
    }
)
"""After the last of these, a consumer whose log ends has left, or it was a member."""
_COMES_BACK = (Kind.JOINING, Kind.JOINED, Kind.ASSIGN_BEGIN)
"""What a consumer that is being closed does not do any more."""
_RELEASE = re.compile(r"(\d{1,4})\.(\d{1,4})", re.ASCII)
CONSUMER = "consumer"
"""The protocol of KIP-848."""


@dataclass(frozen=True, slots=True)
class Callback:
    """A revoked or lost callback that the application runs."""

    kind: Ended
    at: At
    partitions: tuple[Partition, ...]


@dataclass(slots=True)
class ConsumerInstance(Process):
    """All followers of an instance share the object."""

    callback: Callback | None = None
    """The one that runs, if it is not the assigned callback."""
    closing_ms: int | None = None
    """Since when the application has been closing the consumer."""
    closed_ms: int | None = None
    expired: bool = False
    """Its poll timeout has expired, and it has not come back yet."""
    left_ms: int | None = None
    """When it left the group, if that is the last that its lines tell, and no poll timeout was the reason."""
    turn_ms: int | None = None
    """When its last rebalance began."""

    def see(self, known: Known) -> None:
        record = known.record
        Process.see(self, known)
        if known.whole:
            self.whole_start = True
        if record.settings:
            self.version = record.settings.get("version", self.version)
            self.settings.update({name: record.settings[name] for name in _SETTINGS if name in record.settings})
        if record.kind in _LEAVES_OR_STAYS:
            left = record.kind is Kind.LEFT and not self.expired
            self.left_ms = record.ts_ms if left else None
            self.expired = record.kind is Kind.POLL_EXPIRED or (self.expired and record.kind is Kind.LEFT)
        protocols = self.facts.protocols
        protocol = protocols.get(record.machine) or protocols.get(record.kind)
        self.protocol = protocol or self.protocol or self.settings.get("group.protocol", "")
        if record.kind is Kind.CLOSE_BEGIN and self.closing_ms is None:
            # A revoked callback that runs is the close's own: its first line, where the close has no earlier one.
            self.closing_ms = record.ts_ms if self.callback is None else self.callback.at.ts_ms
        elif record.kind in _COMES_BACK and self.closed_ms is None and not record.detail:
            self.closing_ms = None  # older Java clients commit before they rejoin as they do before they close
        elif record.kind is Kind.CLOSE_END:
            self.closing_ms = self.closing_ms or record.ts_ms
            self.closed_ms = record.ts_ms

    def end(self, end: End) -> None:
        Process.end(self, end)
        if (self.closed_ms is not None or self.closed_quietly) and end.how is not Ended.HOLE:
            self.ended = Ended.CLOSED

    @property
    def facts(self) -> ClientFacts:
        """How its client tells what happens."""
        return facts_of(self.client_id)

    @property
    def closed_quietly(self) -> bool:
        """Whether a log that ends here shows a close, though no line says so."""
        leaves = self.closing_ms is not None or self.left_ms is not None
        return leaves and self.closed_ms is None and self.facts.closes_quietly

    @property
    def tells_last_step(self) -> bool:
        """Whether its client, of that release, prints the step that a close ends with at every level."""
        release = _RELEASE.match(self.version)
        return release is None or (int(release[1]), int(release[2])) >= self.facts.last_step_since

    @property
    def stays_in_group(self) -> bool:
        return self.settings.get(LEAVES_ON_CLOSE) == "false"

    @property
    def in_order(self) -> bool:
        """Whether its lines come in the order in which they were printed."""
        return self.order is Order.KNOWN

    @property
    def interleaved(self) -> bool:
        """Whether time orders all its lines but those of one moment."""
        return self.order is Order.INTERLEAVED

    @property
    def ordered(self) -> bool:
        """Whether one of the two holds."""
        return self.order is Order.KNOWN or self.order is Order.INTERLEAVED

    @property
    def rebalance_timeout_ms(self) -> int:
        return self.max_poll_interval_ms or DEFAULT_MAX_POLL_INTERVAL_MS

    @property
    def session_timeout_ms(self) -> int | None:
        """The client's session timeout; None in consumer groups, where the broker decides."""
        return None if self.protocol == CONSUMER else self.setting_ms("session.timeout.ms")

    @property
    def heartbeat_interval_ms(self) -> int:
        """How long it may take until this member learns of a rebalance."""
        if self.protocol == CONSUMER:
            return CONSUMER_HEARTBEAT_INTERVAL_MS
        return self.setting_ms("heartbeat.interval.ms") or CLASSIC_HEARTBEAT_INTERVAL_MS

    @property
    def silence_ms(self) -> int:
        """Longest silence towards the coordinator that is certainly within its session."""
        return self.session_timeout_ms or DEFAULT_SESSION_TIMEOUT_MS
