"""The ownership of one consumer instance as its application sees it, and findings about its callbacks.

A partition is owned from the start of the assigned callback to the end of the revoked callback, the start of the lost
callback, or the end of the process. If the end of a revoked callback is not logged (INFO logs of the Java client), it
ended before the next line that needs it: another callback, or the transition for which the background thread waits for
it. A member without listener gets no callbacks: it owns the partitions of its `Reconciling` block from its
acknowledgement on.

A client that prints each added and dropped partition is followed by `EachPartitionOwnership` instead.

Eager members of the Java client may leave their revoked callback by a wakeup or an interrupt (W27). The client does not
log the exception, and keeps the partitions. It shows in the next assignment: none that the member is assigned again is
among the newly assigned ones. Without automatic commits its application used all of them until then; with them it uses
none of those that it keeps, until the next callback.
"""

from __future__ import annotations

from dataclasses import dataclass

from fsm.audit.findings import Cause, FindingKind
from fsm.audit.follower import Rows, Void, on
from fsm.audit.limits import REORDER_MS, SETTLED_MS
from fsm.audit.member.consumer_instance import COMMITS, Callback, InstanceFollower, Owned
from fsm.audit.member.each_partition import EachPartitionOwnership
from fsm.audit.rows import NOWHERE, At, Begun, Ended, Interval, Known
from fsm.audit.wording import names, seconds
from fsm.logs.programs.client_words import NOTHING_OWNED
from fsm.trace import Kind, Partition, TraceRecord, by_partition

_AFTER_CALLBACK = ("ACKNOWLEDGING", "PREPARE_LEAVING", "LEAVING", "UNSUBSCRIBED")
"""States that a Java member enters only after its revoked callback has returned or is no longer waited for."""
_NO_LINE = At(0, NOWHERE, -1)


@dataclass
class Ownership(InstanceFollower):
    every = True

    assigning: At | None = None
    block: TraceRecord | None = None
    returned: At = _NO_LINE
    """The end of a callback without a begin, which may be in another file with the same timestamp."""
    deleted_ms: int | None = None
    """When a commit was refused because its topic does not exist any more."""
    failed: bool = False
    """The last callback has failed; clients print that more than once."""
    away: bool = False
    """It has left its group, and may rejoin."""
    fenced_ms: int | None = None
    """When the coordinator refused the member while the last callback ran."""

    def __post_init__(self) -> None:
        self.each_partition = EachPartitionOwnership(self.consumer, self.owned)

    def see(self, known: Known) -> Rows:
        if self.consumer.facts.names_each_partition:
            return self.each_partition.see(known)
        return super().see(known)

    def finish(self) -> Rows:
        yield from self.each_partition.finish()
        consumer, owned, how = self.consumer, self.owned, self.consumer.ended
        if how is Ended.CLOSED and consumer.closed_quietly:
            consumer.closed_ms = consumer.last.ts_ms if consumer.left_ms is None else consumer.left_ms
            consumer.closing_ms = consumer.closing_ms or consumer.closed_ms
            yield from self._close(consumer.last._replace(ts_ms=consumer.closed_ms))
        closing_ms = consumer.closing_ms
        if how is Ended.LOG_ENDED and closing_ms is not None and owned.partitions and owned.has_listener:
            yield owned.report_lost_without_callback(owned.partitions, closing_ms, [consumer.last])
            how = Ended.HANGS
        yield from owned.remove(list(owned.partitions), consumer.last, how)

    # -- callbacks --------------------------------------------------------------------------------------

    @on(Kind.ASSIGN_BEGIN)
    def _assign_begin(self, known: Known) -> Rows:
        record, at = known.record, known.at
        self.owned.has_listener = True
        failed, self.failed = self.failed, False
        yield from self._close_begin(known)
        yield from self._give_up(at)
        if not failed and self.consumer.ordered:
            yield from self.owned.report_added_twice(record.partitions, at.ts_ms, [at])
        self.assigning = at
        self.owned.add(record.partitions, at)

    def _give_up(self, at: At) -> Rows:
        """The partitions that the block revokes are not owned any more when its assigned callback begins."""
        block, self.block = self.block, None
        left = [p for p in block.revoked if p in self.owned.partitions] if block is not None else []
        if left and self.consumer.in_order:
            yield from self._without_callback(left, "gave up", at)
            yield from self.owned.remove(left, at, Ended.REASSIGNED)

    def _without_callback(self, partitions: list[Partition], what: str, at: At) -> Rows:
        """A finding if a member with a listener has no line of the callback for a change: the line is missing."""
        if partitions and self.owned.has_listener:
            member = self.consumer.member
            summary = f"{member} {what} {names(partitions)} and went on without the callback for it; lines are missing"
            yield self.consumer.contradiction(summary, at, partitions=partitions)

    @on(Kind.ASSIGN_END)
    def _assign_end(self, known: Known) -> Rows:
        begun, self.assigning = self.assigning, None
        if begun is not None:
            yield from self._check_duration("assigned", begun, known.at, ())

    @on(Kind.REVOKE_BEGIN)
    def _revoke_begin(self, known: Known) -> Rows:
        yield from self._begin(known, Ended.REVOKED, "revoked")

    @on(Kind.REVOKE_DECIDED)
    def _revoke_decided(self, known: Known) -> Rows:
        """A classic Java member decides nothing: up to Kafka 2.3 its callback begins with these words, and without its
        logger the line looks like that of a member of a consumer group."""
        if known.record.partitions and self.consumer.protocol == "classic":
            yield from self._revoke_begin(known)

    @on(Kind.LOST_BEGIN)
    def _on_lost_begin(self, known: Known) -> Rows:
        yield from self._begin(known, Ended.LOST, "lost")
        at, lost = known.at, self._about(known.record)
        if lost:
            yield self.owned.report_lost(lost, [at])
            yield from self.owned.remove(lost, at, Ended.LOST)

    def _about(self, record: TraceRecord) -> tuple[Partition, ...]:
        """The partitions of a revoked or lost callback: those of its line, or all owned ones."""
        return by_partition(self.owned.partitions) if record.full == NOTHING_OWNED else record.partitions

    def _begin(self, known: Known, kind: Ended, name: str) -> Rows:
        at = known.at
        self.owned.has_listener = True
        self.failed = False
        self.assigning = None
        yield from self._close_begin(known)
        partitions = self._about(known.record)
        not_owned = self.owned.not_owned(partitions)
        self.owned.add_found(p for p in partitions if p not in not_owned and p not in self.owned.pending)
        if not_owned:
            yield self.owned.report_callback_not_owned(f"got a {name} callback for", not_owned, at.ts_ms, [at])
        self.consumer.callback = Callback(kind, at, partitions)
        self.fenced_ms = None
        if self.returned.ts_ms == at.ts_ms and not at.joins(self.returned):
            yield from self._return(at)

    @on(Kind.REVOKE_END, Kind.LOST_END, Kind.UNSUBSCRIBED)
    def _callback_end(self, known: Known) -> Rows:
        if self.consumer.callback is None:
            self.returned = known.at
        return self._return(known.at)

    @on(Kind.CLOSE_BEGIN)
    def _close_begin(self, known: Known) -> Rows:
        return self._return(known.at, printed=self.consumer.facts.shows_callback_return)

    @on(Kind.JOINING)
    def _joining(self, known: Known) -> Rows | None:
        """The application's thread sends a join, so the callback has returned; any thread may request a rejoin.

        A member that has left joins at the next poll, possibly long after the callback returned.
        """
        if known.record.detail:
            return None
        return self._return(known.at, printed=False) if self.away else self._callback_end(known)

    @on(Kind.LEFT)
    def _on_left(self, _known: Known) -> None:
        self.away = True

    @on(Kind.JOINED)
    def _on_joined(self, _known: Known) -> None:
        self.away = False

    @on(Kind.FENCED)
    def _on_fenced(self, known: Known) -> None:
        self.fenced_ms = known.at.ts_ms if self.fenced_ms is None else self.fenced_ms

    @on(Kind.CALLBACK_FAILED)
    def _callback_failed(self, known: Known) -> Rows:
        record, at = known.record, known.at
        callback = self.consumer.callback or Callback(Ended.REVOKED, at, record.partitions)
        if not self.failed:
            which, why = record.event or "rebalance", f": {record.detail}" if record.detail else ""
            summary = f"the {which} callback of {self.consumer.member} raised an error{why}"
            kind, about = FindingKind.LISTENER_ERROR, callback.partitions
            yield self.consumer.finding(kind, summary, [callback.at, at], partitions=about)
        self.failed = True
        yield from self._return(at)

    def _return(self, at: At, *, printed: bool = True) -> Rows:
        """Ends the running callback, if there is one: now, or if not `printed`, at some time before this line.

        A member that was fenced continues at once, unless its callback still runs.
        """
        callback, self.consumer.callback = self.consumer.callback, None
        if callback is None or callback.kind is not Ended.REVOKED:
            return
        begun = callback.at
        exact = printed or (self.fenced_ms is not None and at.ts_ms - self.fenced_ms > REORDER_MS)
        end_ms = at.ts_ms if exact else begun.ts_ms
        yield from self._check_duration("revoked", begun, at._replace(ts_ms=end_ms), callback.partitions)
        deleted = self.deleted_ms is not None and begun.ts_ms - self.deleted_ms <= SETTLED_MS
        how = Ended.DELETED if deleted else Ended.REVOKED
        yield from self.owned.remove(callback.partitions, begun._replace(ts_ms=end_ms), how, exact=exact)

    def _check_duration(self, name: str, begun: At, end: At, partitions: tuple[Partition, ...]) -> Rows:
        limit_ms, lasted_ms = self.consumer.max_poll_interval_ms, end.ts_ms - begun.ts_ms
        if limit_ms is not None and lasted_ms > limit_ms:
            summary = (
                f"the {name} callback of {self.consumer.member} took {seconds(lasted_ms)}; "
                f"the group waits {seconds(limit_ms)} (max.poll.interval.ms) and then gives its partitions away"
            )
            yield self.consumer.finding(FindingKind.SLOW_CALLBACK, summary, [begun, end], partitions=partitions)

    # -- without callbacks ------------------------------------------------------------------------------

    @on(Kind.RECONCILING)
    def _reconciling(self, known: Known) -> Rows:
        record = self.block = known.record
        if record.full is None:
            return
        owned = (set(record.full) - set(record.partitions)) | set(record.revoked)
        if not self.owned.complete:
            self.owned.add_found(sorted(owned))
            self.owned.is_logged = True
        elif not self.failed:  # after a failed revoked callback ownership is unchanged
            yield from self.owned.check(owned, known.at)

    @on(Kind.TRANSITION)
    def _transition(self, known: Known) -> Rows:
        state, at = known.record.next_state, known.at
        if state in _AFTER_CALLBACK:
            yield from self._return(at)
        if state == "ACKNOWLEDGING" and self.block is not None and self.block.full is not None:
            # With a listener the assigned callback came first and cleared the block, or its line is missing.
            full, self.block = self.block.full, None
            if self.owned.has_listener and not self.consumer.in_order:
                return
            new = [p for p in full if p not in self.owned.partitions]
            yield from self._without_callback(new, "took", at)
            yield from self.owned.replace(full, at)

    @on(Kind.OWNED)
    def _owns(self, known: Known) -> Rows:
        yield from self.owned.replace(known.record.full or (), known.at)
        self.owned.is_logged = True

    @on(Kind.ADDED)
    def _on_added(self, known: Known) -> None:
        self.owned.add(known.record.partitions, known.at)

    @on(Kind.DROPPED)
    def _on_dropped(self, known: Known) -> Rows:
        return self.owned.remove(known.record.partitions, known.at, Ended.LOST)

    @on(Kind.COMMIT_FAILED)
    def _commit_failed(self, known: Known) -> None:
        if "UNKNOWN_TOPIC" in known.record.detail or "UnknownTopic" in known.record.detail:
            self.deleted_ms = known.at.ts_ms

    @on(Kind.CLOSE_END)
    def _on_closed(self, known: Known) -> Rows:
        return self._close(known.at)

    def _close(self, at: At) -> Rows:
        yield from self._return(at, printed=self.consumer.facts.shows_callback_return)
        left = by_partition(self.owned.partitions)
        called = self.consumer.facts.close_callback_is_unlogged or self.consumer.stays_in_group
        if left and self.owned.has_listener and not called:
            yield self.owned.report_lost_without_callback(left, at.ts_ms, [at])
        yield from self.owned.remove(left, at, Ended.CLOSED)


@dataclass
class InterruptedRevocation(InstanceFollower):
    """Takes each record after `Ownership`, which it corrects for interrupted callbacks (W27)."""

    callback: Callback | None = None
    """The last revoked callback."""
    joined: At | None = None
    """The begin of that callback, at the time of the join that followed it."""
    target: frozenset[Partition] = frozenset()
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
