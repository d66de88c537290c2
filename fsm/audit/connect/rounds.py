"""The rounds of one Connect worker: its joins, the delays it was told of, and what the config topic held up.

A delay begins with the first round that announces one and ends with the first that does not. Every unit that its
leader knows to be called for yields an interval of nobody's for it, `WAITS`, and so does what a worker starts after it:
where a unit ran nowhere meanwhile, the delay is why.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from fsm.audit.connect.config_topic import of_nobody
from fsm.audit.connect.running import At
from fsm.audit.findings import Cause, Finding, FindingKind, finding
from fsm.audit.limits import Limits
from fsm.audit.rows import Begun, Interval, MemberRebalance, Place
from fsm.audit.wording import seconds
from fsm.trace import Partition, TraceRecord

LAGS = 3
"""Rounds in a row that started nothing because of the config topic."""

Rows = Iterator[Interval | MemberRebalance | Finding]


@dataclass(slots=True)
class _Lag:
    """Rounds in a row after which the worker could not start anything."""

    start_ms: int = 0
    end_ms: int = 0
    places: list[Place] = field(default_factory=list)
    timed_out: bool = False


@dataclass(slots=True)
class _Delay:
    """A delay as one process learned of it."""

    start: At
    due_ms: int
    end_ms: int | None = None
    led: bool = False
    """This process led one of its rounds."""
    wanted: set[Partition] = field(default_factory=set)
    """Units that were wanted when it began."""
    waited: set[Partition] = field(default_factory=set)
    """Units whose wait was reported."""


class Rounds:
    """Follows one worker; what belongs to one process begins anew with `start_process`."""

    def __init__(self, group: str, member: str, limits: Limits) -> None:
        self.group, self.member, self.limits = group, member, limits
        self.lag = _Lag()
        self.joins: list[At] = []
        self.start_process()

    def start_process(self) -> None:
        self.turn: At | None = None
        self.version = ""
        self.held: set[Partition] = set()
        self.delay: _Delay | None = None

    def join(self, record: TraceRecord, place: Place) -> Rows:
        if record.event == "JOIN_DUE":
            self.turn = self.turn or (record.ts_ms, place)
            while self.joins and record.ts_ms - self.joins[0][0] > self.limits.window_ms:
                yield from self._storm(keep=True)
                self.joins.pop(0)
            self.joins.append((record.ts_ms, place))

    def finish(self, record: TraceRecord, place: Place, member_id: str, wanted: Iterable[Partition]) -> Rows:
        start_ms, begun = self.turn or (record.ts_ms, place)
        self.turn = None
        held = set(record.full or ())
        new, gone = len(held - self.held), len(record.revoked)
        self.held = held
        yield MemberRebalance(self.group, self.member, start_ms, record.ts_ms, record.epoch, new, gone, "", begun)
        yield from self._delay(record, place, member_id, wanted)
        if record.settings.get("error", "0") != "0":
            yield from self.lag_behind(record.ts_ms, place)

    def is_downgrade(self, record: TraceRecord) -> bool:
        """Whether the group goes back to the eager protocol with this round."""
        before, self.version = self.version, record.settings.get("version", "")
        return self.version == "0" and before not in ("", "0")

    def start_units(self, units: Iterable[Partition]) -> Rows:
        """What this worker starts waited for the delay that was over before."""
        if self.delay is not None and self.delay.end_ms is not None:
            yield from self._wait(self.delay, units, self.delay.end_ms)

    def end(self, last_ms: int, wanted: Iterable[Partition]) -> Rows:
        if self.delay is not None and self.delay.end_ms is None:
            yield from self._end_delay(self.delay, min(last_ms, self.delay.due_ms), wanted)
        self.delay = None

    def _delay(self, record: TraceRecord, place: Place, member_id: str, wanted: Iterable[Partition]) -> Rows:
        delay_ms = record.settings.get("delay_ms", "0")
        leads = bool(member_id) and record.settings.get("leader") == member_id
        if delay_ms != "0":
            if self.delay is None or self.delay.end_ms is not None:
                self.delay = _Delay((record.ts_ms, place), record.ts_ms, wanted=set(wanted))
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
            yield of_nobody(self.group, unit, Begun.WAITS, delay.start, end_ms)

    # The config topic

    def lag_behind(self, ts_ms: int, place: Place, *, timed_out: bool = False) -> Rows:
        """The worker could not start anything, for want of the config topic."""
        if self.lag.places and ts_ms - self.lag.end_ms > self.limits.window_ms:
            yield from self.catch_up()
        lag = self.lag
        lag.timed_out |= timed_out
        lag.start_ms = lag.start_ms if lag.places else ts_ms
        lag.end_ms = ts_ms
        lag.places.append(place)
        if len(lag.places) > LAGS:
            del lag.places[LAGS - 1 : -1]

    def catch_up(self) -> Rows:
        """The worker starts its work, or its log ends."""
        lag, self.lag = self.lag, _Lag()
        if len(lag.places) >= LAGS or lag.timed_out:
            why = (
                "could not read the config topic to its end in time"
                if lag.timed_out
                else "read another offset of the config topic than its assignments were made for, and started nothing"
            )
            yield finding(
                FindingKind.CONFIG_LAG,
                self.group,
                self.member,
                lag.start_ms,
                lag.end_ms,
                summary=f"{self.member} {why} for {seconds(lag.end_ms - lag.start_ms)}",
                cause=Cause.UNKNOWN,
                places=lag.places,
            )

    def end_log(self) -> Rows:
        yield from self.catch_up()
        yield from self._storm()

    def _storm(self, *, keep: bool = False) -> Rows:
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
                cause=Cause.UNKNOWN,
                places=[first[1], last[1]],
            )
            self.joins = self.joins[:1] if keep else []
