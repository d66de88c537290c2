"""The fold of one Connect worker: its records, in order, become rows like those of a consumer.

`connect_running` follows what runs, `connect_config` what the config topic calls for, `connect_rounds` the rounds and
their delays, `connect_path` whether the worker's steps are in the table `connect-worker`. This module cuts a worker's
records into processes, notices one that died without a word or stood still, and reports a herder that died.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from fsm.audit import connect_running
from fsm.audit.connect_config import Config
from fsm.audit.connect_path import Path
from fsm.audit.connect_rounds import Rounds
from fsm.audit.connect_running import Running, unit_partition
from fsm.audit.findings import Cause, Finding, FindingKind, Severity, finding
from fsm.audit.limits import Limits
from fsm.audit.rows import NOWHERE, Ended, Interval, Life, Place, Seen, Turn, Want
from fsm.trace import Kind, TraceRecord

MACHINE = "connect-worker"
TELLING = frozenset({Kind.JOINING, Kind.JOINED, Kind.SYNCED, Kind.TARGET})
"""A process that printed none of one of these hides some class's lines: what it did not print says nothing then."""
PROMPT_MS = 100
"""A heartbeat is answered within this time unless the machine, the network or the broker is slow."""

Row = Interval | Want | Life | Turn | Finding


class ConnectFold:
    """Follows one worker through its processes."""

    def __init__(self, group: str, member: str, limits: Limits) -> None:
        self.group, self.member, self.limits = group, member, limits
        self.number = -1
        self.config = Config(group, member)
        self.rounds = Rounds(group, member, limits)
        self.files: set[str] = set()
        self.dealt = False
        """Lines come from several files at once: in which order those of one moment were printed is not known."""
        self._be_born(0, NOWHERE, whole=False)
        self.number = -1

    def _be_born(self, ts_ms: int, place: Place, *, whole: bool) -> None:
        self.number += 1
        self.start_ms, self.start, self.whole = ts_ms, place, whole
        self.last_ms, self.last = ts_ms, place
        self.running = Running(
            self.group, self.member, self.number, (ts_ms, place), whole=whole, wants=self.config.wants
        )
        self.rounds.be_born()
        self.settings: dict[str, str] = {}
        self.client_id = self.member_id = ""
        self.in_group = self.closed = self.herded = False
        self.beat_ms: int | None = None
        """When the last heartbeat was sent."""
        self.answered_ms: int | None = None
        """How long its answer took; None while there is none."""
        self.path = Path(self.group, self.member)
        self.illegal: list[Finding] = []
        self.heard: set[Kind] = set()

    def see(self, seen: Seen) -> Iterator[Row]:
        """The rows that this record completes."""
        record, place = seen
        if self.number < 0:
            self._be_born(record.ts_ms, place, whole=record.kind is Kind.STARTED or _starts(record))
        elif record.kind is Kind.STARTED or (_starts(record) and self.herded):
            yield from self._die()
            self._be_born(record.ts_ms, place, whole=True)
        else:
            yield from self._stood_still(record, place)
        self.dealt = self.dealt or (place.file != self.last.file and place.file in self.files)
        self.files.add(place.file)
        self.herded = self.herded or (record.machine == MACHINE and bool(record.client_id))
        self.last_ms, self.last = max(self.last_ms, record.ts_ms), place
        self.client_id = record.client_id or self.client_id
        self.heard.add(record.kind)
        self.illegal.extend(self.path.see(seen))
        if record.kind in connect_running.STEPS:
            yield from self._unit(record, place)
        elif record.kind in STEPS:
            yield from STEPS[record.kind](self, record, place)

    def finish(self) -> Iterator[Row]:
        """The rows that the end of the log completes."""
        if self.number >= 0:
            yield from self._die(at_end=True)
            yield from self.config.end(self.last_ms)
        yield from self.rounds.over()

    def _die(self, *, at_end: bool = False) -> Iterator[Row]:
        ended = Ended.CLOSED if self.closed else Ended.LOG_ENDED if at_end else Ended.RESTARTED
        yield from self.rounds.end(self.last_ms, self.config.wanted)
        yield from self.running.end((self.last_ms, self.last), ended)
        if self.heard >= TELLING:
            yield from (replace(found, severity=Severity.INFO) if self.dealt else found for found in self.illegal)
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

    def _stood_still(self, record: TraceRecord, place: Place) -> Iterator[Row]:
        """A worker whose last heartbeat was answered prints the next one when it is due, or it stands still.

        One that waits for an answer sends no other, and does not stand still for that. One whose answers are slow is on
        a machine that is short of time: its lines come late while its tasks run, unless a whole session passes.
        """
        session_ms, interval_ms = self._setting_ms("session.timeout.ms"), self._setting_ms("heartbeat.interval.ms")
        if self.answered_ms is None or self.beat_ms is None or self.rounds.turn is not None or not self.in_group:
            return
        if session_ms is None or interval_ms is None:
            return
        due_ms = max(self.last_ms, self.beat_ms + interval_ms)
        since_ms = (self.last_ms + due_ms) // 2  # it may have begun at any time between the last line and the next one
        expired = record.ts_ms - self.beat_ms > session_ms
        late = record.ts_ms - due_ms > self.limits.unowned_ms * 3 // 4
        if late and record.ts_ms - since_ms > self.limits.unowned_ms and (expired or self.answered_ms <= PROMPT_MS):
            yield from self.running.stood_still((since_ms, self.last), (record.ts_ms, place), expired=expired)

    def _beat(self, record: TraceRecord, _place: Place) -> Iterator[Row]:
        if record.kind is Kind.HEARTBEAT_OK and self.beat_ms is not None:
            self.answered_ms = record.ts_ms - self.beat_ms
        else:
            self.answered_ms = None
            self.beat_ms = record.ts_ms
        return iter(())

    def _coordinator_lost(self, _record: TraceRecord, _place: Place) -> Iterator[Row]:
        self.answered_ms = None  # no heartbeat is due
        return iter(())

    # Units and the config topic

    def _unit(self, record: TraceRecord, place: Place) -> Iterator[Row]:
        if record.kind is Kind.UNITS_STARTED:
            yield from self.rounds.started(record.partitions)
            self.config.runs(record.partitions, record.ts_ms, place)
        if record.kind is Kind.UNITS_FAILED and record.event == "start":
            for connector, _ in record.partitions:
                yield from self.config.not_started(connector)
        yield from connect_running.STEPS[record.kind](self.running, record, place)

    def _config(self, record: TraceRecord, place: Place) -> Iterator[Row]:
        yield from self.config.see(record, place)

    def _keep(self, record: TraceRecord, _: Place) -> Iterator[Row]:
        if record.topics:
            self.config.keep(record)
        else:
            self.settings.update(record.settings)
        return iter(())

    # The group

    def _joining(self, record: TraceRecord, place: Place) -> Iterator[Row]:
        yield from self.rounds.joining(record, place)

    def _joined(self, record: TraceRecord, _: Place) -> Iterator[Row]:
        self.member_id = record.member_id or self.member_id
        self.in_group = True
        return iter(())

    def _round(self, record: TraceRecord, place: Place) -> Iterator[Row]:
        turn_ms = self.rounds.turn[0] if self.rounds.turn is not None else record.ts_ms
        yield from self.running.round(record, place, turn_ms, downgraded=self.rounds.is_downgrade(record))
        self.config.runs(record.full or (), record.ts_ms, place)
        yield from self.rounds.result(record, place, self.member_id, self.config.wanted)

    def _transition(self, record: TraceRecord, place: Place) -> Iterator[Row]:
        if record.event in ("CATCH_UP_TIMED_OUT", "MISMATCH"):
            yield from self.rounds.lags(record.ts_ms, place, timed_out=record.event == "CATCH_UP_TIMED_OUT")
        elif record.event == "DISCOVERY_FAILED_HOLDING":
            self.running.losing = Cause.COORDINATOR_LOST
        elif record.event == "STARTED":
            self.running.all_started(record.ts_ms, place)
        elif record.event == "POLL_TIMEOUT":
            self.in_group = False
        elif record.next_state == "STARTING":
            yield from self.rounds.caught_up()

    def _out(self, _record: TraceRecord, _place: Place) -> Iterator[Row]:
        self.in_group = False
        return iter(())

    def _settles(self, _record: TraceRecord, _place: Place) -> Iterator[Row]:
        yield from self.running.settle()

    def _closing(self, _record: TraceRecord, _place: Place) -> Iterator[Row]:
        self.closed = True
        yield from self.running.settle()
        self.running.closing = True

    def _fatal(self, record: TraceRecord, place: Place) -> Iterator[Row]:
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


STEPS: dict[Kind, Callable[[ConnectFold, TraceRecord, Place], Iterator[Row]]] = {
    Kind.SETTINGS: ConnectFold._keep,
    Kind.CONFIG_TOPIC: ConnectFold._config,
    Kind.JOINING: ConnectFold._joining,
    Kind.JOINED: ConnectFold._joined,
    Kind.HEARTBEAT_SENT: ConnectFold._beat,
    Kind.HEARTBEAT_OK: ConnectFold._beat,
    Kind.COORDINATOR_LOST: ConnectFold._coordinator_lost,
    Kind.TARGET: ConnectFold._round,
    Kind.TRANSITION: ConnectFold._transition,
    Kind.LEAVE_SENT: ConnectFold._out,
    Kind.GENERATION_RESET: ConnectFold._out,
    Kind.REVOKE_END: ConnectFold._settles,
    Kind.CLOSE_BEGIN: ConnectFold._closing,
    Kind.CLOSE_END: ConnectFold._closing,
    Kind.FATAL: ConnectFold._fatal,
}
