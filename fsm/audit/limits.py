"""What the audit takes as too long: the user's thresholds and the few constants that are not theirs."""

from __future__ import annotations

from dataclasses import dataclass

UNDATED_MS = 0
"""The time of everything in a log that tells no time."""
REORDER_MS = 30
"""Threads of one client write their lines up to this much out of order (measured on Java clients)."""
CLOCK_MS = 1000
"""What one file tells later than this after something younger is out of order, whoever wrote it."""
MERGE_MS = 250
"""Overlaps and gaps of several partitions that begin and end this close together are one finding."""
SETTLED_MS = 1000
"""What follows a close or a fatal error within this time belongs to it."""
BURST_MS = 50
"""Lines that follow each other within this time belong to one burst; a new process begins with one."""
DEFAULT_MAX_POLL_INTERVAL_MS = 300_000
"""Kafka's default of max.poll.interval.ms, which is also the rebalance timeout of a consumer."""
DEFAULT_SESSION_TIMEOUT_MS = 45_000
"""Kafka's default session timeout (client setting in classic groups, broker setting in consumer groups)."""
DEFAULT_REQUEST_TIMEOUT_MS = 30_000
"""Kafka's default of request.timeout.ms of a consumer."""
CONSUMER_HEARTBEAT_INTERVAL_MS = 5000
"""Kafka's default of group.consumer.heartbeat.interval.ms, a setting of the broker."""
CLASSIC_HEARTBEAT_INTERVAL_MS = 3000
"""Kafka's default of heartbeat.interval.ms, a setting of the client that counts in classic groups only."""
DEFAULT_REBALANCE_DELAY_MS = 300_000
"""Connect's default of scheduled.rebalance.max.delay.ms."""
SKEW_MS = 1000
"""Clocks of two hosts may differ by less than this though somebody keeps them in step."""
CLOSE_TIMEOUT_MS = 30_000
"""Kafka's default timeout of close(): what takes longer hangs."""
LATE_LEAVE_MS = 1000
"""A leave that goes out later than this after it was announced is late."""


MIN_UNDERSTOOD = 0.8
"""The share of what clients say in a file below which too little of it was understood, unless it is given."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Thresholds of `fsm audit`, all in milliseconds."""

    tolerance_ms: int = 100
    """Two owners at once are reported when it lasts longer than this plus the skew of their clocks."""
    clock_skew_ms: int = 0
    """How far the clocks of two hosts may be apart."""
    unowned_ms: int = 2000
    """A wanted partition without owner is reported when it lasts longer than this."""
    window_ms: int = 60_000
    """Losses of membership that follow each other within this time are one loop."""
    storm_turns: int = 20
    """More rebalances than this of one member within `window_ms` are a storm."""
