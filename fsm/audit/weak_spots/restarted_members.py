"""Weak spots of static members that restart, as the coordinator's records show them: W13, W14 and W15.

Partitions are left to nobody, or to a member that is not told, until the group has its next generation or target:

* W13, a join that is owed: a generation withholds what a member had before, for it to give up and join again; within
  that generation its place is taken by another process.
* W14, no target: a classic group is converted without assignments, and the targets of all its members stay empty.
* W15, forgotten: a consumer group becomes a classic one in the generation of a member that waited; by the group's
  assignment it has more than it was told.

All three take what `__consumer_offsets` stores, for a broker's log does not tell the assignments of classic groups.
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
from fsm.trace import Kind, Partition, TraceRecord, by_partition


class Unclaimed(NamedTuple):
    """What nobody uses from then on."""

    cause: Cause
    member: str
    """Whom it is about: who restarted, or who is not told; empty where its log is missing."""
    start_ms: int
    end_ms: int | None
    """None where nothing ended it."""
    partitions: tuple[Partition, ...]
    """Empty for all of the `topics`."""
    topics: frozenset[str]
    why: str
    place: Place


class _Held(NamedTuple):
    member_id: str
    partitions: frozenset[Partition]


class _Generation(NamedTuple):
    """A classic group as it was stored: of each member, by its instance id where it has one, what it is assigned."""

    epoch: int
    members: Mapping[str, _Held]

    @property
    def assigned(self) -> frozenset[Partition]:
        return frozenset[Partition]().union(*(held.partitions for held in self.members.values()))


def find_unclaimed(records: Iterable[CoordinatorRecord]) -> Iterator[Unclaimed]:
    """Each of one group, when it ends; records come in order of time."""
    group, found = _Group(), list[Unclaimed]()
    for ts_ms, step in groupby(records, lambda one: one.record.ts_ms):
        batch = list(step)
        if found and group.goes_on(batch):
            yield from (one._replace(end_ms=ts_ms) for one in found)
            found = []
        found += group.take(batch)
    yield from found


class _Group:
    """The group between two steps of its coordinator."""

    def __init__(self) -> None:
        self.generation = self.before = _Generation(-1, {})
        self.current: dict[str, tuple[int, frozenset[Partition]]] = {}
        self.targets: dict[str, frozenset[Partition]] = {}
        self.topics: dict[str, frozenset[str]] = {}

    def goes_on(self, records: Sequence[CoordinatorRecord]) -> bool:
        """Whether there is a next generation or target."""
        return any(self._is_news(one.record) for one in records)

    def _is_news(self, record: TraceRecord) -> bool:
        match record.kind:
            case Kind.GROUP_STATE if record.machine == CLASSIC:
                return record.next_state != "STABLE" or record.epoch not in (None, self.generation.epoch)
            case Kind.TARGET:
                return bool(record.full)
        return record.kind is Kind.GROUP_EPOCH

    def take(self, records: Sequence[CoordinatorRecord]) -> list[Unclaimed]:
        """What the step leaves to nobody."""
        was_classic = any(
            one.record.kind is Kind.GROUP_STATE and one.record.machine == CLASSIC and one.record.next_state == "DEAD"
            for one in records
        )
        before = dict(self.current)
        for one in records:
            self._note(one.record)
        states = [one for one in records if one.record.kind is Kind.MEMBER_STATE]
        classic = [one for one in states if one.record.machine == CLASSIC]
        if classic:
            return self._begin(classic, before)
        return self._convert(records[-1]) if was_classic and self.targets else []

    def _note(self, record: TraceRecord) -> None:
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

    def _begin(
        self, states: Sequence[CoordinatorRecord], before: Mapping[str, tuple[int, frozenset[Partition]]]
    ) -> list[Unclaimed]:
        """A generation was stored, or once more."""
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
        return list(self._find_forgotten(states, before))

    def _find_replaced(self, last: _Generation, states: Sequence[CoordinatorRecord]) -> Iterator[Unclaimed]:
        """W13: a member that took another one's place, which was to give something up."""
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
        self, states: Sequence[CoordinatorRecord], before: Mapping[str, tuple[int, frozenset[Partition]]]
    ) -> Iterator[Unclaimed]:
        """W15: members that are assigned more than they were told in the same generation, by a group of consumers."""
        for one in states:
            epoch, known = before.get(one.record.member_id, (-1, frozenset()))
            missing = by_partition(frozenset(one.record.full or ()) - known)
            if epoch == self.generation.epoch and missing and not any(t.startswith(ID) for t, _ in known):
                why = f"the downgrade assigned {names(missing)} to {one.member or one.record.member_id} within its "
                why += f"generation, {epoch}, and nothing tells it: {summarize('W15')}"
                yield _leave_unclaimed(Cause.FORGOTTEN, one, missing, why)

    def _convert(self, last: CoordinatorRecord) -> list[Unclaimed]:
        """W14: members subscribe, and no target names a partition."""
        topics = frozenset[str]().union(*self.topics.values())
        if any(self.targets.values()) or not topics:
            return []
        why = "the group was converted while its generation had no assignment, and no target was computed since: "
        found = _leave_unclaimed(Cause.NO_TARGET, last, (), f"{why}{summarize('W14')}")
        return [found._replace(topics=topics)]


def summarize(number: str) -> str:
    """As `fsm.reference.reports.summarize`."""
    from fsm.reference import reports  # noqa: PLC0415  # it comes with the coordinator, and few logs need it

    return reports.summarize(number)


def _leave_unclaimed(cause: Cause, one: CoordinatorRecord, partitions: tuple[Partition, ...], why: str) -> Unclaimed:
    return Unclaimed(cause, one.member, one.record.ts_ms, None, partitions, frozenset(), why, one.place)
