"""The state of one consumer instance that its followers share: its close, its settings, the partitions that it owns."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from fsm.audit.findings import Cause, Finding, FindingKind, Severity
from fsm.audit.follower import Follower, Process, Void
from fsm.audit.limits import (
    CLASSIC_HEARTBEAT_INTERVAL_MS,
    CLOSE_TIMEOUT_MS,
    CONSUMER_HEARTBEAT_INTERVAL_MS,
    DEFAULT_MAX_POLL_INTERVAL_MS,
    DEFAULT_SESSION_TIMEOUT_MS,
    REORDER_MS,
    Limits,
)
from fsm.audit.rows import UNLOGGED_ENDS, At, Begun, End, Ended, Interval, Known, Order
from fsm.audit.wording import names
from fsm.logs import ClientFacts, facts_of
from fsm.trace import Kind, Partition, by_partition

LEAVES_ON_CLOSE = "internal.leave.group.on.close"
"""False in Kafka Streams, whose classic consumers close without a leave and without a callback."""
COMMITS = "enable.auto.commit"
_SETTINGS = (
    "group.protocol", "session.timeout.ms", "heartbeat.interval.ms", "max.poll.interval.ms", "request.timeout.ms",
    "group.remote.assignor", LEAVES_ON_CLOSE, COMMITS,
)  # fmt: skip
_LEAVES_OR_STAYS = frozenset({
    Kind.LEFT, Kind.POLL_EXPIRED, Kind.SUBSCRIBED, Kind.JOINING, Kind.JOINED, Kind.ASSIGN_BEGIN, Kind.REVOKE_BEGIN,
    Kind.LOST_BEGIN, Kind.ADDED,
})  # fmt: skip
"""The last of these shows whether a consumer whose log ends had left or was a member."""
_REBALANCES = frozenset({
    Kind.TRANSITION, Kind.JOINING, Kind.JOINED, Kind.SYNCED, Kind.TARGET, Kind.RECONCILING, Kind.OWNED,
    Kind.REVOKE_DECIDED, Kind.REVOKE_BEGIN, Kind.REVOKE_END, Kind.LOST_DECIDED, Kind.LOST_BEGIN, Kind.ADDED,
    Kind.DROPPED,
})  # fmt: skip
"""One of these stands between two assignments of a member."""
_REJOINS = (Kind.JOINING, Kind.JOINED, Kind.ASSIGN_BEGIN)
"""Kinds that do not occur during a close."""
_RELEASE = re.compile(r"(\d{1,4})\.(\d{1,4})", re.ASCII)
CONSUMER = "consumer"
"""The protocol of KIP-848."""


@dataclass(frozen=True, slots=True)
class Callback:
    """A running revoked or lost callback."""

    kind: Ended
    at: At
    partitions: tuple[Partition, ...]


@dataclass(slots=True)
class ConsumerInstance(Process):
    """One object per instance, shared by all its followers."""

    callback: Callback | None = None
    """The running callback, unless it is the assigned callback."""
    closing_ms: int | None = None
    """Begin of the close."""
    closed_ms: int | None = None
    expired: bool = False
    """Its poll timeout has expired, and it has not rejoined yet."""
    left_ms: int | None = None
    """When it left the group, unless it rejoined later or left because of a poll timeout."""
    turn_ms: int | None = None
    """Begin of its last rebalance."""
    limits: Limits = field(default_factory=Limits)
    tells_rebalances: bool = False
    """It has a line about a rebalance besides those of its assignments."""

    def see(self, known: Known) -> None:
        record = known.record
        Process.see(self, known)
        if known.whole:
            self.whole_start = True
        if record.settings:
            self.version = record.settings.get("version", self.version)
            self.settings.update({name: record.settings[name] for name in _SETTINGS if name in record.settings})
        if record.kind in _REBALANCES:
            self.tells_rebalances = True
        if record.kind in _LEAVES_OR_STAYS:
            left = record.kind is Kind.LEFT and not self.expired
            self.left_ms = record.ts_ms if left else None
            self.expired = record.kind is Kind.POLL_EXPIRED or (self.expired and record.kind is Kind.LEFT)
        protocols = self.facts.protocols
        protocol = protocols.get(record.machine) or protocols.get(record.kind)
        self.protocol = protocol or self.protocol or self.settings.get("group.protocol", "")
        if record.kind is Kind.CLOSE_BEGIN and self.closing_ms is None:
            # A running revoked callback belongs to the close, which then began with it.
            self.closing_ms = record.ts_ms if self.callback is None else self.callback.at.ts_ms
        elif record.kind in _REJOINS and self.closed_ms is None and not record.detail:
            self.closing_ms = None  # older Java clients print the same commit before a rejoin and before a close
        elif record.kind is Kind.CLOSE_END:
            self.closing_ms = self.closing_ms or record.ts_ms
            self.closed_ms = record.ts_ms

    def end(self, end: End) -> None:
        Process.end(self, end)
        if (self.closed_ms is not None or self.closed_quietly) and end.how is not Ended.HOLE:
            self.ended = Ended.CLOSED

    def contradiction(
        self, summary: str, *shown: At, span_ms: tuple[int, int] | None = None, partitions: Iterable[Partition] = ()
    ) -> Finding:
        """The finding for contradictory lines, at the last of them; for information if its lines are interleaved."""
        start_ms, end_ms = span_ms or (shown[-1].ts_ms, shown[-1].ts_ms)
        about = FindingKind.ILLEGAL_TRANSITION, summary, shown
        found = self.finding(*about, start_ms=start_ms, end_ms=end_ms, partitions=partitions)
        return replace(found, severity=Severity.INFO) if self.interleaved else found

    @property
    def facts(self) -> ClientFacts:
        """The properties of its client's log."""
        return facts_of(self.client_id)

    @property
    def closed_quietly(self) -> bool:
        """Whether a log that ends here shows a close without a line for its end."""
        leaves = self.closing_ms is not None or self.left_ms is not None
        return leaves and self.closed_ms is None and self.facts.close_is_unlogged

    @property
    def tells_last_step(self) -> bool:
        """Whether its client, in this release, prints the last step of a close at every log level."""
        release = _RELEASE.match(self.version)
        return release is None or (int(release[1]), int(release[2])) >= self.facts.last_step_since

    @property
    def stays_in_group(self) -> bool:
        return self.settings.get(LEAVES_ON_CLOSE) == "false"

    @property
    def in_order(self) -> bool:
        """Whether its lines are in print order."""
        return self.order is Order.KNOWN

    @property
    def interleaved(self) -> bool:
        """Whether only its lines with the same timestamp have no order."""
        return self.order is Order.INTERLEAVED

    @property
    def ordered(self) -> bool:
        return self.order is Order.KNOWN or self.order is Order.INTERLEAVED

    @property
    def rebalance_timeout_ms(self) -> int:
        return self.max_poll_interval_ms or DEFAULT_MAX_POLL_INTERVAL_MS

    @property
    def session_timeout_ms(self) -> int | None:
        """The client's session timeout; None in consumer groups, where the broker decides."""
        return None if self.protocol == CONSUMER else self.setting_ms("session.timeout.ms")

    @property
    def heartbeat_interval_ms(self) -> int:
        """Longest time until this member learns of a rebalance."""
        if self.protocol == CONSUMER:
            return CONSUMER_HEARTBEAT_INTERVAL_MS
        return self.setting_ms("heartbeat.interval.ms") or CLASSIC_HEARTBEAT_INTERVAL_MS

    @property
    def silence_ms(self) -> int:
        """Longest time without a heartbeat that is certainly within its session."""
        return self.session_timeout_ms or DEFAULT_SESSION_TIMEOUT_MS


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
        """A finding if the application was assigned what it owned, and no line between is known to be missing.

        For information if all its lines are about assignments: others were left out, also those between.
        """
        owned = {p: self.partitions[p] for p in by_partition(partitions) if p in self.partitions}
        twice = [p for p, since in owned.items() if self._follows(since, ts_ms, shown[-1])]
        if twice:
            summary = (
                f"{self.consumer.member} was given {names(twice)} though it had not given them up; "
                "lines are missing, or stand there twice"
            )
            found = self.consumer.contradiction(summary, *shown, span_ms=(ts_ms, ts_ms), partitions=twice)
            yield found if self.consumer.tells_rebalances else replace(found, severity=Severity.INFO)

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
        yield consumer.contradiction(summary, self.changed, at, partitions=differ)

    def report_callback_not_owned(
        self, what: str, partitions: Collection[Partition], ts_ms: int, shown: Sequence[At]
    ) -> Finding:
        """The finding for a revocation of partitions that the application did not own."""
        summary = f"{self.consumer.member} {what} {names(partitions)}, which its application no longer held"
        kind = FindingKind.CALLBACK_NOT_OWNED
        return self.consumer.finding(kind, summary, shown, start_ms=ts_ms, end_ms=ts_ms, partitions=partitions)


@dataclass
class InstanceFollower(Follower):
    """Follows one aspect of a consumer instance. Its fields are what it knows so far."""

    consumer: ConsumerInstance
    owned: OwnedPartitions


BECAUSE: dict[Cause, str] = dict.fromkeys(Cause, "") | {
    Cause.NO_POLL: " because it did not poll in time",
    Cause.SESSION_EXPIRED: " because the coordinator heard nothing from it for a session",
    Cause.SLOW_CALLBACK: " because its revoked callback took too long",
    Cause.FENCED: " because the coordinator fenced it",
    Cause.FATAL_ERROR: " because of a fatal error",
    Cause.COORDINATOR_LOST: " because the coordinator could not be reached",
}
"""The cause as the end of a sentence about a loss."""
