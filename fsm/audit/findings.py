"""What the audit reports: kinds, severities, causes, order and JSON form.

A finding says what happened, to whom, when, why as far as the log tells, and shows the lines. Its summary is
one sentence for an operator who was just woken up. Findings are ordered by group, time, kind, member and
partitions, so that the same logs give the same bytes.

A finding keeps its id as long as its group, kind, member, first partition and beginning are the same: when it ends, how
severe it is, its cause and its words may change while a log grows. One that is about no group is known by its file.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum
from hashlib import sha256
from typing import Any

from fsm.audit.rows import Place
from fsm.audit.wording import UNIT, unit
from fsm.trace import Partition, by_partition


class Severity(StrEnum):
    ERROR = "error"
    WARNING = "warning"
    INFO = "info"


class FindingKind(StrEnum):
    DOUBLE_OWNERSHIP = "double_ownership"
    UNOWNED_PARTITION = "unowned_partition"
    LOST_WITHOUT_CALLBACK = "lost_without_callback"
    PARTITIONS_LOST = "partitions_lost"
    CALLBACK_NOT_OWNED = "callback_not_owned"
    LATE_LEAVE = "late_leave"
    MEMBER_OUT_FOR_GOOD = "member_out_for_good"
    FENCING_LOOP = "fencing_loop"
    LISTENER_ERROR = "listener_error"
    SLOW_CALLBACK = "slow_callback"
    RAN_TWICE = "ran_twice"
    UNASSIGNED_WORK = "unassigned_work"
    CONFIG_LAG = "config_lag"
    TASK_ZOMBIE = "task_zombie"
    STUCK_STATE = "stuck_state"
    REBALANCE_STORM = "rebalance_storm"
    HEARTBEAT_GAP = "heartbeat_gap"
    ILLEGAL_TRANSITION = "illegal_transition"
    UNPARSED_LINES = "unparsed_lines"


SEVERITY: dict[FindingKind, Severity] = dict.fromkeys(FindingKind, Severity.WARNING) | {
    FindingKind.DOUBLE_OWNERSHIP: Severity.ERROR,
    FindingKind.LOST_WITHOUT_CALLBACK: Severity.ERROR,
    FindingKind.MEMBER_OUT_FOR_GOOD: Severity.ERROR,
    FindingKind.FENCING_LOOP: Severity.ERROR,
    FindingKind.RAN_TWICE: Severity.ERROR,
    FindingKind.TASK_ZOMBIE: Severity.ERROR,
    FindingKind.ILLEGAL_TRANSITION: Severity.ERROR,
    FindingKind.UNPARSED_LINES: Severity.INFO,
}
"""Severity of each kind where the logs leave no doubt; `Finding.lowered` takes one step down where they do."""


UNIT_KINDS = {
    FindingKind.DOUBLE_OWNERSHIP: FindingKind.RAN_TWICE,
    FindingKind.UNOWNED_PARTITION: FindingKind.UNASSIGNED_WORK,
}
"""What a kind is called where it is about units of Connect."""


class Cause(StrEnum):
    NONE = ""
    """The kind needs no cause, or is its own."""
    KILLED = "killed"
    """The owner's log ends without a close and another process took over, or a new one appeared."""
    STATIC_MEMBER_AWAY = "static_member_away"
    """A static member left on purpose; its partitions wait for it."""
    SCHEDULED_DELAY = "scheduled_delay"
    """Connect waits before it moves the work of a worker that went away."""
    SESSION_EXPIRED = "session_expired"
    """The coordinator heard nothing from the member for a session."""
    NO_POLL = "no_poll"
    """The application did not poll within max.poll.interval.ms."""
    SLOW_CALLBACK = "slow_callback"
    """A callback outlived the rebalance timeout."""
    FENCED = "fenced"
    """The coordinator refused the member's id, epoch or instance id."""
    SHARED_INSTANCE = "shared_instance"
    """Two processes had one group.instance.id. Of incidents: each of their findings says `FENCED`."""
    FATAL_ERROR = "fatal_error"
    """An error after which the client gives up."""
    CLOSE_HANGS = "close_hangs"
    """close() began and never came back."""
    REVOKED = "revoked"
    """The partition was given up in time; the next owner took long."""
    HEARTBEAT_INTERVAL = "heartbeat_interval"
    """The partition was given up in time; the next owner learned of it with its next heartbeat."""
    COORDINATOR_LOST = "coordinator_lost"
    """The group's coordinator could not be reached."""
    NEW_WORK = "new_work"
    """Connect: it had been configured just before, and no worker had started it yet."""
    WORKER_STOPPED = "worker_stopped"
    """Connect: its worker was stopped in order, and no delay held its work back."""
    WORKER_FROZEN = "worker_frozen"
    """Connect: the worker's process stood still, and printed nothing though its heartbeats were due."""
    DOWNGRADED = "downgraded"
    """Connect: the group went back to the eager protocol, whose assignments do not stop what ran before."""
    DELETED = "deleted"
    """Connect: its connector was deleted, the leader went, and the next one did not know that it runs (G3)."""
    LEFT_OUT = "left_out"
    """A report left out what was being assigned, or came late: to the coordinator it was given up (W1, W9, W11)."""
    LATE_REQUEST = "late_request"
    """A request that the member had given up was handled late, and the answer that granted it went nowhere (W8)."""
    UNTOLD = "untold"
    """The coordinator assigned it to a member that did not hear of it."""
    STRANDED = "stranded"
    """No consumer-protocol member is left to have a target computed, and the downgrade was refused (W5)."""
    EARLY_JOIN = "early_join"
    """A consumer-protocol member joined a classic group that waited for its first generation (W12)."""
    OWED_JOIN = "owed_join"
    """A cooperative static member was restarted before it gave up what the round withheld (W13)."""
    NO_TARGET = "no_target"
    """A classic group was converted before its generation had an assignment, and has no target (W14)."""
    FORGOTTEN = "forgotten"
    """A downgrade assigned it to a classic member that waited for it, and is not told (W15)."""
    UNKNOWN = "unknown"
    """The logs do not tell."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """One log line that shows it. `line` and `text` are filled in by whoever can read the file."""

    file: str
    offset: int
    line: int = 0
    text: str = ""


@dataclass(frozen=True, slots=True)
class Finding:
    kind: FindingKind
    severity: Severity
    group: str
    member: str
    """The member it is about; for two members the one that should have let go. Empty for a whole group."""
    start_ms: int
    end_ms: int
    """Equal to `start_ms` for an instant; the last known moment for what still goes on."""
    partitions: tuple[Partition, ...]
    cause: Cause
    summary: str
    evidence: tuple[Evidence, ...] = ()
    id: str = ""
    """Given by `with_ids`."""
    others: tuple[str, ...] = ()
    """Other members that it is about: who also owned the partitions, or who got them then."""
    piled_up: int | None = None
    """By how many records the lag of the partitions grew meanwhile; None where it was not measured."""

    def lower_severity(self) -> Finding:
        """The same one step less severe: what it rests on is not certain."""
        lower = Severity.WARNING if self.severity is Severity.ERROR else Severity.INFO
        return replace(self, severity=lower)

    def add(self, addition: str, places: Iterable[Place]) -> Finding:
        """The same with more said of it, and shown by lines that it may show already."""
        known = {(one.file, one.offset) for one in self.evidence}
        more = tuple(Evidence(*one) for one in dict.fromkeys(places) if one not in known and one.offset >= 0)
        summary = f"{self.summary}; {addition}" if addition else self.summary
        return replace(self, summary=summary, evidence=self.evidence + more)

    def to_json(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "kind": self.kind.value,
            "severity": self.severity.value,
            "group": self.group,
            "member": self.member,
            "others": list(self.others),
            "start_ms": self.start_ms,
            "end_ms": self.end_ms,
            "partitions": [list(p) for p in self.partitions],
            "cause": self.cause.value,
            "summary": self.summary,
            "piled_up": self.piled_up,
            "evidence": [{"file": e.file, "line": e.line, "text": e.text} for e in self.evidence],
        }


def finding(
    kind: FindingKind,
    group: str,
    member: str,
    start_ms: int,
    end_ms: int,
    *,
    summary: str,
    partitions: Iterable[Partition] = (),
    cause: Cause = Cause.NONE,
    places: Iterable[Place] = (),
    others: Iterable[str] = (),
) -> Finding:
    """A finding with its kind's severity, sorted partitions, and each place once in the order given."""
    shown = tuple(Evidence(p.file, p.offset) for p in dict.fromkeys(places) if p.offset >= 0)
    given = tuple(partitions)
    if any(topic.startswith(UNIT) for topic, _ in given):
        kind, given = UNIT_KINDS.get(kind, kind), tuple(map(unit, given))
    return Finding(
        kind,
        SEVERITY[kind],
        group,
        member,
        start_ms,
        end_ms,
        by_partition(given),
        cause,
        summary,
        shown,
        "",
        tuple(others),
    )


def in_order(findings: Iterable[Finding]) -> list[Finding]:
    """By group, begin, kind, member, partitions, end and summary."""
    return sorted(findings, key=rank)


def rank(found: Finding) -> tuple[Any, ...]:
    """The key of that order."""
    return (
        found.group,
        found.start_ms,
        list(FindingKind).index(found.kind),
        found.member,
        found.partitions,
        found.end_ms,
        found.summary,
    )


ID_DIGITS = 12
"""Of the hash that an id is: two of a million findings share one in one of 500 audits."""


def with_ids(findings: Iterable[Finding]) -> list[Finding]:
    """The findings of a group, or of files, in order, each with its id; those that would share one are counted."""
    times = Counter[str]()
    numbered = []
    for found in in_order(findings):
        file = "" if found.group or not found.evidence else found.evidence[0].file
        about = [found.group, found.kind.value, found.member, found.start_ms, found.partitions[:1], file]
        same = sha256(json.dumps(about).encode()).hexdigest()[:ID_DIGITS]
        times[same] += 1
        numbered.append(replace(found, id=same if times[same] == 1 else f"{same}-{times[same]}"))
    return numbered
