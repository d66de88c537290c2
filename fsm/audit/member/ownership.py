"""What one consumer instance owns, as its application sees it, and what is wrong with how it learns of changes.

A partition is owned from the start of the assigned callback to the end of the revoked callback, the start of the lost
callback, or the end of the process. Where no line says that a revoked callback ended (INFO logs of the Java client), it
ended before the application's next sign of life: another callback, or the transition for which the background thread
waits for it. A member without listener gets no callbacks: it owns what its `Reconciling` block lists from the moment it
acknowledges.

A client that prints each partition it adds and drops is followed by `LibrdkafkaOwnership` instead.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from fsm.audit.findings import FindingKind
from fsm.audit.limits import REORDER_MS, SETTLED_MS
from fsm.audit.member.consumer_instance import ConsumerInstance
from fsm.audit.member.librdkafka_ownership import LibrdkafkaOwnership
from fsm.audit.member.owned_partitions import OwnedPartitions, Rows
from fsm.audit.rows import NOWHERE, Ended, Place, Seen
from fsm.audit.wording import names, seconds
from fsm.logs import ClientFacts
from fsm.logs.client_words import NOTHING_OWNED
from fsm.trace import Kind, Partition, TraceRecord, by_partition

_AFTER_CALLBACK = ("ACKNOWLEDGING", "PREPARE_LEAVING", "LEAVING", "UNSUBSCRIBED")
"""States that a Java member enters only when its revoked callback has returned, or will never be waited for."""


@dataclass(frozen=True, slots=True)
class _Callback:
    kind: Ended
    start_ms: int
    place: Place
    partitions: tuple[Partition, ...]


class Ownership:
    def __init__(self, consumer: ConsumerInstance) -> None:
        self.consumer = consumer
        self.owned = OwnedPartitions(consumer)
        self.librdkafka = LibrdkafkaOwnership(consumer, self.owned)
        self.callback: _Callback | None = None
        self.assigning: tuple[int, Place] | None = None
        self.block: TraceRecord | None = None
        self.returned: tuple[int, Place] = (0, NOWHERE)
        """When a callback returned that had not begun: in another file its begin may stand in the same millisecond."""
        self.deleted_ms: int | None = None
        """When a commit was refused because its topic exists no more."""
        self.failed = False
        """The last callback has failed; clients print that more than once."""
        self.away = False
        """It has left its group, and may come back."""
        self.thrown_out_ms: int | None = None
        """When the coordinator said, while the last callback ran, that it does not know the member any more."""

    def see(self, seen: Seen) -> Rows:
        if self.facts.names_each_partition:
            yield from self.librdkafka.see(seen)
        elif step := _STEPS.get(seen.record.kind):
            yield from step(self, seen) or ()

    @property
    def facts(self) -> ClientFacts:
        return self.consumer.facts

    def end(self, how: Ended) -> Rows:
        yield from self.librdkafka.end()
        consumer, owned = self.consumer, self.owned
        if how is Ended.CLOSED and consumer.closed_quietly:
            consumer.closed_ms = consumer.last_ms if consumer.left_ms is None else consumer.left_ms
            consumer.closing_ms = consumer.closing_ms or consumer.closed_ms
            yield from self._close(consumer.closed_ms, consumer.last)
        closing_ms = consumer.closing_ms
        if how is Ended.LOG_ENDED and closing_ms is not None and owned.partitions and owned.has_listener:
            yield owned.lost_without_callback(owned.partitions, closing_ms, [consumer.last])
            how = Ended.HANGS
        yield from owned.remove(list(owned.partitions), consumer.last_ms, consumer.last, how)

    def running_ms(self, ts_ms: int) -> int:
        """How long the revoked callback has been running, 0 where none is."""
        return ts_ms - self.callback.start_ms if self.callback is not None else 0

    # -- callbacks --------------------------------------------------------------------------------------

    def _assign_begin(self, seen: Seen) -> Rows:
        record, place = seen
        self.owned.has_listener = True
        failed, self.failed = self.failed, False
        yield from self._return(record.ts_ms, place, told=self.facts.tells_return)
        yield from self._give_up(record.ts_ms, place)
        if not failed and (self.consumer.in_order or self.consumer.interleaved):
            yield from self.owned.added_twice(record.partitions, record.ts_ms, [place])
        self.assigning = (record.ts_ms, place)
        self.owned.add(record.partitions, record.ts_ms, place)

    def _give_up(self, ts_ms: int, place: Place) -> Rows:
        """What the block took away is gone when its assigned callback comes, even if no line says so."""
        block, self.block = self.block, None
        left = [p for p in block.revoked if p in self.owned.partitions] if block is not None else []
        if left and self.consumer.in_order:
            yield from self._without_callback(left, "gave up", ts_ms, place)
            yield from self.owned.remove(left, ts_ms, place, Ended.REASSIGNED)

    def _without_callback(self, partitions: list[Partition], what: str, ts_ms: int, place: Place) -> Rows:
        """A member with a listener went on without the line of a callback: the line is missing."""
        if partitions and self.owned.has_listener:
            member = self.consumer.member
            summary = f"{member} {what} {names(partitions)} and went on without the callback for it; lines are missing"
            kind = FindingKind.ILLEGAL_TRANSITION
            yield self.consumer.finding(kind, ts_ms, ts_ms, summary, [place], partitions=partitions)

    def _assign_end(self, seen: Seen) -> Rows:
        begun, self.assigning = self.assigning, None
        if begun is not None:
            yield from self._check_duration("assigned", _Callback(Ended.REVOKED, *begun, ()), *_at(seen))

    def _revoke_begin(self, seen: Seen) -> Rows:
        yield from self._begin(seen, Ended.REVOKED, "revoked")

    def _lost_begin(self, seen: Seen) -> Rows:
        yield from self._begin(seen, Ended.LOST, "lost")
        record, place = seen
        lost = self._about(record)
        if lost:
            yield self.owned.partitions_lost(lost, record.ts_ms, record.ts_ms, [place])
            yield from self.owned.remove(lost, record.ts_ms, place, Ended.LOST)

    def _about(self, record: TraceRecord) -> tuple[Partition, ...]:
        """What a revoked or lost callback is about: what its line names, or everything where it says so."""
        return by_partition(self.owned.partitions) if record.full == NOTHING_OWNED else record.partitions

    def _begin(self, seen: Seen, kind: Ended, name: str) -> Rows:
        record, place = seen
        self.owned.has_listener = True
        self.failed = False
        self.assigning = None
        yield from self._return(record.ts_ms, place, told=self.facts.tells_return)
        partitions = self._about(record)
        not_owned = self.owned.not_owned(partitions)
        self.owned.add_found(p for p in partitions if p not in not_owned)
        if not_owned:
            yield self.owned.callback_not_owned(f"got a {name} callback for", not_owned, record.ts_ms, [place])
        self.callback = _Callback(kind, record.ts_ms, place, partitions)
        self.thrown_out_ms = None
        ended_ms, ended = self.returned
        if ended_ms == record.ts_ms and ended.file != place.file:
            yield from self._return(record.ts_ms, place)

    def _callback_end(self, seen: Seen) -> Rows:
        if self.callback is None:
            self.returned = _at(seen)
        yield from self._return(*_at(seen))

    def _close_begin(self, seen: Seen) -> Rows:
        yield from self._return(*_at(seen), told=self.facts.tells_return)

    def _joining(self, seen: Seen) -> Rows | None:
        """A join is sent by the application's thread; a mere wish to join comes from any.

        A member that has left joins when its application polls again, however long ago the callback returned.
        """
        if seen.record.detail:
            return None
        return self._return(*_at(seen), told=False) if self.away else self._callback_end(seen)

    def _left(self, _seen: Seen) -> None:
        self.away = True

    def _joined(self, _seen: Seen) -> None:
        self.away = False

    def _thrown_out(self, seen: Seen) -> None:
        self.thrown_out_ms = seen.record.ts_ms if self.thrown_out_ms is None else self.thrown_out_ms

    def _callback_failed(self, seen: Seen) -> Rows:
        record, place = seen
        callback = self.callback or _Callback(Ended.REVOKED, record.ts_ms, place, record.partitions)
        if not self.failed:
            yield self.consumer.finding(
                FindingKind.LISTENER_ERROR,
                callback.start_ms,
                record.ts_ms,
                f"the {record.event or 'rebalance'} callback of {self.consumer.member} raised an error"
                + (f": {record.detail}" if record.detail else ""),
                [callback.place, place],
                partitions=callback.partitions,
            )
        self.failed = True
        yield from self._return(record.ts_ms, place)

    def _return(self, ts_ms: int, place: Place, *, told: bool = True) -> Rows:
        """The callback has returned, if one runs: now, or, where this line does not tell, at some time before it.

        A member that was thrown out goes on at once, unless its callback still runs.
        """
        callback, self.callback = self.callback, None
        if callback is None or callback.kind is not Ended.REVOKED:
            return
        held = self.thrown_out_ms is not None and ts_ms - self.thrown_out_ms > REORDER_MS
        exact = told or held
        ts_ms = ts_ms if exact else callback.start_ms
        yield from self._check_duration("revoked", callback, ts_ms, place)
        deleted = self.deleted_ms is not None and callback.start_ms - self.deleted_ms <= SETTLED_MS
        how = Ended.DELETED if deleted else Ended.REVOKED
        yield from self.owned.remove(callback.partitions, ts_ms, callback.place, how, exact=exact)

    def _check_duration(self, name: str, callback: _Callback, end_ms: int, end: Place) -> Rows:
        limit_ms = self.consumer.setting_ms("max.poll.interval.ms")
        if limit_ms is not None and end_ms - callback.start_ms > limit_ms:
            yield self.consumer.finding(
                FindingKind.SLOW_CALLBACK,
                callback.start_ms,
                end_ms,
                f"the {name} callback of {self.consumer.member} took {seconds(end_ms - callback.start_ms)}; "
                f"the group waits {seconds(limit_ms)} (max.poll.interval.ms) and then gives its partitions away",
                [callback.place, end],
                partitions=callback.partitions,
            )

    # -- without callbacks ------------------------------------------------------------------------------

    def _reconciling(self, seen: Seen) -> Rows:
        record = self.block = seen.record
        if record.full is None:
            return
        owned = (set(record.full) - set(record.partitions)) | set(record.revoked)
        if not self.owned.complete:
            self.owned.add_found(sorted(owned))
            self.owned.complete = True
        elif not self.failed:  # a revoked callback that failed changes nothing
            yield from self.owned.check(owned, record.ts_ms, seen.place)

    def _transition(self, seen: Seen) -> Rows:
        record, place = seen
        if record.next_state in _AFTER_CALLBACK:
            yield from self._return(record.ts_ms, place)
        if record.next_state == "ACKNOWLEDGING" and self.block is not None and self.block.full is not None:
            # With a listener its assigned callback has come first, and the block is gone; or its line is missing.
            full, self.block = self.block.full, None
            if self.owned.has_listener and not self.consumer.in_order:
                return
            new = [p for p in full if p not in self.owned.partitions]
            yield from self._without_callback(new, "took", record.ts_ms, place)
            yield from self.owned.replace(full, record.ts_ms, place)

    def _owns(self, seen: Seen) -> Rows:
        yield from self.owned.replace(seen.record.full or (), *_at(seen))
        self.owned.complete = True

    def _commit_failed(self, seen: Seen) -> None:
        if "UNKNOWN_TOPIC" in seen.record.detail or "UnknownTopic" in seen.record.detail:
            self.deleted_ms = seen.record.ts_ms

    def _closed(self, seen: Seen) -> Rows:
        yield from self._close(*_at(seen))

    def _close(self, ts_ms: int, place: Place) -> Rows:
        yield from self._return(ts_ms, place, told=self.facts.tells_return)
        left = by_partition(self.owned.partitions)
        called = self.facts.close_calls_back_quietly or self.consumer.stays_in_group
        if left and self.owned.has_listener and not called:
            yield self.owned.lost_without_callback(left, ts_ms, [place])
        yield from self.owned.remove(left, ts_ms, place, Ended.CLOSED)

    def _added(self, seen: Seen) -> None:
        self.owned.add(seen.record.partitions, *_at(seen))

    def _dropped(self, seen: Seen) -> Rows:
        yield from self.owned.remove(seen.record.partitions, *_at(seen), Ended.LOST)


def _at(seen: Seen) -> tuple[int, Place]:
    return seen.record.ts_ms, seen.place


_STEPS: dict[Kind, Callable[[Ownership, Seen], Rows | None]] = {
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
    Kind.JOINED: Ownership._joined,
    Kind.LEFT: Ownership._left,
    Kind.FENCED: Ownership._thrown_out,
    Kind.ADDED: Ownership._added,
    Kind.DROPPED: Ownership._dropped,
    Kind.CLOSE_BEGIN: Ownership._close_begin,
    Kind.CLOSE_END: Ownership._closed,
}
