"""The fold: the records of one member, in order, become rows.

    rows = fold("orders", "orders-1", seen_in_order)

Order is (ts_ms, file, offset). Rows come out as soon as they are known, and the state is bounded by what the
member owns, so a member's log may be of any length. What has no place in time inside one member (double
ownership, gaps, rebalances) is left to `group`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import chain

from fsm.audit.chain import Chain
from fsm.audit.connect import MACHINE, ConnectFold
from fsm.audit.contradictions import Contradictions
from fsm.audit.echo import Echoes
from fsm.audit.findings import Finding, FindingKind, Severity, finding
from fsm.audit.identity import ASSIGNS_ITSELF
from fsm.audit.life import Living, unborn
from fsm.audit.limits import SETTLED_MS, Limits
from fsm.audit.membership import Membership
from fsm.audit.newcomer import CHOSEN_ID_LENGTH, Newcomer
from fsm.audit.order import Order
from fsm.audit.ownership import Ownership
from fsm.audit.rotation import Missing, is_hole
from fsm.audit.rows import Ended, Hop, Interval, Life, Seen, Turn, Want
from fsm.audit.stuck import closed_in_between, stuck_at_end, stuck_before
from fsm.audit.turns import Turns
from fsm.audit.wants import Wants
from fsm.audit.wording import seconds
from fsm.trace import Kind

Row = Interval | Want | Life | Hop | Turn | Finding
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
        if not any(seen.record.kind in _LIVELY and seen.record.kind is not Kind.TRANSITION for seen in records):
            return
    follower: _Member | ConnectFold = _Member(group, member, limits, gone)
    echoes = Echoes(group, member)
    for seen in echoes.left_out(records):
        if seen.record.machine == MACHINE and isinstance(follower, _Member):  # VERSION lines may come before
            follower = ConnectFold(group, member, limits)
        for row in follower.see(seen):
            yield _weighed(follower, row)
    for row in follower.finish():
        yield _weighed(follower, row)
    yield from echoes.told()


def _weighed(follower: _Member | ConnectFold, row: Row) -> Row:
    return follower.weighed(row) if isinstance(follower, _Member) else row


_LIVELY = frozenset(
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


class _Member:
    """Cuts a member's records into lives and hands them to what follows each aspect of a life."""

    def __init__(self, group: str, member: str, limits: Limits, gone: Missing) -> None:
        self.limits = limits
        self.gone = gone
        self.order = Order(group, member)
        self._live(unborn(group, member))

    def weighed(self, row: Row) -> Row:
        """A finding that rests on lines of a doubtful origin is for information only."""
        if isinstance(row, Finding) and self.living.doubtful_ms is not None:
            return replace(row, severity=Severity.INFO)
        return row

    def _live(self, living: Living) -> None:
        self.living = living
        self.ownership = Ownership(living)
        self.membership = Membership(living, self.ownership, self.limits)
        self.wants = Wants(living)
        self.turns = Turns(living)
        self.chain = Chain(living)
        self.contradictions = Contradictions(living)
        self.newcomer = Newcomer()

    def see(self, seen: Seen) -> Iterator[Row]:
        """The rows this record completes."""
        if seen.record.kind is Kind.VERSION:  # of any client in the process: it tells nothing of when
            self.living.version = seen.record.settings.get("version", "")
            return
        behind_hole = self._is_behind_hole(seen)
        self.order.see(seen)
        if behind_hole:
            yield self._unknown(seen)
            yield from self._die(Ended.HOLE)
            self._go_on(seen)
        elif self.newcomer.shows(seen, self.living):
            yield from self._succeed(seen)
        elif self._tells_of_begin(seen):
            self.living.whole_start = self.ownership.holdings.complete = self.wants.subscribed = True
        elif self._begins_life(seen):
            if self.living.closed_ms is None and seen.record.ts_ms - self.living.burst_ms <= SETTLED_MS:
                self.living.end_before_burst()
            yield from self._die(Ended.CLOSED if self.living.closed_ms is not None else Ended.RESTARTED)
            self._be_born(seen, whole=seen.record.kind is Kind.STARTED)
        yield from self._live_on(seen)

    def _succeed(self, seen: Seen) -> Iterator[Row]:
        """Another process took over unseen; what it said before it had its id is read again, as its own."""
        early, before = self.newcomer.first, self.newcomer.before
        if early:
            self.living.last_ms, self.living.last = before
        elif seen.record.ts_ms - self.living.burst_ms <= SETTLED_MS:
            self.living.end_before_burst()
        yield from self._die(Ended.RESTARTED)
        first = early[0] if early else seen
        self._be_born(first, whole=first.record.kind is Kind.SUBSCRIBED)
        for one in early:
            yield from self._live_on(one)

    def _live_on(self, seen: Seen) -> Iterator[Row]:
        record = seen.record
        self.newcomer.note(seen, self.living)
        self.living.note(record, seen.place)
        self.living.shuffled = self.order.shuffled(seen.place.file)
        if record.kind is Kind.CLOSE_BEGIN and self.living.closing_ms is None:
            self.living.closing_ms = record.ts_ms
        elif record.kind is Kind.CLOSE_END:
            self.living.closing_ms = self.living.closing_ms or record.ts_ms
            self.living.closed_ms = record.ts_ms
        yield from self._follow(seen)

    def _follow(self, seen: Seen) -> Iterator[Row]:
        # Membership first: it knows why partitions go before ownership sees them go.
        yield from self.contradictions.see(seen)
        yield from self.membership.see(seen)
        yield from self.turns.see(seen)  # ownership asks when the rebalance began that gave a partition
        yield from self.ownership.see(seen)
        yield from self.wants.see(seen)
        if seen.record.kind is Kind.TRANSITION:
            for hop in self.chain.see(seen):
                yield hop
                yield from stuck_before(hop, self.living)

    def finish(self) -> Iterator[Row]:
        """The rows that the end of the log completes."""
        yield from self._die(Ended.CLOSED if self.living.closed_ms is not None else Ended.LOG_ENDED)
        yield from self.order.end()

    def _tells_of_begin(self, seen: Seen) -> bool:
        """librdkafka prints a few lines of a new client before the one that says so."""
        living = self.living
        early = living.number >= 0 and not living.whole_start and seen.record.ts_ms - living.start_ms <= SETTLED_MS
        return early and seen.record.kind is Kind.STARTED and not self.ownership.holdings.owned

    def _begins_life(self, seen: Seen) -> bool:
        if self.living.number < 0:
            return True
        if seen.record.kind is Kind.STARTED or self._is_another(seen):
            return True
        closed_ms = self.living.closed_ms
        if closed_ms is None:
            return False
        elsewhere = (
            seen.record.ts_ms > closed_ms and seen.record.kind in _LIVELY and seen.place.file != self.living.last.file
        )
        return elsewhere or seen.record.ts_ms - closed_ms > SETTLED_MS

    def _is_another(self, seen: Seen) -> bool:
        """A file that is new to this life and names another id tells of another process, whose begin was not logged.

        Only where the client chooses its id, which it then keeps: a classic member gets a new one when it rejoins.
        """
        old, new = self.living.member_id, seen.record.member_id
        chosen = len(old) == len(new) == CHOSEN_ID_LENGTH and old != new
        return chosen and seen.place.file not in self.living.id_files

    def _is_behind_hole(self, seen: Seen) -> bool:
        """The record is the first of its file, and a rotated file between that and the one before was not given."""
        living = self.living
        begins = living.number < 0 or living.closed_ms is not None or seen.record.kind is Kind.STARTED
        return not begins and is_hole(self.gone, living.last.file, seen.place.file) and not self.order.knows(seen)

    def _unknown(self, seen: Seen) -> Finding:
        """What the reader must know about a file that is missing."""
        living = self.living
        return finding(
            FindingKind.UNPARSED_LINES,
            living.group,
            living.member,
            living.last_ms,
            seen.record.ts_ms,
            summary=f"a rotated file between {living.last.file} and {seen.place.file} is missing: what {living.member} "
            f"did in these {seconds(seen.record.ts_ms - living.last_ms)} is not known",
            places=[living.last, seen.place],
        )

    def _go_on(self, seen: Seen) -> None:
        """The same process, of which nobody knows what it did in the meantime."""
        before = self.living
        self._be_born(seen, whole=False)
        self.living.client, self.living.protocol, self.living.version = before.client, before.protocol, before.version
        self.living.settings = before.settings

    def _be_born(self, seen: Seen, *, whole: bool) -> None:
        record, place = seen
        number = self.living.number + 1
        group, member = self.living.group, self.living.member
        self._live(Living(group, member, number, record.ts_ms, place, whole, record.ts_ms, place))

    def _die(self, how: Ended) -> Iterator[Row]:
        if self.living.number < 0:
            return
        for hop in self.chain.end():
            yield hop
            yield from stuck_before(hop, self.living)
        yield from stuck_at_end(self.chain, self.living)
        if how is Ended.CLOSED:
            yield from closed_in_between(self.chain, self.living)
        yield from self.membership.end(how)
        yield from self.ownership.end(how)
        yield from self.wants.end(self.living.last_ms)
        yield from self.turns.end()
        yield self.living.row(how)
