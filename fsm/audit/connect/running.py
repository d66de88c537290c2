"""What runs on one Connect worker, from the lines about its connectors and tasks.

A unit (a connector's instance or a task) is written as a topic of its own, `unit:<connector>`, with `:<task>` for a
task, and its number as partition; no topic of Kafka's has a colon, so the two never meet. What runs is an interval. It
begins when the worker says that the unit has started. A connector ends when it is told to stop, a task when its thread
closes its clients, or, where no line says so, when it was told to stop. A task that outlives its graceful stop runs on
until its clients are closed.

Lines about units name no worker. Where the files of several were merged they belong to nobody: then only the herder's
intentions are known, and intervals made of them are `doubtful`. A log that begins later tells by its first round what
the worker held before: those intervals are `FOUND`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from fsm.audit.findings import Cause, Finding, FindingKind, finding
from fsm.audit.rows import Begun, Ended, Interval, Place
from fsm.audit.wording import UNIT, names, seconds
from fsm.trace import Kind, Partition, TraceRecord

INSTANCE = -1
CREATED_WITH_MS = 3_000
"""A connector whose start fails is said to have been created within this time all the same."""

At = tuple[int, Place]
"""When, and the line that says so."""
Rows = Iterator[Interval | Finding]


def unit_partition(unit: Partition) -> Partition:
    connector, number = unit
    return (f"{UNIT}{connector}" if number == INSTANCE else f"{UNIT}{connector}:{number}"), number


@dataclass(slots=True)
class _Run:
    start_ms: int
    start: Place
    turn_ms: int | None = None
    """When the round began that gave it."""
    begun: Begun = Begun.ASSIGNED
    stop: At | None = None
    """When it was told to stop."""
    closed: At | None = None
    """When its thread closed its clients."""
    zombie: bool = False
    void_ms: int | None = None
    void_cause: Cause = Cause.NONE
    intended: bool = False
    """Only the herder's intention to start it is known."""

    @property
    def stops(self) -> bool:
        """Whether it was told to stop, and nothing says that it goes on."""
        return self.stop is not None and not self.zombie


class RunningUnits:
    def __init__(
        self, group: str, member: str, life: int, start: At, *, whole: bool, wants: Callable[..., bool]
    ) -> None:
        self.group, self.member, self.life, self.start, self.whole = group, member, life, start, whole
        self.wants = wants
        """Whether the config topic still calls for a unit."""
        self.runs: dict[Partition, _Run] = {}
        self.touched: set[Partition] = set()
        """Units that this process started, stopped or failed to start."""
        self.held: tuple[Partition, ...] = ()
        """What it held after the last round."""
        self.intended: dict[Partition, At] = {}
        self.failed_ms: dict[str, int] = {}
        """When a connector last failed to start."""
        self.stopped: dict[Partition, At] = {}
        """Units that stopped since the last round, and when they were told to."""
        self.prints_units = False
        """Lines about units are this worker's."""
        self.losing = Cause.NONE
        """Why it gives up its work without a round."""
        self.closing = False
        self.turn_ms: int | None = None
        """When the last round began."""

    # Starts

    def start_units(self, record: TraceRecord, place: Place) -> Rows:
        """Units run, or the herder is about to start them."""
        if record.event == "asked":
            self.intended |= dict.fromkeys(record.partitions, (record.ts_ms, place))
            return
        self.prints_units = True
        yield from self.settle()
        for unit in record.partitions:
            self.touched.add(unit)
            failed_ms = self.failed_ms.get(unit[0]) if unit[1] == INSTANCE else None
            if failed_ms is not None and record.ts_ms - failed_ms < CREATED_WITH_MS:
                continue  # the line says that it was created; starting it had failed
            if unit not in self.runs or self.runs[unit].intended:
                self.runs[unit] = _Run(record.ts_ms, place, self.turn_ms)

    def all_started(self, ts_ms: int, place: Place) -> None:
        """The herder has finished its starts: what it holds and did not start now ran before."""
        if not self.prints_units:
            for unit, (intended_ms, intended) in self.intended.items():
                self.runs.setdefault(unit, _Run(intended_ms, intended, self.turn_ms, intended=True))
        if not self.whole:
            for unit in self.held:
                if unit not in self.touched and unit not in self.intended:
                    self.runs.setdefault(unit, _Run(ts_ms, place, begun=Begun.FOUND))
        self.intended.clear()

    def finish_round(self, record: TraceRecord, place: Place, turn_ms: int, *, downgraded: bool) -> Rows:
        yield from self.settle()
        self.turn_ms = turn_ms
        self.stopped.clear()
        self.losing = Cause.NONE
        self.held = record.full or ()
        for unit in sorted(self.runs.keys() - set(self.held)):
            run = self.runs[unit]
            if run.intended:
                del self.runs[unit]
                yield self._interval(unit, run, (record.ts_ms, place), Ended.REVOKED)
            elif downgraded and not run.zombie:
                run.void_ms, run.void_cause = record.ts_ms, Cause.DOWNGRADED

    # Ends

    def stop_units(self, record: TraceRecord, place: Place) -> None:
        self.prints_units = True
        for unit in record.partitions:
            if not self.whole and unit not in self.touched:
                self.runs.setdefault(unit, _Run(*self.start, begun=Begun.FOUND))
            self.touched.add(unit)
            run = self.runs.get(unit)
            if run is not None and run.stop is None:
                run.stop = record.ts_ms, place

    def end_units(self, record: TraceRecord, place: Place) -> Rows:
        """A connector is down, or a task's thread has closed its clients."""
        self.prints_units = True
        for unit in record.partitions:
            run = self.runs.get(unit)
            if run is None or (record.event == "producer" and not run.stops):
                continue  # what is cancelled loses its producer while it goes on
            if run.stops and run.stop is not None:
                # A connector does nothing more once it is told; that it is down is printed when its status is written.
                run.closed = run.closed or (run.stop if unit[1] == INSTANCE else (record.ts_ms, place))
                self.stopped[unit] = run.stop
            if record.event != "producer":
                del self.runs[unit]
                yield self._interval(unit, run, run.closed or (record.ts_ms, place), Ended.REVOKED)

    def fail_units(self, record: TraceRecord, place: Place) -> Rows:
        """A unit did not start, threw, or did not stop."""
        for unit in record.partitions:
            self.touched.add(unit)
            run = self.runs.get(unit)
            if record.event == "stop":
                yield from self._report_zombie(unit, run, (record.ts_ms, place))
                continue
            if record.event == "start":
                self.failed_ms[unit[0]] = record.ts_ms
                self.intended.pop(unit, None)
            if run is not None and "already exists" not in record.detail:
                del self.runs[unit]
                yield self._interval(unit, run, (record.ts_ms, place), Ended.DROPPED)

    def _report_zombie(self, unit: Partition, run: _Run | None, now: At) -> Rows:
        name = names([unit_partition(unit)])
        if run is not None and run.closed is None:
            run.zombie = True
            stop = run.stop or now
            what = (
                f"{name} was told to stop and had not stopped {seconds(now[0] - stop[0])} later; it runs on "
                f"while the group gives it to another worker"
            )
            yield self._zombie(unit, stop, now, what)
        elif unit in self.stopped or run is not None:
            stop = self.stopped.get(unit, now)
            what = (
                f"{name} closed its clients when told to stop, but its thread had not ended "
                f"{seconds(now[0] - stop[0])} later; it does no work any more"
            )
            yield self._zombie(unit, stop, now, what).lower_severity()

    def _zombie(self, unit: Partition, stop: At, now: At, what: str) -> Finding:
        return finding(
            FindingKind.TASK_ZOMBIE,
            self.group,
            self.member,
            stop[0],
            now[0],
            summary=f"{self.member}: {what}",
            partitions=[unit_partition(unit)],
            cause=Cause.SLOW_CALLBACK,
            places=[stop[1], now[1]],
        )

    def settle(self) -> Rows:
        """Units that were told to stop and did not say that they go on have stopped."""
        for unit in sorted(u for u, run in self.runs.items() if run.stops):
            run = self.runs.pop(unit)
            if run.stop is not None:
                self.stopped[unit] = run.stop
                yield self._interval(unit, run, run.closed or run.stop, Ended.REVOKED)

    def freeze(self, since: At, until: At, *, expired: bool) -> Rows:
        """The process printed nothing meanwhile: what ran stood still, and goes on, as a stranger if it `expired`."""
        for unit in sorted(self.runs):
            run = self.runs[unit]
            if run.start_ms >= since[0]:
                continue
            yield replace(self._interval(unit, run, since, Ended.LOST), void_cause=Cause.WORKER_FROZEN.value)
            run = self.runs[unit] = replace(run, start_ms=until[0], start=until[1])
            if expired and not run.zombie:
                run.void_ms, run.void_cause = until[0], Cause.WORKER_FROZEN

    def end(self, last: At, how: Ended) -> Rows:
        yield from self.settle()
        for unit in sorted(self.runs):
            yield self._interval(unit, self.runs[unit], last, how)

    def _interval(self, unit: Partition, run: _Run, end: At, ended: Ended) -> Interval:
        topic, number = unit_partition(unit)
        void_ms, cause = run.void_ms, run.void_cause
        if run.zombie:
            void_ms, cause = (run.stop[0] if run.stop else 0), Cause.SLOW_CALLBACK
        if ended is Ended.REVOKED and not self.wants(unit):
            ended = Ended.DELETED
        elif ended is Ended.REVOKED and self.closing:
            ended = Ended.CLOSED
        elif ended is Ended.REVOKED and self.losing:
            ended, cause = Ended.LOST, cause or self.losing
        return Interval(
            group=self.group,
            member=self.member,
            topic=topic,
            partition=number,
            start_ms=run.start_ms,
            end_ms=max(end[0], run.start_ms),
            begun=run.begun,
            ended=ended,
            end_exact=ended not in (Ended.LOG_ENDED, Ended.RESTARTED),
            doubtful=run.intended,
            void_ms=void_ms,
            void_cause=cause.value,
            life=self.life,
            start=run.start,
            end=end[1],
            turn_ms=run.turn_ms,
        )


STEPS: dict[Kind, Callable[[RunningUnits, TraceRecord, Place], Rows | None]] = {
    Kind.UNITS_STARTED: RunningUnits.start_units,
    Kind.UNITS_STOPPING: RunningUnits.stop_units,
    Kind.UNITS_STOPPED: RunningUnits.end_units,
    Kind.UNITS_FAILED: RunningUnits.fail_units,
}
