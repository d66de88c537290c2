"""From one member's records to rows: the streams of its processes, and their followers.

`fsm.audit.group` compares members.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from dataclasses import replace
from functools import cache

from fsm.audit.connect.worker import WorkerFollower
from fsm.audit.findings import Finding, FindingKind, Severity
from fsm.audit.follower import Row, Rows, Step
from fsm.audit.hygiene.duplicate_lines import DuplicateLines
from fsm.audit.hygiene.instances import ConsumerInstances, ProcessStreams, Stream
from fsm.audit.hygiene.repeated_lines import RepeatedLines
from fsm.audit.hygiene.rotation import Missing
from fsm.audit.hygiene.shared_client_id import Owned, SharedClientId
from fsm.audit.limits import UNDATED_MS, Limits
from fsm.audit.member.consumer_instance import ConsumerInstance, InstanceFollower, OwnedPartitions
from fsm.audit.member.contradictions import Contradictions
from fsm.audit.member.membership import GivenUpHeartbeats, Membership
from fsm.audit.member.ownership import InterruptedRevocation, Ownership
from fsm.audit.member.subscription import Rebalances, Subscriptions
from fsm.audit.member.transitions import Transitions
from fsm.audit.rows import Begin, Known, Seen
from fsm.trace import Kind

_IN_ORDER: tuple[type[InstanceFollower], ...] = (
    Contradictions,
    Membership,  # sets the cause of losses before ownership takes them
    Rebalances,  # sets the begin of the rebalance for ownership
    Ownership,
    InterruptedRevocation,  # corrects ownership
    Subscriptions,
    Transitions,
    GivenUpHeartbeats,
)
"""Followers in the order in which they take a record."""


@cache
def _find_takers(kind: Kind) -> tuple[tuple[int, Step], ...]:
    """(number, method) of the followers that take records of this kind."""
    concerned = ((number, one) for number, one in enumerate(_IN_ORDER) if one.every or kind in one.steps)
    return tuple((number, one.see if one.every else one.steps[kind]) for number, one in concerned)


_LATER_ENDS, _BEGINS = (Kind.OWNED, Kind.DROPPED), (Kind.ADDED, Kind.STARTED, Kind.LEFT)


class ConsumerFollower:
    def __init__(
        self, group: str, member: str, limits: Limits, begin: Begin, before: ConsumerFollower | None = None
    ) -> None:
        self.process = ConsumerInstance(group, member, begin.number, begin.at, begin.whole, begin.at, limits=limits)
        if begin.continues and before is not None:
            was = before.process
            self.process.client_id, self.process.settings = was.client_id, was.settings
            self.process.protocol, self.process.version = was.protocol, was.version
        owned = OwnedPartitions(self.process)
        self.followers = tuple(one(self.process, owned) for one in _IN_ORDER)
        self.early: list[Known] = []
        """Records of `ClientFacts.early_end`, which count if something new begins before a later end is logged."""

    def see(self, known: Known) -> Rows:
        kind, event = known.record.kind, known.record.event
        if kind is Kind.VERSION:
            self.process.version = known.record.settings.get("version", "")
            return ()
        self.process.see(known)
        if event and event == self.process.facts.early_end:
            self.early.append(known)
            return ()
        if not self.early or kind not in (*_LATER_ENDS, *_BEGINS):
            return self._take(known)
        early, self.early = self.early, []
        taken = [known] if kind in _LATER_ENDS else [*early, known]
        return [row for one in taken for row in self._take(one)]

    def _take(self, known: Known) -> Sequence[Row]:
        rows: list[Row] = []
        for number, step in _find_takers(known.record.kind):
            rows += step(self.followers[number], known) or ()
        return [self.lower_doubtful(row) if isinstance(row, Finding) else row for row in rows] if rows else rows

    def finish(self) -> Rows:
        for one in self.early:
            yield from self._take(one)
        for follower in self.followers:
            for row in follower.finish():
                yield self.lower_doubtful(row) if isinstance(row, Finding) else row
        yield self.process.life()

    def lower_doubtful(self, found: Finding) -> Finding:
        """The finding; for information only if its lines may belong to another process, one step less severe if its log
        has no timestamps."""
        consumer = self.process
        mixed = not consumer.facts.identifies_members  # its file may have lines of several members
        if consumer.doubtful_ms is not None or (mixed and found.kind is FindingKind.ILLEGAL_TRANSITION):
            return replace(found, severity=Severity.INFO)
        if found.end_ms == UNDATED_MS:
            return replace(found.lower_severity(), summary=f"{found.summary} (its log does not tell when)")
        return found


class MemberFollower:
    """Follows one member through all its processes."""

    def __init__(self, group: str, member: str, limits: Limits, gone: Missing) -> None:
        self.about = group, member, limits
        self.streams = ProcessStreams(group, member, gone)
        self.follower: ConsumerFollower | WorkerFollower | None = None

    def see(self, seen: Seen, *, doubtful: bool = False) -> Sequence[Row]:
        return self._follow(self.streams.see(seen, doubtful=doubtful))

    def finish(self) -> Sequence[Row]:
        return self._follow(self.streams.finish())

    def update_files(self, gone: Missing, files: Container[str]) -> None:
        """Sets the missing rotated files; records follow from `files` only."""
        if isinstance(self.streams.processes, ConsumerInstances):
            self.streams.processes.gone = gone
            self.streams.processes.order.forget(files)

    def _follow(self, stream: Stream) -> list[Row]:
        rows: list[Row] = []
        follower = self.follower
        for item in stream:
            if isinstance(item, Begin):
                follower = self.follower = self._start(item)
            elif isinstance(item, Finding):
                rows.append(follower.lower_doubtful(item) if follower is not None else item)
            elif follower is None:
                continue
            elif isinstance(item, Known):
                rows += follower.see(item)
            else:
                follower.process.end(item)
                rows += follower.finish()
        return rows

    def _start(self, begin: Begin) -> ConsumerFollower | WorkerFollower:
        before = self.follower
        if begin.worker:
            return WorkerFollower(*self.about, begin, before if isinstance(before, WorkerFollower) else None)
        return ConsumerFollower(*self.about, begin, before if isinstance(before, ConsumerFollower) else None)


class SharedFollower:
    """Follows each of the members with one client id."""

    def __init__(self, group: str, client_id: str, limits: Limits, gone: Missing) -> None:
        self.group, self.limits, self.gone = group, limits, gone
        self.duplicates = DuplicateLines(group, client_id)
        self.repeated = RepeatedLines(group, client_id, shared=True)
        self.apart = SharedClientId(client_id)
        self.members: dict[str, MemberFollower] = {}

    def see(self, seen: Seen) -> Sequence[Row]:
        return self._take(self.repeated.see(self.duplicates.see(seen)))

    def finish(self) -> Sequence[Row]:
        rows = self._take(self.repeated.finish(self.duplicates.finish()))
        rows += self._follow(self.apart.finish())
        for _, follower in sorted(self.members.items()):
            rows += follower.finish()
        return [*rows, *self.duplicates.findings(), *self.repeated.findings()]

    def update_files(self, gone: Missing, files: Container[str]) -> None:
        """As `MemberFollower.update_files`."""
        self.gone = gone
        self.apart.order.forget(files)
        for follower in self.members.values():
            follower.update_files(gone, files)

    def _take(self, given: Iterable[Seen]) -> list[Row]:
        return [row for seen in given for row in self._follow(self.apart.see(seen))]

    def _follow(self, by_member: Owned) -> list[Row]:
        rows: list[Row] = []
        for member, seen, doubtful in by_member:
            if member not in self.members:
                self.members[member] = MemberFollower(self.group, member, self.limits, self.gone)
            rows += self.members[member].see(seen, doubtful=doubtful)
        return rows
