"""Reads the current lag of groups from a broker: committed offsets and end offsets."""

from __future__ import annotations

import sqlite3
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from fsm.audit.lag import Lag, by_group
from fsm.cli.brokers import REMEDY, TIMEOUT_S, Brokers
from fsm.errors import InputError
from fsm.protocol import messages as m
from fsm.protocol.error_codes import ErrorCode
from fsm.spark.live.lag_kept import KeptLag
from fsm.trace import Partition
from fsm.wire import PeerError
from fsm.wire.login import PLAINTEXT, Security

EVERY_S = 30.0
AT_ONCE = 200
"""Groups per OffsetFetch request."""


def read_broker_lag(
    host: str,
    port: int,
    chosen: Sequence[str] = (),
    *,
    security: Security = PLAINTEXT,
    now_s: Callable[[], float] = time.time,
) -> Lag:
    """The lag of these groups, all by default, for each partition with a committed offset.

    Raises `InputError` if a broker cannot be reached or refuses a request.
    """
    brokers = Brokers(host, port, security)
    try:
        topics = brokers.describe().topics
        committed = dict(_fetch_committed(brokers, set(chosen)))
        ends = _fetch_ends(brokers, topics, {partition for _, partition in committed})
    except PeerError as problem:
        raise InputError(str(problem), f"--lag-from {host}:{port}", REMEDY) from None
    finally:
        brokers.close()
    ts_ms = int(now_s() * 1000)
    return by_group(
        (group, partition, ts_ms, max(0, ends[partition] - offset))
        for (group, partition), offset in sorted(committed.items())
        if partition in ends
    )


class LagWatch:
    """Reads the lag from a broker periodically, on a thread of its own, and stores it."""

    def __init__(
        self,
        host: str,
        port: int,
        kept: KeptLag,
        chosen: Sequence[str] = (),
        every_s: float = EVERY_S,
        *,
        security: Security = PLAINTEXT,
    ) -> None:
        """Reads the lag once and starts the thread. Raises `InputError` as `read_broker_lag` does."""
        self.place = host, port
        self.kept = kept
        self.chosen = tuple(chosen)
        self.every_s = every_s
        self.security = security
        kept.add(read_broker_lag(host, port, chosen, security=security))
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="lag", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stops the thread."""
        self._ends.set()
        self._thread.join(TIMEOUT_S)

    def _watch(self) -> None:
        reported = ""
        while not self._ends.wait(self.every_s):
            try:
                self.kept.add(read_broker_lag(*self.place, self.chosen, security=self.security))
                text = ""
            except (InputError, OSError, sqlite3.Error) as problem:
                text = str(problem)
            if text and text != reported:  # a lasting problem is printed once
                print(f"fsm: {text}", file=sys.stderr)  # noqa: T201
            reported = text


def _fetch_committed(brokers: Brokers, chosen: set[str]) -> Iterator[tuple[tuple[str, Partition], int]]:
    """((group, partition), committed offset). A broker lists the groups that it coordinates."""
    for number in sorted(brokers.addresses):
        coordinator = brokers.connect(number)
        listed = coordinator.call(m.ListGroupsRequest())
        _check(listed.error_code, "lists no groups")
        groups = [one.group_id for one in listed.groups if not chosen or one.group_id in chosen]
        for at in range(0, len(groups), AT_ONCE):
            asked = tuple(m.OffsetFetchRequestGroup(group) for group in groups[at : at + AT_ONCE])
            for group in coordinator.call(m.OffsetFetchRequest(groups=asked)).groups:
                _check(group.error_code, f"does not tell the offsets of {group.group_id}")
                for topic in group.topics:
                    for one in topic.partitions:
                        if one.committed_offset >= 0 and not one.error_code:
                            yield (group.group_id, (topic.name, one.partition_index)), one.committed_offset


def _fetch_ends(
    brokers: Brokers, described: Iterable[m.MetadataResponseTopic], partitions: set[Partition]
) -> Mapping[Partition, int]:
    """End offsets; partitions without a leader are left out."""
    leaders = {(topic.name, one.partition_index): one.leader_id for topic in described for one in topic.partitions}
    by_leader: dict[int, dict[str, list[int]]] = {}
    for topic, number in sorted(partitions):
        leader = leaders.get((topic, number), -1)
        if leader in brokers.addresses:
            by_leader.setdefault(leader, {}).setdefault(topic, []).append(number)
    found: dict[Partition, int] = {}
    for leader, topics in sorted(by_leader.items()):
        asked = tuple(
            m.ListOffsetsTopic(name, tuple(map(m.ListOffsetsPartition, numbers))) for name, numbers in topics.items()
        )
        for listed in brokers.connect(leader).call(m.ListOffsetsRequest(topics=asked)).topics:
            found.update({(listed.name, p.partition_index): p.offset for p in listed.partitions if not p.error_code})
    return found


def _check(code: ErrorCode, what: str) -> None:
    if code:
        raise PeerError(f"the broker {what}: {code.name}")
