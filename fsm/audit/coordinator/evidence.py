"""What the coordinator's own records add to findings that rest on the clients' logs.

**Statements.** A broker's log, or what it stored, says who was fenced or left, when and why; a client often learns of
it late, or never. A statement belongs to a finding about the same member if it was made within `BEFORE_MS` before the
finding begins and `AFTER_MS` after it ends, each widened by the skew of clocks. The last `SHOWN` become evidence. Where
the finding does not know its cause, or only that the member was fenced, the last statement that tells one gives it;
where the log just ends, the statement says what became of the member.

**Handover.** Two members that own one partition at once have each been assigned it. Whether the first had acknowledged
giving it up, was removed from the group, or still counted as the owner, decides whose fault it is. A partition that no
log's member owned may have belonged to one whose log is missing. Only the coordinator can tell. What it took from a
member that stayed, without asking, a report of that member left out: that is a cause where no other is known.

What the clients' applications saw stays as it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

from fsm.audit.coordinator.assignments import Assignment, AssignmentKind, CoordinatorRecord, EndReason
from fsm.audit.findings import Cause, Finding, FindingKind, Severity
from fsm.audit.rows import Place
from fsm.audit.wording import names
from fsm.logs.programs.broker import MEMBER
from fsm.render.wording import lasting
from fsm.trace import Kind, Partition

BEFORE_MS = 10_000
"""A member learns with its next heartbeat that it is out, and its partitions may have gone to others by then."""
AFTER_MS = 1000
SHOWN = 3
"""Statements that a finding shows."""
STATEMENTS = (Kind.FENCED, Kind.LEFT, Kind.ERROR)
"""What is said about the end of a membership."""
OPEN = (Cause.UNKNOWN, Cause.FENCED)
"""Causes that the coordinator may know better."""


class StatedCause(NamedTuple):
    kind: Kind
    detail: str
    """What its detail begins with."""
    cause: Cause
    sentence: str


STATED_CAUSES = (
    StatedCause(Kind.FENCED, "SESSION_EXPIRED", Cause.SESSION_EXPIRED, "the coordinator says that its session expired"),
    StatedCause(
        Kind.FENCED, "REBALANCE_TIMEOUT", Cause.SLOW_CALLBACK, "the coordinator says that its rebalance timeout passed"
    ),
    StatedCause(
        Kind.LEFT, "consumer poll timeout", Cause.NO_POLL, "it told the coordinator that it did not poll in time"
    ),
)


class Statement(NamedTuple):
    ts_ms: int
    kind: Kind
    detail: str
    place: Place


def statements(records: Iterable[CoordinatorRecord]) -> dict[str, list[Statement]]:
    """What is said of each member of a group whose log was read, in order."""
    found: dict[str, list[Statement]] = {}
    for record, member, place, _ in records:
        if member and record.kind in STATEMENTS:
            found.setdefault(member, []).append(Statement(record.ts_ms, record.kind, record.detail, place))
    return {member: sorted(own) for member, own in sorted(found.items())}


def add_statements(finding: Finding, own: Sequence[Statement], skew_ms: int) -> Finding:
    """The finding with the statements about its member, which come in order."""
    first_ms, last_ms = finding.start_ms - BEFORE_MS - skew_ms, finding.end_ms + AFTER_MS + skew_ms
    near = [statement for statement in own if first_ms <= statement.ts_ms <= last_ms][-SHOWN:]
    if not near:
        return finding
    places = [statement.place for statement in near]
    stated = _find_cause(near) if finding.cause in (*OPEN, Cause.KILLED) else None
    if stated is None:
        return finding.add("", places)
    cause = stated.cause if finding.cause in OPEN else finding.cause
    return replace(finding.add(stated.sentence, places), cause=cause)


def _find_cause(near: Sequence[Statement]) -> StatedCause | None:
    for statement in reversed(near):
        for one in STATED_CAUSES:
            if statement.kind is one.kind and statement.detail.startswith(one.detail):
                return one
    return None


# -- handover -----------------------------------------------------------------------------------------------

ACKNOWLEDGED = "had acknowledged giving it up"
"""Said of a member that had been asked to."""
ABOUT_OWNERS = (FindingKind.DOUBLE_OWNERSHIP, FindingKind.UNOWNED_PARTITION)
HELD = 50
"""Assignments of one partition that are looked at for one finding: the last ones."""


class AssignedSpan(NamedTuple):
    """A current assignment, seen from one of its partitions."""

    start_ms: int
    end_ms: int | None
    member: str
    member_id: str
    until: EndReason
    giving_up: bool
    """The member had been told to give the partition up, and had not acknowledged that yet."""
    start: Place
    end: Place
    machine: str = ""
    """The table that its state belongs to."""

    @property
    def left_out(self) -> bool:
        """Whether it was taken from a member that stayed, without being asked for: a report had left it out (W1, W9).

        Classic groups ask nobody: a generation follows the one before.
        """
        return self.until is EndReason.FOLLOWED and not self.giving_up and self.machine == MEMBER


def partition_of(found: Finding) -> Partition | None:
    """The partition that is followed: the first, which stands for all that were handed over together."""
    return found.partitions[0] if found.kind in ABOUT_OWNERS and found.partitions else None


def find_spans(own: Iterable[Assignment], found: Finding, skew_ms: int) -> list[AssignedSpan]:
    """The assignments that concern a finding. `own` are those of its group."""
    wanted = partition_of(found)
    first_ms, last_ms = time_of_handover(found, skew_ms)
    spans = [
        AssignedSpan(
            a.start_ms, a.end_ms, a.member, a.member_id, a.until, wanted in a.revoked, a.start, a.end, a.machine
        )
        for a in own
        if a.which is AssignmentKind.CURRENT and (wanted in a.partitions or wanted in a.revoked)
    ]
    near = (s for s in spans if s.start_ms <= last_ms and (s.end_ms is None or s.end_ms >= first_ms))
    return sorted(near, key=_order)[-HELD:]


def _order(span: AssignedSpan) -> tuple[int, str, bool, int]:
    return span.start_ms, span.member_id, span.end_ms is None, span.end_ms or 0


def time_of_handover(found: Finding, skew_ms: int) -> tuple[int, int]:
    """When the coordinator may have handed over what was owned twice from the finding's begin on, or by nobody."""
    last_ms = found.start_ms + AFTER_MS if found.kind is FindingKind.DOUBLE_OWNERSHIP else found.end_ms
    return found.start_ms - BEFORE_MS - skew_ms, last_ms + skew_ms


def add_handover(found: Finding, spans: Iterable[AssignedSpan], skew_ms: int) -> Finding:
    """The finding with what the coordinator knows of its partition. `spans` are its `assigned_spans`, in any order."""
    own = sorted(spans, key=_order)
    return _add_gift(found, own, skew_ms) if found.kind is FindingKind.DOUBLE_OWNERSHIP else _add_owner(found, own)


def _add_gift(found: Finding, own: Sequence[AssignedSpan], skew_ms: int) -> Finding:
    """How the partition came to the other member."""
    first_ms, last_ms = time_of_handover(found, skew_ms)
    gifts = [s for s in own if s.member != found.member and first_ms <= s.start_ms <= last_ms and _is_gift(s, own)]
    if not gifts:
        return found
    gift = gifts[-1]
    before = next((s for s in reversed(own) if s.member == found.member and s.start_ms <= gift.start_ms), None)
    ended = before is not None and before.end_ms is not None and before.end_ms <= gift.start_ms
    places = [before.end, gift.start] if before is not None and ended else [gift.start]
    if before is not None and ended and before.left_out and found.cause is Cause.UNKNOWN:
        found = replace(found, cause=Cause.LEFT_OUT)
    return found.add(_sentence(found, gift, before), places)


def _add_owner(found: Finding, own: Sequence[AssignedSpan]) -> Finding:
    """Somebody whose log is missing had it for most of the time in which it seemed to be nobody's."""
    length_ms = found.end_ms - found.start_ms
    theirs = [s for s in own if not s.member and not s.giving_up and 2 * _within_ms(s, found) > length_ms]
    if not theirs:
        return found
    owner = f"the coordinator counted {theirs[0].member_id}, whose log is missing, as the owner"
    return replace(found.add(owner, [theirs[0].start]), severity=Severity.INFO)


def _within_ms(span: AssignedSpan, found: Finding) -> int:
    end_ms = found.end_ms if span.end_ms is None else min(span.end_ms, found.end_ms)
    return end_ms - max(span.start_ms, found.start_ms)


def _is_gift(span: AssignedSpan, own: Iterable[AssignedSpan]) -> bool:
    return not span.giving_up and not any(s.member_id == span.member_id and s.end_ms == span.start_ms for s in own)


def _sentence(found: Finding, gift: AssignedSpan, before: AssignedSpan | None) -> str:
    what = names(found.partitions[:1])
    gave = f"the coordinator gave {what} to {gift.member or f'{gift.member_id}, whose log is missing'}"
    if before is None:
        return gave
    if before.end_ms is None or before.end_ms > gift.start_ms:
        return f"{gave} while it counted {found.member} as its owner"
    later = f"{gave} {lasting(gift.start_ms - before.end_ms)} after"
    if before.until is EndReason.REMOVED:
        return f"{later} {found.member} was no member any more"
    if before.giving_up:
        return f"{later} {found.member} {ACKNOWLEDGED}"
    if before.left_out:
        return f"{gave} though it had not asked {found.member} to give it up: a report of {found.member} left it out"
    return f"{gave} in the place of {found.member}"
