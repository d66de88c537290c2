"""W23, W27, W32 and W35 on a real Kafka, with real Java consumers (`Members.java`): what they read, no request shows.

W27: an eager member C loses one partition to B and keeps another one; in its revoked callback it is woken up or
interrupted, or the callback returns. W23: B joins as the topic that A owns is made anew.
W32: the topic of A, which is static and leads, grows while it is away; then B joins.
W35: A and B, which are static, return one after the other with a subscription to one topic more; then D joins.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping, Sequence
from typing import Any

from kafka_broker import java_client

EAGER = ("returns", "wakes", "interrupts")
PARTITIONS, RECREATED, RECREATED_PARTITIONS, GROWS = 4, "recreated", 2, "grows"
RESUBSCRIBES, OTHER, OTHER_PARTITIONS = "resubscribes", "-other", 3
"""A scene, and the second topic of its group: what its name ends with, and its partitions."""
LIMIT_S = 120.0
Event = Mapping[str, Any]
Confirmed = tuple[bool, list[str]]


def confirm_woken(address: tuple[str, int], groups: Mapping[str, str]) -> Confirmed:
    """Whether C uses what B has, and with automatic commits does not use what it keeps; and the observations.

    `groups` has a group and its topic, of one name, for each of `EAGER`.
    """
    seen = {scene: _Seen(address, groups[scene], scene) for scene in EAGER}
    twice = {scene: one.count_read_twice() for scene, one in seen.items()}
    woken, interrupted = seen["wakes"], seen["interrupts"]
    ((moved, *_), given) = woken.find("B", "assign")
    _, told = woken.find("C", "assign", since=given)
    had, lost = (interrupted.find(who, "assign")[0] for who in "CB")
    (kept,) = {*had} - {*lost}
    (_, thrown), (_, closes) = interrupted.find("C", "thrown"), interrupted.find("B", "close")
    both, skipped = woken.count_read("C", moved, given, told), interrupted.count_read("C", kept, thrown, closes)
    lines = [f"the callback {scene}: {count} records are read by two members" for scene, count in twice.items()]
    lines.append(f"woken up: C reads {both} records of partition {moved}, which B owns, in {told - given:.1f} s")
    lines.append(f"interrupted, with automatic commits: C reads {skipped} of {kept} in {closes - thrown:.1f} s")
    return twice["returns"] == twice["interrupts"] == skipped == 0 < min(both, twice["wakes"]), lines


def confirm_recreated(address: tuple[str, int], group: str) -> Confirmed:
    """Whether A reads a partition of the new topic that B owns, until A gives the old one up; and the observations."""
    seen = _Seen(address, group, RECREATED)
    (moved,), begun = seen.find("B", "read")
    old, revoked = seen.find("A", "revoke")
    both, twice = seen.count_read("A", moved, begun, revoked, "second"), seen.count_read_twice()
    span = f"in {revoked - begun:.1f} s, until it gives {old} of the old one up"
    lines = [f"A reads {both} records of the new topic's partition {moved}, which B owns, {span}"]
    return min(both, twice) > 0 and moved in old, [*lines, f"{twice} records are read by both"]


def confirm_grown(address: tuple[str, int], group: str) -> Confirmed:
    """Whether nobody reads the new partition until B joins, though A is back; and the observations."""
    seen = _Seen(address, group, GROWS)
    _, away = seen.find("A", "closed")
    owned, back = seen.find("A", "assign", since=away)
    _, joined = seen.find("B", "assign")
    before, after = seen.count_around(joined, "AB", 1, since=away)
    lines = [f"A is back, and owns {owned}: {before} records of partition 1 are read in {joined - back:.1f} s"]
    return owned == [0] and before == 0 < after, [*lines, f"B joins: {after} records of it are read"]


def confirm_resubscribed(address: tuple[str, int], group: str) -> Confirmed:
    """Whether nobody reads the topic to which A and B subscribe as they return, until D joins; and the observations."""
    seen = _Seen(address, group, RESUBSCRIBES)
    _, away = seen.find("A", "closed")
    _, back = seen.find("A", "assign", since=away)
    _, joined = seen.find("D", "assign")
    before, after = seen.count_around(joined, "ABD", 0)
    lines = [f"A and B are back with one topic more: {before} records of it are read in {joined - back:.1f} s"]
    return before == 0 < after, [*lines, f"D joins: {after} records of it are read"]


class _Seen:
    """What the applications of one group saw."""

    def __init__(self, address: tuple[str, int], group: str, scene: str) -> None:
        command = java_client("Members.java", f"{address[0]}:{address[1]}", group, group, scene)
        done = subprocess.run(command, check=True, timeout=LIMIT_S, stdout=subprocess.PIPE, text=True)
        self.events: Sequence[Event] = [json.loads(line) for line in done.stdout.splitlines()]

    def find(self, who: str, what: str, since: float = 0.0) -> tuple[list[int], float]:
        """Partitions and time of the first such event."""
        found = (e for e in self.events if (e["who"], e["ev"]) == (who, what) and e["ts"] >= since)
        return next((e["parts"], e["ts"]) for e in found)

    def count_read(self, who: str, partition: int, begin: float, end: float, topic: str = "") -> int:
        """How many records a member has read in that time, of the first topic, of the second, or of any."""
        read = (e for e in self.events if (e["who"], e["ev"], e["parts"]) == (who, "read", [partition]))
        return sum(begin <= e["ts"] < end and e["record"].startswith(topic) for e in read)

    def count_around(self, at: float, clients: str, partition: int, *, since: float = 0.0) -> tuple[int, int]:
        """Records of a partition that these clients read before a time, and after it."""
        before, after = (
            sum(self.count_read(who, partition, begin, end) for who in clients)
            for begin, end in ((since, at), (at, float("inf")))
        )
        return before, after

    def count_read_twice(self) -> int:
        """How many records two members have read."""
        read = {(e["parts"][0], e["record"], e["who"]) for e in self.events if e["ev"] == "read"}
        return len(read) - len({(partition, record) for partition, record, _ in read})
