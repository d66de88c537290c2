"""What one member owns, as its application sees it, and what is wrong with how it is told.

A partition is owned from the start of the assigned callback to the end of the revoked callback, the start of
the lost callback, or the end of the process. Where no line says that a revoked callback ended (INFO logs of the
Java client), it ended before the application's next sign of life: another callback, or the step on which the
background thread waits for it. A member without listener gets no callbacks: it owns what its `Reconciling`
block lists from the moment it acknowledges (java-logs A3).

A client that prints each partition it adds and drops (librdkafka) is taken at its word: `ADDED` and `DROPPED`
begin and end ownership, and the callbacks only say why.

The state is what the member owns plus a few places.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from fsm.audit.findings import Cause, Finding, FindingKind, finding
from fsm.audit.life import Living
from fsm.audit.limits import CLOSE_TIMEOUT_MS, SETTLED_MS
from fsm.audit.rows import Begun, Ended, Interval, Place, Seen
from fsm.audit.wording import names, seconds
from fsm.trace import Kind, Partition, TraceRecord, by_partition

Told = Iterator[Interval | Finding]
_AFTER_CALLBACK = ("ACKNOWLEDGING", "PREPARE_LEAVING", "LEAVING", "UNSUBSCRIBED")
"""States that a Java member enters only when its revoked callback has returned, or will never be waited for."""


@dataclass(frozen=True, slots=True)
class _Held:
    start_ms: int
    start: Place
    begun: Begun


@dataclass(slots=True)
class _Callback:
    """A revoked or lost callback: running, or the last one there was."""

    kind: Ended
    start_ms: int
    place: Place
    partitions: tuple[Partition, ...]
    dropped: list[tuple[Partition, int, Place]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Void:
    """Since when, and why, the coordinator no longer counts this member as owner."""

    ms: int
    cause: Cause


class Ownership:
    """Follows the ownership of one life; every life gets a new one."""

    def __init__(self, living: Living) -> None:
        self.living = living
        self.owned: dict[Partition, _Held] = {}
        self.callback: _Callback | None = None
        self.assigning: tuple[int, Place] | None = None
        self.void: _Void | None = None
        self.block: TraceRecord | None = None
        self.silent: list[tuple[Partition, int, Place]] = []
        """Partitions dropped without a callback, until they are reported together."""
        self.told = False
        """The application has a listener: a callback was seen in this life."""
        self.exact = False
        """The client prints each partition it adds and drops."""
        self.complete = living.whole_start
        """Everything owned is known; False while partitions may be owned since before the log began."""
        self.cause = Cause.NONE
        """Why partitions that go without a word went."""
        self.deleted_ms: int | None = None
        """When a commit was refused because its topic exists no more."""
        self.failed = False
        """The callback that was running last has failed; clients print that more than once."""
        self.lost_decided = False
        """The client counts its assignment as lost: the next revoked callback is a lost callback."""

    def see(self, seen: Seen) -> Told:
        """The rows that end with this record."""
        if self.silent and seen.record.kind is not Kind.DROPPED:
            yield from self._silent_drops()
        step = _STEPS.get(seen.record.kind)
        if step is not None:
            yield from step(self, seen)

    def end(self, how: Ended) -> Told:
        """Everything still owned ends with the life."""
        yield from self._silent_drops()
        yield from self._lost_drops()
        if how is Ended.LOG_ENDED and self.living.closing_ms is not None and self.owned and self.told:
            yield self._never_told(by_partition(self.owned), self.living.closing_ms, [self.living.last])
            how = Ended.HANGS
        yield from self._release(list(self.owned), self.living.last_ms, self.living.last, how)

    # -- callbacks --------------------------------------------------------------------------------------

    def _assign_begin(self, seen: Seen) -> Told:
        record, place = seen
        self.told = True
        self.failed = False
        self.block = None
        yield from self._lost_drops()
        yield from self._returns(record.ts_ms, place)
        self.assigning = (record.ts_ms, place)
        if record.partitions and not self.exact:
            self._take(record.partitions, record.ts_ms, place)

    def _assign_end(self, seen: Seen) -> Told:
        begun, self.assigning = self.assigning, None
        if begun is not None:
            yield from self._slow("assigned", begun[0], seen.record.ts_ms, (), (begun[1], seen.place))

    def _revoke_begin(self, seen: Seen) -> Told:
        if self.lost_decided:
            yield from self._begins(seen, Ended.LOST, "lost")
        else:
            yield from self._begins(seen, Ended.REVOKED, "revoked")

    def _decide_loss(self, _seen: Seen) -> Told:
        self.lost_decided = True
        self.callback = None
        return iter(())

    def _lost_end(self, seen: Seen) -> Told:
        self.lost_decided = False
        return self._callback_end(seen)

    def _lost_begin(self, seen: Seen) -> Told:
        yield from self._begins(seen, Ended.LOST, "lost")
        record, place = seen
        if record.partitions and not self.exact:
            yield self._lost(record.partitions, record.ts_ms, record.ts_ms, [place])
            yield from self._release(record.partitions, record.ts_ms, place, Ended.LOST)

    def _begins(self, seen: Seen, kind: Ended, name: str) -> Told:
        record, place = seen
        self.told = True
        self.failed = False
        self.assigning = None
        yield from self._lost_drops()
        yield from self._returns(record.ts_ms, place)
        foreign = [p for p in record.partitions if p not in self.owned]
        if foreign and not self.complete:
            self._find(foreign)
        elif foreign:
            yield self._not_owned(foreign, record.ts_ms, place, name)
        self.callback = _Callback(kind, record.ts_ms, place, record.partitions)

    def _callback_end(self, seen: Seen) -> Told:
        yield from self._returns(seen.record.ts_ms, seen.place)

    def _joining(self, seen: Seen) -> Told:
        """A join is sent by the application's thread; a mere wish to join comes from any."""
        return iter(()) if seen.record.detail else self._callback_end(seen)

    def _callback_failed(self, seen: Seen) -> Told:
        record, place = seen
        if not self.failed:
            yield self._raised(record, place, self.callback)
        self.failed = True
        yield from self._returns(record.ts_ms, place)

    def _commit_failed(self, seen: Seen) -> Told:
        if "UNKNOWN_TOPIC" in seen.record.detail or "UnknownTopic" in seen.record.detail:
            self.deleted_ms = seen.record.ts_ms
        return iter(())

    def _returns(self, ts_ms: int, place: Place) -> Told:
        """The callback that was running is over."""
        if self.exact:
            return
        running, self.callback = self.callback, None
        if running is not None and running.kind is Ended.REVOKED:
            places = (running.place, place)
            yield from self._slow("revoked", running.start_ms, ts_ms, running.partitions, places)
            gone = self.deleted_ms is not None and running.start_ms - self.deleted_ms <= SETTLED_MS
            how = Ended.DELETED if gone else Ended.REVOKED
            yield from self._release(running.partitions, ts_ms, running.place, how)

    # -- what the client itself says --------------------------------------------------------------------

    def _added(self, seen: Seen) -> Told:
        record, place = seen
        self.exact = True
        self._take(record.partitions, record.ts_ms, place)
        return iter(())

    def _dropped(self, seen: Seen) -> Told:
        record, place = seen
        self.exact = True
        if not self.complete:
            self._find(p for p in record.partitions if p not in self.owned)
        gone = [p for p in record.partitions if p in self.owned]
        if self.callback is not None:
            self.callback.dropped.extend((p, record.ts_ms, place) for p in gone)
            yield from self._release(gone, record.ts_ms, place, self.callback.kind)
        elif self.living.closing_ms is not None:
            yield from self._release(gone, record.ts_ms, place, Ended.CLOSED)
        else:
            if self.told:
                self.silent.extend((p, record.ts_ms, place) for p in gone)
            yield from self._release(gone, record.ts_ms, place, Ended.DROPPED)

    def _reconciling(self, seen: Seen) -> Told:
        record = self.block = seen.record
        if record.full is not None and not self.complete:
            current = (set(record.full) - set(record.partitions)) | set(record.revoked)
            self._find(p for p in sorted(current) if p not in self.owned)
            self.complete = True
        return iter(())

    def _transition(self, seen: Seen) -> Told:
        record, place = seen
        if record.next_state in _AFTER_CALLBACK:
            yield from self._returns(record.ts_ms, place)
        if record.next_state == "ACKNOWLEDGING" and self.block is not None and self.block.full is not None:
            full, self.block = self.block.full, None
            if not self.told:
                yield from self._owns_exactly(full, record.ts_ms, place)

    def _owns(self, seen: Seen) -> Told:
        record, place = seen
        yield from self._owns_exactly(record.full or (), record.ts_ms, place)
        self.complete = True

    def _closed(self, seen: Seen) -> Told:
        record, place = seen
        yield from self._returns(record.ts_ms, place)
        left = by_partition(self.owned)
        if left and self.told and not self.exact:
            yield self._never_told(left, record.ts_ms, [place])
        yield from self._release(left, record.ts_ms, place, Ended.CLOSED)

    # -- the books --------------------------------------------------------------------------------------

    def voided(self, ts_ms: int, cause: Cause) -> None:
        """The coordinator has taken the partitions away; the application does not know yet."""
        if self.void is None and self.owned and self.living.closing_ms is None:
            self.void = _Void(ts_ms, cause)

    def running_ms(self, ts_ms: int) -> int:
        """How long the revoked callback has been running, 0 where none is."""
        running = self.callback
        return ts_ms - running.start_ms if running is not None and not self.exact else 0

    def _take(self, partitions: Iterable[Partition], ts_ms: int, place: Place) -> None:
        self.void = None
        for partition in partitions:
            self.owned.setdefault(partition, _Held(ts_ms, place, Begun.ASSIGNED))

    def _find(self, partitions: Iterable[Partition]) -> None:
        """Owned since before the log tells of it."""
        for partition in partitions:
            self.owned[partition] = _Held(self.living.start_ms, self.living.start, Begun.FOUND)

    def _owns_exactly(self, full: tuple[Partition, ...], ts_ms: int, place: Place) -> Told:
        kept = set(full)
        yield from self._release([p for p in self.owned if p not in kept], ts_ms, place, Ended.REASSIGNED)
        self._take(full, ts_ms, place)

    def _release(self, partitions: Iterable[Partition], ts_ms: int, place: Place, how: Ended) -> Told:
        for partition in by_partition(partitions):
            held = self.owned.pop(partition, None)
            if held is not None:
                yield self._interval(partition, held, max(ts_ms, held.start_ms), place, how)
        if not self.owned:
            self.void = None

    def _interval(self, partition: Partition, held: _Held, end_ms: int, end: Place, how: Ended) -> Interval:
        return Interval(
            group=self.living.group,
            member=self.living.member,
            topic=partition[0],
            partition=partition[1],
            start_ms=held.start_ms,
            end_ms=end_ms,
            begun=held.begun,
            ended=how,
            end_exact=how not in (Ended.LOG_ENDED, Ended.RESTARTED, Ended.HANGS),
            void_ms=self.void.ms if self.void else None,
            void_cause=self.void.cause.value if self.void else "",
            life=self.living.number,
            start=held.start,
            end=end,
        )

    # -- findings ---------------------------------------------------------------------------------------

    def _silent_drops(self) -> Told:
        """Partitions that went without a callback, together."""
        gone, self.silent = self.silent, []
        if gone:
            yield self._never_told(by_partition(p for p, _, _ in gone), gone[0][1], [place for _, _, place in gone])

    def _lost_drops(self) -> Told:
        """Partitions that went under a lost callback, together: the callback names none."""
        if not self.exact:
            return
        running, self.callback = self.callback, None
        if running is not None and running.kind is Ended.LOST and running.dropped:
            places = [running.place, *(place for _, _, place in running.dropped)]
            partitions = [p for p, _, _ in running.dropped]
            yield self._lost(partitions, running.start_ms, running.dropped[-1][1], places)

    def _lost(self, partitions: Iterable[Partition], start_ms: int, end_ms: int, places: Iterable[Place]) -> Finding:
        cause = self.void.cause if self.void else self.cause
        return self._finding(
            FindingKind.PARTITIONS_LOST,
            start_ms,
            end_ms,
            summary=f"{self.living.member} lost {names(partitions)} without a chance to commit"
            f"{_BECAUSE[cause]}; their last records may be processed twice",
            partitions=partitions,
            cause=cause,
            places=places,
        )

    def _never_told(self, partitions: tuple[Partition, ...], ts_ms: int, places: Iterable[Place]) -> Finding:
        closing = self.living.closing_ms is not None
        hangs = closing and self.living.closed_ms is None
        cause = Cause.CLOSE_HANGS if hangs else self.cause
        how = "whose close() never came back" if hangs else "when it was closed" if closing else "while it ran"
        found = self._finding(
            FindingKind.LOST_WITHOUT_CALLBACK,
            ts_ms,
            ts_ms + CLOSE_TIMEOUT_MS if hangs else ts_ms,
            summary=f"{names(partitions)} were taken from {self.living.member} {how}{_BECAUSE[cause]}, "
            "and no callback told its application",
            partitions=partitions,
            cause=cause,
            places=places,
        )
        return found.lowered() if hangs else found

    def _not_owned(self, partitions: list[Partition], ts_ms: int, place: Place, name: str) -> Finding:
        return self._finding(
            FindingKind.CALLBACK_NOT_OWNED,
            ts_ms,
            ts_ms,
            summary=f"{self.living.member} got a {name} callback for {names(partitions)}, "
            "which its application no longer held",
            partitions=partitions,
            places=[place],
        )

    def _raised(self, record: TraceRecord, place: Place, running: _Callback | None) -> Finding:
        return self._finding(
            FindingKind.LISTENER_ERROR,
            running.start_ms if running else record.ts_ms,
            record.ts_ms,
            summary=f"the {record.event or 'rebalance'} callback of {self.living.member} raised an error"
            + (f": {record.detail}" if record.detail else ""),
            partitions=running.partitions if running else record.partitions,
            places=[running.place, place] if running else [place],
        )

    def _slow(
        self, name: str, start_ms: int, end_ms: int, partitions: tuple[Partition, ...], places: Iterable[Place]
    ) -> Iterator[Finding]:
        limit_ms = self.living.setting_ms("max.poll.interval.ms")
        if limit_ms is None or end_ms - start_ms <= limit_ms:
            return
        yield self._finding(
            FindingKind.SLOW_CALLBACK,
            start_ms,
            end_ms,
            summary=f"the {name} callback of {self.living.member} took {seconds(end_ms - start_ms)}; "
            f"the group waits {seconds(limit_ms)} (max.poll.interval.ms) and then gives its partitions away",
            partitions=partitions,
            places=places,
        )

    def _finding(
        self,
        kind: FindingKind,
        start_ms: int,
        end_ms: int,
        *,
        summary: str,
        partitions: Iterable[Partition],
        cause: Cause = Cause.NONE,
        places: Iterable[Place],
    ) -> Finding:
        return finding(
            kind,
            self.living.group,
            self.living.member,
            start_ms,
            end_ms,
            summary=summary,
            partitions=partitions,
            cause=cause,
            places=places,
        )


_BECAUSE: dict[Cause, str] = dict.fromkeys(Cause, "") | {
    Cause.NO_POLL: " because it did not poll in time",
    Cause.SESSION_EXPIRED: " because the coordinator heard nothing from it for a session",
    Cause.SLOW_CALLBACK: " because its revoked callback took too long",
    Cause.FENCED: " because the coordinator fenced it",
    Cause.FATAL_ERROR: " because of a fatal error",
}

_STEPS: dict[Kind, Callable[[Ownership, Seen], Told]] = {
    Kind.ASSIGN_BEGIN: Ownership._assign_begin,
    Kind.ASSIGN_END: Ownership._assign_end,
    Kind.REVOKE_BEGIN: Ownership._revoke_begin,
    Kind.REVOKE_END: Ownership._callback_end,
    Kind.LOST_BEGIN: Ownership._lost_begin,
    Kind.LOST_DECIDED: Ownership._decide_loss,
    Kind.LOST_END: Ownership._lost_end,
    Kind.CALLBACK_FAILED: Ownership._callback_failed,
    Kind.ADDED: Ownership._added,
    Kind.COMMIT_FAILED: Ownership._commit_failed,
    Kind.DROPPED: Ownership._dropped,
    Kind.RECONCILING: Ownership._reconciling,
    Kind.TRANSITION: Ownership._transition,
    Kind.OWNED: Ownership._owns,
    Kind.UNSUBSCRIBED: Ownership._callback_end,
    Kind.JOINING: Ownership._joining,
    Kind.CLOSE_BEGIN: Ownership._callback_end,
    Kind.CLOSE_END: Ownership._closed,
}
