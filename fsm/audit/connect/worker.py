"""Follows one process of a Connect worker: from its records to rows like those of a consumer.

This module detects a paused process and reports a dead herder. `running` follows running units, `config_topic` wanted
units, `rounds` rounds and delays, `table_path` the steps of the table `connect-worker`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from fsm.audit.connect.config_topic import ConfigTopic, unit_partition
from fsm.audit.connect.rounds import Rounds
from fsm.audit.connect.running import RunningUnits
from fsm.audit.connect.table_path import TablePath
from fsm.audit.findings import Cause, Finding, FindingKind, Severity
from fsm.audit.follower import Follower, Process, Rows, on
from fsm.audit.limits import Limits
from fsm.audit.rows import Begin, Ended, Known, Order
from fsm.trace import Kind

NECESSARY = frozenset({Kind.JOINING, Kind.JOINED, Kind.SYNCED, Kind.TARGET})
"""If a process did not print all of these kinds, the level of a logger hides lines, and missing lines mean nothing."""
PROMPT_MS = 100
"""A heartbeat is answered within this time unless the machine, the network or the broker is slow."""


@dataclass(slots=True)
class WorkerProcess(Process):
    @property
    def max_poll_interval_ms(self) -> int | None:
        return self.setting_ms("rebalance.timeout.ms")


class WorkerFollower(Follower):
    """Follows one process; `config` and `rounds` are those of the worker and survive its processes."""

    def __init__(
        self, group: str, member: str, limits: Limits, begin: Begin, before: WorkerFollower | None = None
    ) -> None:
        self.limits = limits
        self.process = WorkerProcess(group, member, begin.number, begin.at, begin.whole, begin.at, protocol="connect")
        self.config: ConfigTopic = ConfigTopic(group, member) if before is None else before.config
        self.rounds: Rounds = Rounds(self.process, limits) if before is None else before.rounds
        self.rounds.start_process(self.process)
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
