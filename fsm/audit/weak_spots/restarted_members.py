"""Weak spots of restarted static members and of downgrades in the coordinator's records: W13, W14, W15 and W28.

Partitions stay without owner, or assigned to a member that is not notified, until the next generation or target:

* W13, a join that is owed: a generation withholds partitions that a member had before, until it revokes them and joins
  again; within that generation another process takes its place.
* W14, no target: a classic group is converted without assignments, and the targets of all its members stay empty.
* W15, forgotten: a consumer group becomes a classic one in the generation of a member that waited; the group's
  assignment of it has more partitions than the member was sent.
* W28, a lost round: a consumer group becomes a classic one without the partitions of members that left. The rebalance
  that is to assign them follows at once, or not at all: whether members began one is in their logs.

All of them need `__consumer_offsets`, because a broker's log does not have the assignments of classic groups.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import NamedTuple

from fsm.audit.coordinator.assignments import ID, CoordinatorRecord
from fsm.audit.findings import Cause
from fsm.audit.rows import Place
from fsm.audit.wording import names
from fsm.logs.programs.broker import CLASSIC, CONSUMER, MEMBER
from fsm.reference.reports import summarize
from fsm.trace import Kind, Partition, TraceRecord, by_partition


class Unclaimed(NamedTuple):
    """Partitions without a user from a moment on."""

    cause: Cause
    member: str
    """The member that restarted, or that is not notified; empty if its log is missing."""
    start_ms: int
    end_ms: int | None
    partitions: tuple[Partition, ...]
    """Empty for all of the `topics`."""
    topics: frozenset[str]
    why: str
    place: Place
    epoch: int | None = None
    """Of a lost round: the generation before it."""
    others: frozenset[str] = frozenset()
    """Its members."""


_Current = tuple[int, frozenset[Partition]]
"""The epoch of a member's current assignment, and its partitions."""


class _Held(NamedTuple):
    member_id: str
    partitions: frozenset[Partition]


class _Generation(NamedTuple):
    """A stored generation of a classic group: the assignment of each member, by instance id, else by member id."""

    epoch: int
    members: Mapping[str, _Held]

    @property
    def assigned(self) -> frozenset[Partition]:
        return frozenset[Partition]().union(*(held.partitions for held in self.members.values()))


def find_unclaimed(records: Iterable[CoordinatorRecord]) -> Iterator[Unclaimed]:
    """The unclaimed partitions of one group, each when it ends; records are given by time."""
    group, found = _Group(), list[Unclaimed]()
    for ts_ms, step in groupby(records, lambda one: one.record.ts_ms):
        batch = list(step)
        if found and any(group.is_progress(one.record) for one in batch):
            yield from (one._replace(end_ms=ts_ms) for one in found)
            found = []
        found += group.take(batch)
    yield from found


class _Group:
    """The state of the group between two steps of its coordinator."""

    def __init__(self) -> None:
        self.generation = self.before = _Generation(-1, {})
        self.current: dict[str, _Current] = {}
        self.targets: dict[str, frozenset[Partition]] = {}
        self.topics: dict[str, frozenset[str]] = {}

    def is_progress(self, record: TraceRecord) -> bool:
        """Whether there is a next generation or target."""
        match record.kind:
            case Kind.GROUP_STATE if record.machine == CLASSIC:
                return record.next_state != "STABLE" or record.epoch not in (None, self.generation.epoch)
            case Kind.TARGET:
                return bool(record.full)
        return record.kind is Kind.GROUP_EPOCH

    def take(self, records: Sequence[CoordinatorRecord]) -> list[Unclaimed]:
        """The partitions that the step leaves unclaimed."""
        was_classic = any(
            one.record.kind is Kind.GROUP_STATE and one.record.machine == CLASSIC and one.record.next_state == "DEAD"
            for one in records
        )
        before = dict(self.current)
        for one in records:
            self._update(one.record)
        states = [one for one in records if one.record.kind is Kind.MEMBER_STATE]
        classic = [one for one in states if one.record.machine == CLASSIC]
        if classic:
            return self._begin(classic, before)
        return self._convert(records[-1]) if was_classic and self.targets else []

    def _update(self, record: TraceRecord) -> None:
        who, full = record.member_id, frozenset(record.full or ())
        match record.kind:
            case Kind.SUBSCRIBED:
                self.topics[who] = frozenset(record.topics)
            case Kind.TARGET:
                self.targets[who] = full
            case Kind.MEMBER_STATE if record.machine == MEMBER:
                self.current[who] = record.epoch or 0, full
            case Kind.LEFT | Kind.FENCED:
                for known in (self.topics, self.targets, self.current):
                    known.pop(who, None)
            case Kind.GROUP_STATE if record.machine == CONSUMER and record.next_state == "DEAD":
                self.topics, self.targets, self.current = {}, {}, {}

    def _begin(self, states: Sequence[CoordinatorRecord], before: Mapping[str, _Current]) -> list[Unclaimed]:
        """Takes a stored generation, a new one or the current one again."""
        first, last = states[0].record, self.generation
        held = {
            one.record.instance_id or one.record.member_id: _Held(
                one.record.member_id, frozenset(one.record.full or ())
            )
            for one in states
        }
        self.generation = _Generation(first.epoch or 0, held)
        if last.epoch == self.generation.epoch:
            return list(self._find_replaced(last, states))
        self.before = last
        return [*self._find_forgotten(states, before), *self._find_left_over(states, before)]

    def _find_replaced(self, last: _Generation, states: Sequence[CoordinatorRecord]) -> Iterator[Unclaimed]:
        """W13: a member replaced another one that had partitions to revoke."""
        for one in states:
            instance = one.record.instance_id
            if instance in last.members and last.members[instance].member_id != one.record.member_id:
                had = self.before.members.get(instance, _Held("", frozenset()))
                withheld = by_partition(had.partitions - self.generation.assigned)
                topics = {topic for topic, _ in self.generation.assigned}
                if withheld and {topic for topic, _ in withheld} <= topics:
                    why = f"{one.member or instance} was to give {names(withheld)} up and was restarted before, and "
                    why += f"nobody asked for the round that gives that away: {summarize('W13')}"
                    yield _leave_unclaimed(Cause.OWED_JOIN, one, withheld, why)

    def _find_forgotten(
        self, states: Sequence[CoordinatorRecord], before: Mapping[str, _Current]
    ) -> Iterator[Unclaimed]:
        """W15: members whose assignment has more partitions than the consumer group sent them in this generation."""
        for one in states:
            epoch, known = before.get(one.record.member_id, (-1, frozenset()))
            missing = by_partition(frozenset(one.record.full or ()) - known)
            if epoch == self.generation.epoch and missing and not any(t.startswith(ID) for t, _ in known):
                why = f"the downgrade assigned {names(missing)} to {one.member or one.record.member_id} within its "
                why += f"generation, {epoch}, and nothing tells it: {summarize('W15')}"
                yield _leave_unclaimed(Cause.FORGOTTEN, one, missing, why)

    def _find_left_over(
        self, states: Sequence[CoordinatorRecord], before: Mapping[str, _Current]
    ) -> Iterator[Unclaimed]:
        """W28, unless a member begins a rebalance: what the downgrade took from members that left is assigned to
        nobody. Only if the logs of all that stayed were read.
        """
        held = frozenset[Partition]().union(*(partitions for _, partitions in before.values()))
        left = by_partition(held - self.generation.assigned)
        if left and all(one.member for one in states) and not any(topic.startswith(ID) for topic, _ in left):
            why = f"the downgrade left {names(left)} to a rebalance that no member was told of, as after a failover of "
            found = _leave_unclaimed(Cause.LOST_ROUND, states[0], left, f"{why}its coordinator: {summarize('W28')}")
            yield found._replace(epoch=self.generation.epoch, others=frozenset(one.member for one in states))

    def _convert(self, last: CoordinatorRecord) -> list[Unclaimed]:
        """W14: members have subscriptions, and all targets are empty."""
        topics = frozenset[str]().union(*self.topics.values())
        if any(self.targets.values()) or not topics:
            return []
        why = "the group was converted while its generation had no assignment, and no target was computed since: "
        found = _leave_unclaimed(Cause.NO_TARGET, last, (), f"{why}{summarize('W14')}")
        return [found._replace(topics=topics)]


def _leave_unclaimed(cause: Cause, one: CoordinatorRecord, partitions: tuple[Partition, ...], why: str) -> Unclaimed:
    return Unclaimed(cause, one.member, one.record.ts_ms, None, partitions, frozenset(), why, one.place)
