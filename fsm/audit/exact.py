"""Ownership of a client that prints each partition it adds and drops (librdkafka with debug=cgrp).

`ADDED` and `DROPPED` begin and end ownership; the callbacks count partitions without naming them, and only say why
they go. The client prints many lines within one millisecond, so where its lines were dealt out to several files
their order is not known: what looks wrong waits for `REORDER_MS` before it is, or is not judged.

* A partition dropped while no callback runs went without one, unless a revoked callback begins within that time.
* A partition dropped that was not owned, and added within that time, was added first: it is not owned.
* A partition added that was owned, and dropped within that time, was dropped first: it is owned on.

The application is told of as many partitions as are added and dropped afterwards, unless a fatal error takes them: what
it was told of must be what it owns when it has been closed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from fsm.audit.findings import Cause, FindingKind
from fsm.audit.holdings import Holdings, Told
from fsm.audit.life import Living
from fsm.audit.limits import REORDER_MS
from fsm.audit.rows import Ended, Interval, Place, Seen
from fsm.audit.turns import counted
from fsm.trace import Kind, Partition, by_partition


@dataclass(slots=True)
class _Callback:
    """A callback that was queued for the application, and what went under it."""

    kind: Ended
    start_ms: int
    place: Place
    cause: Cause
    dropped: list[Interval] = field(default_factory=list)
    over_ms: int | None = None


class Exact:
    """Follows one life of such a client."""

    def __init__(self, living: Living, holdings: Holdings) -> None:
        self.living = living
        self.holdings = holdings
        self.callback: _Callback | None = None
        """The last one, until nothing can go under it any more."""
        self.silent: list[Interval] = []
        """Partitions that seem dropped without a callback."""
        self.dropped_unowned: dict[Partition, Seen] = {}
        self.added_owned: dict[Partition, Seen] = {}
        self.told: int | None = 0
        """How many partitions the callbacks so far leave the application with; None after a silent drop."""
        self.counting: tuple[Seen, int, int] | None = None
        """The last assigned callback, how many partitions it announced, and how many were added since."""
        self.balanced_ms = living.start_ms
        """When that was last what it owned."""

    def see(self, seen: Seen) -> Told:
        """The rows that end with this record."""
        yield from self._settle(seen.record.ts_ms)
        step = _STEPS.get(seen.record.kind)
        if step is not None:
            yield from step(self, seen)

    def end(self) -> Told:
        """What was still waiting."""
        yield from self._silent_drops()
        yield from self._never_added(list(self.dropped_unowned))
        yield from self._added_twice(list(self.added_owned))
        yield from self._forget()

    def _settle(self, ts_ms: int) -> Told:
        """What no line of the same moment can explain any more."""
        if self.silent and ts_ms - self.silent[-1].end_ms > REORDER_MS:
            yield from self._silent_drops()
        over_ms = self.callback.over_ms if self.callback is not None else None
        if over_ms is not None and ts_ms - over_ms > REORDER_MS:
            yield from self._forget()
        for waiting, told in ((self.dropped_unowned, self._never_added), (self.added_owned, self._added_twice)):
            if waiting and ts_ms - max(one.record.ts_ms for one in waiting.values()) > REORDER_MS:
                yield from told(list(waiting))

    # -- partitions -------------------------------------------------------------------------------------

    def _added(self, seen: Seen) -> Told:
        record, place = seen
        if self.counting is not None:
            begun, announced, lines = self.counting
            self.counting = (begun, announced, lines + len(record.partitions))
        for partition in record.partitions:
            if partition in self.dropped_unowned:
                if not self.living.in_order:
                    del self.dropped_unowned[partition]
                    continue
                yield from self._never_added([partition])
            if partition in self.holdings.owned:
                self.added_owned[partition] = seen
            self.holdings.take((partition,), record.ts_ms, place)

    def _dropped(self, seen: Seen) -> Told:
        record, place = seen
        for partition in record.partitions:
            if self.holdings.foreign((partition,)):
                self.dropped_unowned[partition] = seen
                continue
            self.holdings.find((partition,))
            twice = [partition] if partition in self.added_owned else []
            if self.living.in_order:
                yield from self._added_twice(twice)
            yield from self._drop(partition, record.ts_ms, place)
            if self.added_owned.pop(partition, None) is not None:
                self.holdings.take((partition,), record.ts_ms, place)

    def _drop(self, partition: Partition, ts_ms: int, place: Place) -> Told:
        if self.callback is not None:
            for interval in self.holdings.release((partition,), ts_ms, place, self.callback.kind):
                self.callback.dropped.append(interval)
                yield interval
        elif not self.holdings.told:
            yield from self.holdings.release((partition,), ts_ms, place, Ended.CLOSED)
        else:
            self.silent.extend(self.holdings.release((partition,), ts_ms, place, Ended.DROPPED))

    def _acknowledged(self, seen: Seen) -> Told:
        """The whole assignment: it tells what a log that begins in mid-life does not, but not since when."""
        if not self.holdings.complete:
            self.holdings.find(seen.record.full or (), (seen.record.ts_ms, seen.place))
            self.holdings.complete = True
        elif not self.holdings.owned.keys() <= set(seen.record.full or ()):  # lines that add the rest may follow
            yield from self.holdings.otherwise(seen.record.full or (), seen.record.ts_ms, seen.place)

    # -- callbacks --------------------------------------------------------------------------------------

    def _assign_begin(self, seen: Seen) -> Told:
        yield from self._miscounted(seen)
        self.counting = (seen, counted(seen.record), 0)
        self.holdings.told = True
        self._count(counted(seen.record), seen.record.ts_ms)
        begun_ms = self.callback.start_ms if self.callback is not None else seen.record.ts_ms
        if self.callback is not None and (self.living.in_order or seen.record.ts_ms - begun_ms > REORDER_MS):
            self.callback.over_ms = seen.record.ts_ms

    def _revoke_begin(self, seen: Seen) -> Told:
        yield from self._begins(seen, Ended.REVOKED)

    def _lost_begin(self, seen: Seen) -> Told:
        yield from self._begins(seen, Ended.LOST)

    def _begins(self, seen: Seen, kind: Ended) -> Told:
        record, place = seen
        yield from self._miscounted(seen)
        self.holdings.told = True
        if self.living.in_order:
            yield from self._silent_drops()
        self._count(-counted(record), record.ts_ms)
        yield from self._forget()
        void = self.holdings.void
        self.callback = _Callback(kind, record.ts_ms, place, void.cause if void else self.holdings.cause)
        explained, self.silent = self.silent, []
        for interval in explained:
            found = replace(interval, ended=kind)
            self.callback.dropped.append(found)
            yield found

    def _count(self, more: int, ts_ms: int) -> None:
        """A callback tells of that many more, or less, partitions."""
        if self.told is not None:
            self.balanced_ms = ts_ms if self.told == len(self.holdings.owned) else self.balanced_ms
            self.told += more

    def _lost_decided(self, seen: Seen) -> Told:
        """What goes now goes under a lost callback, if one begins at all; that may stand just before."""
        if self.callback is not None and seen.record.ts_ms - self.callback.start_ms > REORDER_MS:
            yield from self._forget()

    def _closed(self, seen: Seen) -> Told:
        record, place = seen
        yield from self._miscounted(seen)
        if self.holdings.told and self.living.in_order:
            yield from self._silent_drops()
        explained, self.silent = self.silent, []
        yield from (replace(interval, ended=Ended.CLOSED) for interval in explained)
        yield from self._forget()
        yield from self._unbalanced(seen)
        yield from self.holdings.release(list(self.holdings.owned), record.ts_ms, place, Ended.CLOSED)

    # -- findings ---------------------------------------------------------------------------------------

    def _silent_drops(self) -> Told:
        """Partitions that went without a callback, together."""
        gone, self.silent = self.silent, []
        yield from gone
        if gone:
            self.told = None
            partitions = by_partition((i.topic, i.partition) for i in gone)
            yield self.holdings.never_told(partitions, gone[0].end_ms, [i.end for i in gone])

    def _miscounted(self, seen: Seen) -> Told:
        """An assigned callback announced another number of partitions than were added; none are where it ended it."""
        counting, self.counting = self.counting, None
        if counting is None or counting[2] in (0, counting[1]) or not self.living.in_order:
            return
        (record, place), announced, added = counting
        if self.living.unbroken(place.file, seen.place.file):
            yield self.holdings.finding(
                FindingKind.ILLEGAL_TRANSITION,
                record.ts_ms,
                seen.record.ts_ms,
                summary=f"the assigned callback of {self.living.member} announced {announced} partitions, but {added} "
                "were added; lines are missing, or one of them is wrong",
                partitions=(),
                places=[place, self.holdings.moved],
            )

    def _unbalanced(self, closed: Seen) -> Told:
        """What the application was told of is not what it was given and what was taken from it."""
        owned, told = by_partition(self.holdings.owned), self.told
        judged = self.holdings.told and self.living.whole_start and self.living.in_order
        if judged and told is not None and told != len(owned):
            yield self.holdings.finding(
                FindingKind.ILLEGAL_TRANSITION,
                self.balanced_ms,
                closed.record.ts_ms,
                summary=f"the callbacks of {self.living.member} leave it with {told} partitions, the lines that add "
                f"and drop them with {len(owned)}; lines are missing, or stand there twice",
                partitions=owned,
                places=[closed.place],
            )

    def _never_added(self, partitions: list[Partition]) -> Told:
        """Partitions that were dropped, not owned, and not added in the same moment."""
        gone = {p: self.dropped_unowned.pop(p) for p in partitions}
        if gone and self.living.in_order:
            latest_ms = max(seen.record.ts_ms for seen in gone.values())
            yield self.holdings.not_owned("dropped", gone, latest_ms, [seen.place for seen in gone.values()])

    def _added_twice(self, partitions: list[Partition]) -> Told:
        """Partitions that were added though they were owned, and not dropped in the same moment."""
        twice = {p: self.added_owned.pop(p) for p in partitions}
        if twice and (self.living.in_order or self.living.dealt):
            latest_ms = max(seen.record.ts_ms for seen in twice.values())
            yield from self.holdings.given_again(twice, latest_ms, [seen.place for seen in twice.values()])

    def _forget(self) -> Told:
        """Nothing goes under the last callback any more; a loss is told with all that went."""
        callback, self.callback = self.callback, None
        if callback is not None and callback.kind is Ended.LOST and callback.dropped:
            partitions = [(i.topic, i.partition) for i in callback.dropped]
            places = [callback.place, *(i.end for i in callback.dropped)]
            yield self.holdings.lost(partitions, callback.start_ms, callback.dropped[-1].end_ms, places, callback.cause)


_STEPS: dict[Kind, Callable[[Exact, Seen], Told]] = {
    Kind.ADDED: Exact._added,
    Kind.DROPPED: Exact._dropped,
    Kind.OWNED: Exact._acknowledged,
    Kind.ASSIGN_BEGIN: Exact._assign_begin,
    Kind.REVOKE_BEGIN: Exact._revoke_begin,
    Kind.LOST_DECIDED: Exact._lost_decided,
    Kind.LOST_BEGIN: Exact._lost_begin,
    Kind.CLOSE_END: Exact._closed,
}
