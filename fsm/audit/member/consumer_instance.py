"""The state of one consumer instance that its followers share."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from fsm.audit.follower import Process
from fsm.audit.limits import (
    CLASSIC_HEARTBEAT_INTERVAL_MS,
    CONSUMER_HEARTBEAT_INTERVAL_MS,
    DEFAULT_MAX_POLL_INTERVAL_MS,
    DEFAULT_SESSION_TIMEOUT_MS,
    Limits,
)
from fsm.audit.rows import At, End, Ended, Known, Order
from fsm.logs import ClientFacts, facts_of
from fsm.trace import Kind, Partition

LEAVES_ON_CLOSE = "internal.leave.group.on.close"
"""False in Kafka Streams, whose classic consumers close without a leave and without a callback."""
COMMITS = "enable.auto.commit"
_SETTINGS = (
    "group.protocol",
    "session.timeout.ms",
    "heartbeat.interval.ms",
    "max.poll.interval.ms",
    "request.timeout.ms",
    "group.remote.assignor",
    LEAVES_ON_CLOSE,
    COMMITS,
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
"""The last of these shows whether a consumer whose log ends had left or was a member."""
_REJOINS = (Kind.JOINING, Kind.JOINED, Kind.ASSIGN_BEGIN)
"""Kinds that do not occur during a close."""
_RELEASE = re.compile(r"(\d{1,4})\.(\d{1,4})", re.ASCII)
CONSUMER = "consumer"
"""The protocol of KIP-848."""


@dataclass(frozen=True, slots=True)
class Callback:
    """A running revoked or lost callback."""

    kind: Ended
    at: At
    partitions: tuple[Partition, ...]


@dataclass(slots=True)
class ConsumerInstance(Process):
    """One object per instance, shared by all its followers."""

    callback: Callback | None = None
    """The running callback, unless it is the assigned callback."""
    closing_ms: int | None = None
    """Begin of the close."""
    closed_ms: int | None = None
    expired: bool = False
    """Its poll timeout has expired, and it has not rejoined yet."""
    left_ms: int | None = None
    """When it left the group, unless it rejoined later or left because of a poll timeout."""
    turn_ms: int | None = None
    """Begin of its last rebalance."""
    limits: Limits = field(default_factory=Limits)

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
            # A running revoked callback belongs to the close, which then began with it.
            self.closing_ms = record.ts_ms if self.callback is None else self.callback.at.ts_ms
        elif record.kind in _REJOINS and self.closed_ms is None and not record.detail:
            self.closing_ms = None  # older Java clients print the same commit before a rejoin and before a close
        elif record.kind is Kind.CLOSE_END:
            self.closing_ms = self.closing_ms or record.ts_ms
            self.closed_ms = record.ts_ms

    def end(self, end: End) -> None:
        Process.end(self, end)
        if (self.closed_ms is not None or self.closed_quietly) and end.how is not Ended.HOLE:
            self.ended = Ended.CLOSED

    @property
    def facts(self) -> ClientFacts:
        """The properties of its client's log."""
        return facts_of(self.client_id)

    @property
    def closed_quietly(self) -> bool:
        """Whether a log that ends here shows a close without a line for its end."""
        leaves = self.closing_ms is not None or self.left_ms is not None
        return leaves and self.closed_ms is None and self.facts.close_is_unlogged

    @property
    def tells_last_step(self) -> bool:
        """Whether its client, in this release, prints the last step of a close at every log level."""
        release = _RELEASE.match(self.version)
        return release is None or (int(release[1]), int(release[2])) >= self.facts.last_step_since

    @property
    def stays_in_group(self) -> bool:
        return self.settings.get(LEAVES_ON_CLOSE) == "false"

    @property
    def in_order(self) -> bool:
        """Whether its lines are in print order."""
        return self.order is Order.KNOWN

    @property
    def interleaved(self) -> bool:
        """Whether only its lines with the same timestamp have no order."""
        return self.order is Order.INTERLEAVED

    @property
    def ordered(self) -> bool:
        """Whether it is `in_order` or `interleaved`."""
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
        """Longest time until this member learns of a rebalance."""
        if self.protocol == CONSUMER:
            return CONSUMER_HEARTBEAT_INTERVAL_MS
        return self.setting_ms("heartbeat.interval.ms") or CLASSIC_HEARTBEAT_INTERVAL_MS

    @property
    def silence_ms(self) -> int:
        """Longest time without a heartbeat that is certainly within its session."""
        return self.session_timeout_ms or DEFAULT_SESSION_TIMEOUT_MS
