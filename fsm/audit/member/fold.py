"""One member's records become rows: the streams of its processes, and what follows each of them.

    rows = fold("orders", "orders-1", seen_in_order)

What several members do to each other is left to `fsm.audit.group`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from fsm.audit.connect.worker import WorkerFollower
from fsm.audit.findings import Finding, FindingKind, Severity
from fsm.audit.follower import Row, Rows
from fsm.audit.hygiene.instances import Stream
from fsm.audit.hygiene.rotation import Missing
from fsm.audit.hygiene.stream import MemberStreams
from fsm.audit.limits import UNDATED_MS, Limits
from fsm.audit.member.consumer_instance import ConsumerInstance
from fsm.audit.member.contradictions import Contradictions
from fsm.audit.member.membership import Membership
from fsm.audit.member.owned_partitions import OwnedPartitions
from fsm.audit.member.ownership import Ownership
from fsm.audit.member.subscription import Rebalances, Subscriptions
from fsm.audit.member.transitions import Transitions
from fsm.audit.rows import Begin, Known, Seen
from fsm.trace import Kind

_DEFAULTS = Limits()
_NONE: Missing = {}


class ConsumerFollower:
    """Follows one instance of a consumer."""

    def __init__(
        self, group: str, member: str, limits: Limits, begin: Begin, before: ConsumerFollower | None = None
    ) -> None:
        self.process = ConsumerInstance(group, member, begin.number, begin.at, begin.whole, begin.at)
        if begin.goes_on and before is not None:
            was = before.process
            self.process.facts, self.process.protocol, self.process.version = was.facts, was.protocol, was.version
            self.process.settings = was.settings
        owned = OwnedPartitions(self.process)
        self.transitions = Transitions(self.process)
        self.membership = Membership(self.process, owned, limits)
        self.ownership = Ownership(self.process, owned)
        self.subscriptions = Subscriptions(self.process, owned)
        self.rebalances = Rebalances(self.process)
        self.contradictions = Contradictions(self.process)

    def see(self, known: Known) -> Rows:
        if known.record.kind is Kind.VERSION:
            self.process.version = known.record.settings.get("version", "")
            return
        self.process.see(known)
        for follower in (
            self.contradictions,
            self.membership,  # it knows why partitions go before ownership sees them go
            self.rebalances,  # ownership asks when the rebalance began that gave a partition
            self.ownership,
            self.subscriptions,
            self.transitions,
        ):
            for row in follower.see(known):
                yield self.weigh(row) if isinstance(row, Finding) else row

    def finish(self) -> Rows:
        for follower in (self.transitions, self.membership, self.ownership, self.subscriptions, self.rebalances):
            for row in follower.finish():
                yield self.weigh(row) if isinstance(row, Finding) else row
        yield self.process.life()

    def weigh(self, found: Finding) -> Finding:
        """A finding that rests on lines of a doubtful origin is for information only; one without a time says so."""
        consumer = self.process
        mixed = not consumer.facts.tells_members  # its file may hold the lines of several
        if consumer.doubtful_ms is not None or (mixed and found.kind is FindingKind.ILLEGAL_TRANSITION):
            return replace(found, severity=Severity.INFO)
        if found.end_ms == UNDATED_MS:
            return replace(found.lower_severity(), summary=f"{found.summary} (its log does not tell when)")
        return found


class MemberFollower:
    """Follows one member, or the members behind one client id, through all their processes."""

    def __init__(
        self, group: str, member: str, limits: Limits = _DEFAULTS, gone: Missing = _NONE, *, shared: bool = False
    ) -> None:
        self.group, self.limits = group, limits
        self.streams = MemberStreams(group, member, gone, shared=shared)
        self.followers: dict[str, ConsumerFollower | WorkerFollower] = {}
        """Who follows the current process of each member."""

    def see(self, seen: Seen) -> Iterator[Row]:
        for member, stream in self.streams.see(seen):
            yield from self._follow(member, stream)

    def finish(self) -> Iterator[Row]:
        for member, stream in self.streams.finish():
            yield from self._follow(member, stream)

    def _follow(self, member: str, stream: Stream) -> Iterator[Row]:
        for item in stream:
            follower = self.followers.get(member)
            if isinstance(item, Begin):
                self.followers[member] = self._start(member, item, follower)
            elif isinstance(item, Finding):
                yield follower.weigh(item) if follower is not None else item
            elif follower is None:
                continue
            elif isinstance(item, Known):
                yield from follower.see(item)
            else:
                follower.process.end(item)
                yield from follower.finish()

    def _start(
        self, member: str, begin: Begin, before: ConsumerFollower | WorkerFollower | None
    ) -> ConsumerFollower | WorkerFollower:
        about = self.group, member, self.limits, begin
        if begin.worker:
            return WorkerFollower(*about, before if isinstance(before, WorkerFollower) else None)
        return ConsumerFollower(*about, before if isinstance(before, ConsumerFollower) else None)


def fold(
    group: str, member: str, records: Iterable[Seen], limits: Limits = _DEFAULTS, gone: Missing = _NONE
) -> Iterator[Row]:
    """The rows of one member; `records` are its own, by time, file and offset.

    `gone` are the rotated files that are missing among those that were given.
    """
    follower = MemberFollower(group, member, limits, gone)
    for seen in records:
        yield from follower.see(seen)
    yield from follower.finish()
