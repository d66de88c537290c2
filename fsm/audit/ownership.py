"""What one member owns, as its application sees it, and what is wrong with how it is told.

A partition is owned from the start of the assigned callback to the end of the revoked callback, the start of
the lost callback, or the end of the process. Where no line says that a revoked callback ended (INFO logs of the
Java client), it ended before the application's next sign of life: another callback, or the step on which the
background thread waits for it. A member without listener gets no callbacks: it owns what its `Reconciling`
block lists from the moment it acknowledges (java-logs A3).

A client that prints each partition it adds and drops is followed by `exact` instead. The state is what the member
owns plus a few places.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from fsm.audit.exact import Exact
from fsm.audit.findings import FindingKind
from fsm.audit.holdings import Holdings, Told
from fsm.audit.life import LIBRDKAFKA, Living
from fsm.audit.limits import SETTLED_MS
from fsm.audit.rows import NOWHERE, Ended, Place, Seen
from fsm.audit.wording import names, seconds
from fsm.trace import Kind, Partition, TraceRecord, by_partition

_AFTER_CALLBACK = ("ACKNOWLEDGING", "PREPARE_LEAVING", "LEAVING", "UNSUBSCRIBED")
"""States that a Java member enters only when its revoked callback has returned, or will never be waited for."""


@dataclass(frozen=True, slots=True)
class _Callback:
    """A running callback."""

    kind: Ended
    start_ms: int
    place: Place
    partitions: tuple[Partition, ...]


class Ownership:
    """Follows the ownership of one life; every life gets a new one."""

    def __init__(self, living: Living) -> None:
        self.living = living
        self.holdings = Holdings(living)
        self.exact = Exact(living, self.holdings)
        self.callback: _Callback | None = None
        self.assigning: tuple[int, Place] | None = None
        self.block: TraceRecord | None = None
        self.returned: tuple[int, Place] = (0, NOWHERE)
        """When a callback returned that had not begun: in another file its begin may stand in the same millisecond."""
        self.deleted_ms: int | None = None
        """When a commit was refused because its topic exists no more."""
        self.failed = False
        """The callback that was running last has failed; clients print that more than once."""

    def see(self, seen: Seen) -> Told:
        """The rows that end with this record."""
        if self.living.client == LIBRDKAFKA:
            yield from self.exact.see(seen)
            return
        step = _STEPS.get(seen.record.kind)
        if step is not None:
            yield from step(self, seen)

    def end(self, how: Ended) -> Told:
        """Everything still owned ends with the life."""
        yield from self.exact.end()
        living, holdings = self.living, self.holdings
        if how is Ended.LOG_ENDED and living.closing_ms is not None and holdings.owned and holdings.told:
            yield holdings.never_told(by_partition(holdings.owned), living.closing_ms, [living.last])
            how = Ended.HANGS
        yield from holdings.release(list(holdings.owned), living.last_ms, living.last, how)

    def running_ms(self, ts_ms: int) -> int:
        """How long the revoked callback has been running, 0 where none is."""
        return ts_ms - self.callback.start_ms if self.callback is not None else 0

    # -- callbacks --------------------------------------------------------------------------------------

    def _assign_begin(self, seen: Seen) -> Told:
        record, place = seen
        self.holdings.told = True
        failed, self.failed = self.failed, False
        yield from self._returns(record.ts_ms, place)
        yield from self._given_up(record.ts_ms, place)
        if not failed and (self.living.in_order or self.living.dealt):
            yield from self.holdings.given_again(record.partitions, record.ts_ms, [place])
        self.assigning = (record.ts_ms, place)
        self.holdings.take(record.partitions, record.ts_ms, place)

    def _given_up(self, ts_ms: int, place: Place) -> Told:
        """What the block took away is gone when its assigned callback comes, even if no line says so."""
        block, self.block = self.block, None
        left = [p for p in block.revoked if p in self.holdings.owned] if block is not None else []
        if left and self.living.in_order:
            yield from self._untold(left, "gave up", ts_ms, place)
            yield from self.holdings.release(left, ts_ms, place, Ended.REASSIGNED)

    def _untold(self, partitions: list[Partition], what: str, ts_ms: int, place: Place) -> Told:
        """A member with a listener went on without the line of a callback: the line is missing."""
        if partitions and self.holdings.told:
            yield self.holdings.finding(
                FindingKind.ILLEGAL_TRANSITION,
                ts_ms,
                ts_ms,
                summary=f"{self.living.member} {what} {names(partitions)} and went on without the callback for it; "
                "lines are missing",
                partitions=partitions,
                places=[place],
            )

    def _assign_end(self, seen: Seen) -> Told:
        begun, self.assigning = self.assigning, None
        if begun is not None:
            yield from self._slow("assigned", begun[0], seen.record.ts_ms, (), (begun[1], seen.place))

    def _revoke_begin(self, seen: Seen) -> Told:
        yield from self._begins(seen, Ended.REVOKED, "revoked")

    def _lost_begin(self, seen: Seen) -> Told:
        yield from self._begins(seen, Ended.LOST, "lost")
        record, place = seen
        if record.partitions:
            yield self.holdings.lost(record.partitions, record.ts_ms, record.ts_ms, [place])
            yield from self.holdings.release(record.partitions, record.ts_ms, place, Ended.LOST)

    def _begins(self, seen: Seen, kind: Ended, name: str) -> Told:
        record, place = seen
        self.holdings.told = True
        self.failed = False
        self.assigning = None
        yield from self._returns(record.ts_ms, place)
        foreign = self.holdings.foreign(record.partitions)
        self.holdings.find(p for p in record.partitions if p not in foreign)
        if foreign:
            yield self.holdings.not_owned(f"got a {name} callback for", foreign, record.ts_ms, [place])
        self.callback = _Callback(kind, record.ts_ms, place, record.partitions)
        ended_ms, ended = self.returned
        if ended_ms == record.ts_ms and ended.file != place.file:
            yield from self._returns(record.ts_ms, place)

    def _callback_end(self, seen: Seen) -> Told:
        if self.callback is None:
            self.returned = (seen.record.ts_ms, seen.place)
        yield from self._returns(seen.record.ts_ms, seen.place)

    def _joining(self, seen: Seen) -> Told:
        """A join is sent by the application's thread; a mere wish to join comes from any."""
        return iter(()) if seen.record.detail else self._callback_end(seen)

    def _callback_failed(self, seen: Seen) -> Told:
        record, place = seen
        running = self.callback
        if not self.failed:
            yield self.holdings.finding(
                FindingKind.LISTENER_ERROR,
                running.start_ms if running else record.ts_ms,
                record.ts_ms,
                summary=f"the {record.event or 'rebalance'} callback of {self.living.member} raised an error"
                + (f": {record.detail}" if record.detail else ""),
                partitions=running.partitions if running else record.partitions,
                places=[running.place, place] if running else [place],
            )
        self.failed = True
        yield from self._returns(record.ts_ms, place)

    def _returns(self, ts_ms: int, place: Place) -> Told:
        """The callback that was running is over."""
        running, self.callback = self.callback, None
        if running is None or running.kind is not Ended.REVOKED:
            return
        yield from self._slow("revoked", running.start_ms, ts_ms, running.partitions, (running.place, place))
        gone = self.deleted_ms is not None and running.start_ms - self.deleted_ms <= SETTLED_MS
        how = Ended.DELETED if gone else Ended.REVOKED
        yield from self.holdings.release(running.partitions, ts_ms, running.place, how)

    def _slow(
        self, name: str, start_ms: int, end_ms: int, partitions: tuple[Partition, ...], places: Iterable[Place]
    ) -> Told:
        limit_ms = self.living.setting_ms("max.poll.interval.ms")
        if limit_ms is None or end_ms - start_ms <= limit_ms:
            return
        yield self.holdings.finding(
            FindingKind.SLOW_CALLBACK,
            start_ms,
            end_ms,
            summary=f"the {name} callback of {self.living.member} took {seconds(end_ms - start_ms)}; "
            f"the group waits {seconds(limit_ms)} (max.poll.interval.ms) and then gives its partitions away",
            partitions=partitions,
            places=places,
        )

    # -- without callbacks ------------------------------------------------------------------------------

    def _reconciling(self, seen: Seen) -> Told:
        record = self.block = seen.record
        if record.full is not None and not self.holdings.complete:
            self.holdings.find(sorted((set(record.full) - set(record.partitions)) | set(record.revoked)))
            self.holdings.complete = True
        elif record.full is not None and not self.failed:  # a revoked callback that failed changes nothing
            owned = (set(record.full) - set(record.partitions)) | set(record.revoked)
            yield from self.holdings.otherwise(owned, record.ts_ms, seen.place)

    def _transition(self, seen: Seen) -> Told:
        record, place = seen
        if record.next_state in _AFTER_CALLBACK:
            yield from self._returns(record.ts_ms, place)
        if record.next_state == "ACKNOWLEDGING" and self.block is not None and self.block.full is not None:
            # With a listener its assigned callback has come first, and the block is gone; or its line is missing.
            full, self.block = self.block.full, None
            if self.holdings.told and not self.living.in_order:
                return
            new = [p for p in full if p not in self.holdings.owned]
            yield from self._untold(new, "took", record.ts_ms, place)
            yield from self.holdings.exactly(full, record.ts_ms, place)

    def _owns(self, seen: Seen) -> Told:
        record, place = seen
        yield from self.holdings.exactly(record.full or (), record.ts_ms, place)
        self.holdings.complete = True

    def _commit_failed(self, seen: Seen) -> Told:
        if "UNKNOWN_TOPIC" in seen.record.detail or "UnknownTopic" in seen.record.detail:
            self.deleted_ms = seen.record.ts_ms
        return iter(())

    def _closed(self, seen: Seen) -> Told:
        record, place = seen
        yield from self._returns(record.ts_ms, place)
        left = by_partition(self.holdings.owned)
        if left and self.holdings.told and not self.living.stays:
            yield self.holdings.never_told(left, record.ts_ms, [place])
        yield from self.holdings.release(left, record.ts_ms, place, Ended.CLOSED)


_STEPS: dict[Kind, Callable[[Ownership, Seen], Told]] = {
    Kind.ASSIGN_BEGIN: Ownership._assign_begin,
    Kind.ASSIGN_END: Ownership._assign_end,
    Kind.REVOKE_BEGIN: Ownership._revoke_begin,
    Kind.REVOKE_END: Ownership._callback_end,
    Kind.LOST_BEGIN: Ownership._lost_begin,
    Kind.LOST_END: Ownership._callback_end,
    Kind.CALLBACK_FAILED: Ownership._callback_failed,
    Kind.COMMIT_FAILED: Ownership._commit_failed,
    Kind.RECONCILING: Ownership._reconciling,
    Kind.TRANSITION: Ownership._transition,
    Kind.OWNED: Ownership._owns,
    Kind.UNSUBSCRIBED: Ownership._callback_end,
    Kind.JOINING: Ownership._joining,
    Kind.CLOSE_BEGIN: Ownership._callback_end,
    Kind.CLOSE_END: Ownership._closed,
}
