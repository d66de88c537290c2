"""What the stages exchange: members' records with their certainty, and flat rows, ready for columns.

Every row has its group and member. Times are epoch milliseconds. A place in a log is (file, offset), the byte offset
of the entry's first line; an empty file with offset -1 means that there is no line. Rows of a group are sorted, in
memory or spilled to the file of the group's records.
"""

from __future__ import annotations

import heapq
import pickle
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from itertools import chain
from operator import attrgetter
from typing import IO, Any, Generic, NamedTuple, TypeVar

from fsm.trace import Partition, TraceRecord


class Place(NamedTuple):
    file: str
    offset: int


NOWHERE = Place("", -1)
"""The place of what has no line."""


class Seen(NamedTuple):
    """A trace record and the entry it was read from."""

    record: TraceRecord
    place: Place


class At(NamedTuple):
    """A line of a member: when it was printed, and where."""

    ts_ms: int
    place: Place
    stretch: int = 0
    """Nothing is missing between two lines of the same stretch."""

    def joins(self, other: At) -> bool:
        """Whether nothing is missing between this line and another line of the same process."""
        return self.stretch == other.stretch


class Order(IntEnum):
    """How far the print order of a process's lines is known."""

    KNOWN = 0
    SETTLES = 1
    """A new file has just begun; lines of the previous one may follow."""
    INTERLEAVED = 2
    """The lines are in several files, each in order. Only lines with the same timestamp have no order."""
    NONE = 3
    """The lines of the file have no order."""


class Known(NamedTuple):
    """A record of one process of a member, its position, and its certainty."""

    record: TraceRecord
    at: At
    order: Order = Order.KNOWN
    whole: bool = True
    """The log shows the start of its process."""
    doubtful: bool = False
    """It may belong to another process."""


class Begin(NamedTuple):
    """The begin of a process of a member, or of its log."""

    number: int
    """Counted from 0."""
    at: At
    whole: bool
    """The log shows its start."""
    worker: bool = False
    """A Connect worker."""
    continues: bool = False
    """It is the previous process, after a hole in its log."""


class End(NamedTuple):
    """The end of the process that began last, or of its log."""

    how: Ended
    """`RESTARTED`, `HOLE` or `LOG_ENDED`. A close before that is in its records."""
    last: At


class Begun(StrEnum):
    """How an interval of ownership began."""

    ASSIGNED = "assigned"
    """The assigned callback started, or a client without listener took the partition."""
    FOUND = "found"
    """A line shows that the partition was owned before the first line about it; `start_ms` is the latest possible
    begin."""
    CALLED = "called"
    """Without owner: a unit of Connect was configured at `start_ms`, and the request was answered at `end_ms`. The unit
    is missing from then on, until a worker has it."""
    PENDING = "pending"
    """Without owner: it stays assigned to the member, which gave it up and uses it no more (W27)."""
    WAITS = "waits"
    """Without owner: a scheduled delay of Connect ran; a unit without worker would have waited for its end."""


UNOWNED_BEGINS = (Begun.CALLED, Begun.WAITS, Begun.PENDING)
"""Begins of intervals without owner, which describe the time without owner."""


class Ended(StrEnum):
    """How an interval of ownership ended."""

    REVOKED = "revoked"
    LOST = "lost"
    DELETED = "deleted"
    """Revoked just after a commit was refused because the topic does not exist any more."""
    CLOSED = "closed"
    """The consumer was closed while it still owned the partition."""
    DROPPED = "dropped"
    """The client took the partition from the application without any callback."""
    REASSIGNED = "reassigned"
    """The whole assignment was printed without the partition."""
    HANGS = "hangs"
    """The log ends inside close(): the process is alive and still considers itself the owner."""
    RESTARTED = "restarted"
    """A new process of this member appeared; the old one ended at or after its last line, without a logged end."""
    HOLE = "hole"
    """A rotated file is missing after the last line; the log, and possibly the process, continues after it."""
    LOG_ENDED = "log_ended"
    """The member's log ends: it was killed, it is silent, or the log was cut."""


UNLOGGED_ENDS = (Ended.LOG_ENDED, Ended.RESTARTED, Ended.HOLE)
"""Ends without a line."""


@dataclass(frozen=True, slots=True)
class Interval:
    """One member owned one partition, as its application saw it."""

    group: str
    member: str
    topic: str
    partition: int
    start_ms: int
    end_ms: int
    begun: Begun
    ended: Ended
    end_exact: bool = True
    """False if the end was not logged and `end_ms` is the earliest possible one (silence, kill, INFO logs)."""
    doubtful: bool = False
    """Its lines may belong to another process."""
    void_ms: int | None = None
    """When the coordinator stopped counting the member as owner before its application released it, or None."""
    void_cause: str = ""
    """Why, as a value of `findings.Cause`; empty if `void_ms` is None."""
    life: int = 0
    """`Life.number` of the incarnation."""
    start: Place = NOWHERE
    end: Place = NOWHERE
    turn_ms: int | None = None
    """Begin of the rebalance in which the member got it; None if not logged."""


@dataclass(frozen=True, slots=True)
class Subscription:
    """The time in which one member was subscribed to a topic or pattern and could hold partitions."""

    group: str
    member: str
    topic: str
    """Empty if `pattern` is set."""
    pattern: str
    """A regular expression that must match the whole topic name."""
    start_ms: int
    end_ms: int
    place: Place


@dataclass(frozen=True, slots=True)
class Life:
    """One incarnation of a member: from its creation, or its first line, to its close, or its last line."""

    group: str
    member: str
    number: int
    """Counted from 0."""
    client_id: str
    instance_id: str
    member_id: str
    """The last one."""
    protocol: str
    """`consumer`, `classic`, or empty if not logged."""
    version: str
    start_ms: int
    end_ms: int
    whole_start: bool
    """False if the log begins later than the process."""
    ended: Ended
    """`CLOSED`, `RESTARTED`, `HOLE` or `LOG_ENDED`."""
    in_group: bool
    """True if it was a member when the life ended: the coordinator had to wait for its session."""
    doubtful_ms: int | None
    """Since when its lines may belong to another process; None if they are its own."""
    session_timeout_ms: int | None
    """None if not logged, as in consumer groups, where the broker decides it."""
    heartbeat_interval_ms: int | None
    """Kafka's default if a consumer did not log it."""
    max_poll_interval_ms: int | None
    start: Place
    end: Place
    settings: Mapping[str, str] = field(default_factory=dict, hash=False)
    """The logged settings that matter to its membership, by Kafka's names."""


@dataclass(frozen=True, slots=True)
class ObservedTransition:
    """One observed transition, to be checked against its table."""

    group: str
    member: str
    machine: str
    state: str
    next_state: str
    event: str
    ts_ms: int
    dwell_ms: int | None
    """Time spent in `state`; None if its begin is not known."""
    previous: str
    """The state after the previous transition; empty if that is not certain."""
    place: Place


@dataclass(frozen=True, slots=True)
class MemberRebalance:
    """One rebalance of one member: from its first line to the end of the member's last callback."""

    group: str
    member: str
    start_ms: int
    end_ms: int
    epoch: int | None
    added: int
    """Partitions given to this member."""
    removed: int
    """Partitions taken from it, by revocation or loss."""
    cause: str
    """By this member's lines: `joined`, `left`, `lost`, `subscription`; empty if the coordinator started it."""
    place: Place
    timeout_ms: int = 0
    """The member's rebalance timeout; 0 if not known."""


@dataclass(frozen=True, slots=True)
class GivenUp:
    """A heartbeat that a member abandoned; the coordinator may have handled it, or may handle it later."""

    group: str
    member: str
    ts_ms: int
    assigning: tuple[Partition, ...]
    """The partitions of the assigned callback that ran at the time; empty if none ran."""
    callback_end_ms: int
    """When that callback ended."""
    timeout_ms: int
    """Longest time after which the member abandons a request."""
    place: Place


@dataclass(frozen=True, slots=True)
class CoordinatorAway:
    """The time in which a member knew no coordinator of its group."""

    member: str
    start_ms: int
    end_ms: int


T = TypeVar("T")
_Key = TypeVar("_Key", bound=Hashable)


def group_by(items: Iterable[T], key: Callable[[T], _Key]) -> dict[_Key, list[T]]:
    """The items by key, in the given order, unlike `itertools.groupby` also those that are apart."""
    found: dict[_Key, list[T]] = {}
    for one in items:
        found.setdefault(key(one), []).append(one)
    return found


RUN = 100_000
"""Rows that are sorted and spilled together; fewer rows stay in memory, which is faster."""
_CHUNK = 500
"""Rows of a run that are in memory while the run is read."""


class SortedRows(Generic[T]):
    """Rows that are added in any order and iterated by key, any number of times. Without a file all stay in memory."""

    def __init__(self, key: Callable[[T], Any], rows: Iterable[T] = (), spool: IO[bytes] | None = None) -> None:
        self._key = key
        self._spool = spool
        self._held: list[T] = []
        self._runs: list[list[int]] = []
        """File offsets of the chunks of each run."""
        self._count = 0
        for row in rows:
            self.append(row)

    def append(self, row: T) -> None:
        self._held.append(row)
        self._count += 1
        if len(self._held) >= RUN and self._spool is not None:
            self._spill(self._spool)

    def by(self, key: Callable[[T], Any]) -> SortedRows[T]:
        """The same rows in another order."""
        return SortedRows(key, self, self._spool)

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[T]:
        self._held.sort(key=self._key)
        if not self._runs:
            return iter(self._held)
        return heapq.merge(*map(self._read, self._runs), self._held, key=self._key)

    def _spill(self, spool: IO[bytes]) -> None:
        rows, self._held = sorted(self._held, key=self._key), []
        run = []
        for start in range(0, len(rows), _CHUNK):
            run.append(spool.seek(0, 2))
            pickle.dump(rows[start : start + _CHUNK], spool)
        self._runs.append(run)

    def _read(self, run: Iterable[int]) -> Iterator[T]:
        for start in run:
            if self._spool is not None:
                self._spool.seek(start)
                yield from pickle.load(self._spool)  # noqa: S301  written by `_spill`


RowOfGroup = Interval | Subscription | Life | MemberRebalance | GivenUp | CoordinatorAway


class GroupRows:
    """The rows of a group's members, each kind in its order. Intervals and rebalances can be spilled to a file."""

    def __init__(self, *given: Iterable[RowOfGroup], spool: IO[bytes] | None = None) -> None:
        self.spool = spool
        self.intervals = SortedRows[Interval](_BY_PARTITION, (), spool)
        self.subscriptions: list[Subscription] = []
        self.lives: list[Life] = []
        self.given_up: list[GivenUp] = []
        self.away: list[CoordinatorAway] = []
        self.rebalances = SortedRows[MemberRebalance](_BY_TIME, (), spool)
        self._of_kind: dict[type, SortedRows[Any] | list[Any]] = {
            Interval: self.intervals,
            Subscription: self.subscriptions,
            Life: self.lives,
            GivenUp: self.given_up,
            CoordinatorAway: self.away,
            MemberRebalance: self.rebalances,
        }

        for row in chain.from_iterable(given):
            self.add(row)

    def add(self, row: RowOfGroup) -> None:
        self._of_kind[type(row)].append(row)


_BY_PARTITION = attrgetter("topic", "partition", "start_ms", "end_ms", "member")
_BY_TIME = attrgetter("start_ms", "end_ms", "member")
