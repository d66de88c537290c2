"""The records of one member, in order, become rows.

    rows = fold("orders", "orders-1", seen_in_order)

Order is (ts_ms, file, offset). Rows come out as soon as they are known, and the state is bounded by what the member
owns, so a member's log may be of any length. What several members do to each other is left to `fsm.audit.group`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import chain

from fsm.audit.attribution.duplicate_lines import DuplicateLines
from fsm.audit.attribution.identity import ASSIGNS_ITSELF
from fsm.audit.attribution.line_order import LineOrder
from fsm.audit.attribution.rotation import Missing, is_hole
from fsm.audit.connect.worker import MACHINE, ConnectFold
from fsm.audit.findings import Finding, FindingKind, Severity
from fsm.audit.limits import SETTLED_MS, UNDATED_MS, Limits
from fsm.audit.member.consumer_instance import ConsumerInstance, SuccessorDetector, not_started
from fsm.audit.member.contradictions import ContradictionTracker
from fsm.audit.member.membership import MembershipTracker
from fsm.audit.member.ownership import Ownership
from fsm.audit.member.subscription import RebalanceTracker, SubscriptionTracker
from fsm.audit.member.transitions import TransitionTracker
from fsm.audit.rows import Ended, Interval, Life, MemberRebalance, ObservedTransition, Seen, Subscription
from fsm.audit.wording import seconds
from fsm.logs import facts_of
from fsm.trace import Kind

Row = Interval | Subscription | Life | ObservedTransition | MemberRebalance | Finding
_DEFAULTS = Limits()
_NONE: Missing = {}


def fold(
    group: str, member: str, records: Iterable[Seen], limits: Limits = _DEFAULTS, gone: Missing = _NONE
) -> Iterator[Row]:
    """The rows of one member; `records` are its own, ordered by (ts_ms, file, offset).

    `gone` are the rotated files that are missing among those that were given. A consumer that Connect has for one of
    its own topics is in no group, though it prints one: it has no rows.
    """
    first = next(iter(records := iter(records)), None)
    if first is None:
        return
    records = chain((first,), records)
    if ASSIGNS_ITSELF.search(first.record.client_id):
        records = list(records)  # a few lines each
        if not any(seen.record.kind in _ACTIVE and seen.record.kind is not Kind.TRANSITION for seen in records):
            return
    follower: _ConsumerFold | ConnectFold = _ConsumerFold(group, member, limits, gone)
    duplicates = DuplicateLines(group, member)
    for seen in duplicates.leave_out(records):
        if seen.record.machine == MACHINE and isinstance(follower, _ConsumerFold):  # VERSION lines may come before
            follower = ConnectFold(group, member, limits)
        yield from follower.see(seen)
    yield from follower.finish()
    yield from duplicates.findings()


_COMES_BACK = (Kind.JOINING, Kind.JOINED, Kind.ASSIGN_BEGIN)
"""What a consumer that is being closed does not do any more."""
_ACTIVE = frozenset(
    {
        Kind.TRANSITION,
        Kind.SUBSCRIBED,
        Kind.JOINING,
        Kind.JOINED,
        Kind.RECONCILING,
        Kind.ASSIGN_BEGIN,
        Kind.REVOKE_BEGIN,
    }
)
"""What no consumer does after its close: in another file, another process begins with it."""


class _ConsumerFold:
    """Cuts a member's records into consumer instances and hands them to the trackers of each."""

    def __init__(self, group: str, member: str, limits: Limits, gone: Missing) -> None:
        self.limits = limits
        self.gone = gone
        self.order = LineOrder(group, member)
        self._follow(not_started(group, member))

    def _follow(self, consumer: ConsumerInstance) -> None:
        self.consumer = consumer
        self.ownership = Ownership(consumer)
        self.membership = MembershipTracker(consumer, self.ownership, self.limits)
        self.subscription = SubscriptionTracker(consumer, self.ownership.owned)
        self.rebalances = RebalanceTracker(consumer)
        self.transitions = TransitionTracker(consumer)
        self.contradictions = ContradictionTracker(consumer)
        self.successors = SuccessorDetector()

    def see(self, seen: Seen) -> Iterator[Row]:
        for row in self._see(seen):
            mixed = not self.consumer.facts.tells_members  # its file may hold the lines of several
            if mixed and isinstance(row, Finding) and row.kind is FindingKind.ILLEGAL_TRANSITION:
                yield replace(row, severity=Severity.INFO)
            else:
                yield self._weigh(row)

    def finish(self) -> Iterator[Row]:
        yield from map(self._weigh, self._end(self._end_of_log(Ended.LOG_ENDED)))
        yield from map(self._weigh, self.order.findings())

    def _weigh(self, row: Row) -> Row:
        """A finding that rests on lines of a doubtful origin is for information only; one without a time says so."""
        if not isinstance(row, Finding):
            return row
        if self.consumer.doubtful_ms is not None:
            return replace(row, severity=Severity.INFO)
        if row.end_ms == UNDATED_MS:
            return replace(row.lower_severity(), summary=f"{row.summary} (its log does not tell when)")
        return row

    def _see(self, seen: Seen) -> Iterator[Row]:
        if seen.record.kind is Kind.VERSION:  # of any client in the process: it tells nothing of when
            self.consumer.version = seen.record.settings.get("version", "")
            return
        behind_hole = self._is_behind_hole(seen)
        self.order.see(seen)
        if behind_hole:
            yield self._missing_file(seen)
            yield from self._end(Ended.HOLE)
            self._continue(seen)
        elif self.successors.is_successor(seen, self.consumer):
            yield from self._succeed(seen)
        elif self._completes_start(seen):
            self.consumer.whole_start = self.ownership.owned.complete = self.subscription.known = True
        elif self._starts_instance(seen):
            if self.consumer.closed_ms is None and seen.record.ts_ms - self.consumer.burst_ms <= SETTLED_MS:
                self.consumer.end_before_burst()
            yield from self._end(self._end_of_log(Ended.RESTARTED))
            begins = seen.record.kind in (Kind.STARTED, facts_of(seen.record.client_id).begins_with)
            self._start(seen, whole=begins)
        yield from self._track(seen)

    def _end_of_log(self, otherwise: Ended) -> Ended:
        closed = self.consumer.closed_ms is not None or self.consumer.closed_quietly
        return Ended.CLOSED if closed else otherwise

    def _succeed(self, seen: Seen) -> Iterator[Row]:
        """Another process took over; what it said before it had its id is read again, as its own."""
        early, before = self.successors.early, self.successors.before
        if early:
            self.consumer.last_ms, self.consumer.last = before
        elif seen.record.ts_ms - self.consumer.burst_ms <= SETTLED_MS:
            self.consumer.end_before_burst()
        yield from self._end(Ended.CLOSED if self.consumer.closed_quietly else Ended.RESTARTED)
        first = early[0] if early else seen
        self._start(first, whole=first.record.kind is Kind.SUBSCRIBED)
        for one in early:
            yield from self._track(one)

    def _track(self, seen: Seen) -> Iterator[Row]:
        record, consumer = seen.record, self.consumer
        self.successors.update(seen, consumer)
        consumer.update(record, seen.place)
        consumer.shuffled = self.order.is_shuffled(seen.place.file)
        if record.kind is Kind.CLOSE_BEGIN and consumer.closing_ms is None:
            # A revoked callback that runs is the close's own: its first line, where the close has no earlier one.
            consumer.closing_ms = record.ts_ms - self.ownership.running_ms(record.ts_ms)
        elif record.kind in _COMES_BACK and consumer.closed_ms is None and not record.detail:
            consumer.closing_ms = None  # older Java clients commit before they rejoin as they do before they close
        elif record.kind is Kind.CLOSE_END:
            consumer.closing_ms = consumer.closing_ms or record.ts_ms
            consumer.closed_ms = record.ts_ms
        yield from self.contradictions.see(seen)
        yield from self.membership.see(seen)  # it knows why partitions go before ownership sees them go
        yield from self.rebalances.see(seen)  # ownership asks when the rebalance began that gave a partition
        yield from self.ownership.see(seen)
        yield from self.subscription.see(seen)
        if record.kind is Kind.TRANSITION:
            yield from self.transitions.see(seen)

    def _completes_start(self, seen: Seen) -> bool:
        """librdkafka prints a few lines of a new client before the one that says so."""
        consumer = self.consumer
        early = (
            consumer.number >= 0 and not consumer.whole_start and seen.record.ts_ms - consumer.start_ms <= SETTLED_MS
        )
        return early and seen.record.kind is Kind.STARTED and not self.ownership.owned.partitions

    def _starts_instance(self, seen: Seen) -> bool:
        consumer, record = self.consumer, seen.record
        if consumer.number < 0 or record.kind is Kind.STARTED or self._has_another_id(seen):
            return True
        if consumer.closed_ms is None:
            return False
        elsewhere = record.kind in _ACTIVE and seen.place.file != consumer.last.file
        return (elsewhere and record.ts_ms > consumer.closed_ms) or record.ts_ms - consumer.closed_ms > SETTLED_MS

    def _has_another_id(self, seen: Seen) -> bool:
        """A file that is new to this instance and names another id is another process's, whose start was not logged.

        Only where the client chooses its id, which it then keeps: a classic member gets a new one when it rejoins.
        """
        old, new = self.consumer.member_id, seen.record.member_id
        chosen = len(old) == len(new) == self.consumer.facts.chosen_id_length and old != new
        return chosen and seen.place.file not in self.consumer.id_files

    def _is_behind_hole(self, seen: Seen) -> bool:
        """The record is the first of its file, and a rotated file between that and the one before was not given."""
        consumer = self.consumer
        begins = consumer.number < 0 or consumer.closed_ms is not None or seen.record.kind is Kind.STARTED
        return not begins and is_hole(self.gone, consumer.last.file, seen.place.file) and not self.order.knows(seen)

    def _missing_file(self, seen: Seen) -> Finding:
        consumer, end_ms = self.consumer, seen.record.ts_ms
        summary = (
            f"a rotated file between {consumer.last.file} and {seen.place.file} is missing: what {consumer.member} "
            f"did in these {seconds(end_ms - consumer.last_ms)} is not known"
        )
        kind, places = FindingKind.UNPARSED_LINES, [consumer.last, seen.place]
        return consumer.finding(kind, consumer.last_ms, end_ms, summary, places)

    def _continue(self, seen: Seen) -> None:
        """The same process, of which nobody knows what it did in the meantime."""
        before = self.consumer
        self._start(seen, whole=False)
        self.consumer.facts, self.consumer.protocol, self.consumer.version = (
            before.facts, before.protocol, before.version,
        )  # fmt: skip
        self.consumer.settings = before.settings

    def _start(self, seen: Seen, *, whole: bool) -> None:
        ts_ms, place, before = seen.record.ts_ms, seen.place, self.consumer
        number = before.number + 1
        self._follow(ConsumerInstance(before.group, before.member, number, ts_ms, place, whole, ts_ms, place))

    def _end(self, how: Ended) -> Iterator[Row]:
        if self.consumer.number < 0:
            return
        yield from self.transitions.end(closed=how is Ended.CLOSED)
        yield from self.membership.end(how)
        yield from self.ownership.end(how)
        yield from self.subscription.end(self.consumer.last_ms)
        yield from self.rebalances.end(self.consumer.last_ms)
        yield self.consumer.row(how)
