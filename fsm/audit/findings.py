"""Findings: kinds, severities, causes, order and JSON form.

A finding has what happened, to which member, when, the cause if the log shows it, and the lines. Its summary is one
sentence for an operator on call. Findings are ordered by group, time, kind, member and partitions, so that the same
logs give the same bytes.

The id of a finding depends on its group, kind, member, first partition and start only, so it stays the same while its
end, severity, cause and summary change as a log grows. The id of a finding without group depends on its file.
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
from fsm.logs.reading.pieces import WHOLE
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
    MEMBERSHIP_LOST = "membership_lost"
    COMMIT_REFUSED = "commit_refused"
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
"""Severity of each kind if the logs leave no doubt; else `Finding.lower_severity` takes one step down."""


UNIT_KINDS = {
    FindingKind.DOUBLE_OWNERSHIP: FindingKind.RAN_TWICE,
    FindingKind.UNOWNED_PARTITION: FindingKind.UNASSIGNED_WORK,
}
"""The kinds for units of Connect."""


class Cause(StrEnum):
    NONE = ""
    """The kind needs no cause, or is the cause."""
    KILLED = "killed"
    """The owner's log ends without a close, and another process took over or a new one appeared."""
    STATIC_MEMBER_AWAY = "static_member_away"
    """A static member left on purpose; its partitions stay assigned to it."""
    SCHEDULED_DELAY = "scheduled_delay"
    """Connect delays the reassignment of the work of a worker that left."""
    SESSION_EXPIRED = "session_expired"
    """The coordinator got no heartbeat from the member for a session."""
    NO_POLL = "no_poll"
    """The application did not poll within max.poll.interval.ms."""
    SLOW_CALLBACK = "slow_callback"
    """A callback outlived the rebalance timeout."""
    FENCED = "fenced"
    """The coordinator refused the member's id, epoch or instance id."""
    SHARED_INSTANCE = "shared_instance"
    """Two processes had one group.instance.id. Only of incidents; each of their findings has `FENCED`."""
    FATAL_ERROR = "fatal_error"
    """An error after which the client stops for good."""
    CLOSE_HANGS = "close_hangs"
    """close() began and did not return."""
    REVOKED = "revoked"
    """The partition was revoked in time; the next owner took it late."""
    TOPIC_DELETED = "topic_deleted"
    """The topic was deleted, and created again."""
    HEARTBEAT_INTERVAL = "heartbeat_interval"
    """The partition was revoked in time; the next owner learned of it with its next heartbeat."""
    COORDINATOR_LOST = "coordinator_lost"
    """The group's coordinator could not be reached."""
    NEW_WORK = "new_work"
    """Connect: it had just been configured, and no worker had started it yet."""
    WORKER_STOPPED = "worker_stopped"
    """Connect: its worker was shut down, and no delay held its work back."""
    WORKER_FROZEN = "worker_frozen"
    """Connect: the worker's process was paused, and printed nothing though its heartbeats were due."""
    DOWNGRADED = "downgraded"
    """Connect: the group went back to the eager protocol, whose assignments do not stop what ran before."""
    DELETED = "deleted"
    """Connect: its connector was deleted, the leader left, and the next one did not know that it runs (G3)."""
    LEFT_OUT = "left_out"
    """A report omitted partitions in assignment, or came late: the coordinator took them as revoked (W1, W9, W11)."""
    LATE_REQUEST = "late_request"
    """A request that the member had abandoned was handled late, and the answer that granted it was lost (W8)."""
    UNTOLD = "untold"
    """The coordinator assigned it to a member that did not receive the answer."""
    STRANDED = "stranded"
    """No consumer-protocol member is left for which a target is computed, and the downgrade was refused (W5)."""
    EARLY_JOIN = "early_join"
    """A consumer-protocol member joined a classic group that waited for its first generation (W12)."""
    OWED_JOIN = "owed_join"
    """A cooperative static member was restarted before it revoked what the round withheld (W13)."""
    NO_TARGET = "no_target"
    """A classic group was converted before its generation had an assignment, and has no target (W14)."""
    FORGOTTEN = "forgotten"
    """A downgrade assigned it to a classic member that waited for it, and does not notify that member (W15)."""
    LOST_ROUND = "lost_round"
    """A downgrade left it to a rebalance that was lost with its coordinator, and notifies no member (W28)."""
    INTERRUPTED = "interrupted"
    """An eager member left its revoked callback by a wakeup or an interrupt, and kept what it was to give up (W27)."""
    UNKNOWN = "unknown"
    """The logs do not show it."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """One log line that shows a finding. `line` and `text` are filled in later, from the group's records."""

    file: str
    offset: int
    line: int = 0
    text: str = ""

    @property
    def record(self) -> int:
        """Its number from 1 among the entries that begin on a file's first line, as in a JSON document, where each has
        the next offset; 0 for the first one, which may be the only one."""
        place = WHOLE - self.offset if self.offset > WHOLE // 2 else self.offset  # the newest come first
        return place + 1 if self.line == 1 and place > 0 else 0

    @property
    def place(self) -> str:
        """`file:line`, with the number of the record behind it; the file if the line is not known."""
        parts = (self.file, self.line, self.record)
        return ":".join(str(part) for part in parts if part)

    def to_json(self) -> dict[str, Any]:
        plain = {"file": self.file, "line": self.line, "text": self.text}
        return plain | {"record": self.record} if self.record else plain


@dataclass(frozen=True, slots=True)
class Finding:
    kind: FindingKind
    severity: Severity
    group: str
    member: str
    """The member it is about; of two owners the one that should have released. Empty for a whole group."""
    start_ms: int
    end_ms: int
    """Equal to `start_ms` for an instant; the last known moment of what continues."""
    partitions: tuple[Partition, ...]
    cause: Cause
    summary: str
    evidence: tuple[Evidence, ...] = ()
    id: str = ""
    """Set by `with_ids`."""
    others: tuple[str, ...] = ()
    """Other members that it is about: also owners of the partitions, or their next owners."""
    piled_up: int | None = None
    """By how many records the lag of the partitions grew meanwhile; None if it was not measured."""

    def lower_severity(self) -> Finding:
        """A copy, one step less severe, because the evidence is not certain."""
        lower = Severity.WARNING if self.severity is Severity.ERROR else Severity.INFO
        return replace(self, severity=lower)

    def add(self, addition: str, places: Iterable[Place]) -> Finding:
        """A copy with an addition to the summary and more lines; lines that it has already are skipped."""
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
            "evidence": [one.to_json() for one in self.evidence],
        }


def finding(  # noqa: PLR0917  # the columns of a finding
    kind: FindingKind,
    group: str,
    member: str,
    start_ms: int,
    end_ms: int,
    summary: str,
    places: Iterable[Place] = (),
    *,
    partitions: Iterable[Partition] = (),
    cause: Cause = Cause.NONE,
    others: Iterable[str] = (),
) -> Finding:
    """A finding with its kind's severity, sorted partitions, and each place once, in the given order."""
    shown = tuple(Evidence(p.file, p.offset) for p in dict.fromkeys(places) if p.offset >= 0)
    given = tuple(partitions)
    if any(topic.startswith(UNIT) for topic, _ in given):
        kind, given = UNIT_KINDS.get(kind, kind), tuple(map(unit, given))
    about = SEVERITY[kind], group, member, start_ms, end_ms, by_partition(given), cause, summary
    return Finding(kind, *about, shown, others=tuple(others))


def in_order(findings: Iterable[Finding]) -> list[Finding]:
    """The findings by group, begin, kind, member, partitions, end and summary."""
    return sorted(findings, key=rank)


def rank(found: Finding) -> tuple[Any, ...]:
    """The sort key of `in_order`."""
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
"""Hex digits of an id's hash. With a million findings, one audit in 500 has a collision."""


def with_ids(findings: Iterable[Finding]) -> list[Finding]:
    """The findings of a group, or of files, in order and with ids; equal ids get a suffix, `-2`."""
    times = Counter[str]()
    numbered = []
    for found in in_order(findings):
        file = "" if found.group or not found.evidence else found.evidence[0].file
        about = [found.group, found.kind.value, found.member, found.start_ms, found.partitions[:1], file]
        same = sha256(json.dumps(about).encode()).hexdigest()[:ID_DIGITS]
        times[same] += 1
        numbered.append(replace(found, id=same if times[same] == 1 else f"{same}-{times[same]}"))
    return numbered
