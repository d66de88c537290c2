"""The books of one life: what is owned since when, and the findings that name partitions."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from fsm.audit.findings import Cause, Finding, FindingKind, Severity, finding
from fsm.audit.life import Living
from fsm.audit.limits import CLOSE_TIMEOUT_MS, REORDER_MS
from fsm.audit.rows import Begun, Ended, Interval, Place
from fsm.audit.wording import names
from fsm.trace import Partition, by_partition

Told = Iterator[Interval | Finding]


@dataclass(frozen=True, slots=True)
class Held:
    """Since when a partition is owned."""

    start_ms: int
    start: Place
    begun: Begun
    turn_ms: int | None = None
    """When the rebalance began that gave it."""


@dataclass(frozen=True, slots=True)
class Void:
    """Since when, and why, the coordinator no longer counts this member as owner."""

    ms: int
    cause: Cause


class Holdings:
    """What one life owns."""

    def __init__(self, living: Living) -> None:
        self.living = living
        self.owned: dict[Partition, Held] = {}
        self.void: Void | None = None
        self.told = False
        """The application has a listener: a callback was seen in this life."""
        self.complete = living.whole_start
        """Everything owned is known; False while partitions may be owned since before the log began."""
        self.given_up: set[Partition] = set()
        """Partitions that were owned and are not any more."""
        self.moved = living.start
        """Where the last change stands."""
        self.cause = Cause.NONE
        """Why partitions go that go now."""

    def voided(self, ts_ms: int, cause: Cause) -> None:
        """The coordinator has taken the partitions away; the application does not know yet."""
        if self.void is None and self.owned and self.living.closing_ms is None:
            self.void = Void(ts_ms, cause)

    def take(self, partitions: Iterable[Partition], ts_ms: int, place: Place) -> None:
        """Owned from now on, where it is not owned already."""
        self.moved = place
        for partition in partitions:
            self.void = None
            self.given_up.discard(partition)
            self.owned.setdefault(partition, Held(ts_ms, place, Begun.ASSIGNED, self.living.turn_ms))

    def find(self, partitions: Iterable[Partition], since: tuple[int, Place] | None = None) -> None:
        """Owned before a line tells of it, where it was not known: since this life's log begins, or since a moment."""
        ts_ms, place = since or (self.living.start_ms, self.living.start)
        for partition in partitions:
            self.owned.setdefault(partition, Held(ts_ms, place, Begun.FOUND))

    def foreign(self, partitions: Iterable[Partition]) -> list[Partition]:
        """Those that are certainly not owned."""
        known = self.given_up if self.living.in_order else set()
        return [p for p in partitions if p not in self.owned and (self.complete or p in known)]

    def release(self, partitions: Iterable[Partition], ts_ms: int, place: Place, how: Ended) -> Iterator[Interval]:
        """The intervals of those partitions that were owned."""
        for partition in by_partition(partitions):
            held = self.owned.pop(partition, None)
            if held is not None:
                self.moved = place
                self.given_up.add(partition)
                yield self._interval(partition, held, max(ts_ms, held.start_ms), place, how)
        if not self.owned:
            self.void = None

    def exactly(self, full: tuple[Partition, ...], ts_ms: int, place: Place) -> Iterator[Interval]:
        """Owned is this and nothing else."""
        kept = set(full)
        yield from self.release([p for p in self.owned if p not in kept], ts_ms, place, Ended.REASSIGNED)
        self.take(full, ts_ms, place)

    def _interval(self, partition: Partition, held: Held, end_ms: int, end: Place, how: Ended) -> Interval:
        return Interval(
            group=self.living.group,
            member=self.living.member,
            topic=partition[0],
            partition=partition[1],
            start_ms=held.start_ms,
            end_ms=end_ms,
            begun=held.begun,
            ended=how,
            end_exact=how not in (Ended.LOG_ENDED, Ended.RESTARTED, Ended.HOLE, Ended.HANGS),
            doubtful=self.living.doubtful_ms is not None,
            void_ms=self.void.ms if self.void else None,
            void_cause=self.void.cause.value if self.void else "",
            life=self.living.number,
            start=held.start,
            end=end,
            turn_ms=held.turn_ms,
        )

    # -- findings ---------------------------------------------------------------------------------------

    def lost(
        self,
        partitions: Iterable[Partition],
        start_ms: int,
        end_ms: int,
        places: Iterable[Place],
        cause: Cause | None = None,
    ) -> Finding:
        """Partitions went through the lost callback; the cause is that of the moment unless it is given."""
        if cause is None:
            cause = self.void.cause if self.void else self.cause
        return self.finding(
            FindingKind.PARTITIONS_LOST,
            start_ms,
            end_ms,
            summary=f"{self.living.member} lost {names(partitions)} without a chance to commit"
            f"{BECAUSE[cause]}; their last records may be processed twice",
            partitions=partitions,
            cause=cause,
            places=places,
        )

    def never_told(self, partitions: tuple[Partition, ...], ts_ms: int, places: Iterable[Place]) -> Finding:
        """Partitions went and no callback said so; where the log just ends in close() it may have been cut there."""
        closing = self.living.closing_ms is not None
        hangs = closing and self.living.closed_ms is None
        cause = Cause.CLOSE_HANGS if hangs else self.cause
        how = "whose close() never came back" if hangs else "when it was closed" if closing else "while it ran"
        found = self.finding(
            FindingKind.LOST_WITHOUT_CALLBACK,
            ts_ms,
            ts_ms + CLOSE_TIMEOUT_MS if hangs else ts_ms,
            summary=f"{names(partitions)} were taken from {self.living.member} {how}{BECAUSE[cause]}, "
            "and no callback told its application",
            partitions=partitions,
            cause=cause,
            places=places,
        )
        return replace(found, severity=Severity.INFO) if hangs else found

    def given_again(self, partitions: Iterable[Partition], ts_ms: int, places: Sequence[Place]) -> Told:
        """The application was given what it had already, with nothing missing in between as far as is known."""
        owned = {p: self.owned[p] for p in by_partition(partitions) if p in self.owned}
        twice = by_partition(p for p, held in owned.items() if self._follows(held, ts_ms, places[-1]))
        if twice:
            found = self.finding(
                FindingKind.ILLEGAL_TRANSITION,
                ts_ms,
                ts_ms,
                summary=f"{self.living.member} was given {names(twice)} though it had not given them up; "
                "lines are missing, or stand there twice",
                partitions=twice,
                places=places,
            )
            yield replace(found, severity=Severity.INFO) if self.living.dealt else found

    def otherwise(self, says: Collection[Partition], ts_ms: int, place: Place) -> Told:
        """The client says that it owns this, and its lines before say otherwise."""
        known = self.complete and self.living.in_order and self.living.unbroken(self.moved.file, place.file)
        if not known or set(says) == self.owned.keys():
            return
        differ = by_partition(self.owned.keys() ^ set(says))
        yield self.finding(
            FindingKind.ILLEGAL_TRANSITION,
            ts_ms,
            ts_ms,
            summary=f"{self.living.member} says that it owns {_or_nothing(says)}, but by its lines before it owns "
            f"{_or_nothing(self.owned)}; lines are missing, or one of them is wrong",
            partitions=differ,
            places=[self.moved, place],
        )

    def _follows(self, held: Held, ts_ms: int, place: Place) -> bool:
        """The line comes after that which gave the partition, with nothing missing in between."""
        if held.begun is not Begun.ASSIGNED:
            return False
        later = self.living.dealt and ts_ms - held.start_ms > REORDER_MS
        return later or self.living.unbroken(held.start.file, place.file)

    def not_owned(self, what: str, partitions: Iterable[Partition], ts_ms: int, places: Iterable[Place]) -> Finding:
        """The application was told to give up what it did not have."""
        gone = by_partition(partitions)
        return self.finding(
            FindingKind.CALLBACK_NOT_OWNED,
            ts_ms,
            ts_ms,
            summary=f"{self.living.member} {what} {names(gone)}, which its application no longer held",
            partitions=gone,
            places=places,
        )

    def finding(
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
        """A finding about this member."""
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


def _or_nothing(partitions: Iterable[Partition]) -> str:
    return names(by_partition(partitions)) or "nothing"


BECAUSE: dict[Cause, str] = dict.fromkeys(Cause, "") | {
    Cause.NO_POLL: " because it did not poll in time",
    Cause.SESSION_EXPIRED: " because the coordinator heard nothing from it for a session",
    Cause.SLOW_CALLBACK: " because its revoked callback took too long",
    Cause.FENCED: " because the coordinator fenced it",
    Cause.FATAL_ERROR: " because of a fatal error",
}
"""How a cause goes on from a sentence about what happened."""
