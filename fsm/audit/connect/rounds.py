"""The rounds of one Connect worker: its joins, scheduled delays, and lag on the config topic.

A delay begins with the first round that has one and ends with the first that has none. Every unit that its leader knows
as wanted, and every unit that a worker starts after it, yields an interval without owner, `WAITS`: if the unit ran
nowhere meanwhile, the delay is the cause.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from fsm.audit.connect.config_topic import make_unowned
from fsm.audit.findings import Cause, FindingKind
from fsm.audit.follower import Process, Rows
from fsm.audit.limits import Limits
from fsm.audit.rows import At, Begun, Known, MemberRebalance
from fsm.audit.wording import seconds
from fsm.trace import Partition, TraceRecord

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


class Rounds:
    """Follows one worker; `start_process` resets the state of one process."""

    def __init__(self, process: Process, limits: Limits) -> None:
        self.limits = limits
        self.lag = _Lag()
        self.joins: list[At] = []
        self.start_process(process)

    def start_process(self, process: Process) -> None:
        self.process = process
        self.turn: At | None = None
        """Begin of the current round."""
        self.version = ""
        self.held: set[Partition] = set()
        self.delay: _Delay | None = None

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
