"""The fold of one Connect worker: its records, in order, become rows like those of a consumer.

A unit (a connector's instance or a task) is written as a topic of its own, `unit:<connector>`, with `:<task>` for a
task, and its number as partition; `findings.finding` writes it as (connector, number), and turns `double_ownership` and
`unowned_partition` into `ran_twice` and `unassigned_work`. No topic of Kafka's has a colon, so the two never meet.

What runs is an interval. It begins when the worker says that the unit has started and ends when it is told to stop,
except for a task that outlives its graceful stop: that one runs until its clients are closed. Wanted is what the config
topic calls for, until the connector is removed, scaled down or stopped. A new unit begins with an interval of no length
that belongs to nobody, so that the time before its first start counts.

`ConnectFold` also reports what one worker's log shows by itself: `task_zombie`, `config_lag`, `rebalance_storm`, a
herder that died, and steps that the table `connect-worker` does not have.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

from fsm.audit.connect_path import Path
from fsm.audit.findings import Cause, Finding, FindingKind, finding
from fsm.audit.limits import Limits
from fsm.audit.rows import NOWHERE, Begun, Ended, Interval, Life, Place, Seen, Turn, Want
from fsm.audit.wording import UNIT, names, seconds
from fsm.trace import Kind, Partition, TraceRecord

MACHINE = "connect-worker"
INSTANCE = -1
CONFIG_TOPIC = "the config topic"
"""Who has a unit that was configured and not started yet."""
STOPPED_WITH_MS = 3_000
"""A connector's target state and its empty task set are written together when its user stops it."""
LAGS = 3
"""Rounds in a row that started nothing because of the config topic."""

TELLING = frozenset({Kind.JOINING, Kind.JOINED, Kind.SYNCED, Kind.TARGET})
"""A process that printed none of one of these hides some class's lines: what it did not print says nothing then."""

Row = Interval | Want | Life | Turn | Finding


def unit_partition(unit: Partition) -> Partition:
    """The unit as the topic and partition of rows."""
    connector, number = unit
    return (f"{UNIT}{connector}" if number == INSTANCE else f"{UNIT}{connector}:{number}"), number


@dataclass(slots=True)
class _Running:
    start_ms: int
    place: Place
    told: Place | None = None
    """Where it was told to stop."""
    told_ms: int = 0
    zombie: bool = False
    waited: bool = False
    """Whether it was started by the round that ended a scheduled delay."""


@dataclass(slots=True)
class _Lag:
    """Rounds in a row after which the worker could not start anything."""

    start_ms: int = 0
    end_ms: int = 0
    places: list[Place] = field(default_factory=list)
    timed_out: bool = False


class ConnectFold:
    """Follows one worker through its processes."""

    def __init__(self, group: str, member: str, limits: Limits) -> None:
        self.group, self.member, self.limits = group, member, limits
        self.number = -1
        self.lag = _Lag()
        self.joins: list[tuple[int, Place]] = []
        self.wanted: dict[Partition, tuple[int, Place]] = {}
        self._be_born(0, NOWHERE, whole=False)
        self.number = -1

    def _be_born(self, ts_ms: int, place: Place, *, whole: bool) -> None:
        self.number += 1
        self.start_ms, self.start, self.whole = ts_ms, place, whole
        self.last_ms, self.last = ts_ms, place
        self.running: dict[Partition, _Running] = {}
        self.settings: dict[str, str] = {}
        self.client_id = self.member_id = ""
        self.in_group = self.answered = self.delayed = self.delay_over = False
        self.closed_ms: int | None = None
        self.emptied_ms: int | None = None
        self.turn: tuple[int, Place] | None = None
        self.failed: dict[str, int] = {}
        self.path = Path(self.group, self.member)
        self.illegal: list[Finding] = []
        self.heard: set[Kind] = set()

    def see(self, seen: Seen) -> Iterator[Row]:
        """The rows that this record completes."""
        record, place = seen
        if self.number < 0:
            self._be_born(record.ts_ms, place, whole=record.kind is Kind.STARTED)
        elif record.kind is Kind.STARTED:
            yield from self._die()
            self._be_born(record.ts_ms, place, whole=True)
        elif self._was_frozen(record):
            yield from self._thaw(record.ts_ms, place)
        self.last_ms, self.last = max(self.last_ms, record.ts_ms), place
        self.client_id = record.client_id or self.client_id
        self.heard.add(record.kind)
        self.illegal.extend(self.path.see(seen))
        step = STEPS.get(record.kind)
        if step is not None:
            yield from step(self, record, place)

    def finish(self) -> Iterator[Row]:
        """The rows that the end of the log completes."""
        if self.number >= 0:
            yield from self._die(at_end=True)
            yield from self._unwant(set(self.wanted), self.last_ms)
        yield from self._end_lag()
        yield from self._end_storm()

    def _die(self, *, at_end: bool = False) -> Iterator[Row]:
        ended = Ended.CLOSED if self.closed_ms is not None else Ended.LOG_ENDED if at_end else Ended.RESTARTED
        for unit in sorted(self.running):
            run = self.running[unit]
            if run.told is not None and not run.zombie:
                yield self._interval(unit, run, run.told_ms, run.told, Ended.REVOKED)
            else:
                yield self._interval(unit, run, self.last_ms, self.last, ended)
        if self.heard >= TELLING:
            yield from self.illegal
        yield Life(
            group=self.group,
            member=self.member,
            number=self.number,
            client_id=self.client_id,
            instance_id="",
            member_id=self.member_id,
            protocol="connect",
            version="",
            start_ms=self.start_ms,
            end_ms=self.last_ms,
            whole_start=self.whole,
            ended=ended,
            in_group=self.in_group,
            doubtful_ms=None,
            session_timeout_ms=self._setting_ms("session.timeout.ms"),
            max_poll_interval_ms=self._setting_ms("rebalance.timeout.ms"),
            heartbeat_interval_ms=self._setting_ms("heartbeat.interval.ms"),
            start=self.start,
            end=self.last,
        )

    def _setting_ms(self, name: str) -> int | None:
        text = self.settings.get(name, "")
        return int(text) if text.isdecimal() else None

    # Units

    def _interval(self, unit: Partition, run: _Running, end_ms: int, place: Place, ended: Ended) -> Interval:
        topic, number = unit_partition(unit)
        gone = ended is Ended.REVOKED and unit not in self.wanted
        return Interval(
            group=self.group,
            member=self.member,
            topic=topic,
            partition=number,
            start_ms=run.start_ms,
            end_ms=max(end_ms, run.start_ms),
            begun=Begun.ASSIGNED,
            ended=Ended.DELETED if gone else ended,
            end_exact=ended not in (Ended.LOG_ENDED, Ended.RESTARTED),
            doubtful=False,
            void_ms=run.told_ms if run.zombie else None,
            void_cause=Cause.SLOW_CALLBACK.value if run.zombie else Cause.SCHEDULED_DELAY.value if run.waited else "",
            life=self.number,
            start=run.place,
            end=place,
        )

    def _settle(self, but: Partition | None = None) -> Iterator[Row]:
        """Units that were told to stop and did not say that they go on have stopped."""
        for unit in sorted(u for u, run in self.running.items() if run.told is not None and not run.zombie):
            run = self.running[unit]
            if unit != but and run.told is not None:
                del self.running[unit]
                yield self._interval(unit, run, run.told_ms, run.told, Ended.REVOKED)

    def _started(self, record: TraceRecord, place: Place) -> Iterator[Row]:
        yield from self._settle()
        for unit in record.partitions:
            if unit[1] == INSTANCE and record.ts_ms - self.failed.get(unit[0], -STOPPED_WITH_MS) < STOPPED_WITH_MS:
                continue  # the line says that it was created; starting it had failed
            self.running.setdefault(unit, _Running(record.ts_ms, place, waited=self.delay_over))
            self.wanted.setdefault(unit, (record.ts_ms, place))

    def _stopping(self, record: TraceRecord, place: Place) -> Iterator[Row]:
        for unit in record.partitions:
            run = self.running.get(unit)
            if run is not None and run.told is None:
                run.told, run.told_ms = place, record.ts_ms
        return iter(())

    def _stopped(self, record: TraceRecord, place: Place) -> Iterator[Row]:
        for unit in record.partitions:
            run = self.running.pop(unit, None)
            if run is not None and run.told is not None and not run.zombie:
                yield self._interval(unit, run, run.told_ms, run.told, Ended.REVOKED)
            elif run is not None:
                yield self._interval(unit, run, record.ts_ms, place, Ended.REVOKED)

    def _unit_failed(self, record: TraceRecord, place: Place) -> Iterator[Row]:
        for unit in record.partitions:
            run = self.running.get(unit)
            if record.event == "stop":
                if run is not None:
                    run.zombie = True
                yield self._zombie(unit, run, record, place)
                continue
            if record.event == "start":
                self.failed[unit[0]] = record.ts_ms
            if run is not None and "already exists" not in record.detail:
                del self.running[unit]
                yield self._interval(unit, run, record.ts_ms, place, Ended.DROPPED)

    def _zombie(self, unit: Partition, run: _Running | None, record: TraceRecord, place: Place) -> Finding:
        told_ms = run.told_ms if run is not None and run.told is not None else record.ts_ms
        return finding(
            FindingKind.TASK_ZOMBIE,
            self.group,
            self.member,
            told_ms,
            record.ts_ms,
            summary=f"{self.member}: {names([unit_partition(unit)])} was told to stop and had not stopped "
            f"{seconds(record.ts_ms - told_ms)} later; it goes on running while the group gives it to another worker",
            partitions=[unit_partition(unit)],
            cause=Cause.SLOW_CALLBACK,
            places=[place] if run is None or run.told is None else [run.told, place],
        )

    def _was_frozen(self, record: TraceRecord) -> bool:
        """Whether a worker whose last heartbeat was answered printed nothing for a whole session.

        It must print its heartbeats. One that waits for an answer sends no other, and is not frozen for that.
        """
        session_ms = self._setting_ms("session.timeout.ms")
        if not self.answered or self.turn is not None or not self.in_group or session_ms is None:
            return False
        return record.ts_ms - self.last_ms > session_ms

    def _thaw(self, ts_ms: int, place: Place) -> Iterator[Row]:
        """What ran stood still since the last line, and goes on."""
        for unit in sorted(self.running):
            run = self.running[unit]
            yield replace(
                self._interval(unit, run, self.last_ms, self.last, Ended.LOST), void_cause=Cause.UNKNOWN.value
            )
            self.running[unit] = replace(run, start_ms=ts_ms, place=place)

    def _beat(self, record: TraceRecord, _place: Place) -> Iterator[Row]:
        self.answered = record.kind is Kind.HEARTBEAT_OK
        return iter(())

    # The config topic

    def _want(self, unit: Partition, end_ms: int) -> Want:
        topic, _ = unit_partition(unit)
        start_ms, place = self.wanted[unit]
        return Want(self.group, self.member, topic, "", start_ms, max(end_ms, start_ms), place)

    def _config(self, record: TraceRecord, place: Place) -> Iterator[Row]:
        match record.event:
            case "config":
                yield from self._configure([(name, INSTANCE) for name in record.topics], record.ts_ms, place)
            case "tasks" if record.partitions:
                wanted = {*record.partitions, *((name, INSTANCE) for name in record.topics)}
                mine = {unit for unit in self.wanted if unit[0] in record.topics}
                yield from self._configure(sorted(wanted), record.ts_ms, place)
                yield from self._unwant(mine - wanted, record.ts_ms)
            case "tasks":
                self.emptied_ms = record.ts_ms
            case "target":
                if self.emptied_ms is not None and record.ts_ms - self.emptied_ms <= STOPPED_WITH_MS:
                    yield from self._unwant({u for u in self.wanted if u[0] in record.topics}, record.ts_ms)
                self.emptied_ms = None
            case _:
                yield from self._unwant({u for u in self.wanted if u[0] in record.topics}, record.ts_ms)

    def _configure(self, units: list[Partition], ts_ms: int, place: Place) -> Iterator[Row]:
        for unit in units:
            if unit not in self.wanted:
                self.wanted[unit] = (ts_ms, place)
                nobody = _Running(ts_ms, place)
                row = self._interval(unit, nobody, ts_ms, place, Ended.REVOKED)
                yield replace(row, member=CONFIG_TOPIC)

    def _unwant(self, units: set[Partition], ts_ms: int) -> Iterator[Row]:
        for unit in sorted(units):
            yield self._want(unit, ts_ms)
            del self.wanted[unit]

    # The group

    def _joining(self, record: TraceRecord, place: Place) -> Iterator[Row]:
        if record.event == "JOIN_DUE":
            self.turn = self.turn or (record.ts_ms, place)
            while self.joins and record.ts_ms - self.joins[0][0] > self.limits.window_ms:
                yield from self._end_storm(keep=True)
                self.joins.pop(0)
            self.joins.append((record.ts_ms, place))

    def _joined(self, record: TraceRecord, _: Place) -> Iterator[Row]:
        self.member_id = record.member_id or self.member_id
        self.in_group = True
        return iter(())

    def _round(self, record: TraceRecord, place: Place) -> Iterator[Row]:
        yield from self._settle()
        for unit in record.full or ():
            self.wanted.setdefault(unit, (record.ts_ms, place))
        delayed = record.settings.get("delay_ms", "0") != "0"
        self.delayed, self.delay_over = delayed, self.delayed and not delayed
        start_ms, begun = self.turn or (record.ts_ms, place)
        self.turn = None
        held = len(record.full or ())
        yield Turn(self.group, self.member, start_ms, record.ts_ms, record.epoch, held, len(record.revoked), "", begun)
        if record.settings.get("error", "0") != "0":
            yield from self._lags(record.ts_ms, place)

    def _transition(self, record: TraceRecord, place: Place) -> Iterator[Row]:
        if record.event == "CATCH_UP_TIMED_OUT":
            self.lag.timed_out = True
            yield from self._lags(record.ts_ms, place)
        elif record.event == "MISMATCH":
            yield from self._lags(record.ts_ms, place)
        elif record.next_state == "STARTING":
            yield from self._end_lag()
        elif record.event == "POLL_TIMEOUT":
            self.in_group = False

    def _lags(self, ts_ms: int, place: Place) -> Iterator[Row]:
        if self.lag.places and ts_ms - self.lag.end_ms > self.limits.window_ms:
            yield from self._end_lag()
        lag = self.lag
        lag.start_ms = lag.start_ms if lag.places else ts_ms
        lag.end_ms = ts_ms
        lag.places.append(place)
        if len(lag.places) > LAGS:
            del lag.places[LAGS - 1 : -1]

    def _end_lag(self) -> Iterator[Row]:
        lag, self.lag = self.lag, _Lag()
        if len(lag.places) >= LAGS or lag.timed_out:
            why = (
                "could not read the config topic to its end in time" if lag.timed_out else "read another config offset"
            )
            yield finding(
                FindingKind.CONFIG_LAG,
                self.group,
                self.member,
                lag.start_ms,
                lag.end_ms,
                summary=f"{self.member} {why}",
                cause=Cause.UNKNOWN,
                places=lag.places,
            )

    def _end_storm(self, *, keep: bool = False) -> Iterator[Row]:
        """A window with too many joins is reported once, and begins anew."""
        if len(self.joins) > self.limits.storm_turns:
            first, last = self.joins[0], self.joins[-1]
            yield finding(
                FindingKind.REBALANCE_STORM,
                self.group,
                self.member,
                first[0],
                last[0],
                summary=f"{self.member} joined {len(self.joins)} times within {seconds(last[0] - first[0])}",
                places=[first[1], last[1]],
            )
            self.joins = self.joins[:1] if keep else []

    def _out(self, _record: TraceRecord, _place: Place) -> Iterator[Row]:
        self.in_group = False
        return iter(())

    def _closing(self, record: TraceRecord, _: Place) -> Iterator[Row]:
        self.closed_ms = self.closed_ms or record.ts_ms
        yield from self._settle()

    def _keep(self, record: TraceRecord, _: Place) -> Iterator[Row]:
        self.settings.update(record.settings)
        return iter(())

    def _fatal(self, record: TraceRecord, place: Place) -> Iterator[Row]:
        yield finding(
            FindingKind.MEMBER_OUT_FOR_GOOD,
            self.group,
            self.member,
            record.ts_ms,
            record.ts_ms,
            summary=f"the herder of {self.member} died of an error; the process may live on without it",
            partitions=[unit_partition(unit) for unit in self.running],
            cause=Cause.FATAL_ERROR,
            places=[place],
        )

    def _settles(self, _record: TraceRecord, _place: Place) -> Iterator[Row]:
        yield from self._settle()


STEPS: dict[Kind, Callable[[ConnectFold, TraceRecord, Place], Iterator[Row]]] = {
    Kind.SETTINGS: ConnectFold._keep,
    Kind.UNITS_STARTED: ConnectFold._started,
    Kind.UNITS_STOPPING: ConnectFold._stopping,
    Kind.UNITS_STOPPED: ConnectFold._stopped,
    Kind.UNITS_FAILED: ConnectFold._unit_failed,
    Kind.CONFIG_TOPIC: ConnectFold._config,
    Kind.JOINING: ConnectFold._joining,
    Kind.JOINED: ConnectFold._joined,
    Kind.HEARTBEAT_SENT: ConnectFold._beat,
    Kind.HEARTBEAT_OK: ConnectFold._beat,
    Kind.TARGET: ConnectFold._round,
    Kind.TRANSITION: ConnectFold._transition,
    Kind.LEAVE_SENT: ConnectFold._out,
    Kind.GENERATION_RESET: ConnectFold._out,
    Kind.REVOKE_END: ConnectFold._settles,
    Kind.CLOSE_BEGIN: ConnectFold._closing,
    Kind.CLOSE_END: ConnectFold._closing,
    Kind.FATAL: ConnectFold._fatal,
}
