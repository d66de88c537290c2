"""Ownership of a client that prints each partition it adds and drops (librdkafka with debug=cgrp).

`ADDED` and `DROPPED` begin and end ownership; the callbacks count partitions without naming them, and only say why they
go. The client prints many lines within one millisecond, so where its lines are spread over several files their order is
not known: what looks wrong waits for `REORDER_MS`, or is not judged.

* A partition dropped while no callback runs went without one, unless a revoked callback begins within that time.
* A partition dropped that was not owned, and added within that time, was added first: it is not owned.
* A partition added that was owned, and dropped within that time, was dropped first: it stays owned.

The callbacks announce as many partitions as are added and dropped afterwards, unless a fatal error takes them: the sum
must be what the client owns when it is closed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

from fsm.audit.findings import Cause, FindingKind
from fsm.audit.limits import REORDER_MS
from fsm.audit.member.consumer_instance import ConsumerInstance
from fsm.audit.member.owned_partitions import OwnedPartitions, Rows
from fsm.audit.rows import Ended, Interval, Place, Seen
from fsm.trace import Kind, Partition, TraceRecord, by_partition


@dataclass(slots=True)
class _Callback:
    """A callback that was queued for the application, and what was dropped under it."""

    kind: Ended
    start_ms: int
    place: Place
    cause: Cause
    dropped: list[Interval] = field(default_factory=list)
    over_ms: int | None = None


@dataclass(slots=True)
class _Announced:
    """An assigned callback, how many partitions it announced, and how many were added since."""

    by: Seen
    count: int
    added: int = 0


class LibrdkafkaOwnership:
    def __init__(self, consumer: ConsumerInstance, owned: OwnedPartitions) -> None:
        self.consumer = consumer
        self.owned = owned
        self.callback: _Callback | None = None
        """The last one, until nothing can be dropped under it any more."""
        self.silent: list[Interval] = []
        """Partitions that seem dropped without a callback."""
        self.dropped_unowned: dict[Partition, Seen] = {}
        self.added_owned: dict[Partition, Seen] = {}
        self.balance: int | None = 0
        """How many partitions the callbacks so far leave the application with; None after a silent drop."""
        self.balanced_ms = consumer.start_ms
        """When that was last what it owned."""
        self.announced: _Announced | None = None

    def see(self, seen: Seen) -> Rows:
        yield from self._settle(seen.record.ts_ms)
        if step := _STEPS.get(seen.record.kind):
            yield from step(self, seen)

    def end(self) -> Rows:
        yield from self._report_silent_drops()
        yield from self._report_never_added(list(self.dropped_unowned))
        yield from self._report_added_twice(list(self.added_owned))
        yield from self._end_callback()

    def _settle(self, ts_ms: int) -> Rows:
        """What no line of the same moment can explain any more."""
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

    def _added(self, seen: Seen) -> Rows:
        record, place = seen
        if self.announced is not None:
            self.announced.added += len(record.partitions)
        for partition in record.partitions:
            if partition in self.dropped_unowned:
                if not self.consumer.in_order:
                    del self.dropped_unowned[partition]
                    continue
                yield from self._report_never_added([partition])
            if partition in self.owned.partitions:
                self.added_owned[partition] = seen
            self.owned.add((partition,), record.ts_ms, place)

    def _dropped(self, seen: Seen) -> Rows:
        record, place = seen
        for partition in record.partitions:
            if self.owned.not_owned((partition,)):
                self.dropped_unowned[partition] = seen
                continue
            self.owned.add_found((partition,))
            twice = [partition] if partition in self.added_owned else []
            if self.consumer.in_order:
                yield from self._report_added_twice(twice)
            yield from self._drop(partition, record.ts_ms, place)
            if self.added_owned.pop(partition, None) is not None:
                self.owned.add((partition,), record.ts_ms, place)

    def _drop(self, partition: Partition, ts_ms: int, place: Place) -> Rows:
        if self.callback is not None:
            for interval in self.owned.remove((partition,), ts_ms, place, self.callback.kind):
                self.callback.dropped.append(interval)
                yield interval
        elif not self.owned.has_listener:
            yield from self.owned.remove((partition,), ts_ms, place, Ended.CLOSED)
        else:
            self.silent.extend(self.owned.remove((partition,), ts_ms, place, Ended.DROPPED))

    def _acknowledged(self, seen: Seen) -> Rows:
        """The whole assignment: it shows what a log that begins later does not, but not since when."""
        full = seen.record.full or ()
        if not self.owned.complete:
            self.owned.add_found(full, (seen.record.ts_ms, seen.place))
            self.owned.complete = True
        elif not self.owned.partitions.keys() <= set(full):  # lines that add the rest may follow
            yield from self.owned.check(full, seen.record.ts_ms, seen.place)

    # -- callbacks --------------------------------------------------------------------------------------

    def _assign_begin(self, seen: Seen) -> Rows:
        yield from self._check_announced(seen)
        count, ts_ms = partition_count(seen.record), seen.record.ts_ms
        self.announced = _Announced(seen, count)
        self.owned.has_listener = True
        self._add_to_balance(count, ts_ms)
        if self.callback is not None and (self.consumer.in_order or ts_ms - self.callback.start_ms > REORDER_MS):
            self.callback.over_ms = ts_ms

    def _revoke_begin(self, seen: Seen) -> Rows:
        yield from self._begin(seen, Ended.REVOKED)

    def _lost_begin(self, seen: Seen) -> Rows:
        yield from self._begin(seen, Ended.LOST)

    def _begin(self, seen: Seen, kind: Ended) -> Rows:
        record, place = seen
        yield from self._check_announced(seen)
        self.owned.has_listener = True
        if self.consumer.in_order:
            yield from self._report_silent_drops()
        self._add_to_balance(-partition_count(record), record.ts_ms)
        yield from self._end_callback()
        void = self.owned.void
        dropped, self.silent = [replace(interval, ended=kind) for interval in self.silent], []
        self.callback = _Callback(kind, record.ts_ms, place, void.cause if void else self.owned.cause, dropped)
        yield from dropped

    def _add_to_balance(self, count: int, ts_ms: int) -> None:
        if self.balance is not None:
            self.balanced_ms = ts_ms if self.balance == len(self.owned.partitions) else self.balanced_ms
            self.balance += count

    def _lost_decided(self, seen: Seen) -> Rows:
        """What goes now goes under a lost callback, if one begins at all; its line may stand just before."""
        if self.callback is not None and seen.record.ts_ms - self.callback.start_ms > REORDER_MS:
            yield from self._end_callback()

    def _closed(self, seen: Seen) -> Rows:
        record, place = seen
        yield from self._check_announced(seen)
        if self.owned.has_listener and self.consumer.in_order:
            yield from self._report_silent_drops()
        explained, self.silent = self.silent, []
        yield from (replace(interval, ended=Ended.CLOSED) for interval in explained)
        yield from self._end_callback()
        yield from self._check_balance(seen)
        yield from self.owned.remove(list(self.owned.partitions), record.ts_ms, place, Ended.CLOSED)

    def _end_callback(self) -> Rows:
        """Nothing is dropped under the last callback any more; a loss is reported with all that went."""
        callback, self.callback = self.callback, None
        if callback is not None and callback.kind is Ended.LOST and callback.dropped:
            partitions = [(i.topic, i.partition) for i in callback.dropped]
            places = [callback.place, *(i.end for i in callback.dropped)]
            end_ms = callback.dropped[-1].end_ms
            yield self.owned.partitions_lost(partitions, callback.start_ms, end_ms, places, callback.cause)

    # -- findings ---------------------------------------------------------------------------------------

    def _report_silent_drops(self) -> Rows:
        gone, self.silent = self.silent, []
        yield from gone
        if gone:
            self.balance = None
            partitions = [(i.topic, i.partition) for i in gone]
            yield self.owned.lost_without_callback(partitions, gone[0].end_ms, [i.end for i in gone])

    def _check_announced(self, seen: Seen) -> Rows:
        """Whether as many partitions were added as the assigned callback announced; none are where it ended it."""
        announced, self.announced = self.announced, None
        if announced is None or announced.added in (0, announced.count) or not self.consumer.in_order:
            return
        record, place = announced.by
        if self.consumer.unbroken(place.file, seen.place.file):
            yield self.consumer.finding(
                FindingKind.ILLEGAL_TRANSITION,
                record.ts_ms,
                seen.record.ts_ms,
                f"the assigned callback of {self.consumer.member} announced {announced.count} partitions, but "
                f"{announced.added} were added; lines are missing, or one of them is wrong",
                [place, self.owned.changed],
            )

    def _check_balance(self, closed: Seen) -> Rows:
        owned, balance = by_partition(self.owned.partitions), self.balance
        judged = self.owned.has_listener and self.consumer.whole_start and self.consumer.in_order
        if judged and balance is not None and balance != len(owned):
            yield self.consumer.finding(
                FindingKind.ILLEGAL_TRANSITION,
                self.balanced_ms,
                closed.record.ts_ms,
                f"the callbacks of {self.consumer.member} leave it with {balance} partitions, the lines that add "
                f"and drop them with {len(owned)}; lines are missing, or stand there twice",
                [closed.place],
                partitions=owned,
            )

    def _report_never_added(self, partitions: Iterable[Partition]) -> Rows:
        """Partitions that were dropped, not owned, and not added in the same moment."""
        gone = {p: self.dropped_unowned.pop(p) for p in partitions}
        if gone and self.consumer.in_order:
            places = [seen.place for seen in gone.values()]
            yield self.owned.callback_not_owned("dropped", gone, _latest_ms(gone.values()), places)

    def _report_added_twice(self, partitions: Iterable[Partition]) -> Rows:
        """Partitions that were added though they were owned, and not dropped in the same moment."""
        twice = {p: self.added_owned.pop(p) for p in partitions}
        if twice and (self.consumer.in_order or self.consumer.interleaved):
            places = [seen.place for seen in twice.values()]
            yield from self.owned.added_twice(twice, _latest_ms(twice.values()), places)


def _latest_ms(lines: Iterable[Seen]) -> int:
    return max(seen.record.ts_ms for seen in lines)


def _is_over(waiting: dict[Partition, Seen], ts_ms: int) -> bool:
    return bool(waiting) and ts_ms - _latest_ms(waiting.values()) > REORDER_MS


def partition_count(record: TraceRecord) -> int:
    """How many partitions a callback is about; librdkafka counts them and does not name them."""
    found = _COUNTED.match(record.detail)
    return int(found[1]) if found else len(record.partitions)


_COUNTED = re.compile(r"(\d{1,9}) partition\(s\)", re.ASCII)

_STEPS: dict[Kind, Callable[[LibrdkafkaOwnership, Seen], Rows]] = {
    Kind.ADDED: LibrdkafkaOwnership._added,
    Kind.DROPPED: LibrdkafkaOwnership._dropped,
    Kind.OWNED: LibrdkafkaOwnership._acknowledged,
    Kind.ASSIGN_BEGIN: LibrdkafkaOwnership._assign_begin,
    Kind.REVOKE_BEGIN: LibrdkafkaOwnership._revoke_begin,
    Kind.LOST_DECIDED: LibrdkafkaOwnership._lost_decided,
    Kind.LOST_BEGIN: LibrdkafkaOwnership._lost_begin,
    Kind.CLOSE_END: LibrdkafkaOwnership._closed,
}
