"""The target and current assignments of members, from the coordinator's records.

Each member of a consumer group has two assignments: the target, which an assignor computed, and the current one, which
the member was sent, with partitions that it has still to revoke. Members of a classic group have only that of their
generation. A group may have two sources, the broker's log and its stored records: the later of two equal records is
ignored.

Topics are written by name if a record has it, else by their ids after `ID`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import islice
from operator import attrgetter
from typing import NamedTuple, TypeVar

from fsm.audit.rows import NOWHERE, Place
from fsm.logs.programs.broker import CLASSIC, CONSUMER
from fsm.render.wording import numbers
from fsm.trace import Kind, Partition, TraceRecord, by_partition

ID = "id:"
"""Prefix of a topic that is known only by id; topic names cannot begin so."""
AWAY = "STATIC_MEMBER_AWAY"
"""Detail of a leave after which the coordinator keeps the member's assignments."""
HELD = 100_000
"""Limit of the assignments of one group that are followed at the same time; the oldest are dropped."""
REPEATED_MS = 1000
"""Longest time between storing a record and printing its line."""
_RECENT = 4
"""States of one member that one source may have before the other has the first of them."""
_ID_SHOWN, _TOPICS_SHOWN = 8, 20
LABEL = 160
"""Longest text of an assignment, in characters."""


class AssignmentKind(StrEnum):
    TARGET = "target"
    CURRENT = "current"


class EndReason(StrEnum):
    OPEN = ""
    """It was current at the end of the records."""
    FOLLOWED = "followed"
    """The same member got another assignment."""
    REMOVED = "removed"
    """The member was removed: it left, was fenced, or the group continued without it."""


@dataclass(frozen=True, slots=True)
class Assignment:
    group: str
    member: str
    """Empty if its log is missing."""
    member_id: str
    which: AssignmentKind
    machine: str
    """The table that `state` belongs to: `consumer-group-member` or `classic-group`; empty for a target."""
    state: str
    role: str
    """`leader` for the leader of a classic group."""
    epoch: int | None
    """Member epoch or generation of a current assignment; epoch of a target, if known."""
    partitions: tuple[Partition, ...]
    revoked: tuple[Partition, ...]
    """Partitions that the member was sent to revoke and has not revoked yet."""
    start_ms: int
    end_ms: int | None
    until: EndReason
    label: str
    """The partitions, as text for reports."""
    giving_up: str
    """The partitions to revoke, as text for reports."""
    start: Place
    """The line or record of its begin."""
    end: Place
    """The one of its end."""


class CoordinatorRecord(NamedTuple):
    """A record of a coordinator, with the member of its member id; empty if that member's log is missing."""

    record: TraceRecord
    member: str
    place: Place
    seq: int = 0
    """Its position among the records of its line."""


def add_topic_names(known: dict[str, str], names: Mapping[str, str]) -> None:
    """Adds topic names by topic id; of two names of one id the smaller one is used."""
    for topic_id, name in names.items():
        known[topic_id] = min(name, known.get(topic_id, name))


def with_names(record: TraceRecord, known: Mapping[str, str]) -> TraceRecord:
    """The record with topic names instead of ids; classic groups have names already."""
    if record.machine == CLASSIC or record.kind not in (Kind.TARGET, Kind.MEMBER_STATE):
        return record

    def rename(partitions: Iterable[Partition]) -> tuple[Partition, ...]:
        return by_partition((known.get(topic, ID + topic), number) for topic, number in partitions)

    full = None if record.full is None else rename(record.full)
    return replace(record, full=full, revoked=rename(record.revoked))


def with_known_names(record: TraceRecord, known: Mapping[str, str]) -> TraceRecord:
    """A member's record with topic names instead of ids, for traces of the wire; unknown ids stay."""
    if not record.full or not any(topic.startswith(ID) for topic, _ in record.full):
        return record
    named = ((known.get(topic.removeprefix(ID), topic), number) for topic, number in record.full)
    return replace(record, full=by_partition(named))


def label(partitions: Iterable[Partition]) -> str:
    """Partitions as text for reports, with shortened ids.

    >>> label([("id:8s1lnmxkSK2e4GljFsdRJw", 3), ("orders", 1), ("orders", 2), ("orders", 0)])
    'id:8s1lnmxk…-[3], orders-[0..2]'
    """
    by_topic: dict[str, list[int]] = {}
    for topic, number in by_partition(partitions):
        by_topic.setdefault(topic, []).append(number)
    text = ", ".join(f"{_shorten(topic)}-[{numbers(own)}]" for topic, own in islice(by_topic.items(), _TOPICS_SHOWN))
    return text if len(text) < LABEL and len(by_topic) <= _TOPICS_SHOWN else text[: LABEL - 1] + "…"


def _shorten(topic: str) -> str:
    return topic[: len(ID) + _ID_SHOWN] + "…" if topic.startswith(ID) else topic


def find_assignments(group: str, records: Iterable[CoordinatorRecord]) -> Iterator[Assignment]:
    """The assignments of one group's members, each when it ends; records are given by time."""
    open_ = _OpenAssignments(group)
    for one in records:
        yield from open_.take(one)
    yield from open_.open.values()


_Key = tuple[str, AssignmentKind]
Key = TypeVar("Key")
Value = TypeVar("Value")


class _OpenAssignments:
    def __init__(self, group: str) -> None:
        self.group = group
        self.open: dict[_Key, Assignment] = {}
        self.recent: dict[_Key, deque[Assignment]] = {}
        """The last `_RECENT` of each member, which another source may repeat."""
        self.static: dict[str, str] = {}
        """The member id of each instance id."""

    def take(self, one: CoordinatorRecord) -> Iterator[Assignment]:
        record = one.record
        if record.instance_id and record.kind in (Kind.JOINED, Kind.MEMBER_STATE):
            yield from self._replace(one)
        if record.kind in (Kind.MEMBER_STATE, Kind.TARGET):
            yield from self._assign(one)
        elif record.kind is Kind.FENCED or (record.kind is Kind.LEFT and record.detail != AWAY):
            yield from self._remove(_both(record.member_id), one)
        elif record.kind is Kind.GROUP_STATE:
            yield from self._remove([key for key, own in self.open.items() if _is_over(own, record)], one)

    def _replace(self, one: CoordinatorRecord) -> Iterator[Assignment]:
        """Ends the assignments of a static member's old id when it returns with another one."""
        old_id = self.static.get(one.record.instance_id, one.record.member_id)
        if old_id != one.record.member_id:
            yield from self._remove(_both(old_id), one)
        _keep(self.static, one.record.instance_id, one.record.member_id)

    def _assign(self, one: CoordinatorRecord) -> Iterator[Assignment]:
        begun = _begin(self.group, one)
        if begun is None or self._is_repeated(begun):
            return
        key = (begun.member_id, begun.which)
        before = self.open.pop(key, None)
        if before is not None:
            yield replace(before, end_ms=begun.start_ms, until=EndReason.FOLLOWED, end=one.place)
        dropped = _keep(self.open, key, begun)
        if dropped is not None:
            yield dropped
        recent = self.recent.get(key) or deque(maxlen=_RECENT)
        recent.append(begun)
        _keep(self.recent, key, recent)

    def _is_repeated(self, begun: Assignment) -> bool:
        """Whether it equals the current assignment, or a recent one of another source."""
        key = (begun.member_id, begun.which)
        current = self.open.get(key)
        if current is not None and _same(current, begun):
            return True
        return any(
            _same(old, begun) and old.start.file != begun.start.file and begun.start_ms - old.start_ms <= REPEATED_MS
            for old in self.recent.get(key, ())
        )

    def _remove(self, keys: Iterable[_Key], one: CoordinatorRecord) -> Iterator[Assignment]:
        for key in keys:
            ended = self.open.pop(key, None)
            if ended is not None:
                yield replace(ended, end_ms=one.record.ts_ms, until=EndReason.REMOVED, end=one.place)


def _both(member_id: str) -> list[_Key]:
    return [(member_id, which) for which in AssignmentKind]


def _keep(held: dict[Key, Value], key: Key, value: Value) -> Value | None:
    """Adds an entry; returns the oldest one, removed, if there are more than `HELD`."""
    held[key] = value
    return held.pop(next(iter(held))) if len(held) > HELD else None


def _begin(group: str, one: CoordinatorRecord) -> Assignment | None:
    """The assignment that a record begins; None if it has no partitions."""
    record = one.record
    if record.full is None or not record.member_id:
        return None
    return Assignment(
        group=group,
        member=one.member,
        member_id=record.member_id,
        which=AssignmentKind.TARGET if record.kind is Kind.TARGET else AssignmentKind.CURRENT,
        machine=record.machine,
        state=record.next_state,
        role=record.detail if record.machine == CLASSIC else "",
        epoch=record.epoch,
        partitions=by_partition(record.full),
        revoked=by_partition(record.revoked),
        start_ms=record.ts_ms,
        end_ms=None,
        until=EndReason.OPEN,
        label=label(record.full),
        giving_up=label(record.revoked),
        start=one.place,
        end=NOWHERE,
    )


def _same(old: Assignment, new: Assignment) -> bool:
    """Whether they are equal; targets without epoch, because a stored target does not have it."""
    if old.which is AssignmentKind.TARGET:
        return old.partitions == new.partitions
    values = attrgetter("machine", "state", "epoch", "partitions", "revoked")
    return bool(values(old) == values(new))


def _is_over(own: Assignment, state: TraceRecord) -> bool:
    """Whether a state of the group ends the assignment.

    A generation ends with the next one and with the group. A group that is unloaded (`DEAD`, with an epoch) moves to
    another coordinator unchanged; one that is converted, or stored as deleted, loses its assignments of the old kind.
    """
    classic = own.machine == CLASSIC
    if state.machine == CLASSIC and classic:
        gone = state.next_state == "EMPTY" or (state.next_state == "DEAD" and state.epoch is None)
        return gone or (state.next_state == "STABLE" and state.epoch != own.epoch)
    if state.machine == CONSUMER and not classic:
        return state.next_state == "DEAD" and state.epoch is None
    return state.machine in (CLASSIC, CONSUMER) and not state.next_state and state.detail == ""
