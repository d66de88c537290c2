"""W22 on a real Kafka: a Java consumer whose unsubscribe() never returns from its callback keeps its partitions.

What it takes is a client's timer, which requests do not show; so a Java client is driven, and beside it one that only
polls no more, which is out after `max.poll.interval.ms`.
"""

from __future__ import annotations

import subprocess
import time
from typing import Any

from kafka_broker import java_client

from fsm.protocol.messages import ConsumerGroupDescribeRequest
from fsm.wire.connection import Connection

NUMBER = "W22"
POLL_MS, SILENT_S, LIMIT_S = 3_000, 9.0, 60.0
"""The client's poll timer; the wait after it, three times as long; and the limit for the first assignment."""


def confirm_hanging(connection: Connection, group: str, topic: str) -> tuple[bool, list[str]]:
    """Whether the member in unsubscribe() stays and the one that stops polling leaves, and the observations."""
    found: dict[str, Any] = {how: _watch(connection, f"{group}-{how}", topic, how) for how in ("polls", "unsubscribes")}
    lines = [f"who {how.replace('polls', 'polls no more')}: {seen}" for how, seen in found.items()]
    return (found["polls"], found["unsubscribes"]) == ("out", "Stable, assigned both partitions"), lines


def _watch(connection: Connection, group: str, topic: str, how: str) -> str:
    """The state of the group of one such member, three poll timers after its last poll."""
    address = f"{connection.host}:{connection.port}"
    command = java_client("Silent.java", address, group, topic, str(POLL_MS), how)
    member = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        until = time.monotonic() + LIMIT_S
        while member.stdout is not None and (line := member.stdout.readline()).strip() != "silent":
            if not line or time.monotonic() > until:
                return "was never assigned anything"
        time.sleep(SILENT_S)
        described = connection.call(ConsumerGroupDescribeRequest((group,))).groups[0]
    finally:
        member.kill()
        member.wait()
    if not described.members:
        return "out"
    held = sorted(number for one in described.members[0].assignment for number in one.partitions)
    return f"{described.group_state}, assigned {'both partitions' if held == [0, 1] else held}"
