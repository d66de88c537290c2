"""Words for findings."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from fsm.protocol.assignment import TopicPartition

SHOWN = 6
"""How many partitions are named."""


def partitions(given: Iterable[TopicPartition]) -> str:
    """
    >>> partitions([("foo", 1), ("foo", 0)])
    'foo-0, foo-1'
    """
    names = [f"{topic}-{number}" for topic, number in sorted(given)]
    more = [f"{len(names) - SHOWN} more"] if len(names) > SHOWN else []
    return ", ".join(names[:SHOWN] + more) or "nothing"


def seconds(ms: float) -> str:
    """
    >>> seconds(1234.0)
    '1.23 s'
    """
    return f"{ms / 1000:.2f} s"


def heartbeat(request: Any) -> str:
    """A heartbeat in short: its epoch and its fields."""
    parts = []
    if request.rebalance_timeout_ms != -1:
        parts.append("rebalance timeout")
    if request.subscribed_topic_names is not None:
        parts.append("topics")
    if request.subscribed_topic_regex is not None:
        parts.append("pattern")
    if request.topic_partitions is not None:
        parts.append(f"{sum(len(numbers) for _, numbers in request.topic_partitions)} owned partitions")
    return f"epoch {request.member_epoch}" + (f" with {', '.join(parts)}" if parts else "")
