"""The content of a report: plain values, filled by the audit.

Kinds, severities, causes, states and names are texts here. Any of them may come from a log and is treated as hostile
when drawn. Times are epoch milliseconds. Lists are sorted worst first and bounded by the caller; the numbers called
`..._hidden` count omitted entries.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from fsm.render.timeline.trend import Trend


@dataclass(frozen=True, slots=True)
class Count:
    """How often something was seen."""

    name: str
    count: int


class Unreadable(NamedTuple):
    """A file that could not be read, and why."""

    file: str
    reason: str


class Stretch(NamedTuple):
    """Begin and end."""

    start_ms: int
    end_ms: int


class EvidenceLine(NamedTuple):
    """A log line that shows a finding; `line` is 0 if unknown."""

    file: str
    line: int
    text: str
    record: int = 0
    """Its number among several on that line; 0 if there is none."""


class StateSpan(NamedTuple):
    """A member was in a state."""

    state: str
    start_ms: int
    end_ms: int


class AssignedSpan(NamedTuple):
    """A member's target or current assignment in the coordinator, with begin and end."""

    state: str
    """The member's state in its coordinator; empty for a target."""
    epoch: str
    """Its epoch or generation, such as `epoch 3`; empty if unknown."""
    partitions: str
    """Its partitions as short text, such as `orders-[0..2]`."""
    size: int
    """How many partitions."""
    giving_up: str
    """Partitions that the member still has to revoke, as short text."""
    start_ms: int
    end_ms: int


class Mark(NamedTuple):
    """An instant in the life of a member, such as `poll_expired` or `fenced`."""

    ts_ms: int
    kind: str
    text: str


class OwnedSpan(NamedTuple):
    """A member owned a partition; `ended` says how it ended, as in `revoked` or `log_ended`."""

    member: str
    start_ms: int
    end_ms: int
    ended: str


class RebalanceView(NamedTuple):
    """One rebalance of a group."""

    start_ms: int
    end_ms: int
    cause: str
    members: int
    """How many members took part."""
    moved: int
    """How many partitions moved to another member."""
    without_owner_ms: int
    """The longest time that one of them had no owner."""


@dataclass(frozen=True, slots=True)
class EdgeCount:
    """How often members went from one state to the next; `illegal` if the table has no such step."""

    state: str
    next_state: str
    count: int
    illegal: bool


class Dwell(NamedTuple):
    """How long members stayed in a state."""

    state: str
    times: int
    median_ms: int
    p99_ms: int
    max_ms: int


class LearnedLayout(NamedTuple):
    """A layout learned from files."""

    files: int
    told: str
    """Its pattern, the share of lines that it explains, and an example."""
    guessed: tuple[str, ...]
    """Data taken from elsewhere."""
    lost: tuple[str, ...]
    """Data that it lacks."""


@dataclass(frozen=True, slots=True)
class Inputs:
    """The input, and how much of it was understood."""

    files: int = 0
    bytes: int = 0
    lines: int = 0
    records: int = 0
    orphans: int = 0
    """Lines that belong to no entry of a known layout."""
    not_understood: int = 0
    """Entries about membership in words that no parser knows."""
    clients_said: int = 0
    """Entries and lines of clients, or that look like theirs."""
    share: str = ""
    """The share of these that was understood, as in `98.7 %`."""
    too_little_files: int = 0
    """The number of files of which, or of a client in which, too little was understood."""
    too_little: tuple[tuple[str, str], ...] = ()
    """The first of them, and how much was understood."""
    suspects: int = 0
    """Lines of no known layout that look like a client's."""
    silent_files: int = 0
    """Files in which no client was understood."""
    silent: tuple[str, ...] = ()
    """The first of them."""
    timeless_files: int = 0
    """Files whose lines have no time, so that nobody can say what was owned at one time."""
    learned: tuple[LearnedLayout, ...] = ()
    """Layouts that were learned, those of most files first."""
    not_learned: tuple[tuple[str, str], ...] = ()
    """Files whose layout could not be learned, and what was tried."""
    layouts: tuple[Count, ...] = ()
    levels: tuple[Count, ...] = ()
    gzipped_files: int = 0
    unreadable: tuple[Unreadable, ...] = ()
    unreadable_hidden: int = 0
    """The number of further unreadable files."""
    shapes: tuple[Count, ...] = ()
    """Entries that were not understood, by shape."""
    ownerless_groups: int = 0
    """Groups of whose partitions no line tells the owner."""
    shared_client_ids: int = 0
    """Client ids of several consumers whose lines cannot be told apart with certainty."""
    notes: tuple[str, ...] = ()
    """Caveats for the reader of the report, one sentence each."""


@dataclass(frozen=True, slots=True)
class FindingView:
    kind: str
    severity: str
    """`error`, `warning` or `info`."""
    group: str
    member: str
    start_ms: int
    end_ms: int
    partitions: str
    """Partitions or units as short text, such as `orders-[0, 1]`."""
    cause: str
    summary: str
    evidence: tuple[EvidenceLine, ...] = ()
    id: str = ""
    """Its id in every audit of these logs; if empty, its position in the list is used."""
    others: tuple[str, ...] = ()
    """Other members that it is about."""
    topics: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class IncidentView:
    """An incident of a group: findings of one cause in one sentence, and what to do about them."""

    id: str
    severity: str
    """`error`, `warning` or `info`."""
    kinds: tuple[str, ...]
    """The kinds of its findings, the worst first."""
    members: tuple[str, ...]
    topics: tuple[str, ...]
    start_ms: int
    end_ms: int
    cause: str
    sentence: str
    next_step: str = ""
    """What to try, in a sentence."""
    setting: str = ""
    """The setting to look at, with its value if a log has it, as in `max.poll.interval.ms = 300000`."""
    hazard: str = ""
    """The weak spot of Kafka that it is, in a sentence with its place in the reference."""
    findings: tuple[str, ...] = ()
    """Their ids."""
    still: bool = False
    """Whether it lasts to the end of the logs."""


@dataclass(frozen=True, slots=True)
class MemberView:
    """One member of a group, over all its incarnations."""

    member: str
    client: str = ""
    protocol: str = ""
    version: str = ""
    coverage: str = ""
    """How much of its life the log shows, in words."""
    states: tuple[StateSpan, ...] = ()
    marks: tuple[Mark, ...] = ()
    target: tuple[AssignedSpan, ...] = ()
    """Its target assignment, if a coordinator's log has it."""
    current: tuple[AssignedSpan, ...] = ()
    """Its current assignment in the coordinator."""
    states_hidden: bool = False
    """Whether it had further states."""


@dataclass(frozen=True, slots=True)
class PartitionView:
    """The owners of a partition, and the times with none or several."""

    topic: str
    partition: int
    spans: tuple[OwnedSpan, ...] = ()
    gaps: tuple[Stretch, ...] = ()
    overlaps: tuple[Stretch, ...] = ()
    waits: tuple[Stretch, ...] = ()
    """When a scheduled delay of Connect ran. A task is a partition of its connector, whose instance is number -1."""
    spans_hidden: int = 0


class RoundView(NamedTuple):
    """One round of a group of Connect workers, according to their logs."""

    start_ms: int
    generation: int
    leader: str
    workers: int
    """How many logged it."""
    version: str
    """The version of Connect's protocol: 0 is eager."""
    delay_ms: int
    held: int
    """The number of their connectors and tasks after it."""
    revoked: int
    failed: bool
    """The leader computed no assignment, because its config was outdated."""


@dataclass(frozen=True, slots=True)
class GroupView:
    """One group's timeline."""

    group: str
    start_ms: int
    end_ms: int
    members: tuple[MemberView, ...] = ()
    members_hidden: int = 0
    partitions: tuple[PartitionView, ...] = ()
    partitions_hidden: int = 0
    rebalances: tuple[RebalanceView, ...] = ()
    rebalances_hidden: int = 0
    rounds: tuple[RoundView, ...] = ()
    """The rounds of Connect workers."""
    rounds_hidden: int = 0
    coordinator: MemberView | None = None
    """The group in its coordinator: epochs or states, and members that it lost."""
    unlogged: tuple[MemberView, ...] = ()
    """Members that only the coordinator names: their logs were not read."""
    unlogged_hidden: int = 0
    understood: bool = True
    """Enough of what its members say was understood."""
    trend: Trend | None = None
    file: str = ""
    """For findings about no group, the file that they are about."""


@dataclass(frozen=True, slots=True)
class MachineView:
    """The traffic on one state table; `name` is the table's, as in `consumer-member`."""

    name: str
    edges: tuple[EdgeCount, ...] = ()
    dwell: tuple[Dwell, ...] = ()


@dataclass(frozen=True, slots=True)
class Report:
    """Everything in a report except its groups, which are written one by one."""

    title: str
    inputs: Inputs
    start_ms: int
    end_ms: int
    machines: tuple[MachineView, ...] = ()
    trend: Trend | None = None
    enough: bool = True
    """Whether enough was understood for a verdict."""
