"""Ownership of a client that prints each added and dropped partition (librdkafka with debug=cgrp).

`ADDED` and `DROPPED` begin and end ownership; callbacks have only a number of partitions, and the reason. The client
prints many lines within one millisecond, so if its lines are spread over several files their order is not known:
suspicious lines are held for `REORDER_MS`, or not judged.

* A partition dropped while no callback runs was dropped without one, unless a revoked callback begins within that time.
* A partition that was dropped unowned, and added within that time, was added first: it is not owned.
* A partition that was added while owned, and dropped within that time, was dropped first: it stays owned.

The callbacks announce as many partitions as are added and dropped afterwards, unless a fatal error drops them: the sum
must be the number of owned partitions when the client is closed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from fsm.audit.findings import Cause
from fsm.audit.follower import Rows, on
from fsm.audit.intervals import FOREVER_MS
from fsm.audit.limits import REORDER_MS
from fsm.audit.member.consumer_instance import InstanceFollower
from fsm.audit.rows import At, Ended, Interval, Known
from fsm.trace import Kind, Partition, TraceRecord, by_partition


@dataclass(slots=True)
class _Callback:
    """A callback that was queued for the application, and the partitions dropped since."""

    kind: Ended
    at: At
    cause: Cause
    dropped: list[Interval]
    over_ms: int | None = None


@dataclass(slots=True)
class _Announced:
    """An assigned callback, how many partitions it announced, and how many were added since."""

    at: At
    count: int
    added: int = 0


@dataclass
class EachPartitionOwnership(InstanceFollower):
    callback: _Callback | None = None
    """The last one, until no drop can belong to it any more."""
    silent: list[Interval] = field(default_factory=list)
    """Partitions that seem dropped without a callback."""
    dropped_unowned: dict[Partition, At] = field(default_factory=dict)
    added_owned: dict[Partition, At] = field(default_factory=dict)
    """Suspicious lines, which another line within `REORDER_MS` may explain."""
    balance: int | None = 0
    """Number of owned partitions by the callbacks so far; None after a drop without callback."""
    announced: _Announced | None = None

    def __post_init__(self) -> None:
        self.balanced_ms = self.consumer.start.ts_ms
        """When that was last the number of owned partitions."""

    def see(self, known: Known) -> Rows:
        yield from self._settle(known.at.ts_ms)
        yield from super().see(known)

    def finish(self) -> Rows:
        yield from self._settle(FOREVER_MS)
        yield from self._end_callback()

    def _settle(self, ts_ms: int) -> Rows:
        """Reports suspicious lines that no other line can explain any more."""
        if self.silent and ts_ms - self.silent[-1].end_ms > REORDER_MS:
            yield from self._report_silent_drops()
        over_ms = self.callback.over_ms if self.callback is not None else None
        if over_ms is not None and ts_ms - over_ms > REORDER_MS:
            yield from self._end_callback()
        if _is_over(self.dropped_unowned, ts_ms):
            yield from self._report_never_added(list(self.dropped_unowned))
        if _is_over(self.added_owned, ts_ms):
            yield from self._report_added_twice(list(self.added_owned))

    # -- partitions -------------------------------------------------------------------------------------

    @on(Kind.ADDED)
    def _on_added(self, known: Known) -> Rows:
        partitions, at = known.record.partitions, known.at
        if self.announced is not None:
            self.announced.added += len(partitions)
        for partition in partitions:
            if partition in self.dropped_unowned:
                if not self.consumer.in_order:
                    del self.dropped_unowned[partition]
                    continue
                yield from self._report_never_added([partition])
            if partition in self.owned.partitions:
                self.added_owned[partition] = at
            self.owned.add((partition,), at)

    @on(Kind.DROPPED)
    def _on_dropped(self, known: Known) -> Rows:
        at = known.at
        for partition in known.record.partitions:
            if self.owned.not_owned((partition,)):
                self.dropped_unowned[partition] = at
                continue
            self.owned.add_found((partition,))
            twice = [partition] if partition in self.added_owned else []
            if self.consumer.in_order:
                yield from self._report_added_twice(twice)
            yield from self._drop(partition, at)
            if self.added_owned.pop(partition, None) is not None:
                self.owned.add((partition,), at)

    def _drop(self, partition: Partition, at: At) -> Rows:
        if self.callback is not None:
            for interval in self.owned.remove((partition,), at, self.callback.kind):
                self.callback.dropped.append(interval)
                yield interval
        elif not self.owned.has_listener:
            yield from self.owned.remove((partition,), at, Ended.CLOSED)
        else:
            self.silent.extend(self.owned.remove((partition,), at, Ended.DROPPED))

    @on(Kind.OWNED)
    def _on_acknowledged(self, known: Known) -> Rows:
        """The whole assignment. It shows partitions that were owned before the log began, but not since when."""
        full = known.record.full or ()
        if not self.owned.complete:
            self.owned.add_found(full, known.at)
            self.owned.is_logged = True
        elif not self.owned.partitions.keys() <= set(full):  # lines that add the rest may follow
            yield from self.owned.check(full, known.at)

    # -- callbacks --------------------------------------------------------------------------------------

    @on(Kind.ASSIGN_BEGIN)
    def _assign_begin(self, known: Known) -> Rows:
        yield from self._check_announced(known.at)
        count, ts_ms = partition_count(known.record), known.at.ts_ms
        self.announced = _Announced(known.at, count)
        self.owned.has_listener = True
        self._add_to_balance(count, ts_ms)
        if self.callback is not None and (self.consumer.in_order or ts_ms - self.callback.at.ts_ms > REORDER_MS):
            self.callback.over_ms = ts_ms

    @on(Kind.REVOKE_BEGIN, Kind.LOST_BEGIN)
    def _begin(self, known: Known) -> Rows:
        kind = Ended.LOST if known.record.kind is Kind.LOST_BEGIN else Ended.REVOKED
        yield from self._check_announced(known.at)
        self.owned.has_listener = True
        if self.consumer.in_order:
            yield from self._report_silent_drops()
        self._add_to_balance(-partition_count(known.record), known.at.ts_ms)
        yield from self._end_callback()
        void = self.owned.void
        dropped, self.silent = [replace(interval, ended=kind) for interval in self.silent], []
        self.callback = _Callback(kind, known.at, void.cause if void else self.owned.cause, dropped)
        yield from dropped

    def _add_to_balance(self, count: int, ts_ms: int) -> None:
        if self.balance is not None:
            self.balanced_ms = ts_ms if self.balance == len(self.owned.partitions) else self.balanced_ms
            self.balance += count

    @on(Kind.LOST_DECIDED)
    def _on_lost_decided(self, known: Known) -> Rows:
        """Drops from now on belong to a lost callback, if one begins; its line may be just before this one."""
        if self.callback is not None and known.at.ts_ms - self.callback.at.ts_ms > REORDER_MS:
            yield from self._end_callback()

    @on(Kind.CLOSE_END)
    def _on_closed(self, known: Known) -> Rows:
        yield from self._check_announced(known.at)
        if self.owned.has_listener and self.consumer.in_order:
            yield from self._report_silent_drops()
        explained, self.silent = self.silent, []
        yield from (replace(interval, ended=Ended.CLOSED) for interval in explained)
        yield from self._end_callback()
        yield from self._check_balance(known.at)
        yield from self.owned.remove(list(self.owned.partitions), known.at, Ended.CLOSED)

    def _end_callback(self) -> Rows:
        """Ends the last callback. A lost callback is reported with all its partitions."""
        callback, self.callback = self.callback, None
        if callback is not None and callback.kind is Ended.LOST and callback.dropped:
            partitions = [(i.topic, i.partition) for i in callback.dropped]
            shown = [callback.at, *(At(i.end_ms, i.end) for i in callback.dropped)]
            end_ms = callback.dropped[-1].end_ms
            yield self.owned.report_lost(partitions, shown, end_ms, callback.cause)

    # -- findings ---------------------------------------------------------------------------------------

    def _report_silent_drops(self) -> Rows:
        dropped, self.silent = self.silent, []
        yield from dropped
        if dropped:
            self.balance = None
            partitions = [(i.topic, i.partition) for i in dropped]
            shown = [At(i.end_ms, i.end) for i in dropped]
            yield self.owned.report_lost_without_callback(partitions, dropped[0].end_ms, shown)

    def _check_announced(self, at: At) -> Rows:
        """A finding if the assigned callback announced another number of partitions than were added. It is fine if none
        were added: the callback ended the assignment."""
        announced, self.announced = self.announced, None
        if announced is None or announced.added in (0, announced.count) or not self.consumer.in_order:
            return
        if at.joins(announced.at):
            summary = (
                f"the assigned callback of {self.consumer.member} announced {announced.count} partitions, but "
                f"{announced.added} were added; lines are missing, or one of them is wrong"
            )
            span_ms = announced.at.ts_ms, at.ts_ms
            yield self.consumer.contradiction(summary, announced.at, self.owned.changed, span_ms=span_ms)

    def _check_balance(self, closed: At) -> Rows:
        owned, balance = by_partition(self.owned.partitions), self.balance
        judged = self.owned.has_listener and self.consumer.whole_start and self.consumer.in_order
        if judged and balance is not None and balance != len(owned):
            summary = (
                f"the callbacks of {self.consumer.member} leave it with {balance} partitions, the lines that add "
                f"and drop them with {len(owned)}; lines are missing, or stand there twice"
            )
            span_ms = self.balanced_ms, closed.ts_ms
            yield self.consumer.contradiction(summary, closed, span_ms=span_ms, partitions=owned)

    def _report_never_added(self, partitions: Iterable[Partition]) -> Rows:
        """Partitions that were dropped unowned, and not added within `REORDER_MS`."""
        gone = {p: self.dropped_unowned.pop(p) for p in partitions}
        if gone and self.consumer.in_order:
            yield self.owned.report_callback_not_owned("dropped", gone, _latest_ms(gone), list(gone.values()))

    def _report_added_twice(self, partitions: Iterable[Partition]) -> Rows:
        """Partitions that were added while owned, and not dropped within `REORDER_MS`."""
        twice = {p: self.added_owned.pop(p) for p in partitions}
        if twice and self.consumer.ordered:
            yield from self.owned.report_added_twice(twice, _latest_ms(twice), list(twice.values()))


def _latest_ms(lines: dict[Partition, At]) -> int:
    return max(at.ts_ms for at in lines.values())


def _is_over(waiting: dict[Partition, At], ts_ms: int) -> bool:
    return bool(waiting) and ts_ms - _latest_ms(waiting) > REORDER_MS


def partition_count(record: TraceRecord) -> int:
    """Number of partitions of a callback; a client that prints each partition has only the number in this line."""
    found = _COUNTED.match(record.detail)
    return int(found[1]) if found else len(record.partitions)


_COUNTED = re.compile(r"(\d{1,9}) partition\(s\)", re.ASCII)
