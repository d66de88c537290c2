"""The records of one Connect worker, in order, become rows like those of a consumer.

This module cuts a worker's records into processes, notices one that died without a word or stood still, and reports a
herder that died. `running` follows what runs, `config_topic` what the config topic calls for, `rounds` the rounds and
their delays, `table_path` whether the worker's steps are in the table `connect-worker`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from fsm.audit.connect import running
from fsm.audit.connect.config_topic import ConfigTopic
from fsm.audit.connect.rounds import Rounds
from fsm.audit.connect.running import RunningUnits, unit_partition
from fsm.audit.connect.table_path import TablePath
from fsm.audit.findings import Cause, Finding, FindingKind, Severity, finding
from fsm.audit.limits import Limits
from fsm.audit.rows import NOWHERE, Ended, Interval, Life, MemberRebalance, Place, Seen, Subscription
from fsm.trace import Kind, TraceRecord

MACHINE = "connect-worker"
NECESSARY = frozenset({Kind.JOINING, Kind.JOINED, Kind.SYNCED, Kind.TARGET})
"""A process that printed none of one of these hides some class's lines: what it did not print says nothing then."""
PROMPT_MS = 100
"""A heartbeat is answered within this time unless the machine, the network or the broker is slow."""

Row = Interval | Subscription | Life | MemberRebalance | Finding
Rows = Iterator[Row]


class ConnectFold:
    def __init__(self, group: str, member: str, limits: Limits) -> None:
        self.group, self.member, self.limits = group, member, limits
        self.number = -1
        self.config = ConfigTopic(group, member)
        self.rounds = Rounds(group, member, limits)
        self.files: set[str] = set()
        self.interleaved = False
        """Lines come from several files at once: in which order those of one moment were printed is not known."""
        self._start(0, NOWHERE, whole=False)
        self.number = -1

    def _start(self, ts_ms: int, place: Place, *, whole: bool) -> None:
        self.number += 1
        self.start_ms, self.start, self.whole = ts_ms, place, whole
        self.last_ms, self.last = ts_ms, place
        self.running = RunningUnits(
            self.group, self.member, self.number, (ts_ms, place), whole=whole, wants=self.config.wants
        )
        self.rounds.start_process()
        self.settings: dict[str, str] = {}
        self.client_id = self.member_id = ""
        self.in_group = self.closed = self.herded = False
        self.heartbeat_ms: int | None = None
        """When the last heartbeat was sent."""
        self.answered_ms: int | None = None
        """How long its answer took; None while there is none."""
        self.path = TablePath(self.group, self.member)
        self.illegal: list[Finding] = []
        self.kinds: set[Kind] = set()

    def see(self, seen: Seen) -> Rows:
        record, place = seen
        if self.number < 0:
            self._start(record.ts_ms, place, whole=record.kind is Kind.STARTED or _starts(record))
        elif record.kind is Kind.STARTED or (_starts(record) and self.herded):
            yield from self._end()
            self._start(record.ts_ms, place, whole=True)
        else:
            yield from self._check_silence(record, place)
        self.interleaved = self.interleaved or (place.file != self.last.file and place.file in self.files)
        self.files.add(place.file)
        self.herded = self.herded or (record.machine == MACHINE and bool(record.client_id))
        self.last_ms, self.last = max(self.last_ms, record.ts_ms), place
        self.client_id = record.client_id or self.client_id
        self.kinds.add(record.kind)
        self.illegal.extend(self.path.see(seen))
        if record.kind in running.STEPS:
            yield from self._unit(record, place)
        elif step := STEPS.get(record.kind):
            yield from step(self, record, place) or ()

    def finish(self) -> Rows:
        if self.number >= 0:
            yield from self._end(at_end=True)
            yield from self.config.end(self.last_ms)
        yield from self.rounds.end_log()

    def _end(self, *, at_end: bool = False) -> Rows:
        ended = Ended.CLOSED if self.closed else Ended.LOG_ENDED if at_end else Ended.RESTARTED
        yield from self.rounds.end(self.last_ms, self.config.wanted)
        yield from self.running.end((self.last_ms, self.last), ended)
        if self.kinds >= NECESSARY:
            yield from (replace(found, severity=Severity.INFO) if self.interleaved else found for found in self.illegal)
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

    # A process that stands still

    def _check_silence(self, record: TraceRecord, place: Place) -> Rows:
        """A worker whose last heartbeat was answered prints the next one when it is due, or it stands still.

        One that waits for an answer sends no other, and does not stand still for that. One whose answers are slow is on
        a machine that is short of time: its lines come late while its tasks run, unless a whole session passes.
        """
        session_ms, interval_ms = self._setting_ms("session.timeout.ms"), self._setting_ms("heartbeat.interval.ms")
        if self.answered_ms is None or self.heartbeat_ms is None or self.rounds.turn is not None or not self.in_group:
            return
        if session_ms is None or interval_ms is None:
            return
        due_ms = max(self.last_ms, self.heartbeat_ms + interval_ms)
        since_ms = (self.last_ms + due_ms) // 2  # it may have begun at any time between the last line and the next one
        expired = record.ts_ms - self.heartbeat_ms > session_ms
        late = record.ts_ms - due_ms > self.limits.unowned_ms * 3 // 4
        if late and record.ts_ms - since_ms > self.limits.unowned_ms and (expired or self.answered_ms <= PROMPT_MS):
            yield from self.running.freeze((since_ms, self.last), (record.ts_ms, place), expired=expired)

    def _heartbeat(self, record: TraceRecord, _place: Place) -> None:
        if record.kind is Kind.HEARTBEAT_OK and self.heartbeat_ms is not None:
            self.answered_ms = record.ts_ms - self.heartbeat_ms
        else:
            self.answered_ms = None
            self.heartbeat_ms = record.ts_ms

    def _coordinator_lost(self, _record: TraceRecord, _place: Place) -> None:
        self.answered_ms = None  # no heartbeat is due

    # Units and the config topic

    def _unit(self, record: TraceRecord, place: Place) -> Rows:
        if record.kind is Kind.UNITS_STARTED:
            yield from self.rounds.start_units(record.partitions)
            self.config.add_running(record.partitions, record.ts_ms, place)
        if record.kind is Kind.UNITS_FAILED and record.event == "start":
            for connector, _ in record.partitions:
                yield from self.config.fail_start(connector)
        yield from running.STEPS[record.kind](self.running, record, place) or ()

    def _config(self, record: TraceRecord, place: Place) -> Rows:
        return self.config.see(record, place)

    def _keep_settings(self, record: TraceRecord, _place: Place) -> None:
        if record.topics:
            self.config.keep_tasks_max(record)
        else:
            self.settings.update(record.settings)

    # The group

    def _joining(self, record: TraceRecord, place: Place) -> Rows:
        return self.rounds.join(record, place)

    def _joined(self, record: TraceRecord, _place: Place) -> None:
        self.member_id = record.member_id or self.member_id
        self.in_group = True

    def _round(self, record: TraceRecord, place: Place) -> Rows:
        turn_ms = self.rounds.turn[0] if self.rounds.turn is not None else record.ts_ms
        downgraded = self.rounds.is_downgrade(record)
        yield from self.running.finish_round(record, place, turn_ms, downgraded=downgraded)
        self.config.add_running(record.full or (), record.ts_ms, place)
        yield from self.rounds.finish(record, place, self.member_id, self.config.wanted)

    def _transition(self, record: TraceRecord, place: Place) -> Rows | None:
        if record.event in ("CATCH_UP_TIMED_OUT", "MISMATCH"):
            return self.rounds.lag_behind(record.ts_ms, place, timed_out=record.event == "CATCH_UP_TIMED_OUT")
        if record.event == "DISCOVERY_FAILED_HOLDING":
            self.running.losing = Cause.COORDINATOR_LOST
        elif record.event == "STARTED":
            self.running.all_started(record.ts_ms, place)
        elif record.event == "POLL_TIMEOUT":
            self.in_group = False
        elif record.next_state == "STARTING":
            return self.rounds.catch_up()
        return None

    def _leave_group(self, _record: TraceRecord, _place: Place) -> None:
        self.in_group = False

    def _settle(self, _record: TraceRecord, _place: Place) -> Rows:
        return self.running.settle()

    def _close(self, _record: TraceRecord, _place: Place) -> Rows:
        self.closed = True
        yield from self.running.settle()
        self.running.closing = True

    def _fail(self, record: TraceRecord, place: Place) -> Rows:
        yield finding(
            FindingKind.MEMBER_OUT_FOR_GOOD,
            self.group,
            self.member,
            record.ts_ms,
            record.ts_ms,
            summary=f"the herder of {self.member} died of an error; the process may live on without it",
            partitions=[unit_partition(unit) for unit in self.running.runs],
            cause=Cause.FATAL_ERROR,
            places=[place],
        )


def _starts(record: TraceRecord) -> bool:
    """The first line of a worker that names it: the process says before, without its name, that it starts."""
    return record.kind is Kind.TRANSITION and record.event == "START"


STEPS: dict[Kind, Callable[[ConnectFold, TraceRecord, Place], Rows | None]] = {
    Kind.SETTINGS: ConnectFold._keep_settings,
    Kind.CONFIG_TOPIC: ConnectFold._config,
    Kind.JOINING: ConnectFold._joining,
    Kind.JOINED: ConnectFold._joined,
    Kind.HEARTBEAT_SENT: ConnectFold._heartbeat,
    Kind.HEARTBEAT_OK: ConnectFold._heartbeat,
    Kind.COORDINATOR_LOST: ConnectFold._coordinator_lost,
    Kind.TARGET: ConnectFold._round,
    Kind.TRANSITION: ConnectFold._transition,
    Kind.LEAVE_SENT: ConnectFold._leave_group,
    Kind.GENERATION_RESET: ConnectFold._leave_group,
    Kind.REVOKE_END: ConnectFold._settle,
    Kind.CLOSE_BEGIN: ConnectFold._close,
    Kind.CLOSE_END: ConnectFold._close,
    Kind.FATAL: ConnectFold._fail,
}
