"""Follows one process of a Connect worker: from its records to rows like those of a consumer.

This module detects a paused process, reports a dead herder, and follows rounds: joins, scheduled delays, and lag on the
config topic. `running` follows running units, `config_topic` wanted units, `table_path` the steps of the table
`connect-worker`.

A delay begins with the first round that has one and ends with the first that has none. Every unit that its leader knows
as wanted, and every unit that a worker starts after it, yields an interval without owner, `WAITS`: if the unit ran
nowhere meanwhile, the delay is the cause.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from fsm.audit.connect.config_topic import ConfigTopic, make_unowned
from fsm.audit.connect.running import RunningUnits
from fsm.audit.connect.table_path import TablePath
from fsm.audit.findings import Cause, Finding, FindingKind, Severity
from fsm.audit.follower import Follower, Process, Rows, on
from fsm.audit.limits import Limits
from fsm.audit.rows import At, Begin, Begun, Ended, Known, MemberRebalance, Order
from fsm.audit.wording import seconds, unit_partition
from fsm.trace import Kind, Partition, TraceRecord

NECESSARY = frozenset({Kind.JOINING, Kind.JOINED, Kind.SYNCED, Kind.TARGET})
"""If a process did not print all of these kinds, the level of a logger hides lines, and missing lines mean nothing."""
PROMPT_MS = 100
"""A heartbeat is answered within this time unless the machine, the network or the broker is slow."""


@dataclass(slots=True)
class WorkerProcess(Process):
    @property
    def max_poll_interval_ms(self) -> int | None:
        return self.setting_ms("rebalance.timeout.ms")


LAGS = 3
"""Consecutive rounds without a start, because of the config topic, that are reported as lag."""


@dataclass(slots=True)
class _Lag:
    """Consecutive rounds after which the worker could not start anything."""

    shown: list[At] = field(default_factory=list)
    """The first and the last ones."""
    timed_out: bool = False


@dataclass(slots=True)
class _Delay:
    """A delay as one process received it."""

    start: At
    due_ms: int
    end_ms: int | None = None
    led: bool = False
    """This process led one of its rounds."""
    wanted: set[Partition] = field(default_factory=set)
    """Units that were wanted when it began."""
    waited: set[Partition] = field(default_factory=set)
    """Units with a `WAITS` interval."""


@dataclass
class Rounds:
    """Follows one process; `lag` and `joins` are those of the worker."""

    process: Process
    limits: Limits
    lag: _Lag = field(default_factory=_Lag)
    joins: list[At] = field(default_factory=list)
    turn: At | None = None
    """Begin of the current round."""
    version: str = ""
    held: set[Partition] = field(default_factory=set)
    delay: _Delay | None = None

    def join(self, known: Known) -> Rows:
        at = known.at
        if known.record.event == "JOIN_DUE":
            self.turn = self.turn or at
            while self.joins and at.ts_ms - self.joins[0].ts_ms > self.limits.window_ms:
                yield from self._storm(keep=True)
                self.joins.pop(0)
            self.joins.append(at)

    def finish(self, known: Known, wanted: Iterable[Partition]) -> Rows:
        record, process = known.record, self.process
        begun, self.turn = self.turn or known.at, None
        held = set(record.full or ())
        new, gone = len(held - self.held), len(record.revoked)
        self.held = held
        span = begun.ts_ms, record.ts_ms
        yield MemberRebalance(process.group, process.member, *span, record.epoch, new, gone, "", begun.place)
        yield from self._delay(known, wanted)
        if record.settings.get("error", "0") != "0":
            yield from self.lag_behind(known.at)

    def is_downgrade(self, record: TraceRecord) -> bool:
        """Whether the group returns to the eager protocol with this round."""
        before, self.version = self.version, record.settings.get("version", "")
        return self.version == "0" and before not in ("", "0")

    def start_units(self, units: Iterable[Partition]) -> Rows:
        """The units that this worker starts waited for the previous delay."""
        if self.delay is not None and self.delay.end_ms is not None:
            yield from self._wait(self.delay, units, self.delay.end_ms)

    def end(self, last_ms: int, wanted: Iterable[Partition]) -> Rows:
        if self.delay is not None and self.delay.end_ms is None:
            yield from self._end_delay(self.delay, min(last_ms, self.delay.due_ms), wanted)
        self.delay = None

    def _delay(self, known: Known, wanted: Iterable[Partition]) -> Rows:
        record, member_id = known.record, self.process.member_id
        delay_ms = record.settings.get("delay_ms", "0")
        leads = bool(member_id) and record.settings.get("leader") == member_id
        if delay_ms != "0":
            if self.delay is None or self.delay.end_ms is not None:
                self.delay = _Delay(known.at, record.ts_ms, wanted=set(wanted))
            self.delay.due_ms = record.ts_ms + int(delay_ms)
            self.delay.led |= leads
        elif self.delay is not None and self.delay.end_ms is None:
            self.delay.led |= leads
            yield from self._end_delay(self.delay, record.ts_ms, wanted)

    def _end_delay(self, delay: _Delay, end_ms: int, wanted: Iterable[Partition]) -> Rows:
        delay.end_ms = end_ms
        if delay.led:
            yield from self._wait(delay, delay.wanted.union(wanted), end_ms)

    def _wait(self, delay: _Delay, units: Iterable[Partition], end_ms: int) -> Rows:
        for unit in sorted(set(units) - delay.waited):
            delay.waited.add(unit)
            yield make_unowned(self.process.group, unit, Begun.WAITS, delay.start, end_ms)

    # The config topic

    def lag_behind(self, at: At, *, timed_out: bool = False) -> Rows:
        """The worker could not start anything because of the config topic."""
        if self.lag.shown and at.ts_ms - self.lag.shown[-1].ts_ms > self.limits.window_ms:
            yield from self.catch_up()
        lag = self.lag
        lag.timed_out |= timed_out
        lag.shown.append(at)
        if len(lag.shown) > LAGS:
            del lag.shown[LAGS - 1 : -1]

    def catch_up(self) -> Rows:
        """The worker starts its work, or its log ends: reports the lag."""
        lag, self.lag = self.lag, _Lag()
        if len(lag.shown) >= LAGS or lag.timed_out:
            why = (
                "could not read the config topic to its end in time"
                if lag.timed_out
                else "read another offset of the config topic than its assignments were made for, and started nothing"
            )
            summary = f"{self.process.member} {why} for {seconds(lag.shown[-1].ts_ms - lag.shown[0].ts_ms)}"
            yield self.process.finding(FindingKind.CONFIG_LAG, summary, lag.shown, cause=Cause.UNKNOWN)

    def end_log(self) -> Rows:
        yield from self.catch_up()
        yield from self._storm()

    def _storm(self, *, keep: bool = False) -> Rows:
        """Reports a window with too many joins once, and resets it."""
        if len(self.joins) > self.limits.storm_turns:
            first, last = self.joins[0], self.joins[-1]
            lasted = seconds(last.ts_ms - first.ts_ms)
            summary = f"{self.process.member} joined {len(self.joins)} times within {lasted}"
            yield self.process.finding(FindingKind.REBALANCE_STORM, summary, [first, last], cause=Cause.UNKNOWN)
            self.joins = self.joins[:1] if keep else []


class WorkerFollower(Follower):
    """Follows one process; its `config`, lag and joins are those of the worker and survive its processes."""

    def __init__(
        self, group: str, member: str, limits: Limits, begin: Begin, before: WorkerFollower | None = None
    ) -> None:
        self.limits = limits
        self.process = WorkerProcess(group, member, begin.number, begin.at, begin.whole, begin.at, protocol="connect")
        self.config, self.rounds = ConfigTopic(group, member), Rounds(self.process, limits)
        if before is not None:
            self.config, self.rounds.lag, self.rounds.joins = before.config, before.rounds.lag, before.rounds.joins
        self.running = RunningUnits(self.process, self.config)
        self.path = TablePath(group, member)
        self.illegal: list[Finding] = []
        self.kinds: set[Kind] = set()
        self.closed = False
        self.heartbeat_ms: int | None = None
        """When the last heartbeat was sent."""
        self.answered_ms: int | None = None
        """Latency of its response; None while there is none."""

    def see(self, known: Known) -> Rows:
        yield from self._check_silence(known)
        self.process.see(known)
        self.kinds.add(known.record.kind)
        self.illegal.extend(self.path.see(known))
        yield from super().see(known)

    def finish(self) -> Rows:
        process = self.process
        log_ended, last_ms = process.ended is Ended.LOG_ENDED, process.last.ts_ms
        process.ended = Ended.CLOSED if self.closed else process.ended
        yield from self.rounds.end(last_ms, self.config.wanted)
        yield from self.running.finish()
        if self.kinds >= NECESSARY:
            interleaved = process.order is Order.INTERLEAVED
            yield from (replace(found, severity=Severity.INFO) if interleaved else found for found in self.illegal)
        yield process.life()
        if log_ended:
            yield from self.config.end(last_ms)
            yield from self.rounds.end_log()

    # Paused processes

    def _check_silence(self, known: Known) -> Rows:
        """Detects a pause: the last heartbeat was answered, and the next one is not printed when it is due.

        A worker that waits for a response sends no heartbeat and is not paused. If responses are slow, the machine is
        overloaded: lines are late while tasks run, so only the loss of a whole session counts as a pause.
        """
        process, now_ms = self.process, known.at.ts_ms
        if self.answered_ms is None or self.heartbeat_ms is None or self.rounds.turn is not None:
            return
        session_ms, interval_ms = process.session_timeout_ms, process.heartbeat_interval_ms
        if session_ms is None or interval_ms is None or not process.in_group:
            return
        last_ms = process.last.ts_ms
        due_ms = max(last_ms, self.heartbeat_ms + interval_ms)
        since_ms = (last_ms + due_ms) // 2  # it may have begun at any time between the last line and the next one
        expired = now_ms - self.heartbeat_ms > session_ms
        late = now_ms - due_ms > self.limits.unowned_ms * 3 // 4
        if late and now_ms - since_ms > self.limits.unowned_ms and (expired or self.answered_ms <= PROMPT_MS):
            yield from self.running.freeze(process.last._replace(ts_ms=since_ms), known.at, expired=expired)

    @on(Kind.HEARTBEAT_SENT)
    def _heartbeat(self, known: Known) -> None:
        self.answered_ms = None
        self.heartbeat_ms = known.at.ts_ms

    @on(Kind.HEARTBEAT_OK)
    def _on_answer(self, known: Known) -> None:
        if self.heartbeat_ms is None:
            self._heartbeat(known)
        else:
            self.answered_ms = known.at.ts_ms - self.heartbeat_ms

    @on(Kind.COORDINATOR_LOST)
    def _coordinator_lost(self, _known: Known) -> None:
        self.answered_ms = None  # no heartbeat is due

    # Units and the config topic

    @on(Kind.UNITS_STARTED, Kind.UNITS_STOPPING, Kind.UNITS_STOPPED, Kind.UNITS_FAILED)
    def _unit(self, known: Known) -> Rows:
        record = known.record
        if record.kind is Kind.UNITS_STARTED:
            yield from self.rounds.start_units(record.partitions)
            self.config.add_running(record.partitions, known.at)
        if record.kind is Kind.UNITS_FAILED and record.event == "start":
            for connector, _ in record.partitions:
                yield from self.config.fail_start(connector)
        yield from self.running.see(known)

    @on(Kind.CONFIG_TOPIC)
    def _config(self, known: Known) -> Rows:
        return self.config.see(known)

    @on(Kind.SETTINGS)
    def _keep_settings(self, known: Known) -> None:
        if known.record.topics:
            self.config.keep_tasks_max(known.record)
        else:
            self.process.settings.update(known.record.settings)

    # The group

    @on(Kind.JOINING)
    def _joining(self, known: Known) -> Rows:
        return self.rounds.join(known)

    @on(Kind.JOINED)
    def _on_join(self, known: Known) -> None:
        self.process.in_group = True
        self.heartbeat_ms = known.at.ts_ms  # the next one is due one interval later

    @on(Kind.TARGET)
    def _round(self, known: Known) -> Rows:
        turn = self.rounds.turn or known.at
        downgraded = self.rounds.is_downgrade(known.record)
        yield from self.running.finish_round(known, turn.ts_ms, downgraded=downgraded)
        self.config.add_running(known.record.full or (), known.at)
        yield from self.rounds.finish(known, self.config.wanted)

    @on(Kind.TRANSITION)
    def _transition(self, known: Known) -> Rows | None:
        event = known.record.event
        if event in ("CATCH_UP_TIMED_OUT", "MISMATCH"):
            return self.rounds.lag_behind(known.at, timed_out=event == "CATCH_UP_TIMED_OUT")
        if event == "DISCOVERY_FAILED_HOLDING":
            self.running.losing = Cause.COORDINATOR_LOST
        elif event == "STARTED":
            self.running.finish_starts(known.at)
        elif event == "POLL_TIMEOUT":
            self.process.in_group = False
        elif known.record.next_state == "STARTING":
            return self.rounds.catch_up()
        return None

    @on(Kind.LEAVE_SENT, Kind.GENERATION_RESET)
    def _leave_group(self, _known: Known) -> None:
        self.process.in_group = False

    @on(Kind.REVOKE_END)
    def _settle(self, _known: Known) -> Rows:
        return self.running.settle()

    @on(Kind.CLOSE_BEGIN, Kind.CLOSE_END)
    def _close(self, _known: Known) -> Rows:
        self.closed = True
        yield from self.running.settle()
        self.running.closing = True

    def lower_doubtful(self, found: Finding) -> Finding:
        return found

    @on(Kind.FATAL)
    def _fail(self, known: Known) -> Rows:
        summary = f"the herder of {self.process.member} died of an error; the process may live on without it"
        kind, ran = FindingKind.MEMBER_OUT_FOR_GOOD, map(unit_partition, self.running.runs)
        yield self.process.finding(kind, summary, [known.at], partitions=ran, cause=Cause.FATAL_ERROR)
