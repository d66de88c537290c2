"""The partitions that one consumer instance owns, and the findings about them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from fsm.audit.findings import Cause, Finding, FindingKind, Severity
from fsm.audit.follower import Follower, Void
from fsm.audit.limits import CLOSE_TIMEOUT_MS, REORDER_MS
from fsm.audit.member.consumer_instance import ConsumerInstance
from fsm.audit.rows import UNLOGGED_ENDS, At, Begun, Ended, Interval
from fsm.audit.wording import names
from fsm.trace import Partition, by_partition


@dataclass(frozen=True, slots=True)
class Owned:
    start: At
    begun: Begun
    turn_ms: int | None = None
    """Begin of the rebalance that assigned it."""


class OwnedPartitions:
    def __init__(self, consumer: ConsumerInstance) -> None:
        self.consumer = consumer
        self.partitions: dict[Partition, Owned] = {}
        self.void: Void | None = None
        self.has_listener = False
        """A callback was logged for this instance."""
        self.is_logged = False
        """A line with all owned partitions was printed."""
        self.given_up: set[Partition] = set()
        """Partitions that were owned and are no longer."""
        self.pending: dict[Partition, At] = {}
        """Partitions that stay assigned, pending revocation, though they were given up; and since when."""
        self.changed = consumer.start
        """The line of the last change."""
        self.cause = Cause.NONE
        """The cause of losses from now on."""

    @property
    def complete(self) -> bool:
        """False while partitions may be owned from before the log began."""
        return self.is_logged or self.consumer.whole_start

    def mark_void(self, ts_ms: int, cause: Cause) -> None:
        """The coordinator has removed the partitions; the application has not been notified yet."""
        if self.void is None and self.partitions and self.consumer.closing_ms is None:
            self.void = Void(ts_ms, cause)

    def add(self, partitions: Iterable[Partition], at: At) -> None:
        """Adds partitions; one that is owned already keeps its start."""
        self.changed = at
        for partition in partitions:
            self.void = None
            self.given_up.discard(partition)
            self.partitions.setdefault(partition, Owned(at, Begun.ASSIGNED, self.consumer.turn_ms))

    def add_found(self, partitions: Iterable[Partition], since: At | None = None) -> None:
        """Adds partitions that were owned before their first line: from the begin of the log, or from `since` on."""
        for partition in partitions:
            self.partitions.setdefault(partition, Owned(since or self.consumer.start, Begun.FOUND))

    def not_owned(self, partitions: Iterable[Partition]) -> list[Partition]:
        """The partitions that are certainly not owned."""
        known = self.given_up if self.consumer.in_order else set()
        own = self.partitions.keys() | self.pending.keys()
        return [p for p in partitions if p not in own and (self.complete or p in known)]

    def remove(self, partitions: Iterable[Partition], at: At, how: Ended, *, exact: bool = True) -> Iterator[Interval]:
        """Ends the ownership of those that are owned; `exact` is false if they may have been owned longer."""
        for partition in by_partition(partitions):
            owned = self.partitions.pop(partition, None)
            if owned is not None:
                self.changed = at
                self.given_up.add(partition)
                yield self.consumer.interval(
                    partition,
                    owned.start,
                    at,
                    owned.begun,
                    how,
                    exact=exact and how not in (*UNLOGGED_ENDS, Ended.HANGS),
                    doubtful=self.consumer.doubtful_ms is not None,
                    void=self.void,
                    turn_ms=owned.turn_ms,
                )
        if not self.partitions:
            self.void = None

    def replace(self, full: tuple[Partition, ...], at: At) -> Iterator[Interval]:
        kept = set(full)
        yield from self.remove([p for p in self.partitions if p not in kept], at, Ended.REASSIGNED)
        self.add(full, at)

    # -- findings ---------------------------------------------------------------------------------------

    def report_lost(
        self,
        partitions: Collection[Partition],
        shown: Sequence[At],
        end_ms: int | None = None,
        cause: Cause | None = None,
    ) -> Finding:
        """The finding for partitions of a lost callback; `cause` defaults to the current one."""
        if cause is None:
            cause = self.void.cause if self.void else self.cause
        summary = (
            f"{self.consumer.member} lost {names(partitions)} without a chance to commit"
            f"{BECAUSE[cause]}; their last records may be processed twice"
        )
        kind = FindingKind.PARTITIONS_LOST
        return self.consumer.finding(kind, summary, shown, end_ms=end_ms, partitions=partitions, cause=cause)

    def report_lost_without_callback(
        self, partitions: Collection[Partition], ts_ms: int, shown: Sequence[At]
    ) -> Finding:
        """The finding for partitions that were dropped without a callback.

        A warning if the application closed a consumer that calls nothing then; for information if the log ends within
        close(), because it may have been cut there.
        """
        closing = self.consumer.closing_ms is not None
        hangs = closing and self.consumer.closed_ms is None
        cause = Cause.CLOSE_HANGS if hangs else self.cause
        how = "whose close() never came back" if hangs else "when it was closed" if closing else "while it ran"
        found = self.consumer.finding(
            FindingKind.LOST_WITHOUT_CALLBACK,
            f"{names(partitions)} were taken from {self.consumer.member} {how}{BECAUSE[cause]}, "
            "and no callback told its application",
            shown,
            start_ms=ts_ms,
            end_ms=ts_ms + CLOSE_TIMEOUT_MS if hangs else ts_ms,
            partitions=partitions,
            cause=cause,
        )
        if hangs:
            return replace(found, severity=Severity.INFO)
        usual = closing and cause is Cause.NONE and self.consumer.facts.close_calls_nothing
        return found.lower_severity() if usual else found

    def report_added_twice(self, partitions: Iterable[Partition], ts_ms: int, shown: Sequence[At]) -> Iterator[Finding]:
        """A finding if the application was assigned what it owned, and no line between is known to be missing."""
        owned = {p: self.partitions[p] for p in by_partition(partitions) if p in self.partitions}
        twice = [p for p, since in owned.items() if self._follows(since, ts_ms, shown[-1])]
        if twice:
            summary = (
                f"{self.consumer.member} was given {names(twice)} though it had not given them up; "
                "lines are missing, or stand there twice"
            )
            kind = FindingKind.ILLEGAL_TRANSITION
            found = self.consumer.finding(kind, summary, shown, start_ms=ts_ms, end_ms=ts_ms, partitions=twice)
            yield replace(found, severity=Severity.INFO) if self.consumer.interleaved else found

    def _follows(self, owned: Owned, ts_ms: int, at: At) -> bool:
        """Whether the line follows the one of the assignment, with nothing missing in between."""
        if owned.begun is not Begun.ASSIGNED:
            return False
        later = self.consumer.interleaved and ts_ms - owned.start.ts_ms > REORDER_MS
        return later or at.joins(owned.start)

    def check(self, printed: Collection[Partition], at: At) -> Iterator[Finding]:
        """A finding if a printed whole assignment differs from the owned partitions."""
        consumer = self.consumer
        known = self.complete and consumer.in_order and at.joins(self.changed)
        if not known or set(printed) == self.partitions.keys():
            return
        printed_owned, owned = names(printed) or "nothing", names(self.partitions) or "nothing"
        summary = (
            f"{consumer.member} says that it owns {printed_owned}, but by its lines before it owns "
            f"{owned}; lines are missing, or one of them is wrong"
        )
        differ = self.partitions.keys() ^ set(printed)
        kind, shown = FindingKind.ILLEGAL_TRANSITION, [self.changed, at]
        yield consumer.finding(kind, summary, shown, start_ms=at.ts_ms, partitions=differ)

    def report_callback_not_owned(
        self, what: str, partitions: Collection[Partition], ts_ms: int, shown: Sequence[At]
    ) -> Finding:
        """The finding for a revocation of partitions that the application did not own."""
        summary = f"{self.consumer.member} {what} {names(partitions)}, which its application no longer held"
        kind = FindingKind.CALLBACK_NOT_OWNED
        return self.consumer.finding(kind, summary, shown, start_ms=ts_ms, end_ms=ts_ms, partitions=partitions)


class InstanceFollower(Follower):
    """Follows one aspect of a consumer instance."""

    def __init__(self, consumer: ConsumerInstance, owned: OwnedPartitions) -> None:
        self.consumer = consumer
        self.owned = owned


BECAUSE: dict[Cause, str] = dict.fromkeys(Cause, "") | {
    Cause.NO_POLL: " because it did not poll in time",
    Cause.SESSION_EXPIRED: " because the coordinator heard nothing from it for a session",
    Cause.SLOW_CALLBACK: " because its revoked callback took too long",
    Cause.FENCED: " because the coordinator fenced it",
    Cause.FATAL_ERROR: " because of a fatal error",
    Cause.COORDINATOR_LOST: " because the coordinator could not be reached",
}
"""The cause as the end of a sentence about a loss."""
