"""What the coordinator's own words add to findings that rest on the clients' logs.

A broker's log, or what it stored, says who was fenced or left, when and why; a client often learns of it late, or
never. Such a word belongs to a finding about the same member if it was said within `BEFORE_MS` before the finding
begins and `AFTER_MS` after it ends, each widened by the skew of clocks. The last `SHOWN` of them become evidence. Where
the finding does not know its cause, or only that the member was fenced, the last word that tells one gives it; where
the log just ends, the word says what became of the member.

Nothing is taken back: what the clients' applications saw stays as it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from fsm.audit.findings import Cause, Evidence, Finding
from fsm.audit.rows import Place, Seen
from fsm.trace import Kind

BEFORE_MS = 10_000
"""A member learns with its next heartbeat that it is out, and its partitions may have gone to others by then."""
AFTER_MS = 1000
SHOWN = 3
"""Words that a finding shows."""
TELLING = (Kind.FENCED, Kind.LEFT, Kind.ERROR)
"""Words about the end of a membership."""
OPEN = (Cause.UNKNOWN, Cause.FENCED)
"""Causes that the coordinator may know better."""


class Telling(NamedTuple):
    """A word that tells a cause."""

    kind: Kind
    detail: str
    """What its detail begins with."""
    cause: Cause
    sentence: str
    """How a summary puts it."""


TELLS = (
    Telling(Kind.FENCED, "SESSION_EXPIRED", Cause.SESSION_EXPIRED, "the coordinator says that its session expired"),
    Telling(
        Kind.FENCED, "REBALANCE_TIMEOUT", Cause.SLOW_CALLBACK, "the coordinator says that its rebalance timeout passed"
    ),
    Telling(Kind.LEFT, "consumer poll timeout", Cause.NO_POLL, "it told the coordinator that it did not poll in time"),
)


class Word(NamedTuple):
    """One thing that the coordinator said of a member."""

    ts_ms: int
    kind: Kind
    detail: str
    place: Place


Member = tuple[str, str]
"""Group and name."""


def words(coordinators: Iterable[Seen], members: Mapping[Member, str]) -> dict[Member, list[Word]]:
    """What was said about the end of each member, in order. `members` names those of (group, member id)."""
    found: dict[Member, list[Word]] = {}
    for record, place in coordinators:
        member = members.get((record.group, record.member_id))
        if member is not None and record.kind in TELLING:
            word = Word(record.ts_ms, record.kind, record.detail, place)
            found.setdefault((record.group, member), []).append(word)
    return {member: sorted(own) for member, own in sorted(found.items())}


def heard(finding: Finding, said: Sequence[Word], skew_ms: int) -> Finding:
    """The finding with what the coordinator said of its member; `said` is in order."""
    first_ms, last_ms = finding.start_ms - BEFORE_MS - skew_ms, finding.end_ms + AFTER_MS + skew_ms
    near = [word for word in said if first_ms <= word.ts_ms <= last_ms][-SHOWN:]
    if not near:
        return finding
    known = {(e.file, e.offset) for e in finding.evidence}
    more = tuple(Evidence(*word.place) for word in near if word.place not in known)
    told = _told(near) if finding.cause in (*OPEN, Cause.KILLED) else None
    if told is None:
        return replace(finding, evidence=finding.evidence + more)
    cause = told.cause if finding.cause in OPEN else finding.cause
    summary = f"{finding.summary}; {told.sentence}"
    return replace(finding, cause=cause, summary=summary, evidence=finding.evidence + more)


def _told(near: Sequence[Word]) -> Telling | None:
    """What the last word tells that tells a cause."""
    for word in reversed(near):
        for one in TELLS:
            if word.kind is one.kind and word.detail.startswith(one.detail):
                return one
    return None
