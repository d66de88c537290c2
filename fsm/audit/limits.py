"""Thresholds of the audit: the user's (`Limits`) and fixed ones."""

from __future__ import annotations

from dataclasses import dataclass

UNDATED_MS = 0
"""The time of all records of a log without timestamps."""
REORDER_MS = 30
"""Threads of one client write their lines up to this much out of order (measured on Java clients)."""
CLOCK_MS = 1000
"""A line older by more than this than a line above it is out of order, whichever thread wrote it."""
MERGE_MS = 250
"""Overlaps and gaps of several partitions that begin and end this close together are one finding."""
SETTLED_MS = 1000
"""Lines that follow a close or a fatal error within this time belong to it."""
BURST_MS = 50
"""Lines that follow each other within this time are one burst; a new process begins with one."""
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
"""Synchronised clocks of two hosts may differ by less than this."""
CLOSE_TIMEOUT_MS = 30_000
"""Kafka's default timeout of close(): a longer one hangs."""
LATE_LEAVE_MS = 1000
"""A leave that is sent later than this after it was announced is late."""


MIN_UNDERSTOOD = 0.8
"""Default of the share of clients' lines of a file below which too little was understood."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Thresholds of `fsm audit`, all in milliseconds."""

    tolerance_ms: int = 100
    """A double ownership is reported if it lasts longer than this plus `clock_skew_ms`."""
    clock_skew_ms: int = 0
    """Largest difference of the clocks of two hosts."""
    unowned_ms: int = 2000
    """A subscribed partition without owner is reported if that lasts longer than this."""
    window_ms: int = 60_000
    """Losses of membership that follow each other within this time are one loop."""
    storm_turns: int = 20
    """One member with more rebalances than this within `window_ms` is a storm."""
