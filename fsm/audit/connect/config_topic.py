"""The units that the config topic requires, as one Connect worker reads it.

A connector is wanted from the record of its config until it is deleted or stopped by its user. Its tasks are wanted
from the connector's config on too, though they are known only when the connector has started and their configs are
written: a connector that cannot start leaves up to `tasks.max` tasks undone. Tasks that are configured later than
`FOLLOW_MS` after the connector are the connector's own decision, and wanted from then on.

A user can expect a connector from the response to the request on, which the responding worker prints. A wanted unit
yields an interval without owner, `CALLED`, from the config's record to that response.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from fsm.audit.findings import Cause
from fsm.audit.rows import At, Begun, Ended, Interval, Known, Subscription
from fsm.audit.wording import unit_partition
from fsm.trace import Partition, TraceRecord

INSTANCE = -1
NAMES = {Begun.CALLED: "the config topic", Begun.WAITS: "a scheduled delay"}
"""Member names of intervals without owner."""
FOLLOW_MS = 60_000
"""Longest time between two attempts of the herder to write the configs of a connector's tasks (Kafka's constant)."""
STOPPED_WITH_MS = 3_000
"""When a user stops a connector, its target state and its empty task set are written within this time."""
ANSWERED_WITHIN_MS = 1_000
"""The record of a config is read at most this long before the printed begin of the request for it."""
NAMED_TASKS = 16
"""Limit of the tasks reported for a connector that never started."""

Rows = Iterator[Interval | Subscription]


class ConfigTopic:
    """The config topic as one worker has read it, across its processes."""

    def __init__(self, group: str, member: str) -> None:
        self.group, self.member = group, member
        self.wanted: dict[Partition, At] = {}
        self.asked: dict[str, At] = {}
        """The first config of each connector whose task configs have not been written yet."""
        self.read: dict[str, int] = {}
        """When each connector's last config was read."""
        self.answered: dict[str, int] = {}
        """When the request for that first config was answered."""
        self.failed: set[str] = set()
        """Connectors without tasks because their start failed."""
        self.tasks_max: dict[str, int] = {}
        self.emptied: int | None = None
        self.removed: dict[str, At] = {}
        """Connectors that were deleted and not created again."""

    def is_wanted(self, unit: Partition) -> bool:
        return unit in self.wanted

    def add_running(self, units: Iterable[Partition], at: At) -> None:
        """Adds assigned or running units whose config was not logged, except those of deleted connectors."""
        for unit in units:
            if unit[0] not in self.removed:
                self.wanted.setdefault(unit, at)

    def keep_tasks_max(self, record: TraceRecord) -> None:
        (name,) = record.topics
        text = record.settings.get("tasks.max", "")
        if text.isdecimal() and len(text) < 6:
            self.tasks_max[name] = int(text)

    def see(self, known: Known) -> Rows:
        """Takes a record of the config topic, or the response to a request that wrote one."""
        record, at = known.record, known.at
        ts_ms = at.ts_ms
        match record.event:
            case "config":
                for name in record.topics:
                    self.removed.pop(name, None)
                    if name not in self.asked:
                        self.asked[name] = at
                        self.answered.pop(name, None)
                    self.read[name] = ts_ms
                    yield from self._call([(name, INSTANCE)], at, ts_ms)
            case "answered":
                yield from self._answer(record)
            case "tasks" if record.partitions:
                yield from self._tasks(record, at)
            case "tasks":
                self.emptied = ts_ms
            case "target":
                if self.emptied is not None and ts_ms - self.emptied <= STOPPED_WITH_MS:
                    yield from self.withdraw(self._of(record.topics), self.emptied)
                self.emptied = None
            case _:
                for name in record.topics:
                    self.asked.pop(name, None)
                    self.failed.discard(name)
                    self.removed[name] = at
                yield from self.withdraw(self._of(record.topics), ts_ms)

    def fail_start(self, connector: str) -> Rows:
        """The connector's start failed: its tasks are missing."""
        asked = self.asked.get(connector)
        if asked is not None and connector not in self.failed:
            self.failed.add(connector)
            count = min(self.tasks_max.get(connector, 0), NAMED_TASKS)
            until_ms = self.answered.get(connector, asked.ts_ms)
            for unit in [(connector, number) for number in range(INSTANCE, count)]:
                self.wanted.setdefault(unit, asked)
                called = self._find_called(unit, asked, until_ms)
                yield replace(called, void_cause=Cause.FATAL_ERROR.value)

    def end(self, ts_ms: int) -> Rows:
        yield from self.withdraw(set(self.wanted), ts_ms)

    def _of(self, connectors: Iterable[str]) -> set[Partition]:
        return {unit for unit in self.wanted if unit[0] in connectors}

    def _tasks(self, record: TraceRecord, at: At) -> Rows:
        for name in record.topics:
            since = self.asked.pop(name, at)
            self.failed.discard(name)
            if at.ts_ms - since.ts_ms > FOLLOW_MS:
                since = at
            yield from self._call([(name, INSTANCE)], since, since.ts_ms)
            tasks = sorted(unit for unit in record.partitions if unit[0] == name)
            yield from self._call(tasks, since, self.answered.get(name, since.ts_ms), at.ts_ms)
            yield from self.withdraw(self._of([name]) - {(name, INSTANCE), *tasks}, at.ts_ms)

    def _answer(self, record: TraceRecord) -> Rows:
        begun_ms = record.ts_ms - int(record.settings.get("took_ms", "0")) - ANSWERED_WITHIN_MS
        names = record.topics or tuple(sorted(self.read))
        for name in names:
            read_ms = self.read.get(name, 0)
            if begun_ms <= read_ms <= record.ts_ms:
                if name in self.asked and self.asked[name].ts_ms == read_ms:
                    self.answered[name] = record.ts_ms
                for unit in sorted(self._of([name])):
                    if self.wanted[unit].ts_ms == read_ms:
                        yield self._find_called(unit, self.wanted[unit], record.ts_ms)

    def _call(self, units: Iterable[Partition], since: At, until_ms: int, known_ms: int | None = None) -> Rows:
        """Adds wanted units; from `known_ms` on a round can assign them."""
        for unit in units:
            if unit not in self.wanted:
                self.wanted[unit] = since
                called = self._find_called(unit, since, until_ms)
                yield replace(called, turn_ms=since.ts_ms if known_ms is None else known_ms)

    def _find_called(self, unit: Partition, since: At, until_ms: int) -> Interval:
        return make_unowned(self.group, unit, Begun.CALLED, since, until_ms)

    def withdraw(self, units: Iterable[Partition], ts_ms: int) -> Rows:
        for unit in sorted(units):
            start_ms, place, _ = self.wanted.pop(unit)
            topic, _ = unit_partition(unit)
            yield Subscription(self.group, self.member, topic, "", start_ms, max(ts_ms, start_ms), place)


def make_unowned(group: str, unit: Partition, begun: Begun, start: At, end_ms: int) -> Interval:
    """An interval without owner; `begun` is one of `UNOWNED_BEGINS`."""
    topic, number = unit_partition(unit)
    start_ms, place, _ = start
    span_ms = start_ms, max(start_ms, end_ms)
    return Interval(group, NAMES[begun], topic, number, *span_ms, begun, Ended.REVOKED, start=place, end=place)
