"""What a report is made of: plain values, filled by whoever knows the audit.

Kinds, severities, causes, states and names are texts here. All of them may come from a log and are treated as
hostile when they are drawn. Times are epoch milliseconds. Lists are given worst first and bounded by the caller;
the numbers called `..._hidden` say how many were left out.
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
    """From when to when."""

    start_ms: int
    end_ms: int


class EvidenceLine(NamedTuple):
    """A log line that shows a finding; `line` is 0 where its number is not known."""

    file: str
    line: int
    text: str


@dataclass(frozen=True, slots=True)
class KindTotal:
    """How many findings of one kind and severity there are, shown or not."""

    kind: str
    severity: str
    count: int


class StateSpan(NamedTuple):
    """A member was in a state."""

    state: str
    start_ms: int
    end_ms: int


class AssignedSpan(NamedTuple):
    """What the coordinator wanted a member to own, or counted it to own, and for how long."""

    state: str
    """The member's state as its coordinator has it; empty for a target."""
    epoch: str
    """Its epoch or generation, such as `epoch 3`; empty where the log does not tell it."""
    partitions: str
    """Its partitions as short text, such as `orders-[0..2]`."""
    size: int
    """How many partitions."""
    giving_up: str
    """What the member was told to give up and has not yet, as short text."""
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
    """How many partitions changed hands."""
    without_owner_ms: int
    """The longest time that one of them had no owner."""


@dataclass(frozen=True, slots=True)
class EdgeCount:
    """How often members went from one state to the next; `illegal` where the table has no such step."""

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
    """A layout that was learned from files."""

    files: int
    told: str
    """Its pattern, the share of lines that it explains, and an example."""
    guessed: tuple[str, ...]
    """What was taken from elsewhere."""
    lost: tuple[str, ...]
    """What it leaves out."""


@dataclass(frozen=True, slots=True)
class Inputs:
    """What was read, and what of it was understood."""

    files: int = 0
    bytes: int = 0
    lines: int = 0
    records: int = 0
    orphans: int = 0
    """Lines that belong to no entry of a known layout."""
    not_understood: int = 0
    """Entries that speak of membership in words that no parser knows."""
    clients_said: int = 0
    """Entries and lines of clients, or that look like theirs."""
    share: str = ""
    """The share of these that was understood, as in `98.7 %`."""
    too_little_files: int = 0
    """Files of which, or of a client in which, too little was understood."""
    too_little: tuple[tuple[str, str], ...] = ()
    """The first of them, and how much was understood."""
    suspects: int = 0
    """Lines of no known layout that look like a client's."""
    silent_files: int = 0
    """Files in which no client was understood."""
    silent: tuple[str, ...] = ()
    """The first of them."""
    learned: tuple[LearnedLayout, ...] = ()
    """Layouts that were learned, those of most files first."""
    not_learned: tuple[tuple[str, str], ...] = ()
    """Files whose layout could not be learned, and what was tried."""
    layouts: tuple[Count, ...] = ()
    levels: tuple[Count, ...] = ()
    gzipped_files: int = 0
    unreadable: tuple[Unreadable, ...] = ()
    unreadable_hidden: int = 0
    """So many more could not be read."""
    shapes: tuple[Count, ...] = ()
    """What was not understood, by shape."""
    notes: tuple[str, ...] = ()
    """What a reader must know before trusting the report, one sentence each."""


@dataclass(frozen=True, slots=True)
class FindingView:
    """One thing that is wrong, or worth knowing."""

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
    """What it is called in every audit of these logs; its place in the list where it is empty."""
    others: tuple[str, ...] = ()
    """Other members that it is about."""
    topics: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class IncidentView:
    """What one cause did to a group: findings in one sentence, and what to do about them."""

    id: str
    severity: str
    """`error`, `warning` or `info`."""
    kinds: tuple[str, ...]
    """Of its findings, the worst first."""
    members: tuple[str, ...]
    topics: tuple[str, ...]
    start_ms: int
    end_ms: int
    cause: str
    sentence: str
    next_step: str = ""
    """What to try, in a sentence."""
    setting: str = ""
    """The setting to look at, with its value where a log tells it, as in `max.poll.interval.ms = 300000`."""
    hazard: str = ""
    """The weak spot of Kafka that it is, an anchor of `diagrams/hazards.md`, such as `w9`."""
    findings: tuple[str, ...] = ()
    """Their ids."""
    still: bool = False
    """It goes on where the logs end."""


@dataclass(frozen=True, slots=True)
class MemberView:
    """One member of a group, over all its lives."""

    member: str
    client: str = ""
    protocol: str = ""
    version: str = ""
    coverage: str = ""
    """How much of its life the log shows, in words."""
    states: tuple[StateSpan, ...] = ()
    marks: tuple[Mark, ...] = ()
    target: tuple[AssignedSpan, ...] = ()
    """Its target assignment, where a coordinator tells it."""
    current: tuple[AssignedSpan, ...] = ()
    """Its current assignment as the coordinator counted it."""
    states_hidden: bool = False
    """It went on to further states."""


@dataclass(frozen=True, slots=True)
class PartitionView:
    """Who owned a partition, when nobody did, and when more than one did."""

    topic: str
    partition: int
    spans: tuple[OwnedSpan, ...] = ()
    gaps: tuple[Stretch, ...] = ()
    overlaps: tuple[Stretch, ...] = ()
    waits: tuple[Stretch, ...] = ()
    """When a scheduled delay of Connect ran. A task is a partition of its connector, whose instance is number -1."""
    spans_hidden: int = 0


class RoundView(NamedTuple):
    """One round of a group of Connect workers, as they told of it."""

    start_ms: int
    generation: int
    leader: str
    workers: int
    """How many told of it."""
    version: str
    """The version of Connect's protocol: 0 is eager."""
    delay_ms: int
    held: int
    """Connectors and tasks that they held after it."""
    revoked: int
    failed: bool
    """The leader gave no assignment: its config was behind."""


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
    """The group as its coordinator tells it: its epochs or states, and whom it lost."""
    unlogged: tuple[MemberView, ...] = ()
    """Members that only the coordinator names: their logs were not read."""
    unlogged_hidden: int = 0
    understood: bool = True
    """Enough of what its members say was understood."""
    trend: Trend | None = None
    file: str = ""
    """The file that findings are about which are about no group."""


@dataclass(frozen=True, slots=True)
class MachineView:
    """The traffic on one state table; `name` is the table's, as in `consumer-member`."""

    name: str
    edges: tuple[EdgeCount, ...] = ()
    dwell: tuple[Dwell, ...] = ()


@dataclass(frozen=True, slots=True)
class Report:
    """Everything that stands in a report but its groups, which are written one by one."""

    title: str
    inputs: Inputs
    start_ms: int
    end_ms: int
    findings_total: tuple[KindTotal, ...] = ()
    """Counted from the groups where it is empty."""
    machines: tuple[MachineView, ...] = ()
    trend: Trend | None = None
    enough: bool = True
    """So much of what clients say was understood that the verdict counts."""
