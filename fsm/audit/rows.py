"""What passes between the stages: records of members with what is certain about them, and flat rows, ready for columns.

Every row names its group and member. Times are epoch milliseconds. A place in a log is (file, offset), the
byte offset of the entry's first line; an empty file with offset -1 means that no line says it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from operator import attrgetter
from typing import IO, NamedTuple

from fsm.audit.sorted_rows import SortedRows
from fsm.trace import Partition, TraceRecord


class Place(NamedTuple):
    file: str
    offset: int


NOWHERE = Place("", -1)
"""No line says it."""


class Seen(NamedTuple):
    """A trace record and the entry it was read from."""

    record: TraceRecord
    place: Place


class At(NamedTuple):
    """A line of a member: when it was printed, and where."""

    ts_ms: int
    place: Place
    stretch: int = 0
    """Between two lines of one stretch nothing is missing."""

    def joins(self, other: At) -> bool:
        """Whether nothing is missing between this line and the other one of the same process."""
        return self.stretch == other.stretch


class Order(IntEnum):
    """How far the order is known in which the lines of a process were printed."""

    KNOWN = 0
    SETTLES = 1
    """A file has just begun, and the one before it may not be complete yet."""
    INTERLEAVED = 2
    """They are spread over several files, each in order: time orders all but those of one moment."""
    NONE = 3
    """The lines of the file have no order."""


class Known(NamedTuple):
    """A record of one process of a member, in its place among the others, and what is certain about it."""

    record: TraceRecord
    at: At
    order: Order = Order.KNOWN
    whole: bool = True
    """The log shows the start of its process."""
    doubtful: bool = False
    """It may be another process's."""


class Begin(NamedTuple):
    """A process of a member begins, or its log does."""

    number: int
    """Counted from 0."""
    at: At
    whole: bool
    """The log shows its start."""
    worker: bool = False
    """A worker of Connect."""
    goes_on: bool = False
    """It is the process before, of which nobody knows what it did in the meantime."""


class End(NamedTuple):
    """The process that began last ends, or its log does."""

    how: Ended
    """`RESTARTED`, `HOLE` or `LOG_ENDED`; whether it was closed before, its own records tell."""
    last: At
    """Its last line."""


class Begun(StrEnum):
    """How an interval of ownership began."""

    ASSIGNED = "assigned"
    """The assigned callback started, or the client without listener took the partition."""
    FOUND = "found"
    """A line shows that the partition was owned before the log tells anything about it; `start_ms` is the latest
    possible begin."""
    CALLED = "called"
    """Nobody's: the config topic called for a unit of Connect at `start_ms`, and the request that did was answered at
    `end_ms`. The unit is missing from then on, until somebody has it."""
    WAITS = "waits"
    """Nobody's: a scheduled delay of Connect ran, and the unit would have waited for its end if nobody had it."""


NOBODY = (Begun.CALLED, Begun.WAITS)
"""Begins of intervals in which nobody owned anything: they tell about the time without owner."""


class Ended(StrEnum):
    """How an interval of ownership ended."""

    REVOKED = "revoked"
    LOST = "lost"
    DELETED = "deleted"
    """Revoked just after a commit was refused because the topic exists no more."""
    CLOSED = "closed"
    """The consumer was closed while it still owned the partition."""
    DROPPED = "dropped"
    """The client took the partition from the application without any callback."""
    REASSIGNED = "reassigned"
    """The whole assignment was printed, and the partition was not in it."""
    HANGS = "hangs"
    """The log ends inside close(): the process lives, and by its own view it owns the partition still."""
    RESTARTED = "restarted"
    """A new process of this member appeared; the old one ended without a word at or after its last line."""
    HOLE = "hole"
    """A rotated file is missing after the last line; the log goes on behind it, and so may the process."""
    LOG_ENDED = "log_ended"
    """The member's log ends here: it was killed, it is silent, or the log was cut."""


UNTOLD = (Ended.LOG_ENDED, Ended.RESTARTED, Ended.HOLE)
"""Ends that no line tells."""


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
    end_exact: bool
    """False where no line tells the end and `end_ms` is the earliest possible one (silence, death, INFO logs)."""
    doubtful: bool
    """Its lines may be another process's: what rests on it is not certain."""
    void_ms: int | None
    """From when the coordinator no longer counted this member as owner although it still was one; None if it did."""
    void_cause: str
    """Why, as a cause of `findings`; empty if `void_ms` is None."""
    life: int
    """Which incarnation of the member (see `Life.number`)."""
    start: Place
    end: Place
    turn_ms: int | None = None
    """When the rebalance began in which the member got it; None where nothing tells."""


@dataclass(frozen=True, slots=True)
class Subscription:
    """One member wanted a topic, or every topic that matches a pattern, as long as it could hold partitions."""

    group: str
    member: str
    topic: str
    """Empty where `pattern` is set."""
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
    """The last one it had."""
    protocol: str
    """`consumer`, `classic`, or empty where nothing tells."""
    version: str
    start_ms: int
    end_ms: int
    whole_start: bool
    """False where the log begins in mid-life."""
    ended: Ended
    """`CLOSED`, `RESTARTED`, `HOLE` or `LOG_ENDED`."""
    in_group: bool
    """True where the member counted as one when the life ended: the coordinator had to wait for its session."""
    doubtful_ms: int | None
    """Since when its lines may be another process's; None where they are its own."""
    session_timeout_ms: int | None
    """None where the log does not tell: the broker decides it in consumer groups."""
    heartbeat_interval_ms: int | None
    """Kafka's default where a consumer's log does not tell."""
    max_poll_interval_ms: int | None
    start: Place
    end: Place
    settings: Mapping[str, str] = field(default_factory=dict, hash=False)
    """Those that its log told and that rule its part in the group, by Kafka's names."""


@dataclass(frozen=True, slots=True)
class ObservedTransition:
    """One observed transition, to be judged against its table."""

    group: str
    member: str
    machine: str
    state: str
    next_state: str
    event: str
    ts_ms: int
    dwell_ms: int | None
    """Time spent in `state`; None where its begin is not known."""
    previous: str
    """State the member was in according to its last transition; empty where that is not known for certain."""
    place: Place


@dataclass(frozen=True, slots=True)
class MemberRebalance:
    """One rebalance as one member went through it: from the first sign to the end of its last callback."""

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
    """What this member says: `joined`, `left`, `lost`, `subscription`; empty where the coordinator told it to."""
    place: Place
    timeout_ms: int = 0
    """How long its group waits for this member; 0 where nothing tells."""


@dataclass(frozen=True, slots=True)
class GivenUp:
    """A heartbeat that a member gave up: it may have been handled, and may be handled yet."""

    group: str
    member: str
    ts_ms: int
    assigning: tuple[Partition, ...]
    """What the assigned callback was called for that ran at the time; empty where none ran."""
    callback_end_ms: int
    """When that callback ended."""
    timeout_ms: int
    """Longest time after which the member gives a request up."""
    place: Place


@dataclass(frozen=True, slots=True)
class CoordinatorAway:
    """A member knew of no coordinator of its group."""

    member: str
    start_ms: int
    end_ms: int


class GroupRows:
    """The rows of a group's members, each kind in its order; those of which there may be many can wait in a file."""

    def __init__(
        self,
        intervals: Iterable[Interval] = (),
        subscriptions: Iterable[Subscription] = (),
        lives: Iterable[Life] = (),
        rebalances: Iterable[MemberRebalance] = (),
        spool: IO[bytes] | None = None,
    ) -> None:
        self.spool = spool
        self.intervals = SortedRows(_BY_PARTITION, intervals, spool)
        self.subscriptions = list(subscriptions)
        self.lives = list(lives)
        self.given_up: list[GivenUp] = []
        self.away: list[CoordinatorAway] = []
        self.rebalances = SortedRows(_BY_TIME, rebalances, spool)

    def add(self, row: Interval | Subscription | Life | MemberRebalance | GivenUp | CoordinatorAway) -> None:
        match row:
            case Interval():
                self.intervals.append(row)
            case Subscription():
                self.subscriptions.append(row)
            case Life():
                self.lives.append(row)
            case GivenUp():
                self.given_up.append(row)
            case CoordinatorAway():
                self.away.append(row)
            case MemberRebalance():
                self.rebalances.append(row)


_BY_PARTITION = attrgetter("topic", "partition", "start_ms", "end_ms", "member")
_BY_TIME = attrgetter("start_ms", "end_ms", "member")
