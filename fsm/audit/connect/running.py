"""The units that run on one Connect worker, from the lines about its connectors and tasks.

A unit (a connector's instance or a task) is written as a topic of its own, `unit:<connector>`, with `:<task>` for a
task, and its number as partition; Kafka's topic names have no colon, so the two never collide. A run is an interval. It
begins with the line that the unit has started. A connector ends with the request to stop, a task when its thread closes
its clients, or if that was not logged, with the request to stop. A task that outlives its graceful stop runs until its
clients are closed.

Lines about units do not name the worker. If the files of several workers were merged, these lines cannot be attributed:
then only the herder's intentions are known, and intervals made from them are `doubtful`. If a log begins later, its
first round shows the units that the worker held before: those intervals are `FOUND`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from fsm.audit.connect.config_topic import INSTANCE, ConfigTopic
from fsm.audit.findings import Cause, Finding, FindingKind
from fsm.audit.follower import Follower, Process, Rows, Void, on
from fsm.audit.limits import CLASSIC_HEARTBEAT_INTERVAL_MS
from fsm.audit.rows import At, Begun, Ended, Interval, Known
from fsm.audit.wording import seconds, unit_partition, units
from fsm.reference.reports import summarize
from fsm.trace import Kind, Partition

CREATED_WITH_MS = 3_000
"""A connector whose start failed is still printed as created within this time."""


@dataclass(slots=True)
class _Run:
    start: At
    turn_ms: int | None = None
    """Begin of the round that assigned it."""
    begun: Begun = Begun.ASSIGNED
    stop: At | None = None
    """The request to stop."""
    closed: At | None = None
    """The line at which its thread closed its clients."""
    zombie: bool = False
    void: Void | None = None
    intended: bool = False
    """Only the herder's intention to start it is known."""
    outlived: tuple[At, At] | None = None
    """The deletion of its connector, and the end of the first later round that left it running."""

    @property
    def stops(self) -> bool:
        """Whether it was requested to stop, and no line shows that it continues."""
        return self.stop is not None and not self.zombie


class RunningUnits(Follower):
    def __init__(self, process: Process, config: ConfigTopic) -> None:
        self.process = process
        self.config = config
        self.runs: dict[Partition, _Run] = {}
        self.touched: set[Partition] = set()
        """Units that this process started, stopped or failed to start."""
        self.held: tuple[Partition, ...] = ()
        """The units that it held after the last round."""
        self.intended: dict[Partition, At] = {}
        self.failed_ms: dict[str, int] = {}
        """When a connector last failed to start."""
        self.stopped: dict[Partition, At] = {}
        """Units that stopped since the last round, and the requests to stop."""
        self.prints_units = False
        """Lines about units are attributed to this worker."""
        self.losing = Cause.NONE
        """Why it stops its work without a round."""
        self.closing = False
        self.turn_ms: int | None = None
        """Begin of the last round."""

    # Starts

    @on(Kind.UNITS_STARTED)
    def _start_units(self, known: Known) -> Rows:
        """Units have started, or the herder is about to start them."""
        record, at = known.record, known.at
        if record.event == "asked":
            self.intended |= dict.fromkeys(record.partitions, at)
            return
        self.prints_units = True
        yield from self.settle()
        for unit in record.partitions:
            self.touched.add(unit)
            failed_ms = self.failed_ms.get(unit[0]) if unit[1] == INSTANCE else None
            if failed_ms is not None and at.ts_ms - failed_ms < CREATED_WITH_MS:
                continue  # the line is that of its creation; its start had failed
            if unit not in self.runs or self.runs[unit].intended:
                self.runs[unit] = _Run(at, self.turn_ms)

    def finish_starts(self, at: At) -> None:
        """The herder has finished its starts: held units that it did not start were running before."""
        if not self.prints_units:
            for unit, intended in self.intended.items():
                self.runs.setdefault(unit, _Run(intended, self.turn_ms, intended=True))
        if not self.process.whole_start:
            for unit in self.held:
                if unit not in self.touched and unit not in self.intended:
                    self.runs.setdefault(unit, _Run(at, begun=Begun.FOUND))
        self.intended.clear()

    def finish_round(self, known: Known, turn_ms: int, *, downgraded: bool) -> Rows:
        yield from self.settle()
        self.turn_ms = turn_ms
        self.stopped.clear()
        self.losing = Cause.NONE
        self.held = known.record.full or ()
        for unit in sorted(self.runs.keys() - set(self.held)):
            run = self.runs[unit]
            if run.intended:
                del self.runs[unit]
                yield self._interval(unit, run, known.at, Ended.REVOKED)
            elif downgraded and not run.zombie:
                run.void = Void(known.at.ts_ms, Cause.DOWNGRADED)
        if known.record.settings.get("error", "0") == "0":
            for unit, run in sorted(self.runs.items()):
                deleted = self.config.removed.get(unit[0])
                if deleted is None:
                    yield from self._report_deleted(unit, run, known.at)
                elif deleted.ts_ms <= turn_ms and not run.zombie:
                    run.outlived = run.outlived or (deleted, known.at)

    # Ends

    @on(Kind.UNITS_STOPPING)
    def _stop_units(self, known: Known) -> Rows:
        self.prints_units = True
        for unit in known.record.partitions:
            if not self.process.whole_start and unit not in self.touched:
                self.runs.setdefault(unit, _Run(self.process.start, begun=Begun.FOUND))
            self.touched.add(unit)
            run = self.runs.get(unit)
            if run is not None and run.stop is None:
                yield from self._report_deleted(unit, run, known.at)
                run.stop = known.at

    @on(Kind.UNITS_STOPPED)
    def _end_units(self, known: Known) -> Rows:
        """A connector is down, or a task's thread has closed its clients."""
        record, at = known.record, known.at
        self.prints_units = True
        for unit in record.partitions:
            run = self.runs.get(unit)
            if run is None or (record.event == "producer" and not run.stops):
                continue  # a cancelled task closes its producer and still runs
            if run.stops and run.stop is not None:
                # A connector does no work after the request to stop; its end is printed when its status is written.
                run.closed = run.closed or (run.stop if unit[1] == INSTANCE else at)
                self.stopped[unit] = run.stop
            if record.event != "producer":
                del self.runs[unit]
                yield self._interval(unit, run, run.closed or at, Ended.REVOKED)

    @on(Kind.UNITS_FAILED)
    def _fail_units(self, known: Known) -> Rows:
        """A unit failed to start, failed while running, or did not stop."""
        record, at = known.record, known.at
        for unit in record.partitions:
            self.touched.add(unit)
            run = self.runs.get(unit)
            if record.event == "stop":
                yield from self._report_zombie(unit, run, at)
                continue
            if record.event == "start":
                self.failed_ms[unit[0]] = at.ts_ms
                self.intended.pop(unit, None)
            if run is not None and "already exists" not in record.detail:
                del self.runs[unit]
                yield self._interval(unit, run, at, Ended.DROPPED)

    def _report_zombie(self, unit: Partition, run: _Run | None, now: At) -> Rows:
        name = units([unit])
        if run is not None and run.closed is None:
            run.zombie = True
            stop = run.stop or now
            what = (
                f"{name} was told to stop and had not stopped {seconds(now.ts_ms - stop.ts_ms)} later; it runs on "
                f"while the group gives it to another worker"
            )
            yield self._zombie(unit, stop, now, what)
        elif unit in self.stopped or run is not None:
            stop = self.stopped.get(unit, now)
            what = (
                f"{name} closed its clients when told to stop, but its thread had not ended "
                f"{seconds(now.ts_ms - stop.ts_ms)} later; it does no work any more"
            )
            yield self._zombie(unit, stop, now, what).lower_severity()

    def _report_deleted(self, unit: Partition, run: _Run, now: At) -> Rows:
        """A finding if the unit ran until `now`, longer than a next round takes to begin after the deletion of its
        connector (G3)."""
        prompt_ms = 2 * (self.process.heartbeat_interval_ms or CLASSIC_HEARTBEAT_INTERVAL_MS)
        outlived, run.outlived = run.outlived, None
        now = self.config.asked.get(unit[0], now)  # it was created again
        if outlived is None or now.ts_ms - outlived[1].ts_ms <= prompt_ms:
            return
        deleted, passed = outlived
        what, lasted = units([unit]), seconds(now.ts_ms - deleted.ts_ms)
        why = f"its connector was deleted, and the next round did not take it away: {summarize('G3')}"
        what = f"{what} ran on for {lasted}: {why}"
        yield self._zombie(unit, deleted, now, what, Cause.DELETED, passed)

    def _zombie(
        self, unit: Partition, since: At, now: At, what: str, cause: Cause = Cause.SLOW_CALLBACK, *shown: At
    ) -> Finding:
        summary, about = f"{self.process.member}: {what}", [unit_partition(unit)]
        return self.process.finding(
            FindingKind.TASK_ZOMBIE, summary, [since, *shown, now], partitions=about, cause=cause
        )

    def settle(self) -> Rows:
        """Ends units that were requested to stop, unless a line shows that they continue."""
        for unit in sorted(u for u, run in self.runs.items() if run.stops):
            run = self.runs.pop(unit)
            if run.stop is not None:
                self.stopped[unit] = run.stop
                yield self._interval(unit, run, run.closed or run.stop, Ended.REVOKED)

    def freeze(self, since: At, until: At, *, expired: bool) -> Rows:
        """The process was paused: its units did not run meanwhile. If its session `expired`, they run on without being
        assigned."""
        for unit in sorted(self.runs):
            run = self.runs[unit]
            if run.start.ts_ms >= since.ts_ms:
                continue
            yield replace(self._interval(unit, run, since, Ended.LOST), void_cause=Cause.WORKER_FROZEN.value)
            run = self.runs[unit] = replace(run, start=until)
            if expired and not run.zombie:
                run.void = Void(until.ts_ms, Cause.WORKER_FROZEN)

    def finish(self) -> Rows:
        yield from self.settle()
        for unit in sorted(self.runs):
            yield from self._report_deleted(unit, self.runs[unit], self.process.last)
            yield self._interval(unit, self.runs[unit], self.process.last, self.process.ended)

    def _interval(self, unit: Partition, run: _Run, end: At, ended: Ended) -> Interval:
        void = Void(run.stop.ts_ms if run.stop else 0, Cause.SLOW_CALLBACK) if run.zombie else run.void
        losing = Cause.NONE
        if ended is Ended.REVOKED and not self.config.is_wanted(unit):
            ended = Ended.DELETED
        elif ended is Ended.REVOKED and self.closing:
            ended = Ended.CLOSED
        elif ended is Ended.REVOKED and self.losing:
            ended, losing = Ended.LOST, self.losing
        interval = self.process.interval(
            unit_partition(unit),
            run.start,
            end,
            run.begun,
            ended,
            exact=ended not in (Ended.LOG_ENDED, Ended.RESTARTED),
            doubtful=run.intended,
            void=void,
            turn_ms=run.turn_ms,
        )
        return replace(interval, void_cause=losing.value) if losing and void is None else interval
