"""Adds evidence from the coordinator's records to findings from clients' logs.

**Statements.** A broker's log, or its stored records, show which member was fenced or left, when and why; a client
often learns of it late, or never. A statement belongs to a finding about the same member if it is at most `BEFORE_MS`
before its begin or `AFTER_MS` after its end, each plus the clock skew. The last `SHOWN` become evidence. If the
finding's cause is unknown or `FENCED`, it becomes that of the last statement with a cause; if the member's log just
ends, the sentence of the statement is added.

**Handover.** Two members that own one partition at the same time were both assigned it. Which of them is at fault
depends on whether the first had acknowledged the revocation, was removed from the group, or was still the owner for the
coordinator. A partition without owner may have belonged to a member whose log is missing. Only the coordinator's
records show that. If the coordinator took a partition from a remaining member without a revocation, a report of that
member left it out: that is the cause if no other is known.

The intervals from the clients' logs are not changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from operator import attrgetter
from typing import NamedTuple

from fsm.audit.coordinator.assignments import Assignment, AssignmentKind, CoordinatorRecord, EndReason
from fsm.audit.findings import Cause, Finding, FindingKind, Severity
from fsm.audit.rows import group_by
from fsm.audit.wording import names
from fsm.logs.programs.broker import MEMBER
from fsm.render.wording import lasting
from fsm.trace import Kind

BEFORE_MS = 10_000
"""A removed member learns of it with its next heartbeat, when its partitions may have been reassigned already."""
AFTER_MS = 1000
SHOWN = 3
"""Most statements added to a finding."""
STATEMENTS = (Kind.FENCED, Kind.LEFT, Kind.ERROR)
"""Kinds of records about the end of a membership."""
OPEN = (Cause.UNKNOWN, Cause.FENCED)
"""Causes that a statement replaces."""


class StatedCause(NamedTuple):
    kind: Kind
    detail: str
    """Prefix of its detail."""
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


def find_statements(records: Iterable[CoordinatorRecord]) -> dict[str, list[CoordinatorRecord]]:
    """The statements about each member whose log was read, in order."""
    stated = (one for one in records if one.member and one.record.kind in STATEMENTS)
    in_order = sorted(stated, key=attrgetter("record.ts_ms", "record.kind", "record.detail", "place"))
    return group_by(in_order, attrgetter("member"))


def add_statements(finding: Finding, own: Sequence[CoordinatorRecord], skew_ms: int) -> Finding:
    """The finding with the statements about its member; `own` is sorted."""
    first_ms, last_ms = finding.start_ms - BEFORE_MS - skew_ms, finding.end_ms + AFTER_MS + skew_ms
    near = [statement for statement in own if first_ms <= statement.record.ts_ms <= last_ms][-SHOWN:]
    if not near:
        return finding
    places = [statement.place for statement in near]
    stated = _find_cause(near) if finding.cause in (*OPEN, Cause.KILLED) else None
    if stated is None:
        return finding.add("", places)
    cause = stated.cause if finding.cause in OPEN else finding.cause
    return replace(finding.add(stated.sentence, places), cause=cause)


def _find_cause(near: Sequence[CoordinatorRecord]) -> StatedCause | None:
    for record, *_ in reversed(near):
        for one in STATED_CAUSES:
            if record.kind is one.kind and record.detail.startswith(one.detail):
                return one
    return None


# -- handover -----------------------------------------------------------------------------------------------

ACKNOWLEDGED = "had acknowledged giving it up"
"""Used in sentences about a member that had partitions to revoke."""
ABOUT_OWNERS = (FindingKind.DOUBLE_OWNERSHIP, FindingKind.UNOWNED_PARTITION)
HELD = 50
"""Most assignments of one partition that are used for one finding: the last ones."""


def _gives_up(one: Assignment, found: Finding) -> bool:
    """Whether the member was sent to revoke a finding's partition, and had not acknowledged that yet."""
    return found.partitions[0] in one.revoked


def _was_left_out(one: Assignment, found: Finding) -> bool:
    """Whether the partition was taken from a remaining member without a revocation: a report had left it out (W1, W9).

    Not in classic groups, where one generation replaces the other.
    """
    return one.until is EndReason.FOLLOWED and one.machine == MEMBER and not _gives_up(one, found)


def find_spans(own: Iterable[Assignment], found: Finding, skew_ms: int) -> list[Assignment]:
    """The current assignments of a finding's first partition around its time; it represents all that were handed over
    together. `own` are those of its group."""
    if found.kind not in ABOUT_OWNERS or not found.partitions:
        return []
    wanted = found.partitions[0]
    first_ms, last_ms = find_handover_time(found, skew_ms)
    spans = (a for a in own if a.which is AssignmentKind.CURRENT and (wanted in a.partitions or wanted in a.revoked))
    near = (s for s in spans if s.start_ms <= last_ms and (s.end_ms is None or s.end_ms >= first_ms))
    return sorted(near, key=_order)[-HELD:]


def _order(span: Assignment) -> tuple[int, str, bool, int]:
    return span.start_ms, span.member_id, span.end_ms is None, span.end_ms or 0


def find_handover_time(found: Finding, skew_ms: int) -> tuple[int, int]:
    """(first, last) in epoch ms: when the coordinator may have reassigned the finding's partition."""
    last_ms = found.start_ms + AFTER_MS if found.kind is FindingKind.DOUBLE_OWNERSHIP else found.end_ms
    return found.start_ms - BEFORE_MS - skew_ms, last_ms + skew_ms


def add_handover(found: Finding, given: Iterable[Assignment], skew_ms: int) -> Finding:
    """The finding with the coordinator's view of its partition; `given` are the assignments of its group."""
    own = find_spans(given, found, skew_ms)
    is_double = found.kind is FindingKind.DOUBLE_OWNERSHIP
    return _add_reassignment(found, own, skew_ms) if is_double else _add_owner(found, own)


def _add_reassignment(found: Finding, own: Sequence[Assignment], skew_ms: int) -> Finding:
    """The finding with how the partition was assigned to the other member."""
    first_ms, last_ms = find_handover_time(found, skew_ms)
    others = (s for s in own if s.member != found.member and first_ms <= s.start_ms <= last_ms)
    assigned = [s for s in others if _is_newly_assigned(s, own, found)]
    if not assigned:
        return found
    new = assigned[-1]
    before = next((s for s in reversed(own) if s.member == found.member and s.start_ms <= new.start_ms), None)
    ended = before is not None and before.end_ms is not None and before.end_ms <= new.start_ms
    places = [before.end, new.start] if before is not None and ended else [new.start]
    if before is not None and ended and _was_left_out(before, found) and found.cause is Cause.UNKNOWN:
        found = replace(found, cause=Cause.LEFT_OUT)
    return found.add(_sentence(found, new, before), places)


def _add_owner(found: Finding, own: Sequence[Assignment]) -> Finding:
    """For information, if a member whose log is missing had the partition for most of the time."""
    length_ms = found.end_ms - found.start_ms
    theirs = [s for s in own if not s.member and 2 * _within_ms(s, found) > length_ms and not _gives_up(s, found)]
    if not theirs:
        return found
    owner = f"the coordinator counted {theirs[0].member_id}, whose log is missing, as the owner"
    return replace(found.add(owner, [theirs[0].start]), severity=Severity.INFO)


def _within_ms(span: Assignment, found: Finding) -> int:
    end_ms = found.end_ms if span.end_ms is None else min(span.end_ms, found.end_ms)
    return end_ms - max(span.start_ms, found.start_ms)


def _is_newly_assigned(span: Assignment, own: Iterable[Assignment], found: Finding) -> bool:
    had_it = any(s.member_id == span.member_id and s.end_ms == span.start_ms for s in own)
    return not had_it and not _gives_up(span, found)


def _sentence(found: Finding, new: Assignment, before: Assignment | None) -> str:
    what = names(found.partitions[:1])
    gave = f"the coordinator gave {what} to {new.member or f'{new.member_id}, whose log is missing'}"
    if before is None:
        return gave
    if before.end_ms is None or before.end_ms > new.start_ms:
        return f"{gave} while it counted {found.member} as its owner"
    later = f"{gave} {lasting(new.start_ms - before.end_ms)} after"
    if before.until is EndReason.REMOVED:
        return f"{later} {found.member} was no member any more"
    if _gives_up(before, found):
        return f"{later} {found.member} {ACKNOWLEDGED}"
    if _was_left_out(before, found):
        return f"{gave} though it had not asked {found.member} to give it up: a report of {found.member} left it out"
    return f"{gave} in the place of {found.member}"
