"""Eager members of the Java client that left their revoked callback by a wakeup or an interrupt (W27).

The client does not log the exception, and keeps the partitions. It shows in the next assignment: none that the member
is assigned again is among the newly assigned ones. Without automatic commits its application used all of them until
then; with them it uses none of those that it keeps, until the next callback.
"""

from __future__ import annotations

from fsm.audit.findings import Cause
from fsm.audit.follower import Rows, Void, on
from fsm.audit.member.consumer_instance import COMMITS, Callback, ConsumerInstance
from fsm.audit.member.owned_partitions import InstanceFollower, Owned, OwnedPartitions
from fsm.audit.rows import At, Begun, Ended, Interval, Known
from fsm.trace import Kind, Partition


class InterruptedRevocation(InstanceFollower):
    """Takes each record after `Ownership`, which it corrects."""

    def __init__(self, consumer: ConsumerInstance, owned: OwnedPartitions) -> None:
        super().__init__(consumer, owned)
        self.callback: Callback | None = None
        """The last revoked callback."""
        self.joined: At | None = None
        """The begin of that callback, at the time of the join that followed it."""
        self.target: frozenset[Partition] = frozenset()
        """What an eager member is assigned."""

    def finish(self) -> Rows:
        return self._end_pending(self.consumer.last)

    @on(Kind.REVOKE_BEGIN, Kind.LOST_BEGIN)
    def _revoke(self, known: Known) -> Rows:
        self.callback, self.joined = self.consumer.callback, None
        return self._end_pending(known.at)

    @on(Kind.JOINING)
    def _join(self, known: Known) -> None:
        if self.joined is None and self.callback is not None and not known.record.detail:
            self.joined = self.callback.at._replace(ts_ms=known.at.ts_ms)

    @on(Kind.TARGET)
    def _take_target(self, known: Known) -> None:
        self.target = frozenset(known.record.full or ())

    @on(Kind.RECONCILING)
    def _reconcile(self, _known: Known) -> None:
        """Only members that are not eager print it."""
        self.callback = None

    @on(Kind.ASSIGN_BEGIN)
    def _assign(self, known: Known) -> Rows:
        callback, since, target = self.callback, self.joined, self.target
        self.callback, self.joined, self.target = None, None, frozenset()
        if callback is None or since is None or not self.consumer.in_order or not known.at.joins(since):
            return
        kept = [p for p in callback.partitions if p in target]
        if kept and callback.kind is Ended.REVOKED and self.owned.partitions.keys().isdisjoint(kept):
            if self.consumer.settings.get(COMMITS) != "false":
                self.owned.pending = dict.fromkeys(kept, since)
                return
            self.owned.partitions |= {p: Owned(since, Begun.ASSIGNED, self.consumer.turn_ms) for p in kept}
            void = Void(since.ts_ms, Cause.INTERRUPTED)
            for partition in sorted({*callback.partitions}.difference(target)):
                yield self._interval(partition, since, known.at, Begun.ASSIGNED, Ended.REASSIGNED, void=void)

    def _end_pending(self, at: At) -> Rows:
        pending, self.owned.pending = self.owned.pending, {}
        for partition, since in pending.items():
            yield self._interval(partition, since, at, Begun.PENDING, Ended.REVOKED)

    def _interval(
        self, partition: Partition, start: At, end: At, begun: Begun, ended: Ended, *, void: Void | None = None
    ) -> Interval:
        """Doubtful where the log does not say whether the client commits automatically."""
        doubtful = self.consumer.doubtful_ms is not None or COMMITS not in self.consumer.settings
        turn_ms = self.consumer.turn_ms
        return self.consumer.interval(
            partition, start, end, begun, ended, exact=True, doubtful=doubtful, void=void, turn_ms=turn_ms
        )
